"""Small models of every kind, with random weights, and batches of sentences to give them."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from regard.models import (
    LanguageModel,
    LanguageModelConfig,
    Seq2Seq,
    Seq2SeqConfig,
    TextClassifier,
    TextClassifierConfig,
    Transformer,
    TransformerConfig,
)

# Sentences, source, target, the two vocabularies.
B, S, T, V, U = 3, 7, 5, 17, 19
LENGTHS = torch.tensor([7, 2, 5])
TRANSFORMERS = {
    "default": {},
    "post relu": {"norm": "post", "activation": "relu"},
    "swiglu": {"activation": "swiglu"},
    "untied": {"tied_output": False},
    "one table": {"shared_embeddings": True, "source_size": U},
    "groups": {"kv_heads": 2},
    "one group, rotary": {"kv_heads": 1, "positions": "rotary"},
    **{name: {"positions": name} for name in ("learned", "rotary", "alibi", "relative", "none")},
    "post relative": {"norm": "post", "positions": "relative", "kv_heads": 2},
}
RECURRENT = {
    f"{cell} {attention} {'fed' if fed else 'unfed'} {layers}": {
        "cell": cell,
        "attention": attention,
        "input_feeding": fed,
        "encoder_layers": layers,
        "decoder_layers": layers,
    }
    for cell, attention, fed, layers in [
        ("gru", None, False, 1),
        ("lstm", None, True, 2),
        ("gru", "additive", True, 1),
        ("lstm", "additive", False, 2),
        ("gru", "dot", True, 2),
        ("lstm", "scaled_dot", True, 1),
        ("gru", "bilinear", False, 1),
        ("lstm", "bilinear", True, 1),
    ]
}
MODELS = {**TRANSFORMERS, **RECURRENT}
_COPY = {"copy": True, "source_size": U, "target_size": U}
COPYING = {
    "transformer": _COPY,
    "transformer, one table, rotary": {**_COPY, "shared_embeddings": True, "positions": "rotary"},
    "gru additive fed": {**_COPY, "cell": "gru", "attention": "additive"},
    "lstm dot unfed 2": {
        **_COPY,
        "cell": "lstm",
        "attention": "dot",
        "input_feeding": False,
        "decoder_layers": 2,
    },
}


def build(options: dict, dtype: torch.dtype = torch.float32, seed: int = 0, **more):
    """Make a small model in evaluation mode.

    Options with a ``cell`` make a Seq2Seq, with ``classes`` a TextClassifier, with ``vocabulary_size`` a LanguageModel,
    and otherwise a Transformer.
    """
    torch.manual_seed(seed)
    options = {"dropout": 0.0, **options, **more}
    sizes = {"width": 24, "heads": 4, "feed_forward": 13, "max_length": 29}
    if "classes" in options:
        model = TextClassifier(
            TextClassifierConfig(**{**sizes, "vocabulary_size": V, "layers": 2, **options})
        )
    elif "vocabulary_size" in options:
        model = LanguageModel(LanguageModelConfig(**{**sizes, "layers": 2, **options}))
    elif "cell" in options:
        model = Seq2Seq(Seq2SeqConfig(**{"width": 10, "source_size": V, "target_size": U, **options}))
    else:
        sizes |= {"source_size": V, "target_size": U, "encoder_layers": 2, "decoder_layers": 2}
        model = Transformer(TransformerConfig(**{**sizes, **options}))
    # Nothing is zero or one by chance of its first value.
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=float("norm.weight" in name), std=0.3)
    return model.to(dtype).eval()


def sentences(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randint(V, (B, S)), torch.randint(U, (B, T))


def close(a: torch.Tensor, b: torch.Tensor, atol: float | None = None) -> None:
    atol = atol or (1e-12 if a.dtype == torch.float64 else 1e-5)
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def remove_hash(folder: Path) -> None:
    """Remove the hash of the weights from the settings of a saved model, as in folders of earlier versions."""
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["weights_sha256"]
    path.write_text(json.dumps(settings), encoding="utf-8")
