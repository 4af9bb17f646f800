"""Scaled dot-product attention over movie reviews, drawn as heat maps with and without a padding mask.

    python examples/imdb_attention.py                        IMDb through Hugging Face, else the small sample
    python examples/imdb_attention.py --data huggingface     IMDb (train[:1000]) through `datasets`, or fail
    python examples/imdb_attention.py --data PATH            a file, or a folder with train.tsv[.gz]
    python examples/imdb_attention.py --data sample          48 short reviews that come with this example

A file has one review per line, with label, rating, id and text separated by tabs. The embedding is random and
untrained, so a word attends mostly to equal words.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import socket
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from regard import SimpleAttention, padding, plot_attention_weights

SAMPLE = Path(__file__).with_name("imdb_sample.tsv")
REVIEWS, BATCH_SIZE, MAX_LENGTH, EMBED_DIM = 1000, 32, 20, 64
PAD, UNK = "<pad>", "<unk>"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default="auto", help="auto, huggingface, sample, or the path of a file or folder"
    )
    parser.add_argument(
        "--review", type=int, default=0, metavar="N", help="the number of the review to draw (default: 0)"
    )
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for the figures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    texts = load(options.data, parser)
    if not 0 <= options.review < len(texts):
        parser.error(f"--review {options.review}: there are {len(texts)} reviews, numbered from 0")
    vocabulary = build_vocabulary(token for text in texts for token in text.lower().split())
    embedding = nn.Embedding(len(vocabulary), EMBED_DIM)
    tokens = [text.lower().split()[:MAX_LENGTH] for text in texts]
    ids = torch.tensor([encode(review, vocabulary) for review in tokens])  # (reviews,20)
    lengths = torch.tensor([len(review) for review in tokens])
    with torch.no_grad():
        embedded = embedding(ids)  # (reviews,20,64)
        output, masked = attend(embedded, lengths)
        _, unmasked = attend(embedded, None)
    print("Dataset size:", len(texts))
    print("Sample text:", texts[0][:100] + "...")
    print("Output shape:", output.shape)
    print("Attention weights shape:", masked.shape)
    draw(tokens, masked, unmasked, options.review, options.out)


def attend(embedded: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Apply self-attention to each review, 32 at a time.

    Returns the outputs (reviews,20,64) and the weights (reviews,20,20).
    """
    model = SimpleAttention(EMBED_DIM)
    outputs, weights = [], []
    for start in range(0, len(embedded), BATCH_SIZE):
        batch = embedded[start : start + BATCH_SIZE]
        mask = None if lengths is None else padding(lengths[start : start + BATCH_SIZE])
        output, attention_weights = model(batch, batch, batch, mask=mask)
        outputs.append(output)
        weights.append(attention_weights)
    return torch.cat(outputs), torch.cat(weights)


def build_vocabulary(tokens: Iterable[str]) -> dict[str, int]:
    """Number the padding token, the unknown token, and then the words by descending frequency.

    >>> build_vocabulary(["the", "cat", "the"])
    {'<pad>': 0, '<unk>': 1, 'the': 2, 'cat': 3}
    """
    words = sorted(Counter(tokens).items(), key=lambda item: (-item[1], item[0]))
    return {word: index for index, word in enumerate([PAD, UNK, *(word for word, _ in words)])}


def encode(tokens: list[str], vocabulary: dict[str, int]) -> list[int]:
    """Return the ids of at most 20 tokens, padded to 20."""
    return [vocabulary.get(token, vocabulary[UNK]) for token in padded(tokens)]


def padded(tokens: list[str]) -> list[str]:
    return tokens + [PAD] * (MAX_LENGTH - len(tokens))


def draw(tokens: list[list[str]], masked: Tensor, unmasked: Tensor, review: int, out: Path) -> None:
    labels = padded(tokens[review])
    plot_attention_weights(masked[review], labels, path=out / "attention_heatmap.png")
    title = "Attention Weights Heatmap (padding not masked)"
    plot_attention_weights(unmasked[review], labels, title, path=out / "attention_heatmap_unmasked.png")
    pads = MAX_LENGTH - len(tokens[review])
    if pads:
        lost = [w[review, :-pads, -pads:].sum(dim=-1).mean().item() for w in (unmasked, masked)]
        print(
            f"Review {review} has {pads} <pad>. They take {lost[0]:.1%} of a word's attention, {lost[1]:.1%} masked"
        )
    else:
        shorter = [n for n, review_tokens in enumerate(tokens) if len(review_tokens) < MAX_LENGTH]
        hint = (
            f"--review {shorter[0]} has some" if shorter else f"no review is shorter than {MAX_LENGTH} tokens"
        )
        print(f"Review {review} has no <pad>, so both pictures are the same: {hint}")


# ---- loading the reviews ------------------------------------------------------------------------------


def load(source: str, parser: argparse.ArgumentParser) -> list[str]:
    if source == "sample":
        return from_sample()
    if source in ("auto", "huggingface"):
        try:
            return from_hugging_face()
        # `datasets` raises many kinds of exceptions when it is offline.
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if source == "huggingface":
                parser.exit(1, f"IMDb could not be loaded through Hugging Face: {reason}\n")
            print(f"IMDb is not available ({reason}); using the sample instead.")
            return from_sample()
    path = Path(source)
    if not path.exists():
        parser.error(f"--data: '{source}' is neither a file nor a folder, nor auto, huggingface or sample")
    return from_file(path, parser)


def from_hugging_face() -> list[str]:
    _use_cache_when_offline()
    from datasets import load_dataset  # optional: pip install '.[hf]'

    dataset: Any = load_dataset("imdb", split=f"train[:{REVIEWS}]")
    print(f"Data: IMDb through Hugging Face, {len(dataset)} reviews")
    return [clean(example["text"]) for example in dataset]


def _use_cache_when_offline() -> None:
    """Switch `datasets` to its cache if the hub cannot be reached, which saves half a minute of retries."""
    from huggingface_hub import constants

    try:
        socket.create_connection((urlsplit(constants.ENDPOINT).hostname or "", 443), timeout=5).close()
    except OSError:
        constants.HF_HUB_OFFLINE = True  # read by `datasets` when it is imported


def from_file(path: Path, parser: argparse.ArgumentParser) -> list[str]:
    if path.is_dir():
        names = [name for name in ("train.tsv", "train.tsv.gz") if (path / name).is_file()]
        if not names:
            parser.error(f"--data: the folder '{path}' has neither train.tsv nor train.tsv.gz")
        path = path / names[0]
    texts = read(path)
    print(f"Data: {path.name}, {len(texts)} reviews")
    return texts


def from_sample() -> list[str]:
    texts = read(SAMPLE)
    print(
        f"Data: the sample that comes with this example, {len(texts)} reviews (not {REVIEWS}, and not IMDb)"
    )
    return texts


def read(path: Path) -> list[str]:
    """Read the texts of the first 1,000 lines of a plain or gzipped file."""
    texts = []
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for number, line in enumerate(itertools.islice(lines, REVIEWS), start=1):
            columns = line.rstrip("\n").split("\t", 3)
            if len(columns) != 4:
                problem = f"expected label, rating, id and text, got {len(columns)} columns"
                raise SystemExit(f"{path.name}, line {number}: {problem}")
            texts.append(clean(columns[3]))
    if not texts:
        raise SystemExit(f"{path.name} has no reviews")
    return texts


def clean(text: str) -> str:
    """Replace HTML line breaks and runs of white space by single spaces."""
    return " ".join(text.replace("<br />", " ").split())


if __name__ == "__main__":
    main()
