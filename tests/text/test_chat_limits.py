"""A chat template is a stranger's program: it may take neither all memory nor for ever, whatever it does."""

import os
import resource
import signal
import threading

import pytest

from qkv.text import chat
from qkv.words import Problem

TWINS = (  # two lists of lists that are equal and not the same: comparing them takes 2⁶⁰ steps
    "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}"
    "{% for i in range(60) %}{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}"
)
BIG = "{% set big = 'x' * 9000000 %}"


def loop(step, then="{{ ns.x|length }}"):
    return "{% set ns = namespace(x='ab', l=['a']) %}{% for i in range(60) %}{% set " + step + " %}{% endfor %}" + then


def render(template, content="Hi"):
    return chat.render(template, [{"role": "user", "content": content}], answer=True, names={})


@pytest.mark.parametrize(
    "template",
    [
        loop("ns.x = ns.x ~ ns.x"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns.l }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns.l|tojson }}"),
        loop("ns.x = ns.x.replace('', ns.x)"),
        "{{ '%9000000000d'|format(1) }}",
        "{{ '{:>{w}}'.format('x', w='9000000000') }}",
        "{{ 'x'|center(9000000000) }}",
        "{{ ('a\n' * 100000)|indent(1000) }}",
        "{{ messages|tojson(indent=900000000) }}",
        BIG + "{% for i in range(100000) %}{{ big }}{% endfor %}",
        BIG + "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + [big|upper] %}{% endfor %}",
        # What runs in C for ever, without passing a line of Python.
        "{{ 5|round(-99999999) }}",
        "{{ 5|round(99999999, 'ceil') }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ ('9' * 100000000)|int(base=16) }}",
        TWINS + "{{ a.l == b.l }}",
        TWINS + "{{ [a.l, b.l]|sort }}",
        "{% set n = namespace(t=()) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}{{ {n.t: 1} }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% for k in range(100000) %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() ~ m() }}{% endmacro %}{{ m() }}",
        "{{ " + "[" * 100000 + "]" * 100000 + " }}",
        "{{ " + "-" * 100000 + "1 }}",
    ],
)
def test_a_template_that_makes_too_much_is_stopped(template, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 0.3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Problem) as told:
        render(template)
    assert "chat template" in str(told.value)
    monkeypatch.undo()
    assert render("{{ messages[0].content }}") == "Hi", "the next chat is none the worse"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ 'a' ~ 1 ~ none ~ [1, 'b'] }}", "a1None[1, 'b']"),
        ("{{ '%s-%03d' % ('a', 7) }}{{ '%d'|format(3) }}{{ 7 % 4 }}{{ 2 ** 5 }}", "a-00733" + "32"),
        ("{{ '{:>4}|{a!r}'.format('x', a='y') }}", "   x|'y'"),
        ("{{ messages|map(attribute='role')|join(', ') }}{{ messages|join(d='-', attribute='role') }}", "useruser"),
        ("{{ 'a b'|replace('a', 'c') }}{{ 'ab'[1:] }}{{ 'a\nb'|indent(width=2) }}", "c bba\n  b"),
        ("{{ [3, 1]|sort }}{{ [1, 2]|sum }}{{ 'x'.center(3) }}{{ 'a,b'.split(',')|last }}", "[1, 3]3 x b"),
        ("{{ {'a': [1, '<é>']}|tojson }}", '{"a": [1, "<é>"]}'),
        ("{{ {'a': [1]}|tojson(indent=1) }}", '{\n "a": [\n  1\n ]\n}'),
        ("{{ [1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8]|length }}{{ (1, 2)[::-1] }}{{ none }}{{ absent }}", "18(2, 1)None"),
    ],
)
def test_what_templates_do_works_as_ever(template, text):
    assert render(template) == text


def test_a_long_chat_is_no_crime():
    assert len(render("{% for m in messages %}{{ '<' ~ m.content + '>' }}{% endfor %}", "word " * 200_000)) == 1_000_002


def test_a_process_that_died_is_replaced():
    assert render("{{ 1 }}") == "1"
    chat._process.process.kill()
    chat._process.process.wait()
    assert render("{{ 2 }}") == "2"


def test_ctrl_c_leaves_no_answer_behind(monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 60.0)
    assert render("{{ 1 }}") == "1"
    alarm = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        render("{{ 7 ** 99999999 }}")
    assert render("{{ 2 }}") == "2"


def test_threads_and_children_ask_too():
    told = []
    threads = [threading.Thread(target=lambda n=n: told.append(render(f"{{{{ {n} }}}}") == str(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True] * 8
    child = os.fork()
    if child == 0:
        os._exit(0 if render("{{ 5 }}") == "5" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert render("{{ 6 }}") == "6"
