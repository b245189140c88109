"""Reading a corpus: all files in order, the split, and errors that say what to do."""

import codecs
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.i18n import Problem
from qkv.text import Corpus
from qkv.text import corpus as corpus_module
from qkv.text.corpus import pieces


@pytest.fixture
def small_blocks(monkeypatch):
    """Use blocks of 16 bytes, so that small texts span many blocks."""
    monkeypatch.setattr(corpus_module, "BLOCK", 16)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def joined(corpus, start=None, end=None):
    return "".join(block.text for block in corpus.blocks(start or corpus.start, end or corpus.end))


AWKWARD = {
    "lines": "one\ntwo  three\n\nfour five six seven eight nine ten\n" * 3,
    "chinese without spaces": "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。" * 3,
    "windows lines": "a b\r\nc d\r\n" * 10,
    "emoji": "🙂👩‍💻" * 20,
    "one letter": "x",
    "white space": " \n\t " * 20,
    "ideographic spaces": "甲\u3000\n乙\u3000 丙\n" * 9,
}


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_blocks_hold_exactly_the_text(text, tmp_path, small_blocks):
    corpus = Corpus.of(write(tmp_path, book=text) / "book.txt")
    blocks = list(corpus.blocks(corpus.start, corpus.end))
    assert "".join(corpus) == text
    assert [block.end for block in blocks[:-1]] == [block.start for block in blocks[1:]]
    assert blocks[-1].end == corpus.size == len(text.encode())
    for block in blocks:  # reading may begin at any block and gives the same ones
        assert next(corpus.blocks((0, block.start), corpus.end)) == block


@given(text=st.text(alphabet="ab \n\t\u3000。人'1", max_size=60), size=st.integers(1, 9))
def test_pieces_are_the_text_cut_before_white_space(text, size):
    parts = pieces(text, size)
    assert "".join(parts) == text
    assert all(part[0] in " \n" and not before[-1].isspace() for before, part in pairwise(parts))


def test_files_folders_and_globs(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    write(tmp_path, b="2", a="1")
    write(tmp_path / "sub", c="3", empty="")
    write(tmp_path / ".hidden", d="4")
    (tmp_path / "sub" / "note.md").write_text("5")
    (tmp_path / "code.py").write_text("6")
    assert "".join(Corpus.of(tmp_path)) == "1235"
    assert "".join(Corpus.of(str(tmp_path / "*.txt"))) == "12"
    assert "".join(Corpus.of(tmp_path / "**" / "*.py", tmp_path / "b.txt")) == "62"
    (tmp_path / "odd[1].txt").write_text("7")
    assert "".join(Corpus.of(tmp_path / "odd[1].txt")) == "7", "a file with that very name comes first"


def test_a_byte_order_mark_is_not_text(tmp_path):
    corpus = Corpus.of(write(tmp_path, book=codecs.BOM_UTF8 + "你好".encode()))
    assert "".join(corpus) == "你好" and corpus.size == 6


def test_the_hash_is_of_the_text_alone(tmp_path):
    write(tmp_path, a="one", b="two")
    before = Corpus.of(tmp_path).sha256()
    (tmp_path / "b.txt").rename(tmp_path / "c.txt")
    assert Corpus.of(tmp_path).sha256() == before
    write(tmp_path, a="on", c="etwo")
    assert Corpus.of(tmp_path).sha256() != before, "a border between documents moved"


@given(lines=st.lists(st.text(alphabet="ab 人。", max_size=30), min_size=3, max_size=60), share=st.floats(0.05, 0.6))
def test_a_single_document_is_cut_at_a_line_or_character(lines, share, tmp_path_factory):
    text = "\n".join(lines) or "x"
    corpus = Corpus.of(write(tmp_path_factory.mktemp("cut"), book=text))
    cut = corpus.cut(share)
    train, validation = joined(corpus, end=cut), joined(corpus, start=cut)
    assert train + validation == text
    assert len(train.encode()) >= int((1 - share) * corpus.size)
    if train.endswith("\n"):
        assert "\n" not in text.encode()[int((1 - share) * corpus.size) : cut[1] - 1].decode(errors="ignore")


@pytest.mark.parametrize(
    ("sizes", "border"),
    [([100] * 20, 18), ([500, 350, 150], 2), ([880, 120], 1), ([1, 1, 898, 100], 3)],
    ids=["equal documents", "15 % at the end", "two documents", "uneven"],
)
def test_documents_stay_whole(sizes, border, tmp_path):
    write(tmp_path, **{f"d{i:02d}": "x" * (size - 1) + "\n" for i, size in enumerate(sizes)})
    corpus = Corpus.of(tmp_path)
    assert corpus.cut(0.1) == (border, 0)


def test_a_document_is_cut_where_whole_documents_do_not_fit(tmp_path):
    corpus = Corpus.of(write(tmp_path, a="一行字\n" * 50, b="another line\n" * 40))
    number, byte = corpus.cut(0.1)
    assert number == 1 and byte > 0 and byte % len("another line\n") == 0


@pytest.mark.parametrize("text", ["x" * 99 + "\n", "人" * 33 + "\n", "ab"], ids=["English", "Chinese", "two letters"])
def test_a_long_line_is_cut_between_characters(text, tmp_path):
    corpus = Corpus.of(write(tmp_path, book=text))
    validation = joined(corpus, start=corpus.cut(0.1))
    assert 0 < len(validation.encode()) <= max(1, len(text.encode()) // 10)


def test_validation_can_be_empty_but_not_all(tmp_path):
    corpus = Corpus.of(write(tmp_path, a="text"))
    assert corpus.cut(0) == corpus.end
    for share in (-0.1, 1, 1.5):
        with pytest.raises(ValueError, match="share of the text"):
            corpus.cut(share)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty"),
        (codecs.BOM_UTF8, "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not text .byte 8 is zero"),
        (
            "你好".encode("utf-16"),
            "UTF-16, not UTF-8: convert it with  iconv -f UTF-16 -t UTF-8 book.txt > book-utf8.txt",
        ),
        (b"caf\xe9 au lait", "not UTF-8: byte 3 is 0xe9: if you know its encoding"),
        (
            b"abc " * 10 + "春眠不觉晓，处处闻啼鸟".encode("gb18030"),
            "byte 40 is 0xb4, but it reads as GB18030: .*iconv -f GB18030",
        ),
        (b"plain \xff", "byte 6 is 0xff"),
        ("人".encode()[:2], "byte 0 is 0xe4"),
    ],
    ids=["empty", "only a mark", "a picture", "UTF-16", "Latin-1", "GB18030", "bad last byte", "cut character"],
)
def test_files_that_are_not_text_are_refused(raw, message, tmp_path):
    write(tmp_path, book=raw)
    with pytest.raises(ValueError, match=message):
        "".join(Corpus.of(tmp_path / "book.txt"))


def test_a_wrong_byte_is_counted_from_the_start_of_the_file(tmp_path, small_blocks):
    write(tmp_path, book=b"0123456789 " * 9 + b"\xff and more")
    with pytest.raises(ValueError, match="byte 99 is 0xff"):
        "".join(Corpus.of(tmp_path / "book.txt"))


def test_missing_files_name_the_nearest(tmp_path):
    write(tmp_path, shakespeare="text")
    with pytest.raises(Problem, match=r"did you mean shakespeare\.txt"):
        Corpus.of(tmp_path / "shakespear.txt")
    with pytest.raises(Problem, match="nothing of a similar name"):
        Corpus.of(tmp_path / "zzz")
    write(tmp_path, another="text", lines="text")
    with pytest.raises(Problem, match="nothing of a similar name"):  # but for the ending
        Corpus.of(tmp_path / "nosuch.txt")
    with pytest.raises(Problem, match="no folder"):
        Corpus.of(tmp_path / "none" / "book.txt")
    with pytest.raises(Problem, match="no file matches"):
        Corpus.of(tmp_path / "*.py")


def test_a_folder_without_text_lists_its_endings(tmp_path):
    (tmp_path / "code.py").write_text("x = 1")
    with pytest.raises(Problem, match=r"it has \.py\): for other files give a glob"):
        Corpus.of(tmp_path)
