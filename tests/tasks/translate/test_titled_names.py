"""Tests of titled names, times of the day and greetings, with a model that answers from a table."""

import pytest

from support.table_translator import translated


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("Mr. Kowalczyk left.", "Tom left.", "Tom est parti.", "Monsieur Kowalczyk est parti."),
        ("I saw Mrs Okonkwo.", "I saw Mary.", "J'ai vu Marie.", "J'ai vu Madame Okonkwo."),
        ("Miss O'Neill-Smith is here.", "Mary is here.", "Mary est là.", "Mademoiselle O'Neill-Smith est là."),
        ("It is Dr. Ito's car.", "It is Tom's car.", "C'est la voiture de Tom.", "C'est la voiture du docteur Ito."),
        ("Ask Professor Ana Ruiz.", "Ask Tom.", "Demande à Tom.", "Demande au professeur Ana Ruiz."),
        ("Dr. Ito left.", "Tom left.", "Tom est parti.", "Le docteur Ito est parti."),
        ("We know Dr. Ito.", "We know Tom.", "Nous connaissons Tom.", "Nous connaissons le docteur Ito."),
        ("Mr. Ito knows Mr. Ruiz.", "Tom knows John.", "Tom connaît John.", "Monsieur Ito connaît Monsieur Ruiz."),
        ("Mr. and Mrs. Ito left.", "Tom and Mary left.", "Tom et Marie partent.", "Monsieur et Madame Ito partent."),
        ("Tom knows Mr. Ito.", "Tom knows John.", "Tom connaît John.", "Tom connaît Monsieur Ito."),
    ],
)  # fmt: skip
def test_a_first_name_stands_for_a_titled_name_in_french(text, read, answer, expected):
    assert translated(text, {read: answer}) == (expected, [read])


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("Mr. Kowalczyk left.", "Tom left.", "汤姆走了。", "Kowalczyk先生走了。"),
        ("Ms. Ito left.", "Mary left.", "玛丽走了。", "Ito女士走了。"),
        ("Mr. and Mrs. Ito left.", "Tom and Mary left.", "汤姆和玛丽走了。", "Ito夫妇走了。"),
        ("Dr. Ito left.", "Tom left.", "Tom走了。", "Ito医生走了。"),
    ],
)
def test_a_first_name_stands_for_a_titled_name_in_chinese(text, read, answer, expected):
    assert translated(text, {read: answer}, "zh") == (expected, [read])


@pytest.mark.parametrize("answer", ["Il est parti.", "Tom a vu Tom."])
def test_without_the_first_name_in_the_translation_a_titled_name_is_read_as_it_is(answer):
    answers = {"Tom left.": answer, "Mr. Ito left.": "M. Ito est parti."}
    assert translated("Mr. Ito left.", answers) == ("M. Ito est parti.", list(answers))


@pytest.mark.parametrize(
    "text", ["Tom and John know Mr. Ito.", "The miss is here.", "Tom and Mr. and Mrs. Ito left."]
)
def test_a_titled_name_is_read_as_it_is_where_no_first_name_is_free(text):
    assert translated(text, {text: "Oui."})[1] == [text]


def test_an_office_after_a_title_is_not_a_name():
    text = "Thank you, Mr. President."
    assert translated(text, {text: "Merci, Monsieur le Président."}) == (
        "Merci, Monsieur le Président.",
        [text],
    )


def test_other_languages_read_titled_names_as_they_are():
    assert translated("Mr. Ito left.", {"Mr. Ito left.": "Herr Ito ging."}, "de")[0] == "Herr Ito ging."


@pytest.mark.parametrize(
    ("language", "answer", "expected"),
    [
        ("zh", "他3:45到。", "他下午3:45到。"),
        ("zh", "他晚上3:45到。", "他下午3:45到。"),
        ("fr", "Il vient à 3:45.", "Il vient à 3:45 de l'après-midi."),
        ("fr", "Il vient à 3:45 du soir.", "Il vient à 3:45 de l'après-midi."),
        ("fr", "Il vient à 3 h 45 du soir.", "Il vient à 3 h 45 de l'après-midi."),
    ],
)
def test_a_time_keeps_its_half_of_the_day(language, answer, expected):
    text = "He comes at 3:45 p.m."
    assert translated(text, {text: answer}, language) == (expected, [text])


def test_a_time_in_the_morning_and_one_without_a_half():
    text = "From 9:05 a.m. until 11:30 he works."
    assert translated(text, {text: "他9:05到11:30工作。"}, "zh")[0] == "他上午9:05到11:30工作。"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Good morning, how is your mother?", ["Good morning.", "How is your mother?"]),
        ("Hello everyone, the train is late.", ["Hello everyone.", "The train is late."]),
        ("Hello, dear Tom.", ["Hello, dear Tom."]),
        ("Hello Tom, how are you doing?", ["Hello Tom, how are you doing?"]),
    ],
)
def test_a_greeting_before_a_clause_is_read_by_itself(text, read):
    assert translated(text, dict.fromkeys(read, "Oui."))[1] == read


def test_the_comma_after_a_greeting_is_given_back():
    answers = {"Hello.": "Bonjour.", "I am Tom.": "Je suis Tom."}
    assert translated("Hello, I am Tom.", answers)[0] == "Bonjour, je suis Tom."


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("In the 1990s, I lived here.", "1990s年，我住在这里。", "1990年代，我住在这里。"),
        ("He likes the 1990s.", "他喜欢1990s年代。", "他喜欢1990年代。"),
    ],
)
def test_a_copied_decade_before_a_chinese_character_is_written_in_chinese(text, answer, expected):
    assert translated(text, {text: answer}, "zh")[0] == expected


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("Dear Ms. Ito,", "Dear Mary.", "Cher Mary.", "Chère Madame Ito,"),
        ("Dear Miss Ito,", "Dear Mary.", "Chère Marie.", "Chère Mademoiselle Ito,"),
        ("Dear Mr. Ito,", "Dear Tom.", "Cher Tom.", "Cher Monsieur Ito,"),
        ("Dear Dr. Ito,", "Dear Tom.", "Cher Tom.", "Cher docteur Ito,"),
        ("Dear Mr. and Mrs. Ito,", "Dear Tom and Mary.", "Cher Tom et Mary.", "Chers Monsieur et Madame Ito,"),
        ("DEAR MRS ITO,", "Dear Mary.", "Cher Mary.", "CHÈRE MADAME ITO,"),
    ],
)  # fmt: skip
def test_a_french_salutation_agrees_with_its_title(text, read, answer, expected):
    assert translated(text, {read: answer}) == (expected, [read])


@pytest.mark.parametrize(
    ("text", "french", "chinese"),
    [
        ("Dear Sir or Madam,", "Madame, Monsieur,", "尊敬的先生或女士，"),
        ("Dear Sirs,", "Messieurs,", "尊敬的先生们，"),
        ("To whom it may concern:", "À qui de droit :", "敬启者："),
    ],
)
def test_a_salutation_without_a_name_is_written_as_in_letters(text, french, chinese):
    assert translated(text, {}) == (french, [])
    assert translated(text, {}, "zh") == (chinese, [])


def test_a_salutation_without_a_name_is_cut_from_its_sentence():
    answers = {"We have a cat.": "Nous avons un chat."}
    text, read = translated("Dear Sir or Madam, we have a cat.", answers)
    assert (text, read) == ("Madame, Monsieur, nous avons un chat.", list(answers))
