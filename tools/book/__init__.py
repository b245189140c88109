"""The book: chapters in two languages, whose every number is computed when it is built.

A chapter is three files side by side: `softmax.md`, `softmax.zh-CN.md` and `softmax.py`. The script is run once for both
languages (cells.py); the pages quote what it printed, drew and computed (pages.py); zensical makes the site (site.py).

    make docs            build into site/, refuse what is stale, missing or broken
    make docs-all        the same after computing the slow cells anew
    make docs-serve      look at it
"""
