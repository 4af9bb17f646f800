"""Measure what changes when the token with the most attention is taken out, the one with the least, or a random one.

python benchmarks/tutorial_removal.py               all parts
python benchmarks/tutorial_removal.py sentiment     the classifier sentiment-en, on test sentences of rt_polarity
python benchmarks/tutorial_removal.py translate     the translator en-fr, on test sentences of the embedded corpus
python benchmarks/tutorial_removal.py heads         the same, one head at a time

The classifier reads each sentence again without one token. The change is that of the probability of its own
label. The translator keeps its own translation, and one source token is hidden from the cross-attention of
each step. The change is that of the probability of the token that the step writes. The sentences of
rt_polarity are read from REGARD_DATA or ../shared/data. Without them this part is left out.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.corpus import generate
from regard.models.state import SourcePadding
from regard.tasks.classify import Classifier
from regard.tasks.translate import Translator
from regard.text import pad_sequences, read_pairs

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / "shared" / "data")) / "rt_polarity"
SHORTEST = 5  # tokens of the sentences that are measured


# ---- the classifier


def sentiment(limit: int, seed: int) -> None:
    """Print the change of the label of sentences without one of their tokens."""
    if not (DATA / "test.tsv.gz").is_file():
        print(f"sentiment: {DATA / 'test.tsv.gz'} is not there; REGARD_DATA names the folder of the data")
        return
    classifier = Classifier.load("sentiment-en")
    rows = list(read_pairs(DATA / "test.tsv.gz", columns=(1, 0)))[:limit]
    whole = classifier.classify([text for text, _ in rows])
    measured = [
        (one, truth) for one, (_, truth) in zip(whole, rows, strict=True) if len(one.token_ids) >= SHORTEST
    ]
    generator = torch.Generator().manual_seed(seed)
    table: dict[str, list[tuple[float, bool]]] = {}
    largest, tokens = 0, 0
    for found, _ in measured:
        weights = classifier.attention(found)[-1].map.weights()[0, :, 0].mean(dim=0)  # (k,), over the heads
        count = len(found.token_ids)
        weights = weights[:count]  # without the end of the sentence
        shares = without_each_token(classifier, found.token_ids, found.label)  # (count,)
        lost = found.sure - shares
        chosen = {
            "the most attention": int(weights.argmax()),
            "the least attention": int(weights.argmin()),
            "random": int(torch.randint(count, (), generator=generator)),
            "the largest change": int(lost.abs().argmax()),
        }
        largest += chosen["the most attention"] == chosen["the largest change"]
        tokens += count
        for name, place in chosen.items():
            table.setdefault(name, []).append((float(lost[place].abs()), float(shares[place]) < 0.5))
    print(f"\nsentiment-en, {len(measured)} test sentences, {tokens / len(measured):.1f} tokens on average")
    print("  token taken out       mean change of the probability    labels changed")
    for name, results in table.items():
        change = sum(one for one, _ in results) / len(results)
        flipped = sum(flips for _, flips in results) / len(results)
        print(f"  {name:20}  {change:.4f}                            {100 * flipped:.1f} %")
    chance = sum(1 / len(one.token_ids) for one, _ in measured) / len(measured)
    agreed = 100 * largest / len(measured)
    print(f"  The token with the most attention has the largest change in {agreed:.1f} % of the sentences.")
    print(f"  A random token has it in {100 * chance:.1f} %.")


def without_each_token(classifier: Classifier, ids: list[int], label: str) -> Tensor:
    """Return the probability of a label without the first token, without the second, and so on, ``(n,)``."""
    shorter = [ids[:place] + ids[place + 1 :] for place in range(len(ids))]
    logits = classifier.logits(shorter) / classifier.temperature  # (n,classes)
    return logits.softmax(dim=-1)[:, classifier.labels.names.index(label)]


# ---- the translator


class Forced:
    """Sentences with the translations that the model wrote itself, for teacher forcing."""

    def __init__(self, translator: Translator, sentences: list[str]):
        self.model = translator.model.eval()
        done = translator.translate(sentences, beams=1, normalize=False)
        done = [one for one in done if len(one.source_ids) >= SHORTEST and one.target_ids]
        self.source, self.lengths = pad_sequences([one.source_ids for one in done], end=translator.source.eos)
        self.inputs, _ = pad_sequences([one.target_ids for one in done], start=translator.target.bos)  # (b,t)
        written, lengths = pad_sequences([one.target_ids for one in done])  # (b,t-1)
        self.written = written
        self.counted = torch.arange(written.shape[1]) < lengths[:, None]  # (b,t-1)
        places = torch.arange(self.source.shape[1])
        # Every token but the end of the sentence may be taken out.
        self.tokens = places < (self.lengths - 1)[:, None]  # (b,s)
        self.read = places < self.lengths[:, None]  # (b,s)
        self.inputs = self.inputs[:, : written.shape[1]]
        self.sentences = len(done)

    @torch.no_grad()
    def probabilities(self, hidden: Tensor | None = None, layer: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the probability of each written token, and whether it is the most probable one, ``(b,t)`` each.

        ``hidden (b,h,t,s)`` are the source tokens that are hidden, from all cross-attention or from one layer.
        """
        memory, hook = self.model.encode(self.source, self.lengths), None
        if hidden is not None:
            mask = SourcePadding(self.read[:, None, None] & ~hidden)  # (b,h,t,s)
            if layer is None:
                memory.padding = lambda: mask
            else:
                hook = self.model.decoder.layers[layer].cross_attention.register_forward_pre_hook(
                    lambda _, inputs, named: (inputs, {**named, "mask": mask}), with_kwargs=True
                )
        output = self.model.output(self.model.decode(memory, self.inputs)).log_softmax(dim=-1)  # (b,t,v)
        if hook is not None:
            hook.remove()
        shares = output.gather(-1, self.written[..., None])[..., 0].exp()  # (b,t)
        return shares, output.argmax(dim=-1) == self.written

    @torch.no_grad()
    def weights(self) -> list[Tensor]:
        """Return the weights ``(b,h,t,s)`` of each layer of the cross-attention."""
        records: list[Any] = []
        self.model.decode(self.model.encode(self.source, self.lengths), self.inputs, records=records)
        crosses = [one for one in records if one.kind == "cross" and one.layer is not None]
        return [one.map.weights() for one in crosses]

    def choices(self, weights: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Return the tokens with the most and the least weight, and random ones, as masks ``(b,h,t,s)``."""
        allowed = self.tokens[:, None, None].expand(weights.shape)
        inside = weights.masked_fill(~allowed, -1.0)
        drawn = torch.rand(weights.shape, generator=generator).masked_fill(~allowed, -1.0)
        places = {
            "most": inside.argmax(dim=-1),
            "least": weights.masked_fill(~allowed, 2.0).argmin(dim=-1),
            "random": drawn.argmax(dim=-1),
        }
        return {
            name: torch.nn.functional.one_hot(one, weights.shape[-1]).bool() for name, one in places.items()
        }

    def change(self, before: Tensor, hidden: Tensor, layer: int | None = None) -> tuple[float, float]:
        """Return the mean loss of probability, and the share of tokens that are no longer the most probable."""
        after, first = self.probabilities(hidden, layer)
        lost, other = (before - after)[self.counted], ~first[self.counted]
        return float(lost.mean()), float(other.double().mean())


def forced_sentences(limit: int) -> Forced:
    """Return test sentences of the embedded corpus with the translations of en-fr."""
    sentences = [triple.english.text for triple in generate(limit, split="test")]
    return Forced(Translator.load("en-fr"), sentences)


def translate(limit: int, seed: int) -> None:
    """Print the change of the written tokens if a source token is hidden from the cross-attention."""
    forced = forced_sentences(limit)
    generator = torch.Generator().manual_seed(seed)
    before, first = forced.probabilities()
    layers = forced.weights()
    known = before[forced.counted].mean()
    print(f"\nen-fr, {forced.sentences} test sentences, {int(forced.counted.sum())} written tokens,")
    print(
        f"whose mean probability is {known:.4f} ({100 * first[forced.counted].double().mean():.1f} % of them first)"
    )
    print("  hidden from all cross-attention    mean loss of probability    tokens no longer first")
    mean = torch.stack([one.mean(dim=1, keepdim=True) for one in layers]).mean(dim=0)  # (b,1,t,s)
    for name, hidden in forced.choices(mean, generator).items():
        lost, other = forced.change(before, hidden)
        print(f"  {name:33}  {lost:.4f}                      {100 * other:.1f} %")


def heads(limit: int, seed: int) -> None:
    """Print the change of the written tokens if a source token is hidden from one head of the cross-attention."""
    forced = forced_sentences(limit)
    generator = torch.Generator().manual_seed(seed)
    before, _ = forced.probabilities()
    print(f"\nen-fr, {forced.sentences} test sentences, one source token hidden from one head:")
    print(
        "mean loss of probability for the token with the most weight in this head, the least, and a random one"
    )
    for layer, weights in enumerate(forced.weights()):
        for head in range(weights.shape[1]):
            only = torch.zeros(1, weights.shape[1], 1, 1, dtype=torch.bool)
            only[:, head] = True
            losses = {
                name: forced.change(before, hidden & only, layer)[0]
                for name, hidden in forced.choices(weights, generator).items()
            }
            shown = "   ".join(f"{name} {lost:.4f}" for name, lost in losses.items())
            print(f"  layer {layer}, head {head}: {shown}", flush=True)


LIMITS = {"sentiment": 1055, "translate": 200, "heads": 60}  # sentences
PARTS = {"sentiment": sentiment, "translate": translate, "heads": heads}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=list(PARTS))
    parser.add_argument("--limit", type=int, help=f"sentences, by default {LIMITS}")
    parser.add_argument("--seed", type=int, default=0, help="of the random tokens")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, part in PARTS.items():
        if given.part in (None, name):
            part(given.limit or LIMITS[name], given.seed)


if __name__ == "__main__":
    main()
