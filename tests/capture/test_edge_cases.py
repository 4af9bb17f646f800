"""What a capture makes of odd names, masks and options: the right answer, or an error in words."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import regard
from regard.capture import Recording
from regard.capture.joining import stitching as stitching_module
from regard.capture.joining.call_chains import CallChain
from regard.capture.joining.kept_calls import KeptCall
from regard.capture.joining.key_intervals import intervals_of, joined_mask
from regard.capture.joining.memory_budget import MemoryBudget
from regard.capture.joining.stitching import joined_source
from regard.capture.reading.attention_calls import AttentionCall
from regard.capture.reading.kinds import is_cross
from regard.capture.reading.layer_numbers import LayerNumbers
from regard.capture.reading.masks import MaskReader, MaskReading, is_causal_mask, recognise
from regard.capture.reading.running_modules import RunningModule
from regard.errors import ArgumentError, CaptureError, DtypeError, FileError
from regard.maps.record_files import load_records
from regard.maps.unrecorded import Unrecorded
from regard.masks import causal, padding, window
from regard.masks.base import And
from regard.masks.rules import Causal
from regard.masks.stored import Padding, StoredMask
from regard.shapes import Grid, as_device
from support.capture_cases import B, D, H, K, M, Plain, Q, encoder, qkv, seen_of

# ---- a stack with a layer left out


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


# ---- what attention looks at


class Wrapped(nn.Module):
    """As in torch's own example: the attribute is called multihead_attn."""

    def __init__(self):
        super().__init__()
        self.multihead_attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y):
        return self.multihead_attn(x, y, y, need_weights=False)[0]


class CrossFormerAttention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Conditioned(nn.Module):
    def forward(self, x, context):
        return nn.functional.scaled_dot_product_attention(x, x, x) * context.mean()


def test_self_or_cross_is_decided_by_the_arguments_before_the_name():
    x, y = torch.randn(B, Q, M), torch.randn(B, Q, M)
    assert seen_of(Wrapped(), x, x)[0][0].kind == "self"
    assert seen_of(Wrapped(), x, y)[0][0].kind == "cross"
    assert seen_of(CrossFormerAttention(), x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, x)[0][0].kind == "self"
    assert seen_of(Conditioned(), x, torch.randn(B, M))[0][0].kind == "self"  # a vector is no sequence
    attend = nn.Identity()
    assert is_cross(attend, "attn", {"context": x}) is None
    assert is_cross(attend, "attn", {"x": x, "context": y})
    assert is_cross(attend, "cross_attn", {"hidden_states": x})  # what it looks at was kept from before
    assert is_cross(attend, "self_attn", {"query": x + 1, "key": x}) is False  # positions on the queries only


# ---- layers


class TwoStreams(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x, y):
        return self.attn(x, x, x)[0], self.attn(y, y, y)[0]


class Streams(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(TwoStreams() for _ in range(2))

    def forward(self, x, y):
        for layer in self.layers:
            x, y = layer(x, y)
        return x, y


def test_a_layer_that_attends_twice_is_one_layer():
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    seen, _ = seen_of(Streams(), x, y)
    assert [(r.layer, r.map.shape[2]) for r in seen] == [(0, Q), (0, K), (1, Q), (1, K)]
    seen, _ = seen_of(Streams(), x, y, options={"layers": [1]})
    assert [r.name for r in seen] == ["layers.1.attn"] * 2
    numbers = LayerNumbers(dict.fromkeys(["layers.3.attn"], nn.Module))
    assert [numbers.call("layers.3.attn", 1)[0] for _ in range(2)] == [
        3,
        4,
    ]  # alone, it is called again as another


def test_layers_count_from_the_end_as_heads_do():
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    for layers, expected in ((-1, [2]), ([-3, 1], [0, 1])):
        seen, _ = seen_of(model, x, options={"layers": layers})
        assert [record.layer for record in seen] == expected
    for wrong in (7, -4):
        with pytest.raises(ArgumentError, match=rf"layer {wrong} was asked for, but seen were \[0, 1, 2\]"):
            seen_of(model, x, options={"layers": wrong})
    with pytest.raises(
        CaptureError, match=r"none in the layers that were asked for \(seen were \[0, 1, 2\]\)"
    ):
        seen_of(model, x, options={"layers": slice(5, None)})
    with pytest.raises(
        ArgumentError, match="layer 0 was asked for, but seen were attentions without a number"
    ):
        seen_of(Plain(), *qkv(), options={"layers": 0})
    with (
        pytest.raises(CaptureError, match="not called inside the with block"),
        regard.capture(model, layers=7),
    ):
        pass


@pytest.mark.parametrize("name", ["heads", "layers"])
def test_duplicate_layer_and_head_numbers_are_refused(name):
    model, x = encoder(3), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=f"{name}: 0 is there 2 times: give each once"):
        regard.capture(model, **{name: [0, 1, 0]})
    with pytest.raises(ArgumentError, match=r"heads: \[0, -2\] name a head twice"):
        seen_of(model, x, options={"heads": [0, -2]})


# ---- labels and devices


@pytest.mark.parametrize(
    "given", [[1, 2, 3], torch.arange(1, 4), torch.arange(1, 4).numpy(), list(torch.arange(1, 4))]
)
def test_integers_are_accepted_as_labels(given):
    weights = torch.eye(3)
    assert Recording.from_weights(weights, query_tokens=given)[0].tokens == [["1", "2", "3"]]
    assert Recording.from_weights(weights, query_tokens=[given])[0].tokens == [["1", "2", "3"]]


@pytest.mark.parametrize(
    "given", [["a", None, "b"], [["a", None]], 3, [["a"], "b"], [["a"], 3], torch.tensor(3)]
)
def test_wrong_labels_are_refused(given):
    with pytest.raises(DtypeError, match="tokens: expected "):
        regard.capture(nn.Identity(), tokens=given)


def test_a_missing_device_is_refused_at_once(monkeypatch):
    with pytest.raises(ArgumentError, match="device: 'nope' cannot be used: .*: choose cpu"):
        regard.capture(Plain(), device="nope")
    with pytest.raises(ArgumentError, match=r"device: 3\.5 cannot be used"):
        regard.capture(Plain(), device=3.5)
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="device: 'cuda' cannot be used"):
            regard.capture(Plain(), device="cuda")
    assert as_device(torch.device("cpu")).type == "cpu"


# ---- files


def test_saving_refuses_empty_recordings_and_folders(tmp_path):
    seen = Recording.from_weights(torch.eye(3))
    with pytest.raises(ArgumentError, match="records: expected at least one record, got none"):
        seen[:0].save(tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="is a folder: give the name of a file"):
        load_records(tmp_path)


# ---- numbers that hide

LOWEST = torch.finfo(torch.float32).min


def test_a_row_swamped_by_one_number_is_uniform_over_the_visible_keys():
    q, k, v = qkv()
    mask = torch.zeros(B, 1, Q, K)
    mask[1, :, 2] = LOWEST
    mask[1, :, 2, 2:] = float("-inf")
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    found = seen[0].map
    assert torch.allclose(found.weights()[1, :, 2], torch.tensor([0.5, 0.5] + [0.0] * (K - 2)))
    assert torch.allclose(found[1, :, 2, :2], torch.full((H, 2), 0.5))  # a part, by the log-sum-exp
    assert torch.allclose(found.weights() @ v, out, atol=1e-6)


@pytest.mark.parametrize("number", [-1e4, -1e9, LOWEST])
def test_a_large_negative_number_hides(number):
    q, k, v = qkv(keys=Q)
    mask = torch.full((Q, Q), number).triu(1)
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    assert seen[0].kind == "causal"
    assert seen[0].map._source.bias is None
    assert isinstance(seen[0].map._source.mask, Causal)
    expected = torch.softmax(q @ k.transpose(-2, -1) * D**-0.5 + mask, dim=-1)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)


ROWS = {
    "all the same": [-1e9] * 7,
    "low, and lower": [-1e9, -2e9, -1e9, -2e9, -1e9, -1e9, -2e9],
    "low, and the lowest": [-1e9, LOWEST, -1e9, LOWEST, -1e9, -1e9, LOWEST],
    "about the limit": [-9999.0, -10000.0, -9998.0, -10001.0, -9999.0, -10000.0, -9997.0],
    "below the limit": [-10001.0, -10000.0, -10002.0, -10001.0, -12000.0, -10000.0, -10003.0],
    "one that stays": [-1e9, -1e9, 0.0, -1e4, -1e9, -3e38, -1e5],
    "a bias": [-3.0, -50.0, -5000.0, 0.0, 2.0, -9000.0, -1e4],
    "lowest, and not quite": [LOWEST, -3e38, LOWEST, -3e38, LOWEST, LOWEST, LOWEST],
    "lowest and hidden": [LOWEST, LOWEST, float("-inf"), float("-inf"), LOWEST, LOWEST, LOWEST],
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_mask_values_give_the_weights_of_softmax(row, dtype):
    q, k, v = (x.to(dtype) for x in qkv())
    mask = torch.zeros(Q, K, dtype=dtype)
    mask[2] = torch.tensor(ROWS[row], dtype=dtype)
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=mask)
    expected = torch.softmax(q @ k.transpose(-2, -1) * D**-0.5 + mask, dim=-1)
    assert (seen[0].map.weights() - expected).abs().max() < 1e-6
    assert (seen[0].map[:, :, 1:4, 1:6] - expected[:, :, 1:4, 1:6]).abs().max() < 1e-6


def test_is_causal_applies_before_the_rows_of_the_mask():
    mask = torch.zeros(3, 3)
    mask[0, 0] = -1e9  # the only key of the first row, once the flag has hidden the others
    reading = MaskReader().read(mask, True, Grid(1, 1, 3, 3))
    assert reading.mask.dense(Grid(1, 1, 3, 3))[0, 0].tolist() == torch.ones(3, 3).bool().tril().tolist()


# ---- steps of generate(), put together without a matrix


def kept_call(order, grid, mask=None, first=0, bias=None):
    made = KeptCall(order=order, step=order, grid=grid, mask=mask, first=first, bias=bias, grew=order > 0)
    made.q = torch.randn(*grid[:3], 2)
    return made


def strand_of(keys, b=1):
    running = RunningModule(nn.Identity(), "layers.0.attn", (), {})
    made = CallChain(running, 0, False, AttentionCall(Grid(b, 1, 1, keys)))
    made._keys, made.count = torch.randn(b, 1, keys, 2), keys
    return made


PADDED = torch.tensor([[True] * 6, [False, False, True, True, True, True]])
RUNS = {
    "causal": ([causal(), None, None], [(4, 4), (1, 5), (1, 6)], Causal),
    "two steps at once": ([causal(), causal()], [(4, 4), (2, 6)], Causal),
    "everything": ([None, None], [(4, 6), (2, 6)], type(None)),
    "padding": ([padding(PADDED), padding(PADDED)], [(1, 6), (1, 6)], Padding),
    "causal and padded": (
        [causal() & padding(PADDED[:, :4]), padding(PADDED[:, :5]), padding(PADDED)],
        [(4, 4), (1, 5), (1, 6)],
        And,
    ),
    "a window": (
        [window(2, 0), padding(torch.tensor([[False, False, True, True, True]]))],
        [(4, 4), (1, 5)],
        type(window(2, 0)),
    ),
    "a window that the cache forgets": (
        [window(1, 0), None, None],
        [(4, 4), (1, 2), (1, 2)],
        type(window(1, 0)),
    ),
    "a prompt that sees itself whole": ([None, None], [(4, 4), (1, 5)], StoredMask),
    "a mask of no rule": ([StoredMask(torch.eye(4).bool()), None], [(4, 4), (1, 5)], StoredMask),
}


@pytest.mark.parametrize("name", RUNS)
def test_masks_of_steps_join_into_one_equal_mask(name):
    masks, sizes, kind = RUNS[name]
    b = 2 if "padd" in name else 1
    keys = max(k for _, k in sizes) if "forgets" not in name else 6
    run = []
    for n, (mask, (q, k)) in enumerate(zip(masks, sizes, strict=True)):
        first = sum(rows for rows, _ in sizes[: n + 1]) - k if "forgets" in name else 0
        run.append(kept_call(n, Grid(b, 1, q, k), mask, first))
    grid = Grid(b, 1, sum(q for q, _ in sizes), keys)
    found = joined_source(strand_of(keys, b), run).mask
    assert isinstance(found, kind)
    keep = torch.zeros(b, 1, grid.q, keys, dtype=torch.bool)
    row = 0
    for one in run:
        part = True if one.mask is None else one.mask.dense(one.grid)
        keep[:, :, row : row + one.grid.q, one.first : one.first + one.grid.k] = part
        row += one.grid.q
    said = torch.ones(()).bool() if found is None else found.dense(grid)
    assert torch.equal(said.expand(grid), keep)
    same = recognise(keep, grid)
    assert type(found) is type(same)
    assert repr(found) == repr(same)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_joined_masks_keep_every_pair(data):
    b, keys = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 6))
    bands, rows = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        k = data.draw(st.integers(1, keys))
        grid = Grid(b, 1, data.draw(st.integers(1, 4)), k)
        first = data.draw(st.integers(0, keys - k))
        sides = st.sampled_from([None, 0, 1, 3])
        mask = window(data.draw(sides), data.draw(sides)) & causal(
            data.draw(st.sampled_from([None, -1, 2, 9]))
        )
        if data.draw(st.booleans()):
            flags = data.draw(st.lists(st.booleans(), min_size=b * k, max_size=b * k))
            mask = mask & padding(torch.tensor(flags).reshape(b, k))
        bands.append(intervals_of(mask, grid).moved(first, keys))
        part = torch.zeros(b, 1, grid.q, keys, dtype=torch.bool)
        part[..., first : first + k] = mask.dense(grid)
        rows.append(part)
    keep = torch.cat(rows, dim=2)
    grid = Grid(b, 1, keep.shape[2], keys)
    rule, found = joined_mask(bands, grid)
    same = recognise(keep, grid)
    assert rule == (not isinstance(same, StoredMask))
    if rule:
        said = torch.ones(()).bool() if found is None else found.dense(grid)
        assert torch.equal(said.expand(grid), keep)


def test_a_long_prompt_and_a_step_need_no_matrix(monkeypatch):
    n = 20_000
    there = torch.ones(1, n + 1, dtype=torch.bool)
    there[:, :3] = False
    run = [kept_call(0, Grid(1, 1, n, n), causal() & padding(there[:, :n]))]
    run += [kept_call(1, Grid(1, 1, 1, n + 1), padding(there))]
    monkeypatch.setattr(stitching_module, "_keep", lambda *_: pytest.fail("a matrix of queries and keys"))
    source = joined_source(strand_of(n + 1), run)
    assert isinstance(source.mask, And)
    assert is_causal_mask(source.mask, source.grid)
    assert source.mask.right.keep.numel() == n + 1
    assert (
        joined_source(strand_of(n + 1), run, room=MemoryBudget(1)).grid == source.grid
    )  # nothing that the budget counts


def test_joined_steps_whose_mask_exceeds_the_budget_are_dropped():
    n = 64
    run = [
        kept_call(0, Grid(1, 1, n, n), StoredMask(torch.eye(n).bool())),
        kept_call(1, Grid(1, 1, 1, n + 1)),
    ]
    need = (n + 1) * (n + 1)
    assert isinstance(joined_source(strand_of(n + 1), run, room=MemoryBudget(need)).mask, StoredMask)
    source = joined_source(strand_of(n + 1), run, room=MemoryBudget(need - 1))
    assert isinstance(source, Unrecorded)
    assert source.grid == (1, 1, n + 1, n + 1)
    with pytest.raises(CaptureError, match=r"layers\.0\.attn was dropped, the steps together need 4\.2 kB"):
        regard.AttentionMap(source).weights()
    biased = [kept_call(0, Grid(1, 1, n, n), bias=regard.biases.StoredBias(torch.randn(1, 1, n, n)))]
    biased += [kept_call(1, Grid(1, 1, 1, n + 1))]
    for room, kept in ((5 * need, True), (5 * need - 1, False)):
        assert (
            isinstance(joined_source(strand_of(n + 1), biased, room=MemoryBudget(room)), Unrecorded)
            is not kept
        )


def test_a_record_dropped_over_the_budget_says_so():
    k = torch.randn(1, 1, 40, D)
    keep = torch.rand(39, 39) > 0.5
    keep[:, 0] = True

    def run(memory):
        with regard.capture(model := Plain(), memory=memory) as seen:
            model(k[:, :, :39], k[:, :, :39], k[:, :, :39], attn_mask=keep)
            model(k[:, :, 39:], k, k)
        return seen

    whole = run(10**6)
    used = whole._session.collector.budget.used
    assert whole[0].map.shape == (1, 1, 40, 40)
    seen = run(used + 40 * 40 - 1)
    with pytest.warns(
        UserWarning, match="not recorded: the map of Plain was dropped, .* past the memory budget"
    ):
        assert "past the memory budget" in seen.dropped[0]
    assert seen[0].map.shape == (1, 1, 40, 40)
    assert run(used + 40 * 40).dropped == []


def test_uniform_rows_of_some_heads():
    reading = MaskReading(even=torch.tensor([[[float("nan"), math.log(2)]]]))
    made = kept_call(0, Grid(1, 1, 2, 2))
    chain = strand_of(2)
    call = AttentionCall(made.grid, q=made.q, k=chain._keys, lse=torch.zeros(1, 1, 2))
    chain.add(made, call, reading, None, None)
    assert made.q is not None
    assert made.lse is not None
    assert (made.q[0, 0] == 0).all(dim=-1).tolist() == [False, True]
    assert made.lse[0, 0].tolist() == pytest.approx([0.0, math.log(2)])


# ---- which modules are watched operation by operation


class Manual(nn.Module):
    """Attention by hand, or by torch's function: which, a switch says."""

    def __init__(self, fused: bool):
        super().__init__()
        self.fused, self.made = fused, nn.Linear(4, 4)

    def forward(self, x):
        q = self.made(x)
        if self.fused:
            return torch.nn.functional.scaled_dot_product_attention(q[:, None], x[:, None], x[:, None])[:, 0]
        return (q @ x.mT / 2).softmax(-1) @ x


class ManualAttention(Manual):
    pass


class Chain(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.layers = nn.ModuleList(parts)

    def forward(self, x):
        for part in self.layers:
            x = part(x)
        return x


def test_modules_of_one_class_with_other_settings_are_each_recorded():
    model = Chain(*(ManualAttention(fused) for fused in (True, True, False, True, False)))
    with regard.capture(model) as seen:
        model(torch.randn(2, 3, 4))
    assert [record.layer for record in seen] == [0, 1, 2, 3, 4]


def test_a_handwritten_softmax_in_a_later_module_is_warned_of():
    model = Chain(ManualAttention(True), ManualAttention(True), Manual(True), Manual(False))
    with (
        pytest.warns(UserWarning, match=r"a softmax in 'layers.3'"),
        regard.capture(model) as seen,
    ):
        model(torch.randn(2, 3, 4))
    assert len(seen) == 3


class Changing(ManualAttention):
    """By torch's function when it is called for the first time, by hand afterwards, and nothing shows it."""

    def forward(self, x):
        self.fused = True  # as it looks from outside
        self.calls = getattr(self, "calls", 0) + 1
        q = self.made(x)
        if self.calls == 1:
            return super().forward(x)
        return (q @ x.mT / 2).softmax(-1) @ x


def test_a_module_that_changes_its_attention_is_still_recorded():
    model = Chain(Changing(True))
    told = r"a softmax in 'layers.0'"
    with pytest.warns(UserWarning, match=told), regard.capture(model):
        model(model(torch.randn(2, 3, 4)))
    model.layers[0].calls = 0
    with regard.capture(model, modules=["layers.0"]) as seen:  # as it advises
        model(model(torch.randn(2, 3, 4)))
    assert len(seen) == 2


def test_only_modules_that_may_attend_are_traced(monkeypatch):
    from regard.capture.watching.modes import OperationMode

    shown, real = [], OperationMode.__torch_dispatch__

    def counted(self, func, *rest, **options):
        shown.append(func)
        return real(self, func, *rest, **options)

    monkeypatch.setattr(OperationMode, "__torch_dispatch__", counted)
    model = Chain(*(ManualAttention(fused) for fused in (True, True, False, True)))
    with regard.capture(model) as seen:
        model(torch.randn(2, 3, 4))
    assert len(seen) == 4
    names = [str(op) for op in shown]
    assert (
        names == []
    )  # small calls of torch's attention, and a product, a scale and a softmax that are known
    with regard.capture(model) as seen:
        model(torch.randn(2, 400, 4))
    assert len(seen) == 4
    names = [str(op) for op in shown]
    assert sum("scaled_dot_product" in name for name in names) == 3  # they give their log-sum-exp
    assert not {"aten.addmm.default", "aten._softmax.default"} & set(names)


class ByOperators(nn.Module):
    """An attention in words of torch's that stand below its functions, or beside them."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        if self.way == "linear":  # a product of two sequences by the function of a layer
            return torch.softmax(nn.functional.linear(x[0], x[0]) / 2, -1) @ x[0]
        if self.way == "operators":
            return torch.ops.aten._softmax(torch.ops.aten.bmm.default(x, x.mT) / 2, -1, False) @ x
        if self.way == "einsum":
            return torch.einsum("bqk,bkd->bqd", torch.einsum("bqd,bkd->bqk", x, x).div(2).softmax(-1), x)
        return ByGradient.apply(x) if self.way == "gradient" else from_elsewhere(x)


def from_elsewhere(x):
    """A function that modes are asked about, as those of libraries are, and of which nobody knows what it does."""
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(from_elsewhere, (x,), x)
    return (x @ x.mT / 2).softmax(-1) @ x


class ByGradient(torch.autograd.Function):
    """An attention with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        return torch.special.softmax(x @ x.mT / 2, -1) @ x


@pytest.mark.parametrize("way", ["linear", "operators", "einsum", "gradient", "elsewhere"])
def test_every_form_of_matrix_product_is_traced(way):
    model = Chain(ByOperators(way))
    x = torch.randn(2, 3, 4)
    with regard.capture(model, modules=["layers.0"]) as seen:
        model(x)
    held = x[:1] if way == "linear" else x
    expected = (held @ held.mT / 2).softmax(-1)
    assert torch.allclose(seen[0].map[:][:, 0], expected, atol=1e-6)
    assert "recomputed" in repr(seen[0].map)  # not kept as weights: both sides of the product are known


def test_nested_captures_record_the_same():
    model = Chain(*(ManualAttention(fused) for fused in (True, False, True, False)))
    x = torch.randn(2, 3, 4)
    with regard.capture(model) as outer:
        model.layers[0](x)
        with regard.capture(model, layers=[1, 3]) as inner:
            model(x)
        model.layers[3](x)
    assert [record.layer for record in inner] == [1, 3]
    assert [record.layer for record in outer] == [0, 0, 1, 2, 3, 3]
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_no_mode_is_left_on_the_stack_after_a_failure():
    class Failing(ManualAttention):
        def forward(self, x):
            raise RuntimeError("on purpose")

    model = Chain(ManualAttention(True), Failing(True))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="on purpose"), regard.capture(model):
            model(torch.randn(2, 3, 4))
        assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
