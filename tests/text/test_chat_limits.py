"""A chat template is a stranger's program: it may not take all memory."""

import resource

import pytest

from qkv.text import chat
from qkv.words import Problem

BIG = "{% set big = 'x' * 9000000 %}"


def loop(step, then="{{ ns.x|length }}"):
    return "{% set ns = namespace(x='ab', l=['a']) %}{% for i in range(60) %}{% set " + step + " %}{% endfor %}" + then


def render(template, content="Hi"):
    return chat.render(template, [{"role": "user", "content": content}], answer=True, names={})


@pytest.mark.parametrize(
    "template",
    [
        loop("ns.x = ns.x ~ ns.x"),
        loop("ns.x = ns.x + ns.x"),
        loop("ns.l = ns.l + ns.l"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns.l }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns.l|string }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ ns.l|tojson }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ '%s' % ns.l }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ '{}'.format(ns.l) }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ '{!r:>3}'.format(ns.l) }}"),
        loop("ns.l = [ns.l, ns.l]", "{{ 'a' ~ ns.l }}"),
        loop("ns.x = '%s%s' % (ns.x, ns.x)"),
        loop("ns.x = '{0}{0}'.format(ns.x)"),
        loop("ns.x = ns.x.replace('', ns.x)"),
        loop("ns.x = ns.x|replace('a', 'aa')|replace('b', 'bb')"),
        loop("ns.x = [ns.x, ns.x]|join"),
        loop("ns.x = ns.x.join([ns.x, ns.x])"),
        loop("ns.l = ns.l|map('list')|list + ns.l"),
        "{% set n = namespace(x=9) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{{ '%9000000000d' % 1 }}",
        "{{ '%*d' % (9000000000, 1) }}",
        "{{ '%.9000000000f' % 1.5 }}",
        "{{ '%9000000000d'|format(1) }}",
        "{{ '{:>9000000000}'.format('x') }}",
        "{{ '{:>{w}}'.format('x', w='9000000000') }}",
        "{{ '{a:>9000000000}'.format_map({'a': 'x'}) }}",
        *("{{ 'x'." + name + "(9000000000) }}" for name in ("ljust", "rjust", "center", "zfill", "expandtabs")),
        *("{{ 'x'|" + name + "(9000000000) }}" for name in ("center", "indent", "batch", "slice", "wordwrap")),
        "{{ ('a\n' * 100000)|indent(1000) }}",
        "{{ messages|tojson(indent=9000000) }}",
        "{{ lipsum(n=1000) }}",
        "{{ 'aaaaaaaa'.translate({97: 'x' * 9000000}) }}",
        BIG + "{{ [big, big]|join }}",
        BIG + "{{ ([big] * 1000)|sort|length }}",
        BIG + "{{ ([[big]] * 1000)|sum(start=[])|string }}",
        BIG + "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + [big[1:]] %}{% endfor %}",
        BIG + "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + [big|upper] %}{% endfor %}",
        BIG + "{% for i in range(100000) %}{{ big }}{% endfor %}",
        BIG + "{% macro m() %}{% for i in range(1000) %}{{ big }}{% endfor %}{% endmacro %}{{ m()|length }}",
        BIG + "{% set x %}{% for i in range(1000) %}{{ big }}{% endfor %}{% endset %}{{ x|length }}",
        "{{ 'x'|center(9000000) }}" * 100,
    ],
)
def test_a_template_that_makes_too_much_is_stopped(template, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Problem) as told:
        render(template)
    assert told.value.key in ("text.chat.template", "text.chat.long")
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
