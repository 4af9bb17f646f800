"""Tests of texts that are cut into pieces for an encoder."""

from __future__ import annotations

import pytest

from regard.errors import ArgumentError
from regard.text import ByteVocabulary, TextPieces

# Puts one special token around a text, at its end.
BYTES = ByteVocabulary()


def test_the_pieces_of_a_text_are_its_tokens_without_overlap():
    data = TextPieces.in_memory(["abcde", "", "f"], BYTES, max_tokens=3)
    assert [BYTES.decode(data.store[i]) for i in range(len(data))] == ["ab", "cd", "e", "f"]
    assert data.lengths().tolist() == [[3], [3], [2], [2]]


@pytest.mark.parametrize("most", [-1, 0, 1])
def test_pieces_without_room_for_a_token_are_refused(most, tmp_path):
    told = f"max_tokens: expected more than the 1 special tokens of a piece, got {most}"
    with pytest.raises(ArgumentError, match=told):
        TextPieces.in_memory(["abc"], BYTES, max_tokens=most)
    with pytest.raises(ArgumentError, match=told):
        TextPieces.build_or_open(lambda: ["abc"], BYTES, tmp_path / "c", max_tokens=most, identity="abc")
    assert not list(tmp_path.iterdir())


def test_a_cache_of_data_without_a_name_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="files: expected files or an identity, got neither"):
        TextPieces.build_or_open(lambda: ["abc"], BYTES, tmp_path / "c", max_tokens=4)
    first = TextPieces.build_or_open(lambda: ["abc"], BYTES, tmp_path / "c", max_tokens=4, identity="abc")
    again = TextPieces.build_or_open(lambda: 1 / 0, BYTES, tmp_path / "c", max_tokens=4, identity="abc")
    assert BYTES.decode(first.store[0]) == BYTES.decode(again.store[0]) == "abc"
