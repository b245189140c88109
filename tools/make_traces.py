"""Make the traces that ship with qkv (src/qkv/demo/traces), from the real models: `qkv see --demo` shows them offline.

    qkv models get smollm2 minilm opus-zh-en && python tools/make_traces.py

Float16 and without the output projections, so that each stays below 0.7 MB.
"""

from dataclasses import replace
from pathlib import Path

import qkv

CAT = "The cat sat on the mat because it was tired"
ANIMAL = "The animal didn't cross the street because it was too tired"
WEATHER = "今天天气真好，我想出去玩"
TRACES = {
    "cat-smollm2": ("smollm2", CAT),
    "animal-smollm2": ("smollm2", ANIMAL),
    "cat-minilm": ("minilm", CAT),
    "animal-minilm": ("minilm", ANIMAL),
    "weather-opus-zh-en": ("opus-zh-en", WEATHER),
}
FOLDER = Path(__file__).parent.parent / "src" / "qkv" / "demo" / "traces"


def main() -> None:
    """Trace each sentence once."""
    loaded: dict[str, tuple] = {}
    for name, (model, text) in TRACES.items():
        if model not in loaded:
            loaded[model] = qkv.load(model)
        found = qkv.trace(loaded[model][0], text, loaded[model][1], name=model)
        file = FOLDER / f"{name}.safetensors"
        replace(found, outputs={}).save(file, half=True)
        print(f"{file.name}: {found!r}, {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
