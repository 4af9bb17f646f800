"""``regard write``."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from regard import tasks
from regard.tasks.write import TextStream
from support.command_line import assert_one_line, run, run_here
from support.language_folders import write_language_folder
from support.writers import writer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("writer") / "model"
    writer(context=32).save(place)
    return place


def test_texts_follow_their_prompts(folder):
    result = run_here("write", "ab", "cd", "--model", str(folder), "--max-tokens", "12")
    assert result.returncode == 0, result.stderr
    expected = tasks.load(folder).write(["ab", "cd"], max_tokens=12)
    assert result.stdout == f"ab{expected[0].text}\n\ncd{expected[1].text}\n"
    again = run_here("write", "ab", "cd", "--model", str(folder), "--max-tokens", "12")
    assert again.stdout == result.stdout
    other = run_here("write", "ab", "cd", "--model", str(folder), "--max-tokens", "12", "--seed", "3")
    assert other.stdout != result.stdout


def test_tokens_are_printed_as_they_come(folder, monkeypatch):
    written = TextStream._written
    before = []

    def watched(self):
        for piece in written(self):
            before.append(sys.stdout.getvalue())
            yield piece

    monkeypatch.setattr(TextStream, "_written", watched)
    result = run_here("write", "ab", "--model", str(folder), "--max-tokens", "9")
    # All that was written before a piece is on the screen when the piece comes.
    assert before == [result.stdout[: 2 + number] for number in range(9)]


def test_prompts_come_from_files_and_pipes(folder, tmp_path):
    (tmp_path / "p.txt").write_text("ab\ncd\n", encoding="utf-8")
    words = ["--model", str(folder), "--max-tokens", "3", "--json"]
    lines = run_here("write", "--file", str(tmp_path / "p.txt"), *words).stdout.splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["ab", "cd"]
    whole = run_here("write", "--file", str(tmp_path / "p.txt"), "--whole", *words).stdout.splitlines()
    assert [json.loads(line)["prompt"] for line in whole] == ["ab\ncd\n"]
    out = tmp_path / "out.jsonl"
    run_here("write", "ab", *words, "--samples", "3", "--out", str(out))
    texts = [json.loads(line)["text"] for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(set(texts)) == 3


def test_without_a_prompt_it_writes_from_the_start(folder):
    result = run("write", "--model", str(folder), "--max-tokens", "7", code=WITHOUT_INPUT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip("\n") == tasks.load(folder).write([""], max_tokens=7)[0].text.rstrip("\n")
    assert result.stderr == "regard: the input is empty: the text begins without a prompt\n"


WITHOUT_INPUT = (
    "import sys, io; sys.stdin = io.TextIOWrapper(io.BytesIO()); from regard.cli import main; main()"
)


class Keyboard(io.StringIO):
    """Lines that a user types."""

    def isatty(self):
        return True


def test_a_conversation_is_piped_or_typed(tmp_path, monkeypatch):
    words = ["write", "--model", str(write_language_folder(tmp_path / "llama", "llama"))]
    words += ["--chat", "--max-tokens", "5"]
    expected = run_here(*words, "the cat", "a dog")
    assert (expected.returncode, expected.stderr) == (0, "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n\na dog\n")))
    piped = run_here(*words)
    assert (piped.stdout, piped.stderr) == (expected.stdout, "")
    monkeypatch.setattr(sys, "stdin", Keyboard("the cat\n\na dog\n"))
    typed = run_here(*words)
    assert (typed.stdout, typed.stderr) == (expected.stdout, "> > > > \n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    empty = run_here(*words)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert empty.stderr == "regard: the input is empty: there is no message to answer\n"


def test_look_writes_a_page_with_all_attention(folder):
    result = run_here("write", "ab cd", "--model", str(folder), "--max-tokens", "4", "--look", DISPLAY="")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("ab cd")
    (path,) = result.stderr.splitlines()
    page = Path(path).read_text(encoding="utf-8")
    assert "decoder.layers.1.self_attention" in page


def test_the_command_says_what_was_not_read(folder):
    words = ["--model", str(folder), "--max-tokens", "40"]
    result = run_here("write", "abcdefgh" * 5, *words)
    assert "the prompt has 41 tokens and the model reads 32: its beginning was not read" in result.stderr
    result = run_here("write", "ab", *words)
    assert "the model reads 32 tokens: it forgot the older ones when they were full" in result.stderr
    result = run_here("write", "ab", *words, "--when-full", "stop")
    assert "stopped: the context of 32 tokens is full" in result.stderr
    result = run_here("write", "a∂", *words, "--max-tokens", "2")
    assert "the model does not know '∂'" in result.stderr
    refused = run_here("write", "abcdefgh" * 5, *words, "--when-full", "stop")
    assert_one_line(refused, 2, "TEXT: has 41 tokens")
    assert refused.stdout == "", "the prompt is not shown before the error"


def test_attention_is_drawn_and_saved(folder, tmp_path):
    picture = tmp_path / "a.html"
    words = ["write", "ab cd", "--model", str(folder), "--max-tokens", "6"]
    result = run_here(*words, "--attention", "--save-attention", str(picture))
    assert result.returncode == 0, result.stderr
    written = run_here(*words).stdout
    assert result.stdout.startswith(written)
    assert re.search(r"[01]\.\d\d", result.stdout.removeprefix(written))
    assert "cd" in picture.read_text(encoding="utf-8")
    value = json.loads(run_here(*words, "--attention", "--json").stdout)
    assert len(value["attention"]) == len(value["written"])


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--max-tokens", "0"], 2, "--max-tokens: expected a whole number of 1 or more, got 0"),
        (["--temperature", "-1"], 2, "--temperature: expected 0 or more"),
        (["--top-p", "2"], 2, "--top-p: expected a share above 0 and up to 1, got 2"),
        (["--min-p", "1.5"], 2, "--min-p: expected a share from 0 to 1, got 1.5"),
        (["--samples", "0"], 2, "--samples: expected 1 or more, got 0"),
        (["--when-full", "sleep"], 2, "--when-full: unknown name 'sleep'"),
        (["--temperature", "0", "--top-k", "5"], 2, "--top-k: of no use with --temperature 0"),
        (["--temperature", "0", "--seed", "5"], 2, "--seed: of no use with --temperature 0"),
        (["--temperature", "0", "--samples", "2"], 2, "--samples: of no use with --temperature 0"),
        (["--system", "x"], 2, "--system: of no use without --chat"),
        (["--chat"], 2, "--chat: this model has no chat template"),
        (["--whole"], 2, "--whole: of no use with a prompt on the command line"),
        (["--stop", ""], 2, "--stop: expected a value, got an empty text"),
    ],
)
def test_mistakes_are_one_line(folder, words, code, text):
    assert_one_line(run_here("write", "ab", "--model", str(folder), *words), code, text)


def test_a_model_of_another_task_is_refused():
    assert_one_line(
        run_here("write", "ab", "--model", "sentiment-en"), 2, "is a model for classify, not for write"
    )


def test_a_repetition_penalty_makes_the_model_write_other_tokens(folder):
    call = ["write", "ab cd", "--model", str(folder), "--max-tokens", "12", "--temperature", "0"]
    plain, other = run_here(*call).stdout, run_here(*call, "--repetition-penalty", "1000").stdout
    assert len(set(other)) > len(set(plain))
    assert_one_line(
        run_here(*call, "--repetition-penalty", "0"), 2, "--repetition-penalty: expected a number above 0"
    )
