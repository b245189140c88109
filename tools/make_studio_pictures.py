"""Take the screenshots of the studio for the README, docs/studio.png and docs/studio.zh-CN.png.

qkv models get smollm2 && python tools/make_studio_pictures.py        needs Debian's chromium
"""

import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
LOOK = "model=smollm2&text=The+cat+sat+on+the+mat+because+it+was+tired&part=decoder&layer=13&head=8&query=7&key=1"
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"


def main() -> None:
    """Take a screenshot in each language."""
    studio = subprocess.Popen(
        [sys.executable, "-m", "qkv", "studio", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert studio.stdout is not None
    address = re.search(r"http://\S+", studio.stdout.readline())
    assert address is not None
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
            for locale, name in (("en-US", "studio.png"), ("zh-CN", "studio.zh-CN.png")):
                tab = browser.new_page(locale=locale, viewport=dict(width=1360, height=900))
                tab.goto(address[0])
                tab.goto(f"{address[0].split('?')[0]}#{LOOK}")
                tab.reload()
                tab.wait_for_function("() => Boolean(window.qkv?.served())")
                tab.evaluate("qkv.settled()")
                tab.wait_for_timeout(3000)
                tab.screenshot(path=DOCS / name)
                print(f"{name}: {(DOCS / name).stat().st_size / 1e3:.0f} kB")
    finally:
        studio.terminate()
        studio.wait()


if __name__ == "__main__":
    main()
