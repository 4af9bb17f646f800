"""Calls that courses and books make of ``transformers.pipeline``, and results as plain Python values."""

import json
import re

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

import regard
from regard.errors import ArgumentError, DtypeError, FileError
from support.pipeline_folders import write_folder

CONTEXT = "The cat sat on a mat. The dog ran in the new house, not very great."
TEXTS = ["the cat", "a dog ran", "a mat"]


class Rows(Dataset):
    """A dataset as ``transformers.pipelines.pt_utils.KeyDataset``, whose rows end with no IndexError."""

    def __init__(self, rows):
        self.rows, self.read = rows, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        self.read.append(place)
        return self.rows[place % len(self.rows)]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TEXTS)


class NumberedRows:
    """An object with a length and numbered rows, which is no dataset of torch."""

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, place):
        return TEXTS[place % len(TEXTS)]


# -- making a pipeline -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [-1, "cpu", torch.device("cpu"), None])
def test_devices_are_numbers_names_or_those_of_torch(made, device):
    pipe = made("text-classification", device=device)
    gpu = device is None and torch.cuda.is_available()
    assert next(pipe.model.parameters()).device.type == ("cuda" if gpu else "cpu")


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU")
def test_the_number_of_a_gpu_gives_the_cpu_with_a_warning_where_there_is_none(made):
    with pytest.warns(UserWarning, match="device: 0 is a GPU, and torch finds none: the CPU is used"):
        pipe = made("text-classification", device=0)
    assert next(pipe.model.parameters()).device.type == "cpu"


@pytest.mark.parametrize("device", [True, 1.5, ["cpu"]])
def test_other_values_of_device_are_refused(made, device):
    with pytest.raises(DtypeError, match="device: expected a number or the name of a device"):
        made("text-classification", device=device)


def test_the_tokenizer_may_be_named_again(made, classifier, tmp_path):
    folder = write_folder(tmp_path / "model", "text-classification")
    usual = regard.pipeline("text-classification", folder, device=-1)("the cat")
    again = regard.pipeline("text-classification", folder, tokenizer=folder, framework="pt", device=-1)
    assert again("the cat") == usual
    regard.pipeline("text-classification", str(classifier), tokenizer=classifier, device=-1)
    with pytest.raises(ArgumentError, match="tokenizer: a model of Regard has its own tokenizer"):
        regard.pipeline("text-classification", classifier, tokenizer=folder)
    with pytest.raises(FileError, match="tokenizer: there is no folder bert-base-cased"):
        regard.pipeline("text-classification", folder, tokenizer="bert-base-cased")
    with pytest.raises(DtypeError, match="tokenizer: expected a name or a folder, got dict"):
        regard.pipeline("text-classification", folder, tokenizer={})


def test_the_tokenizer_of_another_folder_is_used(tmp_path):
    """The letters of the other tokenizer have other numbers, so the states differ."""
    folder = write_folder(tmp_path / "model", "feature-extraction")
    other = tmp_path / "tokenizer"
    other.mkdir()
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    swapped = text.replace('"cat":', '"CAT":').replace('"dog":', '"cat":').replace('"CAT":', '"dog":')
    (other / "tokenizer.json").write_text(swapped, encoding="utf-8")
    (other / "tokenizer_config.json").write_bytes((folder / "tokenizer_config.json").read_bytes())
    usual = regard.pipeline("feature-extraction", folder, device=-1)
    mixed = regard.pipeline("feature-extraction", folder, tokenizer=other, device=-1)
    assert mixed("a dog") == usual("a cat")


def test_another_framework_is_refused(made):
    with pytest.raises(ArgumentError, match="framework: .*torch, got 'tf'"):
        made("text-classification", framework="tf")


@pytest.mark.parametrize(
    "kind",
    ["text-classification", "question-answering", "fill-mask", "feature-extraction", "roberta-fill-mask"],
)
def test_the_task_of_a_folder_is_read_from_its_settings(tmp_path, kind):
    pipe = regard.pipeline(model=write_folder(tmp_path / kind, kind), device=-1)
    assert pipe.task == kind.removeprefix("roberta-")


def test_the_task_of_a_model_of_regard_is_read_from_its_settings(classifier, reader, encoder):
    folders = (classifier, reader, encoder)
    tasks = [regard.pipeline(model=folder, device=-1).task for folder in folders]
    assert tasks == ["text-classification", "question-answering", "fill-mask"]
    assert regard.pipeline(model="sentiment-en", device=-1).task == "text-classification"


def test_a_task_that_cannot_be_read_is_asked_for(tmp_path):
    with pytest.raises(ArgumentError, match="task: expected text-classification, .* or a model, got nothing"):
        regard.pipeline()
    folder = write_folder(tmp_path / "model", "fill-mask")
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del settings["architectures"]
    (folder / "config.json").write_text(json.dumps({**settings, "task": "sing"}), encoding="utf-8")
    with pytest.raises(ArgumentError, match="task: there is no pipeline for sing: give one of"):
        regard.pipeline(model=folder)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ArgumentError, match="task: .* does not tell its task: give one of"):
        regard.pipeline(model=folder)


@pytest.mark.parametrize("task", ["question-answering", "feature-extraction", None])
def test_the_name_of_a_model_to_download_is_refused_with_the_reason(task):
    with pytest.raises(FileError, match="nothing is downloaded: give the folder of a BERT"):
        regard.pipeline(task, model="distilbert/distilbert-base-cased-distilled-squad")


def test_a_model_object_is_refused():
    with pytest.raises(DtypeError, match="model: expected a name or a folder, got Linear"):
        regard.pipeline("text-classification", model=torch.nn.Linear(2, 3))


def test_fill_mask_without_a_model_says_that_none_is_installed(monkeypatch):
    monkeypatch.delenv("REGARD_MODELS", raising=False)
    with pytest.raises(ArgumentError, match="model: no model for fill-mask is installed: give the folder"):
        regard.pipeline("fill-mask")


def test_fill_mask_without_a_model_uses_an_installed_encoder(encoder, monkeypatch):
    monkeypatch.setenv("REGARD_MODELS", str(encoder.parent))
    words = regard.pipeline("fill-mask", device=-1)("The <mask> sleeps.", top_k=1)
    assert words == regard.pipeline("fill-mask", encoder, device=-1)("The <mask> sleeps.", top_k=1)


def test_an_option_that_calls_refuse_is_refused_when_a_pipeline_is_made(classifier, reader, made):
    for options in ({"doc_stride": 3}, {"max_seq_len": 100}, {"align_to_words": False}):
        with pytest.raises(ArgumentError, match="trained with"):
            regard.pipeline("question-answering", reader, device=-1, **options)
    with pytest.raises(ArgumentError, match="max_answer_len"):
        regard.pipeline("question-answering", reader, device=-1, max_answer_len=0)
    with pytest.raises(ArgumentError, match="probabilities"):
        regard.pipeline("text-classification", classifier, device=-1, function_to_apply="none")
    with pytest.raises(ArgumentError, match="reads 64"):
        made("question-answering", max_seq_len=65)


# -- attributes --------------------------------------------------------------------------------------------------

# The values of the tokenizers of Transformers 4.57.6.
BERT = {
    "mask": ("[MASK]", 4),
    "cls": ("[CLS]", 2),
    "sep": ("[SEP]", 3),
    "pad": ("[PAD]", 0),
    "unk": ("[UNK]", 1),
}
ROBERTA = {
    "mask": ("<mask>", 267),
    "cls": ("<s>", 0),
    "sep": ("</s>", 2),
    "pad": ("<pad>", 1),
    "unk": ("<unk>", 3),
}


@pytest.mark.parametrize(("kind", "specials"), [("fill-mask", BERT), ("roberta-fill-mask", ROBERTA)])
def test_the_tokenizer_has_the_special_tokens_of_transformers(made, kind, specials):
    pipe = made("fill-mask", kind)
    for name, (token, number) in specials.items():
        assert getattr(pipe.tokenizer, f"{name}_token") == token
        assert getattr(pipe.tokenizer, f"{name}_token_id") == number
    assert pipe.tokenizer.model_max_length == 64
    assert pipe(f"the {pipe.tokenizer.mask_token} sat")[0]["sequence"]


def test_every_pipeline_has_a_model_and_a_tokenizer(made, classifier, reader, encoder):
    pipes = [made(task) for task in ("text-classification", "question-answering", "feature-extraction")]
    pipes += [regard.pipeline(model=folder, device=-1) for folder in (classifier, reader, encoder)]
    for pipe in pipes:
        assert isinstance(pipe.model, torch.nn.Module)
        assert pipe.tokenizer.sep_token == pipe.tokenizer.vocabulary.pieces([pipe.tokenizer.sep_token_id])[0]
    assert pipes[3].tokenizer.mask_token is None
    assert pipes[5].tokenizer.mask_token == "<mask>"


# -- datasets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_dataset_gives_an_iterator_with_its_length(made, batch_size):
    pipe, rows = made("text-classification"), Rows(TEXTS)
    results = pipe(rows, batch_size=batch_size)
    assert len(results) == 3
    assert rows.read == []
    first = next(results)
    assert rows.read == ([0] if batch_size is None else [0, 1])
    expected = pipe(TEXTS)
    for mine, other in zip([first, *results], expected, strict=True):
        assert mine["label"] == other["label"]
        assert mine["score"] == pytest.approx(other["score"], abs=1e-6)


def test_other_datasets_give_iterators_too(made):
    pipe = made("feature-extraction")
    for dataset in (Stream(), NumberedRows()):
        assert [len(states[0]) for states in pipe(dataset)] == [4, 5, 4]


def test_a_dataset_of_questions_gives_an_iterator_of_answers(made):
    pipe = made("question-answering")
    rows = [{"question": question, "context": CONTEXT} for question in ("who sat?", "where is the dog?")]
    results = pipe(Rows(rows))
    assert len(results) == 2
    assert [one["answer"] for one in results] == [one["answer"] for one in pipe(rows)]


def test_batches_of_an_iterator_have_the_asked_size(made, monkeypatch):
    pipe = made("text-classification")
    sizes, run = [], pipe.run
    monkeypatch.setattr(
        pipe, "run", lambda inputs, options: sizes.append(len(inputs)) or run(inputs, options)
    )
    assert len(list(pipe((text for text in TEXTS), batch_size=2))) == 3
    assert sizes == [2, 1]


# -- long texts --------------------------------------------------------------------------------------------------


def test_a_classifier_of_regard_says_that_a_text_was_cut_off(classifier):
    pipe = regard.pipeline("text-classification", classifier, device=-1)
    most = pipe.source.classifier.encoder.most
    with pytest.warns(UserWarning, match=f"inputs: 1 of 2 texts have more than the {most} tokens") as seen:
        cut = pipe(["who is it " * 5000, "who"])
    assert seen[0].filename == __file__
    # Warnings are errors in these tests, so no other call warns.
    assert pipe(["who is it " * 5000, "who"], truncation=True) == cut
    assert pipe("who is it", truncation=True, max_length=512) == pipe("who is it")
    with pytest.raises(ArgumentError, match=r"15,00\d tokens, and the model reads .*truncation=True"):
        pipe("who is it " * 5000, truncation=False)
    with pytest.raises(ArgumentError, match="truncation: expected True, False"):
        pipe("who is it", truncation="only_first")


def test_max_length_cuts_a_text_for_a_classifier_of_regard(classifier):
    pipe = regard.pipeline("text-classification", classifier, device=-1)
    around = pipe.tokenizer.model_max_length - pipe.source.classifier.encoder.most
    words = pipe.tokenizer.vocabulary.encode("who is it then")
    assert len(words) > 2
    short = pipe("who is it then", truncation=True, max_length=2 + around, top_k=None)
    whole = pipe("who is it then", top_k=None)
    assert short != whole
    assert pipe.attention(short)[-1].map.shape[-1] == 2 + around
    assert pipe.attention(whole)[-1].map.shape[-1] == len(words) + around


def test_a_reader_of_regard_says_that_a_question_was_cut_off(reader):
    pipe = regard.pipeline("question-answering", reader, device=-1)
    with pytest.warns(UserWarning, match="question: 1 of 1 have more than the .* tokens") as seen:
        pipe(question="who sat " * 500, context=CONTEXT)
    assert seen[0].filename == __file__


# -- values ------------------------------------------------------------------------------------------------------


def test_max_answer_len_limits_the_answers_of_a_reader_of_regard(reader):
    pipe = regard.pipeline("question-answering", reader, device=-1)
    spans = pipe.tokenizer.vocabulary.spans(CONTEXT)

    def longest(answers):
        return max(sum(a < one["end"] and b > one["start"] for a, b in spans) for one in answers)

    options = {"question": "Who sat?", "context": CONTEXT, "top_k": 200}
    assert longest(pipe(**options)) > 2
    assert longest(pipe(**options, max_answer_len=2)) == 2
    # As many tokens as the context has, and no table of a thousand million columns.
    assert pipe(**options, max_answer_len=10**9) == pipe(**options, max_answer_len=len(spans))
    limited = regard.pipeline("question-answering", reader, device=-1, max_answer_len=2)
    assert limited(**options) == pipe(**options, max_answer_len=2)


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for element in value for number in numbers_in(element)]
    return [] if isinstance(value, str) else [value]


def test_all_numbers_are_plain_python_numbers(made, classifier, reader, encoder):
    options = {"question": "Who sat?", "context": CONTEXT, "handle_impossible_answer": True, "top_k": 300}
    results = [
        made("question-answering")(**options),
        regard.pipeline("question-answering", reader, device=-1)(**options),
        made("text-classification")("the cat", top_k=None),
        regard.pipeline("text-classification", classifier, device=-1)("the cat", top_k=None),
        made("fill-mask")("the [MASK] sat"),
        made("feature-extraction")("the cat"),
    ]
    assert any(not one["answer"] for one in results[1])
    for result in results:
        assert {type(number) for number in numbers_in(result)} <= {int, float}
        assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"id2label": {"0": "A"}}, "id2label is for 1 classes, but the model has 3 outputs"),
        ({"id2label": {str(n): "A" for n in range(4)}}, "id2label is for 4 classes"),
        ({"id2label": None, "num_labels": 2}, "num_labels is for 2 classes"),
        ({"id2label": {"0": "A", "1": "B", "3": "C"}}, "id2label: expected the numbers from 0"),
        ({"id2label": ["A", "B", "C"]}, "id2label: expected the numbers from 0"),
        ({"id2label": None, "num_labels": "3"}, "num_labels: expected a whole number, got '3'"),
    ],
)
def test_labels_that_do_not_fit_the_outputs_are_refused(tmp_path, settings, words):
    folder = write_folder(tmp_path / "model", "text-classification")
    whole = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**whole, **settings}), encoding="utf-8")
    with pytest.raises(FileError, match=re.escape(words)):
        regard.pipeline("text-classification", folder)


def test_a_classifier_without_names_has_numbered_labels(tmp_path):
    folder = write_folder(tmp_path / "model", "text-classification")
    whole = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del whole["id2label"], whole["label2id"]
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    labels = regard.pipeline("text-classification", folder, device=-1)("the cat", top_k=None)
    assert sorted(one["label"] for one in labels) == ["LABEL_0", "LABEL_1", "LABEL_2"]
