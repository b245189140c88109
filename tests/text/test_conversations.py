"""Chats for training: exactly the answers are learned, whatever the template, and errors name the line."""

import json

import pytest

from qkv.i18n import Problem
from qkv.text import Bytes
from qkv.text.conversations import IGNORED, Chats, as_jsonl, chat_rows, read_chats
from qkv.text.labelled_texts import read_labelled
from qkv.text.pairs import read_pairs

CHATML = (
    "{% for m in messages %}<{{ m.role }}>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>\n{% endif %}"
)
# Removes the thoughts of earlier turns once another turn follows, as templates of some models do.
FORGETFUL = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else m.content.split('|')[-1] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1+1? <assistant>\nno"},
    {"role": "assistant", "content": "think|two 二"},
    {"role": "user", "content": "[EOS]"},
    {"role": "assistant", "content": "bye [EOS]"},
]


def chat_tokenizer(template=CHATML):
    tokenizer = Bytes.make(special=["pad", "eos"])
    tokenizer.template = template
    return tokenizer


def answer_texts(tokenizer, row):
    """Return the texts of the runs of learned tokens."""
    runs, last = [], -2
    for at, (token, counts) in enumerate(zip(row.ids, row.is_answer, strict=True)):
        if counts:
            runs = [*runs, []] if at != last + 1 else runs
            runs[-1].append(token)
            last = at
    return [tokenizer.decode(run, special=True) for run in runs]


def test_exactly_the_answers_and_their_ends_count():
    tokenizer = chat_tokenizer()
    (row,) = chat_rows(tokenizer, CHAT)
    assert answer_texts(tokenizer, row) == ["think|two 二[EOS]", "bye [EOS][EOS]"]
    whole = tokenizer.chat(CHAT, answer=False)
    assert row.ids == whole[: len(row.ids)] and whole[len(row.ids) :] == tokenizer.encode("\n")
    assert row.ids[-1] == tokenizer.eos and row.ids.count(tokenizer.eos) == 5, "[EOS] in a message is only text"


def test_a_template_that_rewrites_earlier_turns_gives_a_row_for_each_answer():
    tokenizer = chat_tokenizer(FORGETFUL)
    rows = chat_rows(tokenizer, CHAT)
    assert [answer_texts(tokenizer, row) for row in rows] == [["think|two 二[EOS]"], ["bye [EOS][EOS]"]]
    assert "think" not in tokenizer.decode(rows[1].ids)


def test_an_answer_that_opens_a_chat_counts_too():
    (row,) = chat_rows(chat_tokenizer(), [{"role": "assistant", "content": "Hello"}])
    assert answer_texts(chat_tokenizer(), row) == ["Hello[EOS]"]


def test_labels_are_the_answers_shifted_by_a_token():
    tokenizer = chat_tokenizer()
    chats = Chats([CHAT, CHAT[:3]], tokenizer, most=500)
    for x, y in [chats.batch(0, step, 2) for step in range(4)]:
        assert x.shape == y.shape
        for row, labels in zip(x.tolist(), y.tolist(), strict=True):
            counted = [token for token in labels if token != IGNORED]
            text = tokenizer.decode(counted, special=True)
            assert text in ("think|two 二[EOS]", "think|two 二[EOS]bye [EOS][EOS]")
            for at, label in enumerate(labels[:-1]):
                follows = row[at + 1] if row[at + 1] != tokenizer.pad else tokenizer.eos  # the last is only said
                assert label in (IGNORED, follows)


def test_long_chats_are_cut_and_those_without_an_answer_dropped():
    (row,) = chat_rows(chat_tokenizer(), CHAT)
    first = row.is_answer.index(True)
    short = Chats([CHAT, [CHAT[0], {**CHAT[1], "content": "x" * 99}, CHAT[2]]], chat_tokenizer(), most=first + 2)
    assert (len(short), short.cut, short.lost) == (1, 2, 1)
    assert sum(label != IGNORED for label in short.batch(0, 0, 1)[1][0].tolist()) == 3
    with pytest.raises(Problem, match="no answer of the chats begins within 4 tokens"):
        Chats([CHAT], chat_tokenizer(), most=4)


WRONG = {
    "no JSON": ("{", "not JSON"),
    "no messages": ('{"text": "a"}', "no list of messages"),
    "no role": ('{"messages": [{"content": "a"}]}', "no role and content"),
    "content that is no text": ('{"messages": [{"role": "user", "content": 3}]}', "no role and content"),
    "no answer": ('{"messages": [{"role": "user", "content": "a"}]}', "no answer of the assistant"),
}


def test_answers_past_the_context_are_not_rendered(monkeypatch):
    """The template is run for each answer on all that came before: a thousand answers would take minutes."""
    tokenizer, times = chat_tokenizer(), []
    chat = tokenizer.chat
    monkeypatch.setattr(tokenizer, "chat", lambda *args, **how: times.append(1) or chat(*args, **how))
    chats = Chats([CHAT[1:3] * 6], tokenizer, 60)
    assert len(times) == 4  # two for each answer, up to the first that begins past 60 tokens
    assert (chats.cut, chats.lost, len(chats)) == (1, 0, 1)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_line_that_is_not_a_chat_is_named(wrong, tmp_path):
    line, reason = WRONG[wrong]
    (tmp_path / "chats.jsonl").write_text(as_jsonl([CHAT]) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(Problem, match=rf"line 3 of .*chats\.jsonl is not a chat: .*{reason}"):
        read_chats(tmp_path / "chats.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"messages":' * 100_000,
        "[" * 900 + "]" * 900,
        json.dumps({"messages": [CHAT[2]]})[:-3] + ', "more": ' + "[" * 300 + "]" * 300 + "}]}",
        "9" * 10_000,
    ],
    ids=["open", "messages", "lists", "a deep value", "a number"],
)
def test_a_hostile_line_is_named(line, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text(as_jsonl([CHAT]) + line + "\n", encoding="utf-8")
    with pytest.raises(Problem, match=r"line 2 of .* is not a chat") as refusal:
        read_chats(file)
    assert "第 2 行" in refusal.value.say("zh")


@pytest.mark.parametrize("read", [read_chats, read_labelled, read_pairs])
def test_an_impossible_file_name_is_refused(read):
    with pytest.raises(Problem, match="there is no file") as refusal:
        read("x" * 1_000_000)
    assert len(str(refusal.value)) < 5000


def test_chats_round_trip(tmp_path):
    (tmp_path / "chats.jsonl").write_text(as_jsonl([CHAT, CHAT[:3]]), encoding="utf-8")
    assert read_chats(tmp_path / "chats.jsonl") == [CHAT, CHAT[:3]]
    (tmp_path / "bare.jsonl").write_text(json.dumps(CHAT), encoding="utf-8")
    assert read_chats(tmp_path / "bare.jsonl") == [CHAT]
