"""Several threads for loops that read many entries: one pool, no threads within threads.

Compiled loops release Python's lock, so threads of a pool run them side by side. BLAS has a pool of its own, which is
never used at the same time as this one. `OMP_NUM_THREADS` and `NUMBA_NUM_THREADS` say how many threads there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from numba import config

LARGE = 4_000_000  # entries from which a second thread saves more than its start costs

_pool: tuple[int, int, ThreadPoolExecutor] | None = None  # process, threads, pool
_lock = threading.Lock()


def count() -> int:
    """Return how many threads a loop may have: one where it runs on a thread of somebody's pool itself."""
    if threading.current_thread() is not threading.main_thread():
        return 1
    most = int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(most, int(asked))) if asked.isdigit() else most


def spread(work: Callable[[int, int], Any], size: int, entries: int) -> list[Any]:
    """Call ``work(first, last)`` on ranges that make up ``range(size)``, on as many threads as ``entries`` pay for."""
    threads = min(count(), size, entries // (LARGE // 2))
    if threads < 2:
        return [work(0, size)]
    edges = [size * part // threads for part in range(threads + 1)]
    pool = _threads(threads)
    others = [pool.submit(work, first, last) for first, last in pairwise(edges[1:])]
    return [work(edges[0], edges[1]), *(other.result() for other in others)]


def _threads(threads: int) -> ThreadPoolExecutor:
    """Return the pool, a new one in a process that was forked off, where the threads of the old one are not."""
    global _pool
    with _lock:
        if _pool is None or _pool[0] != os.getpid() or _pool[1] < threads:
            _pool = (os.getpid(), threads, ThreadPoolExecutor(threads, thread_name_prefix="kernelweave"))
        return _pool[2]
