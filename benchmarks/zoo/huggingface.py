"""Hugging Face models of a few thousand weights, built from their configs.

The truth is the output of the model's own eager attention in float64, called with ``output_attentions=True``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from zoo.hf_models import AS_MAPS, AVERAGED, GIVEN, MODELS, OF_SOFTMAX, SINKS, SMALL, TWEAKS
from zoo.judging import Absent, Case, Subject, Truth
from zoo.weights import is_causal, randomise, softmaxes

BATCH, TOKENS, TARGETS = 2, 7, 5  # primes other than 3, the number of heads


def cases() -> list[Case]:
    """Yield every model with eager attention and with torch's fused attention."""
    return [
        Case("huggingface", f"{name}, {how}", _builder(name, how))
        for name in MODELS
        for how in ("eager", "sdpa")
    ]


def _builder(name: str, how: str) -> Callable[[], Subject]:
    return lambda: build(name, how)


def build(name: str, how: str, dtype: torch.dtype = torch.float64) -> Subject:
    """Build a model and a call, with the model's own eager weights of the same call."""
    import transformers

    transformers.logging.set_verbosity_error()
    truth_model = _model(name, "eager", dtype)
    randomise(truth_model)
    model = _model(name, how, dtype)
    model.load_state_dict(truth_model.state_dict())
    given = _inputs(name, truth_model, dtype)
    weights, mask = _with_padding(truth_model, given)
    if dtype is torch.float64 and any(x.isnan().any() for parts in weights.values() for x in parts):
        # Some models mask with the lowest float64 number and take the softmax in float32, of rows of -inf.
        return build(name, how, torch.float32)
    rows = mask.bool() if mask is not None else None
    if name in OF_SOFTMAX:
        with softmaxes() as found:
            _attentions(truth_model, given)
        weights = {"attentions": found}
    about = {"sink": name in SINKS, "averaged": name in AVERAGED}
    truths = [
        _truth(part, at, rows, how == "sdpa", about)
        for at, parts in _as_maps(name, weights).items()
        for part in parts
    ]

    @torch.no_grad()
    def call() -> Any:
        return dict(model(**given))

    return Subject(model, call, truths)


def _as_maps(name: str, weights: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    """Return the weights with the four axes (b,h,q,k)."""
    return AS_MAPS[name](weights) if name in AS_MAPS else weights


def _truth(weights: Tensor, at: str, rows: Tensor | None, fused: bool, about: dict[str, bool]) -> Truth:
    """Make a truth from weights. Rows of padding are compared only if both runs use the same kernel."""
    if rows is None or at.startswith(("decoder", "cross")) or rows.shape != (len(weights), weights.shape[2]):
        rows = None
    kind = "cross" if at.startswith("cross") else "causal" if is_causal(weights, rows) else "self"
    return Truth(weights, kind if weights.shape[2] > 1 else None, rows if fused else None, **about)


def _small(kind: type) -> dict[str, Any]:
    """Make the sizes of a config class, and of the configs inside it, small."""
    import transformers

    default = kind()
    small: dict[str, Any] = {}
    for name, value in default.to_dict().items():
        part = getattr(default, name, None)
        if isinstance(part, transformers.PretrainedConfig):
            small[name] = _small(type(part))
        elif name in SMALL and (value is None or isinstance(value, int)) and not isinstance(value, bool):
            small[name] = SMALL[name]
    return small


def _model(name: str, how: str, dtype: torch.dtype) -> nn.Module:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if name not in CONFIG_MAPPING:
        raise Absent(f"transformers {transformers.__version__} does not have {name}")
    kind = CONFIG_MAPPING[name]
    sizes = _small(kind)
    for at, value in TWEAKS.get(name, {}).items():
        *parts, last = at.split(".")
        inner = sizes
        for part in parts:
            inner = inner.setdefault(part, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    config = kind(**sizes)
    torch.manual_seed(0)
    options = {"attn_implementation": how}
    try:
        model = transformers.AutoModel.from_config(config, **options)
    except ValueError as error:
        if "attn_implementation" in str(error) or "does not support" in str(error):
            raise Absent(f"has no {how} form") from error
        raise
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the fused product of experts takes no float64
    return model.eval().to(dtype)


def _inputs(name: str, model: Any, dtype: torch.dtype) -> dict[str, Any]:
    """Return the inputs of a model, by its main argument."""
    config, generator = model.config, torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    if name in GIVEN:
        return GIVEN[name](config, numbers)
    ids = torch.randint(3, 90, (BATCH, TOKENS), generator=generator)
    main = model.main_input_name
    if main == "input_ids":
        given: dict[str, Any] = {"input_ids": ids}
        if getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = torch.randint(3, 90, (BATCH, TARGETS), generator=generator)
        return given
    if main == "pixel_values":
        size = getattr(config, "image_size", 20)
        rows, columns = size if isinstance(size, list | tuple) else (size, size)
        return {main: numbers(BATCH, getattr(config, "num_channels", 3), rows, columns)}
    if main == "input_values":
        return {main: numbers(BATCH, 3000)}
    if main == "input_features":
        return {main: numbers(BATCH, getattr(config, "num_mel_bins", 80), 128)}
    raise Absent(f"takes {main}, which is not made here")


@torch.no_grad()
def _attentions(model: nn.Module, given: dict[str, Any]) -> dict[str, list[Tensor]]:
    out = model(**given, output_attentions=True)
    found = {at: _flat(out[at]) for at in out if at.endswith("attentions")}
    return {at: parts for at, parts in found.items() if parts}


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for part in (value or ()) if part is not None for x in _flat(part)]


def _with_padding(model: nn.Module, given: dict[str, Any]) -> tuple[dict[str, list[Tensor]], Tensor | None]:
    """Return the weights of a batch, padded on the left for a causal model and on the right for others."""
    weights = _attentions(model, given)
    ids = given.get("input_ids")
    takes_mask = "attention_mask" in inspect.signature(model.forward).parameters
    if ids is None or not takes_mask or "attention_mask" in given:
        return weights, None
    first = next((parts[0] for at, parts in weights.items() if not at.startswith(("cross", "decoder"))), None)
    mask = torch.ones_like(ids)
    left = first is not None and first.shape[-1] == first.shape[-2] and is_causal(first)
    mask[1, slice(0, 2) if left else slice(-2, None)] = 0
    given["attention_mask"] = mask
    try:
        return _attentions(model, given), mask
    except (RuntimeError, ValueError, TypeError, IndexError):
        del given["attention_mask"]  # a mask of another form
        return weights, None
