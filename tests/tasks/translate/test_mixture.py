"""Tests of what is added to the training pairs of a translator and changed in them."""

import gzip
import json
import re
from random import Random

import pytest

from regard.corpus.everyday import everyday_phrases, written_sentences
from regard.corpus.particulars import names
from regard.errors import ArgumentError
from regard.tasks.translate.data import pair_source, prepare, training_pairs
from regard.tasks.translate.mixture import mixture_lines
from regard.tasks.translate.noise import noisy
from regard.tasks.translate.settings import TranslationSettings
from regard.tasks.translate.showcase import everyday_sentences
from regard.tasks.translate.variation import varied
from regard.text import Skipped, load_vocabulary, train_vocabulary
from support.pages import pages
from support.paths import data_folder

ROWS = [
    ("Tom is 30 years old.", "Tom a 30 ans."),
    ("I think that Tom knows Mary.", "Je pense que Tom connaît Mary."),
    ("I like this big garden.", "J'aime ce grand jardin."),
    ("We were in Boston in 1995.", "Nous étions à Boston en 1995."),
    ("It doesn't rain here often.", "Il ne pleut pas souvent ici."),
] * 20


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [(f"{source} {number}x", target) for number, (source, target) in enumerate(ROWS)]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    valid = tmp_path / "valid.tsv"
    valid.write_text("".join(f"{source}\t{target}\n" for source, target in rows[:10]), encoding="utf-8")
    return {"data": str(path), "valid": str(valid)}


def test_pairs_are_as_before_without_the_settings(data):
    plain = TranslationSettings(**data)
    assert len(list(training_pairs(plain))) == 90
    assert not any(isinstance(part, dict) for part in pair_source(plain).identity())
    assert mixture_lines(plain) == []


def test_everything_that_is_added(data):
    settings = TranslationSettings(**data, embedded=50, particulars=40, phrases=True, everyday=20, scenes=30)
    rows = list(training_pairs(settings))
    assert len(rows) == 90 + 50 + 40 + 20 + 30 + len(everyday_phrases()) + len(written_sentences())
    assert ("Hello.", "Bonjour.") in rows
    chinese = TranslationSettings(**data, target_language="zh", phrases=True)
    assert ("Hello.", "你好。") in list(training_pairs(chinese))
    (line,) = mixture_lines(settings)
    assert all(part in line for part in ("50 sentences", "40 sentences", "20 everyday", "30 scenes"))


def test_copies_of_phrases_are_kept_in_the_encoded_data(data, tmp_path):
    sizes = {"vocabulary_size": 400, "phrases": True}
    once = prepare(TranslationSettings(**data, **sizes), tmp_path / "once", learn=True)
    thrice = prepare(TranslationSettings(**data, **sizes, phrase_copies=3), tmp_path / "thrice", learn=True)
    number, others = len(everyday_phrases()), len(written_sentences()) + 90
    # The other pairs are all different, and some phrases have the same text twice.
    assert number * 0.9 + others < len(once.train) <= number + others
    assert len(thrice.train) == 3 * number + others
    assert thrice.train.skipped.duplicates == 0


def test_changes_are_the_same_whenever_the_pairs_are_read(data):
    settings = TranslationSettings(**data, vary=0.5, noise=0.5, joined=0.2)
    rows = list(training_pairs(settings))
    assert rows == list(training_pairs(settings))
    assert rows != list(
        training_pairs(TranslationSettings(**data, vary=0.5, noise=0.5, joined=0.2, embedded_seed=1))
    )
    assert len(rows) > 100  # with joined pairs


def test_a_pair_that_is_held_out_is_never_varied_joined_or_made_noisy(data):
    skipped = Skipped()
    settings = TranslationSettings(**data, vary=1.0, noise=1.0, joined=1.0)
    rows = list(training_pairs(settings, skipped))
    assert skipped.held_out == 10
    endings = tuple(f" {number}x" for number in range(10))
    assert not [row for row in rows if row[0].lower().endswith(endings)]


def test_the_cache_is_built_again_for_other_settings(data, tmp_path):
    first = prepare(TranslationSettings(**data, vocabulary_size=300), tmp_path / "run", learn=True)
    second = prepare(TranslationSettings(**data, vocabulary_size=300, scenes=50), tmp_path / "run")
    assert len(second.train) > len(first.train)
    again = prepare(TranslationSettings(**data, vocabulary_size=300, scenes=50), tmp_path / "run")
    assert again.train.manifest["fingerprint"] == second.train.manifest["fingerprint"]
    other = prepare(TranslationSettings(**data, vocabulary_size=300, scenes=50, noise=0.5), tmp_path / "run")
    assert other.train.manifest["fingerprint"] != second.train.manifest["fingerprint"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vary": 1.5}, "vary.*share from 0 to 1"),
        ({"noise": -0.1}, "noise.*share from 0 to 1"),
        ({"scenes": -1}, "scenes.*0 or more"),
        ({"everyday": -1}, "everyday.*0 or more"),
        ({"everyday": 5, "target_language": "de"}, "everyday.*embedded corpus has en, fr, zh"),
        ({"particulars": 5, "target_language": "de"}, "particulars.*embedded corpus has en, fr, zh"),
        ({"phrases": True, "phrase_copies": 0}, "phrase_copies.*1 or more"),
        ({"phrase_copies": 2}, "phrase_copies.*of no use without.*phrases"),
        ({"copyable": True, "vocabulary": "word"}, "copyable.*of no use"),
    ],
)
def test_settings_that_cannot_be(given, message):
    with pytest.raises(ArgumentError, match=message):
        TranslationSettings(data="x.tsv", **given)


# Names and numbers


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (
            "I think that Tom left.",
            "Je pense que Tom est parti.",
            r"Je pense (que |qu')(?P<new>.+) est parti\.",
        ),
        ("This is Alice's car.", "C'est la voiture d'Alice.", r"C'est la voiture (de |d')(?P<new>.+)\."),
        ("He lives in Boston.", "Il habite à Boston.", r"Il habite à (?P<new>.+)\."),
        ("It costs 250 dollars.", "Ça coûte 250 dollars.", r"Ça coûte (?P<new>\d{3}) dollars\."),
        ("Tom left.", "汤姆走了。", r"(?P<new>.+)走了。"),
        ("Mary sings.", "Marie chante.", r"(?P<new>.+) chante\."),
    ],
)
def test_names_and_numbers_are_replaced_on_both_sides(source, target, kept):
    for seed in range(200):
        pair = varied(
            Random(seed), source, target, french=target.isascii() or "Ça" in target or "à" in target
        )
        assert pair is not None
        found = re.fullmatch(kept, pair[1])
        assert found, pair
        assert found["new"] in pair[0], pair
        assert not re.search(r"\b(de|que) [AEIOUÉ]|\b(d|qu)'[^AEIOUÉÈÅÖÜÆØ]", pair[1]), pair


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("I visited the Titanic museum.", "J'ai visité le musée du Titanic."),  # an article
        ("He lives in Canada.", "Il vit au Canada."),
        ("It was the 16th time.", "C'était la 16e fois."),  # an ordinal
        ("I have 1 dog.", "J'ai 1 chien."),  # singular
        ("Here's $5.", "Voilà cinq dollars."),  # not the same
        # The start of a sentence, not a frequent name.
        ("Paris is big.", "Paris est grand."),
    ],
)
def test_pairs_whose_grammar_might_break_stay(source, target):
    assert varied(Random(1), source, target, french=True) is None


def test_new_names_are_those_of_the_training_split():
    for seed in range(300):
        source, _ = varied(Random(seed), "I know Mary.", "Je connais Mary.", french=True) or ("", "")
        first = source.removeprefix("I know ").removesuffix(".").split(" ")[0]
        assert names.in_split(first, "train")


# Noise


def test_kinds_of_noise():
    found = {noisy(Random(seed), "I don't understand this question.") for seed in range(400)}
    assert "I don't understand this question" in found
    assert "i don't understand this question." in found
    assert "I DON'T UNDERSTAND THIS QUESTION." in found
    assert "I dont understand this question." in found
    assert "I do not understand this question." in found
    assert any(len(text) == 34 and "question" not in text for text in found)  # a letter twice


def test_noise_keeps_names_and_numbers():
    for seed in range(300):
        text = noisy(Random(seed), "My name is Katarzyna Okafor, room 4127B.")
        assert all(part in text for part in ("Katarzyna Okafor", "4127B"))


# Phrases


def plain(text):
    return re.sub(r"[^\w]+", " ", text.lower()).strip()


def test_phrases_are_no_examples_of_the_documentation():
    assert len(everyday_phrases()) > 600
    sentences = {plain(text) for text in everyday_sentences()}
    words = f" {plain(' '.join(path.read_text(encoding='utf-8') for path in pages()))} "
    for english, french, chinese in (*everyday_phrases(), *written_sentences()):
        assert plain(english) not in sentences
        assert len(plain(english).split()) < 3 or f" {plain(english)} " not in words, english
        assert french
        assert re.search(r"[\u4e00-\u9fff]", chinese)


def test_generated_sentences_are_none_of_the_card_of_a_model(data):
    settings = TranslationSettings(**data, everyday=60_000)
    sources = {source for source, _ in training_pairs(settings)}
    assert len(sources) > 10_000, "most frames with most fillers"
    assert not sources & set(everyday_sentences())


@pytest.mark.parametrize("name", ["tatoeba_eng_fra", "tatoeba_eng_cmn"])
def test_phrases_are_in_no_validation_or_test_set(name):
    phrases = {plain(english) for english, _, _ in (*everyday_phrases(), *written_sentences())}
    for path in data_folder(name).glob("*.tsv.gz"):
        if not path.name.startswith("train"):
            held = {
                plain(line.split("\t")[0])
                for line in gzip.decompress(path.read_bytes()).decode().splitlines()
            }
            assert not held & phrases, path


# Tokens that are the same on both sides


def test_a_copied_word_has_the_same_tokens_in_both_languages(tmp_path):
    settings = TranslationSettings(embedded=300, particulars=1500, target_language="zh", copyable=True)
    texts = [text for row in training_pairs(settings) for text in row]
    vocabulary = train_vocabulary("bpe", texts, 2000, copyable=True)
    vocabulary.save(tmp_path / "tokenizer.json")
    vocabulary = load_vocabulary(tmp_path / "tokenizer.json")
    for text in (
        "Alexander",
        "O'Brien",
        "Jean-Luc Müller",
        "1987",
        "$1,299.99",
        "AB-1234-X",
        "(555) 123-4567",
    ):
        own = vocabulary.encode(text)
        for whole in (f"{text} is here", f"say {text}.", f"我是{text}。", f"d'{text}", f"{text}, {text}"):
            found = vocabulary.encode(whole)
            assert any(found[place : place + len(own)] == own for place in range(len(found))), (text, whole)
            assert vocabulary.decode(found) == whole
    assert all(len(vocabulary.encode(digits)) == len(digits) for digits in ("7", "42", "2024"))


def test_a_tokenizer_that_splits_otherwise_is_rejected(tmp_path):
    vocabulary = train_vocabulary("bpe", ["Ann is 21"] * 5, 300, copyable=True)
    content = json.loads(json.dumps(vocabulary.to_json()))
    content["tokenizer"]["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "x"
    with pytest.raises(ArgumentError, match="does not split at byte level"):
        type(vocabulary).from_json(content)
