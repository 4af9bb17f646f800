"""Tests of the task translate, its settings, data, translator, alignments, evaluation and cards."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.analysis import words_of_tokens
from regard.corpus import LEFT_OUT, generate
from regard.decoding import DecodingOptions, Hypothesis
from regard.errors import ArgumentError, FileError, RegardError
from regard.maps import AttentionMap, Record
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.tasks import find_task, pack
from regard.tasks import vocabularies as vocabularies_module
from regard.tasks.card import training_command
from regard.tasks.sampling import reservoir
from regard.tasks.translate import (
    Translation,
    TranslationSettings,
    Translator,
    align,
    evaluate,
    find_translator,
    installed_models,
    resume_translator,
    settings_of_run,
    train_translator,
    with_defaults,
)
from regard.tasks.translate import data as data_module
from regard.tasks.translate.alignment import (
    AlignedPair,
    all_alignment_heads,
    choose_alignment_head,
    error_rates,
)
from regard.tasks.translate.alignment_head import AlignmentHead
from regard.tasks.translate.data import prepare, training_pairs
from regard.tasks.translate.evaluation import group_references
from regard.tasks.translate.gold import diagonal_error_rate, embedded_aligned, read_aligned
from regard.tasks.translate.task import everyday_sentences
from regard.text import WordVocabulary, train_vocabulary

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
TASK = find_task("translate")
RECURRENT = {"architecture": "seq2seq", "heads": 4, "feed_forward": 1024}  # the two as if they were not given


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
    assert (together[1].text, together[4].text) == ("", " ")  # nothing is made up for nothing


def test_alternatives_are_the_rest_of_the_n_best(translator):
    (one,) = translator.translate(["The dog sleeps."], DecodingOptions(beams=3, n_best=3))
    assert len(one.alternatives) == 2
    assert [one.score, *(score for _, score in one.alternatives)] == sorted(
        [one.score, *(score for _, score in one.alternatives)], reverse=True
    )


def test_a_string_is_not_a_list_of_sentences(translator):
    with pytest.raises(ArgumentError, match="texts: expected a list of texts, got one string"):
        translator.translate("The dog sleeps.")


def test_a_saved_translator_is_loaded_with_its_vocabularies(translator, vocabulary, tmp_path):
    translator.save(tmp_path / "one")
    again = Translator.load(tmp_path / "one")
    assert (again.source_language, again.target_language) == ("en", "fr")
    texts = [triple.english.text for triple in generate(5, split="test")]
    assert [one.text for one in again.translate(texts)] == [one.text for one in translator.translate(texts)]
    words = WordVocabulary.train([f"mot{i}" for i in range(len(vocabulary))], len(vocabulary))
    two = Translator(translator.model, vocabulary, words)
    # Files of another model in the folder are replaced.
    translator.save(tmp_path / "two")
    two.save(tmp_path / "two")
    assert {path.name for path in (tmp_path / "two").iterdir()} >= {"source.json", "target.json"}
    assert Translator.load(tmp_path / "two").target.kind == "word"


def test_a_folder_without_a_translator_is_refused(translator, tmp_path):
    with pytest.raises(FileError, match="is neither a folder with a model nor a name"):
        Translator.load(tmp_path)
    translator.model.save_pretrained(tmp_path / "bare")
    with pytest.raises(ArgumentError, match="is not the model of a task, not for translate"):
        Translator.load(tmp_path / "bare")


def test_unknown_words_are_copied_from_the_source_word_looked_at_most(monkeypatch):
    words = WordVocabulary.train(["the dog sees"], 100)
    translator = translator_with(words)
    source, target_ids = "the Zorglub sees", [words.unk, *words.encode("sees")]
    assert words.encode(source)[1] == words.unk

    def looked(sources, targets, **_):
        weights = torch.zeros(1, 2, len(targets[0]) + 2, len(sources[0]) + 1)
        # The first word written looks at the unknown one.
        weights[:, :, 0, 1] = 1.0
        weights[:, :, 1, 2] = 1.0
        return [Record(name="attention", layer=None, kind="cross", map=AttentionMap.from_weights(weights))]

    monkeypatch.setattr(translator, "forced", looked)
    monkeypatch.setattr(translator, "decoded", lambda *_: [[Hypothesis(target_ids, -1.0, -1.0, True)]])
    (one,) = translator.translate([source], normalize=False)
    assert one.text == "Zorglub sees"
    assert [one.text[a:b] for a, b in translator.target_spans(one)] == ["Zorglub", "sees"]
    found = align(translator, one)
    np.testing.assert_array_equal(found.weights, [[0, 1, 0], [0, 0, 1]])  # each word under its own name


def test_a_copied_word_that_the_vocabulary_knows_keeps_its_place(monkeypatch):
    words = WordVocabulary.train(["the dog sees a"], 100)
    translator = translator_with(words)
    pieces = translator.pieces_of([*words.encode("the"), words.unk, *words.encode("sees")])
    assert pieces == ["the", " \ufffd", " sees"]
    monkeypatch.setattr(translator, "_looked_at", lambda *_: ["?", "dog", "?"])
    shown = translator._readable("x", [], [*words.encode("the"), words.unk, *words.encode("sees")])
    assert (shown.written, shown.tokens) == ("the dog sees", [(0, 3), (4, 7), (8, 12)])


def test_tokens_are_found_in_the_text_also_when_words_are_cut_unusually(translator):
    letters = [translator.target.encode(letter)[0] for letter in "The"]  # the vocabulary has it whole
    text = translator.target.decode(letters)
    assert translator.target.encode(text) != letters
    spans = translator.target_spans(Translation("x", text, 0.0, [], letters))
    assert "".join(text[a:b] for a, b in spans) == text.replace(" ", "")
    assert len(spans) == 3


def test_long_texts_are_cut_where_the_model_was_trained_to(translator):
    translator = Translator(translator.model, translator.source, translator.target, extra={"max_tokens": 11})
    text = "The dog sleeps. " * 3 + "The cat " * 9
    pieces = translator._pieces(text.strip())
    assert " ".join(pieces) == text.strip()
    assert all(len(translator.source.spans(piece)) <= 11 for piece in pieces)
    (one,) = translator.translate([text], DecodingOptions(beams=2, n_best=2), normalize=False)
    assert [part.source for part in one.parts] == pieces
    assert one.text == " ".join(part.text for part in one.parts)
    assert one.alternatives[0][0] == " ".join(part.alternatives[0][0] for part in one.parts)
    (one,) = translator.translate([text], DecodingOptions(beams=2, n_best=2))
    assert " ".join(part.source for part in one.parts) == text.strip()
    assert [part.source for part in one.parts[:3]] == ["The dog sleeps."] * 3
    assert all(len(part.source_ids) <= 11 for part in one.parts)
    assert one.text == " ".join(part.text for part in one.parts) + " "
    assert one.alternatives[0][0] == " ".join(part.alternatives[0][0] for part in one.parts) + " "


def test_a_text_without_end_is_cut_in_no_time(translator):
    # Was quadratic, and deeper than Python's stack.
    words = "The dog sleeps on the sofa and " * 20_000
    pieces = translator._pieces(words.strip())
    assert " ".join(pieces) == words.strip()


def test_a_sample_depends_on_the_number_of_its_text_alone(translator):
    options = DecodingOptions(sample=True, seed=3)
    texts = ["The dog sleeps.", "A cat.", "She gave him the book yesterday.", "A cat."]
    together = [one.text for one in translator.translate(texts, options)]
    in_turn = [translator.translate([text], options, first=i)[0].text for i, text in enumerate(texts)]
    assert together == in_turn
    assert together[1] != together[3]  # the same sentence, another number
    assert together != [one.text for one in translator.translate(texts, DecodingOptions(sample=True, seed=4))]


# ---- alignments


def test_alignment_covers_the_words_of_both_sides(translator):
    (one,) = translator.translate(["The dog sleeps on the sofa."])
    found = align(translator, one)
    assert found.source_words == ["The", "dog", "sleeps", "on", "the", "sofa", "."]
    assert found.weights.shape == (len(found.target_words), 7)
    assert (found.weights >= 0).all()
    assert (found.weights.sum(axis=1) <= 1 + 1e-6).all()


def test_the_attention_after_a_word_is_one_row_below_that_before_it(translator):
    pair = AlignedPair("A dog.", "Un chien.", ((0, 1), (2, 5), (5, 6)), ((0, 2), (3, 8), (8, 9)))
    sources, targets = [translator.source.encode(pair.source)], [translator.target.encode(pair.target)]
    seen = translator.forced(sources, targets, ended=False)
    cross = [one.map[0, 1] for one in seen if one.kind == "cross"][1]  # layer 1, head 1: (t,s)
    for after, first in ((False, 0), (True, 1)):
        found = AlignmentHead(1, 1, after).weights(seen, 0, 3, 2)
        np.testing.assert_allclose(found, cross[first : first + 3, :2].numpy(), atol=1e-6)


def test_the_alignment_head_with_the_lowest_error_is_chosen(translator):
    pairs = embedded_aligned(translator, "valid", 30)
    readings = all_alignment_heads(translator)
    assert len(readings) == 2 * 3 * 2  # layers, heads and their mean, both steps
    rates = error_rates(translator, pairs, readings)
    chosen, rate = choose_alignment_head(translator, pairs)
    assert rate == min(rates)
    assert chosen == readings[rates.index(rate)]


def test_perfect_attention_has_no_error(translator, monkeypatch):
    """Weights on the true links, through the merging of tokens, give exactly those links."""
    links = frozenset({(1, 0), (0, 1), (2, 2)})
    pair = AlignedPair(
        "dog the.", "le chien.", ((0, 3), (4, 7), (7, 8)), ((0, 2), (3, 8), (8, 9)), links, links
    )
    columns = words_of_tokens(translator.source.spans(pair.source), pair.source_words)
    rows = words_of_tokens(translator.target.spans(pair.target), pair.target_words)

    def perfect(sources, targets):
        weights = torch.zeros(1, 1, len(targets[0]) + 2, len(sources[0]) + 1)
        for row, column in itertools.product(range(rows.shape[1]), range(columns.shape[1])):
            words = (int(columns[:, column].argmax()), int(rows[:, row].argmax()))
            weights[0, 0, row, column] = float(words in links)
        return [
            Record(
                name="attention",
                layer=None,
                kind="cross",
                map=AttentionMap.from_weights(weights, unnormalized=True),
            )
        ]

    monkeypatch.setattr(translator, "forced", perfect)
    assert error_rates(translator, [pair], [AlignmentHead(0)]) == [0.0]
    assert diagonal_error_rate([pair]) > 0


def test_models_without_attention_say_so(vocabulary):
    bare = translator_with(vocabulary, "seq2seq", attention=None)
    assert not bare.attends
    assert translator_with(vocabulary, "seq2seq").attends
    (one,) = bare.translate(["A dog."])
    with pytest.raises(ArgumentError, match="it has no attention to the source"):
        align(bare, one)


def test_gold_alignments_are_read(tmp_path):
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
        ("", "it has no sentences"),
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


def test_a_translator_that_is_always_right_has_a_bleu_of_100(translator, monkeypatch):
    pairs = [(triple.english.text, triple.french.text) for triple in generate(40, split="test")]
    right = dict(pairs)

    def translate(texts, options=None, first=0, normalize=True):
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


@pytest.fixture
def files(tmp_path):
    """Pairs to train on and others to validate on."""
    train, valid = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    train.write_text("a dog\tun chien\n" * 2 + "a cat\tun chat\na cow\tune vache\n", encoding="utf-8")
    valid.write_text("a cat\tun chat\na pig\tun cochon\n", encoding="utf-8")
    return {"data": str(train), "valid": str(valid), "steps": 1, "vocabulary_size": 300}


def test_training_data_holds_files_and_embedded_sentences_but_none_to_validate_on(files, tmp_path):
    settings = TranslationSettings(**files, embedded=5)
    pairs = list(training_pairs(settings))
    assert pairs[:3] == [("a dog", "un chien")] * 2 + [("a cow", "une vache")]
    assert len(pairs) == 8
    data = prepare(settings, tmp_path / "run")
    assert len(data.train) == 7  # once each
    assert (data.train.skipped.duplicates, data.train.skipped.held_out) == (1, 1)
    assert prepare(settings, tmp_path / "run").train.skipped.held_out == 1  # also from the cache


def test_sources_of_a_test_set_can_be_kept_out(files, tmp_path):
    (tmp_path / "test.tsv").write_text("a cow\tune vache\n", encoding="utf-8")
    settings = TranslationSettings(**files, exclude=str(tmp_path / "test.tsv"))
    assert {source for source, _ in training_pairs(settings)} == {"a dog"}
    (tmp_path / "train.en").write_text("a dog\na cow\n", encoding="utf-8")
    (tmp_path / "train.fr").write_text("un chien\nune vache\n", encoding="utf-8")
    (tmp_path / "test.en").write_text("a cow\n", encoding="utf-8")
    sides = {"data": str(tmp_path / "train.en"), "target_data": str(tmp_path / "train.fr")}
    settings = TranslationSettings(**{**files, **sides}, exclude=str(tmp_path / "test.en"))
    assert list(training_pairs(settings)) == [("a dog", "un chien")]


def test_a_new_run_learns_its_own_vocabulary(tmp_path):
    prepare(TranslationSettings(**TINY), tmp_path, learn=True)
    other = TranslationSettings(**{**TINY, "vocabulary": "word", "lowercase": True})
    assert prepare(other, tmp_path, learn=True).source.kind == "word"
    assert prepare(other, tmp_path).source.lowercase


def test_a_vocabulary_is_learnt_from_all_parts_of_the_data():
    assert vocabularies_module.VOCABULARY_ROWS == 400_000
    kept = reservoir([(str(i), "") for i in range(1000)], 50, 0)
    assert len(kept) == len(set(kept)) == 50
    assert sum(int(source) >= 500 for source, _ in kept) > 10
    assert reservoir([("a", "b")], 50, 0) == [("a", "b")]


def test_a_data_set_is_validated_on_its_validation_part(tmp_path):
    pytest.importorskip("datasets")
    for part, word in (("train", "dog"), ("validation", "cat"), ("test", "cow")):
        text = json.dumps({"en": f"a {word}", "fr": f"un {word}"})
        (tmp_path / f"{part}.jsonl").write_text(text + "\n", encoding="utf-8")
    name = f"hf:{tmp_path}"
    settings = TranslationSettings(data=name, valid=name, columns="en,fr", steps=1)
    assert list(training_pairs(settings)) == [("a dog", "un dog")]
    assert list(data_module.validation_pairs(settings)) == [("a cat", "un cat")]


def test_a_run_does_not_go_on_with_other_data(files, tmp_path):
    small = {
        name: value for name, value in TINY.items() if name not in ("embedded", "steps", "vocabulary_size")
    }
    settings = TranslationSettings(**files, **small)
    train_translator(settings, tmp_path / "run", show=False)
    with open(files["data"], "a", encoding="utf-8") as file:
        file.write("a hen\tune poule\n")
    with pytest.raises(FileError, match="the training data is not what the run was started with"):
        resume_translator(tmp_path / "run", {"steps": 3}, show=False)


def test_epochs_and_steps_take_each_others_place_on_resuming(files, tmp_path):
    small = {
        name: value for name, value in TINY.items() if name not in ("embedded", "steps", "vocabulary_size")
    }
    settings = TranslationSettings(**{**files, "steps": None}, epochs=1.0, **small)
    train_translator(settings, tmp_path / "run", show=False)
    assert resume_translator(tmp_path / "run", {"steps": 4}, show=False).step == 4
    assert settings_of_run(tmp_path / "run").epochs is None


@pytest.mark.parametrize("options", [{"heads": 3}, {"positions": "rotery"}, {"warmup": -1}])
def test_a_model_that_cannot_be_is_refused_before_the_data_is_read(tmp_path, options):
    settings = TranslationSettings(**{**TINY, **options})
    with pytest.raises(RegardError, match=next(iter(options))):
        train_translator(settings, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()


def test_without_data_the_embedded_corpus_is_used():
    pairs = list(training_pairs(TranslationSettings(embedded=50, steps=1)))
    assert len(pairs) == 50
    assert not {pair[0] for pair in pairs} & set(LEFT_OUT)


def test_without_validation_data_a_share_is_held_out_by_hash(tmp_path):
    path = tmp_path / "pairs.tsv"
    lines = [f"a dog {i}\tun chien {i}\n" for i in range(100)]
    path.write_text("".join(lines + lines[:50]), encoding="utf-8")
    settings = TranslationSettings(data=str(path), steps=1, vocabulary_size=300)
    data = prepare(settings, tmp_path / "run", learn=True)
    held = {source for source, _ in data.valid}
    assert len(data.valid) == 15  # a tenth of 150 rows
    assert (len(data.train), data.train.skipped.held_out) == (100 - len(held), len(data.valid))
    assert not held & {source for source, _ in training_pairs(settings)}
    path.write_text("".join(reversed(lines + lines[:50])), encoding="utf-8")
    again = prepare(settings, tmp_path / "again", learn=True)
    assert {source for source, _ in again.valid} == held  # whatever the order of the file
    few = TranslationSettings(data=str(path), steps=1, validate_sentences=3)
    assert len({source for source, _ in data_module.validation_pairs(few)}) == 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {**RECURRENT, "score": "additive"},
        {**RECURRENT, "score": "none"},
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
    assert one.source_ids == trained.source.encode("The dog sleeps.")
    assert len(one.target_ids) <= DecodingOptions().limit(len(one.source_ids) + 1)
    assert trained.longest == settings.max_tokens
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
    outcome = resume_translator(tmp_path, {"steps": 5}, show=False)
    assert outcome.step == 5
    with pytest.raises(FileError, match="there is no run to resume here"):
        settings_of_run(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"architecture": "transfromer"},
            "architecture: unknown name 'transfromer': did you mean 'transformer'",
        ),
        ({"target_language": "en"}, "target_language: the same as source_language"),
        ({"label_smoothing": 1.0}, "label_smoothing: expected a share"),
        ({"batch_tokens": 8}, "batch_tokens: 8 tokens hold no sentence of max_tokens=128"),
        ({"target_data": "x"}, "target_data: given without data"),
        ({"data": "x", "valid": "x"}, "valid: the same as data=x"),
        ({"data": "hf:x", "valid": "hf:x", "valid_split": "train"}, "valid: the same as data"),
        ({"data": "x", "valid": "-"}, "valid: only data= can be read from standard input"),
        ({"validate_sentences": 0}, "validate_sentences: expected 1 or more, got 0"),
        ({"target_valid": "x"}, "target_valid: given without valid=: name the source side"),
        ({"embedded": 0}, "embedded: nothing to train on: got 0"),
        ({"data": "x", "embedded": -5}, "embedded: nothing to train on: got -5"),
        (
            {"target_language": "de"},
            "target_language: the embedded corpus has en, fr, zh, not 'de': name pairs",
        ),
        (
            {"data": "x", "embedded": 5, "target_language": "de"},
            "target_language: the embedded .*: leave out embedded",
        ),
        ({"vocabulary": "words"}, "vocabulary: unknown name 'words': did you mean 'word'"),
        ({"vocabulary_size": 100}, "vocabulary_size: expected 260 or more for bpe, got 100"),
        (
            {"score": "none"},
            "score: of no use for architecture=transformer: leave it out, or say architecture=seq2seq",
        ),
        ({"architecture": "seq2seq", "norm": "post"}, "norm: of no use for architecture=seq2seq"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(RegardError, match=message):
        TranslationSettings(**options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"score": "additive"},
            "score: of no use for architecture=transformer",
        ),  # even if it is the default
        ({"architecture": "seq2seq", "heads": 4}, "heads: of no use for architecture=seq2seq"),
    ],
)
def test_options_of_the_other_kind_of_model_are_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        with_defaults(given)


def test_given_steps_or_epochs_are_not_replaced():
    assert "steps" not in with_defaults({"epochs": 0.0})
    assert TranslationSettings(**with_defaults({"architecture": "seq2seq"})).steps == 1200


# ---- cards and packing


def test_weights_that_do_not_fit_leave_the_folder_as_it_was(tmp_path, vocabulary):
    translator = translator_with(vocabulary)
    translator.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with torch.no_grad():
        next(translator.model.parameters()).fill_(1e30)
    with pytest.raises(ArgumentError, match="dtype: .* has numbers too large for float16"):
        translator.save(tmp_path, dtype="float16")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_was_being_written_is_no_model(tmp_path, vocabulary, monkeypatch):
    translator = translator_with(vocabulary)
    translator.save(tmp_path)
    monkeypatch.setattr("regard.tasks.bundle.write_model", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        translator.save(tmp_path)
    with pytest.raises(FileError, match="is neither a folder with a model nor a name"):
        Translator.load(tmp_path)


def test_the_training_command_says_all_that_is_not_default():
    settings = TranslationSettings(
        data="/some/where/train.tsv",
        valid="v.tsv",
        width=64,
        lowercase=True,
        shared_vocabulary=False,
        steps=7,
    )
    assert training_command(TASK, settings) == (
        "regard train translate --data train.tsv --valid v.tsv --lowercase --no-shared-vocabulary --width 64 --steps 7"
    )
    assert "--data hf:org/set" in training_command(
        TASK, TranslationSettings(data="hf:org/set", valid="v.tsv", steps=7)
    )
    plain = TranslationSettings(**with_defaults({"steps": 7, "dropout": 0.1, "width": 256}))
    assert training_command(TASK, plain) == "regard train translate --width 256 --dropout 0.1 --steps 7"


def test_packing_halves_the_weights_and_keeps_the_alignment_head(tmp_path):
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


def test_models_are_found_by_name_and_folder(tmp_path, translator, monkeypatch):
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
