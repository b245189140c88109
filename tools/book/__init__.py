"""The book: chapters in two languages. Every number is computed at build time.

A chapter is three files side by side: `softmax.md`, `softmax.zh-CN.md` and `softmax.py`. The script runs once for both
languages (cells.py); pages quote its output, figures and values (pages.py); zensical builds the site (site.py).

    make docs            build into site/; fail if something is stale, missing or broken
    make docs-all        the same, and run the slow cells
    make docs-serve      build and serve
"""
