"""Multiple kernel learning with scikit-learn's face and a duality gap for every answer."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "DenseGram": "grams",
    "Problem": "problem",
    "solve": "solvers",
    "certify": "certify",
}
_ROOMS = ("kernels", "losses", "penalties", "solvers", "grams")

__all__ = sorted([*_HOMES, *_ROOMS, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
