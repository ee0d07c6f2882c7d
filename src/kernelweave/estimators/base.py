"""What the estimators share: reading samples, solving, and predicting without a training Gram matrix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from .. import report
from ..arrays import Array, device_of, is_foreign, kind_of, namespace, spread
from ..assemble import (
    Assembly,
    Options,
    Targets,
    Task,
    check_number,
    check_products,
    check_together,
    check_whole,
    from_factors,
    from_samples,
    from_stack,
    read_labels,
    read_stack,
    read_tensor,
    real_array,
)
from ..grams import Approximation, make_approximation
from ..kernels import as_kernels
from ..losses import Loss, make_loss
from ..penalties import Fixed, MixingPenalty
from ..problem import Certificate, Problem, Solution, Status
from ..solvers import solve
from ..weightings import SignedSum, Weighting, make_mixing, weighed

NUMBERS = [np.float64, np.float32]


@dataclass(frozen=True)
class Posed:
    """Everything a fit needs: kernels on the samples, and the binary questions asked of them."""

    assembly: Assembly
    targets: Targets
    tasks: Sequence[Task]
    loss: Loss
    penalty: MixingPenalty | Weighting
    bias: bool = True
    psd: str = "check"  # what to do if weights below zero make a sum of kernels indefinite

    def problem(self, task: Task, C: float) -> Problem:
        """Return one question as a problem; kernels weighed beforehand get their weights here."""
        cost = float(C) * self.targets.cost
        if isinstance(self.penalty, MixingPenalty):
            return self.assembly.problem(task, self.loss, self.penalty, cost, self.bias)
        weight = self.targets.weight
        weight = weight if task.rows is None else namespace(weight).take(weight, task.rows)
        return weighed(self.assembly.problem(task, self.loss, Fixed(), cost, self.bias), self.penalty, weight, self.psd)

    def weights(self, solutions: Sequence[Solution]) -> np.ndarray:  # (n_problems, m)
        """Return the weights of all kernels, zero for those left out."""
        weights = np.zeros((len(solutions), len(self.assembly.names)))
        weights[:, self.assembly.kept] = [solution.weights for solution in solutions]
        return weights

    def coefficients(self, solutions: Sequence[Solution]) -> Array:  # (n_outputs, n)
        """Return the coefficients of all rows, zero for rows that a question is not about.

        There is a row for each problem, or for each class of the one problem that has several.
        """
        n = self.targets.rows.shape[0]
        if solutions[0].coef.ndim == 2:
            return namespace(solutions[0].coef).matrix_transpose(solutions[0].coef)
        rows = [
            solution.coef if task.rows is None else spread(solution.coef, task.rows, n)
            for task, solution in zip(self.tasks, solutions, strict=True)
        ]
        return namespace(rows[0]).stack(rows)


def support(coef: Array) -> Array:  # (n_problems, n) -> (s,)
    """Return the positions of the samples with a coefficient other than zero."""
    xp = namespace(coef)
    return xp.nonzero(xp.any(coef != 0, axis=0))[0]


class MKLEstimator(BaseEstimator):
    """The part of an estimator that does not depend on what is predicted."""

    kernels: Any
    penalty: Any
    loss: Any
    C: Any
    solver: Any
    approximation: Any
    normalize: Any
    tol: Any
    max_iter: Any
    psd: Any
    memory: Any
    random_state: Any
    n_jobs: Any
    progress: Any

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check samples and labels for a fit."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if is_foreign(X) and not self._precomputed:
            return self._read_tensors(X, y)
        check_together("y", y, X)
        if self._precomputed:
            X, y = read_stack(X, self.memory), column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            validate_data(self, X, skip_check_array=True)
            return X, y
        check_columns(X)
        return validate_data(self, X, y, accept_sparse="csr", dtype=NUMBERS)

    def _read_tensors(self, X: Array, y: Any) -> tuple[Array, Any]:
        """Check samples of another library; kernels as matrices are NumPy's, so only features can be theirs."""
        if self.approximation is None:
            raise TypeError(
                f"X is a {kind_of(X)}, which would have to be copied to NumPy: use approximation='nystroem', which "
                "works where X is, or convert X yourself."
            )
        X = read_tensor(X)
        validate_data(self, X, skip_check_array=True)
        return X, read_labels(y, X)

    def _read_new(self, X: Any) -> Any:
        """Check samples to predict."""
        if self._precomputed:
            return _read_new_stack(X, self._predictor.shape)
        ours = self._predictor.like
        _check_same_home(X, ours)
        if is_foreign(X):
            X = read_tensor(X)
            validate_data(self, X, skip_check_array=True, reset=False)
            return namespace(X).astype(X, ours.dtype, copy=False)
        check_columns(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=NUMBERS, reset=False)
        return X.astype(ours.dtype, copy=False)

    def _check_parameters(self) -> tuple[Options, Loss, MixingPenalty | Weighting]:
        """Refuse parameters that make no sense, before any work is done."""
        check_number("C", self.C)
        check_number("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        options = Options(self.normalize, self.psd, self.memory, self.random_state, self._approximation())
        penalty = make_mixing(self.penalty)
        check_products(penalty, options)
        return options, make_loss(self.loss), penalty

    def _approximation(self) -> Approximation | None:
        """Return what ``approximation`` names."""
        if self.approximation is None:
            return None
        if self._precomputed:
            raise ValueError(
                "approximation needs samples, and kernels='precomputed' has none: give kernels and X of shape (n, d), "
                "or leave approximation=None."
            )
        return make_approximation(self.approximation)

    def _assemble(self, X: Any, frame: Any, options: Options, targets: Targets, whole: bool = False) -> Assembly:
        """Compute or take the kernels on the rows that count; ``whole`` features are for others to come as well."""
        if self._precomputed:
            return from_stack(X, options, targets)
        if not targets.all_rows:
            X = namespace(X).take(X, targets.rows, axis=0) if is_foreign(X) else X[targets.rows]
        given = {
            "weight": targets.weight,
            "names": getattr(self, "feature_names_in_", None),
            "frame": frame if hasattr(frame, "iloc") else None,
        }
        if options.approximation is None:
            return from_samples(X, self.kernels, options, **given)
        return from_factors(X, self.kernels, options, progress=bool(self.progress), whole=whole, **given)

    # -- solving ------------------------------------------------------------------------------------------

    def _solve(self, posed: Posed, problem: Problem, start: Array | None = None) -> Solution:
        solution = solve(
            problem,
            self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            progress=bool(self.progress),
        )
        posed.assembly.check_energies(problem, solution.beta)
        return problem.gram.spelled_out(solution) if isinstance(problem.gram, SignedSum) else solution

    def _solve_all(self, posed: Posed) -> list[Solution]:
        """Solve every question, on threads that share the kernels."""

        def answer(task: Task) -> Solution:
            solution = self._solve(posed, posed.problem(task, self.C))
            if solution.status is Status.INTERRUPTED and len(posed.tasks) > 1:
                raise KeyboardInterrupt  # the other problems have no answer, so there is no model to return
            return solution

        return Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(answer)(task) for task in posed.tasks)

    def _warn_if_loose(self, solutions: Sequence[Solution]) -> None:
        """Say once if a gap missed tol, by how much and what to do; an interruption was already told."""
        loose = [s for s in solutions if s.status in (Status.MAX_ITER, Status.STALLED)]
        if loose:
            worst = max(loose, key=lambda solution: solution.gap)
            where = f" in {len(loose)} of {len(solutions)} problems" if len(solutions) > 1 else ""
            warnings.warn(
                f"The relative duality gap reached {worst.gap:.1e}, not tol={self.tol:g}{where}. {worst.status.value}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _keep(self, posed: Posed, solutions: Sequence[Solution]) -> None:
        """Set the fitted attributes; those with an entry per problem are single for a single problem."""
        weights, coef = posed.weights(solutions), posed.coefficients(solutions)
        each = coef.shape[0] // len(solutions)  # decision values of a problem
        intercept = np.repeat([solution.intercept for solution in solutions], each)
        xp, vectors, rows = namespace(coef), support(coef), posed.targets.rows
        self._predictor = posed.assembly.predictor(posed.targets, np.repeat(weights, each, axis=0), coef, intercept)
        self._certificates = [solution.certificate for solution in solutions]
        self._n_samples = rows.shape[0]
        self.support_ = xp.take(rows, vectors)
        self.problem_names_ = [task.name for task in posed.tasks]
        self.kernel_names_ = posed.assembly.names
        self.kernel_scales_ = posed.assembly.scales
        self.approximation_error_ = posed.assembly.lost
        self.storage_ = posed.assembly.storage
        self.solver_ = solutions[0].solver
        self.dual_gap_ = max(solution.gap for solution in solutions)
        self.intercept_ = intercept
        self.weights_ = _single(weights)
        self.dual_coef_ = _single(xp.take(coef, vectors, axis=1))
        self.objective_ = _single(np.array([solution.certificate.upper for solution in solutions]))
        self.n_iter_ = _single(np.array([solution.n_iter for solution in solutions]))
        self.history_ = _single([solution.history for solution in solutions])
        self.status_ = _single([solution.status.value for solution in solutions])

    @property
    def pair_weights_(self) -> np.ndarray:
        """Weight of the product of each two kernels, for penalties on pairs of kernels only."""
        check_is_fitted(self)
        if getattr(self._predictor, "degree", None) != 2:
            raise AttributeError("pair_weights_ is what SpectralNorm(degree=2) learns; others have weights_ only.")
        return self.weights_[..., :, None] * self.weights_[..., None, :]

    # -- reporting ----------------------------------------------------------------------------------------

    def certificate(self) -> Certificate | list[Certificate]:
        """Return the bounds that prove the answer, one certificate for each binary problem if several.

        Returns
        -------
        Certificate or list of Certificate
            With ``lower``, ``upper`` and ``gap``; printed, it reads as a sentence. With an approximation, it is
            about the problem with the approximated kernels.
        """
        check_is_fitted(self)
        return _single(self._certificates)

    def summary(self) -> str:
        """Return a short table: kernels by weight, support vectors, gap, time.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.weights_)
        sentences = [self.status_] if isinstance(self.status_, str) else list(dict.fromkeys(self.status_))
        return report.summary(
            title=f"{type(self).__name__}, {self._manner}, C={self.C:g}",
            names=self.kernel_names_,
            weights=weights,
            gap=self.dual_gap_,
            tol=self.tol,
            n_samples=self._n_samples,
            n_support=self.support_.shape[0] if hasattr(self, "support_") else None,
            n_iter=int(np.sum(self.n_iter_)),
            seconds=self.fit_time_,
            solver=self.solver_,
            storage=self.storage_,
            status=" ".join(sentences),
            problems=self.problem_names_,
            lost=self.approximation_error_,
            stationarity=getattr(self, "stationarity_", None),
        )

    @property
    def _manner(self) -> str:
        """How kernels are mixed, as a phrase."""
        return f"penalty {self.penalty}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = self._precomputed
        tags.input_tags.sparse = not self._precomputed and _accept_sparse(self.kernels)
        return tags


def _single(values: Any) -> Any:
    """Return the one entry there is, or all of them."""
    if isinstance(values, list):
        return values[0] if len(values) == 1 else values
    if values.shape[0] > 1:
        return values
    return values[0].item() if values.ndim == 1 else values[0, ...]


def _check_same_home(X: Any, ours: Array) -> None:
    """Refuse to predict arrays of another library than the model was fitted on, or on another device."""
    if is_foreign(X) != is_foreign(ours) or (is_foreign(X) and namespace(X) is not namespace(ours)):
        raise TypeError(f"X is a {kind_of(X)}, but the model was fitted on a {kind_of(ours)}: convert X to that.")
    if is_foreign(X) and device_of(X) != device_of(ours):
        raise ValueError(f"X is on {device_of(X)}, but the model was fitted on {device_of(ours)}: move X there.")


def _accept_sparse(kernels: Any) -> bool:
    """Whether every kernel takes sparse samples; a bank that makes no sense is refused later, by fit."""
    try:
        return all(kernel.accepts_sparse for kernel in as_kernels(kernels))
    except (TypeError, ValueError):
        return False


def check_columns(X: Any) -> None:
    """Refuse columns of a DataFrame that are not numbers, by name."""
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return
    bad = [str(name) for j, name in enumerate(X.columns) if not _is_numeric(X.iloc[:, j])]
    if bad:
        few = ", ".join(bad[:8]) + (f" and {len(bad) - 8} more" if len(bad) > 8 else "")
        raise ValueError(f"X has columns that are not numbers: {few}; drop them, or encode them as numbers first.")


def _is_numeric(column: Any) -> bool:
    if column.dtype.kind in "biuf":
        return True
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return column.dtype.kind == "O"


def _read_new_stack(X: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return a stack between new and training samples, or say what is wrong with its shape."""
    stack = real_array(X)
    if stack.ndim != 3 or stack.shape[1:] != shape:
        raise ValueError(
            f"X must have the shape (n_new, {shape[0]}, {shape[1]}): every new sample with each of the "
            f"{shape[0]} training samples in each of the {shape[1]} kernels; got {stack.shape}."
        )
    return stack
