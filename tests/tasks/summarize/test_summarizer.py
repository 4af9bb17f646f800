"""Tests of summarisers, of the origins of their words, of cut texts, capitals and saved models."""

import json

import numpy as np
import pytest

from regard import tasks
from regard.decoding import Hypothesis
from regard.errors import ArgumentError, DtypeError, FileError, UnknownArgumentError
from regard.tasks.summarize import Summarizer
from regard.tasks.summarize.capitals import with_capitals
from regard.tasks.summarize.data import embedded_rows
from regard.tasks.summarize.heuristics import central_sentences, first_words
from regard.tasks.summarize.origins import SummaryWeights, WordOrigin
from support.summarizers import TEXT, small_summarizer


def summary_of(summarizer, monkeypatch, words, text=TEXT):
    """Let a summariser write some words, and return the summary."""
    ids = summarizer.vocabulary.encode(f" {words}")
    monkeypatch.setattr(summarizer, "decoded", lambda *_: [[Hypothesis(ids, -1.0, -1.0)]])
    (found,) = summarizer.summarize([text])
    return found


# -- origins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_a_copied_word_has_its_place_in_the_original_text(kind, monkeypatch):
    """An untrained model copies a token of the text with a far larger probability than it generates it."""
    summarizer = small_summarizer(kind)
    summary = summary_of(summarizer, monkeypatch, "faroese songs")
    faroese, songs = summarizer.origins(summary)
    assert (faroese.word, faroese.source_word, faroese.copied) == ("Faroese", "Faroese", True)
    assert TEXT[faroese.start : faroese.end] == "Faroese"
    assert TEXT[songs.start : songs.end] == "songs"
    (line, _) = summarizer.word_weights(summary)[0].lines()
    assert line.startswith(f"Faroese  copied from 'Faroese' at character {TEXT.index('Faroese')} (")


def test_a_word_that_is_not_in_the_text_is_not_called_a_copy():
    invented = WordOrigin("Pakke", 1.0, "TurnKeeper", 122, 132, 0.3)
    assert (invented.copied, invented.whole) == (True, False)
    weights = SummaryWeights([], [], np.zeros((1, 1)), "", [], [invented], "Pakke")
    assert weights.lines() == [
        "Pakke  made of pieces of several words, most of them from 'TurnKeeper' at character 122"
    ]


def test_the_weight_of_an_origin_is_that_of_its_word(monkeypatch):
    summarizer = small_summarizer()
    summary = summary_of(summarizer, monkeypatch, "faroese zebra")
    (found,) = summarizer.word_weights(summary)
    assert found.weights.shape == (len(found.row_words), len(found.column_words))
    for row, origin in enumerate(found.origins):
        column = found.spans.index((origin.start, origin.end))
        assert found.weights[row, column] == pytest.approx(origin.weight)
    # The end of the text has a weight too, so the others sum to less than 1.
    assert np.all(found.weights.sum(axis=1) < 1)
    assert found.table.weights.shape == (2, len(found.table.column_words))
    # The model read and wrote them in lower case.
    assert "faroese" in found.table.column_words
    assert found.row_words == ["faroese", "zebra"]
    assert [origin.word for origin in found.origins] == ["Faroese", "ZEBRA"]
    assert found.notes == ["the model wrote: faroese zebra"]


def test_a_word_that_replaces_what_the_model_wrote_has_no_weights(monkeypatch):
    def corrected(generator, sources, found, shown, is_rare):
        ((one,),) = shown
        word = one.text.replaced("zebrra", "zebra", whole=True)
        return [[one._replace(text=word)]]

    monkeypatch.setattr("regard.tasks.summarize.summarizer.with_whole_words", corrected)
    summarizer = small_summarizer()
    summary = summary_of(summarizer, monkeypatch, "zebrra songs")
    assert (summary.text, summary.written.strip()) == ("ZEBRA songs", "zebrra songs")
    (found,) = summarizer.word_weights(summary)
    assert (found.row_words, found.marks) == (["ZEBRA", "songs"], ["copied", ""])
    values = summary.to_json([found])
    assert [row is None for row in values["attention"]] == [True, False]
    assert [origin["weight"] is None for origin in values["origins"]] == [True, False]
    place = TEXT.index("ZEBRA")
    assert (
        found.lines()[0] == f"ZEBRA  replaces a word that was copied wrong, from 'ZEBRA' at character {place}"
    )


def test_a_word_that_is_not_in_the_text_is_generated(monkeypatch):
    summarizer = small_summarizer()
    tokens = summarizer.vocabulary.encode(" " + TEXT)
    word = next(
        w for w in ("number", "qqq", "jjj") if not {*summarizer.vocabulary.encode(f" {w}")} & {*tokens}
    )
    (found,) = summarizer.word_weights(summary_of(summarizer, monkeypatch, word))
    (origin,) = found.origins
    assert not origin.copied
    assert origin.share == 0
    assert origin.weight == found.weights[0].max()
    assert "generated, looking at" in found.lines()[0]


def test_a_model_without_copying_only_looks(monkeypatch):
    summarizer = small_summarizer(copy=False)
    origins = summarizer.origins(summary_of(summarizer, monkeypatch, "faroese songs"))
    assert [origin.share for origin in origins] == [0, 0]


def test_origins_are_in_the_json(monkeypatch):
    summarizer = small_summarizer()
    summary = summary_of(summarizer, monkeypatch, "faroese songs")
    values = summary.to_json(summarizer.word_weights(summary))
    assert json.loads(json.dumps(values))["origins"][0]["source_word"] == "Faroese"
    assert len(values["attention"]) == len(values["summary_words"]) == 2
    assert "origins" not in summary.to_json()


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_the_recording_has_the_tokens_of_text_and_summary(kind, monkeypatch):
    summarizer = small_summarizer(kind)
    recording = summarizer.attention(summary_of(summarizer, monkeypatch, "faroese songs"))
    cross = recording.by(kind="cross")[-1]
    assert cross.name == "copy_attention"
    assert cross.key_tokens is not None
    assert cross.query_tokens is not None
    assert [one.strip() for one in cross.key_tokens[0]][:3] == ["Few", "tools", "exist"]
    assert cross.key_tokens[0][-1] == "</s>"
    assert "".join(cross.query_tokens[0]).strip() == "faroese songs</s>"


# -- texts -----------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_its_end_is_marked_as_unread():
    summarizer = small_summarizer(max_tokens=9)
    short, cut = summarizer.summarize(["Few tools.", TEXT], max_length=5)
    assert (short.cut_off, cut.cut_off) == (False, True)
    assert len(cut.source_ids) == 9
    assert cut.source_ids == summarizer.vocabulary.encode(" " + " ".join(TEXT.split()))[:9]
    (weights,) = summarizer.word_weights(cut)
    end = weights.spans[-1][1]
    assert weights.unread == (end, len(TEXT))
    assert "songs" not in weights.column_words
    assert summarizer.word_weights(short)[0].unread is None


def test_spaces_and_line_ends_make_no_difference():
    summarizer = small_summarizer()
    plain, spaced = summarizer.summarize([" ".join(TEXT.split()), TEXT], max_length=6)
    assert plain.text == spaced.text
    assert plain.source_ids == spaced.source_ids


def test_a_line_break_of_html_is_read_as_spaces():
    summarizer = small_summarizer()
    (found,) = summarizer.summarize([TEXT.replace("  ", "<br /><br />")], max_length=6)
    assert "<" not in found.read
    (weights,) = summarizer.word_weights(found)
    assert not {"<", "br", "/", ">"} & set(weights.column_words)
    # Also where the tokens of the marks are fewer than those of the spaces.
    assert summarizer.summarize(["<br />" * 9 + "tools"], max_length=3)[0].read.strip() == "tools"


def test_a_model_without_a_field_does_not_judge():
    (found,) = small_summarizer().summarize([TEXT], max_length=3)
    assert (found.far, found.to_json()["far_from_training"]) == (None, None)


def test_a_training_measures_its_field(tmp_path):
    settings = {"embedded": 1500, "vocabulary_size": 400, "width": 16, "heads": 2, "steps": 2}
    tasks.train("summarize", {**settings, "validate_texts": 20}, tmp_path, show=False)
    summarizer = Summarizer.load(tmp_path)
    assert summarizer.field.limit >= 3
    report, *_ = (text for text, _ in embedded_rows(7, "test", 1))
    assert not summarizer.is_far(report)
    assert summarizer.is_far("Hypertension is a leading cause of cardiovascular death in older adults. " * 4)


def test_an_empty_text_has_an_empty_summary():
    summarizer = small_summarizer()
    first, second = summarizer.summarize(["  \n", TEXT], max_length=4)
    assert (first.text, first.target_ids) == ("", [])
    assert second.target_ids
    assert summarizer.word_weights(first) == []
    assert len(summarizer.attention(first)) == 0


def test_the_length_is_that_of_the_training_by_default():
    summarizer = small_summarizer(copy=False)
    summarizer.common = None  # so that no word is left out at the end
    (found,) = summarizer.summarize([TEXT], beams=1)
    # 12 tokens and the end, which this model does not reach.
    assert (len(found.target_ids), found.ended) == (13, False)
    assert len(summarizer.summarize([TEXT], beams=1, min_length=20)[0].target_ids) == 21


def test_several_summaries_have_falling_scores():
    (found,) = small_summarizer().summarize([TEXT], n_best=3, beams=4, max_length=5)
    scores = [found.score, *(score for _, score in found.alternatives)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert len(found.lines(scores=True)) == 3


def test_wrong_arguments_are_named():
    summarizer = small_summarizer()
    with pytest.raises(UnknownArgumentError, match="beam: not a setting of summarize.*did you mean 'beams'"):
        summarizer.summarize([TEXT], beam=2)
    with pytest.raises(DtypeError, match="texts: expected a list of texts, got one string"):
        summarizer.summarize(TEXT)
    with pytest.raises(ArgumentError, match="batch_size"):
        summarizer.summarize([TEXT], batch_size=0)


# -- capitals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("summary", "text", "expected"),
    [
        ("a bert for faroese", "Many use BERT. We read Faroese.", "A BERT for Faroese"),
        # At the start of a sentence only, a capital says nothing.
        ("corpus of many songs", "Many songs. A corpus. Songs are here.", "Corpus of many songs"),
        ("gpt-2 and ibert", "GPT-2 reads. (iBERT does.)", "GPT-2 and iBERT"),
        ("the us and us", "The US told us. In the US, the US", "The US and US"),
        ("", "A text", ""),
        ("ünlü x", "An Ünlü", "Ünlü x"),
    ],
)
def test_capitals_come_from_the_inside_of_sentences(summary, text, expected):
    found = with_capitals(summary, text)
    assert found == expected
    assert len(found) == len(summary)


def test_a_vocabulary_with_capitals_keeps_its_own(monkeypatch):
    summarizer = small_summarizer(lowercase=False)
    assert summary_of(summarizer, monkeypatch, "holds ZEBRA").text == "holds ZEBRA"


# -- saved models ----------------------------------------------------------------------------------------------------


def test_a_saved_summariser_writes_the_same(tmp_path):
    summarizer = small_summarizer(test_share=0.25, test_seed=3)
    before = [one.lines(scores=True) for one in summarizer.summarize([TEXT], max_length=6)]
    summarizer.save(tmp_path)
    loaded = Summarizer.load(tmp_path)
    assert [one.lines(scores=True) for one in loaded.summarize([TEXT], max_length=6)] == before
    assert loaded.common is not None
    assert loaded.common.encode("corpus") == summarizer.common.encode("corpus")
    assert loaded.extra["test_share"] == 0.25


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_summary", "many"),
        ("test_share", 1.5),
        ("test_seed", None),
        ("field", {"frequent": 3}),
        ("field", {"frequent": 3, "share": float("nan"), "deviation": 0.1, "limit": 3}),
        ("field", {"frequent": -1, "share": 0.1, "deviation": 0.1, "limit": 3}),
    ],
)
def test_wrong_settings_of_a_saved_model_are_named(name, value, tmp_path):
    small_summarizer().save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(FileError, match=f"config.json: {name}"):
        Summarizer.load(tmp_path)


def test_the_vocabulary_of_another_model_is_refused(tmp_path):
    small_summarizer().save(tmp_path / "one")
    other = small_summarizer()
    other.vocabulary.save(tmp_path / "one" / "common_words.json")
    other.common.save(tmp_path / "one" / "tokenizer.json")
    with pytest.raises(FileError, match="source_size is .*, but the vocabulary beside it has"):
        Summarizer.load(tmp_path / "one")


def test_a_model_is_packed_with_a_card(tmp_path):
    small_summarizer().save(tmp_path / "model")
    packed = tasks.pack(tmp_path / "model", tmp_path / "small", dtype="int8", license="CC BY 4.0")
    assert isinstance(packed, Summarizer)
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert "# Summariser of texts" in card
    assert "| text | summary |" in card
    assert "PotPourri" in card


# -- heuristics ------------------------------------------------------------------------------------------------------


def test_the_first_words_are_twelve():
    assert first_words([" ".join(map(str, range(20))), "a b"]) == ["0 1 2 3 4 5 6 7 8 9 10 11", "a b"]


def test_the_central_sentence_shares_most_with_the_others():
    text = "Red cats sleep. Red dogs and red cats eat. Dogs eat. Zebras?"
    assert central_sentences([text]) == ["Red dogs and red cats eat."]
    # A word of every text weighs less than one of few texts.
    common = ["x y. x z. w z."] + ["x"] * 50
    assert central_sentences(common)[0] == "x z."
    assert central_sentences(["", "..."]) == ["", "..."]


def test_the_central_sentence_is_cut_to_twelve_words():
    assert central_sentences([" ".join(["word"] * 30)]) == [" ".join(["word"] * 12)]
