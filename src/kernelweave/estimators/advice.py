"""What a fitted model should tell its owner: answers that are optimal and yet not what was wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..arrays import is_foreign, namespace
from ..assemble import EffectiveDimension, KernelAssembly
from ..kernels import Product
from ..problem import Solution
from .base import AdviceWarning, PreparedFit

MOST = 0.5  # share of the weight that counts as most of it
IDENTITY = 0.5  # effective dimension, as a share of the samples, from which a kernel is nearly the identity
NOWHERE = 0.5  # share of C that the largest dual has where C has no effect
APART = 1e3  # factor between the scales of columns from which they are too different
ENOUGH = 20  # samples from which any of this means something

__all__ = ["AdviceWarning", "advice"]


def advice(model: Any, prepared: PreparedFit, solutions: Sequence[Solution]) -> list[str]:
    """Return what there is to say of a fit, each with the way out."""
    alike = _alike(prepared)
    if alike or prepared.targets.rows.shape[0] < ENOUGH:
        return [alike] if alike else []
    found = [_scales(prepared)]
    if "C" in model.get_params(deep=False):  # and not chosen by cross-validation
        found += [_narrow(prepared, solutions), _free_of_cost(model, prepared, solutions)]
    return [sentence for sentence in found if sentence]


def _alike(prepared: PreparedFit) -> str | None:
    """Say if all samples are the same."""
    X = prepared.sample
    if X is None or is_foreign(X) or issparse(X) or X.dtype == object or X.shape[0] < 2 or np.any(X[:1] != X):
        return None
    return "X has the same values in all samples, so that nothing can be learned from it: check how it was made."


def _narrow(prepared: PreparedFit, solutions: Sequence[Solution]) -> str | None:
    """Say if most of the weight is on a kernel that fits anything."""
    assembly = prepared.assembly
    if not isinstance(assembly, KernelAssembly) or len(assembly.names) < 2:
        return None
    weights = prepared.weights(solutions).mean(axis=0)[assembly.kept]
    if not np.all(weights >= 0) or not weights.any():
        return None
    heaviest = int(np.argmax(weights))
    share = float(weights[heaviest] / weights.sum())
    if share < MOST:
        return None
    n, look = assembly.gram.shape[0], EffectiveDimension()
    size = look.sizes(assembly.gram.only(np.array([heaviest])), prepared.targets.weight)[0]
    if size < IDENTITY * n:
        return None
    return (
        f"{100 * share:.0f} % of the weight is on {assembly.names[assembly.kept[heaviest]]}, which is nearly the "
        "identity on these samples and fits any labels: choose by cross-validation (the estimators with CV), or use "
        "normalize='dimension' or wider kernels."
    )


def _free_of_cost(model: Any, prepared: PreparedFit, solutions: Sequence[Solution]) -> str | None:
    """Say if C is so large that it has no effect."""
    largest = 0.0
    for subproblem, solution in zip(prepared.subproblems, solutions, strict=True):
        loss = prepared.problem(subproblem, 1.0).loss
        if not loss.quadratic or loss.several or not loss.box.bounded or prepared.dual_sum:
            return None
        xp, terms, beta = namespace(solution.beta), loss.box, solution.beta
        if bool(xp.any(terms.ridge > 0)):
            return None
        bound = xp.where(beta > 0, terms.upper, xp.where(beta < 0, -terms.lower, 1.0 + 0.0 * beta))
        largest = max(largest, float(xp.max(xp.abs(beta) / bound)))
    if not 0.0 < largest < NOWHERE * model.C:
        return None
    return (
        f"C={model.C:g} has no effect: no sample is worth more than {largest:.2g}, so that every C above gives the "
        "same answer; try smaller ones."
    )


def _scales(prepared: PreparedFit) -> str | None:
    """Say if columns differ in scale so much that a kernel on several of them sees only some."""
    assembly = prepared.assembly
    if not isinstance(assembly, KernelAssembly) or assembly.kernels is None or issparse(assembly.X):
        return None
    X = assembly.X
    if is_foreign(X) or X.dtype == object or X.shape[1] < 2:
        return None
    several = [kernel for kernel in assembly.kernels if kernel.columns is None or len(kernel.columns) > 1]
    together = [kernel for kernel in several if not isinstance(kernel, Product)]  # whose factors may have one each
    if not together:
        return None
    spread, size = np.nanstd(X.astype(float), axis=0), np.nanmax(np.abs(X), axis=0)
    spread = spread[spread > 1e-9 * size]  # the others are constant
    if spread.size < 2 or spread.max() < APART * spread.min():
        return None
    return (
        f"Columns of X differ in scale by a factor of {spread.max() / spread.min():.0e}, and kernels on several of "
        "them see the largest only: scale X first, for example with StandardScaler."
    )
