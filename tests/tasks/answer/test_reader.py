"""Tests of readers, their answers, candidates and attention, the baseline, and pretrained encoders."""

import json

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, DtypeError, FileError
from regard.tasks.answer import Reader
from regard.tasks.answer.baseline import SlidingWindow
from regard.tasks.answer.data import embedded_questions
from regard.tasks.answer.evaluation import scores_of
from regard.tasks.registry import find_model
from regard.text.questions import Question, read_questions
from regard.text.spans import SpanBatch
from support.command_line import assert_one_line, run_here
from support.paths import data_folder
from support.pretrained_folders import write_bert_vocabulary, write_encoder
from support.readers import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = {**SMALL, "embedded": 1500, "steps": 120, "learning_rate": 0.01, "width": 32}
    tasks.train("answer", settings, folder, show=False)
    return folder


@pytest.fixture(scope="module")
def reader(run):
    return Reader.load(run)


# -- the reader ------------------------------------------------------------------------------------------------------


def test_a_reader_learns_to_answer(run, reader):
    """Questions of the test part. A span at random has an F1 of less than 10."""
    report = tasks.evaluate("answer", run, {"limit": 150, "baseline": True}).to_json()
    assert report["f1"] > 35
    assert report["questions"] == 150
    assert 0 < reader.threshold < 1
    assert report["calibrated_share"] > 10
    assert report["answered_f1"] > report["f1"]
    assert "sliding window" in report["compared"]


def test_answers_are_spans_of_the_original_text(reader):
    context = "  The  Tall\tfarmer\nsat\u00a0in Zu\u0308rich .  "
    found = reader.ask("Who sat in Zürich?", context, top=5, threshold=0.0)
    assert len(found.candidates) == 5
    for one in found.candidates:
        assert context[one.start : one.end] == one.text == one.text.strip()
    assert found.text == found.candidates[0].text
    shares = [one.confidence for one in found.candidates]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1


def test_no_answer_is_found_below_the_threshold(reader):
    found = reader.ask("Who went home?", "Ann went home.", threshold=1.0, top=3)
    assert (found.text, found.found, found.span) == ("", False, None)
    assert found.rejected == found.candidates
    shown = [f"{one.text} {one.confidence:.3f}" for one in found.candidates]
    line = f"no answer found\t{found.no_answer:.3f}\tbelow the threshold 1.000: "
    assert found.lines() == [line + shown[0]]
    assert found.lines(scores=True) == [line + ", ".join(shown)]
    assert found.to_json()["no_answer"] == round(found.no_answer, 4)
    one = reader.ask("Who went home?", "Ann went home.", threshold=1.0)
    assert one.to_json()["candidates"] == [found.candidates[0].to_json()]
    assert one.to_json()["threshold"] == 1.0
    assert sum(one.confidence for one in found.candidates) + found.no_answer <= 1 + 1e-6
    assert found.candidates[0].text
    sure = reader.ask("Who went home?", "Ann went home.", threshold=0.0)
    assert (sure.found, sure.rejected, "candidates" in sure.to_json()) == (True, (), False)


def test_a_long_context_is_read_in_windows_and_the_answer_is_found_anywhere(reader):
    filler = "The red car was on the bridge. " * 40
    question = "Who helped the teacher?"
    for context in (f"Emma helped the teacher. {filler}", f"{filler}Emma helped the teacher."):
        found = reader.ask(question, context, threshold=0.0)
        assert found.text == "Emma"
        assert context[slice(*found.span)] == "Emma"
        (weights,) = reader.word_weights(found)
        assert len(weights.column_words) < 128
        assert "Emma" in weights.table.column_words


def test_answers_do_not_depend_on_the_batch(reader):
    rows = list(embedded_questions(0, "test", 12))
    together = reader.answer(rows)
    alone = [reader.answer([row], batch_size=1)[0] for row in rows]
    assert [one.candidates[0].text for one in together] == [one.candidates[0].text for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=1e-4)


def test_a_question_that_is_too_long_is_cut_with_a_word(reader):
    found = reader.ask("Who " + "really " * 200 + "sat?", "Ann sat.")
    assert found.cut_off
    assert found.to_json()["cut_off"]
    assert not reader.ask("Who sat?", "Ann sat.").cut_off


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ("Who?", "expected a list of questions with contexts"),
        (["Who?"], "expected a question with its context at place 0"),
        ([("Who?", " ")], "the context is empty"),
        ([("Who?", "Ann."), ("", "Ann.")], "place 1: the question is empty"),
        ([{"question": "Who?"}], "'context' is missing"),
        ([("Who?", None)], "'context' is not text, but null"),
    ],
)
def test_questions_that_are_none_are_refused(reader, questions, problem):
    with pytest.raises((ArgumentError, DtypeError), match=f"questions: .*{problem}"):
        reader.answer(questions)


@pytest.mark.parametrize("options", [{"threshold": 2}, {"threshold": "x"}, {"top": 0}, {"batch_size": 0}])
def test_options_that_cannot_work_are_refused(reader, options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        reader.ask("Who?", "Ann.", **options)


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"threshold": 3}, "threshold"), ({"max_tokens": 2}, "max_tokens"), ({"stride": 10**6}, "stride")],
)
def test_damaged_settings_of_a_saved_reader_are_named(reader, tmp_path, change, problem):
    reader.save(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | change))
    with pytest.raises(FileError, match=f"config.json: {problem}"):
        Reader.load(tmp_path)


# -- attention -------------------------------------------------------------------------------------------------------


def test_the_attention_of_an_answer_is_a_recording(reader):
    found = reader.ask("Who helped the teacher?", "Emma helped the teacher. It rained.")
    recording = reader.attention(found)
    by_name = {one.name: one for one in recording}
    record = by_name["to_context"]
    assert record.query_tokens[0] == ["Who", "helped", "the", "teacher", "?"]
    assert record.key_tokens[0][:3] == ["[no answer]", "Emma", "helped"]
    assert by_name["to_question"].query_tokens == record.key_tokens
    (weights,) = reader.word_weights(found)
    expected = record.map.weights()[0, 0, :, 1:].numpy()
    np.testing.assert_allclose(weights.weights, expected, atol=1e-6)  # tokens are words here
    assert weights.spans == [(0, 4), (5, 11), (12, 15), (16, 23), (23, 24), (25, 27), (28, 34), (34, 35)]
    assert weights.table.row_words == ["Who", "helped", "the", "teacher", "?"]
    assert weights.unread is None


# -- the baseline ----------------------------------------------------------------------------------------------------


def test_the_baseline_takes_words_beside_those_of_the_question():
    context = "Bob slept in a bed. The old house was painted by Ann Berg in 1874."
    (found,) = SlidingWindow().answer([Question("Who painted the old house?", context)])
    assert found.text in ("Ann Berg", "Berg", "Ann")
    assert found.span is not None
    assert context[slice(*found.span)] == found.text


def test_the_baseline_is_measured_like_a_reader():
    questions = list(read_questions(data_folder("squad") / "train.json.gz"))[:600]
    scores, _ = scores_of(SlidingWindow(), questions, threshold=0.0)
    assert 12 < scores.f1 < 30


# -- pretrained encoders ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["joined", "gru"])
def started(request, tmp_path_factory):
    """A run that started from a small BERT with random weights."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "bert").mkdir()
    write_encoder(folder / "bert", max_position_embeddings=64)
    write_bert_vocabulary(folder / "bert")
    settings = {
        "start": str(folder / "bert"),
        "architecture": request.param,
        "embedded": 60,
        "steps": 3,
        "batch_tokens": 600,
    }
    settings |= {"max_tokens": 64, "stride": 16, "validate_questions": 10, "precision": "float32"}
    tasks.train("answer", settings, folder / "run", show=False)
    return folder / "run"


def test_a_started_reader_answers_with_spans_and_attention(started, tmp_path):
    reader = Reader.load(started)
    context = "Emma   helped the Teacher. " * 20
    found = reader.ask("Who helped the teacher?", context, threshold=0.0)
    assert found.span is not None
    assert context[slice(*found.span)] == found.text
    (weights,) = reader.word_weights(found)
    assert weights.row_words == ["Who", "helped", "the", "teacher", "?"]
    # They are as they were computed: a joined reader has weights on the question and the special tokens too.
    record = reader.attention(found)[-1].map.weights()[0].double().mean(dim=0)  # (q,k)
    joined = record.shape[0] == record.shape[1]
    sums = weights.weights.sum(axis=1)
    assert ((sums > 0.2) & (sums < (0.8 if joined else 1.01))).all()
    assert len(reader.attention(found)) >= 2
    reader.save(tmp_path)
    again = Reader.load(tmp_path).ask("Who helped the teacher?", context, threshold=0.0)
    assert again.candidates == found.candidates


def test_a_shortened_reader_reads_the_words_that_it_kept_as_before(started):
    reader = Reader.load(started)
    whole = len(reader.vocabulary)
    short = reader.shortened(whole - 3)
    assert len(short.vocabulary) == whole - 3
    texts = ("the lazy dog", "the quick brown fox over the dog .")
    one, other = reader.ask(*texts, threshold=0.0), short.ask(*texts, threshold=0.0)
    assert one.text == other.text
    assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
    with pytest.raises(ArgumentError, match="size: expected more than"):
        reader.shortened(3)


def test_packing_keeps_the_frequent_pieces_of_the_vocabulary(started, tmp_path):
    whole = len(Reader.load(started).vocabulary)
    run_here("pack", str(started), "--out", str(tmp_path / "small"), "--vocabulary-size", str(whole - 3))
    assert len(Reader.load(tmp_path / "small").vocabulary) == whole - 3
    done = run_here("pack", str(started), "--out", str(tmp_path / "tiny"), "--vocabulary-size", "3")
    assert_one_line(done, 2, "--vocabulary-size: expected more than")
    assert not (tmp_path / "tiny").exists()


def test_a_vocabulary_that_was_learned_is_not_shortened(run, tmp_path):
    for model, told in (
        (run, "expected the vocabulary of a pretrained encoder, got one of word"),
        (find_model("translate", "en-fr"), "the vocabulary of a model for translate cannot be shortened"),
    ):
        done = run_here("pack", str(model), "--out", str(tmp_path / "small"), "--vocabulary-size", "99")
        assert_one_line(done, 2, f"--vocabulary-size: {told}")


def test_the_joined_input_is_question_then_window():
    from regard.tasks.answer.network import joined_tokens
    from regard.text.framing import Framing

    class Vocabulary:
        framing = Framing(start=101, end=102, pad=0, between=(102,), second_type=1)

    parts = (
        [[7, 8], [9, 0]],
        [2, 1],
        [[101, 11, 12, 13], [101, 14, 0, 0]],
        [4, 2],
        [[0, 0]] * 2,
        [[0] * 4] * 2,
    )
    batch = SpanBatch(*map(torch.tensor, parts), *[torch.zeros(2, 1, dtype=torch.int64)] * 2, torch.ones(2))
    joined = joined_tokens(batch, Vocabulary())
    assert joined.tokens.tolist() == [[101, 7, 8, 102, 11, 12, 13, 102], [101, 9, 102, 14, 102, 0, 0, 0]]
    assert joined.places.tolist() == [[0, 4, 5, 6], [0, 3, 0, 0]]
    assert joined.lengths.tolist() == [8, 5]


# -- questions that cannot be used -----------------------------------------------------------------------------------


def write_questions(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_answers_by_id_are_not_written_if_ids_repeat(run, tmp_path):
    answer = {"text": "Emma", "answer_start": 0}
    row = {"question": "Who helped?", "context": "Emma helped Sam.", "answers": [answer]}
    data = write_questions(tmp_path / "q.jsonl", [{**row, "id": "x"}, {**row, "id": "y"}, {**row, "id": "x"}])
    out = tmp_path / "answers.json"
    with (
        pytest.warns(UserWarning, match="1 question has the id of an earlier question"),
        pytest.raises(FileError, match="data: 2 questions have the id 'x', and out= holds one answer"),
    ):
        tasks.evaluate("answer", run, {"data": data, "out": str(out)})
    assert not out.exists()
    # A question without an id is written by its place, which may be the id of another question.
    data = write_questions(tmp_path / "q.jsonl", [{**row, "id": "1"}, row])
    with pytest.raises(FileError, match="data: 2 questions have the id '1'"):
        tasks.evaluate("answer", run, {"data": data, "out": str(out)})
    data = write_questions(tmp_path / "q.jsonl", [{**row, "id": "x"}, row])
    tasks.evaluate("answer", run, {"data": data, "out": str(out)})
    assert list(json.loads(out.read_text(encoding="utf-8"))) == ["x", "1"]


def test_data_without_any_answer_is_refused(tmp_path):
    rows = [{"question": "Who?", "context": f"Text number {n}.", "answers": []} for n in range(40)]
    data = write_questions(tmp_path / "none.jsonl", rows)
    with pytest.raises(
        FileError, match=r"data: no question of .*none\.jsonl that is trained on has an answer"
    ):
        tasks.train("answer", {**SMALL, "data": data, "embedded": None}, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()
