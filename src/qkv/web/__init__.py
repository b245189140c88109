"""The scripts and styles of the one-file page and of qkv studio: plain ES modules, which need no build step.

`core/` has what no picture depends on (start with `state`, `dom`, `source`, `attention`, `view`), `map/` the map and what
draws on it, `steps/` the numbers of one row and the figures of the book, `page/` the entry of the one-file page, `studio/` the
live app. Imports point one way: core ← map, steps ← page, studio.
"""
