"""Maps of words over pictures, with a model whose weights are set by hand and with real image processors."""

import numpy as np
import pytest
import torch

import regard
from regard.capture import Recording
from regard.errors import ArgumentError
from regard.maps import AttentionMap, PatchGrid, PictureLayout, Record
from support.vision_language_models import (
    BLUE,
    END,
    FAKE,
    FIRST_TILE,
    GLOBAL,
    GREEN,
    NEWLINE,
    PICTURE,
    RED,
    START,
    colour_seeker,
    idefics,
    llava,
    llava_next,
    padded,
    paligemma,
    qwen,
    spelled,
)

pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image")
P = PICTURE
PAINT = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def painted(height, width, **blocks):
    """Return a black picture with a block of each colour at (top, left, bottom, right)."""
    picture = np.zeros((height, width, 3), dtype=np.uint8)
    for colour, (top, left, bottom, right) in blocks.items():
        picture[top:bottom, left:right] = PAINT[colour]
    return picture


def qwen_processor():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=2, merge_size=2, size={"shortest_edge": 4, "longest_edge": 1 << 16}
    )


def qwen_inputs(pictures, rows, side="right"):
    """Return inputs with pictures as ``qwen_processor`` makes them. Each None in a row is a picture."""
    encoded = qwen_processor()([Image.fromarray(one) for one in pictures], return_tensors="pt")
    counts = iter((encoded["image_grid_thw"].prod(dim=1) // 4).tolist())
    ids = [
        [n for token in row for n in ([START] + [P] * next(counts) + [END] if token is None else [token])]
        for row in rows
    ]
    inputs = padded(ids, side) | dict(encoded)
    return inputs | {"mm_token_type_ids": (inputs["input_ids"] == P).long()}


def seen_by(model, inputs):
    with regard.capture(model, tokenizer=spelled) as seen, torch.no_grad():
        model(**inputs)
    return seen


def test_the_word_of_a_colour_lights_up_the_patch_of_this_colour():
    # Merged patches have 4 x 4 pixels. The pictures have 5 x 3 and 2 x 6 of them.
    first = painted(20, 12, red=(4, 8, 8, 12), green=(16, 0, 20, 4))
    second = painted(8, 24, blue=(0, 20, 4, 24))
    third = painted(12, 8, red=(8, 4, 12, 8))
    rows = [[1, None, 3, None, RED, GREEN, BLUE], [None, RED]]
    for side in ("right", "left"):
        seen = seen_by(colour_seeker(), qwen_inputs([first, second, third], rows, side))
        red, green = (seen.picture_map(word, layer=0) for word in ("red", "green"))
        assert (red.strongest, green.strongest) == ((1, 2), (4, 0))
        assert red.strongest_box == (8, 4, 12, 8)
        assert red.weights[1, 2] > 0.9
        blue = seen.picture_map("blue", layer=-2, head=3, picture=1)
        assert (blue.strongest, blue.strongest_box) == ((0, 5), (20, 0, 24, 4))
        assert seen.picture_map("blue", picture=0).total < 0.01
        other = seen.picture_map("red", batch=1)
        assert (other.strongest, other.patches.picture) == ((2, 1), 2)


def change(model, before, after):
    """Return how much each token that the language model is given changes with the pixels, (b,n)."""
    given = []
    layers = [
        module for name, module in model.named_modules() if name.endswith(".layers.0") and "vis" not in name
    ]
    hook = layers[-1].register_forward_pre_hook(
        lambda _, args, kwargs: given.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True
    )
    with torch.no_grad():
        model(**before)
        model(**after)
    hook.remove()
    return (given[1] - given[0]).norm(dim=-1)


def assert_changed(model, before, after, expected):
    """Check that in each view the token of the expected (row, column) changes most, and text does not change."""
    layout = next(record.pictures for record in seen_by(model, before) if record.pictures is not None)
    moved = change(model, before, after)[0]
    for patches in layout.sequences[0]:
        weights = moved[list(patches.keys)].reshape(patches.grid)
        assert divmod(int(weights.argmax()), patches.grid[1]) == expected[patches.view], patches.view
    assert float(moved[list(layout.words[0])].max()) == 0


@pytest.mark.parametrize("kind", ["Qwen2VL", "Qwen2_5_VL", "Qwen3VL"])
def test_a_changed_patch_changes_the_token_of_its_place_in_qwen(kind):
    before, after = (
        qwen_inputs([picture], [[1, None, 3]])
        for picture in (painted(12, 20), painted(12, 20, red=(4, 16, 8, 20)))
    )
    assert_changed(qwen(kind, depth=0), before, after, {"whole": (1, 4)})


def test_a_changed_patch_changes_the_token_of_its_place_in_llava_and_paligemma():
    for model, ids in (
        (llava(vision_feature_layer=[0]), [1] + [P] * 36 + [3]),
        (paligemma(layers=0), [P] * 36 + [1, 3]),
    ):
        before = padded([ids]) | {"pixel_values": torch.zeros(1, 3, 12, 12)}
        pixels = torch.zeros(1, 3, 12, 12)
        pixels[..., 8:10, 2:4] = 1
        assert_changed(model, before, before | {"pixel_values": pixels}, {"whole": (4, 1)})


@pytest.mark.parametrize("kind", ["Idefics3", "SmolVLM"])
def test_a_changed_patch_changes_the_tokens_of_its_place_in_tiles(kind):
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    processor = Idefics3ImageProcessorPil(
        size={"longest_edge": 36}, max_image_size={"longest_edge": 12}, do_image_splitting=True
    )
    ids = [1]
    for tile in range(6):
        ids += [FAKE, FIRST_TILE + tile] + [P] * 9 + [NEWLINE] * (tile % 3 == 2)
    ids += [NEWLINE, FAKE, GLOBAL] + [P] * 9 + [FAKE, 3]
    before, after = (
        padded([ids]) | dict(processor(Image.fromarray(picture), return_tensors="pt"))
        for picture in (painted(24, 36), painted(24, 36, red=(16, 24, 20, 28)))
    )
    # A token of a tile has 4 x 4 pixels, and one of the whole picture 8 x 12.
    assert_changed(idefics(kind, layers=0), before, after, {"tiles": (4, 6), "whole": (2, 2)})


@pytest.mark.parametrize(("size", "rows", "columns"), [((20, 48), 6, 12), ((48, 20), 12, 6)])
def test_a_changed_patch_changes_the_tokens_of_its_place_in_llava_next(size, rows, columns):
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    processor = LlavaNextImageProcessorPil(
        size={"shortest_edge": 12},
        crop_size={"height": 12, "width": 12},
        image_grid_pinpoints=[[12, 24], [24, 12], [24, 24]],
    )
    model = llava_next(vision_feature_layer=[0], image_grid_pinpoints=[[12, 24], [24, 12], [24, 24]])
    ids = [1] + [P] * (36 + rows * (columns + 1)) + [3]
    plain = padded([ids]) | dict(processor(Image.fromarray(painted(*size)), return_tensors="pt"))
    layout = next(record.pictures for record in seen_by(model, plain) if record.pictures is not None)
    whole, tiles = layout.sequences[0]
    assert tiles.grid == (rows, columns)
    # Paint what the layout says is the patch in row 4, column 3.
    left, top, right, bottom = (round(x) for x in tiles.patch_box(4, 3))
    block = painted(*size, red=(top, left, bottom, right))
    after = padded([ids]) | dict(processor(Image.fromarray(block), return_tensors="pt"))
    middle = ((top + bottom) / 2 / size[0] * 6, (left + right) / 2 / size[1] * 6)
    expected = {"tiles": (4, 3), "whole": (int(middle[0]), int(middle[1]))}
    assert_changed(model, plain, after, expected)
    assert whole.box == (0, 0, size[1], size[0])


def recording(weights, *, grid=(2, 4), words=None, kind="causal"):
    """Return a recording of weights (layers, heads, queries, keys) whose first keys are the patches of one picture."""
    count = grid[0] * grid[1]
    patches = PatchGrid(picture=0, grid=grid, keys=tuple(range(count)), size=(8, 16), box=(0, 0, 16, 8))
    rows = tuple(range(count, weights.shape[2])) if words is None else words
    layout = PictureLayout(sequences=((patches,),), words=(rows,))
    labels = [["<image>"] * count + [f"\u0120w{n}" for n in range(weights.shape[2] - count)]]
    return Recording(
        [
            Record(
                name=str(n), layer=n, kind=kind, map=AttentionMap.from_weights(layer[None]), pictures=layout,
                query_tokens=labels,
            )
            for n, layer in enumerate(weights)
        ]
    )  # fmt: skip


def rows_over_patches(*rows, layers=1, heads=1):
    """Return weights of words behind 8 patches, each with the given weights over the patches."""
    size = 8 + len(rows)
    weights = torch.eye(size).repeat(layers, heads, 1, 1)
    for n, row in enumerate(rows):
        weights[:, :, 8 + n] = 0
        weights[:, :, 8 + n, :8] = torch.tensor(row)
        weights[:, :, 8 + n, 8 + n] = 1 - sum(row)
    return weights


def test_layers_and_heads_are_chosen_or_averaged():
    weights = rows_over_patches([0.1] * 8, layers=3, heads=2)
    weights[2, 1, 8, :8] = torch.tensor([0, 0, 0, 0, 0, 0.8, 0, 0])
    seen = recording(weights)
    assert seen.picture_map("w0", layer=0).weights == pytest.approx(np.full((2, 4), 0.1))
    assert seen.picture_map(8, layer=-1, head=1).strongest == (1, 1)
    assert seen.picture_map(-1, layer=2, head=1).total == pytest.approx(0.8)
    mean = seen.picture_map("w0")
    assert mean.weights[1, 1] == pytest.approx((5 * 0.1 + 0.8) / 6)
    assert mean.weights[0, 0] == pytest.approx(5 * 0.1 / 6)
    assert [(one.word, one.query) for one in seen.picture_maps()] == [(" w0", 8)]


def test_sink_patches_are_taken_out_only_on_request():
    rows = [[0.02] * 8 for _ in range(5)]
    for n, row in enumerate(rows):
        row[6] = 0.5  # every word attends to it
        row[n] = 0.2  # each word attends to a patch of its own
    seen = recording(rows_over_patches(*rows))
    plain = seen.picture_map("w3")
    assert (plain.strongest, plain.sinks) == ((1, 2), ())
    without = seen.picture_map("w3", without_sinks=True)
    assert (without.strongest, without.sinks) == ((0, 3), ((1, 2),))
    assert without.weights[1, 2] == 0
    assert without.total == pytest.approx(plain.total)
    # A patch that three of five words attend to is no sink, and neither is that of three words in all.
    fewer = recording(rows_over_patches(*[r if n < 3 else [0.05] * 8 for n, r in enumerate(rows)]))
    assert fewer.picture_map("w0", without_sinks=True).sinks == ()
    assert recording(rows_over_patches(*rows[:3])).picture_map("w0", without_sinks=True).sinks == ()


def test_wrong_choices_are_named():
    seen = recording(rows_over_patches([0.1] * 8, [0.1] * 8))
    for options, problem in (
        ({"word": "cat"}, "unknown name 'cat'"),
        ({"word": 10}, "word"),
        ({"word": "w0", "layer": 5}, "no record of layer 5"),
        ({"word": "w0", "head": 1}, "one of 1 heads"),
        ({"word": "w0", "picture": 1}, "one of 1 pictures of sequence 0"),
        ({"word": "w0", "batch": 2}, "one of 1 sequences"),
        ({"word": "w0", "view": "tiles"}, "known are whole"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            seen.picture_map(**options)
    twice = recording(rows_over_patches([0.1] * 8, [0.1] * 8)).label(["<image>"] * 8 + ["a", "a"])
    with pytest.raises(ArgumentError, match=r"there 2 times: give one of the positions \[8, 9\]"):
        twice.picture_map("a")
    with pytest.raises(ArgumentError, match="no record has patches"):
        Recording.from_weights(torch.eye(3)).picture_map(0)
