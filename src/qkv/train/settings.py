"""The settings of a training run, and the presets."""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

from ..i18n import LARGEST, Problem, _, all_of, too_large, unknown
from ..model.config import CHOICES as WORDS
from ..model.config import NAMES, Config, unknown_setting
from ..model.config_checks import STATES
from ..model.presets import BERT_LAYOUT, PRESETS

TaskName = Literal["lm", "mlm", "translate", "classify"]
OptimizerName = Literal["muon", "adamw"]
DtypeName = Literal["float32", "bfloat16", "float64"]
LoraParts = Literal["attention", "all"]
Changes = dict[str, Any]  # settings of the model or of the run, by name

TASKS: dict[TaskName, str] = {"lm": "decoder", "mlm": "encoder", "translate": "encoder-decoder"}  # -> kind of model
FINE_TUNED: dict[TaskName, str] = {**TASKS, "classify": "encoder"}  # the same for fine-tuning
CHOICES = {"optimizer": get_args(OptimizerName), "dtype": get_args(DtypeName), "lora_parts": get_args(LoraParts)}
# Whole numbers and their least values.
WHOLE_NUMBERS = dict.fromkeys(("steps", "batch", "eval_every", "eval_batches", "accumulate"), 1)
WHOLE_NUMBERS |= dict.fromkeys(OPTIONAL := ("checkpoint_every", "row", "patience", "lora"), 1) | {
    "warmup": 0,
    "seed": 0,
}
LARGEST_VALUES = {"eval_batches": 1_000_000, "seed": 2**31 - 1}  # the seed and the number of a step share 64 bits


@dataclass(frozen=True)
class Settings:
    """The settings of a run: steps, batches, optimizer and schedule.

    >>> Settings(steps=500).batch, Settings(steps=500).optimizer
    (32, 'muon')
    >>> Settings(lr=-1)
    Traceback (most recent call last):
    qkv.i18n.Problem: lr is -1: give a number, 0 or more
    """

    steps: int = 1000
    batch: int = 32  # rows per step, over all processes
    seed: int = 0
    optimizer: OptimizerName = "muon"  # muon: Muon for the matrices of blocks, AdamW for the rest; adamw: AdamW for all
    lr: float = 0.02  # of Muon, or of AdamW if optimizer is adamw
    adam_lr: float = 0.01  # of AdamW beside Muon (embeddings; half of it for the head)
    weight_decay: float = 0.0
    warmup: int = 20  # steps up to the full rate
    decay: float = 0.5  # share of the steps, at the end, over which the rate falls linearly to 0
    clip: float = 1.0  # largest norm of all gradients together; 0 is no limit
    accumulate: int = 1  # pieces per batch, to save memory
    eval_every: int = 100
    eval_batches: int = 20
    checkpoint_every: int | None = None  # steps; by default about every 30 s
    mask_share: float = 0.15  # share of words that a BERT must guess
    row: int | None = None  # tokens per row, if fewer than the model's context
    lora: int | None = None  # rank of LoRA adapters; none: all weights are trained
    lora_alpha: float | None = None  # adapters are scaled by lora_alpha / rank; default 2 × rank
    lora_parts: LoraParts = "attention"  # the projections of attention, or all: also of feed-forwards
    patience: int | None = None  # evaluations without progress before training ends early; none: never
    compile: bool = False
    dtype: DtypeName = "float32"
    before: tuple[tuple[int, int], ...] = ()  # earlier plans of an extended run: (until step, planned steps)

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, int) and abs(value) > LARGEST:
                raise too_large(name, value)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise unknown(name, getattr(self, name), choices)
        for name, least in WHOLE_NUMBERS.items():
            value, last = getattr(self, name), LARGEST_VALUES.get(name, LARGEST)
            if not (_is_whole(value, least) and value <= last) and not (value is None and name in OPTIONAL):
                key = _("{name} is {value}: give a whole number, {least} or more")
                if name in OPTIONAL:
                    key = _("{name} is {value}: give {least} or more, or none")
                if name in LARGEST_VALUES:
                    key = _("{name} is {value}: give a whole number from {least} to {last}")
                raise Problem(key, name=name, value=str(value), least=least, last=last)

        def refuse(name: str, is_wrong: bool, key: str) -> None:
            if is_wrong:
                raise Problem(key, name=name, value=str(getattr(self, name)))

        for name in ("lr", "adam_lr", "weight_decay", "clip", "decay", "mask_share", "lora_alpha"):
            value = getattr(self, name)
            is_number = _is_number(value) or (value is None and name == "lora_alpha")
            refuse(name, not is_number, _("{name} is {value}: give a number, 0 or more"))
        refuse("lora_alpha", self.lora_alpha == 0, _("{name} is {value}: give a number above 0"))
        refuse(
            "decay", self.decay > 1, _("decay is {value}: give the share of steps over which the rate falls, 0 to 1")
        )
        key = _("mask_share is {value}: give the share of words to hide, above 0 and up to 1")
        refuse("mask_share", not 0 < self.mask_share <= 1, key)
        refuse("compile", not isinstance(self.compile, bool), _("{name} is {value}: give true or false"))
        key = _("before is {value}: give [[until, steps], …], the earlier plans of an extended run in config.json")
        refuse("before", not _are_plans(self.before), key)
        object.__setattr__(self, "before", tuple((until, steps) for until, steps in self.before))  # JSON has lists
        if self.batch % self.accumulate:
            raise Problem(
                "a batch of {batch} rows doesn't divide into accumulate={accumulate} pieces",
                batch=self.batch,
                accumulate=self.accumulate,
            )

    def to_dict(self) -> Changes:
        """Return plain values, for JSON.

        >>> Settings(steps=500).to_dict()["steps"]
        500
        """
        return asdict(self)

    def rate(self, step: int) -> float:
        """Return the share of the full learning rate at a step: warm-up, constant, decay.

        >>> s = Settings(steps=100, warmup=10, decay=0.5)
        >>> [round(s.rate(i), 2) for i in (0, 9, 40, 75, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.02]
        """
        steps = self.planned(step)
        falling = round(self.decay * steps)
        up = min((step + 1) / max(self.warmup, 1), 1.0)
        down = min((steps - step) / falling, 1.0) if falling else 1.0
        return min(up, down)

    def planned(self, step: int) -> int:
        """Return the number of steps that was planned when this step was taken. A resumed run can be extended.

        >>> Settings(steps=600, before=[(400, 400)]).planned(399), Settings(steps=600, before=[(400, 400)]).planned(400)
        (400, 600)
        """
        return next((steps for until, steps in self.before if step < until), self.steps)


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object) -> bool:
    """True for a finite number, 0 or more."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_plans(value: object) -> bool:
    """True for pairs (until, steps) with rising `until`, none above its `steps`."""
    if not isinstance(value, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in value):
        return False
    last = 0
    for until, steps in value:
        if not _is_whole(until, last + 1) or not _is_whole(steps, until):
            return False
        last = until
    return True


def canonical_names(changes: Changes) -> Changes:
    """Return changes by their names in files, such as rotary_base for rotary.base. Unknown names are refused."""
    every = sorted({*Config().to_dict(), *(field.name for field in fields(Settings))})
    named: Changes = {}
    for name, value in changes.items():
        group, _dot, inner = name.partition(".")
        named[NAMES.get(group, {}).get(inner, name)] = value
    for name in named:
        if name not in every and not name.startswith("experts."):
            raise unknown_setting(name, every)
    return named


def apply_changes(config: Config, settings: Settings, changes: Changes) -> tuple[Config, Settings]:
    """Apply changes by name to the config or the settings, whichever has the name."""
    changes, of_run = canonical_names(changes), {field.name for field in fields(Settings)}
    config = config.replace(**{k: v for k, v in changes.items() if k not in of_run})
    return config, replace(settings, **{k: v for k, v in changes.items() if k in of_run})


def read_settings(values: Changes) -> Settings:
    """Return the settings that the config.json of a run holds."""
    return apply_changes(Config(), Settings(), values)[1]


_CLASSIC: Changes = dict(optimizer="adamw", weight_decay=0.1, warmup=100, decay=1.0)
_RUNS: dict[str, Changes] = {
    "tiny": dict(steps=1000, batch=24),
    "small": dict(steps=2000, batch=16, eval_every=200),
    **{name: dict(steps=1000, batch=24) for name in ("tiny-mamba2", "tiny-bamba", "tiny-qwen3-next")},
    "gpt2": dict(steps=20000, batch=8, lr=6e-4, eval_every=500, **_CLASSIC),
}


def parse_task(name: str) -> TaskName:
    """Return the task of this name. Unknown names are refused.

    >>> parse_task("lm")
    'lm'
    """
    for task in FINE_TUNED:
        if task == name:
            return task
    raise Problem("there is no task {task!r}: choose from {tasks}", task=name, tasks=all_of(FINE_TUNED))


def preset(name: str, task: TaskName) -> tuple[Config, Settings]:
    """Return config and settings of a preset (tiny, small, gpt2, …) for a task (lm, mlm, translate), except `vocab`."""
    if name not in _RUNS:
        raise unknown("preset", name, _RUNS)
    config, settings = PRESETS[name], Settings(**_RUNS[name])
    if task != "lm" and set(config.mixers) & set(STATES):
        raise Problem(
            "preset {name} reads from left to right and keeps no memory of another text, so it learns lm: leave it out for "
            "{task}, or choose one of {known}",
            name=name,
            task=task,
            known=all_of(each for each in _RUNS if not set(PRESETS[each].mixers) & set(STATES)),
        )
    if task == "mlm":
        # BERT's layout, so that it can be exported as a BERT.
        config = config.replace(qk_norm=None, tied=True, init="normal", **BERT_LAYOUT)
        settings = replace(settings, steps=settings.steps * 2)
    elif task == "translate":
        config = config.replace(
            kind="encoder-decoder", n_layer=max(config.n_layer // 2, 1), tied=False, init="zero-out"
        )
        settings = replace(settings, batch=64)
    return config, settings


class ResolvedPreset(NamedTuple):
    """A preset with changes. `yielded` has the preset's values that were dropped because they contradict the changes."""

    config: Config
    settings: Settings
    yielded: Changes


def resolve_preset(name: str, task: TaskName, changes: Changes) -> ResolvedPreset:
    """Return a preset with changes by name.

    A choice of the preset that contradicts the changes is replaced by its default: MLA has no q/k norm, which some presets
    set. Changes are never dropped, and sizes aren't either.

    >>> resolve_preset("tiny", "lm", {"mixer": "latent"}).yielded
    {'qk_norm': 'rms'}
    """
    changes = canonical_names(changes)
    if changes.get("kind", TASKS[task]) != TASKS[task]:
        raise Problem(
            "kind is {kind}: {task} trains a model of kind {needed}; leave kind out, or choose another task",
            task=task,
            kind=changes["kind"],
            needed=TASKS[task],
        )
    if changes.get("head") == "none":
        raise Problem("head='none' returns states, but {task} needs logits: leave it out", task=task)
    config, settings = preset(name, task)
    try:
        return ResolvedPreset(*apply_changes(config, settings, changes), {})
    except Problem as problem:
        first_problem = problem
    defaults = Config()
    for word in (*WORDS, "rotary_fraction"):
        value = getattr(config, word)
        if word != "kind" and word not in changes and value != getattr(defaults, word):
            try:
                return ResolvedPreset(
                    *apply_changes(config, settings, {word: getattr(defaults, word), **changes}), {word: value}
                )
            except Problem:
                continue
    raise first_problem
