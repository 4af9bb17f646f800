"""Records of every kind the viewer knows, and a JavaScript engine to read them with."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.maps import AttentionMap, Record
from regard.maps.sources import Recomputed
from regard.viewer import payload

STATIC = Path(payload.__file__).parent / "static"
B, H, Q, K, D = 2, 3, 5, 7, 11

# Reads a document and its blobs as the page does, and prints rows of weights.
READER = """
import { readFileSync } from "node:fs";
import { Blobs, bytesOf } from "%(static)s/arrays.js";
import { meanRow, readerOf } from "%(static)s/weights.js";
const { document, blobs, wanted } = JSON.parse(readFileSync(0, "utf8"));
const held = new Blobs((n) => bytesOf(blobs[n]));
const found = document.records.map(({ source, shape }) => {
  const reader = readerOf(source, shape, held);
  const [b, h, q, k] = shape;
  const out = [];
  for (let one = 0; one < b; one++) for (let head = 0; head < h; head++) for (let i = 0; i < q; i++) {
    const row = new Float32Array(k);
    reader.row(one, head, i, 0, row);
    if (k > 2) { // a part of a row is that part of the row
      const part = new Float32Array(k - 2);
      reader.row(one, head, i, 1, part);
      if (part.some((x, j) => x !== row[j + 1])) throw new Error("a part differs from its row");
    }
    out.push(...row);
  }
  return { weights: out, cell: reader.cell(b - 1, h - 1, q - 1, 1 %% k) };
});
console.log(JSON.stringify(found));
"""


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def read_by_javascript(document) -> list[dict]:
    """The weights of each record, ``(b,h,q,k)`` with HIDDEN where hidden, as the page computes them."""
    import base64

    blobs = [base64.b64encode(data).decode("ascii") for data in document.blobs]
    given = json.dumps({"document": document.values, "blobs": blobs, "wanted": None})
    result = subprocess.run(
        [needs("node"), "--input-type=module", "-e", READER % {"static": STATIC.as_uri()}],
        input=given, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    for one, record in zip(found, document.values["records"], strict=True):
        one["weights"] = np.array(one["weights"], dtype=np.float64).reshape(record["shape"])
    return found


def recomputed(
    mask=None, bias=None, *, kv_heads=H, score="scaled_dot", seed=0, q=Q, k=K, spread=1.0
) -> AttentionMap:
    torch.manual_seed(seed)
    queries = spread * torch.randn(B, H, q, D)
    keys = spread * torch.randn(B, kv_heads, k, D)
    values = torch.randn(B, kv_heads, k, 4)
    _, seen = regard.attention(queries, keys, values, mask=mask, bias=bias, score=score, return_map=True)
    assert isinstance(seen._source, Recomputed)
    return seen


def record(map: AttentionMap, name: str = "layer", kind: str = "self", **fields) -> Record:
    return Record(name=name, layer=0, kind=kind, map=map, **fields)


def pictured(heads: int = 2, **fields) -> Record:
    """Patches in 3 rows of 4, after a class token."""
    weights = torch.softmax(3 * torch.randn(1, heads, 13, 13, generator=torch.Generator().manual_seed(1)), -1)
    grid = {"query_grid": (3, 4), "key_grid": (3, 4), "query_extra": 1, "key_extra": 1}
    return record(AttentionMap.from_weights(weights), **{"name": "vit"} | grid | fields)


def hidden_of(map: AttentionMap) -> np.ndarray:
    """Which pairs the mask hides, from the map's own mask."""
    source = map._source
    assert isinstance(source, Recomputed)
    if source.mask is None:
        return np.zeros(tuple(map.shape), dtype=bool)
    return np.broadcast_to(~source.mask.dense(source.grid).numpy(), tuple(map.shape))
