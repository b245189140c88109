"""Text to token ids and back: characters, bytes, or pieces learned from a corpus (BPE).

All three are one thing to the `tokenizers` library: characters are a BPE with no merges, bytes are a byte-level
BPE with no merges. So each is saved in that library's own `tokenizer.json`, which `transformers` reads as it is.
Here, characters and bytes take a shorter road (a table, no search); a test holds both roads equal.

Special tokens never come out of plain text: a book that happens to contain "[EOS]" is a book with five more
characters. `encode(text, special=True)` is for prompts that mean them, as in "the [MASK] sat".
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library
from tokenizers.decoders import DecodeStream

SPECIAL = {"pad": "[PAD]", "bos": "[BOS]", "eos": "[EOS]", "mask": "[MASK]", "unk": "[UNK]"}


def _byte_letters() -> list[str]:
    """How byte-level vocabularies write each byte: a printable one as itself, the others from U+0100 on."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    themselves = {ord(letter) for letter in alphabet if ord(letter) < 256}
    stand_ins = iter(letter for letter in alphabet if ord(letter) >= 256)
    return [chr(byte) if byte in themselves else next(stand_ins) for byte in range(256)]


LETTERS = _byte_letters()
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


class Tokenizer:
    """Any tokenizer of the `tokenizers` library, with special tokens known by what they are for."""

    kind: ClassVar[str] = "other"

    def __init__(self, library: Library, special: dict[str, str] | None = None, why: str = "") -> None:
        self.library = library
        self.library.encode_special_tokens = True  # plain text stays plain, see the head of this file
        known = library.get_vocab()
        self.special = {role: name for role, name in (special or {}).items() if name in known}
        self._named = {name: known[name] for name in self.special.values()}
        self.why = why
        self.vocab = max(known.values(), default=-1) + 1
        self._byte_level = isinstance(library.decoder, decoders.ByteLevel)
        self._added = {token.content for token in library.get_added_tokens_decoder().values()}
        self.pad, self.bos, self.eos, self.mask, self.unk = (self._named.get(self.special.get(r, "")) for r in SPECIAL)

    @property
    def special_ids(self) -> list[int]:
        """The ids of all special tokens, in order."""
        return sorted(set(self._named.values()))

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text; with `special`, names such as [MASK] in it become the tokens they name."""
        if not (special and self.special):
            return self._encode(text)
        names = "|".join(re.escape(name) for name in sorted(self._named, key=len, reverse=True))
        ids: list[int] = []
        for part in re.split(f"({names})", text):
            ids += [self._named[part]] if part in self._named else self._encode(part)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        return [encoding.ids for encoding in self.library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        """The ids of many texts one after the other, as one array: what goes into a shard."""
        batches = self.encode_batch(texts)
        return (
            np.concatenate([np.asarray(ids, dtype=np.uint32) for ids in batches]) if batches else np.zeros(0, np.uint32)
        )

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of some ids; special tokens are left out unless asked for.

        Bytes that do not make a whole character show as U+FFFD (�).
        """
        return self.library.decode([int(i) for i in ids], skip_special_tokens=not special)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text as it grows, one piece per yield, never half a character."""
        grown = DecodeStream(skip_special_tokens=True)
        for i in ids:
            piece = grown.step(self.library, int(i))
            if piece:
                yield piece

    def token_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """The UTF-8 bytes that each token stands for (a byte-level token may hold part of a character)."""
        return [self._bytes_of(int(i)) for i in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each token shows as: its text, or <E4> for a byte that is only part of a character."""
        return [_show(raw) for raw in self.token_bytes(ids)]

    def whole(self, ids: Iterable[int]) -> list[tuple[str, int, int]]:
        """Tokens joined until they make whole characters: (text, first, end) for each group ids[first:end]."""
        groups: list[tuple[str, int, int]] = []
        raw, first, end = b"", 0, 0
        for end, more in enumerate(self.token_bytes(ids), start=1):
            raw += more
            if not _is_begun(raw):
                groups.append((_show(raw), first, end))
                raw, first = b"", end
        return [*groups, (_show(raw), first, end)] if raw else groups

    def save(self, folder: str | Path) -> Path:
        """Write tokenizer.json, and tokenizer_config.json, where `transformers` looks for the special tokens."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        roles = {f"{role}_token": name for role, name in self.special.items()}
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **roles}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (folder / "tokenizer.json").write_text(self.to_json() + "\n", encoding="utf-8")
        return folder / "tokenizer.json"

    def to_json(self) -> str:
        """The library's JSON: everything that decides which ids a text gets."""
        return self.library.to_str(pretty=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab={self.vocab}, special={list(self.special)})"

    def _encode(self, text: str) -> list[int]:
        _refuse_surrogates(text)
        return self.library.encode(text, add_special_tokens=False).ids

    def _bytes_of(self, i: int) -> bytes:
        name = self.library.id_to_token(i)
        if name is None:
            raise ValueError(f"token id {i} does not exist: this tokenizer has ids 0 to {self.vocab - 1}")
        if self._byte_level and name not in self._added:
            return bytes(BYTES[letter] for letter in name)
        return name.encode()


class BPE(Tokenizer):
    """Byte-level BPE: frequent pieces are one token, anything else falls back to bytes, so any text round-trips."""

    kind = "bpe"


class Bytes(BPE):
    """The 256 bytes of UTF-8, token id = byte; special tokens follow from 256.

    >>> Bytes.make().encode("é")
    [195, 169]
    >>> Bytes.make().pieces(Bytes.make().encode("a人"))
    ['a', '<E4>', '<BA>', '<BA>']
    """

    kind = "bytes"

    @classmethod
    def make(cls, special: Iterable[str] = (), why: str = "") -> "Bytes":
        """The tokenizer of bytes: nothing to learn."""
        library = byte_level(models.BPE(vocab={letter: byte for byte, letter in enumerate(LETTERS)}, merges=[]))
        return cls(library, add_special(library, special), why)

    def _encode(self, text: str) -> list[int]:
        _refuse_surrogates(text)
        return list(text.encode())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        return np.frombuffer("".join(texts).encode(), dtype=np.uint8).astype(np.uint32)


class Characters(Tokenizer):
    """One token per character of an alphabet; special tokens follow the alphabet.

    A character outside the alphabet becomes `unk` where the tokenizer has one (a translator can still do the rest of
    the sentence); without `unk` it is an error that names the character, since a language model never learned it.

    >>> Characters.make("好你！").encode("你好！")
    [0, 1, 2]
    """

    kind = "characters"

    def __init__(self, library: Library, special: dict[str, str] | None = None, why: str = "") -> None:
        super().__init__(library, special, why)
        self._table = {name: i for name, i in library.get_vocab().items() if name not in self._named}
        codes = np.array([ord(letter) for letter in self._table], dtype=np.int64)
        # Code point -> id; −1 = not in the alphabet, and so is the last entry, which stands for all that lie beyond.
        self._ids = np.full(int(codes.max(initial=0)) + 2, -1, dtype=np.int32)
        self._ids[codes] = list(self._table.values())

    @classmethod
    def make(cls, alphabet: Iterable[str], special: Iterable[str] = (), why: str = "") -> "Characters":
        """The tokenizer of these characters, in the order of their code points."""
        seen: set[str] = set()
        for text in alphabet:  # one text at a time: the corpus may be larger than memory
            seen.update(text)
        letters = sorted(seen)
        if not letters:
            raise ValueError("the alphabet is empty: give the text, or the characters, that the tokenizer should know")
        special = list(special)
        vocab = {letter: i for i, letter in enumerate(letters)}
        unk = {}
        if "unk" in special:  # the library wants its unknown token inside the vocabulary
            vocab[SPECIAL["unk"]] = len(vocab)
            unk = {"unk_token": SPECIAL["unk"]}
        library = Library(models.BPE(vocab=vocab, merges=[], **unk))
        library.decoder = decoders.Fuse()
        return cls(library, add_special(library, special), why)

    def _encode(self, text: str) -> list[int]:
        try:
            return [self._table[letter] for letter in text]
        except KeyError:
            if self.unk is None:
                raise ValueError(self._unknown(text)) from None
            return [self._table.get(letter, self.unk) for letter in text]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        text = "".join(texts)
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        ids = self._ids[np.minimum(codes, len(self._ids) - 1)]
        missing = ids < 0
        if missing.any():
            if self.unk is None:
                raise ValueError(self._unknown(text))
            ids[missing] = self.unk
        return ids.astype(np.uint32)

    def _unknown(self, text: str) -> str:
        strangers = list(dict.fromkeys(letter for letter in text if letter not in self._table))
        shown = " ".join(f"{letter!r}" for letter in strangers[:8]) + (" …" if len(strangers) > 8 else "")
        return (
            f"this tokenizer knows the {len(self._table)} characters of the text it was made from, not {shown}: "
            "leave them out, or train with the tokenizer bytes or bpe, which take any text"
        )


def byte_level(model: models.Model) -> Library:
    """A library tokenizer that works on the bytes of UTF-8, with no unknown text."""
    library = Library(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    return library


def add_special(library: Library, roles: Iterable[str]) -> dict[str, str]:
    """Add special tokens by role at the end of the vocabulary, and give role -> name."""
    chosen = {}
    for role in roles:
        if role not in SPECIAL:
            raise ValueError(f"there is no special token {role!r}: choose from {', '.join(SPECIAL)}")
        chosen[role] = SPECIAL[role]
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in chosen.values()])
    return chosen


def load(path: str | Path) -> Tokenizer:
    """The tokenizer of a folder or a tokenizer.json: one of ours, or any of the `tokenizers` library."""
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"no tokenizer at {file}: give a folder with a tokenizer.json, or that file")
    try:
        text = file.read_text(encoding="utf-8")
        saved = json.loads(text)
        library = Library.from_str(text)
    except Exception as error:  # the library raises bare Exception for whatever it cannot read
        raise ValueError(f"{file} is not a tokenizer of the `tokenizers` library ({error})") from error
    return _kind_of(saved)(library, _roles(file.with_name("tokenizer_config.json"), saved))


def _kind_of(saved: dict[str, Any]) -> type[Tokenizer]:
    model, pre, decoder = saved["model"], saved["pre_tokenizer"] or {}, saved["decoder"] or {}
    if model.get("type") != "BPE":
        return Tokenizer
    plain = not model["merges"] and not saved["normalizer"]
    if decoder.get("type") == "ByteLevel":
        in_order = all(model["vocab"].get(letter) == byte for byte, letter in enumerate(LETTERS))
        return Bytes if plain and in_order and pre.get("type") == "ByteLevel" else BPE
    return Characters if plain and decoder.get("type") == "Fuse" and not pre else Tokenizer


def _roles(config: Path, saved: dict[str, Any]) -> dict[str, str]:
    """Which special token plays which part: from tokenizer_config.json, else by our own names."""
    names = {token["content"] for token in saved["added_tokens"]}
    if not config.is_file():
        return {role: name for role, name in SPECIAL.items() if name in names}
    told = json.loads(config.read_text(encoding="utf-8"))
    also = {"bos": "cls", "eos": "sep"}  # a BERT frames its text with these
    roles = {}
    for role in SPECIAL:
        name = told.get(f"{role}_token") or told.get(f"{also.get(role)}_token")
        if name:
            roles[role] = name["content"] if isinstance(name, dict) else str(name)
    return roles


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds half a character, U+{ord(text[error.start]):04X}, at position {error.start}: "
            "it was cut or read in the wrong encoding; read it as UTF-8"
        ) from None


def _is_begun(raw: bytes) -> bool:
    """Whether these bytes are a text whose last character is only begun."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _as_hex(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("qkv.hex", _as_hex)


def _show(raw: bytes) -> str:
    return raw.decode(errors="qkv.hex")
