"""`python -m qkv`, the same as `qkv`; what `torchrun -m qkv` starts."""

import sys

from .cli import main

sys.exit(main())
