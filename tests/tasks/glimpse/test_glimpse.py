"""The task of reading pictures in glimpses, from settings over training to evaluation."""

import json
import math
import shutil

import numpy as np
import pytest
import torch

from regard import tasks
from regard.errors import ArgumentError, DtypeError, FileError, UnknownNameError
from regard.images import ImageBatch
from regard.models.glimpse import GlimpseSteps
from regard.tasks.glimpse import GlimpseClassifier, GlimpseSettings
from regard.tasks.glimpse.task import GlimpseObjective, GlimpseTask, returns_of
from support.glimpse_models import LABELS, classifier, dense_classifier, save_squares
from support.training_runs import digests

SMALL = {"width": 16, "glimpse_width": 8, "glimpses": 3, "glimpse_size": 4, "scales": 1, "samples": 2}
SMALL |= {"batch_size": 9, "steps": 4, "warmup": 1, "save_every": 1, "keep": 9}


@pytest.fixture
def data(tmp_path):
    return str(save_squares(tmp_path / "squares.npz"))


def train(data, folder, **changes):
    return tasks.train("glimpse", {**SMALL, "data": data, **changes}, folder, show=False)


def test_a_model_is_trained_resumed_saved_loaded_and_evaluated(data, tmp_path):
    """A run that goes on from its third step has the weights of one that was not interrupted."""
    outcome = train(data, tmp_path / "whole", mode="cluttered", canvas=15, clutter_size=3)
    assert (outcome.step, outcome.stopped) == (4, "finished")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "step-00000004")
    assert tasks.resume(tmp_path / "cut", show=False).first_step == 3
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    predictor = tasks.load(tmp_path / "whole")
    assert predictor.labels == LABELS
    picture = np.zeros((15, 15), dtype=np.uint8)
    before = predictor([picture])
    predictor.save(tmp_path / "saved")
    again = GlimpseClassifier.load(tmp_path / "saved")
    assert again([picture]) == before
    assert again.canvas == predictor.canvas
    assert "regard glimpse --model FOLDER" in (tmp_path / "whole" / "best" / "README.md").read_text()
    report = tasks.evaluate("glimpse", tmp_path / "whole", {"data": data, "split": "train"})
    values = json.loads(json.dumps(report.to_json()))
    assert values["measured_on"].endswith("squares.npz, cluttered")
    assert len(values["by_glimpse"]) == 3
    assert values["by_glimpse"][-1] == values["accuracy"] == 100 - values["error"]


def test_the_seed_decides_the_weights(data, tmp_path):
    train(data, tmp_path / "first", steps=2)
    train(data, tmp_path / "again", steps=2)
    train(data, tmp_path / "other", steps=2, seed=1)
    first, again, other = (digests(tmp_path / name, numbers=False) for name in ("first", "again", "other"))
    assert first == again
    assert not set(first.values()) & set(other.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "random", "first": "random"},
        {"policy": "centre", "glimpses": 1},
        {"reward": "correct", "early_loss": 0.0, "learned_std": True, "optimizer": "muon"},
        {"architecture": "dense"},
    ],
    ids=["random", "centre", "paper", "dense"],
)
def test_every_kind_of_network_is_trained(data, tmp_path, changes):
    small = SMALL
    if "architecture" in changes:
        small = {name: SMALL[name] for name in ("batch_size", "steps", "warmup")}
    settings = {**small, "data": data, "steps": 2, **changes}
    outcome = tasks.train("glimpse", settings, tmp_path / "run", show=False)
    assert outcome.step == 2
    report = tasks.evaluate("glimpse", tmp_path / "run", {"data": data, "limit": 7})
    assert report.to_json()["pictures"] == 7


@pytest.mark.parametrize("mode", ["plain", "translated"])
def test_a_dense_network_has_the_parameters_of_the_glimpse_network(mode, data, tmp_path):
    given = {"data": data, "mode": mode, "epochs": 1.0}
    settings = GlimpseSettings(**given, architecture="dense")
    prepared = GlimpseTask().prepare(settings, tmp_path / "cache", learn=True)
    dense = sum(p.numel() for p in GlimpseTask().build(settings, prepared).parameters())
    own = GlimpseTask().build(GlimpseSettings(**GlimpseSettings.complete(given)), prepared)
    count = sum(p.numel() for p in own.parameters())
    assert 0.99 * count < dense <= count


# -- the loss


def steps_of(logits):
    """Return glimpses with these logits ``(b,s,t,classes)``, and no places."""
    b, s, t, _ = logits.shape
    zeros = torch.zeros(b, s, t - 1)
    return GlimpseSteps(torch.zeros(b, s, t, 2), logits, zeros, zeros)


def test_the_reward_is_the_answer_or_the_gain_in_log_probability():
    shares = torch.tensor([[[[0.5, 0.5], [0.8, 0.2], [0.25, 0.75]]]])  # (1,1,3,2)
    steps = steps_of(shares.log())
    assert returns_of(steps, torch.tensor([0]), "correct").tolist() == [[[0.0, 0.0]]]
    assert returns_of(steps, torch.tensor([1]), "correct").tolist() == [[[1.0, 1.0]]]
    gains = returns_of(steps, torch.tensor([1]), "log_probability")
    torch.testing.assert_close(gains[0, 0], torch.tensor([math.log(1.5), math.log(3.75)]))
    sure = steps_of(torch.tensor([[[[0.0, 0.0], [90.0, 0.0]]]]))
    lowest = returns_of(sure, torch.tensor([1]), "log_probability")
    torch.testing.assert_close(lowest.flatten(), torch.tensor([math.log(0.01) - math.log(0.5)]))


def objective_of(data, folder, **changes):
    values = {**SMALL, "data": data, **changes}
    settings = GlimpseSettings(**GlimpseSettings.complete(values))
    task = GlimpseTask()
    prepared = task.prepare(settings, folder, learn=True)
    torch.manual_seed(0)
    return GlimpseObjective(task, settings, prepared), task.build(settings, prepared)


def test_the_shown_loss_is_the_cross_entropy_and_all_parts_are_trained(data, tmp_path):
    objective, model = objective_of(data, tmp_path, early_loss=0.5)
    batch: ImageBatch = next(objective.batches(0, 0, 0, 1))
    torch.manual_seed(3)
    loss = objective.loss(model, batch)
    torch.manual_seed(3)
    logs = model(batch.images, samples=2).logits.log_softmax(-1)  # (b,s,t,classes)
    right = -torch.stack([logs[i, :, :, label] for i, label in enumerate(batch.labels)])  # (b,s,t)
    expected = right[..., -1].mean(1).sum() + 0.5 * right[..., :-1].mean((1, 2)).sum()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(p.grad.abs().sum() > 0 for name, p in model.named_parameters() if name != "log_std")


def test_the_loss_of_the_last_glimpse_alone_trains_no_earlier_answer(data, tmp_path):
    objective, model = objective_of(data, tmp_path, early_loss=0.0, policy="centre", glimpses=2)
    batch = next(objective.batches(0, 0, 0, 1))
    torch.testing.assert_close(
        objective.loss(model, batch),
        torch.nn.functional.cross_entropy(
            model(batch.images).logits[:, 0, -1], batch.labels, reduction="sum"
        ),
    )


# -- the predictor


def test_a_recording_has_the_pixels_of_each_glimpse():
    predictor = classifier()
    picture = np.random.default_rng(0).integers(0, 256, (11, 13), dtype=np.uint8)
    (found,) = predictor.glimpse([picture])
    weights = predictor.attention(found)[0].map.weights()[0, 0].reshape(3, 11, 13)
    torch.testing.assert_close(weights.sum((1, 2)), torch.ones(3))
    for frame, rows in zip(predictor.frames(found), weights, strict=True):
        (top, left, side), (outer_top, outer_left, outer) = frame.squares
        inside = rows[max(top, 0) : top + side, max(left, 0) : left + side]
        assert (side, outer) == (4, 8)
        assert float(inside.min()) == pytest.approx(float(rows.max()))
        assert (rows[: max(outer_top, 0)] == 0).all()
        assert (rows[:, : max(outer_left, 0)] == 0).all()
        seen = picture[max(top, 0) : top + side, max(left, 0) : left + side] / 255
        shown = frame.views[0, max(0, -top) : 11 - top, max(0, -left) : 13 - left, 0]
        np.testing.assert_allclose(shown, seen, atol=1e-6)
    (table,) = predictor.word_weights(found)
    assert table.weights.shape == (3, 143)
    assert json.dumps(found.to_json(attention=True))


def test_samples_are_drawn_with_the_seed_and_averaged():
    predictor = classifier(place_std=0.5)
    picture = np.random.default_rng(0).integers(0, 256, (11, 13), dtype=np.uint8)
    one, again = (predictor.glimpse([picture], samples=5, seed=1)[0] for _ in range(2))
    other = predictor.glimpse([picture], samples=5, seed=2)[0]
    assert one == again
    assert one.probabilities != other.probabilities
    assert sum(one.probabilities.values()) == pytest.approx(1)
    greedy = predictor.glimpse([picture])[0]
    assert greedy == predictor.glimpse([picture], seed=9)[0]
    assert greedy.places[0] == (5.5, 6.5)


@pytest.mark.parametrize("policy", ["learned", "random"])
def test_the_draws_for_a_picture_depend_on_its_number_and_not_on_its_batch(policy):
    predictor = classifier(policy=policy)
    picture = np.random.default_rng(0).integers(0, 256, (11, 13), dtype=np.uint8)

    def paths(pictures, **options):
        return [found.places for found in predictor.glimpse(pictures, samples=2, seed=1, **options)]

    together = paths([picture] * 7)
    np.testing.assert_allclose(paths([picture] * 7, batch_size=3), together, atol=1e-5)
    np.testing.assert_allclose(paths([picture] * 2, first=5), together[5:], atol=1e-5)
    # No two pictures have the same draws.
    assert len({tuple(path[1]) for path in together}) == 7


def test_pictures_of_another_size_are_put_on_the_canvas_or_resized():
    predictor = classifier("translated", size=(12, 12))
    small, large = np.full((6, 4), 255, dtype=np.uint8), np.full((20, 30), 255, dtype=np.uint8)
    on_canvas, resized = predictor.glimpse([small, large])
    assert on_canvas.changed == "put on 12×12 pixels"
    assert (on_canvas.picture[3:9, 4:8] == 255).all()
    assert (on_canvas.picture == 255).sum() == 24
    assert resized.changed == "resized to 12×12 pixels, which stretches it"
    square = np.zeros((8, 8, 1), dtype=np.uint8)
    assert classifier(size=(12, 12)).glimpse([square])[0].changed == "resized to 12×12 pixels"


def test_a_dense_network_has_an_answer_and_no_glimpses():
    predictor = dense_classifier()
    (found,) = predictor.glimpse([np.zeros((11, 13), dtype=np.uint8)])
    assert (predictor.attends, found.places, found.steps) == (False, [], [])
    with pytest.raises(ArgumentError, match="this model has no glimpses"):
        predictor.frames(found)


def test_bad_pictures_are_refused(tmp_path):
    (tmp_path / "no.png").write_bytes(b"not a picture")
    with pytest.raises(FileError, match="no.png"):
        classifier().glimpse([tmp_path / "no.png"])
    with pytest.raises(DtypeError, match="pictures: expected a list of pictures, got 'digit.png'"):
        classifier().glimpse("digit.png")
    with pytest.raises(ArgumentError, match="samples: expected a whole number of 1 or more"):
        classifier().glimpse([], samples=0)
    assert classifier().glimpse([]) == []


# -- evaluation


def test_models_are_compared_on_the_same_pictures(data, tmp_path):
    models = {"learned": classifier(size=(8, 8)), "dense": dense_classifier((8, 8))}
    for name, one in models.items():
        one.save(tmp_path / name)
    options = {"data": data, "split": "train", "out": str(tmp_path / "labels.txt"), "samples": 3}
    report = tasks.evaluate("glimpse", tmp_path / "learned", options, compare=[tmp_path / "dense"])
    assert "mean of 3 samples" in str(report)
    assert str(report).splitlines()[-1].endswith("–")
    assert set((tmp_path / "labels.txt").read_text().split()) <= set(LABELS)
    assert len((tmp_path / "labels.txt").read_text().splitlines()) == 30


def test_the_places_on_the_canvas_depend_on_their_seed_alone(data, tmp_path):
    classifier("translated", size=(15, 15)).save(tmp_path / "model")
    found = {}
    for seed in (0, 1):
        options = {"data": data, "places_seed": seed, "out": str(tmp_path / "out.txt")}
        rows = []
        for _ in range(2):
            tasks.evaluate("glimpse", tmp_path / "model", options)
            rows.append((tmp_path / "out.txt").read_text())
        assert rows[0] == rows[1]
        found[seed] = rows[0]
    assert found[0] != found[1]


def test_a_seed_of_places_needs_random_places(data, tmp_path):
    classifier(size=(8, 8)).save(tmp_path / "model")
    classifier(size=(8, 8), first="random").save(tmp_path / "random")
    with pytest.raises(ArgumentError, match="places_seed: of no use for plain pictures and one sample"):
        tasks.evaluate("glimpse", tmp_path / "model", {"data": data, "places_seed": 5})
    tasks.evaluate("glimpse", tmp_path / "model", {"data": data, "places_seed": 5, "samples": 2})
    tasks.evaluate("glimpse", tmp_path / "random", {"data": data, "places_seed": 5})


def test_data_that_does_not_fit_the_model_is_refused(data, tmp_path):
    classifier(size=(9, 9)).save(tmp_path / "model")
    with pytest.raises(ArgumentError, match="data: the model reads 9×9 pixels, got 8×8"):
        tasks.evaluate("glimpse", tmp_path / "model", {"data": data})
    with pytest.raises(ArgumentError, match="data: not given, and the embedded digits have other classes"):
        tasks.evaluate("glimpse", tmp_path / "model")
    classifier(size=(8, 8)).save(tmp_path / "other")
    with pytest.raises(ArgumentError, match="compare: .* has other classes, or pictures of another size"):
        tasks.evaluate("glimpse", tmp_path / "model", {"data": data}, compare=[tmp_path / "other"])


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"labels": ["one"]}, "classes is not 1"),
        ({"labels": "one"}, "labels: expected a list of names"),
        ({"size": [11]}, "size: expected the rows and columns"),
        ({"mode": "upside-down"}, "mode: expected one of plain"),
    ],
)
def test_a_damaged_config_is_refused(tmp_path, values, problem):
    classifier().save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    with pytest.raises(FileError, match=f"config.json: {problem}"):
        GlimpseClassifier.load(tmp_path / "model")


# -- settings


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"mode": "upside"}, "mode: unknown name"),
        ({"canvas": 60}, "canvas: of no use for mode=plain"),
        ({"mode": "translated", "clutter": 3}, "clutter: of no use for mode=translated"),
        ({"policy": "random", "reward": "correct"}, "reward: of no use for policy=random"),
        ({"policy": "centre", "first": "random"}, "first: of no use for policy=centre"),
        ({"architecture": "dense", "glimpses": 3}, "glimpses: of no use for architecture=dense"),
        ({"policy": "lerned"}, "policy: unknown name 'lerned': did you mean 'learned'"),
        ({"reward": "profit"}, "reward: unknown name"),
        ({"samples": 0}, "samples: expected 1 or more"),
        ({"early_loss": -1.0}, "early_loss: expected 0 or more"),
        ({"shift": -1}, "shift: expected 0 or more"),
        ({"hold_out": 1.0}, "hold_out: expected a share"),
        ({"label_smoothing": 1.0}, "label_smoothing: expected a share"),
    ],
)
def test_settings_that_cannot_work_are_refused(values, problem):
    with pytest.raises((ArgumentError, UnknownNameError), match=problem):
        GlimpseSettings(**GlimpseSettings.complete({"data": "x", **values}))


def test_defaults_follow_the_data_and_the_mode():
    def completed(**values):
        return GlimpseSettings(**GlimpseSettings.complete(values))

    assert (completed().mode, completed().canvas, completed().glimpse_size) == ("translated", 20, 4)
    assert (completed(mode="plain").mode, completed(mode="plain").canvas) == ("plain", 60)
    assert completed(mode="cluttered").clutter_size == 3
    assert completed(architecture="dense").epochs == completed().epochs
    mnist = completed(data="mnist", mode="cluttered")
    assert (mnist.glimpse_size, mnist.scales, mnist.canvas, mnist.clutter_size) == (12, 3, 60, 8)
    assert completed(data="mnist").glimpse_size == 8
    assert completed(data="mnist", steps=5).epochs is None


def test_bad_data_leaves_no_folder(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04no arrays")
    with pytest.raises(FileError, match="data: .*bad.npz"):
        train(str(tmp_path / "bad.npz"), tmp_path / "run")
    save_squares(tmp_path / "large.npz", side=30)
    with pytest.raises(ArgumentError, match="canvas: pictures of 30×30 pixels do not fit on 20×20"):
        train(str(tmp_path / "large.npz"), tmp_path / "run", mode="translated", canvas=20)
    assert not (tmp_path / "run").exists()


def test_a_glimpse_larger_than_the_pictures_is_refused(data, tmp_path):
    side = 8
    with pytest.raises(
        ArgumentError,
        match=f"glimpse_size: .*9×9 pixels is larger than the pictures of 8×8: give at most {side}",
    ):
        tasks.train(
            "glimpse", {"data": str(data), "glimpse_size": 9, "steps": 1}, tmp_path / "run", show=False
        )
    assert not (tmp_path / "run").exists()
    small = {
        "data": str(data),
        "glimpse_size": side,
        "scales": 1,
        "glimpses": 2,
        "width": 8,
        "glimpse_width": 8,
    }
    assert tasks.train("glimpse", {**small, "steps": 1}, tmp_path / "run", show=False).step == 1
