"""What is drawn was computed: each row is that of a forward pass over the tokens that the model read, or is empty."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.cli.main import app
from regard.tasks.translate import Translator, align
from regard.text import pad_sequences

TEXTS = [
    "Write to ana.smith59@example.org before May 22nd, 2024.",
    "The file report_v2.pdf costs $45.90.",
    "THE 22ND CAT SLEEPS.",
    "She is here: https://a.b/c?d=1",
    "Mr. Horak lives in the 1980s house.",
    "  - the <b>cat</b> sees Tom 😀 in Paris at 5pm?!\n",
    "3 March 2020",
    "It costs €45.",
    "I met Agnieszka Wyszynskiewicz and Tom’s dog.",
    "MY SISTER LIVES IN LONDON",
    "I bought 3 million books on the 3rd of March.",
    "Open /etc/hosts and run `pip install regard` now.",
    "He paid £1,250 for the 3rd car.",
    "Dear Mrs. Smith,",
    "I love you. The dog sleeps! Where is https://example.org?",
    "Call (682) 521-5123 before 7:30.",
    "the cat sleeps",
    "The Cat Sleeps on the Mat",
    "Press Ctrl+C to stop.",
    "@anna is here, #fun",
    "My flight BA2490 leaves on the 21st at 6:45pm.",
    "She said, “I am tired.”",
    "It is 5 km to Ottawiki.",
    "We saw him in the 90s.",
    "Thx, i dont know him",
    "The train is late (I know).",
    "Look at image_01.png and image_02.png.",
    "One line.\nAnother line: yes.\n\n* A third",
    "Mr. Delacroix and Mrs. Brunfeld met Dr. Kovalczyk in June 1999.",
    "The price fell by 3.5% to $2.99!",
]


@pytest.fixture(scope="module", params=["en-fr", "en-zh"])
def translator(request):
    return Translator.load(request.param, device="cpu")


@pytest.fixture(scope="module")
def sentences(translator):
    """The sentences of all texts that the model read, with what is drawn of each."""
    found = translator.translate(TEXTS, beams=1)
    parts = [part for one in found for part in one.written_parts]
    return [(part, align(translator, part)) for part in parts]


def computed(translator, sentence):
    """Return the weights ``(t,s+1)`` of a forward pass as ``regard.capture`` records it, with the end of the source."""
    source, lengths = pad_sequences([sentence.source_ids], end=translator.source.eos)
    target, _ = pad_sequences([sentence.target_ids], start=translator.target.bos)
    with torch.no_grad(), regard.capture(translator.model) as seen:
        translator.model(source, target, lengths)
    head = translator.extra["alignment"]
    assert (head["head"], head["after"]) == (None, False)
    layers = [one for one in seen.by(kind="cross") if one.name != "copy_attention"]
    return layers[head["layer"]].map.weights()[0].double().mean(dim=0).numpy()[: len(sentence.target_ids)]


def runs(pieces, label, start=0):
    """Yield each run of tokens that spells a label, as a slice."""
    for first in range(start, len(pieces)):
        for last in range(first, len(pieces)):
            text = "".join(pieces[first : last + 1])
            if text.strip() == label and pieces[last].strip() and (text.startswith(pieces[first])):
                # A space alone belongs to the word after it.
                spaced = first > 0 and not pieces[first - 1].strip()
                yield slice(first - spaced, last + 1)


def test_each_row_is_that_of_the_forward_pass_or_empty(translator, sentences):
    empty = drawn = 0
    for sentence, found in sentences:
        rows = found.to_json()["attention"]
        assert [row is None for row in rows] == [bool(mark) for mark in found.marks]
        assert [row is None for row in rows] == found.weights.mask.all(axis=1).tolist()
        empty += rows.count(None)
        if not sentence.target_ids:
            assert rows.count(None) == len(rows)
            continue
        weights = computed(translator, sentence)  # (t,s+1)
        read = [sentence.read[a:b] for a, b in translator.source.spans(sentence.read)]
        assert translator.source.encode(sentence.read) == sentence.source_ids
        written = translator.pieces_of(sentence.target_ids)
        assert "".join(written) == sentence.written
        columns, place = [], 0
        for word in found.source_words:
            columns.append(next(runs(read, word, place)))
            place = columns[-1].stop
        # Each token that was read is in one column.
        assert [i for one in columns for i in range(one.start, one.stop)] == list(range(len(read)))
        for label, row in zip(found.target_words, found.weights, strict=True):
            if row.mask.all():
                continue
            drawn += 1
            expected = [
                [weights[run, column].sum(axis=1).mean() for column in columns]
                for run in runs(written, label)
            ]
            assert any(np.allclose(row.data, one, rtol=0, atol=1e-6) for one in expected), (label, sentence)
    assert drawn > 150
    assert empty > 20


def test_what_the_model_did_not_write_has_no_weights(translator, sentences):
    for sentence, found in sentences:
        for label, mark in zip(found.target_words, found.marks, strict=True):
            if mark:
                assert label in sentence.text
                assert (mark == "copied") == (label in sentence.source)
            elif label[-1].isalnum():
                assert label in sentence.written
        assert np.isnan(found.weights.data[found.weights.mask]).all()  # also for readers without masks
        for note, text in (("read", sentence.read), ("wrote", sentence.written)):
            user = sentence.source if note == "read" else sentence.text
            differs = bool(sentence.read) and text.split() != user.split()
            assert (f"the model {note}: {text.strip()}" in found.notes) == differs


def test_a_word_that_was_corrected_has_no_weights(monkeypatch):
    """The tokens stay those of the model, also where a name that it copied wrong is corrected."""
    translator = Translator.load("en-fr", device="cpu")
    (found,) = translator.translate(["I met Agnieszka Wyszynskiewicz and Tom's dog."], beams=1)
    assert "Wyszynskiewicz" in found.text
    if "Wyszynskiewicz" not in found.written:
        drawn = align(translator, found)
        assert drawn.marks[drawn.target_words.index("Wyszynskiewicz")] == "copied"
    assert translator.target.decode(found.target_ids) == found.written


def test_every_form_marks_what_was_copied(fonts, tmp_path, capsys, monkeypatch):
    import regard.plots

    text = "The 22nd cat is at ana@b.org."
    figures = []
    draw = regard.plots.visualize_attention
    monkeypatch.setattr(regard.plots, "visualize_attention", lambda *a, **b: figures.append(draw(*a, **b)))
    common = ["translate", text, "--device", "cpu", "--attention", "--save-attention"]
    app([*common, str(tmp_path / "a.png")], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.lstrip().startswith(("ana@b.org", "22e"))] == [
        ["22e", "replaced"],
        ["ana@b.org", "copied"],
    ]
    notes = ["the model read: The third cat is at Tom.", "the model wrote: Le troisième chat est à Tom."]
    assert lines[-2:] == notes
    (figure,) = figures
    ax = figure.axes[0]
    assert {"replaced", "copied"} <= {shown.get_text() for shown in ax.texts}
    assert ax.patch.get_hatch()
    assert ax.get_xlabel().splitlines() == ["Source", *notes, "hatched: no weights were computed"]
    app([*common, str(tmp_path / "a.html"), "--json"], standalone_mode=False)
    values = json.loads(capsys.readouterr().out)
    empty = [
        word for word, row in zip(values["target_words"], values["attention"], strict=True) if row is None
    ]
    assert empty == ["22e", "ana@b.org"]
    assert values["notes"] == notes
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    count = len(values["source_words"])
    assert f'<th scope="row">ana@b.org</th><td class="none" colspan="{count}">copied</td>' in page
    assert all(note in page for note in notes)


def test_the_recording_says_what_has_no_weights():
    translator = Translator.load("en-fr", device="cpu")
    plain, copied = translator.translate(["The cat sleeps.", "The cat is at ana@b.org."], beams=1)
    assert {record.note for record in translator.attention(plain)} == {None}
    (note,) = {record.note for record in translator.attention(copied)}
    assert note.startswith("the model read: The cat is at Tom.; the model wrote: Le chat est à Tom.; copied")
    assert note.endswith("without weights: ana@b.org")


def test_a_text_that_was_copied_whole_has_no_picture(tmp_path, capsys):
    path = tmp_path / "a.png"
    words = ["translate", "3 March 2020", "--device", "cpu", "--attention", "--save-attention", str(path)]
    app(words, standalone_mode=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["3 mars 2020", "3  mars  2020  copied  replaced"]
    assert "there is no picture of '3 mars 2020': the model did not read it" in shown.err
    assert not path.exists()
