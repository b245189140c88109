"""The page of benchmarks: benchmarks/RESULTS.md, translated with benchmarks/RESULTS.zh-CN.po.

    python -m tools.book.results        add untranslated sentences to the catalogue (`make words`)

Numbers are placeholders, so that an entry fits every run and size: "causal, n = {}, forward" is "因果，n = {}，前向"; {1} … {0}
changes their order. A table cell without an entry is split at semicolons, colons and commas, and each part is looked up, so
that "forward" needs one entry for all rows. Paragraphs are looked up whole.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from babel.messages.pofile import read_po

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS, CATALOGUE = FOLDER / "RESULTS.md", FOLDER / "RESULTS.zh-CN.po"
# 2,048 and 4e-06 and 2.13.0; not the numbers of a name: GPT-2, 8-bit, float32.
NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*(?:e[+-]\d+)?(?![\w-])")
PLACEHOLDER = re.compile(r"\{(\d*)\}")
PUNCTUATION = {"; ": "；", ": ": "：", ", ": "，"}  # the strongest separator first


@dataclass
class Chinese:
    """The translations of the catalogue, and missing ones: sentence → the line that contains it."""

    translations: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)

    def page(self, text: str) -> str:
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if line.startswith("<!--"):
            return line
        if line.startswith("|"):
            return "|".join(self._cell(cell, line) for cell in line.split("|"))
        mark, text = re.fullmatch(r"((?:#+ |- )?)(.*)", line).groups()  # type: ignore[union-attr]
        return mark + self._sentence(text, line)

    def _cell(self, cell: str, line: str) -> str:
        text = cell.strip()
        return cell.replace(text, self._parts(text, line)) if text else cell

    def _parts(self, text: str, line: str) -> str:
        """Translate the longest parts that have translations."""
        if _without_numbers(text) not in self.translations:
            for english, chinese in PUNCTUATION.items():
                parts = re.split(rf"{english}(?![^()]*\))", text)  # not within brackets
                if len(parts) > 1:
                    return chinese.join(self._parts(part, line) for part in parts)
        return self._sentence(text, line)

    def _sentence(self, text: str, line: str) -> str:
        key = _without_numbers(text)
        if not re.search("[A-Za-z]", key) or re.fullmatch("`[^`]+`", key):
            return text
        if not self.translations.get(key):
            self.missing[key] = line
            return text
        return _fill_placeholders(self.translations[key], NUMBER.findall(text))


def _without_numbers(text: str) -> str:
    return NUMBER.sub("{}", text)


def _placeholders(text: str) -> list[int]:
    """Return the number's index for each placeholder: {} its own position, {0} the first."""
    return [int(name or at) for at, name in enumerate(PLACEHOLDER.findall(text))]


def _fill_placeholders(text: str, numbers: list[str]) -> str:
    which = iter(_placeholders(text))
    return PLACEHOLDER.sub(lambda hole: numbers[at] if (at := next(which)) < len(numbers) else hole[0], text)


def load_catalogue() -> dict[str, str]:
    """Return the catalogue, English → Chinese; "" if not translated yet."""
    with CATALOGUE.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file, locale="zh_CN") if message.id}


def page(lang: str) -> str:
    """Return the benchmark page in a language."""
    text = RESULTS.read_text(encoding="utf-8")
    return Chinese(load_catalogue()).page(text) if lang == "zh" else text


def problems() -> list[str]:
    """Return missing translations, and those with other placeholders than the English."""
    catalogue = Chinese(load_catalogue())
    catalogue.page(RESULTS.read_text(encoding="utf-8"))
    messages = [
        f"benchmarks/RESULTS.md: {sentence!r} has no Chinese yet: make words adds it to benchmarks/{CATALOGUE.name}, "
        f"translate it there (in the line: {line[:90]})"
        for sentence, line in catalogue.missing.items()
    ]
    for english, chinese in catalogue.translations.items():
        if chinese and sorted(_placeholders(chinese)) != _placeholders(english):
            messages.append(f"benchmarks/{CATALOGUE.name}: {chinese!r} has other placeholders than {english!r}")
    return messages


def main() -> int:
    catalogue = Chinese(load_catalogue())
    catalogue.page(RESULTS.read_text(encoding="utf-8"))
    with CATALOGUE.open("a", encoding="utf-8") as file:
        for sentence in catalogue.missing:
            if sentence not in catalogue.translations:
                file.write(f'\nmsgid {json.dumps(sentence, ensure_ascii=False)}\nmsgstr ""\n')
    print("\n".join([*catalogue.missing, f"{CATALOGUE.name}: {len(catalogue.missing)} to write"]))
    return 1 if catalogue.missing else 0


if __name__ == "__main__":
    sys.exit(main())
