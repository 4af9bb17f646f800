"""Tests of writing one sequence token by token."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.decoding import DecodingOptions, decode, stream_tokens
from regard.errors import ArgumentError
from support.plain_searches import BANNED, BOS, EOS, KEYS, Toy
from support.small_models import build

GREEDY = DecodingOptions(beams=1, max_length=9)
SAMPLED = DecodingOptions(sample=True, max_length=9, seed=5, temperature=1.3, top_k=4)


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("number", [0, 3])
def test_a_stream_gives_the_tokens_of_a_search(options, number):
    model = build({"vocabulary_size": 13, "positions": "rotary"}, torch.float64)
    torch.nn.init.normal_(model.output.weight, std=1)
    prompt = [5, 9, 4]
    ((whole,),) = decode(model, None, [3], options, **KEYS, prompts=[prompt], numbers=[number])
    found = list(stream_tokens(model, prompt, options, ends=[EOS], banned=BANNED, number=number))
    tokens = [one.token for one in found]
    assert tokens == [*whole.tokens, *([EOS] if whole.ended else [])]
    assert sum(one.log_probability for one in found) == pytest.approx(whole.log_probability)
    assert not any(one.slid for one in found)


def test_tokens_come_one_by_one():
    toy = Toy(size=9)
    stream = stream_tokens(toy, [BOS, 5], GREEDY, banned=BANNED)
    next(stream)
    assert toy.states[0].histories == [[BOS, 5]]  # nothing was read ahead
    next(stream)
    assert len(toy.states[0].histories[0]) == 3


def test_a_full_context_slides_to_its_newer_half():
    toy = Toy(size=9)
    context, start = 8, (BOS,)
    options = DecodingOptions(sample=True, max_length=20, seed=1)
    found = list(stream_tokens(toy, [5, 6, 7], options, start=start, banned=(*BANNED, EOS), context=context))
    assert len(found) == 20
    all_tokens = [5, 6, 7, *(one.token for one in found)]
    ends = [place for place, one in enumerate(found) if one.slid]
    # A state is full with 8 tokens, of which BOS is one. The next begins with BOS and the newest 3 tokens.
    assert ends == [5, 10, 15]
    assert [len(state.histories[0]) for state in toy.states] == [8, 8, 8, 8]
    for state, end in zip(toy.states[1:], ends, strict=True):
        read = state.histories[0]
        assert read[:4] == [BOS, *all_tokens[3 + end - 3 : 3 + end]]
        assert read[4:] == all_tokens[3 + end : 3 + end + 4]
    # Each token is drawn from the scores of what the state has read.
    for state, end in zip(toy.states[1:], ends, strict=True):
        scores = toy.scores(0, state.histories[0][:4]).log_softmax(-1)
        assert found[end].log_probability == pytest.approx(scores[found[end].token].item())


@pytest.mark.parametrize("length", [7, 8, 30])
def test_a_long_prompt_loses_its_oldest_tokens(length):
    toy = Toy(size=9)
    prompt = [3 + place % 6 for place in range(length)]
    next(stream_tokens(toy, prompt, GREEDY, start=(BOS,), banned=BANNED, context=8))
    assert toy.states[0].histories == [[BOS, *prompt[-7:]]]


def test_writing_ends_after_an_end_and_never_writes_banned_tokens():
    toy = Toy(size=6, seed=3)
    options = DecodingOptions(sample=True, max_length=50, seed=2)
    for number in range(20):
        tokens = [
            one.token
            for one in stream_tokens(toy, [BOS], options, ends=[EOS, 4], banned=BANNED, number=number)
        ]
        assert not {EOS, 4} & set(tokens[:-1])
        assert tokens[-1] in (EOS, 4)
        assert not set(BANNED) & set(tokens)
    assert list(stream_tokens(toy, [BOS], options, banned=range(6))) == []  # every token is banned


def test_the_number_and_the_seed_alone_choose_the_draws():
    texts = []
    for seed, number in itertools.product((1, 2), (0, 1)):
        options = DecodingOptions(sample=True, max_length=12, seed=seed)
        torch.manual_seed(seed + number)  # has no influence
        again = [
            [one.token for one in stream_tokens(Toy(size=9), [BOS], options, number=number)] for _ in range(2)
        ]
        assert again[0] == again[1]
        texts.append(tuple(again[0]))
    assert len(set(texts)) == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"options": DecodingOptions(beams=2)}, "beams: expected 1 to write token by token, got 2"),
        ({"prompt": []}, "prompt: there is no token to start from: give a prompt"),
        ({"context": 2, "start": (BOS,)}, "context: expected a whole number of 3 or more, got 2"),
    ],
)
def test_arguments_that_cannot_work_are_refused(values, message):
    given = {"prompt": [BOS], "options": GREEDY, **values}
    with pytest.raises(ArgumentError, match=message):
        next(stream_tokens(Toy(), given.pop("prompt"), given.pop("options"), **given))
