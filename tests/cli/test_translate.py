"""`regard translate`, `train`, `evaluate`, `models` and `pack`, run as a user runs them."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from regard.corpus import generate
from regard.models import Transformer, TransformerConfig
from regard.tasks.translate import Translator
from regard.text import train_vocabulary
from support.command_line import assert_one_line, run, run_here

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
    """Return a translator with random weights, which works but translates nothing sensible."""
    texts = [text for triple in generate(300) for text in (triple.english.text, triple.french.text)]
    vocabulary = train_vocabulary("bpe", texts, 400)
    torch.manual_seed(1)  # with 0 it writes control characters
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
    assert "2 texts in" in result.stderr
    assert "per second" in result.stderr


def test_attention_is_drawn_and_saved(model, tmp_path):
    result = translate(
        model, "A dog sleeps.", "A cat.", "--attention", "--save-attention", str(tmp_path / "x.html")
    )
    assert result.returncode == 0, result.stderr
    assert "dog" in result.stdout.splitlines()[1]  # the head of the table
    assert {path.name for path in tmp_path.iterdir()} == {"x.html", "x-2.html"}
    assert "another text is in" in result.stderr
    assert "x-2.html" in result.stderr
    assert "<th scope" in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("fonts")
def test_attention_is_saved_as_a_picture(model, tmp_path):
    png = translate(model, "A dog.", "--save-attention", str(tmp_path / "x.png"))
    assert (png.returncode, png.stderr) == (0, "")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_n_best_gives_alternatives_and_sampling_depends_on_the_seed(model):
    result = translate(model, "A dog.", "--n-best", "3", "--json")
    assert len(json.loads(result.stdout)["alternatives"]) == 2
    drawn = [translate(model, "A dog.", "--sample", "--seed", "3").stdout for _ in range(2)]
    assert drawn[0] == drawn[1] != translate(model, "A dog.", "--sample", "--seed", "4").stdout


def test_the_file_that_is_read_is_not_written(model, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("The cat sleeps.\n", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(path)
    for name in ("in.txt", "link.txt"):
        done = translate(model, "--file", str(path), "--out", str(tmp_path / name))
        assert (done.returncode, path.read_text(encoding="utf-8")) == (2, "The cat sleeps.\n")
        assert "is the file to translate: name another file" in done.stderr


def test_a_file_is_translated_line_by_line_into_a_file(model, tmp_path):
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


def test_ctrl_c_while_waiting_for_input_is_one_line(model):
    """Python aborts if it exits while a thread reads standard input. The command has to end with one line."""
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # also under nohup
    command = [
        sys.executable,
        "-c",
        f"{heard}; from regard.cli import main; main()",
        "translate",
        "--model",
        str(model),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        process.stdin.write("A dog.\n")
        process.stdin.flush()
        process.stdout.readline()  # it is at work, and waits for more
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        process.stdin.close()
        assert process.wait(60) == 130
    assert errors == "regard: interrupted\n"


def test_arguments_after_two_dashes_are_sentences(model):
    result = translate(model, "--json", "--", "--debug")
    assert json.loads(result.stdout)["source"] == "--debug"


def test_a_folder_of_another_kind_does_not_hide_an_installed_model(tmp_path):
    (tmp_path / "en-fr").mkdir()
    result = run_here("translate", "--model", "en-fr", "I love you.", "--beams", "1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_a_very_long_line_is_translated_in_pieces(model, tmp_path):
    (tmp_path / "in.txt").write_text("The dog sleeps. " * 100 + "\nA cat.\n", encoding="utf-8")
    words = ["--file", str(tmp_path / "in.txt"), "--beams", "1", "--max-length", "5", "--json", "--attention"]
    result = translate(model, *words)
    assert result.returncode == 0, result.stderr
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    pieces = [part["source"] for part in first["parts"]]
    assert " ".join(pieces) == "The dog sleeps. " * 99 + "The dog sleeps."
    assert all(len(part["attention"]) == len(part["target_words"]) for part in first["parts"])
    assert second["source_words"] == ["A", "cat", "."]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["x", "--to", "tlh"], 2, "--to: there is no model for English to 'tlh'"),
        (["x", "--model", "nowhere"], 1, "nowhere is neither a folder with a model nor a name"),
        (["x", "--beams", "0"], 2, "--beams: expected a whole number of 1 or more, got 0"),
        (
            ["x", "--n-best", "3", "--beams", "2"],
            2,
            "--n-best: expected at most 2, the number of beams, got 3",
        ),
        (["x", "--save-attention", "x.gif"], 2, "--save-attention: expected a .png, .svg, .pdf or .html"),
        (["x", "--save-attention", "no/x.png"], 1, "--save-attention: the folder of no/x.png does not exist"),
        (["x", "--out=no/x.txt"], 1, "--out: the folder of no/x.txt does not exist"),
        (["--from", "en", "--file", "nowhen.txt"], 1, "--file: no file nowhen.txt"),
        (["x", "--out", "."], 1, "--out: . is a folder"),
        (["x", "--file", "y"], 2, "--file: given together with texts"),
        (["x", "--no-repeat", "-1"], 2, "--no-repeat: expected a whole number of 0 or more, got -1"),
        (["x", "--temperature", "2"], 2, "--temperature: of no use without sampling: add --sample"),
        (["x", "--sample", "--beams", "2"], 2, "--beams: of no use in sampling"),
        (["x", "--device", "tpu9"], 2, "--device: 'tpu9' cannot be used"),
        (["x", "--to", "zh", "--model", "MODEL"], 2, "--to: the model"),
        (["x", "--from", "de", "--to", "fr"], 2, "--from: there is no model for 'de' to 'fr'"),
        (
            ["x", "--out", "/dev/full"],
            1,
            "cannot write /dev/full: No space left on device: make room",
        ),
    ],
)
def test_errors_of_translate_are_one_line(model, tmp_path, words, code, part):
    words = [str(model) if word == "MODEL" else word for word in words]
    words = words if "--to" in words or "--model" in words else ["--model", str(model), *words]
    assert_one_line(run_here("translate", *words, cwd=tmp_path), code, part)


def test_min_and_max_length_limit_a_translation(model):
    short = translate(model, "A dog.", "--max-length", "3", "--json")
    long = translate(model, "A dog.", "--min-length", "20", "--max-length", "25", "--json")
    assert short.returncode == long.returncode == 0, short.stderr + long.stderr
    assert len(json.loads(short.stdout)["translation"]) < len(json.loads(long.stdout)["translation"])
    assert short.stderr == "regard: the translation was cut off at --max-length 3\n"


def test_a_pipe_is_written_to_and_not_replaced(model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    result = translate(model, "A dog.", "--out", str(pipe))
    assert result.returncode == 0, result.stderr
    assert reader.communicate(timeout=60)[0].count("\n") == 1
    assert pipe.is_fifo()


def test_a_missing_text_is_a_one_line_error(model):
    code = "import sys; sys.stdin = None; from regard.cli import main; main()"
    result = run("translate", "--model", str(model), code=code)
    assert_one_line(result, 2, "TEXT: nothing to translate")


def test_an_empty_input_is_told_in_one_line(model, tmp_path, monkeypatch):
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    result = translate(model, "--file", "empty.txt", cwd=tmp_path)
    assert_one_line(result, 0, "the input is empty")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert_one_line(translate(model), 0, "the input is empty")


def test_a_text_in_another_language_is_told_in_one_line(model, tmp_path):
    french = "Le chat est assis sur le tapis."
    told = translate(model, french, "--beams", "1")
    assert_one_line(told, 0, "the text seems to be French, but the model translates from English")
    told = translate(model, f"A dog sleeps on the mat. {french} The cat sees a dog.", "--beams", "1")
    assert_one_line(
        told, 0, "a sentence of the text seems to be French, but the model translates from English"
    )
    (tmp_path / "in.txt").write_text(f"A dog.\n{french}\n我爱你。\n", encoding="utf-8")
    lines = translate(model, "--file", "in.txt", "--beams", "1", cwd=tmp_path).stderr.splitlines()
    assert [line for line in lines if "seems to be" in line] == [
        "regard: text 2 seems to be French, but the model translates from English"
    ]
    assert translate(model, "The cat sat on the mat.", "--beams", "1").stderr == ""


def test_a_wrong_name_lists_the_models_of_the_task():
    result = run_here("translate", "x", "--model", "nowhere")
    assert_one_line(result, 1, "nor a name; installed are en-fr, en-zh for translate")


def test_wrong_encoding_is_told_after_the_lines_before_it(model, tmp_path):
    (tmp_path / "in.txt").write_bytes("A dog.\ncaf\xe9\n".encode("latin-1"))
    result = translate(model, "--file", "in.txt", cwd=tmp_path)
    assert_one_line(result, 1, "in.txt", "2", "UTF-8")


def test_a_truncated_weights_file_is_a_one_line_error(model, tmp_path):
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
    broken = model.parent / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "config.json").write_text('{"task": "translate"}', encoding="utf-8")
    listed = run_here("models", REGARD_MODELS=str(model.parent)).stdout
    assert "random" in listed
    assert "broken" not in listed


@pytest.mark.usefixtures("fonts")
def test_models_are_compared_and_drawn(model, tmp_path):
    shutil.copytree(model, tmp_path / "run")
    shutil.copytree(model, tmp_path / "other")
    words = ["--limit", "20", "--compare", "other", "--save-lengths", "lengths.png"]
    shown = run_here("evaluate", "translate", "--model", "run", *words, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "+0.00" in shown.stdout  # beside itself
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
    twice = run_here("evaluate", "translate", "--model", "run", "--compare", "run", cwd=tmp_path)
    assert_one_line(twice, 2, "--compare: run is named twice")


# ---- train


def test_a_trained_translator_is_evaluated_and_not_overwritten(tmp_path):
    result = run_here("train", "translate", *SMALL, "--steps", "4", "--out", "run", cwd=tmp_path)
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
    ("name", "text", "code", "part"),
    [
        ("o.toml", "widht = 3", 2, "--options: o.toml: widht is not an option of this command: did you mean"),
        ("o.toml", "width = 'x'", 2, "--width"),
        ("o.toml", "width = [1, 2]", 2, "--width: expected one value, got [1, 2]"),
        ("o.toml", "lowercase = 3", 2, "--lowercase: expected true or false, got 3"),
        ("o.toml", "width = = 3", 1, "not valid TOML"),
        ("o.yaml", "a: [1", 1, "not valid YAML"),
        ("o.yaml", "- 1", 1, "expected names and values"),
        ("o.ini", "", 2, "expected a .yaml, .toml or .json file"),
    ],
)
def test_bad_option_files_are_a_one_line_error(tmp_path, name, text, code, part):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert_one_line(run_here("train", "translate", "--options", name, cwd=tmp_path), code, part)
    assert not (tmp_path / "runs").exists()


def test_any_command_takes_an_option_file(model, tmp_path):
    (tmp_path / "empty.yaml").write_text("", encoding="utf-8")
    (tmp_path / "o.yaml").write_text(
        f"model: {model}\nbeams: 1\nmax-length: 2\njson: true\nlength_penalty: 1e-1\n", encoding="utf-8"
    )
    words = ["translate", "A dog.", "--options", "o.yaml", "--options=empty.yaml"]
    result = run_here(*words, "--max-length", "3", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["source"] == "A dog."
    (tmp_path / "p.toml").write_text('result = ["a=1", "b=2"]\nout = "small"\n', encoding="utf-8")
    packed = run_here("pack", str(model), "--options", "p.toml", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert "| b | 2 |" in (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert_one_line(run_here("translate", "x", "--options"), 2, "--options: expected the name of a file")


@pytest.mark.parametrize(
    ("files", "words", "parts"),
    [
        ({"a": "x\ny\n", "b": "z\n"}, ["--data", "a", "--target-data", "b"], ["a", "b", "2", "1"]),
        ({"a.tsv": "\t\n\t\n"}, ["--data", "a.tsv"], ["a.tsv"]),
        ({"a.tsv": "only one column\n"}, ["--data", "a.tsv"], ["a.tsv", "line 1"]),
        ({}, ["--data", "missing.tsv"], ["missing.tsv"]),
        ({"a.tsv": b"a caf\xe9\tun caf\xe9\n"}, ["--data", "a.tsv"], ["a.tsv, line 1", "UTF-8", "iconv"]),
    ],
    ids=["unequal counts", "empty sides", "one column", "no file", "encoding"],
)
def test_bad_data_is_told_and_leaves_no_checkpoint(tmp_path, files, words, parts):
    for name, text in {**files, "valid.tsv": "a dog\tun chien\n"}.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run_here("train", "translate", *words, "--valid", "valid.tsv", "--steps", "1", cwd=tmp_path)
    assert_one_line(result, 1, *parts)
    assert not (tmp_path / "runs" / "translate" / "checkpoints").exists()


PAIRS = [(triple.english.text, triple.french.text) for triple in generate(60, seed=5)]


@pytest.fixture
def pair_files(tmp_path):
    for name, pairs in (("train.tsv", PAIRS[:50]), ("valid.tsv", PAIRS[50:])):
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_training_on_standard_input_can_be_resumed(pair_files):
    words = ["train", "translate", "--data", "-", "--valid", "valid.tsv", *SMALL[2:], "--out", "run"]
    command = [sys.executable, "-c", "from regard.cli import main; main()", *words, "--steps", "2"]
    doubled = (pair_files / "train.tsv").read_text(encoding="utf-8") + "x\t\n"
    done = subprocess.run(
        command, cwd=pair_files, input=doubled, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "left out of the data: 1 with an empty side" in done.stderr
    resumed = run_here("train", "translate", "--resume", "--steps", "3", "--out", "run", cwd=pair_files)
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["--epochs", "0"], 2, "--epochs: expected a number above 0, got 0"),
        (["--to", "de"], 2, "--to: the embedded corpus has en, fr, zh, not 'de'"),
        (["--score", "none"], 2, "--score: of no use for --architecture transformer"),
        (["--attention", "none"], 2, "--attention is called --score now"),
        (["--model", "seq2seq"], 2, "--model is called --architecture now"),
        (["--source-language=en"], 2, "--source-language is called --from now"),
        (["--vocabulary", "words"], 2, "--vocabulary: unknown name 'words'"),
        (["--embedded", "-5"], 2, "--embedded: nothing to train on: got -5"),
        (["--resume"], 1, "there is no run to resume here"),
    ],
)
def test_errors_of_train_are_one_line(tmp_path, words, code, part):
    assert_one_line(run_here("train", "translate", *words, cwd=tmp_path), code, part)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_a_one_line_error(tmp_path):
    tmp_path.chmod(0o500)
    result = run_here("train", "translate", *SMALL, "--steps", "1", "--out", "run", cwd=tmp_path)
    assert_one_line(result, 1, "cannot make the folder run: Permission denied")


def test_a_run_whose_checkpoints_are_damaged_is_not_resumed(tmp_path):
    words = ["train", "translate", *SMALL, "--out", "run"]
    assert run_here(*words, "--steps", "2", "--save-every", "1", cwd=tmp_path).returncode == 0
    for file in (tmp_path / "run" / "checkpoints").rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-10])
    result = run_here("train", "translate", "--resume", "--steps", "3", "--out", "run", cwd=tmp_path)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "checkpoints" in result.stderr.splitlines()[-1]


def test_a_hugging_face_data_set_is_trained_and_evaluated_on(model, pair_files):
    datasets = pytest.importorskip("datasets")
    rows = [{"translation": {"en": source, "fr": target}} for source, target in PAIRS]
    parts = {"train": rows[:50], "validation": rows[50:55], "test": rows[55:]}
    sets = {name: datasets.Dataset.from_list(some) for name, some in parts.items()}
    datasets.DatasetDict(sets).save_to_disk(str(pair_files / "set"))
    fields = ["--columns", "translation.en,translation.fr"]
    data = ["--data", "hf:set", "--valid", "hf:set", *fields]
    trained = run_here(
        "train", "translate", *data, *SMALL[2:], "--steps", "1", "--out", "run", cwd=pair_files
    )
    assert trained.returncode == 0, trained.stderr
    words = [
        "evaluate",
        "translate",
        "--model",
        str(model),
        "--data",
        "hf:set",
        *fields,
        "--beams",
        "1",
        "--json",
    ]
    found = run_here(*words, cwd=pair_files)
    assert json.loads(found.stdout)["sentences"] == 5


def test_pairs_that_cannot_be_measured_are_told(model, tmp_path):
    (tmp_path / "test.tsv").write_text("A dog.\tUn chien.\n\tvide\nA cat.\tUn chat.\n", encoding="utf-8")
    words = ["evaluate", "translate", "--model", str(model), "--data", "test.tsv", "--beams", "1", "--json"]
    found = run_here(*words, cwd=tmp_path)
    assert found.stderr == "not measured: 1 with an empty side (the first: test.tsv, line 2)\n"
    assert json.loads(found.stdout)["left_out"] == 1
    refused = run_here(*words, "--out", "out.txt", cwd=tmp_path)
    assert_one_line(refused, 2, "--out: its lines would not be those of the data", "test.tsv, line 2")
    assert not (tmp_path / "out.txt").exists()


def test_evaluation_reads_columns_and_joins_references(model, pair_files):
    pairs = [PAIRS[0], PAIRS[1], PAIRS[0], PAIRS[2]]
    text = "".join(f"{target}\t{source}\n" for source, target in pairs)
    (pair_files / "test.txt").write_text(text, encoding="utf-8")
    words = [
        "evaluate",
        "translate",
        "--model",
        str(model),
        "--data",
        "test.txt",
        "--columns",
        "1,0",
        "--json",
    ]
    found = run_here(*words, "--out", "out.txt", "--beams", "1", cwd=pair_files)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["sentences"] == 3  # two pairs are references of one
    lines = (pair_files / "out.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 4
    assert lines[0] == lines[2]
    lower = run_here(*words, "--lowercase", "--beams", "1", "--limit", "2", cwd=pair_files)
    values = json.loads(lower.stdout)
    assert values["sentences"] == 2
    assert "case:lc" in values["bleu"]["signature"]
    assert "case:mixed" in json.loads(found.stdout)["bleu"]["signature"]


def test_evaluation_measures_alignments_against_gold_links(model, tmp_path):
    gold = "the dog sleeps .\tle chien dort .\t0-0 1-1 2-2 3-3\n"
    (tmp_path / "gold.tsv").write_text(gold * 2, encoding="utf-8")
    words = ["evaluate", "translate", "--model", str(model), "--links", "gold.tsv", "--json"]
    kept = json.loads(run_here(*words, cwd=tmp_path).stdout)["alignment"]
    chosen = json.loads(run_here(*words, "--choose-links", "gold.tsv", cwd=tmp_path).stdout)["alignment"]
    assert kept["diagonal"] == 0
    assert chosen["error_rate"] <= kept["error_rate"]
    assert chosen["sentences"] == 2
    assert json.loads(run_here(*words, "--limit", "1", cwd=tmp_path).stdout)["alignment"]["sentences"] == 1


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["--target-data", "x"], 2, "--target-data: given without --data"),
        (["--columns", "1,0"], 2, "--columns: given without --data"),
        (["--split", "test"], 2, "--split: given without --data"),
        (["--dataset-config", "x"], 2, "--dataset-config: given without --data"),
        (["--links", "x", "--beams", "3"], 2, "--beams: of no use with --links alone"),
        (["--links", "x", "--no-repeat", "3"], 2, "--no-repeat: of no use with --links alone"),
        (["--links", "x", "--no-lowercase"], 2, "--lowercase: of no use with --links alone"),
        (["--data", "x.tsv", "--choose-links", "y"], 2, "--choose-links: of no use without gold links"),
        (["--links", "x", "--out", "y"], 2, "--out: of no use with --links alone: nothing is translated"),
        (["--limit", "-2"], 2, "--limit"),
        (["--out", "."], 1, "is a folder"),
        (["--data", "x.en"], 2, "--format: cannot be told from the name x.en"),
    ],
)
def test_errors_of_evaluate_are_one_line(model, tmp_path, words, code, part):
    result = run_here("evaluate", "translate", "--model", str(model), *words, cwd=tmp_path)
    assert_one_line(result, code, part)


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


def test_pack_writes_a_card_with_results_and_samples(tmp_path, model):
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


def test_translating_does_not_load_the_compiler(model):
    """Loading it takes longer than the rest of a translation from a new process."""
    told = "import sys, atexit; atexit.register(lambda: print('torch._dynamo' in sys.modules))"
    code = f"{told}; from regard.cli import main; main()"
    result = run("translate", "--model", str(model), "A dog.", code=code)
    assert result.stdout.splitlines()[-1] == "False", result.stderr
