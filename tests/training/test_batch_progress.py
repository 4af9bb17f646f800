"""Tests of the progress that is shown while a model is measured."""

import io
import sys
from types import SimpleNamespace

from regard.tasks import evaluate
from regard.tasks.classify import Classifier
from regard.tasks.translate import Translator
from regard.tasks.translate.alignment import AlignedPair, error_rates
from regard.tasks.translate.alignment_head import AlignmentHead
from regard.training import batch_progress
from regard.training.batch_progress import progress_shown, with_progress
from support.command_line import run_here

BATCHES = [[1, 2, 3], [4, 5], [6]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_has_the_count_the_speed_and_the_time_left(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_shown():
        list(with_progress(BATCHES, 6, "pages"))
        assert sys.stderr.getvalue() == ""  # a loop of less than two seconds needs no bar
        monkeypatch.setattr(batch_progress, "_BAR_AFTER", 0.0)
        assert list(with_progress(BATCHES, 6, "pages")) == BATCHES
    shown = sys.stderr.getvalue()
    assert "6/6 pages" in shown
    assert "pages/s" in shown
    assert "left" in shown


def test_without_a_terminal_there_is_a_line_every_minute(monkeypatch, capsys):
    times = iter([0.0, 30.0, 60.0, 90.0])
    monkeypatch.setattr(batch_progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with progress_shown():
        list(with_progress(BATCHES, 6))
    assert capsys.readouterr().err == "5/6 texts  0.1 texts/s  0:12 left\n"


def test_nothing_is_shown_unless_asked(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(batch_progress, "TELL_EVERY", 0.0)
    assert list(with_progress(BATCHES, 6)) == BATCHES
    (tmp_path / "pairs.tsv").write_text("A dog.\tUn chien.\nA cat.\tUn chat.\n", encoding="utf-8")
    options = {"data": str(tmp_path / "pairs.tsv"), "beams": 1}
    evaluate("translate", "en-fr", options)
    assert capsys.readouterr().err == ""
    evaluate("translate", "en-fr", options, show=True)
    assert "2/2 texts" in capsys.readouterr().err
    words = ["evaluate", "translate", "--data", "pairs.tsv", "--beams", "1"]
    assert "2/2 texts" in run_here(*words, cwd=tmp_path).stderr


def test_the_progress_of_alignments_counts_all_pairs(monkeypatch, capsys):
    monkeypatch.setattr(batch_progress, "TELL_EVERY", 0.0)
    translator = Translator.load("en-fr")
    links = frozenset({(0, 0), (1, 1)})
    pair = AlignedPair("A dog.", "Un chien.", ((0, 1), (2, 5)), ((0, 2), (3, 8)), links, links)
    with progress_shown():
        error_rates(translator, [pair] * 53, [AlignmentHead(0)])
    assert [line.split()[:2] for line in capsys.readouterr().err.splitlines()] == [
        ["50/53", "alignments"],
        ["53/53", "alignments"],
    ]


def test_the_progress_of_a_classifier_counts_all_texts(monkeypatch, capsys):
    monkeypatch.setattr(batch_progress, "TELL_EVERY", 0.0)
    monkeypatch.setattr("regard.tasks.classify.classifier.TOGETHER", 2)
    with progress_shown():
        Classifier.load("sentiment-en").classify(["Good.", "Bad.", "Fine."])
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["2/3", "3/3"]
