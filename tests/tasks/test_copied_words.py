"""The correction of words that were copied with a wrong token, on bytes as tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from regard.decoding import Hypothesis
from regard.tasks import copied_words
from regard.tasks.copied_tokens import TokenOrigin
from regard.tasks.copied_words import with_whole_words
from regard.tasks.text_generation import ShownText
from regard.tasks.translate.translator import Translator
from regard.text import ByteVocabulary

BYTES = ByteVocabulary()


def whole(generator, source, read, written, *is_rare):
    """Return the text of a translation with its copied words corrected."""
    shown = [[ShownText.of(BYTES.decode(written))]]
    found = [[Hypothesis(written, -1.0, -0.5)]]
    (((best),),) = with_whole_words(generator, [(source, read)], found, shown, *is_rare)
    return best


@pytest.fixture
def corrected(monkeypatch):
    """Return a function that corrects a translation whose tokens were copied, but for the bytes in ``generated``."""
    translator = Translator(SimpleNamespace(), BYTES, BYTES)

    def corrected(source: str, text: str, generated: str = "", share: float = 0.9) -> str:
        read, written = BYTES.encode(source), BYTES.encode(text)

        def origins(model, vocabulary, sources, targets):
            assert (sources, targets) == ([read], [written])
            # Each token comes from the first place after the one before, or from the first of all.
            found, last = [], -1
            for byte, token in zip(text.encode(), written, strict=True):
                places = [i for i in [*range(last + 1, len(read)), *range(last + 1)] if read[i] == token]
                if places and chr(byte) not in generated:
                    last = places[0]
                    found.append(TokenOrigin(0.9, share, last))
                else:
                    found.append(TokenOrigin(0.9, 0.0, None))
            return [found]

        monkeypatch.setattr(copied_words, "token_origins", origins)
        best = whole(translator, source, read, written)
        # The tokens stay those that the model wrote, and each corrected character comes from a word of them.
        assert best.written == text
        for letter, (start, end) in zip(best.text.text, best.text.spans, strict=True):
            assert end - start > 1 or text[start:end] == letter
        return best.text.text

    return corrected


@pytest.mark.parametrize(
    ("source", "text", "right"),
    [
        ("Mrs. Delacroix is here.", "Delacroxix est ici.", "Delacroix est ici."),
        ("I read Jovafulf's letter.", "J'ai lu la lettre de Jovaf.", "J'ai lu la lettre de Jovafulf."),
        ("It is 1,250,000.", "C'est 1,2500,000.", "C'est 1,250,000."),
        ("He left Ottawiki.", "Il est parti d'Ottawikiki.", "Il est parti d'Ottawiki."),
        ("Ask O'Brunfeld.", "Demande à O'Brunfeldfeld.", "Demande à O'Brunfeld."),
        ("I am Kovalczyk.", "我是Kovalczykzyk。", "我是Kovalczyk。"),
        ("Anna Meyerling and Tom.", "Anna Meyerlinging et Tom.", "Anna Meyerling et Tom."),
    ],
)
def test_a_word_that_was_copied_wrong_is_corrected(corrected, source, text, right):
    assert corrected(source, text) == right


@pytest.mark.parametrize(
    ("source", "text", "generated"),
    [
        # Generated letters make it a word of the other language.
        ("He is in Moscow.", "Il est à Moscou.", "u"),
        # Nothing is wrong.
        ("I am Delacroix.", "Je suis Delacroix.", ""),
        # The number is written as in French.
        ("It costs 1,299.99.", "Ça coûte 1 299,99.", ""),
        ("It ends at 4:00.", "Ça finit à 4 h 00.", ""),
        ("On May 23rd.", "Le 23r mai.", ""),
    ],
)
def test_other_words_stay(corrected, source, text, generated):
    assert corrected(source, text, generated=generated) == text


def test_a_word_that_was_generated_stays(corrected):
    assert corrected("I am Delacroix.", "Je suis Delacroxix.", share=0.4) == "Je suis Delacroxix."


def test_a_word_that_is_in_the_text_already_replaces_no_other(corrected):
    found = corrected("Marianne and Pokolov.", "Marianne, Mariann et Pokolo.")
    assert found == "Marianne, Mariann et Pokolov."


def test_the_caller_tells_which_words_are_rare(monkeypatch):
    source, text = "we present potpourri, a corpus of verbs.", "potrip of verbss"
    read, written = BYTES.encode(source), BYTES.encode(text)
    place = source.index("potpourri")

    def origins(model, vocabulary, sources, targets):
        # All tokens were copied, the first word from "potpourri" and the last one from "verbs".
        places = (
            [place + i for i in range(6)] + [0] + [31, 32, 0] + [source.index("verbs") + i for i in range(6)]
        )
        return [[TokenOrigin(0.9, 0.9, i) for i in places]]

    monkeypatch.setattr(copied_words, "token_origins", origins)
    generator = Translator(SimpleNamespace(), BYTES, BYTES)
    best = whole(generator, source, read, written, lambda word: word.startswith("pot"))
    assert best.text.text == "potpourri of verbss"
    assert whole(generator, source, read, written).text.text == text  # no word has a capital or a digit


def test_a_word_that_was_not_read_to_its_end_replaces_none(monkeypatch):
    source, text = "This is Delacroix", "Delacroxi"
    read, written = BYTES.encode(source)[:12], BYTES.encode(text)
    origins = [TokenOrigin(0.9, 0.9, min(8 + i, 11)) for i in range(len(written))]
    monkeypatch.setattr(copied_words, "token_origins", lambda *_: [origins])
    generator = Translator(SimpleNamespace(), BYTES, BYTES)
    assert whole(generator, source, read, written).text.text == text
