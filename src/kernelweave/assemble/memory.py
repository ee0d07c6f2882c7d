"""Whether kernels fit in memory, known before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import free_bytes, is_foreign, readable
from ..chunks import Chunks, cluster_memory
from ..grams import FactorProducts

SHARE = 0.8  # of the memory available, how much "auto" lets the kernels take
CACHE_SHARE = 0.5  # the same for columns kept of kernels that are not stored
FEATURES_SHARE = 0.65  # the same for features, beside which solvers keep products of half their size
GROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # where Linux says what containers may use
LIMITS = {  # files of a control group by version: its limit, what is in use, and what of that is files kept in memory
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
UNLIMITED = 2.0**60  # bytes from which a limit is none: version 1 writes the largest whole number
BUFFER = 16 * 2**20  # bytes of kernel entries computed at a time


def check_memory(shape: tuple[int, ...], dtype: Any, memory: Any = "auto") -> None:
    """Refuse, before anything is allocated, a stack that would not fit.

    Parameters
    ----------
    shape : tuple of int
        Of the stack, (n, n, m).
    dtype : dtype
        Of its entries.
    memory : "auto" or number, default="auto"
        Bytes allowed; "auto" is a share of what is available now.

    Examples
    --------
    >>> from kernelweave.assemble import check_memory
    >>> check_memory((100, 100, 3), "float64", memory=1e6)
    """
    need, allowed = _bytes(shape, dtype), _allowed(memory, SHARE)
    if need <= allowed:
        return
    halve = ", X as float32" if np.dtype(dtype) == np.float64 else ""
    raise ValueError(
        f"The kernels would take {readable(need)} ({shape[2]} of {shape[0]} x {shape[1]} samples, "
        f"{np.dtype(dtype).name}), but memory={memory!r} allows {readable(allowed)}: "
        f"use fewer kernels or rows{halve}, or a larger memory= in bytes."
    )


def fits(shape: tuple[int, ...], dtype: Any, memory: Any = "auto") -> bool:
    """Whether a stack of this shape may be stored; the same bytes as `check_memory` allows."""
    return _bytes(shape, dtype) <= _allowed(memory, SHARE)


def cache_bytes(memory: Any = "auto") -> float:
    """Return the bytes that columns may take when not all of them can be kept."""
    return _allowed(memory, CACHE_SHARE)


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return int(np.prod([int(length) for length in shape], dtype=object)) * np.dtype(dtype).itemsize


def _allowed(memory: Any, share: float) -> float:
    return available_memory() * share if memory == "auto" else float(memory)


def allowed_features(X: Any, memory: Any = "auto") -> float:
    """Return the bytes that features of X may take, on the device of X."""
    if memory != "auto":
        return float(memory)
    workers = cluster_memory() if isinstance(X, Chunks) else None
    if workers is not None:
        return workers
    free = free_bytes(X) if is_foreign(X) else None
    return FEATURES_SHARE * (available_memory() if free is None else free)


def check_products_memory(gram: FactorProducts, memory: Any = "auto") -> None:
    """Refuse products of features that would not fit, before they are formed."""
    allowed, (n, _) = _allowed(memory, FEATURES_SHARE), gram.shape
    if gram.nbytes > allowed:
        raise ValueError(
            f"The products of features would take {readable(gram.nbytes)} ({n} samples, {gram.width} products), but "
            f"memory={memory!r} allows {readable(allowed)}: use a smaller rank in approximation=, fewer kernels, or a "
            "larger memory= in bytes."
        )


def available_memory() -> float:
    """Return the bytes of memory that could be had now; infinity where the system does not say.

    Examples
    --------
    >>> from kernelweave.assemble import available_memory
    >>> available_memory() > 0
    True
    """
    return min([_of_machine(), *_of_container()])


def _of_machine() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return np.inf


def _of_container(groups: Path = GROUPS, own: Path = OWN_GROUP) -> list[float]:
    """Return what is left of the limits of this process's control groups, of either version; empty without limits."""
    try:
        paths = [line.strip().split(":", 2) for line in own.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return []
    left = []
    for _, controllers, path in (fields for fields in paths if len(fields) == 3):
        version = 1 if "memory" in controllers.split(",") else 2
        if version == 2 and controllers:
            continue
        root = groups / "memory" if version == 1 else groups
        place = root / path.lstrip("/")
        for folder in [place, *place.parents]:
            left += _left(folder, *LIMITS[version])
            if folder == root:
                break
    return left


def _left(folder: Path, limit: str, usage: str, cached: str) -> list[float]:
    """Return the limit of a control group less what is in use and could not be given back; empty without a limit."""
    try:
        allowed, used = (float((folder / name).read_text()) for name in (limit, usage))  # a limit may be "max"
        lines = (folder / "memory.stat").read_text().splitlines()
        spare = next((float(line.split()[1]) for line in lines if line.split()[0] == cached), 0.0)
    except (OSError, ValueError, IndexError):
        return []
    return [max(allowed - used + spare, 0.0)] if allowed < UNLIMITED else []


def rows_at_a_time(stack: np.ndarray) -> int:
    return max(1, BUFFER // (stack.itemsize * stack.shape[1] * max(stack.shape[2], 1)))


def row_blocks(stack: np.ndarray) -> Iterator[slice]:
    n, step = stack.shape[0], rows_at_a_time(stack)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
