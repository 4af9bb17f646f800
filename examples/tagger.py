"""A tagger as an example of a task of your own, trained on rows such as ``the cat sleeps<TAB>DET NOUN VERB``."""

from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from regard import tasks
from regard.models import Encoder, EncoderConfig
from regard.models.heads import ClassificationHead
from regard.settings import setting
from regard.text import PairData, Skipped, load_vocabulary, pad_sequences, train_vocabulary


@dataclass(frozen=True, kw_only=True)
class TaggerSettings(tasks.BatchSettings, tasks.DataSettings):
    """The settings of the data and the training, and one more for the tagger."""

    width: int = setting(64, "Numbers that represent a word.")


class TaggerModel(nn.Module):
    """An encoder with an output for each token."""

    def __init__(self, words, tags, width):
        super().__init__()
        self.encoder = Encoder(EncoderConfig(vocabulary_size=len(words), width=width, layers=1))
        self.output = ClassificationHead(width, len(tags))

    def forward(self, tokens, lengths):
        return self.output(self.encoder(tokens, lengths))  # (b,n,tags)


class TaggerPredictor(tasks.BundledPredictor):
    """A trained model with its two vocabularies."""

    task = "tag"

    def __init__(self, model, words, tags, width):
        self.model, self.words, self.tags, self.extra = model, words, tags, {"width": width}

    @torch.no_grad()
    def __call__(self, texts):
        tokens, lengths = pad_sequences(self.words.encode_batch(list(texts)), end=self.words.eos)
        found = self.model.eval()(tokens.to(self.device), lengths.to(self.device)).argmax(dim=-1)  # (b,n)
        return [
            self.tags.decode(row[: n - 1].tolist()) for row, n in zip(found, lengths.tolist(), strict=True)
        ]

    def accuracy(self, rows):
        pairs = zip(self(text for text, _ in rows), rows, strict=True)
        right = [a == b for one, (_, tags) in pairs for a, b in zip(one.split(), tags.split(), strict=False)]
        return 100 * sum(right) / max(1, len(right))

    def vocabularies(self):
        return {"words": self.words, "tags": self.tags}

    @classmethod
    def from_bundle(cls, bundle):
        parts = bundle.vocabulary("words"), bundle.vocabulary("tags"), bundle.settings["width"]
        return cls(bundle.fill(TaggerModel(*parts)), *parts)


class TaggerObjective(tasks.BatchedObjective):
    """The cross entropy of the tags as loss, and their accuracy for validation."""

    metric = "accuracy"

    def loss(self, model, batch):
        real = batch.target_output != 0  # (b,n); 0 is padding
        logits = model(batch.source, batch.source_lengths)[real]  # (tokens,tags)
        smoothing = self.settings.label_smoothing
        return cross_entropy(logits, batch.target_output[real], reduction="sum", label_smoothing=smoothing)

    def predictor(self, model):
        return TaggerPredictor(model, self.data.words, self.data.tags, self.settings.width)

    def validate(self, model):
        return {"accuracy": self.predictor(model).accuracy(self.data.valid)}


class Tagger(tasks.Task):
    """The task of giving a tag to each word of a sentence."""

    name, settings, predictor = "tag", TaggerSettings, TaggerPredictor

    def shared_files(self, settings, folder):
        return [folder / "words.json", folder / "tags.json"]

    def prepare(self, settings, folder, *, learn, show=False):
        rows = tasks.PairSource(settings, most_valid=500)
        valid, files, skipped = rows.validation(), self.shared_files(settings, folder), Skipped()
        for side, path in enumerate(files if learn else []):
            train_vocabulary("word", (row[side] for row in rows.training()), 10_000).save(path)
        words, tags = map(load_vocabulary, files)
        known = {"folder": folder / "cache", "files": rows.files(), "identity": rows.identity()}
        train = PairData.build_or_open(lambda: rows.training(skipped), words, tags, **known, skipped=skipped)
        return SimpleNamespace(train=train, valid=valid, words=words, tags=tags)

    def build(self, settings, data):
        return TaggerModel(data.words, data.tags, settings.width)

    def objective(self, settings, data):
        return TaggerObjective(self, settings, data)

    def evaluate(self, predictors, options):
        rows = tasks.rows_to_measure(options)
        tasks.write_predictions(options, next(iter(predictors.values()))(text for text, _ in rows))
        return tasks.ScoreReport({f"accuracy of {name}": p.accuracy(rows) for name, p in predictors.items()})
