"""Calls of text generation and the results of Transformers 4 for them, in pipelines/transformers4_generation.json.

``python -m support.transformers4_generation FILE``, run in the folder ``tests``, writes that file anew. It needs an
environment with transformers 4, which the other tests cannot use. This file needs nothing of Regard.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

GREEDY = {"do_sample": False, "max_new_tokens": 12}
IDS = {**GREEDY, "return_tensors": True}
USER = {"role": "user", "content": "the cat"}
BEGUN = {"role": "assistant", "content": " sat . "}
LONG = "the cat sat . " * 20

# kind of folder, options of the pipeline, input, options of the call
CALLS: list[tuple[str, dict, Any, dict]] = [
    ("gpt2", {}, "the cat", GREEDY),
    ("gpt2", {}, "the cat", {**GREEDY, "return_full_text": False}),
    ("gpt2", {}, "the cat", {**GREEDY, "return_full_text": True}),
    ("gpt2", {}, "the cat", {**GREEDY, "return_text": True}),
    ("gpt2", {}, "the cat", IDS),
    ("gpt2", {}, "the cat sat .", {**GREEDY, "clean_up_tokenization_spaces": False}),
    ("gpt2", {}, "the cat sat .", GREEDY),
    ("gpt2", {}, "", IDS),
    ("gpt2", {}, ["the cat"], GREEDY),
    ("gpt2", {}, ["the cat", "a dog sat"], GREEDY),
    ("llama", GREEDY, "the cat", {}),
    ("llama", {"return_full_text": False, **GREEDY}, ["the cat"], {"max_new_tokens": 3}),
    ("gpt2", {}, "the cat", {**GREEDY, "num_beams": 3}),
    ("gpt2", {}, "the cat", {**IDS, "num_beams": 4, "num_return_sequences": 3}),
    ("gpt2", {}, "the cat", {"top_k": 1, "max_new_tokens": 12}),
    ("gpt2", {}, "the cat", {"top_k": 1, "max_new_tokens": 12, "num_return_sequences": 2}),
    ("gpt2", {}, "the cat", {**GREEDY, "prefix": "a dog "}),
    ("gpt2", {}, LONG, {**IDS, "handle_long_generation": "hole"}),
    ("gpt2", {}, "the cat sat .", {**IDS, "truncation": True, "max_length": 3}),
    ("gpt2", {}, "the cat", {**GREEDY, "skip_special_tokens": False}),
    ("gpt2", {}, "the cat", {"do_sample": False, "max_new_tokens": 60, "return_tensors": True}),
    ("gpt2", {}, "the cat", {**IDS, "max_new_tokens": 60, "min_new_tokens": 55}),
    ("gpt2", {}, "the cat", {**IDS, "max_new_tokens": 60, "min_length": 55}),
    ("gpt2", {}, "the cat", {**IDS, "eos_token_id": 146}),
    ("gpt2", {}, "the cat", {**GREEDY, "eos_token_id": [146, 162]}),
    ("gpt2", {}, "the cat", {**IDS, "stop_sequence": "t", "max_new_tokens": 20}),
    ("llama", {}, "the cat", GREEDY),
    ("llama", {}, "the cat", IDS),
    ("llama", {}, "", IDS),
    ("llama", {}, "the cat", {**IDS, "add_special_tokens": False}),
    ("llama", {}, "the cat", {**GREEDY, "skip_special_tokens": False}),
    ("llama", {}, [USER], GREEDY),
    ("llama", {}, [[USER], [USER, BEGUN, USER]], GREEDY),
    ("llama", {}, [USER, BEGUN], GREEDY),
    ("llama", {}, [USER, BEGUN], {**GREEDY, "continue_final_message": False}),
    ("llama", {}, [USER], {**GREEDY, "return_full_text": False}),
    ("llama", {}, [USER], {**GREEDY, "num_beams": 2, "num_return_sequences": 2}),
    ("llama-settings", {}, "the cat", {"do_sample": False, "return_tensors": True}),
    ("llama-settings", {}, "the cat", {"top_k": 1}),
]
# Beam searches in which some hypotheses end before others, because a frequent token ends a text.
for _end in (236, 98, 168, 102, 217):
    for _more in ({}, {"early_stopping": True}, {"length_penalty": 0.0}, {"length_penalty": 2.0}):
        _options = {**IDS, "num_beams": 4, "num_return_sequences": 4, "eos_token_id": _end, **_more}
        CALLS.append(("llama", {}, "the cat", _options))
        CALLS.append(("gpt2", {}, "a dog", _options))


def main() -> None:
    """Write the results of the installed Transformers."""
    import warnings

    import transformers

    from support.language_folders import KINDS, write_language_folder

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as place:
        folders = {kind: str(write_language_folder(Path(place) / kind, kind)) for kind in KINDS}
        for kind, options, source, given in CALLS:
            pipe = transformers.pipeline("text-generation", folders[kind], device="cpu", **options)
            results.append(pipe(source, **given))
    values = {"transformers": transformers.__version__, "results": results}
    Path(sys.argv[1]).write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
