"""The logits of starts and ends of answers, of a model that reads question and context apart or as one sequence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.models import TwoWayReader
from regard.models.records import Record
from regard.text.spans import SpanBatch
from regard.text.vocabularies import Vocabulary

__all__ = ["JoinedTokens", "joined_tokens", "span_logits", "span_loss"]


def span_logits(
    model: nn.Module, batch: SpanBatch, vocabulary: Vocabulary, *, records: list[Record] | None = None
) -> tuple[Tensor, Tensor]:
    """Return the logits of the first and of the last token of the answer, ``(b,n)`` each, with -inf at padding.

    The first of the n positions stands for no answer, the others for the tokens of the window.
    """
    if isinstance(model, TwoWayReader):
        return model(
            batch.question,
            batch.question_lengths,
            batch.context,
            batch.context_lengths,
            question_forms=batch.question_forms,
            context_forms=batch.context_forms,
            records=records,
        )
    joined = joined_tokens(batch, vocabulary)
    types = joined.types if model.config.token_types >= 2 else None  # type: ignore[union-attr]
    start, end = model(joined.tokens, joined.lengths, types=types, records=records)  # (b,l) each
    padding = (
        torch.arange(batch.context.shape[1], device=start.device) >= batch.context_lengths[:, None]
    )  # (b,n)
    sides = (side.gather(1, joined.places).masked_fill(padding, -torch.inf) for side in (start, end))
    start, end = sides
    return start, end


class JoinedTokens:
    """Question and context as one sequence with special tokens, and where the positions of the window are in it."""

    def __init__(self, tokens: Tensor, types: Tensor, lengths: Tensor, places: Tensor):
        self.tokens = tokens  # (b,l)
        self.types = types  # (b,l)
        self.lengths = lengths  # (b,)
        self.places = places  # (b,n), the place of no answer and of each token of the window; 0 at padding


def joined_tokens(batch: SpanBatch, vocabulary: Vocabulary) -> JoinedTokens:
    """Join each question and its window as the vocabulary frames pairs of texts, such as [CLS] q [SEP] c [SEP]."""
    framing = vocabulary.framing
    sides = (batch.question, batch.question_lengths, batch.context, batch.context_lengths)
    questions, counts, contexts, sizes = (side.tolist() for side in sides)
    framed = [
        framing.frame(question[:count], context[1:size])
        for question, count, context, size in zip(questions, counts, contexts, sizes, strict=True)
    ]
    device = batch.context.device
    tokens, types, lengths = (part.to(device) for part in framing.pad_batch(framed))
    first = torch.tensor([one.second.start for one in framed if one.second], device=device)  # (b,)
    columns = torch.arange(batch.context.shape[1], device=device)  # (n,)
    places = first[:, None] + columns - 1  # (b,n)
    places[:, 0] = 0
    places = places.masked_fill(columns >= batch.context_lengths[:, None], 0)
    return JoinedTokens(tokens, types, lengths, places)


def span_loss(start: Tensor, end: Tensor, batch: SpanBatch, *, smoothing: float = 0.0) -> Tensor:
    """Return the negative log-likelihood of giving any of the answers, summed over the questions.

    ``start`` and ``end`` are logits ``(b,n)``. A question may have several answers, each of which is right.
    ``smoothing`` is the weight of the mean cross entropy of all positions.
    """
    logs = [side.float().log_softmax(dim=-1) for side in (start, end)]  # (b,n) each
    answers = torch.arange(batch.starts.shape[1], device=start.device)  # (a,)
    found = logs[0].gather(1, batch.starts) + logs[1].gather(1, batch.ends)  # (b,a)
    found = found.masked_fill(answers >= batch.answer_lengths[:, None], -torch.inf)
    loss = -found.logsumexp(dim=1).sum()
    if not smoothing:
        return loss
    real = torch.arange(start.shape[1], device=start.device) < batch.context_lengths[:, None]  # (b,n)
    spread = sum(-(side.masked_fill(~real, 0.0).sum(dim=1) / batch.context_lengths).sum() for side in logs)
    return (1 - smoothing) * loss + smoothing * spread
