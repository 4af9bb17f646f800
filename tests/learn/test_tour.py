"""Tests of the tour, its stops, its two languages and its page."""

import inspect
import json
import re
import string
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.errors import MissingExtraError, RegardError, UnknownNameError, install_command
from regard.learn.tour import captured, lengths, predictions, running, training, translation, worked
from regard.learn.tour.presenter import Presenter
from regard.learn.words import Words
from regard.tasks import find_model, installed_models, load
from support.command_line import assert_one_line, run_here

PNG = b"\x89PNG\r\n\x1a\n"
MODULES = (captured, lengths, predictions, running, translation, worked)
ROWS = {"one": [("1-5", 9, 50.0), ("6-", 4, 12.5)], "two": [("1-5", 9, 75.0), ("6-", 4, 70.0)]}


def _presenter(folder, language="en"):
    return Presenter(folder, language, Console(record=True, width=100, force_terminal=False, file=None))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The output of ``regard tour --quick`` and its folder."""
    pytest.importorskip("tokenizers", reason="the translators need it: pip install 'regard[text]'")
    folder = tmp_path_factory.mktemp("tour")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "REGARD_MODELS"):
            patch.delenv(name, raising=False)
        patch.setenv("LANG", "en_US.UTF-8")
        result = run_here("tour", "--quick", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout, folder / "regard-tour"


def test_a_chinese_paragraph_fills_its_lines(tmp_path, capsys):
    text = (
        "用 Regard 训练一个翻译模型，" + "然后看它在翻译每个词的时候注意源句子中的哪些词，" * 4 + "（完）。"
    )
    presenter = Presenter(tmp_path, "zh", Console(width=60, force_terminal=False))
    presenter.say(Words("text", text))
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert "".join(lines) == text
    assert all(54 <= cell_len(line) <= 60 for line in lines[:-1])
    assert not any(line[0] in "，。）" or line[-1] == "（" for line in lines)


def test_the_drawings_of_predictions_are_labelled_in_chinese(tmp_path, capsys):
    presenter = Presenter(tmp_path, "zh", Console(width=60, force_terminal=False))
    text = SimpleNamespace(
        picture=None, text="a good film", spans=[(2, 6)], weights=np.ones((1, 1)), unread=None, table=None
    )
    picture = SimpleNamespace(
        picture="x", row_words=["pooling, head 0", "rollout"], weights=np.eye(2, 4), grid=(2, 2)
    )
    for drawn in (text, picture):
        predictions._draw_words(presenter, presenter.console, drawn)
    printed = capsys.readouterr().out
    for words in ("权重最大的词：good 1.00", "池化，头 0", "逐层相乘"):
        assert words in printed
    assert "pooling" not in printed


def test_the_worked_example_has_the_right_numbers(quick):
    for number in ("0.7071", "0.4011", "0.1978", "16.0445", "3.9555"):
        assert number in quick[0]


def test_the_sentence_is_translated_and_aligned(quick):
    printed, _ = quick
    assert "The cat sits on the mat. → Le chat est assis sur le tapis." in printed
    assert "The cat sits on the mat. → 猫坐在垫子上。" in printed
    rows = dict(
        re.findall(r"^ *(chat|assis|tapis) ((?: +\d\.\d\d(?: [.:*#])?){7})", printed, flags=re.MULTILINE)
    )
    found = {word: [float(number) for number in re.findall(r"\d\.\d\d", row)] for word, row in rows.items()}
    columns = ["The", "cat", "sits", "on", "the", "mat", "."]
    assert {word: columns[row.index(max(row))] for word, row in found.items()} == {
        "chat": "cat",
        "assis": "sits",
        "tapis": "mat",
    }


def test_models_predict_and_show_where_they_looked(quick):
    printed, _ = quick
    assert "A sentence classified: positive" in printed
    assert "****wonderful****" in printed
    assert "The answer: Anna Berg" in printed


def test_a_real_model_is_captured_with_the_same_output(quick):
    assert re.search(r"\d+ attentions were recorded: \d+ heads\.", quick[0])
    said = re.search(r"without the capture is ([\d.e-]+)\. ", " ".join(quick[0].split()))
    assert said is not None
    # MiniLM has the same output. An encoder of PyTorch runs on its fast path without the capture only.
    assert float(said[1]) <= 1e-5
    assert "random weights" not in quick[0]


def test_the_captured_encoder_of_torch_has_the_trained_weights():
    torch = pytest.importorskip("torch")
    encoder = load(find_model("translate", languages=("en", "fr"))).model.encoder
    tokens = torch.tensor([[360, 4264, 2321, 16, 2]])  # (b,n)
    with torch.no_grad():
        states = captured.as_torch(encoder)(encoder.embedding(tokens))  # (b,n,m)
        assert torch.allclose(states, encoder(tokens), atol=1e-4)


def test_the_end_says_what_to_try_next(quick):
    printed, folder = quick
    assert f"\n  regard-tour/{running.PAGE}\n" in printed
    assert "\n  regard --help  " in printed
    assert (folder / running.PAGE).is_file()
    assert (folder / "1-worked-example.png").read_bytes()[:8] == PNG


@pytest.mark.parametrize("is_found", [True, False])
def test_the_end_says_how_to_put_the_command_on_the_path(tmp_path, monkeypatch, is_found):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running.sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(running.shutil, "which", lambda _name: "/bin/regard" if is_found else None)
    presenter = _presenter(tmp_path)
    running._end(presenter)
    assert ("  . env/bin/activate" in presenter.console.export_text()) is not is_found


def test_quick_leaves_out_the_training_and_says_so(quick):
    printed, folder = quick
    assert "--quick leaves out the training" in printed
    assert sorted(path.name for path in folder.iterdir()) == ["1-worked-example.png", "index.html"]


def test_the_page_is_self_contained_and_has_a_viewer_for_each_part(quick):
    page = (quick[1] / running.PAGE).read_text(encoding="utf-8")
    documents = re.findall(r'id="regard-document-\d+">(.*?)</script>', page)
    # The worked example, two translations and a capture, and a prediction of each task with a model.
    tasks = {model.task for model in installed_models()}
    assert len(documents) == 4 + len(tasks & set(predictions.SHOWN))
    titles = [json.loads(document)["title"] for document in documents]
    assert captured.TEXT in titles
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert page.count("<h2>") == 5


def test_a_shipped_caption_model_is_shown_or_its_training_is_named(quick):
    assert "regard train caption" in quick[0] or "A picture described:" in quick[0]


@pytest.mark.usefixtures("fonts")
@pytest.mark.filterwarnings("ignore:no installed font has")
def test_the_tour_speaks_chinese(tmp_path):
    presenter = _presenter(tmp_path, "zh")
    presenter.title(worked.TITLE, 1)
    worked.stop(presenter)
    printed = presenter.console.export_text()
    assert "手算注意力" in printed
    assert "不会是 0。因此输出是" in printed.replace("\n", "")
    assert "16.0445" in printed
    assert "A query" not in printed


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_both_languages_have_the_same_values(module):
    texts = [value for _, value in inspect.getmembers(module) if isinstance(value, Words)]
    assert texts
    for text in texts:
        english, chinese = ({name for _, name, _, _ in string.Formatter().parse(side)} for side in text)
        assert english == chinese, text.en


def test_an_unknown_language_is_an_error_that_names_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="language: unknown name 'fr'"):
        running.run(tmp_path, language="fr")
    result = run_here("tour", "--language", "fr", cwd=tmp_path)
    assert_one_line(result, 2, "--language: unknown name 'fr'", "known are en, zh")


def test_a_stop_without_its_packages_is_left_out_with_the_command(tmp_path, monkeypatch):
    def missing(presenter):
        raise MissingExtraError("tokenizers", "text", "byte-pair encoding")

    monkeypatch.setattr(running, "STOPS", (running.Stop(translation.TITLE, missing),))
    console = Console(record=True, width=300, force_terminal=False)
    path = running.run(tmp_path, language="en", console=console)
    printed = " ".join(console.export_text().split())
    assert "(this stop is left out: byte-pair encoding needs tokenizers: install it with" in printed
    assert install_command("text") in printed
    assert "byte-pair encoding needs tokenizers" in path.read_text(encoding="utf-8")


def test_without_matplotlib_the_picture_is_left_out_with_the_command(tmp_path):
    def draw(path):
        raise MissingExtraError("matplotlib", "plot", "drawing")

    presenter = _presenter(tmp_path)
    presenter.picture("a.png", draw, "a picture")
    assert install_command("plot") in presenter.console.export_text().replace("\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("fonts")
def test_quality_by_length_is_drawn_and_its_numbers_are_said(tmp_path):
    pytest.importorskip("matplotlib")
    presenter = _presenter(tmp_path)
    lengths._show(presenter, ROWS)
    printed = presenter.console.export_text()
    assert "1-5 (9)  one  ####################                       50.0" in printed
    assert "6- (4)   one  #####" in printed
    words = " ".join(printed.split())
    assert "goes from 50 to 12 BLEU" in words
    assert "attention from 75 to 70" in words
    assert (tmp_path / "3-quality-by-length.png").read_bytes()[:8] == PNG


@pytest.mark.usefixtures("fonts")
def test_models_that_learned_too_little_are_not_compared(tmp_path):
    pytest.importorskip("matplotlib")
    presenter = _presenter(tmp_path)
    lengths._show(
        presenter, {"one": [("1-5", 9, 1.4), ("6-", 4, 0.9)], "two": [("1-5", 9, 3.0), ("6-", 4, 1.0)]}
    )
    words = " ".join(presenter.console.export_text().split())
    assert "neither model has learned enough in this time to compare them" in words
    assert "cannot hold a long sentence" not in words


def _run_of(tmp_path, name="one"):
    return training.TrainingRun(name, ["--steps", "1"], tmp_path / name)


def test_the_progress_of_a_run_is_read_from_its_metrics(tmp_path):
    one = _run_of(tmp_path)
    assert one.progress() == {}
    one.folder.mkdir()
    lines = [{"step": 50, "seconds": 3.0, "loss": 4.5, "learning_rate": 1.0}, {"step": 61, "bleu": 3.0}]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 100, "lo'
    (one.folder / "metrics.jsonl").write_text(text)
    assert one.progress()["loss"] == 4.5
    assert one.steps == 61


def test_a_failed_training_is_an_error_with_its_reason(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nprint('regard: out of memory', file=sys.stderr)\nsys.exit(1)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(
        RegardError, match="the training of 'one' failed: out of memory: try  regard train translate"
    ):
        training.train_side_by_side([_run_of(tmp_path)], 0.1, print)


@pytest.mark.slow
@pytest.mark.usefixtures("fonts")
def test_two_models_are_trained_side_by_side(tmp_path):
    pytest.importorskip("sacrebleu")
    presenter = _presenter(tmp_path)
    flags = [*lengths.FLAGS, "--embedded", "300", "--vocabulary-size", "400", "--validate-sentences", "4"]
    lengths.stop(presenter, minutes=0.05, sentences=8, flags=flags)
    printed = presenter.console.export_text()
    assert "--score none --minutes 0.05" in printed
    assert "1-5 (" in printed
    assert (tmp_path / "model-none" / "config.json").is_file()
    assert (tmp_path / "model-additive" / "config.json").is_file()
