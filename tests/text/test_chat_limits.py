"""Chat templates are untrusted programs: whatever they do, their memory and time are limited."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from qkv.i18n import Problem
from qkv.text import chat_templates, template_process
from tests.supervise import is_running

TWINS = (  # two lists of lists that are equal and not the same: comparing them takes 2⁶⁰ steps
    "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}"
    "{% for i in range(60) %}{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}"
)
BIG = "{% set big = 'x' * 9000000 %}"


def loop(step, then="{{ ns.x|length }}"):
    return "{% set ns = namespace(x='ab', l=['a']) %}{% for i in range(60) %}{% set " + step + " %}{% endfor %}" + then


def render(template, content="Hi"):
    return chat_templates.render(template, [{"role": "user", "content": content}], answer=True, names={})


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
        # Runs in C for ever, without returning to Python.
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
    monkeypatch.setattr(chat_templates, "SECONDS", 0.3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Problem) as raised:
        render(template)
    assert "chat template" in str(raised.value)
    monkeypatch.undo()
    assert render("{{ messages[0].content }}") == "Hi", "the next chat works"
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
def test_ordinary_templates_work(template, text):
    assert render(template) == text


def test_a_long_chat_is_allowed():
    assert len(render("{% for m in messages %}{{ '<' ~ m.content + '>' }}{% endfor %}", "word " * 200_000)) == 1_000_002


def test_a_process_that_died_is_replaced():
    assert render("{{ 1 }}") == "1"
    chat_templates._process.process.kill()
    chat_templates._process.process.wait()
    assert render("{{ 2 }}") == "2"


def test_ctrl_c_discards_the_pending_response(monkeypatch):
    monkeypatch.setattr(chat_templates, "SECONDS", 60.0)
    assert render("{{ 1 }}") == "1"
    alarm = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        render("{{ 7 ** 99999999 }}")
    assert render("{{ 2 }}") == "2"


def test_threads_and_forked_children_can_render():
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(render(f"{{{{ {n} }}}}") == str(n))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    child = os.fork()
    if child == 0:
        os._exit(0 if render("{{ 5 }}") == "5" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert render("{{ 6 }}") == "6"


def start_template_process():
    """Return the process that renders templates, and the end of its lifeline that keeps it alive."""
    read, write = os.pipe()
    command = [sys.executable, "-P", template_process.__file__, str(read)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[read])
    os.close(read)
    assert process.stdout.readline() == b"ready\n"
    return process, write


def send(process, text, seconds=1000):
    process.stdin.write(json.dumps({"template": text, "values": {}, "seconds": seconds}).encode() + b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("how", ["its caller dies", "its time is over"])
def test_a_template_in_c_code_ends(how):
    """The system closes the lifeline of a caller that is killed with -9; Python's threads can't run in that product."""
    process, lifeline = start_template_process()
    send(process, "{{ 7 ** 99999999 }}", seconds=0 if how == "its time is over" else 1000)
    if how == "its caller dies":
        os.close(lifeline)
        assert process.wait(120) in (-signal.SIGIO, 72)
    else:
        assert process.wait(120) == -signal.SIGXCPU
        os.close(lifeline)
    process.communicate()


def test_data_on_stdin_does_not_end_a_template():
    """A write sends its signal after the reader can see the data: requests and the lifeline need a pipe each."""
    process, lifeline = start_template_process()
    send(process, "{% for i in range(30) %}{% for j in range(90000) %}{% endfor %}{% endfor %}a")  # half a second
    time.sleep(0.1)
    send(process, "b")
    assert [json.loads(process.stdout.readline()) for _ in "ab"] == [{"text": "a"}, {"text": "b"}]
    os.close(lifeline)
    assert process.wait(120) in (-signal.SIGIO, 72)
    process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_template_ends_with_a_caller_that_is_killed():
    script = (
        "import threading, time\n"
        "from qkv.text import chat_templates as chat\n"
        "chat.SECONDS = 1000\n"  # so that no limit of time ends it
        "chat.render('{{ 6 }}', [], answer=True, names={})\n"
        "work = lambda: chat.render('{{ 7 ** 99999999 }}', [], answer=True, names={})\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print(chat._process.process.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(caller.stdout.readline())
    caller.kill()
    caller.communicate()
    deadline = time.monotonic() + 60
    while is_running(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            pytest.fail("the template outlived its caller")
        time.sleep(0.05)
