"""``pipeline("question-answering")``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError
from regard.pipelines.base import Pipeline, Result, checked_text, is_dataset, warn_caller
from regard.pipelines.networks import TextNetwork
from regard.pipelines.tokenizer import Tokenizer
from regard.shapes import whole_number
from regard.tasks.answer.search import (
    FoundSpan,
    FoundText,
    add_span,
    log_probabilities,
    most_probable,
    span_scores,
)
from regard.text.questions import Question
from regard.text.spans import overlapping_windows

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.tasks.answer import Answer, Reader
    from regard.text import Framed

__all__ = ["QuestionAnsweringPipeline"]

# Tokens of a question with a part of its context.
LONGEST_INPUT = 384
# Tokens that two neighbouring parts of a context share.
LARGEST_OVERLAP = 128
LONGEST_ANSWER = 15  # tokens


def _question(one: Any) -> Question:
    """Make a question from a dict, or from an object with the attributes of a SquadExample."""
    if isinstance(one, dict):
        if not {"question", "context"} <= set(one):
            raise ArgumentError("inputs", f"expected a dict with 'question' and 'context', got {list(one)}")
        question, context = one["question"], one["context"]
    elif hasattr(one, "question_text") and hasattr(one, "context_text"):
        question, context = one.question_text, one.context_text
    else:
        raise DtypeError("inputs", f"expected a dict with 'question' and 'context', got {one!r}")
    for name, text in (("question", question), ("context", context)):
        if not checked_text(name, text):
            raise ArgumentError(name, "expected a text, got an empty one")
    return Question(question, context)


class QuestionAnsweringPipeline(Pipeline):
    """A pipeline that finds the answer to a question in a text.

    ``top_k`` is the number of answers, and ``max_answer_len`` their greatest length in tokens. A long context is read
    in parts of ``max_seq_len`` tokens, with the question, that overlap in ``doc_stride`` tokens. With
    ``handle_impossible_answer`` the empty answer is one of the answers. ``align_to_words`` extends answers to whole
    words.
    """

    task: ClassVar[str] = "question-answering"
    options: ClassVar[tuple[str, ...]] = (
        *("top_k", "topk", "doc_stride", "max_answer_len", "max_seq_len", "max_question_len"),
        *("handle_impossible_answer", "align_to_words", "padding", "batch_size"),
    )

    def __init__(self, source: Answers, **defaults: Any):
        super().__init__(source.model, source.tokenizer, **defaults)
        self.source = source
        source.check(self.defaults)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Return a dictionary for one answer, or a list of them, as Transformers 4 did.

        The input is ``question=`` and ``context=``, each a text or a list of texts, or a dict of both, or a list or
        iterator of dicts.
        """
        inputs, options = _inputs(args, given)
        merged = self._merged(options)
        self.source.check(merged)
        if "topk" in merged:
            merged["top_k"] = merged.pop("topk")
        if not isinstance(inputs, list):
            return self.many(inputs, merged)
        results = self.run(inputs, merged)
        return results[0] if len(results) == 1 else results

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return the answer, or the answers, to each question."""
        most = whole_number("top_k", options.get("top_k", 1), least=1)
        questions = [_question(one) for one in inputs]
        answered = self.source.answers(questions, most, options)
        return [found[0] if len(found) == 1 else found for found in answered]

    def recording(self, model_input: Any) -> Recording:
        """Return the attention of the model for the part of the context in which an answer was found."""
        return self.source.recording(model_input)


class Answers(Protocol):
    """The methods of a reader that the pipeline calls."""

    @property
    def model(self) -> Any:
        """The model of :mod:`regard.models`."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The special tokens of the model."""
        ...

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError if the reader cannot do what the options ask for."""
        ...

    def answers(self, questions: list[Question], most: int, options: dict[str, Any]) -> list[list[Result]]:
        """Return the best answers to each question."""
        ...

    def recording(self, model_input: Any) -> Recording:
        """Return the attention of the model for the input of a result."""
        ...


@dataclass(frozen=True)
class Part:
    """A question with a part of its context, as a model reads them."""

    question: Question
    framed: Framed
    # The number of context tokens before this part.
    first: int

    def best(self, output: Any, *, most: int, longest: int) -> tuple[list[FoundSpan], float]:
        """Return the most probable spans of this part, and the probability of no answer.

        ``output`` are the logits of all tokens to be the first and the last of the answer. Spans are counted from the
        first token of this part. The first token of the input stands for no answer and takes part in the softmax, if
        it is not one of the context.
        """
        places = self.framed.second
        assert places is not None  # the context is the second text
        nothing = int(places.start > 0)
        kept = [0] * nothing + list(places)
        start, end = (log_probabilities(side.float().cpu().numpy()[kept]) for side in output)  # (1 + n,)
        found = np.exp(span_scores(start[nothing:], end[nothing:], longest))  # (n, length - 1)
        return most_probable(found, most), float(np.exp(start[0] + end[0]))


class HuggingFaceAnswers:
    """A reader from a Hugging Face folder."""

    def __init__(self, network: TextNetwork):
        self.network = network
        self.model, self.tokenizer = network.model, network.tokenizer

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError if the parts of a context would be longer than the model reads."""
        longest = whole_number("max_seq_len", options.get("max_seq_len", 1), least=1)
        if longest > self.network.longest:
            raise ArgumentError(
                "max_seq_len", f"the model reads {self.network.longest} tokens, got {longest}"
            )

    def answers(self, questions: list[Question], most: int, options: dict[str, Any]) -> list[list[Result]]:
        """Return the best answers to each question."""
        parts = [list(self._parts(question, options)) for question in questions]
        outputs = self.network.outputs(
            [part.framed for some in parts for part in some], options.get("batch_size")
        )
        return [self._best(some, [next(outputs) for _ in some], most, options) for some in parts]

    def _parts(self, question: Question, options: dict[str, Any]) -> Iterator[Part]:
        """Cut a context into overlapping parts that fit the model together with the question."""
        vocabulary, given = self.network.vocabulary, options.get
        longest = given("max_seq_len", min(LONGEST_INPUT, self.network.longest))
        overlap = given("doc_stride")
        overlap = min(longest // 2, LARGEST_OVERLAP) if overlap is None else overlap
        asked = vocabulary.encode(question.question)
        if given("max_question_len") is not None:
            asked = asked[: whole_number("max_question_len", options["max_question_len"], least=1)]
        room = longest - len(asked) - vocabulary.framing.added(pair=True)
        if room < 1:
            problem = f"the question has {len(asked)} tokens, and {longest} are read with its context"
            raise ArgumentError("question", problem, "shorten it, or set max_question_len")
        ids = vocabulary.encode(question.context)
        if whole_number("doc_stride", overlap, least=0) >= room and len(ids) > room:
            problem = f"parts of {room} context tokens cannot overlap in {overlap}"
            raise ArgumentError("doc_stride", problem, "make it smaller, or max_seq_len larger")
        for first, last in overlapping_windows(len(ids), room, overlap):
            yield Part(question, self.network.frame(asked, ids[first:last]), first)

    def _best(
        self, parts: list[Part], outputs: list[Any], most: int, options: dict[str, Any]
    ) -> list[Result]:
        aligned = options.get("align_to_words", True)
        nothing = bool(options.get("handle_impossible_answer"))
        question = parts[0].question
        spans = self.network.token_spans(question.context, words=aligned)
        longest = whole_number("max_answer_len", options.get("max_answer_len", LONGEST_ANSWER), least=1)
        # Some spans become the same answer when they are extended to words.
        candidates = 2 * most + 10 if aligned else most
        found: dict[str, FoundText] = {}
        empty: list[tuple[float, Framed]] = []
        for part, output in zip(parts, outputs, strict=True):
            best, no_answer = part.best(output, most=candidates, longest=longest)
            empty.append((no_answer, part.framed))
            for first, last, score in best:
                span = spans[part.first + first][0], spans[part.first + last][1]
                add_span(found, question.context[slice(*span)].lower(), span, score, part.framed)
        results = [
            _answer(question, one.start, one.end, one.confidence, one.window) for one in found.values()
        ]
        if nothing:
            score, framed = min(empty, key=lambda pair: pair[0])
            results.append(_answer(question, 0, 0, score, framed))
        return sorted(results, key=lambda one: -one["score"])[:most]

    def recording(self, model_input: Framed) -> Recording:
        """Return the attention of the model for a question with a part of its context."""
        return self.network.recording(model_input)


def _answer(question: Question, start: int, end: int, score: float, framed: Framed | None) -> Result:
    values = {"score": score, "start": start, "end": end, "answer": question.context[start:end]}
    return Result(values, question, framed)


class RegardAnswers:
    """A reader of ``regard train answer``."""

    fixed: ClassVar[tuple[str, ...]] = ("doc_stride", "max_seq_len", "max_question_len", "align_to_words")

    def __init__(self, reader: Reader):
        self.reader = reader
        self.model = reader.model
        self.tokenizer = Tokenizer.of(reader.vocabulary, longest=reader.windows.max_tokens)

    def check(self, options: dict[str, Any]) -> None:
        """Raise ArgumentError for an option whose value the reader was trained with."""
        for name in self.fixed:
            if name in options:
                problem = "a reader of Regard uses the value it was trained with"
                raise ArgumentError(name, problem, "leave it out")
        whole_number("max_answer_len", options.get("max_answer_len", 1), least=1)

    def answers(self, questions: list[Question], most: int, options: dict[str, Any]) -> list[list[Result]]:
        """Return the best answers to each question."""
        pairs = [(one.question, one.context) for one in questions]
        reader = self._with_longest_answer(options.get("max_answer_len"))
        answers = reader.answer(pairs, top=most, threshold=0.0, batch_size=options.get("batch_size"))
        cut = sum(answer.cut_off for answer in answers)
        if cut:
            most_tokens = reader.windows.most_question
            problem = f"question: {cut} of {len(pairs)} have more than the {most_tokens} tokens that the model reads"
            warn_caller(f"{problem}, and the rest is left out: shorten them")
        nothing = bool(options.get("handle_impossible_answer"))
        return [
            _results(answer, question, most, nothing)
            for answer, question in zip(answers, questions, strict=True)
        ]

    def _with_longest_answer(self, tokens: int | None) -> Reader:
        """Return the reader, whose answers have at most some ``tokens``."""
        if tokens is None:
            return self.reader
        extra = {**self.reader.extra, "max_answer": tokens}
        return type(self.reader)(self.reader.model, self.reader.vocabulary, extra)

    def recording(self, model_input: Answer) -> Recording:
        """Return the attention of the model for the window of the first candidate of an answer."""
        return self.reader.attention(model_input)


def _results(answer: Answer, question: Question, most: int, nothing: bool) -> list[Result]:
    """Return the candidates of an answer, with the empty answer if ``nothing`` is True.

    The attention of the empty answer is that in the window of the most probable candidate.
    """
    results = [
        Result(
            {"score": one.confidence, "start": one.start, "end": one.end, "answer": one.text},
            question,
            replace(answer, candidates=(one,)),
        )
        for one in answer.candidates
    ]
    if nothing:
        empty = {"score": answer.no_answer, "start": 0, "end": 0, "answer": ""}
        results.append(Result(empty, question, answer))
    return sorted(results, key=lambda one: -one["score"])[:most]


def _inputs(args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the questions of a call, as a list or an iterator, and its options."""
    options = {
        name: value for name, value in given.items() if name not in ("question", "context", "data", "X")
    }
    if len(args) == 2 and all(isinstance(text, str) for text in args):
        return [{"question": args[0], "context": args[1]}], options
    if len(args) > 1:
        return list(args), options
    if args or "data" in given or "X" in given:
        inputs = args[0] if args else given.get("data", given.get("X"))
        if isinstance(inputs, Iterator) or is_dataset(inputs):
            return inputs, options
        return (list(inputs) if isinstance(inputs, list | tuple) else [inputs]), options
    if "question" not in given or "context" not in given:
        shown = ", ".join(given) or "nothing"
        raise UnknownArgumentError("question", f"expected question= and context=, got {shown}")
    return _paired(given["question"], given["context"]), options


def _paired(question: Any, context: Any) -> list[dict[str, Any]]:
    """Pair questions with contexts. One context serves several questions."""
    questions = list(question) if isinstance(question, list | tuple) else [question]
    contexts = list(context) if isinstance(context, list | tuple) else [context] * len(questions)
    if len(questions) != len(contexts):
        problem = f"{len(questions)} questions and {len(contexts)} contexts"
        raise ArgumentError("context", problem, "give one context, or one for each question")
    return [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
