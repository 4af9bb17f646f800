"""Tests of reading one picture, right or with a clear error."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.errors import ArgumentError, FileError, MissingExtraError, RegardError, ShapeError
from regard.images import read_header, read_image
from regard.images.reading import on_ground

H, W = 3, 5
COLORS = np.arange(H * W * 3, dtype=np.uint8).reshape(H, W, 3) * 5
GREY = np.arange(H * W, dtype=np.uint8).reshape(H, W) * 17


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_colours_grey_and_arrays_give_the_same_pixels(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(Image.fromarray(COLORS)))
    for source in (path, str(path), path.read_bytes(), Image.fromarray(COLORS), COLORS):
        np.testing.assert_array_equal(read_image(source), COLORS)
    for source in (encoded(Image.fromarray(GREY)), GREY, GREY[..., None], GREY / 255, GREY.astype(np.int64)):
        np.testing.assert_array_equal(read_image(source), GREY[..., None])


def test_channels_convert_as_pillow_does():
    grey = np.asarray(Image.fromarray(COLORS).convert("L"), dtype=int)
    assert np.abs(read_image(COLORS, channels=1)[..., 0].astype(int) - grey).max() <= 1
    np.testing.assert_array_equal(read_image(GREY, channels=3), np.stack([GREY] * 3, axis=-1))
    with pytest.raises(ArgumentError, match="channels: expected 1, 3 or None, got 4"):
        read_image(COLORS, channels=4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(COLORS), exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(read_image(data), expected)
    header = read_header(data)
    assert (header.height, header.width) == expected.shape[:2] == ((W, H) if orientation > 4 else (H, W))


def test_transparent_pixels_are_put_on_white():
    # Black: opaque, half transparent, transparent.
    half = np.zeros((1, 3, 4), dtype=np.uint8)
    half[0, :, 3] = (255, 128, 0)
    expected = np.repeat([[[0], [127], [255]]], 3, axis=2)
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(half))), expected)
    np.testing.assert_array_equal(read_image(half), expected)
    grey = encoded(Image.fromarray(half).convert("LA"))
    np.testing.assert_array_equal(read_image(grey), expected[..., :1])
    palette = Image.fromarray(np.array([[0, 1]], dtype=np.uint8), "L").convert("P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    data = encoded(palette, transparency=1)
    np.testing.assert_array_equal(read_image(data), [[[10, 20, 30], [255, 255, 255]]])


def test_transparent_pixels_are_put_on_a_given_background():
    half = np.full((1, 3, 4), 200, dtype=np.uint8)
    half[0, :, 3] = (255, 128, 0)
    np.testing.assert_array_equal(read_image(half, background=[0])[0, :, 1], [200, 100, 0])
    colours = read_image(half, background=[0, 100, 255])
    np.testing.assert_array_equal(colours[0, 2], [0, 100, 255])
    grey = encoded(Image.fromarray(half).convert("LA"))
    np.testing.assert_array_equal(read_image(grey, background=[0])[0, :, 0], [200, 100, 0])
    np.testing.assert_array_equal(read_image(grey, background=[255, 0, 0])[0, 2], [76])  # the grey of red
    np.testing.assert_array_equal(read_image(COLORS, background=[0]), COLORS)


def test_sixteen_bits_are_scaled_to_eight():
    deep = np.array([[0, 257, 65535], [128, 32896, 65278]], dtype=np.uint16)
    data = encoded(Image.fromarray(deep))
    expected = [[0, 1, 255], [0, 128, 254]]
    np.testing.assert_array_equal(read_image(data)[..., 0], expected)
    np.testing.assert_array_equal(read_image(deep)[..., 0], expected)


def test_integers_of_32_bits_up_to_255_are_bytes():
    shallow = np.array([[0, 7, 255], [128, 64, 1]], dtype=np.int32)
    data = encoded(Image.fromarray(shallow), "TIFF")
    np.testing.assert_array_equal(read_image(data)[..., 0], shallow)
    deep = encoded(Image.fromarray(shallow * 257), "TIFF")
    np.testing.assert_array_equal(read_image(deep)[..., 0], shallow)
    dark = encoded(Image.fromarray(shallow.astype(np.uint16)))  # a PNG of 16 bits, almost black
    assert read_image(dark).max() == 1


def test_cmyk_and_two_colours_are_converted():
    ink = Image.new("CMYK", (W, H), (0, 255, 255, 0))  # red
    red = read_image(encoded(ink, "JPEG", quality=100))
    assert red.shape == (H, W, 3)
    assert (red[..., 0] > 240).all()
    assert (red[..., 1:] < 15).all()
    black = np.array([[True, False]])
    np.testing.assert_array_equal(read_image(encoded(Image.fromarray(black)))[..., 0], [[255, 0]])


def test_the_first_frame_of_an_animation_is_read_with_a_warning():
    frames = [Image.new("L", (4, 4), value) for value in (10, 200)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="has 2 frames: the first one is used"):
        image = read_image(data)
    assert (image == 10).all()


def broken_sources() -> dict[str, tuple[bytes, str]]:
    photo = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)))
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return {
        "truncated": (photo[: len(photo) // 2], "truncated or damaged"),
        "text": (b"no picture at all", "is no picture"),
        "bomb": (bomb + photo[33:], "claims more than 64,000,000 pixels"),
        "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture"),
    }


@pytest.mark.parametrize("kind", broken_sources())
def test_files_that_are_no_pictures_are_a_clear_error(kind, tmp_path):
    data, problem = broken_sources()[kind]
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(FileError, match=rf"photo: .*a\.png .*{problem}"):
        read_image(path, argument="photo")
    with pytest.raises(FileError, match=problem):
        read_image(data)


def test_missing_and_empty_files_and_other_values_are_a_clear_error(tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    for source, problem in (
        (tmp_path / "none.png", "no file"),
        (tmp_path / "empty.png", "is empty"),
        (tmp_path, "Is a directory"),
        (7, "expected a path, bytes, a Pillow image or an array, got int"),
    ):
        with pytest.raises(FileError, match=problem):
            read_image(source)
    for array, problem in (
        (np.zeros((3, 8, 8)), r"got \(3,8,8\): put the channels last with transpose\(1, 2, 0\)"),
        (np.zeros((2, 2, 5)), r"with 1 to 4 channels, got \(2,2,5\)"),
        (np.zeros((0, 2)), r"got \(0,2\)"),
    ):
        with pytest.raises(ShapeError, match=problem):
            read_image(array)
    for array in (np.array([[-1.0]]), np.array([[300]]), np.array([[np.nan]])):
        with pytest.raises(ArgumentError, match="expected pixels from 0 to"):
            read_image(array)


def test_the_limit_of_pixels_can_be_lowered():
    with pytest.raises(RegardError, match="claims more than 14 pixels"):
        read_image(encoded(Image.fromarray(GREY)), max_pixels=H * W - 1)
    assert read_image(encoded(Image.fromarray(GREY)), max_pixels=H * W).shape == (H, W, 1)


def test_without_pillow_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[images\]'"):
        read_image(b"anything")
    assert read_image(GREY).shape == (H, W, 1)  # an array needs no Pillow


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (struct.error("unpack requires a buffer"), r"error\('unpack requires a buffer'\)"),
        (KeyError(65281), r"KeyError\(65281\)"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError"),
        (EOFError(), "EOFError"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_of_any_type_in_a_decoder_names_the_file(error, told, tmp_path, monkeypatch):
    path = tmp_path / "a.gif"
    path.write_bytes(encoded(Image.fromarray(GREY), "GIF"))

    def load(image):
        raise error

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    with pytest.raises(FileError, match=f"source: {path} is truncated or damaged: {told}"):
        read_image(path)


@pytest.mark.parametrize(
    ("edge", "background", "inverted"),
    [
        (255, [0], True),
        (140, [20], True),
        (0, [250], True),
        (100, [0], False),
        (255, [250], False),
        (255, [120], False),  # the edges of photos
        (255, None, False),
    ],
)
def test_a_picture_on_the_other_ground_than_the_training_pictures_is_inverted(edge, background, inverted):
    picture = np.full((11, 7, 1), edge, dtype=np.uint8)
    picture[3:7, 2:4] = (edge + 128) % 256
    picture[0, 0] = (edge + 128) % 256  # one of the pixels at the edges
    turned, found = on_ground(picture, background)
    assert found == inverted
    np.testing.assert_array_equal(turned, 255 - picture if inverted else picture)


def test_a_picture_with_edges_of_both_kinds_or_with_colours_is_not_inverted():
    picture = np.full((10, 10, 3), 255, dtype=np.uint8)
    assert not on_ground(picture, [0, 0, 0])[1]  # one colour has no ground
    picture[4:6, 4:6] = 190
    assert on_ground(picture, [0, 0, 0])[1]
    assert not on_ground(picture * np.array([1, 1, 0], dtype=np.uint8), [0, 0, 0])[1]
    picture[:, :4] = 0
    assert not on_ground(picture, [0, 0, 0])[1]
