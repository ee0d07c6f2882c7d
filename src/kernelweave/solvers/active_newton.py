"""Newton's method on the weights of the kernels in play: l1 on a bank too large to hold, for losses with a ridge."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..arrays import is_numpy
from ..grams import BankGram
from ..problem import Certificate, Point, Problem, Status
from .active import ActiveKernels, ActiveState
from .base import Solver, bank, l1_only, late


@dataclass(frozen=True)
class ActiveNewtonSettings:
    """Constants of Newton's method on the weights."""

    first: int = 16  #: kernels to begin with
    grow: int = 16  #: kernels that may join at a time, at least
    double: float = 0.5  #: share of those in play that may join at a time, if that is more
    near: float = 0.9  #: share of the level of energies that keeps a kernel without weight in play
    idle: float = 0.2  #: share of the kernels in play that may be neither, before they leave
    many: int = 20_000  #: kernels from which those in play are solved before all are scored
    rough: float = 0.05  #: gap to which they are solved at first
    share: float = 0.3  #: of the gap that is left, to which they are solved next
    fine: float = 0.5  #: of the gap asked for, to which they are solved last
    inner: int = 30  #: Newton steps on the duals at given weights, at most
    enough: float = 0.03  #: of the gap: fall of the objective that ends them
    halvings: int = 12  #: of a step along which the objective does not fall
    armijo: float = 1e-4  #: share of the promised fall that a step of the weights must bring
    exchanges: int = 5  #: times the kernels in play: most changes of sides in the programme of the weights
    jitter: float = 1e-12  #: share of its own diagonal by which the curvature of the weights is raised
    rounding: float = 1e-10  #: share of the slopes that counts as none
    same: float = 1e-12  #: share of the largest dual by which duals made feasible may differ and count as the same
    patience: int = 3  #: steps in a row without progress after which rounds take over
    most: int = 60  #: steps after which they do


SETTINGS = ActiveNewtonSettings()
ROUNDS = ActiveKernels()
LOG = logging.getLogger("kernelweave")
Solve = Callable[[np.ndarray, float], np.ndarray]


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass
class Fit:
    """The duals that are best for some weights, and what they make of the kernels in play."""

    beta: np.ndarray  # (n,)
    u: np.ndarray  # (D,) V' beta
    f: np.ndarray  # (n,) K_w beta
    bias: float
    value: float  # of the primal objective at these weights
    free: np.ndarray  # (n_free,) duals between their bounds
    solve: Solve | None = None  # with what they see of the kernels, where they are the best


@dataclass
class ActiveNewtonState:
    """The kernels in play, with their features and weights, and the duals that are best for these."""

    tol: float
    beta: np.ndarray  # (n,) duals, made feasible
    kernels: np.ndarray  # (a,) positions in the bank
    weights: np.ndarray  # (a,)
    rows: np.ndarray = field(default_factory=_nothing)  # (D, n) their features, a row for each
    starts: np.ndarray = field(default_factory=_nothing)  # (a,) the first row of each
    fit: Fit = field(default_factory=lambda: Fit(_nothing(), _nothing(), _nothing(), 0.0, np.inf, _nothing()))
    q: np.ndarray = field(default_factory=_nothing)  # (m,) energies of the whole bank, once it was scored
    goal: float = SETTINGS.rough  # gap to which the kernels in play are solved where there are many others
    gap: float = 1.0  # last certified
    steps: int = 0
    stuck: int = 0
    rounds: ActiveState | None = None  # of the other solver, where Newton's method came to an end


class ActiveNewton(Solver):
    """Newton's method on kernel weights over the duals that are best for them, kernels joining as they violate.

    At given weights the duals are those of one SVM, found by a few Newton steps on the samples whose duals are between
    their bounds; the optimum as a function of the weights has slopes ``-q_k / 2`` and a curvature that the same
    factored matrix gives. A step of the weights solves the quadratic programme on the simplex that these make. Every
    step scores the whole bank, so that the certificate is about all kernels, and those that violate join. Where steps
    do not help, as at huge costs they may not, `ActiveKernels` goes on, of which the log ``kernelweave`` tells.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> gram = kw.grams.EffectsGram([x[:, None] for x in X.T])
    >>> y = np.sign(X[:, 3] * X[:, 7] + X[:, 1])
    >>> found = kw.solve(kw.Problem(gram, kw.losses.SquaredHinge().bind(y), kw.penalties.L1()), "active-newton")
    >>> found.converged, sorted(gram.sets[k] for k in np.argsort(-found.weights)[:2])
    (True, [(1,), (3, 7)])
    """

    name = "active-newton"
    needs = (BankGram,)
    biasless = True
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        box = problem.loss.box
        if not is_numpy(box.linear) or not np.all(box.ridge > 0):
            return f"needs NumPy's duals with a ridge, which {problem.loss} has not: use solver='active'."
        if np.any(np.isfinite(box.lower) & np.isfinite(box.upper)):
            return f"takes duals with one bound at most, and those of {problem.loss} have two: use solver='active'."
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> ActiveNewtonState:
        m, zero, beta = problem.gram.shape[1], problem.loss.zero, start
        if beta is None or not beta.any():
            beta = problem.feasible(-problem.loss.slope(zero + problem.best_bias(zero)))
        q = problem.gram.energies(beta)
        worth = q / problem.penalty.prices(m)
        kernels = np.sort(np.argpartition(-worth, min(SETTINGS.first, m - 1))[: SETTINGS.first])
        weights = 1.0 / (kernels.size * problem.penalty.prices(m)[kernels])
        state = ActiveNewtonState(tol, beta, kernels, weights)
        _begin(problem, state)
        return state

    def lean(self, problem: Problem, state: ActiveNewtonState, weights: np.ndarray) -> None:
        used = np.flatnonzero(weights)
        if used.size and state.rounds is None:
            shares = weights[used] * problem.penalty.prices(weights.size)[used]
            state.kernels, state.weights = used, weights[used] / shares.sum()
            _begin(problem, state)

    def step(self, problem: Problem, state: ActiveNewtonState) -> bool:
        if state.rounds is not None:
            return ROUNDS.step(problem, state.rounds)
        state.steps += 1
        try:
            _step(problem, state)
        except np.linalg.LinAlgError:  # numbers too large or too small: what there is, is judged
            state.stuck = SETTINGS.patience
        state.beta = problem.feasible(state.fit.beta)
        state.q = problem.gram.energies(state.beta)
        return True

    def read(self, problem: Problem, state: ActiveNewtonState) -> Point:
        if state.rounds is not None:
            return ROUNDS.read(problem, state.rounds)
        fit, (weights, q) = state.fit, np.zeros((2, problem.gram.shape[1]))
        weights[state.kernels] = state.weights
        if np.max(np.abs(state.beta - fit.beta)) <= SETTINGS.same * np.max(np.abs(fit.beta)):
            return Point(state.beta, weights, state.q, fit.f)
        q[state.kernels] = np.add.reduceat(fit.u * fit.u, state.starts)
        return Point(state.beta, weights, state.q, fit.f, fit.beta, q)

    def adapt(self, problem: Problem, state: ActiveNewtonState, certificate: Certificate) -> Status | None:
        if state.rounds is not None:
            return ROUNDS.adapt(problem, state.rounds, certificate)
        if state.stuck >= SETTINGS.patience or state.steps >= SETTINGS.most:
            LOG.info("active-newton: its steps do not help any more, rounds as those of active go on.")
            state.rounds = ROUNDS.init(problem, state.beta, state.tol)
            return None
        state.gap, state.goal = certificate.gap, max(SETTINGS.fine * state.tol, SETTINGS.share * certificate.gap)
        worth = state.q / problem.penalty.prices(state.q.size)
        level = float(state.weights @ state.q[state.kernels])  # the mean of worths, by shares
        idle = (state.weights == 0.0) & (worth[state.kernels] < SETTINGS.near * level)
        if np.mean(idle) > SETTINGS.idle:
            _leave(state, idle)
        others = worth.copy()
        others[state.kernels] = -np.inf
        most = max(SETTINGS.grow, int(SETTINGS.double * state.kernels.size))
        best = np.argpartition(-others, min(most, others.size - 1))[:most]
        new = best[others[best] > level]
        if new.size:
            _join(problem, state, new)
        return None


def _step(problem: Problem, state: ActiveNewtonState) -> None:
    """Go a step of the weights; where kernels are many, as many as it takes to solve those in play."""
    if problem.gram.shape[1] < SETTINGS.many:
        if state.q.size:  # else the first weights are judged as they are
            _step_of_weights(problem, state)
        return
    state.stuck += _own_gap(problem, state) <= state.goal
    while _own_gap(problem, state) > state.goal and state.stuck < SETTINGS.patience and not late():
        _step_of_weights(problem, state)


# -- the kernels in play --


def _features(gram: BankGram, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, n), (a,)
    """Return the features of some kernels, a row for each, and the first row of each kernel."""
    blocks = [block.T for block in gram.blocks(kernels)]
    ends = np.cumsum([block.shape[0] for block in blocks])
    return np.concatenate(blocks).astype(float, copy=False), np.concatenate([[0], ends[:-1]]).astype(int)


def _begin(problem: Problem, state: ActiveNewtonState) -> None:
    """Have the features of the kernels in play, and the duals that are best for their weights."""
    state.rows, state.starts = _features(bank(problem), state.kernels)
    per_row = np.repeat(state.weights, _ranks(state.rows, state.starts))
    state.fit = _seen(problem, state.rows, per_row, state.beta)
    try:
        state.fit = _best_duals(problem, state, state.weights, state.fit)
    except np.linalg.LinAlgError:
        state.stuck = SETTINGS.patience


def _join(problem: Problem, state: ActiveNewtonState, new: np.ndarray) -> None:
    rows, starts = _features(bank(problem), new)
    state.starts = np.concatenate([state.starts, state.rows.shape[0] + starts])
    state.rows = np.concatenate([state.rows, rows])
    state.kernels = np.concatenate([state.kernels, new])
    state.weights = np.concatenate([state.weights, np.zeros(new.size)])
    state.fit.u = state.rows @ state.fit.beta


def _leave(state: ActiveNewtonState, gone: np.ndarray) -> None:
    ranks = _ranks(state.rows, state.starts)[~gone]
    kept = np.repeat(~gone, _ranks(state.rows, state.starts))
    state.rows, state.fit.u = state.rows[kept], state.fit.u[kept]
    state.starts = np.concatenate([[0], np.cumsum(ranks)[:-1]]).astype(int)
    state.kernels, state.weights = state.kernels[~gone], state.weights[~gone]


def _ranks(rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.diff(np.append(starts, rows.shape[0]))


# -- the duals at given weights --


def _seen(
    problem: Problem,
    rows: np.ndarray,
    per_row: np.ndarray,
    beta: np.ndarray,
    u: np.ndarray | None = None,
    near: float | None = None,
) -> Fit:
    """Return duals with their products and their value at given weights, one for each row of the features."""
    u = rows @ beta if u is None else u
    z = per_row * u
    f = z @ rows
    bias = problem.best_bias(f, near)
    value = 0.5 * float(z @ u) + problem.total_loss(f, bias)
    return Fit(beta, u, f, bias, value, _free(problem, f + bias))


def _asked(problem: Problem, f: np.ndarray) -> np.ndarray:  # (n,)
    """Return the duals that decision values ask for, bounds aside."""
    box = problem.loss.box
    return (box.linear - f) / box.ridge


def _free(problem: Problem, f: np.ndarray) -> np.ndarray:
    box, asked = problem.loss.box, _asked(problem, f)
    return np.flatnonzero((asked > box.lower) & (asked < box.upper))


def _best_duals(problem: Problem, state: ActiveNewtonState, weights: np.ndarray, fit: Fit) -> Fit:
    """Return the best duals at given weights, by Newton's method from those of ``fit``."""
    per_row, rows = np.repeat(weights, _ranks(state.rows, state.starts)), state.rows
    fit = _seen(problem, rows, per_row, fit.beta, fit.u, fit.bias)
    for _ in range(SETTINGS.inner):
        if late():
            break
        solve = _factored(problem, rows, per_row, fit.free)
        goal = _goal(problem, rows, per_row, fit, solve)
        new = _seen(problem, rows, per_row, goal, None, fit.bias)
        if np.array_equal(new.free, fit.free):
            return replace(new, solve=solve)
        for _ in range(SETTINGS.halvings):
            if new.value < fit.value:
                break
            goal = 0.5 * (goal + fit.beta)
            new = _seen(problem, rows, per_row, goal, 0.5 * (new.u + fit.u), fit.bias)
        else:
            return fit
        fall, fit = fit.value - new.value, new
        if fall <= SETTINGS.enough * min(state.gap, 1.0) * abs(fit.value):
            break
    return fit


def _goal(problem: Problem, rows: np.ndarray, per_row: np.ndarray, fit: Fit, solve: Solve) -> np.ndarray:  # (n,)
    """Return the best duals if those that are free stay so, and the others stay at their bounds."""
    box, free = problem.loss.box, fit.free
    goal = np.clip(_asked(problem, fit.f + fit.bias), box.lower, box.upper)
    goal[free] = 0.0
    r = box.linear[free]
    if goal.any():
        r = r - (per_row * (rows @ goal)) @ rows[:, free]
    goal[free] = solve(r, float(goal.sum()))
    return goal


def _factored(problem: Problem, rows: np.ndarray, per_row: np.ndarray, free: np.ndarray) -> Solve:
    """Return what solves with ``diag(ridge) + K_w`` between the free samples for what sums up with the others.

    The smaller of two matrices is factored: one between samples, or one between features.
    """
    used, own = np.flatnonzero(per_row > 0), problem.loss.box.ridge[free]
    L = np.sqrt(per_row[used])[:, None] * rows[np.ix_(used, free)] / np.sqrt(own)  # (D, n_free)
    between = free.size <= used.size
    M = L.T @ L if between else L @ L.T
    M[np.diag_indices_from(M)] += 1.0
    factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)

    def alone(r: np.ndarray) -> np.ndarray:
        scaled = (r.T / np.sqrt(own)).T
        if between:
            x = cho_solve(factor, scaled, check_finite=False)
        else:
            x = scaled - L.T @ cho_solve(factor, L @ scaled, check_finite=False)
        return (x.T / np.sqrt(own)).T

    if not problem.bias or not free.size:
        return lambda r, others: alone(r)
    even = alone(np.ones(free.size))

    def balanced(r: np.ndarray, others: float) -> np.ndarray:
        x = alone(r)
        level = (x.sum(axis=0) + others) / even.sum()
        return x - (even * level if r.ndim == 1 else np.outer(even, level))

    return balanced


# -- the weights --


def _own_gap(problem: Problem, state: ActiveNewtonState) -> float:
    """Return the gap as far as the kernels in play are concerned: how far energies are above their mean by shares."""
    q = np.add.reduceat(state.fit.u * state.fit.u, state.starts)
    worth = q / problem.penalty.prices(problem.gram.shape[1])[state.kernels]
    return 0.5 * float(worth.max() - state.weights @ q) / max(abs(state.fit.value), 1e-300)


def _step_of_weights(problem: Problem, state: ActiveNewtonState) -> None:
    """Go to where the quadratic model of the optimum in the weights is least, or as far as it falls."""
    fit, prices = state.fit, problem.penalty.prices(problem.gram.shape[1])[state.kernels]
    slopes = -0.5 * np.add.reduceat(fit.u * fit.u, state.starts)
    step = _programme(_curvature(problem, state), slopes, prices, state.weights) - state.weights
    promised, t = float(slopes @ step), 1.0
    for _ in range(SETTINGS.halvings):
        weights = np.maximum(state.weights + t * step, 0.0)
        new = _best_duals(problem, state, weights, fit)
        if new.value <= fit.value + SETTINGS.armijo * t * promised:
            state.stuck = 0 if fit.value - new.value > SETTINGS.rounding * abs(fit.value) else state.stuck + 1
            state.weights, state.fit = weights, new
            return
        t *= 0.5
    state.stuck += 1


def _curvature(problem: Problem, state: ActiveNewtonState) -> np.ndarray:  # (a, a)
    """Return the second derivatives of the optimum in the weights."""
    fit, rows = state.fit, state.rows
    free, ends = fit.free, np.append(state.starts[1:], rows.shape[0])
    products = np.empty((state.kernels.size, free.size))  # K_k beta at the free samples
    some = rows[:, free]
    for k, (first, last) in enumerate(zip(state.starts, ends, strict=True)):
        products[k] = fit.u[first:last] @ some[first:last]
    solve = fit.solve
    if solve is None:
        solve = _factored(problem, rows, np.repeat(state.weights, _ranks(rows, state.starts)), free)
    return products @ solve(products.T, 0.0)


def _programme(H: np.ndarray, g: np.ndarray, prices: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return x >= 0 with ``prices @ x`` as at w and least ``g @ (x - w) + (x - w) @ H @ (x - w) / 2``.

    Active sets from w on: entries go to zero where they would fall below it, and come in where that helps most.
    """
    own = np.diag(H)
    H = H + np.diag(SETTINGS.jitter * np.where(own > 0, own, 1.0))
    x, inside = w.copy(), w > 0
    for _ in range(SETTINGS.exchanges * w.size):
        slope = g + H @ (x - w)
        S = np.flatnonzero(inside)
        move, level = _on_the_plane(H[np.ix_(S, S)], slope[S], prices[S])
        falls = move < 0
        room = float(np.min(-x[S][falls] / move[falls], initial=np.inf))
        if room < 1.0:
            x[S] += room * move
            out = S[falls][np.argmin(-x[S][falls] / move[falls])]
            x[out], inside[out] = 0.0, False
            continue
        x[S] += move
        pull = (g + H @ (x - w)) / prices + level
        pull[inside] = 0.0
        enters = int(np.argmin(pull))
        if pull[enters] >= -SETTINGS.rounding * abs(level):
            break
        inside[enters] = True
    return np.maximum(x, 0.0)


def _on_the_plane(H: np.ndarray, g: np.ndarray, prices: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the d with ``prices @ d = 0`` and least ``g @ d + d @ H @ d / 2``, and the multiplier of the plane."""
    factor = cho_factor(H, lower=True, check_finite=False)
    one, other = cho_solve(factor, np.column_stack([g, prices]), check_finite=False).T
    bend = float(prices @ other)
    if not bend > 0.0:
        raise np.linalg.LinAlgError("numbers too large or too small for a step")
    level = -float(prices @ one) / bend
    return -one - level * other, level
