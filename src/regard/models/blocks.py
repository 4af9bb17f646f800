"""The Transformer block and the stack of blocks used by encoders and decoders."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.layers import KeyValueCache, MultiHeadAttention
from regard.masks import Mask
from regard.models.config import BlockConfig
from regard.models.dropout import Dropout
from regard.models.embeddings import TokenEmbedding
from regard.models.norms_and_activations import make_activation, make_norm
from regard.models.records import Record, add_record
from regard.positions import ALiBi, RelativeBias, Rotary

__all__ = ["Block", "FeedForward", "LayerCaches", "Stack"]


class LayerCaches(NamedTuple):
    """The key-value caches of one layer during decoding, for self-attention and for cross-attention.

    ``cross_attention`` is None if the layer has no cross-attention.
    """

    self_attention: KeyValueCache
    cross_attention: KeyValueCache | None


class FeedForward(nn.Module):
    """The feed-forward layer of a block, two projections with an activation between them.

    With SwiGLU, the first projection also produces the gate.
    """

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.activation = make_activation("silu" if self.gated else config.activation)
        self.widen = nn.Linear(config.width, config.feed_forward * (2 if self.gated else 1), bias=config.bias)
        self.narrow = nn.Linear(config.feed_forward, config.width, bias=config.bias)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:  # (...,m) -> (...,m)
        """Transform each state ``(...,m)`` on its own."""
        x = self.widen(x)
        if self.gated:
            x, gate = x.chunk(2, dim=-1)
            x = x * self.activation(gate)
        else:
            x = self.activation(x)
        return self.narrow(self.dropout(x))


class Block(nn.Module):
    """A Transformer block of self-attention, optional cross-attention and a feed-forward layer.

    Each part has a residual connection and a norm, before or after it as set in the config. ``name`` ends in the
    number of the layer, such as "decoder.layers.0". ``causal`` only sets the recorded kind of the self-attention. The
    caller passes the mask. ``cross`` adds the cross-attention.
    """

    def __init__(self, config: BlockConfig, name: str, *, causal: bool, cross: bool):
        super().__init__()
        self.name, self.layer = name, int(name.rsplit(".", 1)[-1])
        self.kind = "causal" if causal else "self"
        self.pre = config.norm == "pre"
        self.self_attention = _attention(config, rotary=config.positions == "rotary")
        self.self_norm = make_norm(config)
        if cross:
            # Positions of the source and of the target are not comparable, so there is no rotary encoding.
            self.cross_attention = _attention(config, rotary=False)
            self.cross_norm = make_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,  # (b,n,m), or (b*w,1,m) in a decoding step with w hypotheses per sentence
        mask: Mask | None,
        memory: Tensor | None = None,  # (b,s,m)
        memory_mask: Mask | None = None,
        *,
        bias: Any = None,
        caches: LayerCaches | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the states after self-attention, cross-attention and the feed-forward layer, in the shape of ``x``.

        ``mask`` and ``bias`` are those of self-attention. Cross-attention to ``memory`` with ``memory_mask`` is skipped
        if ``memory`` is None. ``caches`` hold the keys and values of earlier steps, and those of this step are
        appended. If ``records`` is a list, a record of each attention is appended to it.
        """
        self_cache = None if caches is None else caches.self_attention
        y = self.self_norm(x) if self.pre else x
        y = self._attend("self_attention", self.kind, y, None, mask, self_cache, bias, records)
        x = self._add(x, y, self.self_norm)
        if memory is not None:
            cross_cache = None if caches is None else caches.cross_attention
            y = self.cross_norm(x) if self.pre else x
            # The hypotheses of a sentence become queries on the same keys, so the keys are not repeated.
            y = y.reshape(memory.shape[0], -1, y.shape[-1])  # (b*w,1,m) -> (b,w,m)
            y = self._attend("cross_attention", "cross", y, memory, memory_mask, cross_cache, None, records)
            x = self._add(x, y.reshape(x.shape), self.cross_norm)
        y = self.feed_forward(self.feed_norm(x) if self.pre else x)
        return self._add(x, y, self.feed_norm)

    def _add(self, x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
        x = x + self.dropout(y)
        return x if self.pre else norm(x)

    def _attend(
        self,
        part: str,
        kind: str,
        query: Tensor,
        key: Tensor | None,
        mask: Mask | None,
        cache: KeyValueCache | None,
        bias: Any,
        records: list[Record] | None,
    ) -> Tensor:
        layer: MultiHeadAttention = getattr(self, part)
        wanted = records is not None
        y, weights = layer(query, key, mask=mask, bias=bias, cache=cache, need_weights=wanted)
        if records is not None and weights is not None:
            add_record(records, name=f"{self.name}.{part}", kind=kind, layer=self.layer, weights=weights)
        return y


class Stack(nn.Module):
    """Transformer blocks on the vectors of an embedding, the base of :class:`Encoder` and :class:`Decoder`.

    Position biases (ALiBi or relative) are shared by all blocks. ``causal`` does not mask anything. It makes a relative
    bias one-directional and sets the recorded kind of attention. The caller passes the mask. ``layers`` is the number
    of blocks, and ``cross`` gives them cross-attention. ``name`` is the name of the stack in a larger model.
    """

    def __init__(
        self,
        config: BlockConfig,
        embedding: TokenEmbedding,
        *,
        layers: int,
        causal: bool,
        cross: bool,
        name: str = "",
    ):
        super().__init__()
        self.embedding = embedding
        prefix = f"{name}." if name else ""
        self.layers = nn.ModuleList(
            Block(config, f"{prefix}layers.{i}", causal=causal, cross=cross) for i in range(layers)
        )
        self.norm = make_norm(config) if config.norm == "pre" else nn.Identity()
        self.bias = None
        if config.positions == "alibi":
            self.bias = ALiBi(config.heads)
        elif config.positions == "relative":
            self.bias = RelativeBias(config.heads, bidirectional=not causal)

    def run(
        self,
        x: Tensor,
        mask: Mask | None,
        memory: Tensor | None = None,
        memory_mask: Mask | None = None,
        *,
        caches: list[LayerCaches] | None = None,
        records: list[Record] | None = None,
    ) -> Tensor:
        """Return the output ``(b,n,m)`` of all blocks, and of the last norm, for embedded tokens ``x (b,n,m)``.

        ``mask`` is that of self-attention. ``memory (b,s,m)`` are the states that cross-attention reads, and
        ``memory_mask`` hides some of them. ``caches`` has one entry for each layer during decoding. If ``records`` is
        a list, the attention of every layer is appended to it.
        """
        for i, layer in enumerate(self.layers):
            x = layer(
                x,
                mask,
                memory,
                memory_mask,
                bias=self.bias,
                caches=None if caches is None else caches[i],
                records=records,
            )
        return self.norm(x)


def _attention(config: BlockConfig, *, rotary: bool) -> MultiHeadAttention:
    angles = None
    if rotary:
        angles = Rotary(
            config.width // config.heads,
            config.rotary_base,
            layout=config.rotary_layout,
            scaling=config.rotary_scaling,
        )
    layer = MultiHeadAttention(
        config.width,
        config.heads,
        kv_heads=config.kv_heads,
        rotary=angles,
        bias=config.bias if config.qkv_bias is None else config.qkv_bias,
        output_bias=config.bias if config.attention_output_bias is None else config.attention_output_bias,
        dropout=config.attention_dropout,
    )
    for part in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
        nn.init.xavier_uniform_(part.weight)
        if part.bias is not None:
            nn.init.zeros_(part.bias)
    return layer
