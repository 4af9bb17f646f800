"""Export a translator to ONNX, and translate with onnxruntime alone: export_to_onnx.py [MODEL]."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from regard.text import load_vocabulary

TEXT = "The cat sits on the mat."


def greedy(folder: str, text: str) -> str:
    """Translate with the files of the folder, without torch."""
    about = json.loads(Path(folder, "export.json").read_text(encoding="utf-8"))
    encoder, step = (onnxruntime.InferenceSession(f"{folder}/{part}.onnx") for part in ("encoder", "step"))
    vocabulary = load_vocabulary(f"{folder}/tokenizer.json")
    tokens = about["vocabularies"]["tokenizer"]["tokens"]
    source = np.array([[*vocabulary.encode(text), tokens["eos"]]])  # (b,s)
    given = {"source": source, "lengths": np.array([source.shape[1]])}
    states = encoder.run(None, {one.name: given[one.name] for one in encoder.get_inputs()})
    given |= {one.name: value for one, value in zip(encoder.get_outputs(), states, strict=True)}
    target = [tokens["bos"]]
    while target[-1] != tokens["eos"] and len(target) < 2 * source.shape[1] + 10:
        given["target"] = np.array([target])  # (b,t)
        found = step.run(None, {one.name: given[one.name] for one in step.get_inputs()})
        target.append(int(np.asarray(found[0]).argmax()))  # (b,v)
    return vocabulary.decode([token for token in target if token not in tokens.values()])


if __name__ == "__main__":
    from regard import export, tasks

    translator = tasks.load(sys.argv[1] if sys.argv[1:] else "en-fr", device="cpu")
    print(*export(translator, "exported"), f"onnxruntime: {greedy('exported', TEXT)}", sep="\n")
    print(f"Regard:      {translator([TEXT], beams=1, normalize=False)[0].text}")
