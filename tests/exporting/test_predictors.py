"""Tests of exported translators and classifiers, and of ``regard export``."""

import json
import re
import runpy

import pytest
import torch

from regard import SelfAttention, tasks
from regard.errors import ArgumentError
from regard.exporting import export
from regard.text import load_vocabulary
from support.command_line import assert_one_line, run_here
from support.paths import ROOT


def needs_onnx():
    for package in ("onnx", "onnxscript", "onnxruntime", "tokenizers"):
        pytest.importorskip(package, reason="pip install 'regard[export,text]'")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    needs_onnx()
    folder = tmp_path_factory.mktemp("exported")
    result = run_here("export", "en-fr", "--out", str(folder / "fr"))
    assert (result.returncode, result.stderr) == (0, "")
    return folder / "fr", result.stdout


@pytest.mark.slow
def test_the_shipped_translator_is_exported_with_its_vocabulary(exported):
    folder, printed = exported
    names = ["encoder.onnx", "export.json", "step.onnx", "tokenizer.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    about = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    assert about["task"] == "translate"
    assert about["encoder"]["inputs"]["source"] == {"dtype": "int64", "shape": ["batch", "source"]}
    assert about["step"]["inputs"]["target"]["shape"] == ["batch", "target"]
    assert about["settings"]["target_language"] == "fr"
    assert str(folder / "step.onnx") in printed
    differences = re.findall(r"difference (\S+) \* \(1 \+ \|x\|\)", printed)
    assert len(differences) == 2
    assert max(map(float, differences)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("text", ["The cat sits on the mat.", "I met Ms. Okonkwo in 1987."])
def test_onnxruntime_alone_gives_the_text_of_the_translator(exported, text):
    example = runpy.run_path(str(ROOT / "examples" / "export_to_onnx.py"))
    translator = tasks.load("en-fr", device="cpu")
    assert example["greedy"](str(exported[0]), text) == translator([text], beams=1, normalize=False)[0].text


@pytest.mark.slow
def test_the_translator_to_chinese_gives_its_numbers_and_text_in_onnxruntime(tmp_path):
    needs_onnx()
    translator = tasks.load("en-zh", device="cpu")
    files = export(translator, tmp_path / "zh")
    assert {file.path.name for file in files} == {"encoder.onnx", "step.onnx"}
    assert all(file.difference <= 1e-5 and next(iter(file.inputs.values()))[0] == "batch" for file in files)
    example = runpy.run_path(str(ROOT / "examples" / "export_to_onnx.py"))
    text = "The cat sits on the mat."
    expected = translator([text], beams=1, normalize=False)[0].text
    assert example["greedy"](str(tmp_path / "zh"), text) == expected == "猫坐在垫子上。"


@pytest.mark.slow
def test_a_classifier_is_exported_as_one_graph(tmp_path):
    needs_onnx()
    import onnxruntime

    classifier = tasks.load("sentiment-en", device="cpu")
    (file,) = export(classifier, tmp_path / "sentiment")
    session = onnxruntime.InferenceSession(file.path)
    tokens, lengths = torch.randint(20, (3, 9)), torch.tensor([9, 4, 6])
    fed = {"tokens": tokens.numpy(), "lengths": lengths.numpy()}
    (logits,) = session.run(None, fed)
    with torch.no_grad():
        expected = classifier.model(tokens, lengths)
    torch.testing.assert_close(torch.from_numpy(logits), expected, atol=1e-5, rtol=1e-5)
    about = json.loads((tmp_path / "sentiment" / "export.json").read_text(encoding="utf-8"))
    assert about["settings"]["labels"] == classifier.labels.names


def program(path):
    """Load a program of torch.export, and return it with the names of its inputs."""
    about = json.loads((path.parent / "export.json").read_text(encoding="utf-8"))
    return (
        torch.export.load(path).module(),
        list(about[path.stem]["inputs"]),
        list(about[path.stem]["outputs"]),
    )


@pytest.mark.slow
def test_the_programs_of_a_translator_give_its_text(tmp_path):
    pytest.importorskip("tokenizers", reason="pip install 'regard[text]'")
    text, folder = "I met Ms. Okonkwo in 1987.", tmp_path / "fr"
    result = run_here("export", "en-fr", "--out", str(folder), "--format", "torch.export")
    assert (result.returncode, result.stderr) == (0, "")
    names = ["encoder.pt2", "export.json", "step.pt2", "tokenizer.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    vocabulary = load_vocabulary(folder / "tokenizer.json")
    source = torch.tensor([[*vocabulary.encode(text), vocabulary.eos]])  # (b,s)
    given = {"source": source, "lengths": torch.tensor([source.shape[1]])}
    encoder, inputs, outputs = program(folder / "encoder.pt2")
    step, step_inputs, _ = program(folder / "step.pt2")
    target = [vocabulary.bos]
    with torch.no_grad():
        states = encoder(*(given[name] for name in inputs))
        given |= dict(zip(outputs, states, strict=True))
        while target[-1] != vocabulary.eos and len(target) < 40:
            given["target"] = torch.tensor([target])  # (b,t)
            target.append(int(step(*(given[name] for name in step_inputs))[0].argmax()))
    translator = tasks.load("en-fr", device="cpu")
    expected = translator([text], beams=1, normalize=False)[0].text
    assert (
        vocabulary.decode([token for token in target if token not in (vocabulary.bos, vocabulary.eos)])
        == expected
    )


@pytest.mark.slow
def test_a_classifier_is_exported_as_one_program(tmp_path):
    classifier = tasks.load("sentiment-en", device="cpu")
    (file,) = export(classifier, tmp_path / "sentiment", format="torch.export")
    assert file.path.name == "model.pt2"
    tokens, lengths = torch.randint(20, (3, 9)), torch.tensor([9, 4, 6])
    classify, inputs, _ = program(file.path)
    assert inputs == ["tokens", "lengths"]
    with torch.no_grad():
        logits = classify(tokens, lengths)
        expected = classifier.model(tokens, lengths)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["garments", "mnist"])
@pytest.mark.parametrize(("format", "file_name"), [("onnx", "model.onnx"), ("torch.export", "model.pt2")])
def test_the_shipped_classifiers_of_pictures_are_exported(tmp_path, name, format, file_name):
    if format == "onnx":
        needs_onnx()
    classifier = tasks.load(name, device="cpu")
    (file,) = export(classifier, tmp_path / name, format=format)
    assert file.path.name == file_name
    assert file.inputs == {"images": ("batch", 1, 28, 28)}
    pictures = torch.rand(3, 1, 28, 28)
    with torch.no_grad():
        expected = classifier.model(pictures)
    if format == "onnx":
        import onnxruntime

        (logits,) = onnxruntime.InferenceSession(file.path).run(None, {"images": pictures.numpy()})
    else:
        logits = program(file.path)[0](pictures)
    torch.testing.assert_close(torch.as_tensor(logits), expected, atol=1e-5, rtol=1e-5)


def test_wrong_calls_of_the_command_are_one_line(tmp_path):
    file = str(tmp_path / "model.onnx")
    assert_one_line(run_here("export", "sentiment-en", "--out", file), 2, "--out", "exported into a folder")
    folder = str(tmp_path / "folder")
    result = run_here("export", "sentiment-en", "--out", folder, "--format", "tflite")
    assert_one_line(result, 2, "--format: expected onnx or torch.export, got 'tflite'")
    assert_one_line(
        run_here("export", "no-model", "--out", folder), 1, "MODEL: no-model is neither", "en-fr, en-zh"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "task"), [("scenes-en", "caption"), ("digits-in-glimpses", "glimpse")])
def test_what_can_be_exported_is_told_for_other_tasks(tmp_path, name, task):
    words = f"models of the task {task} cannot be exported: export a translator .*, an encoder, or a reader"
    with pytest.raises(ArgumentError, match=words):
        export(tasks.load(name, device="cpu"), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_options_that_would_be_ignored_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="format: of no use for a module"):
        export(SelfAttention(4), tmp_path / "a.pt2", format="onnx")
    with pytest.raises(ArgumentError, match="outputs: of no use for a predictor"):
        export(tasks.load("sentiment-en"), tmp_path / "folder", outputs=["x"])
    with pytest.raises(ArgumentError, match=r"inputs: forward\(\) of Linear has no argument 'x': .* input"):
        export(torch.nn.Linear(2, 2), tmp_path / "a.pt2", {"x": torch.zeros(1, 2)})
    assert list(tmp_path.iterdir()) == []
