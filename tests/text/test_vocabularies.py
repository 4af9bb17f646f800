"""Tests of vocabularies, with ids and texts, special tokens that no text can spell, and damaged files."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from regard.errors import (
    ArgumentError,
    DtypeError,
    FileError,
    MissingExtraError,
    OutsideError,
    UnknownNameError,
)
from regard.text.vocabularies import (
    BytePairVocabulary,
    ByteVocabulary,
    CharacterVocabulary,
    WordVocabulary,
    load_vocabulary,
    train_vocabulary,
)
from support.attention_cases import examples

KINDS = ("bpe", "word", "character", "byte")
TEXTS = [
    "The cat sat on the mat.",
    "The dog, the cat (and the mat): all sat!",
    "L'eau est là, n'est-ce pas ?",
    "我喜欢猫。猫也喜欢我！",
] * 3
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
HARD = [
    "",
    " ",
    "  two  spaces  ",
    "\n\r\n\t",
    "\0",
    "e\u0301",
    "👩‍👩‍👧 ok",
    "\u2028a\x85b",
    "<eos> <pad>",
    "\ufeff",
    "𠀀中",
]


def trained(kind, texts=TEXTS, size=400, **options):
    return train_vocabulary(kind, texts, size, **options)


BPE, BYTES = trained("bpe"), trained("byte")


def given_texts(function):
    for text in HARD:
        function = example(text=text)(function)
    return examples(200, 3000)(given(text=TEXT)(function))


# -- back again ------------------------------------------------------------------------------------------------------


@given_texts
def test_bytes_and_byte_pairs_give_every_text_back(text):
    for vocabulary in (BPE, BYTES):
        assert vocabulary.decode(vocabulary.encode(text)) == text


@given_texts
def test_characters_of_a_trained_text_are_decoded_exactly(text):
    known = CharacterVocabulary.train([text, "a"], 10_000)
    assert known.decode(known.encode(text)) == text


@given_texts
def test_words_give_the_text_back_with_single_spaces(text):
    known = WordVocabulary.train([text, "a"], 10_000)
    assert known.decode(known.encode(text)) == " ".join(text.split())


@given_texts
def test_spans_say_which_characters_a_token_stands_for(text):
    known = [kind.train([text, "a"], 10_000) for kind in (WordVocabulary, CharacterVocabulary)]
    for vocabulary in (BPE, BYTES, *known):
        spans = vocabulary.spans(text)
        ids = vocabulary.encode(text)
        assert len(spans) == len(ids)
        covered = set()
        for (start, end), piece, number in zip(spans, vocabulary.pieces(ids), ids, strict=True):
            assert 0 <= start < end <= len(text)
            covered.update(range(start, end))
            if "\\x" not in piece and number != vocabulary.unk:
                assert text[start:end] == piece
        spaces = {place for place, letter in enumerate(text) if letter.isspace()}
        assert covered | spaces == set(range(len(text)))
        assert spans == sorted(spans)


def test_spans_of_words_bytes_and_byte_pairs_are_those_computed_by_hand():
    assert trained("word").spans(" the  cat,\tx") == [(1, 4), (6, 9), (9, 10), (11, 12)]
    assert BYTES.spans("né") == [(0, 1), (1, 2), (1, 2)]
    vocabulary = BytePairVocabulary.train(["the cat"] * 5, 300)
    assert vocabulary.spans("the cat 好") == [(0, 3), (3, 7), (7, 8), (8, 9), (8, 9), (8, 9)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_encoded_like_its_texts_one_by_one(kind):
    vocabulary = trained(kind)
    texts = [*TEXTS, *HARD]
    assert vocabulary.encode_batch(texts) == [vocabulary.encode(text) for text in texts]
    assert vocabulary.encode_batch([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_lower_casing_keeps_the_character_spans(kind):
    vocabulary = trained(kind, lowercase=True)
    text = "THE CAT İ SAT"  # İ in lower case would be two characters
    assert vocabulary.encode("THE CAT") == vocabulary.encode("the cat")
    assert vocabulary.spans(text)[-1][1] == len(text)
    assert vocabulary.decode(vocabulary.encode("The Mat")) == "the mat"
    assert trained(kind).encode("THE CAT") != trained(kind).encode("the cat")


# -- words -----------------------------------------------------------------------------------------------------------


def pieces(text, kind="word", texts=None):
    vocabulary = trained(kind, texts or [text])
    return vocabulary.pieces(vocabulary.encode(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("我喜欢tea。", ["我", "喜", "欢", "tea", "。"]),
        ("l'eau (3.5 km)", ["l", "'", "eau", "(", "3", ".", "5", "km", ")"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),  # marks stay with their letters
        ("a\u00a0b\u2028c", ["a", "b", "c"]),
    ],
)
def test_text_is_split_into_words_and_punctuation(text, words):
    assert pieces(text) == words


def test_punctuation_comes_out_where_it_belongs():
    vocabulary = trained("word")
    ids = vocabulary.encode("the mat, the dog (and cat): sat!")
    assert vocabulary.decode(ids) == "the mat, the dog (and cat): sat!"
    assert vocabulary.decode(vocabulary.encode("猫喜欢我。")) == "猫喜欢我。"


def test_a_word_is_known_with_and_without_a_space_before_it():
    vocabulary = WordVocabulary.train(["the cat, sat"], 100)
    assert vocabulary.pieces(vocabulary.encode("(cat ,the")) == ["<unk>", "cat", ",", "the"]
    assert len(vocabulary) == 4 + 4  # one form of each word is stored


def test_a_word_has_the_same_id_at_the_start_and_at_the_end_of_a_text():
    vocabulary = WordVocabulary.train(["cat and cat", "我不是我"], 100)
    for text in ("cat and cat", "我不是我"):
        ids = vocabulary.encode(text)
        assert ids[0] == ids[-1]


def test_the_most_frequent_words_stay_and_the_rest_is_unknown():
    vocabulary = WordVocabulary.train(["b b b a a c"], 6)
    assert vocabulary.encode("a b c d") == [5, 4, 3, 3]
    assert vocabulary.decode([5, 3, 4]) == "a \ufffd b"
    assert len(vocabulary) == 6


# -- labels ----------------------------------------------------------------------------------------------------------


def test_labels_are_text_and_parts_of_characters_are_bytes():
    assert BYTES.pieces(BYTES.encode("né")) == ["n", "\\xc3", "\\xa9"]
    assert pieces("the cat", "bpe", ["the cat"] * 5) == ["the", " cat"]
    assert BPE.pieces([0, 1, 2]) == ["<pad>", "<bos>", "<eos>"]


@given_texts
def test_labels_join_to_the_text(text):
    labels = BPE.pieces(BPE.encode(text))
    if not any("\\x" in label for label in labels):
        assert "".join(labels) == text


# -- specials --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_can_spell_a_special(kind):
    spelled = "<pad><bos><eos><unk><to-fr> <eos>"
    vocabulary = trained(kind, [*TEXTS, spelled, spelled, spelled], specials=["<to-fr>"])
    first = len(vocabulary.specials)
    assert min(vocabulary.encode(spelled)) >= first
    assert vocabulary.decode(vocabulary.encode(spelled)) == spelled
    assert vocabulary.special("<to-fr>") == first - 1 == (3 if vocabulary.unk is None else 4)


@pytest.mark.parametrize("kind", KINDS)
def test_specials_are_never_in_the_text(kind):
    vocabulary = trained(kind, specials=["<to-fr>"])
    word = vocabulary.encode("the cat")
    ids = [vocabulary.special("<to-fr>"), vocabulary.bos, *word, vocabulary.pad, vocabulary.eos, *word]
    assert vocabulary.decode(ids) == "the cat"
    assert vocabulary.decode([vocabulary.eos]) == vocabulary.decode([]) == ""
    assert [vocabulary.special(name) for name in ("<pad>", "<bos>", "<eos>")] == [0, 1, 2]
    with pytest.raises(UnknownNameError, match="did you mean '<to-fr>'"):
        vocabulary.special("<to-de>")


@pytest.mark.parametrize("specials", [["<eos>"], ["<a>", "<a>"], [""], [3]])
def test_special_tokens_with_duplicate_or_invalid_names_are_refused(specials):
    with pytest.raises(ArgumentError, match="specials"):
        trained("byte", specials=specials)
    with pytest.raises(DtypeError, match="write \\['<a>'\\]"):
        trained("byte", specials="<a>")


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_surrogate_pair_is_refused(kind):
    vocabulary = trained(kind)
    for call in (vocabulary.encode, vocabulary.spans, lambda text: vocabulary.encode_batch(["a", text])):
        with pytest.raises(ArgumentError, match=r"character '\\ud83d' at 3 is half of a surrogate pair"):
            call("abc\ud83d")
    if kind != "byte":  # which reads no texts
        with pytest.raises(ArgumentError, match="surrogate"):
            trained(kind, [*TEXTS, "abc\ud83d"])


@pytest.mark.parametrize("kind", KINDS)
def test_ids_outside_the_vocabulary_are_refused(kind):
    vocabulary = trained(kind)
    with pytest.raises(OutsideError, match=f"ids: {len(vocabulary)} is not an id"):
        vocabulary.decode([4, len(vocabulary)])
    with pytest.raises(OutsideError, match="ids: -1"):
        vocabulary.pieces([-1])
    with pytest.raises(DtypeError, match="whole numbers"):
        vocabulary.decode([1.5])
    with pytest.raises(DtypeError, match="one by one"):
        vocabulary.decode(torch.ones(2, 3, dtype=torch.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_and_arrays_are_ids_too(kind):
    vocabulary = trained(kind)
    ids = vocabulary.encode("the cat")
    assert vocabulary.decode(torch.tensor(ids)) == vocabulary.decode(np.array(ids)) == "the cat"


def test_inputs_that_are_not_texts_are_refused():
    with pytest.raises(DtypeError, match="text: expected a str, got bytes"):
        BPE.encode(b"abc")
    with pytest.raises(DtypeError, match=r"put it in a list: \[text\]"):
        BPE.encode_batch("abc")
    with pytest.raises(DtypeError, match="expected many texts"):
        trained("word", "abc")


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_training_on_no_text_is_an_error(kind):
    assert len(trained(kind, ["a b"] * 1000)) > 4
    with pytest.raises(ArgumentError, match="there is no text to learn from"):
        trained(kind, iter([]))


@pytest.mark.parametrize(("kind", "size"), [("bpe", 258), ("byte", 258), ("word", 4), ("character", 0)])
def test_sizes_that_are_too_small_are_refused(kind, size):
    with pytest.raises(ArgumentError, match=f"size: expected .* got {size}"):
        trained(kind, size=size)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 259), ("bpe", 300), ("word", 9), ("character", 8)])
def test_a_size_is_never_exceeded(kind, size):
    vocabulary = trained(kind, size=size)
    assert len(vocabulary) == size
    assert max(max(ids) for ids in vocabulary.encode_batch(TEXTS)) < size


def test_an_unknown_kind_is_answered_with_the_right_one():
    with pytest.raises(UnknownNameError, match="kind: unknown name 'char': did you mean 'character'"):
        train_vocabulary("char", TEXTS, 100)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_vocabulary_is_loaded_unchanged(kind, tmp_path):
    path = tmp_path / "v.json"
    for options in ({}, {"lowercase": True, "specials": ["<to-fr>", "<到中文>"]}):
        vocabulary = trained(kind, **options)
        vocabulary.save(path)
        again = load_vocabulary(path)
        assert type(again) is type(vocabulary)
        assert again == vocabulary
        assert hash(again) == hash(vocabulary)
        assert (again.specials, again.lowercase) == (vocabulary.specials, vocabulary.lowercase)
        texts = [*TEXTS, *HARD]
        assert again.encode_batch(texts) == vocabulary.encode_batch(texts)
    assert trained(kind) != vocabulary
    json.loads(path.read_text(encoding="utf-8"))
    assert os.listdir(tmp_path) == ["v.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_short_says_so(kind, tmp_path):
    path = tmp_path / "v.json"
    trained(kind).save(path)
    whole = path.read_bytes()
    for end in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(FileError, match=r"v\.json: not JSON, or cut short"):
            load_vocabulary(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_a_part_missing_says_so(kind, tmp_path):
    content = trained(kind).to_json()
    for name in content:
        (tmp_path / "v.json").write_text(json.dumps({**content, name: None}))
        with pytest.raises(FileError, match=re.escape(str(tmp_path / "v.json"))):
            load_vocabulary(tmp_path / "v.json")


def altered(**changes):
    content = trained("bpe").to_json()
    content["tokenizer"] = {**content["tokenizer"], **changes}
    return content


@pytest.mark.parametrize(
    "content",
    [
        altered(normalizer={"type": "Lowercase"}),
        altered(truncation={"max_length": 3}),
        altered(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}),
        altered(model={**altered()["tokenizer"]["model"], "dropout": 0.5}),
        altered(model={"type": "BPE", "vocab": {"a": 0}, "merges": []}),
        {**trained("word").to_json(), "tokens": [" a", " a"]},
        {**trained("word").to_json(), "tokens": ["a b"]},
        {**trained("character").to_json(), "tokens": ["ab"]},
    ],
)
def test_an_altered_vocabulary_file_is_refused(content, tmp_path):
    (tmp_path / "v.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match="does not hold a complete vocabulary"):
        load_vocabulary(tmp_path / "v.json")


def test_files_of_another_kind_are_named(tmp_path):
    with pytest.raises(FileError, match=r"none\.json: no such file"):
        load_vocabulary(tmp_path / "none.json")
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        load_vocabulary(tmp_path)
    path = tmp_path / "v.json"
    for text, problem in [
        ("[]", "expected a JSON object, got list"),
        ("{}", "expected format"),
        ('{"format": "regard.map/1"}', "got 'regard.map/1'"),
        ('{"format": "regard.vocabulary/1", "kind": "wrod"}', "unknown kind 'wrod': known are bpe, word"),
    ]:
        path.write_text(text)
        with pytest.raises(FileError, match=problem):
            load_vocabulary(path)
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(FileError, match="not JSON"):
        load_vocabulary(path)


def test_from_json_checks_its_kind():
    with pytest.raises(ArgumentError, match="expected kind 'word', got 'byte'"):
        WordVocabulary.from_json(ByteVocabulary().to_json())


# -- other processes -------------------------------------------------------------------------------------------------


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, **environment},
    ).stdout.strip()


def test_training_gives_the_same_every_time():
    code = (
        "import random\nfrom regard.text import train_vocabulary\n"
        "words = ['ab', 'ba', 'aab', 'bba', 'cd', 'dc', '猫', '狗']\n"
        "texts = [' '.join(random.Random(n).choices(words, k=9)) for n in range(500)]\n"  # many ties
        "print([train_vocabulary(k, texts, 280).fingerprint for k in ('bpe', 'word', 'character')])\n"
    )
    seen = {run(code, PYTHONHASHSEED=seed, RAYON_NUM_THREADS=seed) for seed in ("1", "2")}
    assert len(seen) == 1


def test_the_room_loads_neither_torch_nor_tokenizers():
    code = (
        "import sys, regard.text, regard.text.vocabularies, regard.text.readers\n"
        "from regard.text import train_vocabulary, read_pairs\n"
        "train_vocabulary('word', ['a'], 9)\n"
        "print({'torch', 'tokenizers', 'datasets', 'numpy'} & set(sys.modules))"
    )
    assert run(code) == "set()"


def test_every_public_name_of_regard_text_is_an_attribute():
    import regard.text

    for name in regard.text.__all__:
        assert getattr(getattr(regard.text, name), "__name__", name) == name  # a constant has none
    assert {name for names in regard.text._HOMES.values() for name in names} == set(regard.text.__all__)
    assert set(regard.text.__all__) <= set(dir(regard.text))
    with pytest.raises(AttributeError, match="has no attribute 'Vocab'"):
        getattr(regard.text, "Vocab")  # noqa: B009


def test_a_missing_tokenizers_is_named_with_its_command(monkeypatch):
    content = BPE.to_json()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for call in (lambda: trained("bpe"), lambda: BytePairVocabulary.from_json(content)):
        with pytest.raises(MissingExtraError, match=r"pip install .*\[text\]'"):
            call()
