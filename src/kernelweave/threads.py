"""Several threads for loops that read many entries: one pool, no threads within threads.

Compiled loops and large operations of NumPy release Python's lock, so threads of a pool run them side by side. BLAS has
a pool of its own, whose threads can take milliseconds to wake up for a product that takes a tenth of one, so solvers
leave it one thread and divide themselves what is large, but for factors of matrices. `OMP_NUM_THREADS` and
`NUMBA_NUM_THREADS` say how many threads there are.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

LARGE = 4_000_000  # entries from which a second thread saves more than its start costs
PIECES = 16  # into which sums of many entries are divided
PIECE = 100_000  # entries of a piece of work from which it may be done on another thread

_pool: tuple[int, ThreadPoolExecutor] | None = None  # threads, pool
_lock = threading.Lock()
_limits: list[Any] = []  # on the threads of BLAS, one for each that asked
_blas: Any = None


def count() -> int:
    """Return how many threads a loop may have: one where it runs on a thread of somebody's pool itself."""
    if threading.current_thread() is not threading.main_thread():
        return 1
    asked = [os.environ.get(name, "").split(",")[0] for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
    return max(1, min([cores(), *(int(number) for number in asked if number.strip().isdecimal())]))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[int, int], Any], size: int, entries: int, step: int | None = None) -> list[Any]:
    """Call ``work(first, last)`` on ranges that make up ``range(size)``, on as many threads as ``entries`` pay for.

    Of several threads, each has ranges of a ``step`` at most. An error on one of them ends the others before their next
    range, and nothing is at work any more when it is told.
    """
    threads = min(count(), size, entries // (LARGE // 2))
    if threads < 2:
        return [work(0, size)]
    length, over, ignored = step or size, threading.Event(), np.geterr()

    def some(first: int, last: int) -> list[Any]:
        ranges = ((begin, min(begin + length, last)) for begin in range(first, last, length))
        with np.errstate(**ignored):
            return [work(*ends) for ends in ranges if not over.is_set()]

    edges = [size * part // threads for part in range(threads + 1)]
    pool = _threads(threads)
    others = [pool.submit(some, first, last) for first, last in pairwise(edges[1:])]
    try:
        return some(edges[0], edges[1]) + [made for other in others for made in other.result()]
    finally:
        over.set()
        wait(others)


def summed(work: Callable[[int, int], Any], edges: np.ndarray, entries: int) -> Any:
    """Return the sum of ``work`` on the ranges between ``edges``, the same however many threads there are.

    Floating-point sums depend on the order, so it is that of the ranges.
    """

    def some(first: int, last: int) -> list[Any]:
        return [work(*edges[j : j + 2]) for j in range(first, last)]

    return np.sum([made for part in spread(some, edges.size - 1, entries) for made in part], axis=0)


def _threads(threads: int) -> ThreadPoolExecutor:
    """Return the pool, or a larger one."""
    global _pool
    with _lock:
        if _pool is None or _pool[0] < threads:
            _pool = (threads, ThreadPoolExecutor(threads, thread_name_prefix="kernelweave"))
        return _pool[1]


def in_order(work: Callable[[Any], Any], items: Iterable[Any], entries: int, most: int) -> Iterator[Any]:
    """Yield ``work`` of each item in their order, on other threads, ``most`` at most, if one has so many ``entries``.

    As many are done or under way at a time, and one more.
    """
    threads = min(count(), most) if entries >= PIECE else 1
    if threads < 2:
        yield from map(work, items)
        return
    pool, ahead, ignored = _threads(threads), deque[Future[Any]](), np.geterr()

    def apart(item: Any) -> Any:
        with np.errstate(**ignored):
            return work(item)

    try:
        for item in items:
            ahead.append(pool.submit(apart, item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()


@contextmanager
def one_for_blas() -> Iterator[None]:
    """Leave BLAS one thread, in the whole process, until the last of those that asked for it is done."""
    global _blas
    with _lock:
        if not _limits:
            if _blas is None:
                import scipy.linalg  # noqa: F401  it has a BLAS of its own, which is to be found
                from threadpoolctl import ThreadpoolController

                _blas = ThreadpoolController().select(user_api="blas")
            _limits.append(_blas.limit(limits=1))
        else:
            _limits.append(None)
    try:
        yield
    finally:
        with _lock:
            if len(_limits) == 1:
                _limits[0].restore_original_limits()
            if _limits:  # none in a process that was forked off meanwhile
                _limits.pop()


def _forget() -> None:
    """Forget, in a process that was forked off, what threads of the other hold: none of them is here."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None
    _limits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
