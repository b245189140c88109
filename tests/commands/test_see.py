"""`qkv see`, `qkv models`, `qkv chat` and `qkv steps --model` as a person meets them, on what ships with the package."""

import errno
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from qkv.cli import main
from qkv.i18n import Message, Problem
from qkv.library import packages, store
from qkv.tracing.views.traces import Trace

DATES = str(Path(__file__).parents[2] / "src" / "qkv" / "demo" / "dates")
TRACES = Path(DATES).parent / "traces"
CAT = "The cat sat on the mat because it was tired"


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command; gives (exit code, what it printed, what it complained)."""
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments):
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_demo_shows_the_textbook_head(call):
    code, out, _ = call("see", "--demo")
    assert code == 0
    assert re.search(r"^ +13\.8 +0\.80", out, re.MULTILINE)
    row = next(line for line in out.splitlines() if line.startswith("▸"))
    shipped = Trace.load(TRACES / "cat-smollm2.safetensors").row(13, 8, "it")
    assert row.split()[2:5] == [f"{w:.2f}"[1:] for w in shipped[:3]] and row.split()[3] == ".80"
    assert "wrote" not in out


@pytest.mark.parametrize(
    ("name", "layer", "head", "query", "key", "weight"),
    [
        ("cat-smollm2", 13, 8, "it", "cat", 0.80),
        ("animal-smollm2", 13, 8, "it", "animal", 0.75),
        ("animal-minilm", 5, 11, "it", "animal", 0.65),
        ("animal-minilm", 2, 1, "it", "tired", 0.69),
        ("fun-minimind", 5, 2, "它", "人工智能", 0.86),
    ],
)
def test_shipped_traces_show_documented_links(name, layer, head, query, key, weight):
    recorded = Trace.load(TRACES / f"{name}.safetensors")
    assert recorded.row(layer, head, query)[recorded.place(key)] == pytest.approx(weight, abs=0.006)


def test_shipped_traces_are_small():
    files = sorted(TRACES.glob("*.safetensors"))
    assert len(files) == 6 and all(file.stat().st_size <= 700_000 for file in files)


def test_without_the_model_the_shipped_trace_is_used(call):
    code, out, _ = call("see", CAT, "--from", "it", "--to", "cat")
    assert code == 0 and "ships with qkv" in out and "qkv models get smollm2" in out and "13.8   0.80" in out
    code, out, err = call("see", "Another sentence that nobody traced")
    assert code == 2 and "qkv models get smollm2" in err
    code, out, err = call("see", "另一句话", "--lang", "zh")
    assert code == 2 and "qkv models get opus-zh-en" in err


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("failure", "phrase"),
    [
        (
            Problem(
                "{what} could not be fetched: {why}",
                what="smollm2",
                why=Message(
                    "{host} cannot be reached ({why}); go online and try again, or use a file of your own",
                    host="index.test",
                    why="timed out",
                ),
            ),
            {"en": "cannot be reached", "zh": "连不上软件源"},
        ),
        (OSError(errno.ENOSPC, "No space left on device"), {"en": "the disk is full", "zh": "磁盘"}),
    ],
    ids=["no network", "a full disk"],
)
def test_after_a_failed_download_the_shipped_trace_is_used_with_the_reason(call, monkeypatch, lang, failure, phrase):
    """`make run` on a machine without network shows its picture all the same."""

    def fail(*_):
        raise failure

    monkeypatch.setattr(packages, "download", fail)
    code, out, err = call("see", CAT, "--from", "it", "--to", "cat", "--yes", "--lang", lang)
    assert code == 0 and phrase[lang] in out.splitlines()[0] and "13.8   0.80" in out
    # What is fetched is packed: its size is said beside the one that `qkv models` lists, not instead of it.
    sizes = {
        "en": "smollm2 (93 MB packed, 98 MB on the disk, once)",
        "zh": "smollm2（压缩包 93 MB，解开后占 98 MB，只需一次）",
    }
    assert sizes[lang] in err
    code, out, err = call("see", "Another sentence", "--yes", "--lang", lang)
    assert code == 2 and not out


def test_a_translator_shows_which_source_word_each_target_attends_to(call):
    code, out, _ = call("see", "15 Nov 2026", "--model", DATES, "--cross")
    assert code == 0 and "15 Nov 2026 → 2026-11-15" in out
    rows = [line.split() for line in out.splitlines() if re.match(r" +[-0-9■] ", line) and "·" in line]
    assert [row[0] for row in rows] == [*"2026-11-15", "■"]


def test_pictures_pages_and_traces_are_written(call, tmp_path):
    code, out, _ = call(
        *("see", "15 Nov 2026", "--model", DATES, "--from", "N", "--to", "v"),
        *("--png", str(tmp_path / "a.png"), "--save", str(tmp_path / "a.safetensors"), "-o", str(tmp_path / "a.html")),
    )
    assert code == 0 and (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    again = Trace.load(tmp_path / "a.safetensors")
    assert again.parts == ["encoder", "decoder", "cross"]
    code, second, _ = call("see", "--trace", str(tmp_path / "a.safetensors"), "--from", "N", "--to", "v")
    links = [text.split("Heads that")[1].split("Σ")[0] for text in (out, second)]
    assert code == 0 and links[0] == links[1] and "N" in links[0]


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["see"], "give a text"),
        (["see", " "], "give a text"),
        (["see", "x", "--file", "y"], "give the text in one way"),
        (["see", "--file", "nothing.txt"], "nothing.txt"),
        (["see", "15 Nov", "--model", DATES, "--layer", "9"], "no layer 9"),
        (["see", "15 Nov", "--model", DATES, "--head", "9"], "no head 9"),
        (["see", "15 Nov", "--model", DATES, "--from", "z"], "z is not a token"),
        (["see", "15 Nov 15", "--model", DATES, "--from", "5"], "occurs 2 times"),
        (["see", "--trace", "nothing.safetensors"], "there is no trace"),
        (["see", "--watch"], "--model RUN"),
        (["see", "--watch", "--model", DATES], "recorded no attention"),
        (["see", "--demo", "--part", "cross"], "no part cross"),
        (["see", "--demo", "--without", "13.8"], "needs the model itself"),
        (["see", "x", "--model", "nothing/here"], "nothing/here"),
        (["importance", "x"], "say which model"),
        (["importance", "--model", DATES], "give a text"),
        (["importance", "15", "--model", DATES, "--top", "0"], "--top"),
        (["see", "15", "--model", DATES, "--png", "a.txt"], "should end in"),
        (["chat", " ", "--model", "smollm2"], "give a text"),
        (["importance", "--file", "nothing.txt", "--model", DATES], "nothing.txt"),
        (["see", "--syntax"], "say which model"),
        (["see", "--syntax", "nothing.conllu", "--model", DATES], "nothing.conllu"),
        (["models", "get"], "needs a name"),
        (["models", "get", "smollm"], "smollm2"),
        (["models", "show", "smollm2"], "qkv models get smollm2"),
        (["chat", "hello"], "qkv models get smollm2"),
        (["chat", "hello", "--model", DATES], "needs one of kind decoder"),
        (["generate", "The", "--model", "smollm2"], "qkv models get smollm2"),
        (["steps", "x y", "--layer", "1"], "--layer goes with --model"),
        (["steps", "x y", "--model", DATES, "--mask", "causal"], "--mask doesn't go with --model"),
        (["steps", "15", "--model", DATES, "--layer", "7"], "no layer 7"),
    ],
    ids=lambda p: " ".join(map(str, p))[:60] if isinstance(p, list) else "",
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_mistakes_get_a_sentence_and_exit_2(call, lang, arguments, phrase):
    code, _, err = call(*arguments, "--lang", lang)
    assert code == 2 and "Traceback" not in err, err
    if lang == "en":
        assert phrase in err
    else:
        assert re.search("[一-鿿]", err) and "此说明只有英文" not in err and "系统报告" not in err


def test_a_layout_that_qkv_does_not_know_is_traced_through_transformers(call, tmp_path):
    import torch
    from transformers import Gemma2Config, Gemma2ForCausalLM

    from qkv.text import Bytes

    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, head_dim=8)
    torch.manual_seed(0)
    theirs = Gemma2ForCausalLM(Gemma2Config(vocab_size=256, num_key_value_heads=2, **sizes))
    theirs.save_pretrained(tmp_path / "gemma")
    Bytes.make().save(tmp_path / "gemma")
    code, out, err = call(
        "see", "a cat sat", "--model", str(tmp_path / "gemma"), "--layer", "1", "--head", "3", "--from", "8"
    )
    assert code == 0, err
    assert "2 layers × 4 heads on 9 tokens" in out
    theirs.set_attn_implementation("eager")
    weights = theirs.eval()(torch.tensor([list(b"a cat sat")]), output_attentions=True).attentions[1][0, 3, 8]
    table = out.split("strongest keys first:")[1].split("Σ")[0].strip().splitlines()[1:]
    assert [float(line.split()[-1]) for line in table] == pytest.approx(
        sorted(weights.tolist(), reverse=True), abs=6e-4
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model whose attention can't be listened to, one where only layers 1 and 4 attend, one made of two BERTs, and none."""
    import torch
    import transformers

    from qkv.text import Bytes

    sizes = dict(vocab_size=256, hidden_size=24, num_attention_heads=3)
    bert = transformers.BertConfig(**sizes, num_hidden_layers=1, intermediate_size=30)
    two = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(bert, bert)
    two.decoder_start_token_id, two.pad_token_id, two.eos_token_id = 1, 0, 2
    jamba = dict(
        num_hidden_layers=6, intermediate_size=48, num_key_value_heads=1, attn_layer_period=3, attn_layer_offset=1
    )
    torch.manual_seed(0)
    models = {
        "bloom": transformers.BloomForCausalLM(
            transformers.BloomConfig(vocab_size=256, hidden_size=24, n_layer=2, n_head=3)
        ),
        "jamba": transformers.JambaForCausalLM(transformers.JambaConfig(**sizes | jamba | dict(hidden_size=48))),
        "two": transformers.EncoderDecoderModel(two),
        "mamba": transformers.MambaForCausalLM(
            transformers.MambaConfig(vocab_size=256, hidden_size=24, num_hidden_layers=1)
        ),
    }
    root = tmp_path_factory.mktemp("theirs")
    for name, model in models.items():
        model.save_pretrained(root / name)
        Bytes.make().save(root / name)
    return root


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "words", "phrase"),
    [
        ("bloom", [], "BloomAttention.*--eager"),
        ("jamba", ["--layer", "0"], "0 .*1[,、] ?4$"),
        ("mamba", [], "MambaModel"),
        ("mamba", ["--eager"], "output_attentions"),
        ("bloom", ["--eager", "--without", "1.1"], "BloomAttention"),
    ],
)
def test_untraceable_models_get_a_sentence(call, folders, lang, name, words, phrase):
    code, _, err = call("--lang", lang, "see", "a cat sat", "--model", str(folders / name), *words)
    assert code == 2 and re.search(phrase, err.strip()) and "Traceback" not in err
    assert (lang == "zh") == bool(re.search("[一-鿿]", err))


def test_weights_that_a_model_gives_itself(call, folders, tmp_path):
    more = ["-o", str(tmp_path / "p.html"), "--save", str(tmp_path / "t.safetensors"), "--patterns", "--from", "8"]
    code, out, err = call("see", "a cat sat", "--model", str(folders / "bloom"), "--eager", *more)
    assert code == 0 and "decoder: 2 layers × 3 heads on 9 tokens" in out, err
    assert "kept whole, as the model gives them: 0.0 MB for 9 tokens" in err
    assert "aren't there (--eager)" in out and "q·k" not in out
    code, again, err = call("see", "--trace", str(tmp_path / "t.safetensors"), "--from", "8")
    assert code == 0 and "aren't there (--eager)" in again, err


def test_layers_that_attend_are_named(call, folders, tmp_path):
    where = ["--model", str(folders / "jamba")]
    code, out, err = call(
        "see", "a cat sat", *where, "-o", str(tmp_path / "p.html"), "--save", str(tmp_path / "t.safetensors")
    )
    assert code == 0 and "in these layers alone: 1, 4." in out and re.search("decoder layer [14], head", out), err
    code, out, err = call("see", "--trace", str(tmp_path / "t.safetensors"), "--layer", "4", "--head", "2")
    assert code == 0 and "decoder layer 4, head 2" in out, err


def test_an_encoder_decoder_of_two_models_has_three_parts(call, folders):
    for part in ("encoder", "decoder", "cross"):
        code, out, err = call("see", "a cat sat", "--model", str(folders / "two"), "--part", part)
        assert code == 0 and "1 layers × 3 heads" in out, err


def test_a_folder_never_runs_its_own_code_nor_draws_missing_weights(call, tmp_path, monkeypatch):
    from safetensors.torch import load_file, save_file
    from transformers import OPTConfig, OPTModel

    from qkv.text import Bytes

    sizes = dict(vocab_size=256, hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2)
    folder = tmp_path / "opt"
    OPTModel(OPTConfig(word_embed_proj_dim=16, max_position_embeddings=64, **sizes)).save_pretrained(folder)
    Bytes.make().save(folder)
    code, _, err = call("see", "a cat", "--model", str(folder))
    assert code == 0, err
    weights = load_file(folder / "model.safetensors")
    remaining = {name: tensor for name, tensor in weights.items() if "layers.1." not in name}
    save_file(remaining, folder / "model.safetensors", {"format": "pt"})
    code, _, err = call("see", "a cat", "--model", str(folder))
    assert code == 2 and "layers.1." in err
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.E", "AutoModel": "evil.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    code, _, err = call("see", "a cat", "--model", str(folder))
    assert code == 2 and not (tmp_path / "ran").exists(), err


def test_a_row_of_cross_attention_matches_its_label(call):
    import qkv

    model, tokenizer = qkv.load(DATES)
    recorded = qkv.trace(model, "15 Nov 2026", tokenizer)
    assert recorded.tokens("cross").shown == [*"2026-11-15", "■"]
    assert recorded.tokens("decoder").shown[1:] == [*"2026-11-15"]
    code, out, _ = call("see", "15 Nov 2026", "--model", DATES, "--cross", "--layer", "1", "--head", "0", "--from", "6")
    row = next(line.split()[1:] for line in out.splitlines() if re.match(r" +6 ", line) and "·" in line)
    true = recorded.row(1, 0, "6", part="cross")
    assert code == 0 and [0 if w == "·" else float(w) for w in row] == pytest.approx(true.round(2).tolist(), abs=0.011)


def test_what_a_tokenizer_of_transformers_makes_can_be_traced():
    import torch

    import qkv
    from qkv import Config, Transformer

    model = Transformer(Config(vocab=40, width=16, n_layer=1, n_head=2))
    padded = {"input_ids": torch.tensor([[3, 1, 4], [1, 5, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    recorded, same = qkv.trace(model, padded), qkv.trace(model, [[3, 1, 4], [1, 5]])
    np.testing.assert_array_equal(recorded.map(0, 1, batch=1), same.map(0, 1, batch=1))
    np.testing.assert_array_equal(
        qkv.trace(model, np.array([3, 1, 4])).map(0, 1), qkv.trace(model, [3, 1, 4]).map(0, 1)
    )
    for wrong in ([999], [-3]):
        with pytest.raises(ValueError, match="token"):
            qkv.trace(model, wrong)


def test_models_are_listed_with_size_licence_and_layout(call):
    code, out, _ = call("models")
    assert code == 0
    for item in store.listing("model"):
        assert (
            item.name in out
            and item.licence in out
            and item.credit in out
            and item.layout in out
            and f"qkv models get {item.name}" in out
        )
    assert {item.name for item in store.listing("model")} == {"smollm2", "minilm", "opus-zh-en", "minimind"}
    code, out, _ = call("models", "show", DATES)
    assert code == 0 and "cross" in out and "Tokenizer: Characters" in out


def test_steps_of_a_model_are_its_own_numbers(call):
    import qkv

    code, out, _ = call("steps", "15 Nov", "--model", DATES, "--layer", "1", "--head", "2", "--json")
    assert code == 0
    content = json.loads(out)
    model, tokenizer = qkv.load(DATES)
    true = qkv.trace(model, "15 Nov", tokenizer).map(1, 2)
    np.testing.assert_allclose(content["weights"], true, atol=1e-6)


def test_watching_a_run(call, tmp_path):
    from qkv.train import run as runs

    book = tmp_path / "book.txt"
    book.write_text("the cat sat on the mat and the dog sat on the cat\n" * 60)
    small = dict(width=32, n_layer=2, n_head=4, steps=6, batch=4, context=16, eval_every=2)
    training_run, run = (
        runs.start("lm", out=tmp_path / "run", source=str(book), changes=small, watch="the cat sat"),
        str(tmp_path / "run"),
    )
    for lang, phrase in (("zh", "第一次评估在第 2 步"), ("en", "the first at step 2")):
        code, _, err = call("see", "--model", run, "--watch", "--lang", lang)
        assert code == 2 and phrase in err and "recorded no attention" not in err
    training_run.train()
    code, out, _ = call("see", "--model", run, "--watch", "--layer", "1", "--png", str(tmp_path / "g.png"))
    assert code == 0 and "step 2" in out and "step 6" in out and (tmp_path / "g.png").exists()
    assert "the first, the middle and the last" not in out  # all three are there
    (tmp_path / "run" / "watch" / "000006 copy.safetensors").write_text("not a trace, and not the run's")
    shutil.copy(tmp_path / "run" / "watch" / "000006.safetensors", tmp_path / "run" / "watch" / "000008.safetensors")
    code, out, _ = call("see", "--model", run, "--watch", "--layer", "1")
    assert code == 0 and "over 4 evaluations" in out and "the first, the middle and the last" in out
    (tmp_path / "run" / "watch" / "000008.safetensors").unlink()
    last_trace = Trace.load(tmp_path / "run" / "watch" / "000006.safetensors")
    code, out, _ = call("see", "--model", run, "--watch", "--layer", "1", "--head", "3", "--from", "8", "--to", "0")
    weights = [float(line.split()[1]) for line in out.splitlines() if re.match(r" +[246]  0\.", line)]
    assert code == 0 and len(weights) == 3
    assert weights[-1] == pytest.approx(float(last_trace.row(1, 3, 8)[0]), abs=0.006)


@pytest.mark.parametrize(
    ("lang", "phrase"),
    [
        ("en", "SmolLM2 is causal (decoder): cat cannot look ahead to it, which comes later; swap --from and --to"),
        ("zh", "SmolLM2 是因果模型（解码器）：cat 看不到排在后面的 it；请把 --from 和 --to 对调"),
    ],
)
def test_a_link_to_a_later_token_of_a_causal_model_is_explained(call, tmp_path, lang, phrase):
    """Instead of a list of heads that all give 0; on the page and over a run, too."""
    shipped = Trace.load(TRACES / "cat-smollm2.safetensors")
    phrase = phrase.replace("SmolLM2", shipped.model)
    ahead = ("--from", "cat", "--to", "it", "--lang", lang)
    code, out, _ = call("see", "--demo", *ahead, "-o", str(tmp_path / "a.html"))
    assert code == 0 and out.count(phrase) == 1 and not re.search(r"^ +\d+\.\d+ +0\.00", out, re.MULTILINE)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert json.loads(re.search('id="qkv-header">(.*?)</script>', page)[1])["focus"] is None
    (tmp_path / "run" / "watch").mkdir(parents=True)
    shipped.save(tmp_path / "run" / "watch" / "000010.safetensors")
    code, out, _ = call("see", "--model", str(tmp_path / "run"), "--watch", *ahead)
    assert code == 0 and out.count(phrase) == 1 and not re.search(r"^ +10  0\.00", out, re.MULTILINE)
    _, out, _ = call("see", "--demo", "--from", "it", "--to", "cat", "--lang", lang)
    assert phrase not in out and "13.8" in out


def test_an_encoder_looks_ahead(call):
    code, out, _ = call("see", "--trace", str(TRACES / "animal-minilm.safetensors"), "--from", "it", "--to", "tired")
    assert code == 0 and "Heads that link it to tired" in out and "causal" not in out


def test_mixers_cannot_look_ahead(call, tmp_path):
    import qkv

    model = qkv.Transformer(qkv.Config(vocab=9, width=16, n_layer=2, n_head=2, mixer="delta attention"))
    qkv.trace(model, [3, 1, 4], name="small").save(tmp_path / "a.safetensors")
    for part in ("mixers", "decoder"):
        command = ("see", "--trace", str(tmp_path / "a.safetensors"), "--part", part)
        code, out, _ = call(*command, "--from", "1", "--to", "2")
        assert code == 0 and "small is causal" in out
        assert "Heads that link 2 to 1" in call(*command, "--from", "2", "--to", "1")[1]


@pytest.mark.parametrize(("count", "phrase"), [(1, "at the only evaluation so far:"), (2, "over 2 evaluations:")])
def test_a_single_evaluation_has_its_own_title(call, tmp_path, count, phrase):
    (tmp_path / "run" / "watch").mkdir(parents=True)
    for step in range(count):
        shutil.copy(TRACES / "cat-smollm2.safetensors", tmp_path / "run" / "watch" / f"{step:06}.safetensors")
    code, out, _ = call("see", "--model", str(tmp_path / "run"), "--watch")
    assert code == 0 and phrase in out


def test_importance_ranks_heads_by_what_the_loss_loses(call, tmp_path):
    keep = str(tmp_path / "kept.jsonl")
    code, out, err = call("importance", "15 Nov 2026", "--model", DATES, "--top", "24", "--keep", keep)
    assert code == 0, err
    rows = re.findall(r"^  ([\w-]+) +(\d)\.(\d) +([-+][0-9.]+)", out, re.MULTILINE)
    changes = [float(change) for *_, change in rows]
    assert len(rows) == 24 and changes == sorted(changes, reverse=True) and changes[0] > 0.01
    again = call("importance", "15 Nov 2026", "--model", DATES, "--top", "24", "--keep", keep)
    assert again[1] == out


def test_a_conversation(call, tmp_path, monkeypatch):
    """A tiny GPT with a chat template: what it says is noise, but the template, the turns and the speed are real."""
    from qkv.train import run as runs

    book = tmp_path / "book.txt"
    book.write_text("user: hello there\nassistant: good day\n" * 60)
    small = dict(width=32, n_layer=1, n_head=4, steps=2, batch=4, context=128, eval_every=2)
    runs.start("lm", out=tmp_path / "run", source=str(book), changes=small).train()
    run = str(tmp_path / "run")
    code, _, err = call("chat", "hello", "--model", run)
    assert code == 2 and "no chat template" in err
    file = tmp_path / "run" / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config["chat_template"] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    file.write_text(json.dumps(config))
    code, out, err = call("chat", "hello there", "--model", run, "--most", "5")
    assert code == 0 and out.strip() and re.search(r"28 prompt tokens in .* tokens/s\) · 5 new ones", err), err
    assert "a model this small" in err
    seeded = call("chat", "hello there", "--model", run, "--most", "5", "--quiet", "--seed", "7")
    assert seeded[1] == out  # the likeliest each time, whatever the seed
    again = call("chat", "hello there", "--model", run, "--most", "5", "--quiet")
    assert again[1] == out and not again[2]
    lines = iter(["hello there", "", "and you", "/new", "hello there", "/quit", "never read"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    code, out, err = call("chat", "--model", run, "--most", "5")
    prompts = [int(n) for n in re.findall(r"(\d+) prompt tokens", err)]
    assert code == 0 and len(prompts) == 3 and prompts[0] == prompts[2] < prompts[1] and next(lines) == "never read"
    code, _, err = call("chat", "hello " * 40, "--model", run, "--most", "5")
    assert code == 2 and "shorten it" in err
    lines = iter(["hello there", "hello " * 40, "hello there", "/quit"])
    code, out, err = call("chat", "--model", run, "--most", "5")
    assert code == 0 and "shorten it" in err and err.count("prompt tokens") == 2  # one question too long ends nothing
    code, out, err = call("generate", "hello " * 40, "--model", run, "--most", "5")
    assert code == 2 and "fills the context of 128" in err and not out
    assert "这么小的模型" in call("chat", "hello", "--model", run, "--most", "1", "--lang", "zh")[2]


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory):
    """The trace of a small model that reads bytes, as a file."""
    import torch

    from qkv import Config, Transformer
    from qkv.text import Bytes
    from qkv.tracing.record.recorder import trace

    torch.manual_seed(0)
    tokenizer = Bytes.make()
    recorded = trace(
        Transformer(Config(vocab=tokenizer.vocab, width=32, n_layer=2, n_head=4)), "我爱北京 ok", tokenizer
    )
    file = tmp_path_factory.mktemp("bytes") / "bytes.safetensors"
    recorded.save(file)
    return str(file)


def rows_of(out):
    """The map's rows: label and cells."""
    lines = [line[2:].split() for line in out.splitlines() if re.match(r"[▸ ] +\S+ +(\.\d\d|1\.0|·)", line)]
    return {line[0]: line[1:] for line in lines}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_parts_of_characters_are_joined(call, bytewise, lang):
    code, out, err = call("see", "--trace", bytewise, "--from", "京", "--to", "我", "--lang", lang)
    assert code == 0 and "<E" not in out, err
    rows = rows_of(out)
    assert list(rows) == ["我", "爱", "北", "京", "␣", "o", "k"] and all(len(cells) == 7 for cells in rows.values())
    assert "▸" in next(line for line in out.splitlines() if re.match(r"[▸ ] +京 ", line))
    layer, head, weight = re.search(r"(\d)\.(\d) +(0\.\d\d)", out).groups()
    table = Trace.load(bytewise).map(int(layer), int(head))
    assert float(weight) == pytest.approx(table[9:12, :3].sum(1).mean(), abs=0.006)
    assert rows["京"][0] == weight[1:]
    assert "京₃" in out and "--tokens" in out  # the steps are those of its last token


def test_tokens_as_they_are(call, bytewise):
    code, out, _ = call("see", "--trace", bytewise, "--tokens", "--from", "京", "--to", "我")
    rows = rows_of(out)
    assert code == 0 and list(rows)[:4] == ["我₁", "我₂", "我₃", "爱₁"] and len(rows) == 15
    assert "joined" not in out
    assert call("see", "--trace", bytewise, "--tokens", "--words")[0] == 2


def test_words_have_a_mark_too(call, bytewise):
    code, out, _ = call("see", "--trace", bytewise, "--words", "--from", "ok", "--to", "我")
    assert code == 0 and list(rows_of(out)) == ["我", "爱", "北", "京", "ok"] and re.search("^▸ ok", out, re.MULTILINE)


@pytest.mark.parametrize(("most", "cut"), [(3, True), (10, True), (11, False)])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_truncated_translation_is_reported(call, most, cut, beam):
    date = ("translate", "15 Nov 2026", "--model", DATES, "--most", str(most), "--beam", str(beam))
    code, out, err = call(*date)
    assert code == 0 and out.strip() == "2026-11-15"[:most]
    assert (f"1 cut after {most} tokens" in err and "--most" in err) == cut == bool(err)
    _, _, err = call(*date, "--lang", "zh")
    assert (f"{most} 个词元处截断" in err) == cut


def test_a_truncated_translation_is_reported_with_its_map(call, monkeypatch, tmp_path):
    date = ("see", "15 Nov 2026", "--model", DATES, "--cross")
    assert "cut" not in call(*date)[1]
    monkeypatch.setattr("qkv.tracing.record.native_model.MAX_TARGET", 4)
    trace_file = str(tmp_path / "a.safetensors")
    for out in (call(*date, "--save", trace_file)[1], call("see", "--trace", trace_file, "--cross", "--lang", "en")[1]):
        assert "after 4 tokens" in out and "■" not in out and list(rows_of(out))[-1] == "…"
    assert "4 个词元" in call(*date, "--lang", "zh")[1]


def test_layers_that_did_not_fit_into_the_page_are_named(call, monkeypatch, tmp_path):
    from qkv.draw import page

    whole = (TRACES / "cat-smollm2.safetensors", "-o", tmp_path / "a.html")
    code, out, _ = call("see", "--trace", *map(str, whole), "--layer", "2", "--head", "1")
    assert code == 0 and "overview" not in out
    size = (tmp_path / "a.html").stat().st_size
    monkeypatch.setitem(page.html.__kwdefaults__, "limit", size // 2)
    code, out, _ = call("see", "--trace", *map(str, whole), "--layer", "2", "--head", "1")
    match = re.search(r"of the 30 decoder layers in full: ([\d, ]+)\.", out)
    assert code == 0 and match and "asked for" not in out
    header = json.loads(re.search('id="qkv-header">(.*?)</script>', (tmp_path / "a.html").read_text("utf-8"))[1])
    complete = [i for i, layer in enumerate(header["parts"][0]["layers"]) if layer["q"] is not None]
    assert [int(i) for i in match[1].split(",")] == complete and 2 in complete and len(complete) < 30
    monkeypatch.setitem(page.html.__kwdefaults__, "limit", 1)
    code, out, _ = call("see", "--trace", *map(str, whole), "--layer", "2", "--head", "1", "--lang", "zh")
    assert code == 0 and "第 2 层放不进网页" in out and "任何一层" in out


def test_the_page_opens_at_the_head_that_the_terminal_shows(call, tmp_path):
    for more in (["--layer", "1", "--head", "2"], ["--cross"], ["--from", "N", "--to", "v"]):
        code, out, _ = call("see", "15 Nov 2026", "--model", DATES, "-o", str(tmp_path / "a.html"), *more)
        part, layer, head = re.search(r"^(\w+)\S* layer (\d), head (\d)", out, re.MULTILINE).groups()
        header = json.loads(re.search('id="qkv-header">(.*?)</script>', (tmp_path / "a.html").read_text("utf-8"))[1])
        first = header["first"]
        assert code == 0 and (first["part"], first["layer"], first["head"]) == (part, int(layer), int(head))
    assert (first["query"], first["key"]) == (3, 5)  # N and v


@pytest.fixture
def untouched(monkeypatch):
    """No model may read a text, and nothing may be written."""

    def never(*_, **__):
        raise AssertionError("work was done before the refusal")

    for name in ("qkv.tracing.record.recorder.trace", "qkv.draw.page.page", "qkv.tracing.views.traces.Trace.survey"):
        monkeypatch.setattr(name, never)


EARLY = {
    "--without 9.8": "no layer 9",
    "--without 0.9": "no head 9",
    "--without cross.x": "names no head",
    "--layer 9": "no layer 9",
    "--head 9 -o a.html": "no head 9",
    "--part cross --layer 7": "no layer 7",
    "--to v": "--from WORD",
    "--cross --part encoder": "--cross doesn't go with --part encoder",
    "-o folder.html": "that is a folder",
    "--save missing/file.txt/a.safetensors": "not a folder",
    "--trace a.safetensors": "--trace doesn't go with a text",
    "--demo": "ships with qkv",
    "--watch": "--watch doesn't go with a text",
    "--syntax": "--syntax doesn't go with a text",
}


@pytest.mark.parametrize("words", EARLY)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_impossible_options_are_refused_before_the_work(call, untouched, tmp_path, monkeypatch, lang, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / "file.txt").touch()
    model = [] if words == "--demo" else ["--model", DATES]
    code, _, err = call("see", "15 Nov 2026", *model, *words.split(), "--lang", lang)
    assert code == 2 and "Traceback" not in err
    assert EARLY[words] in err if lang == "en" else re.search("[一-鿿]", err)


ALONE = {
    "--watch": "--patterns,--without 0.1,--save a.safetensors,--demo,--trace a.safetensors,--text a.txt,--from x",
    "--trace a.safetensors": "--model m,--text a.txt,--without 0.1",
    "--demo": "--model m,--text a.txt,--without 0.1,--trace a.safetensors",
    "--syntax": "--from x,--to x,--layer 0,--head 0,--part cross,--cross,--words,--tokens,-o a.html,--png a.png,--patterns",
}


@pytest.mark.parametrize(
    ("option", "rival"), [(option, rival) for option, others in ALONE.items() for rival in others.split(",")]
)
def test_conflicting_options_are_refused_not_ignored(call, untouched, tmp_path, monkeypatch, option, rival):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("see", *option.split(), *rival.split())
    assert code == 2 and not out
    assert "go with" in err or "model itself" in err or "--to" in err


def test_a_text_that_no_demo_has_is_not_the_cat(call):
    code, _, err = call("see", "--demo", "A dog")
    assert code == 2 and "A dog" in err
    code, out, _ = call("see", "--demo", CAT)
    assert code == 0 and "13.8" in out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_speaks_as_the_command_did(call, tmp_path, lang):
    code, _, _ = call("see", "15 Nov 2026", "--model", DATES, "-o", str(tmp_path / "a.html"), "--lang", lang)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert code == 0 and f'<html lang="{dict(en="en", zh="zh-CN")[lang]}">' in page
    assert json.loads(re.search('id="qkv-header">(.*?)</script>', page)[1])["lang"] == lang


def test_a_run_that_was_watched_has_a_page_of_its_last_evaluation(call, tmp_path):
    import shutil
    from dataclasses import replace

    run = tmp_path / "run"
    shutil.copytree(DATES, run)
    (run / "watch").mkdir()
    recorded = Trace.load(TRACES / "cat-smollm2.safetensors")
    for step in (10, 200):
        replace(recorded, model="run", more={**recorded.more, "step": step}).save(
            run / "watch" / f"{step:06}.safetensors"
        )
    code, out, err = call("see", "--model", str(run), "--watch", "-o", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text("utf-8")
    assert code == 0 and "last evaluation, step 200" in out and "wrote" in out, err
    assert "<title>run · step 200</title>" in page
    layer, head = re.search(r"How layer (\d+), head (\d+) formed", out).groups()
    first = json.loads(re.search('id="qkv-header">(.*?)</script>', page)[1])["first"]
    assert (first["layer"], first["head"]) == (int(layer), int(head))


@pytest.mark.parametrize(("columns", "joined"), [(100, 0), (36, 0), (24, 2), (16, 4)])
def test_a_narrow_terminal_joins_columns(call, monkeypatch, columns, joined):
    """Columns that share a place add up, and it is said how many do; the row's weights still add up to 1."""
    monkeypatch.setenv("COLUMNS", str(columns))
    cat = ("see", "--trace", str(TRACES / "cat-smollm2.safetensors"), "--layer", "13", "--head", "8")
    _, out, _ = call(*cat)
    match = re.search(r"sum of (\d+) neighbouring keys", out)
    assert (int(match[1]) if match else 0) == joined
    _, out, _ = call(*cat, "--lang", "zh")
    assert (f"相邻 {joined} 个键" in out) == bool(joined)


@pytest.mark.parametrize("columns", [140, 100, 60, 20])
def test_a_pooled_map_has_the_cells_of_its_caption(call, monkeypatch, tmp_path, columns):
    """As many rows and columns as what is said of a cell's size makes of the text."""
    import torch

    import qkv

    torch.manual_seed(0)
    model = qkv.Transformer(qkv.Config(vocab=9, width=16, n_layer=1, n_head=2, context=300))
    qkv.trace(model, [i % 9 for i in range(300)]).save(tmp_path / "a.safetensors")
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = call("see", "--trace", str(tmp_path / "a.safetensors"), "--layer", "0", "--head", "0")
    rows, cols = map(int, re.search(r"the mean of (\d+) × (\d+) weights", out).groups())
    drawn = [line for line in out.splitlines() if re.match(r" +\d+( |$)[ ░▒▓█]*$", line)]
    assert [int(line.split()[0]) for line in drawn] == list(range(0, 300, rows))
    assert max(map(len, drawn)) <= columns
    assert 2 * -(-300 // cols) + 6 <= columns
    assert "add up to 1" not in out


def test_numbers_of_a_pooled_map_are_means_of_their_cells(call, monkeypatch, tmp_path):
    import torch

    import qkv

    torch.manual_seed(0)
    model = qkv.Transformer(qkv.Config(kind="encoder-decoder", vocab=9, width=16, n_layer=1, n_head=2, context=130))
    trace = qkv.trace(model, [1, 2, 3, 4, 5], target=[i % 9 for i in range(129)])
    trace.save(tmp_path / "a.safetensors")
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = call("see", "--trace", str(tmp_path / "a.safetensors"), "--cross", "--layer", "0", "--head", "0")
    rows = int(re.search(r"the mean of (\d+) × 1 weights", out)[1])
    drawn = [line.split() for line in out.splitlines() if re.match(r" +\d+( +\.\d\d)+$", line)]
    assert rows > 1 and len(drawn) == -(-129 // rows)
    means = trace.map(0, 0, part="cross")[:rows].mean(0)
    assert [float(number) for number in drawn[0][1:]] == pytest.approx(means, abs=0.0051)


def test_the_note_about_row_sums_is_true(call, tmp_path):
    """Numbers of a row in the terminal, against what is said of them: whole, with a share lost to a sink, and pooled."""
    from dataclasses import replace

    import torch

    recorded = Trace.load(TRACES / "cat-smollm2.safetensors")
    losing = {
        part: [replace(candidate, sinks=torch.full((9,), 9.0)) for candidate in calls]
        for part, calls in recorded.calls.items()
    }
    for candidate, phrase in (
        (recorded, "its numbers add up to 1"),
        (replace(recorded, calls=losing), "what its sink takes"),
    ):
        candidate.save(tmp_path / "a.safetensors")
        _, out, _ = call("see", "--trace", str(tmp_path / "a.safetensors"), "--layer", "13", "--head", "8")
        row = rows_of(out)["tired"]
        total = sum(float(number) for number in row if number not in ("·", "╱╱"))
        assert phrase in out and (abs(total - 1) < 0.05) == (candidate is recorded)


@pytest.fixture(scope="module")
def river(tmp_path_factory):
    """A byte-pair model in which 的河 is one token and 岸 is two or three, and a text with both."""
    import torch

    from qkv import Config, Transformer
    from qkv.formats.hf_export import export
    from qkv.text import train_tokenizer

    tokenizer = train_tokenizer("bpe", ["的河 的河 的河 边 边"] * 20, vocab=268)
    text = "小 的河 岸边 的河的"
    assert "的河" in "|".join(tokenizer.pieces(tokenizer.encode(text))).replace(" ", "").split("|")
    assert "岸" not in "".join(tokenizer.pieces(tokenizer.encode(text)))
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("river") / "model"
    export(Transformer(Config(vocab=tokenizer.vocab, width=32, n_layer=1, n_head=2)), tokenizer, folder)
    return str(folder), text


@pytest.mark.parametrize(("word", "token"), [("岸", "岸₃"), ("岸₁", "岸₁"), ("河#2", "的河"), ("-1", "的₂")])
@pytest.mark.parametrize(
    ("lang", "row", "instead"), [("en", "The row of {}", "used instead"), ("zh", "{} 这一行", "改用")]
)
def test_every_verb_finds_a_word_by_the_same_names(call, river, word, token, lang, row, instead):
    folder, text = river
    for verb, option in (("see", "--from"), ("steps", "--word")):
        code, out, err = call(verb, text, "--model", folder, option, word, "--layer", "0", "--lang", lang)
        assert code == 0, err
        assert row.format(token) in out and "<E5>" not in out
        assert (instead in err) == ("河" in word)


@pytest.mark.parametrize(
    ("lang", "near"), [("en", "whose tokens are: 小, 的河, 岸"), ("zh", "文中的词元有：小、的河、岸")]
)
def test_every_verb_refuses_a_word_alike(call, river, lang, near):
    folder, text = river
    for verb, option in (("see", "--from"), ("steps", "--word")):
        code, _, err = call(verb, text, "--model", folder, option, "海", "--lang", lang)
        assert code == 2 and near in err


def test_a_part_of_a_character_is_ranked_as_a_token_of_its_own(call, river):
    folder, text = river
    see = ("see", text, "--model", folder, "--to", "小₁", "--layer", "0", "--head", "0", "--from")
    first, last, tokens = (
        call(*see, word, *more)[1] for word, more in (("岸₁", ()), ("岸₃", ()), ("岸₃", ["--tokens"]))
    )
    heads = [re.search(r"  0\.0 +(\d\.\d\d)", out)[1] for out in (first, last, tokens)]
    assert heads[1] == heads[2] and last == tokens
    assert "岸₃" in last and first != last


def test_predicted_tokens_are_named_as_in_the_text(river):
    from qkv.formats.open_model import open_any
    from qkv.tracing.study.effects import without

    folder, text = river
    model, tokenizer = open_any(folder)
    words = [word for word, *_ in without(model, tokenizer, text, "0.0", most=268).words]
    assert {"岸₁", "岸₂", "岸₃"} <= set(words) and "<E5>" not in words  # 小 begins with the same byte


@pytest.mark.parametrize(("lang", "note"), [("en", "is a part of a character"), ("zh", "只是一个字的一部分")])
def test_a_predicted_part_of_a_character_is_explained(call, river, lang, note):
    folder, text = river
    code, out, _ = call("see", text, "--model", folder, "--without", "0.0", "--lang", lang)
    table = out.partition("\nWithout 0.0" if lang == "en" else "\n去掉 0.0")[2]
    parts = [line.split()[0] for line in table.splitlines()[2:] if re.match(r"  (<..>|.[₁₂₃] )", line)]
    assert code == 0 and parts
    assert [line.split()[0] for line in table.splitlines() if note in line] == parts


def test_the_map_shows_the_removed_head(call, river):
    folder, text = river
    for more, title in (((), "layer 0, head 1"), (("--head", "0"), "layer 0, head 0")):
        code, out, _ = call("see", text, "--model", folder, "--without", "0.1", *more)
        assert code == 0 and title in out


def test_patterns_name_tokens_as_maps_do(call, river):
    folder, text = river
    code, out, _ = call("see", text, "--model", folder, "--patterns")
    assert code == 0 and "0:小₁" in out and "<E5>" not in out
