"""Tests of the task answer, its metric, spans over windows, loss, threshold, data and settings."""

import json
import math

import numpy as np
import pytest
import torch

from regard import tasks
from regard.corpus.questions import _SHARES, _share_of
from regard.errors import ArgumentError
from regard.metrics import answer_f1, exact_match
from regard.tasks.answer import Answer, AnswerSettings
from regard.tasks.answer.calibration import calibrated_threshold, other_contexts
from regard.tasks.answer.data import QuestionSource, embedded_questions, prepare, with_other_contexts
from regard.tasks.answer.network import span_loss
from regard.tasks.answer.reader import Candidate
from regard.tasks.answer.search import FoundText, add_span, best_spans, share_joined
from regard.text.questions import Question, ReferenceAnswer, read_questions
from regard.text.spans import SpanBatch
from support.paths import data_folder
from support.readers import SMALL

# -- the measure -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "em", "f1"), [("bert_ensemble", 87.86, 94.17), ("logistic", 43.57, 55.53)]
)
def test_stored_systems_have_the_scores_of_the_official_script(system, em, f1):
    import gzip

    squad = data_folder("squad")
    questions = list(read_questions(squad / "valid.json.gz"))
    with gzip.open(squad / "valid.predictions.json.gz") as file:
        predictions = json.load(file)[system]
    count = len(questions)
    assert 100 * sum(exact_match(predictions[q.id], q.texts) for q in questions) / count == pytest.approx(
        em, abs=0.005
    )
    assert 100 * sum(answer_f1(predictions[q.id], q.texts) for q in questions) / count == pytest.approx(
        f1, abs=0.005
    )


# -- spans over windows ----------------------------------------------------------------------------------------------


def logits(count, *, none=0.0, **places):
    values = np.zeros(count + 1)
    values[0] = none
    for place, value in places.items():
        values[int(place[1:]) + 1] = value
    return values


def test_probabilities_of_all_spans_and_of_no_answer_sum_to_one():
    rng = np.random.default_rng(3)
    start, end = rng.normal(size=8), rng.normal(size=8)
    found, none = best_spans([(0, start, end)], 7, most_tokens=3, top=100)
    assert len(found) == 7 + 6 + 5
    assert sum(one.confidence for one in found) + none == pytest.approx(1)
    p, q = (np.exp(side) / np.exp(side).sum() for side in (start, end))
    ratio = found[0].confidence / found[1].confidence
    (a, b), (c, d) = found[0][:2], found[1][:2]
    assert ratio == pytest.approx(p[1 + a] * q[1 + b] / (p[1 + c] * q[1 + d]))


def test_the_end_is_never_before_the_start_nor_too_far():
    start, end = logits(9, p5=9), logits(9, p2=9, p8=8.5)
    found, _ = best_spans([(0, start, end)], 9, most_tokens=3)
    assert found[0].first <= found[0].last < found[0].first + 3
    found, _ = best_spans([(0, start, end)], 9, most_tokens=4)
    assert found[0][:2] == (5, 8)


def test_windows_compare_whatever_number_is_added_to_their_logits():
    """A window without the answer, whose logits are larger by 50, does not win."""
    sure = (4, logits(6, none=-5, p3=8), logits(6, none=-5, p4=8))
    empty = (0, logits(6, none=9, p1=2) + 50, logits(6, none=9, p1=2) + 50)
    found, _ = best_spans([empty, sure], 10, most_tokens=5)
    assert found[0][:2] == (7, 8)
    shifted, _ = best_spans([(0, empty[1] - 50, empty[2] - 50), sure], 10, most_tokens=5)
    assert shifted[0].confidence == pytest.approx(found[0].confidence)


def test_a_span_in_two_windows_counts_once():
    one = (0, logits(8, p6=5), logits(8, p6=5))
    two = (5, logits(8, p1=5), logits(8, p1=5))
    found, none = best_spans([one, two], 13, most_tokens=2, top=50)
    assert [span[:2] for span in found].count((6, 6)) == 1
    assert sum(span.confidence for span in found) + none == pytest.approx(1)


# -- texts that occur more than once ---------------------------------------------------------------------------------


def shared(**texts):
    """Probabilities in percent after :func:`share_joined`, by text."""
    found = {text.replace("_", " "): FoundText(0, 1, share / 100) for text, share in texts.items()}
    share_joined(found)
    return {text: pytest.approx(100 * one.confidence) for text, one in found.items()}


def test_probabilities_of_equal_texts_are_added_and_the_first_place_is_kept():
    found: dict[str, FoundText] = {}
    for span, share, window in (((9, 12), 0.25, "a"), ((0, 3), 0.2, "b"), ((9, 12), 0.125, "c")):
        add_span(found, "ann", span, share, window)
    assert found == {"ann": FoundText(9, 12, pytest.approx(0.575), 0.25, "a")}


def test_a_text_that_joins_two_mentions_gives_a_share_to_the_mention():
    # Half of 30 goes to "ann", because both have 30.
    assert shared(ann=30, ann_sat_ann=30) == {"ann": 45, "ann sat ann": 15}
    # The mention of several words is preferred to a more rare one within it, and parts may not share words.
    assert shared(ann=1, ann_berg=40, ann_berg_ann_berg=40) == {
        "ann": 1,
        "ann berg": 60,
        "ann berg ann berg": 20,
    }
    assert shared(la_la=50, la_la_la=20) == {"la la": 50, "la la la": 20}


def test_a_text_with_two_mentions_and_more_loses_a_share_to_no_one():
    assert shared(ann=30, ann_sat_ann_ran=30) == {"ann": 30, "ann sat ann ran": 15}
    # Only words count: "annie" does not begin with "ann", nor "joann" end with it.
    assert shared(ann=30, annie_ann_ann=30) == {"ann": 30, "annie ann ann": 15}
    assert shared(ann=30, annie_joann=30) == {"ann": 30, "annie joann": 30}


def test_a_name_that_repeats_a_word_wins_if_the_word_alone_is_improbable():
    assert shared(duran=6, duran_duran=60) == {
        "duran": pytest.approx(6 + 60 / 11),
        "duran duran": pytest.approx(600 / 11),
    }


# -- the loss --------------------------------------------------------------------------------------------------------


def batch_of(starts, ends, lengths, sizes):
    blank = torch.zeros(len(sizes), max(sizes), dtype=torch.int64)
    parts = (blank, torch.tensor(sizes), blank, torch.tensor(sizes), blank, blank)
    return SpanBatch(*parts, torch.tensor(starts), torch.tensor(ends), torch.tensor(lengths))


def test_any_of_the_answers_is_right():
    start, end = torch.log(torch.tensor([[0.5, 0.25, 0.25]])), torch.log(torch.tensor([[0.25, 0.25, 0.5]]))
    loss = span_loss(start, end, batch_of([[1, 2]], [[1, 2]], [2], [3]))
    assert float(loss) == pytest.approx(-math.log(0.25 * 0.25 + 0.25 * 0.5))
    padded = span_loss(start, end, batch_of([[1, 0]], [[1, 0]], [1], [3]))
    assert float(padded) == pytest.approx(-math.log(0.25 * 0.25))


def test_smoothing_spreads_over_the_real_places():
    start = torch.tensor([[0.0, 1.0, -torch.inf], [1.0, 0.0, 2.0]])
    batch = batch_of([[1], [2]], [[1], [2]], [1, 1], [2, 3])
    plain, smooth = (span_loss(start, start, batch, smoothing=share) for share in (0.0, 0.2))
    logs = start.log_softmax(dim=-1)
    spread = -2 * (logs[0, :2].mean() + logs[1].mean())
    assert float(smooth) == pytest.approx(0.8 * float(plain) + 0.2 * float(spread))


# -- the threshold ---------------------------------------------------------------------------------------------------


def answer(text, confidence):
    return Answer("Who?", f"{text} sat.", (Candidate(text, 0, len(text), confidence),))


def test_the_threshold_separates_answers_from_none():
    questions = [Question("Who?", "Ann sat.", (ReferenceAnswer("Ann", 0),))] * 3
    answers = [answer("Ann", 0.9), answer("Ann", 0.7), answer("Bob", 0.2)]
    others = [answer("It", 0.5), answer("It", 0.3)]
    threshold, value = calibrated_threshold(questions, answers, others)
    assert 0.5 < threshold < 0.7
    assert value == pytest.approx(100 * (2 / 3 + 1) / 2)


def test_without_questions_that_have_no_answer_nothing_is_rejected():
    questions = [Question("Who?", "Ann sat.", (ReferenceAnswer("Ann", 0),))]
    assert calibrated_threshold(questions, [answer("Bob", 0.1)], []) == (0.0, 0.0)


def test_other_contexts_are_of_the_same_article_and_have_no_answer():
    rows = [Question(f"Q{n}?", f"Ann {n} sat.", (ReferenceAnswer("Ann", 0),), article="A") for n in range(3)]
    assert other_contexts(rows) == []  # all contexts have the answer
    rows = [
        Question(f"Q{n}?", f"Ann{n} sat.", (ReferenceAnswer(f"Ann{n}", 0),), article=f"{n % 2}")
        for n in range(6)
    ]
    found = other_contexts(rows)
    assert len(found) == 6
    for row, other in zip(rows, found, strict=True):
        assert (other.question, other.article, other.answers) == (row.question, row.article, ())
        assert row.texts[0] not in other.context
        assert any(one.context == other.context and one.article == row.article for one in rows)
    assert other_contexts([*rows, Question("Q?", "x")]) == []  # the data has such questions itself


# -- the data --------------------------------------------------------------------------------------------------------


def rows_of(articles, contexts, questions):
    for article in range(articles):
        for context in range(contexts):
            text = f"Place {article} {context} is red."
            for number in range(questions):
                answers = [{"text": "red", "answer_start": text.index("red")}]
                yield {"question": f"Q{number}?", "context": text, "title": f"T{article}", "answers": answers}


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("articles", [3, 20])
def test_no_context_and_no_article_is_on_both_sides(tmp_path, articles):
    data = write_rows(tmp_path / "d.jsonl", rows_of(articles, 60 // articles, 3))
    source = QuestionSource(AnswerSettings(data=data), 1000)
    train, valid = list(source.training()), source.validation()
    assert len(train) + len(valid) == 180
    # A tenth of the contexts, or of the articles.
    assert len(valid) == 18
    assert not {row.context for row in train} & {row.context for row in valid}
    if articles == 20:
        assert not {row.article for row in train} & {row.article for row in valid}


def test_validation_and_excluded_data_is_never_trained_on(tmp_path):
    rows = list(rows_of(4, 5, 2))
    data = write_rows(tmp_path / "d.jsonl", rows)
    valid, test = write_rows(tmp_path / "v.jsonl", rows[:6]), write_rows(tmp_path / "t.jsonl", rows[6:10])
    source = QuestionSource(AnswerSettings(data=data, valid=valid, exclude=test), 1000)
    assert {row.context for row in source.training()} == {row["context"] for row in rows[10:]}


def test_a_share_of_the_questions_is_asked_of_an_earlier_context():
    rows = [
        Question(
            f"What is {n}?", f"{n} is {n % 5}Y.", (ReferenceAnswer(f"{n % 5}Y", len(f"{n} is ")),), str(n)
        )
        for n in range(100, 900)
    ]
    found = list(with_other_contexts(rows, 0.25, seed=3))
    copies = [row for row in found if row.id.endswith("-other")]
    assert 150 < len(copies) < 250
    assert [row for row in found if not row.id.endswith("-other")] == rows
    by_id = {row.id: row for row in rows}
    for copy in copies:
        row = by_id[copy.id.removesuffix("-other")]
        assert copy.answers == ()
        assert copy.context != row.context
        assert row.texts[0] not in copy.context
    assert list(with_other_contexts(rows, 0.0, seed=3)) == rows


def test_embedded_questions_have_their_answers_and_splits_share_none():
    counts = {"train": 300, "valid": 100, "test": 100}
    found = {split: list(embedded_questions(0, split, count)) for split, count in counts.items()}
    for split, questions in found.items():
        assert len(questions) == counts[split]
        for one in questions:
            (reference,) = one.answers
            assert one.context[slice(*reference.span)] == reference.text
            assert one.question.endswith("?")
    assert {one.question.split()[0] for one in found["train"]} == {"Who", "What", "Where", "When"}
    for split, questions in found.items():
        for one in questions:
            start = one.context.rfind(". ", 0, one.answers[0].start) + 1
            sentence = one.context[start : one.context.find(".", one.answers[0].start) + 1].strip()
            assert _share_of(sentence) in _SHARES[split]
    shares = [share for part in _SHARES.values() for share in part]
    assert sorted(shares) == list(range(10))  # each of them is of one split


def test_prepared_data_is_cached_and_counts_what_is_left_out(tmp_path):
    rows = [*rows_of(4, 5, 2), {"question": "", "context": "x", "answers": []}]
    settings = AnswerSettings(
        data=write_rows(tmp_path / "d.jsonl", rows), skip_bad_rows=True, vocabulary_size=50
    )
    data = prepare(settings, tmp_path / "run", learn=True)
    assert data.train.manifest["skipped"]["bad"] == 1
    assert data.train.manifest["skipped"]["held_out"] == 4
    assert len(prepare(settings, tmp_path / "run").train) == len(data.train)


# -- the settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"heads": 2}, "heads: of no use for architecture=gru"),
        ({"architecture": "joined"}, "architecture: joined needs an encoder to start from"),
        (
            {"architecture": "joined", "score": "dot", "start": "x"},
            "score: of no use for architecture=joined",
        ),
        ({"score": "cosine"}, "score: unknown name"),
        ({"unanswerable": 1.5}, "unanswerable: expected a share"),
        ({"embedded": 0}, "embedded: nothing to train on"),
        ({"data": "x.json", "embedded": -5}, "embedded: nothing to train on: got -5"),
        ({"valid": "x.json"}, "valid: of no use without data="),
        ({"max_answer": 0}, "max_answer: expected 1 or more"),
        ({"start": "minilm", "vocabulary": "bpe"}, "vocabulary: of no use with start=minilm"),
    ],
)
def test_settings_that_cannot_work_are_refused(given, problem):
    with pytest.raises(ArgumentError, match=problem):
        AnswerSettings(**AnswerSettings.complete(given))


def test_windows_that_cannot_be_cut_are_refused_before_the_data_is_read(tmp_path):
    with pytest.raises(ArgumentError, match="stride: expected fewer"):
        tasks.train("answer", {**SMALL, "stride": 100, "steps": 1}, tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()
