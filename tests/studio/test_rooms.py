"""The studio in a real browser: its numbers are Python's, it answers keys and links, and nothing leaves the machine."""

import itertools
import json
import os
import random
import re
import signal
from collections import Counter
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
import torch

import qkv
from qkv.draw.page_shell import script
from tests.draw.pages import FLAGS, assert_rounds_to, until
from tests.selection import slow_except
from tests.studio.conftest import Running

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser_ = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield browser_
        browser_.close()


@pytest.fixture(scope="module")
def model(shelf):
    return qkv.load(shelf / "lm")


@pytest.fixture(scope="module")
def trace(model):
    return qkv.trace(model[0], TEXT, model[1])


@pytest.fixture
def opened(browser, studio, shelf):
    """Open the studio at a link; whatever it asks of other machines, logs or raises is kept and must be nothing."""
    contexts, wrong = [], []
    home = urlsplit(studio.address)

    def go(
        run="lm",
        text=TEXT,
        *,
        link="",
        locale="en-US",
        scheme="light",
        size=(1280, 900),
        ready=True,
        script="",
        routes=None,
        **more,
    ):
        context = browser.new_context(
            locale=locale, color_scheme=scheme, viewport=dict(width=size[0], height=size[1]), reduced_motion="reduce"
        )
        contexts.append(context)
        name, _, key = studio.client.cookie.partition("=")
        context.add_cookies([dict(name=name, value=key, url=f"http://{home.netloc}")])
        tab = context.new_page()
        tab.on("request", lambda request: urlsplit(request.url).netloc == home.netloc or wrong.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        tab.on("dialog", lambda dialog: wrong.append(dialog.message))
        if script:
            tab.add_init_script(script)
        for address, answer in (routes or {}).items():
            tab.route(address, answer)
        refusal = dict(model=f"{shelf.name}/{run}", text=text) | {name: str(value) for name, value in more.items()}
        link = link or "&".join(f"{name}={quote(value)}" for name, value in refusal.items())
        tab.goto(f"http://{home.netloc}/#{link}")
        if ready:
            settled(tab)
        return tab

    go.ignored = None  # what a browser itself logs where a test takes the server away
    yield go
    for context in contexts:
        context.close()
    assert [message for message in wrong if go.ignored is None or go.ignored not in message] == []


def settled(tab):
    """Until everything that was asked for is shown."""
    until(tab, "window.qkv?.served() != null")
    tab.evaluate("qkv.settled()")
    assert tab.evaluate("qkv.studio.now.problem") is None
    if tab.evaluate("document.querySelector('qkv-map') !== null"):
        until(tab, "[...document.querySelectorAll('qkv-map')].every((map) => map.base.dataset.drawn)")


def now(tab, name):
    return tab.evaluate(f"qkv.studio.now.{name}")


def bars(tab, selector="qkv-nextwords"):
    """(token, what is shown) of every bar."""
    read = f"[...document.querySelectorAll('{selector} .bars li')].map((li) => [Number(li.dataset.id), li.querySelector('.number').textContent])"
    return {token: float(text.replace("\u00a0%", "").replace("<", "")) / 100 for token, text in tab.evaluate(read)}


def shares(model, ids):
    """What comes after a text."""
    with torch.no_grad():
        return model(torch.tensor([ids]))[0, -1].softmax(-1)


def loss(model, ids):
    ids = torch.tensor([list(ids)])
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:]))


def test_no_two_modules_declare_the_same_name():
    """They are joined into one script, where the second would be a mistake that stops all of it."""
    declared = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)
    declarations = Counter(declared.findall(script("studio/studio")))
    assert len(declarations) > 200 and [name for name, times in declarations.items() if times > 1] == []


def test_row_cell_and_bars_are_pythons(opened, model, trace):
    tab = opened(head=1, query=4, key=2)
    true = trace.map(0, 1)
    head = "qkv.served().head(qkv.served().header.parts[0], 0, 0, 1)"
    row = tab.evaluate(f"async () => {{ const one = await {head}; return [...one.row(4).weights] }}")
    assert np.abs(np.array(row) - true[4]).max() < 1e-5
    assert_rounds_to(tab.inner_text("qkv-map output.cell b"), true[4, 2])
    assert_rounds_to(tab.inner_text("qkv-steps tr.chosen td.weight"), true[4, 2])
    lines = tab.eval_on_selector_all("qkv-lines .far i", "found => found.map((one) => one.textContent)")
    for text, weight in zip(lines, true[4], strict=True):
        assert text == "hidden" or (text == "0" and weight == 0) or assert_rounds_to(text, weight) is None
    after = shares(model[0], list(trace.tokens().ids))
    displayed = bars(tab)
    assert len(displayed) == 10
    for token, p in displayed.items():
        assert abs(p - float(after[token])) < 6e-4, token


def test_a_head_off_and_on_again_was_never_touched(opened, model, trace):
    tab = opened(mode="heads", head=0)
    read = """() => [document.querySelector('qkv-nextwords').innerHTML, [...document.querySelectorAll('qkv-overview canvas')]
        .map((canvas) => canvas.toDataURL()), qkv.studio.now.outcome]"""
    before = tab.evaluate(read)
    tab.click("qkv-switchboard .choice [data-value=zero]")
    tab.evaluate("qkv.settled()")
    until(tab, "qkv.studio.now.before !== null && document.querySelector('.bars.two') !== null")
    with qkv.edit(model[0], "0.0"):
        after = shares(model[0], list(trace.tokens().ids))
    first = shares(model[0], list(trace.tokens().ids))
    losses = [now(tab, "before.loss"), now(tab, "outcome.loss")]
    displayed = [float(x) for x in re.findall(r"\d\.\d+", tab.inner_text("qkv-nextwords .loss"))[:2]]
    assert np.abs(np.subtract(losses, displayed)).max() < 6e-4
    with qkv.edit(model[0], "0.0"):
        switched = loss(model[0], trace.tokens().ids)
    assert np.abs(np.subtract(losses, [loss(model[0], trace.tokens().ids), switched])).max() < 1e-5
    moved = "[...document.querySelectorAll('qkv-nextwords li')].map((li) => [Number(li.dataset.id), li.querySelector('.moved').textContent])"
    for token, p in bars(tab).items():
        assert abs(p - float(after[token])) < 6e-4
    for token, text in tab.evaluate(moved):
        assert abs(float(text.replace("−", "-")) / 100 - float(after[token] - first[token])) < 6e-5
    tab.click("qkv-switchboard [data-key='undo 0.0']")
    tab.evaluate("qkv.settled()")
    until(tab, "document.querySelector('.bars.two') === null")
    settled(tab)
    assert tab.evaluate(read) == before


def test_a_difference_is_pythons(opened, trace):
    tab = opened(mode="compare", by="heads", withHead="0.1", head=0, query=4, key=2)
    until(tab, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    settled(tab)
    maps = [trace.map(0, head) for head in (0, 1)]
    displayed = tab.eval_on_selector_all("qkv-comparison output.cell b", "found => found.map((one) => one.textContent)")
    for text, true in zip(displayed, (maps[0][4, 2], maps[1][4, 2], maps[1][4, 2] - maps[0][4, 2]), strict=True):
        assert_rounds_to(text, true)
    rows = tab.evaluate(
        "Array.from({ length: 5 }, (_, i) => [...document.querySelector('[data-side=difference]').seen.row(i).weights])"
    )
    assert np.abs(np.array(rows) - (maps[1] - maps[0])[:5]).max() < 1e-5
    tab.focus("[data-side=a] .stage")
    tab.keyboard.press("ArrowUp")
    assert now(tab, "query") == 3  # one crosshair for all, and for the rest of the studio
    positions = tab.eval_on_selector_all(
        "qkv-comparison output.cell small", "found => found.map((one) => one.textContent)"
    )
    assert len(set(positions)) == 1 and "3" in positions[0]


IN_VIEW = "(({{ size, x, y }}) => [size, x, y])(document.querySelector('{}').frame)"


@pytest.mark.parametrize("by", slow_except(["texts"], ["heads", "texts"]))
def test_what_is_compared_is_zoomed_together_and_a_link_knows_it(opened, by):
    tab = opened(mode="compare", by=by, withHead="0.1", withText=TEXT + " at", head=0, query=4, key=2)
    until(tab, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    settled(tab)
    sides = [IN_VIEW.format(f"[data-side={side}]") for side in ("a", "b", "difference")]
    whole = tab.evaluate(sides[0])
    tab.focus("[data-side=b] .stage")
    for key in ["+", "+", "+", "ArrowDown"]:
        tab.keyboard.press(key)
    near = [tab.evaluate(side) for side in sides]
    assert near[0] == near[1] == near[2] and near[0][0] > 2 * whole[0]
    tab.wait_for_timeout(500)
    again = opened(link=tab.evaluate("location.hash.slice(1)"))
    until(again, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    settled(again)
    for side in sides:
        assert np.abs(np.subtract(again.evaluate(side), near[0])).max() < 0.1
    tab.keyboard.press("0")
    assert [tab.evaluate(side) for side in sides] == [whole] * 3 and now(tab, "zoom") is None


def without_sink(trace, head):
    """A map whose rows are shared out anew among all but the first token and special ones."""
    keys = trace.tokens(keys=True)
    weights = trace.map(0, head) * [not (j == 0 or special) for j, special in enumerate(keys.special)]
    remaining = weights.sum(-1, keepdims=True)
    return np.divide(weights, remaining, out=np.zeros_like(weights), where=remaining > 0)


def test_without_the_sink_a_difference_is_pythons_too(opened, trace):
    tab = opened(mode="compare", by="heads", withHead="0.1", head=0, query=4, key=2)
    until(tab, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    assert "hidden by the mask" in tab.inner_text("[data-side=difference] .legend")
    tab.click("[data-side=difference] .toggle")
    assert now(tab, "sink") == "hidden"
    until(tab, "document.querySelector('[data-side=difference]').seen.without !== null")
    settled(tab)
    first, two = without_sink(trace, 0), without_sink(trace, 1)
    for side, true in (("a", first), ("b", two), ("difference", two - first)):
        rows = "(map) => map.seen.queries.map((_, i) => [...map.seen.row(i).weights])"
        row = tab.eval_on_selector(f"[data-side={side}]", rows)
        assert np.abs(np.array(row) - true).max() < 1e-5
        assert_rounds_to(tab.inner_text(f"[data-side={side}] output.cell b"), true[4, 2])
    assert "taken out" in tab.inner_text("qkv-comparison .sink")
    tab.evaluate("qkv.studio.set({ key: 0 })")
    assert tab.inner_text("[data-side=difference] output.cell b") == "taken out"


def test_two_texts_are_laid_beside_each_other(opened, model):
    tab = opened(mode="compare", by="texts", withText=TEXT + " at", head=0)
    until(tab, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    settled(tab)
    n = tab.evaluate("document.querySelector('[data-side=difference]').seen.queries.length")
    longer = qkv.trace(model[0], TEXT + " at", model[1])
    assert n >= len(longer.tokens().ids)
    assert "on one side only" in tab.inner_text("[data-side=difference] .legend")
    tab.evaluate("document.querySelector('qkv-comparison').cross.set({ query: 23, key: 1 })")  # what only B has
    assert "query – | 23, key 1" in tab.inner_text("[data-side=difference] output.cell")
    assert "on one side only" in tab.inner_text("[data-side=difference] output.cell")
    assert tab.locator("qkv-comparison .ranking li").count() == 2


def test_typing_is_followed_and_composing_is_not(opened):
    tab = opened()
    tab.click("textarea")
    tab.keyboard.press("End")
    tab.keyboard.type(" cat", delay=5)
    tab.evaluate("qkv.settled()")
    settled(tab)
    assert now(tab, "text") == TEXT + " cat"
    assert tab.inner_text("qkv-strip .tokens").split()[-3:] == ["c", "a", "t"]
    assert tab.evaluate("qkv.served().spec.text") == TEXT + " cat"
    session = tab.context.new_cdp_session(tab)
    session.send("Input.imeSetComposition", dict(text="mao", selectionStart=3, selectionEnd=3))
    tab.wait_for_timeout(50)
    assert now(tab, "text") == TEXT + " cat"
    session.send("Input.insertText", dict(text="我"))
    until(tab, f"qkv.studio.now.text === {json.dumps(TEXT + ' cat我')}")
    settled(tab)


PASSING = (
    "shown models opened outcome before busy problem lost locked reload textLost stale".split()
)  # what is answered


def state_of(tab):
    """All that a person can choose."""
    return {name: value for name, value in now(tab, "valueOf()").items() if name not in PASSING}


def test_a_link_brings_the_view_back(opened):
    tab = opened(mode="heads", head=1, query=5, key=3, edits="0.0:zero", pins="0.1", unit="words", scale="linear")
    plain = re.sub("&(lang|theme)=[a-z]+", "", tab.evaluate("location.hash.slice(1)"))
    tab.evaluate(
        """qkv.studio.set({ lang: 'zh', theme: 'dark', way: 'to', sink: 'hidden', pool: 'mean', after: 'chosen',
        ranked: { by: 'wide', pattern: '', limit: 0.5 }, sampling: { temperature: 0.5, topK: 3, topP: 0.9 } })"""
    )
    tab.wait_for_timeout(500)
    link = tab.evaluate("location.hash.slice(1)")
    before = state_of(tab)
    again = opened(link=link)
    assert state_of(again) == before
    again.focus("qkv-map .stage")
    for key in "+++":
        again.keyboard.press(key)
    again.wait_for_timeout(500)
    nearer = opened(link=again.evaluate("location.hash.slice(1)"))
    assert now(again, "zoom")[2] < 6
    assert np.abs(np.subtract(now(nearer, "zoom"), now(again, "zoom"))).max() < 0.001
    assert np.abs(np.subtract(*(first.evaluate(IN_VIEW.format("qkv-map")) for first in (nearer, again)))).max() < 0.1
    assert again.inner_text("qkv-map output.cell b") == tab.inner_text("qkv-map output.cell b")
    assert again.evaluate("document.documentElement.lang") == "zh-CN"
    again.evaluate(f"location.hash = {json.dumps(plain)}")  # what it doesn't speak of isn't left as it was
    until(again, "qkv.studio.now.sink === 'shown' && qkv.studio.now.after === 'end'")
    settled(again)
    assert now(again, "zoom") is None
    assert state_of(again) == before | state_of(opened(link=plain)) | {"lang": "zh", "theme": "dark"}


@pytest.mark.parametrize("characters", [300, pytest.param(5100, marks=pytest.mark.slow)])
def test_the_loss_of_a_long_text_follows_its_maps(opened, model, characters):
    text = (TEXT + " ") * (characters // len(TEXT))
    ids = qkv.trace(model[0], text, model[1]).tokens().ids
    tab = opened(mode="heads", head=0)
    tab.fill("textarea", text)
    settled(tab)
    until(tab, "qkv.studio.now.outcome.loss !== null")
    assert abs(now(tab, "outcome.loss") - loss(model[0], ids)) < 1e-5
    tab.click("qkv-switchboard .choice [data-value=zero]")
    tab.evaluate("qkv.settled()")
    until(tab, "qkv.studio.now.outcome.loss !== null")
    with qkv.edit(model[0], "0.0"):
        after = loss(model[0], ids)
    assert abs(now(tab, "outcome.loss") - after) < 1e-5
    assert abs(now(tab, "before.loss") - loss(model[0], ids)) < 1e-5
    assert re.search(r"before, .* after", tab.inner_text("qkv-nextwords .loss"))
    assert "its output isn't used" in tab.inner_text("qkv-map .note")  # the map is of where it would look


def test_a_link_is_not_written_over_before_it_is_followed(opened, shelf):
    tab = opened()
    link = f"model={quote(f'{shelf.name}/lm')}&text=a+cat&layer=0&head=1"
    change = "(link) => { qkv.studio.set({ scale: 'linear' }); history.replaceState(null, '', `#${link}`) }"
    tab.evaluate(change, link)  # the browser tells of it a little later
    tab.wait_for_timeout(500)
    assert tab.evaluate("location.hash.slice(1)") == link
    tab.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
    until(tab, "qkv.studio.now.text === 'a cat' && qkv.studio.now.scale === 'root'")
    settled(tab)
    assert now(tab, "head") == 1


@pytest.mark.parametrize("bench", slow_except(["head"], ["toy", "head"]))
def test_a_link_brings_changed_numbers_back(opened, bench):
    tab = opened(room="steps", bench=bench, head=1)
    until(tab, "document.querySelector('qkv-machine') !== null")
    numbers = "document.querySelector('qkv-machine').stages"
    before = tab.evaluate(numbers)
    tab.fill("[data-cell='q.5.0']" if bench == "head" else "[data-cell='x.2.0']", "-3.25")
    tab.click("[data-cell='mask.0.1']")
    tab.click("qkv-machine .scaling [data-value=none]")
    changed = tab.evaluate(numbers)
    assert changed != before
    tab.wait_for_timeout(400)
    link = tab.evaluate("location.hash.slice(1)")
    again = opened(link=link)
    until(again, "document.querySelector('qkv-machine') !== null")
    assert again.evaluate(numbers) == changed
    # Neither another language nor another room takes it away, and no other head has it.
    again.evaluate("qkv.studio.set({ lang: 'zh' })")
    again.evaluate("qkv.studio.set({ room: 'see' })")
    again.evaluate("qkv.studio.set({ room: 'steps' })")
    assert again.evaluate(numbers) == changed
    again.evaluate(f"qkv.studio.set({{ bench: 'head', head: {0 if bench == 'head' else 1} }})")
    until(again, "qkv.studio.now.worked.changes === ''")
    again.evaluate(f"qkv.studio.set({{ bench: '{bench}', head: 1 }})")
    until(again, "qkv.studio.now.worked.changes !== ''")
    assert again.evaluate(numbers) == changed
    again.click("qkv-machine .reset")
    assert again.evaluate(numbers) == before


def test_only_heads_above_a_limit_are_listed(opened, trace):
    tab = opened(mode="heads", query=9, key=2)
    until(tab, "document.querySelectorAll('qkv-ranking .head').length === 2")
    values = sorted((float(trace.map(0, head)[9, 2]), f"0.{head}") for head in range(2))
    limit = round(sum(value for value, _ in values) / 2, 4)
    assert values[0][0] < limit < values[1][0]
    tab.fill("qkv-ranking [data-key=limit]", str(limit))
    tab.keyboard.press("Enter")
    assert tab.locator("qkv-ranking .head b").all_inner_texts() == [values[1][1]]
    assert "1 of 2 heads" in tab.inner_text("qkv-ranking")
    until(tab, f"document.querySelector(\"qkv-overview [data-head='{values[0][1]}']\").classList.contains('faded')")
    assert tab.evaluate("document.activeElement.dataset.key") == "limit"
    tab.select_option("qkv-ranking [data-key=order]", "narrow")  # other values: no limit of theirs yet
    assert now(tab, "ranked") == {"by": "narrow", "pattern": "", "limit": None}
    assert tab.locator("qkv-ranking .head").count() == 2


def test_generating_adds_a_row_and_back_removes_it(opened, trace):
    tab = opened(mode="generate")
    until(tab, "document.querySelector('.bars.cutting li') !== null")
    tab.click("qkv-generator [data-key=one]")
    until(tab, "qkv.studio.now.more.length === 1")
    settled(tab)
    n = len(trace.tokens().ids)
    assert tab.evaluate("qkv.served().header.parts[0].n") == n + 1
    assert tab.locator(".tokens .generated").count() >= 1
    tab.click("qkv-generator [data-key=back]")
    settled(tab)
    assert tab.evaluate("qkv.served().header.parts[0].n") == n
    until(tab, "document.querySelector('qkv-generator:not([data-old]) .bars.cutting li button') !== null")
    token = tab.evaluate("Number(document.querySelector('.bars.cutting li:nth-child(3)').dataset.id)")
    tab.click(".bars.cutting li:nth-child(3) button")
    assert now(tab, "more") == [token]


@pytest.mark.parametrize("mode", slow_except(["look"], ["look", "heads", "generate", "compare"]))
def test_an_empty_text_keeps_the_last_view(opened, mode):
    tab = opened(mode=mode, after="chosen", query=3)
    tab.fill("textarea", "")
    assert "no text" in tab.inner_text("qkv-textbox .offer")
    tab.click("qkv-strip .tokens button >> nth=5")
    tab.wait_for_timeout(300)
    assert now(tab, "query") == 5 and now(tab, "problem") is None
    tab.fill("textarea", "cat")
    settled(tab)
    assert "no text" not in tab.inner_text("qkv-textbox")
    assert tab.inner_text("qkv-facts").startswith("3 tokens")


def test_generated_text_can_be_added_to_the_text(opened, model):
    tab = opened(mode="generate", more="5,6")
    assert now(tab, "more") == [5, 6]
    tab.click("qkv-textbox .offer button")
    settled(tab)
    assert now(tab, "more") == []
    assert tab.input_value("textarea") == now(tab, "text") == TEXT + model[1].decode([5, 6])


def test_the_cut_is_drawn_as_it_is(opened, model, trace):
    tab = opened(mode="generate", temperature=0.5, topK=3)
    until(tab, "document.querySelectorAll('.bars.cutting .gone').length > 0")
    after = shares(model[0], list(trace.tokens().ids))
    weights = after.topk(3)
    true = (weights.values.log() / 0.5).softmax(-1)
    displayed = bars(tab, "qkv-generator")
    assert tab.locator(".bars.cutting li:not(.gone)").count() == 3
    for token, p in zip(weights.indices.tolist(), true.tolist(), strict=True):
        assert abs(displayed[token] - p) < 6e-4


def test_two_words_are_linked_by_the_keyboard_alone(opened, trace):
    tab = opened(mode="heads")
    tab.evaluate("document.body.focus()")
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.type") == "search"
    tab.keyboard.type("mat -> cat")
    tab.keyboard.press("Enter")
    until(tab, "document.querySelectorAll('qkv-ranking .head').length === 2")
    query, key = now(tab, "query"), now(tab, "key")
    best = max(range(2), key=lambda head: trace.map(0, head)[query, key])
    assert tab.inner_text("qkv-ranking li:first-child b") == f"0.{best}"
    assert_rounds_to(tab.inner_text("qkv-ranking li:first-child .number"), trace.map(0, best)[query, key])


@pytest.mark.slow
def test_the_tour_waits_for_each_step_and_can_be_closed(opened):
    tab = opened()
    tab.click("[data-key=tour]")
    done = "document.querySelector('qkv-tour .seen') !== null"
    acts = [
        lambda: (tab.click("textarea"), tab.keyboard.type("so ")),
        lambda: tab.click("qkv-strip .tokens button >> nth=1"),
        lambda: tab.click("qkv-overview [data-head='0.1']"),
        lambda: tab.click("qkv-switchboard [data-value=zero]"),
        lambda: (tab.fill(".finder input", "mat → cat"), tab.press(".finder input", "Enter")),
        lambda: tab.click("qkv-generator [data-key=one]"),
        lambda: tab.select_option("qkv-comparison [data-key=head]", "0"),
        lambda: tab.click("qkv-exportmenu .opener"),
    ]
    for i, act in enumerate(acts):
        assert tab.inner_text("qkv-tour small") == f"{i + 1} of 8"
        settled(tab)
        assert not tab.evaluate(done)
        act()
        until(tab, done)
        tab.keyboard.press("Control+Enter")  # from wherever the focus is
    assert tab.locator("qkv-tour").count() == 0
    tab.keyboard.press("Escape")
    tab.click("[data-key=tour]")
    tab.keyboard.press("Escape")
    assert tab.locator("qkv-tour").count() == 0
    assert tab.evaluate("document.activeElement.dataset.key") == "tour"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "locale"), [(1280, "en-US"), (390, "zh-CN")])
def test_the_tour_is_walked_by_keyboard_alone(opened, width, locale):
    """The focus is brought to where each thing is done, so that nobody has to look for it with Tab."""
    tab = opened(size=(width, 800), locale=locale)
    tab.focus("[data-key=tour]")
    keys = tab.keyboard
    acts = [
        lambda: keys.type("so "),
        lambda: keys.press("ArrowRight"),
        lambda: (keys.press("ArrowRight"), keys.press("Enter")),
        lambda: keys.press("ArrowRight"),
        lambda: (keys.type("/mat -> cat"), keys.press("Enter")),
        lambda: keys.press("Enter"),
        lambda: (keys.press("Tab"), keys.press("ArrowDown")),
        lambda: keys.press("Enter"),
    ]
    keys.press("Enter")
    for act in acts:
        settled(tab)
        assert tab.locator("qkv-tour .seen").count() == 0
        act()
        until(tab, "document.querySelector('qkv-tour .seen') !== null")
        tab.keyboard.press("Control+Enter")
    assert tab.locator("qkv-tour").count() == 0


@pytest.mark.slow
def test_every_export_can_be_downloaded(opened, tmp_path, trace):
    tab = opened(head=1, query=4, key=2)
    for take, name in (("png", "png"), ("svg", "svg"), ("csv", "csv"), ("page", "html")):
        tab.click("qkv-exportmenu .opener")
        with tab.expect_download() as coming:
            tab.click(f"qkv-exportmenu [data-key={take}]")
        until(tab, "document.querySelector('qkv-exportmenu .sheet').hidden")
        coming.value.save_as(tmp_path / name)
        assert coming.value.suggested_filename.endswith(f".{name}")
    rows = [line.split(",") for line in (tmp_path / "csv").read_text(encoding="utf-8-sig").splitlines()[1:]]
    for row in rows:
        assert_rounds_to(row[-1], trace.map(0, 1)[int(row[0]), int(row[2])]) if row[-1] not in ("", "0") else None
    assert "<!doctype html>" in (tmp_path / "html").read_text(encoding="utf-8")[:20]
    tab.click("qkv-exportmenu .opener")
    tab.click("qkv-exportmenu [data-key=python]")
    until(tab, "document.querySelector('qkv-exportmenu pre') !== null")
    assert "trace.row(0, 1, 4" in tab.inner_text("qkv-exportmenu pre")


def test_a_translator_is_drawn_with_its_alignment(opened):
    tab = opened("translate", "cat 7")
    until(tab, "document.querySelector('.alignment .words') !== null")
    assert now(tab, "mode") == "cross"
    tab.click("qkv-translation [data-key=beam]")
    until(tab, "document.querySelectorAll('.beam li').length > 1")
    tab.click(".beam li:nth-child(2) button")
    settled(tab)
    assert now(tab, "target") == tab.inner_text(".beam li:nth-child(2) bdi")


@pytest.mark.parametrize("bench", ["toy", "head"])
def test_every_number_of_the_machine_can_be_changed(opened, trace, bench):
    tab = opened(room="steps", bench=bench, head=1)
    until(tab, "document.querySelector('qkv-machine') !== null")
    weights = tab.evaluate("document.querySelector('qkv-machine').stages.weights")
    wide = "[...document.querySelectorAll('qkv-machine input')].map((cell) => cell.offsetWidth)"
    assert 30 < min(tab.evaluate(wide)) and max(tab.evaluate(wide)) < 100  # as its numbers need
    if bench == "head":
        assert np.abs(np.array(weights) - trace.map(0, 1)[:6, :6]).max() < 1e-5
    cell = "[data-cell='q.5.0']" if bench == "head" else "[data-cell='x.2.0']"
    tab.fill(cell, "3")
    changed = tab.evaluate("document.querySelector('qkv-machine').stages.weights")
    assert changed[:2] == weights[:2] and changed[-1] != weights[-1]


def test_a_problem_is_a_sentence_and_the_page_stays(opened):
    tab = opened(edits="77.3:zero", ready=False)
    until(tab, "document.querySelector('qkv-notice p') !== null")
    assert "77" in tab.inner_text("qkv-notice p")
    until(tab, "document.querySelector('qkv-overview canvas') !== null")  # the trace that comes with qkv


@pytest.mark.slow
def test_a_killed_worker_is_a_sentence_and_a_restart(opened, studio):
    tab = opened()
    for pid in studio.workers():
        os.kill(pid, signal.SIGKILL)
    tab.click("textarea")
    tab.keyboard.press("End")
    tab.keyboard.type(" a")
    until(tab, "qkv.served().spec.text.endsWith(' a')", seconds=60)  # it goes on by itself
    assert tab.evaluate("document.querySelector('qkv-overview canvas[data-drawn]') !== null")


def test_without_a_server_the_page_reports_it_and_remains(opened):
    tab = opened()
    tab.route("**/api/ask", lambda route: route.abort())
    opened.ignored = "Failed to load resource"
    tab.click("textarea")
    tab.keyboard.type("t")
    until(tab, "document.querySelector('qkv-notice p') !== null")
    assert "doesn't answer" in tab.inner_text("qkv-notice p")
    tab.unroute("**/api/ask")
    tab.click("qkv-notice [data-key=again]")
    until(tab, "document.querySelector('qkv-notice').hidden && qkv.served().spec.text === qkv.studio.now.text")


def compared(tab):
    """Until the difference of the two sides is drawn."""
    until(tab, "document.querySelector('[data-side=difference]').seen?.kind === 'difference'")
    until(tab, "document.querySelector('.three[data-old]') === null && !document.querySelector('.three').hidden")


REFUSED = "qkv-comparison .offer .note"


@pytest.mark.parametrize(
    ("locale", "refusal"),
    [
        ("en-US", "translate has no head 1.3: it has 1 layer × 2 heads (counted from 0)."),
        pytest.param("zh-CN", "translate 没有头 1.3：它有 1 层 × 2 个头（从 0 数起）。", marks=pytest.mark.slow),
    ],
)
def test_models_of_different_depth_are_compared_layer_by_layer(opened, shelf, locale, refusal):
    other = quote(f"{shelf.name}/translate")
    link = f"model=dates&text=cat+7&mode=compare&by=models&withModel={other}&part=encoder&layer=1&head=3"
    tab = opened(link=link, locale=locale, ready=False)
    until(tab, f"document.querySelector('{REFUSED}') !== null")
    assert refusal in tab.inner_text(REFUSED) and "1" in tab.inner_text(REFUSED)
    assert not tab.is_visible("qkv-comparison .three")
    tab.click("qkv-comparison .offer button")
    compared(tab)
    assert (now(tab, "layer"), now(tab, "head")) == (0, 1)
    assert tab.inner_text(".three section:nth-child(2) h3") == "B · translate"
    assert tab.locator(REFUSED).count() == 0


def test_models_of_different_kinds_name_what_can_be_compared(opened, shelf):
    tab = opened("lm", "the cat sat", mode="compare", by="heads", head=0)
    compared(tab)
    tab.evaluate(
        "(model) => qkv.studio.set({ against: { by: 'models', head: '', text: '', model } })", f"{shelf.name}/mlm"
    )
    until(tab, f"document.querySelector('{REFUSED}') !== null")
    assert "no part in common" in tab.inner_text(REFUSED) and "Encoder" in tab.inner_text(REFUSED)
    assert not tab.is_visible("qkv-comparison .three") and tab.locator("qkv-comparison .ranking li").count() == 0
    tab.click("qkv-comparison .offer button >> text=Two heads")
    compared(tab)
    tab = opened(
        "translate", "cat 7", mode="compare", by="models", withModel=f"{shelf.name}/mlm", part="cross", ready=False
    )
    until(tab, f"document.querySelector('{REFUSED}') !== null")
    assert "mlm has no part “Cross”, only: Encoder" in tab.inner_text(REFUSED)
    tab.click("qkv-comparison .offer button >> text=Encoder")
    until(tab, "!document.querySelector('.three').hidden")
    assert now(tab, "part") == "encoder"


def test_another_model_reads_what_was_generated_as_text(opened, shelf, model):
    """Generated tokens are ids of one vocabulary: another model would read other words in them."""
    step = sorted(int(folder.name) for folder in (shelf / "lm" / "checkpoints").iterdir() if folder.name.isdigit())[0]
    other, specs = f"{shelf.name}/lm@{step}", []

    def note(route):
        message = route.request.post_data_json
        specs.extend(spec for spec in (message.get("spec"), message.get("b")) if spec and spec["model"] == other)
        route.fallback()

    tab = opened(mode="compare", by="models", withModel=other, more="5,6", routes={"**/api/ask": note})
    compared(tab)
    whole = TEXT + model[1].decode([5, 6])
    assert specs and all((spec["text"], spec["more"]) == (whole, []) for spec in specs)


# Answers to views of texts that begin with `held` come in two pieces: the header when `go(1)` is called, the rest after `go(2)`.
HOLD = """
const real = window.fetch;
window.held = null;
let go = [];
window.go = (piece) => go[piece]();
window.fetch = async (url, options) => {
  const asked = options?.body ? JSON.parse(options.body) : {};
  if (asked.do !== "view" || !window.held || !asked.spec.text.startsWith(window.held)) return real(url, options);
  const gates = [1, 2].map((piece) => new Promise((resolve) => (go[piece] = resolve)));
  const answer = await real(url, options);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const first = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const body = new ReadableStream({
    async start(stream) {
      await gates[0];
      stream.enqueue(bytes.slice(0, first));
      await gates[1];
      stream.enqueue(bytes.slice(first));
      stream.close();
    },
  });
  options.signal?.addEventListener("abort", () => go.forEach((each) => each()));
  return new Response(body);
};
"""
OLD = "[...document.querySelectorAll('[data-old]')].map((one) => one.localName).filter((name) => name.startsWith('qkv-')).sort()"


@pytest.mark.parametrize(
    ("locale", "label", "badge"),
    [
        ("en-US", "Still the old result", '"old result"'),
        pytest.param("zh-CN", "仍是旧结果", '"旧结果"', marks=pytest.mark.slow),
    ],
)
def test_old_results_are_dimmed_until_new_results_arrive(opened, locale, label, badge):
    tab = opened(mode="look", head=0, locale=locale, script=HOLD)
    selector = "document.querySelector('qkv-nextwords .choice [data-value=end]').textContent"
    at_the_end = tab.evaluate(selector)
    assert tab.evaluate(OLD) == []
    tab.evaluate("window.held = 'a mat'")
    tab.fill("textarea", "a mat on a cat on the mat that sat on a cat")
    assert now(tab, "stale") and label in tab.inner_text("qkv-facts") and TEXT in tab.inner_text("qkv-facts")
    assert tab.get_attribute(".ground", "aria-busy") == "true"
    assert tab.get_attribute("qkv-nextwords", "aria-busy") == "true"
    for piece in ("overview", "map", "steps", "nextwords", "lines", "strip"):
        until(tab, f"Number(getComputedStyle(document.querySelector('qkv-{piece} > *')).opacity) < 0.5")
    assert tab.evaluate("getComputedStyle(document.querySelector('qkv-nextwords'), '::after').content") == badge
    assert tab.evaluate(selector) == at_the_end  # never "at the gap": a decoder goes on with a text
    tab.evaluate("go(1)")  # tokens are known, and nothing of what the model makes of them
    until(tab, "qkv.served().spec.text.startsWith('a mat')")
    assert not now(tab, "stale") and label not in tab.inner_text("qkv-facts")
    assert {"qkv-nextwords", "qkv-overview"} <= set(tab.evaluate(OLD))
    assert tab.evaluate(selector) == at_the_end
    until(tab, "Number(getComputedStyle(document.querySelector('qkv-overview [data-head]')).opacity) < 0.5")
    tab.evaluate("go(2)")
    settled(tab)
    until(tab, f"{OLD}.length === 0")
    assert tab.get_attribute(".ground", "aria-busy") == "false"
    assert tab.get_attribute("qkv-nextwords", "aria-busy") is None
    assert tab.evaluate("Number(getComputedStyle(document.querySelector('qkv-nextwords .bars')).opacity)") == 1


@pytest.mark.slow
def test_results_of_another_model_are_dimmed_too(opened, shelf):
    tab = opened(mode="look", script=HOLD)
    tab.evaluate("window.held = 'the cat'")
    tab.click("qkv-picker .opener")
    tab.click("qkv-picker [data-key='open dates']")
    assert now(tab, "stale") and "data-old" in tab.evaluate(
        "document.querySelector('qkv-nextwords').getAttributeNames()"
    )
    tab.evaluate("(window.held = null, document.querySelector('textarea').focus())")
    tab.fill("textarea", "cat 7")
    settled(tab)
    assert not now(tab, "stale") and tab.evaluate(OLD) == []


def test_requests_for_a_replaced_text_are_cancelled(opened):
    tab = opened(head=0)
    requests_, cancelled = [], []

    def hold(route):
        message = route.request.post_data_json
        if message["do"] == "head" and message["spec"]["text"] == "a mat":
            requests_.append(route)
        else:
            route.fallback()

    tab.route("**/api/ask", hold)
    tab.on("requestfailed", lambda request: cancelled.append(request))
    tab.fill("textarea", "a mat")
    until(tab, "qkv.served().spec.text === 'a mat'")
    while not requests_:  # the request for the head follows; the test's own time limit ends this
        tab.wait_for_timeout(20)
    assert not {route.request for route in requests_} & set(cancelled)
    tab.fill("textarea", "a cat")
    settled(tab)
    tab.wait_for_timeout(50)
    assert {route.request for route in requests_} <= set(cancelled)


def test_a_text_too_long_for_a_link_survives_a_reload(opened):
    tab = opened(head=1)
    text = (TEXT + " ") * 200
    tab.fill("textarea", text)
    settled(tab)
    until(tab, "location.hash.includes('kept=')")
    assert "text=" not in tab.evaluate("location.hash")
    tab.reload()
    settled(tab)
    assert now(tab, "text") == tab.input_value("textarea") == text and now(tab, "head") == 1
    assert tab.evaluate("qkv.served().spec.text") == text
    link = tab.evaluate("location.hash.slice(1)")
    elsewhere = opened(link=link, ready=False)  # another browser
    until(elsewhere, "document.querySelector('qkv-overview canvas[data-drawn]') !== null")
    until(elsewhere, "qkv.studio.now.model.endsWith('/lm')")
    assert "too long for a link" in elsewhere.inner_text("qkv-notice p >> nth=0")
    elsewhere.fill("textarea", "the cat")
    until(elsewhere, "document.querySelector('qkv-notice').hidden")
    settled(elsewhere)


def test_a_link_without_a_text_is_not_a_blank_page(opened):
    tab = opened(link="model=dates", ready=False)
    until(tab, "qkv.served()?.spec.model === 'dates'")
    settled(tab)
    assert now(tab, "text") == tab.input_value("textarea") != ""


def test_a_word_of_several_tokens_is_located_at_its_end(opened, trace):
    tab = opened()
    for typed in ("cat sat", "satonthe"):
        tab.fill("qkv-strip input", typed)
        tab.keyboard.press("Enter")
        selector = trace.tokens().find("sat" if typed == "cat sat" else "the#2")
        until(tab, f"qkv.studio.now.query === {selector}")


def test_back_from_the_steps_room(opened):
    tab = opened(head=0)
    tab.wait_for_timeout(400)
    tab.click("qkv-masthead [data-value=steps]")
    until(tab, "document.querySelector('qkv-machine') !== null && location.hash.includes('room=steps')")
    tab.evaluate("history.back()")
    until(tab, "qkv.studio.now.room === 'see'")
    settled(tab)


def test_back_returns_to_the_previous_choice(opened, shelf):
    tab = opened(head=0)
    tab.wait_for_timeout(400)
    entries = tab.evaluate("history.length")
    tab.click("qkv-overview [data-head='0.1']")
    until(tab, "location.hash.includes('head=1')")
    tab.click(".modes [data-value=heads]")
    until(tab, "location.hash.includes('mode=heads')")
    tab.click("textarea")
    tab.keyboard.press("End")
    for typed in (" ", " c", " ca", " cat"):
        tab.keyboard.type(typed[-1])
        until(tab, f"new URLSearchParams(location.hash.slice(1)).get('text') === {json.dumps(TEXT + typed)}")
    settled(tab)
    assert tab.evaluate("history.length") == entries + 3  # a head, a mode, a text
    tab.click("qkv-picker .opener")
    tab.select_option("qkv-picker select[data-key$='/lm@']", "3")
    settled(tab)
    until(tab, "location.hash.includes('%403')")
    tab.evaluate("qkv.studio.set({ lang: 'zh' })")
    assert tab.evaluate("history.length") == entries + 4

    def back():
        tab.evaluate("history.back()")

    back()
    until(tab, "qkv.studio.now.model.endsWith('/lm') && qkv.studio.now.opened?.model.endsWith('/lm')")
    settled(tab)
    assert now(tab, "text") == tab.input_value("textarea") == TEXT + " cat" and now(tab, "lang") == "zh"
    tab.focus("textarea")
    back()
    until(tab, f"qkv.studio.now.text === {json.dumps(TEXT)}")
    settled(tab)
    assert tab.input_value("textarea") == TEXT and now(tab, "mode") == "heads"
    back()
    until(tab, "qkv.studio.now.mode === 'look'")
    assert now(tab, "head") == 1
    back()
    until(tab, "qkv.studio.now.head === 0")
    tab.evaluate("history.forward()")
    until(tab, "qkv.studio.now.head === 1")
    tab.wait_for_timeout(400)
    assert tab.evaluate("history.length") == entries + 4  # going back and forth adds nothing


@pytest.mark.slow
def test_a_tab_continues_after_the_studio_restarts(browser, shelf):
    running = Running(str(shelf))
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(running.address)
    until(tab, "window.qkv?.served() != null")
    port = running.client.port
    running.end()
    until(tab, "document.querySelector('qkv-notice p') !== null")
    assert str(port) in tab.inner_text("qkv-notice p")
    running = Running("--port", str(port), str(shelf))
    try:
        assert running.client.port == port
        until(tab, "qkv.studio.now.locked")
        assert "new key" in tab.inner_text("qkv-notice p")
        other = context.new_page()
        other.goto(running.address)
        until(tab, "document.querySelector('qkv-notice').hidden")  # by itself
        until(tab, "qkv.studio.now.models?.here.some(({ name }) => name.endsWith('/lm'))")
        tab.evaluate("(model) => location.assign(`#model=${model}&text=the+cat`)", quote(f"{shelf.name}/lm"))
        until(tab, "qkv.served().spec.text === 'the cat'")
        settled(tab)
    finally:
        context.close()
        running.end()


@pytest.mark.slow
def test_a_tab_of_another_version_is_to_be_reloaded(opened):
    def older(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r'"version": "[^"]+"', '"version": "0.0.1"', answer.text()))

    tab = opened(routes={"**/": older})
    until(tab, "document.querySelector('qkv-notice [data-key=reload]') !== null")
    assert "another version of qkv" in tab.inner_text("qkv-notice p")
    tab.unroute_all()
    tab.click("qkv-notice [data-key=reload]")
    until(tab, "window.qkv?.served()?.spec.text === " + json.dumps(TEXT))
    assert not tab.is_visible("qkv-notice")


@pytest.mark.parametrize(
    ("size", "mode"),
    slow_except(
        [((390, 844), "look"), ((390, 844), "compare")],
        itertools.product([(390, 844), (1024, 800)], ["look", "heads", "generate", "compare"]),
    ),
)
def test_nothing_is_wider_than_the_window(opened, size, mode):
    tab = opened(size=size, mode=mode, locale="zh-CN", scheme="dark")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_500_random_clicks_and_keys_raise_nothing(opened):
    tab = opened()
    chance = random.Random(16)
    keys = "Tab Tab Tab Enter Space ArrowDown ArrowRight ArrowLeft Escape / 0 + - Home End PageDown a t 我".split()
    for _ in range(500):
        if chance.random() < 0.5:
            key = chance.choice(keys)
            tab.keyboard.insert_text(key) if key == "我" else tab.keyboard.press(key)
        else:
            tab.mouse.click(chance.randrange(5, 1275), chance.randrange(5, 895))
    tab.evaluate("qkv.studio.set({ room: 'see', mode: 'look' })")
    tab.evaluate("qkv.settled()")
    until(tab, "document.querySelector('qkv-map')?.base.dataset.drawn")
