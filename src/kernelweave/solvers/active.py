"""Active kernels: l1 on a bank too large to hold, by solving on the kernels in play and asking the bank for others."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, namespace
from ..grams import BankGram, FactorGram
from ..grams.effects import Matrices
from ..problem import Certificate, Point, Problem, Solution, Status
from .base import Solver, bank, check_pair, l1_only, solve_quietly
from .interior import Interior


@dataclass(frozen=True)
class ActiveSettings:
    """Constants of the active kernels."""

    first: int = 16  #: kernels to begin with
    grow: int = 16  #: kernels that may join at a time, at least
    double: float = 0.5  #: share of those in play that may join at a time, if that is more
    stay: float = 0.95  #: share of the largest energy that keeps a kernel with next to no weight in play
    faint: float = 1e-2  #: share of the largest weight that is next to none
    rough: float = 0.05  #: gap to which the kernels in play are first solved
    share: float = 0.3  #: of the gap that is left, to which they are solved next
    fine: float = 0.5  #: of the gap asked for, to which they are solved last
    slack: float = 0.1  #: of the gap, by which the upper bound may be off before other duals are tried for it
    wide: int = 6000  #: columns of features up to which a step may have a matrix of them all
    steps: int = 100_000  #: most steps of the solver on the kernels in play


SETTINGS = ActiveSettings()


@dataclass
class ActiveState:
    """The kernels in play, and the points that their optimum offers."""

    tol: float
    kernels: np.ndarray  # (a,) positions in the bank
    beta: Array  # (n,) or (n, c)
    weights: np.ndarray  # (m,)
    q: np.ndarray  # (m,) of beta
    left: np.ndarray  # (m,) which kernels have left once; where they return they stay, or rounds might never end
    goal: float = SETTINGS.rough  # gap to which the kernels in play are solved
    gap: float = np.inf  # of the kernels in play
    upper: float = np.inf  # bound of theirs
    primal: Array | None = None  # duals of the upper bound, unless those of the lower one do
    second: bool = False  # whether these were the last ones judged
    matrices: Matrices = field(default_factory=Matrices)  # of the kernels in play, where they are solved as such


class ActiveKernels(Solver):
    """Column generation for l1: the certificate is about all kernels of a bank, of which few are ever formed.

    A step solves the problem on the kernels in play, by the solver that is best for it, and scores the whole bank at
    its duals. Kernels that violate optimality, those with more energy than any in play, join; those without weight and
    with little energy leave. The lower bound at these duals is over the whole bank.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> gram = kw.grams.EffectsGram([x[:, None] for x in X.T])
    >>> y = np.sign(X[:, 3] * X[:, 7] + X[:, 1])
    >>> found = kw.solve(kw.Problem(gram, kw.losses.Hinge().bind(y), kw.penalties.L1()))
    >>> found.converged, sorted(gram.sets[k] for k in np.argsort(-found.weights)[:2])
    (True, [(1,), (3, 7)])
    """

    name = "active"
    needs = (BankGram,)
    takes = ("any",)
    biasless = True
    several = True
    summed = True

    def refuse(self, problem: Problem) -> str | None:
        return l1_only(problem)

    def init(self, problem: Problem, start: Array | None, tol: float) -> ActiveState:
        beta, m = start, problem.gram.shape[1]
        if beta is None or not bool(namespace(beta).any(beta != 0)):
            zero = problem.loss.zero
            beta = problem.feasible(-problem.loss.slope(zero + problem.best_bias(zero)))
        q = problem.gram.energies(beta)
        worth = q / problem.penalty.prices(m)
        kernels = np.sort(np.argpartition(-worth, min(SETTINGS.first, m - 1))[: SETTINGS.first])
        return ActiveState(tol, kernels, beta, problem.penalty.weights(q), q, np.zeros(m, dtype=bool))

    def step(self, problem: Problem, state: ActiveState) -> bool:
        state.second = state.primal is not None
        if state.primal is not None:
            state.beta, state.primal = state.primal, None
        else:
            found = self._solve(problem, state)
            state.weights = np.zeros(problem.gram.shape[1])
            state.weights[state.kernels] = found.weights
            state.beta, state.gap, state.upper = found.beta, found.gap, found.certificate.upper
            state.primal = found.coef / (found.certificate.scale or 1.0)
        state.q = problem.gram.energies(state.beta)
        return True

    def _solve(self, problem: Problem, state: ActiveState) -> Solution:
        gram, m = bank(problem), problem.gram.shape[1]
        penalty = problem.penalty.restrict(state.kernels, m)
        some = Problem(gram.only(state.kernels, state.matrices), problem.loss, penalty, problem.dual_sum)
        return solve_quietly(some, _quickest(some), tol=state.goal, max_iter=SETTINGS.steps, start=state.beta)

    def read(self, problem: Problem, state: ActiveState) -> Point:
        return Point(state.beta, state.weights, state.q, problem.gram.decision(state.beta, state.weights))

    def adapt(self, problem: Problem, state: ActiveState, certificate: Certificate) -> Status | None:
        if state.second:
            return None
        if certificate.upper <= state.upper + SETTINGS.slack * abs(state.upper) * max(state.gap, state.tol):
            state.primal = None  # the duals of the lower bound do for the upper one, too
        worth = state.q / problem.penalty.prices(state.q.size)
        kept, fine = _in_use(state, worth), SETTINGS.fine * state.tol
        state.left[np.setdiff1d(state.kernels, kept)] = True
        new = _violators(state, worth, max(SETTINGS.grow, int(SETTINGS.double * kept.size)))
        if not new.size and state.primal is None and (state.goal <= fine or state.gap > state.goal):
            return Status.STALLED  # those in play are solved as well as can be, and nothing is to be added
        state.kernels = np.concatenate([kept, new])  # those that stay come first, as matrices stay in their places
        left = certificate.gap if new.size else min(certificate.gap, state.goal)
        state.goal = max(fine, min(state.goal, SETTINGS.share * left))
        return None


def _in_use(state: ActiveState, worth: np.ndarray) -> np.ndarray:
    """Return the kernels in play that have weight, or an energy near the largest, or have left and returned before."""
    shares, own = state.weights[state.kernels], worth[state.kernels]
    used = (shares > SETTINGS.faint * shares.max()) | (own >= SETTINGS.stay * own.max())
    return state.kernels[used | state.left[state.kernels]]


def _violators(state: ActiveState, worth: np.ndarray, most: int) -> np.ndarray:
    """Return the kernels with more energy than any in play, the largest first, if they are many."""
    others = worth.copy()
    others[state.kernels] = -np.inf
    best = np.argpartition(-others, min(most, others.size - 1))[:most]
    return best[others[best] > worth[state.kernels].max()]


def _quickest(problem: Problem) -> str | Solver:
    """Return the solver on the kernels in play: on features the one whose steps do not multiply with their number."""
    if not isinstance(problem.gram, FactorGram) or problem.gram.columns > SETTINGS.wide:
        return "auto"
    try:
        check_pair(problem, Interior())
    except ValueError:
        return "auto"
    return Interior()
