"""Tests of what ``regard classify`` says about texts that are long or empty, and of its files."""

from support.command_line import assert_one_line, run_here


def test_a_text_that_was_not_read_as_a_whole_is_reported():
    done = run_here("classify", "good film " * 3000, "a fine film")
    assert "1 of 2 texts have more than" in done.stderr
    assert "was not read" in done.stderr
    assert "was not read" not in run_here("classify", "a fine film").stderr


def test_an_empty_text_has_a_guess_and_no_picture(tmp_path):
    done = run_here("classify", "", "--save-attention", str(tmp_path / "a.png"))
    assert done.returncode == 0
    assert "the model knows no word of ''" in done.stderr
    assert "there is no picture of an empty text" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_results_and_the_picture_are_two_files(tmp_path):
    file = str(tmp_path / "a.png")
    done = run_here("classify", "a fine film", "--out", file, "--save-attention", file)
    assert_one_line(done, 2, f"--save-attention: {file} is the file of the results")
    assert not list(tmp_path.iterdir())
