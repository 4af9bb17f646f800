"""Settings of a run and its learning rates."""

import json
import math

import pytest
import torch

from regard.errors import ArgumentError, DtypeError, UnknownArgumentError, UnknownNameError
from regard.training import TrainingOptions, precision
from regard.training.optimizer import make_optimizer
from regard.training.precision import autocast, precision_note, uses_bfloat16
from regard.training.schedules import SCHEDULES
from support.training_runs import Toy

# ---- settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "steps: expected one of steps=, epochs= and minutes="),
        ({"steps": 3, "epochs": 1}, "steps: expected one of steps=, epochs= and minutes="),
        ({"steps": 3, "minutes": 1.0}, "steps: expected one of steps=, epochs= and minutes="),
        ({"minutes": 0.0}, "minutes: expected a number above 0, got 0"),
        ({"steps": 0}, "steps: expected a whole number of 1 or more, got 0"),
        ({"epochs": 0}, "epochs: expected a number above 0, got 0"),
        ({"epochs": math.inf}, "epochs: expected a finite number, got inf"),
        ({"learning_rate": 0}, "learning_rate: expected a number above 0"),
        ({"learning_rate": math.nan}, "learning_rate: expected a finite number, got nan"),
        ({"weight_decay": -1.0}, "weight_decay: expected 0 or more, got -1"),
        ({"clip": -0.1}, "clip: expected 0 or more"),
        ({"average": 1.0}, "average: expected a share from 0 to below 1, got 1.0"),
        ({"betas": (0.9,)}, r"betas: expected two shares from 0 to below 1, got \(0.9,\)"),
        ({"betas": (0.9, 1.0)}, "betas: expected two shares"),
        ({"betas": 0.9}, "betas: expected two shares"),
        ({"accumulate": 0}, "accumulate: expected a whole number of 1 or more"),
        ({"save_every": 0}, "save_every: expected a whole number of 1 or more"),
        ({"keep": 0}, "keep: expected a whole number of 1 or more"),
        ({"warmup": -1}, "warmup: expected a whole number of 0 or more"),
        ({"validate_every": -1}, "validate_every: expected a whole number of 0 or more"),
        ({"patience": -1}, "patience: expected a whole number of 0 or more"),
        ({"seed": -1}, "seed: expected a whole number of 0 or more"),
    ],
)
def test_values_out_of_range_are_refused(values, message):
    given = values if not values or values.keys() & {"steps", "epochs", "minutes"} else {"steps": 1, **values}
    with pytest.raises(ArgumentError, match=message):
        TrainingOptions(**given)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 2.5}, "steps: expected a whole number"),
        ({"learning_rate": "fast"}, "learning_rate: expected a number, got 'fast'"),
        ({"clip": None}, "clip: expected a number, got None"),
        ({"betas": ("a", 0.9)}, "betas: expected a number, got 'a'"),
        ({"compile": "yes"}, "compile: expected True or False, got 'yes'"),
    ],
)
def test_values_of_the_wrong_type_are_refused(values, message):
    with pytest.raises(DtypeError, match=message):
        TrainingOptions(**{"steps": 1, **values})


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="schedule: unknown name 'cosin': did you mean 'cosine'"):
        TrainingOptions(steps=1, schedule="cosin")
    with pytest.raises(
        UnknownNameError, match="precision: unknown name 'bf16'.*known are auto, float32, bfloat16"
    ):
        TrainingOptions(steps=1, precision="bf16")
    with pytest.raises(UnknownNameError, match="optimizer: unknown name 'sgd'.*known are adamw, muon"):
        TrainingOptions(steps=1, optimizer="sgd")
    with pytest.raises(UnknownArgumentError, match="warmpu: not a known setting: did you mean 'warmup'"):
        TrainingOptions.from_json({"steps": 1, "warmpu": 3})


def test_options_survive_json():
    options = TrainingOptions(
        epochs=1.5, betas=[0.8, 0.9], schedule="linear", seed=torch.tensor(3).numpy()[()]
    )
    again = TrainingOptions.from_json(json.loads(json.dumps(options.to_json())))
    assert again == options
    assert again.betas == (0.8, 0.9)


# ---- learning rates, for a peak of 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25, 0]),
        ("cosine", [0, 0.5, 1, (2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4, 0]),
        ("inverse_sqrt", [0, 0.5, 1, (2 / 3) ** 0.5, 0.5**0.5, 0.4**0.5, 3**-0.5]),
        ("constant", [0, 0.5, 1, 1, 1, 1, 1]),
    ],
)
def test_learning_rates_of_each_schedule_by_hand(name, expected):
    assert [SCHEDULES[name](step, 2, 6) for step in range(7)] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_warmup_the_first_step_is_at_the_peak(name):
    assert SCHEDULES[name](0, 0, 6) == 1
    assert SCHEDULES[name](1, 1, 6) == 1


def test_every_schedule_of_the_table_is_tested():
    assert list(SCHEDULES) == ["linear", "cosine", "inverse_sqrt", "constant"]


# ---- optimizer and precision


def test_biases_have_no_weight_decay():
    model = Toy()
    optimizer = make_optimizer(model, TrainingOptions(steps=1, weight_decay=0.3, betas=(0.5, 0.6)))
    decayed = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decayed[id(model.output.weight)] == decayed[id(model.embedding.weight)] == 0.3
    assert decayed[id(model.output.bias)] == 0.0
    assert optimizer.defaults["betas"] == (0.5, 0.6)


def test_bfloat16_is_used_where_asked_or_supported():
    cpu = torch.device("cpu")
    assert uses_bfloat16("bfloat16", cpu)
    assert not uses_bfloat16("float32", cpu)
    assert uses_bfloat16("auto", cpu) in (True, False)
    assert not uses_bfloat16("auto", torch.device("meta"))
    x = torch.ones(2, 2)
    with autocast("bfloat16", cpu):
        assert (x @ x).dtype == torch.bfloat16
    with autocast("float32", cpu):
        assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("has_instructions", [True, False])
def test_bfloat16_without_instructions_for_it_is_told(monkeypatch, has_instructions):
    monkeypatch.setattr(precision, "has_avx512_bf16", lambda: has_instructions)
    monkeypatch.setattr(precision, "has_amx", lambda: False)
    cpu = torch.device("cpu")
    assert ("float32 is usually faster" in precision_note("bfloat16", cpu)) is not has_instructions
    assert not precision_note("auto", cpu)
    assert not precision_note("float32", cpu)
    assert not precision_note("bfloat16", torch.device("cuda"))
