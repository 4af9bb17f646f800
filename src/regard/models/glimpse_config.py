"""The settings of models that read pictures in glimpses, and of the dense network they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regard.models.block_config import ModelConfig, check_flag, check_name, check_positive
from regard.shapes import whole_number

__all__ = ["FIRST_PLACES", "POLICIES", "DensePictureConfig", "GlimpseConfig"]

# How places after the first are chosen, and where the first one is.
POLICIES = ("learned", "random", "centre")
FIRST_PLACES = ("centre", "random")


@dataclass(frozen=True, kw_only=True)
class GlimpseConfig(ModelConfig):
    """The settings of a :class:`GlimpseModel`.

    - ``classes`` is the number of labels, and ``channels`` that of the colours of a picture.
    - ``glimpses`` is the number of glimpses at a picture.
    - ``glimpse_size`` is the number of pixels in each direction of the finest scale. Each of ``scales`` covers twice as
      many pixels in each direction as the one before, with as many numbers.
    - ``glimpse_width`` is the size of the vectors of the retina and of the place, and ``width`` that of the core.
    - ``policy`` is "learned" (the network chooses places), "random" (uniform in the picture) or "centre".
    - ``first`` is the place of the first glimpse, "centre" or "random". With ``policy="centre"`` it is the centre.
    - ``place_std`` is the standard deviation of sampled places around the chosen one, where the picture is 2 wide. It
      is trained if ``learned_std``, and otherwise constant.
    """

    kind: ClassVar[str] = "glimpse"
    classes: int
    channels: int = 1
    glimpses: int = 6
    glimpse_size: int = 8
    scales: int = 1
    glimpse_width: int = 128
    width: int = 256
    dropout: float = 0.0
    policy: str = "learned"
    first: str = "centre"
    place_std: float = 0.2
    learned_std: bool = False

    def __post_init__(self):
        super().__post_init__()
        whole_number("classes", self.classes, least=2)
        for name in ("channels", "glimpses", "glimpse_size", "scales", "glimpse_width"):
            whole_number(name, getattr(self, name), least=1)
        check_name("policy", self.policy, POLICIES)
        check_name("first", self.first, FIRST_PLACES)
        check_positive("place_std", self.place_std)
        check_flag("learned_std", self.learned_std)


@dataclass(frozen=True, kw_only=True)
class DensePictureConfig(ModelConfig):
    """The settings of a :class:`DensePictureModel`, with two hidden layers of ``width``.

    Pictures have ``channels`` colours, ``rows`` and ``columns``.
    """

    kind: ClassVar[str] = "dense_pictures"
    classes: int
    rows: int
    columns: int
    channels: int = 1
    width: int = 256
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        whole_number("classes", self.classes, least=2)
        for name in ("rows", "columns", "channels"):
            whole_number(name, getattr(self, name), least=1)
