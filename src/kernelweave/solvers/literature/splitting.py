"""Generalised forward-backward splitting on factors: Algorithm 2 of the low-rank lp-norm paper, corrected."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ...arrays import Array, cholesky, device_of, namespace, to_host
from ...certify import certify
from ...grams import FactorGram, LowRankGram
from ...losses.base import DualTerms
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, factors
from ..svm import at_weights
from .terms import mean_cost


@dataclass(frozen=True)
class SplittingSettings:
    """Constants of the splittings."""

    block: int = 50  #: iterations between two looks at the gap
    careful: float = 0.3  #: share of the gap that the SVM at fixed weights may have when the weights move
    steady: float = 0.5  #: or share of the gap that it had when they last moved
    seed: float = 1e-3  #: share of an even weight with which a kernel that the start leaves out may still come in
    still: float = 1e-4  #: changes of the objective, relative, and of the weights at which the paper stops


SETTINGS = SplittingSettings()


@dataclass
class GFBState:
    """Copies of the two unknowns, ``gamma = sqrt(w) V' beta`` and ``beta / scale``, one for each constraint set.

    A set leaves the parts of gamma alone that it does not name, so those copies are equal and one stands for all.
    """

    box: DualTerms
    scale: float
    weights: np.ndarray  # (m,)
    own: Array  # (D,) each kernel's gamma in the copy of the set that names it
    rest: Array  # (D,) the same in all other copies
    sets: Array  # (c, n) duals in the copies of the equality sets
    boxed: Array  # (n,) duals in the copy of the box
    shape: Any = None  # what the projections need, whatever the weights
    solve: Any = None  # what they need at these weights
    width: float = 1.0  # gap of the SVM at fixed weights when the weights last moved
    still: bool = False  # whether the objective changed little in the last iteration
    point: Point | None = None

    @property
    def copies(self) -> int:
        return self.sets.shape[0] + 1

    def gamma(self) -> Array:
        """Return the mean of the copies of gamma."""
        return (self.own + (self.copies - 1) * self.rest) / self.copies

    def dual(self) -> Array:
        """Return the mean of the copies of the scaled duals."""
        return (namespace(self.boxed).sum(self.sets, axis=0) + self.boxed) / self.copies


class _Splitting(Solver):
    """What the split and the merged iteration share: the forward step, the box and the mean of the copies."""

    needs = (FactorGram,)
    kinks = False
    #: scale of the duals where the mean cost is one and the mixed kernel's mean diagonal too
    unit = 1.0

    def __init__(self, scale: float | str = "auto", relaxation: float = 1.4, zeta: float = 1.0, stop: str = "gap"):
        self.scale = scale
        self.relaxation = relaxation
        self.zeta = zeta
        self.stop = stop

    def refuse(self, problem: Problem) -> str | None:
        if self.scale != "auto" and not _between(self.scale, np.inf):
            return f"takes 'auto' or a positive number as scale, not {self.scale!r}."
        if not _between(self.zeta, 2.0):
            return f"takes a zeta between 0 and 2, not {self.zeta!r}."
        if not _between(self.relaxation, 2.0 - 0.5 * self.zeta):
            return f"takes a relaxation between 0 and 2 - zeta / 2, not {self.relaxation!r}."
        if self.stop not in ("gap", "paper"):
            return f"stops by 'gap' or as the 'paper' does, not by {self.stop!r}."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> GFBState:
        gram, box = factors(problem), problem.loss.box
        weights = problem.penalty.weights_of_norms(np.ones(gram.shape[1]))
        scale = self._unit(problem, weights) if self.scale == "auto" else float(self.scale)
        beta = problem.loss.zero if start is None else start
        folded = gram.rmatvec(beta)
        if start is not None and problem.penalty.smooth:
            asked = problem.penalty.weights(gram.squared_norms(folded))
            weights = np.where(asked > 0, asked, SETTINGS.seed * weights)
        gamma = gram.per_column(np.sqrt(weights)) * folded
        parts = self._parts(problem, weights, gamma)
        sets = (beta / scale)[None, :] + self.zeta * scale * (box.linear[None, :] - (parts.shape[0] + 1) * parts)
        state = GFBState(box, scale, weights, gamma, (1.0 - self.zeta) * gamma, sets, beta)
        state.own = gamma + self.zeta * (state.copies - 1) * gamma
        state.boxed = state.copies * beta / scale - namespace(beta).sum(sets, axis=0)
        state.shape = self._measure(problem)
        self._weigh(problem, state)
        return state

    def _unit(self, problem: Problem, weights: np.ndarray) -> float:
        """Return a scale that changes as it must when kernels and costs are measured in other units."""
        diagonal = problem.gram.diagonal()
        size = float(to_host(namespace(diagonal).mean(diagonal, axis=0)) @ weights) or 1.0
        return self.unit * (mean_cost(problem.loss.box) * size) ** (1 / 3) / size**0.5

    @abstractmethod
    def _parts(self, problem: Problem, weights: np.ndarray, gamma: Array) -> Array:
        """Return the decision values as the sum of one part for each equality set, shape (c, n)."""

    @abstractmethod
    def _measure(self, problem: Problem) -> Any:
        """Return what the projections need, whatever the weights."""

    @abstractmethod
    def _weigh(self, problem: Problem, state: GFBState) -> None:
        """Set what the projections need at the state's weights."""

    @abstractmethod
    def _project(self, problem: Problem, state: GFBState, gamma: Array, duals: Array) -> tuple[Array, Array]:
        """Project each copy on its equality set."""

    def step(self, problem: Problem, state: GFBState) -> bool:
        last, state.still = np.inf, False
        for _ in range(SETTINGS.block):
            objective = self._iterate(problem, state)
            state.still = abs(objective - last) < SETTINGS.still * abs(objective)
            last = objective
            if self.stop == "paper" and state.still:
                break
        return True

    def _iterate(self, problem: Problem, state: GFBState) -> float:
        """Move all copies once; the objective before that."""
        xp, box, s, pace = namespace(state.boxed), state.box, state.scale, self.relaxation
        gamma, dual = state.gamma(), state.dual()
        ahead, onward = (2.0 - self.zeta) * gamma, 2.0 * dual + self.zeta * s * box.linear
        own, sets = self._project(problem, state, ahead - state.own, onward[None, :] - state.sets)
        boxed = (onward - state.boxed) / (1.0 + state.copies * self.zeta * s**2 * box.ridge)
        boxed = xp.minimum(xp.maximum(boxed, box.lower / s), box.upper / s)
        state.own = state.own + pace * (own - gamma)
        state.rest = state.rest + pace * (ahead - state.rest - gamma)
        state.sets = state.sets + pace * (sets - dual[None, :])
        state.boxed = state.boxed + pace * (boxed - dual)
        return 0.5 * float(gamma @ gamma) - s * float(box.linear @ dual)

    def read(self, problem: Problem, state: GFBState) -> Point:
        gram = factors(problem)
        beta = problem.feasible(state.scale * state.dual())
        folded = gram.rmatvec(beta)
        f = gram.matvec(gram.per_column(state.weights) * folded)
        state.point = Point(beta, state.weights.copy(), gram.squared_norms(folded), f)
        return state.point

    def adapt(self, problem: Problem, state: GFBState, certificate: Certificate) -> Status | None:
        assert state.point is not None and state.point.q is not None
        weights = problem.penalty.weights_of_norms(state.weights * np.sqrt(state.point.q))
        if self.stop == "paper":
            if state.still and np.max(np.abs(weights - state.weights)) < SETTINGS.still:
                return Status.OWN_TEST
            if state.still:
                self._reweigh(problem, state, weights)
            return None
        alone = certify(at_weights(problem, state.weights), state.point, trust=True).gap
        if alone <= max(SETTINGS.careful * certificate.gap, SETTINGS.steady * state.width):
            state.width = alone
            self._reweigh(problem, state, weights)
        return None

    def _reweigh(self, problem: Problem, state: GFBState, weights: np.ndarray) -> None:
        """Change the weights and carry the copies of gamma over to them."""
        kept = state.weights > 0
        ratio = np.where(kept, np.sqrt(weights / np.where(kept, state.weights, 1.0)), 0.0)
        scaled = factors(problem).per_column(ratio)
        state.own, state.rest, state.weights = scaled * state.own, scaled * state.rest, weights
        self._weigh(problem, state)


class GFB(_Splitting):
    """Forward-backward splitting with one constraint set for each kernel, for the balance and for the box.

    The projections on the sets are small: nothing of size D x D is formed. Weights move in closed form whenever the
    SVM at fixed weights is accurate enough for that; one that reaches zero stays there.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Unit in which the duals are measured, which decides the speed; the published method has 1.
    relaxation : float, default=1.4
        Length of the steps, below ``2 - zeta / 2``; the published method has 1.
    zeta : float, default=1.0
        Step along the gradient, below 2.
    stop : "gap" or "paper", default="gap"
        The paper moves weights when the objective changes by less than 1e-4 in one iteration and stops when the weights
        then change by less than 1e-4, at whatever gap that is.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 0.0]])
    >>> gram = kw.grams.LowRankGram(V, ranks=[1, 1])
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind([1, 1, -1, -1]), kw.penalties.Lp(2))
    >>> kw.solve(problem, kw.solvers.literature.GFB(scale=0.5)).gap <= 1e-3
    True
    """

    name = "gfb"
    unit = 0.2

    def refuse(self, problem: Problem) -> str | None:
        if not isinstance(problem.gram, LowRankGram):
            return f"works on features in one array, not {type(problem.gram).__name__}: use solver='gfb-merged'."
        return super().refuse(problem)

    def _parts(self, problem: Problem, weights: np.ndarray, gamma: Array) -> Array:
        gram, xp = _features(problem), namespace(gamma)
        parts = _matvec_each(gram, gram.per_column(np.sqrt(weights)) * gamma)
        bias = problem.best_bias(xp.sum(parts, axis=0))
        return xp.concat([parts, bias + 0.0 * parts[:1, :]])

    def _measure(self, problem: Problem) -> list[tuple[Array, Array]]:
        """Return the eigenvalues and eigenvectors of each ``V_k' V_k``."""
        gram = _features(problem)
        xp = namespace(gram.features)
        totals: list[Array] = [0.0] * gram.ranks.size
        for rows in gram.chunks():
            block = xp.astype(gram.features[rows, :], xp.float64)
            for k, (first, rank) in enumerate(gram.segments()):
                part = block[:, first : first + rank]
                totals[k] = totals[k] + xp.matrix_transpose(part) @ part
        return [tuple(xp.linalg.eigh(total)) for total in totals]

    def _weigh(self, problem: Problem, state: GFBState) -> None:
        """Set ``(I + scale^2 w_k V_k' V_k)^-1`` of each kernel."""
        strength = (state.scale**2 * state.weights).tolist()
        state.solve = [
            (vectors / (1.0 + strength[k] * values)[None, :]) @ namespace(vectors).matrix_transpose(vectors)
            for k, (values, vectors) in enumerate(state.shape)
        ]

    def _project(self, problem: Problem, state: GFBState, gamma: Array, duals: Array) -> tuple[Array, Array]:
        gram, xp = _features(problem), namespace(gamma)
        root = state.scale * gram.per_column(np.sqrt(state.weights))
        apart = gamma - root * _rmatvec_each(gram, duals)
        segments = zip(gram.segments(), state.solve, strict=True)
        shift = xp.concat([inverse @ apart[first : first + rank] for (first, rank), inverse in segments])
        even = duals[-1:, :] - xp.mean(duals[-1:, :])
        return gamma - shift, xp.concat([duals[:-1, :] + _matvec_each(gram, root * shift), even])


class MergedGFB(_Splitting):
    """Forward-backward splitting with all equalities as one constraint set, and the box.

    Each change of the weights factors a matrix of size D x D; the split :class:`GFB` avoids that and needs many more
    iterations.

    Parameters
    ----------
    scale, relaxation, zeta, stop
        As in :class:`GFB`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 0.0]])
    >>> gram = kw.grams.LowRankGram(V, ranks=[1, 1])
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind([1, 1, -1, -1]), kw.penalties.Lp(2))
    >>> kw.solve(problem, "gfb-merged").gap <= 1e-3
    True
    """

    name = "gfb-merged"
    unit = 0.4

    def _parts(self, problem: Problem, weights: np.ndarray, gamma: Array) -> Array:
        gram = factors(problem)
        f = gram.matvec(gram.per_column(np.sqrt(weights)) * gamma)
        return (f + problem.best_bias(f))[None, :]

    def _measure(self, problem: Problem) -> tuple[Array, Array]:
        """Return ``V' V`` and the sums of the columns of ``V``."""
        gram, one = factors(problem), problem.loss.zero + 1.0
        return gram.weighted(one), gram.rmatvec(one)

    def _weigh(self, problem: Problem, state: GFBState) -> None:
        """Factor ``I + scale^2 W^1/2 V' V W^1/2``, and what the balance adds to it."""
        square, sums = state.shape
        xp, root = namespace(square), state.scale * factors(problem).per_column(np.sqrt(state.weights))
        eye = xp.eye(square.shape[0], dtype=square.dtype, device=device_of(square))
        solve = cholesky(square * (root[:, None] * root[None, :]) + eye)
        assert solve is not None
        tilt = solve(root * sums)
        state.solve = solve, tilt, problem.n - float((root * sums) @ tilt)

    def _project(self, problem: Problem, state: GFBState, gamma: Array, duals: Array) -> tuple[Array, Array]:
        gram, xp = factors(problem), namespace(gamma)
        solve, tilt, spare = state.solve
        root = state.scale * gram.per_column(np.sqrt(state.weights))
        lean = solve(gamma - root * gram.rmatvec(duals[0, :]))
        bias = (float(xp.sum(duals)) + float((root * state.shape[1]) @ lean)) / spare
        shift = lean + bias * tilt
        return gamma - shift, duals + gram.matvec(root * shift)[None, :] - bias


def _features(problem: Problem) -> LowRankGram:
    """Return the kernels as features in one array."""
    assert isinstance(problem.gram, LowRankGram)
    return problem.gram


def _between(value: Any, top: float) -> bool:
    return isinstance(value, Real) and 0 < float(value) < top


def _rmatvec_each(
    gram: LowRankGram,
    duals: Array,  # (m or more, n)
) -> Array:  # (D,)
    """Return ``V_k' duals_k`` of each kernel."""
    xp, total = namespace(duals), 0.0
    for rows in gram.chunks():
        block = xp.astype(gram.features[rows, :], xp.float64, copy=False)
        parts = [duals[k, rows] @ block[:, s : s + r] for k, (s, r) in enumerate(gram.segments())]
        total = total + xp.concat(parts)
    return total


def _matvec_each(
    gram: LowRankGram,
    z: Array,  # (D,)
) -> Array:  # (m, n)
    """Return ``V_k z_k`` of each kernel."""
    xp = namespace(z)
    out = xp.empty((gram.shape[1], gram.shape[0]), dtype=z.dtype, device=device_of(z))
    for rows in gram.chunks():
        block = xp.astype(gram.features[rows, :], xp.float64, copy=False)
        for k, (s, r) in enumerate(gram.segments()):
            out[k, rows] = block[:, s : s + r] @ z[s : s + r]
    return out
