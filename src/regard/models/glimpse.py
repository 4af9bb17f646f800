"""The recurrent model of visual attention, which looks at a few small parts of a picture (Mnih et al. 2014).

A glimpse network reads what the retina sees and where. A recurrent core sums it up. From the state of the core, one
output names the class, one the next place to look at, and one predicts the reward of the places to come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ArgumentError, ShapeError
from regard.models.glimpse_config import DensePictureConfig, GlimpseConfig
from regard.models.pretrained import Pretrained
from regard.models.retina import glimpses_at, summed_areas
from regard.shapes import axes, whole_number, wide_dtype

__all__ = ["DensePictureModel", "GlimpseModel", "GlimpseSteps", "dense_width"]

# The smallest and the largest standard deviation of places that is learned.
STD_RANGE = (0.02, 0.5)
# Where random numbers come from: torch's own, one generator for a batch, or one for each picture.
Generators = torch.Generator | Sequence[torch.Generator] | None


@dataclass(frozen=True)
class GlimpseSteps:
    """The glimpses at ``b`` pictures in ``s`` samples of ``t`` glimpses each.

    - ``places (b,s,t,2)`` are the rows and columns of the centres, from -1 to 1.
    - ``logits (b,s,t,classes)`` are those of the classes after each glimpse.
    - ``log_probabilities (b,s,t-1)`` are the log densities of the sampled places after the first, and ``baselines
      (b,s,t-1)`` the rewards that were expected before these places were chosen. Both are zeros unless the policy is
      learned.
    """

    places: Tensor
    logits: Tensor
    log_probabilities: Tensor
    baselines: Tensor

    def log_probabilities_of_classes(self) -> Tensor:
        """Return the log of the mean probability of each class over the samples, ``(b,t,classes)``."""
        samples = self.logits.shape[1]
        return _at_least_float32(self.logits).log_softmax(dim=-1).logsumexp(dim=1) - math.log(samples)


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(wide_dtype(x.dtype))


class GlimpseNetwork(nn.Module):
    """The network that joins what the retina sees with where it looks."""

    def __init__(self, config: GlimpseConfig):
        super().__init__()
        width = config.glimpse_width
        self.seen = nn.Linear(config.channels * config.scales * config.glimpse_size**2, width)
        self.place = nn.Linear(2, width)
        self.from_seen = nn.Linear(width, config.width)
        self.from_place = nn.Linear(width, config.width, bias=False)

    def forward(self, glimpses: Tensor, places: Tensor) -> Tensor:
        """Return a vector ``(b,s,m)`` for each of ``glimpses (b,s,scales,c,size,size)`` at ``places (b,s,2)``."""
        seen = self.seen(glimpses.flatten(2)).relu()  # (b,s,glimpse_width)
        place = self.place(places).relu()  # (b,s,glimpse_width)
        return (self.from_seen(seen) + self.from_place(place)).relu()  # (b,s,m)


class CoreOutputs(nn.Module):
    """The outputs for the class, for the next place, and for the expected reward.

    Only the output for the class passes its gradient on to the core.
    """

    def __init__(self, config: GlimpseConfig):
        super().__init__()
        self.classes = nn.Linear(config.width, config.classes)
        self.place: nn.Module | None = None
        self.baseline: nn.Module | None = None
        if config.policy == "learned" and config.glimpses > 1:
            hidden = config.glimpse_width
            self.place = nn.Sequential(nn.Linear(config.width, hidden), nn.ReLU(), nn.Linear(hidden, 2))
            self.baseline = nn.Sequential(nn.Linear(config.width, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def next_places(self, state: Tensor) -> Tensor:
        """Return the places ``(b,s,2)`` that the states ``(b,s,m)`` choose, from -1 to 1."""
        assert self.place is not None  # the caller knows the policy
        return _at_least_float32(self.place(state.detach())).tanh()

    def expected_reward(self, state: Tensor) -> Tensor:
        """Return the expected reward ``(b,s)`` of the states ``(b,s,m)``."""
        assert self.baseline is not None
        return _at_least_float32(self.baseline(state.detach())).squeeze(-1)


class GlimpseModel(Pretrained, nn.Module):
    """A recurrent model of visual attention, built from a :class:`GlimpseConfig`.

    >>> model = GlimpseModel(GlimpseConfig(classes=3, glimpses=4, glimpse_size=5, width=8, glimpse_width=6))
    >>> steps = model(torch.rand(2, 1, 28, 28), samples=7)
    >>> steps.logits.shape, steps.places.shape
    (torch.Size([2, 7, 4, 3]), torch.Size([2, 7, 4, 2]))
    """

    def __init__(self, config: GlimpseConfig):
        super().__init__()
        self.config: GlimpseConfig = config
        self.glimpse = GlimpseNetwork(config)
        self.recurrent = nn.Linear(config.width, config.width, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.output = CoreOutputs(config)
        log_std = torch.tensor(math.log(config.place_std))  # ()
        self.log_std = nn.Parameter(log_std, requires_grad=config.learned_std)
        self._initialise()

    def _initialise(self) -> None:
        """Start with a core that adds up its inputs, and with places near the centre."""
        nn.init.eye_(self.recurrent.weight)
        for layer in (self.glimpse.seen, self.glimpse.place, self.glimpse.from_seen, self.glimpse.from_place):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        images: Tensor,
        *,
        samples: int = 1,
        greedy: bool = False,
        generator: Generators = None,
    ) -> GlimpseSteps:
        """Look at ``images (b,c,rows,columns)``, whose numbers are from 0 to 1, in ``samples`` samples of each.

        Places are drawn around those that the network chooses, with ``generator`` or torch's own random numbers.
        With a list of generators, one for each picture, the draws for a picture do not depend on the others. With
        ``greedy`` places are exactly those that the network chooses. The samples of a picture share their first
        glimpse.
        """
        samples = whole_number("samples", samples, least=1)
        self._check(images, generator)
        sums = summed_areas(images)  # (b,c,rows+1,columns+1)
        place = self._first(images, generator)  # (b,1,2)
        state = torch.zeros((), device=images.device)
        places, logits, densities, baselines = [place], [], [], []
        for step in range(self.config.glimpses):
            if step:
                place, density, baseline = self._next(state, samples, greedy, generator)
                places.append(place)
                densities.append(density)
                baselines.append(baseline)
            state = self._look(sums, place, state, samples)  # (b,1 or s,m)
            logits.append(self.output.classes(self.dropout(state)))  # (b,1 or s,classes)
        shape = (len(images), samples, -1)
        return GlimpseSteps(
            torch.stack([one.expand(*shape) for one in places], dim=2),
            torch.stack([one.expand(*shape) for one in logits], dim=2),
            _stacked(densities, images, samples),
            _stacked(baselines, images, samples),
        )

    def _look(self, sums: Tensor, place: Tensor, state: Tensor, samples: int) -> Tensor:
        """Return the state ``(b,1 or s,m)`` of the core after a glimpse."""
        config = self.config
        glimpses = glimpses_at(sums, place, size=config.glimpse_size, scales=config.scales)
        read = self.glimpse(glimpses.to(self.recurrent.weight.dtype), place)  # (b,1 or s,m)
        if state.ndim:
            read = read + self.recurrent(state)
        return read.relu()

    def _first(self, images: Tensor, generator: Generators) -> Tensor:
        """Return the place ``(b,1,2)`` of the first glimpse."""
        like, shape = self.log_std.detach(), (len(images), 1, 2)
        if self.config.first == "centre" or self.config.policy == "centre":
            return like.new_zeros(shape)
        return _drawn(torch.rand, shape, like, generator) * 2 - 1

    def _next(
        self, state: Tensor, samples: int, greedy: bool, generator: Generators
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next places ``(b,s,2)``, their log densities and the rewards expected before, ``(b,s)``."""
        shape, like = (len(state), samples, 2), self.log_std.detach()
        zeros = self.log_std.new_zeros(shape[:2])
        if self.config.policy == "centre":
            return self.log_std.new_zeros(shape), zeros, zeros
        if self.config.policy == "random":
            return _drawn(torch.rand, shape, like, generator) * 2 - 1, zeros, zeros
        chosen = self.output.next_places(state)  # (b,1 or s,2)
        baseline = self.output.expected_reward(state).expand(shape[:2])
        if greedy:
            return chosen.expand(shape), zeros, baseline
        std = self.log_std.clamp(math.log(STD_RANGE[0]), math.log(STD_RANGE[1])).exp()
        drawn = (chosen + std * _drawn(torch.randn, shape, like, generator)).detach()  # (b,s,2)
        density = torch.distributions.Normal(chosen, std, validate_args=False).log_prob(drawn).sum(dim=-1)
        # The log density is that of the drawn place. Moving it into the picture is not a choice of the network.
        return drawn.clamp(-1, 1), density, baseline

    def _check(self, images: Tensor, generator: Generators) -> None:
        channels = self.config.channels
        if images.ndim != 4 or images.shape[1] != channels:
            raise ShapeError(
                "images", f"expected (b,c,rows,columns) with c = {channels}, got {axes(images.shape)}"
            )
        if isinstance(generator, Sequence) and len(generator) != len(images):
            problem = f"expected one for each of {len(images)} images, got {len(generator)}"
            raise ArgumentError("generator", problem)


def _drawn(
    draw: Callable[..., Tensor], shape: tuple[int, ...], like: Tensor, generator: Generators
) -> Tensor:
    """Return random numbers ``(b,...)``, each row from its own generator if there are several."""
    if not isinstance(generator, Sequence):
        return draw(shape, dtype=like.dtype, device=like.device, generator=generator)
    rows = [draw(shape[1:], dtype=like.dtype, device=one.device, generator=one) for one in generator]
    return torch.stack(rows).to(like.device)


def _stacked(columns: list[Tensor], images: Tensor, samples: int) -> Tensor:
    """Return columns ``(b,s)`` as one tensor ``(b,s,t-1)``, which may have no column."""
    if not columns:
        return torch.zeros(len(images), samples, 0, device=images.device)
    return torch.stack(columns, dim=2)


class DensePictureModel(Pretrained, nn.Module):
    """A fully connected network of two hidden layers that reads a whole picture, for comparison.

    >>> model = DensePictureModel(DensePictureConfig(classes=3, rows=5, columns=7, width=8))
    >>> model(torch.rand(2, 1, 5, 7)).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: DensePictureConfig):
        super().__init__()
        self.config: DensePictureConfig = config
        pixels, width = config.channels * config.rows * config.columns, config.width
        self.hidden = nn.Sequential(nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(width, config.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits ``(b,classes)`` of ``images (b,c,rows,columns)``."""
        config = self.config
        expected = (config.channels, config.rows, config.columns)
        if tuple(images.shape[1:]) != expected:
            raise ShapeError(
                "images", f"expected (b,c,rows,columns) = (b,{axes(expected)[1:]}, got {axes(images.shape)}"
            )
        return self.output(self.dropout(self.hidden(images.flatten(1))))


def dense_width(parameters: int, pixels: int, classes: int) -> int:
    """Return the width of a :class:`DensePictureModel` that has at most this number of parameters.

    >>> dense_width(269_000, 784, 10)
    255
    """
    # width² + (pixels + 1 + 1 + classes) · width + classes, solved for the width.
    linear = pixels + 2 + classes
    width = (
        int((math.sqrt(linear**2 + 4 * (parameters - classes)) - linear) / 2) if parameters > classes else 0
    )
    if width < 1:
        problem = f"{parameters:,} parameters are too few for {pixels:,} pixels and {classes} classes"
        raise ArgumentError("parameters", problem)
    return width
