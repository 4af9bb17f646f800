"""Translation and summaries on Hugging Face folders of encoder–decoders, their attention, and bad input."""

import json
import sys

import pytest
import torch

import regard
from regard.errors import (
    ArgumentError,
    DtypeError,
    FileError,
    MissingExtraError,
    UnknownArgumentError,
    UnknownNameError,
)
from support.encoder_decoder_folders import LONGEST, write_encoder_decoder_folder
from support.pipeline_folders import write_folder

pytest.importorskip("transformers", reason="the models are in the extra hf")

CAT, DOG = "the cat sat on a mat .", "a dog ran ."
SHORT = {"max_new_tokens": 6}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("folders")
    return {kind: write_encoder_decoder_folder(place / kind, kind) for kind in ("marian", "t5", "mbart")}


@pytest.fixture(scope="module")
def marian(folders):
    return regard.pipeline("translation_en_to_fr", folders["marian"], device=-1)


def test_the_attention_is_that_of_the_search(marian):
    """The maps of a result are those that a capture of the greedy search records, row by row."""
    result = marian(CAT, num_beams=1, **SHORT)
    seen = marian.attention(result)
    assert [record.kind for record in seen].count("cross") == 2
    inputs = marian.tokenizer(CAT, return_tensors="pt")
    with regard.capture(marian.model, tokenizer=marian.tokenizer) as steps:
        marian.model.generate(**inputs, num_beams=1, do_sample=False, max_length=7)
    for ours, theirs in zip(seen, steps, strict=True):
        assert (ours.name, ours.query_tokens, ours.key_tokens) == (
            theirs.name,
            theirs.query_tokens,
            theirs.key_tokens,
        )
        torch.testing.assert_close(ours.map[:], theirs.map[:], atol=1e-5, rtol=0)


def test_the_attention_of_each_of_several_texts_is_its_own(marian):
    several = marian([CAT, DOG], batch_size=2, num_return_sequences=2, num_beams=3, eos_token_id=29, **SHORT)
    assert [len(one) for one in several] == [2, 2]
    assert len(marian.attention(several[1][1])[0].key_tokens[0]) == 5
    written = marian.attention(several[0][1])[-1].query_tokens[0]
    assert "".join(written[1:]).replace("▁", " ").strip().startswith(several[0][1]["translation_text"][:3])
    with pytest.raises(ArgumentError, match="several inputs"):
        marian.attention(several)


def test_iterators_and_names_of_tokens(marian, folders):
    expected = marian([CAT, DOG], **SHORT)
    assert [one[0] for one in marian(iter([CAT, DOG]), **SHORT)] == expected
    assert (marian.tokenizer.eos_token, marian.tokenizer.pad_token) == ("</s>", "<pad>")
    assert isinstance(marian.model, torch.nn.Module)
    assert regard.pipeline(model=folders["marian"], device=-1)(CAT, **SHORT) == [expected[0]]


def test_samples_depend_on_the_seed_of_torch(marian):
    options = {"do_sample": True, "num_beams": 1, "temperature": 3.0, "num_return_sequences": 4, **SHORT}
    torch.manual_seed(42)
    first = marian(CAT, **options)
    torch.manual_seed(42)
    assert marian(CAT, **options) == first
    assert len({one["translation_text"] for one in first}) > 1


def test_long_texts_and_long_results_are_told(marian):
    with pytest.warns(UserWarning, match=f"room for {LONGEST} tokens"):
        ids = marian(CAT, max_new_tokens=90, min_new_tokens=LONGEST, num_beams=1, return_tensors=True)
    assert len(ids[0]["translation_token_ids"]) == LONGEST + 1
    with pytest.warns(UserWarning, match="temperature: has no effect without do_sample=True"):
        marian(CAT, temperature=0.5, **SHORT)


def test_settings_for_other_languages_are_told(folders):
    with pytest.warns(UserWarning, match="config.json has settings for translation_en_to_fr, and none for"):
        regard.pipeline("translation_en_to_de", folders["t5"], device=-1)


BAD = [
    ({"src_lang": "en"}, ArgumentError, "src_lang: this model has no names of languages, got 'en'"),
    ({"top_q": 1}, UnknownArgumentError, "top_q: not an option of translation"),
    ({"num_beams": 0}, ArgumentError, "num_beams: expected a whole number of 1 or more"),
    ({"num_beams": 2, "num_return_sequences": 3}, ArgumentError, "num_return_sequences: "),
    ({"max_length": 1}, ArgumentError, "max_length: expected more than the 1 tokens"),
    ({"max_new_tokens": 0}, ArgumentError, "max_new_tokens"),
    ({"max_new_tokens": 2, "min_new_tokens": 3}, ArgumentError, "min_new_tokens: expected at most 2"),
    ({"do_sample": True, "temperature": 0.0}, ArgumentError, "temperature"),
    ({"early_stopping": "soon"}, ArgumentError, "early_stopping"),
    ({"do_sample": "yes"}, DtypeError, "do_sample: expected True or False"),
    ({"return_text": False}, ArgumentError, "return_text: there would be no result"),
    ({"stop_sequence": "the cat"}, ArgumentError, "stop_sequence: expected the text of one token, got 2"),
    ({"truncation": "only_second"}, ArgumentError, "truncation"),
    ({"batch_size": 0}, ArgumentError, "batch_size"),
]


@pytest.mark.parametrize(("given", "error", "words"), BAD, ids=lambda value: str(value)[:30])
def test_bad_options_are_refused_by_name(marian, given, error, words):
    with pytest.raises(error, match=words):
        marian(CAT, **given)


def test_bad_texts_are_refused(marian):
    with pytest.raises(ArgumentError, match=f"120 tokens, and the model reads {LONGEST}.*truncation=True"):
        marian(" ".join(["cat"] * 119), **SHORT)
    for texts in (3, [3], [[CAT]]):
        with pytest.raises(DtypeError, match="inputs: expected a text"):
            marian(texts)


def test_languages_are_checked(folders):
    pipe = regard.pipeline("translation", folders["mbart"], device=-1)
    with pytest.raises(ArgumentError, match="src_lang: this model translates several languages"):
        pipe(CAT)
    with pytest.raises(UnknownNameError, match=r"tgt_lang: unknown name 'fr_X': did you mean 'fr_XX'\?"):
        pipe(CAT, src_lang="en_XX", tgt_lang="fr_X")
    with pytest.raises(DtypeError, match="tgt_lang: expected the name of a language, got 3"):
        pipe(CAT, src_lang="en_XX", tgt_lang=3)


def test_folders_that_cannot_be_used_are_named(folders, tmp_path, monkeypatch):
    write_folder(tmp_path / "bert", "fill-mask")
    with pytest.raises(FileError, match="model_type is 'bert', which is no encoder–decoder.*or T5"):
        regard.pipeline("summarization", tmp_path / "bert")
    broken = write_encoder_decoder_folder(tmp_path / "broken", "marian")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    with pytest.raises(FileError, match="cannot be loaded as a Hugging Face model"):
        regard.pipeline("translation_en_to_fr", broken)
    weights.unlink()
    torch.save({}, broken / "pytorch_model.bin")
    with pytest.raises(FileError, match="cannot be loaded as a Hugging Face model: .*safetensors"):
        regard.pipeline("translation_en_to_fr", broken)
    settings = json.loads((broken / "config.json").read_text(encoding="utf-8"))
    (broken / "config.json").write_text(json.dumps({**settings, "model_type": "nothing"}), encoding="utf-8")
    with pytest.raises(FileError, match="cannot be loaded as a Hugging Face model"):
        regard.pipeline("translation_en_to_fr", broken)
    with pytest.raises(
        FileError, match="model_type is 'marian', which is an encoder–decoder: give the folder of a Llama"
    ):
        regard.pipeline("text-generation", folders["marian"])
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="needs transformers"):
        regard.pipeline("translation_en_to_fr", folders["marian"])
