"""The tokenizers of language models, in Hugging Face folders, GGUF files and files of llama2.c."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from regard.errors import FileError
from regard.text import PretrainedVocabulary, load_vocabulary
from support.language_models import (
    TEXTS,
    V,
    byte_level_tokenizer,
    llama_pieces,
    real_model,
    tokenizer_metadata,
    write_llama2c,
)

tokenizers = pytest.importorskip("tokenizers", reason="the extra text is not installed")


def byte_level_folder(folder: Path, **settings: Any) -> Any:
    """Write the files of a GPT-2 folder, and return its tokenizer."""
    trained = byte_level_tokenizer()
    folder.mkdir(exist_ok=True)
    trained.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "GPT2Tokenizer", **settings})
    )
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "eos_token_id": 0, "vocab_size": V})
    )
    return trained


def test_a_gpt2_folder_gives_the_ids_of_its_tokenizer(tmp_path):
    trained = byte_level_folder(tmp_path / "model")
    vocabulary = PretrainedVocabulary.of_language_model(tmp_path / "model", size=V)
    for text in TEXTS:
        assert vocabulary.encode(text) == trained.encode(text).ids
        assert vocabulary.decode(vocabulary.encode(text)) == text
    assert (vocabulary.eos, vocabulary.bos, vocabulary.framing.start, len(vocabulary)) == (0, 0, None, V)
    vocabulary.save(tmp_path / "vocabulary.json")
    again = load_vocabulary(tmp_path / "vocabulary.json")
    assert again == vocabulary
    assert again.framing == vocabulary.framing


def test_the_special_tokens_of_a_folder(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    byte_level_folder(tmp_path, eos_token={"content": "<|im_end|>"}, bos_token="<|im_start|>")
    backend = byte_level_tokenizer()._tokenizer
    start = ("<|im_start|>", backend.token_to_id("<|im_start|>"))
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|im_start|> $A", pair="$A $B", special_tokens=[start]
    )
    backend.save(str(tmp_path / "tokenizer.json"))
    vocabulary = PretrainedVocabulary.of_language_model(tmp_path, size=V)
    assert (vocabulary.bos, vocabulary.eos, vocabulary.framing.start) == (1, 2, 1)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in [*TEXTS, "<|im_start|>user\nHi<|im_end|>"]:
        assert [1, *vocabulary.encode(text)] == theirs(text)["input_ids"]
    written = vocabulary.encode("Hi<|im_end|>and more")
    assert vocabulary.decode(written) == "Hi"


@pytest.mark.parametrize("words", ["gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_the_tokenizer_of_a_gguf_file_is_that_of_its_byte_pairs(words):
    vocabulary = PretrainedVocabulary.from_gguf(tokenizer_metadata(words), "model.gguf", size=V)
    assert (vocabulary.bos, vocabulary.eos, vocabulary.framing.start) == (1, 2, None)
    for text in TEXTS:
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        if words == "gpt-2":
            assert ids == byte_level_tokenizer().encode(text).ids
    assert vocabulary.encode("<|im_end|>") == [2]
    # Digits are joined to numbers only where the words of the model hold several.
    longest = max(sum(map(str.isdigit, piece)) for piece in vocabulary.pieces(vocabulary.encode("It's 1984")))
    assert {"gpt-2": longest == 4, "llama-bpe": longest <= 3}.get(words, longest == 1), longest


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": (
        {"tokenizer.ggml.model": "rwkv"},
        "tokenizer.ggml.model is 'rwkv'.*expected gpt2 or llama",
    ),
    "other words": ({"tokenizer.ggml.pre": "viking"}, "tokenizer.ggml.pre is 'viking'"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
    "no merges": ({"tokenizer.ggml.merges": [1, 2]}, "tokenizer.ggml.merges is missing or is no list of str"),
    "wrong merges": ({"tokenizer.ggml.merges": ["a b c"]}, "'a b c' does not join two tokens"),
    "fewer types": ({"tokenizer.ggml.token_type": [1, 1]}, "has 2 types for 352 tokens"),
    "an end that is no token": (
        {"tokenizer.ggml.eos_token_id": 99999},
        "eos_token_id is 99999, but there are 352",
    ),
    "no end": ({"tokenizer.ggml.eos_token_id": None}, "no token ends a text"),
    "a token twice": (
        {"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]},
        "is there twice",
    ),
    "no scores": ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.scores is missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_damaged_tokenizers_of_gguf_files_are_named(case):
    changes, told = WRONG[case]
    metadata = {name: x for name, x in {**tokenizer_metadata(), **changes}.items() if x is not None}
    with pytest.raises(FileError, match=f"model.gguf: .*{told}"):
        PretrainedVocabulary.from_gguf(metadata, "model.gguf", size=V)


def test_a_tokenizer_that_does_not_fit_its_model_is_refused(tmp_path):
    for size in (V - 1, V + 1):
        with pytest.raises(FileError, match="model.gguf: .*belongs to another model"):
            PretrainedVocabulary.from_gguf(tokenizer_metadata(), "model.gguf", size=size)
    byte_level_folder(tmp_path)
    for size in (100, 5000):
        with pytest.raises(FileError, match="belongs to another model"):
            PretrainedVocabulary.of_language_model(tmp_path, size=size)
    pieces = llama_pieces()
    write_llama2c(tmp_path / "tokenizer.bin", pieces)
    for size in (len(pieces) - 1, len(pieces) + 1):
        with pytest.raises(FileError, match="belongs to another model"):
            PretrainedVocabulary.from_llama2c(tmp_path / "tokenizer.bin", size=size)


# -- SentencePiece's byte pairs ----------------------------------------------------------------------------------


def merged(text: str, pieces: list[tuple[str, float]]) -> list[int]:
    """Return the ids by the definition, which joins the first neighbours whose union has the highest score."""
    scores = dict(pieces[259:])
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    parts = list("▁" + text.replace(" ", "▁"))
    while True:
        joined = [(scores.get(a + b, -1e9), -place) for place, (a, b) in enumerate(itertools.pairwise(parts))]
        best, place = max(joined, default=(-1e9, 0))
        if best == -1e9:
            break
        parts[-place : -place + 2] = ["".join(parts[-place : -place + 2])]
    numbers = []
    for part in parts:
        numbers += [ids[part]] if part in scores else [byte + 3 for byte in part.encode()]
    return numbers


SENTENCES = ["once on the time", "there, the 中文 time", "ithere nce\n", "  two  spaces", "é", ""]


def test_a_tokenizer_of_llama2c_joins_the_pairs_of_the_highest_score(tmp_path):
    pieces = llama_pieces()
    write_llama2c(tmp_path / "tokenizer.bin", pieces)
    vocabulary = PretrainedVocabulary.from_llama2c(tmp_path / "tokenizer.bin", size=len(pieces))
    assert (vocabulary.bos, vocabulary.eos, vocabulary.framing.start) == (1, 2, 1)
    for text in SENTENCES:
        assert vocabulary.encode(text) == (merged(text, pieces) if text else []), text
        assert vocabulary.decode(vocabulary.encode(text)) == text


def test_a_gguf_file_with_scores_gives_the_same_tokenizer(tmp_path):
    pieces = llama_pieces()
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [piece for piece, _ in pieces],
        "tokenizer.ggml.scores": [score for _, score in pieces],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    vocabulary = PretrainedVocabulary.from_gguf(metadata, "model.gguf", size=len(pieces))
    assert vocabulary.framing.start == 1
    for text in SENTENCES[:-1]:
        assert vocabulary.encode(text) == merged(text, pieces), text
    metadata["tokenizer.ggml.add_space_prefix"] = False
    vocabulary = PretrainedVocabulary.from_gguf(metadata, "model.gguf", size=len(pieces))
    assert vocabulary.pieces(vocabulary.encode("time on")) == ["time", " on"]


def test_damaged_tokenizers_of_llama2c_are_named(tmp_path):
    path, pieces = tmp_path / "tokenizer.bin", llama_pieces()
    with pytest.raises(FileError, match="tokenizer.bin: cannot be read"):
        PretrainedVocabulary.from_llama2c(path, size=len(pieces))
    write_llama2c(path, pieces)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match="has .* tokens, but|cut short"):
        PretrainedVocabulary.from_llama2c(path, size=len(pieces))
    path.write_bytes(content[:8] + struct.pack("<i", -5) + content[12:])
    with pytest.raises(FileError, match="cut short, or not a tokenizer"):
        PretrainedVocabulary.from_llama2c(path, size=len(pieces))


@pytest.mark.slow
def test_the_tokenizer_of_stories15m_is_that_of_llama():
    path = real_model("REGARD_STORIES15M", "stories15M.bin, the flat file of llama2.c")
    vocabulary = PretrainedVocabulary.from_llama2c(path.parent / "tokenizer.bin", size=32000)
    # The ids of Llama 2.
    assert vocabulary.encode("Once upon a time") == [9038, 2501, 263, 931]
    assert vocabulary.encode("Hello world") == [15043, 3186]
    assert vocabulary.decode([9038, 2501, 263, 931, 2, 5]) == "Once upon a time"


@pytest.mark.slow
def test_the_tokenizer_of_smollm2_is_that_of_transformers():
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    from regard.models.gguf_files import GGUFFile

    path = real_model("REGARD_SMOLLM2", "the GGUF file of SmolLM2-135M-Instruct")
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    vocabulary = PretrainedVocabulary.from_gguf(GGUFFile(path).metadata, str(path), size=49152)
    for text in [*TEXTS, "def f(x):\n    return x + 12345", "<|im_start|>user\nHi<|im_end|>", "It’s café"]:
        assert vocabulary.decode_with_specials(vocabulary.encode(text)) == text
        # Transformers' converter leaves digits joined.
        if not any(letter.isnumeric() for letter in text):
            assert vocabulary.encode(text) == theirs(text)["input_ids"], text
