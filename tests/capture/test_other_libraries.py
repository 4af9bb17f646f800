"""Tests that attention in the style of other libraries is recorded and labelled without naming its modules."""

import pytest
import torch
from torch import nn

import regard
from regard.capture.reading.layer_numbers import LayerNumbers
from support.capture_cases import B, D, H, M, Q


def words(ids):
    return [f"w{n}" for n in ids]


# ---- the part of an attention that computes it, as x-transformers has it


class Attend(nn.Module):
    def forward(self, q, k, v, mask=None):
        shared = "bhid,bjd->bhij" if k.ndim == 3 else "bhid,bhjd->bhij"
        scores = torch.einsum(shared, q, k) * D**-0.5  # (b,h,q,k)
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.finfo(scores.dtype).max)
        weights = scores.softmax(-1)
        return torch.einsum(shared.replace("bhid", "bhij").replace("->bhij", "->bhid"), weights, v), weights


class Core(Attend):
    """The same under a name that says nothing."""


class Router(Attend):
    """A softmax of a product that weighs experts."""


class Attention(nn.Module):
    def __init__(self, part, shared=False):
        super().__init__()
        self.part, self.heads, self.shared = part, H, shared
        self.q, self.kv = nn.Linear(M, M), nn.Linear(M, 2 * (D if shared else M))

    def forward(self, x, context=None):
        def split(y):
            return y.unflatten(-1, (-1, D)).transpose(1, 2)  # (b,h,n,d)

        y = x if context is None else context
        k, v = self.kv(y).chunk(2, dim=-1)
        parts = (k, v) if self.shared else (split(k), split(v))
        out, weights = self.part(split(self.q(x)), *parts)
        return out.transpose(1, 2).flatten(2), weights


class Layers(nn.Module):
    """Layers that are lists of a norm, a block and a residual, as in x-transformers."""

    def __init__(self, part, shared=False):
        super().__init__()
        self.words = nn.Embedding(13, M)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(M), block, nn.Identity()])
            for _ in range(2)
            for block in (Attention(part(), shared), nn.Linear(M, M))
        )

    def forward(self, ids, context=None):
        x, all_weights = self.words(ids), []
        for layer in self.layers:
            norm, block, _ = layer.children()
            if isinstance(block, Attention):
                more, weights = block(norm(x), context)
                all_weights.append(weights)
                x = x + more
            else:
                x = x + block(norm(x))
        return all_weights


@pytest.mark.parametrize("part", [Attend, Core])
@pytest.mark.parametrize("shared", [False, True], ids=["own keys", "keys of all heads"])
def test_attention_in_a_submodule_is_recorded(part, shared):
    model, ids = Layers(part, shared), torch.randint(0, 13, (B, Q))
    with regard.capture(model, tokenizer=words) as seen:
        expected = model(ids)
    assert [record.name for record in seen] == ["layers.0.1.part", "layers.2.1.part"]
    assert [record.layer for record in seen] == [0, 1]
    for record, weights in zip(seen, expected, strict=True):
        assert record.kind == "self"
        assert record.query_tokens == record.key_tokens == [words(row) for row in ids.tolist()]
        assert torch.allclose(record.map.weights(), weights, atol=1e-6)
        assert "recomputed" in repr(record.map)


def test_the_parent_of_an_attention_submodule_decides_self_or_cross():
    model = Layers(Attend)
    with regard.capture(model) as seen:
        model(torch.randint(0, 13, (B, Q)), torch.randn(B, Q, M))  # as many keys as queries
    assert {record.kind for record in seen} == {"cross"}


def test_a_submodule_with_another_role_is_not_taken_for_attention():
    model = nn.ModuleList([Layers(Router), nn.MultiheadAttention(M, H, batch_first=True)])

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = model

        def forward(self, ids, x):
            return self.both[0](ids), self.both[1](x, x, x)

    with pytest.warns(UserWarning, match=r"a softmax in 'both.0.layers.0.1.part'"):  # noqa: SIM117
        with regard.capture(Both()) as seen:
            _ = seen._capture.model(torch.randint(0, 13, (B, Q)), torch.randn(B, Q, M))
    assert [record.name for record in seen] == ["both.1"]


X_TRANSFORMERS = {
    "default": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "one head of keys": {"attn_one_kv_head": True},
    "groups": {"attn_kv_heads": 2},
    "capped": {"attn_softclamp_logits": True},
}


@pytest.mark.parametrize("variant", X_TRANSFORMERS)
def test_models_of_x_transformers_are_recorded_with_labels(variant):
    package = pytest.importorskip("x_transformers", reason="x-transformers is not installed")
    layers = package.Decoder(dim=32, depth=2, heads=4, **X_TRANSFORMERS[variant])
    model = package.TransformerWrapper(num_tokens=13, max_seq_len=Q, attn_layers=layers).eval()
    ids = torch.randint(0, 13, (B, Q))
    with torch.no_grad(), regard.capture(model, tokenizer=words) as seen:
        _, hiddens = model(ids, return_intermediates=True)
    expected = [each.post_softmax_attn for each in hiddens.attn_intermediates]
    assert [record.layer for record in seen] == [0, 1]
    for record, weights in zip(seen, expected, strict=True):
        assert record.kind == "causal"
        assert record.tokens == [words(row) for row in ids.tolist()]
        assert torch.allclose(record.map.weights(), weights, atol=1e-5)


# ---- labels


class Angles(nn.Module):
    """An encoder that hands four axes of angles to its layers, as RoFormer does, or ids in a dictionary."""

    def __init__(self, shape=(1, 1, Q, D)):
        super().__init__()
        self.words, self.attn = nn.Embedding(13, M), nn.MultiheadAttention(M, H, batch_first=True)
        self.encoder = Encoder(self.attn)
        self.shape = shape

    def forward(self, features):
        ids = features if torch.is_tensor(features) else features["input_ids"]
        return self.encoder(self.words(ids), torch.randn(self.shape))


class Encoder(nn.Module):
    def __init__(self, attn):
        super().__init__()
        self.attn = attn

    def forward(self, x, angles):
        return self.attn(x, x, x, need_weights=False)[0] + angles.mean()


@pytest.mark.parametrize("shape", [(1, 1, Q, D), (B, H + 1, Q, Q), (B, Q, H + 1, D)])
def test_inputs_with_four_axes_are_not_taken_for_pictures(shape):
    model, ids = Angles(shape), torch.randint(0, 13, (B, Q))
    with regard.capture(model, tokenizer=words) as seen:
        model(ids)
    assert seen[0].tokens == [words(row) for row in ids.tolist()]


def test_token_ids_are_found_in_a_dictionary():
    model, ids = Angles(), torch.randint(0, 13, (B, Q))
    features = {"attention_mask": torch.ones_like(ids), "input_ids": ids, "token_type_ids": ids * 0}
    with regard.capture(model, tokenizer=words) as seen:
        model(features)
    assert seen[0].tokens == [words(row) for row in ids.tolist()]


def test_models_of_sentence_transformers_are_recorded_with_labels(tmp_path):
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"])
    )
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    for part in (tokenizer, transformers.BertModel(transformers.BertConfig(vocab_size=8, **sizes))):
        part.save_pretrained(tmp_path)
    model = package.SentenceTransformer(str(tmp_path), device="cpu")
    with regard.capture(model, tokenizer=tokenizer) as seen:
        model.encode(["the cat sat", "the cat"])
    assert seen[0].tokens == [
        ["[CLS]", "the", "cat", "sat", "[SEP]"],
        ["[CLS]", "the", "cat", "[SEP]", "[PAD]"],
    ]


class Captioner(nn.Module):
    """Looks at as many patches as there are words."""

    def __init__(self, name, conv):
        super().__init__()
        self.name, self.vision = name, Vision(conv)
        self.words, self.attn = nn.Embedding(13, M), nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, ids, picture):
        seen = self.vision(**{self.name: picture})
        x = self.words(ids) + seen.mean(dim=1, keepdim=True)
        return self.attn(x, x, x, need_weights=False)[0]


class Vision(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.patch = nn.Conv2d(3, M, (2, 1), (2, 1)) if conv else None
        self.project = nn.Linear(3 * 2, M)
        self.attn = nn.MultiheadAttention(M, H, batch_first=True)

    def forward(self, x=None, image=None):
        x = image if x is None else x
        if self.patch is not None:
            x = self.patch(x).flatten(2).transpose(1, 2)
        else:
            x = self.project(x.reshape(B, Q, 6))
        return self.attn(x, x, x, need_weights=False)[0]


@pytest.mark.parametrize(("name", "conv"), [("x", True), ("x", False), ("image", False)])
def test_image_patches_get_no_token_labels(name, conv):
    model, ids = Captioner(name, conv), torch.randint(0, 13, (B, Q))
    with regard.capture(model, tokenizer=words) as seen:
        model(ids, torch.randn(B, 3, 2 * Q, 1))
    patches, text = seen
    assert patches.query_tokens is None
    assert text.query_tokens == [words(row) for row in ids.tolist()]


# ---- layers


def layers_of(names):
    """The layers of modules of these names, in the order in which they run."""
    numbers = LayerNumbers(dict.fromkeys(names, nn.MultiheadAttention))
    return [numbers.call(name, 1)[0] for name in names]


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (
            [f"encoder.layers.encoder_layer_{n}.self_attention" for n in range(12)],
            list(range(12)),
        ),  # torchvision
        ([f"decoder_layer_{n}.attn" for n in (3, 4)], [3, 4]),
        ([f"block{m}.{n}.attn" for m in (1, 2) for n in (0, 1)], [0, 1, 2, 3]),  # PVT
        ([f"stage{m}.blocks.{n}.attn" for m in (2, 3) for n in (0, 1)], [0, 1, 2, 3]),
        ([f"features.{m}.{n}.attn" for m in (1, 3) for n in (0, 1)], [0, 1, 2, 3]),  # torchvision's Swin
        (
            [f"blocks.{n}.attn{m}" for n in (0, 1) for m in (1, 2)],
            [0, 0, 1, 1],
        ),  # two attentions of one layer
        (["conv2.attn", "head_3.attn"], [None, None]),
    ],
)
def test_layer_numbers_are_read_from_module_names(names, layers):
    assert layers_of(names) == layers


def test_layers_with_alternating_attention_classes_are_numbered_in_order():
    kinds = {f"blocks.{m}.{n}.attn": (nn.Identity, nn.MultiheadAttention)[n] for m in (0, 1) for n in (0, 1)}
    numbers = LayerNumbers(kinds)
    assert [numbers.call(name, 1)[0] for name in kinds] == [0, 1, 2, 3]  # as timm's Twins
    assert numbers.from_end("blocks.1.1.attn", 3) == -1
    others = {f"layers.{n}.1": (nn.MultiheadAttention, nn.Linear)[n % 2] for n in range(4)}
    numbers = LayerNumbers(others)
    assert [numbers.call(name, 1)[0] for name in ("layers.0.1", "layers.2.1")] == [0, 1]
