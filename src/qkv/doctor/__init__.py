"""The doctor: points at attention somebody wrote and names the mistake in it.

    from qkv import assert_correct, check
    print(check(MyAttention(64, 8), heads=8))

Loaded when first used, so that the command line can start without torch.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .doctor import check as check
    from .plugin import assert_correct as assert_correct
    from .report import Finding as Finding
    from .report import Remark as Remark
    from .report import Report as Report

__getattr__, __dir__, __all__ = lazy(
    __name__, check="doctor", assert_correct="plugin", Report="report", Finding="report", Remark="report"
)
