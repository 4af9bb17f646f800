"""Searches and samples of models that copy, against enumeration and one sentence at a time."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding import DecodingOptions, decode
from support.plain_searches import KEYS, exhaustive, of_model, same
from support.small_models import COPYING, build


def make(options: dict, size: int):
    model = build({**options, "source_size": size, "target_size": size}, torch.float64, tied_output=False)
    torch.nn.init.normal_(model.output.weight)
    return model


@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_a_wide_beam_finds_what_enumeration_finds(options):
    model = make(options, 5)
    source, lengths = torch.randint(2, 5, (3, 5)), torch.tensor([5, 2, 3])
    settings = DecodingOptions(beams=48, max_length=4, n_best=5, min_length=1)
    found = decode(model, model.encode(source, lengths), lengths.tolist(), settings, **KEYS)
    for b, length in enumerate(lengths.tolist()):
        alone = model.encode(source[b : b + 1, :length])
        same(found[b], exhaustive(of_model(model, alone), 4, settings))


@pytest.mark.parametrize("settings", [{"beams": 3, "n_best": 3}, {"sample": True, "n_best": 2, "seed": 5}])
@pytest.mark.parametrize("options", COPYING.values(), ids=COPYING)
@torch.no_grad()
def test_a_batch_is_decoded_as_its_sentences_alone(options, settings):
    model, settings = make(options, 11), DecodingOptions(**settings)
    lengths = torch.tensor([7, 2, 5, 1, 6])
    source = torch.randint(2, 11, (5, 7))
    together = decode(model, model.encode(source, lengths), lengths.tolist(), settings, **KEYS)
    for b, length in enumerate(lengths.tolist()):
        alone = model.encode(source[b : b + 1, :length])
        (found,) = decode(model, alone, [length], settings, **KEYS, numbers=[b])
        same(together[b], found)


@torch.no_grad()
def test_a_score_is_the_log_probability_of_the_mixture():
    model = make(COPYING["transformer"], 11)
    source = torch.randint(2, 11, (1, 5))
    (found,) = decode(model, model.encode(source), [5], DecodingOptions(beams=2, max_length=6), **KEYS)
    target = torch.tensor([[1, *found[0].tokens]])
    written = torch.tensor([*found[0].tokens, *([2] if found[0].ended else [])])
    log_p = model(source, target)[0, : len(written)].gather(-1, written[:, None])
    assert found[0].log_probability == pytest.approx(float(log_p.sum()))


@torch.no_grad()
def test_the_coverage_penalty_reads_the_cross_attention_beside_the_copy_attention():
    """The coverage of the best hypothesis is recomputed from the records of one pass."""
    for name in COPYING:
        model = make(COPYING[name], 11)
        source = torch.randint(2, 11, (1, 5))
        settings = DecodingOptions(beams=2, max_length=6, coverage_penalty=0.5)
        (found,) = decode(model, model.encode(source), [5], settings, **KEYS)
        records: list = []
        model.hidden(source, torch.tensor([[1, *found[0].tokens]]), records=records)
        crosses = [record for record in records if record.kind == "cross"]
        chosen = [record for record in crosses if record.name != "copy_attention"] or crosses
        steps = len(found[0].tokens) + found[0].ended
        attended = chosen[-1].map.weights()[0].mean(dim=0)[:steps].sum(dim=0)  # (s,)
        coverage = sum(math.log(min(weight, 1.0)) for weight in attended.tolist())
        expected = found[0].log_probability / steps + 0.5 * coverage
        assert found[0].score == pytest.approx(expected), name
