"""Kinds of attention, and keys that are no token."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.capture import Recording
from support import hf_models as models

B, H, N, D = 2, 3, 5, 7
X = torch.randn(B, N, H * D, generator=torch.Generator().manual_seed(0))
IDS = torch.arange(B * N).reshape(B, N)
WORDS = [str(n) for n in range(N)]


def split(x):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


Q64 = split(X).double()
SCORES = Q64 @ Q64.mT  # (b,h,q,k)
PAST = torch.ones(N, N, dtype=torch.bool).tril()


class SinkAttention(nn.Module):
    """One score for each head beside those of the keys."""

    def __init__(self, way):
        super().__init__()
        self.way, self.num_heads = way, H
        self.sinks = nn.Parameter(torch.randn(H, generator=torch.Generator().manual_seed(1)))
        self.keys = None

    def forward(self, x):
        q = split(x)
        k = q if self.keys is None else torch.cat([self.keys, q], dim=2)
        scores = (q @ k.mT).masked_fill(~PAST[k.shape[2] - q.shape[2] : k.shape[2], : k.shape[2]], -torch.inf)
        if self.way == "gpt-oss":
            sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)
            scores = torch.cat([scores, sinks], dim=-1)
            scores = scores - scores.max(dim=-1, keepdim=True).values
            return scores.softmax(-1)[..., :-1] @ k
        if self.way == "off by one":
            return F.pad(scores, (1, 0)).softmax(-1)[..., 1:] @ k
        if self.way == "not followed":
            return torch.cat([scores.tanh() * PAST, scores[..., :1] * 0], -1).sin().softmax(-1)[..., :-1] @ k
        raise AssertionError


class Words(nn.Module):
    """A model that is given token ids."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, ids):
        return self.attention(X.flatten(0, 1)[ids])


def expected_with_sinks(way, sinks):
    scores = SCORES.masked_fill(~PAST, -torch.inf)
    if way == "gpt-oss":
        return torch.cat([scores, sinks.double().reshape(1, H, 1, 1).expand(B, H, N, 1)], -1).softmax(-1)
    if way == "off by one":
        return F.pad(scores, (1, 0)).softmax(-1)
    return torch.cat([scores.tanh() * PAST, scores[..., :1] * 0], -1).sin().softmax(-1)


@pytest.mark.parametrize(("way", "at"), [("gpt-oss", N), ("off by one", 0), ("not followed", N)])
def test_a_sink_is_a_labelled_key(way, at, tmp_path):
    model = Words(SinkAttention(way))
    with torch.no_grad(), regard.capture(model) as seen:
        model(IDS)
    record = seen[0]
    expected = expected_with_sinks(way, model.attention.sinks.detach())
    assert torch.allclose(record.map.weights().double(), expected, atol=1e-5)
    assert record.sinks == (at,)
    assert record.kind == ("self" if way == "not followed" else "causal")
    words = [*WORDS[:at], "[sink]", *WORDS[at:]]
    assert (record.key_tokens or [])[0] == words
    assert (record.query_tokens or [])[0] == WORDS
    by_hand = seen.label(list("abcde"))[0]
    assert (by_hand.key_tokens or [])[0] == [*"abcde"[:at], "[sink]", *"abcde"[at:]]
    seen.save(tmp_path / "seen.safetensors")
    loaded = Recording.load(tmp_path / "seen.safetensors")[0]
    assert (loaded.sinks, loaded.key_tokens) == (record.sinks, record.key_tokens)
    assert torch.allclose(loaded.map.weights().double(), expected, atol=1e-5)


@pytest.mark.parametrize(("way", "at"), [("gpt-oss", N), ("off by one", 0)])
def test_steps_with_sinks_are_joined_into_one_record(way, at):
    model = SinkAttention(way)
    with torch.no_grad(), regard.capture(model) as seen:
        for a, b in ((0, 3), (3, 4), (4, 5)):
            model(X[:, a:b])
            model.keys = split(X[:, :b])
    assert [(record.kind, record.sinks) for record in seen] == [("causal", (at,))]
    expected = expected_with_sinks(way, model.sinks.detach())
    assert torch.allclose(seen[0].map.weights().double(), expected, atol=1e-5)


@pytest.mark.parametrize("way", ["gpt-oss", "off by one"])
def test_a_sink_has_no_token_position(way):
    model = Words(SinkAttention(way))
    with torch.no_grad(), regard.capture(model) as seen:
        model(IDS)
    tokens = [n for n in range(N + 1) if n not in seen[0].sinks]
    weights = seen[0].map.weights()[..., tokens]
    expected = weights * (torch.arange(N)[:, None] - torch.arange(N)).abs()
    assert torch.allclose(torch.from_numpy(seen.distance()[0]).float(), expected.sum(-1), atol=1e-5)


def test_values_in_two_parts_are_not_taken_for_sinks():
    class TwoAttention(nn.Module):
        def forward(self, x):
            weights = (x @ x.mT * 2).cos().softmax(-1)
            return weights[..., :2] @ x[:, :2] + weights[..., 2:] @ x[:, 2:]

    with torch.no_grad(), regard.capture(model := TwoAttention()) as seen:
        model(X)
    assert seen[0].sinks == ()


@pytest.mark.parametrize("need_weights", [True, False])
def test_extra_keys_of_multihead_attention_are_sinks(need_weights):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(H * D, H, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    with torch.no_grad(), regard.capture(model) as seen:
        model(X, X, X, need_weights=need_weights)
    assert seen[0].sinks == (N, N + 1)
    assert seen[0].kind == "self"
    labels = seen.label(WORDS)[0].key_tokens
    assert labels == [[*WORDS, "[sink 1]", "[sink 2]"]] * B


class LearnedKeys(nn.Module):
    """Keys and values that belong to the model, before those of the tokens."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.memory = nn.Parameter(torch.randn(H, 2, D, generator=generator))

    def forward(self, x):
        q = split(x)
        k = torch.cat([self.memory.expand(x.shape[0], -1, -1, -1), q], dim=2)
        return F.scaled_dot_product_attention(q, k, k)


def test_keys_that_a_model_has_learned_are_sinks():
    with torch.no_grad(), regard.capture(model := Words(LearnedKeys())) as seen:
        model(IDS)
    assert (seen[0].kind, seen[0].sinks) == ("self", (0, 1))
    assert (seen[0].key_tokens or [])[1] == ["[sink 1]", "[sink 2]", *(str(n) for n in IDS[1].tolist())]


# ---- padding


@pytest.mark.parametrize("low", [torch.finfo(torch.float32).min, -torch.inf])
@pytest.mark.parametrize("way", ["added", "filled", "raised"])
def test_left_padding_leaves_a_causal_map_causal(way, low):
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :2] = False
    keep = PAST & real[:, None, None]

    class OwnAttention(nn.Module):
        num_heads = H

        def forward(self, x):
            q = split(x)
            scores = q @ q.mT
            if way == "added":
                scores = scores + torch.zeros(B, 1, N, N).masked_fill(~keep, low)
            elif way == "filled":
                scores = scores.masked_fill(~keep, low)
            else:  # XGLM: what lies below the lowest number is raised to it, which is not followed
                scores = torch.max(
                    scores.masked_fill(~keep, low), torch.tensor(torch.finfo(torch.float32).min)
                )
            return scores.softmax(-1).nan_to_num() @ q

    with torch.no_grad(), regard.capture(model := OwnAttention()) as seen:
        model(X)
    assert seen[0].kind == "causal"


def test_padding_queries_that_look_ahead_leave_the_map_causal():
    real = torch.ones(B, 1, 1, N)
    real[1, ..., :2] = 0

    # As in OpenAI's GPT, whose causal mask is weaker than its padding.
    class OwnAttention(nn.Module):
        num_heads = H

        def forward(self, x):
            q = split(x)
            scores = (q @ q.mT) * PAST - 1e4 * ~PAST + (1 - real) * torch.finfo(torch.float32).min
            return scores.softmax(-1) @ q

    with torch.no_grad(), regard.capture(model := OwnAttention()) as seen:
        model(X)
    assert bool(seen[0].map.weights().triu(1).any())
    assert seen[0].kind == "causal"


def test_uniform_weights_are_not_causal():
    class OwnAttention(nn.Module):
        def forward(self, x):
            return (x @ x.mT * 0).cos().softmax(-1) @ x

    with torch.no_grad(), regard.capture(model := OwnAttention()) as seen:
        model(X)
    assert seen[0].kind == "self"


# ---- one sequence or two


class Pooled(nn.Module):
    """Keys that are a shorter form of the queries' own sequence, as in PVT and Twins."""

    def __init__(self, way):
        super().__init__()
        self.way, self.attn = way, Core()

    def forward(self, x):
        return self.attn(x) if self.way == "inside" else self.attn(x, F.avg_pool1d(x.mT, 2, 2).mT)


class Core(nn.Module):
    def forward(self, query, key=None):
        key = F.avg_pool1d(query.mT, 2, 2).mT if key is None else key
        q, k = split(query), split(key)
        return F.scaled_dot_product_attention(q, k, k)


@pytest.mark.parametrize("way", ["inside", "outside"])
def test_attention_over_pooled_keys_is_self_attention(way):
    with torch.no_grad(), regard.capture(model := Pooled(way)) as seen:
        model(X)
    assert (seen[0].kind, tuple(seen[0].map.shape)) == ("self", (B, H, N, N // 2))


def test_attention_over_another_sequence_is_cross_attention():
    attend = nn.MultiheadAttention(H * D, H, batch_first=True)
    other = torch.randn(B, 3, H * D, generator=torch.Generator().manual_seed(5))
    with torch.no_grad(), regard.capture(attend) as seen:
        attend(other, X, X)
    assert seen[0].kind == "cross"


def test_attention_of_learned_queries_is_cross_attention():
    class LatentAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(torch.zeros(1, 2, H * D))

        def forward(self, x):
            q, k = split(self.latents.expand(len(x), -1, -1)), split(x)
            return F.scaled_dot_product_attention(q, k, k)

    with torch.no_grad(), regard.capture(model := LatentAttention()) as seen:
        model(X)
    assert seen[0].kind == "cross"


# ---- models of Hugging Face

SMALL = models.WORDS | {"n_layer": 2, "n_head": 3}
LEFT_PADDED = {
    "bloom": ("BloomConfig", "BloomForCausalLM", SMALL | {"hidden_size": 24}),
    "codegen": (
        "CodeGenConfig",
        "CodeGenForCausalLM",
        SMALL | {"n_head": 4, "n_embd": 32, "n_positions": 64, "rotary_dim": 4},
    ),
    "mpt": (
        "MptConfig",
        "MptForCausalLM",
        models.WORDS | {"d_model": 24, "n_heads": 3, "n_layers": 2, "max_seq_len": 32, "expansion_ratio": 1},
    ),
    "xglm": (
        "XGLMConfig",
        "XGLMForCausalLM",
        models.WORDS
        | {
            "d_model": 24,
            "num_layers": 2,
            "attention_heads": 3,
            "ffn_dim": 20,
            "max_position_embeddings": 64,
        },
    ),
}


def build(config, model, settings):
    """A small model in its eager mode, with weights that are not near zero."""
    transformers = pytest.importorskip("transformers")
    made = getattr(transformers, config)(**settings, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    made._attn_implementation = "eager"
    torch.manual_seed(11)
    built = getattr(transformers, model)(made).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.15)
    return built


@pytest.mark.parametrize("name", LEFT_PADDED)
def test_left_padded_decoders_are_causal(name):
    model, inputs = build(*LEFT_PADDED[name]), models.padded_left()
    with torch.no_grad(), regard.capture(model) as seen:
        expected = model(**inputs, output_attentions=True).attentions
    assert [record.kind for record in seen] == ["causal"] * 2
    for record, weights in zip(seen, expected, strict=True):
        assert torch.allclose(record.map.weights(), weights, atol=1e-5)


def test_the_sinks_of_gpt_oss_are_recorded():
    settings = models.LLAMA | {
        "head_dim": 8,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "sliding_window": 3,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }
    model, inputs = build("GptOssConfig", "GptOssForCausalLM", settings), models.padded_left()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.normal_()
        with regard.capture(model) as seen:
            expected = model(**inputs, output_attentions=True).attentions
        with regard.capture(model) as steps:
            ids = model.generate(inputs["input_ids"][:1], max_new_tokens=3, min_new_tokens=3, do_sample=False)
        with regard.capture(model) as whole:
            model(ids[:, :-1])
    for record, weights in zip(seen, expected, strict=True):
        assert (record.kind, record.sinks) == ("causal", (models.N,))
        assert (record.key_tokens or [])[0][-1] == "[sink]"
        assert torch.allclose(record.map.weights()[..., :-1], weights, atol=1e-5)  # theirs leave the sink out
    assert [tuple(record.map.shape[2:]) for record in steps] == [(models.N + 2, models.N + 3)] * 2
    for record, at_once in zip(steps, whole, strict=True):
        assert record.sinks == (models.N + 2,)
        assert torch.allclose(record.map.weights(), at_once.map.weights(), atol=1e-5)


def test_funnel_records_self_attention():
    settings = models.WORDS | {"d_model": 24, "n_head": 3, "d_head": 8, "d_inner": 20, "block_sizes": [1, 2]}
    model = build("FunnelConfig", "FunnelModel", settings | {"num_decoder_layers": 1})
    with torch.no_grad(), regard.capture(model) as seen:
        model(**models.padded())
    assert {record.kind for record in seen} == {"self"}


def test_longformer_has_its_heads_on_the_third_axis():
    settings = models.BERT | {"attention_window": 4}
    model = build("LongformerConfig", "LongformerModel", settings)
    with torch.no_grad(), regard.capture(model) as seen:
        expected = model(models.ids(8), output_attentions=True).attentions
    for record, weights in zip(seen, expected, strict=True):
        assert torch.allclose(record.map.weights(), weights, atol=1e-5)


@pytest.mark.parametrize("looks_at_all", [False, True])
def test_padded_rows_of_longformer_are_zeros(looks_at_all):
    settings = models.BERT | {"attention_window": 4}
    model = build("LongformerConfig", "LongformerModel", settings)
    mask = torch.ones(models.B, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    everywhere = torch.zeros_like(mask)
    everywhere[:, 0] = looks_at_all
    given = {"attention_mask": mask, "global_attention_mask": everywhere if looks_at_all else None}
    with torch.no_grad(), regard.capture(model) as seen:
        expected = model(models.ids(8), **given, output_attentions=True).attentions
    local = [record for record in seen if record.map.shape[2] == 8]
    # The rows of tokens that look at all are those of another softmax.
    first = int(looks_at_all)
    for record, weights in zip(local, expected, strict=True):
        found = record.map.weights()
        assert torch.allclose(found[:, :, first:], weights[:, :, first:], atol=1e-5)
        assert not found[1, :, 5:].any()
        assert record.note is not None
