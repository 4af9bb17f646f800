"""The recurrent model of visual attention."""

import pytest
import torch

from regard.errors import ArgumentError, ShapeError, UnknownNameError
from regard.models import (
    DensePictureConfig,
    DensePictureModel,
    GlimpseConfig,
    GlimpseModel,
    glimpse,
    load_model,
)
from regard.training.reinforce import policy_loss

B, S, T, CLASSES, ROWS, COLUMNS = 2, 5, 3, 7, 19, 23
SMALL = {"classes": CLASSES, "glimpses": T, "glimpse_size": 5, "scales": 2, "width": 13, "glimpse_width": 11}


def model(**settings):
    torch.manual_seed(0)
    return GlimpseModel(GlimpseConfig(**{**SMALL, **settings}))


@pytest.fixture
def images():
    torch.manual_seed(1)
    return torch.rand(B, 1, ROWS, COLUMNS)


def test_the_samples_of_a_picture_share_the_first_glimpse(images):
    steps = model(first="random")(images, samples=S)
    assert steps.places.shape == (B, S, T, 2)
    assert steps.logits.shape == (B, S, T, CLASSES)
    assert steps.log_probabilities.shape == steps.baselines.shape == (B, S, T - 1)
    assert torch.equal(steps.logits[:, :1, 0].expand(B, S, CLASSES), steps.logits[:, :, 0])
    assert not torch.equal(steps.places[0, 0, 0], steps.places[1, 0, 0])
    assert steps.places[0, :, 1, 0].unique().numel() == S


def test_a_sample_is_the_run_of_the_model_alone(images):
    """Samples are not mixed up with pictures, and each glimpse is read at its place."""
    network = model().eval()
    steps = network(images, samples=S, generator=torch.Generator().manual_seed(3))
    sums = glimpse.summed_areas(images[1:])
    state = torch.zeros(())
    for step in range(T):
        state = network._look(sums, steps.places[1:, 4:, step], state, 1)
        torch.testing.assert_close(network.output.classes(state)[0, 0], steps.logits[1, 4, step])


def test_greedy_places_are_those_that_the_network_chooses(images):
    network = model(place_std=0.4)
    steps = network(images, samples=S, greedy=True)
    torch.testing.assert_close(steps.places, steps.places[:, :1].expand(B, S, T, 2))
    drawn = network(images, samples=S, generator=torch.Generator().manual_seed(3))
    again = network(images, samples=S, generator=torch.Generator().manual_seed(3))
    assert torch.equal(drawn.places, again.places)
    assert not torch.equal(drawn.places, steps.places)


@pytest.mark.parametrize("settings", [{}, {"policy": "random"}, {"first": "random"}])
def test_with_a_generator_for_each_picture_the_draws_do_not_depend_on_the_others(images, settings):
    def generators():
        return [torch.Generator().manual_seed(seed) for seed in range(B)]

    network = model(**settings)
    together = network(images, samples=S, generator=generators()).places
    for place, one in enumerate(generators()):
        alone = network(images[place : place + 1], samples=S, generator=[one]).places
        torch.testing.assert_close(alone[0], together[place])
    with pytest.raises(ArgumentError, match=f"generator: expected one for each of {B} images, got 1"):
        network(images, generator=generators()[:1])


def test_the_policies_random_and_centre_have_no_location_network(images):
    for policy in ("random", "centre"):
        network = model(policy=policy)
        assert not any("place" in name for name, _ in network.output.named_parameters())
        steps = network(images, samples=S)
        assert steps.log_probabilities.abs().sum() == 0
        assert (steps.places.abs().sum() == 0) == (policy == "centre")
        assert steps.places.abs().max() <= 1


def test_each_output_trains_its_own_part(images):
    """The classes train the core. The places and the baseline train only their own layers."""

    def trained(pick):
        network = model()
        pick(network(images, samples=S)).sum().backward()
        return {
            name for name, p in network.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0
        }

    of_classes = trained(lambda steps: steps.logits)
    assert "glimpse.seen.weight" in of_classes
    assert "recurrent.weight" in of_classes
    assert {name for name in of_classes if name.startswith("output.")} == {
        "output.classes.weight",
        "output.classes.bias",
    }
    baselines = trained(lambda steps: steps.baselines)
    assert baselines
    assert all(name.startswith("output.baseline.") for name in baselines)
    places = trained(lambda steps: steps.log_probabilities)
    assert places
    assert all(name.startswith("output.place.") for name in places)


def test_the_policy_gradient_is_that_of_the_expected_reward(images, monkeypatch):
    """The places of one choice lie on a grid. The expected reward is a sum over it, differentiated by differences."""
    std, side = 0.3, 61
    torch.manual_seed(0)
    network = model(glimpses=2, place_std=std).double().eval()
    line = torch.linspace(-2, 2, side, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)[None]  # (1,s,2)
    cell = float(line[1] - line[0]) ** 2
    image = images[:1].double()

    def looked():
        """Return the glimpses at all places of the grid."""
        chosen = network(image, greedy=True).places[:, :, 1]
        monkeypatch.setattr(torch, "randn", lambda *_, **__: (grid - chosen) / std)
        return network(image, samples=side**2)

    with torch.no_grad():
        reward = looked().logits[:, :, -1].log_softmax(-1)[..., 3]  # (1,s)

    def expected():
        with torch.no_grad():
            return float((looked().log_probabilities[..., 0].exp() * reward).sum() * cell)

    steps = looked()
    # The places are not drawn but on a grid, so each counts by its density.
    weights = steps.log_probabilities.detach().exp() * cell * side**2
    policy_loss(steps.log_probabilities, weights * reward[..., None]).backward()
    bias = network.get_parameter("output.place.2.bias")
    assert bias.grad is not None
    assert bias.grad.abs().max() > 1e-4
    for axis in range(2):
        values = []
        for change in (1e-4, -1e-4):
            with torch.no_grad():
                bias[axis] += change
            values.append(expected())
            with torch.no_grad():
                bias[axis] -= change
        slope = (values[0] - values[1]) / 2e-4
        assert float(-bias.grad[axis]) == pytest.approx(slope, rel=1e-4)


def test_the_standard_deviation_is_learned_only_if_asked(images):
    for learned in (False, True):
        network = model(learned_std=learned)
        network(images, samples=S).log_probabilities.square().sum().backward()
        assert (network.log_std.grad is not None) == learned


def test_models_are_saved_and_loaded(images, tmp_path):
    network = model().eval()
    network.save_pretrained(tmp_path / "glimpse")
    again = load_model(tmp_path / "glimpse")
    assert torch.equal(again(images, greedy=True).logits, network(images, greedy=True).logits)
    dense = DensePictureModel(DensePictureConfig(classes=CLASSES, rows=ROWS, columns=COLUMNS, width=5)).eval()
    dense.save_pretrained(tmp_path / "dense")
    assert torch.equal(load_model(tmp_path / "dense")(images), dense(images))


def test_a_dense_network_has_about_as_many_parameters():
    count = sum(p.numel() for p in model(classes=10).parameters())
    width = glimpse.dense_width(count, 19 * 23, 10)
    sizes = [
        sum(
            p.numel()
            for p in DensePictureModel(
                DensePictureConfig(classes=10, rows=19, columns=23, width=width + more)
            ).parameters()
        )
        for more in (0, 1)
    ]
    assert sizes[0] <= count < sizes[1]
    with pytest.raises(ArgumentError, match="parameters: 50 parameters are too few"):
        glimpse.dense_width(50, 784, 10)


def test_bad_settings_and_pictures_are_refused(images):
    with pytest.raises(UnknownNameError, match="policy: unknown name 'learnt': did you mean 'learned'?"):
        GlimpseConfig(classes=3, policy="learnt")
    with pytest.raises(ArgumentError, match="place_std: expected a number above 0"):
        GlimpseConfig(classes=3, place_std=0.0)
    with pytest.raises(ArgumentError, match="classes: expected a whole number of 2 or more"):
        GlimpseConfig(classes=1)
    with pytest.raises(
        ShapeError, match=r"images: expected \(b,c,rows,columns\) with c = 1, got \(2,3,8,8\)"
    ):
        model()(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ArgumentError, match="samples: expected a whole number of 1 or more, got 0"):
        model()(images, samples=0)
    with pytest.raises(ShapeError, match=r"= \(b,1,5,7\), got \(2,1,19,23\)"):
        DensePictureModel(DensePictureConfig(classes=3, rows=5, columns=7))(images)
