"""Tests of sentences that are translated again because their translation lost a name or a number."""

import re

import pytest

from regard.decoding import DecodingOptions
from regard.tasks.translate import Translation, Translator
from regard.tasks.translate.casing import Casing
from regard.tasks.translate.lost_particulars import lost_particulars
from regard.tasks.translate.normalized import translate_normalized
from regard.tasks.translate.paragraphs import split_text
from regard.tasks.translate.people import capitalized_name
from regard.text import BytePairVocabulary
from regard.text.traced import TracedText
from support.table_translator import Table, translated


def lost(text, written, target="fr"):
    """Return the texts that the translation of a sentence lost."""
    (part,) = split_text(text, "en", target).parts
    return [one.text for one in lost_particulars(part, part.core, written, target)]


@pytest.mark.parametrize(
    ("text", "written", "missing"),
    [
        ("It was in 1756.", "C'était en 1576.", ["1756"]),
        ("It was in 1756.", "C'était en 1756.", []),
        ("Room B12 is free.", "La salle B1 est libre.", ["B12"]),
        ("Article EX-5507-W is sold out.", "L'article 5507-W est épuisé.", ["EX-5507-W"]),
        ("Article EX-5507-W is sold out.", "L'article EX-5507-W est épuisé.", []),
        ("The plate is EQ-843-AT.", "La plaque est EQ-843-at.", ["EQ-843-AT"]),
        ("Flight VZ 752 is late.", "Le vol VZ 725 est en retard.", ["VZ 752"]),
        ("Call +33 6 12 34 56 78.", "Appelez le +33 6 12 34 56.", ["+33 6 12 34 56 78"]),
        # the same digits, grouped in another way
        ("Call 555-123-4567.", "Appelez le 555 123 4567.", []),
        ("It costs $1,299.99.", "Ça coûte 1 299,99 $.", []),
        # a number in words
        ("I have 2 dogs.", "J'ai deux chiens.", []),
        ("I have 25 dogs.", "J'ai des chiens.", ["25"]),
        # times, ordinals and decades are written in other ways
        ("It ends at 4:00 p.m.", "Ça finit à 16 h.", []),
        ("It was the 3rd of the 1990s.", "C'était le troisième.", []),
        ("It ends at 4:10.", "Ça finit à 4:10.", []),
        ("It ends at 4:10.", "Ça finit à 16 h 10.", []),
        ("It ends at 4:00.", "Ça finit à 4 heures.", []),
        ("It ends at 4:10.", "Ça finit à quatre heures dix.", []),
        ("It ends at 4:10.", "Ça finit à 4:01.", ["4:10"]),
        ("It ends at 4:10.", "Ça finit.", ["4:10"]),
        # a price keeps its currency
        ("I paid $20.", "J'ai payé 20 dollars.", []),
        ("I paid $20.", "J'ai payé vingt dollars.", []),
        ("I paid $20.", "J'ai 20 ans.", ["20"]),
        ("I paid €35.", "J'ai payé 35 €.", []),
        # acronyms
        ("NASA is here.", "La NASA est ici.", []),
        ("NASA is here.", "Elle est ici.", ["NASA"]),
        ("He joined NATO.", "Il a rejoint l'OTAN.", []),
        # names are known by their translation
        ("He lives in London.", "Il vit à Londres.", []),
    ],
)
def test_what_a_translation_lost(text, written, missing):
    assert lost(text, written) == missing


@pytest.mark.parametrize(
    ("text", "written", "missing"),
    [
        ("She was born in Leeds.", "Elle est née à Le mauvaises.", ["Leeds"]),
        ("She was born in Leeds.", "Elle est née à Leeds.", []),
        ("She was born in Brussels.", "Elle est née à Bruxelles.", []),
        ("She is a Hungarian doctor.", "Elle est médecin et hongroise.", []),
    ],
)
def test_a_rare_name_is_lost_if_a_french_translation_has_nothing_like_it(text, written, missing):
    (part,) = split_text(text, "en", "fr").parts
    found = lost_particulars(part, part.core, written, "fr", lambda word: True)
    assert [one.text for one in found] == missing


def test_a_plural_and_a_word_in_lower_case_show_that_a_model_knows_a_word():
    casing = Casing(BytePairVocabulary.train(["a Monday", "a earth"] * 9, 300))
    assert [casing.is_unknown(word) for word in ("Monday", "Mondays", "Earth", "Leeds")] == [False] * 3 + [
        True
    ]


def test_a_lost_time_is_read_as_a_time_that_models_know():
    answers = {"Come at 10:20.": "Venez.", "Come at 2:30.": "Venez à 14 h 30."}
    text, read = translated("Come at 10:20.", answers)
    assert text == "Venez à 10:20."
    assert read == list(answers)


def test_a_chinese_price_is_lost_if_it_became_an_age():
    assert lost("I have $20.", "我20岁。", "zh") == ["20"]
    assert lost("I have $20.", "我有20美元。", "zh") == []


def test_a_name_is_lost_if_a_chinese_translation_has_it_in_another_form():
    assert lost("We met Dmitri Shiroda.", "我们遇见了Dmitri Shmitiro。", "zh") == ["Dmitri Shiroda"]
    assert lost("We met Dmitri Shiroda.", "我们遇见了Dmitri Shiroda。", "zh") == []
    assert lost("We met Tom in London.", "我们在伦敦遇见了汤姆。", "zh") == []
    # the whole name, not a part of a longer word; a title is no name
    assert lost("We met Era today.", "我们今天遇见了Eraberg。", "zh") == ["Era"]
    assert lost("I called Dr. Lacroix.", "我给Lacrorocroi医生打了电话。", "zh") == ["Lacroix"]


def test_a_name_at_the_start_is_lost_if_a_word_of_the_translation_resembles_it():
    assert lost("Driström was a port.", "iström是一个港口。", "zh") == ["Driström"]
    assert lost("Yesterday was cold.", "昨天很冷，Tim说。", "zh") == []


def test_a_name_without_its_initial_or_particle_is_lost():
    assert lost("I trust Lakika K. Moreau.", "我信任Lakika Moreau。", "zh") == ["Lakika K. Moreau"]
    assert lost("I trust Sal Van Tho.", "我信任Sal Tho。", "zh") == ["Sal Van Tho"]
    # "Hotel" is translated
    assert lost("I like the Rovstad Hotel.", "我喜欢Rovstad酒店。", "zh") == []


def test_a_rare_name_is_lost_if_a_chinese_translation_has_no_word_of_it():
    (part,) = split_text("I know Jussi Ngod and Tom.", "en", "zh").parts

    def found(written):
        some = lost_particulars(part, part.core, written, "zh", lambda word: word in ("Jussi", "Ngod"))
        return [one.text for one in some]

    assert found("我认识俄罗斯和汤姆。") == ["Jussi Ngod"]
    assert found("我认识Jussi和汤姆。") == []


def test_a_name_that_stands_for_another_may_be_copied_into_chinese():
    answers = {"We met Dmitri.": "我们遇见了Dmi。", "We met Tom.": "我们遇见了Tom。"}
    text, _ = translated("We met Dmitri.", answers, "zh")
    assert text == "我们遇见了Dmitri。"


def test_a_lost_code_is_read_as_a_number_and_given_back():
    answers = {
        "Flight VZ 752 leaves from gate F69.": "Le vol VZ 725 part de la porte F69.",
        # first, the number alone
        "Flight VZ 46 leaves from gate F69.": "Le vol part de la porte F69.",
        "Flight 600 leaves from gate F69.": "Le vol 600 part de la porte F69.",
    }
    text, read = translated("Flight VZ 752 leaves from gate F69.", answers)
    assert text == "Le vol VZ 752 part de la porte F69."
    assert read == list(answers)


def test_a_name_stands_for_a_number_if_another_number_is_lost_too():
    answers = {
        "We are in room B12.": "Nous sommes là.",
        "We are in room 600.": "Nous sommes là.",
        "We are in room Tom.": "Nous sommes dans la salle Tom.",
    }
    text, read = translated("We are in room B12.", answers)
    assert text == "Nous sommes dans la salle B12."
    assert read == list(answers)


@pytest.mark.parametrize("second", ["Nous sommes à 6000.", "Nous sommes à 600 et 600."])
def test_the_first_translation_is_kept_if_no_stand_in_arrives_once(second):
    answers = {
        "We are in room B12.": "Nous sommes à B1.",
        "We are in room 600.": second,
        "We are in room Tom.": "Nous sommes à Boston.",
    }
    text, _ = translated("We are in room B12.", answers)
    assert text == "Nous sommes à B1."


def test_a_model_that_does_not_copy_reads_a_sentence_once():
    text, read = translated("It was in 1756.", {"It was in 1756.": "C'était en 1576."}, copy=False)
    assert (text, len(read)) == ("C'était en 1576.", 1)


def test_the_names_of_a_sentence_in_capitals_are_those_that_the_model_read():
    (part,) = split_text("WE MET JUSSI ON MONDAY.", "en", "fr").parts
    read = TracedText("We met Jussi on Monday.")

    def found(written):
        some = lost_particulars(part, read, written, "fr", lambda word: word == "Jussi")
        return [(one.start, one.text) for one in some]

    assert found("NOUS L'AVONS RENCONTRÉ LUNDI.") == [(7, "JUSSI")]
    assert found("NOUS AVONS RENCONTRÉ JUSSI LUNDI.") == []


def test_a_name_in_capitals_is_read_as_a_name_that_models_know():
    answers = {
        "We met John Smith in a dog.": "Nous avons vu John.",
        "We met Tom in a dog.": "Nous avons vu Tom dans un chien.",
    }
    assert translated("WE MET JOHN SMITH IN A DOG.", answers)[1][0] == "We met John Smith in a dog."
    answers = {"Call Mary and Tom.": "Appelez Marie et Tom."}
    text, read = translated("CALL MRS BROWN AND TOM.", answers)
    assert (text, read) == ("APPELEZ MADAME BROWN ET TOM.", list(answers))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("WE MET PETER BAKER AND SARAH O'BRIEN.", ["Peter", "Baker", "Sarah", "O'Brien"]),
        ("DR. KING CALLED PROF. COOK'S BAKER.", ["Dr", "King", "Prof", "Cook's"]),
        ("I MISS MY BAKER. MARK IT.", []),
        ("MISS BAKER CAME. MARK BROWN WENT.", ["Miss", "Baker", "Mark", "Brown"]),
        ("SARAH SNORED AND GREW.", ["Sarah"]),
        ("SPAIN CALLED.", ["Spain"]),
    ],
)
def test_a_word_in_capitals_after_a_title_or_a_first_name_is_a_surname(text, names):
    words = re.finditer(r"\w+(?:'\w+)*", text)
    common = {"MISS", "MY", "MARK", "IT", "CAME", "BAKER", "AND", "CALLED", "GREW"}
    assert [name for word in words if (name := capitalized_name(word, common.__contains__))] == names


def searched(text, answers, hypotheses, language="zh"):
    """Return the translation of a text if a wider search has some hypotheses, and the sentences of searches."""
    table, read = Table(answers, language), []

    def search(sentences, numbers):
        read.extend(sentences)
        return [[Translation(one, words, -1.0, [], []) for words in hypotheses] for one in sentences]

    (done,) = translate_normalized(table, [text], 0, table.translate, search)
    return done, read


def test_the_most_probable_hypothesis_that_lost_the_least_is_chosen():
    answers = {
        "We met Dmitri in 1756.": "我们。",
        "We met Tom in 1990.": "我们。",
        "We met Tom in Boston.": "我们。",
    }
    hypotheses = ["我们见了Dmi。", "我们1756年见了。", "1756年我们见了Dmitri。", "我们1756年见了Dmitri。"]
    done, read = searched("We met Dmitri in 1756.", answers, hypotheses)
    assert done.text == "1756年我们见了Dmitri。"
    assert read == ["We met Dmitri in 1756."]
    # none is better
    assert searched("We met Dmitri in 1756.", answers, hypotheses[:1])[0].text == "我们。"


def test_a_sentence_that_lost_nothing_is_not_searched_again():
    assert searched("We met in 1756.", {"We met in 1756.": "我们1756年见了。"}, [])[1] == []


def test_a_search_returns_complete_hypotheses_with_the_best_first():
    translator = Translator.load("en-fr", device="cpu")
    (found,) = translator._searched(["We saw a dog."], [0], DecodingOptions(beams=4), None)
    assert len(found) == 4
    assert not any(one.cut_off for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_country_that_a_chinese_translation_left_in_english_is_translated():
    assert (
        translated("We saw Spain.", {"We saw Spain.": "我们看见了Spain。"}, "zh")[0] == "我们看见了西班牙。"
    )
    text = "我们坐了Air France。"
    assert translated("We took Air France.", {"We took Air France.": text}, "zh")[0] == text
    (part,) = split_text("We saw Spain.", "en", "zh").parts
    assert lost_particulars(part, part.core, "我们看见了西班牙。", "zh", lambda word: True) == ()
    # also if a name stood for it
    answers = {
        "We saw Dmitri.": "我们看见了Dmi。",
        "We saw Spain.": "我们看见了Sp。",
        "We saw Tom.": "我们看见了Tom。",
    }
    assert translated("We saw Spain.", answers, "zh")[0] == "我们看见了西班牙。"
