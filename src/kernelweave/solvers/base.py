"""What a solver is, and the only loop."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import namespace
from ..certify import certify
from ..penalties import L1
from ..problem import Certificate, History, Point, Problem, Solution, Status

Callback = Callable[[int, Certificate, Point], Any]

TINY = 100  # samples up to which exact solvers go to the end of floating point at once, which costs next to nothing:
# there, a weight of two is repeating a sample, and one order of the samples is as good as another
PATIENCE = 100  # judgements without a gap one per cent better after which a solver is taken to be at its end


class Solver(BaseEstimator):
    """One algorithm: how the duals move. The loop, the gap and the stopping rule are not its business.

    A solver's state is a record made by :meth:`init`; the solver itself holds only its knobs.
    """

    #: name under which strings and messages know it
    name = ""
    #: capabilities it asks of the Gram stack
    needs: tuple[str, ...] = ()
    #: whether it asks for a loss whose dual is a quadratic on a box
    needs_quadratic = True
    #: whether it takes problems with a bias, and without
    biased = True
    biasless = False
    #: whether it takes losses with several decision values for a sample
    joint = False

    def refuse(self, problem: Problem) -> str | None:
        """Return why this solver cannot take ``problem``, as the end of a sentence, or None."""
        return None

    @abstractmethod
    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> Any:
        """Return the state to begin with, from feasible duals ``start`` if given; ``tol`` is the gap asked for."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> bool:
        """Advance ``state``; True when the point reached is worth judging."""

    @abstractmethod
    def read(self, problem: Problem, state: Any) -> Point:
        """Return the point reached."""

    def heed(self, problem: Problem, state: Any, certificate: Certificate) -> Status | None:
        """Prepare to do better than the last point's ``certificate``, or say why that is the end."""
        return None

    def refresh(self, problem: Problem, state: Any) -> None:
        """Recompute running products from the kernels, after they were found to have drifted."""

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return better forms of the final point, sparser ones perhaps; the loop keeps the first that certifies."""
        return []


def check_pair(problem: Problem, solver: Solver) -> None:
    """Refuse, in one sentence, a solver that cannot take this problem."""
    missing = [need for need in solver.needs if not hasattr(problem.gram, need)]
    if missing:
        stack = type(problem.gram).__name__
        raise ValueError(
            f"solver {solver.name!r} needs {' and '.join(missing)} of the kernels, which {stack} lacks: "
            "use solver='auto'."
        )
    if len(problem.shape) > 1 and not solver.joint:
        raise ValueError(f"solver {solver.name!r} takes no joint margin: use multiclass='ovr', or another solver.")
    if problem.bias and not solver.biased:
        raise ValueError(f"solver {solver.name!r} learns no bias: use fit_intercept=False, or solver='auto'.")
    if not problem.bias and not solver.biasless:
        raise ValueError(
            f"solver {solver.name!r} takes only problems with a bias: use fit_intercept=True, or another solver."
        )
    if solver.needs_quadratic and not hasattr(problem.loss, "quadratic"):
        raise ValueError(
            f"solver {solver.name!r} needs a loss with a quadratic dual, not {problem.loss}: "
            "use loss='hinge' or 'squared_hinge', or solver='auto'."
        )
    why = solver.refuse(problem)
    if why:
        raise ValueError(f"solver {solver.name!r} {why}")


def sparse_only(problem: Problem) -> str | None:
    """Return why a solver for l1 cannot take another penalty, or None."""
    return None if isinstance(problem.penalty, L1) else f"is for penalty='l1', not {problem.penalty}: use solver='sqp'."


def no_gradient(problem: Problem) -> str | None:
    """Return why a solver that follows the penalty's gradient, or proximal steps for l1, cannot take it, or None."""
    if problem.penalty.smooth or isinstance(problem.penalty, L1):
        return None
    return f"follows the gradient of the penalty, which {problem.penalty} lacks: use a smooth one or 'l1'."


class _Bests:
    """The points with the best lower and the best upper bound seen, kept apart."""

    def __init__(self) -> None:
        self.lower, self.upper = -np.inf, np.inf
        self.dual: Point | None = None
        self.primal: Point | None = None
        self.model = Certificate(-np.inf, np.inf)
        self.stretch = 1.0

    def take(self, point: Point, certificate: Certificate) -> None:
        if self.dual is None or certificate.lower > self.lower:
            self.lower, self.dual, self.stretch = certificate.lower, point, certificate.stretch
        if self.primal is None or certificate.upper < self.upper:
            self.upper, self.primal, self.model = certificate.upper, point, certificate

    @property
    def certificate(self) -> Certificate:
        return Certificate(self.lower, self.upper, self.model.scale, self.model.intercept, self.stretch)

    def verified(self, problem: Problem) -> _Bests:
        """Return the same points certified afresh from the kernels."""
        again = _Bests()
        for point in [self.primal] if self.primal is self.dual else [self.primal, self.dual]:
            if point is not None:
                again.take(point, certify(problem, point))
        return again


class _Run:
    """One solve in progress: asks the judge, keeps the bests, drives history, callbacks and the bar."""

    def __init__(self, problem: Problem, solver: Solver, callbacks: Sequence[Callback], bar: Any):
        self.problem, self.solver, self.callbacks, self.bar = problem, solver, callbacks, bar
        self.bests, self.history = _Bests(), History()
        self.began, self.iteration = time.perf_counter(), 0
        self.reached, self.fruitless = np.inf, 0
        self.state: Any = None
        self.last: Point | None = None

    def go(self, start: np.ndarray | None, tol: float, max_iter: int) -> Status:
        self.state = state = self.solver.init(self.problem, start, tol)
        while self.iteration < max_iter:
            self.iteration += 1
            ready = self.solver.step(self.problem, state)
            if not ready and self.iteration < max_iter:
                continue
            certificate, stop = self.judge(self.solver.read(self.problem, state))
            now = self.bests.certificate
            if (now.gap <= tol or now.lower > now.upper) and self.confirm(state, tol):
                return Status.CONVERGED
            if stop:
                return Status.INTERRUPTED
            end = self.solver.heed(self.problem, state, certificate)
            if end is not None:
                return end
            if self.fruitless >= PATIENCE:
                return Status.STALLED
        return Status.MAX_ITER

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
        self.bests = self.bests.verified(self.problem)
        if self.bests.certificate.gap <= tol:
            return True
        self.solver.refresh(self.problem, state)
        return False

    def solution(self, status: Status, tol: float) -> Solution:
        bests = self.bests if status is Status.CONVERGED else self.bests.verified(self.problem)
        bests = self._finished(bests, tol)
        if status is Status.EPOCHS:  # a method that was asked for so many passes is its last point
            assert self.last is not None
            bests.primal, bests.model = self.last, certify(self.problem, self.last, rescale=False)
            bests.upper = bests.model.upper
        assert bests.dual is not None and bests.primal is not None
        if bests.certificate.gap <= tol and status is not Status.INTERRUPTED:  # which whoever asked wants to know of
            status = Status.CONVERGED
        model = bests.model
        beta = bests.stretch * self.problem.feasible(bests.dual.beta)
        coef = model.scale * self.problem.feasible(bests.primal.beta)
        weights = bests.primal.weights if bool(namespace(coef).any(coef != 0)) else np.zeros_like(bests.primal.weights)
        return Solution(
            beta, coef, weights, model.intercept, bests.certificate, status, self.history,
            self.iteration, time.perf_counter() - self.began, self.solver.name,
        )  # fmt: skip

    def _finished(self, bests: _Bests, tol: float) -> _Bests:
        """Return the bests with the primal point as the solver would rather have it, if that still certifies."""
        assert bests.primal is not None
        for point in self.solver.finish(self.problem, bests.primal):
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
    start: np.ndarray | None = None,
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
    start : ndarray of shape (n,), optional
        Duals to begin with, made feasible first.
    callbacks : sequence of callables
        Each is called with ``(iteration, certificate, point)`` whenever the judge is asked; one that returns
        True ends the fit.
    progress : bool, default=False
        Show a bar with the current gap.

    Returns
    -------
    Solution
        Whose certificate was computed afresh from the kernels.
    """
    solution = solve_quietly(
        problem, solver, tol=tol, max_iter=max_iter, start=start, callbacks=callbacks, progress=progress
    )
    if solution.status is Status.INTERRUPTED:
        warnings.warn(f"{Status.INTERRUPTED.value} {solution.certificate}", RuntimeWarning, stacklevel=2)
    return solution


def solve_quietly(
    problem: Problem,
    solver: str | Solver = "auto",
    *,
    tol: float,
    max_iter: int = 100_000,
    start: np.ndarray | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> Solution:
    """Solve as `solve` does, but leave it to the caller to speak of an interruption."""
    from . import make_solver

    if not tol > 0:
        raise ValueError(f"tol must be a positive number, got {tol}: use 1e-3, or 1e-8 for an answer near rounding.")
    chosen = make_solver(solver, problem, tol)
    check_pair(problem, chosen)
    if start is not None:
        start = problem.feasible(problem.gram.asarray(start))
    run = _Run(problem, chosen, callbacks, _bar(progress))
    try:
        status = run.go(start, tol, max_iter)
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
