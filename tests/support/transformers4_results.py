"""Calls of pipelines and the results of Transformers 4 for them, in pipelines/transformers4.json.

``python -m support.transformers4_results FILE``, run in the folder ``tests``, writes that file anew. It needs an
environment with transformers 4, which the other tests cannot use. This file needs nothing of Regard.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

SHORT = "The cat sat on a mat. The dog ran in the new house, not very great."
WHO, WHERE = "who sat?", "where is the dog?"
PAIR = {"text": "the cat", "text_pair": "a dog"}
BOTH = {"question": WHO, "context": SHORT}

# kind of folder, options of the pipeline, positional arguments, keyword arguments
CALLS: list[tuple[str, dict, list, dict]] = [
    ("text-classification", {}, ["the cat sat"], {}),
    ("text-classification", {}, [["the cat", "a dog"]], {}),
    ("text-classification", {}, [["the cat"]], {}),
    ("text-classification", {}, [[]], {}),
    ("text-classification", {}, ["the cat"], {"top_k": 2}),
    ("text-classification", {}, ["the cat"], {"top_k": None}),
    ("text-classification", {}, ["the cat"], {"top_k": 1}),
    ("text-classification", {}, [["the cat", "a dog ran"]], {"top_k": None}),
    ("text-classification", {}, ["the cat"], {"return_all_scores": True}),
    ("text-classification", {}, [["the cat", "a dog"]], {"return_all_scores": True}),
    ("text-classification", {"top_k": None}, ["the cat"], {}),
    ("text-classification", {"top_k": 2}, [["the cat"]], {}),
    ("text-classification", {}, [PAIR], {}),
    ("text-classification", {}, [[PAIR, PAIR]], {}),
    ("text-classification", {}, ["the cat"], {"function_to_apply": "none"}),
    ("text-classification", {}, ["the cat"], {"function_to_apply": "sigmoid"}),
    ("text-classification", {}, ["the cat " * 60], {"truncation": True}),
    ("text-classification", {}, ["the cat sat on a mat"], {"truncation": True, "max_length": 5}),
    ("text-classification", {}, [""], {}),
    ("one-label", {}, ["the cat"], {}),
    ("multi-label", {}, ["the cat"], {}),
    ("multi-label", {}, ["the cat"], {"top_k": None}),
    ("fill-mask", {}, ["the [MASK] sat."], {}),
    ("fill-mask", {}, ["the [MASK] sat on [MASK]"], {"top_k": 2}),
    ("fill-mask", {}, [["the [MASK] sat", "a [MASK]!"]], {"top_k": 1}),
    ("fill-mask", {}, [["the [MASK] sat"]], {"top_k": 1}),
    ("fill-mask", {}, ["the [MASK] sat"], {"targets": ["cat", "dog"]}),
    ("fill-mask", {}, ["the [MASK] sat"], {"targets": "cat"}),
    ("fill-mask", {}, ["the [MASK] sat [MASK]"], {"targets": ["cat", "dog"], "top_k": 1}),
    ("fill-mask", {"top_k": 3}, ["The City of [MASK]."], {}),
    ("roberta-fill-mask", {}, ["the <mask> sat."], {"top_k": 3}),
    ("roberta-fill-mask", {}, ["the cat<mask> sat <mask>"], {"top_k": 2}),
    ("feature-extraction", {}, ["a cat"], {}),
    ("feature-extraction", {}, [["a", "a cat"]], {}),
    (
        "feature-extraction",
        {},
        ["the cat sat on a mat"],
        {"truncation": True, "tokenize_kwargs": {"max_length": 4}},
    ),
    ("question-answering", {}, [], BOTH),
    ("question-answering", {}, [BOTH], {}),
    ("question-answering", {}, [WHO, SHORT], {}),
    ("question-answering", {}, [[BOTH, {"question": WHERE, "context": SHORT}]], {}),
    ("question-answering", {}, [], {"question": [WHO, WHERE], "context": SHORT}),
    ("question-answering", {}, [], {"question": [WHO], "context": [SHORT]}),
    ("question-answering", {}, [], {**BOTH, "top_k": 3}),
    ("question-answering", {}, [], {**BOTH, "topk": 2}),
    ("question-answering", {"top_k": 2}, [], {"question": [WHO, WHERE], "context": [SHORT, SHORT]}),
    ("question-answering", {}, [], {**BOTH, "handle_impossible_answer": True, "top_k": 4}),
    ("question-answering", {}, [], {**BOTH, "max_answer_len": 1}),
    ("question-answering", {}, [], {**BOTH, "align_to_words": False, "top_k": 3}),
    (
        "question-answering",
        {},
        [],
        {"question": "Where is Yorkshire?", "context": "Yorkshires ran. " * 4, "top_k": 4},
    ),
    ("question-answering", {}, [], {"question": WHO, "context": SHORT * 20, "top_k": 3}),
    (
        "question-answering",
        {},
        [],
        {"question": WHO, "context": SHORT * 20, "top_k": 3, "handle_impossible_answer": True},
    ),
    (
        "question-answering",
        {},
        [],
        {"question": WHO, "context": SHORT * 9, "max_seq_len": 40, "doc_stride": 10},
    ),
    ("question-answering", {"max_answer_len": 2}, [], {**BOTH, "max_answer_len": None, "top_k": None}),
    ("question-answering", {}, [], {**BOTH, "doc_stride": None, "max_seq_len": None, "align_to_words": None}),
    ("fill-mask", {"top_k": 2}, ["the [MASK] sat."], {"top_k": None, "targets": None}),
    ("text-classification", {"top_k": 2}, [["the cat"]], {"top_k": None, "function_to_apply": None}),
    ("feature-extraction", {"truncation": True}, ["a cat"], {"truncation": None, "return_tensors": None}),
]


def task_of(kind: str) -> str:
    """Return the task of a kind of folder."""
    if kind in ("one-label", "multi-label"):
        return "text-classification"
    return kind.removeprefix("roberta-")


def main() -> None:
    """Write the results of the installed Transformers."""
    import warnings

    import transformers

    from support.pipeline_folders import KINDS, write_folder

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as place:
        folders = {kind: str(write_folder(Path(place) / kind, kind)) for kind in KINDS}
        for kind, options, args, given in CALLS:
            pipe = transformers.pipeline(task_of(kind), folders[kind], device="cpu", **options)
            results.append(pipe(*args, **given))
    values = {"transformers": transformers.__version__, "results": results}
    Path(sys.argv[1]).write_text(
        json.dumps(values, indent=None, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
