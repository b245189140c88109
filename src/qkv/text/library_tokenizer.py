"""Helpers for tokenizers of the `tokenizers` library: building, checking, and the bytes that a token stands for."""

import base64
import codecs
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Library

from ..i18n import Problem, all_of
from .sentencepiece import Charsmap

LONGEST = 4096  # characters of a token; the library keeps a node per letter and crashes on a chain of 200,000
SPECIAL = {"pad": "[PAD]", "bos": "[BOS]", "eos": "[EOS]", "mask": "[MASK]", "unk": "[UNK]"}
ANGLED_SPECIAL = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "mask": "<mask>", "unk": "<unk>"}


def byte_level(model: models.Model) -> Library:
    """Return a library tokenizer that works on UTF-8 bytes, so that no text is unknown."""
    library = Library(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    return library


def add_special(library: Library, roles: Iterable[str], *, words: bool = False) -> dict[str, str]:
    """Add special tokens by role at the end of the vocabulary; return role -> name.

    With `words`, the token of a word includes the space before it, so [MASK] takes that space too.
    """
    names = {}
    for role in roles:
        if role not in SPECIAL:
            raise Problem(
                "there is no special token {role}: choose from {roles}", role=repr(role), roles=all_of(SPECIAL)
            )
        names[role] = SPECIAL[role]
    library.add_special_tokens(
        [
            AddedToken(name, special=True, normalized=False, lstrip=words and role == "mask")
            for role, name in names.items()
        ]
    )
    return names


def add_tokens(library: Library, tokens: Iterable[tuple[str, bool]]) -> None:
    """Add tokens (name, is_special) that are matched literally; a name in the vocabulary keeps its id."""
    added = [AddedToken(name, special=special, normalized=False) for name, special in tokens if name]
    refuse_long(token.content for token in added)
    library.add_tokens(added)


def frame(library: Library, begin: str | None, end: str | None) -> None:
    """Make the library put these tokens around a text."""
    around = [name for name in (begin, end) if name is not None]
    if around:
        single = f"{begin + ':0 ' if begin else ''}$A:0{' ' + end + ':0' if end else ''}"
        pair = f"{single} {begin + ':1 ' if begin and not end else ''}$B:1{' ' + end + ':1' if end else ''}"
        library.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(name, library.token_to_id(name)) for name in set(around)]
        )


def refuse_unknown(library: Library, vocab: Mapping[str, int]) -> None:
    """Raise if the vocabulary lacks its own unknown token: the library would fail on some texts."""
    name = getattr(library.model, "unk_token", None)
    if name is not None and name not in vocab:
        raise Problem(
            "its vocabulary lacks {name}, its unknown token: fetch or copy the model again",
            name=repr(name),
        )


def refuse_long(names: Iterable[str]) -> None:
    """Raise if a token is too long for the library."""
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST:
        raise Problem(
            "a token of its vocabulary, {begins}…, has {n} characters and none may have more than {most}",
            n=f"{len(longest):,}",
            most=f"{LONGEST:,}",
            begins=repr(longest[:20]),
        )


def charsmap(library: Library) -> Callable[[str], str] | None:
    """Return a function that normalizes text with the tokenizer's SentencePiece character map, or None if it has no map."""
    normalizer = json.loads(library.normalizer.__getstate__()) if library.normalizer is not None else {}
    for step in normalizer.get("normalizers", ()):
        if step.get("type") == "Precompiled":
            return Charsmap(base64.b64decode(step["precompiled_charsmap"]))
    return None


def without_special_matches(library: Library, keep_charsmap: bool = True) -> Library:
    """Return a tokenizer that finds no special tokens in plain text.

    A unigram model finds any piece, control tokens too, so these get names in the copy that occur in no text. Without
    `keep_charsmap`, the copy leaves out the character map.
    """
    if keep_charsmap and not isinstance(library.model, models.Unigram):
        return library
    saved = json.loads(library.to_str())
    if not keep_charsmap:
        steps = saved["normalizer"]["normalizers"]
        saved["normalizer"]["normalizers"] = [step for step in steps if step["type"] != "Precompiled"]
    if saved["model"]["type"] != "Unigram":
        copy = Library.from_str(json.dumps(saved))
        copy.encode_special_tokens = True
        return copy
    special = {token["content"] for token in saved["added_tokens"] if token["special"]}
    vocab, unknown = saved["model"]["vocab"], saved["model"].get("unk_id")
    for at, (name, score) in enumerate(vocab):
        if name in special or at == unknown:
            vocab[at] = [f"\ufdd0{name}", score]
    for token in saved["added_tokens"]:  # not removed: later tokens would take their ids
        if token["special"]:
            token["content"] = f"\ufdd0{token['content']}"
    saved["post_processor"] = None
    return Library.from_str(json.dumps(saved))


def refuse_surrogates(text: str) -> None:
    """Raise if a text can't be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem(
            "the text holds half a character, {code}, at position {at}: it was cut or read in the wrong encoding; "
            "read it as UTF-8",
            code=f"U+{ord(text[error.start]):04X}",
            at=error.start,
        ) from None


def _byte_letters() -> list[str]:
    """Return the letter of each byte in byte-level vocabularies: itself if printable, else one from U+0100 on."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    themselves = {ord(letter) for letter in alphabet if ord(letter) < 256}
    stand_ins = iter(letter for letter in alphabet if ord(letter) >= 256)
    return [chr(byte) if byte in themselves else next(stand_ins) for byte in range(256)]


LETTERS = _byte_letters()
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def spelling(library: Library) -> Callable[[str], bytes]:
    """Return the function that turns a token's name into its bytes, chosen by the library's decoder."""
    decoder = json.loads(library.decoder.__getstate__()) if library.decoder is not None else {}
    steps = {step.get("type"): step for step in (decoder, *decoder.get("decoders", ()))}
    if "ByteLevel" in steps:
        return _from_letters
    if "WordPiece" in steps:
        return lambda name: _from_word_piece(name, steps["WordPiece"].get("prefix", "##"))
    if "BPEDecoder" in steps:
        suffix = steps["BPEDecoder"].get("suffix", "</w>")
        return lambda name: (name.removesuffix(suffix) + " " * name.endswith(suffix)).encode()
    if "Metaspace" in steps or steps.get("Replace", {}).get("content") == " ":
        fallback = "ByteFallback" in steps
        return lambda name: _from_pieces(name, fallback)
    return str.encode


def _from_letters(name: str) -> bytes:
    try:
        return bytes(BYTES[letter] for letter in name)
    except KeyError:  # a name that is not byte-level, as of unused ids
        return name.encode()


def _from_pieces(name: str, fallback: bool) -> bytes:
    if fallback and re.fullmatch(r"<0x[0-9A-F]{2}>", name):
        return bytes([int(name[3:5], 16)])
    return name.replace("▁", " ").encode()


def _from_word_piece(name: str, prefix: str) -> bytes:
    """Return the bytes of a WordPiece: a space comes before pieces that begin a word.

    Punctuation and 汉字 are always separate pieces, so their names don't tell whether there was a space.
    """
    if name.startswith(prefix) and name != prefix:
        return name.removeprefix(prefix).encode()
    alone = len(name) == 1 and (unicodedata.category(name)[0] in "PS" or unicodedata.category(name) == "Lo")
    return (name if alone else f" {name}").encode()


def is_incomplete(raw: bytes) -> bool:
    """True if the bytes are a text whose last character is incomplete."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _as_hex(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("qkv.hex", _as_hex)


def show(raw: bytes) -> str:
    """Return a token's bytes as text, with <E4> for a byte that is part of a character."""
    return raw.decode(errors="qkv.hex")
