"""What the worker answers is what the library computes."""

import io
import json
import os
import sys
import threading

import numpy as np
import pytest
import torch

import qkv
from qkv.i18n import Problem
from qkv.studio import openable, requests
from qkv.studio.frames import ENVELOPE
from qkv.studio.handlers import HANDLERS, Job
from qkv.studio.loaded_models import LoadedModels, run_nicely
from qkv.studio.text_views import TextView, Unmade
from qkv.studio.worker import Worker
from qkv.tracing.record.streaming import StreamStopped
from tests.studio.unpacking import unpack

TEXT = "the cat sat on the mat"
CLOSE = dict(rtol=0, atol=1e-5)


def read(fields, *folders):
    """A request as it reaches the worker."""
    sent = requests.parse(fields, lambda name: openable.find(name, folders))
    restored = requests.restore(json.loads(json.dumps(sent.to_json())))
    assert restored == sent
    return restored


class Responder:
    """Models, and requests for them as the worker handles them."""

    def __init__(self, folder):
        self.folder, self.events = folder, []
        self.models = LoadedModels(self.events.append)

    def __call__(self, do, *, may_run=True, is_active=lambda: True, **fields):
        frames: list = []
        request = read({"do": do} | fields, self.folder)

        def send(fields, *arrays, hold=False):
            frames.append((fields, arrays))

        HANDLERS[do](Job(self.models, send, is_active, may_run), request)
        return frames

    def single(self, do, kind=None, **fields):
        (matching,) = [frame for frame in self(do, **fields) if frame[0]["kind"] == (kind or do)]
        return matching


@pytest.fixture(scope="module")
def respond(shelf):
    return Responder(shelf)


@pytest.fixture(scope="module")
def name(shelf):
    return lambda run: f"{shelf.name}/{run}"


@pytest.fixture(scope="module")
def trace(shelf):
    return qkv.trace(*_arguments(shelf, "lm"))


def _arguments(shelf, run, text=TEXT):
    model, tokenizer = qkv.load(shelf / run)
    return model, text, tokenizer


def spec(name, run="lm", **more):
    return {"model": name(run), "text": TEXT} | more


def test_a_view_sends_its_tokens_first(respond, name, trace):
    frames = respond("view", spec=spec(name))
    kinds = [fields["kind"] for fields, _ in frames]
    assert kinds == ["header", "words", *["layer"] * trace.n_layer(), "loss", "first"]
    header = frames[0][0]
    assert header["tokens"][0]["labels"] == trace.tokens().numbered
    assert header["ids"]["decoder"][0] == list(trace.tokens().ids)


def test_pictures_and_links_are_the_surveys(respond, name, trace):
    survey = trace.survey()
    layers = [frame for frame in respond("view", spec=spec(name)) if frame[0]["kind"] == "layer"]
    for (fields, (pictures,)), looks in zip(layers, survey.heads[0], strict=True):
        assert fields["links"] == [[look.link for look in looks]]
        assert np.array_equal(pictures[0], np.stack([look.picture for look in looks]))


def test_a_head_has_q_k_v_mask_and_scale(respond, name, trace):
    fields, (q, k, v) = respond.single("head", spec=spec(name), part="decoder", layer=0, head=1)
    call = trace.call(0)
    assert fields["layer"]["mask"] == [["band", None, 0]] and fields["layer"]["scale"] == call.scale
    np.testing.assert_allclose(q[0, 0], call.q[0, 1], **CLOSE)
    assert k.shape == v.shape == q.shape


def test_links_are_the_traces(respond, name, trace):
    fields, _ = respond.single("links", spec=spec(name), part="decoder", query=4, key=1)
    assert [tuple(each[:2]) for each in fields["top"]] == [each[:2] for each in trace.find(4, 1, most=99)]
    np.testing.assert_allclose([each[2] for each in fields["top"]], [e[2] for e in trace.find(4, 1, most=99)], **CLOSE)


def test_next_words_are_the_models(respond, name, shelf):
    model, text, tokenizer = _arguments(shelf, "lm")
    logits = model(torch.tensor([tokenizer.encode(text)]))[0, -1].detach()
    fields, _ = respond.single("words", spec=spec(name), most=1000)
    assert len(fields["words"]) == fields["all"] == model.config.vocab
    np.testing.assert_allclose(
        [word["p"] for word in fields["words"]], logits.softmax(-1)[[word["id"] for word in fields["words"]]], **CLOSE
    )
    assert sum(word["p"] for word in fields["words"]) == pytest.approx(1, abs=1e-5)


def test_what_is_cut_away_is_never_drawn(respond, name):
    fields = dict(spec=spec(name), temperature=0.7, top_k=5, top_p=0.8, most=1000)
    words = respond.single("words", **fields)[0]["words"]
    nonzero = {word["id"] for word in words if word["cut"] > 0}
    assert 1 <= len(nonzero) <= 5 and sum(word["cut"] for word in words) == pytest.approx(1, abs=1e-5)
    drawn = {respond.single("words", **fields, seed=seed)[0]["drawn"]["id"] for seed in range(30)}
    assert drawn <= nonzero and len(drawn) > 1


def test_the_loss_is_the_models(respond, name, shelf):
    model, text, tokenizer = _arguments(shelf, "lm")
    ids = torch.tensor([tokenizer.encode(text)])
    expected = torch.nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
    fields, _ = respond.single("loss", spec=spec(name))
    assert fields["loss"] == pytest.approx(float(expected), abs=1e-5)


def test_tokens_that_were_added_are_part_of_the_view(respond, name, shelf):
    _, text, tokenizer = _arguments(shelf, "lm")
    ids = tokenizer.encode(text)
    header = respond("view", spec=spec(name, text=tokenizer.decode(ids[:4]), more=ids[4:]))[0][0]
    assert header["ids"]["decoder"][0] == ids


def test_off_then_on_is_never_touched(respond, name):
    before = respond.single("words", spec=spec(name))[0]
    off = respond.single("words", spec=spec(name, edits=[["0.0", "zero"]]))[0]
    again = Responder(respond.folder).single("words", spec=spec(name))[0]
    assert before == again and before["words"] != off["words"]


def test_the_lens_ends_in_the_models_next_words(respond, name):
    fields, _ = respond.single("lens", spec=spec(name), place=4, most=3)
    words = respond.single("words", spec=spec(name), place=4, most=3)[0]["words"]
    assert [word["id"] for word in fields["layers"][-1]] == [word["id"] for word in words]


def test_patterns_are_the_traces(respond, name, trace):
    fields, _ = respond.single("heads", spec=spec(name), part="decoder")
    table = trace.patterns().table
    assert [entry["pattern"] for row in fields["rows"] for entry in row] == [row.name for row in table]


def test_importance_sends_progress(respond, name):
    frames = respond("importance", spec=spec(name))
    assert frames[0][0]["kind"] == "progress" and frames[-1][0]["kind"] == "importance"
    assert [len(row) for row in frames[-1][0]["rows"]["decoder"]] == [2]


def test_an_encoder_fills_its_mask(respond, name):
    fields, _ = respond.single("open", "opened", spec=spec(name, "mlm"))
    frames = respond("view", spec=spec(name, "mlm", text=f"the {fields['mask']} sat"))
    assert fields["of"] == "encoder" and "words" in [frame["kind"] for frame, _ in frames]
    assert "words" not in [frame["kind"] for frame, _ in respond("view", spec=spec(name, "mlm", text="the cat sat"))]


def test_each_candidate_translation_can_be_opened(respond, name):
    source = spec(name, "translate", text="cat 7")
    candidates = respond.single("translations", spec=source, beams=3)[0]["said"]
    assert len(candidates) == 3 and candidates[0]["score"] >= candidates[-1]["score"]
    header = respond("view", spec=source | {"target": candidates[1]["ids"]})[0][0]
    assert [part["name"] for part in header["header"]["parts"]] == ["encoder", "decoder", "cross"]


def test_every_checkpoint_of_a_run_can_be_opened(respond, name, shelf):
    entry_of = {entry.name: entry for entry in openable.listed([shelf])}[name("lm")]
    assert entry_of.checkpoints == (3, 6)
    early, late = (
        respond.single("words", spec=spec(name) | {"model": f"{name('lm')}@{step}"})[0] for step in entry_of.checkpoints
    )
    assert early["words"] != late["words"]


def test_checkpoints_are_listed_by_number(tmp_path):
    (tmp_path / "lm" / "watch").mkdir(parents=True)
    (tmp_path / "lm" / "config.json").write_text('{"format": "qkv run 1"}')
    for step in ("999999", "1000000", "000006 copy", "000006"):
        (tmp_path / "lm" / "checkpoints" / step).mkdir(parents=True)
        (tmp_path / "lm" / "watch" / f"{step}.safetensors").touch()
    here = openable.listed([tmp_path])[-1]
    assert here.checkpoints == here.watched == (6, 999_999, 1_000_000)


def test_the_python_lines_compute_the_view(respond, name, trace, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    edited = spec(name, edits=[["0.1", "uniform"]])
    text = respond.single("python", spec=edited, part="decoder", layer=0, head=0, query=3)[0]["text"]
    exec(compile(text, "lines", "exec"), {})
    printed = np.fromstring(capsys.readouterr().out.replace("[", " ").replace("]", " "), sep=" ")
    np.testing.assert_allclose(printed, trace.row(0, 0, 3), rtol=0, atol=1e-4)
    assert (tmp_path / "head.png").exists()


def test_the_page_is_the_page_of_see(respond, name):
    _, (page,) = respond.single("page", spec=spec(name), lang="zh", opening=[0, 1])
    assert bytes(page).startswith(b"<!doctype html>") and b'lang="zh-CN"' in bytes(page)


def test_looking_never_runs_a_model_beside_another(name, shelf):
    """Asks of the light lane that find no view go back to the lane where models run."""
    fresh = Responder(shelf)
    with pytest.raises(Unmade):
        fresh("head", may_run=False, spec=spec(name), part="decoder", layer=0, head=0)


def test_a_view_that_nobody_waits_for_stops_between_layers(name, shelf):
    fresh = Responder(shelf)
    with pytest.raises(StreamStopped):
        fresh("view", spec=spec(name), is_active=lambda: False)
    assert not fresh.models.views


class Lanes(Worker):
    """A worker whose requests are answered one at a time by the test."""

    def __init__(self, folder):
        super().__init__(io.BytesIO(), io.BytesIO())
        self.models, self.folder = LoadedModels(lambda event: None), folder

    def request(self, do, *, number=1, light=False, **fields):
        """Answer a request, and what it put into the lane where models run; returns the frames."""
        self.sink.seek(0), self.sink.truncate()
        self._answer(number, read({"do": do} | fields, self.folder), light)
        while not self.lanes[False].empty():
            self._answer(*self.lanes[False].get(), False)
        self.sink.seek(0)
        frames = []
        while head := self.sink.read(ENVELOPE.size):
            frames += unpack(self.sink.read(ENVELOPE.unpack(head)[2]))
        return [frame for frame, _ in frames]


@pytest.mark.parametrize("do", ["head", "tile", "links", "words"])
def test_parts_of_a_cancelled_view_do_not_run_the_model_again(name, shelf, do, monkeypatch):
    worker = Lanes(shelf)
    fields = {
        "head": dict(part="decoder", layer=0, head=0),
        "tile": dict(part="decoder", layer=0, head=0, rows=[0, 4], cols=[0, 4], tall=1, wide=1, pool="max"),
        "links": dict(part="decoder", query=1, key=0),
        "words": {},
    }[do]
    # Cancelled as soon as its tokens are known.
    monkeypatch.setattr(
        TextView,
        "_survey",
        lambda self, *fields, survey=TextView._survey: [survey(self, *fields), worker.cancelled.add(7)],
    )
    assert worker.request("view", number=7, spec=spec(name))[-1]["kind"] == "superseded"
    monkeypatch.undo()
    computed = []
    monkeypatch.setattr(
        TextView, "make", lambda self, *fields, make=TextView.make: computed.append(self) or make(self, *fields)
    )
    assert worker.request(do, number=8, light=True, spec=spec(name), **fields)[-1]["kind"] == "superseded"
    assert not computed
    assert worker.request("view", number=9, spec=spec(name))[-1]["kind"] == "done"  # asked for anew, it is made
    assert worker.request(do, number=10, light=True, spec=spec(name), **fields)[-1]["kind"] == "done"
    assert len(computed) == 1


def test_a_layer_of_a_failed_view_is_not_called_missing(name, shelf):
    view = TextView(read({"do": "view", "spec": spec(name)}, shelf).spec)
    view.numbers = {"decoder": (0, 1)}
    view.failed = True
    with pytest.raises(Unmade):
        view.call("decoder", 1, lambda: True)


def test_words_of_a_view_in_the_making_wait_for_it(name, shelf):
    fresh = Responder(shelf)
    view_spec = read({"do": "view", "spec": spec(name)}, shelf).spec
    fresh.models.views[view_spec] = TextView(view_spec, *fresh.models.model(view_spec.model))
    for do, fields in (("words", {}), ("links", dict(part="decoder", query=1, key=0))):
        with pytest.raises(Unmade):
            fresh(do, may_run=False, spec=spec(name), **fields)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_only_long_work_has_lower_priority():
    def nice():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, niceness = nice(), []
    run_nicely(lambda: niceness.append(nice()))
    assert niceness == [before + 3] and nice() == before
    with pytest.raises(ZeroDivisionError):
        run_nicely(lambda: 1 / 0)


def test_models_that_nobody_uses_are_let_go(name, shelf, monkeypatch):
    fresh = Responder(shelf)
    for run in ("lm", "mlm", "translate"):
        fresh("open", spec=spec(name, run))
    assert len(fresh.models.models) == 2
    monkeypatch.setattr("qkv.studio.loaded_models.UNUSED", -1.0)
    fresh.models.tidy()
    assert not fresh.models.models and not fresh.models.views


def test_an_empty_text_is_a_sentence(respond, name):
    with pytest.raises(Problem, match="no text"):
        respond("view", spec=spec(name, text=""))


def test_the_answers_that_it_opens_with_are_what_the_worker_gives(respond):
    """Made by tools/make_traces.py, perhaps on another processor: numbers may differ in their last digits."""
    from qkv.studio.worker_client import shipped_responses

    first_spec = {"model": openable.FIRST}
    requests_ = [
        dict(do="view", spec=first_spec),
        dict(do="head", spec=first_spec, part="decoder", layer=13, item=0, head=8),
    ]
    responses = shipped_responses()
    assert len(responses) == len(requests_)
    for fields in requests_:
        (answer,) = responses[read(fields).cache_key()]
        frames = respond(fields.pop("do"), **fields)
        *stored, (last, _) = unpack(answer)
        assert last["kind"] == "done" and len(stored) == len(frames)
        for (mine, arrays), (other, others) in zip(stored, frames, strict=True):
            assert mine["kind"] == other["kind"] and mine.keys() == other.keys()
            if "layer" in mine:  # a trace in float16: its weights have two or three true decimals
                assert (
                    1e-5
                    < mine["layer"]["errors"]["weight"]
                    == pytest.approx(other["layer"]["errors"]["weight"], rel=0.1)
                )
            for mine, theirs in zip(arrays, others, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1 if mine.dtype == np.uint8 else 1e-5)
    assert [frame["kind"] for frame, _ in unpack(responses[next(iter(responses))][0])][:2] == ["header", "words"]


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(("tall", "wide"), [(1, 1), (2, 3), (5, 4)])
def test_a_tile_is_a_pooling_of_the_whole(respond, name, trace, pool, tall, wide):
    whole = np.asarray(trace.map(0, 1))
    n = len(whole)
    rows, cols = [1, n], [0, n - 1]
    _, (tile,) = respond.single(
        "tile", spec=spec(name), part="decoder", layer=0, head=1,
        rows=rows, cols=cols, tall=tall, wide=wide, pool=pool,
    )  # fmt: skip
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            r = slice(rows[0] + i * tall, min(rows[0] + (i + 1) * tall, rows[1]))
            c = slice(cols[0] + j * wide, min(cols[0] + (j + 1) * wide, cols[1]))
            cell = whole[r, c]
            hidden = c.start >= r.stop
            expected = -1 if hidden else cell.max() if pool == "max" else cell.mean()
            assert tile[i, j] == pytest.approx(expected, abs=1e-5)


def test_a_tile_without_the_sink_is_shared_among_the_rest(respond, name, trace):
    whole = np.asarray(trace.map(0, 1))[2:]
    fields = dict(part="decoder", layer=0, head=1, rows=[2, len(whole) + 2], cols=[1, 3], tall=1, wide=1, pool="max")
    _, (tile,) = respond.single("tile", spec=spec(name), sink=True, **fields)
    special = [j for j, is_special in enumerate(trace.tokens().special) if is_special]
    remaining = np.delete(whole, sorted({0, *special}), 1).sum(1)
    np.testing.assert_allclose(tile, whole[:, 1:3] / remaining[:, None], **CLOSE)


@pytest.mark.parametrize("to", ["zero", "uniform", "mean", "self", "first", 0.5])
def test_a_head_that_is_changed_changes_the_words_as_edit_does(respond, name, shelf, to):
    model, text, tokenizer = _arguments(shelf, "lm")
    with qkv.edit(model, "0.0", to=to):
        logits = model(torch.tensor([tokenizer.encode(text)]))[0, -1].detach()
    fields = respond.single("words", spec=spec(name, edits=[["0.0", to]]))[0]
    for word in fields["words"]:
        assert word["p"] == pytest.approx(float(logits.softmax(-1)[word["id"]]), abs=1e-5)


def test_a_view_beside_itself_has_changed_nowhere(respond, name):
    fields, _ = respond.single("changes", a=spec(name), b=spec(name), part="decoder")
    assert all(each[2] < 1e-6 for each in fields["top"]) and all(i == j for i, j in fields["slots"])


def test_changes_are_the_differences_of_the_maps(respond, name, shelf):
    """Two checkpoints, then two texts laid beside each other: what only one of them has is left over."""
    early, late = (spec(name) | {"model": f"{name('lm')}@{step}"} for step in (3, 6))
    top = {tuple(each[:2]): each[2] for each in respond.single("changes", a=early, b=late, part="decoder")[0]["top"]}
    maps = [qkv.trace(*_arguments(shelf, f"lm/checkpoints/{step:06d}")) for step in (3, 6)]
    for head in range(2):
        first, second = (np.asarray(each.map(0, head)) for each in maps)
        assert top[0, head] == pytest.approx(np.abs(first - second).sum(1).mean() / 2, abs=1e-5)
    fields = respond.single("changes", a=spec(name), b=spec(name, text="the cat sat on a mat"), part="decoder")[0]
    labels = [qkv.load(shelf / "lm")[1].encode(text) for text in (TEXT, "the cat sat on a mat")]
    both = [(i, j) for i, j in fields["slots"] if i is not None and j is not None]
    assert all(labels[0][i] == labels[1][j] for i, j in both) and {i for i, _ in fields["slots"]} >= set(
        range(len(labels[0]))
    )
    assert 0 < fields["top"][0][2] <= 1


def test_a_predicted_part_of_a_character_is_named_as_in_the_text():
    from qkv.studio.openable import OpenableFile
    from qkv.studio.requests import ViewSpec
    from qkv.text import train_tokenizer

    tokenizer = train_tokenizer("bpe", ["的河 的河 的河 边 边"] * 20, vocab=268)
    model = qkv.Transformer(qkv.Config(vocab=tokenizer.vocab, width=8, n_layer=1, n_head=1))
    view = TextView(ViewSpec(OpenableFile("", "", False, "", 0), "岸边"), model, tokenizer)
    first = tokenizer.encode("岸边")[0]
    assert view.label(first) == "<E5>"
    view.trace = qkv.trace(model, "岸边", tokenizer)
    assert view.label(first) == "岸₁" and view.label(tokenizer.encode("边")[0]) == "边"
