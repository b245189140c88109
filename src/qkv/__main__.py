"""Entry point of `python -m qkv` and `torchrun -m qkv`."""

import sys

from .cli import main

sys.exit(main())
