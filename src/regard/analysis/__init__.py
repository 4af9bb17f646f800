"""What attention says, as numbers: how wide a head looks, what heads do alike, where information came from.

Everything takes what attention comes in: an ``AttentionMap``, an array or a tensor of weights, a record of
``regard.capture``, or a sequence of these, one for each layer (Hugging Face's ``outputs.attentions`` too). Of
these, what looks at one map at a time (``entropy``, ``distance``, ``received``, ``sink_mass``, ``alignment_links``)
gives a list.

Means leave out the queries that see nothing, and padding where the map has its mask.
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
from regard.analysis.words import merge_tokens, word_spans, words_of_tokens

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
    "merge_tokens",
    "received",
    "rollout",
    "sink_mass",
    "top_links",
    "word_spans",
    "words_of_tokens",
]
