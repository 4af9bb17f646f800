"""Tests of model settings, their errors and their JSON form, and of dropout."""

from __future__ import annotations

import json

import pytest
import torch

from regard.errors import ArgumentError, RegardError, UnknownArgumentError, UnknownNameError
from regard.models import Seq2SeqConfig, TransformerConfig
from regard.models.dropout import Dropout, dropout
from support.small_models import RECURRENT, build, sentences

SIZES = {"source_size": 11, "target_size": 13}

WRONG = [
    (TransformerConfig, {"heads": 5, "width": 24}, "heads: 5 heads do not divide width = 24"),
    (TransformerConfig, {"heads": 4, "kv_heads": 3}, "kv_heads: 3 does not divide the 4 heads"),
    (TransformerConfig, {"kv_heads": 0}, "kv_heads: expected a whole number of 1 or more, got 0"),
    (TransformerConfig, {"positions": "rotery"}, "positions: unknown name 'rotery': did you mean 'rotary'?"),
    (
        TransformerConfig,
        {"positions": "rotary", "width": 12},
        "positions: rotary positions rotate pairs of columns, but",
    ),
    (TransformerConfig, {"activation": "geluu"}, "activation: unknown name 'geluu': did you mean 'gelu'?"),
    (
        TransformerConfig,
        {"norm": "both"},
        "norm: unknown name 'both': did you mean 'post'? known are pre, post",
    ),
    (
        TransformerConfig,
        {"encoder_layers": 0},
        "encoder_layers: a Transformer has an encoder and a decoder, got 0 layers: use regard.models.LanguageModel",
    ),
    (
        TransformerConfig,
        {"decoder_layers": 0},
        "decoder_layers: a Transformer has an encoder and a decoder, got 0 layers: use regard.models.Encoder",
    ),
    (
        TransformerConfig,
        {"encoder_layers": -1},
        "encoder_layers: expected a whole number of 0 or more, got -1",
    ),
    (TransformerConfig, {"feed_forward": 0}, "feed_forward: expected a whole number of 1 or more, got 0"),
    (TransformerConfig, {"max_length": 1.5}, "max_length: expected a whole number of 1 or more, got 1.5"),
    (TransformerConfig, {"dropout": 1.0}, "dropout: expected a share from 0 to below 1, got 1.0"),
    (TransformerConfig, {"dropout": "0.1"}, "dropout: expected a share from 0 to below 1, got '0.1'"),
    (TransformerConfig, {"attention_dropout": -0.1}, "attention_dropout: expected a share from 0 to below 1"),
    (
        TransformerConfig,
        {"shared_embeddings": True},
        "shared_embeddings: source_size=11 and target_size=13 differ",
    ),
    (TransformerConfig, {"tied_output": "no"}, "tied_output: expected True or False, got 'no'"),
    (TransformerConfig, {"source_size": 0}, "source_size: expected a whole number of 1 or more, got 0"),
    (Seq2SeqConfig, {"width": 7}, "width: expected an even number, got 7: each direction takes half of it"),
    (Seq2SeqConfig, {"cell": "rnn"}, "cell: unknown name 'rnn': "),
    (Seq2SeqConfig, {"attention": "aditive"}, "attention: unknown name 'aditive': did you mean 'additive'?"),
    (Seq2SeqConfig, {"encoder_layers": 0}, "encoder_layers: expected a whole number of 1 or more, got 0"),
    (Seq2SeqConfig, {"input_feeding": 1}, "input_feeding: expected True or False, got 1"),
]


@pytest.mark.parametrize(("kind", "options", "text"), WRONG, ids=[str(one[1]) for one in WRONG])
def test_wrong_settings_are_refused(kind, options, text):
    with pytest.raises(RegardError) as raised:
        kind(**{**SIZES, **options})
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(**SIZES, heads=8, kv_heads=2, positions="alibi", norm="post", tied_output=False),
        Seq2SeqConfig(**SIZES, attention=None, cell="lstm", dropout=0.25, input_feeding=False),
    ],
    ids=["transformer", "seq2seq"],
)
def test_configs_survive_json(config):
    values = json.loads(json.dumps(config.to_json()))
    assert values["kind"] == config.kind
    assert type(config).from_json(values) == config


def test_json_with_wrong_fields_is_refused():
    values = TransformerConfig(**SIZES).to_json()
    with pytest.raises(
        UnknownArgumentError, match="wdth: not a setting of a transformer: did you mean 'width'"
    ):
        TransformerConfig.from_json({**values, "wdth": 8})
    with pytest.raises(ArgumentError, match="kind: the settings of a transformer, not of a seq2seq"):
        Seq2SeqConfig.from_json(values)
    with pytest.raises(ArgumentError, match="target_size: missing from the settings of a transformer"):
        TransformerConfig.from_json({"source_size": 9})
    with pytest.raises(UnknownNameError, match="norm"):
        TransformerConfig.from_json({**values, "norm": ["pre"]})


# ------------------------------------------------------------------- dropout


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_sum(share):
    torch.manual_seed(0)
    count = 300_007
    kept = dropout(torch.ones(count), share)
    dropped = (kept == 0).double().mean().item()
    assert abs(dropped - share) < 5 * (share * (1 - share) / count) ** 0.5 + 1e-5
    values = kept[kept != 0].unique()
    assert len(values) == 1
    assert values.item() == pytest.approx(1 / (1 - share), rel=1e-3)
    assert kept.mean().item() == pytest.approx(1, abs=0.02)


def test_dropout_draws_each_element_by_itself():
    """Four elements share one draw of 64 bits, and their outcomes have to be independent."""
    torch.manual_seed(0)
    kept = (dropout(torch.ones(200_000, 4), 0.5) != 0).double()
    together = torch.corrcoef(kept.T).fill_diagonal_(0).abs().max()
    assert together < 0.02
    assert (torch.corrcoef(torch.stack([kept[:-1, 0], kept[1:, 0]]))[0, 1]).abs() < 0.02


def test_dropout_lets_the_gradient_through_what_is_kept():
    torch.manual_seed(0)
    x = torch.full((7, 11, 5), 3.0, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach() / 3)
    assert 0 < (x.grad == 0).sum() < x.numel()


def test_dropout_is_repeated_by_the_seed():
    x, found = torch.ones(5, 7, 13), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(dropout(x, 0.3))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_dropout_acts_in_training_only():
    layer, x = Dropout(0.5), torch.ones(3, 5)
    assert layer.eval()(x) is x
    assert (layer.train()(x) == 0).any()
    assert Dropout(0.0).train()(x) is x
    assert "share=0.5" in repr(layer)


def test_dropout_of_almost_everything_stays_finite():
    torch.manual_seed(0)
    kept = dropout(torch.ones(1_000_003), 1 - 1e-9)
    assert kept.isfinite().all()
    assert (kept == 0).double().mean() > 0.999


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dropout_keeps_the_dtype(dtype):
    assert dropout(torch.ones(3, 5, dtype=dtype), 0.3).dtype == dtype


def test_torchs_dropout_is_used_on_other_devices():
    assert dropout(torch.ones(3, 5, device="meta"), 0.3).shape == (3, 5)
    assert dropout(torch.ones(0, 5), 0.3).shape == (0, 5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # from within torch, while it compiles
def test_torchs_dropout_is_used_when_compiled():
    torch.manual_seed(0)
    kept = torch.compile(dropout)(torch.ones(50_000), 0.25)
    assert (kept == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert kept.max().item() == pytest.approx(4 / 3)


@pytest.mark.parametrize("options", [{}, {"attention_dropout": 0.3}, RECURRENT["gru dot fed 2"]])
def test_models_drop_in_training_only(options):
    model, (source, target) = build({**options, "dropout": 0.2}), sentences()
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    torch.manual_seed(5)
    first, second = model(source, target), model(source, target)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(model(source, target), first)
