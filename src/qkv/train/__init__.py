"""Training: tasks, optimizers, checkpoints, parallel processes, and a loop that is a page long.

Read in this order: `run`, `settings`, `training_data`, `tasks`, `loop`, `optim`, `checkpoint`, `machine`, `lock`, `reasons`,
`run_record`, `resume_options`, `fine_tuning`, `parallelize`, `watch`.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from qkv.train import Run, resume, start
>>> with TemporaryDirectory() as folder:
...     text, out = Path(folder, "text.txt"), Path(folder, "run")
...     _ = text.write_text("to be or not to be " * 50, encoding="utf-8")
...     shape = {"n_layer": 1, "width": 16, "n_head": 2, "context": 8, "steps": 2, "batch": 2, "eval_batches": 1}
...     run: Run = start("lm", source=str(text), out=out, changes=shape)
...     done = run.train()
...     print(sorted(done), run.settings.steps)
...     print(sorted(path.name for path in out.iterdir()))
...     print(resume(out).state["step"])
['best_loss', 'best_step', 'seconds', 'step', 'waited'] 2
['checkpoints', 'config.json', 'metrics.jsonl', 'samples.txt', 'tokenizer.json', 'tokenizer_config.json', 'tokens']
2
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .run import Run as Run
    from .run import resume as resume
    from .run import start as start
    from .settings import Settings as Settings

__getattr__, __dir__, __all__ = lazy(
    __name__,
    Settings="settings",
    Run="run",
    start="run",
    resume="run",
)
