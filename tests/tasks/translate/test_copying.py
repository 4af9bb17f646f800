"""A translator that copies, from training to alignments."""

from __future__ import annotations

import pytest

from regard import tasks
from regard.errors import ArgumentError, FileError
from regard.tasks.translate import Translator
from regard.tasks.translate.alignment import all_alignment_heads, choose_alignment_head
from regard.tasks.translate.alignment_head import AlignmentHead, keep_alignment_head
from regard.tasks.translate.gold import embedded_aligned
from regard.tasks.translate.settings import TranslationSettings
from support.command_line import assert_one_line, run_here

TINY = {
    "embedded": 60, "vocabulary_size": 300, "width": 16, "encoder_layers": 1, "decoder_layers": 1,
    "batch_tokens": 200, "steps": 2, "warmup": 1, "validate_sentences": 4, "copy": True,
}  # fmt: skip
KINDS = {
    "transformer": {"heads": 2, "feed_forward": 16},
    "seq2seq": {"architecture": "seq2seq"},
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    tasks.train("translate", {**TINY, **KINDS[request.param]}, folder, show=False)
    return folder


def test_a_trained_translator_copies_and_shows_its_attention(folder):
    translator = tasks.load(folder)
    assert translator.model.config.copy
    (translation,) = translator.translate(["the dog sleeps"], max_length=5)
    recording = translator.attention(translation)
    (copying,) = (record for record in recording if record.name == "copy_attention")
    assert copying.key_tokens[0][-1] == "</s>"
    # The final mark is one that the model reads.
    assert translator.word_weights(translation)[0].column_words == ["The", "dog", "sleeps", "."]


def test_the_copy_attention_can_align_words(folder):
    translator = tasks.load(folder)
    heads = all_alignment_heads(translator)
    is_transformer = translator.model.config.kind == "transformer"
    assert (AlignmentHead(None, None, True) in heads) == is_transformer
    chosen, rate = choose_alignment_head(translator, embedded_aligned(translator, "valid", 5))
    assert chosen in heads
    assert 0 <= rate <= 1


def test_the_copy_attention_is_kept_as_the_one_that_aligns(folder, tmp_path):
    translator = tasks.load(folder)
    if translator.model.config.kind != "transformer":
        pytest.skip("its only attention copies")
    keep_alignment_head(translator, AlignmentHead(None, None, after=True))
    translator.save(tmp_path)
    again = Translator.load(tmp_path)
    (translation,) = again.translate(["the dog sleeps"], max_length=5)
    records = again.forced([translation.source_ids], [translation.target_ids])
    weights = AlignmentHead(None, None, True).weights(records, 0, 2, 3)
    (copying,) = (record for record in records if record.name == "copy_attention")
    assert weights.tolist() == copying.map.weights()[0, 0, 1:3, :3].double().tolist()
    assert str(AlignmentHead(None)) == "copy attention, before the word is written"


def test_a_model_without_copying_has_no_copy_attention_to_align_with(tmp_path):
    tasks.train("translate", {**TINY, **KINDS["transformer"], "copy": False}, tmp_path, show=False)
    translator = tasks.load(tmp_path)
    keep_alignment_head(translator, AlignmentHead(None))
    translator.save(tmp_path / "kept")
    with pytest.raises(FileError, match=r"alignment\.layer"):
        Translator.load(tmp_path / "kept")


def test_two_vocabularies_are_refused():
    with pytest.raises(ArgumentError, match="copy: words of one vocabulary cannot be copied into another"):
        TranslationSettings(data="x.tsv", copy=True, shared_vocabulary=False)
    result = run_here("train", "translate", "--copy", "--no-shared-vocabulary", "--steps", "1")
    assert_one_line(result, 2, "--copy", "--no-shared-vocabulary")
