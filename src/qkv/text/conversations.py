"""Chats for training: JSON Lines with `messages`, rendered by the model's own template.

Only the assistant's answers are learned, each with the token that ends its turn. To find where an answer begins, the
template is rendered twice: with the messages before the answer and a generation prompt, and with the answer. The
difference is the answer.

Legend: B batch, N tokens of the longest chat of a batch.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..disk.bounded_reading import parse_json
from ..i18n import Message, Problem
from .chat_templates import ChatMessage
from .length_batches import Pools
from .mlm_masking import IGNORED
from .pairs import lines, pad
from .tokenizer import Tokenizer

Messages = Sequence[ChatMessage]
ASSISTANT = "assistant"


class ChatRow(NamedTuple):
    """The tokens of a chat or of its beginning; `is_answer` marks those of the assistant's answers."""

    ids: list[int]
    is_answer: list[bool]


def read_chats(path: str | Path) -> list[Messages]:
    r"""Return the messages of each line of a JSONL file; raise a Problem with the line number if a line has none.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "chats.jsonl")
    ...     _ = file.write_text('{"messages": [{"role": "assistant", "content": "Hi"}]}\n', encoding="utf-8")
    ...     print(read_chats(file))
    [[{'role': 'assistant', 'content': 'Hi'}]]
    """
    path, chats = Path(path), []
    for number, line in lines(path):
        try:
            record = parse_json(line)
        except Problem as problem:
            raise _bad_line(path, number, Message("it is not JSON: {error}", error=problem)) from None
        messages = record.get("messages") if isinstance(record, dict) else record
        chats.append(_check_messages(path, number, messages))
    if not chats:
        raise Problem(
            '{path} has no chats: put one on each line, {{"messages": [{{"role": …, "content": …}}, …]}}', path=path
        )
    return chats


def _check_messages(path: Path, number: int, messages: object) -> Messages:
    if not isinstance(messages, list) or not messages:
        raise _bad_line(path, number, Message("it has no list of messages"))
    for message in messages:
        if not isinstance(message, dict) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            excerpt = str(message)[:60]
            raise _bad_line(path, number, Message("a message has no role and content: {message}", message=excerpt))
    if not any(message["role"] == ASSISTANT and message["content"].strip() for message in messages):
        raise _bad_line(path, number, Message("it has no answer of the assistant, so there is nothing to learn"))
    return messages


def _bad_line(path: Path, number: int, why: Message) -> Problem:
    return Problem(
        'line {number} of {path} is not a chat: {why}; write {{"messages": [{{"role": "user", "content": …}}, {{"role": '
        '"assistant", "content": …}}]}}',
        number=number,
        path=path,
        why=why,
    )


def as_jsonl(chats: Sequence[Messages]) -> str:
    """Return chats as JSON Lines, the inverse of `read_chats`.

    >>> print(as_jsonl([[{"role": "user", "content": "你好"}]]), end="")
    {"messages": [{"role": "user", "content": "你好"}]}
    """
    return "".join(json.dumps({"messages": messages}, ensure_ascii=False) + "\n" for messages in chats)


def chat_rows(tokenizer: Tokenizer, messages: Messages, most: int | None = None) -> list[ChatRow]:
    r"""Return a chat as training rows: one row, or one per answer if the template changes earlier turns later on.

    The template runs twice per answer, over all earlier messages. So rendering stops at the first answer that begins
    after `most` tokens: it and later ones would be cut off.

    >>> from . import Bytes
    >>> tokenizer = Bytes.make(special=["eos"])
    >>> tokenizer.template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ eos_token }}{% endfor %}" \
    ...     "{% if add_generation_prompt %}a:{% endif %}"
    >>> (row,) = chat_rows(tokenizer, [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}])
    >>> tokenizer.decode([i for i, learned in zip(*row) if learned], special=True)
    'Yes[EOS]'
    """
    answers = [at for at, message in enumerate(messages) if message["role"] == ASSISTANT and message["content"].strip()]
    rows = []
    for at in answers:
        rows.append(_row_up_to(tokenizer, messages, at))
        if most is not None and not any(rows[-1].is_answer[:most]):
            break
    longest = rows[-1].ids
    if any(longest[: len(row.ids)] != row.ids for row in rows):
        return rows
    is_answer = np.zeros(len(longest), dtype=bool)
    for row in rows:
        is_answer[: len(row.ids)] |= row.is_answer
    return [ChatRow(longest, is_answer.tolist())]


def _row_up_to(tokenizer: Tokenizer, messages: Messages, at: int) -> ChatRow:
    """Return the tokens of a chat up to the end of message `at`, with `is_answer` True for the tokens of that message."""
    before = tokenizer.chat(messages[:at], answer=True) if at else _prompt_of_first(tokenizer, messages[0])
    ids = tokenizer.chat(messages[: at + 1], answer=False)
    if ids[: len(before)] != before:
        raise Problem(
            "the model's chat template changes the text before an answer once the answer follows, so the answers can't be "
            "located"
        )
    end = next((i + 1 for i in range(len(before), len(ids)) if ids[i] in tokenizer.ends), len(ids))
    return ChatRow(ids[:end], [i >= len(before) for i in range(end)])


def _prompt_of_first(tokenizer: Tokenizer, first: ChatMessage) -> list[int]:
    """Return the tokens before an answer that opens a chat; many templates fail without any message."""
    empty = tokenizer.chat([{**first, "content": ""}], answer=False)
    ids = tokenizer.chat([first], answer=False)
    return ids[: next((i for i, (a, b) in enumerate(zip(ids, empty, strict=False)) if a != b), len(empty))]


class Chats:
    """Chats in batches of similar length: inputs x (B, N), and labels y (B, N), −100 where there is no loss.

    `cut` counts rows longer than `most` tokens, and `lost` those of them that have no answer within that length.
    """

    def __init__(self, chats: Sequence[Messages], tokenizer: Tokenizer, most: int) -> None:
        rows = [row for messages in chats for row in chat_rows(tokenizer, messages, most + 1)]
        self.cut = sum(len(row.ids) > most + 1 for row in rows)
        short = [ChatRow(row.ids[: most + 1], row.is_answer[: most + 1]) for row in rows]
        self.rows = [row for row in short if any(row.is_answer[1:])]
        self.lost = len(rows) - len(self.rows)
        if not self.rows:
            raise Problem("no answer of the chats begins within {most} tokens: give a longer --context", most=most)
        self.pad = tokenizer.pad or 0
        self.pools = Pools([len(row.ids) for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, seed: int, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return batch number `step`, counted across epochs."""
        return self._take(self.pools.batch(seed, step, batch))

    def _take(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.rows[i] for i in indices]
        x, _ = pad([row.ids[:-1] for row in rows], self.pad)
        labels = [
            [token if is_answer else IGNORED for token, is_answer in zip(row.ids[1:], row.is_answer[1:], strict=True)]
            for row in rows
        ]
        return x, pad(labels, IGNORED)[0]
