"""Tests of dates, times, ordinals, measures, decades and codes, with a model that answers from a table."""

import pytest

from regard.tasks.translate.dates import lone_date, with_plain_dates
from regard.tasks.translate.numerals import has_numerals, read_numerals, with_numerals
from regard.tasks.translate.spelled_numbers import SPELLED, chinese_words, french_words, number_of
from regard.text.traced import TracedText
from regard.text.verbatim import find_verbatim
from support.table_translator import translated

# ---- dates and times


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("My birthday is on March 3rd.", "My birthday is on March 3."),
        ("It was on the 3rd of March, 2024, in Rome.", "It was on March 3, 2024, in Rome."),
        ("It was the 21st of may 1990.", "It was May 21, 1990."),
        ("We leave on 5 May.", "We leave on May 5."),
        ("We leave on Dec. 25 or Sept 1st.", "We leave on December 25 or September 1."),
        ("ON MARCH 3RD", "ON MARCH 3"),
        ("It opens at 9am and closes at 5:30 PM.", "It opens at 9:00 and closes at 17:30."),
        ("Come at 12am, or at 12 pm.", "Come at 0:00, or at 12:00."),
        ("Come at 5 p.m.", "Come at 17:00."),
        ("At 5 p.m. we left.", "At 17:00 we left."),
        ("It takes 3h, 1 hr or 20min.", "It takes 3 hours, 1 hour or 20 minutes."),
        ("No. 5 is at No. 6.", "Number 5 is at number 6."),
        ("A 10-year-old and two 3-month-olds.", "A 10 year old and two 3 month olds."),
        # as in training, or no date and no time
        ("The lesson ends at 3:15 p.m.", None),
        ("I may 3 times march 10 km in May 2020.", None),
        ("I am 5 and 13 am is no hour.", None),
        ("Section 5 H says no.", None),
        ("It costs $5 m, 32 May, 1.5 March, 10-5 May, 5 marches.", None),
        ("Jan 12:30, Mar 5%", None),
    ],
)
def test_dates_and_times_are_read_in_the_form_of_training(text, read):
    assert with_plain_dates(TracedText(text)).text == (read or text)


@pytest.mark.parametrize(
    ("text", "french", "chinese"),
    [
        ("March 3rd, 2024", "3 mars 2024", "2024年3月3日"),
        ("the 1st of april", "1er avril", "4月1日"),
        ("MONDAY, MAY 5", "LUNDI 5 MAI", "5月5日星期一"),
        ("Sunday, 5 May 2024.", "Dimanche 5 mai 2024.", "2024年5月5日星期天。"),
        ("May 5 is fine", None, None),
        ("We met on May 5.", None, None),
        ("May", None, None),
    ],
)
def test_a_date_alone_is_translated_without_a_model(text, french, chinese):
    assert (lone_date(text, "fr"), lone_date(text, "zh")) == (french, chinese)
    assert lone_date(text, "de") is None
    if french:
        assert translated(f"- {text} 🙂\n", {}) == (f"- {french} 🙂\n", [])


# ---- ordinals, measures and decades


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        (
            "She lives on the 21st floor.",
            "She lives on the third floor.",
            "Elle vit au troisième étage.",
            "Elle vit au 21e étage.",
        ),
        (
            "This is my 1st visit.",
            "This is my first visit.",
            "C'est ma première visite.",
            "C'est ma 1re visite.",
        ),
        (
            "He won 1st prize.",
            "He won first prize.",
            "Il a gagné le premier prix.",
            "Il a gagné le 1er prix.",
        ),
        (
            "The 2nd and the 3rd day.",
            "The third and the fourth day.",
            "Le troisième et le quatrième jour.",
            "Le 2e et le 3e jour.",
        ),
        (
            "The third of the 5th.",
            "The third of the fourth.",
            "Le troisième du quatrième.",
            "Le troisième du 5e.",
        ),
        ("The first and 1st.", "The first and first.", "Le premier et premier.", "Le premier et premier."),
        ("3rd place!", "Third place!", "La troisième place !", "La 3e place !"),
        ("Please come on the 22nd!", "Please come on March 22!", "Viens le 22 mars !", "Viens le 22 !"),
        ("In May 2020 we met.", "On May 20, 2020 we met.", "Le 20 mai 2020, oui.", "En mai 2020, oui."),
        ("Add 2.5 ml, 5cm.", "Add 2.5 kg, 5 meters.", "Ajoute 2.5 kg, 5 mètres.", "Ajoute 2.5 ml, 5 cm."),
        ("It's -5°C or 3°.", "It's -5 degrees or 3 degrees.", "-5 degrés, 3 degrés.", "-5 °C, 3 °."),
        ("5 cm, 5 mm.", "5 meters, 5 mm.", "5 mètres, 5 mm.", "5 cm, 5 mm."),
        ("In the 1990s I sang.", "In the 1990s I sang.", "En 1990s j'ai chanté.", "Dans les années 1990 j'ai chanté."),
        ("I like the '80s.", "I like the '80s.", "J'aime les 80s.", "J'aime les années 80."),
        ("In the 1990s it took 40s.", "In the 1990s it took 40s.", "En 1990s, 40s.", "Dans les années 1990, 40s."),
        ("It took 40s.", "It took 40s.", "Ça prit 40s.", "Ça prit 40s."),
    ],
)  # fmt: skip
def test_numerals_are_read_in_words_that_models_know_and_written_as_in_french(text, read, answer, expected):
    assert translated(text, {read: answer}) == (expected, [read])


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("The 22nd day.", "The third day.", "第三天。", "第22天。"),
        ("The 19th century.", "The third century.", "第三世纪。", "19世纪。"),
        ("Come on the 22nd.", "Come on March 22.", "3月22日来。", "22日来。"),
        ("In May 2020 we met.", "On May 20, 2020 we met.", "我们2020年5月20日见面。", "我们2020年5月见面。"),
        ("Add 5 ml.", "Add 5 kg.", "加5公斤。", "加5ml。"),
        ("In the 1990s.", "In the 1990s.", "在1990s。", "在1990年代。"),
    ],
)
def test_numerals_are_written_as_in_chinese(text, read, answer, expected):
    assert translated(text, {read: answer}, "zh") == (expected, [read])


@pytest.mark.parametrize(
    "answers",
    [
        {"The third day.": "Le jour.", "The 22nd day.": "Le 22nd jour."},
        {"The third day.": "Le troisième, troisième jour.", "The 22nd day.": "Le 22nd jour."},
    ],
)
def test_without_the_word_in_the_translation_an_ordinal_is_read_as_it_is(answers):
    assert translated("The 22nd day.", answers) == ("Le 22e jour.", list(answers))


def test_other_languages_read_numerals_as_they_are():
    text = "The 22nd day, on the 3rd of May at 5pm."
    assert translated(text, {text: "Ja."}, "de") == ("Ja.", [text])


@pytest.mark.parametrize(
    ("text", "read"), [("COME ON THE 22ND", "COME ON MARCH 22"), ("THE 22ND DAY", "THE THIRD DAY")]
)
def test_capitals_stay_capitals(text, read):
    assert read_numerals(TracedText(text), "fr")[0].text == read


def test_words_without_digits_are_not_changed():
    text = TracedText("The third day of May, first of all.")
    assert read_numerals(text, "fr") == (text, ())


# ---- numbers


def test_a_sentence_whose_numbers_are_not_kept_is_read_with_numbers_that_stand_for_them():
    answers = {
        "I have 2 dogs and 1/2 cat.": "J'ai 22 chiens et 1/2 chat.",
        "I have 46 dogs and 57 cat.": "J'ai 46 chiens et 57 chat.",
    }
    assert translated("I have 2 dogs and 1/2 cat.", answers) == ("J'ai 2 chiens et 1/2 chat.", list(answers))


@pytest.mark.parametrize("second", ["J'ai 46 ou 46 chiens.", "J'ai des chiens.", "J'ai 46 chiens et 3."])
def test_the_first_translation_stays_if_the_second_has_not_the_numbers_either(second):
    answers = {"I have 2 dogs.": "J'ai deux chiens.", "I have 46 dogs.": second}
    assert translated("I have 2 dogs.", answers) == ("J'ai deux chiens.", list(answers))


@pytest.mark.parametrize(
    "text",
    ["At 18:45.", "In 2024.", "It's $5.", "I have 1.", "It's 5%.", "Call 555-1234."],
)
def test_numbers_of_other_forms_have_no_stand_in(text):
    answers = {text: "Non."}
    assert translated(text, answers, copy=False) == ("Non.", [text])


def test_the_months_of_chinese_dates_are_no_wrong_numbers():
    text = "We met on March 3."
    assert translated(text, {text: "我们3月3日见面。"}, "zh") == ("我们3月3日见面。", [text])


# ---- codes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("My password is hunter2.", ["hunter2"]),
        ("Use abc123, v2.1 or 'mp3'!", ["abc123", "v2.1", "mp3"]),
        ("python3.11, covid-19, x7k9q2, v1.0-beta, a4-b5", ["python3.11", "covid-19", "x7k9q2", "v1.0-beta", "a4-b5"]),
        ("4x4 and 1h30 in 20m2", ["4x4", "1h30", "20m2"]),
        ("mp3-based files, mp3s", ["mp3", "mp3s"]),
        ("Press Ctrl+C, Alt+F4, Cmd + S or Ctrl+Shift+Esc.", ["Ctrl+C", "Alt+F4", "Cmd + S", "Ctrl+Shift+Esc"]),
        ("No Shift, no +Enter, Shift+, A+B, 2+3.", []),
        ("5km, 3rd, 1990s, 5pm, 10:30am, 80s, 2x, 25kg, 100th", []),
        ("mid-1990s, pre-1945, top-10, B12, AB-1234, don't2", []),
    ],
)  # fmt: skip
def test_words_of_small_letters_and_digits_are_verbatim(text, codes):
    assert [text[part.start : part.end] for part in find_verbatim(text)] == codes


def test_a_code_stands_for_a_word_with_digits():
    read = "My password is KD3582, not BX7714."
    answer = "Mon mot de passe est KD3582, pas BX7714."
    found = translated("my password is hunter2, not abc123.", {read: answer})
    assert found == ("mon mot de passe est hunter2, pas abc123.", [read])


@pytest.mark.parametrize("bad", ["Je sais.", "KD3582 est KD3582.", "KD3582 est KD.", "Il est KD 3582."])
def test_a_name_stands_for_a_word_with_digits_if_the_code_is_not_copied(bad):
    answers = {"KD3582 is good.": bad, "Tom is good.": "Tom est bon."}
    assert translated("mp3 is good.", answers) == ("mp3 est bon.", list(answers))
    assert translated("Ctrl+C is good.", answers) == ("Ctrl+C est bon.", list(answers))


def test_a_model_that_does_not_copy_reads_a_name_at_once():
    answers = {"Tom is good.": "Tom est bon."}
    assert translated("mp3 is good.", answers, copy=False) == ("mp3 est bon.", list(answers))


def test_without_any_stand_in_a_word_with_digits_is_left_out_and_put_back():
    answers = {"I see KD3582.": "Oui.", "I see Tom.": "Oui.", "I see.": "Je vois."}
    assert translated("I see mp3.", answers) == ("Je vois mp3.", list(answers))


@pytest.mark.parametrize(
    ("text", "read", "answer", "expected"),
    [
        ("MY CODE IS hunter2", "My code is KD3582.", "Mon code est KD3582.", "MON CODE EST hunter2"),
        ("MY CODE IS AB12", "My code is AB12.", "Mon code est AB12.", "MON CODE EST AB12"),
        ("i see boston in mp3.", "I see Boston in KD3582.", "Vois Boston en KD3582.", "vois Boston en mp3."),
    ],
)
def test_the_case_of_a_sentence_does_not_depend_on_codes(text, read, answer, expected):
    assert translated(text, {read: answer}) == (expected, [read])


def test_spaces_around_what_the_model_wrote_are_dropped():
    assert translated("The dog sleeps.", {"The dog sleeps.": " Le chien dort."})[0] == "Le chien dort."


# Numbers in words


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("She is thirty-seven years old.", 37),
        ("She is Thirty-Seven.", 37),
        ("I have ninety nine problems and more.", 99),
        ("We waited for fifty-five minutes.", 55),
        ("It was in nineteen eighty-four.", None),
        ("It was in twenty twenty-four.", None),
        ("There are a hundred and twenty-five.", None),
        ("Two hundred forty-six people came.", None),
        ("It costs twenty-five thousand.", None),
        ("It is twenty-five past six.", None),
        ("His twenty-fifth birthday.", None),
        ("A twenty-five-year-old man.", None),
        ("We have twenty or five.", None),
    ],
)
def test_a_number_in_words_is_found_where_it_stands_alone(text, number):
    match = SPELLED.search(text)
    assert (None if match is None else number_of(match)) == number


def test_numbers_in_words_are_read_in_digits_and_written_in_words():
    text, numerals = read_numerals(TracedText("He is forty-two and she is seventy-one."), "fr")
    assert text.text == "He is 42 and she is 71."
    assert has_numerals("Il a 42 ans et elle en a 71.", numerals)
    written = with_numerals(TracedText("Il a 42 ans et elle en a 71."), numerals, text.text, "fr")
    assert written.text == "Il a quarante-deux ans et elle en a soixante et onze."
    text, numerals = read_numerals(TracedText("He is forty-two."), "zh")
    assert with_numerals(TracedText("他42岁。"), numerals, text.text, "zh").text == "他四十二岁。"


@pytest.mark.parametrize("text", ["Forty-two people came.", "Page 42 has forty-two lines."])
def test_a_number_at_the_start_or_beside_its_digits_stays(text):
    assert read_numerals(TracedText(text), "fr")[0].text == text


def test_every_number_has_its_own_words():
    numbers = [number for number in range(21, 100) if number % 10]
    for words in (french_words, chinese_words):
        assert len({words(number) for number in numbers}) == len(numbers) == 72
