"""Tests of ``regard answer`` with questions from arguments, files and a pipe, and of its errors."""

import io
import json
from unittest import mock

import pytest

from regard import tasks
from support.command_line import assert_one_line, run_here

SMALL = {
    "embedded": 200,
    "vocabulary_size": 300,
    "width": 16,
    "batch_tokens": 600,
    "warmup": 2,
    "max_tokens": 64,
}
SMALL |= {"stride": 16, "validate_questions": 10, "steps": 3}
CONTEXT = "Emma helped the teacher. It rained in Paris."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    tasks.train("answer", SMALL, folder, show=False)
    return str(folder)


def answer(model, *words, piped="", **options):
    with mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(piped.encode()))):
        return run_here("answer", "--model", model, *words, **options)


def test_a_question_is_answered_from_a_context_or_a_file(model, tmp_path):
    (tmp_path / "text.txt").write_text(CONTEXT, encoding="utf-8")
    first = answer(model, "Who helped the teacher?", "--context", CONTEXT, "--threshold", "0")
    second = answer(
        model, "--question", "Who helped the teacher?", "--context-file", str(tmp_path / "text.txt")
    )
    third = answer(model, "Who helped the teacher?", "--file", str(tmp_path / "text.txt"), "--threshold", "0")
    assert first.returncode == second.returncode == third.returncode == 0, first.stderr + second.stderr
    assert first.stdout == third.stdout
    text, confidence = first.stdout.strip().split("\t")
    assert text in CONTEXT
    assert 0 <= float(confidence) <= 1


def test_lines_of_json_are_answered_in_order(model, tmp_path):
    rows = [
        {"id": f"q{n}", "question": f"Who is {n}?", "context": f"{CONTEXT} Ann is {n}."} for n in range(5)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    piped = answer(model, "--json", "--top", "3", piped=text)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    out = tmp_path / "out.jsonl"
    filed = answer(
        model, "--json", "--top", "3", "--questions", str(tmp_path / "rows.jsonl"), "--out", str(out)
    )
    assert piped.returncode == filed.returncode == 0, piped.stderr + filed.stderr
    assert out.read_text(encoding="utf-8") == piped.stdout
    found = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [one["id"] for one in found] == [row["id"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert len(one["candidates"]) == 3
        for candidate in one["candidates"]:
            assert row["context"][candidate["start"] : candidate["end"]] == candidate["text"]


def test_no_answer_is_printed_below_the_threshold(model):
    words = ["Who?", "--context", CONTEXT, "--threshold", "1"]
    found = json.loads(answer(model, *words, "--top", "3", "--json").stdout)
    assert (found["answer"], found["found"], found["start"], found["threshold"]) == ("", False, None, 1.0)
    assert len(found["candidates"]) == 3
    for more, count in (([], 1), (["--top", "3"], 3)):
        (line,) = answer(model, *words, *more).stdout.splitlines()
        head, none, rejected = line.split("\t")
        assert (head, float(none)) == ("no answer found", pytest.approx(found["no_answer"], abs=0.001))
        label, _, shown = rejected.partition(": ")
        assert label == "below the threshold 1.000"
        texts, shares = zip(*(one.rsplit(" ", 1) for one in shown.split(", ")), strict=True)
        assert list(texts) == [one["text"] for one in found["candidates"][:count]]
        confidences = [one["confidence"] for one in found["candidates"][:count]]
        assert [float(share) for share in shares] == pytest.approx(confidences, abs=0.001)


def test_a_context_that_names_a_file_and_a_question_that_is_too_long_are_reported(model, tmp_path):
    (tmp_path / "page.txt").write_text(CONTEXT, encoding="utf-8")
    done = run_here("answer", "Who?", "--context", "page.txt", "--model", str(model), cwd=tmp_path)
    assert "page.txt is read as the text itself: to read the file, say --file page.txt" in done.stderr
    done = answer(model, "Who " * 2000, "--context", CONTEXT)
    assert "1 of 1 questions are too long: their end was not read" in done.stderr


WRONG = {
    "no context": (["Who?"], 2, "--context: not given: a question needs a text"),
    "two contexts": (["Who?", "--context", "x", "--file", "y"], 2, "--context: given together with a file"),
    "no question": (["--context", "x"], 2, "--context: given without a question"),
    "an empty context": (["Who?", "--context", " "], 2, "--context: is empty"),
    "an empty question": (["", "--context", "x"], 2, "is empty"),
    "no file": (["Who?", "--file", "none.txt"], 1, "no file none.txt"),
    "a threshold": (
        ["Who?", "--context", "x", "--threshold", "3"],
        2,
        "--threshold: expected a number from 0 to 1",
    ),
    "a question and a file": (["Who?", "--questions", "x"], 2, "--questions: given together with a question"),
}


@pytest.mark.parametrize(("words", "code", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_one_line(model, words, code, problem, tmp_path):
    assert_one_line(answer(model, *words, cwd=tmp_path), code, problem)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not JSON", "line 2: not JSON"),
        ('{"question": "Who?"}', "line 2: 'context' is missing"),
        ('{"id": "q7", "question": "", "context": "x"}', "line 2, question q7: the question is empty"),
        ("[]", "line 2: expected an object"),
    ],
)
def test_a_bad_line_of_a_pipe_is_named_by_its_number(model, line, problem):
    good = json.dumps({"question": "Who?", "context": CONTEXT})
    done = answer(model, piped=f"{good}\n{line}\n")
    assert_one_line(done, 1, problem)


def test_a_model_of_another_task_is_refused():
    done = run_here("answer", "--model", "en-fr", "Who?", "--context", "x")
    assert_one_line(done, 2, "is a model for translate, not for answer")


def test_attention_is_drawn_and_saved(model, tmp_path):
    page = tmp_path / "attention.html"
    words = ["Who helped the teacher?", "--context", CONTEXT, "--threshold", "0", "--attention"]
    done = answer(model, *words, "--save-attention", str(page))
    assert done.returncode == 0, done.stderr
    assert "teacher" in done.stdout.partition("\n")[2]
    assert "Emma" in page.read_text(encoding="utf-8")


def test_evaluation_writes_answers_by_id(model, tmp_path):
    rows = [
        {"id": "a", "question": "Who?", "context": CONTEXT, "answers": [{"text": "Emma", "answer_start": 0}]}
    ]
    rows += [{"id": "b", "question": "Who flew?", "context": CONTEXT, "answers": [], "is_impossible": True}]
    data, out = tmp_path / "d.jsonl", tmp_path / "out.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ["--data", str(data), "--out", str(out), "--threshold", "1", "--json", "--baseline"]
    done = run_here("evaluate", "answer", "--model", model, *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert json.loads(out.read_text(encoding="utf-8")) == {"a": "", "b": ""}
    assert (report["exact"], report["f1"], report["answered"]) == (50.0, 50.0, 0.0)
    assert report["compared"]["sliding window"]["questions"] == 2
