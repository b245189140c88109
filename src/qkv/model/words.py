"""The words of Config's choices, as types.

>>> get_args(Norm)
('rms', 'rms-centred', 'layer')
"""

from typing import Literal, get_args

Kind = Literal["decoder", "encoder", "encoder-decoder"]
Position = Literal["none", "sinusoidal", "learned", "rotary", "alibi", "relative"]
Norm = Literal["rms", "rms-centred", "layer"]
NormPlace = Literal["pre", "post", "both"]
Sinusoid = Literal["pairs", "halves"]
Sides = Literal["shared", "own"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "relu2", "swiglu", "geglu", "geglu-tanh", "none"]
Bias = Literal["qkv", "out", "forward", "qkv out", "qkv forward", "out forward"]
Head = Literal["linear", "mlm", "classes", "none"]
Init = Literal["normal", "zero-out", "torch"]
# Of one layer; Config.mixer is a pattern of them.
Mixer = Literal["attention", "latent", "retention", "mamba2", "delta"]
FeedForwardKind = Literal["experts", "dense"]  # of one layer; Experts.layers is a pattern of them
Score = Literal["softmax", "sigmoid"]

# Setting of Config -> its words.
CHOICES: dict[str, tuple[object, ...]] = {
    "kind": get_args(Kind),
    "position": get_args(Position),
    "norm": get_args(Norm),
    "norm_place": get_args(NormPlace),
    "sinusoid": get_args(Sinusoid),
    "sides": get_args(Sides),
    "feed_forward": get_args(Activation),
    "qk_norm": (None, *get_args(Norm)),
    "bias": (True, False, *get_args(Bias)),
    "head": get_args(Head),
    "init": get_args(Init),
}
