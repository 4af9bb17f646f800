"""capture() says what it saw, or says in words that it did not: scores written to, odd masks, threads, memory."""

import contextlib
import threading
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.capture import Recording
from regard.capture.joining.memory_budget import MemoryBudget, _left_by_cgroups
from regard.capture.reading.kinds import is_cross
from regard.capture.reading.masks import MaskReader, is_causal_mask
from regard.errors import ArgumentError, CaptureError
from regard.masks import causal
from regard.masks.base import And
from regard.shapes import Grid
from support.capture_cases import ADDED, HEADS, B, Checkpointed, D, H, K, M, Plain, Q, encoder, qkv, seen_of

# ---- scores that are written to


def clamp(scores):
    scores.clamp_(max=20)


def put(scores):
    scores.index_put_((torch.tensor([0]), torch.tensor([1]), torch.tensor([1])), torch.tensor(3.0))


def fill_a_little(scores):
    scores.masked_fill_(scores > 20, -1.0)


def write_to_a_slice(scores):
    scores[:, :, 1] = 0.25


def scale_a_part(scores):
    scores[1, :, 1].mul_(0.01)


def write_out(scores):
    torch.clamp(scores, max=20, out=scores)


@pytest.mark.parametrize(
    "change", [clamp, put, fill_a_little, write_to_a_slice, scale_a_part, write_out], ids=lambda f: f.__name__
)
def test_scores_changed_in_place_are_recorded_exactly(change):
    class OwnAttention(nn.Module):
        def forward(self, q, k, v):
            scores = q @ k.transpose(-2, -1) * D**-0.5
            change(scores)
            weights = torch.softmax(scores, dim=-1)
            return weights @ v, weights

    q, k, v = qkv()
    q[:, :, 1] *= 100  # what is written changes this row alone, and no few rows that one might look at
    with torch.no_grad():
        seen, (_, weights) = seen_of(OwnAttention(), q, k, v)
    assert torch.equal(seen[0].map.weights(), weights)


def test_queries_changed_before_the_softmax_are_recorded_exactly():
    class OwnAttention(nn.Module):
        def forward(self, q, k):
            scores = q @ k.transpose(-2, -1)
            q[:, :, 1] = 0.0
            return torch.softmax(scores, dim=-1)

    q, k, _ = qkv()
    with torch.no_grad():
        seen, weights = seen_of(OwnAttention(), q, k)
    assert torch.equal(seen[0].map.weights(), weights)


# ---- masks that are no tensors, and what counts as causal


@pytest.mark.parametrize("keys", [Q, K])
@pytest.mark.parametrize("corner", ["upper_left", "lower_right"])
def test_the_causal_bias_of_torch_is_read_as_a_mask(corner, keys):
    from torch.nn.attention import bias

    mask = getattr(bias, f"causal_{corner}")(Q, keys)
    q, k, v = qkv(keys=keys)
    seen, out = seen_of(Plain(), q, k, v, attn_mask=mask)
    assert torch.equal(out, Plain()(q, k, v, attn_mask=mask))
    assert torch.allclose(seen[0].map.weights() @ v, out, atol=1e-6)
    assert seen[0].kind == "causal"


def test_a_mask_of_an_unknown_class_is_refused():
    class Odd(torch.Tensor):
        pass

    mask = torch.zeros(Q, K).as_subclass(Odd)
    with pytest.raises(CaptureError, match="attn_mask: a mask of the class Odd cannot be read"):
        seen_of(Plain(), *qkv(), attn_mask=mask)
    with pytest.raises(TypeError, match="attn_mask"):  # torch's own words
        seen_of(Plain(), *qkv(), attn_mask=[1])


def test_a_mask_that_looks_ahead_is_not_causal():
    grid = Grid(1, 1, Q, Q)
    assert is_causal_mask(causal(0), grid)
    assert not is_causal_mask(causal(2), grid)
    keep = torch.ones(Q, Q, dtype=torch.bool).tril(2)
    seen, _ = seen_of(Plain(), *qkv(keys=Q), attn_mask=keep)
    assert seen[0].kind == "self"


def test_equal_query_and_key_are_self_attention():
    attend, norm, x = nn.MultiheadAttention(M, H, batch_first=True), nn.LayerNorm(M), torch.randn(B, Q, M)
    seen, _ = seen_of(attend, norm(x), norm(x), norm(x))
    assert seen[0].kind == "self"
    assert is_cross(attend, "layer", {"query": x, "key": x + 1})


def test_the_lowest_float16_mask_value_keeps_the_scores_of_its_row():
    q, k, v = qkv(torch.float16)
    q = q * 3
    mask = torch.zeros(Q, K, dtype=torch.float16)
    mask[2] = torch.finfo(torch.float16).min
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=mask)
    scores = q.float() @ k.float().transpose(-2, -1) * D**-0.5 + mask.float()
    expected = torch.softmax(scores, dim=-1)
    assert (expected[:, :, 2] - 1 / K).abs().max() > 0.1
    assert (seen[0].map.weights() - expected).abs().max() < 1e-3
    assert MaskReader().read(mask.float(), False, Grid(B, H, Q, K)).even is None


# ---- calls that belong together


class Weighing(nn.Module):
    """Weights that come from the keys alone, as in additive attention."""

    def forward(self, keys):
        return torch.softmax(keys.sum(-1), dim=-1)


def test_weights_without_keys_are_not_stitched():
    with regard.capture(model := Weighing(), modules=Weighing) as seen:
        for n in (5, 6):
            model(torch.randn(B, n, D))
    assert [record.map.shape[3] for record in seen] == [5, 6]


class CappedCache(nn.Module):
    """A model with capped scores, which can be kept as weights only, and a cache."""

    def __init__(self):
        super().__init__()
        self.attention = CappedAttention()
        self.k = None

    def forward(self, q, rows=None):
        if self.k is not None and rows is not None:
            self.k = self.k[rows]
        self.k = q if self.k is None else torch.cat([self.k, q], dim=2)
        return self.attention(q, self.k)


class CappedAttention(nn.Module):
    def forward(self, q, k):
        weights = torch.softmax(torch.tanh(q @ k.transpose(-2, -1)) * 2, dim=-1)
        return weights @ k, weights


def test_capped_scores_are_stitched_and_follow_their_beams():
    torch.manual_seed(0)
    steps = [torch.randn(3, H, 1, D) for _ in range(3)]
    model = CappedCache()
    with regard.capture(model) as seen:
        weights = [model(q)[1] for q in steps]
    assert [record.map.shape for record in seen] == [(3, H, 3, 3)]
    assert torch.equal(seen[0].map.weights()[:, :, 1, :2], weights[1][:, :, 0])
    model = CappedCache()
    with regard.capture(model) as seen:
        weights = [model(q, rows)[1] for q, rows in zip(steps, (None, [1, 0, 0], [2, 2, 1]), strict=True)]
    with pytest.raises(CaptureError, match=r"seen.follow\(output\)"):
        seen[0].map.weights()
    followed = seen.follow(torch.tensor([[1, 0, 2], [0, 1, -1]]))[0].map.weights()
    assert torch.equal(followed[0, :, 2], weights[2][2, :, 0])
    assert torch.equal(followed[0, :, 1, :2], weights[1][0, :, 0])
    assert (followed[1, :, 2] == 0).all()


def test_calls_after_a_drop_have_records_of_their_own():
    model = nn.MultiheadAttention(M, H, batch_first=True)
    x, y = torch.randn(B, Q, M), torch.randn(B, K, M)
    watching = regard.capture(model, memory=100)
    seen = watching.__enter__()
    for _ in range(3):
        model(x, y, y, need_weights=False)
    with pytest.warns(UserWarning, match="past the memory budget"):
        watching.__exit__(None, None, None)
    assert len(seen) == len(seen.dropped) == 3


# ---- threads


def test_captures_that_overlap_in_two_threads():
    model, x = nn.TransformerEncoderLayer(2 * D, 2, 13, batch_first=True).eval(), torch.randn(B, Q, 2 * D)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen, fast = {}, []

    def first():
        with regard.capture(model) as seen["first"]:
            first_is_in.set()
            second_is_in.wait(30)
            model(x)
        first_is_out.set()

    def second():
        first_is_in.wait(30)
        with regard.capture(model) as seen["second"]:
            second_is_in.set()
            first_is_out.wait(30)
            fast.append(torch.backends.mha.get_fastpath_enabled())
            model(x)

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert fast == [False]  # the first to leave did not switch it on under the second
    assert torch.backends.mha.get_fastpath_enabled()
    assert [len(seen[name]) for name in ("first", "second")] == [1, 1]


def test_a_gradient_taken_in_another_thread():
    model = Checkpointed()
    with regard.capture(model) as seen:
        loss = model(torch.randn(B, Q, M)).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert len(seen) == 1


# ---- proof


def test_verify_reports_weights_that_are_nan():
    class Watched(nn.Module):
        def forward(self, q):
            out = F.scaled_dot_product_attention(q, q, q)
            return torch.where(torch.tensor(regard.core.OBSERVERS != []), float("nan"), out[..., :1])

    seen, _ = seen_of(model := Watched(), qkv()[0])
    proof = seen.verify(qkv()[0])
    assert (proof.bit_equal, proof.difference) == (False, float("inf"))
    model.forward = lambda q: F.scaled_dot_product_attention(q, q, q) * float("nan")
    assert seen.verify(qkv()[0]).bit_equal
    model.forward = lambda q: F.scaled_dot_product_attention(q, q, q).shape
    with pytest.raises(CaptureError, match="returned no tensor"):
        seen.verify(qkv()[0])


# ---- what cannot be recorded says so


def test_nested_tensors_are_refused():
    q = torch.nested.nested_tensor([torch.randn(3, H, D), torch.randn(5, H, D)], layout=torch.jagged)
    q = q.transpose(1, 2)
    with pytest.raises(CaptureError, match="nested tensors cannot be recorded"):
        seen_of(Plain(), q, q, q)


def test_vmap_is_refused():
    model = Plain()
    with pytest.raises(CaptureError, match=r"torch\.vmap"), regard.capture(model):
        torch.vmap(model)(*qkv())


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_is_refused():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flexible(nn.Module):
        def forward(self, q, k, v):
            return flex.flex_attention(q, k, v)

    q = torch.randn(1, 2, 16, 16)
    with torch.no_grad(), pytest.raises(CaptureError, match="flex_attention cannot be recorded"):
        seen_of(Flexible(), q, q, q)


def test_attention_that_was_not_recorded_is_named():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first_attn, self.mixer = Plain(), Mixing()

        def forward(self, q, k, v):
            self.first_attn(q, k, v)
            return self.mixer(q, k)

    class Mixing(nn.Module):
        def forward(self, q, k):
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1)

    with pytest.warns(UserWarning, match=r"not recorded: a softmax in 'mixer'"):
        seen, _ = seen_of(Both(), *qkv())
    assert (len(seen), seen.unseen) == (1, ["mixer"])
    assert seen_of(Both(), *qkv(), options={"modules": "mixer"})[0].unseen == []


# ---- options that nobody would see


def test_labels_of_no_matching_length_are_refused():
    model, x = encoder(1), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=r"tokens: no map has 3 tokens: the maps have \[5\]"):
        seen_of(model, x, options={"tokens": list("abc")})
    with pytest.raises(ArgumentError, match="key_tokens: no cross attention has 3 tokens"):
        seen_of(model, x, options={"key_tokens": list("abc")})
    weights = torch.full((2, 3), 1 / 3)
    assert Recording.from_weights(weights, key_tokens=list("abc"))[0].key_tokens == [list("abc")]
    with pytest.raises(ArgumentError, match="key_tokens: no cross attention has 2 tokens"):
        Recording.from_weights(weights, key_tokens=list("ab"))


def test_missing_layers_and_heads_are_refused():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    with pytest.raises(ArgumentError, match=r"layers: layer 99 was asked for, but seen were \[0, 1\]"):
        seen_of(model, x, options={"layers": [0, 99]})
    with pytest.raises(ArgumentError, match="heads: head -9 was asked for, but there are 2"):
        seen_of(model, x, options={"heads": [-9, 0]})


def test_records_keep_the_numbers_of_selected_heads(tmp_path):
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    seen, _ = seen_of(model, x, options={"heads": [-1], "layers": [1]})
    assert seen[0].heads == (1,)
    assert seen_of(model, x)[0][0].heads is None
    seen.save(tmp_path / "x.safetensors")
    assert Recording.load(tmp_path / "x.safetensors")[0].heads == (1,)
    rows = seen.head_table()
    row = rows.iloc[0] if hasattr(rows, "iloc") else rows[0]
    assert (row["layer"], row["head"]) == (1, 1)
    link = seen.top_links(1)[0]
    assert (link.layer, link.head) == (1, 1)


# ---- memory


def test_the_memory_budget_counts_masks_but_no_refused_record():
    q, k, v = qkv()
    need = q.nbytes + k.nbytes + B * H * Q * 4
    seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS, options={"memory": need + HEADS.nbytes})
    assert seen.dropped == []
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(Plain(), q, k, v, attn_mask=HEADS, options={"memory": need + HEADS.nbytes - 1})
    assert len(seen.dropped) == 1
    small = tuple(x[:, :, :1] for x in (q, k, v))

    class Twice(nn.Module):
        def forward(self, mask):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # too large
            F.scaled_dot_product_attention(*small, attn_mask=mask[..., :1, :1])

    enough = 2 * q[:, :, :1].nbytes + B * H * 4
    given = {
        "memory": enough + ADDED.nbytes - 1
    }  # if the refused mask counted, the second call would not fit
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(Twice(), ADDED, options=given)
    assert [record.dropped is None for record in seen] == [False, True]


def test_the_memory_budget_counts_the_growth_of_a_cache():
    k = torch.randn(1, 1, 8, D)
    step = 4 * D * 4 + 4 * 4  # four queries and their sums
    first, grown = 4 * D * 4, 12 * D * 4  # four keys; room for half as many more than eight
    matrix = 8 * 8  # four that see four, then four that see eight, are no rule
    for memory, dropped in ((2 * step + grown + matrix, 0), (2 * step + grown - 1, 1)):
        told = pytest.warns(UserWarning, match="past the memory") if dropped else contextlib.nullcontext()
        with told, regard.capture(model := Plain(), memory=memory) as seen:
            model(k[:, :, :4], k[:, :, :4], k[:, :, :4])
            model(k[:, :, 4:], k, k)
        assert len(seen.dropped) == dropped
        assert seen._session.collector.budget.used <= memory
    assert first < grown


def test_the_default_budget_follows_cgroup_and_device_limits(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert _left_by_cgroups(tmp_path) == [4000]
    (tmp_path / "memory.max").write_text("max\n")
    assert _left_by_cgroups(tmp_path) == []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (800, 1000))
    assert MemoryBudget(None, torch.device("cuda")).limit == 200


def test_no_tensor_of_an_attention_is_kept_after_the_call():
    class OwnAttention(nn.Module):
        def forward(self, q):
            return torch.softmax(q @ q.transpose(-2, -1), dim=-1) @ q

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = OwnAttention(), OwnAttention()

        def forward(self, q):
            out = self.one(q)
            held.append(len(seen._session.handwritten.scores._known))
            return self.two(out)

    held, model = [], Two()
    with regard.capture(model) as seen:
        model(qkv()[0])
    assert held == [0]


def test_masks_and_biases_are_kept_on_the_given_device():
    q, k, v = qkv()
    mask = torch.where(torch.ones(Q, K, dtype=torch.bool).tril(2), ADDED, float("-inf"))
    mask[1, :, :, 0] = float("-inf")
    with regard.capture(model := Plain(), device="meta") as seen:
        model(q, k, v, attn_mask=mask)
        chain = seen._session.collector.chains[0]
    kept = chain.calls[0]
    assert isinstance(kept.mask, And)
    assert {kept.q.device.type, chain.keys.device.type, kept.bias.values.device.type} == {"meta"}
    assert kept.mask.right.keep.device.type == "meta"
    i = torch.zeros(1, 1, dtype=torch.long, device="meta")
    assert regard.biases.StoredBias(ADDED).tile(i, i, Grid(B, H, Q, K)).device.type == "meta"
    additive = regard.AdditiveAttention(M)
    with regard.capture(additive, device="meta") as seen:
        additive(torch.randn(B, Q, M), torch.randn(B, Q, M))
        assert seen._session.collector.chains[0].v.device.type == "meta"


def test_dropped_records_are_left_out_of_tables():
    model, x = encoder(2), torch.randn(B, Q, 2 * D)
    each = seen_of(model, x)[0][0].map.nbytes
    with pytest.warns(UserWarning, match="past the memory budget"):
        seen, _ = seen_of(model, x, options={"memory": each})
    assert len(seen.head_table()) == 2
    assert len(seen.entropy()) == len(seen.distance()) == len(seen.alignments()) == 1
    assert len(seen.dropped) == 1


# ---- words of byte-level tokenizers


def test_byte_level_tokens_are_shown_as_text():
    from regard.capture.reading.labels import as_speller, as_text

    byte_letters = {"你": "ä½ł", "好": "å¥½"}
    pieces = [byte_letters["你"], "Ġ" + byte_letters["好"], "<|end|>", "Ġmat", "Ċ"]
    assert as_text(pieces) == ["你", "Ġ好", "<|end|>", "Ġmat", "Ċ"]
    cut = byte_letters["你"]
    assert as_text([cut[:1], cut[1:], "a"]) == ["\ufffd", "你", "a"]
    plain = types.SimpleNamespace(
        convert_ids_to_tokens=lambda ids: ["café"], convert_tokens_to_string=lambda parts: " ".join(parts)
    )
    assert as_speller(plain)([1]) == ["café"]


def test_labels_of_a_real_byte_level_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    from regard.capture.reading.labels import as_speller

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        ["你好世界 hello"] * 9, tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    )
    spell = as_speller(made)
    assert "".join(spell(made.encode("你好 hello").ids)).replace("\ufffd", "") == "你好Ġhello"
