"""A corpus: UTF-8 text files, streamed in blocks and split into train and validation.

The split is by position: the last tenth of the text is for validation. The boundary is at the start of a line; with several
documents, at the end of a document if the share stays within half to twice the requested one.
"""

import codecs
import difflib
import glob
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ..i18n import Message, Problem, all_of, one_of

BLOCK = 1 << 20  # bytes read at a time
SUFFIXES = (".txt", ".text", ".md")
Position = tuple[int, int]  # (document, byte in its file)

# Byte-level BPE always starts a new piece at the first white space after other text, so cuts there change no token.
SAFE = re.compile(r"(?<=\S)[ \n]")


@dataclass(frozen=True)
class Document:
    """A file whose text is the bytes from `start` (after a byte order mark) to `size`."""

    path: Path
    start: int
    size: int


class TextBlock(NamedTuple):
    """A part of a document: its text and the range of bytes in the file."""

    document: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Corpus:
    r"""Documents in a fixed order. Iterating yields their text in blocks, and can be repeated.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("one\n", encoding="utf-8")
    ...     _ = Path(folder, "b.txt").write_text("二\n", encoding="utf-8")
    ...     corpus = Corpus.of(folder)
    ...     print(len(corpus.documents), corpus.size, corpus.sizes_before(), list(corpus))
    ...     print(corpus.start, corpus.end, corpus.cut(0.5), corpus.normal(0, 4), corpus.sha256()[:8])
    ...     print([block.text for block in corpus.blocks(corpus.start, corpus.cut(0.5))])
    2 8 [0, 4, 8] ['one\n', '二\n']
    (0, 0) (1, 4) (1, 0) (1, 0) 2d51a9d0
    ['one\n']
    """

    documents: tuple[Document, ...]

    @classmethod
    def of(cls, *sources: str | Path) -> "Corpus":
        """Return the corpus of files, folders (their .txt, .text and .md files) or globs such as "books/**/*.py"."""
        paths = [path for source in sources for path in _files(source)]
        documents = tuple(document for document in map(_inspect, paths) if document.size > document.start)
        if not documents:
            raise Problem(
                "{what} is empty: a corpus needs text to learn from, a few thousand characters at least",
                what=all_of(sources) if sources else Message("the corpus"),
            )
        return cls(documents)

    @property
    def size(self) -> int:
        """Bytes of text."""
        return sum(document.size - document.start for document in self.documents)

    def sizes_before(self) -> list[int]:
        """Return the bytes of text before each document, and finally the total."""
        return list(accumulate((document.size - document.start for document in self.documents), initial=0))

    @property
    def start(self) -> Position:
        return 0, self.documents[0].start

    @property
    def end(self) -> Position:
        return len(self.documents) - 1, self.documents[-1].size

    def __iter__(self) -> Iterator[str]:
        return (block.text for block in self.blocks(self.start, self.end))

    def blocks(self, start: Position, end: Position) -> Iterator[TextBlock]:
        """Yield the text between two positions. The end of a block depends only on its start."""
        for number in range(start[0], end[0] + 1):
            document = self.documents[number]
            first = start[1] if number == start[0] else document.start
            last = end[1] if number == end[0] else document.size
            yield from _read(number, document.path, first, last)

    def cut(self, validation: float = 0.1) -> Position:
        """Return where validation begins: after (1 − validation) of the text, at the end of a document or line."""
        if not 0 <= validation < 1:
            raise Problem(
                "validation={validation} must be a share of the text, 0 (none) up to but below 1", validation=validation
            )
        if validation == 0:
            return self.end
        target = self.size * (1 - validation)
        before = self.sizes_before()
        # Cut between documents if the validation share stays within half to twice the requested one.
        border = min(range(len(before)), key=lambda number: abs(before[number] - target))
        if validation / 2 <= 1 - before[border] / self.size <= min(2 * validation, (1 + validation) / 2):
            return border, self.documents[border].start
        number = max(number for number, size in enumerate(before[:-1]) if size <= target)
        document = self.documents[number]
        return self.normal(number, _line_start(document, document.start + int(target - before[number])))

    def normal(self, number: int, byte: int) -> Position:
        """Return a position in canonical form: the end of a document becomes the start of the next."""
        if byte == self.documents[number].size and number + 1 < len(self.documents):
            return number + 1, self.documents[number + 1].start
        return number, byte

    def sha256(self) -> str:
        """Return the hash of the documents' text; their names don't count."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(f"{document.size - document.start}\n".encode())
            with document.path.open("rb") as file:
                file.seek(document.start)
                while raw := file.read(BLOCK):
                    digest.update(raw)
        return digest.hexdigest()


def pieces(text: str, size: int = 4096) -> list[str]:
    """Split a text into pieces of about `size` characters that can be encoded in parallel without changing a token.

    >>> pieces("to be or not to be", size=4)
    ['to be', ' or not', ' to be']
    """
    cuts = [0]
    while match := SAFE.search(text, cuts[-1] + size):
        cuts.append(match.start())
    return [text[first:last] for first, last in zip(cuts, [*cuts[1:], len(text)], strict=True) if last > first]


def _read(number: int, path: Path, start: int, end: int) -> Iterator[TextBlock]:
    with path.open("rb") as file:
        file.seek(start)
        raw = b""
        while start < end:
            raw += file.read(min(BLOCK, end - start) - len(raw))
            last = start + len(raw) == end
            try:
                text, used = codecs.utf_8_decode(raw, "strict", last)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, raw, start, error) from None
            if not used:
                raise Problem(
                    "{path} became shorter while it was being read: start again and do not change it", path=path
                )
            if not last:
                text = text[: _last_safe(text)]
                used = len(text.encode())
            yield TextBlock(number, start, start + used, text)
            raw, start = raw[used:], start + used


def _last_safe(text: str) -> int:
    """Return the last safe cut near the end of a block; without white space, the end of the block."""
    near = max(0, len(text) - 4096)
    return max((match.start() for match in SAFE.finditer(text, near)), default=len(text))


def _line_start(document: Document, at: int) -> int:
    """Return the first start of a line at or after a byte, or of a character if no line starts before the end."""
    with document.path.open("rb") as file:
        before = max(at - 1, 0)
        file.seek(before)
        raw = file.read(1 << 16)
    line = before + raw.find(b"\n") + 1
    if b"\n" in raw and line < document.size:
        return line
    following = raw[at - before :][:4]
    return at + next((i for i, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))


def _files(source: str | Path) -> list[Path]:
    if not str(source):  # Path("") is the current folder
        raise Problem("the name of the text is empty: give a file, a folder or a glob")
    path = Path(source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        visible = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file, path))
        texts = [file for file in visible if file.suffix.lower() in SUFFIXES]
        if not texts:
            endings = sorted({file.suffix or file.name for file in visible})
            contents = all_of(endings) if endings else Message("nothing")
            raise Problem(
                "the folder {path} has no {suffixes} files (it has {found}): for other files give a glob in quotes, "
                'such as "{path}/**/*.py"',
                path=path,
                suffixes=all_of(SUFFIXES),
                found=contents,
            )
        return texts
    if any(letter in str(source) for letter in "*?["):
        matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise Problem("no file matches {source}: ** means any folders, * any name", source=source)
        return files
    raise _missing_file(path)


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _missing_file(path: Path) -> Problem:
    folder = path.parent
    if not folder.is_dir():
        return Problem(
            "there is no file or folder {path}: there is no folder {folder} either", path=path, folder=folder
        )
    stems = {other.stem: other.name for other in folder.iterdir()}  # common endings would make all names similar
    near = [stems[stem] for stem in difflib.get_close_matches(path.stem, stems, n=3, cutoff=0.6)]
    if near:
        return Problem("there is no file or folder {path}: did you mean {near}?", path=path, near=one_of(near))
    return Problem(
        "there is no file or folder {path}: {folder} has nothing of a similar name", path=path, folder=folder
    )


def _inspect(path: Path) -> Document:
    """Return the document of a file; raise if it is not UTF-8 text."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8192)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Problem(
            "{path} is UTF-16, not UTF-8: convert it with  {command}", path=path, command=_iconv_command(path, "UTF-16")
        )
    if b"\0" in head:
        raise Problem(
            "{path} is not text (byte {at} is zero, as in programs and pictures): give plain text files",
            path=path,
            at=head.index(0),
        )
    return Document(path, len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0, size)


def _not_utf8(path: Path, raw: bytes, start: int, error: UnicodeDecodeError) -> Problem:
    values = {"path": path, "at": start + error.start, "byte": f"{raw[error.start]:#04x}"}
    around = raw[max(0, error.start - 200) : error.start + 200]
    for encoding in ("GB18030", "BIG5"):
        # The sample may begin or end inside a character, so try without the byte at either end.
        if any(_is_chinese_in(around[head : len(around) - tail], encoding) for head in (0, 1) for tail in (0, 1)):
            return Problem(
                "{path} is not UTF-8: byte {at} is {byte}, but it reads as {encoding}: convert it with  {command}",
                **values,
                encoding=encoding,
                command=_iconv_command(path, encoding),
            )
    return Problem(
        "{path} is not UTF-8: byte {at} is {byte}: if you know its encoding, convert it with  {command}",
        **values,
        command=_iconv_command(path, "LATIN1"),
    )


def _is_chinese_in(raw: bytes, encoding: str) -> bool:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return False
    beyond_ascii = [letter for letter in text if letter > "\x7f"]
    return sum("\u4e00" <= letter <= "\u9fff" for letter in beyond_ascii) > len(beyond_ascii) / 2


def _iconv_command(path: Path, encoding: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 {path.name} > {path.stem}-utf8{path.suffix}"
