"""Fixtures: a browser, and pages and elements opened in it."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from qkv.draw.page import page
from tests.draw.pages import FLAGS, WEB, make_trace, until


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield chromium_browser
        chromium_browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the page of a trace; fail if it requests, logs or raises anything."""
    contexts, errors = [], []

    def open_tab(source, *, script="", ready=True, locale="en-US", scheme="light", size=(1280, 800), **options):
        path = source if isinstance(source, Path) else page(source, tmp_path / f"{len(contexts)}.html", **options)
        context = browser.new_context(
            locale=locale, color_scheme=scheme, viewport=dict(width=size[0], height=size[1]), reduced_motion="reduce"
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: request.url == path.as_uri() or errors.append(request.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: message.type == "error" and errors.append(message.text))
        tab.on("dialog", lambda dialog: errors.append(dialog.message))
        if script:
            tab.add_init_script(script)
        tab.goto(path.as_uri())
        if ready:
            tab.wait_for_selector("html[data-ready]")
            until(tab, "document.querySelector('qkv-map').base.dataset.drawn")
            until(
                tab,
                "['qkv-lines', 'qkv-steps'].every((name) => document.querySelector(name)?.querySelector('h2') !== null)",
            )
        return tab

    open_tab.errors = errors
    yield open_tab
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="module")
def long():
    return make_trace(n=4000, heads=2, groups=1, width=16, layers=6, batch=1)


ROOM = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,"><title>elements</title>
<link rel="stylesheet" href="core/style.css"><body><main style="display: block"></main></body></html>"""


@pytest.fixture
def elements(browser):
    """Serve the elements as modules with the test sources of sources.js; fail on any error."""
    contexts, errors = [], []

    def serve(route):
        name = urlsplit(route.request.url).path[1:]
        path = next((path for path in (WEB / name, Path(__file__).parent / name) if name and path.is_file()), None)
        if not name:
            route.fulfill(body=ROOM, content_type="text/html")
        elif path is None:
            errors.append(route.request.url)
            route.abort()
        else:
            route.fulfill(path=path, content_type="text/css" if name.endswith(".css") else "text/javascript")

    def open_tab(script, *, size=(1280, 800), scheme="light", dots=1):
        context = browser.new_context(
            color_scheme=scheme,
            viewport=dict(width=size[0], height=size[1]),
            reduced_motion="reduce",
            device_scale_factor=dots,
        )
        contexts.append(context)
        context.route("**/*", serve)
        tab = context.new_page()
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("console", lambda message: message.type == "error" and errors.append(message.text))
        tab.goto("http://elements.test/")
        tab.evaluate(
            """async () => { for (const name of ["core/state", "core/view", "core/source", "sources", "core/dom", "map/map", "map/overview",
                "map/lines", "steps/steps", "map/map_export", "map/tiled_map"]) Object.assign(window, await import(`./${name}.js`)) }"""
        )
        tab.evaluate(script)
        return tab

    open_tab.errors = errors
    yield open_tab
    for context in contexts:
        context.close()
    assert errors == []
