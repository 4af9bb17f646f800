"""Tests of the Vision Transformer against plain versions in NumPy, and of its settings, files and records."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from regard import capture, reference
from regard.errors import ArgumentError, DtypeError, FileError, ShapeError, UnknownNameError
from regard.models import VisionTransformer, VisionTransformerConfig, load_model
from regard.models.vision_embedding import sinusoidal_grid

B, CHANNELS, ROWS, COLUMNS, PATCH, CLASSES = 2, 3, 3, 5, 2, 7
N = ROWS * COLUMNS
CONFIG = VisionTransformerConfig(
    classes=CLASSES,
    image_size=(ROWS * PATCH, COLUMNS * PATCH),
    channels=CHANNELS,
    patch_size=PATCH,
    width=12,
    heads=3,
    layers=2,
    feed_forward=11,
    dropout=0.0,
)
POOLINGS = ("class_token", "mean", "additive", "multihead")


def build(**settings) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(replace(CONFIG, **settings)).double().eval()


def pictures() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(B, CHANNELS, ROWS * PATCH, COLUMNS * PATCH, generator=generator, dtype=torch.float64)


def arrays(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def linear(x: np.ndarray, state: dict[str, np.ndarray], name: str) -> np.ndarray:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def norm(x: np.ndarray, state: dict[str, np.ndarray], name: str) -> np.ndarray:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-6) * state[f"{name}.weight"] + state[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return functional.gelu(torch.from_numpy(x)).numpy()


def attended(x: np.ndarray, state: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return the self-attention of one image ``(n,m)``, head by head."""
    q, k, v = (linear(x, state, f"{name}.W_{part}") for part in "qkv")
    heads = []
    for start in range(0, CONFIG.width, 4):
        columns = slice(start, start + 4)
        weights = reference.softmax(q[:, columns] @ k[:, columns].T / 2)
        heads.append(weights @ v[:, columns])
    return linear(np.concatenate(heads, axis=-1), state, f"{name}.W_o")


def plain_states(image: np.ndarray, state: dict[str, np.ndarray], extra: list[str]) -> np.ndarray:
    """Return the states ``(n,m)`` of one image, patch by patch and token by token."""
    vectors = [state[f"encoder.embedding.{name}"] for name in extra]
    weight = state["encoder.embedding.patches.weight"].reshape(CONFIG.width, -1)
    for row in range(ROWS):
        for column in range(COLUMNS):
            top, left = row * PATCH, column * PATCH
            pixels = image[:, top : top + PATCH, left : left + PATCH].reshape(-1)
            vectors.append(weight @ pixels + state["encoder.embedding.patches.bias"])
    x = np.stack(vectors) + state["encoder.embedding.positions"]
    for layer in range(CONFIG.layers):
        name = f"encoder.layers.{layer}"
        x = x + attended(norm(x, state, f"{name}.self_norm"), state, f"{name}.self_attention")
        hidden = gelu(linear(norm(x, state, f"{name}.feed_norm"), state, f"{name}.feed_forward.widen"))
        x = x + linear(hidden, state, f"{name}.feed_forward.narrow")
    return norm(x, state, "encoder.norm")


def test_the_logits_are_those_of_a_plain_version_patch_by_patch():
    model, images = build(), pictures()
    state = arrays(model)
    for image, logits in zip(images, model(images), strict=True):
        states = plain_states(image.numpy(), state, ["class_token"])
        expected = linear(states[0], state, "output.linear")
        np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=0, atol=1e-12)


def test_the_distillation_token_has_a_state_and_an_output_of_its_own():
    model, images = build(distillation="output"), pictures()
    state = arrays(model)
    states = plain_states(images[1].numpy(), state, ["class_token", "distillation_token"])
    first, second = (
        linear(states[i], state, name)
        for i, name in enumerate(("output.linear", "distillation_output.linear"))
    )
    np.testing.assert_allclose(model(images)[1].detach().numpy(), (first + second) / 2, rtol=0, atol=1e-12)
    alone = build(distillation="token")
    alone.load_state_dict({k: v for k, v in model.state_dict().items() if "distillation_output" not in k})
    np.testing.assert_allclose(alone(images)[1].detach().numpy(), first, rtol=0, atol=1e-12)


def test_the_mean_pooling_has_no_class_token():
    model, images = build(pooling="mean"), pictures()
    state = arrays(model)
    states = plain_states(images[0].numpy(), state, [])
    assert states.shape == (N, CONFIG.width)
    expected = linear(states.mean(0), state, "output.linear")
    np.testing.assert_allclose(model(images)[0].detach().numpy(), expected, rtol=0, atol=1e-12)


def test_sinusoidal_positions_are_a_sine_and_cosine_of_row_and_column():
    table = sinusoidal_grid(ROWS, COLUMNS, 8, like=torch.zeros(1, dtype=torch.float64)).numpy()
    for row in range(ROWS):
        for column in range(COLUMNS):
            expected = [
                f(place * rate) for place in (row, column) for rate in (1, 0.01) for f in (np.sin, np.cos)
            ]
            np.testing.assert_allclose(table[row * COLUMNS + column], expected, atol=1e-12)


def test_sinusoidal_positions_tell_patches_apart_and_none_do_not():
    image = pictures()[:1]
    turned = image.flip(-1).unfold(3, PATCH, PATCH).flip(-1).flatten(3)  # the patches of each row, reversed
    close = {}
    for positions in ("sinusoidal", "none"):
        model = build(positions=positions, pooling="mean")
        close[positions] = torch.allclose(model(image), model(turned), atol=1e-12)
    assert close == {"sinusoidal": False, "none": True}


def test_a_convolutional_embedding_gives_the_grid_of_the_patches():
    model = build(embedding="convolution", patch_size=2, image_size=(ROWS * 2, COLUMNS * 2))
    small = VisionTransformer(replace(CONFIG, embedding="convolution", patch_size=4, image_size=(12, 20)))
    assert model.encoder.embedding.patches(pictures()).shape == (B, 12, ROWS, COLUMNS)
    convolutions = [
        part.weight.shape for part in small.encoder.embedding.patches.modules() if hasattr(part, "weight")
    ]
    assert convolutions == [(6, CHANNELS, 3, 3), (12, 6, 3, 3)]
    assert small(torch.rand(B, CHANNELS, 12, 20)).shape == (B, CLASSES)


def test_a_deep_convolutional_embedding_has_a_convolution_of_stride_1_before_each_other():
    config = replace(CONFIG, embedding="deep_convolution", patch_size=4, image_size=(12, 20))
    model = VisionTransformer(config)
    found = [
        (part.in_channels, part.out_channels, part.stride)
        for part in model.encoder.embedding.patches.modules()
        if isinstance(part, torch.nn.Conv2d)
    ]
    assert found == [
        (CHANNELS, 3, (1, 1)),
        (3, 6, (2, 2)),
        (6, 6, (1, 1)),
        (6, 12, (2, 2)),
    ]
    assert model(torch.rand(B, CHANNELS, 12, 20)).shape == (B, CLASSES)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("embedding", ["patch", "convolution", "deep_convolution"])
def test_every_parameter_has_a_gradient(pooling, embedding):
    distillation = "output" if pooling == "class_token" else "none"
    model = build(pooling=pooling, embedding=embedding, distillation=distillation)
    model(pictures()).square().sum().backward()
    without = [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()]
    # The softmax over the keys does not depend on what is added to all of them.
    assert [name for name in without if not name.endswith("W_k.bias")] == []


@pytest.mark.parametrize("pooling", POOLINGS)
def test_records_have_the_grid_of_the_patches(pooling):
    model, records = build(pooling=pooling), []
    images = pictures()
    logits = model(images, records=records)
    torch.testing.assert_close(logits, model(images), rtol=0, atol=1e-12)
    extra = int(pooling == "class_token")
    layers, rest = records[: CONFIG.layers], records[CONFIG.layers :]
    for number, record in enumerate(layers):
        assert record.name == f"encoder.layers.{number}.self_attention"
        assert (record.kind, record.layer) == ("self", number)
        assert record.map.shape == (B, 3, N + extra, N + extra)
        assert record.query_grid == record.key_grid == (ROWS, COLUMNS)
        assert record.query_extra == record.key_extra == extra
    assert len(rest) == int(pooling in ("additive", "multihead"))
    for record in rest:
        assert record.map.shape == (B, 1, 1, N)
        assert (record.key_grid, record.query_grid, record.kind) == ((ROWS, COLUMNS), None, "cross")


@pytest.mark.parametrize("embedding", ["patch", "convolution"])
def test_a_capture_finds_the_same_weights_and_grid_as_the_records(embedding):
    model, records = build(embedding=embedding).float(), []
    images = pictures().float()
    model(images, records=records)
    with torch.no_grad(), capture(model) as seen:
        model(images)
    assert len(seen) == len(records)
    for found, record in zip(seen, records, strict=True):
        assert (found.name, found.key_grid, found.key_extra) == (
            record.name,
            record.key_grid,
            record.key_extra,
        )
        torch.testing.assert_close(found.map.weights(), record.map.weights(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"pooling": "additive", "pooling_heads": 2, "positions": "sinusoidal"},
                                      {"distillation": "output", "embedding": "convolution"}])  # fmt: skip
def test_a_saved_model_loads_with_the_same_outputs(tmp_path, settings):
    model = build(**settings).float()
    model.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert type(loaded) is VisionTransformer
    assert loaded.config == model.config
    torch.testing.assert_close(loaded(pictures().float()), model(pictures().float()), rtol=0, atol=0)


def test_a_folder_with_other_sizes_is_rejected_by_name(tmp_path):
    build().float().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    values["model"]["image_size"] = [ROWS * PATCH, (COLUMNS + 1) * PATCH]
    file.write_text(json.dumps(values))
    with pytest.raises(
        FileError, match=r"encoder\.embedding\.positions is \(16, 12\), the settings say \(19, 12\)"
    ):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"patch_size": 4}, ArgumentError, "patches of 4 pixels do not divide an image of 6 x 10"),
        ({"image_size": (1, 2, 3)}, DtypeError, "expected a number, or height and width"),
        ({"image_size": 0}, ArgumentError, "image_size"),
        ({"embedding": "convolution", "patch_size": 1}, ArgumentError, "power of 2"),
        ({"embedding": "deep_convolution", "patch_size": 1}, ArgumentError, "power of 2"),
        ({"embedding": "linear"}, UnknownNameError, "embedding"),
        ({"pooling": "first"}, UnknownNameError, "pooling"),
        ({"positions": "rotary"}, UnknownNameError, "positions"),
        ({"positions": "sinusoidal", "width": 15}, ArgumentError, "multiple of 4"),
        ({"heads": 5}, ArgumentError, "5 heads do not divide width = 12"),
        ({"pooling_heads": 2}, ArgumentError, "has no heads, got 2: use pooling=additive or multihead"),
        ({"distillation": "token", "pooling": "mean"}, ArgumentError, "needs a class token"),
        ({"classes": 0}, ArgumentError, "classes"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_rejected_by_name(settings, error, words):
    with pytest.raises(error, match=words):
        replace(CONFIG, **settings)


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (torch.zeros(2, 3, 6, 9), ShapeError, r"expected \(b,3,6,10\), got \(2,3,6,9\)"),
        (torch.zeros(3, 6, 10), ShapeError, r"use images\[None\]"),
        (torch.zeros(2, 6, 10, 3), ShapeError, "channels come first"),
        (torch.zeros(2, 3, 6, 10, dtype=torch.uint8), DtypeError, r"images.float\(\) / 255"),
        (np.zeros((2, 3, 6, 10)), DtypeError, "expected a torch.Tensor"),
    ],
)
def test_images_that_do_not_fit_are_rejected_by_name(images, error, words):
    with pytest.raises(error, match=words):
        build()(images)
