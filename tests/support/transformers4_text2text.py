"""Calls of translation and summaries and the results of Transformers 4, in pipelines/transformers4_text2text.json.

``python -m support.transformers4_text2text FILE``, run in the folder ``tests``, writes that file anew. It needs an
environment with transformers 4, which the other tests cannot use. This file needs nothing of Regard.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

CAT, DOG = "the cat sat on a mat .", "a dog ran ."
TWO = [CAT, DOG]
IDS = {"return_tensors": True}
SHORT = {"max_new_tokens": 9, **IDS}
FRENCH = {"src_lang": "en_XX", "tgt_lang": "fr_XX"}
LONG = "the cat sat . " * 30
TRANSLATION, SUMMARY = "translation_en_to_fr", "summarization"

# kind of folder, task, options of the pipeline, input, options of the call
CALLS: list[tuple[str, str, dict, Any, dict]] = [
    ("marian", TRANSLATION, {}, CAT, {}),
    ("marian", TRANSLATION, {}, CAT, IDS),
    ("marian", TRANSLATION, {}, CAT, {"return_text": True}),
    ("marian", TRANSLATION, {}, [CAT], {}),
    ("marian", TRANSLATION, {}, TWO, {}),
    ("marian", TRANSLATION, {}, TWO, {"batch_size": 2}),
    ("marian", TRANSLATION, {}, TWO, {"batch_size": 2, **SHORT}),
    (
        "marian",
        TRANSLATION,
        {},
        [CAT, DOG, "the house"],
        {"batch_size": 2, **SHORT, "num_return_sequences": 3},
    ),
    ("marian", TRANSLATION, {}, CAT, {"clean_up_tokenization_spaces": True}),
    ("marian", TRANSLATION, {"clean_up_tokenization_spaces": True}, TWO, {}),
    ("marian", TRANSLATION, {}, CAT, {**IDS, "max_length": 7}),
    ("marian", TRANSLATION, {"max_length": 8}, CAT, IDS),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "num_beams": 1}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "num_beams": 6, "num_return_sequences": 6}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "no_repeat_ngram_size": 0}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "no_repeat_ngram_size": 1, "repetition_penalty": 1.3}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "bad_words_ids": [[17]]}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "forced_bos_token_id": 5}),
    ("marian", TRANSLATION, {}, CAT, {**SHORT, "do_sample": True, "top_k": 1, "num_beams": 1}),
    ("marian", TRANSLATION, {}, LONG, {**SHORT, "truncation": True}),
    ("marian", TRANSLATION, {}, LONG, {**SHORT, "truncation": "longest_first"}),
    ("marian", TRANSLATION, {}, "", SHORT),
    ("marian", "translation", {}, CAT, SHORT),
    ("t5", TRANSLATION, {}, CAT, {}),
    ("t5", TRANSLATION, {}, TWO, IDS),
    ("t5", TRANSLATION, {}, CAT, {**IDS, "min_length": 9}),
    ("t5", TRANSLATION, {}, CAT, {**IDS, "min_new_tokens": 9, "max_new_tokens": 12}),
    ("t5", SUMMARY, {}, CAT, IDS),
    ("t5", SUMMARY, {}, TWO, {}),
    ("t5", SUMMARY, {}, CAT, {**IDS, "early_stopping": False, "length_penalty": 0.5}),
    ("bart", SUMMARY, {}, CAT, {"max_new_tokens": 20}),
    ("bart", SUMMARY, {}, CAT, {**IDS, "max_new_tokens": 20}),
    ("bart", SUMMARY, {}, TWO, {**SHORT, "batch_size": 2}),
    ("bart", SUMMARY, {}, CAT, {**SHORT, "num_return_sequences": 2}),
    ("bart-legacy", SUMMARY, {}, CAT, IDS),
    ("bart-legacy", SUMMARY, {}, TWO, {}),
    ("bart-legacy", SUMMARY, {}, CAT, {**IDS, "max_length": 30, "min_length": 25}),
    ("bart-legacy", SUMMARY, {}, LONG, {**IDS, "truncation": True}),
    ("mbart", "translation", FRENCH, CAT, {}),
    ("mbart", "translation", FRENCH, CAT, IDS),
    ("mbart", "translation", {}, CAT, {**IDS, **FRENCH}),
    ("mbart", "translation", FRENCH, CAT, {**IDS, "tgt_lang": "de_DE"}),
    ("mbart", "translation", FRENCH, CAT, {**IDS, "src_lang": "de_DE", "max_length": 9}),
    ("mbart", "translation", FRENCH, TWO, {**SHORT, "batch_size": 2}),
]
# Beam searches in which some hypotheses end before others, because a frequent token ends a text.
for _end in (29, 2, 54, 39):
    for _more in ({}, {"early_stopping": True}, {"length_penalty": 0.0}, {"length_penalty": 2.0}):
        _options = {**IDS, "num_beams": 4, "num_return_sequences": 4, "eos_token_id": _end, **_more}
        CALLS.append(("marian", TRANSLATION, {}, CAT, _options))


def plain(results: Any) -> Any:
    """Return results with lists in place of the tensors of token ids."""
    if isinstance(results, dict):
        return {name: value if isinstance(value, str) else value.tolist() for name, value in results.items()}
    return [plain(one) for one in results]


def main() -> None:
    """Write the results of the installed Transformers."""
    import warnings

    import transformers

    from support.encoder_decoder_folders import KINDS, write_encoder_decoder_folder

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    results: list[Any] = []
    with tempfile.TemporaryDirectory() as place:
        folders = {kind: str(write_encoder_decoder_folder(Path(place) / kind, kind)) for kind in KINDS}
        for kind, task, options, source, given in CALLS:
            pipe = transformers.pipeline(task, folders[kind], device="cpu", **options)
            results.append(plain(pipe(source, **given)))
    values = {"transformers": transformers.__version__, "results": results}
    Path(sys.argv[1]).write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
