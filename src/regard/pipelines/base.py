"""The base class of the pipelines, and results that hold their input."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from torch.utils.data import Dataset, IterableDataset

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, did_you_mean
from regard.shapes import whole_number

if TYPE_CHECKING:
    from regard.capture import Recording
    from regard.pipelines.tokenizer import Tokenizer

__all__ = ["DatasetResults", "Pipeline", "Result", "ResultList", "is_dataset"]


class Result(dict):
    """A dictionary that a pipeline returns, with the input it was computed from as ``source``.

    ``model_input`` is the part of the input that the model read for this result, encoded with the options of the call.

    >>> Result({"label": "POSITIVE"}, "a good film", [101, 2204, 102])
    {'label': 'POSITIVE'}
    """

    def __init__(self, values: dict[str, Any], source: Any, model_input: Any):
        super().__init__(values)
        self.source, self.model_input = source, model_input


class ResultList(list):
    """A list of results with ``source`` and ``model_input``, as those of :class:`Result`."""

    def __init__(self, values: Iterable[Any], source: Any, model_input: Any):
        super().__init__(values)
        self.source, self.model_input = source, model_input


class DatasetResults(Iterator[Any]):
    """An iterator of the results for a dataset, with the length of the dataset.

    >>> results = DatasetResults(iter([0.25, 0.75]), 2)
    >>> len(results), next(results)
    (2, 0.25)
    """

    def __init__(self, results: Iterator[Any], length: int):
        self._results, self._length = results, length

    def __next__(self) -> Any:
        return next(self._results)

    def __len__(self) -> int:
        return self._length


class Pipeline:
    """The base class of pipelines, which are called with texts and return dictionaries or lists.

    A subclass names its ``task`` and its ``options``, and defines ``run`` and ``recording``. ``model`` is the model of
    :mod:`regard.models`, and ``tokenizer`` has the names of its special tokens. An option that is None has its default
    value, except for the ``options_with_none``.
    """

    task: ClassVar[str]
    options: ClassVar[tuple[str, ...]]
    options_with_none: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model: Any, tokenizer: Tokenizer, **defaults: Any):
        self.model, self.tokenizer = model, tokenizer
        self.defaults = self._known(defaults)

    def run(self, inputs: list[Any], options: dict[str, Any]) -> list[Any]:
        """Return one result for each input."""
        raise NotImplementedError

    def recording(self, model_input: Any) -> Recording:
        """Return the attention of the model for the ``model_input`` of a result."""
        raise NotImplementedError

    def attention(self, result: Any) -> Recording:
        """Return all attention of the model for one result of this pipeline, as :func:`regard.capture` records it.

        ``result`` is a result for one input, or the list of the results for one input. The model reads again the
        tokens that it read for that result. Of a list, the first result is taken.
        """
        origins = list(self._origins(result))
        if not origins:
            problem = f"expected a result of this pipeline, got {type(result).__name__}"
            raise ArgumentError("result", problem, "give the object that the pipeline returned")
        if any(source != origins[0][0] for source, _ in origins):
            raise ArgumentError("result", "the results of several inputs", "give the result of one of them")
        return self.recording(origins[0][1])

    def _origins(self, result: Any) -> Iterator[tuple[Any, Any]]:
        """Yield ``source`` and ``model_input`` of a result, or of the results in a list."""
        if isinstance(result, Result | ResultList):
            yield result.source, result.model_input
        elif isinstance(result, list | tuple):
            for element in result:
                yield from self._origins(element)

    def many(self, inputs: Any, options: dict[str, Any]) -> Any:
        """Return a list of results for a list of inputs, or an iterator of results for an iterator or a dataset."""
        if isinstance(inputs, Iterator):
            return self._iterated(inputs, options)
        if is_dataset(inputs):
            return self._over_dataset(inputs, options)
        if not isinstance(inputs, Iterable):
            raise DtypeError("inputs", f"expected a text or a list of texts, got {inputs!r}")
        return self.run(list(inputs), options)

    def _over_dataset(self, dataset: Any, options: dict[str, Any]) -> Iterator[Any]:
        if isinstance(dataset, IterableDataset):
            return self._iterated(iter(dataset), options)
        rows = (dataset[place] for place in range(len(dataset)))
        return DatasetResults(self._iterated(rows, options), len(dataset))

    def _iterated(self, inputs: Iterator[Any], options: dict[str, Any]) -> Iterator[Any]:
        size = whole_number("batch_size", options.get("batch_size", 1), least=1)
        while batch := list(itertools.islice(inputs, size)):
            yield from self.run(batch, options)

    def _known(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options that are not None, or raise UnknownArgumentError for one that the pipeline lacks."""
        for name in options:
            if name not in self.options:
                fix = f"{did_you_mean(name, self.options)}known are {', '.join(self.options)}"
                raise UnknownArgumentError(name, f"not an option of {self.task}", fix)
        return {
            name: value
            for name, value in options.items()
            if value is not None or name in self.options_with_none
        }

    def _merged(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the pipeline, overridden by those of a call."""
        return {**self.defaults, **self._known(options)}


def is_dataset(inputs: Any) -> bool:
    """Return whether the inputs are a dataset, whose rows are read one by one and never all at once.

    A dataset is one of torch, or an object with a length and numbered rows that cannot be iterated.

    >>> is_dataset(["a list"]), is_dataset("a text")
    (False, False)
    """
    if isinstance(inputs, Dataset):
        return True
    return all(hasattr(inputs, name) for name in ("__len__", "__getitem__")) and not hasattr(
        inputs, "__iter__"
    )


def warn_caller(message: str) -> None:
    """Warn at the line that called a pipeline, which is the first one outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("regard.pipelines"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def checked_text(argument: str, text: Any) -> str:
    """Return ``text``, or raise DtypeError if it is no text.

    >>> checked_text("inputs", 3)
    Traceback (most recent call last):
        ...
    regard.errors.DtypeError: inputs: expected a text, got 3
    """
    if not isinstance(text, str):
        raise DtypeError(argument, f"expected a text, got {text!r}")
    return text
