"""Tests of the texts that a writer writes, of their ends, and of its scores and attention."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.errors import ArgumentError, DtypeError, RegardError, UnknownNameError
from regard.tasks.write import Writer
from regard.tasks.write.pieces_of_text import StopTexts, texts_of_tokens
from regard.tasks.write.scoring import nats_of_tokens, windows
from regard.tasks.write.words import word_attention
from regard.text import ByteVocabulary
from support.writers import vocabulary, writer


def plain_losses(one: Writer, ids: list[int], begin: int) -> list[float]:
    """The loss of each token after ``begin``, from the whole text from there on, without windows."""
    read = torch.tensor([[one.vocabulary.bos, *ids[begin:]]])
    logits = one.model(read)[0].log_softmax(dim=-1)
    return [-logits[place, token].item() for place, token in enumerate(ids[begin:])]


# ---- scores


@pytest.mark.parametrize("size", [2, 3, 8, 9])
@pytest.mark.parametrize(("length", "before"), [(1, 0), (8, 0), (40, 0), (41, 7), (41, 40), (9, 3)])
def test_windows_score_every_token_once(length, before, size):
    scored, held = [], list(windows(length, before, size))
    for one in held:
        assert one.begin <= one.first < one.end
        assert one.end - one.begin <= size
        # At least half of a window is read before the first token that is scored, where the text has so much.
        assert one.first - one.begin >= min(one.first, size // 2)
        scored += range(one.first, one.end)
    assert scored == list(range(before, length))


@torch.no_grad()
def test_the_score_of_a_short_text_is_the_sum_of_its_losses():
    one = writer(context=32)
    text = "abc. hag\nfee"
    ids = one.vocabulary.encode(text)
    score = one.score(text)
    assert score.nats == pytest.approx(sum(plain_losses(one, ids, 0)), rel=1e-5)
    assert (score.tokens, score.characters, score.unknown) == (12, 12, 0)
    assert score.loss == pytest.approx(score.nats / 12)
    assert score.perplexity == pytest.approx(math.exp(score.nats / 12))
    assert score.bits_per_character == pytest.approx(score.nats / 12 / math.log(2))
    # Text that is only read changes the loss and not the number of tokens.
    after = one.score(text[5:], before=text[:5])
    assert after.nats == pytest.approx(sum(plain_losses(one, ids, 0)[5:]), rel=1e-5)
    assert (after.tokens, after.characters) == (7, 7)


@torch.no_grad()
def test_the_score_of_a_long_text_has_each_token_in_one_window(monkeypatch):
    one = writer(context=8)
    ids = np.random.default_rng(0).integers(4, len(one.vocabulary), 61)
    parts = list(windows(61, 0, 8))
    expected = 0.0
    for part in parts:
        losses = plain_losses(one, ids[: part.end].tolist(), part.begin)
        expected += sum(losses[part.first - part.begin :])
    for tokens in (8, 30, 10_000):  # in batches of any size
        monkeypatch.setattr("regard.tasks.write.scoring.BATCH_TOKENS", tokens)
        nats = nats_of_tokens(one.model, ids, context=8, start=one.started)
        assert nats == pytest.approx(expected, rel=1e-5)


def test_unknown_characters_are_counted():
    one = writer()
    assert one.score("abé∂é").unknown == 3
    assert one.unknown("abé∂é") == ["é", "∂"]
    assert writer(ByteVocabulary()).unknown("é") == []


# ---- texts


def test_the_seed_chooses_the_text_and_nothing_else_does():
    one = writer()
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(texts))  # has no influence
        texts.append(one.write(["ab", "ab"], seed=seed, max_tokens=30))
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert texts[0][0].text != texts[0][1].text  # each has its own draws
    assert one.write(["ab"], seed=1, samples=2, max_tokens=30) == texts[0]


@pytest.mark.parametrize("option", [{"seed": 5}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.1}], ids=str)
def test_options_of_drawing_are_refused_at_temperature_0(option):
    (name,) = option
    with pytest.raises(ArgumentError, match=f"{name}: of no use with temperature=0"):
        writer().write(["ab"], temperature=0, **option)


def test_a_stream_gives_the_text_of_write_in_pieces():
    one = writer()
    (whole,) = one.write(["ab"], max_tokens=20)
    stream = one.stream("ab", max_tokens=20)
    pieces = list(stream)
    assert "".join(pieces) == whole.text
    assert len(pieces) == 20
    assert stream.result == stream.finish() == whole
    assert whole.ended == "length"
    ids = [one.vocabulary.bos, *whole.token_ids, *whole.written_ids]
    assert one.vocabulary.decode(ids) == "ab" + whole.text


def test_a_stop_text_ends_a_text_and_is_left_out():
    one = writer()
    (whole,) = one.write(["ab"], max_tokens=60)
    stop = whole.text[20:23]
    place = whole.text.index(stop)
    for stops in (stop, [stop], ["zzz", stop]):
        stream = one.stream("ab", max_tokens=60, stop=stops)
        assert "".join(stream) == whole.text[:place]
        assert stream.finish().text == whole.text[:place]
        assert stream.finish().ended == "stop"
    # A part of a stop text at the end is not lost.
    (short,) = one.write(["ab"], max_tokens=place + 2, stop=stop)
    assert (short.text, short.ended) == (whole.text[: place + 2], "length")


@pytest.mark.parametrize("cut", range(1, 8))
def test_stop_texts_are_found_across_pieces_of_any_size(cut):
    text, stop = "aabaabaac rest", StopTexts(["aabaac", "xx"])
    shown = "".join(stop.add(text[place : place + cut]) for place in range(0, len(text), cut))
    assert shown + stop.rest() == "aab"
    assert stop.found


def test_an_end_token_ends_a_text():
    tokens = vocabulary()
    one = writer(tokens, ends=[tokens.eos])
    found = one.write(["a"], samples=6, max_tokens=20, temperature=3.0)
    ended = [text for text in found if text.ended == "end"]
    assert ended
    assert all(tokens.eos not in text.written_ids for text in found)
    assert {text.ended for text in found} <= {"end", "length"}
    # Without ends, no special token is written.
    plain = writer().write(["a"], samples=6, max_tokens=20, temperature=3.0)
    assert min(min(text.written_ids) for text in plain) > 3


def test_characters_of_several_tokens_come_whole():
    one = writer(ByteVocabulary())
    for text in one.write([""], samples=5, max_tokens=40, temperature=2.0):
        ids = [*text.written_ids]
        assert one.vocabulary.decode(ids).startswith(text.text)
    ids = one.vocabulary.encode("né∂!")
    assert texts_of_tokens(one.vocabulary, ids) == ["n", "", "é", "", "", "∂", "!"]


def test_a_full_context_slides_or_stops():
    one = writer(context=16)
    (slid,) = one.write(["abc"], max_tokens=40)
    assert (slid.slid, slid.cut_off, slid.ended, len(slid.written_ids)) == (True, False, "length", 40)
    (stopped,) = one.write(["abc"], max_tokens=40, when_full="stop")
    # 16 tokens are read: the start, the prompt and 12 that were written. The next is chosen and not read.
    assert (stopped.slid, stopped.ended, len(stopped.written_ids)) == (False, "full", 13)
    assert slid.text.startswith(stopped.text)
    (short,) = one.write(["abc"], max_tokens=13, when_full="stop")
    assert (short.ended, short.slid) == ("length", False)


def test_a_prompt_that_is_too_long_is_cut_or_refused():
    one = writer(context=16)
    prompt = "abcdefgh" * 3
    (cut,) = one.write([prompt], max_tokens=5, temperature=0)
    assert cut.cut_off
    (same,) = one.write([prompt[-15:]], max_tokens=5, temperature=0)
    assert (same.cut_off, same.text) == (False, cut.text)
    with pytest.raises(ArgumentError, match="prompt: has 25 tokens, but the model reads 16: shorten it"):
        one.write([prompt], when_full="stop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: expected a whole number of 1 or more, got 0"),
        ({"temperature": -1.0}, "temperature: expected 0 or more, got -1.0"),
        ({"temperature": math.nan}, "temperature: expected 0 or more, got nan"),
        ({"top_k": -1}, "top_k: expected a whole number of 0 or more, got -1"),
        ({"top_p": 0.0}, "top_p: expected a share above 0 and up to 1, got 0.0"),
        ({"min_p": 1.5}, "min_p: expected a share from 0 to 1, got 1.5"),
        ({"seed": -1}, "seed: expected a whole number of 0 or more, got -1"),
        ({"stop": ""}, "stop: expected texts that are not empty, got ''"),
        ({"samples": 0}, "samples: expected a whole number of 1 or more, got 0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(RegardError, match=message):
        writer().write(["a"], **options)


def test_other_mistakes_are_refused():
    with pytest.raises(UnknownNameError, match="when_full: unknown name 'slid': did you mean 'slide'"):
        writer().stream("a", when_full="slid")
    with pytest.raises(DtypeError, match="prompt: expected a text, got int"):
        writer().stream(7)
    with pytest.raises(ArgumentError, match="prompt: is empty, and this model has no token to start from"):
        writer(start=None).write([""])
    with pytest.raises(ArgumentError, match="chat: this model has no chat template"):
        writer().reply([{"role": "user", "content": "hi"}])


class Template:
    """A template that writes the roles before the messages."""

    def render(self, messages):
        return "".join(f"{one['role'][0]}{one['content']}." for one in messages)


def test_a_conversation_becomes_a_prompt_without_the_start_token():
    one = writer(chat=Template(), context=32)
    stream = one.reply([{"role": "user", "content": "hi"}], max_tokens=5, temperature=0)
    reply = stream.finish()
    assert reply.source == "uhi."
    assert reply.lines() == reply.text.split("\n")  # the prompt is not part of the answer
    bare = writer(start=None, context=32).write(["uhi."], max_tokens=5, temperature=0)[0]
    assert bare.text == reply.text


# ---- attention


def test_special_tokens_are_words_of_their_own_and_do_not_join_their_neighbours():
    texts, weights = ["hi", "<end>", "\n", "ok", " now"], np.tril(np.full((5, 5), 0.2))
    (words,) = word_attention(weights, texts, [], written=2, specials=[1])
    assert words.column_words == ["hi", "<end>", "↵", "ok", "now"]
    assert words.row_words == ["ok", "now"]


def test_text_after_the_end_of_a_turn_is_not_lost():
    vocabulary = ByteVocabulary()
    ids = [*vocabulary.encode("a"), vocabulary.eos, *vocabulary.encode("\nb")]
    assert texts_of_tokens(vocabulary, ids) == ["a", "", "\n", "b"]


@pytest.mark.parametrize("tokens", [None, ByteVocabulary()], ids=["characters", "bytes"])
def test_the_attention_of_words_is_that_of_the_steps_that_wrote_them(tokens):
    one = writer(tokens, context=32)
    (text,) = one.write(["ab cd"], max_tokens=9)
    recording = one.attention(text)
    assert len(recording) == 2
    assert recording[0].kind == "causal"
    labels = (recording[0].query_tokens or [[]])[0]
    assert len(labels) == 1 + 5 + 9
    assert labels[1:6] == list("ab cd")
    (words,) = one.word_weights(text)
    assert words.column_words[0] == one.vocabulary.pieces([one.vocabulary.bos])[0]
    np.testing.assert_allclose(words.weights.sum(axis=1), 1, atol=1e-5)
    # The first written token was chosen by the query of the last token of the prompt.
    weights = recording[-1].map.weights()[0].mean(dim=0).numpy()
    first = words.weights[0]
    chosen = weights[5 : 5 + 1]
    if len(text.text.split()[0]) == 1:
        np.testing.assert_allclose(first[0], chosen[0, 0], atol=1e-5)
    assert (words.weights[:, 0] > 0).all()


def test_the_row_of_a_single_token_is_the_row_of_the_token_before_it():
    one = writer(context=32)
    (text,) = one.write(["ab cd"], max_tokens=1)
    (words,) = one.word_weights(text)
    weights = one.attention(text)[-1].map.weights()[0].mean(dim=0).numpy()  # (n,n)
    assert words.weights.shape[0] == 1
    # The query of "d" chose it: columns are the start, "ab", "cd", and what was written.
    row = weights[5]
    expected = [row[0], row[1:3].sum(), row[3:6].sum()]
    joined = words.weights[0]
    # The written letter may belong to the last word.
    np.testing.assert_allclose([joined[0], joined[1], joined[2:].sum()], expected, atol=1e-5)


def test_long_texts_show_the_last_words_and_the_rest_in_one_column():
    one = writer(context=64)
    prompt = "a b c d e f g h " * 3
    (text,) = one.write([prompt], max_tokens=10)
    (words,) = one.word_weights(text)
    assert words.column_words[0] == "…"
    assert len(words.column_words) <= 22
    np.testing.assert_allclose(words.weights.sum(axis=1), 1, atol=1e-5)
    assert set(text.to_json([words])) >= {"prompt", "text", "words", "written", "attention"}


# ---- files


def test_a_writer_is_saved_and_loaded(tmp_path):
    one = writer(context=24, ends=[2])
    one.save(tmp_path / "model")
    again = Writer.load(tmp_path / "model")
    assert (again.context, again.start, again.ends) == (24, 1, (2,))
    assert again.write(["ab"], max_tokens=20) == one.write(["ab"], max_tokens=20)
    packed = tmp_path / "packed"
    one.save(packed, dtype="int8")
    assert len(Writer.load(packed).write(["ab"], max_tokens=5)[0].written_ids) >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [({"start": 99}, "start 99"), ({"ends": [1000]}, "are not tokens"), ({"context": 1}, "context")],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, change, message):
    import json

    writer().save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RegardError, match=message):
        Writer.load(tmp_path)
