"""`regard view` and `regard look`, run as a user runs them."""

import json
from pathlib import Path

import pytest
import torch

from regard import viewer
from regard.maps import Recomputed
from regard.models import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from regard.tasks import look
from regard.tasks.translate import Translator
from regard.text import train_vocabulary
from support.command_line import assert_one_line, run_here


def document_of(path):
    text = path.read_text(encoding="utf-8").split('id="regard-document">')[1].split("</script>")[0]
    return json.loads(text)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Return a translator with random weights, which works but translates nothing sensible."""
    pytest.importorskip("tokenizers")
    vocabulary = train_vocabulary("bpe", ["the cat sat on the mat", "le chat est assis"] * 20, 300)
    torch.manual_seed(0)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "width": 16}
    network = Transformer(TransformerConfig(**sizes, heads=2, feed_forward=32))
    folder = tmp_path_factory.mktemp("models") / "random"
    return translator_of(network, vocabulary, folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A small BERT with random weights, as a folder that Hugging Face's library reads."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=16,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_look_shows_all_attention_of_a_translator(translator, tmp_path):
    out = tmp_path / "look.html"
    result = run_here("look", "the cat sat", "--model", str(translator), "--out", str(out), "--no-open")
    assert (result.returncode, result.stdout) == (0, f"{out}\n"), result.stderr
    document = document_of(out)
    assert document["title"] == "the cat sat"
    kinds = {one["kind"] for one in document["records"]}
    assert kinds == {"self", "causal", "cross"}
    cross = next(one for one in document["records"] if one["kind"] == "cross")
    keys = document["labels"][cross["keyTokens"][0]]
    assert "".join(keys).replace(" ", "") == "Thecatsat.</s>"
    causal = next(one for one in document["records"] if one["kind"] == "causal")
    read, written = (document["labels"][one["queryTokens"][0]] for one in (causal, cross))
    assert (read[0], written[-1]) == ("<s>", "</s>")
    # Each row of the decoder reads one token and predicts the next.
    assert read[1:] == written[:-1]
    assert "read by the translator" in result.stderr


def test_look_writes_a_page_in_chinese(translator, tmp_path):
    out = tmp_path / "look.html"
    words = ["--model", str(translator), "--out", str(out), "--no-open", "--language", "zh"]
    assert run_here("look", "the cat sat", *words).returncode == 0
    assert '<html lang="zh-CN"' in out.read_text(encoding="utf-8")


def translator_of(network, vocabulary, folder):
    Translator(network, vocabulary, vocabulary, source_language="en", target_language="fr").save(folder)
    return folder


def test_look_keeps_the_queries_and_keys_of_our_translators(translator):
    records = look("the cat sat", translator)
    kinds = ["self"] * 3 + ["causal", "cross"] * 3
    assert [record.kind for record in records] == kinds
    assert [record.name for record in records][2:5] == [
        "encoder.layers.2.self_attention",
        "decoder.layers.0.self_attention",
        "decoder.layers.0.cross_attention",
    ]
    assert all(isinstance(record.map._source, Recomputed) for record in records)
    for record in records:
        labels = [side[0] for side in (record.query_tokens, record.key_tokens) if side is not None]
        assert [len(side) for side in labels] == list(record.map.shape[2:])


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("score", ["additive", "scaled_dot"])
def test_look_shows_the_attention_of_a_recurrent_translator(score, feeding, tmp_path):
    vocabulary = train_vocabulary("bpe", ["the cat sat on the mat", "le chat est assis"] * 20, 300)
    torch.manual_seed(0)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "width": 16}
    network = Seq2Seq(Seq2SeqConfig(**sizes, attention=score, input_feeding=feeding))
    (record,) = look("the cat sat", translator_of(network, vocabulary, tmp_path / "recurrent"))
    assert (record.name, record.kind) == ("attention", "cross")
    assert record.key_tokens is not None
    assert "".join(record.key_tokens[0]).replace(" ", "") == "Thecatsat.</s>"
    viewer.save_html([record], tmp_path / "look.html")
    assert document_of(tmp_path / "look.html")["records"][0]["kind"] == "cross"


@pytest.mark.slow
def test_look_shows_the_attention_of_a_hugging_face_model(bert, tmp_path):
    out = tmp_path / "look.html"
    result = run_here("look", "the cat sat", "--model", str(bert), "--out", str(out), "--no-open")
    assert result.returncode == 0, result.stderr
    document = document_of(out)
    assert [one["shape"] for one in document["records"]] == [[1, 3, 5, 5]] * 2
    assert document["labels"] == [["[CLS]", "the", "cat", "sat", "[SEP]"]]
    assert {one["source"]["type"] for one in document["records"]} == {"recomputed"}


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        (["look", " "], 2, ["nothing to read"]),
        (["look", "hello", "--model", "no/such/folder"], 1, ["no/such/folder"]),
        (["look", "hello", "--language", "fr"], 2, ["language", "'fr'", "en, zh"]),
        (["view", "no-such-file.safetensors", "--language", "fr"], 2, ["language", "'fr'", "en, zh"]),
        (["view", "no-such-file.safetensors"], 1, ["no-such-file.safetensors"]),
        (["look", "words", "--out", "no/x.html"], 1, ["--out: the folder of no/x.html does not exist"]),
        (["view", "no-such-file", "--host", "0.0.0.0"], 2, ["other machines", "--allow-network"]),
        (["view", "no-such-file", "--port", "99999"], 2, ["port"]),
    ],
)
def test_errors_are_one_line(words, code, parts, tmp_path):
    assert_one_line(run_here(*words, cwd=tmp_path), code, *parts)


def test_a_folder_with_a_broken_config_is_a_one_line_error(tmp_path):
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    assert_one_line(run_here("look", "hello", "--model", str(tmp_path)), 1, "config.json")


def test_look_finds_an_installed_model(translator, tmp_path, monkeypatch):
    out = tmp_path / "look.html"
    monkeypatch.setattr("regard.tasks.model_attention.cached_models", list)
    result = run_here("look", "the cat", "--out", str(out), "--no-open", REGARD_MODELS=str(translator.parent))
    assert result.returncode == 0, result.stderr
    assert document_of(out)["title"] == "the cat"


@pytest.mark.parametrize("words", [["--json"], []])
def test_the_page_of_the_option_look_leaves_the_results_alone(translator, words):
    call = [
        "translate",
        "the cat sat",
        "--model",
        str(translator),
        "--beams",
        "1",
        "--max-length",
        "3",
        *words,
    ]
    plain, looked = run_here(*call), run_here(*call, "--look", DISPLAY="")
    assert looked.returncode == 0, looked.stderr
    assert looked.stdout == plain.stdout
    path = next(line for line in looked.stderr.splitlines() if line.endswith(".html"))
    assert document_of(Path(path))["records"]
