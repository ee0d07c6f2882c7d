"""How stable the choice of kernels is: how often each is selected when half of the samples are left out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import local
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .arrays import to_host
from .assemble import Assembly, Fold, StoredFold, check_choice, check_cost, check_number, check_whole, fold_of, rows_of
from .assemble.complexity import LOOK, each_on_host
from .estimators.base import MKLEstimator, PreparedFit
from .grams.dense import Room
from .penalties import MixingPenalty
from .problem import Status
from .solvers.base import on_threads
from .tables import NO_GROUP, shorten, table
from .weightings import make_mixing

METHODS = ("complementary-pairs", "halves")
ALIKE = 0.9  # cosine between two centred kernels from which one can stand in for the other
DECOY = 0.95  # share of the decoys that are selected less often than their threshold


@dataclass(frozen=True)
class Stability:
    """How often kernels are selected, and how far that can be trusted.

    Attributes
    ----------
    kernel_names : list of str
        Name of each kernel.
    kernel_groups : list of str or None
        What each kernel belongs to.
    frequencies : ndarray of shape (m,)
        Share of the half samples in which each kernel has a weight, at any of the costs.
    group_frequencies : dict from str to float
        Share of them in which some kernel of a group has one.
    weights : ndarray of shape (n_resamples, m)
        Weights in each half, at the largest of the costs; means over problems where there are several.
    selected : ndarray of shape (m,) of bool
        Whether the frequency is at least the threshold.
    threshold : float
        The frequency asked for.
    average_selected : float
        Mean number of kernels with a weight in a half.
    bound : float
        Bound on the expected number of selected kernels whose frequency would be below average if the halves were drawn
        again: ``q^2 / (m (2 threshold - 1))`` with q the average number selected (Shah and Samworth 2013). It needs no
        assumption on the kernels.
    decoy_threshold : float or None
        Frequency below which 95 of 100 decoys are: kernels of samples in random order, which know nothing of targets.
    clusters : ndarray of shape (m,) of int
        Kernels with the same number stand in for one another: their centred matrices have a cosine above 0.9.
    """

    kernel_names: list[str]
    kernel_groups: list[str | None]
    frequencies: np.ndarray
    group_frequencies: dict[str, float]
    weights: np.ndarray
    selected: np.ndarray
    threshold: float
    average_selected: float
    bound: float
    decoy_threshold: float | None
    clusters: np.ndarray

    def __str__(self) -> str:
        order = np.argsort(-self.frequencies, kind="stable")
        rows = []
        for k in order:
            mark = "*" if self.selected[k] else ""
            spread = self.weights[:, k].std()
            share = f"{100 * self.frequencies[k]:.0f} %"
            numbers = [f"{self.weights[:, k].mean():.3g}", f"{spread:.2g}", str(self.clusters[k])]
            rows.append([shorten(self.kernel_names[k]) + mark, share, *numbers])
        chosen = int(self.selected.sum())
        words = [
            table(rows, ["kernel", "selected", "weight", "spread", "cluster"]),
            f"* selected in {100 * self.threshold:.0f} % of the halves or more: {chosen}, of which at most "
            f"{self.bound:.2g} are expected to be there by chance.",
        ]
        if self.decoy_threshold is not None:
            words.append(f"95 of 100 decoys are selected in {100 * self.decoy_threshold:.0f} % or less.")
        return "\n".join(words)


def stability(
    estimator: MKLEstimator,
    X: Any,
    y: Any = None,
    *,
    n_resamples: int = 50,
    method: str = "complementary-pairs",
    Cs: Sequence[float] | None = None,
    threshold: float = 0.75,
    decoys: bool = False,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Stability:
    """Fit to random halves of the samples, and count how often each kernel gets a weight.

    Kernels are computed once, on all samples; halves are parts of them, and every fit starts from the answer on all
    samples at half the cost. The estimator itself is left as it is.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival
        What to fit; its penalty should be sparse, such as "l1", and its max_time is for all halves.
    X, y : as for `fit`
        The samples.
    n_resamples : int, default=50
        Halves to fit to.
    method : {"complementary-pairs", "halves"}, default="complementary-pairs"
        Whether halves come in pairs that have no sample in common, which the bound is for.
    Cs : sequence of float, optional
        Costs: a kernel is selected in a half if it has a weight at any of them. The estimator's own C if None.
    threshold : float, default=0.75
        Frequency from which a kernel counts as selected, above one half.
    decoys : bool, default=False
        Whether to add a decoy of each kernel: that of the samples in random order. It takes twice the memory and time.
    sample_weight : array of shape (n,), optional
        As for `fit`.
    random_state : int or RandomState, optional
        Draws the halves and the order of the decoys.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    Stability
        Printed, it is a table.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from kernelweave import kernels as K
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = kw.stability(kw.MKLClassifier(K.linear(on="each")), X[50:], y[50:], n_resamples=10, random_state=0)
    >>> found.frequencies.shape, bool(found.frequencies[3] == 1.0)
    ((4,), True)
    """
    _check(estimator, n_resamples, method, threshold)
    costs = np.sort(np.atleast_1d(np.asarray(estimator.C if Cs is None else Cs, dtype=float)))
    for cost in costs:
        check_cost("every entry of Cs", float(cost))
    rng, worker = check_random_state(random_state), clone(estimator)
    with worker._limited(time.perf_counter()):
        prepared = worker._prepare(X, y, sample_weight)
        made, m = prepared.assembly, len(prepared.assembly.names)
        worker.penalty = _on_parts(worker.penalty, made, decoys)
        starts = [worker._along(prepared, one, 0.5 * costs[:1])[0].beta for one in prepared.subproblems]
        order = rng.permutation(prepared.targets.rows.shape[0]) if decoys else None
        job = _Job(worker, prepared, y, costs, order, starts)
        halves = _halves(prepared, worker, n_resamples, method, rng)
        found = on_threads(job, halves, n_jobs)
    weights = np.array(_in_time(found, worker))
    picked = np.any(weights > 0, axis=1)  # of (resamples, costs, kernels and decoys)
    real, fake = np.asarray(picked)[:, :m], np.asarray(picked)[:, m:]
    q = float(real.sum(axis=1).mean())
    frequencies = real.mean(axis=0)
    return Stability(
        kernel_names=list(made.names),
        kernel_groups=list(made.groups),
        frequencies=frequencies,
        group_frequencies=_by_group(made.groups, real),
        weights=weights[:, -1, :m],
        selected=frequencies >= threshold,
        threshold=float(threshold),
        average_selected=q,
        bound=q**2 / (m * (2.0 * threshold - 1.0)),
        decoy_threshold=float(np.quantile(fake.mean(axis=0), DECOY)) if decoys else None,
        clusters=_clusters(made),
    )


def _check(estimator: Any, n_resamples: Any, method: str, threshold: Any) -> None:
    """Refuse what makes no sense."""
    if not isinstance(estimator, MKLEstimator) or "C" not in estimator.get_params(deep=False):
        raise TypeError(
            f"estimator must be a MKLClassifier, MKLRegressor or MKLSurvival on its own, with a C; got "
            f"{type(estimator).__name__}."
        )
    if type(estimator)._solve_all is not MKLEstimator._solve_all:
        raise TypeError(f"{type(estimator).__name__} is not one problem of kernels, and has no stability.")
    check_whole("n_resamples", n_resamples)
    check_choice("method", method, METHODS)
    if n_resamples % 2 and method == "complementary-pairs":
        raise ValueError(f"n_resamples={n_resamples} is odd, and complementary pairs come in twos: use an even number.")
    check_number("threshold", threshold)
    if not 0.5 < float(threshold) <= 1.0:
        raise ValueError(f"threshold must be above one half, and 1 at most; got {threshold!r}.")


def _halves(
    prepared: PreparedFit, worker: MKLEstimator, n_resamples: int, method: str, rng: np.random.RandomState
) -> list[np.ndarray]:
    """Draw halves of the samples that count, with classes in equal shares."""
    n = prepared.targets.rows.shape[0]
    codes = to_host(prepared.targets.codes) if is_classifier(worker) else np.zeros(n, dtype=int)  # type: ignore[attr-defined]
    if is_classifier(worker) and codes.max() == 1 and min(np.bincount(codes)) < 2:
        raise ValueError("y has one sample only of a class, and each half needs one of both: give more.")
    halves: list[np.ndarray] = []
    while len(halves) < n_resamples:
        side = np.empty(n, dtype=int)
        for code in np.unique(codes):
            there = rng.permutation(np.flatnonzero(codes == code))
            side[there] = (np.arange(there.size) + rng.randint(2)) % 2
        if min(np.bincount(side, minlength=2)) == 0:
            raise ValueError("y has too few samples to be halved: give more.")
        halves += [np.flatnonzero(side == one) for one in ((0, 1) if method == "complementary-pairs" else (0,))]
    return halves


@dataclass(frozen=True)
class _Job:
    """Fits to parts of the samples."""

    worker: MKLEstimator
    prepared: PreparedFit
    y: Any
    costs: np.ndarray
    order: np.ndarray | None
    starts: list[Any]  # duals of all samples at half the first cost: each sample of a half stands for two
    rooms: local = field(default_factory=local)

    def __call__(self, rows: np.ndarray) -> np.ndarray | None:  # (costs, m), with decoys (costs, 2 m)
        """Return the weights at each cost; None where the time was up."""
        whole, worker = self.prepared, self.worker
        fold = self._fold(rows)
        y = rows_of(self.y, to_host(whole.targets.rows)[rows])
        part = copy(worker)._prepare_fold(fold, y, rows_of(whole.targets.weight, rows))
        walks = [
            worker._along(part, one, self.costs, self._start(j, rows, one)) for j, one in enumerate(part.subproblems)
        ]
        if any(solution.status is Status.MAX_TIME for walk in walks for solution in walk):
            return None
        weights = np.array([part.weights(step).mean(axis=0) for step in zip(*walks, strict=True)])
        return self._placed(weights)

    def _placed(self, weights: np.ndarray) -> np.ndarray:
        """Return weights of the kernels kept at the places of all kernels, those of decoys after them."""
        made, m = self.prepared.assembly, len(self.prepared.assembly.names)
        if weights.shape[1] == m:
            return weights
        kept, all_of = made.kept.size, np.zeros((weights.shape[0], m if self.order is None else 2 * m))
        all_of[:, made.kept] = weights[:, :kept]
        if self.order is not None:
            all_of[:, m + made.kept] = weights[:, kept:]
        return all_of

    def _start(self, j: int, rows: np.ndarray, one: Any) -> Any:
        """Return the duals of all samples' answer as those to begin with, twice as large for half as many samples."""
        whole = self.prepared.subproblems[j] if j < len(self.prepared.subproblems) else None
        if whole is None or one.rows is not None or whole.name != one.name:
            return None
        return 2.0 * rows_of(self.starts[j], rows)

    def _room(self) -> Room:
        """Return this thread's memory for halves."""
        if not hasattr(self.rooms, "own"):
            self.rooms.own = Room((self.prepared.targets.rows.shape[0] // 2 + 1) ** 2)
        return self.rooms.own

    def _fold(self, rows: np.ndarray) -> Fold:
        if self.order is None:
            return fold_of(self.prepared.assembly, rows, rows[:0], self._room())
        fold = fold_of(self.prepared.assembly, rows, rows[:0])
        if not isinstance(fold, StoredFold):
            raise ValueError("decoys=True needs kernels that are stored: leave approximation=None, or decoys=False.")
        other = fold_of(self.prepared.assembly, self.order[rows], rows[:0])
        assert isinstance(other, StoredFold)
        both = np.concatenate([fold.samples, other.samples], axis=2)
        names, groups = ([*of, *(_decoy(one) for one in of)] for of in (fold.names, fold.groups))
        prices = None if fold.prices is None else np.tile(fold.prices, 2)
        has = None if fold.has is None or other.has is None else np.hstack([fold.has, other.has])
        return StoredFold(both, fold.test, names, groups, prices, has)


def _decoy(name: Any) -> Any:
    """Return the name of a decoy, or of the group of decoys of a group."""
    return None if name is None else f"decoy of {name}"


def _on_parts(given: Any, made: Assembly, decoys: bool) -> Any:
    """Return a penalty for parts, which hold the kernels that are not zero, and their decoys: entries go or double."""
    penalty, m = make_mixing(given), len(made.names)
    if not isinstance(penalty, MixingPenalty) or (made.kept.size == m and not decoys):
        return given
    penalty = made.cut(penalty)
    if not decoys:
        return penalty
    twice = {name: _doubled(value, made.kept.size) for name, value in penalty.get_params(deep=False).items()}
    return type(penalty)(**twice)


def _doubled(value: Any, m: int) -> Any:
    """Return what holds an entry for each kernel with one for each decoy after it, words marked as theirs."""
    if np.ndim(value) != 1 or len(value) != m:
        return value
    return [*value, *(one if isinstance(one, float | np.floating) else _decoy(one) for one in value)]


def _in_time(found: Sequence[np.ndarray | None], worker: MKLEstimator) -> list[np.ndarray]:
    """Return what was fitted before the time was up, and say how much that is."""
    done = [weights for weights in found if weights is not None]
    if len(done) < len(found):
        if len(done) < 2:
            raise ValueError(f"max_time={worker.max_time:g} is over before two halves were fitted: raise it.")
        warnings.warn(
            f"max_time was reached after {len(done)} of {len(found)} halves, which the frequencies are of: raise "
            "max_time, or use fewer halves.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return done


def _by_group(groups: Sequence[str | None], picked: np.ndarray) -> dict[str, float]:
    names = [NO_GROUP if group is None else group for group in groups]
    return {
        name: float(picked[:, [k for k, one in enumerate(names) if one == name]].any(axis=1).mean())
        for name in dict.fromkeys(names)
    }


def _clusters(made: Assembly) -> np.ndarray:  # (m,)
    """Return a number for each kernel, the same for kernels that are alike on some samples; 0 for those left out."""
    n, kept = made.gram.shape
    rows = np.unique(np.linspace(0, n - 1, min(n, LOOK)).round().astype(np.int64))
    flat = np.empty((kept, rows.size**2), dtype=np.float32)
    for k, kernel in enumerate(each_on_host(made.gram, rows)):
        means = kernel.mean(axis=0)
        kernel = kernel - means[:, None] - means + means.mean()
        flat[k] = (kernel / max(float(np.linalg.norm(kernel)), 1e-300)).ravel()
    numbers = np.zeros(len(made.names), dtype=int)
    if kept == 1:
        numbers[made.kept] = 1
        return numbers
    apart = np.clip(1.0 - flat @ flat.T, 0.0, 2.0).astype(float)
    np.fill_diagonal(apart, 0.0)
    numbers[made.kept] = fcluster(linkage(squareform(apart, checks=False), "average"), 1.0 - ALIKE, "distance")
    return numbers
