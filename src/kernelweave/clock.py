"""CPU seconds of a thread, less those it spent on compiling, which say nothing of a solver."""

from __future__ import annotations

import time
from threading import local

_APART = local()


def spent() -> float:
    """Return the CPU seconds of this thread so far, without those set apart.

    Examples
    --------
    >>> from kernelweave import clock
    >>> before = clock.spent()
    >>> clock.set_apart(1.0)
    >>> clock.spent() < before
    True
    """
    return time.thread_time() - getattr(_APART, "seconds", 0.0)


def set_apart(seconds: float) -> None:
    """Let some of the seconds of this thread not count."""
    _APART.seconds = getattr(_APART, "seconds", 0.0) + seconds
