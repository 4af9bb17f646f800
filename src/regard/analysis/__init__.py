"""Statistics of attention weights, such as entropy, head similarity, rollout, flow and word alignments.

Every function takes an ``AttentionMap``, an array or tensor of weights, a record of ``regard.capture``, or a
sequence of these with one item for each layer, such as ``outputs.attentions`` of Hugging Face. For a sequence,
the functions of a single map (``entropy``, ``distance``, ``received``, ``sink_mass``, ``alignment_links``) return a
list.

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
from regard.analysis.pieces import as_words, join_pieces
from regard.analysis.words import join_words, merge_tokens, word_spans, words_of_tokens

__all__ = [
    "alignment_links",
    "as_words",
    "bidirectional_links",
    "cluster_heads",
    "diagonal_links",
    "distance",
    "entropy",
    "flow",
    "head_agreement",
    "head_table",
    "join_pieces",
    "join_words",
    "merge_tokens",
    "received",
    "rollout",
    "sink_mass",
    "top_links",
    "word_spans",
    "words_of_tokens",
]
