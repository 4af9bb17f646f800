"""Tasks that join data, a model and a measure, and are trained, saved and evaluated in the same way.

The names are imported on first use, so importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard._lazy import lazily

if TYPE_CHECKING:
    from regard.tasks.base import Prediction, Predictor, Report, ScoreReport, Task
    from regard.tasks.bundle import Bundle, BundledPredictor, load_bundle, save_bundle
    from regard.tasks.card import Card, CardFacts
    from regard.tasks.copied_tokens import TokenOrigin, token_origins
    from regard.tasks.measuring import rows_to_measure, write_predictions
    from regard.tasks.model_attention import look
    from regard.tasks.objective import BatchedObjective
    from regard.tasks.packing import pack
    from regard.tasks.pairs import PairSource
    from regard.tasks.pretrained import starting_config, starting_encoder, starting_vocabulary
    from regard.tasks.registry import TASKS, find_model, find_task, installed_models
    from regard.tasks.run import evaluate, load, resume, settings_of_run, train
    from regard.tasks.settings import (
        BatchSettings,
        DataSettings,
        EmbeddedSettings,
        EncoderDecoderSettings,
        EvaluationSettings,
        PretrainedSettings,
        TaskSettings,
        TransformerSettings,
        VocabularySettings,
    )

_HOMES: dict[str, list[str]] = {
    "base": ["Prediction", "Predictor", "Report", "ScoreReport", "Task"],
    "bundle": ["Bundle", "BundledPredictor", "load_bundle", "save_bundle"],
    "card": ["Card", "CardFacts"],
    "measuring": ["rows_to_measure", "write_predictions"],
    "model_attention": ["look"],
    "objective": ["BatchedObjective"],
    "packing": ["pack"],
    "pairs": ["PairSource"],
    "pretrained": ["starting_config", "starting_encoder", "starting_vocabulary"],
    "registry": ["TASKS", "find_model", "find_task", "installed_models"],
    "run": ["evaluate", "load", "resume", "settings_of_run", "train"],
    "settings": [
        "BatchSettings",
        "DataSettings",
        "EmbeddedSettings",
        "EncoderDecoderSettings",
        "EvaluationSettings",
        "PretrainedSettings",
        "TaskSettings",
        "TransformerSettings",
        "VocabularySettings",
    ],
    "copied_tokens": ["TokenOrigin", "token_origins"],
}

__all__ = [
    "TASKS",
    "BatchSettings",
    "BatchedObjective",
    "Bundle",
    "BundledPredictor",
    "Card",
    "CardFacts",
    "DataSettings",
    "EmbeddedSettings",
    "EncoderDecoderSettings",
    "EvaluationSettings",
    "PairSource",
    "Prediction",
    "Predictor",
    "PretrainedSettings",
    "Report",
    "ScoreReport",
    "Task",
    "TaskSettings",
    "TokenOrigin",
    "TransformerSettings",
    "VocabularySettings",
    "evaluate",
    "find_model",
    "find_task",
    "installed_models",
    "load",
    "load_bundle",
    "look",
    "pack",
    "resume",
    "rows_to_measure",
    "save_bundle",
    "settings_of_run",
    "starting_config",
    "starting_encoder",
    "starting_vocabulary",
    "token_origins",
    "train",
    "write_predictions",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
