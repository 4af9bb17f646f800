"""Tests of the options of capture(), which choose layers, heads, modules, labels and the device."""

import pytest
import torch
from torch import nn

import regard
from regard.capture import Recording
from regard.errors import ArgumentError, CaptureError, DtypeError, UnknownNameError
from regard.masks.base import And
from regard.shapes import Grid, as_device
from support.capture_cases import ADDED, B, D, H, K, M, Plain, Q, encoder, qkv, seen_of


def test_negative_layers_count_from_the_end_and_missing_ones_are_refused():
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    for layers, expected in ((-1, [2]), ([-3, 1], [0, 1])):
        seen, _ = seen_of(model, x, options={"layers": layers})
        assert [record.layer for record in seen] == expected
    for wrong in (7, -4):
        with pytest.raises(ArgumentError, match=rf"layer {wrong} was asked for, but seen were \[0, 1, 2\]"):
            seen_of(model, x, options={"layers": wrong})
    with pytest.raises(
        CaptureError, match=r"none in the layers that were asked for \(seen were \[0, 1, 2\]\)"
    ):
        seen_of(model, x, options={"layers": slice(5, None)})
    with pytest.raises(
        ArgumentError, match="layer 0 was asked for, but seen were attentions without a number"
    ):
        seen_of(Plain(), *qkv(), options={"layers": 0})
    with (
        pytest.raises(CaptureError, match="not called inside the with block"),
        regard.capture(model, layers=7),
    ):
        pass


@pytest.mark.parametrize("name", ["heads", "layers"])
def test_duplicate_layer_and_head_numbers_are_refused(name):
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=f"{name}: 0 is there 2 times: give each once"):
        regard.capture(model, **{name: [0, 1, 0]})
    with pytest.raises(ArgumentError, match=r"heads: \[0, -2\] name a head twice"):
        seen_of(model, x, options={"heads": [0, -2]})


@pytest.mark.parametrize(
    "given", [[1, 2, 3], torch.arange(1, 4), torch.arange(1, 4).numpy(), list(torch.arange(1, 4))]
)
def test_integers_are_accepted_as_labels(given):
    weights = torch.eye(3)
    assert Recording.from_weights(weights, query_tokens=given)[0].tokens == [["1", "2", "3"]]
    assert Recording.from_weights(weights, query_tokens=[given])[0].tokens == [["1", "2", "3"]]


@pytest.mark.parametrize(
    "given", [["a", None, "b"], [["a", None]], 3, [["a"], "b"], [["a"], 3], torch.tensor(3)]
)
def test_wrong_labels_are_refused(given):
    with pytest.raises(DtypeError, match="tokens: expected "):
        regard.capture(nn.Identity(), tokens=given)


def test_an_unusable_device_is_refused_before_the_model_runs():
    with pytest.raises(ArgumentError, match="device: 'nope' cannot be used: .*: choose cpu"):
        regard.capture(Plain(), device="nope")
    with pytest.raises(ArgumentError, match=r"device: 3\.5 cannot be used"):
        regard.capture(Plain(), device=3.5)
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="device: 'cuda' cannot be used"):
            regard.capture(Plain(), device="cuda")
    assert as_device(torch.device("cpu")).type == "cpu"


def test_labels_of_no_matching_length_are_refused():
    model, x = encoder(1), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=r"tokens: no map has 3 tokens: the maps have \[5\]"):
        seen_of(model, x, options={"tokens": list("abc")})
    with pytest.raises(ArgumentError, match="key_tokens: no cross-attention has 3 tokens"):
        seen_of(model, x, options={"key_tokens": list("abc")})
    weights = torch.full((2, 3), 1 / 3)
    assert Recording.from_weights(weights, key_tokens=list("abc"))[0].key_tokens == [list("abc")]
    with pytest.raises(ArgumentError, match="key_tokens: no cross-attention has 2 tokens"):
        Recording.from_weights(weights, key_tokens=list("ab"))


def test_missing_layers_and_heads_are_refused():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=r"layers: layer 99 was asked for, but seen were \[0, 1\]"):
        seen_of(model, x, options={"layers": [0, 99]})
    with pytest.raises(ArgumentError, match="heads: head -9 was asked for, but there are 2"):
        seen_of(model, x, options={"heads": [-9, 0]})


def test_records_keep_the_numbers_of_selected_heads(tmp_path):
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    seen, _ = seen_of(model, x, options={"heads": [-1], "layers": [1]})
    assert seen[0].heads == (1,)
    assert seen_of(model, x)[0][0].heads is None
    seen.save(tmp_path / "x.safetensors")
    assert Recording.load(tmp_path / "x.safetensors")[0].heads == (1,)
    rows = seen.head_table()
    row = rows.iloc[0] if hasattr(rows, "iloc") else rows[0]
    assert (row["layer"], row["head"]) == (1, 1)
    link = seen.top_links(1)[0]
    assert (link.layer, link.head) == (1, 1)


def test_masks_and_biases_are_kept_on_the_given_device():
    q, k, v = qkv()
    mask = torch.where(torch.ones(Q, K, dtype=torch.bool).tril(2), ADDED, float("-inf"))
    mask[1, :, :, 0] = float("-inf")
    with regard.capture(model := Plain(), device="meta") as seen:
        model(q, k, v, attn_mask=mask)
        chain = seen._session.collector.chains[0]
    kept = chain.calls[0]
    assert isinstance(kept.mask, And)
    assert {kept.q.device.type, chain.keys.device.type, kept.bias.values.device.type} == {"meta"}
    assert kept.mask.right.keep.device.type == "meta"
    i = torch.zeros(1, 1, dtype=torch.long, device="meta")
    assert regard.biases.StoredBias(ADDED).tile(i, i, Grid(B, H, Q, K)).device.type == "meta"
    additive = regard.AdditiveAttention(M)
    with regard.capture(additive, device="meta") as seen:
        additive(torch.randn(B, Q, M), torch.randn(B, Q, M))
        assert seen._session.collector.chains[0].v.device.type == "meta"


ENCODER = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(M, H, 7, batch_first=True), 2, enable_nested_tensor=False
)


@pytest.mark.parametrize(
    ("layers", "kind", "words"),
    [
        (slice(0, 5, 0), ArgumentError, r"slice\(0, 5, 0\) holds no layer: its step is 0"),
        (slice(3, 1), ArgumentError, "it ends where it starts, or before"),
        (slice(2, 2), ArgumentError, "it ends where it starts, or before"),
        (slice(-2, None), ArgumentError, "needs the number of layers"),
        (slice(0.5, 2), DtypeError, "expected a whole number, got 0.5"),
        (slice(True, 2), DtypeError, "expected a whole number, got True"),
        (slice("a"), DtypeError, "expected a whole number, got 'a'"),
        ([True], DtypeError, "expected a whole number, got True"),
        (1.0, DtypeError, "expected a whole number, got 1.0"),
        ("12", DtypeError, "expected a whole number, got '1'"),
    ],
)
def test_wrong_layers_are_refused(layers, kind, words):
    with pytest.raises(kind, match=f"layers: .*{words}"):
        regard.capture(ENCODER, layers=layers)


@pytest.mark.parametrize("layers", [2, -3, slice(2, None), [0, 7]])
def test_layers_out_of_range_are_refused(layers):
    with pytest.raises((ArgumentError, CaptureError), match=r"seen were \[0, 1\]"):
        seen_of(ENCODER, torch.randn(B, Q, M), options={"layers": layers})


@pytest.mark.parametrize("layers", [slice(1, None), slice(1, 10**30), slice(1, 8, 3)])
def test_layers_can_be_a_slice(layers):
    seen, _ = seen_of(ENCODER, torch.randn(B, Q, M), options={"layers": layers})
    assert [record.layer for record in seen] == [1]


def test_modules_of_none_are_the_default():
    model = Plain()
    with regard.capture(model, modules=None) as seen:
        model(*qkv())
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("modules", "kind", "words"),
    [
        ("layers.0.self_atn", UnknownNameError, "did you mean 'layers.0.self_attn'"),
        (nn.Linear(2, 3), ArgumentError, "this Linear is not a module of the model"),
        ([nn.LSTM], ArgumentError, "no module of the class LSTM: give a name, such as 'layers.0.self_attn'"),
        ({nn.LSTM: "bhqk"}, ArgumentError, "no module of the class LSTM"),
        (nn.Transformer, ArgumentError, "did you mean 'TransformerEncoder'"),
        (object, DtypeError, "expected a class of modules, got object"),
        (3, DtypeError, "expected names, modules or classes, got 3"),
        ([3], DtypeError, "expected names, modules or classes, got int"),
    ],
    ids=repr,
)
def test_modules_missing_from_the_model_are_refused(modules, kind, words):
    with pytest.raises(kind, match=words) as raised:
        regard.capture(ENCODER, modules=modules)
    assert len(str(raised.value)) < 600


class Weighs(nn.Module):
    """Takes its softmax in a module of torch's."""

    def __init__(self):
        super().__init__()
        self.soft = nn.Softmax(dim=-1)

    def forward(self, q, k, v):
        return self.soft(q @ k.mT * D**-0.5) @ v


def test_a_softmax_module_may_be_named():
    q, k, v = qkv()
    seen, out = seen_of(Weighs(), q, k, v, options={"modules": "soft"})
    assert [record.name for record in seen] == ["soft"]
    assert seen[0].map.shape == (B, H, Q, K)
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)
