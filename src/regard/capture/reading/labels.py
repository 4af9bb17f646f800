"""The words behind the rows and columns of a map: from a tokenizer, from the inputs, or by hand."""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.capture.reading.tensor_subclasses import unwrapped
from regard.errors import ArgumentError, DtypeError

if TYPE_CHECKING:
    from regard.capture.joining.call_chains import Ids, Piece
    from regard.capture.joining.stitching import Beams

__all__ = [
    "Labels",
    "Speller",
    "as_labels",
    "as_numbers",
    "as_speller",
    "as_text",
    "fitting",
    "ids_in",
    "key_ids",
    "query_ids",
    "spelled",
    "without_words",
]

Speller = Callable[[list[int]], list[str]]
Labels = list[list[str]]

_MARKS = {
    ord(" "): "\u0120",
    ord("\n"): "\u010a",
    ord("\t"): "\u0109",
    ord("\r"): "\u010d",
}  # GPT-2's own letters
_NOT_TOKENS = re.compile(r"mask|position|type|label|segment|length|cache|size|index|bbox", re.IGNORECASE)
_NOT_WORDS = re.compile(r"pixel|image|img|picture|video|input_features|input_values", re.IGNORECASE)
_CHANNELS = 3  # of a picture
_IDS = (torch.int64, torch.int32)
_SOURCE = re.compile(r"encoder|src|source", re.IGNORECASE)
_TARGET = re.compile(r"decoder|tgt|target", re.IGNORECASE)


def as_speller(tokenizer: object) -> Speller:
    """How ids become words: with a tokenizer of Hugging Face or of Regard, with a callable, or as numbers.

    >>> as_speller(None)([7, 11])
    ['7', '11']
    """
    if tokenizer is None:
        return as_numbers
    for method in ("convert_ids_to_tokens", "pieces"):
        if hasattr(tokenizer, method):
            spell = getattr(tokenizer, method)
            read = as_text if _spells_bytes(tokenizer) else list
            return lambda ids: read([str(word) for word in spell(ids)])
    if hasattr(tokenizer, "id_to_token"):
        read = as_text if _spells_bytes(tokenizer) else list
        return lambda ids: read([str(tokenizer.id_to_token(n)) for n in ids])  # type: ignore[attr-defined]
    if callable(tokenizer):
        return lambda ids: [str(word) for word in tokenizer(ids)]  # type: ignore[operator]
    raise DtypeError(
        "tokenizer",
        f"expected a tokenizer or a callable, got {type(tokenizer).__name__}",
        "it must have convert_ids_to_tokens, pieces or id_to_token, or map a list of ids to a list of words",
    )


def _spells_bytes(tokenizer: Any) -> bool:
    """Whether a tokenizer writes each byte as a letter, as those of GPT-2, Llama 3 and Qwen do."""
    join = getattr(tokenizer, "convert_tokens_to_string", None)
    join = join or getattr(getattr(tokenizer, "decoder", None), "decode", None)
    try:
        return join is not None and join(["\u00e4\u00bd\u0142"]) == "\u4f60"
    except Exception:  # a tokenizer of another kind, which knows no such piece
        return False


@functools.cache
def _bytes_of_letters() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for letters from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


def as_text(pieces: list[str]) -> list[str]:
    """Pieces of a byte-level tokenizer as text; spaces keep their mark, part of a character is U+FFFD.

    A character that stands in several pieces is shown with the last of them.

    >>> as_text(["\u00e4\u00bd\u0142", "\u0120caf\u00c3\u00a9", "\u00e4\u00bd", "\u0142"])
    ['\u4f60', '\u0120caf\u00e9', '\ufffd', '\u4f60']
    """
    letters = _bytes_of_letters()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found = []
    for piece in pieces:
        if any(letter not in letters for letter in piece):  # a special token, which is text already
            decoder.reset()
            found.append(piece)
            continue
        text = decoder.decode(bytes(letters[letter] for letter in piece))
        found.append(text.translate(_MARKS) or "\ufffd")
    return found


def as_numbers(ids: list[int]) -> list[str]:
    """Ids as they are, where nobody knows their words."""
    return [str(n) for n in ids]


@functools.lru_cache(maxsize=8192)
def _names_no_tokens(name: str) -> bool:
    return _NOT_TOKENS.search(name) is not None


@functools.lru_cache(maxsize=8192)
def _names_no_words(name: str) -> bool:
    return _NOT_WORDS.search(name) is not None


def ids_in(where: str, arguments: Mapping[str, Any]) -> list[Ids]:
    """The token ids among what a module was given, in a dictionary too: integers, ``(b,n)``."""
    from regard.capture.joining.call_chains import Ids

    found = {
        name: value
        for name, value in _tensors(arguments)
        if value.dtype in _IDS and value.ndim == 2 and not _names_no_tokens(name)
    }
    if not found:
        return []
    if len(found) > 1 and not any(map(_SOURCE.search, found)):
        found.pop("targets", None)  # of a loss: what is to be predicted, not what is read
    plain = {name: unwrapped(value.detach()) for name, value in found.items()}
    return [Ids(f"{where}.{name}", x.cpu().clone()) for name, x in plain.items() if x is not None]


def without_words(module: nn.Module, arguments: Mapping[str, Any]) -> bool:
    """Whether a module was given a picture or a sound.

    Four axes alone make no picture: rotary angles and biases have four as well.
    """
    given = [(name, x) for name, x in _tensors(arguments) if not _names_no_tokens(name)]
    if any(_names_no_words(name) for name, _ in given):
        return True
    shapes = [x.shape for _, x in given if x.ndim == 4 and x.is_floating_point()]
    return any(shape[1] == _CHANNELS for shape in shapes) or (bool(shapes) and _convolves(module))


_NO_MAPPING = (type(None), int, float, str, tuple, list)  # asking an abstract class takes longer


def _tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors among some arguments, and those in dictionaries among them, with their names."""
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            yield name, value
        elif not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping):
            yield from ((str(key), x) for key, x in value.items() if isinstance(x, Tensor))


def _convolves(module: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) for part in module.modules())


def query_ids(run: list[Piece], decoder: bool, beams: Beams | None = None) -> Tensor | None:
    """The ids of the queries of a run, ``(b,q)``; None where they are unknown."""
    parts = []
    for n, piece in enumerate(run):
        part = _choose(piece.inputs, piece.grid.b, piece.grid.q + piece.rejected, decoder)
        if part is None:
            return None
        part = part[:, : piece.grid.q]
        parts.append(part if beams is None else part[beams.rows(n)])
    return torch.cat(parts, dim=1)


def key_ids(run: list[Piece], seen: list[Ids], count: int, beams: Beams | None = None) -> Tensor | None:
    """The ids of the keys of a cross attention, ``(b,k)``: those of the encoder, whose call may be long over."""
    piece = run[-1]
    known = [x for x in (*piece.inputs, *seen[::-1]) if not _TARGET.search(x.name)]
    found = _choose(known, piece.grid.b, count, decoder=False)
    return found if found is None or beams is None else found[beams.rows(len(run) - 1)]


def _choose(inputs: Sequence[Ids], batch: int, count: int, decoder: bool) -> Tensor | None:
    """The nearest ids of the right size; of several such, those whose name speaks of the right side."""
    fitting = [x for x in inputs if x.values.shape[1] == count and batch % max(len(x.values), 1) == 0]
    if not fitting:
        return None
    ours = [x for x in fitting if bool(_TARGET.search(x.name)) == decoder]
    if not ours and not decoder:  # what is given to a decoder alone is no label of an encoder's
        fitting = [x for x in fitting if not _TARGET.search(x.name.rpartition(".")[2])]
        if not fitting:
            return None
    values = (ours or fitting)[0].values
    return values.repeat_interleave(batch // len(values), dim=0)  # beams: each sequence several times


def spelled(ids: Tensor | None, spell: Speller) -> Labels | None:
    """Ids ``(b,n)`` as words."""
    return None if ids is None else [spell(row) for row in ids.tolist()]


def as_labels(name: str, tokens: Sequence[Any] | None) -> Labels | None:
    """Labels as a user gives them: a list of words or numbers, or one for each sequence; tensors too.

    >>> as_labels("tokens", ["a", "b"]), as_labels("tokens", torch.tensor([[7, 11], [13, 17]]))
    ([['a', 'b']], [['7', '11'], ['13', '17']])
    """
    if tokens is None:
        return None
    if isinstance(tokens, str):
        raise DtypeError(
            name, f"expected a list of words, got the text {tokens!r}", "use tokens=text.split()"
        )
    rows = _listed(name, tokens)
    if not any(isinstance(row, Iterable) and not isinstance(row, str) for row in rows):
        rows = [rows]
    labels = [[_label(name, word) for word in _listed(name, row)] for row in rows]
    if not labels or not all(labels):
        raise ArgumentError(name, "expected at least one word for each sequence")
    return labels


def _listed(name: str, values: Any) -> list[Any]:
    """What a user gave as a list, a tensor or an array, as a list."""
    plain = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(plain, str) or not isinstance(plain, Iterable):
        raise DtypeError(name, f"expected a list of words, got {plain!r}", "use [...]")
    return [one.tolist() if hasattr(one, "tolist") else one for one in plain]


def _label(name: str, word: Any) -> str:
    if not isinstance(word, str | int | float):
        raise DtypeError(name, f"expected words or numbers, got {word!r}", "use str(...) or ''")
    return str(word)


def fitting(labels: Labels | None, batch: int, count: int) -> Labels | None:
    """Labels for a batch of so many tokens, or None where they are made for other sizes."""
    if labels is None or any(len(row) != count for row in labels):
        return None
    return labels * batch if len(labels) == 1 else labels if len(labels) == batch else None
