"""Words instead of word pieces, and records of weights that are there already."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.analysis import as_words, join_pieces, top_links
from regard.capture import Recording
from regard.errors import ArgumentError, UnknownNameError
from regard.maps import AttentionMap


@pytest.mark.parametrize(
    ("tokens", "words", "places"),
    [
        (["[CLS]", "the", "mat", "##ador", ".", "[SEP]"], "[CLS] the matador . [SEP]", [0, 1, 2, 2, 3, 4]),
        (["<s>", "▁The", "▁mat", "ador", "!", "</s>"], "<s> The matador ! </s>", [0, 1, 2, 2, 3, 4]),
        (["<|endoftext|>", "It", "Ġdoesn", "'t", "Ġ(", "yet", ")"], "<|endoftext|> It doesn't ( yet )", None),
        (["▁", "猫", "▁坐"], "猫 坐", [0, 0, 1]),
        (["▁我", "爱", "你", "和", "猫"], "我 爱 你 和 猫", [0, 1, 2, 3, 4]),
        (["我", "Ġ爱", "你"], "我 爱 你", [0, 1, 2]),
        (["我", "##爱", "##你", "un", "##able"], "我 爱 你 unable", [0, 1, 2, 3, 3]),
        (["▁G", "PT", "模型", "s", "et"], "GPT 模型 set", [0, 0, 1, 2, 2]),
        (["Ġa", "我", "\ufffd", "爱", "你"], "a 我 爱 你", [0, 1, 2, 2, 3]),
        (["a", "b", "c"], "a b c", [0, 1, 2]),
        (["##ing", "sing", "##ing"], "ing singing", [0, 1, 1]),
        (["##", "a", "##b"], "## ab", [0, 1, 1]),
        (["###", "ĠTitle", "Ġmat", "ador"], "### Title matador", [0, 1, 2, 2]),
        (["Ġa", "Ġ\ufffd", "你", "##"], "a 你 ##", [0, 1, 1, 2]),
        (["[sink]", "The", "Ġmat", "ador"], "[sink] The matador", [0, 1, 2, 2]),
    ],
)
def test_pieces_join_to_words(tokens, words, places):
    found, of = join_pieces(tokens)
    assert found == words.split()
    assert len(of) == len(tokens)
    assert places is None or of == places


def test_weights_between_words_are_sums_over_keys_and_means_over_queries():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 3, 5))  # (b,h,q,k)
    keys = [["<s>", "▁a", "▁mat", "ador", "s", "</s>"]] * 2
    seen = Recording.from_weights(weights, [["▁le", "▁mata", "dor", "s", "."]] * 2, keys)
    assert seen[0].kind == "cross"
    words = seen.words(batch=1)[0]
    assert words.query_tokens == [["le", "matadors", "."]]
    assert words.key_tokens == [["<s>", "a", "matadors", "</s>"]]
    found = words.map.weights().numpy()
    assert found.shape == (1, 3, 3, 4)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
    expected = weights[1, :, 1:4, 2:5].sum(-1).mean(-1)  # (h,): matadors on matadors
    np.testing.assert_allclose(found[0, :, 1, 2], expected, atol=1e-6)


def test_a_sink_stays_a_key_of_its_own_between_words():
    weights = torch.tensor([[0.5, 0.0, 0.0, 0.5], [0.2, 0.3, 0.1, 0.4], [0.2, 0.1, 0.3, 0.4]])
    tokens = ["a", "Ġmat", "ador"]
    record = Recording.from_weights(weights, tokens, [*tokens, "[sink]"])[0]
    words = as_words(replace(record, sinks=(3,)))
    assert words.key_tokens == [["a", "matador", "[sink]"]]
    assert words.sinks == (2,)
    torch.testing.assert_close(words.map.weights()[0, 0], torch.tensor([[0.5, 0.0, 0.5], [0.2, 0.4, 0.4]]))


def test_words_need_tokens_and_a_sequence_that_is_there():
    seen = Recording.from_weights(np.eye(2))
    with pytest.raises(ArgumentError, match="no query tokens.*seen.label"):
        as_words(seen[0])
    with pytest.raises(ArgumentError, match="batch: expected one of 1 sequences"):
        as_words(seen.label(["a", "b"])[0], batch=1)


def test_records_are_made_from_weights():
    layers = (torch.full((1, 2, 3, 3), 1 / 3), np.tril(np.ones((3, 3))) / [[1], [2], [3]], torch.ones(1, 1))
    seen = Recording.from_weights(layers)
    assert [record.kind for record in seen] == ["self", "causal", "self"]
    assert [record.layer for record in seen] == [0, 1, 2]
    assert Recording.from_weights(np.full((2, 3), 1 / 3))[0].kind == "cross"
    assert Recording.from_weights(layers[0], kind="causal")[0].kind == "causal"
    with pytest.raises(UnknownNameError, match="kind"):
        Recording.from_weights(np.eye(2), kind="casual")
    with pytest.raises(ArgumentError, match="no map has 2 tokens"):
        Recording.from_weights(np.eye(3), ["a", "b"])


def test_top_links_are_the_largest_weights_of_all_layers():
    low, high = np.array([[0.6, 0.4], [0.55, 0.45]]), np.array([[0.1, 0.9], [0.3, 0.7]])
    seen = Recording.from_weights([low, high], ["the", "cat"])
    found = seen.top_links(3)
    assert [(one.layer, one.query_token, one.key_token) for one in found] == [
        (1, "the", "cat"),
        (1, "cat", "cat"),
        (0, "the", "the"),
    ]
    assert found == top_links(list(seen), 3)


def test_arrays_with_negative_strides_are_read():
    assert AttentionMap.from_weights(np.eye(3)[::-1]).weights()[0, 0, 0].tolist() == [0, 0, 1]


def test_a_page_of_records_can_hold_pictures(tmp_path):
    picture = np.zeros((4, 4, 3))
    seen = Recording.from_weights(np.full((1, 2, 4, 4), 0.25), list("abcd"))
    with pytest.raises(ArgumentError, match="images: no record has the patches"):
        seen.save_html(tmp_path / "page.html", images=[picture])
    patched = Recording([replace(seen[0], query_grid=(2, 2), key_grid=(2, 2))])
    with pytest.raises(ArgumentError, match="images: 2 pictures for a batch of 1"):
        patched.save_html(tmp_path / "page.html", images=[picture] * 2)
    assert not list(tmp_path.iterdir())
    patched.save_html(tmp_path / "page.html", title="Four", images=[picture])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Four" in page
    assert "image/png" in page
