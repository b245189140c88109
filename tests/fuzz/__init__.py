"""One fuzzer for every reader of foreign files: each damaged file gets a sentence or loads, and nothing else happens.

    damage.py     what can happen to a file, from its structure: JSON, safetensors, GGUF, protobuf, bytes
    readers.py    a good example for every reader, and how it is opened and used
    worker.py     a process that tries cases with a limit on its memory
    __main__.py   hands out the cases, guards the time, names crashes: `python -m tests.fuzz --n 10000`

A case is a reader and a seed, and is the same every time.
"""
