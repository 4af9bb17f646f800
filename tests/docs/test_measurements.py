"""Tests of the scripts in benchmarks/ that measure the tables of the tutorial."""

import importlib
import types

import pytest
import torch

from support.paths import ROOT


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_the_value_to_recall_is_that_of_the_last_key(script):
    recall = script("tutorial_recall")
    keys, values, answers = recall.sequences(50, 7, torch.Generator().manual_seed(0))
    assert keys.shape == values.shape == (50, recall.PAIRS + 7 + 1)
    assert set(values[:, -1].tolist()) == {recall.VALUES}
    # The steps between never have a key of a pair.
    assert int(keys[:, recall.PAIRS : -1].min()) >= recall.KEYS
    for row, numbers, answer in zip(keys.tolist(), values.tolist(), answers.tolist(), strict=True):
        assert len(set(row[: recall.PAIRS])) == recall.PAIRS
        assert numbers[row.index(row[-1])] == answer


@pytest.mark.parametrize(("name", "reach"), [("convolution", 32), ("dilated", 2046)])
def test_a_convolution_sees_as_far_as_the_page_says(script, name, reach):
    torch.manual_seed(0)
    body = script("tutorial_recall").BODIES[name]().eval().double()
    x = torch.randn(1, reach + 2, 64, dtype=torch.float64)  # (b,n,m)

    def changes(place: int) -> bool:
        other = x.clone()
        # A constant would be removed by the norm.
        other[:, place] = torch.randn(64, dtype=torch.float64)
        return not torch.equal(body(x)[:, -1], body(other)[:, -1])

    assert changes(1)
    assert not changes(0)


@pytest.mark.parametrize("name", ["gru", "attention"])
def test_the_other_models_see_the_first_step(script, name):
    torch.manual_seed(0)
    body = script("tutorial_recall").BODIES[name]().eval()
    x = torch.randn(1, 30, 64)  # (b,n,m)
    other = x.clone()
    other[:, 0] = torch.randn(64)
    assert not torch.equal(body(x)[:, -1], body(other)[:, -1])


def test_removal_chooses_the_largest_and_the_smallest_weight_of_real_tokens(script):
    # The last column is the end of the sentence, which is never taken out.
    tokens = torch.tensor([[True, True, True, False]])
    weights = torch.tensor([[[[0.1, 0.5, 0.15, 0.25], [0.2, 0.05, 0.1, 0.65]]]])  # (b,h,t,s)
    chosen = script("tutorial_removal").Forced.choices(
        types.SimpleNamespace(tokens=tokens), weights, torch.Generator().manual_seed(0)
    )
    assert chosen["most"].long().argmax(dim=-1).tolist() == [[[1, 0]]]
    assert chosen["least"].long().argmax(dim=-1).tolist() == [[[0, 1]]]
    assert int(chosen["random"][..., :3].sum()) == 2


def test_the_ablations_measure_on_sentences_that_are_not_trained_on(script):
    ablations = script("tutorial_ablations")
    data = ablations.Sentences(200)
    assert (len(data.measured), len(data.train)) == (ablations.HELD_OUT, 200)
    # Rare words are unknown, so two different sentences may have the same ids.
    seen = {tuple(ids) for ids in data.train if data.vocabulary.unk not in ids}
    assert not any(tuple(ids) in seen for ids in data.measured)
