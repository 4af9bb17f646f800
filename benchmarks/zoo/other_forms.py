"""Attention in forms that single families have: small windows, learned queries, graphs, own operators, generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.huggingface import _small
from zoo.judging import Case, Subject, Truth
from zoo.weights import randomise, softmaxes

BATCH, HEADS, WIDTH, TOKENS, LATENTS = 2, 3, 24, 7, 5
GENERATING = """
llama mistral qwen2 qwen3 olmo olmo2 olmo3 phi phi3 granite smollm3 cohere cohere2 gemma gemma3_text gpt2 gpt_neox
stablelm starcoder2 opt falcon persimmon glm glm4 nemotron exaone4 helium arcee seed_oss apertus
"""
"""Language models that generate from a batch with padding at the left."""
WINDOWS = [
    (f"{kind}{part}", sides)
    for kind, part in (
        ("Swin", "Backbone"),
        ("Swinv2", "Backbone"),
        ("MaskFormerSwin", "Backbone"),
        ("Swinv2", "Model"),
    )
    for sides in ((20, 20), (20, 60), (56, 60))
]
"""Classes with windows of 7 patches, and pictures of 5 or more patches on each side."""


def cases() -> list[Case]:
    """Yield the cases of all forms."""
    made = [Case("other-forms", f"{name}, generate", _calls(generating, name)) for name in GENERATING.split()]
    made += [
        Case("other-forms", f"{name}, {sides[0]}x{sides[1]}", _calls(windows, name, sides))
        for name, sides in WINDOWS
    ]
    made += [Case("other-forms", name, _calls(learned, name)) for name in LEARNED]
    return made + [Case("other-forms", name, _calls(unread, name)) for name in UNREAD]


def _calls(build: Callable[..., Subject], *args: Any) -> Callable[[], Subject]:
    return lambda: build(*args)


# ---- generation


def generating(name: str) -> Subject:
    """Build a decoder that generates from a padded batch, with the eager weights of one pass over its output."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    kind = CONFIG_MAPPING[name]
    sizes = _small(kind) | {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    models = []
    for how in ("eager", "sdpa"):
        torch.manual_seed(0)
        config = kind(**sizes)
        models.append(transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how).eval())
    eager, model = models
    randomise(eager)
    model.load_state_dict(eager.state_dict())
    ids = torch.randint(3, 90, (BATCH, TOKENS), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :2] = 0

    @torch.no_grad()
    def call() -> Any:
        return model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False)

    read = call()[:, :-1]
    mask = F.pad(mask, (0, read.shape[1] - TOKENS), value=1)
    given = {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    with torch.no_grad():
        weights = eager(read, **given, output_attentions=True).attentions
    prompt = ids, mask[:, :TOKENS]

    @torch.no_grad()
    def generate() -> Any:
        return model.generate(prompt[0], attention_mask=prompt[1], max_new_tokens=4, do_sample=False)

    return Subject(model, generate, [Truth(x, "causal", mask.bool()) for x in weights])


# ---- windows


def windows(name: str, sides: tuple[int, int]) -> Subject:
    """Build a model with windows of 7 patches, with the weights of its windows at their places in the picture."""
    import transformers

    kind = name.removesuffix("Backbone").removesuffix("Model")
    sizes = {
        "image_size": 56,
        "patch_size": 4,
        "embed_dim": 12,
        "depths": [2],
        "num_heads": [3],
        "window_size": 7,
    }
    config = getattr(transformers, f"{kind}Config")(**sizes, attn_implementation="eager")
    model = getattr(transformers, name)(config).double().eval()
    randomise(model)
    pixels = torch.randn(BATCH, 3, *sides, generator=torch.Generator().manual_seed(1)).double()

    @torch.no_grad()
    def call() -> Any:
        return dict(model(pixels))

    with softmaxes() as found:
        call()
    rows, columns = (n // 4 for n in sides)
    return Subject(
        model, call, [Truth(_in_picture(x, rows, columns, 3 * n), "self") for n, x in enumerate(found)]
    )


def _in_picture(weights: Tensor, rows: int, columns: int, shift: int) -> Tensor:
    """Place the weights ``(b * windows,h,49,49)`` of windows in a picture that was padded and rolled."""
    down, across = -(-rows // 7), -(-columns // 7)
    tokens = torch.full((7 * down, 7 * across), -1)
    tokens[:rows, :columns] = torch.arange(rows * columns).view(rows, columns)
    tokens = tokens.roll((-shift, -shift), (0, 1)).view(down, 7, across, 7).transpose(1, 2).reshape(-1, 49)
    found = weights.new_zeros(BATCH, weights.shape[1], rows * columns, rows * columns)
    for at, window in enumerate(tokens):
        i, j = torch.meshgrid(window, window, indexing="ij")
        inside = (i >= 0) & (j >= 0)
        found[:, :, i[inside], j[inside]] = weights.unflatten(0, (BATCH, -1))[:, at][..., inside]
    return found


# ---- learned queries


class Resampler(nn.Module):
    """Learned latents that attend to the features of a picture, as in Flamingo, with a norm on both sides."""

    def __init__(self, embedded: bool = False):
        super().__init__()
        self.latents = nn.Embedding(LATENTS, WIDTH) if embedded else nn.Parameter(torch.zeros(LATENTS, WIDTH))
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        latents = self.latents.weight if isinstance(self.latents, nn.Embedding) else self.latents
        out = latents.expand(len(x), -1, -1)  # (b,latents,m)
        for layer in self.layers:
            out = out + layer(self.norm(out), x, x)[0]
        return out


class GatedCross(nn.Module):
    """Words that attend to the latents of a picture behind a gate, as in Flamingo."""

    def __init__(self) -> None:
        super().__init__()
        self.resampler, self.gate = Resampler(), nn.Parameter(torch.ones(1))
        self.own, self.other = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        words, latents = x[:, :4] + 1, self.resampler(x)
        words = words + self.own(words, words, words)[0]
        return words + self.gate.tanh() * self.other(words, latents, latents)[0]


class Pooled(nn.Module):
    """The mean of a sequence that attends to the sequence, as in the pooling of CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x.mean(1, keepdim=True), x], dim=1)  # (b,1 + n,m)
        return self.pool(x[:, :1], x, x)[0]


def of_transformers(name: str, **sizes: Any) -> Callable[[], nn.Module]:
    """Return a function that builds a model of transformers from sizes, in its eager mode."""

    def make() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**sizes, attn_implementation="eager")
        return getattr(transformers, f"{name}Model")(config)

    return make


def of_idefics() -> nn.Module:
    """Build the resampler of Idefics2, which is given a mask of its features."""
    from transformers.models.idefics2 import modeling_idefics2 as idefics2

    config = idefics2.Idefics2PerceiverConfig(
        hidden_size=WIDTH,
        resampler_n_latents=LATENTS,
        resampler_depth=2,
        resampler_n_heads=HEADS,
        resampler_head_dim=8,
        num_key_value_heads=HEADS,
    )
    config._attn_implementation = "eager"
    model = idefics2.Idefics2PerceiverResampler(config)
    return With(model, lambda x: {"context": x, "attention_mask": torch.ones(x.shape[:2])})


def q_former() -> nn.Module:
    """Build the Q-Former of BLIP-2, whose queries attend to the features of a picture."""
    sizes = {"encoder_hidden_size": WIDTH, "cross_attention_frequency": 1, "vocab_size": 97}
    model = of_transformers("Blip2QFormer", **VISION, **sizes)()
    return With(model, lambda x: {"query_embeds": x, "encoder_hidden_states": x.repeat(1, 2, 1) + 1})


class With(nn.Module):
    """A model with arguments that are made of a single one."""

    def __init__(self, model: nn.Module, arguments: Callable[[Tensor], dict[str, Any]]):
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, x: Tensor) -> Any:
        return self.model(**self.arguments(x))


VISION = {"hidden_size": WIDTH, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": HEADS}
Learned = tuple[Callable[[], nn.Module], tuple[int, ...], str]
LEARNED: dict[str, Learned] = {
    "resampler": (Resampler, (BATCH, TOKENS, WIDTH), "cross cross"),
    "resampler of an embedding": (lambda: Resampler(embedded=True), (BATCH, TOKENS, WIDTH), "cross cross"),
    "gated cross-attention": (GatedCross, (BATCH, TOKENS, WIDTH), "cross cross self cross"),
    "pooling by the mean": (Pooled, (BATCH, TOKENS, WIDTH), "self"),
    "idefics2 resampler": (of_idefics, (BATCH, TOKENS, WIDTH), "cross cross"),
    "siglip pooling": (
        of_transformers("SiglipVision", **VISION, image_size=20, patch_size=4),
        (BATCH, 3, 20, 20),
        "self cross",
    ),
    "perceiver": (
        of_transformers(
            "Perceiver",
            num_latents=LATENTS,
            d_latents=WIDTH,
            d_model=20,
            num_blocks=1,
            num_self_attends_per_block=2,
            num_self_attention_heads=HEADS,
            num_cross_attention_heads=1,
        ),
        (BATCH, TOKENS, 20),
        "cross self self",
    ),
    "q-former of blip-2": (q_former, (BATCH, LATENTS, WIDTH), "self cross"),
}
"""Models with queries of their own, the sizes of their input, and the kinds of their attentions."""


def learned(name: str) -> Subject:
    """Build a model of LEARNED, with the results of its softmaxes."""
    make, sizes, kinds = LEARNED[name]
    torch.manual_seed(0)
    model = make().double().eval()
    randomise(model)
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1)).double()

    @torch.no_grad()
    def call() -> Any:
        out = model(x)
        return out if isinstance(out, Tensor) else dict(out)

    with softmaxes() as found:
        call()
    weights = [w if w.ndim == 4 else w.unflatten(0, (BATCH, -1)) for w in found]  # (b,h,q,k)
    return Subject(model, call, [Truth(w, kind) for w, kind in zip(weights, kinds.split(), strict=True)])


# ---- attention without a softmax of torch, which is named


def over_edges(x: Tensor) -> Tensor:
    """Attend over the edges of a ring, with a softmax that sums over the edges of each node."""
    n = x.shape[1]
    to, source = torch.arange(n).repeat(2), torch.cat([torch.arange(n), (torch.arange(n) + 1) % n])
    weights = (x[:, to] * x[:, source]).mean(-1).exp()  # (b,edges)
    sums = torch.zeros(len(x), n, dtype=x.dtype).index_add(1, to, weights)
    shares = (weights / sums[:, to])[..., None]
    return torch.zeros_like(x).index_add(1, to, shares * x[:, source])


def by_scatter(x: Tensor) -> Tensor:
    """Do the same with ``scatter_add``."""
    to = (torch.arange(x.shape[1]) // 2)[None, :, None].expand_as(x)
    return torch.zeros_like(x).scatter_add(1, to, x.sigmoid() * x)


def by_own_operator(x: Tensor) -> Tensor:
    """Attend in an operator of one's own, as the kernels of flash attention do."""
    if not hasattr(torch.ops.regard_zoo, "attend"):
        torch.library.custom_op(
            "regard_zoo::attend",
            lambda q: (q @ q.mT).softmax(-1) @ q,
            mutates_args=(),
            schema="(Tensor q) -> Tensor",
        )
    return torch.ops.regard_zoo.attend(x)


UNREAD: dict[str, Callable[[Tensor], Tensor]] = {
    "graph by index_add": over_edges,
    "graph by scatter": by_scatter,
    "own operator": by_own_operator,
    "fourier mixing": lambda x: torch.fft.fft2(x).real,
}
"""Attention that is no product and softmax of torch's."""


class UnreadAttention(nn.Module):
    """A module that is called attention and computes one of UNREAD."""

    def __init__(self, attend: Callable[[Tensor], Tensor]):
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attend(x)


def unread(name: str) -> Subject:
    """Build a layer that is recorded, and one of UNREAD, whose weights are a truth that nobody can match."""
    own = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True)
    model = nn.Sequential(own, UnreadAttention(UNREAD[name])).double().eval()
    randomise(model)
    x = torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1)).double()

    @torch.no_grad()
    def call() -> Tensor:
        return model(x)

    with torch.no_grad():
        _, weights = own.self_attn(x, x, x, average_attn_weights=False)
    return Subject(model, call, [Truth(weights, "self"), Truth(weights.roll(1, dims=-1), None)])
