"""The public interface of qkv: names, signatures, options, keys and formats.

Each test computes a description of one part and compares it with a JSON file in `snapshots/`. A description has names,
types and shapes, but no module paths inside `src/qkv`, so moving a file changes none of them. IMPORTS lists the internal
objects that the tests use: when one of them moves or is renamed, change its line there.

After an intended change, write the files again and read the diff:

    python -m tests.laws.test_snapshots --write           all of them (a minute)
    python -m tests.laws.test_snapshots --write api help  those of the tests whose name contains one of these words
"""

import dataclasses
import importlib
import inspect
import json
import os
import re
import sys
import types
from pathlib import Path

import pytest
import torch

import qkv
from qkv import Config, Transformer
from qkv.cli import VERBS, main
from tests.laws.api_description import describe, describe_module
from tests.laws.file_descriptions import describe_files, describe_frames, page_data, tensors_of, unpack_frames
from tests.laws.model_settings import LAYOUTS, OWN, READ_ONLY, SHARED
from tests.laws.snapshot_files import FOLDER, WRITE, check, differences, group_tensors, load_snapshot, shape

# Tested internals: name here → "module:attribute" in qkv. After a move only this table changes.
IMPORTS = {
    "PRESETS": "qkv.model.presets:PRESETS",  # name → Config
    "preset": "qkv.train.settings:preset",  # (name, task) → (Config, Settings)
    "export": "qkv.formats.hf_export:export",  # (model, tokenizer, folder) writes a Hugging Face folder
    "FAMILIES": "qkv.formats.families:FAMILIES",  # published layouts, each with `types`
    "to_theirs": "qkv.formats.families:to_hf",  # (config, tensors, family) → its config.json and tensors
    "EXPERIMENTS": "qkv.lab:EXPERIMENTS",  # experiments of `qkv lab` by name
    "REQUESTS": "qkv.studio.requests:REQUESTS",  # request → its frozen dataclass
    "ViewSpec": "qkv.studio.requests:ViewSpec",  # the description of a view in a request
    "parse": "qkv.studio.requests:parse",  # (dict, finder of a model's file) → the request
    "find_model": "qkv.studio.openable:find",  # (name, folders) → what the worker opens
    "HANDLERS": "qkv.studio.handlers:HANDLERS",  # request → handler(job, request)
    "Job": "qkv.studio.handlers:Job",  # (models, send, wanted, may_run)
    "LoadedModels": "qkv.studio.loaded_models:LoadedModels",  # (event callback) → the models of a job
}

# Packages whose names are public; those without `__all__` offer the functions and classes that they define.
PACKAGES = ("", "attention", "doctor", "draw", "lab", "mixers", "model", "text", "tracing", "train")

ROOT = Path(__file__).parents[2]
SOURCE = str(Path(qkv.__file__).resolve().parents[1])  # processes that a test starts take qkv from here too
RUNS = Path(__file__).parents[1] / "fixtures" / "2026-11"  # trained runs: lm, mlm, translate
SMALL = [f"--set={pair}" for pair in ("n_layer=1", "width=16", "n_head=2", "context=8", "eval_batches=1")]
SMALL += ["--steps", "1", "--batch", "2"]


def internal(name):
    """Return the object behind a name of IMPORTS."""
    module, attribute = IMPORTS[name].split(":")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures are written differently by other Pythons")
def test_public_api():
    """Names in `dir()` and `__all__` of each public package, their signatures, and the members of their classes."""
    recorded_api, api = load_snapshot("public_api"), {}
    for package in PACKAGES:
        name = f"qkv.{package}".rstrip(".")
        module, recorded_names = importlib.import_module(name), recorded_api.get(name, {})
        if not hasattr(module, "__all__"):
            api[name] = {"names": describe_module(module, recorded_names.get("names", {}))}
            continue
        missing = sorted({*module.__all__} - {*dir(module)})
        assert not missing, f"dir({name}) lacks {missing}"
        names = {
            each: describe(getattr(module, each), recorded_names.get("names", {}).get(each))
            for each in sorted(module.__all__)
        }
        api[name] = {"names": names}
    api["dir(qkv)"] = sorted(name for name in dir(qkv) if not name.startswith("_"))
    check("public_api", api)


def tiny(**settings):
    """Return a small Transformer in evaluation mode."""
    torch.manual_seed(0)
    return Transformer(Config(**dict(vocab=11, width=12, n_layer=2, n_head=2, context=16) | settings)).eval()


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures are written differently by other Pythons")
def test_results():
    """Fields, methods and properties of the classes that public functions return."""
    from qkv.attention import from_qkv
    from qkv.mixers import head_of
    from qkv.text import Characters
    from qkv.tracing import importance, induction_test, without

    letters = Characters.make("abcdefgh ")
    model = tiny(vocab=letters.vocab)
    trace, hybrid = qkv.trace(model, "a bad cab", letters), qkv.trace(tiny(mixer="mamba2 attention"), [3, 1, 4])
    patterns = trace.patterns()
    with qkv.record() as calls:
        model(torch.tensor([[1, 2, 3]]))
    objects = {
        "attention.from_qkv()": from_qkv([[1.0, 0.0]], [[1.0, 0.0]], [[1.0, 2.0]]),
        "steps()": qkv.steps([[1.0, 0.0], [0.0, 1.0]]),
        "masks.causal()": qkv.masks.causal(),
        "masks.parse()": qkv.masks.parse("causal & ~window:2"),
        "record()": calls[0],
        "check()": qkv.check(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v),
        "trace()": trace,
        "trace().call()": trace.call(0),
        "trace().head()": trace.head(0, 1),
        "trace().tokens()": trace.tokens(),
        "trace().survey()": trace.survey(),
        "trace().survey().heads": trace.survey().heads[0][0][0],
        "trace().patterns()": patterns,
        "trace().patterns().table": patterns.table[0],
        "trace().patterns().table.scores": next(iter(patterns.table[0].scores.values())),
        "trace() of a hybrid, call": hybrid.call(0, "mixers"),
        "trace() of a hybrid, head": head_of(hybrid.call(0, "mixers"), 0, 0),
        "tracing.without()": without(model, letters, "a bad cab", "1.0"),
        "tracing.importance()": importance(model, ["a bad cab"], letters),
        "tracing.importance()[0]": importance(model, ["a bad cab"], letters)[0],
        "tracing.induction_test()": induction_test(model, vocab=8, batch=1),
        "text tokenizer": letters,
    }
    objects["check().findings"] = objects["check()"].findings[0]
    check("results", {name: describe(each if inspect.isclass(each) else type(each)) for name, each in objects.items()})


def output_of(line, capsys):
    """Run a command in this process and return what it prints on stdout."""
    capsys.readouterr()
    try:
        code = main(line)
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr()
    assert code in (0, None), (line, printed.err)
    return printed.out


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """An empty cache of models and data sets, a working folder, and a terminal of 100 columns."""
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("QKV_LANG", "en")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    Path("book.txt").write_text("the cat sat on the mat. " * 40)
    Path("pairs.tsv").write_text("a cat\tune chatte\na mat\tun tapis\n" * 3)
    Path("labels.tsv").write_text("a cat\tgood\na mat\tbad\n" * 6)
    return here


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse of other Pythons breaks lines elsewhere")
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_help(lang, empty_cache, capsys):
    """`--help` of every verb and every lab experiment, word for word, and the overview of `qkv --help`."""
    lines = [[], *([verb] for verb in VERBS), *(["lab", name] for name in internal("EXPERIMENTS"))]
    pages = {
        " ".join(["qkv", *line]): output_of([*line, "--help", "--lang", lang], capsys).splitlines() for line in lines
    }
    check(f"help.{lang}", pages)


def test_lists(empty_cache, capsys):
    """Output of `qkv models`, `qkv data`, `qkv learn` and `qkv lab` with an empty cache."""
    check(
        "lists",
        {" ".join(line): output_of(line, capsys).splitlines() for line in (["models"], ["data"], ["learn"], ["lab"])},
    )


def json_of(lines, capsys):
    """Return the shape of what each command prints with --json."""
    return {
        " ".join(line).replace(str(RUNS), "RUNS"): shape(json.loads(output_of([*line, "--json"], capsys)))
        for line in lines
    }


def test_json_output(empty_cache, capsys):
    """Keys and types of `--json` of every verb that has it and is fast."""
    lm, translate = str(RUNS / "lm"), str(RUNS / "translate")
    lines = [
        ["steps", "a b c"],
        ["steps", "a b c", "--mask", "causal", "--heads", "2", "--word", "b", "--tiles", "2"],
        ["steps", "a b", "--memory", "c d e", "--position", "sinusoidal"],
        *(["steps", "a b c", "--mixer", mixer] for mixer in ("retention", "mamba2", "delta")),
        ["steps", "the cat", "--model", lm],
        ["masks", "causal", "window:2"],
        ["masks", "documents:0,0,1", "--n", "3"],
        ["eval", "the cat", "--model", lm],
        ["eval", "the cat", "--model", lm, "--tokens"],
        ["eval", "--pairs", "pairs.tsv", "--model", translate],
        ["eval", "--pairs", "pairs.tsv", "--model", translate, "--each"],
        ["caption", "--demo"],
    ]
    output_of(["train", "mlm", "--text", "book.txt", "--out", "mlm", *SMALL], capsys)
    output_of(["train", "classify", "--from", "mlm", "--pairs", "labels.tsv", "--out", "run", *SMALL[-4:]], capsys)
    lines += [["classify", "a cat", "--model", "run"], ["classify", "a cat", "a mat", "--model", "run"]]
    lines += [["eval", "--pairs", "labels.tsv", "--model", "run"]]
    check("json_output", json_of(lines, capsys))


@pytest.mark.slow
def test_json_output_of_the_lab(empty_cache, capsys):
    """Keys and types of `qkv lab EXPERIMENT --json`, each experiment at its smallest. 30 CPU seconds."""
    short = ["--steps", "2", "--width", "8", "--batch", "2"]
    lines = [
        ["lab", "memory"],
        ["lab", "scaling", "--numbers", "50", "--widths", "4,8", "--keys", "8", "--queries", "8"],
        ["lab", "complexity", "--lengths", "16,32,64", "--context", "16", "--width", "8"],
        ["lab", "distance", "--gaps", "2,4", *short],
        ["lab", "heads", "--heads", "1,2", "--layers", "1", "--length", "4", *short],
        ["lab", "seq2seq", "--tests", "2", *short],
        ["lab", "masks", "--words", "a b", "--source", "c d"],
    ]
    check("json_output_lab", json_of(lines, capsys))


WRONG = """import torch


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -1) @ v


def right_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v


def failing_attention(q, k, v):
    raise RuntimeError("not today")
"""


@pytest.mark.slow
def test_json_output_of_check(empty_cache, capsys):
    """Keys and types of `qkv check --json` and of `--write-baseline`: a mistake, right functions, and one that fails."""
    Path("mine.py").write_text(WRONG)
    names = [f"mine.py:{name}" for name in ("attention", "right_attention", "failing_attention")]
    assert main(["check", *names, "--json", "--write-baseline", "known.json"]) in (0, 1, 2)
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert sorted(each["verdict"] for each in reports) == ["right", "unknown", "wrong"], reports
    shapes = {f"{each['target']}, {each['verdict']}": shape(each) for each in reports}
    check("json_output_check", shapes | {"--write-baseline": shape(json.loads(Path("known.json").read_text()))})


def weight_shapes(config):
    """Return each name of a model's state dict with its shape; numbered layers that are alike are one line."""
    with torch.device("meta"):
        state = Transformer(config).state_dict()
    return group_tensors(
        {name: f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for name, tensor in state.items()}
    )


def test_state_dicts():
    """Names and shapes of the weights of every preset, of small models of all layouts, and of settings of our own."""
    presets = {f"preset {name}": weight_shapes(config) for name, config in internal("PRESETS").items()}
    small = {name: weight_shapes(Config(**settings)) for name, settings in LAYOUTS.items()}
    own = {name: weight_shapes(Config(**SHARED | settings)) for name, settings in OWN.items()}
    check("state_dicts", presets | small | own)


def test_exports(tmp_path):
    """What `export` writes for a small model of each published layout: files, config.json, and names and shapes of tensors."""
    written = {}
    for number, (name, settings) in enumerate(LAYOUTS.items()):
        folder = tmp_path / str(number)
        internal("export")(tiny(**settings), None, folder)
        config = json.loads((folder / "config.json").read_text())
        config.pop("qkv_version")
        written[name] = {
            "files": sorted(file.name for file in folder.iterdir()),
            "config.json": config,
            "tensors": group_tensors(tensors_of(folder / "model.safetensors")),
        }
        again, _ = qkv.load(folder)
        assert again.state_dict().keys() == tiny(**settings).state_dict().keys(), name
    families = {name: family for family in internal("FAMILIES") for name in family.types}
    tables = {}
    for name, settings in READ_ONLY.items():
        model = tiny(**settings)
        config, tensors = internal("to_theirs")(model.config, dict(model.named_parameters()), families[name])
        tables[name] = {
            "config.json": config,
            "tensors": group_tensors({key: str(list(tensors[key].shape)) for key in tensors}),
        }
    covered = {each["config.json"]["model_type"] for each in written.values()} | {*READ_ONLY}
    assert all(covered & {*family.types} for family in internal("FAMILIES")), "a layout has no small model here"
    check("exports", {"model types": sorted(families), "exports": written, "read only": tables})


def test_settings(empty_cache, capsys):
    """Settings of a model and of training: their names and defaults, as JSON, as `--set` takes them, and of each preset."""
    from qkv.train import Settings

    plain, run = Config().to_dict(), Settings().to_dict()
    assert Config.from_dict(json.loads(json.dumps(plain))) == Config()
    assert main(["train", "lm", "--text", "book.txt", "--set", "zzzzzz=1"]) == 2
    named = capsys.readouterr().err.rpartition("All: ")[2].strip().split(", ")
    assignments = [f"{name}={json.dumps(value)}" for name, value in plain.items() if value is not None and value != ()]
    assert Config().set(assignments) == Config(), "Config().set must take every default as JSON"

    presets = {}
    for name, config in internal("PRESETS").items():
        presets[name] = {"model": non_defaults(config.to_dict(), plain)}
        for task in ("lm", "mlm", "translate"):
            try:
                model, training = internal("preset")(name, task)
            except ValueError as refusal:
                presets[name][task] = f"refused: {str(refusal).partition(':')[0]}"
            else:
                presets[name][task] = non_defaults(model.to_dict(), plain) | non_defaults(training.to_dict(), run)
    experts = Config(experts=dict(count=2)).to_dict()["experts"]
    check("settings", {"model": plain, "experts": experts, "train": run, "--set": named, "presets": presets})


def non_defaults(values, defaults):
    return {name: value for name, value in values.items() if value != defaults[name]}


def test_written_files(empty_cache, capsys):
    """Files of runs, traces, exports, prepared tokens, importance and exercises: their names, and keys and types inside."""
    for line in (
        ["train", "lm", "--text", "book.txt", "--out", "runs/lm", "--watch", "the cat", *SMALL],
        ["train", "--resume", "runs/lm", "--steps", "2"],
        ["train", "mlm", "--text", "book.txt", "--out", "runs/mlm", *SMALL],
        ["train", "translate", "--pairs", "pairs.tsv", "--out", "runs/translate", *SMALL],
        ["train", "classify", "--from", "runs/mlm", "--pairs", "labels.tsv", "--out", "runs/classify", *SMALL[-4:]],
        ["train", "lm", "--from", "runs/lm", "--text", "book.txt", "--out", "runs/lora", "--lora", "2", *SMALL[-4:]],
        ["export", "runs/lm", "--out", "export"],
        ["data", "prepare", "book.txt", "--out", "tokens"],
        ["importance", "the cat", "--model", "runs/lm", "--keep", "importance.jsonl"],
        ["see", "the cat", "--model", "runs/lm", "--save", "trace.safetensors"],
        ["see", "a cat", "--model", "runs/translate", "--save", "translation.safetensors"],
        ["learn", "2"],
        ["learn", "hint"],
    ):  # fmt: skip
        output_of(line, capsys)
    qkv.trace(tiny(mixer="mamba2 attention"), [3, 1, 4]).save(Path("hybrid.safetensors"))
    check("written_files", describe_files(Path()))


def test_page_data():
    """The data that a one-file page carries, for each kind of model, mask and bias."""
    from qkv.draw import page

    rows = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1]]
    models = {
        "decoder": {},
        "window": dict(window=2),
        "shared keys": dict(n_kv_head=1),
        "alibi": dict(position="alibi"),
        "relative": dict(position="relative"),
        "encoder": dict(kind="encoder", position="learned"),
        "latent": dict(mixer="latent", rank=6, rope_width=2),
        "softcap": dict(softcap=2.0),
        "hybrid": dict(mixer="mamba2 attention"),
        "retention": dict(mixer="retention", position="none"),
        "delta": dict(mixer="delta", position="none"),
    }
    pages = {}
    for name, settings in models.items():
        pages[name] = page_data(page.html(qkv.trace(tiny(**settings), rows, name=name)))
    crossing = qkv.trace(tiny(kind="encoder-decoder", position="sinusoidal"), rows, target=[[1, 2], [3]], name="both")
    pages["encoder-decoder"] = page_data(page.html(crossing, focus=(1, 0), lang="zh"))
    trace = qkv.trace(tiny(), rows, name="figure")
    pages["figure"] = page_data(page.html(trace, show=("map", "lines"), first=("decoder", 1, 0), by="tokens"))
    pages["one layer whole"] = page_data(page.html(trace, layers=[1]))
    check("page_data", pages)


@pytest.mark.slow
def test_page_of_the_demo(empty_cache, capsys):
    """The data in the page of `qkv see --demo -o page.html`: a trace of a real model in float16."""
    output_of(["see", "--demo", "-o", "page.html"], capsys)
    check("page_of_the_demo", page_data(Path("page.html").read_text(encoding="utf-8")))


LM, MLM = (dict(model=f"{RUNS.name}/{run}", text="the cat") for run in ("lm", "mlm"))
TRANSLATOR = dict(model="dates", text="May 4, 2026")
TRACE = dict(model="trace:cat-minilm")
HEAD = dict(part="decoder", layer=0, head=0)
TILE = dict(rows=[0, 4], cols=[0, 4], tall=2, wide=2, pool="max")
# Requests by description. `models` and `fetch` need the server: see the slow test.
REQUESTS = {
    "open": dict(do="open", spec=LM),
    "open, an encoder": dict(do="open", spec=MLM),
    "open, a translator": dict(do="open", spec=TRANSLATOR),
    "open, a trace": dict(do="open", spec=TRACE),
    "view": dict(do="view", spec=LM),
    "view, edited, with more tokens": dict(do="view", spec=LM | dict(edits=[["0.0", "zero"]], more=[1, 2])),
    "view, an encoder": dict(do="view", spec=MLM),
    "view, a translator": dict(do="view", spec=TRANSLATOR),
    "view, a trace": dict(do="view", spec=TRACE),
    "head": dict(do="head", spec=LM, **HEAD),
    "head, a trace": dict(do="head", spec=TRACE, **HEAD | dict(part="encoder")),
    "tile": dict(do="tile", spec=LM, **HEAD, **TILE),
    "tile, mean, no sink": dict(do="tile", spec=LM, **HEAD, **TILE | dict(pool="mean", sink=1)),
    "links": dict(do="links", spec=LM, part="decoder", query=2, key=1),
    "words": dict(do="words", spec=LM),
    "words, drawn": dict(do="words", spec=LM, place=1, temperature=0.7, top_k=3, top_p=0.9, most=2, seed=1),
    "loss": dict(do="loss", spec=LM),
    "lens": dict(do="lens", spec=LM, place=1),
    "heads": dict(do="heads", spec=LM, part="decoder"),
    "importance": dict(do="importance", spec=LM),
    "changes": dict(do="changes", a=LM, b=LM | dict(text="the mat"), part="decoder"),
    "translations": dict(do="translations", spec=TRANSLATOR, beams=2),
    "page": dict(do="page", spec=LM, lang="en", opening=[0, 0]),
    "python": dict(do="python", spec=LM | dict(edits=[["0.0", "zero"]]), part="decoder", layer=0, head=0, query=1),
    "python, a trace": dict(do="python", spec=TRACE, part="encoder", layer=0, head=0, query=1),
}


def defaults_of(kind):
    """Return the default of every field of a dataclass, "required" where it has none."""
    return {
        each.name: "required" if each.default is dataclasses.MISSING else each.default
        for each in dataclasses.fields(kind)
    }


def test_studio_requests():
    """Fields of every request and their defaults; a request's name, model and fields are checked before anything runs."""
    requests = internal("REQUESTS")
    fields = {do: defaults_of(each) for do, each in requests.items()}
    spec = {name: list(value) if value == () else value for name, value in defaults_of(internal("ViewSpec")).items()}
    spec["model"] = "m"
    assert {each["do"] for each in REQUESTS.values()} | {"models", "fetch"} == set(requests), "a request lacks a test"
    check("studio_requests", {"fields": fields, "spec": spec})


def test_studio_responses(empty_cache):
    """Keys, types and arrays of the response to every request, computed in this process, without worker or server."""
    events, responses = [], {}
    models = internal("LoadedModels")(events.append)
    for name, request in REQUESTS.items():
        frames = []

        def send(content, *arrays, hold=False, frames=frames):
            frames.append((json.loads(json.dumps(content)), [f"{a.dtype.name}[{a.ndim}]" for a in arrays]))

        request = internal("parse")(
            json.loads(json.dumps(request)), lambda model: internal("find_model")(model, [RUNS])
        )
        internal("HANDLERS")[request.do](internal("Job")(models, send, lambda: True, True), request)
        responses[name] = describe_frames(frames)
    check("studio_responses", responses | {"events": {"frame": shape(*events)}})


@pytest.mark.slow
def test_studio_over_http(empty_cache):
    """The same responses through server and worker, read as a browser reads them, and the events of the stream."""
    from tests.studio.conftest import Running

    running = Running(str(RUNS))
    try:
        responses = {}
        for name, body in (REQUESTS | {"models": dict(do="models"), "refused": dict(do="none")}).items():
            status, _headers, content = running.client.request(
                "POST", "/api/ask", json.dumps(body).encode(), Content_Type="application/json"
            )
            assert status == 200, content
            responses[name] = describe_frames(unpack_frames(content))
        pages = {
            path: running.client.request("GET", path)[0]
            for path in ("/", "/studio.js", "/studio.css", "/events.js", "/x")
        }
    finally:
        running.end()
    inside = load_snapshot("studio_responses")
    lines = []
    for name in REQUESTS:
        last_frame = responses[name].pop("done", None)
        assert last_frame is not None, (name, responses[name])
        lines += differences(inside[name], responses[name], name)
    assert not lines or os.environ.get(WRITE), "\n".join(["the server's responses differ from the handlers':", *lines])
    check(
        "studio_over_http",
        {"models": responses["models"], "refused": responses["refused"], "status": pages, "done": last_frame},
    )


def test_link_keys():
    """The keys in the fragment of an address, which the scripts of page and studio read and write."""
    scripts = "\n".join(file.read_text(encoding="utf-8") for file in sorted(Path(qkv.__file__).parent.rglob("*.js")))
    read = re.findall(r"\b(?:params|current|before|address)\.(?:get|has)\(\"(\w+)\"\)", scripts)
    written = re.findall(r"\b(?:params\.set|put|indexIn|number)\(\"(\w+)\",", scripts)
    lists = (
        r"^const (POSITION_KEYS|STEPS|ROOMS|MODES|COMPARED|ORDERED|EDIT_METHODS|EITHER|HEAD_NAME) = (.*?);(?: //.*)?$"
    )
    words = {name: re.sub(r"/\*\*.*?\*/ ?", "", text) for name, text in re.findall(lists, scripts, re.M)}
    check("link_keys", {"read": sorted({*read}), "written": sorted({*written}), "values": dict(sorted(words.items()))})


def documented_names():
    """Return the imports of qkv in README, docs and examples, and the dotted names in their code: "qkv.draw.page"."""
    paths = set()
    for file in [*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]:
        if file.name == "LOG.md":  # history
            continue
        text = file.read_text(encoding="utf-8")
        for module, names in re.findall(r"\bfrom (qkv[\w.]*) import (\([^)]*\)|\w[\w, ]*)", text):
            bare = re.sub(r"\bas \w+|>>>|\.\.\.|#.*", "", names)
            paths |= {f"from {module} import {name}" for name in re.findall(r"\w+", bare)}
        paths |= {f"import {module}" for module in re.findall(r"^\W*import (qkv[\w.]*)", text, re.M)}
        code = text if file.suffix == ".py" else "\n".join(re.findall(r"^```\w*\n.*?^```|`[^`\n]+`", text, re.M | re.S))
        # Tensors of other models have such names too, "qkv.split": only what is here counts.
        paths |= {path for path in re.findall(r"(?<![\w./-])qkv(?:\.[A-Za-z_]\w*)+", code) if exists(path)}
    return sorted(paths)


def exists(path):
    """True if a dotted name is a module or an attribute of one."""
    value, at = qkv, "qkv"
    for name in path.split(".")[1:]:
        at = f"{at}.{name}"
        if isinstance(value, types.ModuleType) and not hasattr(value, name):
            try:
                importlib.import_module(at)
            except ModuleNotFoundError:
                return False
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def test_documented_names():
    """Names that README, docs and examples import from qkv or mention in code: all exist."""
    names, broken = documented_names(), []
    for line in names:
        if " " in line:  # an import
            try:
                exec(line, {})
            except ImportError as error:
                broken.append(f"{line}: {error}")
    assert not broken, "\n".join(broken)
    check("documented_names", {"names": names})


def write(words):
    """Run the tests with check() writing, for all snapshots or those of the tests whose names contain the words."""
    os.environ[WRITE] = "1"
    FOLDER.mkdir(exist_ok=True)
    selection = ["-k", " or ".join(words)] if words else []
    return pytest.main(["-q", "-m", "slow or not slow", "-p", "no:cacheprovider", *selection, __file__])


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(__doc__)
    sys.exit(write(sys.argv[2:]))
