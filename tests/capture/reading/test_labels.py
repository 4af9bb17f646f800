"""Tests of the labels that are made from tokens of byte-level tokenizers."""

import types

import pytest


def test_byte_level_tokens_are_shown_as_text():
    from regard._tokens import byte_texts
    from regard.capture.reading.labels import as_speller

    byte_letters = {"你": "ä½ł", "好": "å¥½"}
    pieces = [byte_letters["你"], "Ġ" + byte_letters["好"], "<|end|>", "Ġmat", "Ċ"]
    assert byte_texts(pieces) == ["你", " 好", "<|end|>", " mat", "\n"]
    cut = byte_letters["你"]
    assert byte_texts([cut[:1], cut[1:], "a"]) == ["\ufffd", "你", "a"]
    plain = types.SimpleNamespace(
        convert_ids_to_tokens=lambda ids: ["café"], convert_tokens_to_string=lambda parts: " ".join(parts)
    )
    assert as_speller(plain)([1]) == ["café"]


def test_labels_of_a_trained_byte_level_tokenizer_spell_the_text():
    tokenizers = pytest.importorskip("tokenizers")
    from regard.capture.reading.labels import as_speller

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["你好世界 hello"] * 9, tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    )
    spell = as_speller(made)
    assert "".join(spell(made.encode("你好 hello").ids)).replace("\ufffd", "") == "你好 hello"


def test_a_processor_is_read_by_its_tokenizer():
    from regard.capture.reading.labels import as_speller

    class Tokenizer:
        def convert_ids_to_tokens(self, ids):
            return [f"w{n}" for n in ids]

    class Processor:
        tokenizer = Tokenizer()

        def __call__(self, ids):
            raise AssertionError("a processor prepares texts and pictures")

    assert as_speller(Processor())([7, 11]) == ["w7", "w11"]
