"""SimpleMKL: reduced gradient on the simplex of kernel weights, every trial of its line search a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..problem import Certificate, Point, Problem, Status
from .base import Solver, sparse_only
from .machines import NEEDS, Machine, behind, combined, first_eps, sharper, train

GOLDEN = 0.6180339887498949
WIDTH = 0.1  # share of the interval at which a golden section ends at first,
FALL = 0.1  # by which it shrinks when a section has found nothing,
DUST = 1e-12  # share of the largest entry of a direction that counts as none
LEAST_WIDTH = 1e-6  # down to this, after which machines are asked for more


@dataclass
class SimpleMKLState:
    """Shares ``s_k = d_k^2 w_k``, a point of the simplex, and the machine there, with its energies."""

    shares: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    eps: float
    width: float = WIDTH
    machine: Machine | None = None
    q: np.ndarray | None = None  # (m,)
    stale: bool = False  # whether the machine is to be trained further before anything else


class SimpleMKL(Solver):
    """The reduced gradient method of Rakotomamonjy, Bach, Canu and Grandvalet (JMLR 2008), for ``penalty='l1'``.

    It minimises over the simplex of weights the value ``J(w)`` of the machine at ``w``, which is smooth where that
    machine is unique. A step takes the reduced gradient, the largest weight making up for all others, and follows it to
    where the first weight vanishes; as long as J falls there it goes on without that kernel, and then a golden section
    finds the step. Each trial trains a machine from the duals of the last; J never rises from step to step.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(solver="simplemkl").get_params()["solver"]
    'simplemkl'
    """

    name = "simplemkl"
    needs = NEEDS

    def refuse(self, problem: Problem) -> str | None:
        return sparse_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SimpleMKLState:
        n, m = problem.gram.shape
        return SimpleMKLState(np.full(m, 1.0 / m), np.zeros(n) if start is None else start, first_eps(tol))

    def step(self, problem: Problem, state: SimpleMKLState) -> bool:
        prices = problem.penalty.prices(state.shares.size)
        if state.machine is None or state.stale:
            state.machine = train(problem, state.shares / prices, state.beta, state.eps)
        else:
            before = state.machine
            state.machine = _descend(problem, state, prices)
            if state.machine is before:
                state.width *= FALL
        state.shares, state.beta = state.machine.weights * prices, state.machine.beta
        state.q = problem.gram.quad(state.beta)
        return True

    def read(self, problem: Problem, state: SimpleMKLState) -> Point:
        if state.machine is None or state.q is None:
            return Point(state.beta, state.shares / problem.penalty.prices(state.shares.size))
        return state.machine.point(state.q)

    def heed(self, problem: Problem, state: SimpleMKLState, certificate: Certificate) -> Status | None:
        state.stale = state.width < LEAST_WIDTH or behind(problem, self.read(problem, state), certificate)
        end = None
        if state.stale:
            (state.eps, end), state.width = sharper(state.eps), WIDTH
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


def _descend(problem: Problem, state: SimpleMKLState, prices: np.ndarray) -> Machine:
    """Return the machine where one step of the paper ends."""
    assert state.machine is not None and state.q is not None
    here, shares = state.machine, state.shares
    largest, along = int(np.argmax(shares)), direction(shares, -0.5 * state.q / prices)
    dust = DUST * float(np.abs(along).max(initial=0.0))
    while np.any(along < -dust):
        falling = np.flatnonzero(along < -dust)
        times = -shares[falling] / along[falling]
        first = falling[np.argmin(times)]
        there = np.maximum(shares + times.min() * along, 0.0)
        there[first] = 0.0
        there /= there.sum()
        machine = train(problem, there / prices, here.beta, state.eps)
        if machine.value >= here.value:
            return _golden(problem, state, here, machine)
        here, shares = machine, there
        along[largest] += along[first]
        along[first] = 0.0
        if first == largest:
            break
    return here


def _golden(problem: Problem, state: SimpleMKLState, here: Machine, there: Machine) -> Machine:
    """Return the best machine that a golden section between two of them meets, these included."""
    kernel, tilt = combined(problem, here.weights), combined(problem, there.weights - here.weights)
    last = here

    def at(t: float) -> Machine:
        nonlocal last
        weights = (1.0 - t) * here.weights + t * there.weights
        last = train(problem, weights, last.beta, state.eps, kernel + t * tilt)
        return last

    return _section(at, here, state.width)


def _section(at: Callable[[float], Machine], best: Machine, width: float) -> Machine:
    """Return the machine of least value met by a golden section of [0, 1], or ``best`` where that has less."""
    low, high = 0.0, 1.0
    inner, outer = 1.0 - GOLDEN, GOLDEN
    left, right = at(inner), at(outer)
    while True:
        best = min(best, left, right, key=lambda machine: machine.value)
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
