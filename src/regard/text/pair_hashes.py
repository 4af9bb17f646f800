"""A compact set of hashes, for detecting duplicate pairs."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator

from regard.text.bad_rows import Skipped

__all__ = ["Hashes", "deduplicate", "hash_of"]


def hash_of(left: str, right: str) -> int:
    """Return a 64-bit hash of two texts, which is never 0."""
    first = left.encode(errors="surrogatepass")
    # The length prefix marks the end of the first text, since any separator may occur in a text.
    whole = b"%d:%b%b" % (len(first), first, right.encode(errors="surrogatepass"))
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "little") or 1


class Hashes:
    """A set of 64-bit hashes in one array, which takes far less memory than a Python set.

    It is a hash table with linear probing. 0 marks a free slot.
    """

    def __init__(self) -> None:
        self._table = array("Q", [0]) * 1024
        self._count = 0

    def add(self, value: int) -> bool:
        """Add a hash, which must not be 0, and return whether it was new."""
        if 3 * self._count >= 2 * len(self._table):
            self._grow()
        if not _place(self._table, value):
            return False
        self._count += 1
        return True

    def _grow(self) -> None:
        table = array("Q", [0]) * (2 * len(self._table))
        for value in self._table:
            if value:
                _place(table, value)
        self._table = table


def _place(table: array[int], value: int) -> bool:
    mask = len(table) - 1  # the size is a power of two
    slot = value & mask
    while stored := table[slot]:
        if stored == value:
            return False
        slot = (slot + 1) & mask
    table[slot] = value
    return True


def deduplicate(
    pairs: Iterable[tuple[str, str]], skipped: Skipped | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each distinct pair once, at its first place, and count the repetitions in ``skipped``.

    For each pair a hash of 64 bits is stored, in 12 to 24 bytes of memory. Two pairs with one hash count as equal.

    >>> list(deduplicate([("a", "b"), ("a", "c"), ("a", "b")]))
    [('a', 'b'), ('a', 'c')]
    """
    seen = Hashes()
    for pair in pairs:
        if seen.add(hash_of(*pair)):
            yield pair
        elif skipped is not None:
            skipped.duplicates += 1
