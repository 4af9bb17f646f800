"""Samples that depend on a seed and on the texts alone, not on their order."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["held_out_keys", "reservoir", "sample"]

_Item = TypeVar("_Item")


def sample(items: Iterable[_Item], limit: int, seed: int, key: Callable[[_Item], str] = str) -> list[_Item]:
    """Take the items of ``limit`` keys, with all items of each key, in their order.

    The keys that are taken depend on the seed and on the keys alone. Files are often sorted, so that their first part
    is not like the rest. A limit of 0 takes every key. Only the items taken are held in memory.

    >>> sample(range(100), 3, seed=0), sample(range(100), 3, seed=1)
    ([14, 15, 20], [5, 30, 47])
    """
    if not limit:
        return list(items)
    taken: dict[str, list[tuple[int, _Item]]] = {}
    largest: list[tuple[int, str]] = []  # a heap of the keys taken, the one with the largest hash first
    for place, item in enumerate(items):
        name = key(item)
        if name not in taken:
            entry = (-_hash(seed, name), name)
            if len(largest) == limit:
                dropped = heapq.heappushpop(largest, entry)[1]
                if dropped == name:
                    continue
                del taken[dropped]
            else:
                heapq.heappush(largest, entry)
            taken[name] = []
        taken[name].append((place, item))
    kept = (one for several in taken.values() for one in several)
    return [item for _, item in sorted(kept, key=lambda pair: pair[0])]


def held_out_keys(keys: Iterable[str], *, share: float, most: int, seed: int) -> set[str]:
    """Choose keys to hold out, at least one, at most ``most`` and at most a ``share`` of all keys.

    The keys with the smallest hashes are chosen, so all rows with the same text are on the same side.

    >>> sorted(held_out_keys(map(str, range(100)), share=0.03, most=50, seed=0), key=int)
    ['14', '15', '20']
    """
    count = 0
    smallest: list[tuple[int, str]] = []  # a heap, the largest hash first
    held: set[str] = set()
    for key in keys:
        count += 1
        if key in held:
            continue
        entry = (-_hash(seed, key), key)
        if len(smallest) < most:
            heapq.heappush(smallest, entry)
            held.add(key)
        elif entry > smallest[0]:
            held.add(key)
            held.discard(heapq.heapreplace(smallest, entry)[1])
    wanted = max(1, min(most, int(share * count)))
    return {key for _, key in heapq.nlargest(wanted, smallest)}


def reservoir(items: Iterable[_Item], most: int, seed: int) -> list[_Item]:
    """Return all items, or a random ``most`` of them, each with the same probability."""
    chance = random.Random(seed)
    kept: list[_Item] = []
    for number, item in enumerate(items):
        if number < most:
            kept.append(item)
        elif (place := chance.randrange(number + 1)) < most:
            kept[place] = item
    return kept


def _hash(seed: int, key: str) -> int:
    digest = hashlib.blake2b(f"{seed} {key}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
