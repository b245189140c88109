"""qkv studio: attention, live. A local web app on the page's own elements, with the model behind it.

    browser ── frames ── server.py (web process: no torch) ── frames ── worker.py (one process that holds the models)

Read in this order: `frames`, `openable`, `requests`, `worker_client`, `connections`, `server` (the web process); `worker`,
`text_views`, `loaded_models`, `handlers` (the worker). What the browser runs is in qkv/web/.
"""
