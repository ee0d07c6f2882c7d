"""Dual ascent for losses with one dual or a row of duals for each sample, with a bias or without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import is_numpy
from ..certify import certify
from ..grams.base import GramStack, support_of
from ..losses import CrammerSinger, Hinge, Logistic, Loss
from ..losses.base import BoxQuadratic
from ..penalties.base import MixingPenalty
from ..penalties.norms import L1, Fixed
from ..penalties.prox import EntropicProx
from ..problem import Certificate, Point, Problem, Status
from .base import TINY, Solver, no_gradient

SHARE = 0.03  # of the width of the bounds that what a step leaves undone may take
SLOW = 0.5  # share of its width that a step leaves of it after which the next one is to be more precise
FIRST = 2000  # samples that the first step works on, at most,
MOST = 4000  # and any other
NEAR = 0.3  # margin within which a sample is worth working on
BUDGET = 40  # moves in a step, per sample,
AT_LEAST = 30_000  # or these
PRECISE = 1e-16  # relative gap to which problems of TINY size are solved,
NEWTON = 100  # in this many steps at most,
FRUITLESS = 6  # and most without a better point;
ENDS = 5  # in vain, after which that is the end
BEHIND = 0.3  # share of the width due to the weights at which a proximal stage is left for the next
GROWTH = 3.0  # of the proximal step from stage to stage
STRONGEST = 3e3  # most strength of a proximal step
TRIM = 1e-6  # times tol: share below which a kernel gets weight zero at once,
CUTS = (1e-4, 1e-5, 1e-6, 1e-8)  # and at the end, if the gap allows
FLOOR = 1e-4  # times tol: share every kernel keeps while the weights move, so that it can come back
FAINT = 1e-9  # share of the largest weight or bend that is not followed
LEAST = 1e-15  # share of the objective below which floating point has no more to give
ROUNDING = 1e-13  # error of a slope, in moves: a rise that cannot be told from none is taken
INSIDE = 1e-9  # share of its range that a dual of the entropy keeps from the bounds at the start


@dataclass
class AscentState:
    """Duals with ``g[c, i, k] = (K_k beta_c)_i`` and ``q``, the penalty followed, how precise a step is to be."""

    box: BoxQuadratic | None
    penalty: MixingPenalty
    beta: np.ndarray  # (n, c)
    g: np.ndarray  # (c, n, m)
    q: np.ndarray  # (m,)
    tol: float
    width: float  # of the bounds
    share: float = SHARE
    rose: bool = True  # whether the last step changed anything
    stuck: bool = False  # whether floating point has no more to give
    ends: int = 0  # times in a row that a problem of TINY size was taken to an end that is none


class Ascent(Solver):
    """Newton's method on the duals, each step solved by greedy coordinate ascent.

    The dual of the mixing is replaced by a quadratic: one combined kernel and a correction of the rank of the kernels
    in play; that of the loss is kept as it is. The model is climbed one dual at a time, two where a bias holds their
    sum, or one sample's row of duals for a joint margin of several classes, always where most is to be gained. Then
    the whole move is taken as far as the true objective rises. For l1 the weights follow entropic proximal steps.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    >>> gram = DenseGram(np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2))
    >>> y = np.array([0, 0, 1, 1, 2, 2])
    >>> problem = Problem(gram, losses.CrammerSinger(), penalties.L1(), y, C=10.0, bias=False)
    >>> solve(problem, "ascent").gap <= 1e-3
    True
    """

    name = "ascent"
    needs_quadratic = False
    biasless = True
    joint = True

    def refuse(self, problem: Problem) -> str | None:
        loss, features = problem.loss, getattr(problem.gram, "features", None)
        if features is not None and not is_numpy(features):
            return "runs on NumPy features: convert X to NumPy."
        if features is None and not hasattr(problem.gram, "spread"):
            return "needs the columns of single kernels, which products lack: use solver='auto'."
        if not has_duals(loss):
            return f"knows no dual of {loss}: use solver='mirror'."
        if problem.bias and not isinstance(loss, Logistic):
            return f"takes {loss} without a bias only: use solver='auto', or fit_intercept=False."
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> AscentState:
        shape, m = (problem.shape + (1,))[:2], problem.gram.shape[1]
        flat = Fixed(_flat(problem.penalty, m))
        box, beta = box_of(problem), np.zeros(shape)
        if isinstance(problem.loss, Logistic):
            beta[:, 0] = _inside(problem, start)
        elif start is not None:
            beta[:] = start.reshape(shape)
        zero = np.zeros(problem.shape)
        width = float(np.sum(problem.loss.value(zero, problem.y, problem.C)))
        tol = min(tol, PRECISE) if shape[0] <= TINY else tol
        state = AscentState(box, flat, beta, np.zeros((shape[1], shape[0], m)), np.zeros(m), tol, width)
        if beta.any():
            self.refresh(problem, state)
        if start is not None and start.any():
            state.penalty = _followed(problem.penalty, state)
        return state

    def step(self, problem: Problem, state: AscentState) -> bool:
        _newton(problem, state)
        if problem.y.size <= TINY:
            self._to_the_end(problem, state)
        return True

    def _to_the_end(self, problem: Problem, state: AscentState) -> None:
        """Go on while floating point gives more, and leave the best point met."""
        best, since = (np.inf, state.beta, state.g, state.q, state.penalty), 0
        for _ in range(NEWTON):
            certificate = certify(problem, self.read(problem, state), trust=True)
            since += 1
            if certificate.gap < best[0]:
                best = (certificate.gap, state.beta.copy(), state.g.copy(), state.q.copy(), state.penalty)
                since = 0
            _adapt(state, certificate)
            if certificate.gap <= PRECISE or state.stuck or since > FRUITLESS:
                break
            _newton(problem, state)
        _, state.beta, state.g, state.q, state.penalty = best
        state.ends = state.ends + 1 if since > FRUITLESS else 0

    def read(self, problem: Problem, state: AscentState) -> Point:
        weights = state.penalty.weights(state.q)
        if isinstance(state.penalty, EntropicProx):
            shares = state.penalty.shares(state.q)
            weights = np.where(shares < TRIM * state.tol, 0.0, shares) / state.penalty.prices
        f = (state.g @ weights).T
        return Point(state.beta.reshape(problem.shape).copy(), weights, state.q.copy(), f.reshape(problem.shape))

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return the point of l1 without its smallest weights, from the boldest cut down."""
        if not isinstance(problem.penalty, L1):
            return []
        shares = point.weights * problem.penalty.prices(point.weights.size)
        cuts = [np.where(shares < cut, 0.0, point.weights) for cut in CUTS]
        return [Point(point.beta, weights) for weights in cuts if weights.any()]

    def heed(self, problem: Problem, state: AscentState, certificate: Certificate) -> Status | None:
        _adapt(state, certificate)
        return Status.STALLED if state.stuck or state.ends >= ENDS else None

    def refresh(self, problem: Problem, state: AscentState) -> None:
        support = support_of(state.beta)
        state.g = _spread(problem.gram, state.beta[support], support)
        state.q = np.maximum(np.einsum("ic,cik->k", state.beta, state.g), 0.0)


def _newton(problem: Problem, state: AscentState) -> None:
    """One step on the samples worth it."""
    rows = _chosen(problem, state)
    state.rose = _advance(problem, state, rows, _climb(problem, state, rows) - state.beta[rows])
    if isinstance(state.penalty, Fixed) and not isinstance(problem.penalty, Fixed):
        state.penalty = _followed(problem.penalty, state)


def _adapt(state: AscentState, certificate: Certificate) -> None:
    """Ask for more precision after a step that changed nothing, and for the next stage where the weights are behind."""
    width, prox = certificate.upper - certificate.lower, state.penalty
    state.stuck = not state.rose and state.share * width <= LEAST * abs(certificate.upper)
    slow = not state.rose or width > SLOW * state.width
    state.share, state.width = (0.3 if slow else 1.0) * state.share, width
    if not isinstance(prox, EntropicProx):
        return
    shares, costs = prox.shares(state.q), state.q / prox.prices
    mixing = 0.5 * (float(costs.max()) - float(shares @ costs))
    if mixing > BEHIND * width:
        tau = min(GROWTH * prox.tau, max(STRONGEST / max(float(costs.max()), 1e-300), prox.tau))
        state.penalty = EntropicProx(_floored(shares, state.tol), tau, prox.prices)
        state.stuck, state.share = False, SHARE


def _flat(penalty: MixingPenalty, m: int) -> np.ndarray:
    return penalty.weights_of_norms(np.ones(m))


def has_duals(loss: Loss) -> bool:
    """Whether the duals of a loss are known to move by one at a time, or by rows."""
    return isinstance(loss, (Logistic, CrammerSinger)) or hasattr(loss, "quadratic")


def box_of(problem: Problem) -> BoxQuadratic | None:
    """Return the bounds of scalar duals; those of the logistic loss are the hinge's."""
    loss = problem.loss
    if isinstance(loss, CrammerSinger):
        return None
    return (Hinge() if isinstance(loss, Logistic) else loss).quadratic(problem.y, problem.C)


def _inside(problem: Problem, start: np.ndarray | None) -> np.ndarray:
    """Return duals of the entropy away from their bounds, summing to zero where they must."""
    y, C = problem.y, problem.C
    if start is not None and start.any():
        return problem.feasible(y * np.clip(y * start, INSIDE * C, (1.0 - INSIDE) * C))
    return problem.feasible(0.5 * y * C * INSIDE**0.25)


def _followed(penalty: MixingPenalty, state: AscentState) -> MixingPenalty:
    """Return the penalty to follow after fixed weights: the problem's own, or an entropic step for l1."""
    if not isinstance(penalty, L1):
        return penalty
    prices = penalty.prices(state.q.size)
    top = float(np.max(state.q / prices))
    return EntropicProx(np.full(prices.size, 1.0 / prices.size), 10.0 / max(top, 1e-300), prices)


def _floored(shares: np.ndarray, tol: float) -> np.ndarray:
    raised = np.maximum(shares, FLOOR * tol / shares.size)
    return raised / raised.sum()


def _chosen(problem: Problem, state: AscentState) -> np.ndarray:
    """Return the samples worth working on: those with duals, and those that err or nearly do."""
    n = problem.y.size
    if not state.q.any():
        return np.sort(np.random.default_rng(0).permutation(n)[:FIRST])
    f = (state.g @ state.penalty.weights(state.q)).T.reshape(problem.shape)
    f, beta = f + problem.best_bias(f), state.beta.reshape(problem.shape)
    gaps = problem.loss.value(f, problem.y, problem.C) - problem.loss.dual(beta, problem.y, problem.C)
    gaps += np.sum(f * beta, axis=1) if f.ndim == 2 else f * beta
    matters = isinstance(problem.loss, Logistic) | state.beta.any(axis=1) | _near(problem, f)
    worth = np.where(matters, gaps, -np.inf)
    few = np.argsort(-worth, kind="stable")[:MOST]
    return np.sort(few[np.isfinite(worth[few])])


def _near(problem: Problem, f: np.ndarray) -> np.ndarray:
    """Whether each sample errs, or would if the margin were a little wider."""
    if f.ndim == 1:
        return problem.y * f < 1.0 + NEAR
    rows = np.arange(f.shape[0])
    own = problem.y.astype(int)
    others = f.copy()
    others[rows, own] = -np.inf
    return f[rows, own] - others.max(axis=1) < 1.0 + NEAR


def _combined(gram: GramStack, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return gram.square(rows, weights) if hasattr(gram, "features") else gram.combine(rows, weights)


def _spread(gram: GramStack, delta: np.ndarray, rows: np.ndarray) -> np.ndarray:  # (c, n, m)
    return gram.reach(delta, rows) if hasattr(gram, "features") else gram.spread(delta, rows)


def _climb(problem: Problem, state: AscentState, rows: np.ndarray) -> np.ndarray:
    """Return the duals of some samples at which the model is best, about."""
    from ..compiled import ascent as engine

    weights, curvature = state.penalty.weights(state.q), state.penalty.curvature(state.q)
    metric = weights if weights.any() else _flat(problem.penalty, weights.size)  # where all are silent, any will do
    hessian = _combined(problem.gram, rows, np.where(metric > FAINT * metric.max(), metric, 0.0))
    bent = np.flatnonzero(np.diag(curvature) > FAINT * np.diag(curvature).max(initial=0.0))
    J = np.ascontiguousarray(2.0 * curvature[np.ix_(bent, bent)])
    g = np.ascontiguousarray(np.moveaxis(state.g[:, rows][:, :, bent], 0, 2))  # (b, a, c)
    gradient = np.ascontiguousarray((state.g[:, rows] @ weights).T)
    beta, budget = state.beta[rows], max(BUDGET * rows.size, AT_LEAST)
    mass = float(np.sum(np.abs(state.beta))) + 1e-300
    undone = min(state.share, state.share * state.width / mass)  # in slopes, which times duals make a width
    least = 0.25 * undone**2 / max(float(np.mean(np.diag(hessian))), 1e-300)
    if state.box is None:
        y, C = problem.y[rows].astype(np.int64), problem.C[rows]
        engine.rows(hessian, gradient, beta, y, C, g, J, least, budget)
        return beta
    hessian += g[:, :, 0] @ J @ g[:, :, 0].T
    box, smooth = state.box.take(rows), isinstance(problem.loss, Logistic)
    single, slope = np.ascontiguousarray(beta[:, 0]), np.ascontiguousarray(gradient[:, 0])
    if problem.bias:
        engine.pairs(hessian, slope, single, box.lower, box.upper, least, budget)
    else:
        engine.singles(smooth, hessian, slope, single, box.linear, box.ridge, box.lower, box.upper, least, budget)
    return single[:, None]


def _advance(problem: Problem, state: AscentState, rows: np.ndarray, delta: np.ndarray) -> bool:
    """Move by ``delta`` as far as the objective rises; whether it did."""
    moved = np.flatnonzero(delta.any(axis=1))
    if moved.size == 0:
        return False
    rows, delta = rows[moved], delta[moved]
    spread = _spread(problem.gram, delta, rows)
    along = np.einsum("ic,cik->k", delta, state.g[:, rows])
    bend = np.maximum(np.einsum("ic,cik->k", delta, spread[:, rows]), 0.0)
    rise = _rise(problem, state, rows, delta)

    def slope(t: float) -> float:
        energies = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
        return float(state.penalty.weights(energies) @ (along + t * bend)) - rise(t)

    t = _zero(slope, ROUNDING * float(np.abs(delta).sum()))
    state.beta[rows] += t * delta
    state.g += t * spread
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    return t > 0.0


def _rise(problem: Problem, state: AscentState, rows: np.ndarray, delta: np.ndarray) -> Any:
    """Return the slope of the losses' duals along ``delta`` as a function of the step."""
    beta, box = state.beta[rows], state.box
    if box is None:
        total = float(np.sum(delta[np.arange(rows.size), problem.y[rows].astype(int)]))
        return lambda t: total
    part, start, step = box.take(rows), beta[:, 0], delta[:, 0]
    if not isinstance(problem.loss, Logistic):
        return lambda t: float((part.linear - part.ridge * (start + t * step)) @ step)

    def rise(t: float) -> float:
        low, high = start + t * step - part.lower, part.upper - start - t * step
        return float(np.log(np.maximum(high, 1e-300) / np.maximum(low, 1e-300)) @ step)

    return rise


def _zero(slope: Any, rounding: float) -> float:
    """Return the step in [0, 1] at which a rising slope stops being negative."""
    if slope(1.0) <= rounding:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
    return low
