"""The correction of words that were copied with a wrong token, on bytes as tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from regard.decoding import Hypothesis
from regard.tasks.copied_tokens import TokenOrigin
from regard.tasks.translate import copied_words
from regard.tasks.translate.copied_words import with_whole_words
from regard.tasks.translate.translator import Translator
from regard.text import ByteVocabulary

BYTES = ByteVocabulary()


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
        (((best),),) = with_whole_words(translator, [(source, read)], [[Hypothesis(written, -1.0, -0.5)]])
        assert (best.log_probability, best.score, best.ended) == (-1.0, -0.5, True)
        return BYTES.decode(best.tokens)

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
