"""Tests of the caption network."""

import pytest
import torch

from regard.decoding import DecodingOptions, decode
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.models import CaptionNetwork, CaptionNetworkConfig, load_model

B, T, SIZE = 3, 5, 13
SMALL = {"width": 8, "feed_forward": 16, "encoder_layers": 1, "image_height": 16, "image_width": 24}
KINDS = {
    "additive": {},
    "dot": {"attention": "dot"},
    "none": {"attention": None},
    "lstm fed": {"attention": "scaled_dot", "cell": "lstm", "input_feeding": True, "decoder_layers": 2},
    "colours": {"channels": 3, "patch": 8, "attention": "bilinear"},
}


def network(**settings):
    torch.manual_seed(0)
    return CaptionNetwork(CaptionNetworkConfig(target_size=SIZE, **{**SMALL, **settings})).eval()


def inputs(model, rows=B):
    torch.manual_seed(1)
    c = model.config
    return torch.rand(rows, c.channels, c.image_height, c.image_width), torch.randint(3, SIZE, (rows, T))


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_steps_give_the_logits_of_the_whole_caption(settings):
    model = network(**settings)
    pixels, target = inputs(model)
    whole = model(pixels, target)
    assert whole.shape == (B, T, SIZE)
    state = model.start(model.encode(pixels))
    steps = [model.output(model.step(target[:, i : i + 1], state)) for i in range(T)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_every_parameter_gets_a_gradient(settings):
    model = network(**settings).train()
    pixels, target = inputs(model)
    model(pixels, target).logsumexp(dim=-1).sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_saved_and_loaded(settings, tmp_path):
    model = network(**settings)
    model.save_pretrained(tmp_path)
    pixels, target = inputs(model)
    torch.testing.assert_close(load_model(tmp_path)(pixels, target), model(pixels, target))


def test_records_hold_a_row_for_each_token_over_all_cells():
    model = network()
    pixels, target = inputs(model)
    records = []
    hidden = model.hidden(pixels, target, records=records)
    (record,) = records
    weights = record.map.weights()
    assert (record.kind, tuple(weights.shape)) == ("cross", (B, 1, T, 4 * 6))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, 1, T))
    states, live = model.decode_with_weights(model.encode(pixels), target)
    torch.testing.assert_close(live, weights[:, 0])
    torch.testing.assert_close(states, hidden)
    assert live.requires_grad


def test_the_state_that_writes_a_word_is_the_one_that_attends():
    """The attention of row i depends on the words before word i only, not on the word that it writes."""
    model = network()
    pixels, target = inputs(model, rows=1)
    changed = target.clone()
    changed[0, 3] = 3 + (changed[0, 3] - 2) % (SIZE - 3)
    rows = []
    for tokens in (target, changed):
        records = []
        model.hidden(pixels, tokens, records=records)
        rows.append(records[0].map.weights()[0, 0])
    assert torch.equal(rows[0][:3], rows[1][:3])  # row 2 writes token 3 of the caption
    assert not torch.equal(rows[0][3], rows[1][3])


def test_features_are_local():
    """With one block and a patch of 4, a cell sees 17 pixels, so a change in one corner stays there."""
    model = network(image_height=64, image_width=64)
    pixels, _ = inputs(model, rows=1)
    changed = pixels.clone()
    changed[..., :4, :4] = 1 - changed[..., :4, :4]
    before, after = (model.encode(x).states[0].unflatten(0, (16, 16)) for x in (pixels, changed))
    moved = (before != after).any(dim=-1)
    assert moved[0, 0]
    assert not moved[4:].any()
    assert not moved[:, 4:].any()


def test_without_attention_the_words_see_one_vector():
    model = network(attention=None)
    pixels, target = inputs(model)
    memory = model.encode(pixels)
    assert memory.keys is None
    records = []
    expected = model.decode(memory, target, records=records)
    assert records == []
    memory.states.fill_(7.0)  # the cells are not read
    torch.testing.assert_close(model.decode(memory, target), expected)


def test_beam_search_writes_captions():
    model = network()
    pixels, _ = inputs(model)
    options = DecodingOptions(beams=3, n_best=2, max_length=6)
    found = decode(model, model.encode(pixels), [1] * B, options, bos=1, eos=2, banned=(0, 1))
    assert [len(some) for some in found] == [2] * B
    assert all(len(one.tokens) <= 6 for some in found for one in some)


WRONG = {
    "patch: cells of 4 pixels do not divide 30 pixels: use pictures of 32 pixels": {"image_height": 30},
    "patch: expected 4 or 8 or 16 or 32, got 7": {"patch": 7},
    "channels: expected 1 or 3, got 2": {"channels": 2},
    "attention: unknown name 'dott'": {"attention": "dott"},
    "cell: unknown name 'rnn'": {"cell": "rnn"},
    "encoder_layers: expected": {"encoder_layers": -1},
    "target_size: expected": {"target_size": 0},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_named(message):
    with pytest.raises(ArgumentError, match=message):
        CaptionNetworkConfig(**{"target_size": SIZE, **SMALL, **WRONG[message]})


def test_wrong_pictures_are_named():
    model = network()
    with pytest.raises(ShapeError, match=r"pixels: expected \(b,c,h,w\) = \(b,1,16,24\), got \(2,1,24,16\)"):
        model.encode(torch.rand(2, 1, 24, 16))
    with pytest.raises(DtypeError, match="pixels: expected a tensor of numbers from 0 to 1, got torch.uint8"):
        model.encode(torch.zeros(2, 1, 16, 24, dtype=torch.uint8))
