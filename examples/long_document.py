"""Attention over a long document with a sliding window and global tokens, without the matrix of all pairs.

python examples/long_document.py [TOKENS]
"""

import sys
import time

import torch

from regard import attention, global_tokens, window

n = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
torch.manual_seed(0)
q, k, v = (torch.randn(1, 4, n, 32) for _ in range(3))  # (b,h,n,d)
# Each token sees 128 tokens before and after it, and the first token, which sees all.
mask = window(128, 128) | global_tokens([0])

for name, chosen in (("all pairs", None), ("window", mask)):
    attention(q, k, v, mask=chosen)  # the first call may compile the kernel
    began = time.perf_counter()
    output, weights = attention(q, k, v, mask=chosen, return_map=True)
    print(f"{name}: {1000 * (time.perf_counter() - began):.1f} ms for {n} tokens")

# The map computes only what is read: here one row of each head, and the strongest keys of one query.
row = weights[0, :, n // 2]  # (h,k)
print(f"query {n // 2} sees {int((row[0] > 0).sum())} of {n} keys")
values, places = weights.select(heads=0).topk(3)
print("its strongest keys:", places[0, 0, n // 2].tolist(), values[0, 0, n // 2].tolist())
