"""qkv studio: attention, live. A local web app on the page's own elements, with the model behind it.

    browser ── frames ── server.py (web process: no torch) ── frames ── worker.py (one process that holds the models)

Reading order: frames, places, desk, server · worker, views, bench, answers.
"""
