"""Tests that the short examples and the scripts of the gallery run in an empty folder and print what they say."""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys

import pytest
import torch

from regard.tasks.translate import Translator
from regard.training import load_checkpoint
from support.paths import ROOT
from support.training_runs import checkpoints

EXAMPLES = ROOT / "examples"
GALLERY = EXAMPLES / "gallery"
# What a user wants to do, in at most 40 lines each.
SHORT = {
    "average_translators": "",
    "capture_huggingface": "transformers",
    "classify_csv": "",
    "export_to_onnx": "onnxruntime",
    "gru_with_attention": "",
    "long_document": "",
    "own_score": "",
    "own_task": "",
    "replace_multihead_attention": "",
    "train_with_torchrun": "",
    "translate_tsv": "sacrebleu",
}
PAGES = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem != "page")


def run(path, folder, *words, **environment):
    """Run a script in this process, in a folder of its own, and return what it printed on both streams."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(sys, "argv", [str(path), *words])
        patch.syspath_prepend(str(path.parent))
        for name, value in environment.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            with contextlib.suppress(SystemExit):  # of a page that is left out
                runpy.run_path(str(path), run_name="__main__")
            sys.modules.pop("page", None)
    return out.getvalue(), errors.getvalue()


def example(name, folder, *words):
    needed = SHORT[name]
    if needed:
        pytest.importorskip(needed)
    printed, errors = run(EXAMPLES / f"{name}.py", folder, *words)
    # Transformers shows the loading of weights there.
    assert errors == "" or needed == "transformers"
    return printed


def test_every_short_example_has_at_most_40_lines():
    for name in SHORT:
        assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 40, name


def test_additive_attention_in_a_gru_learns_to_reverse(tmp_path):
    printed = example("gru_with_attention", tmp_path)
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", printed)]
    assert losses[-1] < losses[0] / 2


def test_the_weights_of_two_translators_are_averaged(tmp_path):
    translator = Translator.load("en-fr")
    name, weights = next(iter(translator.model.state_dict().items()))
    before = weights.clone()
    weights += 1  # in the model itself
    translator.save(tmp_path / "after")
    printed = example("average_translators", tmp_path, "en-fr", "after", "--share", "0.25", "--out", "mean")
    assert "is in mean" in printed
    after = Translator.load(tmp_path / "mean").model.state_dict()[name]
    assert torch.allclose(after, before + 0.25, atol=1e-6)


def test_the_replaced_multi_head_attention_gives_the_same_output(tmp_path):
    printed = example("replace_multihead_attention", tmp_path)
    assert float(re.findall(r"largest difference: (\S+)", printed)[0]) < 1e-5
    assert "on the padding: 0.0" in printed
    assert "back to torch: MultiheadAttention" in printed


def test_a_hugging_face_model_is_captured_unchanged(tmp_path):
    printed = example("capture_huggingface", tmp_path)
    assert "output unchanged: True" in printed
    assert "attends most to" in printed
    assert (tmp_path / "attention.html").is_file()


def test_a_tsv_file_is_learned_and_translated(tmp_path):
    printed = example("translate_tsv", tmp_path)
    assert "after 20 steps: The cat sleeps. ->" in printed
    assert "BLEU on 20 of these rows" in printed


def test_a_csv_file_is_learned_and_classified(tmp_path):
    printed = example("classify_csv", tmp_path)
    assert re.search(
        r"^negated \(.*largest weight on 'not': The cat does not sleep", printed, flags=re.MULTILINE
    )
    assert re.search(r"^plain ", printed, flags=re.MULTILINE)


def test_a_window_over_a_long_document_sees_few_keys(tmp_path):
    printed = example("long_document", tmp_path, "700")
    assert "query 350 sees 258 of 700 keys" in printed


def test_an_own_score_is_trained(tmp_path):
    printed = example("own_score", tmp_path)
    assert float(re.findall(r"width (\S+),", printed)[-1]) < 1
    assert re.search(r"^a  1\.00", printed, flags=re.MULTILINE)


def test_an_own_task_is_trained_and_loaded(tmp_path):
    assert re.search(r"\w+\\t0\.\d+", example("own_task", tmp_path))


def test_training_runs_in_one_process(tmp_path):
    assert "1 process(es): finished at step 10" in example("train_with_torchrun", tmp_path)


@pytest.mark.slow
def test_a_trained_model_is_exported(tmp_path):
    assert "1 process(es): finished at step 10" in example("train_with_torchrun", tmp_path)
    printed = example("export_to_onnx", tmp_path, "torchrun-run")
    assert (
        len(re.findall(r"^exported/\w+\.onnx: .*difference \S+e-0[6-9]\b", printed, flags=re.MULTILINE)) == 2
    )
    assert "\nonnxruntime: " in printed


@pytest.mark.slow
def test_a_translator_runs_in_onnxruntime_with_the_same_text(tmp_path):
    printed = example("export_to_onnx", tmp_path)
    texts = re.findall(r"^(?:onnxruntime|Regard): +(.*)$", printed, flags=re.MULTILINE)
    assert texts == ["Le chat est assis sur le tapis."] * 2


@pytest.mark.slow
def test_training_runs_under_torchrun(tmp_path):
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *words, str(EXAMPLES / "train_with_torchrun.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "2 process(es): finished at step 10" in done.stdout
    # A checkpoint has the state of the random numbers of every process that took part.
    (last,) = checkpoints(tmp_path / "torchrun-run")[-1:]
    assert load_checkpoint(last).tensors["random"].keys() == {"0", "1"}


# ---- the gallery

# The variables that name the files of models that are not installed.
VARIABLES = {
    "rxnmapper": "REGARD_RXNMAPPER",
    "smollm2": "REGARD_SMOLLM2",
    "stories": "REGARD_STORIES15M",
}


def constants(name):
    """Return the texts of a script by their names, without running it."""
    text = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    return dict(re.findall(r'^(ENGLISH|CHINESE) = """\n(.*?)"""', text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", PAGES)
def test_a_gallery_script_has_30_lines_and_three_sentences_in_both_languages(name):
    assert len((GALLERY / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 30
    texts = constants(name)
    assert len(re.findall(r"[.?!](?=\s)", texts["ENGLISH"])) == 3
    assert len(re.findall("。", texts["CHINESE"])) == 3


@pytest.mark.parametrize("name", VARIABLES)
def test_a_gallery_script_without_its_model_says_so_and_writes_nothing(name, tmp_path):
    if name == "rxnmapper":
        pytest.importorskip("transformers")
    absent = str(tmp_path / "absent")
    printed, errors = run(GALLERY / f"{name}.py", tmp_path, **{VARIABLES[name]: absent})
    assert printed == ""
    assert errors.startswith(f"{name}: left out: ")
    assert VARIABLES[name] in errors or "regard train" in errors
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_the_translators_has_a_viewer_for_each(tmp_path):
    pytest.importorskip("tokenizers")
    printed, errors = run(GALLERY / "translators.py", tmp_path)
    assert (printed, errors) == ("build/gallery/translators.html\n", "")
    page = (tmp_path / "build" / "gallery" / "translators.html").read_text(encoding="utf-8")
    assert page.count('<div class="place"') == 2
    assert "交叉注意力" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if name != "translators"])
def test_a_gallery_script_writes_its_page_if_its_model_is_there(name, tmp_path):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("pip install 'regard[hf]'")
    printed, errors = run(GALLERY / f"{name}.py", tmp_path)
    if "left out" in errors:
        pytest.skip(errors.strip())
    assert printed == f"build/gallery/{name}.html\n"
    page = (tmp_path / printed.strip()).read_text(encoding="utf-8")
    assert "data-view" in page
    shown = " ".join(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page))
    quoted = [word.strip() for word in re.findall(r'"([^"]+)"', constants(name)["ENGLISH"])]
    absent = [word for word in quoted if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", shown)]
    assert absent == [], "the text quotes words that the viewer does not show"
