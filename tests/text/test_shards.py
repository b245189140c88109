"""Preparing shards: they hold exactly the corpus, whatever its size, also after a kill."""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qkv.i18n import Problem
from qkv.text import Bytes, Dataset, prepare, train_tokenizer
from qkv.text import corpus as corpus_module
from qkv.text import dataset as dataset_module
from qkv.text import shards as shards_module
from qkv.text.corpus import pieces

BOOK = (
    "ROMEO:\nBut, soft!  what light\nthrough yonder window breaks?\n\n春眠不觉晓，处处闻啼鸟。\u3000\n it's 🙂\n" * 20
)
KINDS = ["characters", "bytes", "bpe"]
TOKENIZERS = {kind: train_tokenizer(kind, [BOOK], vocab=320 if kind == "bpe" else None) for kind in KINDS}
# Several spaces and lines are one token here, so a cut through them would show.
SPACIOUS = train_tokenizer("bpe", ["a\n\n\nb   a \n \n人\t\t\té" * 50], vocab=300)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(corpus_module, "BLOCK", 64)


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book.txt").write_bytes(BOOK.encode())
    return tmp_path / "book.txt"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shard", [1, 100, 10**9], ids=["a shard per block", "some shards", "one shard"])
def test_the_shards_hold_exactly_the_corpus(kind, shard, book, tmp_path, small_blocks):
    tokens = prepare(book, TOKENIZERS[kind], tmp_path / "out", shard=shard)
    train, validation = tokens.train[:].tolist(), tokens.validation[:].tolist()
    text = TOKENIZERS[kind].decode(train), TOKENIZERS[kind].decode(validation)
    assert "".join(text) == BOOK
    assert 0.85 < len(text[0].encode()) / len(BOOK.encode()) < 0.95
    assert train == TOKENIZERS[kind].encode(text[0]), "cut into blocks, yet the tokens of the whole text"
    assert validation == TOKENIZERS[kind].encode(text[1])
    assert tokens[:].tolist() == train + validation and len(tokens) == len(train) + len(validation)


@given(text=st.text(alphabet="ab \n'1\t\r\u3000\x1c\x85人。é", max_size=60), size=st.integers(1, 9))
@example(text="a\n\n\nb   a \n \n人", size=1)
def test_text_in_pieces_has_the_tokens_of_the_whole(text, size):
    assert SPACIOUS.encode_array(pieces(text, size)).tolist() == SPACIOUS.encode(text)


@given(texts=st.lists(st.text(alphabet="ab \n'1\t\u3000人。é", min_size=1, max_size=300), min_size=1, max_size=5))
def test_documents_are_joined_by_eos(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_bytes(text.encode())
    tokenizer = Bytes.make(special=("eos",))
    tokens = prepare(folder, tokenizer, folder / "out", validation=0)
    assert b"\n[EOS]\n".join(_documents(tokens[:], tokenizer.eos)) == "\n[EOS]\n".join(texts).encode()
    plain = prepare(folder, Bytes.make(), folder / "plain", validation=0)
    assert bytes(plain[:].tolist()) == "".join(texts).encode()


def _documents(ids, eos):
    borders = np.flatnonzero(ids == eos)
    return [bytes(part[part != eos].tolist()) for part in np.split(ids, borders)]


def test_eos_is_between_documents_not_at_the_split(tmp_path, small_blocks):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text(f"document {number}\n" * 9)
    tokenizer = Bytes.make(special=("eos",))
    tokens = prepare(tmp_path, tokenizer, tmp_path / "out", validation=0.2)
    assert (tokens.train[:] == tokenizer.eos).sum() == 7 and (tokens.validation[:] == tokenizer.eos).sum() == 1
    assert tokens.validation[0:10].tolist() == list(b"document 8")


def test_the_index_is_readable_and_names_its_source(book, tmp_path):
    prepare(book, TOKENIZERS["bytes"], tmp_path / "out")
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert index["complete"] and index["dtype"] == "uint16"
    assert index["source"]["bytes"] == len(BOOK.encode()) and len(index["source"]["sha256"]) == 64
    assert [shard["file"] for shard in index["shards"]] == ["train-00000.bin", "validation-00000.bin"]
    assert (tmp_path / "out" / "train-00000.bin").stat().st_size == 2 * index["shards"][0]["tokens"]


def test_large_vocabularies_take_four_bytes(tmp_path):
    text = "".join(chr(0x10000 + i) for i in range(70_000))
    (tmp_path / "rare.txt").write_text(text)
    tokenizer = train_tokenizer("characters", [text])
    tokens = prepare(tmp_path / "rare.txt", tokenizer, tmp_path / "out")
    assert tokens.index["dtype"] == "uint32"
    assert tokenizer.decode(tokens[:]) == text


def test_finished_shards_are_reused_unless_the_input_changed(book, tmp_path, monkeypatch, small_blocks):
    out = tmp_path / "out"
    first = prepare(book, TOKENIZERS["bytes"], out, shard=100)[:].tolist()
    written = (out / "train-00000.bin").stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(shards_module, "_fill", None)  # would fail if called
        assert prepare(book, TOKENIZERS["bytes"], out, shard=100)[:].tolist() == first
    assert (out / "train-00000.bin").stat().st_mtime_ns == written
    book.write_text("something else\n" * 30)
    assert bytes(prepare(book, TOKENIZERS["bytes"], out)[:].tolist()) == b"something else\n" * 30
    other = prepare(book, TOKENIZERS["bpe"], out)
    assert TOKENIZERS["bpe"].decode(other[:]) == "something else\n" * 30
    named = {shard["file"] + ending for shard in other.index["shards"] for ending in ("", ".sha256")}
    assert {file.name for file in out.iterdir()} == named | {"index.json"}, "old shards are gone"


def test_progress_runs_from_little_to_all(book, tmp_path, small_blocks):
    reports = []
    prepare(book, TOKENIZERS["bytes"], tmp_path / "out", progress=lambda done, total: reports.append((done, total)))
    done = [done for done, _ in reports]
    assert done == sorted(done) and done[0] < 100 and reports[-1] == (len(BOOK.encode()),) * 2


def test_an_interruption_anywhere_leaves_the_same_result(book, tmp_path, small_blocks):
    whole = prepare(book, TOKENIZERS["bpe"], tmp_path / "whole", shard=50)
    steps = []
    prepare(book, TOKENIZERS["bpe"], tmp_path / "count", shard=50, progress=lambda *_: steps.append(0))

    class Stop(Exception):
        pass

    def stop_at(count):
        remaining = iter(range(count))

        def progress(done, total):
            if next(remaining, None) is None:
                raise Stop

        return progress

    for stop in range(0, len(steps), 7):
        out = tmp_path / f"stopped-{stop}"
        with pytest.raises(Stop):
            prepare(book, TOKENIZERS["bpe"], out, shard=50, progress=stop_at(stop))
        with pytest.raises(ValueError, match="is incomplete: prepare it again to resume"):
            Dataset.open(out)
        again = prepare(book, TOKENIZERS["bpe"], out, shard=50)
        assert again.index == whole.index
        assert again[:].tolist() == whole[:].tolist()


SCRIPT = """
import sys, time
from qkv.text import Bytes, corpus, prepare
corpus.BLOCK = 64
prepare(sys.argv[1], Bytes.make(), sys.argv[2], shard=200, progress=lambda *_: time.sleep(0.005))
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is a POSIX signal")
def test_killed_again_and_again_it_still_ends_with_the_same_shards(book, tmp_path, small_blocks):
    out, moments = tmp_path / "killed", random.Random(0)
    kills = 0
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(book), str(out)], env=_environment())
        deadline = time.monotonic() + 30  # the import takes a while: count from the first sign of work
        before = _state(out)
        while process.poll() is None and _state(out) == before and time.monotonic() < deadline:
            time.sleep(0.002)
        try:
            process.wait(timeout=moments.uniform(0, 0.05))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills >= 2
    tokens = prepare(book, Bytes.make(), out, shard=200)
    assert bytes(tokens[:].tolist()) == BOOK.encode()
    assert tokens.index == prepare(book, Bytes.make(), tmp_path / "whole", shard=200).index


def _state(folder):
    return sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.json"))


def _environment():
    root = os.path.dirname(os.path.dirname(os.path.dirname(shards_module.__file__)))
    return {**os.environ, "PYTHONPATH": root}


def test_a_full_disk_is_reported_and_nothing_is_lost(book, tmp_path, monkeypatch, small_blocks):
    real, out = shards_module._encode, tmp_path / "out"
    remaining = iter(range(12))

    def full(*arguments, **named):
        if next(remaining, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(shards_module, "_encode", full)
        with pytest.raises(ValueError, match=r"disk of .* is full: what is written stays"):
            prepare(book, TOKENIZERS["bytes"], out, shard=100)
    assert len(json.loads((out / "index.json").read_text())["shards"]) >= 3
    assert bytes(prepare(book, TOKENIZERS["bytes"], out, shard=100)[:].tolist()) == BOOK.encode()


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "BLOCK", 1 << 14)
    peaks = []
    for times in (40, 400):
        (tmp_path / "book.txt").write_bytes(BOOK.encode() * times)
        tracemalloc.start()
        prepare(tmp_path / "book.txt", TOKENIZERS["characters"], tmp_path / f"out{times}", shard=1 << 16)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.fixture
def hashed(book, tmp_path, monkeypatch, small_blocks):
    """A folder of several shards, each of several blocks."""
    for module in (dataset_module, shards_module):
        monkeypatch.setattr(module, "BLOCK", 100)
    prepare(book, TOKENIZERS["bytes"], tmp_path / "out", shard=300)
    return tmp_path / "out"


def read_all(tokens):
    for split in (tokens.train, tokens.validation):
        for first in range(0, len(split), 7):
            split[first : first + 7]


def test_each_block_is_compared_with_its_hash_when_it_is_first_read(hashed):
    whole = Dataset.open(hashed)
    read_all(whole)
    for file in sorted(hashed.glob("*.bin")):
        good = file.read_bytes()
        for at in random.Random(file.name).sample(range(len(good)), 6):
            for bad in (
                good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :],
                good[: at // 100 * 100] + bytes(len(good) - at // 100 * 100),
            ):
                file.unlink()  # mapped elsewhere
                file.write_bytes(bad)
                where = rf"{file.name} is damaged: block {at // 100} \(bytes {at // 100 * 100} to"
                with pytest.raises(Problem, match=where):
                    read_all(Dataset.open(hashed))
                with pytest.raises(Problem, match=where):
                    Dataset.open(hashed)[:]
        file.unlink()
        file.write_bytes(good)
    assert Dataset.open(hashed)[:].tolist() == whole[:].tolist()


def test_a_block_is_hashed_once(hashed, monkeypatch):
    tokens, hashed_bytes = Dataset.open(hashed), []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda raw: (hashed_bytes.append(len(raw)), real(raw))[1])
    assert tokens.train[10:11] is not None and hashed_bytes == [100], "only the block that is read"
    for _ in range(3):
        tokens[:], tokens.train[:], tokens.validation[:]
    assert sum(hashed_bytes) == 2 * len(tokens)


@pytest.mark.parametrize("harm", ["gone", "cut", "changed", "no text"])
def test_damaged_hashes_are_named(harm, hashed):
    file = hashed / "train-00000.bin.sha256"
    good = file.read_bytes()
    match harm:
        case "gone":
            file.unlink()
        case "cut":
            file.write_bytes(good[:-1])
        case "changed":
            file.write_bytes(good.replace(good[:1], b"x", 1))
        case "no text":
            file.write_bytes(b"\xff" * 65)
    with pytest.raises(Problem, match=r"train-00000\.bin\.sha256"):
        Dataset.open(hashed)


def test_folders_without_hashes_still_open(hashed):
    whole = Dataset.open(hashed)[:].tolist()
    index = json.loads((hashed / "index.json").read_text())
    for shard in index["shards"]:
        (hashed / (shard["file"] + ".sha256")).unlink()
        del shard["hashes"]
    (hashed / "index.json").write_text(json.dumps(index))
    assert Dataset.open(hashed)[:].tolist() == whole


def test_damaged_folders_are_refused(book, tmp_path):
    with pytest.raises(Problem, match="qkv data prepare"):
        Dataset.open(tmp_path)
    prepare(book, TOKENIZERS["bytes"], tmp_path / "out")
    shard = tmp_path / "out" / "train-00000.bin"
    shard.write_bytes(shard.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"train-00000\.bin should have \d+ bytes and has \d+: remove the folder"):
        Dataset.open(tmp_path / "out")
    (tmp_path / "out" / "index.json").write_text('{"my": "own"}')
    with pytest.raises(ValueError, match="choose another folder"):
        prepare(book, TOKENIZERS["bytes"], tmp_path / "out")
