"""A fuzzer for every reader of foreign files: a damaged file loads or raises a Problem, and nothing else happens.

    damage.py     damage to files by their structure: JSON, safetensors, GGUF, protobuf, bytes
    readers.py    valid files for every reader, and how they are opened and used
    worker.py     a process that tries cases with a limit on its memory
    __main__.py   distributes cases, limits their time, reports crashes: `python -m tests.fuzz --n 10000`

A case is a reader and a seed, and is deterministic.
"""
