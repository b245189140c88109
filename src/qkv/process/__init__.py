"""The process that qkv runs in: its standard streams, its memory, and ending together with its parent.

Read in this order: `streams`, `memory`, `lifeline`.
"""
