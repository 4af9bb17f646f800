"""The exercises, in the order in which they are meant to be done."""

from __future__ import annotations

from regard.learn.bank.batches import BATCHED_ATTENTION
from regard.learn.bank.decoding import BEAM_STEP
from regard.learn.bank.first import SOFTMAX
from regard.learn.bank.heads import MERGE_HEADS, SPLIT_HEADS
from regard.learn.bank.layers import LAYER_NORM, PRE_NORM_BLOCK
from regard.learn.bank.losses import LABEL_SMOOTHING, NEXT_TOKEN_LOSS
from regard.learn.bank.masked import MASKED_ATTENTION, WINDOW_MASK
from regard.learn.bank.masks import CAUSAL_MASK, PADDING_MASK
from regard.learn.bank.multihead import MULTI_HEAD_ATTENTION
from regard.learn.bank.one_query import SCORES
from regard.learn.bank.positions import ROTARY_POSITIONS, SINUSOIDAL_POSITIONS
from regard.learn.bank.projections import CROSS_ATTENTION, SELF_ATTENTION
from regard.learn.bank.scores import ADDITIVE_SCORES, BILINEAR_SCORES
from regard.learn.bank.training import SOFTMAX_GRADIENT, WARMUP
from regard.learn.bank.tutorial import EXERCISE_1, EXERCISE_2, WORKED_EXAMPLE
from regard.learn.exercise import Exercise

__all__ = ["EXERCISES"]

EXERCISES: tuple[Exercise, ...] = (
    SOFTMAX,
    SCORES,
    WORKED_EXAMPLE,
    EXERCISE_1,
    EXERCISE_2,
    BATCHED_ATTENTION,
    ADDITIVE_SCORES,
    BILINEAR_SCORES,
    PADDING_MASK,
    CAUSAL_MASK,
    WINDOW_MASK,
    MASKED_ATTENTION,
    SELF_ATTENTION,
    CROSS_ATTENTION,
    SPLIT_HEADS,
    MERGE_HEADS,
    MULTI_HEAD_ATTENTION,
    SINUSOIDAL_POSITIONS,
    ROTARY_POSITIONS,
    LAYER_NORM,
    PRE_NORM_BLOCK,
    SOFTMAX_GRADIENT,
    NEXT_TOKEN_LOSS,
    LABEL_SMOOTHING,
    WARMUP,
    BEAM_STEP,
)
