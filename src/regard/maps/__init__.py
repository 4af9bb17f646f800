"""Attention weights as a map that is computed where it is looked at, not as a matrix that is stored."""

from regard.maps.attention_map import AttentionMap, TopK
from regard.maps.records import Record
from regard.maps.sources import Recomputed

__all__ = ["AttentionMap", "Recomputed", "Record", "TopK"]
