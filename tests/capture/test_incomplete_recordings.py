"""Tests of recordings without some of the layers of a model."""

import pytest
import torch

from regard.errors import ArgumentError
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
    each = whole[0].map.nbytes
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(model, x, options={"memory": 2 * each})
    assert [record.dropped is None for record in seen] == [True, True, False]
    for ask in (seen.rollout, seen.flow):
        with pytest.raises(
            ArgumentError, match=r"layers: layers\.2\.self_attn: dropped, past the memory budget"
        ):
            ask()
    assert len(seen.entropy()) == 2  # a table may leave one out


def test_dropped_records_are_left_out_of_tables():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    each = seen_of(model, x)[0][0].map.nbytes
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(model, x, options={"memory": each})
    assert len(seen.head_table()) == 2
    assert len(seen.entropy()) == len(seen.distance()) == len(seen.alignments()) == 1
    assert len(seen.dropped) == 1
