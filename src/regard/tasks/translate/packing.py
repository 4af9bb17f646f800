"""From a training run to a folder that can be given away: small weights, the best reading, a full card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ArgumentError, FileError, UnknownNameError
from regard.files import write_atomically
from regard.models.pretrained import CONFIG, DTYPES
from regard.tasks.translate.alignment import choose_reading
from regard.tasks.translate.card import CardFacts, everyday_sentences, samples_of, write_card
from regard.tasks.translate.gold import embedded_aligned
from regard.tasks.translate.installed import find_translator
from regard.tasks.translate.reading import keep_reading
from regard.tasks.translate.settings import EMBEDDED_LANGUAGES
from regard.tasks.translate.training import settings_of_run
from regard.tasks.translate.translator import Translator

__all__ = ["pack"]

CHOOSING = 500  # sentences of the embedded corpus's validation part


def pack(
    run: Path,
    out: Path,
    *,
    dtype: str = "float16",
    license: str = "",
    data: str = "",
    preparation: str = "",
    notes: str = "",
    results: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Translator:
    """Write the best model of a run into ``out``, choose where alignments are read, and write its card.

    A folder that holds anything is refused, unless ``overwrite`` allows to replace the files of a model in it. The
    reading is chosen on the validation part of the embedded corpus, where that has the languages.
    """
    if dtype not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    if not overwrite:
        _check_empty(out)
    translator = Translator.load(find_translator(run))
    languages = {translator.source_language, translator.target_language}
    found = list(results)
    if translator.attends and languages <= set(EMBEDDED_LANGUAGES):
        reading, rate = choose_reading(translator, embedded_aligned(translator, "valid", CHOOSING))
        keep_reading(translator, reading)
        found.append(("alignments are read from", f"{reading}: AER {100 * rate:.1f} % where it was chosen"))
    translator.save(out, dtype=dtype)
    small = Translator.load(out)  # the samples are those of the weights that are given away
    if sentences is None:
        sentences = everyday_sentences() if translator.source_language == "en" else []
    facts = CardFacts(license, data, tuple(found), preparation, samples_of(small, sentences), notes)
    settings = settings_of_run(run) if (run / "settings.json").is_file() else None
    write_atomically(out / "README.md", lambda part: write_card(small, part, settings, facts))
    return small


def _check_empty(folder: Path) -> None:
    """Refuse a folder with anything in it, since packing over a run's own weights would lose them."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"out: cannot read {folder}: {error.strerror}") from error
    if names:
        what = "a model" if CONFIG in names else names[0]
        told = f"{folder} holds {what} already"
        raise ArgumentError("out", told, "choose another folder, or say overwrite=True")
