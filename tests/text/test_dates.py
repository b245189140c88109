"""Dates: every form names its day, and unseen days are never trained on."""

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.text import PairStream, date_pair, date_tokenizer
from qkv.text.dates import DIGITS, FIRST, FORMS, LAST, MONTHS, ORDINALS, TARGETS, WEEKDAYS

days = st.dates(FIRST, LAST)


def read(text: str) -> date:
    """Read a date in any form, written independently of how the forms are made."""
    text = text.translate(str.maketrans("０１２３４５６７８９", "0123456789"))
    if match := re.search(r"(\d{4})[年/.\-]?\s*年?\s*(\d{1,2})(?:\s*[月/.\-]\s*|)(\d{1,2})(?!\d)", text):
        return date(*map(int, match.groups()))
    if match := re.search(r"([〇零一二三四五六七八九]{4})年(.+)月(.+?)[日号]", text):
        year = int("".join(str("〇一二三四五六七八九".index(d.replace("零", "〇"))) for d in match[1]))
        return date(year, number(match[2]), number(match[3]))
    year = int(re.search(r"\d{4}", text)[0])
    month = next(i for i, name in enumerate(MONTHS, 1) if re.search(rf"\b{name[:3]}", text, re.I))
    rest = re.sub(r"\d{4}", "", text)
    if match := re.search(r"\d{1,2}", rest):
        return date(year, month, int(match[0]))
    return date(year, month, max((len(w), i) for i, w in enumerate(ORDINALS, 1) if f" {w} " in rest)[1])


def number(text: str) -> int:
    tens, ten, units = text.rpartition("十")
    return (DIGITS.index(tens) if tens else 1) * 10 * bool(ten) + (DIGITS.index(units) if units else 0)


@given(day=days)
def test_every_form_names_the_day(day):
    for form in FORMS:
        assert read(form(day)) == day, form(day)
    assert len({form(day) for form in FORMS}) >= len(FORMS) - 5, "forms differ, but for short months and round days"


@given(day=days)
def test_weekdays_are_right(day):
    texts = [form(day) for form in FORMS]
    assert any(text.startswith(f"{WEEKDAYS[day.weekday()]}, ") for text in texts)
    assert any(text.endswith("星期" + "一二三四五六日"[day.weekday()]) for text in texts)


@given(seed=st.integers(0, 2**40), index=st.integers(0, 2**40), target=st.sampled_from(sorted(TARGETS)))
def test_a_pair_is_a_day_and_depends_on_seed_and_index_alone(seed, index, target):
    source, answer = date_pair(seed, index, target=target)
    assert read(source) == read(answer)
    assert date_pair(seed, index, target=target) == (source, answer)


def test_unseen_dates_are_never_trained_on():
    train = {date_pair(1, index)[1] for index in range(20_000)}
    unseen = {date_pair(1, index, "unseen")[1] for index in range(20_000)}
    assert not train & unseen
    assert len(unseen) > 6000 and len({day[5:] for day in unseen}) == 366, "unseen days are of all seasons"


def test_all_forms_come_up():
    sources = [date_pair(0, index)[0] for index in range(600)]
    for sign in ("Nov ", "th of", "twenty-", "年", "〇", "零", "号", "２", "星期", "/", "公元", "Monday the"):
        assert any(sign in source for source in sources), sign


def test_the_tokenizer_knows_every_character():
    tokenizer = date_tokenizer()
    for index in range(3000):
        for text in date_pair(7, index, "unseen", target=sorted(TARGETS)[index % 3]):
            assert tokenizer.unk not in tokenizer.encode(text)
    batch = PairStream(date_pair, tokenizer).batch(0, 0, 4)
    assert [tokenizer.decode(row) for row in batch.source] == [date_pair(0, index)[0] for index in range(4)]


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="choose train or unseen"):
        date_pair(0, 0, "test")
    with pytest.raises(ValueError, match="choose from iso, en, zh"):
        date_pair(0, 0, target="fr")
