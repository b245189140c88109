"""Attention as pictures: in a terminal (terminal.py), with matplotlib (plots.py), as one offline page (page.py)."""
