"""A set of hashes in little memory, to know which pairs came before."""

from __future__ import annotations

import hashlib
from array import array

__all__ = ["Hashes", "hash_of"]


def hash_of(left: str, right: str) -> int:
    """64 bits of both texts; never 0, which marks a free place below."""
    first = left.encode(errors="surrogatepass")
    # The length says where the first ends: any character may occur in either.
    whole = b"%d:%b%b" % (len(first), first, right.encode(errors="surrogatepass"))
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "little") or 1


class Hashes:
    """A set of 64-bit hashes in one array: a set of Python's would take 100 bytes for each."""

    def __init__(self) -> None:
        self._table = array("Q", [0]) * 1024
        self._count = 0

    def add(self, value: int) -> bool:
        """Whether it is new."""
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
    mask = len(table) - 1  # a power of two
    at = value & mask
    while found := table[at]:
        if found == value:
            return False
        at = (at + 1) & mask
    table[at] = value
    return True
