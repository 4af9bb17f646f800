"""Tests of the guess at the language of a text."""

import gzip

import pytest

from regard.text.languages import other_language
from support.paths import data_folder


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Le chat est assis sur le tapis.", "fr"),
        ("Guten Morgen, wie geht es dir heute?", "de"),
        ("No sé qué es lo que quiere.", "es"),
        ("我爱你。", "zh"),
        ("こんにちは、元気ですか", "ja"),
        ("안녕하세요 세계", "ko"),
        ("Привет, как дела?", "ru"),
        ("Привіт, як у тебе справи?", "uk"),
        ("مرحبا بالعالم", "ar"),
        ("Καλημέρα κόσμε", "el"),
    ],
)
def test_other_languages_are_recognised(text, language):
    assert other_language(text, "en") == language
    assert other_language(text, language) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hi!",
        "Jean-Luc Picard",
        "Rue de la Paix, Paris",
        "La Traviata de Verdi",
        "Tom visited Rio de Janeiro and Los Angeles.",
        "I met 毛泽东 in Beijing.",
        "café, naïve, résumé",
        "3.14 + 2 = 5.14",
        "https://example.org/de/la/maison",
        "NASA, ESA, CNES",
    ],
)
def test_names_and_short_texts_give_no_false_alarm(text):
    assert other_language(text, "en") == ""


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello. Ich habe heute leider keine Zeit. Where is it?", "de"),
        ("We met at noon. Je ne sais pas où il habite. He left at once, and I went home with Tom.", "fr"),
        ("We were late again. C'est la vie. We went home.", ""),
        ("We saw La Traviata de Verdi. It was great.", ""),
    ],
)
def test_a_sentence_in_another_language_is_found_in_a_text(text, language):
    assert other_language(text, "en") == language


def test_english_is_recognised_where_another_language_is_expected():
    text = "I do not know what he wants from us."
    assert [other_language(text, expected) for expected in ("fr", "de", "zh", "tlh", "")] == ["en"] * 3 + [
        "",
        "",
    ]


def sentences(path, column):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(dict.fromkeys(line.rstrip("\n").split("\t")[column] for line in file))


def test_no_english_sentence_of_tatoeba_or_multi30k_is_taken_for_another_language():
    folder = data_folder("tatoeba_eng_fra")
    english = sentences(folder / "valid.tsv.gz", 0) + sentences(data_folder("multi30k") / "val.en.gz", 0)
    english += sentences(data_folder("tatoeba_eng_cmn") / "valid.tsv.gz", 0)
    assert len(english) > 4000
    assert [text for text in english if other_language(text, "en")] == []


@pytest.mark.parametrize(
    ("folder", "name", "column", "language", "share"),
    [
        ("tatoeba_eng_fra", "valid.tsv.gz", 1, "fr", 0.88),
        ("multi30k", "val.fr.gz", 0, "fr", 0.98),
        ("multi30k", "val.de.gz", 0, "de", 0.93),
        ("tatoeba_eng_cmn", "valid.tsv.gz", 1, "zh", 1.0),
    ],
)
def test_most_sentences_of_other_languages_are_recognised(folder, name, column, language, share):
    texts = sentences(data_folder(folder) / name, column)
    found = [other_language(text, "en") for text in texts]
    assert set(found) <= {"", language}
    assert found.count(language) >= share * len(texts)
    assert not any(other_language(text, language) for text in texts)
