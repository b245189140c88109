"""What a run learns from: put into its folder once, with the tokenizer, and opened from there as a task.

The sources may move or change afterwards; the run has its own copy, so that it can always go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .. import text
from ..disk import run_folder
from ..disk.atomic_files import write_file
from ..i18n import Problem
from ..library import store
from ..model.config import Config
from ..text import conversations
from ..text.chat_templates import ChatMessage
from ..text.conversations import Chats, Messages
from ..text.generation_defaults import GENERATION_CONFIG
from .reasons import Reason
from .run_record import DataKind, DataRecord, RunRecord
from .settings import Settings, TaskName
from .tasks import Answers, Classification, HiddenWord, NextWord, PairSource, Task, Translation

Progress = Callable[[int, int], None]
LONGEST_CHAT = 512  # tokens
LONGEST = 128  # tokens of a text with a label: what is longer is cut, unless --context says more
ROWS = (256, 128, 64, 32)  # tokens that a text is learned in, the longest first
UNKNOWN = 0.1  # the share of tokens from which on it is said that a model doesn't know them


@dataclass(frozen=True)
class Sources:
    """Where the data come from, as they were named; None where nothing was said."""

    text: str | None = None
    pairs: str | None = None
    chat: str | None = None

    @property
    def called(self) -> str:
        """A word for the run's folder: the file or folder, without the part of a glob that has wildcards.

        >>> Sources("books/*.txt", None, None).called, Sources("my.book.txt", None, None).called
        ('books', 'my.book')
        """
        path = Path(str(self.pairs or self.text or self.chat or "text"))
        plain = [part for part in (*path.parent.parts, path.stem) if part.strip("/.") and not set(part) & set("*?[")]
        return plain[-1] if plain else "text"


def gather(
    task: TaskName,
    folder: Path,
    sources: Sources,
    tokenizer: str | text.Tokenizer,
    progress: Progress | None,
    why: list[Reason],
) -> DataRecord:
    """Put what is to be learned from, and its tokenizer, into the run's folder; gives what config.json says of it.

    `tokenizer` is the kind to make, or the one to keep.
    """

    def spoken(texts: text.Corpus | Iterable[str], special: tuple[str, ...]) -> text.Tokenizer:
        if isinstance(tokenizer, text.Tokenizer):
            keep_tokenizer(tokenizer, folder)
            return tokenizer
        made = text.train_tokenizer(tokenizer, texts, special=special)
        made.save(folder)
        why.append((text.reason(tokenizer, made), {"kind": made.kind, "vocab": made.vocab}))
        return made

    if task == "classify":
        labelled = text.read_labelled(store.locate(str(sources.pairs)))
        sha256 = _write(folder / run_folder.PAIRS, text.as_tsv(labelled))
        spoken((), ())
        labels = list(text.labels_of(labelled, sources.pairs))
        return {"kind": "labels", "labels": labels, "source": sources.pairs, "sha256": sha256}
    if task == "translate":
        if sources.pairs is None:
            text.date_tokenizer().save(folder)
            why.append(("why.dates", {}))
            return {"kind": "dates"}
        read = text.read_pairs(store.locate(sources.pairs))
        if len(read) < 2:
            raise Problem(
                "{pairs} has {n} pair: give at least two, one to learn from and one to test with",
                pairs=sources.pairs,
                n=len(read),
            )
        spoken([sentence for pair in read for sentence in pair], ("pad", "bos", "eos", "unk"))
        sha256 = _write(folder / run_folder.PAIRS, text.as_tsv(read))
        return {"kind": "pairs", "source": str(sources.pairs), "sha256": sha256}
    if sources.chat is not None:
        chats = conversations.read_chats(store.locate(sources.chat))
        sha256 = _write(folder / run_folder.CHATS, conversations.as_jsonl(chats))
        spoken((), ())
        return {"kind": "chats", "source": sources.chat, "sha256": sha256}
    if sources.text is None:
        raise Problem(
            "training {task} needs a text: --text FILE, folder, glob, or a data set (see `qkv data`)", task=task
        )
    corpus = text.Corpus.of(store.locate(sources.text))
    cut = spoken(corpus, ("pad", "eos", "mask") if task == "mlm" else ("eos",))
    text.prepare(corpus, cut, folder / run_folder.TOKENS, progress=progress)
    return {"kind": "text", "source": str(sources.text), "sha256": corpus.sha256()}


def _write(file: Path, content: str) -> str:
    """Write a file, and return its sha256."""
    write_file(file, content)
    return hashlib.sha256(content.encode()).hexdigest()


def keep_tokenizer(tokenizer: text.Tokenizer, folder: Path) -> None:
    """Write a tokenizer, and how its model is meant to write."""
    tokenizer.save(folder)
    if told := tokenizer.habits.told():
        told |= {"eos_token_id": tokenizer.ends} if tokenizer.ends else {}
        write_file(folder / GENERATION_CONFIG, json.dumps(told, indent=2) + "\n")


def sizes(kind: DataKind, folder: Path, config: Config, row: int | None) -> tuple[int, int, int | None]:
    """How many rows a run has to learn from and to test with, and how long they are where they are cut from a text."""
    if kind in ("pairs", "labels"):
        seen, unseen = text.split_pairs(text.read_pairs(folder / run_folder.PAIRS))
        longest = min(LONGEST, config.context) if kind == "labels" else None
        return len(seen), max(len(unseen), 1), row or longest
    if kind == "chats":
        learned, held = _chats(folder)
        return len(learned), max(len(held), 1), row or min(LONGEST_CHAT, config.context)
    tokens = text.Dataset.open(folder / run_folder.TOKENS)
    row = row or row_length(config, tokens)
    return max(len(tokens.train) // row, 1), max(len(tokens.validation) // row, 1), row


def row_length(config: Config, tokens: text.Dataset) -> int:
    """Tokens of a row: as many as are usual, fewer where the text kept for validation isn't that long."""
    fits = [row for row in ROWS if row <= config.context]
    return next((row for row in fits if row < len(tokens.validation)), min(ROWS[-1], config.context))


def open_task(record: RunRecord, folder: Path, spoken: text.Tokenizer, config: Config, settings: Settings) -> Task:
    """The task of a run, made of what lies in its folder."""
    kind = record["data"]["kind"]
    if record["task"] == "classify":
        seen, unseen = _pairs(folder)
        labels, row = record["data"]["labels"], settings.row or config.context
        texts, held_texts = (text.LabelledTexts(some, labels, spoken, row) for some in (seen, unseen))
        return Classification(texts, held_texts, spoken, unseen[:6])
    if record["task"] == "translate":
        return _translation(kind, folder, spoken, config)
    if kind == "chats":
        learned, held = _chats(folder)
        row = settings.row or config.context
        train, test = (Chats(some, spoken, row) for some in (learned, held or learned[-1:]))
        waiting = [messages[: messages.index(_first_answer(messages))] for messages in (held or learned)[:3]]
        return Answers(train, test, spoken, [messages for messages in waiting if messages])
    tokens, row = text.Dataset.open(folder / run_folder.TOKENS), settings.row or config.context
    if record["task"] == "mlm":
        return HiddenWord(tokens, spoken, row, settings.mask_share, framed=record["base"] is not None)
    return NextWord(tokens, spoken, row)


def task_reasons(task: Task, row: int | None) -> list[Reason]:
    """Say how many texts a task cuts at `row` tokens, and how much of them its tokenizer doesn't know."""
    if isinstance(task, Answers):
        return [("why.chats", {"n": len(task.train), "cut": task.train.cut, "row": row})]
    if not isinstance(task, Classification):
        return []
    cut, unknown = task.train.cut, task.train.unknown
    return [
        *([("why.cut", {"n": cut, "all": len(task.train), "row": row})] if cut else []),
        *([("why.unknown", {"share": f"{unknown:.0%}"})] if unknown > UNKNOWN else []),
    ]


def _pairs(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Those to learn from and those to test with, one at least."""
    seen, unseen = text.split_pairs(text.read_pairs(folder / run_folder.PAIRS))
    return seen, unseen or seen[-1:]


def _chats(folder: Path) -> tuple[list[Messages], list[Messages]]:
    """Those to learn from and those to test with, the same every time."""
    chats = conversations.read_chats(folder / run_folder.CHATS)
    keys = [conversations.as_jsonl([messages]) for messages in chats]
    held = {key for key, _ in text.split_pairs([(key, key) for key in keys])[1]}
    pairs = list(zip(keys, chats, strict=True))
    return [each for key, each in pairs if key not in held], [each for key, each in pairs if key in held]


def _first_answer(messages: Messages) -> ChatMessage:
    return next(message for message in messages if message["role"] == conversations.ASSISTANT)


def _translation(kind: DataKind, folder: Path, spoken: text.Tokenizer, config: Config) -> Task:
    learned: PairSource
    held: PairSource
    if kind == "dates":
        splits = ("train", "unseen")
        learned, held = (text.PairStream(partial(text.date_pair, split=split), spoken) for split in splits)
        examples = [text.date_pair(7, i, "unseen")[0] for i in range(6)]
    else:
        seen, unseen = _pairs(folder)
        examples = [source for source, _ in unseen[:6]]
        learned, held = text.Pairs(seen, spoken), text.Pairs(unseen, spoken)
    longest = max(learned.longest, held.longest)
    if config.position == "learned" and longest > config.context:
        raise Problem(
            "a sentence of the pairs has {n} tokens but this model learns {context} positions: set --context {n}, "
            "or leave long sentences out, or --set position=rotary, which has no limit",
            n=longest,
            context=config.context,
        )
    return Translation(learned, held, spoken, examples)
