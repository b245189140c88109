"""The whole corpus: attention with known mistakes, and attention that is right."""

from .cases_faulty import FAULTY
from .cases_right import ODD, RIGHT

__all__ = ["FAULTY", "ODD", "RIGHT"]
