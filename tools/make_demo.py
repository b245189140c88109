"""Make the date translator that ships with qkv: train it, store its best weights in float16, print its accuracy.

    .venv/bin/python tools/make_demo.py

Takes a few minutes on two cores and writes src/qkv/demo/dates.
"""

import json
import shutil
import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file

from qkv.disk.run_folder import fingerprint
from qkv.formats.model_files import load
from qkv.generation.decoding import translate
from qkv.text import date_pair
from qkv.train.run import start

DEMO = Path(__file__).resolve().parent.parent / "src" / "qkv" / "demo" / "dates"
SIZES = dict(width=64, n_head=4, n_layer=2, steps=1500, batch=64, eval_every=250)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = start("translate", out=Path(folder) / "run", changes=SIZES)
        state = run.train(lambda line: print(line) if "val_loss" in line else None)
        best = run.folder / "checkpoints" / f"{state['best_step']:06d}"
        shutil.rmtree(DEMO, ignore_errors=True)
        checkpoint = DEMO / "checkpoints" / best.name
        checkpoint.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(run.folder / name, DEMO / name)
        save_file(
            {k: v.half() for k, v in load_file(best / "model.safetensors").items()}, checkpoint / "model.safetensors"
        )
        state_json = {"step": state["best_step"], "best_step": state["best_step"], "best_loss": state["best_loss"]}
        state_json["files"] = {"model.safetensors": fingerprint(checkpoint / "model.safetensors")}
        (checkpoint / "state.json").write_text(json.dumps(state_json) + "\n", encoding="utf-8")
    model, tokenizer = load(DEMO)
    pairs = [date_pair(99, i, "unseen") for i in range(1000)]
    predictions = translate(model, tokenizer, [source for source, _ in pairs])
    right = sum(a == b for a, (_, b) in zip(predictions, pairs, strict=True))
    size = sum(file.stat().st_size for file in DEMO.rglob("*") if file.is_file())
    print(f"{DEMO}: {size / 1e3:.0f} kB, {right / 10:.1f} % of 1,000 unseen dates exactly right")


if __name__ == "__main__":
    main()
