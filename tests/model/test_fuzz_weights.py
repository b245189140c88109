"""A thousand damaged files of three formats: each gets a sentence or loads whole, soon and in little memory.

One process tries them all, with a limit on its memory and an alarm for each file, so that a huge allocation or an
endless loop is found out. A crash of the process itself fails the test too.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.text import Bytes
from qkv.text.tokenizer import LETTERS

from .files import made, write_ctranslate2, write_gguf

MUTATIONS = 1000
LITTLE = 400 << 20  # bytes more than the process had before the first file

TRY = """
import json, random, resource, signal, struct, sys, traceback
from pathlib import Path
import gguf.quants, torch
from qkv.model import ctranslate2, weights
from qkv.words import Problem

def load(file):
    if file.name == "model.bin":  # without its tokenizer, which is another file
        theirs, tensors = ctranslate2.read(file.parent)
        return weights.build(file, theirs, tensors)
    return weights.load(file if file.suffix == ".gguf" else file.parent)[0]

EDGES = [0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**33, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]

def mutate(good, head, dice):
    raw, way = bytearray(good), dice.choice("cut flip flips number number number delete insert copy swap".split())
    at = dice.randrange(head if dice.random() < 0.8 else len(raw))  # mostly where numbers and names are
    if way == "cut":
        return way, bytes(raw[:at])
    if way.startswith("flip"):
        for _ in range(1 if way == "flip" else dice.randint(2, 40)):
            raw[at] ^= 1 << dice.randrange(8)
            at = dice.randrange(head)
    elif way == "number":
        size = dice.choice("HIQ")
        raw[at : at + struct.calcsize(size)] = struct.pack("<" + size, dice.choice(EDGES) % (1 << 8 * struct.calcsize(size)))
    elif way == "delete":
        del raw[at : at + dice.choice([1, 2, 4, 8, 100])]
    elif way == "insert":
        raw[at:at] = dice.randbytes(dice.choice([1, 2, 4, 8, 100]))
    elif way == "copy":
        other, length = dice.randrange(len(raw)), dice.choice([4, 8, 64, 500])
        raw[at : at + length] = raw[other : other + length]
    else:
        raw = raw[at:] + raw[:at]
    return way, bytes(raw)

def late(*_):
    raise TimeoutError("this file took more than 5 seconds")

files = [(Path(place), head) for place, head in json.loads(sys.argv[1])]
for file, _ in files:
    whole = load(file)
room = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (room + int(sys.argv[3]),) * 2)
signal.signal(signal.SIGALRM, late)
told = {"problem": 0, "loaded": 0, "wrong": []}
for seed in range(int(sys.argv[2])):
    dice = random.Random(seed)
    file, head = files[seed % len(files)]
    good = file.read_bytes()
    way, bad = mutate(good, min(head, len(good)), dice)
    file.write_bytes(bad)
    signal.alarm(5)
    try:
        model = load(file)
        assert not any(p.is_meta for p in model.parameters()), "not whole"
        told["loaded"] += 1
    except Problem as problem:
        assert str(problem) and problem.say("zh")
        told["problem"] += 1
    except BaseException as error:
        told["wrong"].append([seed, way, file.name, "".join(traceback.format_exception(error))[-1500:]])
    signal.alarm(0)
    model = None
    file.unlink()  # a new file, since the old one may still be mapped
    file.write_bytes(good)
print(json.dumps(told))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
def test_damaged_files_get_a_sentence_or_load_whole(tmp_path):
    small = dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    llama = made("llama", vocab_size=256, **small)
    llama.save_pretrained(tmp_path / "hf")
    Bytes.make().save(tmp_path / "hf")
    safetensors = tmp_path / "hf" / "model.safetensors"
    marian = (
        write_ctranslate2(made("marian", encoder_layers=1, decoder_layers=1), tmp_path / "ct", "int8") / "model.bin"
    )
    files = [
        (safetensors, 8 + int.from_bytes(safetensors.read_bytes()[:8], "little")),
        (marian, marian.stat().st_size),  # names and numbers stand between the weights
    ]
    for kind in ("f32", "q4_1"):
        file = write_gguf(llama, tmp_path / f"{kind}.gguf", kind, tokens=LETTERS)
        files.append((file, file.read_bytes().index(b"output_norm.weight")))
    given = json.dumps([(str(file), head) for file, head in files])
    done = subprocess.run(
        [sys.executable, "-c", TRY, given, str(MUTATIONS), str(LITTLE)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert not told["wrong"], "\n".join(map(str, told["wrong"][:5]))
    assert told["problem"] + told["loaded"] == MUTATIONS
    assert told["problem"] > MUTATIONS / 3 and told["loaded"] > 0, told
    assert Path(files[0][0]).is_file()
