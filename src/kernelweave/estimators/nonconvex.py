"""Classification with kernels that are learned, but not as weighted sums: problems that are not convex."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from .. import clock
from ..arrays import kind_of
from ..assemble import (
    Combination,
    Labels,
    Options,
    Subproblem,
    Targets,
    check_cost,
    check_memory,
    check_number,
    check_together,
    check_whole,
    gated_sum,
    gaussian_product,
    resolve_bank,
    split_classes,
    squared_sum,
)
from ..assemble.parameters import check_choice
from ..grams import DenseGram, GramStack
from ..kernels import rbf
from ..losses import Loss
from ..penalties import make_penalty
from ..problem import Certificate, Descent, Problem, Solution, Stationarity, Status
from ..solvers.base import (
    halve_share,
    late,
    on_threads,
    one_of_many,
    share_of_time,
    solve_quietly,
    too_slow,
    until,
)
from ..solvers.svm import SETTINGS as SVM
from ..solvers.svm import on_features
from .base import PreparedFit, inside_a_search, single
from .classify import MKLClassifier
from .parts import BY, Partition, sample_of_rows

MODELS = ("nlmkl-p1", "gmkl", "lmkl-softmax", "lmkl-sigmoid")
PRECISE = 1e-6  # relative gap of each SVM over tol, so that falls of the objective can be told from errors
TINY = 100  # samples up to which copies of a sample are made one sample of more weight
COMPARED = 2**22  # entries of X up to which copies of samples are looked for
LEAST_GAP = 1e-13  # least relative gap of an SVM that floating point can give
ARMIJO = 1e-4  # share of the fall that the gradient promises with which a step is content
SHORTER = 0.25  # factor of a step that was too long
SLOW = 20  # steps that must lower the objective by more than one at tol would promise
WAIT, WAIT_EACH = 3.0, 5e-5  # seconds of CPU, in all and for each entry of the kernel, that a descent takes in any case
LONGEST = 1e10  # factor by which a step may differ from the first one


@dataclass(frozen=True)
class Place:
    """An SVM at some parameters."""

    theta: np.ndarray  # (p,)
    svm: Solution
    value: float  # the SVM's objective, with the price of the parameters
    cost: float  # that price
    gradient: np.ndarray  # (p,)


@dataclass(frozen=True)
class Descended:
    """Where a descent ended."""

    theta: np.ndarray  # (p,)
    solution: Solution
    stationarity: Stationarity


class Walk:
    """A descent by projected gradients: each trial trains one SVM, and the objective never rises.

    Steps have the length that the last two gradients suggest (Barzilai and Borwein) and are shortened until the
    objective has fallen by a share of what the gradient promises (Armijo).
    """

    def __init__(
        self,
        combination: Combination,
        pose: Callable[[GramStack], Problem],
        tol: float,
        max_iter: int,
        waits: float = np.inf,
    ):
        self.combination, self.pose, self.tol, self.max_iter, self.waits = combination, pose, tol, max_iter, waits
        self.cpu, self.marks = clock.spent(), list[tuple[float, float]]()
        self.began, self.trained, self.history = time.perf_counter(), 0, Descent()
        self.loosest = tol**2  # gap of an SVM, as the error of its gradient goes with the root of it

    def go(self) -> Descended:
        """Descend until the point reached is stationary, or the SVMs are spent; an interruption ends it there."""
        self.here = self.place(self.combination.project(self.combination.start), None)
        try:
            status = self.descend()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        found = self.ended(self.here, status)
        if status is Status.INTERRUPTED:
            warnings.warn(f"The fit was interrupted at {found.stationarity}.", RuntimeWarning, stacklevel=2)
        return found

    def descend(self) -> Status:
        """Go forward as long as that helps, and say why it ended."""
        step = 1.0 / self.here.value
        while True:
            here = self.here
            self.note(here)
            if here.svm.status is Status.INTERRUPTED:
                return Status.INTERRUPTED
            if late():
                return Status.MAX_TIME
            if here.svm.gap > self.loosest:
                return Status.UNTRAINED
            if self.violation(here) <= self.tol:
                return Status.STATIONARY
            if self.slow():
                return Status.KINK
            if self.hopeless():
                return Status.LONG
            there = self.forward(here, step)
            if isinstance(there, Status):
                return there
            step, self.here = _length(here, there, step), there

    def place(self, theta: np.ndarray, start: np.ndarray | None) -> Place:
        """Train an SVM; one that takes many steps is trained on features of its kernel."""
        self.trained += 1
        kernel, tol = self.combination.kernel(theta), max(PRECISE * self.tol, LEAST_GAP)
        problem = self.pose(DenseGram(kernel[:, :, None]))
        svm = solve_quietly(problem, tol=tol, start=start, max_iter=SVM.steps)
        if svm.status in (Status.MAX_ITER, Status.STALLED) and svm.gap > self.loosest:
            again = on_features(problem, kernel, tol)
            svm = again if again.status is Status.INTERRUPTED or again.gap < svm.gap else svm
        cost, slope = self.combination.price(theta)
        gradient = self.combination.gradient(theta, svm.beta, kernel) + slope
        return Place(theta, svm, svm.certificate.upper + cost, cost, gradient)

    def forward(self, here: Place, step: float) -> Place | Status:
        """Return a place with a lower objective, or why there is none."""
        way = self.combination.project(here.theta - step * here.gradient) - here.theta
        slope, share = float(here.gradient @ way), 1.0
        while self.trained < self.max_iter:
            there = self.place(here.theta + share * way, here.svm.beta)
            if there.svm.status is Status.INTERRUPTED:
                return Status.INTERRUPTED
            if late():
                return Status.MAX_TIME
            if there.value <= here.value + ARMIJO * share * slope:
                return there
            if self.hopeless():
                return Status.LONG
            share *= SHORTER
            if -share * slope <= LEAST_GAP * here.value:
                return Status.KINK
        return Status.STEEP

    def slow(self) -> bool:
        """Whether the last steps hardly lowered the objective, though the gradient promises more: it has kinks here."""
        values = self.history.upper[-SLOW - 1 :]
        return len(values) > SLOW and values[0] - values[-1] <= self.tol**2 * values[-1]

    def hopeless(self) -> bool:
        """Whether the least violation so far falls too slowly to be waited for, asked after each SVM."""
        spent = clock.spent() - self.cpu
        self.marks.append((spent, min(self.history.violation)))
        return spent >= self.waits and too_slow(self.marks, self.tol)

    def violation(self, place: Place) -> float:
        """Return the root of the fall that a projected unit step on the objective's logarithm promises."""
        gradient = place.gradient / place.value
        move = self.combination.project(place.theta - gradient) - place.theta
        return float(np.sqrt(max(-gradient @ move, 0.0)))

    def note(self, place: Place) -> None:
        """Record a step taken."""
        low, up = place.svm.certificate.lower + place.cost, place.value
        weights, violation = self.combination.weights(place.theta), self.violation(place)
        seconds = time.perf_counter() - self.began
        self.history.add(self.trained, seconds, Certificate(low, up), weights, float("nan"))
        self.history.violation.append(violation)

    def ended(self, place: Place, status: Status) -> Descended:
        """Return the place as an answer."""
        solution = replace(
            place.svm,
            weights=self.combination.weights(place.theta),
            status=status,
            history=self.history,
            n_iter=self.trained,
            seconds=time.perf_counter() - self.began,
            solver="projected gradient",
        )
        reached = Stationarity(place.value, self.violation(place), place.svm.gap)
        return Descended(place.theta, solution, reached)


def _length(here: Place, there: Place, step: float) -> float:
    """Return the length of the next step."""
    moved = there.theta - here.theta
    turned = np.where(moved != 0, there.gradient - here.gradient, 0.0)  # what is held at a bound says nothing
    bend, first = float(moved @ turned), 1.0 / there.value
    wanted = bend / float(turned @ turned) if bend > 0 else 2.0 * step
    return float(np.clip(wanted, first / LONGEST, first * LONGEST))


def _merged(X: Any, targets: Labels, multiclass: str) -> Labels:  # (n, d)
    """Return the targets of the samples that differ, in an order of their own, each with the weight of all its copies.

    Where a descent ends depends on its first steps to the last digit; so a weight of two is the same as a copy, and one
    order of the samples the same as another.
    """
    table = np.column_stack([targets.codes, X.toarray() if issparse(X) else X])
    _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
    cost, weight = (np.bincount(place.ravel(), weights=entries) for entries in (targets.cost, targets.weight))
    codes = targets.codes[first]
    made = split_classes(targets.classes, codes, multiclass)
    return replace(targets, rows=targets.rows[first], weight=weight, cost=cost, subproblems=made, codes=codes)


class NonconvexMKLClassifier(MKLClassifier):
    """Support vector classification with a learned kernel that is not a weighted sum: rivals of the convex models.

    An SVM is trained at some parameters of the kernel, the parameters move along the projected gradient of its
    objective until that has fallen, and so on. These problems are not convex, so there is no duality gap:
    `certificate` gives the stationarity of the point reached, and the gap of the SVM there.

    Parameters
    ----------
    kernels : as for `MKLClassifier`, default="auto"
        The bank. For "gmkl" Gaussian kernels only, whose widths are where learning starts from; "auto" is one on each
        column. "precomputed" is possible for "nlmkl-p1" only.
    model : {"nlmkl-p1", "gmkl", "lmkl-softmax", "lmkl-sigmoid"}, default="nlmkl-p1"
        "nlmkl-p1": the square of ``sum_a u_a K_a`` with ``u >= 0``, ``sum_a u_a <= 1`` (Cortes, Mohri, Rostamizadeh
        2009). "gmkl": the product of the Gaussian kernels, each with a learned factor of its ``gamma`` (Varma, Babu
        2009). "lmkl-softmax", "lmkl-sigmoid": the sum of ``eta_a(x) K_a(x, z) eta_a(z)``, whose gates are linear scores
        of the columns through softmax or sigmoid (Gonen, Alpaydin 2008).
    loss : str or Loss, default="hinge"
        What an error costs: "hinge", "squared_hinge", "squared" or "logistic".
    C : float, default=1.0
        Cost of an error.
    price : float, default=1.0
        For "gmkl": cost of the factors ``d_a``, ``price * sum_a d_a^power / power``.
    power : {1, 2}, default=1
        For "gmkl": with 1, columns can get width zero; with 2, those that do not help get little.
    normalize : {"trace", "diagonal", "center", None}, default="trace"
        Size of the kernels, as for `MKLClassifier`; Gaussians keep theirs in "gmkl".
    tol : float, default=1e-2
        Stationarity to reach: root of the fall of the objective's logarithm that a projected step of length one times
        its gradient promises, which is the gradient's length where no bound is in the way.
    max_iter : int, default=1000
        Most SVMs to train for a problem.
    max_time : float, optional
        Seconds that a fit may take: then the best point so far is the model, with its certificate and a warning.
        Without it, descents that fall too slowly to wait for are ended in the same way, which depends on the computer.
    multiclass, class_weight, psd, memory, random_state, n_jobs
        As for `MKLClassifier`. The kernels must fit in memory.

    Attributes
    ----------
    weights_ : ndarray of shape (m,) or (n_problems, m)
        How much each kernel counts: ``u`` of "nlmkl-p1", the factors of "gmkl", means of the gates over the training
        samples.
    parameters_ : ndarray of shape (p,) or (n_problems, p)
        What was learned; for gates, m rows of a slope for each column, in units of its deviation times the square root
        of the number of columns, and a constant.
    stationarity_ : float
        Violation of stationarity, the largest of all problems.
    dual_gap_ : float
        Not a number: the problem is not convex.
    objective_ : float or ndarray of shape (n_problems,)
        The objective at the point reached.
    n_iter_ : int or ndarray of shape (n_problems,)
        SVMs trained.
    history_ : Descent or list of Descent
        Objective and stationarity along the fit; the objective, ``history_.upper``, never rises.
    kernel_names_, kernel_groups_, kernel_scales_, dual_coef_, support_, intercept_, classes_, problem_names_, ...
        As for `MKLClassifier`. Of samples that are copies of each other, only the first may be in `support_`.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.NonconvexMKLClassifier(model="gmkl").fit(X[50:], y[50:])
    >>> clf.weights_.shape, clf.stationarity_ <= 1e-2
    ((4,), True)
    >>> clf.score(X[50:], y[50:]) > 0.9
    True
    """

    # parameters of `MKLClassifier` that are not a choice here
    penalty, approximation, solver = None, None, "projected gradient"
    fit_intercept, probability, progress = True, False, False

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        model: str = "nlmkl-p1",
        loss: Any = "hinge",
        C: float = 1.0,
        price: float = 1.0,
        power: int = 1,
        normalize: str | None = "trace",
        tol: float = 1e-2,
        max_iter: int = 1000,
        max_time: float | None = None,
        multiclass: str = "ovr",
        class_weight: Any = None,
        psd: str = "check",
        memory: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernels = kernels
        self.model = model
        self.loss = loss
        self.C = C
        self.price = price
        self.power = power
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.psd = psd
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- reading ------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        """Read everything that fit is given and compute the kernels."""
        options, loss = self._check_all()
        frame, X = X, self._read_samples(X)
        check_together("sample_weight", sample_weight, X)
        targets = self._read_targets(X, y, sample_weight)
        loss, dual_sum = self._choose(loss, targets)
        compared = not self._precomputed and X.dtype != object and X.shape[0] * X.shape[1] <= COMPARED
        if compared and targets.rows.size <= TINY:
            targets = _merged(X[targets.rows], targets, self.multiclass)
        kept = targets
        if not self._precomputed:  # the rows that count, in their order, are all there is from here on
            X, kept = X[targets.rows], replace(targets, n_rows=targets.rows.size)
        alone = make_penalty("uniform")  # on the one kernel that parameters make
        sample = None if self._precomputed else sample_of_rows(X, np.arange(X.shape[0]))
        made = self._combination(X, frame, options, kept)
        return PreparedFit(made, targets, loss, alone, dual_sum, sample=sample)

    def _check_all(self) -> tuple[Options, Loss]:
        """Refuse parameters that make no sense, before any work is done."""
        check_choice("model", self.model, MODELS)
        check_choice("multiclass", self.multiclass, ("ovr", "ovo"))
        check_cost("C", self.C)
        check_number("price", self.price)
        check_number("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        if self.power not in (1, 2):
            raise ValueError(f"power must be 1 or 2, got {self.power!r}.")
        if self._precomputed and self.model != "nlmkl-p1":
            what = "the widths of Gaussian kernels" if self.model == "gmkl" else "gates from the samples"
            raise ValueError(
                f"model={self.model!r} learns {what}, and kernels='precomputed' has none: give kernels and X."
            )
        return Options(self.normalize, self.psd, self.memory, self.random_state), self._make_loss()

    def _read_tensors(self, X: Any) -> Any:
        raise TypeError(f"X is a {kind_of(X)}, and kernels are computed by NumPy here: convert X to NumPy yourself.")

    def _read_chunks(self, X: Any) -> Any:
        raise TypeError(f"X is a {kind_of(X)}, and kernels are computed by NumPy here: use X.compute().")

    def _read_objects(self, X: Any, objects: Any) -> Any:
        if self.model != "nlmkl-p1":
            raise TypeError(f"X holds objects, and model={self.model!r} learns from columns of numbers: encode them.")
        return super()._read_objects(X, objects)

    def _combination(self, X: Any, frame: Any, options: Options, targets: Targets) -> Combination:
        """Compute what the parameters combine."""
        if self.model == "gmkl":
            return self._gaussians(X, frame, options, targets)
        made: Any = self._assemble(X, frame, options, targets)
        if not isinstance(made.gram, DenseGram):
            n, m = made.gram.shape
            raise ValueError(
                f"model={self.model!r} reads every kernel for every SVM, and {m} kernels of {n} samples do not fit "
                "in memory: use fewer kernels or rows, or a larger memory= in bytes."
            )
        if self.model == "nlmkl-p1":
            return squared_sum(made)
        return gated_sum(made, self.model.removeprefix("lmkl-"), targets.weight)

    def _gaussians(self, X: Any, frame: Any, options: Options, targets: Targets) -> Combination:
        asked = rbf(on="each") if isinstance(self.kernels, str) and self.kernels == "auto" else self.kernels
        check_memory((X.shape[0], X.shape[0], 1), np.float64, self.memory)
        bank = resolve_bank(X, asked, replace(options, normalize=None), targets.weight, **self._column_facts(frame))
        return gaussian_product(X, bank, float(self.price), int(self.power))

    # -- solving ------------------------------------------------------------------------------------------

    def _solve_all(self, prepared: PreparedFit) -> list[Any]:
        """Descend for every problem, on threads that share the kernels."""

        alone = len(prepared.subproblems) == 1 and not inside_a_search()

        def answer(subproblem: Subproblem) -> Descended:
            found = self._descend(prepared, subproblem)
            if found.solution.status is Status.INTERRUPTED and not alone:
                raise KeyboardInterrupt  # the others have no answer, so there is no model to return
            return found

        with one_of_many():
            return on_threads(answer, prepared.subproblems, self.n_jobs)

    def _descend(self, prepared: PreparedFit, subproblem: Subproblem) -> Descended:
        combination: Any = prepared.assembly
        cost, rows = float(self.C) * prepared.targets.cost, subproblem.rows
        if rows is not None:
            combination, cost = combination.take(rows), cost[rows]
        bound = prepared.loss.bind(subproblem.y, cost)

        def pose(gram: GramStack) -> Problem:
            return Problem(gram, bound, prepared.penalty, prepared.dual_sum)

        waits = np.inf
        if self.max_time is None:
            waits = share_of_time() * (WAIT + WAIT_EACH * float(cost.size) ** 2)
        with until(self._end):
            found = Walk(combination, pose, self.tol, self.max_iter, waits).go()
        if found.solution.status is Status.LONG:
            halve_share()
        combination.check_energies(combination.gram, found.solution.beta)
        return found

    def _warn_if_loose(self, solutions: Sequence[Any]) -> None:
        """Say once if a point is not stationary to tol, by how much and what to do."""
        fine = (Status.STATIONARY, Status.INTERRUPTED)
        loose = [found for found in solutions if found.solution.status not in fine]
        if loose:
            worst = max(loose, key=lambda found: found.stationarity.violation)
            where = f" in {len(loose)} of {len(solutions)} problems" if len(solutions) > 1 else ""
            warnings.warn(
                f"Stationarity to tol={self.tol:g} was not reached{where}: {worst.stationarity}. "
                f"{worst.solution.status.value}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _keep(self, prepared: PreparedFit, solutions: Sequence[Any]) -> None:
        combination: Any = prepared.assembly
        thetas = [found.theta for found in solutions]
        settled = replace(prepared, assembly=combination.at(thetas))
        super()._keep(settled, [found.solution for found in solutions])
        self._certificates = [found.stationarity for found in solutions]
        self.parameters_ = single(np.array(thetas))
        self.objective_ = single(np.array([found.stationarity.value for found in solutions]))
        self.stationarity_ = max(found.stationarity.violation for found in solutions)
        self.dual_gap_ = float("nan")

    # -- reporting ----------------------------------------------------------------------------------------

    def _partition(self, by: str) -> Partition:
        """Return which part each kernel belongs to; a product of all kernels is one part, however it is asked."""
        if self.model != "gmkl":
            return super()._partition(by)
        check_choice("by", by, BY)
        widths, names = np.atleast_2d(self.weights_), self.kernel_names_
        used = np.flatnonzero(widths.any(axis=0))
        columns = tuple(sorted({j for k in used.tolist() for j in self._column_set(k)}))
        title = self._titles([columns])[0] if by == "columns" else f"product of {used.size} kernels"
        return Partition([title], [columns], np.zeros(len(names), dtype=int))

    def certificate(self) -> Any:
        """Return how far from stationary the answer is; the problem is not convex, so nothing bounds its optimum.

        Returns
        -------
        Stationarity or list of Stationarity
            With ``value``, ``violation`` and the ``gap`` of the SVM; printed, it reads as a sentence.
        """
        return super().certificate()

    @property
    def _manner(self) -> str:
        return f"{self.model}, C={self.C:g}"
