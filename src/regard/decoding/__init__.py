"""Decoding: greedy, beam search and sampling, one implementation for every model."""

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.options import DecodingOptions
from regard.decoding.protocol import Decodable, DecodingState
from regard.decoding.sampling import sample
from regard.decoding.search import beam_search, decode

__all__ = ["Decodable", "DecodingOptions", "DecodingState", "Hypothesis", "beam_search", "decode", "sample"]
