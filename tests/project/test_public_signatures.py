"""The labels of rows and columns have the same names and the same order in every public signature."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import terminal
from regard.capture import Recording, capture
from regard.errors import ArgumentError, UnknownArgumentError

# The rooms that take attention weights with labels.
ROOMS = ("analysis", "capture", "maps", "plots", "reference", "terminal", "viewer")
# A function of the source documents keeps the names that its document gives the arguments.
OF_DOCUMENTS = ("visualize_attention",)
# The names of arguments that are labels of an axis, in the present or a former spelling.
LABELS = re.compile(r"^(\w+_)?(tokens|labels)$")
# One list is called `tokens`, alone or as the short form of the two.
ALLOWED = (
    [],
    ["tokens"],
    ["query_tokens", "key_tokens"],
    ["tokens", "query_tokens", "key_tokens"],
)


def exported_names() -> Iterator[tuple[str, Any]]:
    """The names that ``regard`` and its rooms export, but not the rooms themselves."""
    for module in (regard, *(importlib.import_module(f"regard.{room}") for room in ROOMS)):
        for name in module.__all__:
            exported = getattr(module, name)
            if not isinstance(exported, ModuleType):
                yield name, exported
    # The room is itself the function.
    yield "capture", capture


def functions_of(name: str, exported: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or a class with its public methods."""
    if callable(exported):
        yield name, exported
    if inspect.isclass(exported):
        for part in dir(exported):
            if not part.startswith("_") and callable(getattr(exported, part)):
                yield f"{name}.{part}", getattr(exported, part)


def label_arguments(function: Callable[..., Any]) -> list[str]:
    try:
        return [argument for argument in inspect.signature(function).parameters if LABELS.match(argument)]
    except (TypeError, ValueError):  # a class of C without a signature
        return []


def offences(names: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    """The label arguments of each signature that has others than the query tokens and then the key tokens."""
    found = {
        name: label_arguments(function)
        for exported in names
        for name, function in functions_of(*exported)
        if name not in OF_DOCUMENTS
    }
    return {name: labels for name, labels in found.items() if labels not in ALLOWED}


def test_labels_are_given_as_query_tokens_and_key_tokens():
    assert offences(exported_names()) == {}


def test_the_walk_reaches_functions_methods_and_records():
    walked = dict(found for exported in exported_names() for found in functions_of(*exported))
    with_two_lists = {name for name, function in walked.items() if "key_tokens" in label_arguments(function)}
    assert with_two_lists >= {
        "Record",
        "Recording.from_weights",
        "Recording.label",
        "capture",
        "draw_weights",
        "explain",
        "plot_heads",
        "plot_model",
        "show",
        "weights_text",
    }


def columns_first(weights, key_tokens, query_tokens): ...


def other_names(weights, source_tokens, target_tokens): ...


def one_of_two(weights, query_tokens): ...


@pytest.mark.parametrize("function", [columns_first, other_names, one_of_two])
def test_the_walk_rejects_another_order_and_other_names(function):
    assert list(offences([("f", function)])) == ["f"]


WEIGHTS = np.full((3, 3), 1 / 3)
WORDS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("call", "former", "present"),
    [
        (lambda **labels: Recording.from_weights(WEIGHTS, **labels), "tokens", "query_tokens"),
        (lambda **labels: Recording.from_weights(WEIGHTS).label(**labels), "tokens", "query_tokens"),
        (lambda **labels: regard.show(WEIGHTS, **labels), "tokens", "query_tokens"),
        (lambda **labels: regard.show(WEIGHTS, WORDS, **labels), "other_tokens", "key_tokens"),
        (lambda **labels: regard.plot_heads(WEIGHTS, WORDS, **labels), "other_tokens", "key_tokens"),
        (lambda **labels: regard.plot_model([WEIGHTS], **labels), "tokens", "query_tokens"),
        (lambda **labels: terminal.draw_weights(WEIGHTS, **labels), "rows", "query_tokens"),
        (lambda **labels: terminal.weights_text(WEIGHTS, WORDS, **labels), "columns", "key_tokens"),
    ],
)
def test_a_former_name_is_answered_with_the_present_one(call, former, present):
    with pytest.raises(
        UnknownArgumentError, match=f"^{former}: no longer an argument of .*: use {present}=$"
    ):
        call(**{former: WORDS})


@pytest.mark.parametrize("other", ["query_tokens", "key_tokens"])
def test_the_short_form_of_capture_stands_alone(other):
    model = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    with pytest.raises(ArgumentError, match=f"^tokens: given together with {other}=: use query_tokens="):
        regard.capture(model, tokens=WORDS, **{other: WORDS})
    with (
        pytest.raises(ArgumentError, match="^tokens: no map has 2 tokens"),
        regard.capture(model, tokens=["a", "b"]),
    ):
        model(*[torch.randn(1, 3, 4)] * 3)


def test_query_and_key_tokens_of_an_encoder_decoder():
    """The source words label the encoder also where the target has as many words."""
    model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    queries, keys = ["le", "chat", "dort"], ["the", "cat", "sleeps"]
    with regard.capture(model, query_tokens=queries, key_tokens=keys) as seen:
        model(torch.randn(1, 3, 8), torch.randn(1, 3, 8))
    assert [(record.query_tokens, record.key_tokens) for record in seen] == [
        ([keys], [keys]),
        ([queries], [queries]),
        ([queries], [keys]),
    ]
