"""Update src/qkv/locale/*.po from the sentences in the code.

    .venv/bin/python tools/words.py            add new sentences, remove unused ones, print what to translate
    .venv/bin/python tools/words.py --check    write nothing; exit code 1 if something is missing, stale or wrong

A sentence that was reworded in place keeps its translation and is printed for review.
To add a language, create an empty src/qkv/locale/de.po and run this. Any .po editor opens it.
"""

import ast
import difflib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "qkv"
LOCALE = SOURCE / "locale"
EXAMPLES = ROOT / "examples"
HEADER = re.compile(
    r'^"(Project|Report|POT|PO|Last|Language-Team|Generated).*\n|^# .* translations for PROJECT\.\n(#.*\n)*',
    re.MULTILINE,
)
# The functions and classes of i18n.py (with subclasses), and the page's `say`, that take a sentence.
KEYWORDS = "_ say echo Message Problem Notice Unsupported NotFinite NoSuchToken NoTokenizer Untraceable InvalidAnswer UnsupportedValue broken".split()
ARGUMENT = {**dict.fromkeys(KEYWORDS, 0), "WrongAnswer": 1}  # which of its arguments is the sentence
LESSON_TEXTS = {"hints", "takeaway"}  # keyword arguments of Lesson: lists of sentences by function, and a sentence


def sentences() -> dict[str, list[str]]:
    """Return every sentence in the code with the files that contain it."""
    files: dict[str, list[str]] = {}
    for file in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *EXAMPLES.glob("*.py")]):
        if file.is_relative_to(SOURCE / "lessons" / "exercises"):  # their texts are pairs, English and Chinese
            continue
        name = file.relative_to(SOURCE if file.is_relative_to(SOURCE) else ROOT).as_posix()
        for sentence in python_sentences(file) if file.suffix == ".py" else javascript_sentences(file):
            if name not in files.setdefault(sentence, []):
                files[sentence].append(name)
    return files


def python_sentences(file: Path) -> Iterator[str]:
    """Yield the sentences of a Python file.

    Babel's own extractor works on tokens: it misses calls inside f-strings and takes `say(NAMES["key"])` for "key".
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func).removeprefix("i18n.")
            at = ARGUMENT.get(function)
            sentence = node.args[at] if at is not None and len(node.args) > at else None
            if isinstance(sentence, ast.Constant) and isinstance(sentence.value, str) and sentence.value:
                yield sentence.value
            for text in node.keywords if function == "Lesson" else ():
                if text.arg in LESSON_TEXTS:
                    lists = text.value.values if isinstance(text.value, ast.Dict) else [text.value]
                    parts = [part for value in lists for part in ast.walk(value)]
                    yield from (part.value for part in parts if isinstance(part, ast.Constant))


def javascript_sentences(file: Path) -> Iterator[str]:
    """Yield the sentences of `say(lang, "…"` and `mark("…"`; Babel misses calls inside the arguments of others."""
    for sentence in re.findall(r'\b(?:mark\(|say\([\w.]+,)\s*("(?:[^"\\\n]|\\.)*")', file.read_text(encoding="utf-8")):
        yield json.loads(sentence)


def fields(sentence: str) -> list[str]:
    """Return the placeholders of a sentence in order: names in braces, or argparse's %(name)s and %s."""
    in_braces = [name for _, name, _, _ in Formatter().parse(sentence) if name] if "%(" not in sentence else []
    return in_braces + re.findall(r"%\(\w+\)\w|%[sr]", sentence)


def reworded(before: Catalog, files: dict[str, list[str]]) -> dict[str, str]:
    """Map new sentences to the old ones they replace: same file, same position between unchanged sentences, similar."""
    pairs = {}
    for name in sorted({name for names in files.values() for name in names}):
        old = [m.id for m in before if m.id and name in [location for location, _ in m.locations]]
        new = [sentence for sentence, names in files.items() if name in names]
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "replace":
                continue
            removed = [sentence for sentence in old[a:b] if sentence not in files]
            added = [sentence for sentence in new[c:d] if sentence not in before and sentence not in pairs]
            for i, sentence in enumerate(added):
                # With equal counts the position decides, else the most similar text.
                similar = removed[i : i + 1] if len(removed) == len(added) else removed
                scores = {text: difflib.SequenceMatcher(None, text, sentence).ratio() for text in similar}
                best = max(scores, key=lambda text: scores[text], default=None)
                if best is not None and (len(removed) == len(added) or scores[best] > 0.5):
                    pairs[sentence] = best
    return pairs


def carry_over(old: str, new: str, translation: str) -> str:
    """Return the translation of a reworded sentence, with renamed placeholders renamed in it too."""
    removed = [name for name in fields(old) if name not in fields(new)]
    added = [name for name in fields(new) if name not in fields(old)]
    for before, after in zip(removed, added, strict=False) if len(removed) == len(added) else ():
        translation = re.sub(r"\{" + re.escape(before) + r"(?=[}:!])", lambda _, name=after: "{" + name, translation)
    return translation


def update(file: Path, files: dict[str, list[str]]) -> tuple[Catalog, list[str]]:
    """Return the catalogue of today's sentences, in file order, and one line for each translation carried over."""
    before = read(file)
    pairs = reworded(before, files)
    catalog = Catalog(locale=file.stem, charset="utf-8", fuzzy=False)
    report = []
    for sentence, names in files.items():
        old = before.get(sentence)
        translation = old.string if old else ""
        if not translation and sentence in pairs and (previous := before.get(pairs[sentence])) and previous.string:
            translation = carry_over(pairs[sentence], sentence, previous.string)
            report.append(f"read again: {sentence!r} = {translation!r}, was {pairs[sentence]!r}")
        catalog.add(sentence, string=translation, locations=[(name, None) for name in names])
    return catalog, report


def read(file: Path) -> Catalog:
    """Load a .po file."""
    with file.open("rb") as text:
        return read_po(text, locale=file.stem)


def problems(file: Path, files: dict[str, list[str]]) -> list[str]:
    """Return what is missing, unused, or has other placeholders than the English sentence."""
    translations = {message.id: message.string for message in read(file) if message.id}
    report = [f"not translated: {sentence!r}" for sentence in files if not translations.get(sentence)]
    report += [f"not used any more: {sentence!r}" for sentence in translations if sentence not in files]
    for sentence, translation in translations.items():
        expected, actual = set(fields(sentence)), set(fields(translation))
        if translation and sentence in files and expected != actual:
            report.append(f"other values: {sentence!r} names {sorted(expected)}, {translation!r} {sorted(actual)}")
    return [f"{file.name}: {line}" for line in report]


def main(arguments: list[str]) -> int:
    files = sentences()
    report, carried = [], []
    for file in sorted(LOCALE.glob("*.po")):
        if "--check" not in arguments:
            catalog, lines = update(file, files)
            carried += lines
            text = io.BytesIO()
            write_po(text, catalog, width=120, include_lineno=False, ignore_obsolete=True)
            # Dates and addresses in the header would change at every run.
            file.write_text(HEADER.sub("", text.getvalue().decode()), encoding="utf-8")
        report += problems(file, files)
    print("\n".join([*carried, *report, f"{len(files)} sentences, {len(report)} to look at"]))
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
