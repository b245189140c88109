"""Make the traces that ship with qkv (src/qkv/demo/traces) from real models: `qkv see --demo` shows them offline.

    qkv models get smollm2 minilm opus-zh-en minimind && python tools/make_traces.py

Float16 and without output projections, so that each is below 0.7 MB. Those of OPENINGS also store the cell that the studio
opens and the next words. `python tools/make_traces.py --first` only makes the first responses of `qkv studio`.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import qkv
from qkv.generation.sampling import Sampling
from qkv.studio import openable, requests
from qkv.studio.frames import frame
from qkv.studio.handlers import HANDLERS, Job, next_words
from qkv.studio.loaded_models import LoadedModels
from qkv.studio.requests import ViewSpec
from qkv.studio.text_views import TextView
from qkv.studio.worker_client import FIRST, pack_responses

CAT = "The cat sat on the mat because it was tired"
ANIMAL = "The animal didn't cross the street because it was too tired"
FUN = "我喜欢玩人工智能，因为它很有趣"  # where 它 looks at 人工智能: layer 5, head 2
WEATHER = "今天天气真好，我想出去玩"
TRACES = {
    "cat-smollm2": ("smollm2", CAT),
    "animal-smollm2": ("smollm2", ANIMAL),
    "cat-minilm": ("minilm", CAT),
    "animal-minilm": ("minilm", ANIMAL),
    "weather-opus-zh-en": ("opus-zh-en", WEATHER),
    "fun-minimind": ("minimind", FUN),
}
OPENINGS = {
    "cat-smollm2": ("it", "cat"),
    "fun-minimind": ("它", "人工智能"),
}
FOLDER = Path(__file__).parent.parent / "src" / "qkv" / "demo" / "traces"


def main() -> None:
    """Trace each sentence, then store the responses to the studio's first requests."""
    loaded: dict[str, tuple] = {}
    for name, (model, text) in TRACES.items() if "--first" not in sys.argv else ():
        if model not in loaded:
            loaded[model] = qkv.load(model)
        trace = qkv.trace(loaded[model][0], text, loaded[model][1], name=model, logits=name in OPENINGS)
        if "logits" in trace.more:
            trace = replace(trace, more=trace.more | {"words": words(trace, *loaded[model])})
            del trace.more["logits"]
        if name in OPENINGS:
            trace.more["opening"] = opening(trace, *OPENINGS[name])
        file = FOLDER / f"{name}.safetensors"
        replace(trace, outputs={}).save(file, half=True)
        print(f"{file.name}: {trace!r}, {file.stat().st_size / 1e6:.2f} MB")
    FIRST.write_bytes(pack_responses(dict(map(response_to, first_requests()))))
    print(f"{FIRST.name}: {FIRST.stat().st_size / 1e6:.2f} MB")


def words(trace: Any, model: Any, tokenizer: Any) -> str:
    """Return the next words after a trace's text, as the studio shows them."""
    logits = trace.more["logits"][0]
    view = TextView(ViewSpec(openable.OpenableFile("", "", False, "", 0)), model, tokenizer)
    return json.dumps(next_words(logits[-1], view, len(logits) - 1, Sampling(1.0), 10, None))


def opening(trace: Any, query_word: str, key_word: str) -> str:
    """Return the head with the largest weight between two words, and their positions."""
    layer, head, _ = trace.find(query_word, key_word, most=1)[0]
    at = dict(part="decoder", item=0, layer=layer, head=head)
    return json.dumps(at | dict(query=trace.place(query_word), key=trace.place(key_word)))


def first_requests() -> list[dict[str, Any]]:
    """Return the requests for the shipped trace and its first head."""
    spec = {"model": openable.FIRST}
    return [
        {"do": "view", "spec": spec},
        {"do": "head", "spec": spec, "part": "decoder", "layer": 13, "item": 0, "head": 8},
    ]


def response_to(fields: dict[str, Any]) -> tuple[str, bytes]:
    """Return the cache key of a request, and the worker's response."""
    request = requests.parse(fields, lambda name: openable.find(name, []))
    frames: list[bytes] = []

    def send(*parts: Any, hold: bool = False) -> None:
        frames.append(frame(*parts))

    HANDLERS[request.do](Job(LoadedModels(lambda event: None), send, lambda: True, True), request)
    return request.cache_key(), b"".join([*frames, frame({"kind": "done"})])


if __name__ == "__main__":
    main()
