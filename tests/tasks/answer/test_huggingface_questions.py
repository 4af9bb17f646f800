"""Questions of Hugging Face data sets, for training and for evaluation."""

import json

import pytest

from regard import tasks
from regard.tasks.answer import AnswerSettings
from regard.tasks.answer.data import QuestionSource, embedded_questions
from support.command_line import assert_one_line, run_here
from support.readers import SMALL

datasets = pytest.importorskip("datasets")
COUNTS = {"train": 60, "validation": 7, "test": 5}
SETTINGS = {name: value for name, value in SMALL.items() if name != "embedded"} | {"steps": 2}


def rows_of(part):
    """Return questions as Hugging Face's SQuAD has them, with the answers as a dict of lists."""
    for question in embedded_questions(COUNTS[part], "train", COUNTS[part]):
        answers = {"text": question.texts, "answer_start": [one.start for one in question.answers]}
        row = {"id": f"{part}-{question.id}", "title": f"{part} {question.id[-1]}"}
        yield row | {"question": question.question, "context": question.context, "answers": answers}


@pytest.fixture(params=["save_to_disk", "folder of files", "list of answers"])
def data_set(request, tmp_path):
    """A data set with three parts, as a folder of memory-mapped files or of JSON lines."""
    folder = tmp_path / "set"
    if request.param == "save_to_disk":
        # The type of SQuAD's answers.
        inner = {"text": datasets.Value("string"), "answer_start": datasets.Value("int32")}
        texts = {name: datasets.Value("string") for name in ("id", "title", "question", "context")}
        features = datasets.Features({**texts, "answers": datasets.Sequence(inner)})
        parts = {part: datasets.Dataset.from_list(list(rows_of(part)), features) for part in COUNTS}
        datasets.DatasetDict(parts).save_to_disk(str(folder))
        return folder
    folder.mkdir()
    for part in COUNTS:
        rows = list(rows_of(part))
        if request.param == "list of answers":
            for row in rows:
                pairs = zip(row["answers"]["text"], row["answers"]["answer_start"], strict=True)
                row["answers"] = [{"text": text, "answer_start": start} for text, start in pairs]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{part}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def source_of(data, **changes):
    return QuestionSource(AnswerSettings(**{**SETTINGS, "data": f"hf:{data}", **changes}), 500)


def test_the_parts_of_a_data_set_are_trained_on_and_validated_on(data_set):
    source = source_of(data_set)
    trained, valid = list(source.training()), source.validation()
    assert {one.id.partition("-")[0] for one in valid} == {"validation"}
    assert {one.id.partition("-")[0] for one in trained} == {"train"}
    assert len(valid) == COUNTS["validation"]
    assert not {one.context for one in trained} & {one.context for one in valid}
    expected = {row["id"]: row for row in rows_of("train")}
    for one in trained:
        row = expected[one.id]
        assert (one.question, one.context, one.article) == (row["question"], row["context"], row["title"])
        assert (one.texts, [a.start for a in one.answers]) == tuple(row["answers"].values())


def test_a_reader_is_trained_resumed_and_measured(data_set, tmp_path):
    flags = [part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    done = run_here("train", "answer", "--data", "hf:set", *flags, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "validation: 7 questions held out" in done.stderr
    moved = data_set.rename(tmp_path / "elsewhere")  # known by its contents
    assert tasks.resume(tmp_path / "run", {"data": f"hf:{moved}", "steps": 3}, show=False).step == 3
    words = ["evaluate", "answer", "--model", "run", "--data", "hf:elsewhere", "--json"]
    assert json.loads(run_here(*words, cwd=tmp_path).stdout)["questions"] == COUNTS["test"]
    found = run_here(*words, "--split", "validation", cwd=tmp_path)
    assert json.loads(found.stdout)["questions"] == COUNTS["validation"]


def test_without_a_validation_part_contexts_are_held_out(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of("train")), encoding="utf-8")
    source = source_of(path, hold_out=0.1)
    trained, valid = list(source.training()), source.validation()
    assert len(trained) + len(valid) == COUNTS["train"]
    assert valid
    assert not {one.context for one in trained} & {one.context for one in valid}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": {"text": ["nowhere"], "answer_start": [0]}}, "the answer 'nowhere' is not at 0"),
        ({"context": 3}, "'context' is not text, but 3"),
    ],
)
def test_a_bad_row_is_one_line_that_names_its_place(tmp_path, change, words):
    rows = list(rows_of("train"))
    rows[4] |= change
    (tmp_path / "set").mkdir()
    path = tmp_path / "set" / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = run_here("train", "answer", "--data", "hf:set", "--out", "run", cwd=tmp_path)
    assert_one_line(done, 1, "hf:set, row 5", words)
    assert not (tmp_path / "run").exists()


def test_a_format_is_of_no_use_with_a_data_set(tmp_path):
    words = ["--data", "hf:set", "--format", "squad", "--out", "run"]
    done = run_here("train", "answer", *words, cwd=tmp_path)
    assert_one_line(done, 2, "--format: of no use with hf:set")


def test_a_data_set_that_is_not_there_is_one_line(tmp_path):
    done = run_here("train", "answer", "--data", "hf:set/that/is/absent", "--out", "run", cwd=tmp_path)
    assert_one_line(done, 1, "--data: cannot load hf:set/that/is/absent")
    assert not (tmp_path / "run").exists()
