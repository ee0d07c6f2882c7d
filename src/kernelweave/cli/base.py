"""What every part of the command line needs: how to refuse, and how to list names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class CommandError(Exception):
    """What was asked cannot be done; the message says why and what to change."""


@contextmanager
def asked() -> Iterator[None]:
    """Report what the library refuses as a request that cannot be met."""
    try:
        yield
    except (ValueError, MemoryError, ModuleNotFoundError) as error:
        raise CommandError(str(error)) from error


def few(names: Any, most: int = 8) -> str:
    """Write names one after another, not too many."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
