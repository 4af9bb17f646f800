"""Hugging Face folders as models of Regard, without the package ``transformers``.

Encoders are BERT, RoBERTa (with XLM-RoBERTa and CamemBERT) and DistilBERT. Language models are Llama, Mistral, Qwen2
and GPT-2, see :mod:`regard.models.huggingface_decoders`. Vision models are ViT, DeiT and Swin, see
:mod:`regard.models.huggingface_vision`. A folder holds ``config.json`` and ``model.safetensors``, or
several safetensors files with an index.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import ArgumentError, FileError
from regard.models.config import EncoderConfig, TextClassifierConfig
from regard.models.encoder import Encoder
from regard.models.head_config import MaskedLanguageModelConfig, SpanReaderConfig
from regard.models.huggingface_decoders import DECODERS, load_decoder
from regard.models.huggingface_families import ACTIVATIONS, FAMILIES, Family
from regard.models.huggingface_labels import check_labels, read_labels
from regard.models.huggingface_vision import VISION, load_vision
from regard.models.language_model import LanguageModel
from regard.models.masked_language_model import MaskedLanguageModel
from regard.models.pretrained import CONFIG, fill, read_config
from regard.models.safetensors_files import SafetensorsFiles
from regard.models.sizes import without_memory
from regard.models.span_reader import SpanReader
from regard.models.swin import Swin
from regard.models.text_classifier import TextClassifier
from regard.models.vision_transformer import VisionTransformer

__all__ = ["HuggingFaceFolder", "load_huggingface"]

Model = TypeVar("Model", Encoder, TextClassifier, MaskedLanguageModel, SpanReader)
AnyModel = TypeVar(
    "AnyModel",
    Encoder,
    TextClassifier,
    MaskedLanguageModel,
    SpanReader,
    LanguageModel,
    VisionTransformer,
    Swin,
)
_PURPOSES = {
    "masked_language_model": "an output for masked words",
    "classifier": "an output for classes of texts",
    "span_reader": "an output for spans of answers",
}
# Settings that change what a model computes, and the values that Regard computes.
_USUAL: dict[str, tuple[Any, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "position_embedding_type": ("absolute",),
    "pruned_heads": ({},),
    "quantization_config": (None,),
}


def load_huggingface(folder: str | os.PathLike, model: type[AnyModel] = Encoder) -> AnyModel:
    """Load the model of a Hugging Face folder into a model of Regard, in float32 and in evaluation mode.

    ``model`` is :class:`Encoder`, or :class:`MaskedLanguageModel`, :class:`TextClassifier` or :class:`SpanReader` if
    the folder holds its output layers, :class:`LanguageModel` for Llama, Mistral, Qwen2 and GPT-2, or
    :class:`VisionTransformer` for the classifiers of ViT and DeiT and :class:`Swin` for those of Swin. A folder that
    lacks the output layers, is damaged or has another architecture raises FileError. The shapes of all tensors are
    checked before memory is allocated.

    >>> load_huggingface("no/such/folder")
    Traceback (most recent call last):
        ...
    regard.errors.FileError: no/such/folder/config.json: no such file: is this the folder of a model?
    """
    if model is LanguageModel:
        return load_decoder(Path(folder))  # type: ignore[return-value]  # a LanguageModel
    if model is VisionTransformer or model is Swin:
        return load_vision(Path(folder), model)  # type: ignore[return-value]
    return HuggingFaceFolder(folder).load(model)  # type: ignore[arg-type]


class HuggingFaceFolder:
    """The settings and the weights of a Hugging Face folder of an encoder.

    ``settings`` is the content of ``config.json``. The constructor reads it, and raises FileError if Regard has no
    model with such settings. The weights are read by :meth:`load`.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        self.settings = read_config(self.folder)
        kind = self.settings.get("model_type")
        if kind not in list(FAMILIES):
            told = f"model_type is {kind!r}, which Regard cannot load: expected {', '.join(FAMILIES)}"
            if kind in DECODERS:
                told = f"model_type is {kind!r}, a language model: load it with load_huggingface(folder, LanguageModel)"
            if kind in list(VISION):
                name = VISION[str(kind)].__name__
                told = (
                    f"model_type is {kind!r}, a vision model: load it with load_huggingface(folder, {name})"
                )
            raise self._reject(told)
        self.family: Family = FAMILIES[kind]
        for name, values in _USUAL.items():
            if name in self.settings and self.settings[name] not in (*values, None):
                raise self._reject(f"{name} is {self.settings[name]!r}, which Regard's encoder does not have")

    @property
    def labels(self) -> list[str]:
        """The names of the classes of a classifier, in the order of its outputs.

        Without names in the settings they are "LABEL_0", "LABEL_1" and so on.
        """
        return read_labels(self.settings, str(self.folder / CONFIG))

    def encoder_config(self) -> EncoderConfig:
        """Return the settings of the encoder, without reading the weights.

        ``max_length`` is the number of tokens that the model can read. In RoBERTa's family it is smaller than the table
        of positions.
        """
        family, values = self.family, {}
        for ours, theirs in family.settings.items():
            if theirs in self.settings:
                values[ours] = self.settings[theirs]
            elif ours not in ("activation", "token_types", "norm_epsilon", "dropout", "attention_dropout"):
                raise self._reject(f"{theirs} is missing")
        values.setdefault("norm_epsilon", 1e-12)
        if "token_types" in family.settings:
            values.setdefault("token_types", 2)
        values["activation"] = self._activation(values.get("activation", "gelu"))
        try:
            config = EncoderConfig(
                **values,
                norm="post",
                embedding_norm=True,
                scaled_embeddings=False,
                positions="learned",
            )
            return replace(config, max_length=config.max_length - self._first_position)
        except (ArgumentError, TypeError) as error:
            named = getattr(error, "argument", "")
            told = error.in_words() if isinstance(error, ArgumentError) else str(error)
            raise self._reject(f"{family.settings.get(named, named)}: {told}") from None

    @property
    def _first_position(self) -> int:
        """The row of the table of positions that the first token uses, which is above 0 in RoBERTa's family."""
        if not self.family.positions_after_padding:
            return 0
        padding = self.settings.get("pad_token_id", 1)
        if not isinstance(padding, int) or isinstance(padding, bool) or padding < 0:
            raise self._reject(f"pad_token_id: expected a whole number of 0 or more, got {padding!r}")
        return padding + 1

    def _activation(self, name: object) -> str:
        if name not in list(ACTIVATIONS):
            field = self.family.settings["activation"]
            raise self._reject(
                f"{field} is {name!r}, which Regard cannot compute: expected {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[str(name)]

    def has(self, model: type) -> bool:
        """Return whether the folder holds all layers between the encoder and the output of a class of models.

        ``model`` is one of the classes that :meth:`load` takes. The answer for :class:`Encoder` is always True.
        """
        if model is Encoder:
            return True
        # The output layer of a masked language model may be missing, because it is tied to the embedding table.
        modules = [
            theirs.removeprefix(".") + "."
            for ours, theirs in self.family.heads[_kind(model)].items()
            if ours not in ("output.weight", "output.bias")
        ]
        prefix = self.family.prefix
        names = [name.removeprefix(prefix) for name in SafetensorsFiles(self.folder).shapes]
        return all(any(name.startswith(module) for name in names) for module in modules)

    def load(self, model: type[Model] = Encoder) -> Model:
        """Return the model of the folder as a model of this class, in float32 and in evaluation mode.

        Raises FileError if the folder has no output layers for it, or if tensors and settings do not fit together.
        """
        files = SafetensorsFiles(self.folder)
        prefix = (
            self.family.prefix if any(name.startswith(self.family.prefix) for name in files.shapes) else ""
        )
        encoder = self.encoder_config()
        self._check_layers(encoder, files, prefix)
        config = self._config(model, encoder, files)
        with without_memory(str(self.folder / CONFIG)):
            built = model(config)  # type: ignore[arg-type]
        names = {name: self._theirs(name, model, prefix) for name in built.state_dict()}
        if isinstance(config, MaskedLanguageModelConfig):
            names["output.bias"] = self._output_bias(config, files)
        self._check_shapes(built, names, files, prefix)
        tensors = files.read(list(names.values()))
        skipped = self._first_position
        if skipped:
            positions = prefix + "embeddings.position_embeddings.weight"
            tensors[positions] = tensors[positions][skipped:].clone()  # (n,m)
        self._check_tied(config, files, tensors, prefix)
        fill(built, {ours: tensors[theirs] for ours, theirs in names.items()}, str(self.folder))
        return built.eval()

    def _config(self, model: type, encoder: EncoderConfig, files: SafetensorsFiles) -> EncoderConfig:
        """Return the settings of a model of this class whose encoder has the settings ``encoder``."""
        if model is Encoder:
            return encoder
        if model is SpanReader:
            return encoder.part(SpanReaderConfig)
        if model is MaskedLanguageModel:
            tied = self.settings.get("tie_word_embeddings", True) is not False
            activation = self.family.head_activation or encoder.activation
            return encoder.part(MaskedLanguageModelConfig, head_activation=activation, tied_output=tied)
        if model is TextClassifier:
            output = self.family.heads["classifier"]["output.linear"] + ".weight"
            classes = files.shapes.get(output, (0,))[0]
            if not classes:
                raise self._without_head("classifier", output)
            check_labels(self.settings, classes, str(self.folder / CONFIG))
            return encoder.part(
                TextClassifierConfig, classes=classes, pooling="first", projection=self.family.projection
            )
        known = "Encoder, MaskedLanguageModel, TextClassifier or SpanReader"
        raise ArgumentError("model", f"expected {known} of regard.models, got {model!r}")

    def _theirs(self, name: str, model: type, prefix: str) -> str:
        """Return the name in the folder of the tensor that Regard's model of this class calls ``name``.

        ``prefix`` is the beginning of the names of the encoder in this folder, which may be empty.
        """
        family = self.family
        inner = name if model is Encoder else name.removeprefix("encoder.")
        module, _, part = inner.rpartition(".")
        if model is not Encoder and inner == name:
            heads = family.heads[_kind(model)]
            theirs = heads[name] if name in heads else f"{heads[module]}.{part}"
            return prefix + theirs[1:] if theirs.startswith(".") else theirs
        if module.startswith("layers."):
            _, number, rest = module.split(".", 2)
            return f"{prefix}{family.blocks}.{number}.{family.block[rest]}.{part}"
        return f"{prefix}{family.names[module]}.{part}"

    def _output_bias(self, config: MaskedLanguageModelConfig, files: SafetensorsFiles) -> str:
        """Return the name of the bias of the output layer, which some files hold under two names.

        If the output is tied to the embedding table, the two biases are equal, and either name is returned. Otherwise
        the name is that of the output layer itself, if the file has it.
        """
        heads = self.family.heads["masked_language_model"]
        usual, other = heads["output.bias"], heads["output.weight"].removesuffix("weight") + "bias"
        if other in files.shapes and (usual not in files.shapes or not config.tied_output):
            return other
        return usual

    def _check_layers(self, config: EncoderConfig, files: SafetensorsFiles, prefix: str) -> None:
        """Raise FileError if the number of layers is not that of the file, before a model of that size is built."""
        start = f"{prefix}{self.family.blocks}."
        numbers = {
            name.removeprefix(start).partition(".")[0] for name in files.shapes if name.startswith(start)
        }
        if len(numbers) != config.layers:
            field = self.family.settings["layers"]
            raise self._reject(f"{field} is {config.layers}, but the file of weights has {len(numbers)}")

    def _check_shapes(self, built: Any, names: dict[str, str], files: SafetensorsFiles, prefix: str) -> None:
        for ours, tensor in built.state_dict().items():
            theirs, shape = names[ours], tuple(tensor.shape)
            if theirs.endswith("embeddings.position_embeddings.weight"):
                shape = (shape[0] + self._first_position, *shape[1:])
            if theirs not in files.shapes:
                if not ours.startswith("encoder.") and not isinstance(built, Encoder):
                    raise self._without_head(_kind(type(built)), theirs)
                raise FileError(f"{self.folder}: {theirs} is missing from the weights")
            if files.shapes[theirs] != shape:
                told = f"{theirs} is {files.shapes[theirs]}, but {CONFIG} says {shape}"
                raise FileError(f"{files.where(theirs)}: {told}")
        self._check_parts(set(names.values()), files, prefix)

    def _check_parts(self, used: set[str], files: SafetensorsFiles, prefix: str) -> None:
        """Raise FileError if a tensor of the encoder in the folder is neither in ``used`` nor known as redundant.

        Tensors that are neither of the encoder nor of output layers that are known give a warning.
        """
        inside = tuple(prefix + part for part in ("embeddings.", self.family.blocks.split(".")[0] + "."))
        ignored = {prefix + name for name in self.family.ignored}
        for name in sorted(files.shapes.keys() - used - ignored):
            if name.startswith(inside):
                told = f"{name} is a part of the model that Regard's encoder does not have"
                raise FileError(f"{files.where(name)}: {told}")
        heads = [module for modules in self.family.heads.values() for module in modules.values()]
        known = {"pooler", *(module.lstrip(".").partition(".")[0] for module in heads)}
        rest = sorted(files.shapes.keys() - used - ignored)
        unknown = [name for name in rest if name.removeprefix(prefix).partition(".")[0] not in known]
        if unknown:
            count = "1 tensor" if len(unknown) == 1 else f"{len(unknown):,} tensors"
            told = f"{files.where(unknown[0])}: not used: {count} of no part that is known"
            warnings.warn(f"{told} (the first: {unknown[0]})", stacklevel=4)

    def _check_tied(
        self, config: EncoderConfig, files: SafetensorsFiles, tensors: dict[str, Any], prefix: str
    ) -> None:
        """Raise FileError if the settings tie the output layer to the embedding table, but the two differ."""
        if not isinstance(config, MaskedLanguageModelConfig) or not config.tied_output:
            return
        table = prefix + "embeddings.word_embeddings.weight"
        output = self.family.heads["masked_language_model"]["output.weight"]
        if output in files.shapes and not files.read([output])[output].equal(tensors[table]):
            told = f"{output} differs from {table}, but {CONFIG} does not say tie_word_embeddings: false"
            raise FileError(f"{files.where(output)}: {told}")

    def _without_head(self, kind: str, name: str) -> FileError:
        return FileError(f"{self.folder}: the model has no {_PURPOSES[kind][3:]} ({name} is missing)")

    def _reject(self, problem: str) -> FileError:
        return FileError(f"{self.folder / CONFIG}: {problem}")


def _kind(model: type) -> str:
    """Return the key of a class of models in ``Family.heads``."""
    return {
        MaskedLanguageModel: "masked_language_model",
        TextClassifier: "classifier",
        SpanReader: "span_reader",
    }[model]
