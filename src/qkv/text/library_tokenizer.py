"""Tokenizers of the `tokenizers` library: how they are made, what is changed in them, and which are refused."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from ..i18n import Problem, all_of
from .sentencepiece import Charsmap

LONGEST = 4096  # characters of a token: the library keeps a node per letter, and dies of a chain of 200,000
SPECIAL = {"pad": "[PAD]", "bos": "[BOS]", "eos": "[EOS]", "mask": "[MASK]", "unk": "[UNK]"}


def byte_level(model: models.Model) -> Library:
    """A library tokenizer that works on the bytes of UTF-8, with no unknown text."""
    library = Library(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    library.decoder = decoders.ByteLevel()
    return library


def add_special(library: Library, roles: Iterable[str], *, words: bool = False) -> dict[str, str]:
    """Add special tokens by role at the end of the vocabulary, and give role -> name.

    With `words`, a word's token holds the blank before it, so [MASK] in place of a word takes that blank too.
    """
    chosen = {}
    for role in roles:
        if role not in SPECIAL:
            raise Problem(
                "there is no special token {role}: choose from {roles}", role=repr(role), roles=all_of(SPECIAL)
            )
        chosen[role] = SPECIAL[role]
    library.add_special_tokens(
        [
            AddedToken(name, special=True, normalized=False, lstrip=words and role == "mask")
            for role, name in chosen.items()
        ]
    )
    return chosen


def refuse_unknown(library: Library, known: Mapping[str, int]) -> None:
    """Refuse a vocabulary that lacks its own token for what it doesn't know: some texts would work and others not."""
    name = getattr(library.model, "unk_token", None)
    if name is not None and name not in known:
        raise Problem(
            "its vocabulary lacks {name}, its own token for what it doesn't know: fetch or copy the model again",
            name=repr(name),
        )


def refuse_long(names: Iterable[str]) -> None:
    """Refuse a vocabulary with a token that is too long for the library."""
    longest = max(names, key=len, default="")
    if len(longest) > LONGEST:
        raise Problem(
            "a token of its vocabulary, {begins}…, has {n} characters and none may have more than {most}",
            n=f"{len(longest):,}",
            most=f"{LONGEST:,}",
            begins=repr(longest[:20]),
        )


def charsmap(library: Library) -> Callable[[str], str] | None:
    """SentencePiece's map of characters in a library's normalizer, to be followed as SentencePiece does."""
    told = json.loads(library.normalizer.__getstate__()) if library.normalizer is not None else {}
    for step in told.get("normalizers", ()):
        if step.get("type") == "Precompiled":
            return Charsmap(base64.b64decode(step["precompiled_charsmap"]))
    return None


def unmatched(library: Library, keep_charsmap: bool = True) -> Library:
    """A unigram model finds any piece in a text, control tokens too: a copy where these have names no text holds.

    Without `keep_charsmap` the copy leaves the map of characters to us.
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
    for token in saved["added_tokens"]:  # renamed, not left out: those after them would move up and get their ids
        if token["special"]:
            token["content"] = f"\ufdd0{token['content']}"
    saved["post_processor"] = None
    return Library.from_str(json.dumps(saved))


def refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem(
            "the text holds half a character, {code}, at position {at}: it was cut or read in the wrong encoding; "
            "read it as UTF-8",
            code=f"U+{ord(text[error.start]):04X}",
            at=error.start,
        ) from None
