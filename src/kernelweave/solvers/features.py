"""Stored kernels taken apart into features, where huge costs meet low rank: a solver on features does the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..grams import CombinableGram, GramStack, LowRankGram
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, check_pair, combinable, mismatch
from .interior import Interior
from .sqp import SQP


@dataclass(frozen=True)
class FeaturesSettings:
    """Constants of taking kernels apart."""

    rank: float = 1e-14  #: share of a kernel's largest diagonal entry that its features may leave of any
    work: float = 2e9  #: multiplications of a step on the features, beyond which they are too many
    most: int = 30  #: judgements after which working sets are tried instead, and then the end
    patience: int = 4  #: judgements in a row without gain after which working sets are tried
    better: float = 0.99  #: factor of the distance between bounds that counts as gain


SETTINGS = FeaturesSettings()


@dataclass
class FeaturesState:
    """The problem on features, and the solver that works on it."""

    problem: Problem
    solver: Solver
    state: Any
    tol: float
    judged: int = 0
    last: Point | None = None
    best: Point | None = None
    gap: float = np.inf
    distance: float = np.inf  # between bounds, when it last became shorter
    fruitless: int = 0  # judgements since then

    def note(self, certificate: Certificate) -> None:
        """Count judgements, and those without gain."""
        distance = certificate.upper - certificate.lower
        self.judged, self.fruitless = self.judged + 1, self.fruitless + 1
        if distance < SETTINGS.better * self.distance:
            self.distance, self.fruitless = distance, 0
        if certificate.gap < self.gap:
            self.gap, self.best = certificate.gap, self.last


class Features(Solver):
    """Kernels of low rank taken apart into features once, and solved there: what huge costs do not slow down.

    With errors that cost far more than kernels are worth, and kernels of too low a rank to avoid them all, the problem
    is next to a linear programme, and working sets of samples go on for ever. On features of the kernels it takes an
    interior point some twenty steps. Where it comes to its end in floating point, as it may where all errors can be
    avoided after all, working sets go on from there for a while. The judge looks at the kernels themselves.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> gram = kw.DenseGram(np.outer(x[:, 0], x[:, 0])[:, :, None])
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind(np.sign(x.sum(axis=1)), C=1e8), kw.penalties.L1())
    >>> kw.solve(problem, "features").converged
    True
    """

    name = "features"
    needs = (CombinableGram,)
    takes = ("any",)
    biasless = True
    several = True
    summed = True

    def refuse(self, problem: Problem) -> str | None:
        if problem.loss.several:
            return "is for one decision value a sample: use solver='auto'."
        if problem.gram.on_demand:
            return "takes kernels apart that are stored, and these are computed on demand: use solver='auto'."
        if low_rank(problem) is None:
            return "is for kernels of low rank, and the features of these would be too many: use solver='auto'."
        return None

    def init(self, problem: Problem, start: Any, tol: float) -> FeaturesState:
        gram = low_rank(problem)
        assert gram is not None
        inside = replace(problem, gram=gram)
        solver = _quickest(inside, tol)
        return FeaturesState(inside, solver, solver.init(inside, start, tol), tol)

    def step(self, problem: Problem, state: FeaturesState) -> bool:
        return state.solver.step(state.problem, state.state)

    def lean(self, problem: Problem, state: FeaturesState, weights: np.ndarray) -> None:
        state.solver.lean(state.problem, state.state, weights)

    def read(self, problem: Problem, state: FeaturesState) -> Point:
        found = state.last = state.solver.read(state.problem, state.state)
        return Point(found.beta, found.weights)  # without products, which are those of the features

    def adapt(self, problem: Problem, state: FeaturesState, certificate: Certificate) -> Status | None:
        state.note(certificate)
        status, on = state.solver.adapt(state.problem, state.state, certificate), _goes_on(problem, state)
        if status is None and state.judged < SETTINGS.most and not (on and state.fruitless >= SETTINGS.patience):
            return None
        if not on:
            return status or Status.STALLED
        state.problem, state.solver, state.judged = problem, SQP(), 0
        state.state = state.solver.init(problem, None if state.best is None else state.best.beta, state.tol)
        return None

    def refresh(self, problem: Problem, state: FeaturesState) -> None:
        state.solver.refresh(state.problem, state.state)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        return Interior().finish(problem, point) if problem.loss.quadratic and not problem.loss.several else []


def _goes_on(problem: Problem, state: FeaturesState) -> bool:
    """Whether working sets can go on where the solver on features ends."""
    return not (isinstance(state.solver, SQP) or mismatch(problem, SQP()) or SQP().refuse(problem))


def _quickest(problem: Problem, tol: float) -> Solver:
    """Return the interior point, or what "auto" is for problems that it does not take."""
    from .choose import choose

    if problem.penalty.steep:
        return choose(problem, tol)
    try:
        check_pair(problem, Interior())
    except ValueError:
        return choose(problem, tol)
    return Interior()


_KNOWN: WeakKeyDictionary[GramStack, LowRankGram | None] = WeakKeyDictionary()  # what was found, along a path of C


def low_rank(problem: Problem) -> LowRankGram | None:
    """Return the kernels of a problem as features; None where they would be too many."""
    if isinstance(problem.gram, LowRankGram):
        return problem.gram
    if problem.gram not in _KNOWN:
        _KNOWN[problem.gram] = _factored(problem)
    return _KNOWN[problem.gram]


def _factored(problem: Problem) -> LowRankGram | None:
    (n, m), parts = problem.gram.shape, list[np.ndarray]()
    room = next(d for d in range(n * m, -1, -1) if float(d) ** 2 * (n + d) <= SETTINGS.work)
    for one in np.eye(m):
        part = _cholesky(combinable(problem).combine(np.arange(n), one), room)
        if part is None:
            return None
        parts.append(part)
        room -= part.shape[1]
    return LowRankGram(np.hstack(parts), [part.shape[1] for part in parts])


def _cholesky(
    kernel: np.ndarray,  # (n, n)
    room: int,
) -> np.ndarray | None:  # (n, r)
    """Return the Cholesky factor of a kernel, pivots from the largest down to what is rounding; None if too wide."""
    n, left = kernel.shape[0], kernel.diagonal().copy()
    least, V = SETTINGS.rank * float(left.max(initial=0.0)), np.zeros((n, min(16, n)))
    for r in range(n):
        i = int(np.argmax(left))
        if left[i] <= least:
            return V[:, : max(r, 1)]
        if r >= room:
            return None
        if r == V.shape[1]:
            V = np.hstack([V, np.zeros((n, min(r, n - r)))])
        V[:, r] = (kernel[i] - V[:, :r] @ V[i, :r]) / np.sqrt(left[i])
        left = left - V[:, r] ** 2
        left[i] = 0.0
    return V
