"""Step by step with caches is the whole pass, for every kind of model and any number of hypotheses."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ShapeError
from regard.models.state import Spare, StepCache
from support.small_models import LENGTHS, MODELS, RECURRENT, B, S, T, U, build, close, sentences

W = 4  # hypotheses of each sentence


def stepped(model, state, tokens: torch.Tensor) -> torch.Tensor:
    """Hidden states ``(b,w,t,m)`` after each of ``tokens (b,w,t)``, one after the other."""
    return torch.stack([model.step(tokens[..., t], state) for t in range(tokens.shape[2])], dim=2)


def at_once(model, memory, tokens: torch.Tensor) -> torch.Tensor:
    """The same, from the whole pass over each hypothesis."""
    hypotheses = tokens.unbind(dim=1)
    if memory is None:
        return torch.stack([model.hidden(x) for x in hypotheses], dim=1)
    return torch.stack([model.decode(memory, x) for x in hypotheses], dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_steps_equal_the_whole_pass(options, dtype):
    model, (source, _) = build(options, dtype), sentences()
    memory = model.encode(source, LENGTHS)
    tokens = torch.randint(U, (B, W, T))
    whole = at_once(model, memory, tokens)
    close(stepped(model, model.start(memory), tokens), whole)
    close(stepped(model, model.start(memory), tokens[:, :1]), whole[:, :1])


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_steps_follow_reordered_hypotheses_and_finished_sentences(options):
    model, (source, _) = build(options, torch.float64), sentences()
    memory = model.encode(source, LENGTHS)
    history = torch.randint(U, (B, 1, 2))  # one hypothesis each
    state = model.start(memory)
    stepped(model, state, history)
    for kept, parents in [
        ([0, 1, 2], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),  # from one to three
        ([2, 0], [[2, 0, 0], [1, 1, 2]]),
        ([1, 0], [[1, 0, 2], [2, 2, 2]]),
        ([1], [[0, 2]]),  # from three to two
    ]:
        kept, parents = torch.tensor(kept), torch.tensor(parents)
        if len(kept) != len(history) or kept.tolist() != sorted(kept.tolist()):
            state.keep(kept, history.shape[1])
            memory, history = memory.keep(kept), history[kept]
        n, w = history.shape[:2]
        state.reorder((torch.arange(n)[:, None] * w + parents).flatten())
        history = history[torch.arange(n)[:, None], parents]
        tokens = torch.randint(U, (*history.shape[:2], 2))
        history = torch.cat([history, tokens], dim=2)
        close(stepped(model, state, tokens), at_once(model, memory, history)[:, :, -2:])


@torch.no_grad()
def test_a_decoder_alone_can_be_stepped():
    model = build({"vocabulary_size": U, "positions": "rotary"}, torch.float64)
    tokens = torch.randint(U, (B, W, T))
    close(stepped(model, model.start(None), tokens), at_once(model, None, tokens))


@torch.no_grad()
def test_the_cache_grows_beyond_its_first_size():
    model = build({"vocabulary_size": U}, torch.float64)
    tokens = torch.randint(U, (1, 2, 83))
    close(stepped(model, model.start(None), tokens), at_once(model, None, tokens))


def test_steps_can_be_differentiated():
    model, (source, target) = build({}, torch.float64), sentences()
    gradients = []
    for way in (0, 1):
        model.zero_grad()
        memory = model.encode(source, LENGTHS)
        if way:
            hidden = stepped(model, model.start(memory), target[:, None])[:, 0]
        else:
            hidden = model.decode(memory, target)
        hidden.sin().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)  # the output's bias is not used here
        if one is not None:
            close(one, other, 1e-10)


@pytest.mark.parametrize("name", ["default", "gru additive fed 1"])
@torch.no_grad()
def test_a_step_shows_what_it_attends_to(name):
    model, (source, _) = build(MODELS[name]), sentences()
    tokens = torch.randint(U, (B, W, 2))
    state, records = model.start(model.encode(source, LENGTHS)), []
    model.step(tokens[..., 0], state)
    model.step(tokens[..., 1], state, records=records)
    whole: list = []
    model.decode(model.encode(source, LENGTHS), tokens[:, 1], records=whole)
    assert [one.name for one in records] == [one.name for one in whole]
    assert records[-1].map.shape == (B, 1 if "gru" in name else 4, W, S)
    close(records[-1].map[:, :, 1], whole[-1].map[:, :, 1])  # hypothesis 1, token 1


def test_the_cache_writes_no_earlier_step_again():
    cache = StepCache(Spare())
    first = torch.randn(2, 3, 1, 5)
    cache.append(first, first)
    before = cache.keys.data_ptr()
    for _ in range(7):
        cache.append(torch.randn(2, 3, 1, 5), torch.randn(2, 3, 1, 5))
    assert cache.length == 8
    assert cache.keys.data_ptr() == before
    keys, _ = cache.append(first, first)
    assert torch.equal(keys[:, :, :1], first)
    cache.reset()
    assert cache.length == 0


@torch.no_grad()
def test_another_number_of_hypotheses_than_in_the_state_is_refused():
    source, _ = sentences()
    for options in ({}, RECURRENT["lstm bilinear fed 1"]):
        model = build(options)
        state = model.start(model.encode(source))
        model.step(torch.zeros(B, 2, dtype=torch.int64), state)
        with pytest.raises(ShapeError, match="tokens: 3 hypotheses, but the state has 6"):
            model.step(torch.zeros(B, 1, dtype=torch.int64), state)
