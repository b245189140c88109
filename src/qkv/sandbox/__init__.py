"""Runs other people's code in a process of its own, with limits. Used by `qkv check` and by the exercises.

Read in this order: `child` (the parent's side), `child_main` (the process itself), `confine`, `audit`, `guard`.
"""
