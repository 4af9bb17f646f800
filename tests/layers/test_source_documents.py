"""Tests that the layers load the state dicts of the source documents and give the same numbers.

The documents are not part of the project: they are looked for beside it, or where REGARD_SEEDS says.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from support.paths import ROOT

B, H, Q, K, D = 2, 3, 5, 7, 11
SEEDS = Path(os.environ.get("REGARD_SEEDS", ROOT.parent / "shared" / "seeds"))
CLASSES = {
    "AdditiveAttention": "000",
    "SimpleAttention": "001",
    "BasicAttention": "002",
    "SelfAttention": "002",
    "MultiHeadAttention": "002",
    "PositionalEncoding": "002",
    "LearnedPositionalEncoding": "002",
    "EncoderDecoderAttention": "004",
}


def document_classes(number: str) -> dict[str, type[nn.Module]]:
    """The classes that a document defines, run as they are printed there."""
    files = sorted(SEEDS.glob(f"{number}_*.md"))
    if not files:
        pytest.skip(f"document {number} is not in {SEEDS}: set REGARD_SEEDS to the folder of the documents")
    text = files[0].read_text(encoding="utf-8", errors="replace")
    # Document 002 forgets `import math`; the others import what they need, which may not be installed.
    names: dict = {"torch": torch, "nn": nn, "F": F, "math": math}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        for source in re.findall(r"^class \w+\(.*?(?=^\S|\Z)", block, flags=re.DOTALL | re.MULTILINE):
            exec(source, names)
    return {name: value for name, value in names.items() if isinstance(value, type)}


def pair(name: str, *sizes: int) -> tuple[nn.Module, nn.Module]:
    """The document's module and ours, with the document's weights."""
    theirs = document_classes(CLASSES[name])[name](*sizes)
    ours = getattr(regard, name)(*sizes)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


def check_same(theirs, ours) -> None:
    for wanted, got in zip(theirs, ours, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_state_dicts_go_both_ways(name):
    sizes = (12, 3) if name == "MultiHeadAttention" else (12,)
    theirs, ours = pair(name, *sizes)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    theirs.load_state_dict(ours.state_dict(), strict=True)


def test_additive_attention_equals_the_document():
    theirs, ours = pair("AdditiveAttention", D)
    query, keys = torch.randn(B, D), torch.randn(B, K, D)
    check_same(theirs(query, keys), ours(query, keys))


def test_additive_attention_has_the_gradients_of_the_document():
    theirs, ours = pair("AdditiveAttention", D)
    query, keys = torch.randn(B, D), torch.randn(B, K, D)
    target = torch.randn(B, D)
    for module in (theirs, ours):
        (module(query, keys)[0] * target).sum().backward()
    for wanted, got in zip(theirs.parameters(), ours.parameters(), strict=True):
        # v.bias too: its gradient is zero, not missing.
        assert got.grad is not None
        torch.testing.assert_close(got.grad, wanted.grad, rtol=0, atol=1e-6)


# The divisor is the given one, not the width.
@pytest.mark.parametrize("dim", [D, 2 * D])
def test_simple_attention_equals_the_document(dim):
    theirs, ours = pair("SimpleAttention", dim)
    query, key, value = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, 4)
    check_same(theirs(query, key, value), ours(query, key, value))
    check_same(theirs(query[:1], key, value), ours(query[:1], key, value))  # one query for the whole batch
    heads = [torch.randn(B, H, n, D) for n in (Q, K, K)]
    check_same(theirs(*heads), ours(*heads))


MASKS = {
    "none": None,
    "bool": torch.ones(Q, K, dtype=torch.bool).tril(2),
    "int": torch.ones(Q, K, dtype=torch.long).tril(2),
    "float": torch.ones(Q, K).tril(2),
    "batch": torch.rand(B, Q, K).round().index_fill(2, torch.tensor([0]), 1.0),
    "padding": torch.tensor([[[1.0] * K], [[1.0] * 4 + [0.0] * (K - 4)]]),  # (b,1,k)
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_basic_attention_equals_the_document(mask):
    theirs, ours = pair("BasicAttention", D)
    query, key, value = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, D)
    check_same(theirs(query, key, value, mask), ours(query, key, value, mask))
    check_same(theirs(query, key, value, mask=mask), ours(query, key, value, mask=mask))


@pytest.mark.parametrize("mask", [None, torch.ones(Q, Q).tril()], ids=["none", "causal"])
def test_self_attention_equals_the_document(mask):
    theirs, ours = pair("SelfAttention", D)
    x = torch.randn(B, Q, D)
    check_same(theirs(x, mask), ours(x, mask))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_multi_head_attention_equals_the_document(mask):
    theirs, ours = pair("MultiHeadAttention", 12, H)
    query, key, value = torch.randn(B, Q, 12), torch.randn(B, K, 12), torch.randn(B, K, 12)
    # The document broadcasts (b,q,k) against (b,h,q,k) wrongly: it is given the head axis that it means.
    said = mask[:, None] if mask is not None and mask.ndim == 3 else mask
    wanted = theirs(query, key, value, said)
    check_same(wanted, ours(query, key, value, mask))
    fast, nothing = ours(query, key, value, mask, need_weights=False)
    assert nothing is None
    torch.testing.assert_close(fast, wanted[0], rtol=0, atol=1e-6)


def test_multi_head_attention_takes_a_mask_of_every_head():
    theirs, ours = pair("MultiHeadAttention", 12, H)
    x, mask = torch.randn(B, Q, 12), torch.rand(B, H, Q, Q).round()
    mask[..., 0] = 1.0
    check_same(theirs(x, x, x, mask), ours(x, x, x, mask))


def test_encoder_decoder_attention_equals_the_document():
    theirs, ours = pair("EncoderDecoderAttention", D)
    encoded, decoded = torch.randn(B, K, D), torch.randn(B, Q, D)
    check_same(theirs(encoded, decoded), ours(encoded, decoded))


@pytest.mark.parametrize("name", ["PositionalEncoding", "LearnedPositionalEncoding"])
def test_positional_encodings_equal_the_document(name):
    theirs, ours = pair(name, 12)
    x = torch.randn(B, Q, 12)
    check_same([theirs(x)], [ours(x)])


def test_a_fresh_sinusoidal_table_is_the_documents():
    theirs = document_classes("002")["PositionalEncoding"](12)
    torch.testing.assert_close(regard.PositionalEncoding(12).pe, theirs.pe, rtol=0, atol=1e-6)
