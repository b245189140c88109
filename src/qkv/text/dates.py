"""Dates to translate: a real sequence-to-sequence task that needs no file and fits a laptop.

The same day in many English and Chinese forms, all unambiguous (03/04/26 is not among them). The split is by date, so
training has no form of an unseen date.
"""

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache

import numpy as np

from ..i18n import Problem, all_of, one_of
from .seeded_rng import mix
from .tokenizer import Characters

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
ORDINALS += [f"twenty-{word}" for word in ORDINALS[:9]] + ["thirtieth", "thirty-first"]
DIGITS = "〇一二三四五六七八九"
FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")


def _nth(day: int) -> str:
    """
    >>> _nth(1), _nth(12), _nth(23)
    ('1st', '12th', '23rd')
    """
    return f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def _hanzi(number: int) -> str:
    """
    >>> _hanzi(5), _hanzi(15), _hanzi(20), _hanzi(31)
    ('五', '十五', '二十', '三十一')
    """
    tens, units = divmod(number, 10)
    return ("" if tens == 0 else "十" if tens == 1 else DIGITS[tens] + "十") + (DIGITS[units] if units else "")


def _month(d: date) -> str:
    return MONTHS[d.month - 1]


def _weekday(d: date) -> str:
    return WEEKDAYS[d.weekday()]


def _chinese(d: date) -> str:
    return f"{d.year}年{d.month}月{d.day}日"


def _chinese_words(d: date) -> str:
    year = "".join(DIGITS[int(digit)] for digit in str(d.year))
    return f"{year}年{_hanzi(d.month)}月{_hanzi(d.day)}日"


FORMS: tuple[Callable[[date], str], ...] = (
    lambda d: f"{d.day} {_month(d)} {d.year}",
    lambda d: f"{d.day} {_month(d)[:3]} {d.year}",
    lambda d: f"{d.day} {_month(d)[:3].lower()} {d.year}",
    lambda d: f"{d.day}-{_month(d)[:3]}-{d.year}",
    lambda d: f"{_month(d)} {d.day}, {d.year}",
    lambda d: f"{_month(d).upper()} {d.day} {d.year}",
    lambda d: f"{_month(d)[:3]}. {d.day}, {d.year}",
    lambda d: f"{_month(d)} {_nth(d.day)}, {d.year}",
    lambda d: f"{_nth(d.day)} of {_month(d)} {d.year}",
    lambda d: f"the {ORDINALS[d.day - 1]} of {_month(d)} {d.year}",
    lambda d: f"{_weekday(d)}, {d.day} {_month(d)} {d.year}",
    lambda d: f"{_weekday(d)} the {_nth(d.day)} of {_month(d)} {d.year}",
    lambda d: f"{_weekday(d)[:3]} {d.day} {_month(d)[:3]} {d.year}",
    lambda d: f"{d.year} {_month(d)} {d.day}",
    lambda d: f"{d.year}/{d.month}/{d.day}",
    lambda d: f"{d.year}.{d.month:02d}.{d.day:02d}",
    lambda d: f"{d.year}{d.month:02d}{d.day:02d}",
    _chinese,
    lambda d: f"{d.year} 年 {d.month} 月 {d.day} 日",
    lambda d: f"{d.year}年{d.month}月{d.day}号",
    lambda d: f"公元{d.year}年{d.month:02d}月{d.day:02d}日",
    lambda d: _chinese(d).translate(FULL_WIDTH),
    lambda d: f"{_chinese(d)}，星期{'一二三四五六日'[d.weekday()]}",
    _chinese_words,
    lambda d: _chinese_words(d).replace("〇", "零"),
    lambda d: f"{_chinese_words(d)[:-1]}号，周{'一二三四五六日'[d.weekday()]}",
)
TARGETS: dict[str, Callable[[date], str]] = {"iso": date.isoformat, "en": FORMS[0], "zh": _chinese}


def not_a_date(key: str, text: str) -> Problem:
    """Return the Problem of a text that is not a date; it lists some of the forms."""
    forms = (FORMS[0], FORMS[6], FORMS[14], _chinese, _chinese_words)
    examples = one_of(form(date(2026, 11, 15)) for form in forms)
    return Problem(key, text=text, first=FIRST.year, last=LAST.year, forms=examples)


def read_date(text: str) -> date | None:
    """Return the day that a text names exactly in one of the forms, else None.

    >>> read_date("Nov. 15, 2026"), read_date("二零二六年十一月十五日")
    (datetime.date(2026, 11, 15), datetime.date(2026, 11, 15))
    >>> read_date("hello"), read_date("Monday, 15 November 2026"), read_date("31 November 2026")  # it was a Sunday
    (None, None, None)
    """
    digits = text.strip().replace("零", "〇").translate({ord(sign): str(i) for i, sign in enumerate(DIGITS)})
    for year in {int(number) for number in re.findall(r"\d{4}", digits)}:  # \d and int() also take full-width digits
        if FIRST.year <= year <= LAST.year:
            for day in range(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal() + 1):
                if text.strip() in _all_forms(day):
                    return date.fromordinal(day)
    return None


@lru_cache(maxsize=1000)
def _all_forms(day: int) -> frozenset[str]:
    return frozenset(form(date.fromordinal(day)) for form in FORMS)


def date_pair(seed: int, index: int, split: str = "train", target: str = "iso") -> tuple[str, str]:
    """Return a date in a random form and in the target form (iso, en or zh): a pure function of (seed, index).

    If the target is not ISO, the source may be ISO.

    >>> date_pair(0, 27), date_pair(0, 4)
    (('一九三八年十一月十二日', '1938-11-12'), ('7th of May 1995', '1995-05-07'))
    """
    if target not in TARGETS:
        raise Problem(
            "dates are not translated to {target}: choose from {targets}", target=repr(target), targets=all_of(TARGETS)
        )
    number = mix(seed, index)
    forms = FORMS if target == "iso" else (*FORMS, date.isoformat)
    number, form = divmod(number, len(forms))
    days = _days(split)
    day = date.fromordinal(days[number % len(days)])
    return forms[form](day), TARGETS[target](day)


def date_tokenizer() -> Characters:
    """Return the tokenizer of all characters in the forms; an unknown character becomes `unk`.

    >>> tokenizer = date_tokenizer()
    >>> tokenizer.decode(tokenizer.encode("15 Nov 2026")), tokenizer.vocab
    ('15 Nov 2026', 96)
    """
    days = [date.fromordinal(FIRST.toordinal() + 73 * i) for i in range(1000)] + [
        date(2000, m, 1) for m in range(1, 13)
    ]
    texts = [form(day) for day in days for form in (*FORMS, date.isoformat)]
    return Characters.make(texts, special=("pad", "bos", "eos", "unk"))


@lru_cache
def _days(split: str) -> list[int]:
    """Return the ordinals of a split; "unseen" is a pseudorandom tenth of all days."""
    if split not in ("train", "unseen"):
        raise Problem("there is no split {split!r}: choose train or unseen", split=split)
    days = np.arange(FIRST.toordinal(), LAST.toordinal() + 1, dtype=np.uint64)
    unseen = (days * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(10) == 0
    return days[unseen if split == "unseen" else ~unseen].tolist()
