"""Attention, bad input and models of pipelines."""

import numpy as np
import pytest
import torch

import regard
from regard.errors import ArgumentError, DtypeError, FileError, UnknownArgumentError, UnknownNameError
from regard.models import SpanReader, load_huggingface
from support.pipeline_folders import write_folder

CONTEXT = "The cat sat on a mat. The dog ran in the new house, not very great."


def weights_of(recording):
    return recording[0].map.weights()[0]


def test_the_attention_of_a_result_is_that_of_its_input(made):
    pipe = made("text-classification")
    first, second = pipe(["the cat sat", "a dog"])
    seen = pipe.attention(second)
    assert len(seen) == 2
    assert seen[0].key_tokens == [["[CLS]", "a", "dog", "[SEP]"]]
    assert pipe.attention(first)[0].map.shape[-1] == 5
    assert torch.equal(weights_of(pipe.attention(pipe("a dog"))), weights_of(seen))


def test_every_pipeline_gives_the_attention_of_its_results(made):
    pair = made("text-classification")({"text": "the cat", "text_pair": "a dog"})
    assert made("text-classification").attention(pair)[0].key_tokens[0].count("[SEP]") == 2
    answers = made("question-answering")(question="who sat?", context=CONTEXT, top_k=3)
    shown = made("question-answering").attention(answers)[0].key_tokens[0]
    assert shown[:5] == ["[CLS]", "who", "sat", "?", "[SEP]"]
    assert "mat" in shown
    masks = made("fill-mask")("the [MASK] sat [MASK]")
    assert made("fill-mask").attention(masks)[0].key_tokens[0].count("[MASK]") == 2
    features = made("feature-extraction")("a dog")
    assert made("feature-extraction").attention(features)[1].query_tokens == [["[CLS]", "a", "dog", "[SEP]"]]


def test_the_attention_of_a_long_context_is_that_of_the_part_with_the_answer(made):
    pipe = made("question-answering")
    answer = pipe(question="who sat?", context=CONTEXT * 20)
    shown = pipe.attention(answer)[0].key_tokens[0]
    assert len(shown) <= 64
    words = answer["answer"].lower().replace(",", " ,").replace(".", " .").split()
    assert all(word in shown for word in words)


def test_attention_refuses_what_is_not_one_result(made):
    pipe = made("text-classification")
    with pytest.raises(ArgumentError, match="result of this pipeline"):
        pipe.attention({"label": "POS", "score": 1.0})
    with pytest.raises(ArgumentError, match="several inputs"):
        pipe.attention(pipe(["the cat", "a dog"]))


def test_answers_come_from_the_logits_of_the_model(made, tmp_path):
    """Compare with a search over all spans of the model's own output, in one part without alignment."""
    folder = write_folder(tmp_path / "qa", "question-answering")
    pipe = regard.pipeline("question-answering", folder, device="cpu")
    found = pipe(question="who sat?", context=CONTEXT, align_to_words=False, max_answer_len=4)
    network = pipe.source.network
    asked, ids = (network.vocabulary.encode(text) for text in ("who sat?", CONTEXT))
    framed = network.vocabulary.framing.frame(asked, ids)
    model = load_huggingface(folder, SpanReader)
    with torch.no_grad():
        start, end = model(torch.tensor([framed.ids]), types=torch.tensor([framed.types]))
    kept = [0, *framed.second]
    begins, ends = start[0, kept].softmax(0).tolist(), end[0, kept].softmax(0).tolist()
    best = max(
        (begins[a] * ends[b], a, b) for a in range(1, len(kept)) for b in range(a, min(a + 4, len(kept)))
    )
    spans = network.vocabulary.spans(CONTEXT)
    assert found["score"] == pytest.approx(best[0], abs=1e-6)
    assert (found["start"], found["end"]) == (spans[best[1] - 1][0], spans[best[2] - 1][1])


@pytest.mark.parametrize("task", ["text-classification", "fill-mask", "feature-extraction"])
def test_batches_and_iterators_give_the_same_as_single_texts(made, task):
    texts = ["the [MASK] sat on a mat", "a [MASK]", "who is the [MASK]?"]
    pipe = made(task)
    single = [pipe([text])[0] if task == "text-classification" else pipe(text) for text in texts]
    iterated = list(pipe(text for text in texts))
    batched = pipe(texts, batch_size=3)
    if task == "feature-extraction":
        for one, other in zip(single, batched, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
    else:
        assert [_labels(one) for one in batched] == [_labels(one) for one in single]
    assert iterated == single


def _labels(result):
    results = result if isinstance(result, list) else [result]
    return [one.get("label", one.get("token")) for one in results]


def test_features_are_tensors_if_asked(made):
    pipe = made("feature-extraction")
    tensor = pipe("a dog", return_tensors=True)
    assert tensor.shape == (1, 4, 32)
    assert pipe("a dog")[0][1] == pytest.approx(tensor[0, 1].tolist())


def test_a_length_alone_truncates(made):
    pipe = made("feature-extraction")
    assert len(pipe("the cat sat on a mat", max_length=4)[0]) == 4
    assert len(pipe("the cat sat on a mat", truncation=False)[0]) == 8


BAD = [
    ("text-classification", ("the cat",), {"topk": 2}, UnknownArgumentError, "did you mean 'top_k'"),
    ("text-classification", ("the cat",), {"top_k": 0}, ArgumentError, "top_k"),
    ("text-classification", ("the cat",), {"function_to_apply": "tanh"}, UnknownNameError, "softmax"),
    ("text-classification", ([3],), {}, DtypeError, "expected a text"),
    ("text-classification", ({"txt": "a"},), {}, ArgumentError, "'text'"),
    ("text-classification", ("the cat " * 60,), {}, ArgumentError, "truncation=True"),
    ("text-classification", ("a",), {"truncation": "only_first"}, ArgumentError, "truncation"),
    ("feature-extraction", (None,), {}, DtypeError, "expected a text"),
    ("feature-extraction", ("a",), {"tokenize_kwargs": {"stride": 3}}, UnknownArgumentError, "stride"),
    ("feature-extraction", ("a",), {"tokenize_kwargs": {"padding": "max_length"}}, ArgumentError, "padding"),
    ("fill-mask", ("the cat",), {}, ArgumentError, r"\[MASK\]"),
    (
        "fill-mask",
        ("the cat " * 60 + "[MASK]",),
        {"tokenizer_kwargs": {"truncation": True}},
        ArgumentError,
        "trunc",
    ),
    ("fill-mask", ("the [MASK]",), {"targets": []}, ArgumentError, "targets"),
    ("question-answering", (), {}, UnknownArgumentError, "question= and context="),
    ("question-answering", (), {"question": "", "context": "a"}, ArgumentError, "question: .*empty"),
    ("question-answering", (), {"question": "a", "context": ""}, ArgumentError, "context: .*empty"),
    (
        "question-answering",
        (),
        {"question": ["a", "b"], "context": ["a"]},
        ArgumentError,
        "2 questions and 1",
    ),
    ("question-answering", (), {"question": "a", "context": "a", "top_k": 0}, ArgumentError, "top_k"),
    (
        "question-answering",
        (),
        {"question": "a", "context": "a", "max_answer_len": 0},
        ArgumentError,
        "max_answer_len",
    ),
    (
        "question-answering",
        (),
        {"question": "a", "context": "a", "max_seq_len": 100},
        ArgumentError,
        "reads 64",
    ),
    (
        "question-answering",
        (),
        {"question": "a", "context": "a " * 90, "max_seq_len": 20, "doc_stride": 17},
        ArgumentError,
        "doc_stride",
    ),
    ("question-answering", ("who?",), {}, DtypeError, "expected a dict"),
]


@pytest.mark.parametrize(("task", "args", "given", "error", "words"), BAD)
def test_bad_input_is_refused_with_a_reason(made, task, args, given, error, words):
    with pytest.raises(error, match=words):
        made(task)(*args, **given)


def test_a_name_for_several_pipelines_is_answered_with_their_names():
    with pytest.raises(
        ArgumentError, match="use 'summarization', or 'translation_en_to_fr' or other languages"
    ) as raised:
        regard.pipeline("text2text-generation")
    assert "did you mean" not in str(raised.value)
    assert [regard.pipeline(name).task for name in ("summarization", "translation_en_to_fr")] == [
        "summarization",
        "translation",
    ]


def test_a_question_that_fills_the_model_is_refused(made):
    with pytest.raises(ArgumentError, match="question"):
        made("question-answering")(question="cat " * 80, context=CONTEXT)


def test_unknown_targets_are_replaced_with_a_warning(made):
    with pytest.warns(UserWarning, match="'zzz' is not in the vocabulary, 'z' is used"):
        found = made("fill-mask")("the [MASK] sat", targets=["zzz"])
    assert found[0]["token_str"] == "z"


def test_the_folder_of_another_kind_of_model_is_refused(tmp_path):
    folder = write_folder(tmp_path / "encoder", "feature-extraction")
    with pytest.raises(FileError, match="output for spans of answers"):
        regard.pipeline("question-answering", folder)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileError, match="neither a folder with a model nor a name"):
        regard.pipeline("text-classification", tmp_path / "nothing")


def test_a_classifier_of_regard_gives_its_probabilities(classifier):
    pipe = regard.pipeline("text-classification", classifier, device="cpu")
    ours = regard.tasks.load(classifier, device="cpu").classify(["who is it"])[0]
    assert pipe("who is it") == [{"label": ours.label, "score": pytest.approx(ours.sure)}]
    assert [one["label"] for one in pipe("who is it", top_k=None)] == list(ours.probabilities)
    assert pipe.attention(pipe("who is it"))[-1].kind == "cross"
    with pytest.raises(ArgumentError, match="probabilities"):
        pipe("who is it", function_to_apply="none")
    with pytest.raises(ArgumentError, match="one text"):
        pipe({"text": "who is it", "text_pair": "me"})


def test_a_reader_of_regard_gives_its_candidates(reader):
    pipe = regard.pipeline("question-answering", reader, device="cpu")
    ours = regard.tasks.load(reader, device="cpu").ask("Who sat?", CONTEXT, top=3, threshold=0.0)
    found = pipe(question="Who sat?", context=CONTEXT, top_k=3)
    assert [(one["start"], one["end"], one["answer"]) for one in found] == [
        (one.start, one.end, one.text) for one in ours.candidates
    ]
    assert [one["score"] for one in found] == pytest.approx([one.confidence for one in ours.candidates])
    with_nothing = pipe(question="Who sat?", context=CONTEXT, top_k=99, handle_impossible_answer=True)
    assert {"score": pytest.approx(ours.no_answer), "start": 0, "end": 0, "answer": ""} in with_nothing
    assert len(pipe.attention(found)) > 0
    with pytest.raises(ArgumentError, match="trained with"):
        pipe(question="Who sat?", context=CONTEXT, doc_stride=3)


def test_an_encoder_of_regard_fills_masks_and_gives_features(encoder):
    pipe = regard.pipeline("fill-mask", encoder, device="cpu")
    found = pipe("The <mask> sleeps.", top_k=3)
    assert [list(one) for one in found] == [["score", "token", "token_str", "sequence"]] * 3
    assert all("<mask>" not in one["sequence"] for one in found)
    assert found[0]["token_str"].strip() in found[0]["sequence"]
    both = pipe("The <mask> sees the <mask>.", top_k=1)
    assert both[0][0]["sequence"].count("<mask>") == 1
    with pytest.raises(ArgumentError, match="write <mask>"):
        pipe("The cat sleeps.")
    features = regard.pipeline("feature-extraction", encoder, device="cpu")("The cat sleeps.")
    assert len(features[0][0]) == 16
    assert len(pipe.attention(found)) == 1
