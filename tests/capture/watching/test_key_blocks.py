"""Keys that are processed in blocks are marked as parts, and two attentions of the same queries are not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import CaptureError
from support.capture_cases import D
from support.own_attention import OwnAttention, inputs, softmax, told_of

PART = "a part of the keys: the same queries attend to other keys in another call"
KEYS = 7
BLOCKS = [slice(0, 3), slice(3, 5), slice(5, 7)]
STRIPES = [slice(0, None, 2), slice(1, None, 2)]
sdpa = F.scaled_dot_product_attention


def scores(q, k):
    return q @ k.mT * D**-0.5


def merged_by_softmax(q, blocks):
    sums = torch.stack([scores(q, k).logsumexp(-1, keepdim=True) for k, _ in blocks])
    return (torch.stack([sdpa(q, k, v) for k, v in blocks]) * sums.softmax(0)).sum(0)


def merged_by_exponentials(q, blocks):
    sums = torch.stack([scores(q, k).exp().sum(-1, keepdim=True) for k, _ in blocks])
    return (torch.stack([sdpa(q, k, v) for k, v in blocks]) * (sums / sums.sum(0))).sum(0)


def merged_by_kernel(q, blocks):
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    (out, total), *others = [kernel(q, k, v) for k, v in blocks]
    for part, lse in others:
        new = torch.logaddexp(total, lse)
        out = out * (total - new).exp()[..., None] + part * (lse - new).exp()[..., None]
        total = new
    return out


def merged_by_sigmoid(q, blocks):
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    (out, total), *others = [kernel(q, k, v) for k, v in blocks]
    for part, lse in others:
        out = out - torch.sigmoid(lse - total)[..., None] * (out - part)
        total = total - F.logsigmoid(total - lse)
    return out


def merged_by_hand(q, blocks):
    sums = torch.stack([scores(q, k).logsumexp(-1, keepdim=True) for k, _ in blocks])
    parts = torch.stack([softmax(q, k) @ v for k, v in blocks])
    return (parts * (sums - sums.logsumexp(0)).exp()).sum(0)


MERGES = [merged_by_softmax, merged_by_exponentials, merged_by_kernel, merged_by_sigmoid, merged_by_hand]


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("blocks", [BLOCKS, STRIPES])
def test_blocks_of_one_tensor_are_parts_of_the_keys(merge, blocks):
    def attend(q, k, v):
        return merge(q, [(k[:, :, block], v[:, :, block]) for block in blocks])

    q, k, v = inputs(keys=KEYS)
    assert torch.allclose(attend(q, k, v), sdpa(q, k, v))
    seen, told = told_of(OwnAttention(attend), q, k, v)
    assert [record.note for record in seen] == [PART] * len(blocks)
    assert sum("for a part of the keys each" in message for message in told) == 1


@pytest.mark.parametrize("merge", [x for x in MERGES if x is not merged_by_sigmoid])
def test_blocks_of_several_tensors_that_are_merged_are_parts_of_the_keys(merge):
    def attend(q, k, v):
        return merge(q, [(k[:, :, block].clone(), v[:, :, block]) for block in BLOCKS])

    seen, told = told_of(OwnAttention(attend), *inputs(keys=KEYS))
    assert [record.note for record in seen] == [PART] * len(BLOCKS)
    assert any("for a part of the keys each" in message for message in told)


def test_blocks_that_come_to_one_buffer_in_turn_are_parts_of_the_keys():
    def attend(q, k, v):
        buffer, parts, sums = torch.empty_like(k[:, :, :2]), [], []
        for block in (slice(0, 2), slice(2, 4), slice(4, 6)):
            buffer.copy_(k[:, :, block])
            parts.append(sdpa(q, buffer, v[:, :, block]))
            sums.append(scores(q, buffer).logsumexp(-1, keepdim=True))
        return (torch.stack(parts) * (torch.stack(sums) - torch.stack(sums).logsumexp(0)).exp()).sum(0)

    seen, _ = told_of(OwnAttention(attend), *inputs(keys=6))
    assert [record.note for record in seen] == [PART] * 3


def test_blocks_in_a_module_of_their_own():
    class Block(nn.Module):
        def forward(self, q, k, v):
            return sdpa(q, k, v), scores(q, k).logsumexp(-1, keepdim=True)

    class RingAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, q, k, v):
            parts, sums = zip(*(self.block(q, k[:, :, x].clone(), v[:, :, x]) for x in BLOCKS), strict=True)
            return (torch.stack(parts) * (torch.stack(sums) - torch.stack(sums).logsumexp(0)).exp()).sum(0)

    seen, told = told_of(RingAttention(), *inputs(keys=KEYS))
    assert [record.note for record in seen] == [PART] * len(BLOCKS)
    assert len(told) == 1


def by_heads(q, k, v):
    return torch.cat([sdpa(q[:, [n]], k[:, [n]], v[:, [n]]) for n in range(q.shape[1])], 1)


def by_views_of_heads(q, k, v):
    return torch.cat([sdpa(*(x[:, n : n + 1] for x in (q, k, v))) for n in range(q.shape[1])], 1)


def by_queries(q, k, v):
    return torch.cat([sdpa(x, k, v) for x in q.split(2, dim=2)], 2)


def beside_other_keys(q, k, v):
    """The text and the picture of a decoupled cross-attention, and a gate of one sigmoid."""
    picture = k.mean(2, keepdim=True) * torch.ones(1, 1, 4, 1)
    return sdpa(q, k, v) + torch.sigmoid(q.mean(-1, keepdim=True)) * sdpa(q, picture, picture)


def the_same_twice(q, k, v):
    return sdpa(q, k, v) + sdpa(q, k, v).exp()


@pytest.mark.parametrize(
    "attend", [by_heads, by_views_of_heads, by_queries, beside_other_keys, the_same_twice]
)
def test_other_calls_of_one_module_are_no_parts(attend):
    seen, told = told_of(OwnAttention(attend), *inputs(keys=KEYS))
    assert len(seen) > 1
    assert {record.note for record in seen} == {None}
    assert not told


@pytest.mark.parametrize("beside_a_layer", [False, True])
def test_an_online_softmax_by_hand_is_named(beside_a_layer):
    def attend(q, k, v):
        out, total, top = torch.zeros_like(q), 0.0, torch.full_like(q[..., :1], -torch.inf)
        for block in BLOCKS:
            part = scores(q, k[:, :, block])
            new = torch.maximum(top, part.amax(-1, keepdim=True))
            weights, old = (part - new).exp(), (top - new).exp()
            out, total, top = (
                out * old + weights @ v[:, :, block],
                total * old + weights.sum(-1, keepdim=True),
                new,
            )
        return out / total

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.attn = OwnAttention(sdpa), OwnAttention(attend)

        def forward(self, q, k, v):
            return self.attn(self.first(q, k, v), k, v)

    q, k, v = inputs(keys=KEYS)
    assert torch.allclose(attend(q, k, v), sdpa(q, k, v))
    if beside_a_layer:
        seen, told = told_of(Layers(), q, k, v)
        assert list(seen.unseen) == ["attn"]
        assert "'attn', which is called attention but takes no softmax" in told[0]
    else:
        with pytest.raises(CaptureError, match="is called attention but takes no softmax"):
            told_of(OwnAttention(attend), q, k, v)
