"""The built book in a browser: no requests, no errors; both languages, dark and light, wide and narrow."""

import io

import pytest
from PIL import Image

from tests.draw.pages import FLAGS
from tools.book import checks, site

LANGUAGES = {"en": "", "zh": "zh/"}

pytestmark = pytest.mark.slow  # it builds the book first; .ci/run takes it where the book or its figures changed


@pytest.fixture(scope="module")
def built(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    site.build(folder / "site", folder / "work", verbose=False)
    return folder / "site"


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser_process = playwright.chromium.launch(executable_path=chromium, args=FLAGS.split())
        yield browser_process
        browser_process.close()


@pytest.fixture
def visit(browser, built):
    """Open a page from the disk; fail if it requests other addresses, logs an error or raises one."""
    contexts, wrong = [], []

    def go(name, scheme="light", width=1280):
        context = browser.new_context(
            color_scheme=scheme, viewport=dict(width=width, height=900), reduced_motion="reduce"
        )
        contexts.append(context)
        tab = context.new_page()
        root = built.as_uri()
        tab.on("request", lambda request: request.url.startswith((root, "data:", "blob:")) or wrong.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        tab.goto(f"{root}/{name}.html")
        return tab

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


def live_figures(tab):
    """Scroll to every frame, so that it loads, and yield each when it is ready."""
    for frame in tab.query_selector_all("figure.qkv iframe"):
        frame.scroll_into_view_if_needed()
        inside = frame.content_frame()
        inside.wait_for_selector("html[data-ready]")
        yield inside


def test_nothing_is_wrong_with_the_site(built):
    assert checks.problems(built) == []


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", site.names())
def test_a_page_opens_in_every_light(visit, name, lang):
    wide = visit(LANGUAGES[lang] + name, scheme="dark")
    assert wide.locator("h1").count() >= 1
    for inside in live_figures(wide):
        assert inside.evaluate("document.documentElement.dataset.theme") == "dark"
        assert inside.evaluate("document.documentElement.lang")[:2] == lang
    narrow = visit(LANGUAGES[lang] + name, width=390)
    for _ in live_figures(narrow):
        pass
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out on a phone"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_ground_of_their_page(visit, scheme):
    tab = visit("mechanism/scaling", scheme=scheme)
    picture = tab.locator("figure.qkv > img").first
    picture.scroll_into_view_if_needed()
    image = Image.open(io.BytesIO(picture.screenshot())).convert("L")
    background = max(image.getcolors())[1]
    assert background > 240 if scheme == "light" else background < 30
    tab.emulate_media(media="print")
    assert picture.evaluate("img => getComputedStyle(img).filter") == "none", "paper is white"


def test_the_switch_keeps_the_page(visit):
    tab = visit("mechanism/softmax")
    tab.click("a.qkv-language")
    tab.wait_for_url("**/zh/mechanism/softmax.html")
    assert "份额" in tab.text_content("h1")
    tab.click("a.qkv-language")
    tab.wait_for_url("**/site/mechanism/softmax.html")


@pytest.mark.parametrize(("lang", "word"), [("en", "softmax"), ("zh", "注意力")], ids=["English", "Chinese"])
def test_search_finds_words_of_both_languages_from_the_disk(visit, lang, word):
    tab = visit(LANGUAGES[lang] + "mechanism/softmax")
    tab.keyboard.press("/")
    tab.wait_for_timeout(500)
    tab.keyboard.type(word)
    marked = tab.locator("a mark")
    marked.nth(3).wait_for()
    assert {text.lower() for text in marked.all_inner_texts()} == {word}


def test_without_scripts_there_is_a_still_picture_or_a_table(browser, built):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((built / "mechanism" / "softmax.html").as_uri())
    stills = tab.locator("figure.qkv .still")
    assert stills.count() == 2 and all(stills.nth(i).is_visible() for i in range(2))
    assert not tab.locator("figure.qkv iframe").first.is_visible()
    context.close()
