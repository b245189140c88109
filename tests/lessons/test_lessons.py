"""Every lesson: its solution is right, its hole is noticed, every known wrong answer gets its own hint, in both languages."""

import ast
import io
import re
import string
import tokenize

import numpy as np
import pytest

from qkv.doctor import check
from qkv.doctor.mistakes import CATALOGUE
from qkv.i18n import LANGUAGES, translated
from qkv.lessons import lesson
from qkv.lessons.diagnosis import Submission
from qkv.lessons.grade import grade, grade_questions
from qkv.lessons.lesson import COURSE, NAMES, load, write, wrong_answer
from qkv.lessons.outcome import ask, is_close, reference

HAN = re.compile("[\u4e00-\u9fff]")
WRONGS = [(name, step, wrong) for name in NAMES for step, about in load(name).wrongs.items() for wrong in about]


def plain(text):
    """The code alone: without docstrings, and comments are no code anyway."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def docstrings(text):
    kinds = ast.Module | ast.FunctionDef | ast.ClassDef
    found = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    assert any(found)
    return [told for told in found if told]


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name):
    made = grade(name, write(name, "en", solved=True), f"{name}.py")  # in Chinese the code is the same: see below
    assert made.verdict == "right" and made.passed == made.total >= 5, made.says


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_the_hole_is_noticed(name, lang):
    text = write(name, lang)
    made = grade(name, text, f"{name}.py")
    assert made.verdict == "wrong" and made.wrong == "hole" and made.passed == 0
    line = int(re.match(r"line (\d+)", made.says[0].say("en"))[1])
    assert "..." in text.splitlines()[line - 1] or "NotImplementedError" in text.splitlines()[line - 1]


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_code(name):
    for solved in (False, True):
        english, chinese = (write(name, lang, solved=solved) for lang in LANGUAGES)
        assert plain(english) == plain(chinese)
        comments = [
            t.string for t in tokenize.generate_tokens(io.StringIO(english).readline) if t.type == tokenize.COMMENT
        ]
        for told in [*comments, *docstrings(english)]:
            assert not HAN.search(told), told
        assert "----" not in english + chinese and not re.search(r"#.* \| ", english + chinese)
        assert all(re.search("[\u4e00-\u9fff，：（]", told) for told in docstrings(chinese))


def test_comments_come_in_one_language():
    found = 0
    for name in NAMES:
        source = lesson.files("qkv.lessons").joinpath("exercises", f"{name}.py").read_text(encoding="utf-8")
        english, chinese = (write(name, lang, solved=True) for lang in LANGUAGES)
        for one, other in re.findall(r"# ([^|\n]+) \| (.*)", source):
            found += 1
            assert f"# {one}\n" in english and f"# {other}\n" in chinese
            assert other not in english and f"# {one}\n" not in chinese
    assert found > 10


@pytest.mark.parametrize("name", NAMES)
def test_what_people_get_has_no_solution_in_it(name):
    with_hole, solved = write(name, "en"), write(name, "en", solved=True)
    source = lesson.files("qkv.lessons").joinpath("exercises", f"{name}.py").read_text(encoding="utf-8")
    holes = [hole[3] for hole in lesson.HOLE.finditer(source)]
    assert holes
    for hole in holes:
        for line in hole.strip("\n").split("\n"):
            code = line.split("#")[0].strip()
            if code:
                assert code in solved
                assert code not in with_hole or len(code) < 12


def case_id(part):
    return getattr(part, "id", part).replace(" ", "-")


@pytest.mark.parametrize(("name", "step", "wrong"), WRONGS, ids=case_id)
def test_a_wrong_answer_gets_its_own_hint(name, step, wrong):
    """The whole way from an answer to the words: the wrong code put in place of the right one."""
    kept = load(name)
    answer = wrong_answer(name, step, wrong)
    made = grade_questions(Submission(name, kept, answer, "", ast.parse(""), "answer.py"))
    assert (made.verdict, made.wrong, made.step) == ("wrong", wrong.id, step), made.says
    english, chinese = (made.says[-1].say(lang) for lang in ("en", "zh"))
    assert "{" not in english and "{" not in chinese
    if wrong.mistake:  # in the catalogue's words
        words = CATALOGUE[wrong.mistake]
        for lang, told in (("en", english), ("zh", chinese)):
            assert wrong.mistake in told
            assert all(translated(part, lang) in told for part in (words.name, words.does, words.fix))


@pytest.mark.parametrize("name", NAMES)
def test_hints_follow_the_step_that_is_wrong(name):
    kept = load(name)
    steps = list(dict.fromkeys(question.function for question in kept.questions))
    given = {"train"}  # written already
    assert list(kept.hints) == [step for step in steps if step not in given]
    for step in kept.hints:
        hints = kept.hints_for(step)
        assert hints[: len(kept.hints[step])] == list(kept.hints[step]) and sorted(map(str, hints)) == sorted(
            map(str, kept.hints_for())
        )


# Modules that the doctor can look at by themselves. It reads another fill in the file beside the zero of this one.
WHOLE = {"MultiHeadAttention", "GroupedQueryAttention", "CachedAttention", "EncoderLayer"}
MARKED = {
    (name, wrong.id): (step, wrong)
    for name, step, wrong in WRONGS
    if step in WHOLE and wrong.mistake and wrong.id != "mask zero"
}
ONCE = {wrong.mistake: case for case, (_, wrong) in reversed(MARKED.items())}.values()  # the first of each mistake
DAILY = sorted(ONCE)[::2]


@pytest.mark.parametrize(
    ("name", "id"),
    [case if case in DAILY else pytest.param(*case, marks=pytest.mark.slow) for case in MARKED],
    ids=case_id,
)
def test_the_doctor_calls_a_wrong_answer_what_the_lesson_calls_it(name, id):
    target, wrong = MARKED[name, id]
    report = check(getattr(wrong_answer(name, target, wrong), target), name=target)
    assert report.verdict != "wrong" or wrong.mistake in [one.id for one in report.findings], report


@pytest.mark.parametrize("name", NAMES)
def test_no_two_wrong_answers_are_the_same(name):
    """Else one of the two hints would never be seen."""
    kept = load(name)
    for function, about in kept.wrongs.items():
        questions = [question for question in kept.questions if question.function == function]
        seen = []
        for wrong in about:
            answer = wrong_answer(name, function, wrong)
            seen.append([ask(question, answer) for question in questions])
        for i, one in enumerate(seen):
            for j, other in enumerate(seen[:i]):
                same = all(a.same(b, q.tolerance) for a, b, q in zip(one, other, questions, strict=True))
                assert not same, (about[i].id, about[j].id)


def blanks(sentence):
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("name", NAMES)
def test_words_exist_in_both_languages(name):
    kept = load(name)
    wrongs = [wrong for about in kept.wrongs.values() for wrong in about]
    assert 3 <= len(kept.hints_for()) <= 5 and len(wrongs) >= 5
    pairs = [
        kept.after,
        *kept.hints_for(),
        *(wrong.hint for wrong in wrongs),
        COURSE[lesson.number(name) - 1].title,
    ]
    for message in pairs:
        english, chinese = message.sentence, translated(message.sentence, "zh")
        assert blanks(english) == blanks(chinese)
        assert not HAN.search(re.sub("“.*?”|'.*?'|\".*?\"", "", english)), english
        code = re.fullmatch("`.*`", english)
        assert HAN.search(chinese) or code, chinese
    assert len({wrong.id for wrong in wrongs}) == len(wrongs)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_not_the_solution(name):
    """What is right is computed by qkv's own mechanism, not by the code that people are to write."""
    source = lesson.files("qkv.lessons").joinpath("graders", f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"^from \.\.\.(attention|mixers)", source, re.MULTILINE)
    for question in load(name).questions:
        want = reference(question)
        assert np.isfinite(want).all() or name == "softmax"
        assert is_close(want, reference(question), 0.0), "the same question must have the same answer twice"
