"""Translation, summaries and text generation on models of Regard, and bad input."""

import json
import shutil

import pytest
import torch

import regard
from regard.errors import ArgumentError, DtypeError, FileError, UnknownArgumentError, UnknownNameError
from regard.models import load_huggingface
from support.language_folders import LONGEST, write_language_folder

GREEDY = {"do_sample": False, "max_new_tokens": 6}
REPORT = "The meeting begins at nine. Anna reads the report. The others listen and ask questions."


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("languages")
    return {kind: write_language_folder(place / kind, kind) for kind in ("gpt2", "llama")}


@pytest.fixture(scope="session")
def gpt2(folders):
    return regard.pipeline("text-generation", folders["gpt2"], device=-1)


@pytest.fixture(scope="session")
def llama(folders):
    return regard.pipeline("text-generation", folders["llama"], device=-1)


@pytest.fixture(scope="session")
def writer(tmp_path_factory):
    """The folder of a run of ``regard train write``."""
    folder = tmp_path_factory.mktemp("writer") / "run"
    small = {
        "embedded": 50,
        "steps": 2,
        "width": 16,
        "heads": 2,
        "layers": 1,
        "feed_forward": 16,
        "context": 32,
    }
    regard.tasks.train("write", small, folder, show=False)
    return folder


@pytest.fixture(scope="session")
def summarizer(tmp_path_factory):
    """The folder of a run of ``regard train summarize``."""
    folder = tmp_path_factory.mktemp("summarizer") / "run"
    small = {
        "embedded": 40,
        "steps": 2,
        "width": 16,
        "vocabulary_size": 300,
        "max_tokens": 20,
        "validate_texts": 2,
    }
    regard.tasks.train("summarize", small, folder, show=False)
    return folder


@pytest.fixture(scope="session")
def french():
    return regard.pipeline("translation_en_to_fr", device=-1)


# -- translation -------------------------------------------------------------------------------------------------


def test_a_translation_is_that_of_the_translator(french):
    texts = ["How old are you?", "I like tea. I like cats."]
    ours = regard.tasks.load("en-fr", device="cpu").translate(texts)
    assert french(texts[0]) == [{"translation_text": ours[0].text}]
    assert french(texts) == [{"translation_text": one.text} for one in ours]
    assert french(texts[:1]) == [{"translation_text": ours[0].text}]
    assert list(french(iter(texts))) == [[{"translation_text": one.text}] for one in ours]
    assert french(texts, batch_size=1, truncation=True) == french(texts)


def test_several_translations_are_a_list_for_each_text(french):
    several = french(["I like tea.", "Good night."], num_beams=3, num_return_sequences=3)
    assert [len(one) for one in several] == [3, 3]
    assert several[0] == french("I like tea.", num_beams=3, num_return_sequences=3)
    assert len({one["translation_text"] for one in several[0]}) == 3
    assert len(french.attention(several[0])) > 0
    with pytest.raises(ArgumentError, match="give the first result"):
        french.attention(several[0][1])


def test_languages_are_named_in_the_task_in_the_options_or_by_the_model():
    chinese = regard.pipeline("translation_en_to_zh", device=-1)("Good morning.")
    assert regard.pipeline("translation", src_lang="en", tgt_lang="zh", device=-1)("Good morning.") == chinese
    assert regard.pipeline("translation", model="en-zh", device=-1)("Good morning.") == chinese
    assert regard.pipeline(model="en-zh", device=-1)("Good morning.", tgt_lang="zh") == chinese


def test_lengths_count_the_token_that_starts_the_decoder(french):
    ids = french("I like tea.", return_tensors=True)[0]["translation_token_ids"]
    assert isinstance(ids, torch.Tensor)
    target = french.predictor.target
    assert (ids[0], ids[-1]) == (target.bos, target.eos)
    assert target.decode(ids) == french("I like tea.")[0]["translation_text"]
    cut = french("I like tea.", max_length=4)
    assert cut == french("I like tea.", max_new_tokens=3)
    assert cut != french("I like tea.")
    longer = french("I like tea.", min_length=15, return_tensors=True)[0]["translation_token_ids"]
    assert len(longer) >= 16 > len(ids)


def test_attention_of_a_translation_is_that_of_its_text(french):
    first, second = french(["I like tea.", "Good night."])
    assert "tea" in "".join(french.attention(first)[0].key_tokens[0])
    assert "night" in "".join(french.attention(second)[0].key_tokens[0])


# -- summaries ---------------------------------------------------------------------------------------------------


def test_a_summary_is_that_of_the_summariser(summarizer):
    pipe = regard.pipeline("summarization", summarizer, device=-1)
    ours = regard.tasks.load(summarizer, device="cpu").summarize([REPORT, "Anna reads."])
    with pytest.warns(UserWarning, match="1 of 2 texts have more than the 20 tokens"):
        assert pipe([REPORT, "Anna reads."]) == [{"summary_text": one.text} for one in ours]
    found = pipe(REPORT, truncation=True)
    assert found == [{"summary_text": ours[0].text}]
    with pytest.raises(ArgumentError, match="truncation=True"):
        pipe(REPORT, truncation=False)
    assert any(record.kind == "cross" for record in pipe.attention(found))
    ids = pipe("Anna reads.", min_length=4, max_length=6, return_tensors=True)[0]["summary_token_ids"]
    assert 5 <= len(ids) <= 7
    assert regard.pipeline(model=summarizer, device=-1).task == "summarization"


# -- text generation ---------------------------------------------------------------------------------------------


def test_the_logits_are_those_of_the_folder(folders, gpt2):
    """The tokens of a result are the most likely ones of the model that load_huggingface reads."""
    ids = gpt2("the cat", return_tensors=True, **GREEDY)[0]["generated_token_ids"]
    model = load_huggingface(folders["gpt2"], regard.models.LanguageModel)
    with torch.no_grad():
        best = model(torch.tensor([ids]))[0].argmax(dim=-1).tolist()
    assert ids[-6:] == best[-7:-1]


def test_iterators_and_datasets_give_a_list_for_each_prompt(llama):
    prompts = ["the cat", "a dog"]
    listed = llama(prompts, **GREEDY)
    assert [len(one) for one in listed] == [1, 1]
    assert list(llama(iter(prompts), **GREEDY)) == listed
    assert llama(prompts, batch_size=2, **GREEDY) == listed
    chat = [{"role": "user", "content": "the cat"}]
    assert list(llama(iter([chat, chat]), **GREEDY)) == [llama(chat, **GREEDY)] * 2


def test_max_length_counts_the_prompt(gpt2):
    ids = gpt2("the cat", do_sample=False, max_length=8, return_tensors=True)[0]["generated_token_ids"]
    assert len(ids) == 8
    with pytest.raises(ArgumentError, match="max_length: expected more than the 3 tokens"):
        gpt2("the cat", max_length=3)


def test_no_end_is_written_before_the_least_length(gpt2):
    options = {"do_sample": False, "max_new_tokens": 12, "return_tensors": True}
    ids = gpt2("the cat", **options)[0]["generated_token_ids"]
    end = ids[5]
    assert end not in ids[:5]
    assert gpt2("the cat", eos_token_id=end, **options)[0]["generated_token_ids"] == ids[:6]
    for least in ({"min_new_tokens": 5}, {"min_length": 8}):
        longer = gpt2("the cat", eos_token_id=end, **least, **options)[0]["generated_token_ids"]
        assert end not in longer[: 3 + 5]
        assert len(longer) > 8


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.6}, {"no_repeat_ngram_size": 2}])
@pytest.mark.parametrize("beams", [1, 3])
def test_repetition_is_that_of_the_generation_of_hugging_face(folders, options, beams, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs  pip install 'regard[hf]'")
    search = {"do_sample": False, "max_new_tokens": 9, "num_beams": beams}
    folder = tmp_path / "model"
    shutil.copytree(folders["gpt2"], folder)
    (folder / "generation_config.json").write_text(json.dumps(options), encoding="utf-8")
    pipe = regard.pipeline("text-generation", folder, device=-1)
    ours = pipe("the cat the cat", return_tensors=True, **search)[0]["generated_token_ids"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    read = torch.tensor([ours[:-9]])
    theirs = model.generate(read, attention_mask=torch.ones_like(read), **search, **options)
    assert ours == theirs[0].tolist()[: len(ours)]
    usual = regard.pipeline("text-generation", folders["gpt2"], device=-1)
    assert (
        ours == usual("the cat the cat", return_tensors=True, **search, **options)[0]["generated_token_ids"]
    )


def test_an_unknown_task_lists_both_installed_translations():
    with pytest.raises(UnknownNameError, match="translation_en_to_fr, translation_en_to_zh"):
        regard.pipeline("translate_all")


def test_samples_depend_on_the_seed_of_torch(gpt2):
    options = {"max_new_tokens": 8, "num_return_sequences": 3, "return_tensors": True}
    torch.manual_seed(42)
    first, other = gpt2("the cat", **options), gpt2("the cat", **options)
    torch.manual_seed(42)
    assert gpt2("the cat", **options) == first != other
    assert len({tuple(one["generated_token_ids"]) for one in first}) == 3


def test_ends_of_different_lengths_are_padded(gpt2):
    options = {"max_new_tokens": 12, "num_beams": 4, "num_return_sequences": 4, "do_sample": False}
    found = gpt2("a dog", eos_token_id=102, pad_token_id=7, return_tensors=True, **options)
    rows = [one["generated_token_ids"] for one in found]
    assert len({len(row) for row in rows}) == 1
    padded = [row for row in rows if row[-1] == 7]
    assert all(row[row.index(7) - 1] == 102 for row in padded)


def test_a_full_context_is_told(gpt2, llama):
    with pytest.warns(UserWarning, match="context of 96 tokens was full"):
        ids = llama("the cat", do_sample=False, max_new_tokens=100, min_new_tokens=100, return_tensors=True)
    assert len(ids[0]["generated_token_ids"]) > LONGEST
    with pytest.warns(UserWarning, match="room for 94 more tokens"):
        gpt2("the cat", do_sample=False, num_beams=2, max_new_tokens=200)


def test_sampling_options_without_sampling_are_told(gpt2):
    with pytest.warns(UserWarning, match="temperature: has no effect without do_sample=True"):
        gpt2("the cat", temperature=0.5, **GREEDY)


def test_attention_reads_the_prompt_and_the_new_text(llama):
    found = llama("the cat", **GREEDY)
    record = llama.attention(found)[0]
    assert "".join(record.key_tokens[0]).startswith("<s>the cat")
    assert record.map.shape[-1] == 1 + 3 + 6
    first, second = llama(["the cat", "a"], **GREEDY)
    with pytest.raises(ArgumentError, match="several inputs"):
        llama.attention([first, second])


def test_the_tokenizer_may_be_in_another_folder(folders, tmp_path):
    bare = write_language_folder(tmp_path / "bare", "llama")
    (bare / "tokenizer.json").rename(tmp_path / "moved.json")
    usual = regard.pipeline("text-generation", folders["llama"], device=-1)("the cat", **GREEDY)
    pipe = regard.pipeline("text-generation", bare, tokenizer=folders["llama"], device=-1)
    assert pipe("the cat", **GREEDY) == usual
    assert pipe.tokenizer.eos_token == "</s>"
    assert regard.pipeline(model=folders["llama"], device=-1).task == "text-generation"
    assert regard.pipeline(model=folders["gpt2"], device=-1).task == "text-generation"


def test_a_writer_of_regard_writes_on(writer):
    pipe = regard.pipeline("text-generation", writer, device=-1)
    ours = regard.tasks.load(writer, device="cpu").write(["Anna"], temperature=0, max_tokens=6)[0]
    assert pipe("Anna", **GREEDY) == [{"generated_text": "Anna" + ours.text}]
    assert pipe("Anna", return_full_text=False, **GREEDY) == [{"generated_text": ours.text}]
    assert len(pipe.attention(pipe("Anna", **GREEDY))) == 1
    with pytest.raises(ArgumentError, match="no chat template"):
        pipe([{"role": "user", "content": "Hello"}])


# -- bad input ---------------------------------------------------------------------------------------------------

BAD = [
    ({"typical_p": 0.2}, UnknownArgumentError, "typical_p: not an option of text-generation"),
    ({"repetition_penalty": 0.0}, ArgumentError, "repetition_penalty: expected a number above 0"),
    ({"no_repeat_ngram_size": 1.5}, DtypeError, "no_repeat_ngram_size"),
    ({"max_new_tokens": 0}, ArgumentError, "max_new_tokens"),
    ({"max_new_tokens": 2, "min_new_tokens": 3}, ArgumentError, "min_new_tokens: expected at most 2"),
    ({"do_sample": "yes"}, DtypeError, "do_sample: expected True or False"),
    ({"do_sample": True, "num_beams": 2}, ArgumentError, "num_beams: Regard does not draw"),
    (
        {"do_sample": False, "num_return_sequences": 2},
        ArgumentError,
        "num_return_sequences: expected at most 1",
    ),
    ({"temperature": 0.0}, ArgumentError, "temperature"),
    ({"top_p": 1.5}, ArgumentError, "top_p"),
    ({"top_k": -1}, ArgumentError, "top_k"),
    ({"return_text": False}, ArgumentError, "return_text: there would be no result"),
    ({"return_tensors": True, "return_full_text": True}, ArgumentError, "together with return_tensors"),
    ({"handle_long_generation": "cut"}, ArgumentError, "expected None or 'hole'"),
    ({"handle_long_generation": "hole", "max_new_tokens": 200}, ArgumentError, "leave no room"),
    ({"stop_sequence": "the cat"}, ArgumentError, "stop_sequence: expected the text of one token, got 3"),
    ({"eos_token_id": 5000}, ArgumentError, "eos_token_id: expected the id"),
    (
        {"eos_token_id": [1, 2], "num_beams": 2, **GREEDY},
        ArgumentError,
        "choose one with eos_token_id",
    ),
    ({"early_stopping": "never"}, DtypeError, "early_stopping: expected True or False"),
    ({"truncation": "only_first"}, ArgumentError, "truncation"),
    ({"prefix": 3}, DtypeError, "prefix: expected a text"),
    ({"batch_size": 0}, ArgumentError, "batch_size"),
]


@pytest.mark.parametrize(("given", "error", "words"), BAD, ids=lambda value: str(value)[:30])
def test_bad_options_are_refused_by_name(gpt2, given, error, words):
    with pytest.raises(error, match=words):
        gpt2("the cat", **given)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (3, DtypeError, "inputs: expected a text"),
        ([3], DtypeError, "inputs: expected a text or a list of messages"),
        ([["the", "cat"]], DtypeError, "inputs: expected a text or a list of messages"),
        ("the cat " * 60, ArgumentError, "handle_long_generation='hole'"),
        ([{"role": "user"}], ArgumentError, "message 0 has the content None"),
    ],
)
def test_bad_prompts_are_refused(llama, source, error, words):
    with pytest.raises(error, match=words):
        llama(source)


def test_bad_translations_are_refused(french):
    for options, words in (
        ({"tgt_lang": "de"}, "tgt_lang: the model translates en to fr, got 'de'"),
        ({"return_tensors": True, "num_return_sequences": 2}, "return_tensors: a model of Regard"),
        ({"max_length": 1}, "max_length: expected more than the 1"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences: expected at most 2"),
    ):
        with pytest.raises(ArgumentError, match=words):
            french("Good night.", **options)
    with pytest.raises(DtypeError, match=r"inputs: expected a text, got \['Good night.'\]"):
        french([["Good night."]])


def test_models_that_are_not_there_are_told(monkeypatch):
    monkeypatch.delenv("REGARD_MODELS", raising=False)
    with pytest.raises(ArgumentError, match="task: .* write translation_en_to_fr"):
        regard.pipeline("translation")
    with pytest.raises(
        ArgumentError, match="task: there is no model for English to 'de'.*regard train translate"
    ):
        regard.pipeline("translation_en_to_de")
    with pytest.raises(ArgumentError, match="task: the model en-zh has 'zh' there"):
        regard.pipeline("translation_en_to_fr", "en-zh")
    with pytest.raises(ArgumentError, match="a model for translate, not for write"):
        regard.pipeline("text-generation", "en-fr")
    with pytest.raises(FileError, match="nothing is downloaded: give the folder of a Llama"):
        regard.pipeline("text-generation", "gpt-nothing")


@pytest.mark.parametrize(("task", "train"), [("summarization", "summarize"), ("text-generation", "write")])
def test_a_missing_model_names_the_command_that_makes_one(monkeypatch, task, train):
    monkeypatch.setattr(regard.tasks.registry, "installed_models", list)
    with pytest.raises(ArgumentError, match=f"regard train {train}"):
        regard.pipeline(task)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("generation_config.json", {"encoder_repetition_penalty": 1.3}, "encoder_repetition_penalty is 1.3"),
        ("generation_config.json", {"diversity_penalty": 3}, "diversity_penalty is 3"),
        ("generation_config.json", {"bad_words_ids": [[3]]}, "bad_words_ids is"),
        (
            "config.json",
            {"task_specific_params": {"text-generation": {"typical_p": 0.2}}},
            "typical_p is 0.2",
        ),
    ],
)
def test_settings_of_a_folder_that_regard_does_not_have_are_refused(tmp_path, name, content, words):
    folder = write_language_folder(tmp_path / "model", "gpt2")
    whole = json.loads((folder / name).read_text(encoding="utf-8")) if (folder / name).exists() else {}
    (folder / name).write_text(json.dumps({**whole, **content}), encoding="utf-8")
    with pytest.raises(FileError, match=words):
        regard.pipeline("text-generation", folder)
