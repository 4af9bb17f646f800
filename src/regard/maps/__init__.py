"""AttentionMap, which computes attention weights on demand instead of storing the (q,k) matrix."""

from regard.maps.attention_map import AttentionMap, TopK
from regard.maps.patch_grids import PatchGrid, PictureLayout
from regard.maps.picture_maps import PictureMap
from regard.maps.records import Record
from regard.maps.sources import Recomputed

__all__ = ["AttentionMap", "PatchGrid", "PictureLayout", "PictureMap", "Recomputed", "Record", "TopK"]
