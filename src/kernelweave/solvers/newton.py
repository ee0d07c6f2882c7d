"""Newton's method on factors for losses with a continuous slope: logistic, squared hinge and least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, namespace
from ..problem import Certificate, Point, Problem, Status
from .base import Solver
from .reduced import Reduced

CLOSE = 1e-10  # relative error of a step; the matrix is nearly exact, so that little is gained by less
FLAT = 1e-12  # share of C below which the curvature of a sample counts as none
SHORTER = tuple(0.3**power for power in range(30))  # shares of a first step, until the objective falls
HALVINGS = 4  # of a step along which the objective does not fall


@dataclass
class NewtonState:
    """A model ``f = V z + bias`` with ``z = w u``, the weights of its blocks and the duals that its errors ask for."""

    weights: np.ndarray  # (m,)
    u: Array  # (D,)
    f: Array  # (n,) without the bias
    bias: float
    value: float = np.inf
    stuck: int = 0


class Newton(Solver):
    """Semismooth Newton on the samples that err, with the kernel weights in the same system.

    Where the penalty has no curvature, or following it would raise the objective, the step is taken at fixed weights
    and the weights are then those that its block norms ask for.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.Newton().name
    'newton'
    """

    name = "newton"
    needs = ("fold", "lift", "weighted")
    needs_quadratic = False

    def refuse(self, problem: Problem) -> str | None:
        if not hasattr(problem.loss, "bend"):
            return f"needs a loss with a curvature, which {problem.loss} has not: use solver='interior'."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> NewtonState:
        gram, m = problem.gram, problem.gram.shape[1]
        beta = 0.0 * problem.y if start is None else start
        u = gram.fold(beta)
        weights = problem.penalty.weights_of_norms(np.ones(m))
        asked = problem.penalty.weights(gram.energies(u)) if start is not None and problem.penalty.smooth else weights
        weights = asked if asked.any() else weights
        f = gram.lift(gram.per_column(weights) * u)
        state = NewtonState(weights, u, f, problem.loss.best_bias(f, problem.y, problem.C))
        state.value = self._objective(problem, weights, u, f, state.bias)
        return state

    def step(self, problem: Problem, state: NewtonState) -> bool:
        self._leave_nothing(problem, state)
        penalty, q = problem.penalty, problem.gram.energies(state.u)
        joint = penalty.smooth and q.max() > 0
        if not (joint and self._joint(problem, state, penalty.curvature(q))):
            self._alternate(problem, state)
        return True

    def _leave_nothing(self, problem: Problem, state: NewtonState) -> None:
        """Leave the model without kernels, where they have a price, by those that are worth it there."""
        gram, penalty, loss, y, C = problem.gram, problem.penalty, problem.loss, problem.y, problem.C
        if penalty.homogeneous or bool(namespace(state.u).any(state.u != 0)):
            return
        u = gram.fold(problem.feasible(-loss.slope(state.f + state.bias, y, C)))
        weights = penalty.weights(gram.energies(u))
        f = gram.lift(gram.per_column(weights) * u)
        for t in SHORTER if weights.any() else ():
            bias = loss.best_bias(t * f, y, C)
            value = self._objective(problem, weights, t * u, t * f, bias)
            if value < state.value:
                state.weights, state.u, state.f, state.bias, state.value = weights, t * u, t * f, bias, value
                return self._reweigh(problem, state)

    def _machine(self, problem: Problem, state: NewtonState, jacobian: np.ndarray) -> Array:
        """Return the ``V'beta`` whose beta answers the errors of the linearised model."""
        gram, xp, loss, f = problem.gram, namespace(state.f), problem.loss, state.f + state.bias
        theta = loss.bend(f, problem.y, problem.C)
        per, u = gram.per_column, state.u
        if not bool(xp.any(theta > 0)):  # no sample errs: the model is larger than it need be
            return 0.0 * u
        inner = gram.inner(u, u)
        behind = -per(2.0 * jacobian @ inner) * u  # w u - S u
        close = CLOSE * max(float(u @ u) ** 0.5, 1.0)
        system = Reduced(gram, u, state.weights, jacobian, theta, close)
        firm = theta > FLAT * problem.C
        reach = loss.slope(f, problem.y, problem.C) / xp.where(firm, theta, problem.C)
        return system.solve(f - reach, behind, 0.0)[2]

    def _joint(self, problem: Problem, state: NewtonState, jacobian: np.ndarray) -> bool:
        """Step with weights that follow; False if the objective would not fall."""
        gram, penalty = problem.gram, problem.penalty
        folded = self._machine(problem, state, jacobian)
        t = 1.0
        for _ in range(HALVINGS):
            u = state.u + t * (folded - state.u)
            weights = penalty.weights(gram.energies(u))
            f = gram.lift(gram.per_column(weights) * u)
            level = problem.loss.best_bias(f, problem.y, problem.C)
            value = self._objective(problem, weights, u, f, level)
            if value < state.value:
                state.weights, state.u, state.f, state.bias, state.value = weights, u, f, level, value
                state.stuck = 0
                return True
            t *= 0.5
        return False

    def _alternate(self, problem: Problem, state: NewtonState) -> None:
        """Step at fixed weights, as far as the objective falls, then update the weights."""
        gram, loss, m = problem.gram, problem.loss, state.weights.size
        folded = self._machine(problem, state, np.zeros((m, m)))
        f = gram.lift(gram.per_column(state.weights) * folded)
        t, best = 1.0, None
        for _ in range(HALVINGS * 4):
            u, g = state.u + t * (folded - state.u), state.f + t * (f - state.f)
            b = loss.best_bias(g, problem.y, problem.C)
            value = self._objective(problem, state.weights, u, g, b)
            if value <= state.value:
                best = u, g, b, value
                break
            t *= 0.5
        state.stuck += 1
        if best is None:
            return
        if best[3] < state.value * (1 - 1e-15):
            state.stuck = 0
        state.u, state.f, state.bias, state.value = best
        self._reweigh(problem, state)

    def _reweigh(self, problem: Problem, state: NewtonState) -> None:
        """Give the model the weights that its block norms ask for; it stays, its duals are seen at other weights."""
        gram = problem.gram
        norms = state.weights * np.sqrt(gram.energies(state.u))
        weights = problem.penalty.weights_of_norms(norms)
        ratio = np.where(weights > 0, state.weights / np.where(weights > 0, weights, 1.0), 0.0)
        state.u, state.weights = gram.per_column(ratio) * state.u, weights

    def _objective(self, problem: Problem, weights: np.ndarray, u: Array, f: Array, bias: float) -> float:
        norms = weights * np.sqrt(problem.gram.energies(u))
        errors = problem.loss.value(f + bias, problem.y, problem.C)
        return problem.penalty.norm(norms) + float(namespace(errors).sum(errors))

    def read(self, problem: Problem, state: NewtonState) -> Point:
        gram, loss = problem.gram, problem.loss
        beta = problem.feasible(-loss.slope(state.f + state.bias, problem.y, problem.C))
        u = gram.fold(beta)
        return Point(beta, state.weights, gram.energies(u), gram.lift(gram.per_column(state.weights) * u))

    def heed(self, problem: Problem, state: NewtonState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.stuck >= 3 else None
