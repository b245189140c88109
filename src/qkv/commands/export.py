"""qkv export: write a model as a folder that transformers loads."""

import argparse
from pathlib import Path

from ..i18n import echo, say
from .model_options import open_model

EXAMPLES = ["qkv export runs/lm-mybook --to hf", "qkv export runs/lm-mybook --to hf --out my-model"]


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="RUN", help=say("the folder of a run"))
    add("--to", choices=["hf"], default="hf", help=say("the format: hf, Hugging Face's"))
    add("--out", type=Path, metavar="FOLDER", help=say("where (RUN-hf)"))


def run(options: argparse.Namespace) -> None:
    """Write the folder and print how to load it."""
    model, tokenizer = open_model(options.model, "export")
    from ..formats.hf_export import export

    folder = options.out or Path(str(options.model).rstrip("/") + "-hf")
    layout = export(model, tokenizer, folder)
    ends = {"encoder": "ForMaskedLM", "decoder": "ForCausalLM", "encoder-decoder": "ForSeq2SeqLM"}[model.config.kind]
    ends = {"none": "", "classes": "ForSequenceClassification"}.get(model.config.output.head, ends)
    auto = f"AutoModel{ends}"
    how = f"{auto}.from_pretrained({str(folder)!r})"
    echo("wrote {folder} in the {layout} layout; transformers loads it: {how}", folder=folder, layout=layout, how=how)
