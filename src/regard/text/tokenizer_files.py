"""The tokenizers of Hugging Face folders, read with the package ``tokenizers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import FileError, MissingExtraError
from regard.files import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Names", "from_text", "read_tokenizer"]

Names = dict[str, str]  # the tokens of "pad", "unk" and "mask"

# The names of special tokens in models of BERT and of RoBERTa.
_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ROBERTA = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
_OTHERS = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model")


def read_tokenizer(folder: Path) -> tuple[Tokenizer, Names]:
    """Return the tokenizer of a folder and its tokens of "pad", "unk" and "mask", or raise FileError.

    It is made from ``tokenizer.json``, or else from ``vocab.txt`` as BERT's, or else from ``vocab.json`` and
    ``merges.txt`` as RoBERTa's.
    """
    if (folder / "tokenizer.json").is_file():
        tokenizer = _with_settings(folder, _text(folder / "tokenizer.json"))
    elif (folder / "vocab.txt").is_file():
        tokenizer = _bert(folder)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        tokenizer = _roberta(folder)
    else:
        raise FileError(_missing(folder))
    return tokenizer, _names(folder, tokenizer)


def from_text(text: str) -> Tokenizer:
    """Make a tokenizer from the text of a ``tokenizer.json``, or raise ValueError."""
    try:
        return _package().Tokenizer.from_str(text)
    except MissingExtraError:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise ValueError(str(error)) from error


def _package() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
        import tokenizers.processors
    except ImportError as error:
        raise MissingExtraError("tokenizers", "text", "the vocabulary of a pretrained model") from error
    return tokenizers


def _with_settings(folder: Path, text: str) -> Tokenizer:
    """Make the tokenizer of a ``tokenizer.json``, with the normalisation that ``tokenizer_config.json`` asks for."""
    path = folder / "tokenizer.json"
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not JSON, or cut short ({error})") from None
    if not isinstance(spec, dict) or "model" not in spec:
        fix = "expected one that the package tokenizers writes"
        raise FileError(f"{path}: not a tokenizer: {fix}")
    normalizer = spec.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        normalizer.update(_normalisation(folder))
    try:
        return from_text(json.dumps(spec))
    except ValueError as error:
        raise FileError(f"{path}: the package tokenizers cannot read it ({error})") from None


def _normalisation(folder: Path) -> dict[str, Any]:
    """Return the settings of BERT's normalisation that ``tokenizer_config.json`` names."""
    fields = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
    fields |= {"tokenize_chinese_chars": "handle_chinese_chars"}
    settings = _settings(folder, "tokenizer_config.json")
    return {ours: settings[name] for name, ours in fields.items() if name in settings}


def _bert(folder: Path) -> Tokenizer:
    """Make the tokenizer of an old BERT folder from its ``vocab.txt``."""
    package, path = _package(), folder / "vocab.txt"
    tokens = _text(path).removesuffix("\n").split("\n")
    vocabulary = {token.removesuffix("\r"): number for number, token in enumerate(tokens)}
    for name in ("[UNK]", "[CLS]", "[SEP]"):
        if name not in vocabulary:
            raise FileError(f"{path}: {name} is missing: expected one token a line, as BERT has it")
    tokenizer = package.Tokenizer(package.models.WordPiece(vocabulary, unk_token="[UNK]"))
    settings = {"lowercase": True, **_normalisation(folder)}
    tokenizer.normalizer = package.normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = package.processors.BertProcessing(*ends)
    tokenizer.decoder = package.decoders.WordPiece()
    tokenizer.add_special_tokens([name for name in _BERT.values() if name in vocabulary])
    return tokenizer


def _roberta(folder: Path) -> Tokenizer:
    """Make the tokenizer of a RoBERTa folder from its ``vocab.json`` and ``merges.txt``."""
    package, path = _package(), folder / "vocab.json"
    vocabulary = read_json(path)
    for name in ("<s>", "</s>", "<unk>"):
        if name not in vocabulary:
            raise FileError(f"{path}: {name} is missing: expected the tokens of RoBERTa")
    try:
        model = package.models.BPE.from_file(str(path), str(folder / "merges.txt"), unk_token="<unk>")
    except Exception as error:  # tokenizers raises plain Exception
        raise FileError(f"{folder / 'merges.txt'}: the package tokenizers cannot read it ({error})") from None
    tokenizer = package.Tokenizer(model)
    space = bool(_settings(folder, "tokenizer_config.json").get("add_prefix_space", False))
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=space)
    ends = [(name, vocabulary[name]) for name in ("</s>", "<s>")]
    tokenizer.post_processor = package.processors.RobertaProcessing(*ends, add_prefix_space=space)
    tokenizer.decoder = package.decoders.ByteLevel()
    ordinary = [name for role, name in _ROBERTA.items() if name in vocabulary and role != "mask"]
    tokenizer.add_special_tokens(ordinary)
    if _ROBERTA["mask"] in vocabulary:  # it takes the space before it
        tokenizer.add_special_tokens([package.AddedToken(_ROBERTA["mask"], lstrip=True)])
    return tokenizer


def _names(folder: Path, tokenizer: Tokenizer) -> Names:
    """Return the tokens of "pad", "unk" and "mask" that the files of the folder name, or else BERT's or RoBERTa's.

    A token that the tokenizer does not have is left out.
    """
    said = _settings(folder, "special_tokens_map.json") | _settings(folder, "tokenizer_config.json")
    names: Names = {}
    for role in ("pad", "unk", "mask"):
        token = said.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        for name in (token, _BERT[role], _ROBERTA[role]):
            if isinstance(name, str) and tokenizer.token_to_id(name) is not None:
                names[role] = name
                break
    return names


def _settings(folder: Path, name: str) -> dict[str, Any]:
    return read_json(folder / name) if (folder / name).is_file() else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise FileError(f"{path}: not UTF-8") from None


def _missing(folder: Path) -> str:
    other = next((name for name in _OTHERS if (folder / name).is_file()), None)
    if other is None:
        return f"{folder}: there is no tokenizer: expected tokenizer.json, vocab.txt, or vocab.json and merges.txt"
    fix = "load it once with transformers' AutoTokenizer and save it with save_pretrained()"
    return f"{folder}: there is no tokenizer.json, and {other} cannot be read: {fix}"
