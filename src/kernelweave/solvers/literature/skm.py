"""The support kernel machine as published in 2004: SMO on a smoothed problem, with less and less smoothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from ...grams import EntryGram
from ...losses.base import DualTerms
from ...penalties import MoreauYosida
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, entries, l1_only
from ..smo import SMOState, begin, point_of, recompute, sweep, violation_of


@dataclass(frozen=True)
class SKMSettings:
    """Constants of the continuation."""

    first: float = 1.0  #: smoothing of the first stage
    less: float = 0.5  #: factor of the smoothing from stage to stage
    least: float = 2.0**-12  #: smoothing below which the steps grow without end
    sharper: float = 0.3  #: factor of the violation from stage to stage
    slack: float = 1e-9  #: share by which optimality may be missed through rounding


SETTINGS = SKMSettings()


@dataclass
class SKMState:
    """A SMO state on the problem smoothed by ``kappa``, and the optimality it has reached on the true one."""

    smo: SMOState
    kappa: float
    eps1: float = np.inf
    eps2: float = np.inf


class SKM(Solver):
    """Moreau-Yosida continuation of Bach, Lanckriet and Jordan (2004), with the prices d held fixed.

    Faithful to the paper, and slower than the default: kept so that the paper's figures can be had.

    Parameters
    ----------
    eps1, eps2 : float, optional
        Stop as the paper does, when its (eps1, eps2)-optimality holds, and not on the duality gap alone. Both are in
        units of the objective and of the decision values.
    stage_tol : float, default=1e-3
        Violation at which the first stage is solved, in decision values (of labels -1 and +1, or half the range of
        other targets); it falls with the smoothing, which the gap asks for.
    sparsify : bool, default=False
        At the end drop every kernel without which optimality can still be had, by linear programmes.
    working_set : int or "auto", default="auto"
        Samples in a working set of the SMO.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.literature.SKM(sparsify=True).name
    'skm'
    """

    name = "skm"
    needs = (EntryGram,)
    kinks = False

    def __init__(
        self,
        eps1: float | None = None,
        eps2: float | None = None,
        stage_tol: float = 1e-3,
        sparsify: bool = False,
        working_set: int | str = "auto",
    ):
        self.eps1 = eps1
        self.eps2 = eps2
        self.stage_tol = stage_tol
        self.sparsify = sparsify
        self.working_set = working_set

    def refuse(self, problem: Problem) -> str | None:
        if (self.eps1 is None) != (self.eps2 is None):
            return "needs both eps1 and eps2, or neither."
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SKMState:
        kappa = SETTINGS.first
        state = SKMState(begin(problem, _smoothed(problem, kappa), start), kappa)
        state.smo.eps = 0.5 * self.stage_tol * state.smo.unit
        return state

    def step(self, problem: Problem, state: SKMState) -> bool:
        return sweep(problem, state.smo, self.working_set)

    def read(self, problem: Problem, state: SKMState) -> Point:
        return point_of(state.smo, _smoothed(problem, state.kappa).unsmoothed(state.smo.q))

    def adapt(self, problem: Problem, state: SKMState, certificate: Certificate) -> Status | None:
        smo = state.smo
        weights = _smoothed(problem, state.kappa).unsmoothed(smo.q)
        state.eps1, state.eps2 = optimality(problem, smo.box, smo.beta, smo.g, weights)
        if self.eps1 is not None and self.eps2 is not None and state.eps1 <= self.eps1 and state.eps2 <= self.eps2:
            return Status.OWN_TEST
        if state.kappa <= SETTINGS.least:
            return Status.STALLED
        state.kappa *= SETTINGS.less
        smo.eps *= SETTINGS.sharper
        smo.penalty = _smoothed(problem, state.kappa)
        return None

    def refresh(self, problem: Problem, state: SKMState) -> None:
        recompute(problem, state.smo)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        return [Point(point.beta, sparsify(problem, point, self.eps1, self.eps2))] if self.sparsify else []


def _smoothed(problem: Problem, kappa: float) -> MoreauYosida:
    d = np.sqrt(problem.penalty.prices(problem.gram.shape[1]))
    return MoreauYosida(kappa * d, d)


def optimality(
    problem: Problem,
    box: DualTerms,
    beta: np.ndarray,  # (n,)
    g: np.ndarray,  # (n, m)
    weights: np.ndarray,  # (m,)
) -> tuple[float, float]:
    """Return the (eps1, eps2) of the 2004 paper: how far kernels in use are from the top, and duals from optimal."""
    costs = np.maximum(beta @ g, 0.0) / problem.penalty.prices(weights.size)
    used = weights > 0
    eps1 = 0.5 * float(costs.max() - costs[used].min(initial=np.inf)) if used.any() else np.inf
    gradient = g @ weights + box.ridge * beta - box.linear
    return eps1, 0.5 * violation_of(gradient, beta, box)


def sparsify(problem: Problem, point: Point, eps1: float | None = None, eps2: float | None = None) -> np.ndarray:
    """Return weights on as few kernels as keep the point (eps1, eps2)-optimal, dropping the lightest first.

    By default the point is kept as optimal as it is.
    """
    box = problem.loss.box
    g = entries(problem).products(point.beta)
    now1, now2 = optimality(problem, box, point.beta, g, point.weights)
    eps1, eps2 = max(now1, eps1 or 0.0), max(now2, eps2 or 0.0)
    prices = problem.penalty.prices(point.weights.size)
    costs = point.beta @ g / prices
    kept = np.flatnonzero(0.5 * (costs.max() - costs) <= eps1 * (1 + SETTINGS.slack)).tolist()
    best = _feasible(problem, box, point.beta, g, prices, kept, eps2)
    for k in sorted(kept, key=lambda k: point.weights[k]):
        trial = [j for j in kept if j != k]
        found = _feasible(problem, box, point.beta, g, prices, trial, eps2) if trial else None
        if found is not None:
            kept, best = trial, found
    return point.weights if best is None else best


def _feasible(
    problem: Problem,
    box: DualTerms,
    beta: np.ndarray,
    g: np.ndarray,
    prices: np.ndarray,
    kernels: list[int],
    eps2: float,
) -> np.ndarray | None:
    """Return weights on ``kernels`` alone with every dual within ``eps2`` of optimal, or None."""
    up, down = beta < box.upper, beta > box.lower
    base = box.ridge * beta - box.linear
    bias = np.ones((beta.size, 1))
    slack = eps2 * (1 + SETTINGS.slack)
    columns = g[:, kernels]
    falling = np.hstack([columns, -bias])[down], (slack - base)[down]
    rising = np.hstack([-columns, bias])[up], (slack + base)[up]
    answer = linprog(
        np.zeros(len(kernels) + 1),
        A_ub=np.vstack([falling[0], rising[0]]),
        b_ub=np.concatenate([falling[1], rising[1]]),
        A_eq=np.append(prices[kernels], 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * len(kernels) + [(None, None)],
        method="highs",
    )
    if not answer.success:
        return None
    weights = np.zeros(prices.size)
    weights[kernels] = np.maximum(answer.x[:-1], 0.0)
    return weights
