"""Every solution is right, every hole is detected, and every known wrong answer gets its own hint, in both languages."""

import ast
import io
import re
import string
import tokenize
from itertools import combinations

import numpy as np
import pytest

from qkv.doctor import check
from qkv.doctor.mistakes import CATALOGUE
from qkv.i18n import LANGUAGES, translated
from qkv.lessons import lesson
from qkv.lessons.diagnosis import Submission
from qkv.lessons.grade import grade, grade_questions
from qkv.lessons.lesson import COURSE, NAMES, build_wrong_answer, load, render
from qkv.lessons.outcome import expected_array, is_close, run_question

HAN = re.compile("[\u4e00-\u9fff]")
WRONG_ANSWERS = [
    (name, step, cause, wrong)
    for name in NAMES
    for step, by_cause in load(name).wrong_answers.items()
    for cause, wrong in by_cause.items()
]


def plain(text):
    """Return the syntax tree without docstrings, as text."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)


def docstrings(text):
    kinds = ast.Module | ast.FunctionDef | ast.ClassDef
    texts = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    assert any(texts)
    return [text for text in texts if text]


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name):
    graded = grade(name, render(name, "en", solved=True), f"{name}.py")
    assert graded.verdict == "right" and graded.passed == graded.total >= 5, graded.messages


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_the_hole_is_noticed(name, lang):
    text = render(name, lang)
    graded = grade(name, text, f"{name}.py")
    assert graded.verdict == "wrong" and graded.cause == "hole" and graded.passed == 0
    line = int(re.match(r"line (\d+)", graded.messages[0].say("en"))[1])
    assert "..." in text.splitlines()[line - 1] or "NotImplementedError" in text.splitlines()[line - 1]


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_code(name):
    for solved in (False, True):
        english, chinese = (render(name, lang, solved=solved) for lang in LANGUAGES)
        assert plain(english) == plain(chinese)
        comments = [
            t.string for t in tokenize.generate_tokens(io.StringIO(english).readline) if t.type == tokenize.COMMENT
        ]
        for text in [*comments, *docstrings(english)]:
            assert not HAN.search(text), text
        assert "----" not in english + chinese and not re.search(r"#.* \| ", english + chinese)
        assert all(re.search("[\u4e00-\u9fff，：（]", text) for text in docstrings(chinese))


def test_comments_are_in_a_single_language():
    count = 0
    for name in NAMES:
        source = lesson.files("qkv.lessons").joinpath("exercises", f"{name}.py").read_text(encoding="utf-8")
        english, chinese = (render(name, lang, solved=True) for lang in LANGUAGES)
        for comment, translation in re.findall(r"# ([^|\n]+) \| (.*)", source):
            count += 1
            assert f"# {comment}\n" in english and f"# {translation}\n" in chinese
            assert translation not in english and f"# {comment}\n" not in chinese
    assert count > 10


@pytest.mark.parametrize("name", NAMES)
def test_what_people_get_has_no_solution_in_it(name):
    with_hole, solved = render(name, "en"), render(name, "en", solved=True)
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
    return part.replace(" ", "-") if isinstance(part, str) else ""


@pytest.mark.parametrize(("name", "step", "cause", "wrong"), WRONG_ANSWERS, ids=case_id)
def test_a_wrong_answer_gets_its_own_hint(name, step, cause, wrong):
    """Tests all steps from the wrong code to the sentences."""
    loaded = load(name)
    answer = build_wrong_answer(name, step, wrong)
    graded = grade_questions(Submission(name, loaded, answer, "", ast.parse(""), "answer.py"))
    assert (graded.verdict, graded.cause, graded.step) == ("wrong", cause, step), graded.messages
    english, chinese = (graded.messages[-1].say(lang) for lang in ("en", "zh"))
    assert "{" not in english and "{" not in chinese
    if wrong.mistake:  # in the catalogue's words
        words = CATALOGUE[wrong.mistake]
        for lang, text in (("en", english), ("zh", chinese)):
            assert wrong.mistake in text
            assert all(translated(part, lang) in text for part in (words.name, words.does, words.fix))


@pytest.mark.parametrize("name", NAMES)
def test_hints_follow_the_step_that_is_wrong(name):
    loaded = load(name)
    steps = list(dict.fromkeys(question.function for question in loaded.questions))
    without_hole = {"train"}
    assert list(loaded.hints) == [step for step in steps if step not in without_hole]
    for step in loaded.hints:
        hints = [hint.sentence for hint in loaded.ordered_hints(step)]
        assert hints[: len(loaded.hints[step])] == loaded.hints[step]
        assert sorted(hints) == sorted(hint.sentence for hint in loaded.ordered_hints())


# Modules that the doctor can check. For 'mask zero' it also reads the other fill value in the file.
WHOLE = {"MultiHeadAttention", "GroupedQueryAttention", "CachedAttention", "EncoderLayer"}
MARKED = {
    (name, cause): (step, wrong)
    for name, step, cause, wrong in WRONG_ANSWERS
    if step in WHOLE and wrong.mistake and cause != "mask zero"
}
FIRST_CASES = {wrong.mistake: case for case, (_, wrong) in reversed(MARKED.items())}.values()
DAILY = sorted(FIRST_CASES)[::2]


@pytest.mark.parametrize(
    ("name", "cause"),
    [case if case in DAILY else pytest.param(*case, marks=pytest.mark.slow) for case in MARKED],
    ids=case_id,
)
def test_the_doctor_finds_the_mistake_that_the_lesson_names(name, cause):
    target, wrong = MARKED[name, cause]
    report = check(getattr(build_wrong_answer(name, target, wrong), target), name=target)
    assert report.verdict != "wrong" or wrong.mistake in [finding.id for finding in report.findings], report


@pytest.mark.parametrize("name", NAMES)
def test_no_two_wrong_answers_are_the_same(name):
    """Otherwise one of the two hints would never be shown."""
    loaded = load(name)
    for function, by_cause in loaded.wrong_answers.items():
        questions = [question for question in loaded.questions if question.function == function]
        outcomes = {
            cause: [run_question(question, build_wrong_answer(name, function, wrong)) for question in questions]
            for cause, wrong in by_cause.items()
        }
        for first, second in combinations(outcomes, 2):
            pairs = zip(outcomes[first], outcomes[second], questions, strict=True)
            assert not all(a.matches(b, question.tolerance) for a, b, question in pairs), (first, second)


def blanks(sentence):
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("name", NAMES)
def test_words_exist_in_both_languages(name):
    loaded = load(name)
    causes = [cause for by_cause in loaded.wrong_answers.values() for cause in by_cause]
    wrong_answers = [wrong for by_cause in loaded.wrong_answers.values() for wrong in by_cause.values()]
    assert 3 <= len(loaded.ordered_hints()) <= 5 and len(wrong_answers) >= 5
    sentences = [
        loaded.takeaway,
        *(hint.sentence for hint in loaded.ordered_hints()),
        *(wrong.sentence for wrong in wrong_answers),
        COURSE[lesson.number(name) - 1].title.sentence,
    ]
    for english in sentences:
        chinese = translated(english, "zh")
        assert blanks(english) == blanks(chinese)
        assert not HAN.search(re.sub("“.*?”|'.*?'|\".*?\"", "", english)), english
        code = re.fullmatch("`.*`", english)
        assert HAN.search(chinese) or code, chinese
    assert len(set(causes)) == len(causes)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_not_the_solution(name):
    """Expected results are computed by qkv itself, not by the solution."""
    source = lesson.files("qkv.lessons").joinpath("graders", f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"^from \.\.\.(attention|mixers)", source, re.MULTILINE)
    for question in load(name).questions:
        expected = expected_array(question)
        assert np.isfinite(expected).all() or name == "softmax"
        assert is_close(expected, expected_array(question), 0.0), "the same question must have the same answer twice"
