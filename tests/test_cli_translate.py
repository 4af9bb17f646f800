"""`regard translate`, `train`, `evaluate`, `models` and `pack`, run as a user runs them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from test_cli import assert_one_line, run, run_here

from regard.models import Transformer, TransformerConfig
from regard.tasks.translate import Translator
from regard.text import train_vocabulary
from regard.text.corpus import generate

SMALL = [
    *(
        "--embedded",
        "300",
        "--vocabulary-size",
        "400",
        "--width",
        "16",
        "--heads",
        "2",
        "--feed-forward",
        "32",
    ),
    *(
        "--encoder-layers",
        "1",
        "--decoder-layers",
        "1",
        "--batch-tokens",
        "800",
        "--validate-sentences",
        "10",
    ),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A translator with random weights: everything about it works but what it says."""
    texts = [text for triple in generate(300) for text in (triple.english.text, triple.french.text)]
    vocabulary = train_vocabulary("bpe", texts, 400)
    torch.manual_seed(0)
    sizes = {"source_size": len(vocabulary), "target_size": len(vocabulary), "width": 16}
    network = Transformer(TransformerConfig(**sizes, heads=2, feed_forward=32))
    folder = tmp_path_factory.mktemp("models") / "random"
    Translator(network, vocabulary, vocabulary, source_language="en", target_language="fr").save(folder)
    return folder


def translate(model, *words, **options):
    return run_here("translate", "--model", str(model), *words, **options)


# ---- translate


def test_sentences_on_the_line_come_back_in_order(model):
    result = run("translate", "--model", str(model), "A dog.", "A cat.", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["source"] for line in lines] == ["A dog.", "A cat."]
    assert "2 sentences in" in result.stderr
    assert "a second" in result.stderr


def test_attention_is_drawn_and_saved(model, tmp_path):
    result = translate(
        model, "A dog sleeps.", "A cat.", "--attention", "--save-attention", str(tmp_path / "x.html")
    )
    assert result.returncode == 0, result.stderr
    assert "dog" in result.stdout.splitlines()[1]  # the head of the table
    assert {path.name for path in tmp_path.iterdir()} == {"x.html", "x-2.html"}
    assert "<th scope" in (tmp_path / "x.html").read_text(encoding="utf-8")
    png = translate(model, "A dog.", "--save-attention", str(tmp_path / "x.png"))
    assert png.returncode == 0, png.stderr
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_n_best_and_sampling(model):
    result = translate(model, "A dog.", "--n-best", "3", "--json")
    assert len(json.loads(result.stdout)["alternatives"]) == 2
    drawn = [translate(model, "A dog.", "--sample", "--seed", "3").stdout for _ in range(2)]
    assert drawn[0] == drawn[1] != translate(model, "A dog.", "--sample", "--seed", "4").stdout


def test_a_file_in_and_a_file_out(model, tmp_path):
    (tmp_path / "in.txt").write_text("A dog.\n\nA cat.\n", encoding="utf-8")
    result = translate(model, "--file", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt"))
    assert result.returncode == 0, result.stderr
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 4
    assert lines[1] == ""  # an empty line stays empty


def test_a_stream_is_answered_line_by_line(model):
    command = [
        sys.executable,
        "-c",
        "from regard.cli import main; main()",
        "translate",
        "--model",
        str(model),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("A dog.\n")
        process.stdin.flush()
        first = process.stdout.readline()  # comes before the input has ended
        process.stdin.write("A cat.\nA dog.\n")
        process.stdin.close()
        rest = process.stdout.read().splitlines()
        assert process.wait(60) == 0
    assert len(rest) == 2
    assert rest[1] == first.rstrip("\n")


def test_a_very_long_line_is_translated_in_pieces(model, tmp_path):
    (tmp_path / "in.txt").write_text("The dog sleeps. " * 100 + "\nA cat.\n", encoding="utf-8")
    result = translate(model, "--file", str(tmp_path / "in.txt"), "--beams", "1", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 2
    assert lines[0]["translation"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["x", "--to", "tlh"], ["to: there is no model for English to 'tlh'"]),
        (["x", "--model", "nowhere"], ["nowhere is neither a folder with a model nor a name"]),
        (["x", "--beams", "0"], ["beams: expected a whole number of 1 or more, got 0"]),
        (["x", "--save-attention", "x.gif"], ["expected a .png, .svg, .pdf or .html file, got x.gif"]),
        (["--file", "missing.txt"], ["missing.txt"]),
        (["x", "--file", "y"], ["file: given besides sentences"]),
    ],
)
def test_errors_of_translate_are_one_line(model, tmp_path, words, parts):
    words = words if "--to" in words or "--model" in words else ["--model", str(model), *words]
    assert_one_line(run_here("translate", *words, cwd=tmp_path), 1, *parts)


def test_wrong_encoding_is_told_after_the_lines_before_it(model, tmp_path):
    (tmp_path / "in.txt").write_bytes("A dog.\ncaf\xe9\n".encode("latin-1"))
    result = translate(model, "--file", "in.txt", cwd=tmp_path)
    assert_one_line(result, 1, "in.txt", "2", "UTF-8")


def test_a_model_cut_short(model, tmp_path):
    import shutil

    shutil.copytree(model, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert_one_line(translate(tmp_path / "cut", "A dog."), 1, "model.safetensors", "cut short")


# ---- models


def test_models_are_listed(model):
    result = run_here("models", "--json", REGARD_MODELS=str(model.parent))
    found = {one["name"]: one for one in map(json.loads, result.stdout.splitlines())}
    assert found["random"]["from"] == "en"
    assert found["random"]["to"] == "fr"
    assert "random" in run_here("models", REGARD_MODELS=str(model.parent)).stdout


# ---- train


def test_train_translate_and_evaluate(tmp_path):
    result = run("train", "translate", *SMALL, "--steps", "4", "--out", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "the best model is in run/best" in result.stdout
    measured = run_here("evaluate", "translate", "--model", "run", "--limit", "20", "--json", cwd=tmp_path)
    assert measured.returncode == 0, measured.stderr
    values = json.loads(measured.stdout)
    assert values["sentences"] == 20
    assert "tok:13a" in values["bleu"]["signature"]
    assert 0 <= values["alignment"]["error_rate"] <= 1
    shown = run_here("evaluate", "translate", "--model", "run", "--limit", "5", cwd=tmp_path).stdout
    for part in ("BLEU", "chrF", "AER", "by the diagonal", "BLEU by words of the source"):
        assert part in shown
    words = ["--limit", "20", "--compare", "run", "--save-lengths", "lengths.png"]
    shown = run_here("evaluate", "translate", "--model", "run", *words, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "+0.00" in shown.stdout  # beside itself
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
    again = run_here("train", "translate", *SMALL, "--steps", "4", "--out", "run", cwd=tmp_path)
    assert_one_line(again, 1, "holds a run already", "--resume")


@pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
def test_options_from_a_file_and_the_line_wins(tmp_path, suffix):
    values = {"embedded": 200, "width": 16, "heads": 2, "vocabulary-size": 300, "steps": 1, "warmup": 3}
    values |= {"batch_tokens": 500, "validate_sentences": 5, "learning_rate": 1, "lowercase": True}
    text = {
        "json": json.dumps(values),
        "yaml": "".join(f"{name}: {str(value).lower()}\n" for name, value in values.items()),
        "toml": "".join(f"{name} = {str(value).lower()}\n" for name, value in values.items()),
    }[suffix]
    (tmp_path / f"options.{suffix}").write_text(text, encoding="utf-8")
    words = ["--options", f"options.{suffix}", "--warmup", "2", "--out", "run"]
    result = run_here("train", "translate", *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    kept = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    assert (kept["width"], kept["warmup"], kept["lowercase"], kept["learning_rate"]) == (16, 2, True, 1.0)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("o.toml", "widht = 3", ["widht", "did you mean 'width'"]),
        ("o.toml", "width = 'x'", ["width: expected int, got 'x'"]),
        ("o.toml", "width = = 3", ["not valid TOML"]),
        ("o.yaml", "a: [1", ["not valid YAML"]),
        ("o.yaml", "- 1", ["expected names and values"]),
        ("o.ini", "", ["expected a .yaml, .toml or .json file"]),
    ],
)
def test_bad_option_files(tmp_path, name, text, parts):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert_one_line(run_here("train", "translate", "--options", name, cwd=tmp_path), 1, *parts)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("files", "words", "parts"),
    [
        ({"a": "x\ny\n", "b": "z\n"}, ["--data", "a", "--target-data", "b"], ["a", "b", "2", "1"]),
        ({"a.tsv": "\t\n\t\n"}, ["--data", "a.tsv"], ["a.tsv"]),
        ({"a.tsv": "only one column\n"}, ["--data", "a.tsv"], ["a.tsv", "line 1"]),
        ({}, ["--data", "missing.tsv"], ["missing.tsv"]),
    ],
    ids=["unequal counts", "empty sides", "one column", "no file"],
)
def test_bad_data_is_told_and_leaves_no_checkpoint(tmp_path, files, words, parts):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = run_here("train", "translate", *words, "--valid", words[1], "--steps", "1", cwd=tmp_path)
    assert_one_line(result, 1, *parts)
    assert not (tmp_path / "runs" / "translate" / "checkpoints").exists()


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    words = ["train", "translate", *SMALL, "--steps", "100000", "--save-every", "5", "--out", "run"]
    command = [sys.executable, "-c", "from regard.cli import main; main()", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 90
    while not list((tmp_path / "run" / "checkpoints").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume --out run" in errors.splitlines()[-1]
    steps = int(sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1].name.removeprefix("step-"))
    resumed = run_here(
        "train", "translate", "--resume", "--steps", str(steps + 2), "--out", "run", cwd=tmp_path
    )
    assert resumed.returncode == 0, resumed.stderr
    assert f"after {steps + 2} steps" in resumed.stdout


def test_pack(tmp_path, model):
    result = run_here(
        "pack", str(model), "--out", "small", "--license", "CC0", "--result", "test=1", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert "MB" in result.stdout
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert "| test | 1 |" in card
    assert card.count("\n| ") >= 50  # the fifty sentences


def test_completion_is_offered():
    result = run(_REGARD_COMPLETE="source_bash")
    assert "complete" in result.stdout
    assert "regard" in result.stdout
