"""SimpleMKL: reduced gradient on the simplex of kernel weights, every trial of its line search an SVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...grams import EntryGram
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, entries, l1_only
from ..svm import combined
from .svm import TrainedSVM, behind, first_eps, sharper, train

GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class SimpleMKLSettings:
    """Constants of the reduced gradient method."""

    width: float = 0.1  #: share of the interval at which a golden section ends at first
    narrower: float = 0.1  #: factor of that share when a section has found nothing
    least: float = 1e-6  #: share below which SVMs are asked for more instead
    dust: float = 1e-12  #: share of the largest entry of a direction that counts as none


SETTINGS = SimpleMKLSettings()


@dataclass
class SimpleMKLState:
    """Shares ``s_k = d_k^2 w_k``, a point of the simplex, and the SVM there, with its energies."""

    shares: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    eps: float
    width: float = SETTINGS.width
    svm: TrainedSVM | None = None
    q: np.ndarray | None = None  # (m,)
    stale: bool = False  # whether the SVM is to be trained further before anything else


class SimpleMKL(Solver):
    """The reduced gradient method of Rakotomamonjy, Bach, Canu and Grandvalet (JMLR 2008), for ``penalty='l1'``.

    It minimises over the simplex of weights the value ``J(w)`` of the SVM at ``w``, which is smooth where that SVM is
    unique. A step takes the reduced gradient, the largest weight making up for all others, and follows it to
    where the first weight vanishes; as long as J falls there it goes on without that kernel, and then a golden section
    finds the step. Each trial trains an SVM from the duals of the last; J never rises from step to step.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(solver="simplemkl").get_params()["solver"]
    'simplemkl'
    """

    name = "simplemkl"
    needs = (EntryGram,)
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SimpleMKLState:
        n, m = problem.gram.shape
        return SimpleMKLState(np.full(m, 1.0 / m), np.zeros(n) if start is None else start, first_eps(problem, tol))

    def step(self, problem: Problem, state: SimpleMKLState) -> bool:
        prices = problem.penalty.prices(state.shares.size)
        if state.svm is None or state.stale:
            state.svm = train(problem, state.shares / prices, state.beta, state.eps)
        else:
            before = state.svm
            state.svm = _descend(problem, state, prices)
            if state.svm is before:
                state.width *= SETTINGS.narrower
        state.shares, state.beta = state.svm.weights * prices, state.svm.beta
        state.q = problem.gram.energies(state.beta)
        return True

    def read(self, problem: Problem, state: SimpleMKLState) -> Point:
        if state.svm is None or state.q is None:
            return Point(state.beta, state.shares / problem.penalty.prices(state.shares.size))
        return state.svm.point(state.q)

    def adapt(self, problem: Problem, state: SimpleMKLState, certificate: Certificate) -> Status | None:
        state.stale = state.width < SETTINGS.least or behind(problem, self.read(problem, state), certificate)
        end = None
        if state.stale:
            (state.eps, end), state.width = sharper(problem, state.eps), SETTINGS.width
        return end


def direction(
    shares: np.ndarray,  # (m,)
    gradient: np.ndarray,  # (m,)
) -> np.ndarray:  # (m,)
    """Return minus the reduced gradient: zero in sum, and nowhere out of the simplex."""
    largest = int(np.argmax(shares))
    fall = gradient[largest] - gradient
    fall[(shares <= 0) & (fall < 0)] = 0.0
    fall[largest] = 0.0
    fall[largest] = -fall.sum()
    return fall


def _descend(problem: Problem, state: SimpleMKLState, prices: np.ndarray) -> TrainedSVM:
    """Return the SVM where one step of the paper ends."""
    assert state.svm is not None and state.q is not None
    here, shares = state.svm, state.shares
    largest, along = int(np.argmax(shares)), direction(shares, -0.5 * state.q / prices)
    dust = SETTINGS.dust * float(np.abs(along).max(initial=0.0))
    while np.any(along < -dust):
        falling = np.flatnonzero(along < -dust)
        times = -shares[falling] / along[falling]
        first = falling[np.argmin(times)]
        there = np.maximum(shares + times.min() * along, 0.0)
        there[first] = 0.0
        there /= there.sum()
        svm = train(problem, there / prices, here.beta, state.eps)
        if svm.value >= here.value:
            return _golden(problem, state, here, svm)
        here, shares = svm, there
        along[largest] += along[first]
        along[first] = 0.0
        if first == largest:
            break
    return here


def _golden(problem: Problem, state: SimpleMKLState, here: TrainedSVM, there: TrainedSVM) -> TrainedSVM:
    """Return the best SVM that a golden section between two of them meets, these included."""
    gram = entries(problem)
    kernel, tilt = combined(gram, here.weights), combined(gram, there.weights - here.weights)
    last = here

    def at(t: float) -> TrainedSVM:
        nonlocal last
        weights = (1.0 - t) * here.weights + t * there.weights
        last = train(problem, weights, last.beta, state.eps, kernel + t * tilt)
        return last

    return _section(at, here, state.width)


def _section(at: Callable[[float], TrainedSVM], best: TrainedSVM, width: float) -> TrainedSVM:
    """Return the SVM of least value met by a golden section of [0, 1], or ``best`` where that has less."""
    low, high = 0.0, 1.0
    inner, outer = 1.0 - GOLDEN, GOLDEN
    left, right = at(inner), at(outer)
    while True:
        best = min(best, left, right, key=lambda svm: svm.value)
        if high - low <= width:
            return best
        if left.value < right.value or best.value < min(left.value, right.value):
            high, outer, right = outer, inner, left
            inner = high - GOLDEN * (high - low)
            left = at(inner)
        else:
            low, inner, left = inner, outer, right
            outer = low + GOLDEN * (high - low)
            right = at(outer)
