"""What a maker of masks is run with where nothing says what it wants: texts of which the last words are padding."""

import re
from typing import Any

import torch

from ..source.looks import MASKY, NOT_MASKS, speaks_of_masks
from .guess import current_draw

__all__ = ["MASKY", "NOT_MASKS", "Scene", "scenes", "speaks_of_masks"]


class Scene:
    """What a maker is given where nothing says what it wants: texts as ids or as vectors, or their length."""

    def __init__(self, vague: str, pad: int = 0) -> None:
        self.vague, self.pad = vague, pad
        self.lengths = current_draw().lengths
        b, n = len(self.lengths), max(self.lengths)
        self.ids = torch.where(
            torch.arange(n) < torch.tensor(self.lengths)[:, None], torch.arange(10, 10 + b * n).reshape(b, n), pad
        )

    def guess(self, name: str) -> Any:
        low = name.split(".")[-1].lower()
        b, n = self.ids.shape
        if re.search(r"pad", low) and not speaks_of_masks(low):
            return self.pad
        if re.search(r"device", low):
            return torch.device("cpu")
        if re.search(r"dtype", low):
            return torch.float32
        if re.search(r"lens$|lengths$|valid_len", low):
            return torch.tensor(self.lengths)
        if re.search(r"^(b|bs|bsz|batch_?size|n_?batch|nbatch)$", low):
            return b
        if re.search(r"head|^h$|^nh$", low):
            return 4
        if re.search(r"size|len|^(n|t|l|s|m|sz|dim|length)$|ctx|block|max|steps?$|num", low):
            return n
        if self.vague == "number":
            return n
        return self.ids.clone() if self.vague == "ids" else torch.ones(b, n, 8)


def scenes() -> list[Scene]:
    """Padding is most often 0; where a constant of the file says otherwise, one of the others shows it."""
    return [Scene("ids"), Scene("vectors"), Scene("number"), *(Scene("ids", pad) for pad in (1, 2, 3))]
