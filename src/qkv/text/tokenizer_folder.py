"""Load the tokenizer of a folder: qkv's own, or any of Hugging Face's formats.

A tokenizer.json defines the tokenization. Without one, the tokenizer is built from a SentencePiece model, a vocabulary
with merges, or a list of words. The roles of special tokens and the decoder's start token are in up to five other
files.
"""

import base64
import json
import warnings
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library

from ..disk.bounded_reading import JsonObject, read_json, read_table, read_text, reading, unusable_file
from ..i18n import Message, Notice, Problem, _, all_of
from . import generation_defaults, imported_tokenizers
from .library_tokenizer import ANGLED_SPECIAL, LETTERS, SPECIAL, add_tokens, frame, refuse_long
from .sentencepiece import check_charsmap
from .tokenizer import BPE, Bytes, Characters, Tokenizer

ROLE_FILES = {"tokenizer_config.json": "tokenizer", "generation_config.json": "generation", "config.json": "config"}
BERT_ROLES = {"bos": "cls", "eos": "sep"}  # BERT's names for these roles
FAMILIES = {"roberta": True, "bart": True, "longformer": True, "gpt2": False, "qwen": False, "llama": False}
UNREADABLE = _("{file} can't be read as it should: {why}. Fetch or copy it again")
NO_LIBRARY = _("{file} is not a tokenizer of the `tokenizers` library ({why})")
MOST_BLANKS = 10_000  # T5 has 100
SENTENCEPIECE_FILES = ("spiece.model", "tokenizer.model", "sentencepiece.model")


class NoTokenizer(Problem):
    """There is no tokenizer, as opposed to an unreadable one."""


def load(path: str | Path) -> Tokenizer:
    """Return the tokenizer of a folder or a tokenizer.json: qkv's own, or any of the `tokenizers` library.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Characters.make("abc", special=["eos"]).save(folder)
    ...     tokenizer = load(folder)
    >>> tokenizer.encode("cab"), tokenizer.eos
    ([2, 0, 1], 3)
    """
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    folder = file.parent
    with reading(file if file.is_file() else path, NO_LIBRARY):
        settings = _TokenizerFiles(folder)
        tokenizer: Tokenizer | None
        if file.is_file():
            cutter, other = folder / "cutter.json", folder / "target_cutter.json"
            tokenizer = _from_json(file, settings, _library(cutter)[0] if cutter.is_file() else None)
            if other.is_file():
                tokenizer.target = _from_json(file, settings, _library(other)[0])
        else:
            tokenizer = _from_parts(folder, settings) if path.is_dir() else None
        if tokenizer is None:
            raise NoTokenizer("no tokenizer at {file}: give a folder with a tokenizer.json, or that file", file=file)
        settings.complete(tokenizer)
        return tokenizer


def _from_json(file: Path, settings: "_TokenizerFiles", cutter: Library | None) -> Tokenizer:
    library, saved = _library(file)
    kind = _kind_of(saved)
    added = {token["content"]: token["id"] for token in saved["added_tokens"]}
    _refuse_other_ids(file, library, added)  # the library ignores the ids of the file
    roles = settings.roles(library) if settings.any_roles else {r: name for r, name in SPECIAL.items() if name in added}
    if not settings.any_roles and not roles:
        roles = {role: name for role, name in ANGLED_SPECIAL.items() if name in added}
    settings.frame(library, roles)
    return kind(library, roles, cutter=cutter)


def _refuse_other_ids(file: Path, library: Library, ids: dict[str, int]) -> None:
    for name, i in ids.items():
        if (actual := library.token_to_id(name)) != i:
            raise Problem(
                "{name} should have id {i} but got {got} with {file}: the vocabulary is not that of this model",
                file=file,
                name=name,
                i=i,
                got=actual,
            )


def _library(file: Path) -> tuple[Library, JsonObject]:
    """Return the library's tokenizer and its JSON; raise for content that would crash the library."""
    with reading(file, NO_LIBRARY):
        saved = read_table(file, NO_LIBRARY)
        normalizer = saved.get("normalizer") or {}
        for step in (normalizer, *normalizer.get("normalizers", ())):
            if step.get("type") == "Precompiled":  # the library panics if the map is damaged
                check_charsmap(base64.b64decode(step["precompiled_charsmap"], validate=True))
        vocab = saved["model"]["vocab"]
        refuse_long(name for name in (vocab if isinstance(vocab, dict) else (entry[0] for entry in vocab)))
        refuse_long(token["content"] for token in saved["added_tokens"])
        processor = saved.get("post_processor") or {}
        for step in (processor, *processor.get("processors", ())):
            if step.get("type") == "TemplateProcessing":  # it panics at undefined names too
                sides = [piece for side in ("single", "pair") for piece in step[side]]
                named = {piece["SpecialToken"]["id"] for piece in sides if "SpecialToken" in piece}
                if missing := named - step["special_tokens"].keys():
                    raise Problem(
                        "{name}, which it puts around a text, is not one of its tokens", name=repr(min(missing))
                    )
        return Library.from_str(read_text(file, UNREADABLE)), saved


def _kind_of(saved: JsonObject) -> type[Tokenizer]:
    model, pre, decoder = saved["model"], saved["pre_tokenizer"] or {}, saved["decoder"] or {}
    if model.get("type") != "BPE":
        return Tokenizer
    plain = not model["merges"] and not saved["normalizer"]
    if decoder.get("type") == "ByteLevel":
        in_order = all(model["vocab"].get(letter) == byte for byte, letter in enumerate(LETTERS))
        return Bytes if plain and in_order and pre.get("type") == "ByteLevel" else BPE
    return Characters if plain and decoder.get("type") == "Fuse" and not pre else Tokenizer


def _from_parts(folder: Path, settings: "_TokenizerFiles") -> Tokenizer | None:
    """Return the tokenizer of a folder without tokenizer.json: SentencePiece, byte-level BPE or WordPiece."""

    def has_files(*names: str) -> bool:
        return all((folder / name).is_file() for name in names)

    if has_files("source.spm", "vocab.json"):
        if settings.get("separate_vocabs"):
            raise Problem(
                "{file} sets separate_vocabs: this translator has two vocabularies, for the source and the target, which "
                "qkv does not support",
                file=folder / "tokenizer_config.json",
            )
        tokenizer = imported_tokenizers.from_sentencepiece(
            folder / "source.spm", _read_vocabulary(folder / "vocab.json")
        )
        if has_files("target.spm"):
            tokenizer.target = imported_tokenizers.from_sentencepiece(
                folder / "target.spm", _read_vocabulary(folder / "vocab.json")
            )
        return tokenizer
    if has_files("sentencepiece.model", "shared_vocabulary.json"):
        return imported_tokenizers.from_shared(
            folder / "sentencepiece.model", _read_vocabulary(folder / "shared_vocabulary.json")
        )
    for name in SENTENCEPIECE_FILES:
        if has_files(name):
            t5 = "t5" in settings.family
            blanks = settings.get("extra_ids", 100) if t5 else 0
            if type(blanks) is not int or not 0 <= blanks <= MOST_BLANKS:
                raise Problem(
                    "{file}: extra_ids is {value}, not a number from 0 to {most}",
                    file=folder / "tokenizer_config.json",
                    value=repr(blanks),
                    most=f"{MOST_BLANKS:,}",
                )
            tokenizer = imported_tokenizers.from_sentencepiece(
                folder / name,
                extra=[*settings.added(), *(f"<extra_id_{i}>" for i in reversed(range(blanks)))],
                begin=bool(settings.get("add_bos_token", "llama" in settings.family or "gemma" in settings.family)),
                end=bool(settings.get("add_eos_token", t5)),
            )
            for role, named in settings.roles(tokenizer.library).items():
                tokenizer.assign(role, tokenizer.library.get_vocab()[named])
            return tokenizer
    if has_files("vocab.json", "merges.txt"):
        return _byte_pairs(folder, settings)
    return _word_pieces(folder, settings) if has_files("vocab.txt") else None


def _byte_pairs(folder: Path, settings: "_TokenizerFiles") -> Tokenizer:
    vocab = _read(folder / "vocab.json")
    lines = _lines(folder / "merges.txt")
    merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    cut = "qwen2" if "qwen" in settings.family else "gpt2"
    space = bool(settings.get("add_prefix_space", False))
    refuse_long(vocab)
    library = imported_tokenizers.byte_pairs(vocab, merges, cut, space)
    special = [name for name in (*ANGLED_SPECIAL.values(), "<|endoftext|>") if name in vocab]
    add_tokens(library, (dict.fromkeys(special, True) | settings.added()).items())
    _refuse_other_ids(folder / "vocab.json", library, settings.ids())
    roles = settings.roles(library)
    if not roles:
        roles = {role: name for role, name in ANGLED_SPECIAL.items() if name in vocab}
        if "eos" not in roles and "<|endoftext|>" in vocab:
            roles |= {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
    framed = next((frames for name, frames in FAMILIES.items() if name in settings.family), "<mask>" in vocab)
    if framed:
        frame(library, roles.get("bos", "<s>"), roles.get("eos", "</s>"))
    settings.frame(library, roles)
    return BPE(library, roles)


def _word_pieces(folder: Path, settings: "_TokenizerFiles") -> Tokenizer:
    vocab = {line: i for i, line in enumerate(_lines(folder / "vocab.txt"))}
    accents = settings.get("strip_accents")
    refuse_long(vocab)
    library = imported_tokenizers.word_pieces(
        vocab,
        lowercase=bool(settings.get("do_lower_case", True)),
        accents=accents if isinstance(accents, bool) else None,
        chinese=bool(settings.get("tokenize_chinese_chars", True)),
    )
    usual = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]", "unk": "[UNK]"}
    add_tokens(library, ((name, True) for name in [*usual.values(), *settings.added()] if name in vocab))
    roles = {role: name for role, name in usual.items() if name in vocab} | settings.roles(library)
    frame(library, roles.get("bos"), roles.get("eos"))
    return Tokenizer(library, roles)


class _TokenizerFiles:
    """The settings in the files beside a tokenizer: special tokens, generation defaults, the chat template."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = _read(folder / "config.json")
        self.tokenizer = _read(folder / "tokenizer_config.json")
        self.map = _read(folder / "special_tokens_map.json")
        self.generation = _read(folder / "generation_config.json")
        self.added_ids = _read(folder / "added_tokens.json")
        self.template = self._template(folder)
        family = (self.tokenizer.get("tokenizer_class"), self.config.get("model_type"))
        self.family = " ".join(str(name) for name in family if name).lower()
        # A tokenizer_config.json lists all special tokens, even if it lists none.
        self.any_roles = (folder / "tokenizer_config.json").is_file() or bool(self.map)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting of tokenizer_config.json."""
        value = self.tokenizer.get(key)
        return default if value is None else value

    def roles(self, library: Library) -> dict[str, str]:
        """Return role -> name of the special tokens."""
        roles = {}
        for role in SPECIAL:
            for key in (f"{role}_token", f"{BERT_ROLES.get(role)}_token"):
                if name := _name(self.tokenizer.get(key)) or _name(self.map.get(key)):
                    roles[role] = name
                    break
        return {role: name for role, name in roles.items() if library.token_to_id(name) is not None}

    def added(self) -> dict[str, bool]:
        """Return the tokens added to the vocabulary in the order of their ids: name -> is_special."""
        kinds = dict.fromkeys(self.ids(), True)
        for token in self._decoder().values():
            if (name := _name(token)) in kinds:
                kinds[name] = bool(token.get("special", True))
        listed = self.tokenizer.get("additional_special_tokens") or self.map.get("additional_special_tokens") or []
        others = [name for name in map(_name, listed if isinstance(listed, list) else []) if name]
        return kinds | dict.fromkeys(others, True)

    def ids(self) -> dict[str, int]:
        """Return the ids of added tokens that the files state."""
        ids = {name: i for name, i in self.added_ids.items() if isinstance(i, int)}
        ids |= {name: int(i) for i, token in self._decoder().items() if (name := _name(token)) and str(i).isdigit()}
        return dict(sorted(ids.items(), key=lambda pair: pair[1]))

    def _decoder(self) -> JsonObject:
        tokens = self.tokenizer.get("added_tokens_decoder")
        return {i: token for i, token in tokens.items() if isinstance(token, dict)} if isinstance(tokens, dict) else {}

    def frame(self, library: Library, roles: dict[str, str]) -> None:
        """Apply the settings add_bos_token and add_eos_token."""
        names = (self.tokenizer.get(f"add_{role}_token") is True and roles.get(role) for role in ("bos", "eos"))
        frame(library, *(name or None for name in names))

    def complete(self, tokenizer: Tokenizer) -> None:
        """Set the decoder's start, the ids that end a text or are never generated, and the chat template."""

        def ids(*values: object) -> list[int]:
            flat = [i for value in values for i in (value if isinstance(value, list) else [value])]
            return list(dict.fromkeys(i for i in flat if type(i) is int and 0 <= i < tokenizer.vocab))

        def first(key: str) -> Any:
            values = (file.get(key) for file in (self.tokenizer, self.generation, self.config))
            return next((value for value in values if value is not None), None)

        for name, field in ROLE_FILES.items():  # ignoring an invalid id could make texts endless
            for key, value in getattr(self, field).items():
                each = value if isinstance(value, list) else [value]
                if key.endswith(("_token_id", "eos_token_ids")) and not all(i is None or type(i) is int for i in each):
                    raise Problem(
                        "{file}: {name} is {value}, not the id of a token",
                        file=self.folder / name,
                        name=key,
                        value=repr(value)[:80],
                    )
        for role in ("pad", "bos", "eos"):  # by id, if no file gives a name
            if not self.any_roles and getattr(tokenizer, role) is None and (i := ids(first(f"{role}_token_id"))):
                tokenizer.assign(role, i[0])
        if start := ids(first("decoder_start_token_id")):
            tokenizer.start = start[0]
        tokenizer.ends = ids(tokenizer.ends, self.tokenizer.get("eos_token_ids"), self.generation.get("eos_token_id"))
        if not tokenizer.ends or "eos_token_id" not in self.generation:
            tokenizer.ends = ids(tokenizer.ends, self.config.get("eos_token_id"))
        tokenizer.habits, ignored = generation_defaults.read(
            self.generation or self.config, tokenizer.vocab, is_complete=bool(self.generation)
        )
        listed = self.tokenizer.get("bad_words_ids")
        words = [*(listed if isinstance(listed, list) else []), *map(list, tokenizer.habits.bad_words_ids)]
        single = [
            word[0] for word in words if isinstance(word, list) and len(word) == 1 and word[0] not in tokenizer.ends
        ]
        tokenizer.never = ids(tokenizer.never, single, list(tokenizer.habits.suppress_tokens))
        if ignored:
            file = "generation_config.json" if self.generation else "config.json"
            names = all_of(f"{name} = {json.dumps(value)[:40]}" for name, value in sorted(ignored.items()))
            warnings.warn(
                Notice(
                    "{file} sets {names}, which qkv does not support: texts may differ from what its authors intended",
                    file=file,
                    names=names,
                ),
                stacklevel=4,
            )
        tokenizer.template = self.template

    def _template(self, folder: Path) -> str | None:
        file = folder / "chat_template.jinja"
        if file.is_file():
            return read_text(file, UNREADABLE)
        template = self.tokenizer.get("chat_template") or _read(folder / "chat_template.json").get("chat_template")
        if isinstance(template, list):  # several named templates: use the default
            named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
            template = named.get("default")
        return template if isinstance(template, str) else None


def _name(token: object) -> str | None:
    """Return the name of a token that is written as a string or as a table."""
    name = token.get("content") if isinstance(token, dict) else token
    return name if isinstance(name, str) else None


def _read(file: Path) -> JsonObject:
    """Return a JSON table, {} if there is no file."""
    return read_table(file, UNREADABLE) if file.is_file() else {}


def _read_vocabulary(file: Path) -> list[str]:
    """Return the names of a vocabulary in the order of their ids, from a list or a table of name -> id."""
    names = read_json(file, UNREADABLE)
    if isinstance(names, list):
        return names
    if isinstance(names, dict) and sorted(i for i in names.values() if type(i) is int) == list(range(len(names))):
        return sorted(names, key=lambda name: names[name])
    raise unusable_file(file, UNREADABLE, Message("the ids are not 0, 1, 2, …"))


def _lines(file: Path) -> list[str]:
    lines = read_text(file, UNREADABLE).split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]
