"""Tests of the frequencies of sampling, and of the settings of all searches."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from regard.decoding import DecodingOptions, decode
from regard.errors import RegardError
from support.plain_searches import BANNED, EOS, KEYS, MODELS, Toy, of_toy
from support.small_models import build

LIMIT = 3


def distribution(toy: Toy, options: DecodingOptions) -> dict[tuple[int, ...], float]:
    """The probability of everything that may be written, from the definition."""
    open_, found = {(): 1.0}, {}
    for _ in range(LIMIT):
        longer = {}
        for tokens, probability in open_.items():
            for token, share in shares(of_toy(toy)(tokens), len(tokens), options).items():
                into = found if token == EOS else longer
                name = (*tokens, token)
                into[name] = into.get(name, 0.0) + probability * share
        open_ = longer
    return {**found, **open_}


def shares(scores: list[float], written: int, options: DecodingOptions) -> dict[int, float]:
    never = {*BANNED, *([EOS] if written < options.min_length else [])}
    kept = {t: math.exp(s / options.temperature) for t, s in enumerate(scores) if t not in never}
    best = sorted(kept, key=lambda token: -kept[token])[: options.top_k or None]
    total = sum(kept[token] for token in best)
    nucleus, mass = [], 0.0
    for token in best:
        if mass >= options.top_p:
            break
        nucleus.append(token)
        mass += kept[token] / total
    nucleus = [token for token in nucleus if kept[token] >= options.min_p * max(kept.values())]
    total = sum(kept[token] for token in nucleus)
    return {token: kept[token] / total for token in nucleus}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0, "min_length": 1},
        {"top_k": 2},
        {"top_p": 0.6},
        {"top_k": 3, "top_p": 0.7, "temperature": 2.0},
        {"min_p": 0.2},
        {"min_p": 0.3, "temperature": 2.0},
        {"top_k": 3, "top_p": 0.9, "min_p": 0.4},
    ],
    ids=str,
)
def test_samples_are_as_frequent_as_they_are_likely(more):
    draws = 4000
    options = DecodingOptions(sample=True, n_best=draws, max_length=LIMIT, seed=7, **more)
    toy = Toy(size=6, seed=11, sharp=1.0)
    expected = distribution(toy, options)
    assert sum(expected.values()) == pytest.approx(1)
    (found,) = decode(toy, None, [1], options, **KEYS)
    counts = Counter((*one.tokens, *([EOS] if one.ended else [])) for one in found)
    assert set(counts) <= set(expected)
    common = {tokens: p for tokens, p in expected.items() if p * draws >= 5}
    square = sum((counts[tokens] - p * draws) ** 2 / (p * draws) for tokens, p in common.items())
    freedom = len(common) - 1
    assert square < freedom + 4 * math.sqrt(2 * freedom)
    assert len(common) > 3
    # The model's own probability, not that of the sampling.
    for one in found[:50]:
        written = [*one.tokens, *([EOS] if one.ended else [])]
        own = sum(of_toy(toy)(written[:i])[token] for i, token in enumerate(written))
        assert one.log_probability == pytest.approx(own)
        assert one.score == pytest.approx(own / max(len(written), 1))  # as a beam search has it
        assert len(one.tokens) >= options.min_length
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


@pytest.mark.parametrize("name", ["transformer", "gru", "lstm"])
@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}, {"min_p": 1.0}], ids=str
)
@torch.no_grad()
def test_sampling_the_likeliest_token_alone_equals_greedy_search(name, options):
    model = build(MODELS[name], torch.float64, source_size=13, target_size=11, tied_output=False)
    torch.nn.init.normal_(model.output.weight, std=1)
    lengths = torch.tensor([5, 2, 3])
    memory = model.encode(torch.randint(13, (3, 5)), lengths)
    drawn = decode(model, memory, lengths.tolist(), DecodingOptions(sample=True, n_best=2, **options), **KEYS)
    greedy = decode(model, memory, lengths.tolist(), DecodingOptions(beams=1), **KEYS)
    for several, (one,) in zip(drawn, greedy, strict=True):
        for other in several:
            assert (other.tokens, other.ended) == (one.tokens, one.ended)
            assert other.log_probability == pytest.approx(one.log_probability)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("temperature", [1e-320, 1e-300, 1e-38, 1e30])
def test_extreme_temperatures_give_tokens(temperature, dtype):
    toy = Toy(size=211, sharp=0.1)  # all scores are far below 0
    toy.table = toy.table.to(dtype)
    options = DecodingOptions(sample=True, n_best=3, temperature=temperature)
    (found,) = decode(toy, None, [3], options, **KEYS)
    assert all(math.isfinite(one.log_probability) for one in found)
    if temperature < 1:
        (greedy,) = decode(toy, None, [3], DecodingOptions(beams=1), **KEYS)
        assert {tuple(one.tokens) for one in found} == {tuple(greedy[0].tokens)}


def test_samples_depend_on_the_seed_alone():
    found = []
    for seed in (3, 3, 4):
        options = DecodingOptions(sample=True, n_best=5, seed=seed)
        torch.manual_seed(len(found))  # nothing else does
        found.append(decode(Toy(size=9, sentences=3), None, [4, 5, 6], options, **KEYS))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_each_sentence_has_its_own_limit():
    toy = Toy(size=6, sentences=3)
    toy.table[:, EOS] = -math.inf
    options = DecodingOptions(sample=True, n_best=2)
    found = decode(toy, None, [0, 2, 4], options, **KEYS)
    assert [[len(one.tokens) for one in row] for row in found] == [[10, 10], [13, 13], [16, 16]]
    assert not any(one.ended for row in found for one in row)


@torch.no_grad()
def test_sampling_continues_a_prompt():
    model = build({"vocabulary_size": 7})
    options = DecodingOptions(sample=True, n_best=3, top_k=1, max_length=4)
    found = decode(model, None, [2, 2], options, prompts=[[3, 4], [5, 6]], **KEYS)
    greedy = decode(
        model, None, [2, 2], DecodingOptions(beams=1, max_length=4), prompts=[[3, 4], [5, 6]], **KEYS
    )
    assert [[one.tokens for one in row] for row in found] == [[row[0].tokens] * 3 for row in greedy]


WRONG = [
    ({"beams": 0}, "beams: expected a whole number of 1 or more, got 0"),
    ({"beams": 2, "n_best": 3}, "n_best: expected at most 2, the number of beams, got 3: raise beams"),
    ({"n_best": 0}, "n_best: expected a whole number of 1 or more, got 0"),
    ({"min_length": -1}, "min_length: expected a whole number of 0 or more, got -1"),
    ({"max_length": 0}, "max_length: expected a whole number of 1 or more, got 0"),
    ({"min_length": 5, "max_length": 4}, "min_length: 5 is above max_length=4"),
    ({"top_p": 0.0}, "top_p: expected a share above 0 and up to 1, got 0.0"),
    ({"min_p": 1.1}, "min_p: expected a share from 0 to 1, got 1.1"),
    ({"min_p": -0.1}, "min_p: expected 0 or more, got -0.1"),
    ({"top_p": 1.1}, "top_p: expected a share above 0 and up to 1, got 1.1"),
    ({"top_k": 1.5}, "top_k: expected a whole number of 0 or more, got 1.5"),
    ({"temperature": 0}, "temperature: expected a number above 0, got 0"),
    ({"temperature": math.inf}, "temperature: expected 0 or more, got inf"),
    ({"length_penalty": -0.1}, "length_penalty: expected 0 or more, got -0.1"),
    ({"length_penalty": math.nan}, "length_penalty: expected 0 or more, got nan"),
    ({"coverage_penalty": "1"}, "coverage_penalty: expected a number, got '1'"),
    ({"seed": -1}, "seed: expected a whole number of 0 or more, got -1"),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=[str(one[0]) for one in WRONG])
def test_wrong_settings_are_refused(options, text):
    with pytest.raises(RegardError) as raised:
        DecodingOptions(**options)
    assert text in str(raised.value)


def test_the_limit_follows_the_source_unless_it_is_given():
    assert DecodingOptions().limit(20) == 40
    assert DecodingOptions(max_length=7).limit(20) == 7
    assert DecodingOptions(min_length=60).limit(20) == 61  # or it could never end
    assert DecodingOptions(sample=True, beams=1, n_best=9).n_best == 9
