"""Tests of the text of tokens, and of the labels made of it, in Python and in the viewer's JavaScript."""

import pytest

from regard._tokens import graphemes, label_of, shortened, token_texts, visible
from support.viewer_records import READ, run_javascript

FAMILY, FLAG, SCOTLAND = (
    "👨\u200d👩\u200d👧",
    "🇫🇷",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
)
THUMB, ACUTE, PERSIAN, KOREAN = "👍🏽", "e\u0301", "می\u200cخواهم", "\u1112\u1161\u11ab"


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        (["The", "Ġcat", "s", ".ĊĊ", "ĉĠx"], ["The", " cat", "s", ".\n\n", "\t x"]),
        (["<|im_start|>", "user", "Ċ", "CafÃ©"], ["<|im_start|>", "user", "\n", "Café"]),
        (["ä½ł", "Ġå¥", "½", "<｜end▁of▁text｜>"], ["你", " \ufffd", "好", "<｜end▁of▁text｜>"]),
        # The sequence begins within one character and ends within another.
        (["½", "ä½ł", "Ġa", "ä½"], ["\ufffd", "你", " a", "\ufffd"]),
        # Bytes that a recording has decoded already.
        (["Ġle", "Ġcafé", "Ġnoir"], [" le", " café", " noir"]),
        (["我", "Ġ爱", "你"], ["我", " 爱", "你"]),
        (["<s>", "▁Hi", "▁of▁it", "<0x0A>", "<0xE4>", "<0xBD>", "<0xA0>"],
         ["<s>", " Hi", " of it", "\n", "\ufffd", "\ufffd", "你"]),
        # Maltese words, in which Ġ and Ċ are letters.
        (["Fuq", "il-", "bandiera", "Ġgant", "huwa", "kbir"], None),
        (["Ġorġ", "ra", "ċ-ċinema", "Ċentrali"], None),
        (["il", " -", " Ġgant"], None),
        (["[CLS]", "mat", "##ador", "[SEP]"], None),
        (["CAFÉ»", "New York", ""], None),
    ],
)  # fmt: skip
def test_marks_of_tokenizers_become_text_and_letters_stay(tokens, texts):
    assert token_texts(tokens) == (tokens if texts is None else texts)
    assert token_texts(token_texts(tokens)) == token_texts(tokens), "texts stay as they are"


CHARACTERS = [FAMILY, FLAG, SCOTLAND, THUMB, ACUTE, KOREAN, "a", "\r\n", "猫", "❤\ufe0f", FLAG]


def test_characters_of_several_code_points_stay_whole():
    assert list(graphemes("".join(CHARACTERS))) == CHARACTERS
    assert [shortened(FAMILY * 5, n) for n in (3, 4, 10)] == [f"{FAMILY}…", f"{FAMILY}…", FAMILY * 5]
    assert shortened(ACUTE * 9, 4) == ACUTE * 3 + "…"
    assert len(label_of("e" + "\u0301" * 100_000)) < 2000
    assert label_of("x" * 100_000) == "x" * 39 + "…"


@pytest.mark.parametrize("segmenter", ["", "delete Intl.Segmenter;"], ids=["Segmenter", "without"])
def test_the_viewer_cuts_and_shows_characters_as_python_does(segmenter):
    source = READ + (
        f"{segmenter}const {{ graphemes, shortened, visible }} = await import('STATIC/text.js');"
        "console.log(JSON.stringify([graphemes(given[0]), given.map(visible), "
        "[shortened(given[1], 4), shortened(given[2], 7, true), shortened(given[2], 100)]]));"
    )
    joined = "".join(CHARACTERS).replace("\r\n", "")
    whole = [" the cat ", "\tif  a b\n", "", "  ", PERSIAN, FAMILY, SCOTLAND, "Ġ", "��"]
    long = [joined, ACUTE * 9, "model.layers.0." + "x" * 100_000 + ".attn"]
    found, shown, cut = run_javascript(source, [*long, *whole])
    assert found == list(graphemes(joined))
    assert shown[3:] == [visible(text) for text in whole]
    assert cut == [ACUTE * 3 + "…", "mod…ttn", "model.layers.0." + "x" * 84 + "…"]


def test_joiners_that_join_nothing_are_shown():
    assert visible("a\u200db") == "a\\u200db"
    assert visible("👨\u200d") == "👨\\u200d"
    assert visible(PERSIAN) == PERSIAN
