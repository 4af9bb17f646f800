"""The translation task: settings, data, translator, alignments, evaluation, cards."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.decoding import DecodingOptions
from regard.errors import ArgumentError, FileError, RegardError
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.tasks.translate import (
    TranslationSettings,
    Translator,
    align,
    evaluate,
    find_translator,
    installed_models,
    settings_of_run,
    train_translator,
)
from regard.tasks.translate.alignment import AlignedPair, Reading, all_readings, choose_reading, error_rates
from regard.tasks.translate.card import everyday_sentences, training_command
from regard.tasks.translate.data import prepare, training_pairs
from regard.tasks.translate.evaluation import group_references
from regard.tasks.translate.gold import diagonal_error_rate, embedded_aligned, read_aligned
from regard.tasks.translate.packing import pack
from regard.text import WordVocabulary, train_vocabulary
from regard.text.corpus import LEFT_OUT, generate

TINY = {
    "embedded": 300,
    "vocabulary_size": 400,
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "feed_forward": 32,
    "batch_tokens": 800,
    "validate_sentences": 10,
    "steps": 3,
}


@pytest.fixture(scope="module")
def vocabulary():
    texts = [text for triple in generate(300) for text in (triple.english.text, triple.french.text)]
    return train_vocabulary("bpe", texts, 400)


def translator_with(vocabulary, kind="transformer", **options) -> Translator:
    torch.manual_seed(0)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "width": 16}
    if kind == "transformer":
        model = Transformer(TransformerConfig(**sizes, heads=2, feed_forward=32, decoder_layers=2, **options))
    else:
        model = Seq2Seq(Seq2SeqConfig(**sizes, **options))
    return Translator(model.eval(), vocabulary, vocabulary, source_language="en", target_language="fr")


@pytest.fixture(scope="module")
def translator(vocabulary):
    return translator_with(vocabulary)


# ---- translating


def test_translations_come_in_the_order_of_the_texts(translator):
    texts = ["The dog sleeps.", "", "A cat.", "She gave him the small red book yesterday.", " "]
    together = translator.translate(texts, DecodingOptions(beams=2))
    assert [one.source for one in together] == texts
    for text, one in zip(texts, together, strict=True):
        (alone,) = translator.translate([text], DecodingOptions(beams=2))
        assert alone.text == one.text
        assert alone.score == pytest.approx(one.score, abs=1e-4)
    assert together[1].text == together[4].text == ""  # nothing is made up for nothing


def test_alternatives_are_the_rest_of_the_n_best(translator):
    (one,) = translator.translate(["The dog sleeps."], DecodingOptions(beams=3, n_best=3))
    assert len(one.alternatives) == 2
    assert [one.score, *(score for _, score in one.alternatives)] == sorted(
        [one.score, *(score for _, score in one.alternatives)], reverse=True
    )


def test_a_string_is_not_a_list_of_sentences(translator):
    with pytest.raises(ArgumentError, match="texts: expected a list of sentences, got one string"):
        translator.translate("The dog sleeps.")


def test_saving_and_loading(translator, vocabulary, tmp_path):
    translator.save(tmp_path / "one")
    again = Translator.load(tmp_path / "one")
    assert (again.source_language, again.target_language) == ("en", "fr")
    texts = [triple.english.text for triple in generate(5, split="test")]
    assert [one.text for one in again.translate(texts)] == [one.text for one in translator.translate(texts)]
    two = Translator(translator.model, vocabulary, WordVocabulary.train(["le chat"], len(vocabulary)))
    two.save(tmp_path / "two")
    assert {path.name for path in (tmp_path / "two").iterdir()} >= {"source.json", "target.json"}
    assert Translator.load(tmp_path / "two").target.kind == "word"


def test_a_folder_that_is_no_translator(translator, tmp_path):
    with pytest.raises(FileError, match="no such file: is this the folder of a model"):
        Translator.load(tmp_path)
    translator.model.save_pretrained(tmp_path / "bare")
    with pytest.raises(ArgumentError, match="is not a translator"):
        Translator.load(tmp_path / "bare")


def test_unknown_words_are_copied_from_the_source_word_looked_at_most(monkeypatch):
    words = WordVocabulary.train(["the dog sees"], 100)
    translator = translator_with(words)
    source = "the Zorglub sees"
    ids = words.encode(source)
    assert ids[1] == words.unk

    def looked(source_ids, target_ids):
        weights = torch.zeros(1, 2, len(target_ids) + 2, len(source_ids) + 1)
        weights[:, :, 0, 1] = 1.0  # the first word written looks at the unknown one
        return [type("Seen", (), {"kind": "cross", "weights": weights})()]

    monkeypatch.setattr(translator, "attention", looked)
    assert translator._readable(source, ids, [words.unk, *words.encode("sees")]) == "Zorglub sees"


# ---- alignments


def test_alignment_covers_the_words_of_both_sides(translator):
    (one,) = translator.translate(["The dog sleeps on the sofa."])
    found = align(translator, one)
    assert found.source_words == ["The", "dog", "sleeps", "on", "the", "sofa", "."]
    assert found.weights.shape == (len(found.target_words), 7)
    assert (found.weights >= 0).all()
    assert (found.weights.sum(axis=1) <= 1 + 1e-6).all()


def test_both_steps_of_a_reading_are_one_row_apart(translator):
    pair = AlignedPair("A dog.", "Un chien.", ((0, 1), (2, 5), (5, 6)), ((0, 2), (3, 8), (8, 9)))
    seen = translator.attention(translator.source.encode(pair.source), translator.target.encode(pair.target))
    cross = [one.weights[0, 1] for one in seen if one.kind == "cross"][1]  # layer 1, head 1: (t,s)
    from regard.tasks.translate.alignment import _token_weights

    crosses = [one for one in seen if one.kind == "cross"]
    for after, first in ((False, 0), (True, 1)):
        found = _token_weights(crosses, Reading(1, 1, after), 0, 3, 2)
        np.testing.assert_allclose(found, cross[first : first + 3, :2].numpy(), atol=1e-6)


def test_the_reading_with_the_lowest_error_is_chosen(translator):
    pairs = embedded_aligned(translator, "valid", 30)
    readings = all_readings(translator)
    assert len(readings) == 2 * 3 * 2  # layers, heads and their mean, both steps
    rates = error_rates(translator, pairs, readings)
    chosen, rate = choose_reading(translator, pairs)
    assert rate == min(rates)
    assert chosen == readings[rates.index(rate)]


def test_perfect_attention_has_no_error(monkeypatch, translator):
    pairs = embedded_aligned(translator, "valid", 20)
    from regard.tasks.translate import alignment

    def perfect(translator, pairs, readings, written=None):
        for pair in pairs:
            weights = np.zeros((len(pair.target_words), len(pair.source_words)))
            for i, j in pair.sure:
                weights[j, i] = 1
            yield [weights] * len(readings)

    monkeypatch.setattr(alignment, "_word_weights", perfect)
    (rate,) = error_rates(translator, pairs, [Reading(0)])
    assert rate < 0.25  # one link a word: words with several sure links lose some
    assert rate < diagonal_error_rate(pairs)


def test_models_without_attention_say_so(vocabulary):
    bare = translator_with(vocabulary, "seq2seq", attention=None)
    assert not bare.attends
    assert translator_with(vocabulary, "seq2seq").attends
    (one,) = bare.translate(["A dog."])
    with pytest.raises(ArgumentError, match="it has no attention to the source"):
        align(bare, one)


def test_gold_files(tmp_path):
    path = tmp_path / "gold.tsv"
    path.write_text("the dog .\tle chien .\t0-0 1-1\t2-2\n", encoding="utf-8")
    (pair,) = read_aligned(path)
    assert (pair.source, pair.target) == ("the dog.", "le chien.")
    assert [pair.source[a:b] for a, b in pair.source_words] == ["the", "dog", "."]
    assert pair.sure == {(0, 0), (1, 1)}
    assert pair.possible == {(0, 0), (1, 1), (2, 2)}
    for text, message in [
        ("a\tb\n", "line 1: expected 3 or 4 columns, got 2"),
        ("a\tb\t0:0\n", "line 1: expected links such as 0-1, got '0:0'"),
        ("a\tb\t0-1\n", "line 1: link 0-1 points outside 1 and 1 words"),
        ("", "there are no sentences"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FileError, match=message):
            read_aligned(path)


# ---- evaluation


def test_references_of_one_source_belong_together():
    sources, sides = group_references([("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")])
    assert sources == ["a", "b"]
    assert sides == [["1", "2"], ["3", None], ["4", None]]
    with pytest.raises(ArgumentError, match="nothing to evaluate"):
        group_references([])


def test_evaluation_of_a_translator_that_is_always_right(translator, monkeypatch):
    pairs = [(triple.english.text, triple.french.text) for triple in generate(40, split="test")]
    right = dict(pairs)

    def translate(texts, options=None):
        return [dataclasses.replace(translator_answer, source=text, text=right[text]) for text in texts]

    (translator_answer,) = translator.translate(["A dog."])
    monkeypatch.setattr(translator, "translate", translate)
    found = evaluate(translator, pairs)
    assert found.bleu.score == pytest.approx(100)
    assert found.sentences == 40
    assert sum(count for _, count, _ in found.by_length) == 40
    values = json.loads(json.dumps(found.to_json()))
    assert values["chrf"]["signature"]


# ---- data and training


def test_training_data_holds_files_and_embedded_sentences(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a dog\tun chien\n" * 2 + "a cat\tun chat\n", encoding="utf-8")
    settings = TranslationSettings(data=str(path), valid=str(path), embedded=5, steps=1, vocabulary_size=300)
    pairs = list(training_pairs(settings))
    assert pairs[:3] == [("a dog", "un chien")] * 2 + [("a cat", "un chat")]
    assert len(pairs) == 8
    data = prepare(settings, tmp_path / "run")
    assert len(data.train) == 7  # once each
    assert data.skipped.duplicates == 1


def test_without_data_the_embedded_corpus_is_used():
    pairs = list(training_pairs(TranslationSettings(embedded=50, steps=1)))
    assert len(pairs) == 50
    assert not {pair[0] for pair in pairs} & set(LEFT_OUT)


def test_data_without_validation_is_refused(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a dog\tun chien\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="valid: not given"):
        prepare(TranslationSettings(data=str(path), steps=1), tmp_path / "run")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "seq2seq", "attention": "additive"},
        {"model": "seq2seq", "attention": "none"},
        {"vocabulary": "word", "shared_vocabulary": False, "target_language": "zh"},
    ],
    ids=["transformer", "additive", "fixed vector", "words, Chinese"],
)
def test_training_writes_a_translator_that_works(tmp_path, options):
    settings = TranslationSettings(**{**TINY, **options})
    outcome = train_translator(settings, tmp_path, show=False)
    assert outcome.step == 3
    trained = Translator.load(find_translator(tmp_path))
    (one,) = trained.translate(["The dog sleeps."])
    assert isinstance(one.text, str)
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "regard train translate" in card
    assert settings_of_run(tmp_path) == settings


def test_a_folder_with_a_run_is_refused_before_anything_in_it_changes(tmp_path):
    train_translator(TranslationSettings(**TINY), tmp_path, show=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = TranslationSettings(**{**TINY, "embedded": 200, "width": 32})
    with pytest.raises(FileError, match="holds a run already"):
        train_translator(other, tmp_path, show=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_resumed_run_keeps_what_defines_it(tmp_path):
    train_translator(TranslationSettings(**TINY), tmp_path, show=False)
    assert settings_of_run(tmp_path, {"steps": 5}).steps == 5
    with pytest.raises(ArgumentError, match="width: the run was started with 16, not 32"):
        settings_of_run(tmp_path, {"width": 32})
    outcome = train_translator(settings_of_run(tmp_path, {"steps": 5}), tmp_path, resume=True, show=False)
    assert outcome.step == 5
    with pytest.raises(FileError, match="there is no run to resume here"):
        settings_of_run(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "transfromer"}, "model: unknown name 'transfromer': did you mean 'transformer'"),
        ({"target_language": "en"}, "target_language: the same as source_language"),
        ({"label_smoothing": 1.0}, "label_smoothing: expected a share"),
        ({"batch_tokens": 8}, "batch_tokens: 8 tokens hold no sentence of max_tokens=128"),
        ({"target_data": "x"}, "target_data: given without data"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(RegardError, match=message):
        TranslationSettings(**options)


# ---- cards and packing


def test_the_training_command_says_all_that_is_not_default():
    settings = TranslationSettings(
        data="/some/where/train.tsv",
        valid="v.tsv",
        width=64,
        lowercase=True,
        shared_vocabulary=False,
        steps=7,
    )
    assert training_command(settings) == (
        "regard train translate --data train.tsv --valid v.tsv --no-shared-vocabulary --lowercase --width 64 --steps 7"
    )


def test_packing_halves_the_weights_and_keeps_the_reading(tmp_path):
    train_translator(TranslationSettings(**TINY), tmp_path / "run", show=False)
    small = pack(tmp_path / "run", tmp_path / "out", license="CC0", data="made up", sentences=["A dog."])
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    before = (tmp_path / "run" / "best" / "model.safetensors").stat().st_size
    assert (tmp_path / "out" / "model.safetensors").stat().st_size < 0.6 * before
    assert set(small.extra["alignment"]) == {"layer", "head", "after"}
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for part in ("CC0", "made up", "| A dog. |", "AER", "regard train translate"):
        assert part in card


def test_everyday_sentences_are_fifty_and_none_is_of_the_documents():
    sentences = everyday_sentences()
    assert len(sentences) == len(set(sentences)) == 50
    assert not set(sentences) & set(LEFT_OUT)


def test_finding_models(tmp_path, translator, monkeypatch):
    translator.save(tmp_path / "mine")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path))
    assert "mine" in [one.name for one in installed_models()]
    assert find_translator("mine") == tmp_path / "mine"
    assert find_translator(str(tmp_path / "mine")) == tmp_path / "mine"
    with pytest.raises(ArgumentError, match="there is no model for 'de' to 'fr'"):
        find_translator(source="de", target="fr")
    with pytest.raises(FileError, match="neither a folder with a model nor a name; installed are .*mine"):
        find_translator("yours")


def test_no_path_of_the_machine_is_saved_with_a_model(tmp_path):
    train_translator(TranslationSettings(**TINY), tmp_path, show=False)
    for path in (tmp_path / "best").iterdir():
        if path.suffix in (".json", ".md"):
            assert str(Path.home()) not in path.read_text(encoding="utf-8")
            assert str(tmp_path) not in path.read_text(encoding="utf-8")
