"""Tests that every method of AttentionMap equals the result from the whole matrix, without computing it."""

import json
import os
import struct

import numpy as np
import pytest
import torch
from hypothesis import given

import regard
from regard import AttentionMap, attention, causal, global_tokens, padding, positions, scores, window
from regard.errors import ArgumentError, DtypeError, FileError, ShapeError
from regard.kernels import native
from regard.maps import sources, storage
from regard.models.state import source_padding
from support.attention_cases import (
    KERNELS,
    SCORES,
    Case,
    LargestTensor,
    Tensors,
    cases,
    examples,
    forced,
    plain_output,
)


def _map(t: Tensors) -> AttentionMap:
    x = t.leaves
    return attention(x["q"], x["k"], x["v"], score=t.score(), mask=t.mask, bias=t.bias, return_map=True)[1]


def _check_against(seen: AttentionMap, w: torch.Tensor, atol: float) -> None:
    """Everything a map says, against the matrix w (b,h,q,k)."""
    close = lambda a, b: torch.allclose(a.double(), b.double(), atol=atol)  # noqa: E731
    q, k = w.shape[2:]
    assert seen.shape == w.shape
    assert close(seen.weights(), w)
    assert np.allclose(seen.numpy(), w.numpy(), atol=atol)
    assert np.allclose(seen.received().numpy(), regard.analysis.received(seen))
    visible = (w.sum(-1) > 0).sum(-1, keepdim=True)  # (b,h,1) the rows that are not fully masked
    assert close(AttentionMap.from_weights(w).received(), w.sum(2) / visible.clamp(min=1))
    assert close(seen.entropy(), torch.special.entr(w).sum(-1))
    assert close(seen.mean_heads().weights(), w.mean(1, keepdim=True))
    assert close(seen[:, :, 1:, ::2], w[:, :, 1:, ::2])
    assert close(seen.select(batch=-1, heads=slice(0, 1)).weights(), w[-1:, :1])
    if q and k:
        assert close(seen[0, -1, q - 1], w[0, -1, q - 1])
        assert close(seen[0, 0, 0, k - 1], w[0, 0, 0, k - 1])
        assert close(seen.rows(-1), w[:, :, -1])
        assert close(seen.rows([0, -1]), w[:, :, [0, q - 1]])
        assert close(seen.tile([q - 1, 0], slice(0, 3)), w[:, :, [q - 1, 0], :3])
        assert close(seen.tile(0, -1), w[:, :, :1, -1:])
        n = min(k, 3)
        top = seen.topk(n)
        assert close(top.weights, w.topk(n).values)
        assert close(w.gather(-1, top.keys), top.weights)
        rows, cols = max(1, q // 2), max(1, k - 1)
        for how in ("max", "mean", "sum"):
            assert close(seen.pooled(rows, cols, how=how), _pooled(w, rows, cols, how))


def _pooled(w, rows, cols, how):
    q, k = w.shape[2:]
    out = torch.zeros(*w.shape[:2], rows, cols, dtype=w.dtype)
    for i in range(rows):
        for j in range(cols):
            r = [x for x in range(q) if x * rows // q == i]
            c = [x for x in range(k) if x * cols // k == j]
            cell = w[:, :, r][..., c]
            out[:, :, i, j] = {"max": cell.amax((2, 3)), "mean": cell.mean((2, 3)), "sum": cell.sum((2, 3))}[
                how
            ]
    return out


@pytest.mark.parametrize("score", SCORES)
def test_a_map_answers_as_the_matrix_does(score, monkeypatch):
    monkeypatch.setattr(sources, "MAX_WEIGHTS", 12)  # many tiles even for small maps

    @examples(120, 1000)
    @given(case=cases(score, [torch.float64], [0, 1, 2, 3, 5, 7, 13]))
    def check(case):
        t = Tensors(case)
        w = plain_output(t, t.leaves)[1].detach()
        _check_against(_map(t), w, 1e-12)

    check()


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.startswith("block-sparse")])
def test_a_map_from_the_local_kernels_is_exact(kernel):
    if kernel.endswith("in C") and native.library().handle is None:
        pytest.skip(native.library().why)

    @examples(40, 400)
    @given(case=cases("scaled_dot", [torch.float32], [1, 63, 64, 65, 130]))
    def check(case):
        t = Tensors(case)
        with forced(kernel):
            seen = _map(t)
        w = plain_output(t, t.leaves)[1].detach()
        assert torch.allclose(seen.weights(), w, atol=2e-6)
        sums = seen.weights().sum(-1)
        assert (((sums - 1).abs() < 1e-5) | (sums == 0)).all()

    check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_maps_sum_to_one(dtype):
    q, k, v = (torch.randn(1, 2, n, 16).to(dtype) for n in (5, 7, 7))
    _, seen = attention(q, k, v, return_map=True)
    assert torch.allclose(
        seen.weights().sum(-1), torch.ones(()), atol=1e-3 if dtype != torch.float32 else 1e-6
    )


def test_a_map_copies_what_may_change():
    q, k, v = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    lengths, bias = torch.tensor([5, 3]), torch.randn(5, 5)
    table = positions.RelativeBias(3)
    for extra in (bias, table):
        _, seen = attention(q, k, v, mask=padding(lengths) & causal(), bias=extra, return_map=True)
        before = seen.weights()
        assert not before.requires_grad
        with torch.no_grad():
            for x in (q, k, bias, table.table.weight):
                x.add_(1.5)
            lengths.fill_(1)
        assert torch.equal(seen.weights(), before)
        lengths.copy_(torch.tensor([5, 3]))


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_streaming_never_holds_more_than_its_bound(score, monkeypatch):
    monkeypatch.setattr(sources, "MAX_WEIGHTS", 2**14)
    n = 1024
    q, k, v = (torch.randn(1, 2, n, 4) for _ in range(3))
    made = scores.Additive(4, 4, 2) if score == "additive" else score
    _, seen = attention(q, k, v, score=made, mask=causal(), return_map=True)
    asked = {
        "topk": lambda: seen.topk(4),
        "entropy": seen.entropy,
        "received": seen.received,
        "pooled": lambda: seen.pooled(8, 8),
        "pooled uneven": lambda: seen.pooled(7, 9, how="mean"),
        "rows": lambda: seen.rows(3),
        "tile": lambda: seen.tile(slice(0, 64), slice(0, 64)),
        "heads": lambda: seen.mean_heads().topk(2),
        "index": lambda: seen[0, 1, 5:9],
    }
    for name, ask in asked.items():
        with LargestTensor() as mode:
            ask()
        assert mode.numel <= 1.01 * 2**14 * (2 if score == "additive" else 1), (
            name
        )  # cells of uneven size are filled up
    with LargestTensor() as mode:
        seen.weights()
    assert mode.numel == 2 * n * n


def test_a_map_takes_little_memory():
    q, k, v = (torch.randn(1, 4, 2048, 32) for _ in range(3))
    _, seen = attention(q, k, v, mask=window(64, 0), return_map=True)
    assert seen.nbytes < 4 * 2048 * 2048 * 4 / 20


def test_a_callable_can_be_read_and_is_saved_only_as_weights(tmp_path):
    def distance(q, k):
        return -torch.cdist(q, k)

    q, k, v = torch.randn(2, 5, 3), torch.randn(2, 7, 3), torch.randn(2, 7, 2)
    out, seen = attention(q, k, v, score=distance, mask=causal(), scale=2.0, return_map=True)
    w = torch.softmax(
        (distance(q, k) * 2).masked_fill(~causal().dense(regard.shapes.Grid(1, 1, 5, 7))[0], -torch.inf), -1
    )
    assert torch.allclose(seen.weights()[:, 0], w, atol=1e-6)
    assert torch.allclose(out, w @ v, atol=1e-6)
    with pytest.raises(
        ArgumentError, match=r"score is a callable cannot be saved by its parts: use .*as_weights=True"
    ):
        seen.save(tmp_path / "map.safetensors")
    assert list(tmp_path.iterdir()) == []
    seen.save(tmp_path / "map.safetensors", as_weights=True)
    assert torch.allclose(AttentionMap.load(tmp_path / "map.safetensors").weights(), seen.weights())


def test_a_callable_that_looks_at_positions_is_refused():
    def positional(q, k):
        return q @ k.transpose(-2, -1) + torch.arange(k.shape[-2])

    with pytest.raises(
        ArgumentError,
        match=r"score: the score of a pair depends on other queries or keys.* put positions into bias",
    ):
        attention(torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4), score=positional, return_map=True)
    attention(
        torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4), score=positional
    )  # without a map it may


# ---- files

SAVED = {
    "plain": {},
    "masked": {"mask": (window(2, 1) | global_tokens([1])) & padding([6, 4]) & ~causal(offset=-3)},
    "stored mask": {"mask": torch.rand(2, 5, 6) < 0.7},
    "mask of a model": {"mask": source_padding(torch.tensor([6, 4]), 6)},
    "biased": {"bias": torch.randn(1, 3, 5, 6)},
    "both": {"mask": torch.randn(5, 6), "bias": positions.ALiBi(3)},
    "alibi": {"bias": positions.ALiBi(3)},
    "relative": {"bias": positions.RelativeBias(3)},
    "additive": {"score": scores.Additive(4, 4, 5)},
    "bilinear": {"score": scores.Bilinear(4, 4)},
    "scaled": {"scale": 0.3},
}


@pytest.mark.parametrize("name", SAVED)
def test_a_map_comes_back_from_its_file(name, tmp_path):
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 1, 6, 4), torch.randn(2, 1, 6, 7)
    _, seen = attention(q, k, v, **SAVED[name], return_map=True)
    for number, part in enumerate([seen, seen.mean_heads(), seen.select(batch=1, heads=slice(1, 3))]):
        path = tmp_path / f"{number}.safetensors"
        part.save(path)
        back = AttentionMap.load(path)
        assert back.shape == part.shape
        assert torch.equal(back.weights(), part.weights())
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{n}.safetensors" for n in range(3)]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "map.safetensors"
    AttentionMap.from_weights(torch.eye(3)).save(path)
    before = path.read_bytes()

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.maps.storage.save_file", broken)
    with pytest.raises(OSError, match="No space left"):
        AttentionMap.from_weights(torch.ones(2, 2) / 2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.safetensors"]


def test_files_that_are_not_maps_say_so(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(FileError, match="no file"):
        AttentionMap.load(path)
    path.write_bytes(b"hello")
    with pytest.raises(FileError, match="not a readable map"):
        AttentionMap.load(path)
    header = json.dumps({"__metadata__": {"format": "other"}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(FileError, match=r"expected format 'regard.map/2', got 'other'"):
        AttentionMap.load(path)
    with pytest.raises(FileError, match=r"the folder of .* does not exist"):
        AttentionMap.from_weights(torch.eye(2)).save(tmp_path / "no" / "x.safetensors")


def test_an_edited_map_is_refused(tmp_path):
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    path = tmp_path / "map.safetensors"
    attention(q, k, v, mask=causal(), return_map=True)[1].save(path)
    good = path.read_bytes()
    AttentionMap.load(path)
    for old, new in ((b'"scale\\": 0.5', b'"scale\\": 0.9'), (good[-4:], b"\0\0\0@")):
        edited = good.replace(old.replace(b'"scale', b"scale"), new.replace(b'"scale', b"scale"))
        assert edited != good
        path.write_bytes(edited)
        with pytest.raises(FileError, match="was modified after it was written"):
            AttentionMap.load(path)


def test_altered_files_are_named_errors_or_harmless(tmp_path):
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    path = tmp_path / "map.safetensors"
    attention(q, k, v, mask=causal() & padding([4]), return_map=True)[1].save(path)
    good = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        bad = bytearray(good)
        if random.random() < 0.3:
            bad = bad[: random.integers(0, len(bad))]
        else:
            header = struct.unpack("<Q", good[:8])[0]
            for _ in range(random.integers(1, 4)):
                bad[random.integers(0, 8 + header)] = random.integers(0, 256)
        path.write_bytes(bytes(bad))
        try:
            AttentionMap.load(path).weights()
        except FileError:  # any other error fails the test
            refused += 1
    assert refused > 280


# ---- bad input


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda m: m.topk(0), ArgumentError, "n: expected 1 to 7 keys, got 0"),
        (lambda m: m.topk(8), ArgumentError, "n: expected 1 to 7 keys, got 8"),
        (lambda m: m[2], ArgumentError, "index: b=2 is outside the 2 of this map"),
        (lambda m: m[0, 0, 0, 0, 0], ShapeError, r"index: 5 indices for the 4 axes \(b,h,q,k\)"),
        (lambda m: m.rows([0, 9]), ArgumentError, "index: q has indices outside the 5 of this map"),
        (lambda m: m.rows(0.5), DtypeError, "index: expected integers, slices or lists of integers for q"),
        (lambda m: m.pooled(6, 1), ArgumentError, "rows: expected 1 to 5 cells, got 6"),
        (lambda m: m.pooled(1, 0), ArgumentError, "cols: expected 1 to 7 cells, got 0"),
        (lambda m: m.pooled(1, 1, how="men"), ArgumentError, "how: unknown name 'men': did you mean 'mean'?"),
        (lambda m: AttentionMap.from_weights(-torch.eye(2)), ArgumentError, "weights: found negative"),
        (
            lambda m: AttentionMap.from_weights(torch.eye(2).long()),
            DtypeError,
            "weights: expected a floating dtype",
        ),
        (lambda m: AttentionMap.from_weights(torch.ones(3)), ShapeError, r"weights: expected \(q,k\)"),
    ],
)
def test_wrong_arguments_are_refused(ask, kind, message):
    with pytest.raises(kind, match=message):
        ask(AttentionMap.from_weights(torch.ones(2, 3, 5, 7) / 7))


def test_an_index_that_asks_for_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("regard.maps.attention_map._MAX_INDEXED", 10)
    seen = AttentionMap.from_weights(torch.ones(4, 4) / 4)
    assert seen[0, 0, :2].shape == (2, 4)
    with pytest.raises(
        ArgumentError, match=r"index: expected at most .* weights, got 16: narrow it, .*\.weights\(\)"
    ):
        seen[0]


def test_long_rows_give_their_largest_weights():
    """Rows long enough for the two-step search, with ties and hidden keys among them."""
    q, k, v = torch.randn(1, 2, 9, 4), torch.randn(1, 2, 4096, 4), torch.randn(1, 2, 4096, 4)
    k[:, :, 100:200] = k[:, :, :1]
    lengths = torch.tensor([2000])
    _, seen = attention(q, k, v, mask=padding(lengths), return_map=True)
    w = seen.weights()
    top = seen.topk(8)
    assert torch.allclose(top.weights, w.topk(8).values, atol=1e-7)
    assert torch.allclose(w.gather(-1, top.keys), top.weights, atol=1e-7)
    assert (top.keys < 2000).all()


def test_an_empty_map_is_no_error():
    case = Case("dot", "none", torch.float32, "contiguous", "none", 1, 1, 1, 0, 3, 2, 2, 0)
    seen = _map(Tensors(case))
    assert seen.weights().shape == (1, 1, 0, 3)
    assert seen.received().tolist() == [[[0, 0, 0]]]


def test_a_map_is_detached_and_copies_what_a_score_and_a_sum_of_biases_hold():
    q, k, v = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))
    score, mask, table = scores.Additive(8, 8, 4), torch.randn(5, 5), positions.RelativeBias(3)
    for options in ({"score": score}, {"mask": mask, "bias": table}, {"mask": mask, "bias": mask.clone()}):
        _, seen = attention(q, k, v, **options, return_map=True)
        held = seen._source.ready
        assert not any(x.requires_grad for x in (held.q, held.k, held.v) if x is not None)
        before = seen.weights()
        with torch.no_grad():
            for x in (score.v, mask, table.table.weight, options.get("bias")):
                if isinstance(x, torch.Tensor):
                    x.mul_(3).add_(torch.randn_like(x))
        assert torch.equal(seen.weights(), before)


def test_a_callable_that_looks_at_the_other_queries_is_refused():
    def positional(q, k):
        return q @ k.transpose(-2, -1) * torch.arange(1, q.shape[-2] + 1)[:, None]

    with pytest.raises(ArgumentError, match="the score of a pair depends on other"):
        attention(torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4), score=positional, return_map=True)


@pytest.mark.parametrize("n_k", [64, 96, 4096, 4100])
def test_topk_of_rows_of_any_length_is_that_of_torch(n_k):
    """Rows that the two-step top-k cannot divide evenly, and rows with too few blocks for it."""
    q, k, v = torch.randn(1, 2, 5, 4), torch.randn(1, 2, n_k, 4), torch.randn(1, 2, n_k, 4)
    _, seen = attention(q, k, v, return_map=True)
    w, top = seen.weights(), seen.topk(8)
    assert torch.allclose(top.weights, w.topk(8).values, atol=1e-7)
    assert torch.allclose(w.gather(-1, top.keys), top.weights, atol=1e-7)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("whole", lambda spec: spec.update(grid=[2, 4, 5, 9])),
        ("whole", lambda spec: spec.update(grid=[2, 4, 6, 6])),
        ("whole", lambda spec: spec["mask"]["right"].update(tensor="lse")),
        ("whole", lambda spec: spec["mask"].update(right={"kind": "GlobalTokens", "positions": [6]})),
        ("selected", lambda spec: spec.update(ends=[0, 3, 0, 1])),
        ("selected", lambda spec: spec.update(ends=[-1, 1, 0, 1])),
        ("heads", lambda spec: None),
    ],
)
def test_sizes_that_do_not_belong_together_are_refused_at_once(part, change, tmp_path):
    path = tmp_path / "map.safetensors"
    q, k, v = torch.randn(2, 4, 5, 4), torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4)
    _, seen = attention(q, k, v, mask=causal() & padding([6, 4]), return_map=True)
    (seen.select(batch=0) if part == "selected" else seen).save(path)
    spec, tensors = storage.read_file(path, storage.FORMAT, "map", "a map")
    change(spec)
    if part == "heads":
        tensors["k"] = torch.randn(2, 3, 6, 4)
    storage.write_file(path, storage.FORMAT, "map", spec, tensors)
    with pytest.raises(FileError, match="does not fit its tensors"):
        AttentionMap.load(path)


def test_a_write_that_stops_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "map.safetensors"
    AttentionMap.from_weights(torch.eye(3)).save(path)
    before = path.read_bytes()

    def half(tensors, part, metadata):
        with open(part, "wb") as file:
            file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.maps.storage.save_file", half)
    with pytest.raises(OSError, match="No space left"):
        AttentionMap.from_weights(torch.ones(2, 2) / 2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.safetensors"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_others_may_read_it(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _n=name, _r=real: (done.append(_n), _r(*a))[1])
    old = os.umask(0o022)
    try:
        AttentionMap.from_weights(torch.eye(3)).save(tmp_path / "map.safetensors")
    finally:
        os.umask(old)
    assert done[:2] == ["fsync", "replace"]
    assert (tmp_path / "map.safetensors").stat().st_mode & 0o777 == 0o644


def test_a_map_of_weights_does_not_change_with_them():
    weights = torch.eye(3)
    seen = AttentionMap.from_weights(weights)
    weights.fill_(0.5)
    assert torch.equal(seen.weights()[0, 0], torch.eye(3))


def _counting_scores(monkeypatch) -> list[int]:
    """Return a list to which every call appends the number of scores that it computes."""
    counts, plain = [], sources.pair_scores

    def counted(ready):
        scores = plain(ready)
        counts.append(scores.numel())
        return scores

    monkeypatch.setattr(sources, "pair_scores", counted)
    return counts


@pytest.mark.parametrize("size", [30.0, 3000.0])
def test_a_tile_costs_the_same_however_many_keys_there_are(size, monkeypatch):
    """Rows with an accurate log-sum-exp in float32 cost only the tile. Other rows are computed whole, once."""
    counts, rows, cols = _counting_scores(monkeypatch), slice(3, 8), slice(11, 24)
    for n in (64, 256):
        torch.manual_seed(0)
        q, k = torch.randn(1, 1, 16, 4), torch.randn(1, 1, n, 4)
        k[..., 0], q[..., 0] = 1.0, size  # adds the same to all scores of a row
        _, seen = attention(q, k, k, scale=1.0, return_map=True)
        expected = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        counts.clear()
        assert (seen.tile(rows, cols) - expected[:, :, rows, cols]).abs().max() < (
            1e-5 if size < 64 else 1e-3
        )
        assert sum(counts) == 5 * 13 + (5 * n if size > 64 else 0)
        counts.clear()
        seen.tile(slice(4, 8), slice(0, 20))
        assert counts == [4 * 20]


def test_fine_row_sums_are_those_of_float64():
    scores = torch.randn(2, 3, 5, 700) * 30 + 4000
    scores[0, 0, 0] = float("-inf")
    expected = torch.logsumexp(scores.double(), dim=-1)
    found = sources._precise_logsumexp(scores.clone())
    assert found[0, 0, 0] == float("-inf")
    assert (found - expected)[expected.isfinite()].abs().max() < 1e-6


def test_a_map_keeps_the_parameters_of_a_module_that_scores():
    module = torch.nn.Linear(4, 4)

    class Mine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, q, k):
            return self.inner(q) @ k.mT

    q, k, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 4)
    _, seen = attention(q, k, v, score=Mine(), return_map=True)
    before = seen.weights()
    with torch.no_grad():
        module.weight.add_(1)
    assert torch.equal(seen.weights(), before)


@pytest.mark.parametrize("name", ["v", "bias", "q", "lse"])
def test_a_file_whose_tensors_do_not_fit_is_refused(name, tmp_path):
    q, k, v = (torch.randn(1, 2, 70, 64) for _ in range(3))
    path = tmp_path / "map.safetensors"
    attention(q, k, v, score=scores.Additive(64, 64, 64), bias=torch.randn(70, 70), return_map=True)[1].save(
        path
    )
    spec, tensors = storage.read_file(path, storage.FORMAT, "map", "a map")
    wrong = next(key for key in tensors if key.startswith(name))
    # A bias (1,1,70,1) would broadcast, so its queries are cut instead.
    short = tensors[wrong][..., :3, :] if name == "bias" else tensors[wrong][..., :1]
    storage.write_file(path, storage.FORMAT, "map", spec, {**tensors, wrong: short.contiguous()})
    with pytest.raises(FileError, match="does not fit its tensors"):
        AttentionMap.load(path)


def test_a_map_computes_masks_and_biases_for_the_part_it_is_asked_for():
    q = torch.randn(4, 8, 64, 4)
    for extra in (
        {"bias": positions.ALiBi(8)},
        {"bias": positions.RelativeBias(8)},
        {"bias": torch.randn(4, 8, 64, 64)},
        {"mask": torch.rand(4, 8, 64, 64) < 0.9},
        {"mask": padding([64, 5, 7, 9]) & causal()},
    ):
        _, seen = attention(q, q, q, **extra, return_map=True)
        assert torch.allclose(seen[2, 5], seen.weights()[2, 5], atol=1e-6)
        with LargestTensor() as mode:
            seen[2, 5]
        assert mode.numel <= 64 * 64, extra


def test_a_map_counts_its_bytes_and_is_a_sequence():
    q = torch.randn(2, 3, 5, 4)
    _, seen = attention(q, q, q, bias=torch.randn(2, 3, 5, 5), return_map=True)
    assert seen.nbytes >= 2 * 3 * 5 * 5 * 4
    assert len(seen) == 2
    assert [x.shape for x in seen] == [(3, 5, 5)] * 2
    assert np.asarray(seen).shape == (2, 3, 5, 5)
    assert torch.equal(seen[..., 0], seen[:, :, :, 0])
    torch.testing.assert_close(seen[0, ..., 1:3], seen[0][:, :, 1:3], rtol=0, atol=1e-6)


class EveryOther(regard.Mask):
    """A mask class of a user, which is no dataclass and holds a tensor."""

    def __init__(self, step):
        self.step = step

    def allow(self, i, j, grid):
        return ((i - j) % self.step == 0)[None, None]


def test_a_map_copies_and_counts_the_tensors_of_any_mask_class():
    q, step = torch.randn(1, 1, 4, 8), torch.tensor(2)
    _, seen = attention(q, q, q, mask=EveryOther(step), return_map=True)
    before = seen.weights()
    assert bool((before[0, 0, 0, 1::2] == 0).all())
    _, plain = attention(q, q, q, return_map=True)
    assert seen.nbytes == plain.nbytes + step.nbytes
    step.fill_(3)
    assert torch.equal(seen.weights(), before)
