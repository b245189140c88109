"""What a maker of masks is run with where nothing says what it wants: texts of which the last words are padding."""

import re
from typing import Any

import torch

from .made import LENGTHS, N

MASKY = re.compile(r"mask|msk|(^|_)(causal|subsequent|look_?ahead|future|tril|triu)(_|$)|掩码", re.IGNORECASE)


NOT_MASKS = re.compile(
    r"masked_|unmask|loss|crit|acc(uracy)?$|mask_?(id|token|rate|prob|ratio|idx|index)", re.IGNORECASE
)


class Scene:
    """What a maker is given where nothing says what it wants: texts as ids or as vectors, or their length."""

    def __init__(self, vague: str, pad: int = 0) -> None:
        self.vague, self.pad = vague, pad
        ids = torch.arange(10, 10 + len(LENGTHS) * N).reshape(len(LENGTHS), N)
        self.ids = torch.where(torch.arange(N) < torch.tensor(LENGTHS)[:, None], ids, pad)

    def guess(self, name: str) -> Any:
        low = name.split(".")[-1].lower()
        if re.search(r"pad", low) and not speaks_of_masks(low):
            return self.pad
        if re.search(r"device", low):
            return torch.device("cpu")
        if re.search(r"dtype", low):
            return torch.float32
        if re.search(r"lens$|lengths$|valid_len", low):
            return torch.tensor(LENGTHS)
        if re.search(r"^(b|bs|bsz|batch_?size|n_?batch|nbatch)$", low):
            return len(LENGTHS)
        if re.search(r"head|^h$|^nh$", low):
            return 4
        if re.search(r"size|len|^(n|t|l|s|m|sz|dim|length)$|ctx|block|max|steps?$|num", low):
            return N
        if self.vague == "number":
            return N
        return self.ids.clone() if self.vague == "ids" else torch.ones(len(LENGTHS), N, 8)


# Padding is most often 0; where a constant of the file says otherwise, one of the others shows it.
SCENES = [Scene("ids"), Scene("vectors"), Scene("number"), *(Scene("ids", pad) for pad in (1, 2, 3))]


def speaks_of_masks(name: str) -> bool:
    return bool(MASKY.search(name)) and not NOT_MASKS.search(name)
