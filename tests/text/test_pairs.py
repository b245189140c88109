"""Sentence pairs: each once per epoch, in batches of similar length; errors in files are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.i18n import Problem
from qkv.text import Bytes, Characters, Pairs, PairStream, read_pairs, split_pairs

SPECIAL = ("pad", "bos", "eos", "unk")
TOKENIZER = Bytes.make(special=SPECIAL)


def numbered(count):
    """Return distinct pairs of many lengths."""
    return [(f"{i:04d}" + "x" * (i * 7 % 31), "好" * (i * 7 % 31 // 3)) for i in range(count)]


def sources(batch):
    rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
    return [TOKENIZER.decode(row[:length]) for row, length in rows]


@given(texts=st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12)), min_size=1, max_size=7))
def test_a_batch_holds_the_pairs(texts):
    pairs = Pairs(texts, TOKENIZER)
    batch = next(pairs.batches(len(texts)))
    pad, bos, eos = TOKENIZER.pad, TOKENIZER.bos, TOKENIZER.eos
    decoded = []
    for row in range(len(texts)):
        n, m = batch.source_lengths[row], batch.target_lengths[row]
        assert batch.source[row, n - 1] == eos and (batch.source[row, n:] == pad).all()
        assert batch.target_in[row, 0] == bos and batch.target_out[row, m - 1] == eos
        assert (batch.target_in[row, 1:m] == batch.target_out[row, : m - 1]).all()
        assert (batch.target_in[row, m:] == pad).all() and (batch.target_out[row, m:] == pad).all()
        decoded.append((TOKENIZER.decode(batch.source[row]), TOKENIZER.decode(batch.target_out[row])))
    assert sorted(decoded) == sorted(texts)
    assert batch.source.shape[1] == batch.source_lengths.max() and batch.target_in.dtype == np.int64


@given(count=st.integers(1, 70), size=st.integers(1, 9), seed=st.integers(0, 99))
def test_an_epoch_has_every_pair(count, size, seed):
    texts = numbered(count)
    pairs = Pairs(texts, TOKENIZER)
    steps = -(-count // size)
    for epoch in range(2):
        batches = [pairs.batch(seed, epoch * steps + step, size) for step in range(steps)]
        drawn = [source for batch in batches for source in sources(batch)]
        assert set(drawn) == {source for source, _ in texts}
        assert len(drawn) == steps * size, "all batches are full"
        if size <= count:
            assert max(map(drawn.count, drawn)) <= 2


def test_a_batch_depends_on_seed_and_step_alone():
    first, second = Pairs(numbered(100), TOKENIZER), Pairs(numbered(100), TOKENIZER)
    forward = [first.batch(3, step, 8) for step in range(40)]
    backward = [second.batch(3, step, 8) for step in reversed(range(40))]
    for a, b in zip(forward, reversed(backward), strict=True):
        assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert sources(first.batch(4, 0, 8)) != sources(forward[0]), "another seed"
    epochs = [{frozenset(sources(batch)) for batch in forward[first : first + 13]} for first in (0, 13)]
    assert len(epochs[0] & epochs[1]) < 5, "another epoch puts other pairs together"


def test_batches_hold_pairs_of_similar_length():
    pairs = Pairs(numbered(500), TOKENIZER)
    batches = [pairs.batch(0, step, 16) for step in range(30)]
    real = sum(batch.source_lengths.sum() + batch.target_lengths.sum() for batch in batches)
    padded = sum(batch.source.size + batch.target_in.size for batch in batches)
    assert real / padded > 0.9
    lengths = [batch.source.shape[1] for batch in batches[:20]]
    assert lengths != sorted(lengths), "short and long batches come mixed"


def test_two_tokenizers_for_two_languages():
    english = Characters.make("a cat", special=("pad", "eos"))
    chinese = Characters.make("一只猫", special=("pad", "bos", "eos"))
    batch = Pairs([("a cat", "一只猫")], english, chinese).batch(0, 0, 1)
    assert english.decode(batch.source[0]) == "a cat" and chinese.decode(batch.target_out[0]) == "一只猫"
    with pytest.raises(ValueError, match="no bos token, which sentence pairs need"):
        Pairs([("a cat", "a cat")], english)
    with pytest.raises(ValueError, match="no pairs"):
        Pairs([], chinese)


def test_a_stream_never_ends_and_never_repeats_its_state():
    stream = PairStream(lambda seed, index: (f"{seed} {index}", "好"), TOKENIZER)
    assert sources(stream.batch(5, 0, 3)) == ["5 0", "5 1", "5 2"]
    assert sources(stream.batch(5, 10**9, 2)) == ["5 2000000000", "5 2000000001"]


@given(texts=st.lists(st.tuples(st.sampled_from("abcdefghij"), st.text(max_size=3)), max_size=60))
def test_no_source_is_on_both_sides(texts):
    train, validation = split_pairs(texts, 0.3)
    assert sorted(train + validation) == sorted(texts)
    assert not {source for source, _ in train} & {source for source, _ in validation}
    shuffled = split_pairs(texts[::-1], 0.3)
    assert sorted(shuffled[1]) == sorted(validation), "whatever the order of the file"
    assert len({source for source, _ in validation}) == round(0.3 * len({source for source, _ in texts}))


def test_validation_is_spread_over_the_file():
    numbers = [int(source[:4]) for source, _ in split_pairs(numbered(1000), 0.1)[1]]
    assert len(numbers) == 100 and min(numbers) < 100 and max(numbers) > 900


def test_reading(tmp_path):
    file = tmp_path / "en-zh.tsv"
    file.write_bytes("\ufeffHello.\t你好。\tnote\r\n\r\n Thanks!\t谢谢！ \n".encode())
    assert read_pairs(file) == [("Hello.", "你好。"), ("Thanks!", "谢谢！")]
    assert read_pairs(file, columns=(1, 0))[0] == ("你好。", "Hello.")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            "Hi\t你好\n\nThanks\n",
            r"line 3 of .*bad\.tsv has no target column: column 2 is missing, 1 is there \('Thanks'\)",
        ),
        ("Hi,你好\n", "no TAB, only other separators; write source TAB target"),
        ("Hi\t你好\nBye\t \n", "line 2 of .* has an empty target"),
        ("\t你好\n", "line 1 of .* has an empty source"),
        ("\n\n", "has no pairs"),
        ("你好\t".encode("gb18030"), "not UTF-8"),
    ],
    ids=["one column", "commas", "empty target", "empty source", "nothing", "GB18030"],
)
def test_faults_of_a_pairs_file_are_named(raw, message, tmp_path):
    (tmp_path / "bad.tsv").write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / "bad.tsv")


def test_a_missing_pairs_file_is_refused(tmp_path):
    with pytest.raises(Problem, match="source TAB target"):
        read_pairs(tmp_path / "none.tsv")
