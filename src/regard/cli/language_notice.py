"""The notice that a text is in another language than the model's."""

from __future__ import annotations

from regard.cli.environment import say

__all__ = ["LanguageNotice"]


class LanguageNotice:
    """Says once which text is the first that is in another language than the model reads.

    ``reads`` is what the model does, before the name of its language, such as "translates from".
    """

    def __init__(self, reads: str):
        self.reads, self.is_said = reads, False

    def check(self, texts: list[str], expected: str, first: int) -> None:
        """Check texts, of which the first has the number ``first``, against the code of the expected language."""
        from regard.text.languages import LANGUAGES, known_code, other_language

        for number, text in enumerate([] if self.is_said else texts, start=first + 1):
            other = other_language(text, expected)
            if other:
                which = "the text" if len(texts) == number == 1 else f"text {number}"
                if not other_language(text, expected, sentences=False):
                    which = f"a sentence of {which}"
                wanted = LANGUAGES[known_code(expected)]
                say(f"{which} seems to be {LANGUAGES[other]}, but the model {self.reads} {wanted}")
                self.is_said = True
                return
