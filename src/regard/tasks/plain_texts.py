"""The settings of data that is text without labels, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.errors import ArgumentError, UnknownNameError, option
from regard.settings import setting
from regard.tasks.settings import EmbeddedSettings

__all__ = ["PlainTextSettings"]

EMBEDDED_LANGUAGES = ("en", "fr", "zh")


@dataclass(frozen=True, kw_only=True)
class PlainTextSettings(EmbeddedSettings):
    """Text to train and validate on, or sentences of the embedded corpus where no data is named.

    A subclass names in ``of_files`` its settings that have no effect on these sentences.
    """

    title: ClassVar[str] = "Data"
    locations: ClassVar[tuple[str, ...]] = ("data", "valid")
    of_files: ClassVar[tuple[str, ...]] = ("valid", "skip_bad_rows")

    data: str | None = setting(None, "Training text: a file, also .gz, or '-'.")
    valid: str | None = setting(None, "Validation text, in the form of the training data.")
    hold_out: float = setting(0.1, "Share of the text to validate on.")
    skip_bad_rows: bool = setting(
        False, "Leave out and count lines that cannot be read, instead of stopping."
    )
    language: str = setting("en", "Language of the embedded sentences: en, fr or zh.", flag="--from")

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.hold_out < 1:
            raise ArgumentError("hold_out", f"expected a share between 0 and 1, got {self.hold_out}")
        if self.valid == "-":
            problem = f"only {option('data')} can be read from standard input"
            raise ArgumentError("valid", problem, "name a file")
        if self.data and self.data == self.valid:
            problem = f"the same as {option('data', self.data)}"
            raise ArgumentError("valid", problem, "name data that is not trained on, or leave it out")
        if self.language not in EMBEDDED_LANGUAGES:
            raise UnknownNameError("language", self.language, EMBEDDED_LANGUAGES)
        self._check_embedded()

    def _check_embedded(self) -> None:
        """Reject settings of files if no file is named, and settings that leave nothing to train on."""
        for name in self.of_files:
            if self.data is None and getattr(self, name):
                raise ArgumentError(
                    name, f"of no use without {option('data')}", "leave it out, or name the data"
                )
        self.check_embedded_count("texts")
        if self.data is not None and self.embedded:
            raise ArgumentError("embedded", f"of no use with {option('data')}", "leave it out")

    @property
    def format(self) -> str:
        """The ending of the file that a copy of standard input has."""
        return "txt"
