"""What a solver is, and the only loop."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, local
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator

from .. import clock
from ..arrays import namespace
from ..certify import certify
from ..grams import BankGram, CombinableGram, EntryGram, FactorGram, GramStack
from ..losses.base import MARGIN, SOFTMAX, BoundLoss, DualTerms
from ..problem import Certificate, History, Point, Problem, Solution, Status
from ..threads import one_for_blas

Callback = Callable[[int, Certificate, Point], Any]

TINY = 100  # samples up to which the loop goes on to the end of floating point, which costs next to nothing there: a
# weight of two is then repeating a sample, and one order of the samples is as good as another
PRECISE = 1e-11  # relative gap to which problems of TINY size are solved, where the solver gets there
DIGITS = 1e-6  # gap asked for from which it is enough for those that begin from the answer to another problem
ENDING = 6  # judgements in a row without a better gap after which a problem of TINY size is at its end
ROUNDED = 0.5  # of tol: what rounding may do to the bounds beyond which a gap that is due to it is not worked on
BLURRED = 100.0  # times what single precision did to entries: gaps finer than that are not worked for
EXTRA = 30  # judgements that it may take from the gap asked for to there
WAIT, WAIT_EACH = 5.0, 2e-6  # seconds of CPU, in all and for each entry of the kernels, that "auto" takes in any case
LOOKS = 10  # judgements before which no rate is known
FAR = 10.0  # times tol: the gap of a start beyond which no other scale is expected to make it an answer
LEAST_SHARE = 0.1  # share of that time that solves are given which come after some that were too slow
LONGER = 1.0  # times what it took so far that is still worth waiting for
PATIENCE = 100  # judgements without a gap one per cent better after which a solver is taken to be at its end


_NOW = local()  # of each thread: when the time of the solve under way, and of those within it, is up


@contextmanager
def until(end: float, halt: Event | None = None) -> Iterator[None]:
    """Let solves within end at a moment of ``time.perf_counter``, or sooner: when ``halt`` is set, say."""
    before = getattr(_NOW, "end", np.inf), getattr(_NOW, "halt", None)
    _NOW.end, _NOW.halt = min(before[0], end), halt or before[1]
    try:
        yield
    finally:
        _NOW.end, _NOW.halt = before


@contextmanager
def one_of_many() -> Iterator[None]:
    """Let each solve within that was too slow to be waited for halve the time that the next are given to show it."""
    before = getattr(_NOW, "share", None)
    _NOW.share = 1.0
    try:
        yield
    finally:
        _NOW.share = before


def share_of_time() -> float:
    """Return the share of the time that may pass before a solve has to show that it gets there."""
    return getattr(_NOW, "share", None) or 1.0


def halve_share() -> None:
    """Note that a solve, one of many, was too slow to be waited for."""
    if getattr(_NOW, "share", None) is not None:
        _NOW.share = max(0.5 * _NOW.share, LEAST_SHARE)


def too_slow(marks: Sequence[tuple[float, float]], goal: float) -> bool:
    """Whether what falls would take too long to come to a goal, at the rate of the second half of the time so far.

    Each mark is a time and what had been reached by then.
    """
    spent, now = marks[-1]
    before = next(mark for mark in marks if mark[0] >= 0.5 * spent)
    fall = np.log(before[1] / now) if np.isfinite(before[1]) and now > 0 else 0.0
    return bool(np.log(now / goal) * (spent - before[0]) > LONGER * spent * fall)


def late() -> bool:
    """Whether the time is up."""
    return time.perf_counter() > getattr(_NOW, "end", np.inf) or halted()


def halted() -> bool:
    """Whether what is solved here is of no use any more."""
    halt = getattr(_NOW, "halt", None)
    return halt is not None and halt.is_set()


def on_threads(work: Callable[[Any], Any], items: Iterable[Any], n_jobs: Any) -> list[Any]:
    """Return ``work`` of each item, done on threads, which end at their next step when there is an interruption."""
    items, halt = list(items), Event()
    if len(items) == 1:  # on this thread, which alone is told of interruptions
        return [work(items[0])]

    def one(item: Any) -> Any:
        with until(np.inf, halt):
            return work(item)

    try:
        return Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(one)(item) for item in items)
    except BaseException:
        halt.set()
        raise


class Solver(BaseEstimator):
    """One algorithm: how the duals move. The loop, the gap and the stopping rule are not its business.

    A solver's state is a record made by :meth:`init`; the solver itself holds only its knobs.

    Examples
    --------
    >>> import kernelweave as kw
    >>> isinstance(kw.solvers.SMO(), kw.solvers.Solver), kw.solvers.SMO.name
    (True, 'smo')
    """

    #: name under which strings and messages know it
    name = ""
    #: representations of the kernels that it works on
    needs: tuple[type[GramStack], ...] = (GramStack,)
    #: what it takes of a loss: "quadratic" (within bounds, a kink at zero allowed), "entropic" (entropies between
    #: bounds), "margin" and "softmax" (rows of duals on a simplex), "smooth" (curvature known), "any"
    takes: tuple[str, ...] = ("quadratic",)
    #: whether it takes quadratic duals with a kink at zero
    kinks = True
    #: whether it takes problems with a bias, and without
    biased = True
    biasless = False
    #: whether it takes several decision values for a sample
    several = False
    #: whether it takes duals that sum to something else than zero
    summed = False
    #: relative gap to which it takes problems of TINY size
    precise: float | None = None

    def refuse(self, problem: Problem) -> str | None:
        """Return why this solver cannot take ``problem``, as the end of a sentence, or None."""
        return None

    @abstractmethod
    def init(self, problem: Problem, start: Any, tol: float) -> Any:
        """Return the state to begin with, from feasible duals ``start`` if given; ``tol`` is the gap asked for."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> bool:
        """Advance ``state``; True when the point reached is worth judging."""

    def lean(self, problem: Problem, state: Any, weights: np.ndarray) -> None:
        """Begin near some kernel weights too, if the solver has a use for them; called once, after `init`."""

    @abstractmethod
    def read(self, problem: Problem, state: Any) -> Point:
        """Return the point reached."""

    def adapt(self, problem: Problem, state: Any, certificate: Certificate) -> Status | None:
        """Prepare to do better than the last point's ``certificate``, or say why that is the end."""
        return None

    def refresh(self, problem: Problem, state: Any) -> None:
        """Recompute running products from the kernels, after they were found to have drifted."""

    def leave(self, problem: Problem, state: Any) -> None:
        """Leave with the kernels what the next problem on them may begin with, copies of their entries perhaps."""

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return better forms of the final point, sparser ones perhaps; the loop keeps the first that certifies."""
        return []


def check_pair(problem: Problem, solver: Solver) -> None:
    """Refuse, in one sentence, a solver that cannot take this problem."""
    why = mismatch(problem, solver) or solver.refuse(problem)
    if why:
        raise ValueError(f"solver {solver.name!r} {why}")


def mismatch(problem: Problem, solver: Solver) -> str | None:
    """Return what of a problem a solver does not take, by what both declare, as the end of a sentence, or None."""
    gram, loss = problem.gram, problem.loss
    if not isinstance(gram, solver.needs) or not _within_reach(gram, solver):
        wanted = " or ".join(need.offers for need in solver.needs)
        return f"works on {wanted}, which {type(gram).__name__} does not have: use solver='auto'."
    if not takes_loss(loss, solver.takes):
        return f"does not take the dual of {loss}: use solver='auto'."
    if loss.terms is not None and loss.terms.kinked and not solver.kinks:
        return f"takes no dual with a kink at zero, as {loss} has: use solver='auto'."
    if loss.several and not solver.several:
        return f"takes one decision value for a sample, and {loss} has several: use solver='auto'."
    if problem.bias and not solver.biased:
        return "learns no bias: use fit_intercept=False, or solver='auto'."
    if not problem.bias and not solver.biasless:
        return "takes only problems with a bias: use fit_intercept=True, or another solver."
    if problem.dual_sum and not solver.summed:
        return f"takes only duals that sum to zero, and not those of {loss}: use solver='auto'."
    return None


def _within_reach(gram: GramStack, solver: Solver) -> bool:
    """Whether a solver on sums of kernels can form them: features of another library than NumPy have none."""
    if not isinstance(gram, CombinableGram) or gram.combinable:
        return True
    return any(issubclass(type(gram), need) for need in solver.needs if not issubclass(need, CombinableGram))


def takes_loss(loss: BoundLoss, kinds: tuple[str, ...]) -> bool:
    """Whether a loss is of one of some kinds, as `Solver.takes` names them."""
    if "any" in kinds or ("smooth" in kinds and loss.smooth):
        return True
    if loss.terms is not None:
        return ("entropic" if loss.terms.entropic else "quadratic") in kinds
    return loss.rows is not None and {MARGIN: "margin", SOFTMAX: "softmax"}.get(loss.rows) in kinds


def l1_only(problem: Problem) -> str | None:
    """Return why a solver for l1 cannot take another penalty, or None."""
    return None if problem.penalty.on_simplex else f"is for penalty='l1', not {problem.penalty}: use solver='sqp'."


def no_gradient(problem: Problem) -> str | None:
    """Return why a solver that follows the penalty's gradient, or proximal stages for l1, cannot take it, or None."""
    if problem.penalty.smooth or problem.penalty.on_simplex:
        return None
    return f"follows the gradient of the penalty, which {problem.penalty} lacks: use a smooth one or 'l1'."


CUTS = (1e-4, 1e-5, 1e-6, 1e-8)  # shares below which kernels of l1 are left out at the end, if the gap allows


def without_faint_shares(problem: Problem, point: Point) -> list[Point]:
    """Return the point of l1 without its smallest weights, from the boldest cut down."""
    if not problem.penalty.on_simplex:
        return []
    shares = point.weights * problem.penalty.prices(point.weights.size)
    cuts = [np.where(shares < cut, 0.0, point.weights) for cut in CUTS]
    changed = [weights for weights in cuts if weights.any() and np.any(weights != point.weights)]
    return [Point(point.beta, weights, coef=point.coef) for weights in changed]


DUST = 1e-9  # share of the largest weight below which a weight is what rounding left of zero


def without_dust(problem: Problem, point: Point) -> list[Point]:
    """Return the point with weights that are next to nothing at zero, where penalties make zeros."""
    faint = (point.weights > 0.0) & (point.weights < DUST * point.weights.max(initial=0.0))
    if not problem.penalty.sparse or problem.penalty.products or not faint.any():
        return []
    return [Point(point.beta, np.where(faint, 0.0, point.weights), coef=point.coef)]


def first_duals(problem: Problem) -> np.ndarray:
    """Return feasible duals to begin with, few of them other than zero: none, or as many as their sum asks for."""
    beta = np.zeros(problem.shape)
    if not problem.dual_sum:
        return beta
    upper, left = problem.loss.box.upper, float(problem.dual_sum)
    for i in np.random.default_rng(0).permutation(problem.n):
        beta[i] = min(float(upper[i]), left)
        left -= beta[i]
        if left <= 0.0:
            break
    return problem.feasible(beta)


def centred_box(problem: Problem) -> DualTerms:
    """Return the dual's terms, linear ones about the middle of their range where duals sum to zero.

    That changes no value there, and targets far from zero do not eat up the digits of the slopes.
    """
    box = problem.loss.box
    if problem.dual_sum != 0.0 or box.linear.size == 0:
        return box
    return replace(box, linear=box.linear - 0.5 * (float(box.linear.max()) + float(box.linear.min())))


def unit_of(problem: Problem) -> float:
    """Return the size of the slopes of the dual, in which violations and margins are measured; 1 for labels -1 and +1.

    Half the range of the linear terms, or, where they are all alike, what the duals' sum makes of the kernels.
    """
    linear = problem.loss.box.linear
    half = 0.5 * float(np.ptp(linear))
    if half > 0:
        return half
    return float(problem.dual_sum or 1.0) * float(np.mean(problem.gram.mean_diagonal())) or 1.0


def entries(problem: Problem) -> EntryGram:
    """Return the kernels of a problem whose entries can be read, as the solver's needs say."""
    assert isinstance(problem.gram, EntryGram)
    return problem.gram


def combinable(problem: Problem) -> CombinableGram:
    """Return the kernels of a problem whose sums can be formed, as the solver's needs say."""
    assert isinstance(problem.gram, CombinableGram)
    return problem.gram


def factors(problem: Problem) -> FactorGram:
    """Return the kernels of a problem as features, as the solver's needs say."""
    assert isinstance(problem.gram, FactorGram)
    return problem.gram


def bank(problem: Problem) -> BankGram:
    """Return the kernels of a problem as a bank that scores them all, as the solver's needs say."""
    assert isinstance(problem.gram, BankGram)
    return problem.gram


def host_features(problem: Problem) -> np.ndarray:
    """Return NumPy's features of a problem, for compiled code."""
    features = factors(problem).host_features
    assert features is not None
    return features


class _Bests:
    """The points with the best lower and the best upper bound seen, kept apart."""

    def __init__(self) -> None:
        self.lower, self.upper = -np.inf, np.inf
        self.dual: Point | None = None
        self.primal: Point | None = None
        self.model = Certificate(-np.inf, np.inf)
        self.dual_scale = 1.0

    def take(self, point: Point, certificate: Certificate) -> None:
        if self.dual is None or certificate.lower > self.lower or np.isnan(self.lower):
            self.lower, self.dual, self.dual_scale = certificate.lower, point, certificate.dual_scale
        if self.primal is None or certificate.upper < self.upper or np.isnan(self.upper):
            self.upper, self.primal, self.model = certificate.upper, point, certificate

    @property
    def certificate(self) -> Certificate:
        return replace(self.model, lower=self.lower, upper=self.upper, dual_scale=self.dual_scale)

    def verified(self, problem: Problem, tol: float) -> _Bests:
        """Return the same points certified afresh from the kernels, the primal one at the scale found if that does."""
        again, both = _Bests(), [(self.primal, self.model.scale), (self.dual, 1.0)]
        for point, scale in both[:1] if self.primal is self.dual else both:
            if point is not None:
                again.take(point, certify(problem, point, scale=scale, enough=tol))
            if again.certificate.gap <= tol:  # what one point proves of itself is enough
                break
        return again


class _Run:
    """One solve in progress: asks the judge, keeps the bests, drives history, callbacks and the bar."""

    def __init__(self, problem: Problem, solver: Solver, callbacks: Sequence[Callback], bar: Any):
        self.problem, self.solver, self.callbacks, self.bar = problem, solver, callbacks, bar
        self.bests, self.history = _Bests(), History()
        self.began, self.iteration = time.perf_counter(), 0
        self.reached, self.fruitless, self.extra = np.inf, 0, 0
        self.state: Any = None
        self.last: Point | None = None
        self.waits, self.cpu, self.marks = np.inf, clock.spent(), list[tuple[float, float]]()

    def hopeless(self, gap: float, tol: float) -> bool:
        """Whether the gap, at the rate of the second half of the time so far, would take too long to come to tol.

        Also where it is there, and a problem of TINY size is on its way to the end of floating point.
        """
        spent = clock.spent() - self.cpu
        self.marks.append((spent, gap))
        if spent < self.waits or len(self.marks) < LOOKS or gap <= tol:
            return spent >= self.waits and len(self.marks) >= LOOKS
        return too_slow(self.marks, tol)

    def go(self, start: np.ndarray | None, weights: np.ndarray | None, tol: float, max_iter: int) -> Status:
        goal = tol
        columns = self.problem.loss.several and self.problem.loss.elementwise  # which take long
        begun = start is not None and tol >= DIGITS
        if self.problem.n <= TINY and self.solver.precise is not None and not columns and not begun:
            goal = min(tol, max(self.solver.precise, BLURRED * self.problem.gram.rounded))
        if start is not None and weights is not None and self.answered(Point(start, weights), goal):
            return Status.CONVERGED
        self.state = state = self.solver.init(self.problem, start, goal)
        if weights is not None:
            self.solver.lean(self.problem, state, weights)
        while self.iteration < max_iter:
            self.iteration += 1
            try:
                ready, up = self.solver.step(self.problem, state), late()
            except np.linalg.LinAlgError:  # numbers too large or too small for the solver: its best point stands
                return Status.STALLED
            over = clock.spent() - self.cpu > self.waits
            if not ready and not up and not over and self.iteration < max_iter:
                continue
            certificate, stop = self.judge(self.solver.read(self.problem, state))
            now = self.bests.certificate
            if (now.gap <= goal or now.lower > now.upper) and self.confirm(state, goal):
                return Status.CONVERGED
            if stop:
                return Status.INTERRUPTED
            if up:
                return Status.INTERRUPTED if halted() else Status.MAX_TIME
            if self.hopeless(now.gap, tol):
                return Status.SLOW
            end = self.solver.adapt(self.problem, state, certificate)
            if end is not None:
                return end
            self.extra += now.gap <= tol
            if self.fruitless >= (ENDING if now.gap <= tol else PATIENCE) or self.extra >= EXTRA:
                return Status.STALLED
        return Status.MAX_ITER

    def answered(self, point: Point, tol: float) -> bool:
        """Whether a solve begins at an answer, as those of lower costs may be once no dual is at its bound."""
        if not certify(self.problem, point, trust=True, rescale=False).gap <= FAR * tol:  # as weights may be NaN
            return False
        certificate = certify(self.problem, point)
        if not certificate.gap <= tol:
            return False
        self.bests.take(point, certificate)
        self.history.add(0, time.perf_counter() - self.began, certificate, point.weights, self.problem.gram.hit_rate)
        return True

    def judge(self, point: Point) -> tuple[Certificate, bool]:
        """Judge a point by its running products; the certificate, and whether a callback asks to stop."""
        certificate = certify(self.problem, point, trust=True)
        self.bests.take(point, certificate)
        self.last = point
        now = self.bests.certificate
        self.fruitless += 1
        if now.gap < 0.99 * self.reached:
            self.fruitless, self.reached = 0, now.gap
        seconds = time.perf_counter() - self.began
        self.history.add(self.iteration, seconds, now, point.weights, self.problem.gram.hit_rate)
        if self.bar is not None:
            self.bar.update(self.iteration - self.bar.n)
            self.bar.set_postfix_str(f"gap {now.gap:.1e}")
        answers = [call(self.iteration, now, point) for call in self.callbacks]
        return certificate, any(answer is True for answer in answers)

    def confirm(self, state: Any, tol: float) -> bool:
        """Whether the gap holds when computed from the kernels; if not, the running products had drifted."""
        self.bests = self.bests.verified(self.problem, tol)
        now = self.bests.certificate
        enough = tol * abs(now.upper)
        mostly_rounding = now.widened > ROUNDED * enough and now.upper - now.lower - now.widened <= enough
        if now.gap <= tol or mostly_rounding:
            return True
        self.solver.refresh(self.problem, state)
        return False

    def solution(self, status: Status, tol: float) -> Solution:
        bests = self.bests if status is Status.CONVERGED else self.bests.verified(self.problem, tol)
        if not np.isfinite(bests.lower) or not np.isfinite(bests.upper):  # numbers were too large for the solver
            gram = self.problem.gram
            nothing = Point(gram.asarray(first_duals(self.problem)), np.ones(gram.shape[1]))
            bests.take(nothing, certify(self.problem, nothing))
        assert bests.primal is not None
        bests = self._finished(bests, tol, self.solver.finish(self.problem, bests.primal))
        assert bests.primal is not None
        bests = self._finished(bests, tol, without_dust(self.problem, bests.primal))
        if status is Status.EPOCHS:  # a method that was asked for so many passes is its last point
            assert self.last is not None
            bests.primal, bests.model = self.last, certify(self.problem, self.last, rescale=False)
            bests.upper = bests.model.upper
        assert bests.dual is not None and bests.primal is not None
        if bests.certificate.gap <= tol and status is not Status.INTERRUPTED:  # which whoever asked wants to know of
            status = Status.CONVERGED
        elif status is Status.CONVERGED:
            status = Status.STALLED
        model = bests.model
        beta = bests.dual_scale * self.problem.feasible(bests.dual.beta)
        own = bests.primal.coef
        coef = model.scale * (self.problem.feasible(bests.primal.beta) if own is None else own)
        weights = bests.primal.weights if bool(namespace(coef).any(coef != 0)) else np.zeros_like(bests.primal.weights)
        return Solution(
            beta, coef, weights, model.intercept, bests.certificate, status, self.history,
            self.iteration, time.perf_counter() - self.began, self.solver.name,
        )  # fmt: skip

    def _finished(self, bests: _Bests, tol: float, points: Sequence[Point]) -> _Bests:
        """Return the bests with the first of some other forms of the primal point that still certifies."""
        for point in points:
            certificate = certify(self.problem, point)
            if Certificate(bests.lower, certificate.upper).gap <= max(tol, bests.certificate.gap):
                bests.upper, bests.primal, bests.model = certificate.upper, point, certificate
                bests.take(point, certificate)
                break
        return bests


def solve(
    problem: Problem,
    solver: str | Solver = "auto",
    *,
    tol: float = 1e-3,
    max_iter: int = 100_000,
    max_time: float | None = None,
    start: np.ndarray | Point | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> Solution:
    """Solve ``problem`` until its relative duality gap is at most ``tol``.

    Parameters
    ----------
    problem : Problem
        What to solve.
    solver : str or Solver, default="auto"
        An algorithm or its name.
    tol : float, default=1e-3
        Relative duality gap asked for.
    max_iter : int, default=100000
        Most steps of the solver; what a step is depends on the solver.
    max_time : float, optional
        Seconds after which the solver is stopped, at the end of a step; the answer is the best point so far.
    start : ndarray of shape (n,) or Point, optional
        Duals to begin with, made feasible first; those of a `Point` together with its kernel weights.
    callbacks : sequence of callables
        Each is called with ``(iteration, certificate, point)`` whenever the judge is asked; one that returns
        True ends the fit.
    progress : bool, default=False
        Show a bar with the current gap.

    Returns
    -------
    Solution
        Whose certificate was computed afresh from the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2 * 2.0 - 1.0
    >>> gram = kw.DenseGram(np.stack([X @ X.T, (X @ X.T + 1.0) ** 2], axis=2))
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind(y, np.ones(20)), kw.penalties.L1())
    >>> kw.solve(problem, "sqp", tol=1e-4).gap <= 1e-4
    True
    """
    solution = solve_quietly(
        problem, solver, tol=tol, max_iter=max_iter, max_time=max_time, start=start, callbacks=callbacks,
        progress=progress,
    )  # fmt: skip
    if solution.status is Status.INTERRUPTED:
        warnings.warn(f"{Status.INTERRUPTED.value} {solution.certificate}", RuntimeWarning, stacklevel=2)
    return solution


def solve_quietly(
    problem: Problem,
    solver: str | Solver = "auto",
    *,
    tol: float,
    max_iter: int = 100_000,
    max_time: float | None = None,
    start: np.ndarray | Point | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> Solution:
    """Solve as `solve` does, but leave it to the caller to speak of an interruption."""
    from . import make_solver

    if not tol > 0:
        raise ValueError(f"tol must be a positive number, got {tol}: use 1e-3, or 1e-8 for an answer near rounding.")
    chosen = make_solver(solver, problem, tol, begun=isinstance(start, Point))
    check_pair(problem, chosen)
    duals, weights = (start.beta, start.weights) if isinstance(start, Point) else (start, None)
    if weights is not None and np.shape(weights) != (problem.gram.shape[1],):
        raise ValueError(
            f"start has weights of shape {np.shape(weights)}, and there are {problem.gram.shape[1]} kernels: give one "
            "for each, or duals alone."
        )
    if duals is not None:
        duals = problem.feasible(problem.gram.asarray(duals))
    run = _Run(problem, chosen, callbacks, _bar(progress))
    if isinstance(solver, str) and solver == "auto" and max_time is None:
        run.waits = share_of_time() * (WAIT + WAIT_EACH * float(problem.n) ** 2 * problem.gram.shape[1])
    try:
        with one_for_blas(), until(np.inf if max_time is None else run.began + max_time):
            status = run.go(duals, weights, tol, max_iter)
            if status is Status.SLOW:
                halve_share()
            if run.state is not None:
                chosen.leave(problem, run.state)
    except KeyboardInterrupt:
        if run.state is None:
            raise
        if run.bests.primal is None:
            run.judge(chosen.read(problem, run.state))
        status = Status.INTERRUPTED
    finally:
        if run.bar is not None:
            run.bar.close()
    return run.solution(status, tol)


def _bar(progress: bool) -> Any:
    if not progress:
        return None
    from tqdm.auto import tqdm

    return tqdm(desc="kernelweave", unit="step")
