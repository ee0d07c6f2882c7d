"""Sequential minimal optimisation for every smooth penalty, one working set of samples at a time."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np

from ..grams import EntryGram
from ..losses.base import DualTerms
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, centred_box, entries, first_duals, unit_of


@dataclass(frozen=True)
class SMOSettings:
    """Constants of the universal SMO."""

    cache: int = 8 * 2**20  #: bytes of kernel entries a working set may hold: it should stay in the processor's cache
    first: float = 1e-2  #: violation worked towards at first, in units of the slopes
    tighter: float = 0.2  #: factor of the violation worked towards after a judgement
    inner: float = 0.05  #: share of the violation to which a working set is solved
    smallest: int = 48  #: samples in a working set at least
    largest: int = 512  #: and at most
    steps: int = 100  #: pair steps in a working set, per sample
    rounding: float = 1e-13  #: relative error of a slope: a fall that cannot be told from none is taken
    floor: float = 1e-13  #: relative violation below which floating point has no more to give


SETTINGS = SMOSettings()


@dataclass
class SMOState:
    """Duals with their running products.

    ``g[i, k] = (K_k beta)_i`` and ``q_k = beta' K_k beta``; ``eps`` is the violation being worked towards.
    """

    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    unit: float  # size of the slopes
    eps: float
    order: np.ndarray  # (n,) a fixed shuffle, to break ties without favouring the first rows
    violation: float = np.inf

    @property
    def weights(self) -> np.ndarray:
        return self.penalty.weights(self.q)

    def gradient(self) -> np.ndarray:
        """Return the gradient of the objective, without the kinks of duals at zero."""
        return self.g @ self.weights + self.box.ridge * self.beta - self.box.linear


class SMO(Solver):
    """Universal SMO: exact line searches on pairs of duals, for any smooth penalty.

    Working sets of the most violating samples are solved inside the processor's cache by second-order pair steps;
    then all running products move at once by the columns of the samples that changed, with an exact line search
    along the whole move. Only the columns of samples that enter a working set are ever read.

    Parameters
    ----------
    working_set : int or "auto", default="auto"
        Samples in a working set.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(penalty=kw.penalties.Lp(2), solver=kw.solvers.SMO(working_set=64)).solver.name
    'smo'
    """

    name = "smo"
    needs = (EntryGram,)
    summed = True

    def __init__(self, working_set: int | str = "auto"):
        self.working_set = working_set

    def refuse(self, problem: Problem) -> str | None:
        size: Any = self.working_set
        if size != "auto" and not (isinstance(size, Integral) and int(size) >= 2):
            return f"takes 'auto' or a whole number from 2 on as working_set, not {size!r}."
        if not problem.penalty.smooth:
            return f"follows the gradient of the penalty, which {problem.penalty} lacks: use solver='proximal'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SMOState:
        return begin(problem, problem.penalty, start)

    def step(self, problem: Problem, state: SMOState) -> bool:
        return sweep(problem, state, self.working_set)

    def read(self, problem: Problem, state: SMOState) -> Point:
        return point_of(state, state.weights)

    def adapt(self, problem: Problem, state: SMOState, certificate: Certificate) -> Status | None:
        return tighten(state)

    def refresh(self, problem: Problem, state: SMOState) -> None:
        recompute(problem, state)


def begin(problem: Problem, penalty: MixingPenalty, start: np.ndarray | None) -> SMOState:
    """Return the state at ``start`` (or at the first duals) for a penalty that may stand in for the problem's own."""
    n, m = problem.gram.shape
    unit = unit_of(problem)
    order = np.random.default_rng(0).permutation(n)
    box, beta, eps = centred_box(problem), first_duals(problem), SETTINGS.first * unit
    state = SMOState(box, penalty, beta, np.zeros((n, m)), np.zeros(m), unit, eps, order)
    if start is not None and start.any():
        state.beta = start.copy()
    if state.beta.any():
        recompute(problem, state)
    return state


def recompute(problem: Problem, state: SMOState) -> None:
    """Compute the running products from the kernels."""
    state.g = entries(problem).products(state.beta)
    state.q = np.maximum(state.beta @ state.g, 0.0)


def point_of(state: SMOState, weights: np.ndarray) -> Point:
    """Return the state as a point with the given kernel weights."""
    return Point(state.beta.copy(), weights, state.q.copy(), state.g @ weights)


def tighten(state: SMOState) -> Status | None:
    """Ask for a smaller violation, unless floating point has no more to give."""
    state.eps = SETTINGS.tighter * min(state.eps, max(0.5 * state.violation, 1e-300))
    scale = max(state.unit, float(np.max(np.abs(state.g @ state.weights), initial=0.0)))
    return None if state.eps > SETTINGS.floor * scale else Status.STALLED


def sweep(problem: Problem, state: SMOState, working_set: int | str) -> bool:
    """Solve one working set and move everything by it; True when the violation is below ``2 eps``."""
    from ..compiled import smo as engine

    gradient = state.gradient()
    state.violation = violation_of(gradient, state.beta, state.box)
    if state.violation <= 2.0 * state.eps:
        return True
    kernels = _active_kernels(state)
    index = _choose(state, gradient, _size(problem, kernels, working_set))
    penalty = state.penalty if kernels.size == state.q.size else state.penalty.restrict(kernels, state.q.size)
    rule, params = penalty.compiled(kernels.size)
    block = entries(problem).block(index, kernels)
    g = np.ascontiguousarray(state.g[np.ix_(index, kernels)].T)
    q, beta = state.q[kernels], state.beta[index]
    goal = max(state.eps, SETTINGS.inner * state.violation)
    box, run = state.box.take(index), cast(Any, engine.smo)
    run(rule, params, block, g, q, beta, *box.parts, goal, SETTINGS.steps * index.size)
    return not _move(problem, state, index, beta)


def level_of(gradient: np.ndarray, beta: np.ndarray, box: DualTerms) -> float:
    """Return the value the slope takes at free samples, minus the bias; between the sides where none is free."""
    up, down = beta < box.upper, beta > box.lower
    rising, falling = box.directed(gradient, beta)
    free = up & down & (rising == falling)
    if free.any():
        return float(np.median(rising[free]))
    return 0.5 * float(falling[down].max(initial=gradient.min()) + rising[up].min(initial=gradient.max()))


def violation_of(gradient: np.ndarray, beta: np.ndarray, box: DualTerms) -> float:
    """Return by how much the best pair of duals violates optimality."""
    up, down = beta < box.upper, beta > box.lower
    if not up.any() or not down.any():
        return 0.0
    rising, falling = box.directed(gradient, beta)
    return float(falling[down].max() - rising[up].min())


def _active_kernels(state: SMOState) -> np.ndarray:
    """Return the kernels worth carrying through a working set: all, unless the penalty silences some."""
    m = state.q.size
    if not state.penalty.sparse or m <= 4:
        return np.arange(m)
    near = state.penalty.weights(1.1 * state.q + 0.1 * state.q.max(initial=0.0)) > 0
    near |= state.weights > 0
    return np.flatnonzero(near) if near.any() else np.arange(m)


def _size(problem: Problem, kernels: np.ndarray, working_set: int | str) -> int:
    n = problem.gram.shape[0]
    if working_set == "auto":
        fitting = np.sqrt(SETTINGS.cache / (8 * kernels.size))
        working_set = int(np.clip(fitting, SETTINGS.smallest, SETTINGS.largest))
    return min(max(int(working_set), 2), n)


def _choose(state: SMOState, gradient: np.ndarray, size: int) -> np.ndarray:
    """Return the samples that violate optimality most, half of each kind, sorted."""
    box, beta = state.box.take(state.order), state.beta[state.order]
    up, down = box.directed(gradient[state.order], beta)
    rising = np.argsort(np.where(beta < box.upper, up, np.inf), kind="stable")[: size // 2]
    falling = np.argsort(np.where(beta > box.lower, -down, np.inf), kind="stable")
    taken = np.zeros(beta.size, dtype=bool)
    taken[rising] = True
    falling = falling[~taken[falling]][: size - rising.size]
    return np.sort(state.order[np.concatenate([rising, falling])])


def _move(problem: Problem, state: SMOState, index: np.ndarray, beta: np.ndarray) -> bool:
    """Move to the working set's new duals, no further than the true objective falls; False if it cannot."""
    delta = beta - state.beta[index]
    moved = np.flatnonzero(delta)
    if moved.size == 0:
        return False
    index, delta = index[moved], delta[moved]
    columns = entries(problem).weighted_columns(delta, index)
    along, bend = delta @ state.g[index], np.maximum(delta @ columns[index], 0.0)
    level = level_of(state.gradient(), state.beta, state.box)
    t = exact_step(state.penalty, state.q, along, bend, state.box.take(index), state.beta[index], delta, level)
    state.beta[index] = beta[moved] if t == 1.0 else state.beta[index] + t * delta
    state.g += columns if t == 1.0 else t * columns
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    return t > 0.0


def exact_step(
    penalty: MixingPenalty,
    q: np.ndarray,  # (m,)
    along: np.ndarray,  # (m,) half the slope of q along delta
    bend: np.ndarray,  # (m,) its curvature
    box: DualTerms,
    beta: np.ndarray,  # (b,)
    delta: np.ndarray,  # (b,)
    level: float = 0.0,
) -> float:
    """Return the step in [0, 1] along ``delta`` at which the objective stops falling.

    ``level`` is what the gradient is near; without it a sum of ``delta`` that is not quite zero would matter.
    """
    flat, ridged = float((box.ridge * beta - box.linear - level) @ delta), float(box.ridge @ delta**2)
    bent, kinked = box.kink * delta, box.kinked

    def slope(t: float) -> float:
        energies = np.maximum(q + t * (2.0 * along + t * bend), 0.0)
        kinks = float(np.sign(beta + t * delta) @ bent) if kinked else 0.0
        return float(penalty.weights(energies) @ (along + t * bend)) + flat + t * ridged + kinks

    if slope(1.0) <= SETTINGS.rounding * float((np.abs(box.linear) + box.kink) @ np.abs(delta)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
    return low
