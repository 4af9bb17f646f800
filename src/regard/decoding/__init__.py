"""Greedy decoding, beam search and sampling for any model that implements :class:`Decodable`."""

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.sampling import sample
from regard.decoding.search import beam_search, decode

__all__ = ["Decodable", "DecodingOptions", "DecodingState", "Hypothesis", "beam_search", "decode", "sample"]
