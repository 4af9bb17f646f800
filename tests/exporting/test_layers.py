"""Tests that exported layers give the numbers of the layers in onnxruntime and torch.export, for other sizes too."""

import sys
from collections import namedtuple

import pytest
import torch
from torch import nn

import regard
from regard import models, positions, scores
from regard.exporting import ExportError, export
from regard.exporting.example_inputs import graph_of

B, Q, K, M = 2, 5, 7, 12
MINUS = float("-inf")


def needs_onnx():
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="pip install 'regard[export]'")


def floats(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def masks():
    """Boolean and float masks (b,q,k), in which one query of the second sequence has no key."""
    keep = torch.rand(B, Q, K, generator=torch.Generator().manual_seed(3)) < 0.6
    keep[1, 2] = False
    added = floats(B, Q, K).masked_fill(~keep, MINUS)
    return keep, added


QUERY, MEMORY = {"query": floats(B, Q, M)}, {"key": floats(B, K, M), "value": floats(B, K, M)}
KEEP, ADDED = masks()
LAYERS = {
    "additive": (regard.AdditiveAttention(M), None),
    "additive, one query, masked": (
        regard.AdditiveAttention(M),
        {"query": floats(B, M), "keys": floats(B, K, M), "mask": KEEP[:, 2:3].contiguous()},
    ),
    "simple": (regard.SimpleAttention(M), None),
    "simple, float mask": (regard.SimpleAttention(M), {**QUERY, **MEMORY, "mask": ADDED}),
    "basic": (regard.BasicAttention(M), None),
    "basic, boolean mask": (regard.BasicAttention(M), {**QUERY, **MEMORY, "mask": KEEP}),
    "self": (regard.SelfAttention(M), None),
    "self, window": (regard.SelfAttention(M), {"x": floats(B, K, M), "mask": regard.window(2, 0)}),
    "encoder-decoder": (regard.EncoderDecoderAttention(M), None),
    "multi-head": (regard.MultiHeadAttention(M, 3), None),
    "multi-head, boolean mask": (regard.MultiHeadAttention(M, 3), {**QUERY, **MEMORY, "mask": KEEP}),
    "multi-head, boolean mask, no weights": (
        regard.MultiHeadAttention(M, 3),
        {**QUERY, **MEMORY, "mask": KEEP, "need_weights": False},
    ),
    "multi-head, groups, rotary, causal, no weights": (
        regard.MultiHeadAttention(24, 6, kv_heads=2, rotary=True),
        {"query": floats(B, Q, 24), "mask": regard.causal(), "need_weights": False},
    ),
    "multi-head, extra keys, ALiBi": (
        regard.MultiHeadAttention(M, 3, add_bias_kv=True, add_zero_attn=True),
        {**QUERY, **MEMORY, "bias": positions.ALiBi(3)},
    ),
    "multi-head, window or global": (
        regard.MultiHeadAttention(M, 3),
        {"query": floats(B, K, M), "mask": regard.window(1, 1) | regard.global_tokens([0])},
    ),
    "multi-head, relative bias": (
        regard.MultiHeadAttention(M, 3),
        {**QUERY, **MEMORY, "bias": positions.RelativeBias(3)},
    ),
    "dot": (scores.Dot(), None),
    "scaled dot": (scores.ScaledDot(), None),
    "bilinear": (scores.Bilinear(5, 7), None),
    "additive score": (scores.Additive(5, 7, 11), None),
    "tanh": (scores.Tanh(torch.randn(11)), None),
    "sinusoidal": (regard.PositionalEncoding(M, 64), None),
    "learned": (regard.LearnedPositionalEncoding(M, 64), None),
    "rotary": (regard.Rotary(8), None),
}


def small(**options):
    sizes = {"width": 12, "heads": 3, "layers": 2, "feed_forward": 16}
    return {**sizes, **options}


MODELS = {
    "encoder": (models.Encoder, models.EncoderConfig(vocabulary_size=11, **small())),
    "decoder, window, rotary": (
        models.Decoder,
        models.DecoderConfig(vocabulary_size=11, **small(positions="rotary", kv_heads=1), window=3),
    ),
    "classifier": (
        models.TextClassifier,
        models.TextClassifierConfig(vocabulary_size=11, classes=3, **small(), pooling="additive"),
    ),
    "transformer": (
        models.Transformer,
        models.TransformerConfig(
            source_size=11,
            target_size=13,
            width=12,
            heads=3,
            feed_forward=16,
            encoder_layers=1,
            decoder_layers=1,
        ),
    ),
    "vision transformer": (
        models.VisionTransformer,
        models.VisionTransformerConfig(
            classes=3, image_size=(6, 10), patch_size=2, width=12, heads=3, layers=1, feed_forward=16
        ),
    ),
    "swin": (
        models.Swin,
        models.SwinConfig(
            classes=3, image_size=(8, 12), patch_size=2, width=12, depths=(2, 2), heads=(2, 3), window=2
        ),
    ),
    "linear classifier": (
        models.LinearClassifier,
        models.LinearClassifierConfig(classes=3, image_size=(5, 7)),
    ),
    "convolutional classifier": (
        models.ConvolutionalClassifier,
        models.ConvolutionalClassifierConfig(classes=3, image_size=(8, 12)),
    ),
}


PICTURES = ["vision transformer", "swin", "linear classifier", "convolutional classifier"]


# The others take about a second each.
FAST = {"multi-head, boolean mask, no weights"}
SUFFIXES = ["onnx", "pt2"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in LAYERS]
)
def test_a_file_gives_the_numbers_of_the_layer_for_any_batch_and_length(tmp_path, name, suffix):
    if suffix == "onnx":
        needs_onnx()
    torch.manual_seed(0)
    layer, inputs = LAYERS[name]
    (file,) = export(layer, tmp_path / f"layer.{suffix}", inputs)
    assert file.difference < 1e-5
    first = next(iter(file.inputs.values()))
    assert first[0] == "batch"
    lengths = [size for shape in file.inputs.values() for size in shape[1:] if isinstance(size, str)]
    assert lengths or name == "additive, one query, masked"
    assert [path.name for path in tmp_path.iterdir()] == [f"layer.{suffix}"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_numbers_of_the_model(tmp_path, name, suffix):
    if suffix == "onnx":
        needs_onnx()
    torch.manual_seed(0)
    kind, config = MODELS[name]
    (file,) = export(kind(config), tmp_path / f"model.{suffix}")
    assert file.difference < 1e-5
    assert next(iter(file.inputs.values()))[0] == "batch"


@pytest.mark.parametrize("name", PICTURES)
def test_classifiers_of_pictures_have_graphs_with_example_pictures(name):
    kind, config = MODELS[name]
    graph = graph_of(kind(config))
    height, width = config.image_size
    assert graph.tensors["images"].shape == (B, 1, height, width)
    assert graph.free_axes("images") == [0]
    assert graph.module(**graph.arguments).shape == (B, 3)


def test_a_program_of_torch_export_gives_the_numbers_of_the_layer(tmp_path):
    layer = regard.AdditiveAttention(M).train()
    (file,) = export(layer, tmp_path / "layer.pt2")
    assert file.difference < 1e-5
    assert layer.training
    program = torch.export.load(file.path).module()
    inputs = {"query": floats(3, 4, M), "keys": floats(3, 9, M)}
    torch.testing.assert_close(program(*inputs.values()), layer(**inputs), atol=1e-5, rtol=1e-5)


class Structured(torch.nn.Module):
    """A module that returns its results in a form of its own."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return self.form(2 * x, x + 1)


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "form",
    [
        lambda a, b: a,
        lambda a, b: (a,),
        lambda a, b: (a, None),
        lambda a, b: [a, (b,)],
        lambda a, b: {"b": b, "a": {"deep": a}},
        Pair,
    ],
    ids=["tensor", "tuple of one", "none", "list", "dict", "named tuple"],
)
def test_a_program_returns_the_structure_that_the_module_returns(form, tmp_path):
    (file,) = export(Structured(form), tmp_path / "module.pt2", {"x": floats(2, 3)})
    x = floats(5, 7)
    found, expected = torch.export.load(file.path).module()(x), form(2 * x, x + 1)
    if form is Pair:  # a program has no classes of the model
        expected = tuple(expected)
    assert type(found) is type(expected)
    assert getattr(found, "keys", list)() == getattr(expected, "keys", list)()
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


MASKED = regard.SimpleAttention(M), {**QUERY, **MEMORY, "mask": KEEP}


def test_a_fully_masked_row_is_zero_in_an_onnx_file(tmp_path):
    needs_onnx()
    import onnxruntime

    layer, inputs = MASKED
    export(layer, tmp_path / "layer.onnx", inputs, outputs=("context", "weights"))
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    context, weights = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    assert (context[1, 2] == 0).all()
    assert (weights[1, 2] == 0).all()
    assert [one.name for one in session.get_outputs()] == ["context", "weights"]


def test_a_fully_masked_row_is_zero_in_a_program_of_torch_export(tmp_path):
    layer, inputs = MASKED
    (file,) = export(layer, tmp_path / "layer.pt2", inputs, outputs=("context", "weights"))
    context, weights = torch.export.load(file.path).module()(*inputs.values())
    assert (context[1, 2] == 0).all()
    assert (weights[1, 2] == 0).all()
    assert list(file.outputs) == ["context", "weights"]


class Branching(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Wrong(nn.Module):
    """A module whose graph adds another number than the module itself."""

    def forward(self, x):
        return x + (1 if torch.compiler.is_compiling() else 2)


class WrongBeyond(nn.Module):
    """A module that adds a number to sequences of more than 6, which its graph does not."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x):
        y = self.linear(x)
        return y if torch.compiler.is_compiling() else y + float(x.shape[1] > 6)


@pytest.mark.parametrize(
    ("model", "inputs", "error", "words"),
    [
        (
            nn.Linear(3, 2),
            None,
            regard.RegardError,
            r"inputs: the inputs of a Linear are not known: .* inputs=\{'input': torch.randn\(2, 5, 64\)\}",
        ),
        (nn.Linear(3, 2), [1], TypeError, "inputs: expected arguments of forward.* got list: give .*'input'"),
        (
            nn.Linear(3, 2),
            {"input": floats(2, 5)},
            ValueError,
            r"inputs: forward\(\) of Linear fails on input \(2, 5\): mat1 and mat2 shapes",
        ),
        (
            nn.GRU(3, 4),
            {"input": floats(2, 3, 3)},
            ExportError,
            "^the graph has fixed the batch size 2 of the",
        ),
        (WrongBeyond(), {"x": floats(2, 5, 3)}, ExportError, "the exported file and the model differ by"),
        (nn.Linear(3, 2), {}, ValueError, "inputs: expected at least one tensor, got none"),
        ("layer", None, TypeError, "model: expected a layer, a model or a predictor, got str"),
        (Branching(), {"x": floats(2, 3)}, ExportError, "Branching cannot be exported"),
        (
            regard.SelfAttention(M),
            {"x": floats(B, K, M), "mask": regard.padding([7, 4])},
            ValueError,
            "mask: a mask that holds a tensor would be fixed in the graph",
        ),
    ],
)
def test_what_cannot_be_exported_is_an_error_in_words(tmp_path, model, inputs, error, words):
    with pytest.raises(error, match=words):
        export(model, tmp_path / "layer.pt2", inputs)
    assert list(tmp_path.iterdir()) == []


class SlightlyWrong(nn.Module):
    """A module whose graph multiplies by a slightly different number than the module itself."""

    def forward(self, x):
        return x * (1000 if torch.compiler.is_compiling() else 1000.005)


def test_the_difference_is_given_in_the_measure_of_its_bound(tmp_path):
    (file,) = export(SlightlyWrong(), tmp_path / "layer.pt2", {"x": torch.ones(2, 3)})
    assert file.difference == pytest.approx(0.005 / 1001, rel=0.02)
    assert str(file).endswith("difference 5.0e-06 * (1 + |x|)")


def test_a_file_that_differs_from_the_model_is_not_kept(tmp_path):
    with pytest.raises(ExportError, match="the exported file and the model differ by .* more than 1e-05"):
        export(Wrong(), tmp_path / "layer.pt2", {"x": floats(2, 3)})
    assert list(tmp_path.iterdir()) == []


def test_a_size_that_onnx_has_fixed_is_told_in_one_sentence(tmp_path, capfd):
    needs_onnx()
    with pytest.raises(ExportError) as caught:
        export(nn.GRU(3, 4), tmp_path / "gru.onnx", {"input": floats(2, 3, 3)})
    assert str(caught.value) == "the graph has fixed the batch size 2 of the example"
    assert capfd.readouterr() == ("", "")


def test_another_suffix_is_an_error(tmp_path):
    with pytest.raises(regard.RegardError, match=r"expected a name that ends in .onnx \(onnx\) or .pt2"):
        export(regard.SelfAttention(M), tmp_path / "layer.pt")


@pytest.mark.slow
def test_dropout_is_off_in_the_file(tmp_path):
    layer = regard.MultiHeadAttention(M, 3, dropout=0.5).train()
    (file,) = export(layer, tmp_path / "layer.pt2")
    assert file.difference < 1e-5
    assert layer.training


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(regard.errors.MissingExtraError, match="exporting to ONNX needs onnx") as caught:
        export(regard.SelfAttention(M), tmp_path / "layer.onnx")
    assert regard.errors.install_command("export") in str(caught.value)
