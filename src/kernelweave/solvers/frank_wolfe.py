"""Frank-Wolfe on the weights of all pairs of kernels: SVMs on squares of weighted sums of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..certify import certify
from ..grams import DenseGram, FactorProducts, GramStack, ProductStack
from ..grams.energies import Energies, length
from ..losses.base import DualTerms
from ..problem import Certificate, Point, Problem, Solution, Status
from .base import TINY, Solver, first_duals, solve_quietly, unit_of
from .svm import SETTINGS as SVM
from .svm import combined, on_features, on_kernel, smo


@dataclass(frozen=True)
class FrankWolfeSettings:
    """Constants of Frank-Wolfe; violations are in units of the slopes."""

    first: float = 0.1  #: times tol: violation that SVMs are asked for at first
    sharper: float = 0.2  #: factor of the violation where that is not enough
    behind: float = 0.3  #: share of the gap due to the weights below which SVMs are asked for more
    least: float = 1e-15  #: violation below which floating point has no more to give
    close: float = 1e-12  #: relative gap of the weights at which points are judged, on problems of TINY size
    unjudged: int = 60  #: most SVMs in a row that are not judged, there
    power: float = 1.0  #: of the ratios in the first step by them
    fall: float = 0.5  #: factor of the power where a step is refused
    rise: float = 1.2  #: factor of the power where a step is taken
    steepest: float = 1e3  #: the largest power
    tied: float = 1e-6  #: relative width of the bracket of the largest energy from which its weights are not known
    faint: float = 1e-2  #: of the largest ratio: the least that is told from zero
    floor: float = 1e-3  #: times tol: share that all kernels together keep, so that each can come back
    few: int = 2000  #: samples up to which SVMs with a bias that SMO is not for are trained on features from the start
    many: int = 5000  #: steps of a solver on products of features, at most
    spent: float = 1e-6  #: relative gap of an SVM that did not get there from which the next are trained on features
    least_gap: float = 1e-11  #: relative gap below which solvers of SVMs are not asked to go
    rounding: float = 1e-13  #: relative difference of energies that says nothing
    trim: float = 1e-6  #: share of a kernel below which it gets weight zero in the end


SETTINGS = FrankWolfeSettings()


@dataclass
class FrankWolfeState:
    """The SVM at the weights tried last, and where these came from.

    The step was from ``anchor`` to the eigenvector of its energies, or, where ``power`` is finite, by that power of the
    ``ratios`` there.
    """

    box: DualTerms | None  # where SMO trains the SVMs,
    unit: float  # and the size of their slopes
    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    asked: float  # the gap that the fit is to reach,
    tol: float  # that it works towards,
    eps: float  # and what SVMs are asked for
    energies: Any = None  # the Energies of the duals
    anchor: np.ndarray | None = None  # (m,)
    ratios: np.ndarray | None = None  # (m,)
    power: float = np.inf
    unjudged: int = 0
    met: bool = True  # whether the last SVM came to what it was asked for, or as far as floating point lets it
    spent: bool = False  # whether SVMs are trained on features
    least: float = SETTINGS.least  # the least that SVMs can be asked for


class FrankWolfe(Solver):
    """Support vector machines on products of kernels, the weights of all pairs by Frank-Wolfe steps.

    Each step trains one SVM on the elementwise square of ``K_u = sum_a u_a K_a``, from the duals of the last one,
    by this library's SMO. The energies ``M`` of its duals have a largest eigenvector, and there the weights go, all
    the way, unless the SVM at that place would rather have the old weights. That happens where several eigenvalues are
    about as large as the largest; then the shares ``u_a^2`` go by a power of their ratios ``(M u)_a / u_a`` instead,
    the more carefully the more often it happens. A step is an SVM, so ``n_iter_`` counts SVMs.

    SMO is for losses with a quadratic dual and a bias. Elsewhere an SVM is a problem of its own with one kernel, which
    `solve` hands to the solver that "auto" chooses, with the last duals to begin with. So it is with kernels of low
    rank, D columns in all, whose square has the D (D + 1) / 2 products of columns as its features, where these are at
    most half as many as the samples. Where SVMs do not get there in reasonable time, as with huge costs, they are
    trained on features of the combined kernel by interior points. Losses with several decision values for a sample are
    not taken.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(penalty="spectral", solver=kw.solvers.FrankWolfe()).solver.name
    'frank-wolfe'
    """

    name = "frank-wolfe"
    needs = (ProductStack,)
    takes = ("any",)
    biasless = True
    summed = True
    precise = 1e-10

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> FrankWolfeState:
        gram = _products(problem)
        n, m = gram.shape
        box = problem.loss.box if problem.bias and problem.loss.quadratic and not gram.explicit else None
        beta = first_duals(problem) if start is None else start.copy()
        weights = np.full(m, m ** (-1.0 / gram.degree))
        if beta.any():
            weights = problem.penalty.weights(gram.energies(beta))
        unit = 1.0 if box is None else unit_of(problem)
        close = min(tol, SETTINGS.close) if n <= TINY and box is not None else tol
        state = FrankWolfeState(box, unit, weights, beta, np.zeros(n), tol, close, SETTINGS.first * close)
        state.spent = box is None and problem.bias and not gram.explicit and n <= SETTINGS.few
        return state

    def step(self, problem: Problem, state: FrankWolfeState) -> bool:
        if state.energies is not None:
            _move(problem, state)
        try:
            _train(problem, state, max(state.eps, state.least))
        finally:
            self.refresh(problem, state)
        state.unjudged += 1
        most = state.energies.top.lower
        precise = most - _energy(state.energies, state.weights) <= state.tol * most
        return state.beta.size > TINY or precise or state.spent or state.unjudged >= SETTINGS.unjudged

    def read(self, problem: Problem, state: FrankWolfeState) -> Point:
        return Point(state.beta.copy(), state.weights.copy(), state.energies, state.f.copy())

    def adapt(self, problem: Problem, state: FrankWolfeState, certificate: Certificate) -> Status | None:
        state.unjudged = 0
        if not state.met:
            return None
        mixing = problem.penalty.value(state.energies) - 0.5 * _energy(state.energies, state.weights)
        if mixing > SETTINGS.behind * (certificate.upper - certificate.lower):
            return None
        state.eps *= SETTINGS.sharper
        return Status.STALLED if state.eps < state.least else None

    def refresh(self, problem: Problem, state: FrankWolfeState) -> None:
        state.energies = _products(problem).energies(state.beta, near=state.weights)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Offer the weights without those that are next to nothing."""
        degree = _products(problem).degree
        kept = np.where(point.weights**degree > SETTINGS.trim, point.weights, 0.0)
        if not kept.any() or kept.all():
            return []
        return [Point(point.beta, kept / length(kept, degree))]


def _products(problem: Problem) -> ProductStack:
    """Return the products of kernels of a problem, as the solver's needs say."""
    assert isinstance(problem.gram, ProductStack)
    return problem.gram


def _train(problem: Problem, state: FrankWolfeState, eps: float) -> None:
    """Train an SVM on the combined kernel, by SMO to a violation of ``eps``, else to a relative gap of it."""
    gram, rough = _products(problem), max(eps, SETTINGS.least_gap)
    if isinstance(gram, FactorProducts) and gram.explicit:
        found = _solved(problem, state, gram.features(state.weights), rough, SETTINGS.many)
        _take(state, found, gram.decision(found.beta, state.weights))
        return
    kernel = combined(gram, state.weights)
    square = DenseGram(kernel[:, :, None])
    if state.box is not None and not state.spent:
        beta, state.met = smo(kernel, state.box, state.beta, eps * state.unit)
        state.beta = problem.feasible(beta)
        state.f = kernel @ state.beta
    else:
        few = SVM.steps
        found = on_features(problem, kernel, rough) if state.spent else _solved(problem, state, square, rough, few)
        _take(state, found, kernel @ found.beta)
    if not state.met and not state.spent:
        alone = certify(on_kernel(problem, square), Point(state.beta, np.ones(1), f=state.f))
        if alone.gap > SETTINGS.spent:
            state.spent, state.least, state.tol = True, SETTINGS.least, state.asked
            state.eps = SETTINGS.first * state.asked


def _solved(problem: Problem, state: FrankWolfeState, gram: GramStack, eps: float, most: int) -> Solution:
    """Return an SVM on one kernel to a relative gap of ``eps``, by the solver that "auto" chooses for it."""
    return solve_quietly(on_kernel(problem, gram), tol=eps, start=state.beta, max_iter=most)


def _take(state: FrankWolfeState, found: Solution, f: np.ndarray) -> None:
    """Go on with an SVM; one that did not come to what it was asked for is not asked for more."""
    state.beta, state.f = found.beta, f
    state.met = found.converged
    if not state.met:
        state.least = max(state.least, found.gap)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def _energy(energies: Energies, weights: np.ndarray) -> float:
    """Return ``beta' (K_u o K_u) beta``."""
    return float(weights @ energies.pull(weights))


def _move(problem: Problem, state: FrankWolfeState) -> None:
    """Go on from the weights tried, or back from them and on with more care."""
    anchor, degree = state.anchor, _products(problem).degree
    here = (1.0 + SETTINGS.rounding) * _energy(state.energies, state.weights)
    if anchor is not None and _energy(state.energies, anchor) > here:
        state.power = min(SETTINGS.power, SETTINGS.fall * state.power)  # seen from the anchor, the objective rises here
    else:
        floor = SETTINGS.floor * state.tol / state.weights.size
        state.anchor = anchor = np.maximum(state.weights, floor ** (1.0 / degree))
        ratios = state.energies.pull(anchor) / anchor ** (degree - 1)
        state.ratios = np.maximum(ratios / max(float(ratios.max()), 1e-300), SETTINGS.faint)
        top = state.energies.top
        tied = top.upper - top.lower > SETTINGS.tied * top.upper
        state.power = SETTINGS.power if tied and np.isinf(state.power) else SETTINGS.rise * state.power
        state.power = state.power if np.isinf(state.power) else min(state.power, SETTINGS.steepest)
        if np.isinf(state.power):
            state.weights = top.weights
            return
    assert state.ratios is not None
    shares = anchor**degree * state.ratios**state.power
    state.weights = (shares / shares.sum()) ** (1.0 / degree)
