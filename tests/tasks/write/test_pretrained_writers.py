"""Writers made of GGUF files, flat files of llama2.c and Hugging Face folders, and their conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, FileError
from regard.tasks.write import Writer
from support.command_line import assert_one_line, run, run_here
from support.language_models import (
    byte_level_tokenizer,
    gguf_settings,
    gguf_tensors,
    greedy,
    llama_pieces,
    make_model,
    needs_gguf,
    real_model,
    tokenizer_metadata,
    write_flat,
    write_gguf,
    write_llama2c,
)

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def gguf_file(path: Path, **changes: Any) -> Any:
    """Write a small Llama as a GGUF file with a tokenizer and a chat template, and return the model of Transformers."""
    needs_gguf()
    model = make_model("Llama", max_position_embeddings=256)
    metadata = {"general.architecture": "llama", **gguf_settings(model), **tokenizer_metadata()}
    metadata |= {"tokenizer.chat_template": TEMPLATE, **changes}
    write_gguf(path, gguf_tensors(model), {name: x for name, x in metadata.items() if x is not None})
    return model


def folder_of(path: Path, family: str = "Llama") -> Any:
    """Write a small model as a Hugging Face folder with a tokenizer and a chat template, and return the model."""
    model = make_model(family)
    model.save_pretrained(path)
    byte_level_tokenizer()._tokenizer.save(str(path / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>", "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return model


def peer_tokens(model: Any, one: Writer, prompt: str, count: int, *, chat: bool = False) -> list[int]:
    """Return the tokens that Transformers writes after a prompt, up to the first that ends a text."""
    tokens = [*(() if chat else one.started), *one.vocabulary.encode(prompt)]
    written = greedy(model, torch.tensor([tokens]), count)
    ends = [place for place, token in enumerate(written) if token in one.ends]
    return written[: ends[0]] if ends else written


@pytest.mark.parametrize("kind", ["gguf", "folder", "gpt2"])
def test_a_writer_writes_the_greedy_text_of_transformers(kind, tmp_path):
    path = tmp_path / ("model.gguf" if kind == "gguf" else "model")
    theirs = gguf_file(path) if kind == "gguf" else folder_of(path, "GPT2" if kind == "gpt2" else "Llama")
    one = Writer.load(path)
    assert (one.context, one.start) == (256 if kind == "gguf" else 64, None)
    assert one.ends == ((2,) if kind == "gguf" else (0, 2))
    (written,) = one.write(["Once upon a time"], max_tokens=30, temperature=0)
    assert written.written_ids == peer_tokens(theirs, one, "Once upon a time", 30)
    result = run_here(
        "write", "--model", str(path), "Once upon a time", "--max-tokens", "30", "--temperature", "0"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"Once upon a time{written.text}\n"


def test_a_flat_file_has_its_tokenizer_beside_it(tmp_path):
    pieces = llama_pieces()
    theirs = make_model("Llama", vocab_size=len(pieces), rms_norm_eps=1e-5)
    write_flat(tmp_path / "tiny.bin", theirs)
    with pytest.raises(FileError, match="tokenizer.bin: cannot be read: .*beside it"):
        Writer.load(tmp_path / "tiny.bin")
    write_llama2c(tmp_path / "tokenizer.bin", pieces)
    one = Writer.load(tmp_path / "tiny.bin")
    assert (one.start, one.ends) == (1, (1, 2))
    (written,) = one.write(["once on"], max_tokens=20, temperature=0)
    assert written.written_ids == peer_tokens(theirs, one, "once on", 20)
    write_llama2c(tmp_path / "tokenizer.bin", pieces[:-1])
    with pytest.raises(FileError, match="belongs to another model"):
        Writer.load(tmp_path / "tiny.bin")


def test_a_conversation_is_rendered_by_the_template_of_the_file(tmp_path):
    path = tmp_path / "model.gguf"
    theirs = gguf_file(path)
    one = Writer.load(path)
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    prompt = one.chat.render(talk)
    assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
    first = one.reply(talk, max_tokens=12, temperature=0).finish()
    assert first.written_ids == peer_tokens(theirs, one, prompt, 12, chat=True)
    words = ["write", "--model", str(path), "--chat", "--max-tokens", "12", "--temperature", "0"]
    result = run(*words, "--system", "Be brief.", "Hi", "And you?")
    assert result.returncode == 0, result.stderr
    talk += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And you?"}]
    second = one.reply(talk, max_tokens=12, temperature=0).finish()
    assert second.written_ids == peer_tokens(theirs, one, one.chat.render(talk), 12, chat=True)
    assert result.stdout == f"{first.text}\n\n{second.text}\n"
    # A saved copy keeps the template.
    one.save(tmp_path / "copy")
    copy = tasks.load(tmp_path / "copy")
    assert copy.reply(talk, max_tokens=12, temperature=0).finish() == second


def test_models_without_a_template_or_with_a_hostile_one_say_so(tmp_path):
    path = tmp_path / "model.gguf"
    gguf_file(path, **{"tokenizer.chat_template": None})
    with pytest.raises(ArgumentError, match="this model has no chat template"):
        Writer.load(path).reply([{"role": "user", "content": "Hi"}])
    assert_one_line(run_here("write", "--model", str(path), "--chat", "Hi"), 2, "no chat template")
    gguf_file(path, **{"tokenizer.chat_template": "{{ ''.__class__.__mro__ }}"})
    assert_one_line(
        run_here("write", "--model", str(path), "--chat", "Hi"), 1, "chat template cannot be used"
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_rounded_weights_write_nearly_the_same(dtype, tmp_path):
    path = tmp_path / "model.gguf"
    gguf_file(path)
    one, rounded = Writer.load(path), Writer.load(path).round_weights(dtype)
    assert rounded.round_weights("float32") is rounded
    text = "Once upon a time there was a lily."
    assert rounded.score(text).loss == pytest.approx(one.score(text).loss, rel=0.1)
    assert rounded.score(text).loss != one.score(text).loss
    words = ["write", text, "--model", str(path), "--dtype", dtype, "--max-tokens", "5", "--temperature", "0"]
    result = run_here(*words)
    assert result.returncode == 0, result.stderr
    (written,) = rounded.write([text], max_tokens=5, temperature=0)
    assert result.stdout == text + written.text + "\n"
    if dtype == "int8":
        with pytest.raises(ArgumentError, match="weights in int8 cannot be saved"):
            rounded.save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()
    else:
        rounded.save(tmp_path / "saved")
        assert Writer.load(tmp_path / "saved").score(text).loss == pytest.approx(
            rounded.score(text).loss, rel=0.05
        )
    assert_one_line(run_here("write", "Hi", "--model", str(path), "--dtype", "int3"), 2, "--dtype", "int8")


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    path = tmp_path / "model.gguf"
    assert_one_line(run_here("write", "--model", str(path), "Hi"), 1, "no such file or folder")
    gguf_file(path)
    path.write_bytes(path.read_bytes()[:-100])
    assert_one_line(run_here("write", "--model", str(path), "Hi"), 1, "cut short")
    torch.save({"a": torch.ones(2)}, tmp_path / "model.bin")
    assert_one_line(run_here("write", "--model", str(tmp_path / "model.bin"), "Hi"), 1, "a pickle")
    folder_of(tmp_path / "folder")
    byte_level_tokenizer(300)._tokenizer.save(str(tmp_path / "folder" / "tokenizer.json"))
    settings = json.loads((tmp_path / "folder" / "config.json").read_text())
    (tmp_path / "folder" / "config.json").write_text(json.dumps({**settings, "vocab_size": 290}))
    told = run_here("write", "--model", str(tmp_path / "folder"), "Hi")
    assert_one_line(told, 1, "belongs to another model")


@pytest.mark.slow
def test_smollm2_answers():
    path = real_model("REGARD_SMOLLM2", "the GGUF file of SmolLM2-135M-Instruct")
    one = Writer.load(path)
    talk = [{"role": "user", "content": "What is the capital of France?"}]
    answer = one.reply(talk, max_tokens=40, temperature=0).finish()
    assert "Paris" in answer.text
    assert answer.ended == "end"


@pytest.mark.slow
def test_stories15m_tells_a_story():
    path = real_model("REGARD_STORIES15M", "stories15M.bin, the flat file of llama2.c")
    (story,) = Writer.load(path).write(["Once upon a time"], max_tokens=60, temperature=0)
    # The first words that llama2.c prints at temperature 0.
    assert story.text.startswith(", there was a little girl named Lily. She loved to play outside")
