"""Tests of measures of heads, rollout and flow, against plain NumPy and against minimum cuts."""

import itertools
import sys

import numpy as np
import pytest
import torch

from regard import attention, causal, padding
from regard.analysis import (
    alignment_links,
    bidirectional_links,
    cluster_heads,
    distance,
    entropy,
    flow,
    head_agreement,
    head_table,
    received,
    rollout,
    sink_mass,
    top_links,
)
from regard.errors import ArgumentError, DtypeError, ShapeError, UnknownNameError
from regard.maps import AttentionMap, Record

B, H, Q, K, D = 2, 3, 131, 137, 11  # more queries than one block of rows


@pytest.fixture(scope="module")
def seen():
    """A map that is not computed, and its weights."""
    torch.manual_seed(0)
    q, k = torch.randn(B, H, Q, D), torch.randn(B, H, K, D)
    _, found = attention(q, k, torch.randn(B, H, K, D), mask=causal(), return_map=True)
    return found, found.weights().double().numpy()


def self_attention(n=5, h=3, b=2, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n) / 2, size=(b, h, n))  # (b,h,q,k)


# ---- heads


def test_entropy_received_and_distance_are_those_of_numpy(seen):
    found, weights = seen
    logs = np.log(np.where(weights > 0, weights, 1))
    np.testing.assert_allclose(entropy(found), -(weights * logs).sum(-1), atol=1e-5)
    np.testing.assert_allclose(received(found), weights.sum(2) / Q, atol=1e-6)
    steps = np.abs(np.arange(Q)[:, None] + (K - Q) - np.arange(K)[None, :])
    np.testing.assert_allclose(distance(found), (weights * steps).sum(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", [0, 4, -1])
def test_sink_mass_leaves_out_queries_without_a_choice(seen, key):
    found, weights = seen
    expected = np.zeros((B, H))
    for b, h in itertools.product(range(B), range(H)):
        rows = [row for row in weights[b, h] if row.sum() - row[key] > 0]
        expected[b, h] = np.mean([row[key] for row in rows])
    np.testing.assert_allclose(sink_mass(found, key), expected, atol=1e-6)


def test_a_causal_head_with_its_weight_on_the_first_token_is_found():
    resting = np.tril(np.full((5, 5), 0.01))
    resting[:, 0] += 1 - resting.sum(-1)
    assert sink_mass(resting)[0, 0] > 0.9
    # The first row has no choice and says nothing.
    assert sink_mass(np.eye(5))[0, 0] == 0


def test_top_links_are_the_largest_of_all_with_their_tokens(seen):
    found, weights = seen
    links = top_links(found, 7)
    np.testing.assert_allclose(
        [one.weight for one in links], np.sort(weights, axis=None)[::-1][:7], rtol=1e-5
    )
    for one in links:
        assert weights[one.batch, one.head, one.query, one.key] == pytest.approx(one.weight, rel=1e-5)
    labels = [["a", "b", "c"]]
    table = AttentionMap.from_weights(torch.tensor([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]]))
    record = Record(name="x", layer=0, kind="self", map=table, query_tokens=labels)
    assert [(one.query_token, one.key_token) for one in top_links(record, 3)] == [
        ("c", "a"),
        ("a", "b"),
        ("b", "c"),
    ]


def test_head_table_has_a_row_for_each_head(monkeypatch):
    layers = [self_attention(seed=1), self_attention(seed=2)]
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    rows = head_table(layers)
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert rows[4]["entropy"] == pytest.approx(entropy(layers[1])[:, 1].mean())
    assert rows[4]["largest"] == pytest.approx(layers[1][:, 1].max(-1).mean())


def test_head_table_is_a_data_frame_if_pandas_is_installed():
    pandas = pytest.importorskip("pandas")
    table = head_table([self_attention()])
    assert isinstance(table, pandas.DataFrame)
    assert list(table["head"]) == [0, 1, 2]


def test_agreement_is_the_mean_coefficient_of_the_rows():
    layers = [self_attention(seed=1), self_attention(h=2, seed=2)]
    found = head_agreement(layers)
    both = np.concatenate(layers, axis=1)  # (b,heads,q,k)
    expected = np.einsum("bhqk,bgqk->hg", np.sqrt(both), np.sqrt(both)) / (2 * 5)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-6)


def test_clusters_find_the_heads_that_were_made_alike():
    kinds = [self_attention(n=7, h=1, b=1, seed=seed) for seed in range(3)]
    order = [0, 1, 2, 1, 0, 2, 2]
    mixed = np.concatenate(
        [
            0.98 * kinds[i] + 0.02 * self_attention(n=7, h=1, b=1, seed=9 + place)
            for place, i in enumerate(order)
        ],
        axis=1,
    )
    assert cluster_heads(mixed, 3).tolist() == order
    assert cluster_heads(mixed, 1).tolist() == [0] * 7
    assert cluster_heads(mixed, 7).tolist() == list(range(7))


# ---- through the layers


def test_rollout_multiplies_the_mixed_layers():
    layers = [self_attention(seed=1), self_attention(h=2, seed=2)]
    mixed = [0.7 * layer.mean(1) + 0.3 * np.eye(5) for layer in layers]
    found = rollout(layers, residual=0.3)
    np.testing.assert_allclose(found, mixed[1] @ mixed[0], atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)


def smallest_cut(pipes, query, key):
    """The narrowest set of pipes that separates an output from an input token, by trying all of them."""
    n, levels = len(pipes[0]), len(pipes) + 1
    nodes = [(level, i) for level in range(levels) for i in range(n)]
    ends = ((0, query), (levels - 1, key))
    others = [node for node in nodes if node not in ends]
    best = np.inf
    for chosen in itertools.product([False, True], repeat=len(others)):
        inside = {ends[0]} | {node for node, yes in zip(others, chosen, strict=True) if yes}
        width = sum(
            pipes[level][i, j]
            for level, i in inside
            if level < levels - 1
            for j in range(n)
            if (level + 1, j) not in inside
        )
        best = min(best, width)
    return best


def test_flow_is_the_smallest_cut():
    layers = [self_attention(n=3, b=1, seed=seed) for seed in (1, 2)]
    mixed = [0.5 * layer[0].mean(0) + 0.5 * np.eye(3) for layer in layers]
    found = flow(layers)[0]
    expected = [[smallest_cut(mixed[::-1], query, key) for key in range(3)] for query in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(flow(layers, queries=[2])[0, 0], found[2])


# ---- alignments of two directions


def test_bidirectional_links_are_those_computed_by_hand():
    there, back = {(0, 0), (1, 1), (3, 3), (5, 1)}, {(0, 0), (1, 1), (2, 1), (6, 6)}
    assert bidirectional_links(there, back, "intersection") == {(0, 0), (1, 1)}
    assert bidirectional_links(there, back, "union") == there | back
    assert bidirectional_links(there, back, "grow") == {(0, 0), (1, 1), (2, 1)}  # the others touch nothing


# ---- what is not attention


@pytest.mark.parametrize(
    ("call", "kind", "part"),
    [
        (lambda: entropy("x"), DtypeError, "expected an AttentionMap"),
        (lambda: entropy(np.ones(3)), ShapeError, "got \\(3,\\)"),
        (lambda: rollout([]), ArgumentError, "expected at least one layer, got none"),
        (lambda: rollout([np.ones((2, 3)) / 3]), ShapeError, "self-attention"),
        (lambda: rollout([np.eye(2), np.eye(3)]), ShapeError, "layer 1"),
        (lambda: rollout([np.eye(2)], residual=1), ArgumentError, "residual"),
        (lambda: flow([np.eye(2)], queries=[2]), ArgumentError, "0 to 1"),
        (lambda: cluster_heads([np.eye(2)], 2), ArgumentError, "1 to 1"),
        (lambda: sink_mass(np.eye(2), 2), ArgumentError, "key"),
        (lambda: top_links(np.eye(2), 0), ArgumentError, "1 or more"),
        (lambda: bidirectional_links([], [], "all"), UnknownNameError, "grow"),
    ],
)
def test_wrong_arguments_are_refused(call, kind, part):
    with pytest.raises(kind, match=part):
        call()


# ---- records that do not belong together, and maps that are long


def record(weights, name="layers.0", layer=0, kind="self", **more):
    found = AttentionMap.from_weights(torch.as_tensor(weights))
    return Record(name=name, layer=layer, kind=kind, map=found, **more)


@pytest.mark.parametrize("through", [rollout, flow])
def test_layers_that_do_not_fit_together_are_refused(through):
    weights = self_attention(3)
    one, other = record(weights), record(weights, "layers.1", 1)
    assert through([one, other]).shape == (2, 3, 3)
    with pytest.raises(ArgumentError, match="got causal and self"):
        through([one, record(weights, "decoder.0", 0, "causal")])
    with pytest.raises(ArgumentError, match="got cross"):
        through([record(weights, kind="cross")])
    with pytest.raises(
        ArgumentError, match="2 records are of layers.0 in layer 0: the model ran more than once"
    ):
        through([one, other, one])


def test_the_flow_network_is_built_once(monkeypatch):
    from regard.analysis import flow as module

    built = []
    network = sys.modules["regard.analysis.flow"]._FlowNetwork
    monkeypatch.setattr(
        sys.modules["regard.analysis.flow"], "_FlowNetwork", lambda pipes: built.append(1) or network(pipes)
    )
    weights = self_attention(3)
    assert module([weights, weights]).shape == (2, 3, 3)
    assert len(built) == 2  # one for each sequence


def test_tables_name_layers_and_heads_as_the_model_does():
    rows = head_table([record(self_attention(3, h=2), "layers.4", 4, heads=(1, 7))])
    rows = _rows_of(rows)
    assert [(row["layer"], row["head"]) for row in rows] == [(4, 1), (4, 7)]
    link = top_links([record(np.eye(2)[None, None], layer=4, heads=(7,))], 1)[0]
    assert (link.layer, link.head) == (4, 7)


def _rows_of(table):
    return table.to_dict("records") if hasattr(table, "to_dict") else table


def test_maps_larger_than_the_index_limit_are_read_in_parts(monkeypatch, seen):
    from regard.analysis import heads
    from regard.maps import attention_map

    found, _ = seen
    far, mass, before = distance(found), sink_mass(found), _rows_of(head_table(found))
    for where, name in ((heads, "NUMBERS"), (attention_map, "_MAX_INDEXED")):
        monkeypatch.setattr(where, name, 2 * found.shape[1] * K)  # two rows of all heads
    np.testing.assert_allclose(distance(found), far, rtol=1e-6)
    np.testing.assert_allclose(sink_mass(found), mass, rtol=1e-6)
    for one, other in zip(_rows_of(head_table(found)), before, strict=True):
        assert one["entropy"] == pytest.approx(other["entropy"])
        assert one["first"] == pytest.approx(other["first"])


def test_alignment_links_accepts_records_maps_and_arrays():
    weights = np.stack([np.eye(3), np.eye(3)[::-1]])[:, None]  # (b,h,q,k)
    for given in (record(weights.copy()), AttentionMap.from_weights(weights.copy()), weights):
        assert alignment_links(given) == {(0, 0), (1, 1), (2, 2)}
        assert alignment_links(given, batch=1) == {(2, 0), (1, 1), (0, 2)}
    with pytest.raises(ArgumentError, match="batch: expected one of 2 sequences, got 2"):
        alignment_links(weights, batch=2)


# ---- padding, and rows that see nothing


def alone_and_padded(real, n=12, together=None):
    """The map of a few tokens by themselves, and of the same tokens among padding."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, H, n, D) for _ in range(3))
    keep = torch.zeros(1, n, dtype=torch.bool)
    keep[:, real] = True
    mask = padding(keep) if together is None else together & padding(keep)
    _, alone = attention(*(x[:, :, real] for x in (q, k, v)), mask=together, return_map=True)
    return alone, attention(q, k, v, mask=mask, return_map=True)[1]


def rows_of(table):
    return table.to_dict("records") if hasattr(table, "to_dict") else table


@pytest.mark.parametrize("together", [None, causal()])
@pytest.mark.parametrize("real", [slice(0, 4), slice(8, 12)])
def test_padding_changes_no_mean(real, together):
    alone, padded = alone_and_padded(real, together=together)
    for few, many in zip(rows_of(head_table(alone)), rows_of(head_table(padded)), strict=True):
        for column in ("entropy", "distance", "largest"):
            assert many[column] == pytest.approx(few[column], abs=1e-5), column
    np.testing.assert_allclose(received(padded)[..., real], received(alone), atol=1e-6)
    np.testing.assert_allclose(sink_mass(padded, real.start), sink_mass(alone), atol=1e-6)
    np.testing.assert_allclose(head_agreement(padded), head_agreement(alone), atol=1e-5)
    assert {one.query for one in top_links(padded, 500)} == set(range(real.start, real.stop))


def test_every_query_of_a_batch_counts_once():
    torch.manual_seed(0)
    q = torch.randn(2, H, 5, D)
    _, seen = attention(q, q, q, mask=padding([2, 5]), return_map=True)
    widths = entropy(seen)[:, 0]  # (b,q)
    expected = (widths[0, :2].sum() + widths[1].sum()) / 7
    assert rows_of(head_table(seen))[0]["entropy"] == pytest.approx(expected)


def test_padding_is_known_in_parts_of_a_map():
    alone, padded = alone_and_padded(slice(0, 4))
    part = padded.select(batch=0, heads=slice(1, 3))
    np.testing.assert_allclose(received(part)[..., :4], received(alone)[:, 1:3], atol=1e-6)
    np.testing.assert_allclose(
        received(padded.mean_heads())[..., :4], received(alone.mean_heads()), atol=1e-6
    )


def test_hidden_keys_say_nothing_about_the_queries_of_a_cross_attention():
    _, padded = alone_and_padded(slice(0, 4))
    cross = Record(name="cross", layer=0, kind="cross", map=padded)
    np.testing.assert_allclose(received(cross), padded.weights().double().numpy().mean(2), atol=1e-6)


def test_a_rule_that_hides_the_last_key_is_no_padding():
    torch.manual_seed(0)
    q = torch.randn(1, 1, 4, D)
    _, seen = attention(q, q, q, mask=causal(-1), return_map=True)  # only what came before
    np.testing.assert_allclose(received(seen), seen.weights().double().numpy().sum(2) / 3, atol=1e-6)


def test_rows_that_see_nothing_are_left_out():
    blank = np.array([[0.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(received(blank), [[[0.5, 0.5]]])
    np.testing.assert_allclose(head_agreement([blank, blank]), 1)
    assert rows_of(head_table(blank))[0]["entropy"] == pytest.approx(np.log(2))
    assert received(np.zeros((2, 2))).tolist() == [[[0, 0]]]
    assert head_agreement(np.zeros((2, 2))).tolist() == [[0]]


# ---- layers


@pytest.mark.parametrize("count", [entropy, distance, received, sink_mass, alignment_links])
def test_layers_give_one_entry_each(count):
    layers = tuple(torch.tensor(self_attention(seed=seed)) for seed in (1, 2))  # as Hugging Face gives them
    found = count(layers)
    assert isinstance(found, list)
    for one, layer in zip(found, layers, strict=True):
        np.testing.assert_equal(one, count(layer))
    with pytest.raises(DtypeError, match=r"weights\[1\]: expected an AttentionMap"):
        count([layers[0], "x"])
    with pytest.raises(ArgumentError, match=r"weights\[0\]: the model returned no weights.*regard\.capture"):
        count((None, None))
    with pytest.raises(ArgumentError, match="weights: expected at least one layer, got none"):
        count(())


@pytest.mark.parametrize(
    "call", [lambda n: cluster_heads([np.eye(2)] * 3, n), lambda n: top_links(np.eye(2), n)]
)
def test_counts_that_are_not_whole_numbers_are_refused(call):
    with pytest.raises(DtypeError, match=r"expected a whole number of 1 or more, got 2\.5"):
        call(2.5)
