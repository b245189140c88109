"""Position encodings: without them, attention doesn't know the order of tokens.

They are added to the token embeddings (sinusoidal, learned), rotate q and k (rotary), or are added to the scores (ALiBi,
T5's relative buckets). Positions count from 0. `at` is the position of the first token of a chunk (an int), or of each
token (an int tensor, (N,) or (B, N)), as a cache needs.

B batch, H heads, N queries, M keys, D head width, C model width.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..i18n import Problem, all_of
from .oracle import sinusoid

Positions = int | Tensor  # of the first token, or of each


def token_positions(at: Positions, n: int, device: Any = None) -> Tensor:
    """Return `at` as positions (N,) or (B, N)."""
    if isinstance(at, int):
        return torch.arange(at, at + n, device=device)
    if at.shape[-1] != n:
        raise Problem("positions are {shape} but there are {n} tokens: give one per token", shape=tuple(at.shape), n=n)
    return at


class Sinusoidal(nn.Module):
    """The fixed sines and cosines of "Attention is all you need", added to the word vectors.

    Sine and cosine of a frequency are adjacent; with `halves` all sines come first, then all cosines.

    >>> Sinusoidal(4)(torch.zeros(1, 2, 4)).round(decimals=3).tolist()
    [[[0.0, 1.0, 0.0, 1.0], [0.8410000205039978, 0.5400000214576721, 0.009999999776482582, 1.0]]]
    """

    def __init__(self, width: int, base: float = 10000.0, *, halves: bool = False) -> None:
        super().__init__()
        self.width, self.base, self.halves = width, base, halves
        self._table = torch.zeros(0, width, dtype=torch.float64)

    def forward(self, x: Tensor, at: Positions = 0) -> Tensor:
        if isinstance(at, int):
            last = at + x.shape[-2]
            if last > len(self._table):
                table = torch.from_numpy(sinusoid(max(last, 2 * len(self._table)), self.width, self.base))
                self._table = torch.cat([table[:, 0::2], table[:, 1::2]], -1) if self.halves else table
            return x + self._table[at:last].to(x)
        dtype = torch.float32 if x.device.type == "mps" else torch.float64
        frequencies = self.base ** -(torch.arange(0, self.width, 2, dtype=dtype, device=x.device) / self.width)
        angles = token_positions(at, x.shape[-2])[..., None] * frequencies  # (B, N, ⌈C/2⌉)
        if self.halves:
            return x + torch.cat([angles.sin(), angles.cos()[..., : self.width // 2]], -1).to(x)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., : self.width].to(x)


class Learned(nn.Module):
    """A learned vector per position, added to the word vectors.

    >>> Learned(longest=8, width=4)(torch.zeros(1, 3, 4)).shape
    torch.Size([1, 3, 4])
    >>> Learned(longest=8, width=4)(torch.zeros(1, 9, 4))
    Traceback (most recent call last):
    qkv.i18n.Problem: positions go to 8 but only 8 were learned: shorten the text
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(longest, width) * 0.02)

    def forward(self, x: Tensor, at: Positions = 0) -> Tensor:
        if isinstance(at, int) and at + x.shape[-2] > len(self.table):
            raise Problem(
                "positions go to {last} but only {learned} were learned: shorten the text",
                last=at + x.shape[-2] - 1,
                learned=len(self.table),
            )
        return x + self.table[token_positions(at, x.shape[-2], x.device)]


class Rotary(nn.Module):
    """Rotary positions: rotate each pair of numbers of q and k by an angle proportional to the position.

    The dot product of a rotated q and k depends only on their distance. Lengths don't change, and position 0 is the
    identity. Pairs are (i, i + D/2) as in Hugging Face's LLaMA, or adjacent numbers with `interleaved=True`. `fraction`
    is the share of the head width that is rotated. `scaling` extends a trained model to longer texts, one of
    {"kind": "linear" | "ntk", "factor": f}, {"kind": "yarn", "factor": f, "original": n, …},
    {"kind": "llama3", "factor": f, "low": l, "high": h, "original": n}; or, depending on the length of the text,
    {"kind": "dynamic", "factor": f, "original": n}, {"kind": "longrope", "short": […], "long": […], "original": n}.

    >>> rotary, q, k = Rotary(4), torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)
    >>> [round(float((rotary(q, at=i) * rotary(k, at=i - 2)).sum()), 4) for i in (2, 10, 100)]
    [1.1673, 1.1673, 1.1673]
    >>> rotary(q, at=0).tolist()
    [[[[1.0, 1.0, 1.0, 1.0]]]]
    >>> cos, sin = rotary.table(at=1, n=1, like=q)
    >>> cos.round(decimals=3)
    tensor([[0.5400, 1.0000]])
    """

    def __init__(
        self,
        head_width: int,
        base: float = 10000.0,
        *,
        scaling: dict[str, Any] | None = None,
        fraction: float = 1.0,
        interleaved: bool = False,
    ) -> None:
        super().__init__()
        turned = int(head_width * fraction)
        if turned < 2 or turned % 2:
            raise Problem(
                "rotary turns pairs: {width} × {fraction} is {turned} numbers; it must be even, 2 or more",
                width=head_width,
                fraction=str(fraction),
                turned=turned,
            )
        self.turned, self.interleaved = turned, interleaved
        self.base, self.scaling = base, scaling
        frequencies, self.stretch = rotary_frequencies(turned, base, scaling)
        self.frequencies = tuple(frequencies.tolist())  # for texts within the trained length
        self._memo: tuple[Any, Tensor, Tensor] | None = None
        self._longer: tuple[int, tuple[float, ...]] | None = None

    def at_length(self, length: int) -> tuple[float, ...]:
        """Return the angles per position in a text of this length, which matters for two kinds of scaling.

        Equal angles are the same object, so `is` shows whether they differ between two lengths.

        >>> rotary = Rotary(4, scaling={"kind": "longrope", "short": [1, 1], "long": [1, 2], "original": 8})
        >>> rotary.at_length(8), rotary.at_length(9)
        ((1.0, 0.01), (1.0, 0.005))
        """
        if self.scaling is None or self.scaling["kind"] not in LENGTH_DEPENDENT or length <= self.scaling["original"]:
            return self.frequencies
        longer = length if self.scaling["kind"] == "dynamic" else self.scaling["original"] + 1
        if self._longer is None or self._longer[0] != longer:
            frequencies, _ = rotary_frequencies(self.turned, self.base, self.scaling, longer)
            self._longer = longer, tuple(frequencies.tolist())
        return self._longer[1]

    def forward(self, x: Tensor, at: Positions = 0) -> Tensor:
        """Return x (B, H, N, D) rotated to its positions."""
        cos, sin = self.table(at, x.shape[-2], x)
        turn, rest = x[..., : self.turned], x[..., self.turned :]
        if self.interleaved:
            a, b = turn[..., 0::2], turn[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        else:
            turned = rotate_halves(turn, cos, sin)
        return turned if rest.shape[-1] == 0 else torch.cat([turned, rest], -1)

    def table(self, at: Positions, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin for n tokens, (N, turned/2) or (B, 1, N, turned/2), with dtype and device of `like`."""
        if torch.compiler.is_compiling() or not isinstance(at, int):
            return self._table(at, n, like)
        # The layers of a model share a Rotary and use the same table. A table computed in inference mode can't be saved
        # for backward, so the mode is part of the key.
        key = (at, n, like.dtype, like.device, torch.is_inference_mode_enabled())
        if self._memo is None or self._memo[0] != key:
            self._memo = (key, *self._table(at, n, like))
        return self._memo[1], self._memo[2]

    def _table(self, at: Positions, n: int, like: Tensor) -> tuple[Tensor, Tensor]:
        # float32 is off by 0.006 radians at position 100,000
        dtype = torch.float32 if like.device.type == "mps" else torch.float64
        position = token_positions(at, n, like.device)
        if position.ndim == 2:
            position = position[:, None]  # (B, 1, N)
        per_position = self.frequencies
        if self.scaling is not None and self.scaling["kind"] in LENGTH_DEPENDENT and position.numel():
            per_position = self.at_length(int(position.max()) + 1)
        frequencies = torch.tensor(per_position, dtype=dtype, device=like.device)
        angles = position.to(dtype)[..., None] * frequencies
        return (angles.cos() * self.stretch).to(like.dtype), (angles.sin() * self.stretch).to(like.dtype)


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (i, i + D/2) of x (…, D) by its angle: [a, b] → [a·cos − b·sin, b·cos + a·sin]."""
    if torch.compiler.is_compiling():
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return _RotateHalves.apply(x, cos, sin)


class _RotateHalves(torch.autograd.Function):
    """Rotation written into one tensor; backward is the inverse rotation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _RotateHalves.rotate(x, cos, sin, 1.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        cos, sin = ctx.saved_tensors
        return _RotateHalves.rotate(gradient, cos, sin, -1.0), None, None

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor, sign: float) -> Tensor:
        rotated = torch.empty_like(x)
        (a, b), (c, d) = x.chunk(2, -1), rotated.chunk(2, -1)
        torch.mul(a, cos, out=c).addcmul_(b, sin, value=-sign)
        torch.mul(b, cos, out=d).addcmul_(a, sin, value=sign)
        return rotated


LENGTH_DEPENDENT = ("dynamic", "longrope")  # kinds of scaling that depend on the length of the text


def rotary_frequencies(
    width: int, base: float, scaling: dict[str, Any] | None = None, length: int = 0
) -> tuple[np.ndarray, float]:
    """Return the angle per position of each pair, and the factor of cos and sin (not 1 only for YaRN and LongRoPE)."""
    exponents = np.arange(0, width, 2) / width
    plain = base**-exponents
    if scaling is None:
        return plain, 1.0
    check_scaling(scaling)
    kind = scaling["kind"]
    if kind == "longrope":
        factors = scaling["long" if length > scaling["original"] else "short"]
        if len(factors) != width // 2:
            raise Problem(
                "rotary scaling 'longrope' has {count} factors and {pairs} pairs are turned: give one for each",
                count=len(factors),
                pairs=width // 2,
            )
        return plain / np.array(factors), float(scaling.get("stretch") or 1.0)
    factor = float(scaling["factor"])
    if kind == "dynamic":
        longer = max(length, scaling["original"]) / scaling["original"]
        return (base * (factor * longer - (factor - 1)) ** (width / (width - 2))) ** -exponents, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "ntk":
        return (base * factor ** (width / (width - 2))) ** -exponents, 1.0
    original = scaling["original"]
    if kind == "llama3":
        # Slow pairs (long waves) are stretched, fast pairs are unchanged, those between are blended.
        waves = original * plain / (2 * math.pi)  # rotations of each pair within the original length
        blend = np.clip((waves - scaling["low"]) / (scaling["high"] - scaling["low"]), 0.0, 1.0)
        return (1 - blend) * plain / factor + blend * plain, 1.0

    def pair_turning(times: float) -> float:
        return width * math.log(original / (times * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_turning(scaling.get("fast", 32))), 0)
    high = min(math.ceil(pair_turning(scaling.get("slow", 1))), width - 1)
    ramp = np.clip((np.arange(width // 2) - low) / (high - low or 0.001), 0.0, 1.0)
    stretch = scaling.get("stretch")
    return (1 - ramp) * plain + ramp * plain / factor, 0.1 * math.log(factor) + 1 if stretch is None else stretch


def check_scaling(scaling: dict[str, Any]) -> None:
    """Raise if a scaling is incomplete or its numbers contradict each other.

    >>> check_scaling({"kind": "yarn", "factor": 0.5, "original": 64})
    Traceback (most recent call last):
    qkv.i18n.Problem: rotary scaling 'yarn' has factor = 0.5: give 1 or more
    """
    required: dict[str, tuple[str, ...]] = {
        "linear": ("factor",),
        "ntk": ("factor",),
        "dynamic": ("factor", "original"),
        "yarn": ("factor", "original"),
        "llama3": ("factor", "low", "high", "original"),
        "longrope": ("short", "long", "original"),
    }
    kind = scaling.get("kind")
    if kind not in required:
        raise Problem("rotary scaling {kind} is not one of {known}", kind=repr(kind), known=all_of(required))
    names = required[kind]
    if missing := [name for name in names if name not in scaling]:
        raise Problem("rotary scaling {kind!r} needs {names}", kind=kind, names=all_of(missing))
    names += ("fast", "slow", "stretch") if kind == "yarn" else ("stretch",) if kind == "longrope" else ()
    if unknown := sorted(set(scaling) - {"kind", *names}):
        raise Problem(
            "rotary scaling {kind!r} has no {names}; it takes {known}",
            kind=kind,
            names=all_of(unknown),
            known=all_of(names),
        )
    for name in names:
        value = scaling.get(name, 1.0)
        values = value if name in ("short", "long") and isinstance(value, list) and value else [value]
        positive = all(isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < math.inf for v in values)
        if not positive and not (name == "stretch" and value is None):
            raise Problem(
                "rotary scaling {kind!r} has {name} = {value}: give a number above 0",
                kind=kind,
                name=name,
                value=repr(value),
            )
    # The formulas are invalid below 1.
    if kind in ("yarn", "llama3", "dynamic") and scaling["factor"] < 1:
        raise Problem(
            "rotary scaling {kind!r} has factor = {value}: give 1 or more", kind=kind, value=scaling["factor"]
        )
    ends = {"slow": 1.0, "fast": 32.0, **scaling}
    for low, high in (("low", "high"), ("slow", "fast")):
        if low in names and not ends[low] < ends[high]:
            raise Problem(
                "rotary scaling {kind!r} has {low} = {a} and {high} = {b}: {low} must be below {high}",
                kind=kind,
                low=low,
                high=high,
                a=ends[low],
                b=ends[high],
            )


class ALiBi(nn.Module):
    """A penalty proportional to the distance, with a fixed slope per head, added to the scores.

    >>> ALiBi(2).slopes
    (0.0625, 0.00390625)
    """

    def __init__(self, n_head: int) -> None:
        super().__init__()
        power = 2 ** math.floor(math.log2(n_head))
        slopes = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
        # Not a power of two: the paper adds every other slope of twice as many heads.
        slopes += [2.0 ** (-4 * (2 * h + 1) / power) for h in range(n_head - power)]
        self.slopes = tuple(slopes)

    def bias(
        self, n: int, m: int, at: Positions | None = None, keys: Tensor | None = None, device: Any = None
    ) -> Tensor:
        """Return −slope × distance, (1, H, N, M), or (B, H, N, M) if positions differ per item.

        >>> ALiBi(2).bias(1, 4)[0, 0].tolist()
        [[-0.1875, -0.125, -0.0625, 0.0]]
        """
        distance = _distance(n, m, at, keys, device).abs()
        return -distance * torch.tensor(self.slopes, device=device).reshape(-1, 1, 1)


class Relative(nn.Module):
    """T5's learned bias: a number per head and distance bucket, added to the scores. Near distances have finer buckets.

    >>> relative = Relative(n_head=2)
    >>> relative.bias(3, 3).shape
    torch.Size([1, 2, 3, 3])
    >>> relative_bucket(torch.tensor([[0, -1, -20, -100, 1]]), 32, 128, bidirectional=True).tolist()
    [[0, 1, 10, 15, 17]]
    """

    def __init__(self, n_head: int, buckets: int = 32, longest: int = 128, both_ways: bool = True) -> None:
        super().__init__()
        self.buckets, self.longest, self.both_ways = buckets, longest, both_ways
        self.table = nn.Parameter(torch.randn(buckets, n_head) * 0.02)

    def bias(
        self, n: int, m: int, at: Positions | None = None, keys: Tensor | None = None, device: Any = None
    ) -> Tensor:
        """Return the bias (1, H, N, M), or (B, H, N, M) if positions differ per item."""
        distance = _distance(n, m, at, keys, self.table.device)  # (1 or B, 1, N, M)
        bucket = relative_bucket(distance[:, 0], self.buckets, self.longest, self.both_ways)
        return self.table[bucket].permute(0, 3, 1, 2)


def relative_bucket(distance: Tensor, buckets: int, longest: int, bidirectional: bool) -> Tensor:
    """Return the bucket of key − query position: half hold a single distance, the rest grow up to `longest`."""
    bucket = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        bucket = bucket + (distance > 0) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    log_bucket = torch.log(distance.clamp(min=1).float() / exact) / math.log(longest / exact) * (buckets - exact)
    far = (exact + log_bucket.long()).clamp(max=buckets - 1)
    return bucket + torch.where(distance < exact, distance, far)


def _distance(n: int, m: int, at: Positions | None, keys: Tensor | None, device: Any) -> Tensor:
    """Return key position − query position, (1 or B, 1, N, M); by default queries are the last of the keys."""
    query = token_positions(m - n if at is None else at, n, device)
    key = torch.arange(m, device=device) if keys is None else keys
    distance = key[..., None, :] - query[..., :, None]
    return distance[None, None] if distance.ndim == 2 else distance[:, None]
