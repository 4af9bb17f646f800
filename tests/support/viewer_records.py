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
from regard.positions import ALiBi, RelativeBias
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
    """Return the pairs that the mask of a map hides."""
    source = map._source
    assert isinstance(source, Recomputed)
    if source.mask is None:
        return np.zeros(tuple(map.shape), dtype=bool)
    return np.broadcast_to(~source.mask.dense(source.grid).numpy(), tuple(map.shape))


def run_javascript(source: str, given: object = None):
    """Run a JavaScript module with the input ``given`` and return the JSON that it prints."""
    result = subprocess.run(
        [needs("node"), "--input-type=module", "-e", source.replace("STATIC", STATIC.as_uri())],
        input=json.dumps(given), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


READ = 'import { readFileSync } from "node:fs"; const given = JSON.parse(readFileSync(0, "utf8"));\n'


def masks():
    torch.manual_seed(1)
    keep = torch.rand(B, H, Q, K) > 0.3
    keep[0, 0, 2] = False  # a row that sees nothing
    layout = torch.tensor([[[1, 0, 1], [0, 1, 1], [1, 1, 0]]] * H)
    layout[1] = torch.eye(3, dtype=torch.long)
    return {
        "none": None,
        "causal": regard.causal(),
        "causal with an offset": regard.causal(1),
        "causal with offsets": regard.causal(torch.tensor([0, 3])),
        "window": regard.window(2, 1),
        "window open to the left": regard.window(None, 1),
        "lengths": regard.padding([7, 4]),
        "marks": regard.padding(torch.tensor([[1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 1, 1, 0]])),
        "global": regard.window(1, 0) | regard.global_tokens([0, 4]),
        "blocks": regard.blocks(layout, size=(2, 3)),
        "not": ~regard.window(1, 1),
        "and": regard.causal() & regard.padding([7, 4]),
        "dense": keep,
        "dense of two axes": torch.ones(Q, K).tril(1).bool(),
        "dense of three axes": torch.rand(B, Q, K) > 0.4,
        "of keys": torch.rand(B, 1, 1, K) > 0.4,
    }


MASKS = masks()


def biases():
    torch.manual_seed(2)
    relative = RelativeBias(heads=H, buckets=8, max_distance=16)
    torch.nn.init.normal_(relative.table.weight)
    toeplitz = torch.randn(H, Q + K - 1)
    places = torch.arange(K)[None, :] - torch.arange(Q)[:, None] + Q - 1
    return {
        "alibi": (ALiBi(heads=H), "distance"),
        "relative": (relative, "distance"),
        "by distance": (toeplitz[:, places][None], "distance"),
        "dense": (torch.randn(B, H, Q, K), "dense"),
        "of keys": (torch.randn(B, H, 1, K), "dense"),
        "huge": (torch.where(torch.rand(B, 1, Q, K) > 0.6, -3e38, 0.5), "dense"),
    }


BIASES = biases()


WORDS = ["The", "cat", "sat", "on", "the", "warm", "mat"]


def maps(n=7, layers=2, heads=H, mask=None, k=None):
    torch.manual_seed(0)
    found = []
    for _ in range(layers):
        q, keys = torch.randn(1, heads, n, 8), torch.randn(1, heads, k or n, 8)
        values = torch.randn(1, heads, k or n, 2)
        found.append(regard.attention(q, keys, values, mask=mask, return_map=True)[1])
    return found


def causal_records():
    return [
        record(map, f"layers.{n}.attention", "causal", query_tokens=[WORDS])
        for n, map in enumerate(maps(mask=regard.causal()))
    ]
