"""Train on several machines or GPUs. The same file runs as one process and under torchrun.

python examples/train_with_torchrun.py                                          one process
torchrun --standalone --nproc-per-node 2 examples/train_with_torchrun.py        two processes of one machine
torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \
    examples/train_with_torchrun.py                                             on each of four machines
"""

import os

from regard import tasks

settings = {
    "embedded": 200,  # a name of a file in "data" trains on that file
    "vocabulary": "word",
    "width": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    # The tokens of all processes together, so that the result does not depend on their number.
    "batch_tokens": 1000,
    "steps": 10,
    "validate_sentences": 5,
}

# Regard joins the processes that torchrun started. Only the first one writes into the folder.
outcome = tasks.train("translate", settings, "torchrun-run", show=False)
if int(os.environ.get("RANK", 0)) == 0:
    processes = int(os.environ.get("WORLD_SIZE", 1))
    print(f"{processes} process(es): {outcome.stopped} at step {outcome.step}")
    print(tasks.load("torchrun-run")(["The cat sleeps."])[0].text or "(nothing yet: 10 steps are few)")
