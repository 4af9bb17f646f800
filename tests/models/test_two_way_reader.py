"""The reader with attention between question and context in both directions."""

import pytest
import torch

from regard.errors import ArgumentError, ShapeError
from regard.models import EncoderConfig, TwoWayReader, TwoWayReaderConfig, load_model
from regard.models.two_way_reader import TwoWayGRU
from regard.text.forms import ENDINGS, FLAGS

B, Q, N, SIZE = 2, 5, 7, 31
SMALL = {"vocabulary_size": SIZE, "width": 12, "layers": 1, "heads": 3, "feed_forward": 16, "dropout": 0.0}
BASE = EncoderConfig(
    vocabulary_size=SIZE, width=8, heads=2, feed_forward=8, layers=5, positions="learned", norm="post"
)
KINDS = {
    "gru": {},
    "transformer": {"encoder": "transformer", "positions": "rotary"},
    "dot": {"score": "dot"},
    "additive": {"score": "additive"},
    "forms": {"flags": FLAGS, "endings": ENDINGS},
    "base": {"base": BASE, "base_start": 1, "base_end": 2},
}


def reader(**changes):
    torch.manual_seed(3)
    return TwoWayReader(TwoWayReaderConfig(**{**SMALL, "positions": "none", **changes})).eval()


def inputs():
    generator = torch.Generator().manual_seed(5)
    question = torch.randint(4, SIZE, (B, Q), generator=generator)
    context = torch.randint(4, SIZE, (B, N), generator=generator)
    forms = [torch.randint(ENDINGS << FLAGS, one.shape, generator=generator) for one in (question, context)]
    return question, torch.tensor([Q, 3]), context, torch.tensor([N, 4]), forms


def run(model, records=None):
    question, asked, context, read, (first, second) = inputs()
    return model(question, asked, context, read, question_forms=first, context_forms=second, records=records)


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_padding_does_not_change_the_logits(changes):
    model = reader(**changes)
    question, _, context, _, (first, second) = inputs()
    start, end = run(model)
    forms = {"question_forms": first[1:, :3], "context_forms": second[1:, :4]}
    alone = model(question[1:, :3], None, context[1:, :4], None, **forms)
    torch.testing.assert_close(start[1:, :4], alone[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(end[1:, :4], alone[1], atol=1e-5, rtol=0)
    assert torch.isinf(start[1, 4:]).all()
    assert torch.isinf(end[1, 4:]).all()


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_a_saved_reader_is_the_same(changes, tmp_path):
    model = reader(**changes)
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    torch.testing.assert_close(run(again), run(model))


@pytest.mark.parametrize("changes", [{}, {"score": "dot"}, {"score": "additive"}, {"score": "scaled_dot"}])
def test_both_directions_are_records_whose_rows_sum_to_one(changes):
    records = []
    run(reader(**changes), records)
    found = {one.name: one.map.weights() for one in records}
    assert found["to_context"].shape == (B, 1, Q, N)
    assert found["to_question"].shape == (B, 1, N, Q)
    for weights in found.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    assert not found["to_context"][1, :, :, 4:].any()
    assert not found["to_question"][1, :, :, 3:].any()


def test_the_question_changes_the_answer_through_both_directions():
    """The logits of a context depend on the words of the question, and on the forms."""
    model = reader(flags=FLAGS, endings=ENDINGS)
    question, asked, context, read, (first, second) = inputs()
    start, _ = run(model)
    other = question.clone()
    other[0, 1] = (other[0, 1] + 1) % SIZE
    changed, _ = model(other, asked, context, read, question_forms=first, context_forms=second)
    assert not torch.allclose(changed[0], start[0], atol=1e-6)
    torch.testing.assert_close(changed[1], start[1])
    changed, _ = model(question, asked, context, read, question_forms=first, context_forms=second ^ 1)
    assert not torch.allclose(changed, start, atol=1e-6)


def test_every_trained_parameter_has_a_gradient():
    for changes in KINDS.values():
        model = reader(**changes).train()
        start, end = run(model)
        (start.softmax(-1)[:, 1].sum() + end.softmax(-1)[:, 2].sum()).backward()
        missing = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
        assert missing == []


def test_the_base_is_not_trained_and_its_states_are_kept():
    model = reader(**KINDS["base"], dropout=0.5).train()
    assert model.base is not None
    assert not any(p.requires_grad for p in model.base.parameters())
    calls = []
    model.base.encoder.layers[0].register_forward_hook(lambda *_: calls.append(1))
    run(model)
    run(model)
    assert len(calls) == 2  # the questions and the contexts, once
    fresh = reader(**KINDS["base"])
    fresh.load_state_dict(model.state_dict())
    kept, anew = run(model.eval()), run(fresh)  # kept in half precision
    torch.testing.assert_close(kept, anew, atol=1e-2, rtol=0)


def test_a_reader_that_is_not_trained_keeps_no_states():
    model = reader(**KINDS["base"])
    run(model)
    assert model.base is not None
    assert model.base.kept is None


def test_states_beyond_the_limit_are_not_kept(monkeypatch):
    model = reader(**KINDS["base"]).train()
    assert model.base is not None
    monkeypatch.setattr(type(model.base), "MOST_KEPT", 40)
    run(model)
    assert model.base.kept == {}


def test_a_bidirectional_gru_equals_that_of_torch():
    layer = TwoWayGRU(6)
    theirs = torch.nn.GRU(6, 3, batch_first=True, bidirectional=True)
    state = {f"{name}": value for name, value in layer.forwards.state_dict().items()}
    state |= {f"{name}_reverse": value for name, value in layer.backwards.state_dict().items()}
    theirs.load_state_dict(state)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(layer(x, None), theirs(x)[0])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"encoder": "lstm"}, "encoder: unknown name 'lstm'"),
        ({"score": "cosine"}, "score: unknown name 'cosine'"),
        ({"width": 9}, "width: expected an even number"),
        ({"layers": 0}, "layers"),
        ({"flags": -1}, "flags"),
    ],
)
def test_settings_that_make_no_reader_are_refused(changes, problem):
    with pytest.raises(ArgumentError, match=problem):
        TwoWayReaderConfig(**{**SMALL, "heads": 1, **changes})


def test_forms_of_another_shape_are_refused():
    question, asked, context, read, _ = inputs()
    with pytest.raises(ShapeError, match=r"question_forms: expected \(2,5\) as question, got none"):
        reader(flags=FLAGS)(question, asked, context, read)
