"""Tokenizers from other formats: the vocabulary of a GGUF file, a SentencePiece model, or word lists.

Each is rebuilt from parts of the `tokenizers` library, so it is saved as an ordinary tokenizer.json. The ids are those
of the original program (tested): SentencePiece for its models, llama.cpp for GGUF, `transformers` for its folders.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from ..disk.bounded_reading import JsonObject, reading
from ..i18n import Problem, _, all_of
from . import sentencepiece
from .library_tokenizer import ANGLED_SPECIAL, add_tokens, byte_level, frame, refuse_long
from .sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Pieces
from .tokenizer import BPE, Tokenizer

SPACE = "▁"  # how SentencePiece writes a space

# How a text is split before byte-level BPE, by GGUF's name for it (tokenizer.ggml.pre).
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
LLAMA3 = _SHORT + r"\p{N}{1,3}" + _REST
QWEN2 = _SHORT + r"\p{N}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST4 = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}" + _REST4
CUTS = {
    **dict.fromkeys(("", "default", "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jina-en", "jina-es", "jina-de"), "gpt2"),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), "digits"),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe", "dbrx"), "llama3"),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez"), "qwen2"),
    "tekken": "tekken",
}
# Control tokens that end a turn or a text, as in llama.cpp.
ENDS = "<|im_end|> <|eot_id|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> <|return|>".split()


@reading(None, _("the vocabulary is damaged ({why}): fetch or copy the model again"))
def from_gguf(vocabulary: JsonObject) -> Tokenizer:
    """Return the tokenizer of a GGUF file from its metadata, whose keys have lost the prefix "tokenizer."."""
    kind = vocabulary.get("ggml.model")
    if kind not in GGUF:
        raise Problem("this GGUF has a tokenizer of kind {model}: {known} can be read", model=kind, known=all_of(GGUF))
    tokens = vocabulary.get("ggml.tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise Problem("this GGUF has no list of tokens: it is damaged, or holds no language model")
    refuse_long(tokens)
    types = vocabulary.get("ggml.token_type") or [NORMAL] * len(tokens)
    _refuse_other_length("token_type", types, tokens)
    roles = {}
    for role, keys in GGUF_ROLES.items():
        i = next((vocabulary[f"ggml.{key}"] for key in keys if f"ggml.{key}" in vocabulary), None)
        if isinstance(i, int) and i < len(tokens):  # some files write an absent id as 2³² − 1
            roles[role] = i
    distinct = _distinct(tokens)
    library = GGUF[kind](vocabulary, distinct, types)
    tokens = [library.id_to_token(i) or token for i, token in enumerate(tokens)]  # as the library spells them
    add_tokens(library, ((t, kind != USER_DEFINED) for t, kind in zip(tokens, types, strict=True) if kind in (3, 4)))
    default_frame = {"llama": (True, False), "t5": (False, True), "bert": (True, True)}.get(kind, (False, False))
    if CUTS.get(vocabulary.get("ggml.pre") or "") == "llama3":
        default_frame = (True, False)
    adds_bos, adds_eos = (
        bool(vocabulary.get(f"ggml.add_{role}_token", default_frame[at])) for at, role in enumerate(("bos", "eos"))
    )
    role_names = {role: tokens[i] for role, i in roles.items()}
    frame(library, role_names.get("bos") if adds_bos else None, role_names.get("eos") if adds_eos else None)
    cutter = _copy(library) if vocabulary.get("ggml.precompiled_charsmap") else None
    tokenizer = (BPE if kind == "gpt2" else Tokenizer)(library, role_names, cutter=cutter)
    extra_ends = [vocabulary.get(f"ggml.{key}") for key in ("eot_token_id", "eom_token_id")]
    extra_ends += [i for i, token in enumerate(tokens) if types[i] == CONTROL and token in ENDS]
    tokenizer.ends = list(
        dict.fromkeys([*tokenizer.ends, *(i for i in extra_ends if isinstance(i, int) and 0 <= i < len(tokens))])
    )
    template = vocabulary.get("chat_template")
    tokenizer.template = template if isinstance(template, str) else None
    return tokenizer


def from_sentencepiece(
    model_file: str | Path,
    vocabulary: Sequence[str] | None = None,
    *,
    extra: Iterable[str] = (),
    begin: bool = False,
    end: bool = False,
) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model; ids are the model's own, or indices in `vocabulary`.

    With a `vocabulary` (Marian's vocab.json, CTranslate2's shared_vocabulary.json), SentencePiece cuts the text and
    each piece is looked up by name; absent pieces are unknown. Such a model ends a text with </s>, starts decoding
    from padding, and never generates padding. Padding is added at the end if the vocabulary has none.

    `extra` tokens are added at the end (T5's sentinels); `begin` and `end` frame a text with <s> and </s>.
    """
    pieces = sentencepiece.read(model_file)
    with reading(Path(model_file), sentencepiece.UNREADABLE):
        library = from_pieces(pieces)
        controls = [text for text, _, kind in pieces.pieces if kind == CONTROL]
        add_tokens(
            library, ((text, kind == CONTROL) for text, _, kind in pieces.pieces if kind in (CONTROL, USER_DEFINED))
        )
        add_tokens(library, ((text, True) for text in extra))
        unknown = next((text for text, _, kind in pieces.pieces if kind == UNKNOWN), None)
        roles = {role: name for role, name in ANGLED_SPECIAL.items() if name in controls} | (
            {"unk": unknown} if unknown else {}
        )
        if vocabulary is None:
            frame(library, roles.get("bos") if begin else None, roles.get("eos") if end else None)
            return Tokenizer(library, roles, cutter=_copy(library) if pieces.charsmap else None)
        return _numbered_by(library, pieces, list(vocabulary), model_file)


def from_shared(model_file: str | Path, vocabulary: Sequence[str]) -> Tokenizer:
    """Return the tokenizer of a CTranslate2 folder: a vocabulary of both languages, but only one SentencePiece model.

    The source's model has few words of the target language: it would cut "teacher" into te·ach·er, which the translator
    never writes. So targets are cut into pieces of the vocabulary, which is in order of frequency; the n-th has the
    probability 1/n (Zipf). 40 of 40 translations by opus-zh-en are cut as the model wrote them.
    """
    tokenizer = from_sentencepiece(model_file, vocabulary)
    pieces = sentencepiece.read(model_file)
    kinds = {"<unk>": UNKNOWN, "</s>": CONTROL, "<pad>": CONTROL}
    ranked = [(name, -math.log(n), kinds.get(name, NORMAL)) for n, name in enumerate(vocabulary, 1)]
    tokenizer.target = _numbered_by(
        from_pieces(replace(pieces, pieces=ranked, kind="unigram", byte_fallback=False)),
        pieces,
        list(vocabulary),
        model_file,
    )
    return tokenizer


def _numbered_by(cutter: Library, pieces: Pieces, vocabulary: list[str], model_file: str | Path) -> Tokenizer:
    """Return a tokenizer that cuts like `cutter` and whose ids are indices in a vocabulary."""
    if missing := [name for name in ("</s>", "<unk>") if name not in vocabulary]:
        raise Problem(
            "the vocabulary beside {file} has no {names}: it is not the one of this model",
            file=model_file,
            names=all_of(missing),
        )
    if not all(isinstance(name, str) and name for name in vocabulary) or len(set(vocabulary)) != len(vocabulary):
        raise Problem(
            "the vocabulary beside {file} has duplicate names or names that are not text: it is damaged; fetch or copy "
            "it again",
            file=model_file,
        )
    refuse_long(vocabulary)
    names = vocabulary if "<pad>" in vocabulary else [*vocabulary, "<pad>"]
    scores = {text: score for text, score, _ in pieces.pieces}
    low = min(scores.values())
    unigram = models.Unigram([(name, scores.get(name, low)) for name in names], names.index("<unk>"), False)
    library = Library(unigram)
    library.decoder = cutter.decoder
    library.normalizer = cutter.normalizer
    roles = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    add_tokens(library, ((name, True) for name in roles.values()))
    languages = [name for name in names if name.startswith(">>") and name.endswith("<<")]
    for each in (library, cutter):
        add_tokens(each, ((name, False) for name in languages))
    frame(library, None, "</s>")
    tokenizer = Tokenizer(library, roles, cutter=cutter)
    assert tokenizer.pad is not None
    tokenizer.start, tokenizer.never = tokenizer.pad, [tokenizer.pad]
    return tokenizer


def from_pieces(pieces: Pieces) -> Library:
    """Return the library's tokenizer of SentencePiece's pieces, a unigram model or BPE; spaces are written ▁."""
    names = pieces.names
    refuse_long(names)
    unknown = next((text for text, _, kind in pieces.pieces if kind == UNKNOWN), None)
    if pieces.kind == "unigram":
        scored = [(text, float(score)) for text, score, _ in pieces.pieces]
        unknown_id = None if unknown is None else names[unknown]
        model: models.Model = models.Unigram(scored, unknown_id, pieces.byte_fallback)
    else:
        options = {"unk_token": unknown} if unknown is not None else {}
        model = models.BPE(names, _merges(pieces), fuse_unk=True, byte_fallback=pieces.byte_fallback, **options)
    normalizer_steps: list[normalizers.Normalizer] = (
        [normalizers.Precompiled(pieces.charsmap)] if pieces.charsmap else []
    )
    if pieces.remove_extra_whitespaces:
        normalizer_steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex(r"\A "), "")]
    normalizer_steps.append(normalizers.Replace(" ", SPACE))
    if pieces.remove_extra_whitespaces:
        normalizer_steps.append(normalizers.Replace(Regex(rf"{SPACE}+\z"), ""))  # trailing ▁ of the text too
    if pieces.dummy_prefix:
        normalizer_steps.append(normalizers.Prepend(SPACE))
    decoder_steps: list[decoders.Decoder] = [decoders.Replace(SPACE, " ")]
    decoder_steps += [decoders.ByteFallback()] if pieces.byte_fallback else []
    decoder_steps += [decoders.Fuse(), *([decoders.Strip(" ", 1, 0)] if pieces.dummy_prefix else [])]
    library = Library(model)
    library.normalizer = normalizers.Sequence(normalizer_steps)
    library.decoder = decoders.Sequence(decoder_steps)
    return library


def _merges(pieces: Pieces) -> list[tuple[str, str]]:
    """Return all splits of each piece in two, best score first: SentencePiece merges the pair with the best score."""
    scores = {text: score for text, score, kind in pieces.pieces if kind == NORMAL}
    cuts = ((text, cut) for text in scores for cut in range(1, len(text)))
    splits = [(text, cut) for text, cut in cuts if text[:cut] in scores and text[cut:] in scores]
    splits.sort(key=lambda split: (-scores[split[0]], -split[1]))
    return [(text[:cut], text[cut:]) for text, cut in splits]


def byte_pairs(
    vocab: dict[str, int], merges: Sequence[str | Sequence[str]], cut: str = "gpt2", prefix_space: bool = False
) -> Library:
    """Return byte-level BPE that splits the text like a family of models (a value of CUTS)."""
    pairs = [(first, second) for first, second in (m.split(" ") if isinstance(m, str) else m for m in merges)]
    # LLaMA 3 keeps a piece whole if it is a token, whatever the merges are.
    library = byte_level(models.BPE(vocab, pairs, ignore_merges=cut == "llama3"))
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=cut in ("gpt2", "digits"))
    if cut == "digits":
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), to_bytes])
    elif cut != "gpt2":
        pattern = Regex({"llama3": LLAMA3, "qwen2": QWEN2, "tekken": TEKKEN}[cut])
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), to_bytes])
        if cut == "qwen2":
            library.normalizer = normalizers.NFC()
    else:
        library.pre_tokenizer = to_bytes
    return library


def word_pieces(
    vocab: dict[str, int], *, lowercase: bool = True, accents: bool | None = None, chinese: bool = True
) -> Library:
    """Return BERT's WordPiece: words and punctuation, then the longest pieces from the left; ## continues a word."""
    unknown = "[UNK]" if "[UNK]" in vocab else "<unk>"
    library = Library(models.WordPiece(vocab, unk_token=unknown, max_input_chars_per_word=100))
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lowercase
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece("##")
    return library


GGUF_ROLES = {
    "pad": ("padding_token_id",),
    "bos": ("bos_token_id", "cls_token_id"),
    "eos": ("eos_token_id", "seperator_token_id", "separator_token_id"),
    "mask": ("mask_token_id",),
    "unk": ("unknown_token_id",),
}


def _refuse_other_length(name: str, entries: Sequence[object], tokens: Sequence[str]) -> None:
    if (n := len(entries)) != len(tokens):
        raise Problem(
            "this GGUF is damaged: {name} has {n} entries for {tokens} tokens", name=name, n=n, tokens=len(tokens)
        )


def _gguf_bytes(vocabulary: JsonObject, tokens: list[str], types: list[int]) -> Library:
    pre = vocabulary.get("ggml.pre") or ""
    if pre not in CUTS:
        raise Problem(
            "this GGUF splits its text like {pre}, which is not supported ({known} are): use the model's "
            "folder with its tokenizer.json instead",
            pre=pre,
            known=all_of(name for name in CUTS if name),
        )
    vocab = {token: i for i, token in enumerate(tokens)}
    return byte_pairs(vocab, vocabulary.get("ggml.merges") or [], CUTS[pre])


def _gguf_pieces(vocabulary: JsonObject, tokens: list[str], types: list[int]) -> Library:
    scores = vocabulary.get("ggml.scores") or []
    _refuse_other_length("scores", scores, tokens)
    unigram = vocabulary["ggml.model"] == "t5"
    charsmap = bytes(vocabulary.get("ggml.precompiled_charsmap") or b"")
    return from_pieces(
        Pieces(
            list(zip(tokens, map(float, scores), types, strict=True)),
            kind="unigram" if unigram else "bpe",
            byte_fallback=BYTE in types,
            charsmap=sentencepiece.check_charsmap(charsmap),
            dummy_prefix=bool(vocabulary.get("ggml.add_space_prefix", True)),
            remove_extra_whitespaces=bool(vocabulary.get("ggml.remove_extra_whitespaces", unigram)),
        )
    )


def _gguf_words(vocabulary: JsonObject, tokens: list[str], types: list[int]) -> Library:
    """GGUF marks pieces that begin a word with ▁; BERT marks those that continue one with ##."""

    def bert_name(token: str) -> str:
        if token.startswith(SPACE):
            return token[1:]
        return token if token.startswith("[") and token.endswith("]") else f"##{token}"

    lowercase = bool(vocabulary.get("ggml.normalizer.lowercase", True))
    return word_pieces({bert_name(token): i for i, token in enumerate(tokens)}, lowercase=lowercase)


GGUF: dict[str, Callable[[JsonObject, list[str], list[int]], Library]] = {
    "gpt2": _gguf_bytes,
    "llama": _gguf_pieces,
    "t5": _gguf_pieces,
    "bert": _gguf_words,
}


def _copy(library: Library) -> Library:
    return Library.from_str(library.to_str())


def _distinct(tokens: list[str]) -> list[str]:
    """Rename repeated names, since each id needs a name of its own; encoding uses the first id."""
    used: set[str] = set()
    names = []
    for i, token in enumerate(tokens):
        name = token if token not in used else f"[DOUBLE {i}]"
        used.add(name)
        names.append(name)
    return names
