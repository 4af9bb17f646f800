"""Tests that draft tokens which a model rejects are in no map of assisted decoding."""

import pytest
import torch

import regard
from regard.biases import StoredBias
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.rejected_tokens import without_last_rows
from regard.capture.reading.masks import recognise
from regard.masks import causal, padding, window
from regard.masks.stored import StoredMask
from regard.shapes import Grid

transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")

from support.hf_models import make  # noqa: E402

PROMPT = torch.tensor([[5, 6, 7, 5, 6, 7, 5, 6, 7, 8, 5, 6]])
NEW = 9


def generator(name, how):
    model = make(name, how)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def words(ids):
    return [f"w{n}" for n in ids]


def generated(model, memory=None, **more):
    with torch.no_grad(), regard.capture(model, tokenizer=words, memory=memory) as seen:
        out = model.generate(PROMPT, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, **more)
    return seen, out


@pytest.mark.parametrize("drafts", ["prompt lookup", "assistant"])
@pytest.mark.parametrize(
    ("name", "how"), [("llama", "sdpa"), ("gpt2", "eager"), ("bloom", "eager"), ("t5", "sdpa")]
)
def test_assisted_decoding_has_the_maps_of_plain_decoding(name, how, drafts):
    model = generator(name, how)
    if drafts == "assistant":
        other = generator(name, how)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)  # right now and then
        more = {"assistant_model": other}
    else:
        more = {"prompt_lookup_num_tokens": 3}
    plain, expected = generated(model)
    seen, out = generated(model, **more)
    assert torch.equal(out, expected)
    assert [(r.name, r.kind) for r in seen] == [(r.name, r.kind) for r in plain]
    for record, same in zip(seen, plain, strict=True):
        assert record.map.shape == same.map.shape
        assert torch.allclose(record.map.weights(), same.map.weights(), atol=1e-5)
        assert (record.query_tokens, record.key_tokens) == (same.query_tokens, same.key_tokens)


def test_a_user_who_crops_a_cache_keeps_both_records():
    model = generator("llama", "sdpa")
    cache = transformers.DynamicCache()
    with torch.no_grad(), regard.capture(model, layers=0) as seen:
        model(PROMPT, past_key_values=cache)
        cache.crop(-3)
        model(PROMPT[:, :2], past_key_values=cache)
    assert [tuple(record.map.shape[2:]) for record in seen] == [(12, 12), (2, 11)]


def test_cache_crop_is_restored_after_the_capture():
    before = [vars(kind).get("crop") for kind in (transformers.DynamicCache, transformers.cache_utils.Cache)]
    generated(generator("gpt2", "sdpa"), prompt_lookup_num_tokens=3)
    assert [
        vars(kind).get("crop") for kind in (transformers.DynamicCache, transformers.cache_utils.Cache)
    ] == before


def test_drafts_past_the_budget_are_not_counted():
    model = generator("llama", "sdpa")
    whole, _ = generated(model)
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = generated(model, memory=whole.nbytes * 3 // 4, prompt_lookup_num_tokens=3)
    record, rows = seen[0], whole[0].map.shape[2]
    assert len(seen) == len(whole)
    assert record.dropped.startswith(f"the last {rows - record.map.shape[2]} rows were dropped")


# ---- parts of masks


B, H, Q, K = 2, 3, 5, 11
GRID = Grid(B, H, Q, K)
MASKS = {
    "causal": causal(),
    "from the start": causal(offset=K - Q),
    "window": window(2, 0),
    "padding": causal() & padding([K - 4, K]),
    "stored": StoredMask(causal().dense(GRID) & (torch.arange(Q)[:, None] != torch.arange(K))),
    "heads": StoredMask(
        causal().dense(GRID) & (torch.rand(1, H, Q, K, generator=torch.Generator().manual_seed(0)) > 0.4)
    ),
}


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("name", MASKS)
def test_a_kept_call_drops_its_last_rows(name, keys):
    mask, values = MASKS[name], torch.randn(1, H, Q, K)
    q, lse = torch.randn(B, H, Q, 7), torch.randn(B, H, Q)
    kept = KeptCall(0, 0, GRID, q=q, lse=lse, mask=mask, bias=StoredBias(values), causal=True, added=(0, K))
    assert without_last_rows(kept, 2, keys=keys)
    new = Grid(B, H, Q - 2, K - 2 if keys else K)
    assert kept.grid == new
    assert kept.rejected == 2
    assert torch.equal(kept.q, q[:, :, : new.q])
    assert torch.equal(kept.lse, lse[:, :, : new.q])
    dense = torch.ones(1, 1, new.q, new.k, dtype=torch.bool) if kept.mask is None else kept.mask.dense(new)
    expected = mask.dense(GRID)[:, :, : new.q, : new.k]
    assert bool((dense == expected).all())
    assert torch.equal(kept.bias.values, values[:, :, : new.q, : new.k])


def test_keys_used_by_other_queries_are_kept():
    for kept in ({"q": torch.randn(B, H, Q, 7)}, {"weights": torch.rand(B, H, Q, K)}):
        kept = KeptCall(0, 0, GRID, **kept)
        assert not without_last_rows(kept, 2, keys=True)
        assert kept.grid == GRID
    weights = torch.rand(B, H, Q, K).tril(K - Q)
    kept = KeptCall(0, 0, GRID, weights=weights)
    assert without_last_rows(kept, 2, keys=True)
    assert torch.equal(kept.weights, weights[:, :, :-2, :-2])
    assert recognise(causal().dense(kept.grid), kept.grid) is not None
