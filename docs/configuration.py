"""What the presets are."""

# %% presets
import torch

from qkv import Transformer
from qkv.model.presets import PRESETS

print(f"{'preset':16}{'kind':16}{'width':>6}{'layers':>7}{'heads':>6}{'context':>8}{'weights':>13}  mixer")
for name, config in PRESETS.items():
    with torch.device("meta"):  # counted, not made
        weights = sum(p.numel() for p in Transformer(config).parameters())
    sizes = f"{config.width:6}{config.n_layer:7}{config.n_head:6}{config.context:8}{weights:13,}"
    print(f"{name:16}{config.kind:16}{sizes}  {config.mixer}")
