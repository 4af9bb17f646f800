"""Tests of splitting texts into sentences, of normalising their characters, and of finding verbatim parts."""

import time
import unicodedata

import pytest

from regard.text.normalizing import normalized
from regard.text.sentences import split_sentences
from regard.text.traced import TracedText
from regard.text.verbatim import find_verbatim

# Sentences with a bar where they end.
ENGLISH = [
    "Dr. Smith paid $3.50.|He left.",
    "Mr. and Mrs. J. R. Kowalczyk live in the U.S. Army base.|They like it.",
    "He works until 3 a.m.|She sleeps.",
    "See you at 5 p.m.|Tom will come.",
    "Use a tool, e.g. a hammer, i.e. not your hand.|Thanks.",
    "Bring pens, paper, etc.|They help.",
    'She said "Stop."|Then she left.|"Go!" he cried.|(He was angry.)|They ran.',
    "What?!|No way!!!|Yes.",
    "Well... I don't know.|Hmm...|Maybe.",
    "I was born in 1987.|She was born in 1990.",
    "Pi is 3.14159.|Version 2.0.1 is out.",
    "He has a Ph.D. in physics.|Apple Inc. is big.",
    "No.|I won't.|No. 5 is alive.",
    "hello.|how are you?|i am fine!|see you",
    "Hello!How are you?|I am fine.|It is late.".replace("!How", "!|How"),
    "Vitamin C.|It helps.",
    "It costs $1,299.99 (plus tax).|Is that OK?",
    "Wait!|Is it 5 o'clock?|Yes, it is.|Let's go.|It's late.|I'm tired.|You too?|Fine.|Bye.",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_sentences_end_where_they_should(text):
    assert split_sentences(text.replace("!|How", "!How").replace("|", " ")) == text.split("|")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Am 3. Mai kam er.|Das ist z.B. gut.|Dr. Weiß schläft."),
        ("fr", "M. Dupont est là.|Il mange, etc.|Puis il dort.|« Viens ! » dit-il."),
        ("fr", "Où est-il ?|Je ne sais pas !|Merci."),
        ("zh", "我爱你。|你呢？|“走吧！”|他说：“好的。”|真的吗?|是的!|好"),
        ("unknown", "One.|Two."),
    ],
)
def test_sentences_of_other_languages_end_at_their_marks(language, text):
    joined = text.replace("|", "" if language == "zh" else " ")
    assert split_sentences(joined, language) == text.split("|")


@pytest.mark.parametrize(
    "text",
    ["a. ", "A. ", ".", "! ", "Mr. ", "a.B", "“a.” ", "a" * 200, "我", "<", "`a", "/a", "a1-", "a1.1", "1a"],
)
def test_long_texts_are_split_and_searched_in_linear_time(text):
    began = time.process_time()
    split_sentences(text * 20_000)
    find_verbatim(text * 20_000)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  two   spaces ", "two spaces"),
        ("a\u00a0b\u2003c\u3000d\te", "a b c d e"),
        ("it\u2019s \u201cfine\u201d", 'it\'s "fine"'),
        ("\u00ab\u00a0oui\u00a0\u00bb", '"oui"'),
        ("well\u2026", "well..."),
        ("co\u2011op \u2212 5", "co-op - 5"),
        (unicodedata.normalize("NFD", "Élève à Noël"), "Élève à Noël"),
        ("\uff28\uff45\uff4c\uff4c\uff4f\uff0cworld\uff01", "Hello, world!"),
        ("so\u00adft zero\u200bwidth \ufeffmark\x07", "soft zerowidth mark"),
        ("\ufb01ne \U0001d407\U0001d422", "fine Hi"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f", "👨\u200d👩\u200d👧 ❤\ufe0f"),
        ("don\u00b4t", "don't"),
    ],
)
def test_characters_are_normalised_and_traced(text, expected):
    found = normalized(TracedText(text))
    assert found.text == expected
    assert len(found.spans) == len(expected)
    for letter, (start, end) in zip(found.text, found.spans, strict=True):
        if letter.isalnum() and letter == text[start:end]:
            assert end - start == 1
    inside = [span for span in found.spans if span[0] < span[1]]
    assert inside == sorted(inside)


def test_full_width_marks_stay_in_languages_that_have_them():
    assert normalized(TracedText("“好”，ＡＢ！"), wide=True).text == "“好”，AB！"


def test_spans_are_followed_in_both_directions():
    text = TracedText("a  b\u2026 c").replaced(r" +", " ").mapped({0x2026: "..."})
    assert text.text == "a b... c"
    assert text.originals([(0, 1), (2, 6), (7, 8)]) == [(0, 1), (3, 5), (6, 7)]
    assert text.moved([(0, 1), (3, 4), (4, 5), (6, 7)]) == [(0, 1), (2, 3), (3, 6), (7, 8)]
    cut = text.cut(2) + TracedText.added("!", 7)
    assert cut.moved([(0, 1), (3, 4)]) == [(0, 0), (0, 1)]
    assert cut.originals([(6, 7)]) == [(7, 7)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Visit https://example.org/a?b=c. Now", ["https://example.org/a?b=c"]),
        ("(see https://en.wikipedia.org/wiki/A_(b)) www.x.com/y, a.co.uk!", None),
        ("mail ann.lee+x@mail.example.org now", ["ann.lee+x@mail.example.org"]),
        (
            "Hi {name}, %d of 100% are {{ left }} for %(who)s ${x}",
            ["{name}", "%d", "{{ left }}", "%(who)s", "${x}"],
        ),
        (
            "and/or 1/2 km/h /usr/bin ~/x.txt src/a.py C:\\Users\\x",
            ["/usr/bin", "~/x.txt", "src/a.py", "C:\\Users\\x"],
        ),
        ("👨‍👩‍👧 🇫🇷 👍🏽 1️⃣ ❤️ :-) 5", ["👨‍👩‍👧", "🇫🇷", "👍🏽", "1️⃣", "❤️", ":-)"]),
        ("@bob #tag `a b` **x** [y](z) snake_case 3*4", ["@bob", "#tag", "`a b`", "**", "**", "[", "](z)"]),
        ("a < b > c <b>d</b> <br/> &amp;", ["<b>", "</b>", "<br/>", "&amp;"]),
        ("Mr. Smith, e.g. at 5 p.m. for $5.99, said: no!", []),
    ],
)
def test_verbatim_parts_are_found(text, expected):
    if expected is None:
        expected = ["https://en.wikipedia.org/wiki/A_(b)", "www.x.com/y", "a.co.uk"]
    assert [text[part.start : part.end] for part in find_verbatim(text)] == expected
