"""Frank-Wolfe on the weights of all pairs of kernels: machines on squares of weighted sums of kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..certify import certify
from ..grams import DenseGram, GramStack
from ..losses.base import BoxQuadratic
from ..penalties import Fixed, SpectralNorm
from ..penalties.spectral import Energies, length
from ..problem import Certificate, Point, Problem, Solution, Status
from .base import TINY, Solver, solve_quietly
from .machines import STEPS, combined, on_features, smo

PRECISE = 1e-12  # relative gap to which problems of TINY size are solved
UNJUDGED = 60  # most machines in a row that are not judged, there
FIRST = 0.1  # times tol: violation that machines are asked for at first
BEHIND = 0.3  # share of the gap due to the weights below which machines are asked for more
LEAST_EPS = 1e-15  # violation below which floating point has no more to give
POWER = 1.0  # of the ratios in the first step by them,
FALL, RISE = 0.5, 1.2  # and its factors where a step is refused and where one is taken
STEEPEST = 1e3  # the largest power
TIED = 1e-6  # relative width of the bracket of the largest energy from which its weights are not known
FAINT = 1e-2  # of the largest ratio: the least that is told from zero
FLOOR = 1e-3  # times tol: share that all kernels together keep while steps go by ratios, so that each can come back
FEW = 2000  # samples up to which machines with a bias that SMO is not for are trained on features from the start
MANY = 5000  # steps of a solver on products of features, at most
SPENT = 1e-6  # relative gap of a machine that did not get there above which the next ones are trained on features
LEAST_GAP = 1e-11  # relative gap below which solvers of machines are not asked to go
TRIM = 1e-6  # share of a kernel below which it gets weight zero in the end


@dataclass
class FrankWolfeState:
    """The machine at the weights tried last, and where these came from.

    The step was from ``anchor`` to the eigenvector of its energies, or, where ``power`` is finite, by that power of the
    ``ratios`` there.
    """

    box: BoxQuadratic | None  # where SMO trains the machines
    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    asked: float  # the gap that the fit is to reach,
    tol: float  # that it works towards,
    eps: float  # and what machines are asked for
    energies: Any = None  # the Energies of the duals
    anchor: np.ndarray | None = None  # (m,)
    ratios: np.ndarray | None = None  # (m,)
    power: float = np.inf
    unjudged: int = 0
    met: bool = True  # whether the last machine came to what it was asked for, or as far as floating point lets it
    spent: bool = False  # whether machines are trained on features
    least: float = LEAST_EPS  # the least that machines can be asked for


class FrankWolfe(Solver):
    """Support vector machines on products of kernels, the weights of all pairs by Frank-Wolfe steps.

    Each step trains one machine on the elementwise square of ``K_u = sum_a u_a K_a``, from the duals of the last one,
    by this library's SMO. The energies ``M`` of its duals have a largest eigenvector, and there the weights go, all
    the way, unless the machine at that place would rather have the old weights. That happens where several
    eigenvalues are about as large as the largest; then the shares ``u_a^2`` go by a power of their ratios
    ``(M u)_a / u_a`` instead, the more carefully the more often it happens. A step is a machine, so ``n_iter_`` counts
    machines.

    SMO is for losses with a quadratic dual and a bias. Elsewhere a machine is a problem of its own with one kernel,
    which `solve` hands to the solver that "auto" chooses, with the last duals to begin with. So it is with kernels of
    low rank, D columns in all, whose square has the D (D + 1) / 2 products of columns as its features, where these are
    at most half as many as the samples. Where machines do not get there in reasonable time, as with huge costs, they
    are trained on features of the combined kernel by interior points. Joint margins of several classes are not taken.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(penalty="spectral", solver=kw.solvers.FrankWolfe()).solver.name
    'frank-wolfe'
    """

    name = "frank-wolfe"
    needs = ("combine", "energies")
    needs_quadratic = False
    biasless = True

    def refuse(self, problem: Problem) -> str | None:
        if not isinstance(problem.penalty, SpectralNorm):
            return f"weighs pairs of kernels, which {problem.penalty} does not: use solver='auto'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> FrankWolfeState:
        n, m = problem.gram.shape
        pairs = problem.bias and hasattr(problem.loss, "quadratic") and not problem.gram.explicit
        box = problem.loss.quadratic(problem.y, problem.C) if pairs else None
        beta = np.zeros(n) if start is None else start.copy()
        weights = np.full(m, m ** (-1.0 / problem.gram.degree))
        if beta.any():
            weights = problem.penalty.weights(problem.gram.energies(beta))
        close = min(tol, PRECISE) if n <= TINY and box is not None else tol
        state = FrankWolfeState(box, weights, beta, np.zeros(n), tol, close, FIRST * close)
        state.spent = box is None and problem.bias and not problem.gram.explicit and n <= FEW
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
        return state.beta.size > TINY or precise or state.spent or state.unjudged >= UNJUDGED

    def read(self, problem: Problem, state: FrankWolfeState) -> Point:
        return Point(state.beta.copy(), state.weights.copy(), state.energies, state.f.copy())

    def heed(self, problem: Problem, state: FrankWolfeState, certificate: Certificate) -> Status | None:
        state.unjudged = 0
        if not state.met:
            return None
        mixing = problem.penalty.value(state.energies) - 0.5 * _energy(state.energies, state.weights)
        if mixing > BEHIND * (certificate.upper - certificate.lower):
            return None
        state.eps *= 0.2
        return Status.STALLED if state.eps < state.least else None

    def refresh(self, problem: Problem, state: FrankWolfeState) -> None:
        state.energies = problem.gram.energies(state.beta, near=state.weights)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Offer the weights without those that are next to nothing."""
        degree = problem.gram.degree
        kept = np.where(point.weights**degree > TRIM, point.weights, 0.0)
        if not kept.any() or kept.all():
            return []
        return [Point(point.beta, kept / length(kept, degree))]


def _train(problem: Problem, state: FrankWolfeState, eps: float) -> None:
    """Train a machine on the combined kernel, by SMO to a violation of ``eps``, else to a relative gap of it."""
    if problem.gram.explicit:
        found = _solved(problem, state, problem.gram.features(state.weights), max(eps, LEAST_GAP))
        _take(state, found, problem.gram.matvec(found.beta, state.weights))
        return
    kernel = combined(problem, state.weights)
    square = DenseGram(kernel[:, :, None])
    if state.box is not None and not state.spent:
        beta, state.met = smo(kernel, state.box, state.beta, eps)
        state.beta = problem.feasible(beta)
        state.f = kernel @ state.beta
    else:
        eps = max(eps, LEAST_GAP)
        found = on_features(problem, kernel, eps) if state.spent else _solved(problem, state, square, eps)
        _take(state, found, kernel @ found.beta)
    if not state.met and not state.spent:
        machine = replace(problem, gram=square, penalty=Fixed())
        if certify(machine, Point(state.beta, np.ones(1), f=state.f)).gap > SPENT:
            state.spent, state.least, state.tol, state.eps = True, LEAST_EPS, state.asked, FIRST * state.asked


def _solved(problem: Problem, state: FrankWolfeState, square: GramStack, eps: float) -> Solution:
    """Return a machine on one kernel to a relative gap of ``eps``, by the solver that "auto" chooses for it."""
    machine, most = replace(problem, gram=square, penalty=Fixed()), MANY if problem.gram.explicit else STEPS
    return solve_quietly(machine, tol=eps, start=state.beta, max_iter=most)


def _take(state: FrankWolfeState, found: Solution, f: np.ndarray) -> None:
    """Go on with a machine; one that did not come to what it was asked for is not asked for more."""
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
    anchor, degree = state.anchor, problem.gram.degree
    if anchor is not None and _energy(state.energies, anchor) > _energy(state.energies, state.weights):
        state.power = min(POWER, FALL * state.power)  # the objective rises here, seen from the anchor
    else:
        floor = FLOOR * state.tol / state.weights.size
        state.anchor = anchor = np.maximum(state.weights, floor ** (1.0 / degree))
        ratios = state.energies.pull(anchor) / anchor ** (degree - 1)
        state.ratios = np.maximum(ratios / max(float(ratios.max()), 1e-300), FAINT)
        top = state.energies.top
        tied = top.upper - top.lower > TIED * top.upper
        state.power = POWER if tied and np.isinf(state.power) else RISE * state.power
        state.power = state.power if np.isinf(state.power) else min(state.power, STEEPEST)
        if np.isinf(state.power):
            state.weights = top.weights
            return
    assert state.ratios is not None
    shares = anchor**degree * state.ratios**state.power
    state.weights = (shares / shares.sum()) ** (1.0 / degree)
