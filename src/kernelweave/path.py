"""The answers along a path of C, each started from the one before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .assemble import check_cost
from .estimators.base import MKLEstimator, support
from .solvers.base import on_threads


@dataclass(frozen=True)
class Path:
    """Answers along a path of C, in the order in which C was given.

    Attributes
    ----------
    C : ndarray of shape (length,)
        The costs.
    weights : ndarray of shape (length, m) or (length, n_problems, m)
        Kernel weights.
    gaps : ndarray of shape (length,)
        Certified relative duality gap, the largest of all problems.
    objectives : ndarray of shape (length,) or (length, n_problems)
        Values of the primal problems.
    n_support : ndarray of shape (length,)
        Samples with a coefficient other than zero.
    kernel_names : list of str
        Name of each kernel.
    kernel_groups : list of str or None
        Group of each kernel, None for one in no group.
    """

    C: np.ndarray
    weights: np.ndarray
    gaps: np.ndarray
    objectives: np.ndarray
    n_support: np.ndarray
    kernel_names: list[str]
    kernel_groups: list[str | None]


def path(estimator: MKLEstimator, X: Any, y: Any, C: Sequence[float], sample_weight: Any = None) -> Path:
    """Solve for several values of C, from the smallest up, each warm-started from the last.

    The kernels are computed once, and the estimator itself is left as it is.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival
        What to solve; its own C is not used, and its max_time is for all of the path.
    X, y : as for `fit`
        The training samples.
    C : sequence of float
        Costs, in any order.
    sample_weight : array of shape (n,), optional
        As for `fit`.

    Returns
    -------
    Path
        With one entry for each C, in the order given.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> along = kw.path(kw.MKLClassifier(), X[50:], y[50:], C=[0.1, 1.0, 10.0])
    >>> along.weights.shape
    (3, 10)
    >>> bool(along.gaps.max() <= 1e-3)
    True
    """
    if not isinstance(estimator, MKLEstimator):
        raise TypeError(f"estimator must be a MKLClassifier, on its own; got {type(estimator).__name__}.")
    if "C" not in estimator.get_params(deep=False):
        raise TypeError(
            f"{type(estimator).__name__} has no C of its own, and no path along it: give a MKLClassifier, MKLRegressor "
            "or MKLSurvival."
        )
    if type(estimator)._solve_all is not MKLEstimator._solve_all:
        raise TypeError(f"{type(estimator).__name__} has no path, not being one problem: fit it for each C.")
    costs = _read_costs(C)
    worker = clone(estimator).set_params(C=float(costs[0]))
    with worker._limited(time.perf_counter()):
        prepared = worker._prepare(X, y, sample_weight)
        worker._share_memory(prepared)
        walks = on_threads(lambda one: worker._along(prepared, one, costs), prepared.subproblems, worker.n_jobs)
    steps = list(zip(*walks, strict=True))  # for each C, the solutions of all problems
    worker._warn_if_loose([solution for step in steps for solution in step])
    several = slice(None) if len(prepared.subproblems) > 1 else 0
    return Path(
        C=costs,
        weights=np.array([prepared.weights(step)[several] for step in steps]),
        gaps=np.array([max(solution.gap for solution in step) for step in steps]),
        objectives=np.array([[solution.certificate.upper for solution in step] for step in steps])[:, several],
        n_support=np.array([support(prepared.coefficients(step)).shape[0] for step in steps]),
        kernel_names=prepared.assembly.names,
        kernel_groups=prepared.assembly.groups,
    )


def _read_costs(C: Sequence[float]) -> np.ndarray:
    costs = list(np.ravel(np.asarray(C, dtype=object)))
    if not costs:
        raise ValueError("C is empty: give at least one cost.")
    for cost in costs:
        check_cost("every entry of C", cost)
    return np.array(costs, dtype=float)
