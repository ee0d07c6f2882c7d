"""Parameters that make sense, and sentences for those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..grams import Approximation
from .complexity import read_normalize

NORMALISATIONS = ("trace", "diagonal", "center", "dimension", "tail", None)
PSD = ("check", "clip", "trust")
MISSING = ("refuse", "absent")
LEAST, MOST = 1e-60, 1e15  # costs and weights, between which products of the two still make true bounds


@dataclass(frozen=True)
class Options:
    """How kernels are brought in: scaling, definiteness, memory, features; refused here if they make no sense."""

    normalize: Any = "trace"  # a word, once it is read
    psd: str = "check"
    memory: Any = "auto"
    random_state: Any = None
    approximation: Approximation | None = None
    missing: str = "refuse"
    complexity: Any = None  # what kernels are divided by after that

    def __post_init__(self) -> None:
        word, complexity = read_normalize(self.normalize)
        check_choice("normalize", word, NORMALISATIONS)
        object.__setattr__(self, "normalize", word)
        if complexity is not None:
            object.__setattr__(self, "complexity", complexity)
        check_choice("psd", self.psd, PSD)
        try:
            check_random_state(self.random_state)
        except ValueError:
            raise ValueError(
                f"random_state must be None, a whole number or a RandomState; got {self.random_state!r}."
            ) from None
        check_choice("missing", self.missing, MISSING)
        if self.memory != "auto":
            check_number("memory", self.memory, "'auto' or a number of bytes")


def check_choice(name: str, value: Any, known: Sequence[Any]) -> None:
    """Refuse a word that is not among the known ones, and list those."""
    if not any(value is word or (isinstance(value, str) and value == word) for word in known):
        raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(map(repr, known))}.")


def check_number(name: str, value: Any, wanted: str = "a number", kind: Any = Real) -> None:
    """Refuse what is not a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {wanted}, above zero; got {value!r} of type {type(value).__name__}.")
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be {wanted}, above zero and finite; got {value!r}.")


def check_cost(name: str, value: Any) -> None:
    """Refuse what is not a positive number, or one whose square may be none."""
    check_number(name, value)
    if not LEAST <= float(value) <= MOST:
        raise ValueError(f"{name} is {value:g}, which floating point cannot work with: use {LEAST:g} to {MOST:g}.")


def check_unmasked(name: str, values: Any) -> None:
    """Refuse masked entries, whose values are anything."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries, which stand for no number: fill them, or drop those rows.")


def check_whole(name: str, value: Any) -> None:
    """Refuse what is not a whole number from 1 on."""
    check_number(name, value, "a whole number", Integral)
