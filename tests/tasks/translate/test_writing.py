"""Tests of spelling, quotes, brackets and emphasis, with a model that answers from a table."""

import pytest

from regard.tasks.translate.spelling import with_usual_spelling
from regard.text.traced import TracedText
from support.table_translator import translated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("thx, wat r u doing", "thanks, what are you doing"),
        ("Dont go untill tommorow.", "Don't go until tomorrow."),
        ("im gonna recieve alot", "I'm going to receive a lot"),
        ("idk.", "I don't know."),
        ("Colour the centre grey.", "Color the center gray."),
        ("The Labour Party met Mr. Grey in the THEATRE.", None),
        ("You gotta go, and we've gotta stay.", "You got to go, and we've got to stay."),
        ("R&B, U.S., ASAP, R, e-u, don't, its, ill, @u, u/me, 'u", None),
        ("We saw the Wat and Ur.", None),
    ],
)
def test_words_of_messages_and_misspellings_have_their_usual_spelling(text, expected):
    assert with_usual_spelling(TracedText(text)).text == (expected or text)


def test_other_languages_than_english_keep_their_spelling():
    text, read = translated("im haus u", {"Im haus u.": "In the house."}, "en", source_language="de")
    assert (text, read) == ("in the house", ["Im haus u."])


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("He said 'hello' here.", "He said hello here.", "Il a bonjour ici.", "Il a 'bonjour' ici."),
        ("It\u2019s \u2018fine\u2019.", "It's fine.", "C'est bien.", "C\u2019est \u2018bien\u2019."),
        ("'It's late.'", "It's late.", "Il est tard.", "'Il est tard.'"),
        ("The dogs' owner isn't 'tis.", None, "Non.", "Non."),
        ("It's 5' or 6'.", None, "C'est 5' ou 6'.", "C'est 5' ou 6'."),
    ],
)
def test_words_between_single_quotes_keep_them(text, read, answer, expected):
    assert translated(text, {read or text: answer}) == (expected, [read or text])


@pytest.mark.parametrize(
    ("text", "language", "answers", "expected"),
    [
        (
            "It is good (see below).",
            "fr",
            {"It is good.": "C'est bien.", "See below.": "Voir plus bas."},
            "C'est bien (voir plus bas).",
        ),
        (
            "Is it good (or not so)?",
            "fr",
            {"Is it good?": "Est-ce bien ?", "Or not so.": "Ou pas."},
            "Est-ce bien (ou pas) ?",
        ),
        (
            "It is good (see below).",
            "zh",
            {"It is good.": "很好。", "See below.": "见下文。"},
            "很好（见下文）。",
        ),
    ],
)
def test_a_remark_in_brackets_at_the_end_is_translated_by_itself(text, language, answers, expected):
    assert translated(text, answers, language) == (expected, list(answers))


@pytest.mark.parametrize("text", ["It is (very) good.", "It is (so very) good.", "It is good (late)."])
def test_other_brackets_do_not_cut_a_sentence(text):
    plain = text.replace("(", "").replace(")", "")
    assert translated(text, {plain: "C'est bien."})[1] == [plain]


def test_the_brackets_of_an_area_code_belong_to_the_phone_number():
    text = "Call (682) 521-5123 now."
    assert translated(text, {text: "现在打(682) 521-5123。"}, "zh") == ("现在打(682) 521-5123。", [text])


def test_an_introduction_with_a_name_is_no_heading():
    text = "I'm Cidihan Liuen."
    # The vocabulary has pieces of the small letters.
    answers = {text: "我是Cidihan Liuen。", "cidi cidi liu liu han en": ""}
    assert translated(text, answers, "zh")[1] == [text]


def test_the_letters_before_a_number_are_no_word_in_capitals():
    text = "We love XE 555."
    answers = {text: "我们喜欢XE 555。", "we love xe and love the xe": ""}
    assert translated(text, answers, "zh") == ("我们喜欢XE 555。", [text])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I LOVE Paris.", "I love Paris."),
        ("We LOVE the dog.", "We love the dog."),
        ("I live in W1 6XE now.", "I live in W1 6XE now."),
        ("We love XE-55 and 55-XE.", "We love XE-55 and 55-XE."),
    ],
)
def test_a_word_in_capitals_is_read_in_small_letters_and_a_code_is_not(text, read):
    known = {"we love xe and love the xe in Paris": "", read: "Oui."}
    assert translated(text, known, copy=False)[1][0] == read


def test_a_translation_begins_with_a_capital_if_its_source_does():
    assert translated("The dog sleeps.", {"The dog sleeps.": " le chien dort."})[0] == "Le chien dort."
    assert translated("the dog sleeps.", {"The dog sleeps.": "le chien dort."})[0] == "le chien dort."


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("The dog sleeps!", "Le chien dort.", "Le chien dort !"),
        ("Does the dog sleep?", "Le chien dort.", "Le chien dort ?"),
        ("The dog sleeps.", "Le chien dort !", "Le chien dort !"),
    ],
)
def test_a_question_and_an_exclamation_keep_their_mark(text, answer, expected):
    assert translated(text, {text: answer})[0] == expected


@pytest.mark.parametrize(
    ("source", "answers", "language", "text"),
    [
        ('He asked, "Where are you?"', {"He asked.": "Il a demandé.", "Where are you?": "Où es-tu ?"}, "fr",
         'Il a demandé, "Où es-tu ?"'),
        ('She said, "I am tired."', {"She said.": "Elle a dit.", "I am tired.": "Je suis fatiguée."}, "fr",
         'Elle a dit, "Je suis fatiguée."'),
        ("'It is raining,' he said.", {"It is raining.": "在下雨。", "He said.": "他说。"}, "zh", "‘在下雨，’他说。"),
        ('He said, "Come here!" and left.',
         {"He said.": "Il a dit.", "Come here!": "Viens ici !", "And left.": "Et est parti."}, "fr",
         'Il a dit, "Viens ici !" et est parti.'),
        # a single word is no sentence
        ('It is, "strictly" seen, bad.', {"It is, strictly seen, bad.": "C'est, au fond, mauvais."}, "fr", None),
    ],
)  # fmt: skip
def test_speech_in_quotes_is_a_sentence_of_its_own(source, answers, language, text):
    found, read = translated(source, answers, language)
    assert read == list(answers)
    assert text in (None, found)


def test_the_final_mark_of_a_french_sentence_has_a_space_before_it():
    assert translated("Is it 7?", {"Is it 7?": "Est-ce 7?"})[0] == "Est-ce 7 ?"
    assert translated("Is it 7?", {"Is it 7?": "是7?"}, "zh")[0] == "是7?"


def test_abbreviations_are_read_as_words():
    answers = {"Room number 7 is in the United States.": "La chambre numéro 7 est aux États-Unis."}
    assert translated("Room no. 7 is in the U.S.", answers)[0] == "La chambre numéro 7 est aux États-Unis."
