"""The three problems of rivals_exact.py, apart so that a rival in another environment can build them."""

from __future__ import annotations

import numpy as np

from common import Bank, Case, split

WIDTHS = {
    "a": 2.0 ** np.arange(-6, 7),  # 13 widths, over the number of columns
    "b": np.logspace(-3, 2, 20),  # 20 widths, over the number of columns
    "c": np.logspace(-3, 2, 20),
}
SOURCES = {"a": ("wdbc", 398, 171), "b": ("spambase", 3000, 1601), "c": ("magic", 5000, 4000)}
FAST = {"a": 120, "b": 500, "c": 700}


def make(key: str, fast: bool = False) -> Case:
    """Case "a" (wdbc, 496 kernels), "b" (spambase, 20 kernels) or "c" (magic, 20 kernels)."""
    name, n_train, n_test = SOURCES[key]
    X, y, X_test, y_test = split(name, FAST[key] if fast else n_train, n_test)
    d = X.shape[1]
    bank = Bank()
    bank.add(tuple(range(d)), WIDTHS[key] / d, degrees=(1, 2, 3) if key == "a" else ())
    for column in range(d) if key == "a" else ():
        bank.add((column,), WIDTHS[key], degrees=(1, 2, 3))
    bank.fit_scales(X)
    return Case(f"({key}) {name}, {len(y)} rows x {len(bank)} kernels", X, y, X_test, y_test, bank)
