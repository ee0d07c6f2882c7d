"""Samples, targets and weights as arrays of another library, read where they are."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, device_of, dtype_name, is_foreign, kind_of, namespace
from .parameters import check_unmasked

FLOATS = ("float32", "float64")


def read_tensor(X: Array) -> Array:
    """Return samples as a plain (n, d) array of float32 or float64, on the device they are on, or say what is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_tensor
    >>> read_tensor(np.ones((2, 1))).shape
    (2, 1)
    """
    if getattr(X, "is_sparse", False) or getattr(X, "is_sparse_csr", False):
        raise TypeError("X is a sparse tensor: give a dense one, or a SciPy matrix.")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, (n_samples, n_features); got the shape {tuple(X.shape)}.")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"X holds no samples or no features, its shape is {tuple(X.shape)}: give at least one of each."
        )
    if dtype_name(X) not in FLOATS:
        raise TypeError(f"X must hold float32 or float64; got {dtype_name(X)}: convert it first.")
    X = X.detach() if hasattr(X, "detach") else X  # a gradient could not go through a fit
    check_finite(X, "X")
    return X


def check_together(name: str, values: Any, X: Any) -> None:
    """Refuse targets or weights with masked entries, of another library than X, or on another device."""
    check_unmasked(name, values)
    if not is_foreign(values):
        return
    if not is_foreign(X) or namespace(values) is not namespace(X):
        raise TypeError(
            f"{name} is a {kind_of(values)} and X a {kind_of(X)}: give both of one library, or {name} as a list."
        )
    if device_of(values) != device_of(X):
        raise ValueError(f"{name} is on {device_of(values)}, X on {device_of(X)}: move one to the other.")


def check_finite(values: Array, name: str) -> None:
    """Refuse NaN and infinity."""
    xp = namespace(values)
    if not xp.isdtype(values.dtype, "real floating") or xp.isfinite(xp.sum(values)):
        return
    if xp.any(xp.isnan(values)):
        raise ValueError(f"Input {name} contains NaN: fill or drop those rows.")
    if not xp.all(xp.isfinite(values)):
        raise ValueError(f"Input {name} contains infinity: replace or drop those rows.")
