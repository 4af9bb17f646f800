"""The places of picture tokens in Hugging Face models, against positions that are worked out by hand."""

import pytest
import torch

import regard
from regard.capture import Recording
from regard.errors import ArgumentError, CaptureError
from support.vision_language_models import (
    END,
    FAKE,
    FIRST_TILE,
    GLOBAL,
    NEWLINE,
    PICTURE,
    START,
    blip2,
    idefics,
    llava,
    llava_next,
    padded,
    paligemma,
    pixels,
    pixtral,
    qwen,
    spelled,
)

pytest.importorskip("transformers")
P = PICTURE


def layout(model, inputs, tokenizer=spelled):
    """Return the layout that all layers of the language model share."""
    with regard.capture(model, tokenizer=tokenizer) as seen, torch.no_grad():
        model(**inputs)
    found = [record.pictures for record in seen if record.pictures is not None]
    assert len(found) == 2
    assert found[0] == found[1]
    return found[0]


def grids(found):
    return [[(one.picture, one.view, one.grid, one.keys) for one in row] for row in found.sequences]


def span(start, count):
    return tuple(range(start, start + count))


def test_pictures_of_llava_are_at_their_tokens_in_batches_padded_on_either_side():
    rows = [[1] + [P] * 36 + [3, 4] + [P] * 36 + [5], [1, 3] + [P] * 36 + [5]]
    right = layout(llava(), padded(rows) | {"pixel_values": pixels(3, 3, 12, 12)})
    assert grids(right) == [
        [(0, "whole", (6, 6), span(1, 36)), (1, "whole", (6, 6), span(39, 36))],
        [(2, "whole", (6, 6), span(2, 36))],
    ]
    assert right.words == ((0, 37, 38, 75), (0, 1, 38))
    left = layout(llava(), padded(rows, "left") | {"pixel_values": pixels(3, 3, 12, 12)})
    # The second sequence has 39 tokens of 76.
    assert grids(left)[1] == [(2, "whole", (6, 6), span(2 + 37, 36))]
    assert left.words[1] == (37, 38, 75)
    patches = left.sequences[1][0]
    assert patches.place(39 + 6 * 4 + 5) == (4, 5)
    assert patches.patch_box(4, 5) == (10, 8, 12, 10)
    assert (patches.size, patches.stretched) == ((12, 12), False)


def test_the_class_token_of_llava_is_no_patch():
    model = llava(vision_feature_select_strategy="full")
    found = layout(model, padded([[1] + [P] * 37 + [3]]) | {"pixel_values": pixels(1, 3, 12, 12)})
    assert grids(found) == [[(0, "whole", (6, 6), span(2, 36))]]
    assert found.words == ((0, 38),)


def test_pictures_of_pixtral_have_their_own_sizes():
    inputs = {"input_ids": torch.tensor([[1] + [P] * 15 + [3] + [P] * 14 + [4]])}
    inputs |= {"pixel_values": pixels(2, 3, 10, 14), "image_sizes": torch.tensor([[10, 6], [4, 14]])}
    found = layout(pixtral(), inputs)
    assert grids(found) == [[(0, "whole", (5, 3), span(1, 15)), (1, "whole", (2, 7), span(17, 14))]]
    assert found.sequences[0][1].patch_box(1, 6) == (12, 2, 14, 4)


def two_qwen_pictures(side="right"):
    """Return two prompts, the first with pictures of 2 x 3 and 5 x 2 merged patches, the second with one of 1 x 4."""
    rows = [[1, START] + [P] * 6 + [END, 3, START] + [P] * 10 + [END, 4, 5], [START] + [P] * 4 + [END, 6]]
    inputs = padded(rows, side)
    inputs["mm_token_type_ids"] = (inputs["input_ids"] == P).long()
    grid = torch.tensor([[1, 4, 6], [1, 10, 4], [1, 2, 8]])
    return inputs | {"pixel_values": pixels(24 + 40 + 16, 24), "image_grid_thw": grid}


@pytest.mark.parametrize("kind", ["Qwen2VL", "Qwen2_5_VL", "Qwen3VL"])
def test_pictures_of_qwen_have_their_own_grids_of_merged_patches(kind):
    model = qwen(kind)
    right = layout(model, two_qwen_pictures())
    assert grids(right) == [
        [(0, "whole", (2, 3), span(2, 6)), (1, "whole", (5, 2), span(11, 10))],
        [(2, "whole", (1, 4), span(1, 4))],
    ]
    assert right.words == ((0, 1, 8, 9, 10, 21, 22, 23), (0, 5, 6))
    first, second = right.sequences[0]
    assert (first.size, first.patch_box(1, 2)) == ((8, 12), (8, 4, 12, 8))
    assert (second.size, second.patch_box(4, 1)) == ((20, 8), (4, 16, 8, 20))
    left = layout(model, two_qwen_pictures("left"))
    assert grids(left)[0] == grids(right)[0]
    assert grids(left)[1] == [(2, "whole", (1, 4), span(18, 4))]


def test_pictures_of_paligemma_come_before_the_text():
    rows = [[P] * 72 + [1, 3, 4], [P] * 36 + [1, 5]]
    found = layout(paligemma(), padded(rows, "left") | {"pixel_values": pixels(3, 3, 12, 12)})
    assert grids(found) == [
        [(0, "whole", (6, 6), span(0, 36)), (1, "whole", (6, 6), span(36, 36))],
        [(2, "whole", (6, 6), span(37, 36))],
    ]
    assert found.words == ((72, 73, 74), (73, 74))


def tiles(down, across):
    """Return the token ids of a picture that is cut into tiles, as the processor of Idefics3 writes them."""
    ids = []
    for row in range(down):
        for column in range(across):
            ids += [FAKE, FIRST_TILE + 3 * row + column] + [P] * 9
        ids += [NEWLINE]
    return ids + [NEWLINE, FAKE, GLOBAL] + [P] * 9 + [FAKE]


@pytest.mark.parametrize("kind", ["Idefics3", "SmolVLM"])
def test_tiles_of_idefics_are_joined_to_one_grid_beside_the_whole_picture(kind):
    whole = [FAKE, GLOBAL] + [P] * 9 + [FAKE]
    rows = [[1, *tiles(2, 3), 3, *whole, 4], [1, *whole, 5, 6]]
    values = pixels(2, 8, 3, 12, 12)
    values[1, 1:] = 0  # the second sequence has one tile, and the others fill up the batch
    found = layout(idefics(kind), padded(rows) | {"pixel_values": values})
    first_row = [n for start in (3, 14, 25) for n in span(start, 3)]
    fourth_row = [
        n for start in (37, 48, 59) for n in span(start, 3)
    ]  # the first row of the second row of tiles
    [(_, view, grid, whole_keys), (_, tiled, joined, keys), second] = grids(found)[0]
    assert (view, grid, whole_keys) == ("whole", (3, 3), span(72, 9))
    assert (tiled, joined) == ("tiles", (6, 9))
    assert list(keys[:9]) == first_row
    assert list(keys[27:36]) == fourth_row
    assert second == (1, "whole", (3, 3), span(85, 9))
    assert grids(found)[1] == [(2, "whole", (3, 3), span(3, 9))]
    patches = found.sequences[0][1]
    assert (patches.size, patches.patch_box(3, 8)) == ((24, 36), (32, 12, 36, 16))


def test_tiles_without_a_tokenizer_have_no_known_places():
    inputs = padded([[1, *tiles(2, 3), 3]]) | {"pixel_values": pixels(1, 7, 3, 12, 12)}
    found = layout(idefics(), inputs, tokenizer=None)
    assert found.sequences == ((),)
    assert "tokenizer=" in str(found.unplaced)


def test_a_padded_picture_of_idefics_fills_a_part_of_its_patches():
    shown = torch.zeros(1, 1, 12, 12, dtype=torch.bool)
    shown[..., :8, :] = True
    inputs = padded([[1, FAKE, GLOBAL] + [P] * 9 + [FAKE, 3]]) | {"pixel_values": pixels(1, 1, 3, 12, 12)}
    [[patches]] = layout(idefics(), inputs | {"pixel_attention_mask": shown}).sequences
    assert (patches.size, patches.box) == ((8, 12), (0, 0, 12, 12))


@pytest.mark.parametrize("kind", ["LlavaNext", "LlavaOnevision"])
def test_newlines_of_llava_next_are_no_patches(kind):
    # A picture of 10 x 24 pixels fits 12 x 24, which is 6 x 12 patches. Of 12 rows of pixels, 1 is padding on top.
    # 5 rows of patches hold the picture, so that no row is removed: (6 - 5) // 2 = 0.
    inputs = padded([[1] + [P] * (36 + 6 * 13) + [3, 4]])
    inputs |= {"pixel_values": pixels(1, 3, 3, 12, 12), "image_sizes": torch.tensor([[10, 24]])}
    found = layout(llava_next(kind), inputs)
    [whole, tiled] = found.sequences[0]
    assert (whole.grid, whole.keys, whole.box) == ((6, 6), span(1, 36), (0, 0, 24, 10))
    assert (tiled.view, tiled.grid, tiled.size) == ("tiles", (6, 12), (10, 24))
    assert tiled.keys == tuple(n for row in range(6) for n in span(37 + 13 * row, 12))
    assert tiled.box == (0, -1, 24, 11)
    assert found.words == ((0, 115, 116),)


def test_rows_of_padding_are_removed_by_llava_next():
    # A picture of 12 x 36 pixels fits 12 x 36. One of 5 x 24 pixels fits 12 x 24: int(5 * 12 / 24) = 2 rows of patches
    # hold it, and (6 - 2) // 2 = 2 rows are removed on either side. (12 - 5) // 2 = 3 rows of pixels were added on top.
    inputs = padded([[1] + [P] * (36 + 6 * 19) + [3] + [P] * (36 + 2 * 13)])
    values = pixels(2, 4, 3, 12, 12)
    inputs |= {"pixel_values": values, "image_sizes": torch.tensor([[12, 36], [5, 24]])}
    [_, wide, _, flat] = layout(llava_next(), inputs).sequences[0]
    assert (wide.grid, wide.box) == ((6, 18), (0, 0, 36, 12))
    assert (flat.picture, flat.grid, flat.box) == (1, (2, 12), (0, 1, 24, 5))
    assert flat.keys == (*span(1 + 150 + 1 + 36, 12), *span(1 + 150 + 1 + 36 + 13, 12))


def test_onevision_resizes_many_patches_and_cuts_only_single_pictures():
    # 18 x 18 patches are more than 1.1 times 6 x 6 along a side: int(18 // 3) = 6.
    model = llava_next("LlavaOnevision", vision_aspect_ratio="anyres_max_1")
    inputs = padded([[1] + [P] * (36 + 6 * 7) + [3]])
    inputs |= {"pixel_values": pixels(1, 10, 3, 12, 12), "image_sizes": torch.tensor([[36, 36]])}
    [_, tiled] = layout(model, inputs).sequences[0]
    assert (tiled.grid, tiled.keys[6], tiled.box) == ((6, 6), 37 + 7, (0, 0, 36, 36))
    inputs = padded([[1] + [P] * 37 + [3] + [P] * 37 + [4]])
    inputs |= {"pixel_values": pixels(2, 1, 3, 12, 12), "image_sizes": torch.tensor([[36, 36], [9, 5]])}
    found = layout(model, inputs | {"batch_num_images": torch.tensor([2])})
    assert grids(found) == [[(0, "whole", (6, 6), span(1, 36)), (1, "whole", (6, 6), span(39, 36))]]


def test_query_tokens_of_blip2_have_no_place_and_its_cross_attention_has():
    model = blip2()
    inputs = padded([[P] * 4 + [1, 3, 4]]) | {"pixel_values": pixels(1, 3, 12, 12)}
    with regard.capture(model, tokenizer=spelled) as seen, torch.no_grad():
        model(**inputs)
    assert seen[-1].pictures.sequences == ((),)
    with pytest.raises(ArgumentError, match="Q-Former"):
        seen.picture_map("w3")
    crossed = seen.by(kind="cross")
    found = crossed.picture_map(2, layer=1, head=1)
    weights = crossed[1].map.weights()[0, 1, 2, 1:].reshape(6, 6)  # the class token is no patch
    assert found.patches.grid == (6, 6)
    assert torch.allclose(torch.from_numpy(found.weights).float(), weights, atol=1e-6)


def test_a_family_without_known_layout_says_so():
    from transformers import CLIPVisionConfig, LlamaConfig, VipLlavaConfig, VipLlavaForConditionalGeneration

    from support.vision_language_models import TEXT, VISION, made

    config = VipLlavaConfig(
        vision_config=CLIPVisionConfig(**VISION),
        text_config=LlamaConfig(**TEXT),
        image_token_index=P,
        vision_feature_layers=[-1, -2],
    )
    model = made(VipLlavaForConditionalGeneration, config)
    inputs = padded([[1] + [P] * 36 + [3]]) | {"pixel_values": pixels(1, 3, 12, 12)}
    found = layout(model, inputs)
    assert found.sequences == ((),)
    assert "vipllava is not known" in str(found.unplaced)
    with regard.capture(model) as seen, torch.no_grad():
        model(**inputs)
    with pytest.raises(ArgumentError, match="vipllava is not known"):
        seen.picture_map(37)


def test_patches_of_the_vision_tower_of_qwen_are_not_labelled_with_words():
    inputs = two_qwen_pictures()
    assert inputs["input_ids"].shape[1] == 24  # as many as the first picture has patches
    with regard.capture(qwen(), tokenizer=spelled) as seen, torch.no_grad():
        seen._capture.model(**inputs)
    assert [record.key_tokens for record in seen.by(name="visual")] == [None] * 6


@pytest.mark.parametrize("make", [llava, qwen], ids=["llava", "qwen"])
def test_pictures_stay_in_place_while_tokens_are_generated(make):
    if make is llava:
        rows = [[1] + [P] * 36 + [3, 4], [1] + [P] * 36 + [5]]
        inputs = padded(rows, "left") | {"pixel_values": pixels(2, 3, 12, 12)}
    else:
        inputs = two_qwen_pictures("left")
    model = make()
    with regard.capture(model, tokenizer=spelled) as seen, torch.no_grad():
        model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    before = layout(model, inputs)
    n = inputs["input_ids"].shape[1]
    found = [record for record in seen if record.pictures is not None]
    assert len(found) == 2
    for record in found:
        assert record.map.shape[2:] == (n + 3, n + 3)
        assert record.pictures.sequences == before.sequences
        assert record.pictures.words == tuple((*words, n, n + 1, n + 2) for words in before.words)


def test_beams_share_the_pictures_of_their_prompt():
    model = llava()
    rows = [[1] + [P] * 36 + [3, 4], [1] + [P] * 36 + [5]]
    inputs = padded(rows, "left") | {"pixel_values": pixels(2, 3, 12, 12)}
    with regard.capture(model, tokenizer=spelled) as seen, torch.no_grad():
        output = model.generate(
            **inputs, max_new_tokens=4, min_new_tokens=4, num_beams=3, return_dict_in_generate=True
        )
    with pytest.raises(CaptureError, match=r"use seen.follow\(output\)"):
        seen.picture_maps(layer=1)
    followed = seen.follow(output)
    assert followed.picture_map("w3", layer=1).weights.shape == (6, 6)
    layouts = [record.pictures for record in followed if record.pictures is not None]
    assert [[one.keys for one in row] for row in layouts[-1].sequences] == [[span(1, 36)], [span(2, 36)]]


def test_keys_from_before_the_capture_are_said_to_be_unknown():
    model = llava()
    with torch.no_grad():
        cache = model(input_ids=torch.tensor([[1, 3]]), use_cache=True).past_key_values
    inputs = {"input_ids": torch.tensor([[1] + [P] * 36 + [3]]), "pixel_values": pixels(1, 3, 12, 12)}
    found = layout(model, inputs | {"past_key_values": cache})
    assert found.sequences == ((),)
    assert "before the capture" in str(found.unplaced)


def test_a_second_picture_in_a_later_step_is_the_next_picture():
    model = llava()
    first = {"input_ids": torch.tensor([[1] + [P] * 36 + [3]]), "pixel_values": pixels(1, 3, 12, 12)}
    second = {"input_ids": torch.tensor([[4] + [P] * 36]), "pixel_values": pixels(1, 3, 12, 12)}
    with regard.capture(model) as seen, torch.no_grad():
        cache = model(**first, use_cache=True).past_key_values
        model(**second, past_key_values=cache)
    found = next(record.pictures for record in seen if record.pictures is not None)
    assert grids(found) == [[(0, "whole", (6, 6), span(1, 36)), (1, "whole", (6, 6), span(39, 36))]]
    assert found.words == ((0, 37, 38),)


def test_records_with_pictures_are_saved_and_loaded(tmp_path):
    model = qwen()
    with regard.capture(model, tokenizer=spelled) as seen, torch.no_grad():
        model(**two_qwen_pictures())
    seen.save(tmp_path / "seen.safetensors")
    again = Recording.load(tmp_path / "seen.safetensors")
    assert [record.pictures for record in again] == [record.pictures for record in seen]
    assert again[-1].pictures.sequences[0][1].grid == (5, 2)
    words = again.by(name="language_model").words(batch=1)
    assert grids(words[0].pictures) == [[(2, "whole", (1, 4), span(1, 4))]]
