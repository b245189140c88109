"""Text to token ids and back: characters, bytes, or pieces learned from a corpus (BPE).

In the `tokenizers` library, characters are a BPE without merges, and bytes a byte-level BPE without merges. So each is
saved as that library's `tokenizer.json`, which `transformers` reads. Here, characters and bytes are encoded by a
table, without search; a test compares the ids with the library's.

Special tokens never result from plain text: "[EOS]" in a book is five characters. `encode(text, special=True)` is for
prompts that contain special tokens, such as "the [MASK] sat".
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from tokenizers import Encoding, decoders, models
from tokenizers import Tokenizer as Library
from tokenizers.decoders import DecodeStream

from ..disk.atomic_files import write_file
from ..disk.bounded_reading import reading
from ..i18n import Problem, _
from . import chat_templates
from . import library_tokenizer as libraries
from .generation_defaults import GenerationDefaults
from .library_tokenizer import LETTERS, SPECIAL, add_special, byte_level, is_incomplete, show, spelling


class Tokenizer:
    """Any tokenizer of the `tokenizers` library, with special tokens by role.

    `pad`, `bos`, `eos`, `mask`, `unk` are ids or None. For generation: `start` is the first id of an encoder-decoder's
    decoder, `ends` are all ids that end a text, `never` are ids that are never generated, `habits` are the generation
    defaults of the model's files, and `template` is the chat template.

    `cutter` splits the text if another vocabulary numbers the pieces (Marian): they are looked up by name. `target` is
    a second tokenizer with the same ids for the target language, if it is split differently (Marian).

    >>> from . import train_tokenizer
    >>> tokenizer = train_tokenizer("bpe", ["the cat sat on the mat"] * 9, vocab=270, special=["pad", "eos"])
    >>> ids = tokenizer.encode("the cat")
    >>> tokenizer.pieces(ids), tokenizer.decode(ids), tokenizer.special_ids
    (['the', ' cat'], 'the cat', [268, 269])
    """

    kind: ClassVar[str] = "other"
    _uses_table: ClassVar[bool] = False  # encode by a table of characters or bytes, without the library

    def __init__(
        self, library: Library, special: dict[str, str] | None = None, why: str = "", *, cutter: Library | None = None
    ) -> None:
        self.library = library
        self.library.encode_special_tokens = True  # no special tokens from plain text
        self.library.no_truncation()  # some files turn both on
        self.library.no_padding()
        vocab = library.get_vocab()
        libraries.refuse_unknown(library, vocab)
        self.special = {role: name for role, name in (special or {}).items() if name in vocab}
        self._added = {token.content: token.special for token in library.get_added_tokens_decoder().values()}
        self._special_by_name = {name: vocab[name] for name in self.special.values()}
        self._special_by_name |= {name: vocab[name] for name, special in self._added.items() if special}
        self.why = why
        self.vocab = max(vocab.values(), default=-1) + 1
        self._spelling = spelling(library)
        self._cutter_library = cutter
        self._normalize: Callable[[str], str] | None = None
        if cutter is None:
            self._lookup, self._cutter = None, libraries.without_special_matches(library)
        else:
            self._lookup = {name: i for name, i in vocab.items() if name not in self._special_by_name}
            self._normalize, self._cutter = (
                libraries.charsmap(cutter),
                libraries.without_special_matches(cutter, keep_charsmap=False),
            )
        self.pad, self.bos, self.eos, self.mask, self.unk = (
            self._special_by_name.get(self.special.get(r, "")) for r in SPECIAL
        )
        # In BPE learned by qkv, a word's token includes the space before it, so [MASK] stands for both.
        self._mask_takes_blank = (
            self.kind == "bpe" and self.mask is not None and self.special.items() <= SPECIAL.items()
        )
        self.start: int | None = self.bos
        self.ends: list[int] = [] if self.eos is None else [self.eos]
        self.never: list[int] = []
        self.habits = GenerationDefaults()
        self.template: str | None = None
        self.target: Tokenizer | None = None

    @property
    def special_ids(self) -> list[int]:
        """The sorted ids of all special tokens."""
        return sorted(set(self._special_by_name.values()))

    def assign(self, role: str, i: int) -> None:
        """Give the token of an id a role.

        >>> tokenizer = Characters.make("ab|")
        >>> tokenizer.assign("eos", 2)
        >>> tokenizer.eos, tokenizer.ends
        (2, [2])
        """
        name = self.library.id_to_token(i)
        if name is not None:
            self.special[role], self._special_by_name[name] = name, i
            setattr(self, role, i)
            self.start = self.bos if role == "bos" and self.start is None else self.start
            self.ends = [i] if role == "eos" and not self.ends else self.ends

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return the ids of a text; with `special`, names such as [MASK] in it become special tokens.

        >>> tokenizer = Characters.make("the cat[EOS]", special=["eos"])
        >>> len(tokenizer.encode("cat[EOS]")), len(tokenizer.encode("cat[EOS]", special=True))
        (8, 4)
        """
        return self._encode_special(text) if special and self._special_by_name else self._encode(text)

    def put_in(self, text: str, piece: str) -> str:
        """Return the text with its first mask replaced by a piece, as `pieces` returns it.

        >>> Bytes.make(special=["mask"]).put_in("the[MASK]cat", " ")
        'the cat'
        """
        if self.kind == "other":  # the text has the right spaces already
            piece = piece.strip()
        blank = " ?" if self._mask_takes_blank else ""
        before, after = re.split(blank + re.escape(self.special["mask"]), text, maxsplit=1)
        return before + (piece if before or not blank else piece.removeprefix(" ")) + after

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a text as the target of a decoder.

        >>> Bytes.make().encode_target("a")
        [97]
        """
        return (self.target or self).encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, using all cores.

        >>> Bytes.make().encode_batch(["a", "bc"])
        [[97], [98, 99]]
        """
        if self._uses_table:
            return [self._encode(text) for text in texts]
        prepared = [self._preprocess(text) for text in texts]
        with reading(None, _("this tokenizer can't cut the text: {why}")):
            if self._lookup is not None:  # encode_batch_fast lacks the names of unknown pieces
                return [self._ids_of(cut) for cut in self._cutter.encode_batch(prepared, add_special_tokens=False)]
            return [cut.ids for cut in self._cutter.encode_batch_fast(prepared, add_special_tokens=False)]

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        """Return the ids of many texts, concatenated in one array.

        >>> Bytes.make().encode_array(["a", "bc"])
        array([97, 98, 99], dtype=uint32)
        """
        arrays = [np.asarray(ids, dtype=np.uint32) for ids in self.encode_batch(texts)]
        return np.concatenate([np.zeros(0, np.uint32), *arrays])

    def frame(self, ids: Sequence[int]) -> list[int]:
        """Return the ids with the special tokens around a text: [CLS] … [SEP], <s> …, … </s>, or none.

        >>> Bytes.make().frame([97, 98])
        [97, 98]
        """
        before, after = self._frame
        return [*before, *(int(i) for i in ids), *after]

    def chat(self, messages: Sequence[chat_templates.ChatMessage], *, answer: bool = True) -> list[int]:
        r"""Return the ids of a chat, by the model's template; with `answer`, up to where the model's turn begins.

        Messages are {"role": "system" | "user" | "assistant", "content": …}. Only the template yields control tokens:
        their names in a message are text.

        >>> tokenizer = Bytes.make()
        >>> tokenizer.template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        >>> tokenizer.decode(tokenizer.chat([{"role": "user", "content": "Hi"}]))
        'user: Hi\n'
        """
        if self.template is None:
            raise Problem(
                "this model has no chat template, so chats can't be written in its format: continue a text with  "
                "qkv generate"
            )
        for message in messages:
            if not isinstance(message, Mapping) or "role" not in message:
                raise Problem('a message is {{"role": …, "content": …}}, not {message}', message=str(message)[:80])
            for value in message.values():
                if isinstance(value, str):
                    libraries.refuse_surrogates(value)
        names = {f"{role}_token": name for role, name in self.special.items()}
        guarded, mark = chat_templates.guard(messages, self._special_by_name)
        text = chat_templates.render(self.template, guarded, answer=answer, names=names)
        if mark not in text:
            return self._encode_special(text)
        return self._split_special(text, lambda part: self._encode(part.replace(mark, "")))

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """Return the text of ids, with special tokens only if `special`.

        Incomplete characters become U+FFFD (�).

        >>> Bytes.make().decode([228, 186, 186]), Bytes.make().decode([228, 186])
        ('人', '�')
        """
        return self.library.decode([int(i) for i in ids], skip_special_tokens=not special)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text piece by piece, never half a character.

        >>> list(Bytes.make().stream("a人".encode()))
        ['a', '人']
        """
        grown, received, n_sent = DecodeStream(skip_special_tokens=True), [], 0
        for i in ids:
            received.append(int(i))
            piece = grown.step(self.library, int(i))
            if piece:
                n_sent += len(piece)
                yield piece
        if rest := self.decode(received)[n_sent:]:  # an incomplete character
            yield rest

    def token_bytes(self, ids: Iterable[int]) -> list[bytes]:
        r"""Return the UTF-8 bytes of each token (a byte-level token may be part of a character).

        Spaces that the vocabulary writes otherwise (▁, or the lack of ##) are spaces here.

        >>> Bytes.make().token_bytes(Bytes.make().encode("é"))
        [b'\xc3', b'\xa9']
        """
        return [self._bytes_of(int(i)) for i in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the text of each token, with <E4> for a byte that is part of a character.

        >>> Bytes.make().pieces(Bytes.make().encode("aé"))
        ['a', '<C3>', '<A9>']
        """
        return [show(raw) for raw in self.token_bytes(ids)]

    def whole(self, ids: Iterable[int]) -> list[tuple[str, int, int]]:
        """Join tokens into whole characters: (text, first, end) for each group ids[first:end].

        >>> Bytes.make().whole(Bytes.make().encode("a人"))
        [('a', 0, 1), ('人', 1, 4)]
        """
        groups: list[tuple[str, int, int]] = []
        raw, first, end = b"", 0, 0
        for end, more in enumerate(self.token_bytes(ids), start=1):
            raw += more
            if not is_incomplete(raw):
                groups.append((show(raw), first, end))
                raw, first = b"", end
        return [*groups, (show(raw), first, end)] if raw else groups

    def save(self, folder: str | Path) -> Path:
        """Write tokenizer.json, and tokenizer_config.json with the special tokens, as `transformers` reads them.

        >>> from tempfile import TemporaryDirectory
        >>> from . import load
        >>> with TemporaryDirectory() as folder:
        ...     _ = Bytes.make().save(folder)
        ...     print(load(folder))
        Bytes(vocab=256, special=[])
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config: dict[str, object] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
        }
        config |= {f"{role}_token": name for role, name in self.special.items()}
        if self.start != self.bos:
            config["decoder_start_token_id"] = self.start
        if self.ends != ([] if self.eos is None else [self.eos]):
            config["eos_token_ids"] = self.ends
        if self.never:
            config["bad_words_ids"] = [[i] for i in self.never]
        if self.template is not None:
            config["chat_template"] = self.template
        write_file(folder / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")
        write_file(folder / "tokenizer.json", self.to_json() + "\n")
        if self._cutter_library is not None:
            write_file(folder / "cutter.json", self._cutter_library.to_str() + "\n")
        if self.target is not None and self.target._cutter_library is not None:
            write_file(folder / "target_cutter.json", self.target._cutter_library.to_str() + "\n")
        return folder / "tokenizer.json"

    def to_json(self) -> str:
        """Return the library's JSON, which determines the ids of every text.

        >>> json.loads(Bytes.make().to_json())["model"]["type"]
        'BPE'
        """
        return self.library.to_str(pretty=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab={self.vocab}, special={list(self.special)})"

    def _encode(self, text: str) -> list[int]:
        with reading(None, _("this tokenizer can't cut the text: {why}")):
            return self._ids_of(self._cutter.encode(self._preprocess(text), add_special_tokens=False))

    def _preprocess(self, text: str) -> str:
        libraries.refuse_surrogates(text)
        return text if self._normalize is None else self._normalize(text)

    def _ids_of(self, cut: Encoding) -> list[int]:
        if self._lookup is None:
            return cut.ids
        ids = []
        for name in cut.tokens:
            if (i := self._lookup.get(name, self.unk)) is None:
                raise Problem("this tokenizer has no token for {piece} and no unknown token", piece=repr(name))
            ids.append(i)
        return ids

    def _encode_special(self, text: str) -> list[int]:
        if self._mask_takes_blank:
            # Exactly one space: `lstrip` in the library would also take line ends and further spaces, which are tokens.
            text = text.replace(" [MASK]", "[MASK]")
        if self._uses_table or self._cutter_library is not None:
            return self._split_special(text, self._encode)
        libraries.refuse_surrogates(text)
        with reading(None, _("this tokenizer can't cut the text: {why}")):
            return self._special_encoder.encode(text, add_special_tokens=False).ids

    def _split_special(self, text: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the ids of a text in which names of special tokens stand for the tokens."""
        names = "|".join(re.escape(name) for name in sorted(self._special_by_name, key=len, reverse=True))
        ids: list[int] = []
        for part in re.split(f"({names})", text):
            ids += [self._special_by_name[part]] if part in self._special_by_name else encode(part) if part else []
        return ids

    @cached_property
    def _special_encoder(self) -> Library:
        """A copy of the library tokenizer that parses the names of special tokens in a text."""
        saved = self.library.to_str()
        if self._mask_takes_blank:
            table = json.loads(saved)
            for token in table["added_tokens"]:
                token["lstrip"] &= token["content"] != SPECIAL["mask"]
            saved = json.dumps(table)
        copy = Library.from_str(saved)
        copy.encode_special_tokens = False
        return copy

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """The ids that the library's post-processor puts before and after a text."""
        for text in ("a", "1", ".", "的"):
            with reading(None, _("this tokenizer can't cut the text: {why}")):
                bare = self.library.encode(text, add_special_tokens=False).ids
                framed = self.library.encode(text, add_special_tokens=True).ids
            for at in range(len(framed) - len(bare) + 1):
                if bare and framed[at : at + len(bare)] == bare:
                    if max(framed) >= self.vocab:
                        raise Problem("{name}, which it puts around a text, is not one of its tokens", name=max(framed))
                    return framed[:at], framed[at + len(bare) :]
        return [], []

    def _bytes_of(self, i: int) -> bytes:
        name = self.library.id_to_token(i) if i >= 0 else None
        if name is None:
            raise Problem("token id {i} does not exist: this tokenizer has ids 0 to {last}", i=i, last=self.vocab - 1)
        if name in self._added or name in self._special_by_name:
            return name.encode()
        return self._spelling(name)


class BPE(Tokenizer):
    """Byte-level BPE: frequent pieces are tokens, other text falls back to bytes, so any text round-trips.

    >>> from . import train_tokenizer
    >>> tokenizer = train_tokenizer("bpe", ["low lower lowest"] * 9, vocab=262)
    >>> tokenizer.pieces(tokenizer.encode("lower 低"))
    ['low', 'e', 'r', ' ', '<E4>', '<BD>', '<8E>']
    """

    kind = "bpe"


class Bytes(BPE):
    """The 256 bytes of UTF-8, token id = byte; special tokens follow from 256.

    >>> Bytes.make().encode("é")
    [195, 169]
    >>> Bytes.make().pieces(Bytes.make().encode("a人"))
    ['a', '<E4>', '<BA>', '<BA>']
    """

    kind, _uses_table = "bytes", True

    @classmethod
    def make(cls, special: Iterable[str] = (), why: str = "") -> "Bytes":
        """Return the tokenizer of bytes.

        >>> Bytes.make(special=["pad", "eos"]).special_ids
        [256, 257]
        """
        library = byte_level(models.BPE(vocab={letter: byte for byte, letter in enumerate(LETTERS)}, merges=[]))
        return cls(library, add_special(library, special), why)

    def _encode(self, text: str) -> list[int]:
        libraries.refuse_surrogates(text)
        return list(text.encode())

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        return np.frombuffer("".join(texts).encode(), dtype=np.uint8).astype(np.uint32)


class Characters(Tokenizer):
    """A token per character of an alphabet, then the special tokens.

    A character outside the alphabet becomes `unk` (a translator can still do the rest of the sentence); without an
    `unk` token it raises a Problem that names the character, since a language model never learned it.

    >>> Characters.make("好你！").encode("你好！")
    [0, 1, 2]
    """

    kind, _uses_table = "characters", True

    def __init__(
        self, library: Library, special: dict[str, str] | None = None, why: str = "", *, cutter: Library | None = None
    ) -> None:
        super().__init__(library, special, why, cutter=cutter)
        self._table = {name: i for name, i in library.get_vocab().items() if name not in self._special_by_name}
        codes = np.array([ord(letter) for letter in self._table], dtype=np.int64)
        # Code point -> id, −1 if not in the alphabet. The last entry, −1, is for all larger code points.
        self._ids = np.full(int(codes.max(initial=0)) + 2, -1, dtype=np.int32)
        self._ids[codes] = list(self._table.values())

    @classmethod
    def make(cls, alphabet: Iterable[str], special: Iterable[str] = (), why: str = "") -> "Characters":
        """Return the tokenizer of the characters of some texts, in the order of their code points.

        >>> Characters.make(["hello", "help"], special=["unk"]).vocab
        6
        """
        characters: set[str] = set()
        for text in alphabet:  # the corpus may be larger than memory
            characters.update(text)
        letters = sorted(characters)
        if not letters:
            raise Problem("the alphabet is empty: give the text, or the characters, that the tokenizer should know")
        special = list(special)
        vocab = {letter: i for i, letter in enumerate(letters)}
        unk = {"unk_token": SPECIAL["unk"]} if "unk" in special else {}
        vocab |= dict.fromkeys(unk.values(), len(letters))  # the library requires it in the vocabulary
        library = Library(models.BPE(vocab=vocab, merges=[], **unk))
        library.decoder = decoders.Fuse()
        return cls(library, add_special(library, special), why)

    def _encode(self, text: str) -> list[int]:
        try:
            return [self._table[letter] for letter in text]
        except KeyError:
            if self.unk is None:
                raise self._unknown(text) from None
            return [self._table.get(letter, self.unk) for letter in text]

    def encode_array(self, texts: Sequence[str]) -> np.ndarray:
        text = "".join(texts)
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        ids = self._ids[np.minimum(codes, len(self._ids) - 1)]
        missing = ids < 0
        if missing.any():
            if self.unk is None:
                raise self._unknown(text)
            ids[missing] = self.unk
        return ids.astype(np.uint32)

    def _unknown(self, text: str) -> Problem:
        unknown = list(dict.fromkeys(letter for letter in text if letter not in self._table))
        listing = " ".join(f"{letter!r}" for letter in unknown[:8]) + (" …" if len(unknown) > 8 else "")
        return Problem(
            "this tokenizer knows the {n} characters of the text it was made from, not {shown}: leave them out, "
            "or train with --tokenizer bytes or --tokenizer bpe, which take any text",
            n=len(self._table),
            shown=listing,
        )
