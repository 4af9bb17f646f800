"""The options of ``generate`` in Transformers 4 as settings of a search of Regard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, DtypeError, FileError
from regard.files import read_json
from regard.pipelines.base import warn_caller
from regard.shapes import whole_number

__all__ = [
    "GENERATION_OPTIONS",
    "check_lengths",
    "decoding_options",
    "flag",
    "folder_settings",
    "least_new_tokens",
    "most_new_tokens",
    "warn_of_idle_options",
]

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
GENERATION_OPTIONS = (
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "do_sample",
    *SAMPLING,
    "num_beams",
    "num_return_sequences",
    "length_penalty",
    "early_stopping",
    "repetition_penalty",
    "no_repeat_ngram_size",
)
# The settings of generate in Transformers, if neither the call nor the folder has others. Its search ranks all texts by
# their scores.
COMMON = {"top_k": 50, "num_beams": 1, "early_stopping": False, "ended_first": False}
# Settings of a folder that change no token, or that are read elsewhere.
_WITHOUT_EFFECT = ("bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "use_cache")
# Settings of a folder that Regard does not have, with the values for which they change no token.
_USUAL: dict[str, tuple[Any, ...]] = {
    "encoder_repetition_penalty": (1, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "num_beam_groups": (1, None),
    "diversity_penalty": (0, None),
    "typical_p": (1, None),
    "epsilon_cutoff": (0, None),
    "eta_cutoff": (0, None),
    "top_h": (None,),
    "penalty_alpha": (0, None),
    "remove_invalid_values": (False, None),
    "renormalize_logits": (False, None),
}


def folder_settings(folder: Path, defaults: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the settings for calls without options, from the files of a Hugging Face folder and ``defaults``.

    As in Transformers, the defaults of a pipeline come before ``generation_config.json``, and the
    ``task_specific_params`` of ``config.json`` before both. Raises FileError for a setting that Regard does not have.
    """
    path = folder / "generation_config.json"
    given = read_json(path) if path.is_file() else {}
    chosen = {name: given[name] for name in GENERATION_OPTIONS if given.get(name) is not None}
    for name, value in given.items():
        known = name in GENERATION_OPTIONS or name in _WITHOUT_EFFECT or name.startswith("_")
        if not known and value not in _USUAL.get(name, (None, False)):
            problem = f"{name} is {value!r}, a setting of generation that Regard does not have"
            raise FileError(f"{path}: {problem}: remove it to write without it")
    settings = {**COMMON, **chosen, **defaults}
    if chosen.get("max_length", 20) != 20:
        del settings["max_new_tokens"]
    special = (read_json(folder / "config.json").get("task_specific_params") or {}).get(task) or {}
    for name, value in special.items():
        if name not in (*GENERATION_OPTIONS, "prefix"):
            problem = f"task_specific_params: {name} is {value!r}, which Regard does not have"
            raise FileError(f"{folder / 'config.json'}: {problem}: remove it to write without it")
    return settings | special


def decoding_options(
    given: dict[str, Any], defaults: dict[str, Any], *, before: int, room: int | None = None
) -> DecodingOptions:
    """Return the settings of a search for the options of a call, and ``defaults`` for those that are not given.

    ``before`` is the number of tokens that ``max_length`` and ``min_length`` count beside the new ones. Those are the
    tokens of a prompt, or the token that starts the decoder. A beam search writes at most ``room`` tokens.

    >>> decoding_options({"max_length": 20}, {}, before=5).max_length
    15
    """
    options = {**defaults, **given}
    sampled, beams = (
        flag(options, "do_sample"),
        whole_number("num_beams", options.get("num_beams", 1), least=1),
    )
    wanted = whole_number("num_return_sequences", options.get("num_return_sequences", 1), least=1)
    if sampled and beams > 1:
        problem = f"Regard does not draw tokens in a beam search, got {beams} beams with do_sample=True"
        raise ArgumentError("num_beams", problem, "use do_sample=False, or num_beams=1")
    if not sampled and wanted > beams:
        problem = f"expected at most {beams}, the number of beams, got {wanted}"
        raise ArgumentError("num_return_sequences", problem, "raise num_beams, or use do_sample=True")
    warn_of_idle_options(given, sampled)
    names = (
        "length_penalty",
        "early_stopping",
        "ended_first",
        "repetition_penalty",
        *(SAMPLING if sampled else ()),
    )
    values = {name: options[name] for name in names if options.get(name) is not None}
    if options.get("no_repeat_ngram_size") is not None:
        values["no_repeat"] = whole_number("no_repeat_ngram_size", options["no_repeat_ngram_size"], least=0)
    most = most_new_tokens(options, given, before)
    if room is not None and beams > 1 and (most is None or most > room):
        warn_caller(f"the context of the model has room for {room:,} more tokens, so that many are written")
        most = room
    least = least_new_tokens(options, before)
    check_lengths(least, most, options)
    seed = int(torch.randint(2**62, ())) if sampled else 0
    counts: dict[str, Any] = {"beams": beams, "n_best": wanted, "min_length": least, "max_length": most}
    return DecodingOptions(**values, **counts, sample=sampled, seed=seed)


def most_new_tokens(options: dict[str, Any], given: dict[str, Any], before: int) -> int | None:
    """Return the largest number of new tokens, or None if neither the call nor the defaults say it."""
    # A max_length of the call comes before a max_new_tokens of the defaults.
    if options.get("max_new_tokens") is not None and ("max_new_tokens" in given or "max_length" not in given):
        return whole_number("max_new_tokens", options["max_new_tokens"], least=1)
    if options.get("max_length") is None:
        return None
    most = whole_number("max_length", options["max_length"], least=1)
    if most <= before:
        problem = f"expected more than the {before} tokens before the new ones, got {most}"
        raise ArgumentError("max_length", problem, "raise it, or give max_new_tokens")
    return most - before


def least_new_tokens(options: dict[str, Any], before: int) -> int:
    """Return the least number of new tokens."""
    fewest = whole_number("min_new_tokens", options.get("min_new_tokens") or 0, least=0)
    return max(fewest, whole_number("min_length", options.get("min_length") or 0, least=0) - before)


def check_lengths(least: int, most: int | None, options: dict[str, Any]) -> None:
    """Raise ArgumentError if the least number of new tokens is above the largest."""
    if most is not None and least > most:
        name = "min_length" if options.get("min_new_tokens") is None else "min_new_tokens"
        problem = f"expected at most {most} new tokens, as the largest length says, got {least}"
        raise ArgumentError(name, problem)


def warn_of_idle_options(given: dict[str, Any], sampled: bool) -> None:
    """Warn of options of sampling in a call that does not sample."""
    idle = [name for name in SAMPLING if name in given and not sampled]
    if idle:
        warn_caller(f"{', '.join(idle)}: has no effect without do_sample=True")


def flag(options: dict[str, Any], name: str, default: bool = False) -> bool:
    """Return an option that is True or False, or raise DtypeError.

    >>> flag({"do_sample": 1}, "do_sample")
    Traceback (most recent call last):
        ...
    regard.errors.DtypeError: do_sample: expected True or False, got 1
    """
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise DtypeError(name, f"expected True or False, got {value!r}")
    return value
