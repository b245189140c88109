"""Learning a tokenizer: deterministic, and the choice of the kind has a reason."""

import random

import pytest

from qkv.text import choose, reason, train_tokenizer
from qkv.text.vocabulary import SMALL

ENGLISH = "the quick brown fox jumps over the lazy dog, and then the dog sleeps\n"
CHINESE = "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。\n"


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_same_texts_same_tokenizer_list_or_iterator(kind):
    texts = [ENGLISH * 3, CHINESE * 2]
    first = train_tokenizer(kind, texts)
    assert first.to_json() == train_tokenizer(kind, iter(texts)).to_json()


def test_bpe_learns_frequent_pieces_up_to_the_vocabulary():
    tokens = train_tokenizer("bpe", [ENGLISH * 50 + CHINESE * 50], vocab=300)
    assert tokens.vocab == 300
    assert tokens.encode(" the") == [tokens.encode(" the")[0]], "a frequent word is one token"
    assert len(tokens.encode(ENGLISH)) < len(ENGLISH) / 1.5


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([ENGLISH * 100], "characters"),
        ([CHINESE * 100], "characters"),
        ([ENGLISH * (SMALL // len(ENGLISH) + 1)], "bpe"),
        (["".join(random.Random(0).sample([chr(0x4E00 + i) for i in range(8000)], 3000))], "bytes"),
        (["".join(random.Random(0).choices([chr(0x4E00 + i) for i in range(2500)], k=20_000))], "characters"),
        (["".join(random.Random(0).choices([chr(0xAC00 + i) for i in range(2000)], k=20_000))], "characters"),
        ([ENGLISH * 200 + "".join(chr(0x4E00 + i) for i in range(1500))], "bytes"),
    ],
    ids=[
        "little English",
        "little Chinese",
        "much English",
        "every character once",
        "some Chinese",
        "some Korean",
        "English with a list of characters",
    ],
)
def test_the_choice_fits_the_corpus_and_gives_a_reason(texts, kind):
    choice = choose(texts)
    assert choice.kind == kind
    assert kind in choice.why and "characters" in choice.why
    if kind != "bpe":  # training on 4 million characters takes too long here
        tokens = train_tokenizer("auto", texts)
        assert tokens.kind == kind and tokens.why == choice.why


def test_an_explicit_kind_always_wins():
    chinese = ["".join(random.Random(0).choices([chr(0x4E00 + i) for i in range(2500)], k=20_000))]
    assert [train_tokenizer(kind, chinese).kind for kind in ("bytes", "characters")] == ["bytes", "characters"]
    tokenizer = train_tokenizer("auto", chinese)
    assert (reason("auto", tokenizer), reason("characters", tokenizer)) == ("why.many", "why.asked")


def test_a_larger_corpus_gets_a_larger_vocabulary():
    class Repeated:
        def __init__(self, times: int) -> None:
            self.times = times

        def __iter__(self):
            return iter([ENGLISH * 10_000] * self.times)

    small, large, huge = (choose(Repeated(times)).vocab for times in (8, 40, 1000))
    assert 2048 <= small < large < huge == 32768


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "word"}, "no tokenizer 'word': choose from characters, bytes, bpe, or auto"),
        ({"kind": "bytes", "vocab": 100}, "vocab=100 is for bpe"),
        ({"kind": "bpe", "vocab": 200}, "need 260"),
        ({"kind": "bpe", "texts": []}, "no text"),
        ({"kind": "characters", "texts": []}, "alphabet is empty"),
        ({"kind": "auto", "texts": iter(["a"])}, "reads the text twice"),
        ({"kind": "bytes", "special": ["cls"]}, "no special token 'cls': choose from pad, bos"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(f"{v}" for v in value.values())[:30],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        train_tokenizer(**{"texts": ["text"], **arguments})
