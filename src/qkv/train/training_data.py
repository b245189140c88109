"""The data of a run: copied into its folder once, with the tokenizer, and opened from there as a task.

The sources may move or change afterwards: the run has its own copy.
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
CHAT_ROW = 512  # tokens
LABELLED_ROW = 128  # tokens of a text with a label; longer texts are cut, unless --context is larger
ROWS = (256, 128, 64, 32)  # tokens per row of a text, longest first
UNKNOWN_SHARE = 0.1  # the share of unknown tokens above which a run reports them


@dataclass(frozen=True)
class Sources:
    """The sources of the data as they were given, None where absent."""

    text: str | None = None
    pairs: str | None = None
    chat: str | None = None

    @property
    def name(self) -> str:
        """A name for the run's folder: the last part of the path without wildcards.

        >>> Sources("books/*.txt").name, Sources("my.book.txt").name
        ('books', 'my.book')
        """
        path = Path(str(self.pairs or self.text or self.chat or "text"))
        plain = [part for part in (*path.parent.parts, path.stem) if part.strip("/.") and not set(part) & set("*?[")]
        return plain[-1] if plain else "text"


def prepare_data(
    task: TaskName,
    folder: Path,
    sources: Sources,
    tokenizer: str | text.Tokenizer,
    progress: Progress | None,
    why: list[Reason],
) -> DataRecord:
    """Write the data and the tokenizer into the run's folder, and return their record for config.json.

    `tokenizer` is a kind to train, or a tokenizer to keep.
    """

    def make_tokenizer(texts: text.Corpus | Iterable[str], special: tuple[str, ...]) -> text.Tokenizer:
        if isinstance(tokenizer, text.Tokenizer):
            save_tokenizer(tokenizer, folder)
            return tokenizer
        trained = text.train_tokenizer(tokenizer, texts, special=special)
        trained.save(folder)
        why.append((text.reason(tokenizer, trained), {"kind": trained.kind, "vocab": trained.vocab}))
        return trained

    if task == "classify":
        labelled = text.read_labelled(store.locate(str(sources.pairs)))
        sha256 = _write(folder / run_folder.PAIRS, text.as_tsv(labelled))
        make_tokenizer((), ())
        labels = list(text.labels_of(labelled, sources.pairs))
        return {"kind": "labels", "labels": labels, "source": sources.pairs, "sha256": sha256}
    if task == "translate":
        if sources.pairs is None:
            text.date_tokenizer().save(folder)
            why.append(("why.dates", {}))
            return {"kind": "dates"}
        sentence_pairs = text.read_pairs(store.locate(sources.pairs))
        if len(sentence_pairs) < 2:
            raise Problem(
                "{pairs} has {n} pair: give at least two, one to learn from and one to test with",
                pairs=sources.pairs,
                n=len(sentence_pairs),
            )
        make_tokenizer([sentence for pair in sentence_pairs for sentence in pair], ("pad", "bos", "eos", "unk"))
        sha256 = _write(folder / run_folder.PAIRS, text.as_tsv(sentence_pairs))
        return {"kind": "pairs", "source": str(sources.pairs), "sha256": sha256}
    if sources.chat is not None:
        chats = conversations.read_chats(store.locate(sources.chat))
        sha256 = _write(folder / run_folder.CHATS, conversations.as_jsonl(chats))
        make_tokenizer((), ())
        return {"kind": "chats", "source": sources.chat, "sha256": sha256}
    if sources.text is None:
        raise Problem(
            "training {task} needs a text: --text FILE, folder, glob, or a data set (see `qkv data`)", task=task
        )
    corpus = text.Corpus.of(store.locate(sources.text))
    cut = make_tokenizer(corpus, ("pad", "eos", "mask") if task == "mlm" else ("eos",))
    text.prepare(corpus, cut, folder / run_folder.TOKENS, progress=progress)
    return {"kind": "text", "source": str(sources.text), "sha256": corpus.sha256()}


def _write(file: Path, content: str) -> str:
    """Write a file, and return its sha256."""
    write_file(file, content)
    return hashlib.sha256(content.encode()).hexdigest()


def save_tokenizer(tokenizer: text.Tokenizer, folder: Path) -> None:
    """Write a tokenizer and its generation defaults."""
    tokenizer.save(folder)
    if defaults := tokenizer.habits.as_config():
        defaults |= {"eos_token_id": tokenizer.ends} if tokenizer.ends else {}
        write_file(folder / GENERATION_CONFIG, json.dumps(defaults, indent=2) + "\n")


def count_rows(kind: DataKind, folder: Path, config: Config, row: int | None) -> tuple[int, int, int | None]:
    """Return the numbers of training and validation rows, and their length in tokens (None for sentence pairs)."""
    if kind in ("pairs", "labels"):
        training, held_out = text.split_pairs(text.read_pairs(folder / run_folder.PAIRS))
        longest = min(LABELLED_ROW, config.context) if kind == "labels" else None
        return len(training), max(len(held_out), 1), row or longest
    if kind == "chats":
        training_chats, held_out_chats = _chats(folder)
        return len(training_chats), max(len(held_out_chats), 1), row or min(CHAT_ROW, config.context)
    tokens = text.Dataset.open(folder / run_folder.TOKENS)
    row = row or row_length(config, tokens)
    return max(len(tokens.train) // row, 1), max(len(tokens.validation) // row, 1), row


def row_length(config: Config, tokens: text.Dataset) -> int:
    """Return the tokens per row: the largest of ROWS that fits the context and the validation text."""
    fits = [row for row in ROWS if row <= config.context]
    return next((row for row in fits if row < len(tokens.validation)), min(ROWS[-1], config.context))


def open_task(record: RunRecord, folder: Path, tokenizer: text.Tokenizer, config: Config, settings: Settings) -> Task:
    """Return the task of a run from the data in its folder."""
    kind = record["data"]["kind"]
    if record["task"] == "classify":
        training, held_out = _pairs(folder)
        labels, row = record["data"]["labels"], settings.row or config.context
        texts, held_out_texts = (text.LabelledTexts(rows, labels, tokenizer, row) for rows in (training, held_out))
        return Classification(texts, held_out_texts, tokenizer, held_out[:6])
    if record["task"] == "translate":
        return _translation(kind, folder, tokenizer, config)
    if kind == "chats":
        chats, held_out_chats = _chats(folder)
        row = settings.row or config.context
        train, test = (Chats(rows, tokenizer, row) for rows in (chats, held_out_chats or chats[-1:]))
        prompts = [messages[: messages.index(_first_answer(messages))] for messages in (held_out_chats or chats)[:3]]
        return Answers(train, test, tokenizer, [messages for messages in prompts if messages])
    tokens, row = text.Dataset.open(folder / run_folder.TOKENS), settings.row or config.context
    if record["task"] == "mlm":
        return HiddenWord(tokens, tokenizer, row, settings.mask_share, framed=record["base"] is not None)
    return NextWord(tokens, tokenizer, row)


def task_reasons(task: Task, row: int | None) -> list[Reason]:
    """Return the reasons about texts that are cut at `row` tokens and about unknown tokens."""
    if isinstance(task, Answers):
        return [("why.chats", {"n": len(task.train), "cut": task.train.cut, "row": row})]
    if not isinstance(task, Classification):
        return []
    cut, unknown = task.train.cut, task.train.unknown
    return [
        *([("why.cut", {"n": cut, "all": len(task.train), "row": row})] if cut else []),
        *([("why.unknown", {"share": f"{unknown:.0%}"})] if unknown > UNKNOWN_SHARE else []),
    ]


def _pairs(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return pairs for training and for validation, at least one each."""
    training, held_out = text.split_pairs(text.read_pairs(folder / run_folder.PAIRS))
    return training, held_out or training[-1:]


def _chats(folder: Path) -> tuple[list[Messages], list[Messages]]:
    """Return chats for training and for validation, always the same split."""
    chats = conversations.read_chats(folder / run_folder.CHATS)
    keys = [conversations.as_jsonl([messages]) for messages in chats]
    held_out = {key for key, _ in text.split_pairs([(key, key) for key in keys])[1]}
    pairs = list(zip(keys, chats, strict=True))
    return [messages for key, messages in pairs if key not in held_out], [
        messages for key, messages in pairs if key in held_out
    ]


def _first_answer(messages: Messages) -> ChatMessage:
    return next(message for message in messages if message["role"] == conversations.ASSISTANT)


def _translation(kind: DataKind, folder: Path, tokenizer: text.Tokenizer, config: Config) -> Task:
    training: PairSource
    held_out: PairSource
    if kind == "dates":
        splits = ("train", "unseen")
        training, held_out = (text.PairStream(partial(text.date_pair, split=split), tokenizer) for split in splits)
        examples = [text.date_pair(7, i, "unseen")[0] for i in range(6)]
    else:
        training_pairs, held_out_pairs = _pairs(folder)
        examples = [source for source, _ in held_out_pairs[:6]]
        training, held_out = text.Pairs(training_pairs, tokenizer), text.Pairs(held_out_pairs, tokenizer)
    longest = max(training.longest, held_out.longest)
    if config.position == "learned" and longest > config.context:
        raise Problem(
            "a sentence of the pairs has {n} tokens but this model learns {context} positions: set --context {n}, "
            "or leave long sentences out, or --set position=rotary, which has no limit",
            n=longest,
            context=config.context,
        )
    return Translation(training, held_out, tokenizer, examples)
