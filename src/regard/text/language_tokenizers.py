"""The tokenizers of language models in Hugging Face folders, GGUF files and files of llama2.c.

Each function returns a tokenizer of the package ``tokenizers`` and the names of its special tokens. "eos" ends a text,
"bos" begins one, and "start" is the token that the model expects before every text, if there is one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import FileError
from regard.files import read_json
from regard.text.tokenizer_files import GPT2_END, Names, package, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["gguf_tokenizer", "huggingface_tokenizer", "llama2c_tokenizer", "stop_ids"]

# The types of tokens in a GGUF file.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# How each value of tokenizer.ggml.pre cuts a text into words. "digits" are single digits and the words of GPT-2.
_WORD_PATTERNS = {
    "gpt-2": "",
    "smollm": "digits",
    "starcoder": "digits",
    "refact": "digits",
    "command-r": "digits",
    "llama-bpe": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}",
}
# The tokens of llama2.c that are not in its file under their names.
_LLAMA2C = ("<unk>", "<s>", "</s>")


def huggingface_tokenizer(folder: Path) -> tuple[Tokenizer, Names]:
    """Return the tokenizer of a Hugging Face folder of a language model, or raise FileError.

    The end of a text is the ``eos_token`` of ``tokenizer_config.json`` or ``special_tokens_map.json``, or else the
    ``eos_token_id`` of ``config.json``.
    """
    tokenizer, names = read_tokenizer(folder)
    said = _settings(folder, "special_tokens_map.json") | _settings(folder, "tokenizer_config.json")
    numbers = _settings(folder, "config.json")
    for role in ("bos", "eos"):
        token = said.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        number = numbers.get(f"{role}_token_id")
        number = number[0] if isinstance(number, list) and number else number
        if not isinstance(token, str) and isinstance(number, int) and number >= 0:
            token = tokenizer.id_to_token(number)
        if isinstance(token, str) and tokenizer.token_to_id(token) is not None:
            names[role] = token
    if "eos" not in names and tokenizer.token_to_id(GPT2_END) is not None:
        names["eos"] = GPT2_END
    if "eos" not in names:
        raise FileError(
            f"{folder}: no token ends a text: tokenizer_config.json has no eos_token of the tokenizer"
        )
    start = _start(tokenizer, folder)
    return tokenizer, names if start is None else {**names, "start": start}


def stop_ids(folder: Path) -> list[int]:
    """Return the ids in ``eos_token_id`` of ``generation_config.json`` and ``config.json``, which end a text."""
    stops: list[int] = []
    for name in ("generation_config.json", "config.json"):
        numbers = _settings(folder, name).get("eos_token_id")
        numbers = numbers if isinstance(numbers, list) else [numbers]
        stops += [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
    return sorted(set(stops))


def gguf_tokenizer(metadata: Mapping[str, Any], where: str) -> tuple[Tokenizer, Names]:
    """Return the tokenizer in the metadata of a GGUF file, whose path is ``where``, or raise FileError."""
    kind = metadata.get("tokenizer.ggml.model")
    tokens = _listed(metadata, "tokenizer.ggml.tokens", str, where)
    types = _listed(metadata, "tokenizer.ggml.token_type", int, where, default=[_NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise FileError(f"{where}: tokenizer.ggml.token_type has {len(types)} types for {len(tokens)} tokens")
    _check_tokens(tokens, where)
    if kind == "gpt2":
        tokenizer = _byte_level(metadata, tokens, where)
    elif kind == "llama":
        scores = _listed(metadata, "tokenizer.ggml.scores", float, where)
        if len(scores) != len(tokens):
            raise FileError(
                f"{where}: tokenizer.ggml.scores has {len(scores)} scores for {len(tokens)} tokens"
            )
        normal = [number for number, kind in enumerate(types) if kind in (_NORMAL, _USER_DEFINED)]
        unknown = next((tokens[number] for number, kind in enumerate(types) if kind == _UNKNOWN), None)
        prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
        tokenizer = _sentence_piece(tokens, scores, normal, unknown, prefix, where)
    else:
        told = f"tokenizer.ggml.model is {kind!r}, which Regard cannot read: expected gpt2 or llama"
        raise FileError(f"{where}: {told}")
    added = package().AddedToken
    for kind_of_token, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        chosen = [token for token, type_ in zip(tokens, types, strict=True) if type_ == kind_of_token]
        tokenizer.add_tokens([added(token, special=special, normalized=False) for token in chosen])
    return tokenizer, _gguf_names(metadata, tokens, kind, where)


def llama2c_tokenizer(path: Path, size: int) -> tuple[Tokenizer, Names]:
    """Return the tokenizer of a ``tokenizer.bin`` of llama2.c for a model with ``size`` tokens, or raise FileError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        told = f"{error.strerror}: expected the tokenizer of the model beside it"
        raise FileError(f"{path}: cannot be read: {told}") from None
    tokens, scores, place = [], [], 4  # after the length of the longest token
    for number in range(size):
        if place + 8 > len(content):
            raise FileError(
                f"{path}: has {number:,} tokens, but the model has {size:,}: it belongs to another model"
            )
        score, length = struct.unpack_from("<fi", content, place)
        place += 8 + length
        if length < 0 or place > len(content):
            raise FileError(f"{path}: cut short, or not a tokenizer of llama2.c, at token {number:,}")
        scores.append(score)
        tokens.append(_llama2c_token(content[place - length : place], number, path))
    if place != len(content):
        raise FileError(
            f"{path}: has more than the {size:,} tokens of the model: it belongs to another model"
        )
    _check_tokens(tokens, str(path))
    tokenizer = _sentence_piece(tokens, scores, list(range(259, size)), "<unk>", True, str(path))
    tokenizer.add_special_tokens(list(_LLAMA2C))
    return tokenizer, {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "start": "<s>"}


def _llama2c_token(content: bytes, number: int, path: Path) -> str:
    """Return the name of a token of llama2.c, whose first tokens are special tokens and the 256 bytes."""
    if number < 3:
        return _LLAMA2C[number]
    if number < 259:
        return f"<0x{number - 3:02X}>"
    try:
        return content.decode().replace(" ", "▁")
    except ValueError:
        raise FileError(f"{path}: token {number:,} is not UTF-8: the file is damaged") from None


def _byte_level(metadata: Mapping[str, Any], tokens: list[str], where: str) -> Tokenizer:
    """Make a tokenizer of byte pairs, as that of GPT-2."""
    words = metadata.get("tokenizer.ggml.pre")
    if words is None and metadata.get("general.architecture") == "gpt2":
        words = "gpt-2"
    if words not in list(_WORD_PATTERNS):
        told = f"tokenizer.ggml.pre is {words!r}, which Regard cannot read"
        raise FileError(f"{where}: {told}: expected {', '.join(_WORD_PATTERNS)}")
    merges = _listed(metadata, "tokenizer.ggml.merges", str, where)
    pairs = [tuple(merge.split(" ")) for merge in merges]
    known = set(tokens)
    for merge, pair in zip(merges, pairs, strict=True):
        if len(pair) != 2 or not {*pair, "".join(pair)} <= known:
            raise FileError(f"{where}: tokenizer.ggml.merges: {merge!r} does not join two tokens")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tools = package()
    tokenizer = tools.Tokenizer(tools.models.BPE(vocabulary, pairs, ignore_merges=words == "llama-bpe"))
    if words == "qwen2":
        tokenizer.normalizer = tools.normalizers.NFC()
    tokenizer.pre_tokenizer = _words(_WORD_PATTERNS[words])
    tokenizer.decoder = tools.decoders.ByteLevel()
    return tokenizer


def _words(pattern: str) -> Any:
    """Make the part of a tokenizer that cuts a text into words."""
    tools = package()
    cut = tools.pre_tokenizers
    if not pattern:
        return cut.ByteLevel(add_prefix_space=False)
    if pattern == "digits":
        return cut.Sequence([cut.Digits(individual_digits=True), cut.ByteLevel(add_prefix_space=False)])
    split = cut.Split(tools.Regex(pattern), behavior="isolated")
    return cut.Sequence([split, cut.ByteLevel(add_prefix_space=False, use_regex=False)])


def _sentence_piece(
    tokens: Sequence[str],
    scores: Sequence[float],
    normal: list[int],
    unknown: str | None,
    prefix: bool,
    where: str,
) -> Tokenizer:
    """Make a tokenizer of SentencePiece's byte pairs, as that of Llama, from the scores of its tokens.

    Pairs whose union has a higher score are joined first. ``normal`` are the ids of tokens that are made of pairs, and
    ``prefix`` puts a space before a text.
    """
    vocabulary = {token: number for number, token in enumerate(tokens)}
    joined = {tokens[number] for number in normal}
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for number in normal:
        token = tokens[number]
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in joined and right in joined:
                merges.append((-scores[number], vocabulary[left], vocabulary[right], (left, right)))
    merges.sort()
    tools = package()
    bytes_known = all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))
    if unknown is None and not bytes_known:
        raise FileError(f"{where}: the tokenizer has neither an unknown token nor tokens for all bytes")
    pairs = [merge[-1] for merge in merges]
    model = tools.models.BPE(vocabulary, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=bytes_known)
    tokenizer = tools.Tokenizer(model)
    form, back = tools.normalizers, tools.decoders
    steps = [form.Prepend("▁")] if prefix else []
    tokenizer.normalizer = form.Sequence([*steps, form.Replace(" ", "▁")])
    strip = [back.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = back.Sequence([back.Replace("▁", " "), back.ByteFallback(), back.Fuse(), *strip])
    return tokenizer


def _gguf_names(metadata: Mapping[str, Any], tokens: list[str], kind: str, where: str) -> Names:
    names: Names = {}
    fields = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    for field, role in fields.items():
        number = metadata.get(f"tokenizer.ggml.{field}_token_id")
        if number is None:
            continue
        if not isinstance(number, int) or not 0 <= number < len(tokens):
            told = f"tokenizer.ggml.{field}_token_id is {number!r}, but there are {len(tokens)} tokens"
            raise FileError(f"{where}: {told}")
        names[role] = tokens[number]
    if "eos" not in names:
        raise FileError(f"{where}: no token ends a text: tokenizer.ggml.eos_token_id is missing")
    if metadata.get("tokenizer.ggml.add_bos_token", kind == "llama") and "bos" in names:
        names["start"] = names["bos"]
    return names


def _listed(
    metadata: Mapping[str, Any], name: str, kind: type, where: str, default: list[Any] | None = None
) -> list[Any]:
    """Return a list of the metadata, or raise FileError unless it has values of this type only."""
    values = metadata.get(name, default)
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise FileError(f"{where}: {name} is missing or is no list of {kind.__name__}")
    return values


def _check_tokens(tokens: list[str], where: str) -> None:
    seen: set[str] = set()
    for number, token in enumerate(tokens):
        if token in seen:
            raise FileError(f"{where}: the token {token!r} is there twice: the tokenizer is damaged")
        if any("\ud800" <= letter <= "\udfff" for letter in token):
            raise FileError(f"{where}: token {number:,} is not UTF-8: the tokenizer is damaged")
        seen.add(token)


def _start(tokenizer: Tokenizer, folder: Path) -> str | None:
    """Return the token that a tokenizer puts before a text, or None."""
    framed, bare = tokenizer.encode("a"), tokenizer.encode("a", add_special_tokens=False)
    before = next((place for place, side in enumerate(framed.sequence_ids) if side is not None), 0)
    if not bare.ids or not before:
        return None
    if before > 1:
        raise FileError(f"{folder}: the tokenizer puts {before} special tokens before a text: expected one")
    return framed.tokens[0]


def _settings(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).is_file() else {}
