"""Tests of the searches with prompts, banned tokens, coverage, empty outputs and many scores."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from regard.decoding import DecodingOptions, Hypothesis, beam_search, decode
from regard.decoding.continuations import top_continuations
from regard.errors import ArgumentError, RegardError, ShapeError
from regard.maps import AttentionMap, Record
from support.plain_searches import BOS, EOS, KEYS, MODELS, Toy, exhaustive, of_model, same
from support.small_models import build

# ------------------------------------------------------------------- prompts, banned, edges


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@torch.no_grad()
def test_a_decoder_continues_its_prompt(positions):
    model = build({"vocabulary_size": 5, "positions": positions}, torch.float64)
    prompts = torch.randint(5, (3, 4))
    options = DecodingOptions(beams=32, max_length=3, n_best=4)
    found = decode(model, None, [4] * 3, options, prompts=prompts, **KEYS)
    assert decode(model, None, [4] * 3, options, prompts=prompts.tolist(), **KEYS) == found
    for b in range(3):
        prompt = tuple(prompts[b].tolist())
        same(found[b], exhaustive(of_model(model, None, prompt), 3, options))
    begun = decode(model, None, [1], options, **KEYS)
    assert begun == decode(model, None, [1], options, prompts=[[BOS]], **KEYS)


@torch.no_grad()
def test_a_translation_continues_its_prompt():
    model = build({"cell": "gru", "attention": "dot"}, torch.float64, target_size=5)
    memory = model.encode(torch.randint(7, (1, 3)))
    options = DecodingOptions(beams=32, max_length=3)
    (found,) = decode(model, memory, [3], options, prompts=[[BOS, 3, 4]], **KEYS)
    same(found, exhaustive(of_model(model, memory, (BOS, 3, 4)), 3, options))


def test_wrong_prompts_are_refused():
    toy = Toy(sentences=2)
    for prompts, kind, text in [
        (
            [[1, 2], [1]],
            ArgumentError,
            "prompts: expected prompts of one length, got 1 and 2 tokens: give those of one length at a time",
        ),
        ([[1, 2]], ShapeError, "prompts: expected (2,p) with p of 1 or more, got (1,2)"),
        ([[], []], ShapeError, "prompts: expected (2,p) with p of 1 or more, got (2,0)"),
        (torch.ones(2, 3), RegardError, "prompts: expected integer token ids, got torch.float32"),
    ]:
        with pytest.raises(kind) as raised:
            decode(toy, None, [3, 3], DecodingOptions(), prompts=prompts, **KEYS)
        assert text in str(raised.value)


@pytest.mark.parametrize("sample", [False, True])
def test_banned_tokens_are_never_written(sample):
    toy = Toy(size=7, seed=1, sentences=19)
    toy.table[:, [0, 1, 4]] += 5.0  # the likeliest
    options = DecodingOptions(beams=3, n_best=3, sample=sample)
    for row in decode(toy, None, [5] * 19, options, bos=BOS, eos=EOS, banned=(0, 1, 4)):
        assert not {0, 1, 2, 4} & {token for one in row for token in one.tokens}
    with pytest.raises(ArgumentError, match=r"banned: tokens \[0, 7\], but the vocabulary has 7"):
        decode(toy, None, [5] * 19, options, bos=BOS, eos=EOS, banned=(0, 7))


@pytest.mark.parametrize("sample", [False, True])
def test_a_hypothesis_is_cut_off_where_every_token_is_banned(sample):
    toy = Toy(size=4)
    toy.table[:] = torch.tensor([1.0, 1.0, -math.inf, -math.inf])
    toy.table[(BOS + 1) % 997] = torch.tensor([-math.inf, -math.inf, -math.inf, 1.0])  # at first 3 may
    (found,) = decode(toy, None, [5], DecodingOptions(beams=2, sample=sample), **KEYS)
    assert found == [Hypothesis([3], 0.0, 0.0, ended=False)]


@pytest.mark.parametrize("n_best", [1, 2])
def test_an_unlikely_end_does_not_replace_a_likely_text_that_is_cut_off(n_best):
    toy = Toy(size=5)
    never = -math.inf
    toy.table[:] = torch.tensor([never, never, math.log(0.0001), math.log(0.9998), math.log(0.0001)])
    options = DecodingOptions(beams=3, n_best=n_best, max_length=2)
    (found,) = decode(toy, None, [5], options, **KEYS)
    assert (found[0].tokens, found[0].ended) == ([3, 3], False)
    toy.table[:, EOS], toy.table[:, 3] = math.log(0.01), math.log(0.9899)
    (found,) = decode(toy, None, [5], options, **KEYS)
    assert found[0].ended, "an end that is a hundred times less probable ranks before a text that is cut off"


@pytest.mark.parametrize("sample", [False, True])
def test_nan_scores_are_an_error(sample):
    toy = Toy()
    toy.table[:, 3] = math.nan
    with pytest.raises(ArgumentError, match="model: its scores contain NaN"):
        decode(toy, None, [5], DecodingOptions(sample=sample), **KEYS)


@pytest.mark.parametrize("sample", [False, True])
def test_an_empty_batch_gives_no_hypotheses(sample):
    assert decode(Toy(sentences=0), None, [], DecodingOptions(sample=sample), **KEYS) == []


def test_decoding_does_not_change_the_model():
    toy = Toy(seed=3)
    before = toy.table.clone()
    decode(toy, None, [5], DecodingOptions(), **KEYS)
    decode(toy, None, [5], DecodingOptions(sample=True, top_p=0.5), **KEYS)
    assert torch.equal(toy.table, before)


# ------------------------------------------------------------------- coverage


class Looking(Toy):
    """A model whose attention to the source depends on the last token, as given in a second table."""

    def __init__(self, looks: dict[int, list[float]], **options):
        super().__init__(**options)
        self.looks = looks

    def step(self, tokens, state, *, records=None):
        if records is not None:
            # What is impossible already may go on with any token.
            nowhere = [0.0] * len(self.looks[BOS])
            looks = [[self.looks.get(token, nowhere) for token in row] for row in tokens.tolist()]
            weights = torch.tensor(looks)  # (b,w,s)
            two_heads = torch.stack([weights * 2, weights * 0], dim=1).double()
            for kind, weights in (
                ("cross", torch.zeros(1, 1, 1, 1)),
                ("cross", two_heads),
                ("self", two_heads + 1),
            ):
                record = Record(
                    name="", layer=None, kind=kind, map=AttentionMap.from_weights(weights, unnormalized=True)
                )
                records.append(record)
        return super().step(tokens, state, records=records)


LOOKS = {BOS: [1.0, 0.0, 0.0], 3: [0.5, 0.5, 0.0], 4: [0.0, 0.5, 0.5]}


def test_coverage_by_hand():
    """Two tokens at most. [] looks with bos alone, [3] with bos and 3, [4] with bos and 4."""
    toy = Looking(LOOKS, size=5)
    toy.table[:] = torch.tensor([-99.0, -99.0, 0.0, 0.0, 0.0])  # the end, 3 and 4 are alike
    options = DecodingOptions(beams=8, n_best=3, max_length=2, length_penalty=0.0, coverage_penalty=0.2)
    (found,) = beam_search(toy, None, [2], options, **KEYS)
    third, unseen = math.log(1 / 3), math.log(1e-6)
    covered = {
        (): 2 * unseen,  # [1, 0, 0]
        # [1.5, .5, 0]: what was seen more than once counts as once.
        (3,): math.log(0.5) + unseen,
        (4,): 2 * math.log(0.5),  # [1, .5, .5]
    }
    expected = {tokens: third * (len(tokens) + 1) + 0.2 * cost for tokens, cost in covered.items()}
    assert [tuple(one.tokens) for one in found] == [(4,), (3,), ()]
    for one in found:
        assert one.score == pytest.approx(expected[tuple(one.tokens)])
        assert one.log_probability == pytest.approx(third * (len(one.tokens) + 1))
    (plain,) = beam_search(Toy(), None, [1], DecodingOptions(beams=8, length_penalty=0.0), **KEYS)
    assert len(plain) == 1


def test_padding_is_left_out_of_the_coverage():
    scores = []
    for looks, lengths in ((LOOKS, None), ({t: [*w, 0.0, 0.0] for t, w in LOOKS.items()}, torch.tensor([3]))):
        toy = Looking(looks, size=5, seed=4)
        memory = SimpleNamespace(names=[0], lengths=lengths, states=torch.zeros(1))
        options = DecodingOptions(beams=4, n_best=4, coverage_penalty=0.3)
        (found,) = beam_search(toy, memory, [6], options, **KEYS)
        scores.append([(one.tokens, one.score) for one in found])
    assert scores[0] == scores[1]


@pytest.mark.parametrize("name", ["transformer", "gru"])
@torch.no_grad()
def test_coverage_does_not_depend_on_the_batch(name):
    model = build(MODELS[name], torch.float64, source_size=13, target_size=11, tied_output=False)
    torch.nn.init.normal_(model.output.weight, std=1)
    lengths, source = torch.tensor([7, 2, 5]), torch.randint(13, (3, 7))
    options = DecodingOptions(beams=3, n_best=3, coverage_penalty=0.4)
    together = decode(model, model.encode(source, lengths), lengths.tolist(), options, **KEYS)
    for b, length in enumerate(lengths.tolist()):
        (alone,) = decode(model, model.encode(source[b : b + 1, :length]), [length], options, **KEYS)
        same(together[b], alone)
        records: list = []
        written = [BOS, *alone[0].tokens]
        model.decode(model.encode(source[b : b + 1, :length]), torch.tensor([written]), records=records)
        attended = records[-1].map.weights().mean(1)[0].sum(0)  # (s,)
        if not alone[0].ended:
            attended = (
                records[-1].map.weights().mean(1)[0, :-1].sum(0)
            )  # the last token was written, not read
        cost = attended.clamp(1e-6, 1).log().sum().item()
        n = len(alone[0].tokens) + alone[0].ended
        assert alone[0].score == pytest.approx(alone[0].log_probability / n + 0.4 * cost)


@torch.no_grad()
def test_a_model_without_attention_has_no_coverage():
    options = DecodingOptions(coverage_penalty=0.1)
    for model, memory in ((build(MODELS["lstm"]), True), (build({"vocabulary_size": 7}), None)):
        memory = model.encode(torch.tensor([[3, 4]])) if memory else None
        with pytest.raises(ArgumentError, match="coverage_penalty: this model has no attention to a source"):
            decode(model, memory, [2], options, **KEYS)


# ------------------------------------------------------------------- the best of many


def worst_cases() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    ties = torch.randint(3, (2, 3, 1000)).float()
    rare = torch.full((2, 3, 1000), -torch.inf)
    rare[:, 1, [5, 700, 999]] = torch.tensor([1.0, 2.0, 3.0])
    heap = torch.randn(2, 3, 1000)
    heap[:, 2, 64:128] += 50  # all of the best in one group
    rest = torch.randn(2, 3, 1000)
    rest[:, 0, 960:] += 50  # all of them behind the last group
    return {
        "ties": ties,
        "nothing": torch.full((2, 3, 1000), -torch.inf),
        "few": rare,
        "one group": heap,
        "behind the last group": rest,
        "equal": torch.zeros(2, 3, 1000),
        **{str(size): torch.randn(3, 5, size) for size in (1, 3, 63, 64, 65, 127, 641, 1280, 4099)},
    }


@pytest.mark.parametrize("count", [1, 2, 7, 10])
@pytest.mark.parametrize("scores", worst_cases().values(), ids=worst_cases())
def test_the_best_continuations_equal_torch_topk(scores, count):
    for held in (torch.zeros(scores.shape[:2]), torch.randn(scores.shape[:2]) * 3):
        before = scores.clone()
        values, parents, tokens = top_continuations(scores, held, count)
        everything = scores + held[..., None]
        expected = everything.flatten(1).topk(min(count, everything[0].numel()), dim=1).values
        assert torch.equal(values, expected)
        n = torch.arange(len(scores))[:, None]
        assert torch.equal(everything[n, parents, tokens], expected)
        places = (parents * scores.shape[2] + tokens).sort(dim=1).values
        assert (places.diff(dim=1) > 0).all()  # each once
        assert torch.equal(scores, before)
