"""Samples that depend on a seed and on the texts alone, not on their order."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable, Container, Iterable
from typing import TypeVar

__all__ = ["held_out_keys", "in_test_part", "last_keys", "reservoir", "sample"]

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
    # A heap of the keys taken, the one with the largest hash first.
    largest: list[tuple[int, str]] = []
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


def held_out_keys(
    keys: Iterable[str], *, share: float, most: int, seed: int, kept: Container[str] = ()
) -> set[str]:
    """Choose keys to hold out, at most ``most`` of them and with at most a ``share`` of all rows.

    ``keys`` has the key of each row. All rows with the same key are on the same side. The keys with the smallest
    hashes are chosen, without those in ``kept`` and without a key that has more rows than may still be held out. If
    none is left, the key with the fewest rows is chosen. The result is empty if every key is in ``kept``.

    >>> sorted(held_out_keys(map(str, range(100)), share=0.03, most=50, seed=0), key=int)
    ['14', '15', '20']
    >>> len(held_out_keys(map(str, [*range(10)] * 10), share=0.3, most=50, seed=0))
    3
    """
    count = 0
    smallest: list[tuple[int, str]] = []  # a heap, the largest hash first
    rows: dict[str, int] = {}  # by the keys in the heap
    for key in keys:
        count += 1
        if key in rows:
            rows[key] += 1
            continue
        entry = (-_hash(seed, key), key)
        if len(smallest) < most:
            heapq.heappush(smallest, entry)
            rows[key] = 1
        elif entry > smallest[0]:
            del rows[heapq.heapreplace(smallest, entry)[1]]
            rows[key] = 1
    free = int(share * count)
    by_hash = [key for _, key in heapq.nlargest(len(smallest), smallest)]
    held: set[str] = set()
    for key in by_hash[: max(1, free)]:
        if key not in kept and rows[key] <= free:
            held.add(key)
            free -= rows[key]
    others = [key for key in by_hash if key not in kept]
    return held or set(sorted(others, key=rows.__getitem__)[:1])


def in_test_part(key: str, share: float, seed: int) -> bool:
    """Return whether a key is one of the ``share`` of all keys that are kept for a test.

    It depends on the key, the share and the seed alone, so no list of these keys is needed.

    >>> [number for number in range(100) if in_test_part(str(number), 0.03, seed=0)]
    [18, 38, 59, 74, 76]
    """
    return _hash(seed, f"test {key}") < share * 2**64


def last_keys(rows: Iterable[tuple[str, str]], seed: int) -> dict[str, str]:
    """Return the key with the largest hash of each class, for rows of (key, class).

    :func:`held_out_keys` chooses this key only if it chooses every key of the class.

    >>> last_keys([("14", "a"), ("3", "a"), ("15", "b")], seed=0)
    {'a': '3', 'b': '15'}
    """
    last: dict[str, tuple[int, str]] = {}
    for key, name in rows:
        entry = (_hash(seed, key), key)
        if name not in last or entry > last[name]:
            last[name] = entry
    return {name: key for name, (_, key) in last.items()}


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
