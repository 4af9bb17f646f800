"""The tokenizers of Hugging Face folders, read with the package ``tokenizers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import FileError, MissingExtraError
from regard.files import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["GPT2_END", "Names", "from_text", "package", "read_tokenizer"]

# The tokens of "pad", "unk" and "mask" and, in language models, of "bos", "eos" and "start".
Names = dict[str, str]

# The names of special tokens in models of BERT and of RoBERTa.
_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ROBERTA = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
# The token that ends a text of GPT-2.
GPT2_END = "<|endoftext|>"
_OTHERS = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model")


def read_tokenizer(folder: Path) -> tuple[Tokenizer, Names]:
    """Return the tokenizer of a folder and its tokens of "pad", "unk" and "mask", or raise FileError.

    It is made from ``tokenizer.json``, or else from ``vocab.txt`` as BERT's, or else from ``vocab.json`` and
    ``merges.txt`` as RoBERTa's or GPT-2's.
    """
    if (folder / "tokenizer.json").is_file():
        tokenizer = _with_settings(folder, _text(folder / "tokenizer.json"))
    elif (folder / "vocab.txt").is_file():
        tokenizer = _bert(folder)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        tokenizer = _byte_level(folder)
    else:
        raise FileError(_missing(folder))
    return tokenizer, _names(folder, tokenizer)


def from_text(text: str) -> Tokenizer:
    """Make a tokenizer from the text of a ``tokenizer.json``, or raise ValueError."""
    try:
        return package().Tokenizer.from_str(text)
    except MissingExtraError:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise ValueError(str(error)) from error


def package() -> Any:
    """Return the package ``tokenizers`` with its parts, or raise MissingExtraError."""
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
    tools, path = package(), folder / "vocab.txt"
    tokens = _text(path).removesuffix("\n").split("\n")
    vocabulary = {token.removesuffix("\r"): number for number, token in enumerate(tokens)}
    for name in ("[UNK]", "[CLS]", "[SEP]"):
        if name not in vocabulary:
            raise FileError(f"{path}: {name} is missing: expected one token a line, as BERT has it")
    tokenizer = tools.Tokenizer(tools.models.WordPiece(vocabulary, unk_token="[UNK]"))
    settings = {"lowercase": True, **_normalisation(folder)}
    tokenizer.normalizer = tools.normalizers.BertNormalizer(**settings)
    tokenizer.pre_tokenizer = tools.pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = tools.processors.BertProcessing(*ends)
    tokenizer.decoder = tools.decoders.WordPiece()
    tokenizer.add_special_tokens([name for name in _BERT.values() if name in vocabulary])
    return tokenizer


def _byte_level(folder: Path) -> Tokenizer:
    """Make the tokenizer of a RoBERTa or GPT-2 folder from its ``vocab.json`` and ``merges.txt``."""
    tools, path = package(), folder / "vocab.json"
    vocabulary = read_json(path)
    gpt2 = GPT2_END in vocabulary and "<s>" not in vocabulary
    for name in () if gpt2 else ("<s>", "</s>", "<unk>"):
        if name not in vocabulary:
            raise FileError(f"{path}: {name} is missing: expected the tokens of RoBERTa")
    unknown = {} if gpt2 else {"unk_token": "<unk>"}
    try:
        model = tools.models.BPE.from_file(str(path), str(folder / "merges.txt"), **unknown)
    except Exception as error:  # tokenizers raises plain Exception
        raise FileError(f"{folder / 'merges.txt'}: the package tokenizers cannot read it ({error})") from None
    tokenizer = tools.Tokenizer(model)
    space = bool(_settings(folder, "tokenizer_config.json").get("add_prefix_space", False))
    tokenizer.pre_tokenizer = tools.pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = tools.decoders.ByteLevel()
    if gpt2:
        tokenizer.add_special_tokens([GPT2_END])
        return tokenizer
    ends = [(name, vocabulary[name]) for name in ("</s>", "<s>")]
    tokenizer.post_processor = tools.processors.RobertaProcessing(*ends, add_prefix_space=space)
    ordinary = [name for role, name in _ROBERTA.items() if name in vocabulary and role != "mask"]
    tokenizer.add_special_tokens(ordinary)
    if _ROBERTA["mask"] in vocabulary:  # it takes the space before it
        tokenizer.add_special_tokens([tools.AddedToken(_ROBERTA["mask"], lstrip=True)])
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
