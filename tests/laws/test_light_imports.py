"""Training on a text file imports no reader of foreign models: those are for `--from MODEL`."""

import os
import subprocess
import sys
from pathlib import Path

import qkv

# Most modules of qkv that the training module may import. Raise it only for a module that every run needs.
MOST = 95
FOREIGN = ("qkv.formats.gguf", "qkv.formats.onnx", "qkv.formats.ctranslate2", "qkv.formats.families", "gguf", "onnx")
SCRIPT = """
import sys
from pathlib import Path
import qkv.train.run
print(*sorted(sys.modules))
Path("book.txt").write_text("to be or not to be " * 50)
shape = dict(n_layer=1, width=16, n_head=2, context=8, steps=2, batch=2, eval_batches=1)
qkv.train.run.start("lm", source="book.txt", out=Path("run"), changes=shape).train()
print(*sorted(sys.modules))
"""


def test_training_on_a_text_imports_no_foreign_format(tmp_path):
    here = {**os.environ, "PYTHONPATH": str(Path(qkv.__file__).parents[1])}
    command = [sys.executable, "-c", SCRIPT]
    process = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=True)
    imported, trained = (line.split() for line in process.stdout.splitlines())
    assert [name for name in trained if name.startswith(FOREIGN)] == []
    ours = [name for name in imported if name.startswith("qkv.")]
    assert len(ours) <= MOST, ours
