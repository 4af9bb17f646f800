"""Layer numbers of modules, from their names and from the order of the calls."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping

from regard.capture.reading.kinds import is_called_attention

__all__ = ["LayerNumbers"]

# A part of a name that is a number, or a word for a layer and a number, such as stage2 or encoder_layer_3.
_NUMBER = re.compile(
    r"(?<![^.])((?:[A-Za-z]\w*_)?(?:layers?|blocks?|stages?|levels?)_?)?(\d+)(?![^.])", re.IGNORECASE
)


class LayerNumbers:
    """The number of the layer that a module belongs to, from its name and from the order of the calls.

    A single number in the name is the layer (``encoder.layer.3.attention``, ``encoder_layer_3.self_attention``). Names
    with several numbers (``stages.1.blocks.0.attn``, ``stage2.0.attn``) are numbered in the order of the modules. A
    module without siblings, as in ALBERT, is a new layer with each call. A module with siblings that is called twice in
    a step has read two inputs.
    """

    def __init__(self, kinds: Mapping[str, type]):
        # The class of each module, by name.
        self._kinds = kinds
        self._families: dict[str, list[str]] = {}
        for name in kinds:
            self._families.setdefault(_family(name), []).append(name)
        self._counted_with: dict[str, list[str]] = {}
        # The siblings of a module and its layer, by name.
        self._about: dict[str, tuple[list[str], int | None]] = {}
        self._step = -1
        # The number of calls of each module in the current step.
        self._calls: Counter[str] = Counter()

    def call(self, name: str, step: int) -> tuple[int | None, int]:
        """Return the layer of a call, and the number of earlier calls of this module in the step."""
        if step != self._step:
            self._step = step
            self._calls.clear()
        about = self._about.get(name)
        if about is None:
            about = self._about[name] = (self._members(name), _place(name, self._counted(name)))
        members, layer = about
        before = self._calls[name]
        shared = len(members) == 1
        if before and not shared and sum(self._calls[one] for one in members) == before * len(members):
            # Every sibling was called as often, so the model now reads another input.
            before = 0
            for member in members:
                self._calls[member] = 0
        self._calls[name] += 1
        return (layer + before if shared and layer is not None else layer), before

    def from_end(self, name: str, layer: int) -> int | None:
        """Return the number of a layer from the end, -1 for the last, or None for a module without siblings."""
        members = self._counted(name)
        last = max((n for one in members if (n := _place(one, members)) is not None), default=0)
        return layer - last - 1 if len(members) > 1 else None

    def _members(self, name: str) -> list[str]:
        return self._families.get(_family(name), [name])

    def _counted(self, name: str) -> list[str]:
        """Return the modules among which a module is numbered.

        If its name has several numbers, these are the siblings of its class and those called attention.
        """
        found = self._counted_with.get(name)
        if found is None:
            found = self._counted_with[name] = self._same_duty(name)
        return found

    def _same_duty(self, name: str) -> list[str]:
        members = self._members(name)
        if len(_numbers(name)) < 2:
            return members
        return [
            one
            for one in members
            if self._kinds.get(one) is self._kinds.get(name)
            or is_called_attention(one, self._kinds.get(one, object).__name__)
        ]


def _place(name: str, members: list[str]) -> int | None:
    """Return the layer number of a name, or None if it has no number."""
    numbers = _numbers(name)
    if not numbers:
        return None
    return numbers[0] if len(numbers) == 1 else members.index(name)


@functools.lru_cache(maxsize=8192)
def _family(name: str) -> str:
    return _NUMBER.sub(lambda found: f"{found[1] or ''}*", name)


@functools.lru_cache(maxsize=8192)
def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(found[2]) for found in _NUMBER.finditer(name))
