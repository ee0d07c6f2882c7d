"""The command line: ``kernelweave demo``, ``fit``, ``predict``, ``info``, ``report`` and ``recipes``.

Every command returns 0 when it did what was asked and 2, with one sentence on standard error, when the
request, a file or a value is wrong. Anything else is a defect and shows as one, with a traceback and 1.
"""

from .base import CommandError
from .commands import main
from .specs import parse_kernels

__all__ = ["CommandError", "main", "parse_kernels"]
