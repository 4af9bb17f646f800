"""Tests of the searches against enumeration, a beam search on lists, and a loop of argmax."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding import DecodingOptions, beam_search, decode
from support.plain_searches import (
    BANNED,
    BOS,
    EOS,
    KEYS,
    MODELS,
    Toy,
    exhaustive,
    of_model,
    of_toy,
    plain_beam_search,
    same,
)
from support.small_models import build

# ------------------------------------------------------------------- a model that is a table


# ------------------------------------------------------------------- plain searches


# ------------------------------------------------------------------- exhaustive search

LIMITS = [(0, 4), (2, 4), (0, 1), (1, 2), (3, 3)]


@pytest.mark.parametrize("n_best", [1, 3, 40])
@pytest.mark.parametrize(("least", "most"), LIMITS)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.5])
def test_a_wide_beam_finds_what_enumeration_finds(penalty, least, most, n_best):
    options = DecodingOptions(
        beams=64, length_penalty=penalty, min_length=least, max_length=most, n_best=n_best
    )
    for seed, never in itertools.product(range(4), (0.0, 0.3, 0.7)):
        toy = Toy(seed=seed, never=never)
        (found,) = beam_search(toy, None, [most], options, **KEYS)
        expected = exhaustive(of_toy(toy), most, options)
        # Every token is banned, so the output is cut off.
        if not expected:
            expected = plain_beam_search(of_toy(toy), most, options)
        same(found, expected)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_a_wide_beam_with_models_finds_what_enumeration_finds(options, penalty):
    model = build(options, torch.float64, source_size=7, target_size=5, tied_output=False)
    torch.nn.init.normal_(model.output.weight)
    source, lengths = torch.randint(7, (3, 5)), torch.tensor([5, 2, 3])
    settings = DecodingOptions(beams=48, length_penalty=penalty, max_length=4, n_best=5, min_length=1)
    found = decode(model, model.encode(source, lengths), lengths.tolist(), settings, **KEYS)
    for b, length in enumerate(lengths.tolist()):
        alone = model.encode(source[b : b + 1, :length])
        same(found[b], exhaustive(of_model(model, alone), 4, settings))


# ------------------------------------------------------------------- the same search on lists


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_beam_search_equals_a_plain_beam_search_on_lists(data):
    draw = data.draw
    size, beams = draw(st.integers(4, 9)), draw(st.integers(1, 6))
    options = DecodingOptions(
        beams=beams,
        n_best=draw(st.integers(1, beams)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 3.0])),
        min_length=draw(st.integers(0, 3)),
    )
    limits = draw(st.lists(st.integers(1, 9), min_size=1, max_size=11))
    seed, never = draw(st.integers(0, 10**6)), draw(st.sampled_from([0.0, 0.2, 0.6]))
    toy = Toy(size, seed, never, len(limits), sharp=draw(st.sampled_from([0.5, 3.0])))
    found = beam_search(toy, None, limits, options, **KEYS)
    for sentence, limit in enumerate(limits):
        same(found[sentence], plain_beam_search(of_toy(toy, sentence), limit, options))


def test_finished_sentences_leave_the_batch():
    toy = Toy(size=7, seed=3, sentences=23)
    beam_search(toy, None, list(range(1, 24)), DecodingOptions(beams=2), **KEYS)
    state = toy.states[-1]
    assert state.kept > 1
    assert len(state.sentences) < 23 * 2


def test_the_search_stops_when_no_better_hypothesis_can_follow():
    """The only ended hypothesis is nearly certain, so no other can become better."""
    toy = Toy(size=5)
    toy.table[:] = torch.tensor([-9.0, -9.0, 9.0, 0.0, 0.0])
    beam_search(toy, None, [50], DecodingOptions(beams=4, length_penalty=0.0), **KEYS)
    assert len(toy.states[-1].histories[0]) == 1
    toy.states.clear()
    beam_search(toy, None, [50], DecodingOptions(beams=4, n_best=3, length_penalty=0.0), **KEYS)
    assert len(toy.states[-1].histories[0]) > 1  # two more are wanted


def test_a_length_penalty_can_make_a_longer_hypothesis_the_best():
    """Ending at once scores log 0.6. One token of 0.4 and three certain ones score log 0.4 / 4, which is higher."""
    toy = Toy(size=5)
    toy.table[:] = torch.tensor([-99.0, -99.0, -99.0, 0.0, -99.0])
    first = toy.table[(BOS + 1) % 997]
    first[:] = torch.tensor([-99.0, -99.0, math.log(0.6), math.log(0.4), -99.0])
    place, history = 0, [BOS, 3, 3, 3]
    for token in history:
        place = place * 7 + token + 1
    toy.table[place % 997] = torch.tensor([-99.0, -99.0, 0.0, -99.0, -99.0])
    for penalty, tokens in ((0.0, []), (1.0, [3, 3, 3])):
        options = DecodingOptions(beams=2, length_penalty=penalty)
        (found,) = beam_search(toy, None, [9], options, **KEYS)
        assert found[0].tokens == tokens, penalty


# ------------------------------------------------------------------- batches, greedy


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_a_batch_is_decoded_as_its_sentences_alone(options, beams):
    model = build(options, torch.float64, source_size=13, target_size=11, tied_output=False)
    torch.nn.init.normal_(model.output.weight, std=2)
    lengths = torch.tensor([7, 2, 5, 1, 6, 3, 4])
    source = torch.randint(13, (7, 7))
    settings = DecodingOptions(beams=beams, n_best=beams)
    together = decode(model, model.encode(source, lengths), lengths.tolist(), settings, **KEYS)
    order = torch.tensor([3, 6, 0, 2, 5, 1, 4])
    again = decode(
        model, model.encode(source[order], lengths[order]), lengths[order].tolist(), settings, **KEYS
    )
    for b, length in enumerate(lengths.tolist()):
        alone = model.encode(source[b : b + 1, :length])
        (found,) = decode(model, alone, [length], settings, **KEYS)
        same(together[b], found)
        same(again[order.tolist().index(b)], found)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_greedy_search_is_a_loop_of_argmax(options):
    model = build(options, torch.float64, source_size=13, target_size=11, tied_output=False)
    torch.nn.init.normal_(model.output.weight, std=1)
    for length in (2, 3, 5):
        memory = model.encode(torch.randint(13, (1, length)))
        tokens: list[int] = []
        while len(tokens) < length * 3 // 2 + 10:
            scores = torch.tensor(of_model(model, memory)(tokens))
            scores[list(BANNED)] = -math.inf
            token = int(scores.argmax())
            if token == EOS:
                break
            tokens.append(token)
        (found,) = decode(model, memory, [length], DecodingOptions(beams=1), **KEYS)
        assert found[0].tokens == tokens


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_more_beams_find_better_scores_on_average(penalty):
    totals = []
    for beams in (1, 4, 16):
        toy = Toy(size=7, seed=5, sentences=40)
        options = DecodingOptions(beams=beams, length_penalty=penalty)
        found = beam_search(toy, None, [40] * 40, options, **KEYS)  # long enough for all to end
        totals.append(sum(one[0].score for one in found))
    assert totals[0] < totals[1] < totals[2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_in_half_precision_are_summed_in_float32(dtype):
    toy = Toy(size=7, seed=2)
    toy.table = toy.table.to(dtype)
    (found,) = beam_search(toy, None, [9], DecodingOptions(beams=3), **KEYS)
    toy.table = toy.table.double()
    same(found, plain_beam_search(of_toy(toy), 9, DecodingOptions(beams=3)), 1e-5)
