"""Tests of texts that are not plain sentences: paragraphs, capitals, missing marks, emoji, addresses and markup."""

import dataclasses
import json
import sys

import numpy as np
import pytest

from regard.decoding import DecodingOptions
from regard.tasks.translate import Translator, align
from regard.tasks.translate.casing import Casing
from regard.tasks.translate.normalized import translate_normalized
from regard.tasks.translate.showcase import everyday_sentences
from regard.text import BytePairVocabulary
from support.command_line import run_here
from support.paths import ROOT, data_folder
from support.table_translator import Table

GREEDY = DecodingOptions(beams=1)
NAMES = ["en-fr", "en-zh"]
MARKS = str.maketrans("!！", ".。")
PLAIN_WORDS = ["The", "dog", "sleeps", "."]
NINE = (
    "My sister lives in a small town. She has two dogs. Do you know her? I like her very much! "
    "The weather was nice. We went to the beach. He is a doctor. I am tired. Let's go home."
)


@pytest.fixture(scope="module")
def translators():
    return {name: Translator.load(name, device="cpu") for name in NAMES}


@pytest.fixture(scope="module")
def french(translators):
    return translators["en-fr"]


def text_of(translator, text):
    return translator.translate([text], GREEDY)[0].text


# ---- plain sentences


@pytest.mark.parametrize("name", NAMES)
def test_plain_sentences_are_translated_as_without_normalisation(translators, name):
    # A greeting before a clause is read by itself.
    texts = [text for text in everyday_sentences() if not text.startswith("Good morning, ")]
    assert len(texts) >= 49
    usual, raw = (
        translators[name].translate(texts, GREEDY, normalize=normalize) for normalize in (True, False)
    )
    # The rows of a batch may differ in the last digit on some processors.
    assert [found.score for found in usual] == pytest.approx([found.score for found in raw], abs=1e-6)
    assert usual == [dataclasses.replace(a, score=b.score) for a, b in zip(raw, usual, strict=True)]


def test_the_switch_of_the_command_line_reads_the_text_as_it_is(translators):
    found = {
        more: run_here("translate", "THE DOG SLEEPS.", "--beams", "1", *more).stdout
        for more in ((), ("--no-normalize",))
    }
    assert found[()] == "LE CHIEN DORT.\n"
    raw = translators["en-fr"].translate(["THE DOG SLEEPS."], GREEDY, normalize=False)[0].text
    assert found[("--no-normalize",)] == f"{raw}\n" != found[()]


def test_evaluation_reads_texts_like_the_command_that_translates(tmp_path):
    (tmp_path / "x.tsv").write_text("THE DOG SLEEPS.\tLE CHIEN DORT.\n", encoding="utf-8")
    words = ["evaluate", "translate", "--data", "x.tsv", "--beams", "1", "--json"]
    scores = [
        json.loads(run_here(*words, *more, cwd=tmp_path).stdout)["bleu"]["score"]
        for more in ([], ["--no-normalize"])
    ]
    assert scores[0] == pytest.approx(100)
    assert scores[1] < 50


# ---- sentences


@pytest.mark.parametrize(("name", "space"), [("en-fr", " "), ("en-zh", "")])
def test_nine_sentences_are_nine_translations(translators, name, space):
    translator = translators[name]
    (done,) = translator.translate([NINE], GREEDY)
    assert len(done.parts) == 9
    alone = translator.translate([part.source for part in done.parts], GREEDY)
    assert done.text == space.join(one.text for one in alone)
    found = align(translator, done)
    assert "".join(found.source_words) == NINE.replace(" ", "")
    # The model wrote full stops instead of exclamation marks.
    written = "".join(found.target_words)
    assert written.translate(MARKS) == done.text.replace(" ", "").translate(MARKS)
    names = {record.name.split(":")[0] for record in translator.attention(done)}
    assert names == {f"sentence {number}" for number in range(1, 10)}


def test_the_attention_of_each_sentence_is_shown():
    words = ["I love you. The dog sleeps!", "--json", "--attention", "--beams", "1"]
    shown = json.loads(run_here("translate", *words).stdout)
    assert [part["source_words"][0] for part in shown["parts"]] == ["I", "The"]


def test_line_breaks_blank_lines_and_outer_spaces_are_kept(translators):
    text = "  I love you. The dog sleeps.\r\n\r\n\n\t- A cat.  \n\n"
    for name in NAMES:
        translator = translators[name]
        space = " " if name == "en-fr" else ""
        one, two, three = (text_of(translator, part) for part in ("I love you.", "The dog sleeps.", "A cat."))
        assert text_of(translator, text) == f"  {one}{space}{two}\r\n\r\n\n\t- {three}  \n\n"
    assert text_of(translators["en-fr"], " \n ") == " \n "


def test_a_long_sentence_is_cut_between_words_and_keeps_its_words(french):
    text = "i think that " * 45 + "you are right"
    (done,) = french.translate([text], GREEDY)
    assert len(done.parts) > 1
    assert " ".join(part.source for part in done.parts) == text
    assert all(len(part.source_ids) <= french.longest for part in done.parts)


# ---- the writing of a sentence

DOG = ["The dog sleeps.", "Le chien dort."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog sleeps. ", "Le chien dort. "),
        ("The  dog   sleeps.", "Le chien dort."),
        ("The\u00a0dog\u2009sleeps.", "Le chien dort."),
        ("The dog sleeps", "Le chien dort"),
        ("the dog sleeps", "le chien dort"),
        ("the dog sleeps.", "le chien dort."),
        ("THE DOG SLEEPS!", "LE CHIEN DORT !"),
        ("The dog sleeps...", "Le chien dort..."),
        ("The dog sleeps…", "Le chien dort…"),
        ("The dog sleeps!!!", "Le chien dort !!!"),
        ("(The dog sleeps.)", "(Le chien dort.)"),
        ("“The dog sleeps.”", "“Le chien dort.”"),
        ("\uff34\uff48\uff45 dog\u200b slee\u00adps.", "Le chien dort."),
        ("The dog sleeps. 😀", "Le chien dort. 😀"),
        ("👨‍👩‍👧 The dog sleeps 🇫🇷", "👨‍👩‍👧 Le chien dort 🇫🇷"),
        ("<p>The dog sleeps.</p>", "<p>Le chien dort.</p>"),
        ("**The dog sleeps.**", "**Le chien dort.**"),
        ("@bob the dog sleeps #dogs", "@bob le chien dort #dogs"),
        ("1. The dog sleeps.", "1. Le chien dort."),
        ("https://example.org/a", "https://example.org/a"),
        ("12:30 🙂", "12:30 🙂"),
        ("`x = 1`", "`x = 1`"),
        ("I love you; the dog sleeps.", "Je t'aime ; le chien dort."),
        ("It\u2019s a dog.", "C\u2019est un chien."),
        ("The dog sleeps; I love you.", "Le chien dort ; je t'aime."),
        ("A: The dog sleeps.", "A: Le chien dort."),
        ("**The dog sleeps:** I love you.", "**Le chien dort :** je t'aime."),
    ],
)
def test_a_sentence_is_given_back_in_the_form_of_its_source(french, text, expected):
    assert text_of(french, text) == expected


def test_a_question_without_its_mark_is_read_as_a_question(french):
    assert text_of(french, "where is the bathroom") == "où est la salle de bain"
    assert text_of(french, "WHERE IS THE BATHROOM") == "OÙ EST LA SALLE DE BAIN"


def test_names_get_their_capitals_back(french):
    assert "Boston" in text_of(french, "i live in boston with tom.")
    assert text_of(french, "TOM LIVES IN BOSTON.") in {"TOM VIT À BOSTON.", "TOM HABITE À BOSTON."}
    assert french.casings[0].usual("TOM") == "Tom"


def test_chinese_has_no_capitals_and_full_width_marks(translators):
    chinese = translators["en-zh"]
    assert text_of(chinese, "I LOVE YOU!!") == "我爱你！！"
    assert text_of(chinese, '"I love you."') == "“我爱你。”"
    assert text_of(chinese, "I love you") == "我爱你"


# ---- verbatim parts inside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Visit https://example.org/a for details.", ["https://example.org/a"]),
        ("Please write to ann@example.org today.", ["ann@example.org"]),
        ("Open the file /etc/hosts now.", ["/etc/hosts"]),
        ("Hello {name}, how are you?", ["{name}"]),
        ("I love 🍕 and the dog sleeps.", ["🍕"]),
        ("I love <b>dogs</b> very much.", ["<b>", "</b>"]),
        ("I know `main.py` and @bob_1 and #tag very well.", ["`main.py`", "@bob_1", "#tag"]),
        ("You have %s and %s and %s and %s and %s.", ["%s"] * 5),
    ],
)
def test_verbatim_parts_inside_a_sentence_arrive_unchanged(translators, name, text, kept):
    (done,) = translators[name].translate([text], GREEDY)
    place = 0
    # All are there, those that are the same as often as in the source.
    for part in kept:
        assert done.text.count(part) == text.count(part), done.text
        assert done.text[-1] in ".?。？"
        place = done.text.index(part)
    assert place < len(done.text) - 1


def test_a_tag_is_put_around_the_words_that_translate_its_words(french):
    assert text_of(french, "The <b>black</b> cat sleeps.") == "Le chat <b>noir</b> dort."


# ---- alignments


def test_alignments_have_the_words_that_the_model_read_and_wrote(french):
    text = "  WHERE is https://a.b/c 😀 in it’s  house?!"
    (done,) = french.translate([text], GREEDY)
    found = align(french, done)
    assert found.source_words == ["where", "is", "Tom", "in", "it's", "house", "?"]
    marks = dict(zip(found.target_words, found.marks, strict=True))
    assert [marks[word] for word in ("https://a.b/c", "😀", "?!", "maison")] == ["copied"] * 3 + [""]
    assert [row is None for row in found.to_json()["attention"]] == [bool(mark) for mark in found.marks]
    assert found.notes[0] == "the model read: where is Tom in it's house?"


def test_the_weights_of_a_normalised_sentence_are_those_of_the_plain_one(french):
    plain, changed = french.translate(["The dog sleeps.", "the  dog SLEEPS"], GREEDY)
    ours, theirs = align(french, changed), align(french, plain)
    for found in (ours, theirs):
        assert (found.source_words, found.target_words[:3]) == (PLAIN_WORDS, ["Le", "chien", "dort"])
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-6)


# ---- BLEU


@pytest.mark.slow
@pytest.mark.parametrize("language", ["fr", "zh"])
def test_each_way_of_writing_is_within_a_point_and_a_half_of_plain(translators, language, monkeypatch):
    data_folder("tatoeba_eng_fra")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import translate_input  # type: ignore[import-not-found]

    chosen = translate_input.sentences(language, 100)
    for name, _, plain, before, now in translate_input.measure(translators[f"en-{language}"], chosen, 1):
        assert now >= plain - translate_input.WITHIN, name
        assert now >= before - translate_input.WITHIN, name


def test_a_vocabulary_of_copyable_words_tells_names_too():
    # "french" has the two tokens " f" and "rench", and "French" those of the space and the word.
    texts = ["French is fun and far from a trench, a wrench, a fee or a foe.", "we like French"] * 20
    vocabulary = BytePairVocabulary.train(texts, 290, copyable=True)
    assert len(vocabulary.encode("a french")) == len(vocabulary.encode("a French")) == 3
    casing = Casing(vocabulary)
    assert [casing.usual(word) for word in ("FRENCH", "LIKE", "FUN")] == ["French", "like", "fun"]


def test_alternatives_that_become_equal_are_given_once():
    table = Table({"Hello.": "Bonjour."})
    several = (("Bonjour !", -1.0), ("Salut.", -2.0), ("Salut,.", -3.0))

    def translate(sentences, numbers):
        return [dataclasses.replace(one, alternatives=several) for one in table.translate(sentences, numbers)]

    (without_mark,) = translate_normalized(table, ["Hello"], 0, translate)
    assert without_mark.lines() == ["Bonjour", "Salut"]
    (whole,) = translate_normalized(table, ["Hello."], 0, translate)
    assert whole.lines() == ["Bonjour.", "Bonjour !", "Salut."]
