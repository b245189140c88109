"""A process that tries cases: it reads "reader seed" lines and answers each with the outcome.

Its memory is limited to detect huge allocations. The parent limits its time, since Python can't interrupt C code. A panic
of a Rust library is a BaseException; a crash ends the process.
"""

import contextlib
import gc
import json
import os
import random
import resource
import shutil
import sys
import traceback
import warnings
from pathlib import Path

from qkv.i18n import Problem

from .readers import READERS

LITTLE = 600 << 20  # bytes beyond the size after every reader has read its valid files
LONGEST = 5000  # characters of a message: quotes from files are shortened


def attempt(reader: str, seed: int, scratch: Path) -> dict[str, str]:
    """Damage a file, open it, restore it."""
    dice = random.Random(f"{reader} {seed}")
    target = READERS[reader]
    name = dice.choice(list(target.files))
    file = scratch / reader / name
    good = file.read_bytes()
    file.unlink()  # a new inode, since the old file may still be mapped
    file.write_bytes(target.files[name](good, dice))
    report: dict[str, str] = {"file": name}
    try:
        target.open(scratch / reader, file)
        report["outcome"] = "loaded"
    except Problem as problem:
        sentences = [str(problem), problem.say("zh")]
        report |= {"outcome": "sentence", "sentence": sentences[0]}
        if not all(sentences) or max(map(len, sentences)) > LONGEST:
            report |= {
                "outcome": "wrong",
                "why": f"a sentence of {len(sentences[0]):,} characters: {sentences[0][:300]}",
            }
    except BaseException as error:
        # The message may be as long as the file and contain characters that no stream can write.
        words = "".join(traceback.format_exception(error, limit=-8))
        report |= {"outcome": "wrong", "why": f"{type(error).__name__}\n{words[-3000:]}"}
    gc.collect()  # some libraries crash only when objects are freed
    file.unlink()
    file.write_bytes(good)
    return report


def main() -> None:
    """Run the worker. Arguments: the folder of valid files, and a folder for damaged copies."""
    corpus, scratch = map(Path, sys.argv[1:3])
    shutil.copytree(corpus, scratch, dirs_exist_ok=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output goes to stderr
    warnings.simplefilter("ignore")
    for reader, target in READERS.items():
        if (scratch / reader).is_dir():
            for name in target.files:
                assert (scratch / reader / name).is_file(), name
                target.open(scratch / reader, scratch / reader / name)  # the good file is good
    gc.collect()
    gc.freeze()  # excludes existing objects, so that collecting after each case is fast
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + LITTLE, size + LITTLE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        reader, seed = line.split()
        with contextlib.redirect_stdout(sys.stderr):
            report = attempt(reader, int(seed), scratch)
        print(json.dumps(report), file=answers, flush=True)


if __name__ == "__main__":
    main()
