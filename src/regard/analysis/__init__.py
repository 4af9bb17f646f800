"""Statistics of attention weights, such as entropy, head similarity, rollout, flow and word alignments.

Every function takes an ``AttentionMap``, an array or tensor of weights, a record of ``regard.capture``, or a
sequence of these with one item for each layer, such as ``outputs.attentions`` of Hugging Face. For a sequence,
the functions of a single map (``entropy``, ``distance``, ``received``, ``sink_mass``, ``alignment_links``) return a
list.

``class_token_map``, ``pooling_map``, ``patch_map`` and ``image_rollout`` take records of a vision model, which know the
grid of the patches, and return numbers on that grid.

Means leave out fully masked queries, and padding queries if the map has its mask.
"""

from regard.analysis.alignment import alignment_links, bidirectional_links, diagonal_links
from regard.analysis.flow import flow, rollout
from regard.analysis.heads import (
    cluster_heads,
    distance,
    entropy,
    head_agreement,
    head_table,
    received,
    sink_mass,
    top_links,
)
from regard.analysis.images import class_token_map, image_rollout, patch_map, pooling_map, to_pixels
from regard.analysis.pieces import as_words, join_pieces
from regard.analysis.words import join_words, merge_tokens, word_spans, words_of_tokens

__all__ = [
    "alignment_links",
    "as_words",
    "bidirectional_links",
    "class_token_map",
    "cluster_heads",
    "diagonal_links",
    "distance",
    "entropy",
    "flow",
    "head_agreement",
    "head_table",
    "image_rollout",
    "join_pieces",
    "join_words",
    "merge_tokens",
    "patch_map",
    "pooling_map",
    "received",
    "rollout",
    "sink_mass",
    "to_pixels",
    "top_links",
    "word_spans",
    "words_of_tokens",
]
