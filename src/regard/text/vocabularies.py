"""Training and loading of vocabularies of byte pairs, words, characters or bytes.

>>> vocabulary = train_vocabulary("word", ["the cat sat", "the dog sat"], 100)
>>> vocabulary.encode("the cow sat")
[5, 3, 4]
>>> vocabulary.decode([vocabulary.bos, 5, 6, vocabulary.eos])
'the cat'
>>> train_vocabulary("words", ["the cat sat"], 100)
Traceback (most recent call last):
    ...
regard.errors.UnknownNameError: kind: unknown name 'words': did you mean 'word'? known are bpe, word, ...
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.files import read_json
from regard.text.base_vocabulary import FORMAT, Vocabulary
from regard.text.byte_level import ByteVocabulary
from regard.text.byte_pair import BytePairVocabulary
from regard.text.pretrained_vocabulary import PretrainedVocabulary
from regard.text.words_and_characters import CharacterVocabulary, WordVocabulary

__all__ = [
    "BytePairVocabulary",
    "ByteVocabulary",
    "CharacterVocabulary",
    "PretrainedVocabulary",
    "Vocabulary",
    "WordVocabulary",
    "load_vocabulary",
    "train_vocabulary",
]

# The kinds that can be trained, and all kinds.
_TRAINED: dict[str, type[Vocabulary]] = {
    kind.kind: kind for kind in (BytePairVocabulary, WordVocabulary, CharacterVocabulary, ByteVocabulary)
}
_KINDS: dict[str, type[Vocabulary]] = {**_TRAINED, PretrainedVocabulary.kind: PretrainedVocabulary}


def train_vocabulary(
    kind: str,
    texts: Iterable[str],
    size: int,
    *,
    lowercase: bool = False,
    specials: Sequence[str] = (),
    copyable: bool = False,
) -> Vocabulary:
    """Train a vocabulary of the kind "bpe", "word", "character" or "byte".

    The vocabulary has at most ``size`` ids, including the special tokens. The kinds "bpe" and "byte" need an id for
    each of the 256 bytes, and raise ArgumentError if ``size`` is too small. The kind "byte" learns nothing from the
    texts. ``lowercase`` converts texts to lower case, in training and whenever a text is encoded. ``specials`` are the
    names of further special tokens. ``copyable`` is for "bpe" and is described in :class:`BytePairVocabulary`.
    """
    if kind not in _TRAINED:
        raise UnknownNameError("kind", kind, _TRAINED)
    if copyable and kind != BytePairVocabulary.kind:
        raise ArgumentError("copyable", f"of no use for the kind {kind!r}", "leave it out")
    if copyable:
        return BytePairVocabulary.train(texts, size, lowercase=lowercase, specials=specials, copyable=True)
    return _TRAINED[kind].train(texts, size, lowercase=lowercase, specials=specials)


def load_vocabulary(path: str | os.PathLike) -> Vocabulary:
    """Read a vocabulary of any kind from a file.

    Raises :class:`regard.errors.FileError` if the file is missing, truncated or not a vocabulary.
    """
    content = read_json(path, argument="path")
    file_format = content.get("format")
    if file_format != FORMAT:
        raise FileError(
            f"{path} is not a vocabulary: expected format {FORMAT!r}, got {file_format!r}", argument="path"
        )
    kind = content.get("kind")
    if kind not in _KINDS:
        raise FileError(
            f"{path} is of the unknown kind {kind!r}: known are {', '.join(_KINDS)}", argument="path"
        )
    try:
        return _KINDS[kind].from_json(content)
    except ArgumentError as error:
        raise FileError(f"{path} does not hold a complete vocabulary: {error}", argument="path") from error
