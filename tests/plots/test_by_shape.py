"""Grids of heads, whole models, pictures, and `regard.show`, which chooses among them."""

import warnings

import numpy as np
import pytest
import torch

import regard
from regard import plot_heads, plot_image_attention, plot_model
from regard.errors import ArgumentError, DtypeError, ShapeError
from regard.maps import AttentionMap, Record
from regard.maps.sources import Stored
from regard.plots import plot_image_words
from support.fonts import chinese_labels

pytestmark = pytest.mark.usefixtures("fonts")
H, Q, K = 3, 5, 7


@pytest.fixture
def weights():
    return np.random.default_rng(0).dirichlet(np.ones(K), size=(H, Q))  # (h,q,k)


def titles(figure):
    return [ax.get_title() for ax in figure.axes if ax.get_title()]


def pictures(figure):
    return [np.asarray(ax.get_images()[0].get_array()) for ax in figure.axes if ax.get_images()]


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


QUERIES, KEYS = [f"q{i}" for i in range(Q)], [f"k{i}" for i in range(K)]


# ---- heads


def test_plot_heads_draws_each_head_with_its_tokens_on_one_colour_scale(weights, tmp_path):
    figure = plot_heads(weights, QUERIES, KEYS, columns=2, path=tmp_path / "x.png")
    assert titles(figure) == ["Head 0", "Head 1", "Head 2"]
    np.testing.assert_array_equal(pictures(figure), weights)
    first = figure.axes[0]
    assert (labels(first.xaxis), labels(first.yaxis)) == (KEYS, QUERIES)
    assert {ax.get_images()[0].get_clim() for ax in figure.axes[:H]} == {(0.0, weights.max())}
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_nothing_is_cut_off_and_nothing_overlaps(weights):
    names = ["a very long token indeed", *KEYS[1:]]
    with chinese_labels():
        figure = plot_heads(weights, ["猫坐在垫子上", *QUERIES[1:]], names, columns=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")  # drawing again is matplotlib's, not ours
        figure.canvas.draw()
        boxes = [ax.get_tightbbox() for ax in figure.axes[:H]]
    whole = figure.bbox
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
    assert boxes[0].x1 <= boxes[1].x0 + 1
    assert boxes[2].y1 <= boxes[0].y0 + 1


def test_plot_model_draws_a_picture_for_each_head(weights):
    figure = plot_model([weights, weights[:2]])
    assert len(figure.axes) == H + 2
    assert [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel()] == ["layer 0", "layer 1"]


@pytest.mark.parametrize("lazily", [False, True])
def test_long_maps_are_pooled_and_keep_their_largest_weight(lazily):
    n = 601
    long = torch.zeros(1, 1, n, n)
    long[0, 0, 500, 123] = 1.0
    figure = plot_model([AttentionMap.from_weights(long) if lazily else long])
    (picture,) = pictures(figure)
    assert picture.shape == (256, 256)
    assert picture.max() == 1
    row, column = np.unravel_index(picture.argmax(), picture.shape)
    assert abs(row - 500 * 256 / n) <= 1
    assert abs(column - 123 * 256 / n) <= 1


# ---- pictures


@pytest.mark.parametrize("shape", [(8, 12), (8, 12, 3), (3, 8, 12), (1, 8, 12)])
def test_plot_image_attention_lays_the_patches_over_the_picture(shape):
    patches = np.arange(6.0)
    figure = plot_image_attention(np.full(shape, 0.5), [9.0, *patches], grid=(2, 3), extra=1)
    below, above = figure.axes[0].get_images()
    assert np.asarray(below.get_array()).shape[:2] == (8, 12)
    np.testing.assert_array_equal(above.get_array(), patches.reshape(2, 3))
    assert above.get_extent() == below.get_extent()


def test_plot_image_words_draws_the_picture_once_for_each_word():
    weights = np.arange(18.0).reshape(3, 6)
    figure = plot_image_words(
        np.full((8, 12, 1), 0.5), weights, ["a", "$x_1$", "two"], grid=(2, 3), columns=2
    )
    assert [ax.get_title() for ax in figure.axes] == ["a", "$x_1$", "two"]
    for ax, row in zip(figure.axes, weights, strict=True):
        below, above = ax.get_images()
        assert np.asarray(below.get_array()).shape == (8, 12)
        np.testing.assert_array_equal(above.get_array(), row.reshape(2, 3))
    first, second, third = (ax.get_position() for ax in figure.axes)
    assert (first.y0, third.x0) == (pytest.approx(second.y0), pytest.approx(first.x0))
    assert first.x1 < second.x0
    assert third.y1 < first.y0
    with pytest.raises(ShapeError, match="weights: 6 patches do not make a grid of 2 x 2"):
        plot_image_words(np.zeros((8, 8)), weights, ["a", "b", "c"], grid=(2, 2))


def test_pixels_of_bytes_are_divided_by_255():
    figure = plot_image_attention(np.full((4, 4), 255, dtype=np.uint8), np.eye(2) / 2)
    assert float(np.max(figure.axes[0].get_images()[0].get_array())) == 1.0


# ---- show


@pytest.mark.parametrize(
    "make", [np.asarray, torch.tensor, lambda w: AttentionMap.from_weights(torch.tensor(w)[None])[0]]
)
def test_the_shape_chooses_the_picture(weights, make):
    given = make(weights)
    assert titles(regard.show(given, QUERIES, KEYS)) == ["Head 0", "Head 1", "Head 2"]
    one = regard.show(given, QUERIES, KEYS, head=1)
    np.testing.assert_allclose(pictures(one)[0], weights[1])
    assert len(regard.show(given[0][0], KEYS).axes[0].patches) == K  # bars


def test_show_accepts_the_tuple_of_layers_of_hugging_face(weights):
    layers = tuple(torch.tensor(weights[None] * scale) for scale in (1.0, 0.5))  # (b,h,q,k) each
    assert len(regard.show(layers).axes) == 2 * H
    one = regard.show(layers, QUERIES, KEYS, layer=1, head=2)
    np.testing.assert_allclose(pictures(one)[0], weights[2] * 0.5)
    assert labels(one.axes[0].yaxis) == QUERIES


def test_records_bring_their_tokens(weights):
    both = AttentionMap.from_weights(torch.tensor(np.stack([weights, weights[::-1]])))
    sides = {"query_tokens": [["?"] * Q, QUERIES], "key_tokens": [["?"] * K, KEYS]}
    record = Record(name="cross", layer=0, kind="cross", map=both, **sides)
    figure = regard.show([record], layer=0, head=0, batch=1)
    np.testing.assert_allclose(pictures(figure)[0], weights[-1])
    assert (labels(figure.axes[0].xaxis), labels(figure.axes[0].yaxis)) == (KEYS, QUERIES)


def test_without_tokens_the_places_are_the_labels(weights):
    figure = regard.show(weights[0])
    assert labels(figure.axes[0].xaxis) == [str(i) for i in range(K)]


@pytest.mark.parametrize(
    ("call", "kind", "part"),
    [
        (lambda w: regard.show(object()), DtypeError, "got object"),
        (lambda w: regard.show(np.zeros((1,) * 5)), ShapeError, "expected"),
        (lambda w: regard.show(w, layer=1), ArgumentError, "a single layer"),
        (lambda w: regard.show([w], head=1), ArgumentError, "got 1 without a layer"),
        (lambda w: regard.show([w], layer=2), ArgumentError, "expected one of 1"),
        (lambda w: regard.show(w, QUERIES, KEYS, head=3), ArgumentError, "expected one of 3"),
        (lambda w: regard.show(w, QUERIES, KEYS[1:]), ShapeError, "6 tokens given"),
        (lambda w: plot_heads(w, QUERIES), ShapeError, "key_tokens"),
        (lambda w: plot_heads(w[None].repeat(2, 0), KEYS), ShapeError, "pick one sequence"),
        (lambda w: plot_model([]), ShapeError, "none"),
        (lambda w: plot_image_attention(np.zeros((2, 2, 2)), np.eye(2)), ShapeError, "image"),
        (lambda w: plot_image_attention(np.zeros((4, 4)), np.ones(5)), ShapeError, "5 patches"),
    ],
)
def test_wrong_arguments_are_refused(weights, call, kind, part):
    with pytest.raises(kind, match=part):
        call(weights)


# ---- records are drawn under their own numbers


def records(count=2, heads=None, b=1, n=4):
    weights = torch.softmax(torch.randn(b, 2, n, n, generator=torch.Generator().manual_seed(0)), -1)
    maps = [AttentionMap.from_weights(weights * 0 + w) for w in (weights, weights.flip(-1))][:count]
    about = {"kind": "self", "heads": heads}
    return [Record(name=f"layers.{n + 1}", layer=n + 1, map=one, **about) for n, one in enumerate(maps)]


def test_layers_and_heads_go_by_the_numbers_of_the_model():
    given = records(heads=(3, 5))
    drawn = pictures(regard.show(given, layer=1))
    np.testing.assert_allclose(drawn, given[0].map.numpy()[0])
    assert titles(regard.show(given, layer=2)) == ["Head 3", "Head 5"]
    np.testing.assert_allclose(pictures(regard.show(given, layer=2, head=5))[0], given[1].map.numpy()[0, 1])
    whole = regard.show(given)
    assert [ax.get_ylabel() for ax in whole.axes if ax.get_ylabel()] == ["layer 1", "layer 2"]
    assert titles(whole)[:2] == ["head 3", "head 5"]
    with pytest.raises(ArgumentError, match=r"layer: expected one of \[1, 2\], got 0"):
        regard.show(given, layer=0)
    with pytest.raises(ArgumentError, match=r"head: expected one of \[3, 5\], got 0"):
        regard.show(given, layer=1, head=0)
    with pytest.raises(ArgumentError, match="2 records are of layer 1: layers.1, layers.1"):
        regard.show([given[0], given[0]], layer=1)


def test_tokens_of_a_whole_model_are_checked():
    assert len(regard.show(records(), list("abcd")).axes) == 4
    with pytest.raises(ShapeError, match="query_tokens: 3 tokens given, 4 rows"):
        regard.show(records(), list("abc"))


def test_a_long_model_is_pooled_and_never_whole(monkeypatch):
    n = 300
    q = torch.randn(2, 2, n, 4, generator=torch.Generator().manual_seed(0))
    _, found = regard.attention(q, q, q, return_map=True)
    given = [Record(name="0", layer=0, kind="self", map=found)]
    expected = found.select(batch=1).pooled(256, 256)[0].numpy()
    monkeypatch.setattr(AttentionMap, "weights", lambda self: pytest.fail("all weights were computed"))
    np.testing.assert_allclose(pictures(regard.show(given, batch=1)), expected)
    with pytest.raises(ShapeError, match="expected one sequence"):
        plot_model([found])


# ---- pictures of the wrong kind


def test_a_whole_map_is_not_laid_over_a_picture():
    image = np.zeros((8, 8))
    with pytest.raises(ShapeError, match="rows that sum to 1, as in a map .q,k.: pick one query"):
        plot_image_attention(image, np.full((5, 5), 0.2), grid=None)
    with pytest.raises(ShapeError, match="extra=1"):
        plot_image_attention(image, np.full((3, 3), 0.1), extra=1)


def test_float_pixels_up_to_255_are_divided_by_255():
    image = np.array([[0.0, 255.0], [51.0, 102.0]])
    drawn = plot_image_attention(image, np.full((2, 2), 0.25)).axes[0].get_images()[0].get_array()
    np.testing.assert_allclose(drawn, [[0, 1], [0.2, 0.4]])


# ---- inputs that are not attention, or have another form


@pytest.mark.parametrize("form", [lambda x: x, lambda x: [x, x], torch.tensor])
def test_heads_that_are_not_finite_are_refused_with_their_place(form):
    weights = np.full((1, 2, 3, 3), 1 / 3)
    weights[0, 1, 2, 0] = np.nan
    with pytest.raises(ArgumentError, match="expected finite numbers, got nan at h=1, q=2, k=0"):
        regard.show(form(weights))


def test_rows_make_a_heat_map():
    rows = [np.array([0.5, 0.5]), torch.tensor([0.1, 0.9], dtype=torch.float64)]
    figure = regard.show(rows, ["a", "b"])
    np.testing.assert_allclose(pictures(figure)[0], [[0.5, 0.5], [0.1, 0.9]])
    assert labels(figure.axes[0].xaxis) == ["a", "b"]
    numbers = [np.float64(0.5), torch.tensor(0.5)]
    assert len(regard.show(numbers, ["a", "b"]).axes[0].patches) == 2  # bars
    with pytest.raises(ShapeError, match=r"weights\[1\]: expected 2 keys as in weights\[0\], got 3"):
        regard.show([np.ones(2), np.ones(3)])
    with pytest.raises(
        ShapeError, match=r"weights\[1\]: expected \(q,k\), \(h,q,k\) or \(b,h,q,k\), got \(2\)"
    ):
        regard.show([np.eye(2), np.ones(2)], ["a", "b"])


def test_a_grid_of_layers_has_its_labels():
    layers = [torch.full((1, 2, 3, 3), 1 / 3)] * 2
    figure = regard.show(layers, ["a", "b", "c"])
    named = [(labels(ax.xaxis), labels(ax.yaxis)) for ax in figure.axes]
    words = ["a", "b", "c"]
    assert named == [([], words), ([], []), (words, words), (words, [])]  # at the left, and below
    for n, written in ((36, 36), (37, 0), (300, 0)):
        many = regard.show([torch.full((1, 1, n, n), 1 / n)], [str(i) for i in range(n)])
        assert len(labels(many.axes[0].xaxis)) == written  # more could not be read
    with pytest.raises(ShapeError, match=r"query_tokens: .*rows in layers\[0\] \(3,3\)"):
        regard.show(layers, ["a", "b"])


def test_a_grid_of_records_tells_kinds_and_their_own_tokens():
    def record(kind, queries, keys):
        found = AttentionMap.from_weights(torch.full((2, 1, len(queries[0]), len(keys[0])), 0.25))
        return Record(name="x", layer=0, kind=kind, map=found, query_tokens=queries, key_tokens=keys)

    own, other = [["un", "chat"], ["le", "chien"]], [["a", "cat", "."], ["the", "dog", "."]]
    figure = regard.show([record("causal", own, own), record("cross", own, other)], batch=1)
    assert [ax.get_ylabel() for ax in figure.axes] == ["layer 0, causal", "layer 0, cross"]
    assert [labels(ax.xaxis) for ax in figure.axes] == [["le", "chien"], ["the", "dog", "."]]
    assert [labels(ax.yaxis) for ax in figure.axes] == [["le", "chien"], ["le", "chien"]]


def test_the_title_names_the_chosen_layer_and_head():
    layers = [torch.full((1, 2, 3, 3), 1 / 3)] * 2
    assert titles(regard.show(layers, layer=1, head=0)) == ["Layer 1, head 0"]
    assert titles(regard.show(layers, layer=1, head=0, title="Mine")) == ["Mine"]


def test_show_refuses_numbers_that_are_no_weights():
    with pytest.raises(ArgumentError, match="weights: found negative numbers: take the softmax"):
        regard.show(np.array([[0.5, -0.5], [1.0, 0.0]]), ["a", "b"])
    with pytest.raises(DtypeError, match=r"layer: expected one number, got \[0, 1\]"):
        regard.show([np.eye(2)] * 2, ["a", "b"], layer=[0, 1])


def test_show_accepts_the_output_of_a_model():
    class Output:
        attentions = (torch.full((1, 2, 3, 3), 1 / 3),)

    assert len(regard.show(Output()).axes) == 2
    Output.attentions = ()
    with pytest.raises(ArgumentError, match="at least one layer, got none: record them with regard.capture"):
        regard.show(Output())


STEP = (torch.full((1, 2, 3, 3), 1 / 3),) * 2


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ((None, None), "the model returned no weights: record them with regard.capture"),
        (None, "the model returned no weights: record them with regard.capture"),
        (((None, None), (None, None)), "the model returned no weights: record them with regard.capture"),
        ((STEP, STEP, STEP), r"3 steps of 2 layers.*regard.capture\(model\) around generate.*weights\[0\]"),
        ((), "expected at least one layer, got none"),
    ],
)
def test_show_refuses_outputs_without_weights(given, part):
    with pytest.raises(ArgumentError, match=f"weights: .*{part}"):
        regard.show(given, ["a", "b", "c"])


def test_negative_weights_have_a_diverging_scale():
    signed = np.array([[[1.5, -0.5], [0.25, 0.75]]])
    record = Record(name="mixed", layer=0, kind="self", map=AttentionMap(Stored(torch.tensor(signed[None]))))
    for figure in (regard.show(record, ["a", "b"]), regard.show([record]), plot_heads(signed, ["a", "b"])):
        image = figure.axes[0].get_images()[0]
        assert image.get_cmap().name == "RdBu_r"
        assert image.get_clim() == (-1.5, 1.5)
    assert regard.show(record, ["a", "b"]).axes[1].get_ylabel() == "weight (blue: negative)"
    plain = plot_heads(np.abs(signed), ["a", "b"]).axes[0].get_images()[0]
    assert plain.get_cmap().name == "viridis"


def test_pooled_pictures_keep_negative_weights():
    long = torch.zeros(1, 1, 600, 600)
    long[0, 0, 300, 300], long[0, 0, 100, 500] = -0.5, 0.25
    (picture,) = pictures(regard.show([AttentionMap(Stored(long))]))
    assert picture.shape == (256, 256)
    assert (picture.min(), picture.max()) == (-0.5, 0.25)


def test_a_notebook_displays_the_figure():
    assert regard.show(np.eye(2), ["a", "b"])._repr_png_().startswith(b"\x89PNG")


def test_one_side_of_labels_is_enough_where_both_sides_are_equal():
    for given in ({"query_tokens": ["a", "b"]}, {"key_tokens": ["a", "b"]}):
        axes = regard.show(np.eye(2), **given).axes[0]
        assert labels(axes.xaxis) == labels(axes.yaxis) == ["a", "b"]
    assert labels(regard.show(np.full((2, 3), 1 / 3), ["a", "b"]).axes[0].yaxis) == ["a", "b"]
