"""A tensor that a file holds twice is one tensor only where both are the same: each is changed in turn, and ours says what
transformers says of that file, or refuses it."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from qkv.formats import model_files
from qkv.i18n import Notice, Problem
from tests.formats.test_families import CASES, TRANSLATORS, logits_of, texts, theirs

SHARED = {"encoder.embed_tokens.weight": "shared.weight", "decoder.embed_tokens.weight": "shared.weight"}
BARTS = {f"model.{copy}": f"model.{source}" for copy, source in SHARED.items()}
REPEATS = {
    "smollm, tied": {"lm_head.weight": "model.embed_tokens.weight"},
    "qwen2": {"lm_head.weight": "model.embed_tokens.weight"},
    "gpt2": {"lm_head.weight": "transformer.wte.weight"},
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "roberta": {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    "t5 1.0": SHARED | {"lm_head.weight": "shared.weight"},
    "bart": BARTS | {"lm_head.weight": "model.shared.weight"},
    "mbart": BARTS | {"lm_head.weight": "model.shared.weight"},
    "marian": BARTS | {"lm_head.weight": "model.shared.weight"},
}
POSITION_TABLES = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]


def folder_of(name, folder, change):
    """What transformers writes, after change(tensors); qwen2 is told that it is tied."""
    theirs(name, exact=False, spread=0.5, words=0.2).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | dict(tie_word_embeddings=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {copy: tensor.clone() for copy, tensor in load_file(folder / "model.safetensors").items()}
    if name == "qwen2":
        del tensors["lm_head.weight"]
    change(tensors)
    save_file(
        {copy: tensor.clone() for copy, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    return folder


def ours_of(folder):
    config = json.loads((folder / "config.json").read_text())
    return model_files.build(folder, config, model_files.hf_tensors(folder, torch.float64), torch.float64)


@torch.no_grad()
def both(name, folder):
    """The logits of both."""
    ids = texts(name)[0]
    model = CASES[name].make.from_pretrained(folder, dtype=torch.float64).eval()
    if name in TRANSLATORS:
        return ours_of(folder)(ids.flip(1), ids), model(input_ids=ids, decoder_input_ids=ids.flip(1)).logits
    return ours_of(folder)(ids), logits_of(model(input_ids=ids))


def shifted(tensor):
    return tensor + 0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1), dtype=tensor.dtype)


@pytest.mark.parametrize(("name", "copy"), [(name, copy) for name, copies in REPEATS.items() for copy in copies])
def test_a_copy_that_differs_is_used_and_named(name, copy, tmp_path):
    def change(tensors):
        tensors[copy] = shifted(tensors[REPEATS[name][copy]])
        if copy.endswith("embed_tokens.weight"):  # both sides
            tensors |= dict.fromkeys((c for c in REPEATS[name] if c.endswith("embed_tokens.weight")), tensors[copy])

    with pytest.warns(Notice, match=f"hold.* two that differ .*{copy} ≠ {REPEATS[name][copy]}"):
        ours, expected = both(name, folder_of(name, tmp_path, change))
    assert_close(ours, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", REPEATS)
@pytest.mark.filterwarnings("error::qkv.i18n.Notice")
def test_a_copy_that_is_the_same_is_no_news(name, tmp_path):
    def change(tensors):
        tensors |= {copy: tensors[source].clone() for copy, source in REPEATS[name].items()}

    ours, expected = both(name, folder_of(name, tmp_path, change))
    assert_close(ours, expected, atol=1e-6, rtol=0)
    model = ours_of(tmp_path)
    assert model.config.tied and model.head.weight is model.embedding.weight


@pytest.mark.parametrize("name", REPEATS)
@pytest.mark.filterwarnings("error::qkv.i18n.Notice")
def test_a_copy_stands_in_for_what_it_copies(name, tmp_path):
    def change(tensors):
        for copy, source in REPEATS[name].items():
            if source in tensors:
                tensors[copy] = tensors.pop(source)

    ours, expected = both(name, folder_of(name, tmp_path, change))
    assert_close(ours, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["t5 1.0", "bart", "marian"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_sides_that_read_different_words_are_refused(name, side, tmp_path):
    copy = next(copy for copy in REPEATS[name] if side in copy)

    def change(tensors):
        tensors[copy] = shifted(tensors[REPEATS[name][copy]])

    with pytest.raises(Problem, match="read different word vectors"):
        ours_of(folder_of(name, tmp_path, change))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_marians_sines_are_computed_and_other_positions_are_read(dtype, tmp_path, recwarn):
    def sines(tensors):
        tensors |= {
            name: theirs("marian").model.encoder.embed_positions.weight.detach().to(dtype) for name in POSITION_TABLES
        }

    def others(tensors):
        sines(tensors)
        tensors |= {name: shifted(tensors[name]) for name in POSITION_TABLES[1:]}

    ours, expected = both("marian", folder_of("marian", tmp_path / "sines", sines))
    assert not [warning for warning in recwarn if isinstance(warning.message, Notice)]
    assert_close(ours, expected, atol=1e-6 if dtype.itemsize > 2 else 0.2, rtol=0)
    with pytest.warns(Notice, match="not the sines"):
        ours, expected = both("marian", folder_of("marian", tmp_path / "others", others))
    assert_close(ours, expected, atol=1e-6, rtol=0)
