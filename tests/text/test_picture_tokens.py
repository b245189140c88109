"""A picture becomes 128 signs whatever its size, colours and position; other files are refused."""

import struct
import zlib

import numpy as np
import pytest

from qkv.i18n import Problem
from qkv.text import picture_tokens


def drawn(side=40):
    """A ring in shades of grey, black on white."""
    y, x = np.mgrid[:side, :side] - side / 2 + 0.5
    far = np.hypot(x, y) / side
    return np.where((far > 0.25) & (far < 0.4), 0.0, 1.0)


def pixels(shades):
    return picture_tokens.downscale(picture_tokens.crop(shades))


def test_every_sign_is_its_patch():
    for number, sign in enumerate(picture_tokens.SIGNS):
        patch = np.array([[number & 1, number & 2], [number & 4, number & 8]], bool)
        assert picture_tokens.signs(np.tile(patch, (8, 16))) == sign * 128
    assert len(set(picture_tokens.SIGNS)) == 16


def test_size_position_and_colours_make_no_difference():
    ring = pixels(drawn())
    assert ring.shape == (16, 32) and ring.any() and not ring[7:9, 15:17].any() and not ring[0].any()
    others = {
        "large": np.kron(drawn(), np.ones((5, 5))),
        "chalk": 1 - drawn(),
        "pale": 0.6 + 0.3 * drawn(),
        "aside": np.pad(drawn(), ((3, 30), (50, 1)), constant_values=1.0),
    }
    for name, shades in others.items():
        assert (pixels(shades) != ring).sum() <= 2, name


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[0.0, 1.0]], [[0.0, 1.0]]),
        (np.array([[0, 255]], np.uint8), [[0.0, 1.0]]),
        ([[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]], [[1.0, 0.0]]),
        ([[[0.0, 1.0], [0.0, 0.0]]], [[0.0, 1.0]]),  # grey with transparency
    ],
)
def test_greys(table, expected):
    np.testing.assert_allclose(picture_tokens.grey(table), expected)


def test_files_that_are_not_pictures_are_refused(tmp_path):
    for name, content in (("text.png", b"no picture"), ("empty.png", b""), ("cut.png", b"\x89PNG\r\n\x1a\n\0\0")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Problem, match=f"{name} is not a readable picture"):
            picture_tokens.read(tmp_path / name)
    with pytest.raises(Problem, match="there is no picture"):
        picture_tokens.read(tmp_path / "none.png")
    with pytest.raises(Problem, match="the picture is empty"):
        pixels(np.ones((9, 9)))


def test_a_picture_that_unpacks_to_gigabytes_is_not_unpacked(tmp_path):
    side, kind = 12_000, b"\x01\0\0\0\0"  # a bit for each pixel
    chunks = (
        (b"IHDR", struct.pack(">II", side, side) + kind),
        (b"IDAT", zlib.compress(bytes(side * (1 + side // 8)))),
        (b"IEND", b""),
    )
    raw = b"".join(struct.pack(">I", len(r)) + n + r + struct.pack(">I", zlib.crc32(n + r)) for n, r in chunks)
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + raw)
    assert (tmp_path / "bomb.png").stat().st_size < 30_000
    with pytest.raises(Problem, match="12000 × 12000 > 25,000,000"):
        picture_tokens.read(tmp_path / "bomb.png")


def test_no_program_is_run_for_a_picture(tmp_path):
    """Pillow would hand an EPS to Ghostscript, whatever it is called."""
    (tmp_path / "drawing.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(Problem, match="cannot identify image file"):
        picture_tokens.read(tmp_path / "drawing.png")
