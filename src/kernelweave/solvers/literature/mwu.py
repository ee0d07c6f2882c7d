"""Multiplicative weights: two columns of each kernel per step, and memory for two products with each kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...grams import CombinableGram, DenseGram, EntryGram
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, combinable, l1_only
from .terms import MarginTerms, margin_terms

STEPS = ("searched", "annealed", "paper")


@dataclass(frozen=True)
class MWUSettings:
    """Constants of multiplicative weights."""

    batch: int = 128  #: steps in one iteration, once that many have been made
    fall: float = 0.7  #: a point is worth judging when its bounds are this much nearer to each other than the last's
    rough: float = 1e-2  #: relative gap below which other solvers are much faster
    faint: float = 1e-3  #: share of the weight below which a kernel is left out of the final model, if that certifies
    least: float = 1e-12  #: relative distance of the bounds at which floating point has no more to give
    rate: float = 1.5  #: a distance of the bounds of 1/x is reached in about x**rate steps


SETTINGS = MWUSettings()


@dataclass
class MWUState:
    """The work space of the compiled steps, and the bounds along the way.

    ``trace`` has a row ``(steps, lower, upper)`` for each iteration, bounds on ``v = (2 optimum)^(-1/2)``: for the
    squared hinge, the least largest distance between the hulls of the classes in the kernels ``K_k / d_k^2 + I / C``.
    """

    work: Any
    trace: list[tuple[int, float, float]] = field(default_factory=list)


class MWU(Solver):
    """Multiplicative weight updates of Moeller, Raman, Saha and Venkatasubramanian, for ``penalty='l1'``.

    Kernels are weighed by a matrix exponential in closed form, the duals move towards the vertex which those weights
    ask for, and both bound the optimum at every step. With the squared hinge a step reads two columns of each kernel,
    with the hinge those of the samples that enter or leave the vertex; memory is a few numbers per sample and kernel.
    Good to a relative gap of about 1e-2; other solvers go further.

    Parameters
    ----------
    steps : "searched", "annealed" or "paper", default="searched"
        Searched: each step goes as far as lowers the soft largest norm, whose exponent follows the accuracy reached.
        Annealed: the same, but lengths of steps are known beforehand, later vertices counting more. As in the paper:
        all vertices count alike and the exponent grows by a fixed step, which takes tens to hundreds of times longer.
    nu : float, optional
        For the hinge: the margin is chosen such that about this share of the samples lie within it or on its wrong
        side. The problem's C then only sizes and judges the answer, and the fit ends when the solver's own bounds
        are within ``tol / 2``.
    eps : float, optional
        For the paper's steps: accuracy of the distance between the hulls, absolute, at which the fit ends. By default
        it follows from tol.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> from kernelweave.solvers.literature import MWU
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> stack = np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2)
    >>> problem = Problem(DenseGram(stack), losses.SquaredHinge().bind(np.sign(x)), penalties.L1())
    >>> solve(problem, MWU(), tol=1e-2).converged
    True
    """

    name = "mwu"
    needs = (CombinableGram,)
    kinks = False

    def __init__(self, steps: str = "searched", nu: float | None = None, eps: float | None = None):
        self.steps = steps
        self.nu = nu
        self.eps = eps

    def refuse(self, problem: Problem) -> str | None:
        if l1_only(problem):
            return l1_only(problem)
        terms = margin_terms(problem.loss.box)
        if terms is None:
            return f"needs loss='hinge' or 'squared_hinge', not {problem.loss}."
        if not np.ptp(terms.sign):
            return "needs samples of both classes in y."
        if self.steps not in STEPS:
            return f"knows steps={', '.join(map(repr, STEPS))}, not {self.steps!r}."
        if self.eps is not None and (self.steps != "paper" or not self.eps > 0):
            return "takes eps only with steps='paper', and only above 0: leave it out to follow tol."
        return None if self.nu is None else _refuse_nu(problem, terms, self.nu)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> MWUState:
        if tol < SETTINGS.rough:
            rough = SETTINGS.rough
            warnings.warn(
                f"solver 'mwu' is slow below a relative gap of {rough:g}: for tol={tol:g} use solver='sqp'.",
                UserWarning,
                stacklevel=2,
            )
        state = MWUState(_workspace(problem, self.nu))
        work, radius = state.work, _radius(problem)
        work.slope[:] = radius
        work.facts["accuracy"] = 0.5 * tol
        work.facts["aim"] = SETTINGS.fall
        if self.nu is not None:
            work.facts["aim"] = 0.5 * tol  # C must not choose among rough points
        work.facts["searched"] = self.steps == "searched"
        if self.steps == "paper":
            work.facts["radius"], work.facts["eps"] = radius, self.eps or 0.0
        self._begin(problem, state, start)
        return state

    def _begin(self, problem: Problem, state: MWUState, start: np.ndarray | None) -> None:
        """Put the point at ``start``, or at a vertex; it weighs as many steps as would have led to it."""
        from ...compiled import mwu as engine

        work = state.work
        work.facts["steps"] = 1.0
        if start is not None and start.any():
            work.point[:] = start if work.facts["free"] else start / np.abs(start).sum()
        if work.point.any() and np.all(np.abs(work.point) <= work.cap):
            self.refresh(problem, state)
            engine.look(work)
            work.facts["steps"] = np.ceil(max(work.facts["width"], SETTINGS.rough) ** -SETTINGS.rate)
        else:
            engine.lowest(work) if np.isinf(work.cap[0]) else engine.fill(work)
            work.point[:] = work.vertex
            self.refresh(problem, state)

    def step(self, problem: Problem, state: MWUState) -> bool:
        facts = state.work.facts
        ready = _march(problem, state.work, int(min(facts["steps"], SETTINGS.batch)))
        state.trace.append((int(facts["steps"]), float(facts["lower"]), float(facts["upper"])))
        return ready

    def read(self, problem: Problem, state: MWUState) -> Point:
        work = state.work
        prices = problem.penalty.prices(work.unit.size)
        total = float(work.best_mixed.sum()) or 1.0
        f = work.sign * work.best_slope / total - work.ridge * work.best_point
        q = np.maximum(work.best_energy * work.unit * prices, 0.0)
        size = self._size(problem, work)
        return Point(size * work.best_point, work.best_mixed / total / prices, size**2 * q, size * f)

    def _size(self, problem: Problem, work: Any) -> float:
        """Return the multiple of the best point that solves the problem, or as much of it as C lets."""
        facts, held = work.facts, work.best_point != 0
        if not np.isfinite(work.cap[0]):
            return float(facts["best_upper"]) ** -2
        room = float(np.min(_terms(problem).cap[held] / np.abs(work.best_point[held])))
        if facts["free"]:
            multiplier = float(np.max(work.best_energy * work.unit)) / float(np.abs(work.best_point).sum())
        else:
            multiplier = float(facts["best_upper"] * facts["best_margin"])
        return min(1.0 / multiplier, room) if multiplier > 0 else room

    def adapt(self, problem: Problem, state: MWUState, certificate: Certificate) -> Status | None:
        facts = state.work.facts
        width = float(facts["width"])
        goal = float(facts["accuracy"] if self.eps is None else self.eps / facts["upper"])
        if width <= goal:
            if self.nu is not None or self.eps is not None:
                return Status.OWN_TEST
            facts["accuracy"] = SETTINGS.fall * width
        nearer = SETTINGS.fall * width
        facts["aim"] = goal if nearer < goal < width else nearer
        return None if width > SETTINGS.least else Status.STALLED

    def refresh(self, problem: Problem, state: MWUState) -> None:
        work = state.work
        work.g[:] = _plain(problem).products(work.point)
        work.energy[:] = work.point @ work.g
        work.held[:] = 0.0

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        prices = problem.penalty.prices(point.weights.size)
        shares = point.weights * prices
        kept = np.where(shares < SETTINGS.faint * shares.sum(), 0.0, shares)
        if np.count_nonzero(kept) == np.count_nonzero(shares):
            return []
        return [Point(point.beta, kept / kept.sum() / prices)]


def _workspace(problem: Problem, nu: float | None) -> Any:
    """Return the work space of a problem, at no point yet."""
    from ...compiled import mwu as engine

    (n, m), terms, stored = problem.gram.shape, _terms(problem), _stored(problem)
    work = engine.workspace(terms.sign, m)
    work.unit[:] = (np.ones(m) if stored is None else stored[1]) / problem.penalty.prices(m)
    work.ridge[:] = terms.ridge
    if terms.hinge:
        work.cap[:] = terms.cap if nu is None else 1.0 / (nu * n)
        work.facts["free"] = nu is None
    return work


def _radius(problem: Problem) -> float:
    """Return the largest norm of a sample in any kernel, which is the width of the set of moves."""
    prices = problem.penalty.prices(problem.gram.shape[1])
    norms = problem.gram.diagonal() / prices + _terms(problem).ridge[:, None]
    return float(np.sqrt(norms.max())) or 1.0


def _terms(problem: Problem) -> MarginTerms:
    """Return the dual as that of the hinge or the squared hinge, which it is."""
    terms = margin_terms(problem.loss.box)
    assert terms is not None
    return terms


def _refuse_nu(problem: Problem, terms: MarginTerms, nu: float) -> str | None:
    """Return why there can be no such nu, as the end of a sentence, or None."""
    if not terms.hinge:
        return f"takes nu only with loss='hinge', not {problem.loss}."
    if np.ptp(terms.cap):
        return "takes nu only where C is the same for every sample: leave nu out to use these costs."
    most = 2.0 * min(float(np.mean(terms.sign > 0)), float(np.mean(terms.sign < 0)))
    return None if 0 < nu <= most else f"needs nu above 0 and, with these classes, at most {most:.3g}; got {nu}."


def _stored(problem: Problem) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the entries of the kernels and their scales, where these are stored."""
    return problem.gram.stored if isinstance(problem.gram, EntryGram) else None


def _plain(problem: Problem) -> CombinableGram:
    """Return the stack whose products the work space holds: a stored one without its scale."""
    stored = _stored(problem)
    return combinable(problem) if stored is None else DenseGram(stored[0])


def _march(problem: Problem, work: Any, budget: int) -> bool:
    """Make up to ``budget`` steps; True when the aim is met."""
    from ...compiled import mwu as engine

    stored, (n, m) = _stored(problem), problem.gram.shape
    if stored is not None:
        return engine.march(stored[0].reshape(n, n * m), work, budget)
    for _ in range(budget):
        if engine.look(work):
            return True
        count, afresh = engine.plan(work)
        if afresh:
            work.ahead[:] = 0.0
        work.ahead[:] += combinable(problem).weighted_columns(work.delta[:count], work.columns[:count])
        engine.walk(work)
    return False
