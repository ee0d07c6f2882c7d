"""Spectral projected gradients on the kernel weights, with SVMs as precise as the gap asks for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq

from ...grams import EntryGram
from ...penalties import Lp
from ...penalties.norms import lp_norm
from ...penalties.prox import project_simplex
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, unit_of
from .svm import TrainedSVM, behind, first_eps, least_eps, sharper, train


@dataclass(frozen=True)
class SPGSettings:
    """Constants of the spectral projected gradient method."""

    memory: int = 10  #: values of which the largest must be bettered
    enough: float = 1e-4  #: share of the promised fall that is enough
    trials: int = 12  #: of one line search
    shorter: tuple[float, float] = (0.1, 0.5)  #: least and largest factor of a step that was too long
    rough: float = 0.1  #: violation of the first SVM, in units of the slopes
    precision: float = 0.1  #: share of the gap that an SVM may be wrong by
    newton: int = 30  #: steps of a projection, which converge from one side
    shortest: float = 1e-10  #: spectral step
    longest: float = 1e10  #: spectral step


SETTINGS = SPGSettings()


@dataclass
class SPGState:
    """The SVM at ``shares``, its energies and gradient, the spectral step and the values of the last SVMs.

    Shares are weights times the prices that an l1 penalty puts on kernels.
    """

    shares: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    eps: float
    stale: bool = True  # whether an SVM is to be trained at the shares before they move
    svm: TrainedSVM | None = None
    q: np.ndarray | None = None  # (m,)
    gradient: np.ndarray | None = None  # (m,)
    length: float | None = None
    end: Status | None = None
    values: deque[float] = field(default_factory=lambda: deque(maxlen=SETTINGS.memory))


class SPG(Solver):
    """The spectral projected gradient method of Jain, Vishwanathan and Varma (KDD 2012), for l1 and lp.

    It minimises over the weights that the penalty allows the value ``J(w)`` of the SVM at ``w``. Steps are as long as
    the last change of the gradient suggests, J may rise as long as it stays below the largest of the last ten, and
    SVMs are trained to a share of the duality gap. The paper has a price on the weights and projects on ``w >= 0``;
    here, as for the other methods, weights have a bound, and are projected on the simplex or the ball of the p-norm.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(penalty=kw.penalties.Lp(1.5), solver="spg").get_params()["solver"]
    'spg'
    """

    name = "spg"
    needs = (EntryGram,)
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        penalty = problem.penalty
        if penalty.on_simplex or (isinstance(penalty, Lp) and np.isfinite(penalty.p)):
            return None
        return f"is for penalty='l1' and for Lp(p) with a finite p, not {penalty}: use solver='sqp'."

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SPGState:
        n, m = problem.gram.shape
        weights = problem.penalty.weights_of_norms(np.ones(m))
        if start is None or not start.any():
            return SPGState(weights * _prices(problem), np.zeros(n), SETTINGS.rough * unit_of(problem))
        if problem.penalty.smooth:
            weights = problem.penalty.weights(problem.gram.energies(start))
        return SPGState(weights * _prices(problem), start, first_eps(problem, tol))

    def step(self, problem: Problem, state: SPGState) -> bool:
        if state.stale:
            found: TrainedSVM | None = train(problem, state.shares / _prices(problem), state.beta, state.eps)
        else:
            found = _search(problem, state)
        state.stale = found is None
        if found is not None:
            _arrive(problem, state, found)
            return True
        state.eps, state.end = sharper(problem, state.eps)
        return state.end is not None

    def read(self, problem: Problem, state: SPGState) -> Point:
        if state.svm is None or state.q is None:
            return Point(state.beta, state.shares / _prices(problem))
        return state.svm.point(state.q)

    def adapt(self, problem: Problem, state: SPGState, certificate: Certificate) -> Status | None:
        width, mass = certificate.upper - certificate.lower, float(np.abs(state.beta).sum())
        state.stale = behind(problem, self.read(problem, state), certificate)
        if state.stale and state.end is None:
            state.eps, state.end = sharper(problem, state.eps)
        if mass > 0:
            state.eps = min(state.eps, max(SETTINGS.precision * width / mass, least_eps(problem)))
        return state.end


def _prices(problem: Problem) -> np.ndarray:
    """Return what a share is to a weight."""
    return problem.penalty.prices(problem.gram.shape[1])


def _arrive(problem: Problem, state: SPGState, svm: TrainedSVM) -> None:
    """Take an SVM as the new point, and from the change of the gradient the next spectral step."""
    shares, gradient = state.shares, state.gradient
    state.svm, state.beta, state.q = svm, svm.beta, problem.gram.energies(svm.beta)
    state.shares = svm.weights * _prices(problem)
    state.gradient = -0.5 * state.q / _prices(problem)
    state.values.append(svm.value)
    if gradient is None:
        return
    move, change = state.shares - shares, state.gradient - gradient
    bend = float(move @ change)
    if move.any():
        longest = SETTINGS.longest
        state.length = float(np.clip(move @ move / bend, SETTINGS.shortest, longest)) if bend > 0 else longest


def _search(problem: Problem, state: SPGState) -> TrainedSVM | None:
    """Return the first SVM along the projected gradient that is good enough, or None where none is."""
    assert state.gradient is not None
    if state.length is None:
        state.length = 1.0 / max(float(np.abs(state.gradient).max()), 1e-300)
    along = project(problem, state.shares - state.length * state.gradient) - state.shares
    slope, t, largest = float(state.gradient @ along), 1.0, max(state.values)
    noise = state.eps * float(np.abs(state.beta).sum())
    for _ in range(SETTINGS.trials if slope < 0 else 0):
        shares = state.shares + t * along
        svm = train(problem, shares / _prices(problem), state.beta, state.eps)
        if svm.value <= largest + SETTINGS.enough * t * slope + noise:
            return svm
        t *= float(np.clip(-0.5 * t * slope / (svm.value - state.values[-1] - t * slope), *SETTINGS.shorter))
    return None


def project(
    problem: Problem,
    shares: np.ndarray,  # (m,)
) -> np.ndarray:  # (m,)
    """Return the nearest shares that the penalty allows."""
    if problem.penalty.on_simplex:
        return project_simplex(shares)
    assert isinstance(problem.penalty, Lp)
    return _on_ball(np.maximum(shares, 0.0), float(problem.penalty.p))


def _on_ball(
    v: np.ndarray,  # (m,)
    p: float,
) -> np.ndarray:  # (m,)
    """Return the nearest point to a nonnegative ``v`` with p-norm at most one: ``x + t x^(p-1) = v`` for some t."""
    if lp_norm(v, p) <= 1.0:
        return v
    most = lp_norm(v, p / (p - 1.0))  # beyond it x, which is at most (v / t)^(1 / (p - 1)), is inside the ball
    t = brentq(lambda t: lp_norm(_shrunk(v, t, p), p) - 1.0, 0.0, 2.0 * most, xtol=1e-300, rtol=1e-14)
    return _shrunk(v, t, p)


def _shrunk(v: np.ndarray, t: float, p: float) -> np.ndarray:
    """Return x with ``x + t x^(p-1) = v``: Newton's method from above, in x or, for p below 2, in ``x^(p-1)``."""
    if t == 0.0:
        return v
    x, inside = np.zeros_like(v), v > 0
    v, root = v[inside], 1.0 / (p - 1.0)
    with np.errstate(over="ignore"):
        z = np.minimum(v, (v / t) ** root)
    linear, curved, power = (1.0, t, p - 1.0) if p >= 2.0 else (t, 1.0, root)
    z = z if p >= 2.0 else z ** (p - 1.0)
    for _ in range(SETTINGS.newton):
        bent = curved * z ** (power - 1.0)
        z = np.minimum(z, np.maximum((v + (power - 1.0) * bent * z) / (linear + power * bent), 0.0))
    x[inside] = z if p >= 2.0 else z**root
    return x
