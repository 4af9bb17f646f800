"""Tests of recordings without some of the layers of a model."""

import dataclasses

import pytest
import torch

from regard.capture import Recording
from regard.capture.joining.stitching import joined_source
from regard.errors import ArgumentError, CaptureError
from support.capture_cases import B, D, Q, encoder, seen_of


def test_rollout_and_flow_need_every_layer():
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    whole, _ = seen_of(model, x)
    assert whole.rollout().shape == (B, Q, Q)
    assert whole[1:].rollout().shape == (B, Q, Q)  # from the second layer on
    seen, _ = seen_of(model, x, options={"layers": [0, 2]})
    for ask in (seen.rollout, seen.flow, whole[::2].rollout):
        with pytest.raises(ArgumentError, match="layers: layers 1 between 0 and 2 are missing"):
            ask()
    # Billions of missing layers are neither listed nor held in memory.
    far = Recording([whole[0], dataclasses.replace(whole[1], layer=3_000_000_000)])
    with pytest.raises(
        ArgumentError, match=r"layers 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. between 0 and 3000000000"
    ):
        far.rollout()
    each = whole[0].map.nbytes
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(model, x, options={"memory": 2 * each + each // 2})
    assert [record.dropped is None for record in seen] == [True, True, False]
    for ask in (seen.rollout, seen.flow):
        with pytest.raises(
            ArgumentError, match=r"layers: layers\.2\.self_attn: dropped, past the memory budget"
        ):
            ask()
    assert len(seen.entropy()) == 2  # a table may leave one out


def test_a_record_that_cannot_be_made_leaves_the_others(monkeypatch, tmp_path):
    def fails_in_layer_1(chain, *args):
        if chain.layer == 1:
            raise ZeroDivisionError("no such sizes")
        return joined_source(chain, *args)

    monkeypatch.setattr("regard.capture.joining.records.joined_source", fails_in_layer_1)
    seen, _ = seen_of(encoder(3), torch.randn(B, Q, 2 * D))
    with pytest.warns(
        UserWarning, match=r"the map of layers\.1\.self_attn was not made, ZeroDivisionError: no such"
    ):
        assert len(seen) == 3
    assert [record.dropped is None for record in seen] == [True, False, True]
    assert "not made, ZeroDivisionError: no such sizes" in repr(seen)
    with pytest.raises(CaptureError, match=r"layers\.1\.self_attn was not made"):
        seen[1].map.weights()
    seen.save(tmp_path / "seen.safetensors")
    loaded = Recording.load(tmp_path / "seen.safetensors")
    assert torch.equal(loaded[2].map.weights(), seen[2].map.weights())
    assert loaded[1].dropped == seen[1].dropped


def test_dropped_records_are_left_out_of_tables():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    each = seen_of(model, x)[0][0].map.nbytes
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(model, x, options={"memory": each + each // 2})
    assert len(seen.head_table()) == 2
    assert len(seen.entropy()) == len(seen.distance()) == len(seen.alignments()) == 1
    assert len(seen.dropped) == 1
