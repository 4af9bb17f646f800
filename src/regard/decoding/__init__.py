"""Greedy decoding, beam search and sampling for any model that implements :class:`Decodable`."""

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.sampling import sample
from regard.decoding.search import beam_search, decode
from regard.decoding.streaming import WrittenToken, stream_tokens

__all__ = [
    "Decodable",
    "DecodingOptions",
    "DecodingState",
    "Hypothesis",
    "WrittenToken",
    "beam_search",
    "decode",
    "sample",
    "stream_tokens",
]
