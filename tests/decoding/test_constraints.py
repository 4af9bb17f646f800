"""Byte-safe output and the guard against repetition, against Python's own decoder and counts on lists."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding import DecodingOptions, beam_search, decode, stream_tokens
from regard.decoding.constraints import NoRepeats
from regard.decoding.known_words import KnownWords, WordTable
from regard.decoding.repetition import RepetitionPenalty, penalised
from regard.decoding.utf8 import COMPLETE, utf8_table
from regard.errors import ArgumentError, DtypeError
from regard.text import ByteVocabulary
from support.plain_searches import Toy, ranked

BOS, EOS, SPECIAL = 1, 2, 3
BANNED = (0, BOS)
# Characters of 1 to 4 bytes as pieces, some of which hold the end of one character and the start of the next.
PIECES = (
    b"a",
    b"\xc3",
    b"\xa9",
    b"\xa9\xe4",
    b"\xe4\xbd",
    b"\xa0",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xef\xbf",
    b"\xbd",
)
TOKENS = (b"",) * SPECIAL + PIECES
KEYS = {"bos": BOS, "eos": EOS, "banned": BANNED}


def text_of(tokens, token_bytes=TOKENS) -> str:
    return b"".join(token_bytes[token] for token in tokens).decode()  # raises an error if invalid


def is_text(data: bytes) -> bool:
    try:
        return "\ufffd" not in data.decode()
    except UnicodeDecodeError:
        return False


# ------------------------------------------------------------------- the table


def test_the_table_follows_every_character_of_unicode():
    table = utf8_table(ByteVocabulary().token_bytes, ends=(EOS,), banned=BANNED)
    following, state = table.following.tolist(), COMPLETE
    for code in itertools.chain(range(0xD800), range(0xE000, 0x110000, 17), range(0xFF00, 0x10300)):
        state = COMPLETE
        for byte in chr(code).encode():
            state = following[state][SPECIAL + byte]
        assert (state == COMPLETE) == (code != 0xFFFD), hex(code)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=6))
def test_the_table_finds_the_bytes_that_python_decodes(data):
    table = utf8_table(ByteVocabulary().token_bytes, ends=(EOS,), banned=BANNED)
    state = COMPLETE
    for byte in data:
        state = int(table.following[state, SPECIAL + byte])
    assert (state == COMPLETE) == is_text(data)


def test_a_token_is_blocked_unless_its_character_can_be_completed_in_time():
    table = utf8_table(TOKENS, ends=(EOS,), banned=BANNED)
    rows = table.blocked.tolist()
    for room in range(3):
        ends = [pieces for n in range(room + 1) for pieces in itertools.product(PIECES, repeat=n)]
        can = [any(is_text(piece + b"".join(pieces)) for pieces in ends) for piece in PIECES]
        assert [not blocked for blocked in rows[room][COMPLETE][SPECIAL:]] == can, room
    assert [rows[2][state][EOS] for state in (COMPLETE, 1)] == [False, True]


# ------------------------------------------------------------------- searches and samples


class Bytes(Toy):
    """A table of scores by which invalid sequences are as likely as valid ones."""

    def __init__(self, seed: int, sentences: int, size: int = len(TOKENS)):
        super().__init__(size=size, seed=seed, sentences=sentences, sharp=2.0)


def decoded(toy, limits, options, **more):
    return decode(toy, None, limits, options, token_bytes=TOKENS, **KEYS, **more)


@pytest.mark.parametrize("settings", [{"beams": 1}, {"beams": 4, "n_best": 4}, {"sample": True, "n_best": 3}])
def test_texts_are_valid_at_every_length(settings):
    for seed, most in itertools.product(range(6), (1, 2, 3, 7)):
        options = DecodingOptions(**settings, max_length=most, min_length=most - 1)
        for hypotheses in decoded(Bytes(seed, 5), [9] * 5, options):
            assert hypotheses
            for one in hypotheses:
                assert "\ufffd" not in text_of(one.tokens)
                # A character that would be cut off is not begun, so nothing has to be removed.
                assert len(one.tokens) == (most - 1 if one.ended else most)


def test_without_the_bytes_of_tokens_texts_are_invalid():
    options = DecodingOptions(beams=4, max_length=7)
    found = decode(Bytes(0, 5), None, [9] * 5, options, **KEYS)
    assert not all(is_text(b"".join(TOKENS[token] for token in one[0].tokens)) for one in found)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_valid_text(penalty):
    options = DecodingOptions(beams=200, length_penalty=penalty, max_length=3, n_best=5)
    for seed in range(4):
        toy = Bytes(seed, 1)
        (found,) = decoded(toy, [3], options)
        (everything,) = beam_search(
            toy,
            None,
            [3],
            DecodingOptions(beams=900, length_penalty=penalty, max_length=3, n_best=900),
            **KEYS,
        )
        valid = [one for one in everything if is_text(b"".join(TOKENS[token] for token in one.tokens))]
        best_open = max(one.log_probability for one in valid if not one.ended)
        assert [one.tokens for one in found] == [one.tokens for one in ranked(valid, 5, best_open)]


def test_a_prompt_that_ends_inside_a_character_is_completed():
    prompts = torch.tensor([[BOS, 4], [BOS, 9]])  # C3, F0 9F
    found = decode(
        Bytes(0, 2), None, [4, 4], DecodingOptions(beams=2), token_bytes=TOKENS, prompts=prompts, **KEYS
    )
    for prompt, (best, *_) in zip(prompts.tolist(), found, strict=True):
        assert "\ufffd" not in text_of([*prompt[1:], *best.tokens])


def test_a_sequence_that_nothing_may_follow_ends_with_a_whole_character():
    toy = Bytes(0, 1)
    toy.table[:] = -torch.inf
    toy.table[:, 4] = 0.0  # only C3
    for kind in ({"beams": 2}, {"sample": True}):
        ((best, *_),) = decoded(toy, [5], DecodingOptions(**kind, max_length=5))
        assert (best.tokens, best.ended) == ([], False)


def test_a_stream_of_tokens_is_valid_at_every_length():
    for seed, most in itertools.product(range(4), (1, 2, 5)):
        for kind in ({"beams": 1}, {"sample": True}):
            options = DecodingOptions(**kind, max_length=most)
            keys = {"ends": [EOS], "banned": BANNED, "token_bytes": TOKENS}
            tokens = [one.token for one in stream_tokens(Bytes(seed, 1), [BOS], options, **keys)]
            assert "\ufffd" not in text_of(tokens)


def test_bytes_of_another_vocabulary_are_refused():
    with pytest.raises(ArgumentError, match="token_bytes: the bytes of 13 tokens, but the model has 5"):
        decoded(Toy(size=5), [4], DecodingOptions())


# ------------------------------------------------------------------- repetition


def most_often(tokens, size: int) -> int:
    counts = Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
    return max(counts.values(), default=0)


@pytest.mark.parametrize("settings", [{"beams": 1}, {"beams": 3, "n_best": 3}, {"sample": True, "n_best": 2}])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_sequence_is_repeated_more_often_than_in_the_source(settings, size):
    sources = [[5, 6, 7], [5, 6, 5, 6, 5, 6, 5, 6]]
    options = DecodingOptions(**settings, max_length=20, min_length=12, no_repeat=size)
    found = decode(Toy(6, 3, sentences=2, sharp=3.0), None, [20, 20], options, sources=sources, **KEYS)
    allowed = [1, most_often(sources[1], size)]
    reached = [max(most_often(one.tokens, size) for one in hypotheses) for hypotheses in found]
    assert all(count <= most for count, most in zip(reached, allowed, strict=True))
    assert reached[1] > 1  # what the source repeats may be repeated
    free = DecodingOptions(**settings, max_length=20, min_length=12, no_repeat=0)
    (loop, _) = decode(Toy(6, 3, sentences=2, sharp=3.0), None, [20, 20], free, sources=sources, **KEYS)
    assert max(most_often(one.tokens, size) for one in loop) > 1


def test_a_sentence_keeps_its_limit_when_others_leave_the_batch():
    sources, limits = [[5] * 9] * 5 + [[5, 6]], [2] * 5 + [20]
    options = DecodingOptions(beams=2, min_length=15, no_repeat=1)
    *_, (best,) = beam_search(Toy(30, 3, sentences=6), None, limits, options, sources=sources, **KEYS)
    assert len(best.tokens) >= 15
    assert most_often(best.tokens, 1) == 1


def test_repetition_is_only_limited_by_default_where_the_source_is_known():
    toy = Toy(size=5)
    toy.table[:] = torch.tensor([0.0, 0.0, -5.0, 3.0, 0.0])
    (free,) = decode(toy, None, [30], DecodingOptions(max_length=30, beams=1), **KEYS)
    (guarded,) = decode(toy, None, [30], DecodingOptions(max_length=30, beams=1), sources=[[3, 4]], **KEYS)
    assert most_often(free[0].tokens, 8) > 1
    assert most_often(guarded[0].tokens, 8) == 1


@pytest.mark.parametrize(("value", "error"), [(-1, ArgumentError), (1.5, DtypeError), (True, DtypeError)])
def test_numbers_of_tokens_that_make_no_sense_are_refused(value, error):
    with pytest.raises(error, match="no_repeat"):
        DecodingOptions(no_repeat=value)


def test_one_source_is_needed_for_each_sentence():
    with pytest.raises(ArgumentError, match="sources: expected one for each of 2 sentences, got 1"):
        decode(Toy(sentences=2), None, [4, 4], DecodingOptions(), sources=[[3]], **KEYS)


# ------------------------------------------------------------------- known words

LETTERS = tuple(bytes([byte]) for byte in range(256))
SPELLING = (
    (b"",) * SPECIAL + LETTERS + (b" the", b" ca", b"t", b"\xe2\x80", "–".encode(), b"ite", b"guard", b" c")
)
KNOWN, SOURCE = ["the", "cat", "état"], "A CiteGuard – 猫猫, naïve. So so a cite"
SOURCE_UNITS = {"a", "citeguard", "猫", "naïve", "so", "cite", "–"}


def units_of(text: str) -> list[str]:
    return re.findall(r"[a-zà-ÿ0-9]+|[^\x00-\x7f]", text)


def known_words(*sources: str) -> KnownWords:
    return KnownWords(WordTable(SPELLING, KNOWN, lowercase=True), sources, [EOS])


def allowed_by(rule: KnownWords) -> list[int]:
    """Return the tokens that a rule for one hypothesis of one sentence allows."""
    scores = torch.zeros(1, 1, len(SPELLING))
    rule.block(scores, torch.zeros(1, 1, 1), torch.tensor([9]))
    return (scores[0, 0] == 0).nonzero()[:, 0].tolist()


@pytest.mark.parametrize("seed", range(30))
def test_any_text_that_is_allowed_has_known_words_and_repeats_none(seed):
    chance, rule, written = random.Random(seed), known_words(SOURCE), []
    while not written or (written[-1] != EOS and len(written) < 60):
        tokens = allowed_by(rule)
        if not tokens:
            pytest.fail(f"no token may follow {text_of(written, SPELLING)!r}")
        token = chance.choice(sorted(tokens, key=lambda one: -len(SPELLING[one]))[:40])
        written.append(token)
        rule.follow(None, torch.tensor([[token]]))
    text = text_of([one for one in rule.shortened(written, 0) if one != EOS], SPELLING)
    units = units_of(text)
    assert set(units) <= SOURCE_UNITS | {"the", "cat", "état", "–"}
    assert not any(one == after and one not in ("so", "猫", "–") for one, after in itertools.pairwise(units))


@pytest.mark.parametrize("text", ["the cat, état–citeguard", "so so", "猫猫 cite", "naïve-the", "a – a"])
def test_known_words_may_be_spelled_byte_by_byte(text):
    rule = known_words("Another text", SOURCE)
    rule.keep(torch.tensor([1]))
    for byte in text.encode():
        assert SPECIAL + byte in allowed_by(rule)
        rule.follow(None, torch.tensor([[SPECIAL + byte]]))
    assert EOS in allowed_by(rule) or text == "a – a"


def test_a_text_that_is_cut_off_loses_the_word_that_is_not_complete():
    rule = known_words(SOURCE)
    tokens = [SPELLING.index(one) for one in (b" the", b" c", b"ite", b"g")]
    assert text_of(rule.shortened(tokens, 0), SPELLING) == " the cite"


def test_a_search_applies_the_further_constraints():
    toy = Toy(len(SPELLING), sentences=2)
    options = DecodingOptions(beams=3, n_best=2, max_length=8)
    keys = {"bos": BOS, "eos": EOS, "banned": BANNED, "token_bytes": SPELLING}
    for choice in (options, DecodingOptions(sample=True, n_best=2, max_length=8)):
        rule = known_words(SOURCE, "Only words")
        found = decode(toy, None, [3, 3], choice, prompts=[[BOS], [BOS]], further=[rule], **keys)
        for hypothesis in found[1]:
            units = set(units_of(text_of(hypothesis.tokens, SPELLING)))
            assert units <= {"the", "cat", "état", "only", "words", "–"}


# ------------------------------------------------------------------- the processors of Hugging Face


def random_scores_and_tokens(seed: int):
    torch.manual_seed(seed)
    return torch.randn(3, 11, dtype=torch.float64) * 4, torch.randint(0, 11, (3, 7))


@pytest.mark.parametrize("penalty", [0.7, 1.3, 4.0])
def test_the_repetition_penalty_is_that_of_hugging_face(penalty):
    transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")
    for seed in range(5):
        scores, tokens = random_scores_and_tokens(seed)
        theirs = transformers.RepetitionPenaltyLogitsProcessor(penalty)(tokens, scores.clone())
        torch.testing.assert_close(penalised(scores, tokens, penalty), theirs)
        ours = scores[:, None].clone()
        RepetitionPenalty(penalty, tokens[:, :4]).block(ours, tokens[:, None, 3:], torch.zeros(3))
        torch.testing.assert_close(ours[:, 0], theirs)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sequences_of_a_prompt_are_not_repeated_as_in_hugging_face(size):
    transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")
    for seed in range(20):
        scores, tokens = random_scores_and_tokens(seed)
        tokens = tokens % 3
        theirs = transformers.NoRepeatNGramLogitsProcessor(size)(tokens, scores.clone())
        ours = scores[:, None].clone()
        rule = NoRepeats(size, torch.ones(3, dtype=torch.int64), tokens[:, :4])
        rule.block(ours, tokens[:, None, 3:], torch.zeros(3))
        torch.testing.assert_close(ours[:, 0], theirs)


def greedy_with_penalty(toy: Toy, prompt: list[int], penalty: float, size: int) -> list[int]:
    """Write four tokens by the definitions, with the prompt among the tokens that are not repeated."""
    tokens = list(prompt)
    for _ in range(4):
        scores = penalised(toy.scores(0, tokens), torch.tensor(tokens), penalty)
        starts = range(len(tokens) - size + 1)
        repeats = [
            tokens[i + size - 1]
            for i in starts
            if tokens[i : i + size - 1] == tokens[len(tokens) - size + 1 :]
        ]
        scores[[*BANNED, EOS, *repeats]] = -torch.inf
        tokens.append(int(scores.argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("seed", range(8))
def test_sampling_and_streaming_apply_the_penalty_to_logits_and_count_the_prompt(seed):
    toy, prompt, size = Toy(9, seed=seed, sharp=1.0), [5, 6, 5], 2
    rules = {"repetition_penalty": 3.0, "no_repeat": size, "max_length": 4, "min_length": 4}
    expected = greedy_with_penalty(toy, prompt, 3.0, size)
    drawn = DecodingOptions(sample=True, top_k=1, **rules)
    ((found,),) = decode(toy, None, [3], drawn, prompts=[prompt], bos=BOS, eos=EOS, banned=BANNED)
    assert found.tokens == expected
    options = DecodingOptions(beams=1, **rules)
    streamed = stream_tokens(toy, prompt, options, ends=[EOS], banned=BANNED)
    assert [one.token for one in streamed] == expected


def test_a_large_penalty_lets_a_beam_search_repeat_no_token_of_the_prompt():
    toy, prompts = Toy(9, sentences=2), [[3, 4], [5, 6]]
    options = DecodingOptions(max_length=4, min_length=3, repetition_penalty=1e9, beams=3)
    found = decode(toy, None, [2, 2], options, prompts=prompts, bos=BOS, eos=EOS, banned=BANNED)
    for several, prompt in zip(found, prompts, strict=True):
        tokens = [*prompt, *several[0].tokens]
        assert len(set(tokens)) == len(tokens)
