"""``pipeline.attention(result)`` shows the tokens that the model read for that very result."""

import pytest
import torch

import regard
from regard.errors import ArgumentError
from regard.tasks.answer import Answer
from regard.tasks.answer.reader import Candidate
from regard.text.questions import Question
from regard.text.spans import encode_questions

CONTEXT = "The cat sat on a mat. The dog ran in the new house, not very great. "


def shown_tokens(pipe, result):
    return pipe.attention(result)[0].key_tokens[0]


def test_each_answer_shows_the_part_of_the_context_in_which_it_was_found(made):
    pipe = made("question-answering")
    context = CONTEXT * 10
    answers = pipe(question="who sat?", context=context, max_seq_len=20, doc_stride=4, top_k=5)
    network = pipe.source.network
    numbers = network.vocabulary.encode(context)
    starts = [start for start, _ in network.vocabulary.spans(context)]
    parts = set()
    for answer in answers:
        read = shown_tokens(pipe, answer)
        assert len(read) <= 20
        part = read[read.index("[SEP]") + 1 : -1]
        pieces = network.vocabulary.pieces(numbers)
        places = [n for n in range(len(pieces)) if pieces[n : n + len(part)] == part]
        first = starts.index(answer["start"])
        last = max(n for n, start in enumerate(starts) if start < answer["end"])
        assert any(place <= first and last < place + len(part) for place in places)
        parts.add(tuple(part))
    assert len(parts) > 1


def test_the_part_of_an_answer_gives_its_score(made):
    """A text without repeated words, so that no scores are added. The part alone has the score of the result."""
    pipe = made("question-answering")
    options = {"align_to_words": False, "max_answer_len": 2, "top_k": 4}
    context = " ".join("abcdefghijklmnopqrstuvwxyz")
    answers = pipe(question="who?", context=context, max_seq_len=14, doc_stride=0, **options)
    for answer in answers:
        framed = answer.model_input
        start, end = next(iter(pipe.source.network.outputs([framed])))
        kept = [0, *framed.second]
        shares = torch.outer(start[kept].softmax(0), end[kept].softmax(0)).triu().tril(1)
        assert float((shares - answer["score"]).abs().min()) < 1e-6


def test_the_empty_answer_shows_the_part_that_gives_its_score(made):
    pipe = made("question-answering")
    options = {"handle_impossible_answer": True, "max_seq_len": 20, "doc_stride": 4, "top_k": 5000}
    answers = pipe(question="who sat?", context=CONTEXT * 5, **options)
    (empty,) = [answer for answer in answers if not answer["answer"]]
    framed = empty.model_input
    start, end = next(iter(pipe.source.network.outputs([framed])))
    kept = [0, *framed.second]
    assert float(start[kept].softmax(0)[0] * end[kept].softmax(0)[0]) == pytest.approx(
        empty["score"], rel=1e-4
    )
    assert len(shown_tokens(pipe, empty)) <= 20


def test_the_question_is_cut_in_the_attention_as_in_the_call(made):
    pipe = made("question-answering", max_question_len=2)
    answer = pipe(question="who is the dog ?", context=CONTEXT)
    assert shown_tokens(pipe, answer)[:4] == ["[CLS]", "who", "is", "[SEP]"]


def test_the_answers_of_the_shipped_reader_show_their_windows():
    pipe = regard.pipeline("question-answering", device="cpu")
    filler = "The weather was calm and nothing happened that day in the small town near the river. " * 40
    context = f"Anna Berg built the lighthouse in 1874. {filler}Tom Hale built the second lighthouse in 1902."
    answers = pipe(question="Who built the lighthouse?", context=context, top_k=3)
    assert {answer["answer"] for answer in answers} >= {"Anna Berg", "Tom Hale"}
    for answer in answers:
        record = pipe.attention(answer)[-1]
        assert record.key_tokens is not None
        tokens = record.key_tokens[0]
        assert answer["answer"].replace(" ", "").lower() in "".join(tokens).replace(" ", "")
        assert ("tom" in tokens) == (answer["start"] > 1000)


def test_a_short_last_window_is_not_shown_for_an_answer_that_begins_before_it(reader):
    pipe = regard.pipeline("question-answering", reader, device="cpu")
    model = pipe.source.reader
    context = " ".join(f"n{number}" for number in range(1000, 1390))
    (whole,) = encode_questions([Question("Who sat?", context)], model.vocabulary, model.windows)
    assert len(whole.windows) > 1
    (_, end), (start, _) = whole.windows[-2:]
    a, b = whole.spans[start - 1][0], whole.spans[end - 1][1]
    answer = Answer("Who sat?", context, (Candidate(context[a:b], a, b, 1.0),))
    (record,) = [record for record in pipe.recording(answer) if record.name == "to_context"]
    assert record.key_tokens is not None
    assert context[a:b].replace(" ", "") in "".join(record.key_tokens[0][1:]).replace(" ", "")


@pytest.mark.parametrize(
    "options",
    [
        {"truncation": True, "tokenize_kwargs": {"max_length": 4}},
        {"max_length": 4},
        {"max_length": 4, "return_tensors": True},
    ],
)
def test_features_show_as_many_tokens_as_they_have_states(made, options):
    pipe = made("feature-extraction")
    states = pipe("the cat sat on a mat", **options)
    assert len(states[0]) == 4
    assert pipe.attention(states)[0].map.shape == (1, 4, 4, 4)
    assert shown_tokens(pipe, states) == ["[CLS]", "the", "cat", "[SEP]"]


def test_tensors_of_features_show_their_own_texts(made):
    pipe = made("feature-extraction")
    first, second = pipe(["the cat", "a dog ran"], return_tensors=True)
    assert shown_tokens(pipe, first) == ["[CLS]", "the", "cat", "[SEP]"]
    assert shown_tokens(pipe, second) == ["[CLS]", "a", "dog", "ran", "[SEP]"]
    with pytest.raises(ArgumentError, match="several inputs"):
        pipe.attention([first, second])
    with pytest.raises(ArgumentError, match="result of this pipeline, got Tensor"):
        pipe.attention(first + 0)


def test_masks_show_the_tokens_that_truncation_left(made):
    pipe = made("fill-mask")
    words = pipe("the [MASK] sat on a mat", tokenizer_kwargs={"truncation": True, "max_length": 5})
    assert shown_tokens(pipe, words) == ["[CLS]", "the", "[MASK]", "sat", "[SEP]"]


def test_classes_show_the_tokens_that_truncation_left(made):
    pipe = made("text-classification")
    labels = pipe("the cat sat on a mat", truncation=True, max_length=4)
    assert shown_tokens(pipe, labels) == ["[CLS]", "the", "cat", "[SEP]"]
