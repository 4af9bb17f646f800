"""Vocabularies of pretrained models, compared with the tokenizers of Transformers."""

from __future__ import annotations

import json

import pytest

from regard.errors import ArgumentError, FileError, OutsideError, UnknownNameError
from regard.text import (
    ByteVocabulary,
    ClassLabels,
    Framing,
    LabelledData,
    PretrainedVocabulary,
    load_vocabulary,
    train_vocabulary,
)
from support.pretrained_folders import (
    BERT_TOKENS,
    TEXTS,
    minilm_folder,
    write_bert_vocabulary,
    write_roberta_vocabulary,
)

pytest.importorskip("tokenizers", reason="the extra text is not installed")


def bert(tmp_path, **settings):
    write_bert_vocabulary(tmp_path, **settings)
    return PretrainedVocabulary.from_folder(tmp_path)


def roberta(tmp_path):
    write_roberta_vocabulary(tmp_path)
    return PretrainedVocabulary.from_folder(tmp_path)


def peer(name, folder):
    transformers = pytest.importorskip("transformers", reason="the peers are in the extra hf")
    return getattr(transformers, name).from_pretrained(folder)


def framed_by_peer(tokenizer, text, second=None):
    encoded = tokenizer(text, second, return_token_type_ids=True)
    return encoded["input_ids"], encoded["token_type_ids"]


@pytest.mark.parametrize("make", [bert, roberta], ids=["bert", "roberta"])
@pytest.mark.parametrize("text", [*TEXTS, "a [MASK] fox", "a<mask> fox"])
def test_ids_and_types_are_those_of_transformers(make, text, tmp_path):
    vocabulary = make(tmp_path)
    tokenizer = peer("BertTokenizer" if make is bert else "RobertaTokenizer", tmp_path)
    ids = vocabulary.encode(text)
    framed = vocabulary.framing.frame(ids)
    assert (framed.ids, framed.types) == framed_by_peer(tokenizer, text)
    pair = vocabulary.framing.frame(ids, vocabulary.encode(TEXTS[0]))
    assert (pair.ids, pair.types) == framed_by_peer(tokenizer, text, TEXTS[0])
    assert [pair.ids[place] for place in pair.first] == ids
    assert vocabulary.encode_batch([text, TEXTS[0]])[0] == ids
    assert (vocabulary.pad, vocabulary.mask) == (tokenizer.pad_token_id, tokenizer.mask_token_id)
    assert (vocabulary.bos, vocabulary.eos) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


@pytest.mark.parametrize("text", TEXTS)
def test_minilm_is_read_without_its_truncation(text):
    folder = minilm_folder()
    vocabulary = PretrainedVocabulary.from_folder(folder, size=30522)
    tokenizer = peer("AutoTokenizer", folder)
    assert vocabulary.framing.frame(vocabulary.encode(text)).ids == tokenizer(text)["input_ids"]
    long = " ".join(["word"] * 700)
    assert len(vocabulary.encode(long)) == len(vocabulary.encode_batch([long])[0]) == 700


@pytest.mark.parametrize("make", [bert, roberta], ids=["bert", "roberta"])
@pytest.mark.parametrize("text", TEXTS)
def test_spans_are_characters_of_the_original_text(make, text, tmp_path):
    vocabulary = make(tmp_path)
    spans = vocabulary.spans(text)
    assert len(spans) == len(vocabulary.encode(text))
    covered = {place for start, end in spans for place in range(start, end) if not text[place].isspace()}
    assert covered == {place for place, letter in enumerate(text) if not letter.isspace()}
    assert all(0 <= start < end <= len(text) for start, end in spans) or make is roberta  # tokens of spaces


def test_a_span_holds_capitals_accents_and_combining_marks(tmp_path):
    vocabulary = bert(tmp_path)
    text = "Café A\u0300 la 中文"
    pieces = [text[start:end] for start, end in vocabulary.spans(text)]
    assert pieces == ["Café", "A\u0300", "la", "中", "文"]
    assert vocabulary.pieces(vocabulary.encode(text)) == ["cafe", "a", "la", "中", "文"]


def test_the_settings_beside_the_tokenizer_are_used(tmp_path):
    cased = bert(tmp_path / "cased", do_lower_case=False)
    assert cased.pieces(cased.encode("The É")) == ["The", "É"]
    lowered = bert(tmp_path / "lowered")
    assert lowered.pieces(lowered.encode("The É")) == ["the", "e"]
    # tokenizer.json is written in lower case, and its settings say otherwise.
    spec = lowered.to_json()["tokenizer"]
    (tmp_path / "cased" / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    both = PretrainedVocabulary.from_folder(tmp_path / "cased")
    assert both.encode("The É") == cased.encode("The É")


@pytest.mark.parametrize("make", [bert, roberta], ids=["bert", "roberta"])
def test_a_pretrained_vocabulary_is_saved_and_loaded(make, tmp_path):
    vocabulary = make(tmp_path)
    vocabulary.save(tmp_path / "ours.json")
    again = load_vocabulary(tmp_path / "ours.json")
    assert again == vocabulary
    assert again.encode_batch(TEXTS) == vocabulary.encode_batch(TEXTS)
    assert (again.framing, again.mask, len(again)) == (vocabulary.framing, vocabulary.mask, len(vocabulary))


def test_decoded_ids_are_the_text_and_unknown_names_are_refused(tmp_path):
    vocabulary = roberta(tmp_path)
    ids = vocabulary.framing.frame(vocabulary.encode(TEXTS[0])).ids
    assert vocabulary.decode(ids[1:]) == TEXTS[0]
    assert "".join(vocabulary.pieces(vocabulary.encode(" lazy fox"))) == " lazy fox"
    # As in the tokenizer.json of RoBERTa, the mask takes the space before it.
    assert vocabulary.pieces(vocabulary.encode("a <mask>")) == ["a", "<mask>"]
    assert vocabulary.pieces([vocabulary.mask]) == ["<mask>"]
    assert vocabulary.special("<mask>") == vocabulary.mask
    with pytest.raises(UnknownNameError, match="name: unknown name '<musk>': did you mean '<mask>'"):
        vocabulary.special("<musk>")
    with pytest.raises(OutsideError, match="ids: 999 is not an id"):
        vocabulary.decode([999])


def test_a_model_may_have_more_tokens_than_its_tokenizer(tmp_path):
    write_bert_vocabulary(tmp_path)
    vocabulary = PretrainedVocabulary.from_folder(tmp_path, size=200)
    assert len(vocabulary) == 200
    assert vocabulary.pieces([199]) == ["[199]"]


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    write_bert_vocabulary(tmp_path)
    last = len(BERT_TOKENS) - 1
    with pytest.raises(
        FileError, match=f"has ids up to {last}, but the model has 50 tokens: it belongs to another"
    ):
        PretrainedVocabulary.from_folder(tmp_path, size=50)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("x.txt", "", "there is no tokenizer: expected tokenizer.json, vocab.txt"),
        ("sentencepiece.bpe.model", "", r"sentencepiece.bpe.model cannot be read.*save_pretrained\(\)"),
        ("tokenizer.json", "{", "tokenizer.json: not JSON, or cut short"),
        ("tokenizer.json", '{"a": 1}', "tokenizer.json: not a tokenizer"),
        ("tokenizer.json", '{"model": {"type": "Unheard"}}', "the package tokenizers cannot read it"),
        ("vocab.txt", "a\nb\n", r"vocab.txt: \[UNK\] is missing"),
    ],
)
def test_files_that_are_no_tokenizer_are_named(tmp_path, name, content, text):
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=text):
        PretrainedVocabulary.from_folder(tmp_path)


def test_a_tokenizer_without_special_tokens_is_refused(tmp_path):
    spec = bert(tmp_path).to_json()["tokenizer"] | {"post_processor": None}
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    with pytest.raises(
        FileError, match="puts 0 special tokens before a text and 0 after it: expected one and one"
    ):
        PretrainedVocabulary.from_folder(tmp_path)


def test_training_a_pretrained_vocabulary_is_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="kind: unknown name 'pretrained'"):
        train_vocabulary("pretrained", ["a"], 10)
    with pytest.raises(ArgumentError, match="is not trained: read it from its folder"):
        PretrainedVocabulary.train(["a"], 10)


def test_labelled_texts_have_the_special_tokens_of_their_vocabulary(tmp_path):
    vocabulary = bert(tmp_path)
    rows = [("the fox", "x"), ("a", "y")]
    data = LabelledData.build(rows, vocabulary, ClassLabels.of(rows), tmp_path / "cache")
    ids = [[vocabulary.bos, *vocabulary.encode(text), vocabulary.eos] for text, _ in rows]
    for one in (data, LabelledData.open(tmp_path / "cache")):
        batch = one.batch([0, 1])
        assert batch.tokens.tolist() == [ids[0], [*ids[1], vocabulary.pad]]
        assert batch.lengths.tolist() == one.lengths()[:, 0].tolist() == [4, 3]
    own = LabelledData.in_memory(rows, ByteVocabulary(), ClassLabels.of(rows))
    assert own.batch([1]).tokens.tolist() == [[100, 2]]


FRAMINGS = {
    "bert": Framing(start=101, end=102, between=(102,)),
    "roberta": Framing(start=0, end=2, pad=1, between=(2, 2), second_type=0),
    "own": ByteVocabulary().framing,
}


@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize(("one", "two"), [(3, 4), (9, 1), (1, 9), (9, 9), (0, 9), (9, 0)])
def test_long_pairs_are_cut_at_the_longer_side(framing, one, two):
    first, second = list(range(200, 200 + one)), list(range(300, 300 + two))
    for most in range(framing.added(pair=True) + 1, 25):
        framed = framing.frame(first, second, most)
        assert len(framed.ids) == len(framed.types) == min(most, one + two + framing.added(pair=True))
        kept = [[framed.ids[place] for place in side or ()] for side in (framed.first, framed.second)]
        assert kept == [first[: len(kept[0])], second[: len(kept[1])]]
        assert framed.cut == (len(kept[0]) < one or len(kept[1]) < two)
        # Neither side is shorter than the other and cut.
        if framed.cut:
            assert len(kept[0]) == one or len(kept[0]) >= len(kept[1])
            assert len(kept[1]) == two or len(kept[1]) >= len(kept[0]) - 1
    with pytest.raises(ArgumentError, match="most: expected more than the"):
        framing.frame(first, second, framing.added(pair=True))


def test_a_batch_is_padded_with_the_id_of_padding():
    framing = FRAMINGS["roberta"]
    tokens, types, lengths = framing.pad_batch([framing.frame([7, 8]), framing.frame([9])])
    assert tokens.tolist() == [[0, 7, 8, 2], [0, 9, 2, 1]]
    assert types.tolist() == [[0] * 4] * 2
    assert lengths.tolist() == [4, 3]
