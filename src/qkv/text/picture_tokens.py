"""A small black-and-white picture as a text, so that a translator can caption it.

16 × 32 pixels are 8 × 16 patches of 2 × 2, and each of the 16 possible patches has a sign: ▘ ▞ ▟ █ …, with · for the
empty patch. The text is a letter for the language of the caption, then the 128 signs column by column. The objects of
a picture are side by side, so tokens that are near in the text are near in the picture, as an encoder with a window
needs.
"""

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..i18n import Problem, quoted

ROWS, COLUMNS = 8, 16  # patches: a square for each of two objects
SIGNS = "·▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"  # by bits: 1 top left, 2 top right, 4 bottom left, 8 bottom right
LANGUAGE_SIGNS = {"en": "E", "zh": "中"}
MAX_BYTES = 50_000_000  # of a file
MAX_PIXELS = 25_000_000  # a few kilobytes can unpack to gigabytes
KINDS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")  # others run external programs: EPS runs Ghostscript
WIDEST = 1 / 6  # gap between objects, as a share of the height
FAINT = 0.15  # smaller differences from the background (black to white is 1) are not ink


def read(file: str | Path) -> np.ndarray:
    """Return the picture of a file in shades of grey, 0 black to 1 white; transparent pixels are white."""
    from matplotlib import image
    from PIL import Image

    path = Path(file)
    if not path.is_file():
        raise Problem("there is no picture {file}", file=path)
    if path.stat().st_size > MAX_BYTES:
        raise Problem("{file} is not a readable picture: {why}", file=path, why=f"> {MAX_BYTES / 1e6:.0f} MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # larger pictures are refused below
            with Image.open(path, formats=KINDS) as opened:
                wide, tall = opened.size  # known before decoding
        pixels = np.asarray(image.imread(path, format="its own")) if wide * tall <= MAX_PIXELS else None
    except Exception as error:  # decoders raise many kinds of errors
        raise Problem("{file} is not a readable picture: {why}", file=path, why=quoted(error)) from None
    if pixels is None:
        why = f"{wide} × {tall} > {MAX_PIXELS:,}"
        raise Problem("{file} is not a readable picture: {why}", file=path, why=why)
    return grey(pixels)


def grey(pixels: ArrayLike) -> np.ndarray:
    """Return the shades of grey of decoded pixels, (height, width) or (height, width, channels), integers or 0 to 1.

    >>> grey(np.uint8([[[255, 0, 0, 255], [0, 0, 0, 0]]])).round(2).tolist(), grey(np.uint16([[0, 65535]])).tolist()
    ([[0.3, 1.0]], [[0.0, 1.0]])
    """
    table = np.asarray(pixels)
    table = table.astype(np.float64) / (np.iinfo(table.dtype).max if table.dtype.kind == "u" else 1.0)
    if table.ndim == 2:
        return table
    shades = table[..., :3] @ [0.299, 0.587, 0.114] if table.shape[-1] > 2 else table[..., 0]
    opaque = table[..., -1] if table.shape[-1] in (2, 4) else 1.0
    return shades * opaque + 1.0 - opaque


def crop(shades: np.ndarray) -> np.ndarray:
    """Return the drawing cropped, as ink from 0 (background, the median of the edges) to 1 (largest difference).

    The result is at least twice as wide as tall: background is added beside narrow drawings; `downscale` squeezes wider
    ones. Wide gaps between objects are narrowed.
    """
    edges = np.concatenate([shades[0], shades[-1], shades[:, 0], shades[:, -1]])
    ink = np.abs(shades - np.median(edges))
    most = float(ink.max())
    if not most > FAINT:
        raise Problem("the picture is empty: it has a single colour")
    ink = ink / most
    rows, columns = (np.flatnonzero((ink > 0.5).any(axis)) for axis in (1, 0))
    inside = _narrow_gaps(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    tall, wide = inside.shape[0], max(COLUMNS * inside.shape[0] // ROWS, inside.shape[1])
    tall, wide = tall + -(-tall // 8), wide + -(-wide // 8)  # leaves a margin of a pixel in the small picture
    sheet = np.zeros((tall, wide))
    first_row, first_column = (tall - inside.shape[0]) // 2, (wide - inside.shape[1]) // 2
    sheet[first_row : first_row + inside.shape[0], first_column : first_column + inside.shape[1]] = inside
    return sheet


def _narrow_gaps(ink: np.ndarray) -> np.ndarray:
    """Narrow gaps between objects to WIDEST of the height.

    >>> _narrow_gaps(np.array([[1.0] + [0.0] * 9 + [1.0]] * 12))[0].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    column = np.arange(ink.shape[1])
    last_ink = np.maximum.accumulate(np.where((ink > 0.5).any(0), column, 0))
    return ink[:, column - last_ink <= max(int(WIDEST * len(ink)), 1)]


def downscale(sheet: np.ndarray) -> np.ndarray:
    """Return 16 × 32 pixels, True where the mean ink under a pixel is large enough."""
    tall, wide = sheet.shape
    shares = _shares(2 * ROWS, tall) @ sheet @ _shares(2 * COLUMNS, wide).T
    return shares > 0.45 * shares.max()


def _shares(n_cells: int, n: int) -> np.ndarray:
    """Return the share (n_cells, n) of each of n pixels in each of n_cells cells, times n_cells / n."""
    ends = np.arange(n_cells + 1) * n / n_cells
    begins = np.arange(n)
    under = np.minimum(ends[1:, None], begins + 1) - np.maximum(ends[:-1, None], begins)
    return under.clip(0) * n_cells / n


def signs(pixels: np.ndarray) -> str:
    """Return 16 × 32 pixels as 128 signs, column by column.

    >>> corner = np.zeros((16, 32), bool)
    >>> corner[:3, :3] = True
    >>> signs(corner)[:2], signs(corner)[8:10], len(signs(corner))
    ('█▀', '▌▘', 128)
    """
    table = pixels.astype(int)
    bits = table[::2, ::2] + 2 * table[::2, 1::2] + 4 * table[1::2, ::2] + 8 * table[1::2, 1::2]
    return "".join(SIGNS[i] for i in bits.T.ravel())


def to_grid(shares: np.ndarray) -> np.ndarray:
    """Arrange values of signs, (…, 128), as on the picture, (…, 8, 16)."""
    return shares.reshape(*shares.shape[:-1], COLUMNS, ROWS).swapaxes(-1, -2)


def source(pixels: np.ndarray, lang: str) -> str:
    """Return the input of the captioner: the letter of the caption's language, then the picture."""
    return LANGUAGE_SIGNS[lang] + signs(pixels)
