"""What the estimators share: reading samples, solving, and predicting without a training Gram matrix."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import tables
from ..arrays import Array, device_of, is_foreign, kind_of, namespace, scatter, to_host
from ..assemble import (
    Assembly,
    Fold,
    Options,
    Subproblem,
    Targets,
    Views,
    as_objects,
    as_views,
    check_columns,
    check_cost,
    check_number,
    check_order,
    check_products,
    check_together,
    check_whole,
    from_effects,
    from_factors,
    from_samples,
    from_stack,
    from_tensors,
    paired,
    read_stack,
    read_tensor,
    real_array,
    unlisted,
)
from ..chunks import Chunks, gathered, is_chunked, lazily, read_chunks
from ..grams import Approximation, CachedGram, make_approximation
from ..kernels import as_kernels, as_precomputed
from ..losses import _NAMES as LOSSES
from ..losses import Loss, make_loss
from ..penalties import MixingPenalty, make_penalty
from ..problem import Certificate, Point, Problem, Solution, Status
from ..solvers import ActiveKernels, ActiveNewton, solve
from ..solvers.base import on_threads
from ..weightings import SignedSum, Weighting, make_mixing, weighed
from .parts import Parts, sample_of_rows

LOOSE = (Status.MAX_ITER, Status.MAX_TIME, Status.SLOW, Status.STALLED)
SEARCHES = ("sklearn.", "joblib.", "dask.", "distributed.", "ray.", "optuna.")
WRAPPERS = ("sklearn.base", "sklearn.pipeline", "sklearn.utils.")
NUMBERS = [np.float64, np.float32]
SOLVING = 0.3  # share of max_time for the model where there are other fits after it
BANKS = (ActiveKernels, ActiveNewton)  # solvers on banks that are never listed
LOOKED = 2**22  # entries of X looked at together
HOMES = {  # the estimator of each kind of targets that a loss reads
    "binary": "MKLClassifier",
    "multiclass": "MKLClassifier",
    "regression": "MKLRegressor",
    "outliers": "MKLOutlierDetector",
    "survival": "MKLSurvival",
}


@dataclass(frozen=True)
class PreparedFit:
    """Everything a fit needs: kernels on the samples, targets, and how errors and kernels are weighed."""

    assembly: Assembly
    targets: Targets
    loss: Loss  # of each problem
    penalty: MixingPenalty | Weighting
    dual_sum: float | None = 0.0  # what the duals of each problem sum to, None without an intercept
    psd: str = "check"  # what to do if weights below zero make a sum of kernels indefinite
    sample: Any = None  # some of the rows, None for precomputed stacks

    @property
    def subproblems(self) -> Sequence[Subproblem]:
        """The problems to solve."""
        return self.targets.subproblems

    def problem(self, subproblem: Subproblem, C: float) -> Problem:
        """Return one of the problems; kernels weighed beforehand get their weights here."""
        cost = float(C) * self.targets.cost
        if isinstance(self.penalty, MixingPenalty):
            return self.assembly.problem(subproblem, self.loss, self.penalty, cost, self.dual_sum)
        weight = self.targets.weight
        weight = weight if subproblem.rows is None else namespace(weight).take(weight, subproblem.rows)
        plain = self.assembly.problem(subproblem, self.loss, make_penalty("uniform"), cost, self.dual_sum)
        return weighed(plain, self.penalty, weight, self.psd)

    def weights(self, solutions: Sequence[Solution]) -> np.ndarray:  # (n_problems, m)
        """Return the weights of all kernels, zero for those left out."""
        weights = np.zeros((len(solutions), len(self.assembly.names)))
        weights[:, self.assembly.kept] = [solution.weights for solution in solutions]
        return weights

    def coefficients(self, solutions: Sequence[Solution]) -> Array:  # (n_outputs, n)
        """Return the coefficients of all rows, zero for rows that a problem is not about.

        There is a row for each decision value: one for each problem, or several for a problem that has several.
        """
        n, parts = self.targets.rows.shape[0], []
        for subproblem, solution in zip(self.subproblems, solutions, strict=True):
            xp, coef = namespace(solution.coef), solution.coef
            coef = coef if subproblem.rows is None else scatter(coef, subproblem.rows, n)
            parts.append(coef[None, :] if coef.ndim == 1 else xp.matrix_transpose(coef))
        return namespace(parts[0]).concat(parts, axis=0)


def sized(assembly: Assembly, options: Options, targets: Targets) -> Assembly:
    """Return kernels divided by their complexity, if that is asked for."""
    if options.complexity is None:
        return assembly
    return assembly.rescaled(options.complexity.factors(assembly.gram, targets.weight))


def _posed(
    assembly: Assembly,
    options: Options,
    targets: Targets,
    loss: Loss,
    penalty: MixingPenalty | Weighting,
    dual_sum: float | None,
) -> PreparedFit:
    """Return what is to be solved on kernels at their size; penalties on products get these."""
    assembly = paired(assembly, penalty, options)
    kept = assembly.cut(penalty) if isinstance(penalty, MixingPenalty) else penalty
    return PreparedFit(assembly, targets, loss, kept, dual_sum, options.psd)


def outputs_of(solution: Solution) -> int:
    """Return how many decision values a problem's answer has for a sample."""
    return 1 if solution.coef.ndim == 1 else int(solution.coef.shape[1])


def intercepts(solutions: Sequence[Solution]) -> np.ndarray:  # (n_outputs,)
    """Return the constants of all decision values, on the host."""
    constants = [to_host(s.intercept) if np.ndim(s.intercept) else float(s.intercept) for s in solutions]
    sizes = [outputs_of(solution) for solution in solutions]
    return np.concatenate([np.broadcast_to(b, (c,)) for b, c in zip(constants, sizes, strict=True)]).astype(float)


def _on_all_kernels(problem: Problem, solution: Solution) -> Solution:
    """Return an answer with a weight for each of the user's kernels, where the problem has one that is their sum."""
    return problem.gram.spelled_out(solution) if isinstance(problem.gram, SignedSum) else solution


def support(coef: Array) -> Array:  # (n_outputs, n) -> (s,)
    """Return the positions of the samples with a coefficient other than zero."""
    xp = namespace(coef)
    return xp.nonzero(xp.any(coef != 0, axis=0))[0]


class AdviceWarning(UserWarning):
    """An answer that is optimal, and perhaps not what was wanted; ``warnings.simplefilter`` can silence this class."""


class MKLEstimator(Parts):
    """The part of an estimator that does not depend on what is predicted.

    What does depend on it are three methods: `_read_targets`, which reads y; `_choose`, the loss of each problem and
    whether there is an intercept; and what a fitted model says of new samples, from `_decide`.
    """

    kernels: Any
    penalty: Any
    loss: Any
    C: Any
    solver: Any
    approximation: Any
    normalize: Any
    tol: Any
    max_iter: Any
    max_time: Any = None
    fit_intercept: Any
    psd: Any
    memory: Any
    random_state: Any
    n_jobs: Any
    progress: Any
    missing: Any = "refuse"  # a choice of some estimators only

    #: kinds of targets that it reads, as `Loss.tasks` names them
    _reads: ClassVar[tuple[str, ...]] = ()
    #: moment of `time.perf_counter` at which the time of a fit is up
    _end: float = np.inf

    # -- what depends on the targets ----------------------------------------------------------------------

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        """Return what is to be learned; X are samples that were read, y and the weights as they were given."""
        raise NotImplementedError

    def _choose(self, loss: Loss, targets: Targets) -> tuple[Loss, float | None]:
        """Return the loss of each problem, and what its duals sum to: None without an intercept."""
        return loss, 0.0 if self._has_intercept(loss) else None

    def _to_refit(self) -> Any:
        """Return an estimator to fit to parts of the samples, with nothing left to choose."""
        return clone(self)

    def _learn_more(self, prepared: PreparedFit, X: Any, y: Any, sample_weight: Any) -> None:
        """Learn what else a model needs from the samples given, after the problems are solved."""

    @property
    def _learns_more(self) -> bool:
        """Whether that takes more fits."""
        return False

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def _precomputed(self) -> bool:
        return as_precomputed(self.kernels) is not None

    @property
    def _bank(self) -> Any:
        """The kernels to learn with, where they are not precomputed."""
        return self.kernels

    def _read_samples(self, X: Any) -> Any:
        """Check samples for a fit."""
        self._views: Views | None = None
        if is_chunked(X):
            return self._read_chunks(X)
        if is_foreign(X) and not self._precomputed:
            return self._read_tensors(X)
        if self._precomputed:
            X = read_stack(X, self.memory)
            validate_data(self, X, skip_check_array=True)
            return X
        views = as_views(X, self.missing)
        if views is not None:
            self._views, X = views.emptied(), views.joined()
        objects = as_objects(X) if _accept(self._bank, "accepts_objects", any) else None
        if objects is not None:
            return self._read_objects(X, objects)
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], str):
            raise ValueError("X holds strings, and no kernel takes them: use kernels.spectrum() or a function.")
        check_columns(X)
        return self._validated(X)

    def _read_tensors(self, X: Array) -> Array:
        """Check samples of another library."""
        X = read_tensor(X)
        validate_data(self, X, skip_check_array=True)
        return X

    def _read_chunks(self, X: Any) -> Chunks:
        """Check samples in Dask chunks; kernels between all of them are never formed, so only features can be made."""
        if self._precomputed or self.approximation is None:
            raise TypeError(
                f"X is a {kind_of(X)}, whose rows are never all in one place: use kernels of samples and "
                "approximation='nystroem', or X.compute() if it fits in memory."
            )
        if self._absent:
            raise ValueError("missing='absent' is not for Dask chunks: fill the gaps first, or use X.compute().")
        if getattr(self, "probability", False):
            raise ValueError("probability=True is not for Dask chunks: use loss='logistic', which has its own odds.")
        chunks = read_chunks(X)
        validate_data(self, X._meta if hasattr(X, "columns") else np.empty((1, chunks.columns)), skip_check_array=True)
        return chunks

    def _read_new(self, X: Any) -> Any:
        """Check samples to predict."""
        if is_chunked(X):
            raise TypeError(f"X is a {kind_of(X)}: use X.compute() for what is not a prediction.")
        if self._precomputed:
            return _read_new_stack(X, self._predictor.shape)
        ours = self._predictor.like
        _check_same_home(X, ours)
        if is_foreign(X):
            X = read_tensor(X)
            validate_data(self, X, skip_check_array=True, reset=False)
            return namespace(X).astype(X, ours.dtype, copy=False)
        X = self._side_by_side(X)
        if ours.dtype == object:
            objects = as_objects(X)
            if objects is None:
                raise TypeError("X holds numbers only, but the model was fitted on other objects: give such as those.")
            validate_data(self, X if hasattr(X, "columns") else objects, skip_check_array=True, reset=False)
            return objects
        check_columns(X)
        return self._validated(X, reset=False).astype(ours.dtype, copy=False)

    @property
    def _absent(self) -> bool:
        """Whether samples may lack views."""
        return isinstance(self.missing, str) and self.missing == "absent"

    def _validated(self, X: Any, reset: bool = True) -> Any:
        """Check samples as scikit-learn does; NaN are let through where views may be missing, else refused."""
        X = validate_data(self, X, accept_sparse="csr", dtype=NUMBERS, reset=reset, ensure_all_finite=False)
        if issparse(X) and self._absent:
            raise ValueError("missing='absent' takes X that is not sparse: use toarray().")
        values = X.data if issparse(X) else X
        if _all_finite(values):
            return X
        if issparse(X) or np.isinf(values).any() or "missing" not in self.get_params(deep=False):
            assert_all_finite(X, input_name="X", estimator_name=type(self).__name__)
        if self._absent:
            return X
        torn = int(np.isnan(values).any(axis=1).sum())
        raise ValueError(
            f"Input X contains NaN, in {torn} samples: use missing='absent' where samples lack whole views, or fill "
            "the gaps."
        )

    def _read_objects(self, X: Any, objects: np.ndarray) -> np.ndarray:
        """Take samples that are not numbers, for kernels that are given those."""
        if self.approximation is not None:
            raise TypeError("X holds objects, and features are made from numbers: leave approximation=None.")
        validate_data(self, X if hasattr(X, "columns") else objects, skip_check_array=True)
        return objects

    def _side_by_side(self, X: Any) -> Any:
        """Return samples that come in several tables as one, in the order of those given to fit."""
        views, fitted = as_views(X, self.missing), getattr(self, "_views", None)
        if views is None:
            return X
        return views.joined() if fitted is None else views.like(fitted, self.missing)

    def _column_facts(self, frame: Any) -> dict[str, Any]:
        """Return what kernels may call columns by: their names, a DataFrame, and views."""
        names, views = getattr(self, "feature_names_in_", None), self._views
        return {
            "names": names if views is None else views.column_names,
            "frame": frame if hasattr(frame, "iloc") and hasattr(frame, "columns") and views is None else None,
            "views": None if views is None else views.columns,
        }

    def _check_parameters(self) -> tuple[Options, Loss, MixingPenalty | Weighting]:
        """Refuse parameters that make no sense, before any work is done."""
        check_cost("C", self.C)
        check_number("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        approximation = self._approximation()
        options = Options(self.normalize, self.psd, self.memory, self.random_state, approximation, self.missing)
        penalty = make_mixing(self.penalty)
        check_products(penalty, options)
        if isinstance(penalty, Weighting) and not set(penalty.tasks) & set(self._reads):
            raise ValueError(f"penalty {penalty} weighs kernels by the labels of classes: use another, such as 'lp'.")
        return options, self._make_loss(), penalty

    def _make_loss(self) -> Loss:
        """Return what ``loss`` names."""
        return self._read_loss(self.loss)

    def _read_loss(self, given: Any) -> Loss:
        """Return what is given for ``loss``, or say which losses are for such targets."""
        loss = make_loss(given)
        loss.check_parameters()
        if set(loss.tasks) & set(self._reads):
            return loss
        known = sorted(name for name, kind in LOSSES.items() if set(kind.tasks) & set(self._reads))
        raise ValueError(
            f"loss={given!r} is not for {type(self).__name__}: choose one of {', '.join(known)}, or use "
            f"kw.{HOMES[loss.tasks[0]]}."
        )

    def _has_intercept(self, loss: Loss) -> bool:
        """Whether decision values have a constant of their own, or why they cannot."""
        if self.fit_intercept not in (True, False, "auto"):
            raise ValueError(f"fit_intercept must be 'auto', True or False, got {self.fit_intercept!r}.")
        if self.fit_intercept is True and not loss.takes_bias:
            raise ValueError(f"fit_intercept=True is not for {loss}: use 'auto', and a constant kernel.")
        return loss.takes_bias if self.fit_intercept == "auto" else bool(self.fit_intercept)

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
            return from_stack(X, options, targets, self.kernels)
        if not targets.all_rows and not isinstance(X, Chunks):
            X = namespace(X).take(X, targets.rows, axis=0) if is_foreign(X) else X[targets.rows]
        given = {"weight": targets.weight, **self._column_facts(frame)}
        if options.approximation is None:
            make = from_tensors if is_foreign(X) else from_samples
            return make(X, self._bank, options, **given)
        plain = not options.approximation.exact or isinstance(X, Chunks)
        sized = options.complexity is not None or options.normalize == "center"  # by more than the diagonal
        listed = whole or plain or sized or self._absent or not self._on_bank()
        effects = None if listed else unlisted(self._bank)
        if effects is not None:
            return from_effects(X, effects, options, **given)
        return from_factors(X, self._bank, options, progress=bool(self.progress), whole=whole, **given)

    def _on_bank(self) -> bool:
        """Whether penalty and solver are for banks that are never listed."""
        chosen = isinstance(self.solver, BANKS) or self.solver in ("auto", *(solver.name for solver in BANKS))
        penalty = make_mixing(self.penalty)
        return chosen and isinstance(penalty, MixingPenalty) and penalty.on_simplex

    # -- solving ------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Read, solve, and keep what prediction needs."""
        begun = time.perf_counter()
        X = self._as_views(X, y=y, sample_weight=sample_weight)
        with self._limited(begun):
            prepared = self._prepare(X, y, sample_weight)
            with self._limited(begun, SOLVING if self._learns_more else 1.0):
                solutions = self._solve_all(prepared)
            self._warn_if_loose(solutions)
            self._learn_more(prepared, X, y, sample_weight)
        self._keep(prepared, solutions)
        self._advise(prepared, solutions)
        self.fit_time_ = time.perf_counter() - begun
        return self

    @contextmanager
    def _limited(self, begun: float, share: float = 1.0) -> Iterator[None]:
        """Let all problems within end when ``share`` of the time given is over, of which none may be given."""
        before = self._end
        if self.max_time is not None:
            check_number("max_time", self.max_time, "None or a number of seconds")
            self._end = min(before, begun + share * float(self.max_time))
        try:
            yield
        finally:
            self.__dict__.pop("_end", None)
            if before < np.inf:
                self._end = before

    def _as_views(self, X: Any, **beside: Any) -> Any:
        """Return samples that come in several tables as `Views`, if what is given beside them is in their order."""
        views = None if self._precomputed or is_chunked(X) else as_views(X, self.missing)
        if views is None:
            return X
        for name, values in beside.items():
            check_order(name, values, views.index)
        return views

    def _advise(self, prepared: PreparedFit, solutions: Sequence[Solution]) -> None:
        """Warn of what is optimal and perhaps not wanted."""
        from .advice import advice

        convex = all(isinstance(solution, Solution) for solution in solutions)
        self.advice_ = advice(self, prepared, solutions) if convex else []
        for sentence in self.advice_:
            warnings.warn(sentence, AdviceWarning, stacklevel=4)

    def _prepare(self, X: Any, y: Any, sample_weight: Any = None) -> PreparedFit:
        """Read everything that fit is given and compute the kernels."""
        options, loss, penalty = self._check_parameters()
        X = self._as_views(X, y=y, sample_weight=sample_weight)
        samples, y, sample_weight = self._read_samples(X), gathered(y), gathered(sample_weight)
        check_together("sample_weight", sample_weight, samples)
        targets = self._read_targets(samples, y, sample_weight)
        if isinstance(samples, Chunks):
            counted = samples if targets.all_rows else samples.only(targets.rows)
            samples = counted.sampled(check_random_state(self.random_state))
        self._lacking = self._count_lacking(samples) if self._absent else {}
        loss, dual_sum = self._choose(loss, targets)
        assembly = sized(self._assemble(samples, X, options, targets), options, targets)
        posed = _posed(assembly, options, targets, loss, penalty, dual_sum)
        return replace(posed, sample=self._some_rows(samples, targets))

    def _some_rows(self, X: Any, targets: Targets) -> Any:
        """Return some of the rows that count, for what is said of parts; None for precomputed stacks."""
        if isinstance(X, Chunks):
            return sample_of_rows(X.sample, np.arange(len(X.sample)))
        return None if self._precomputed else sample_of_rows(X, targets.rows)

    def _prepare_fold(self, fold: Fold, y: Any, weight: Array) -> PreparedFit:
        """Do the same for a fold of kernels that are there."""
        options, loss, penalty = self._check_parameters()
        options = replace(options, psd="trust")  # parts of definite kernels are definite
        targets = self._read_targets(fold.samples, y, weight)
        loss, dual_sum = self._choose(loss, targets)
        assembly = sized(fold.scaled(options, targets.weight), options, targets)
        return _posed(assembly, options, targets, loss, penalty, dual_sum)

    def _count_lacking(self, X: Any) -> dict[str, int]:
        """Return how many samples lack each view or precomputed kernel, or have NaN at all where there are no names."""
        if self._precomputed:
            given = as_precomputed(self.kernels)
            assert given is not None
            return dict(zip(given.read(X.shape[2])[0], np.isnan(np.einsum("iik->ik", X)).sum(axis=0), strict=True))
        if self._views is None:
            return {"some columns": int(np.isnan(X).any(axis=1).sum())}
        return {name: int(np.isnan(X[:, columns]).all(axis=1).sum()) for name, columns in self._views.columns.items()}

    def _solve(self, prepared: PreparedFit, problem: Problem, start: Point | None = None) -> Solution:
        """Solve a problem; weights and coefficients are those of its own kernels."""
        solution = solve(
            problem,
            self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            max_time=None if self._end == np.inf else max(self._end - time.perf_counter(), 0.0),
            start=start,
            progress=bool(self.progress),
        )
        prepared.assembly.check_energies(problem.gram, solution.beta)
        return solution

    def _solve_all(self, prepared: PreparedFit) -> list[Solution]:
        """Solve every problem, on threads that share the kernels."""

        alone = len(prepared.subproblems) == 1 and not self._learns_more and not inside_a_search()

        def answer(subproblem: Subproblem) -> Solution:
            problem = prepared.problem(subproblem, self.C)
            solution = _on_all_kernels(problem, self._solve(prepared, problem))
            if solution.status is Status.INTERRUPTED and not alone:
                raise KeyboardInterrupt  # the other problems have no answer, so there is no model to return
            return solution

        self._share_memory(prepared)
        return on_threads(answer, prepared.subproblems, self.n_jobs)

    def _share_memory(self, prepared: PreparedFit) -> None:
        """Let problems on several threads share the memory for kernels on demand."""
        if isinstance(prepared.assembly.gram, CachedGram):
            prepared.assembly.gram.sharers = min(effective_n_jobs(self.n_jobs), len(prepared.subproblems))

    def _along(
        self, prepared: PreparedFit, subproblem: Subproblem, costs: np.ndarray, first: Array | None = None
    ) -> list[Solution]:
        """Solve one problem for every cost, from the smallest up, each from the last; in the order of ``costs``."""
        found: list[Any] = [None] * costs.size
        problem, start = prepared.problem(subproblem, 1.0), first
        for j in np.argsort(costs, kind="stable"):
            there = replace(problem, loss=problem.loss.times(float(costs[j])))
            solution = self._solve(prepared, there, start)
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            start = Point(solution.beta, solution.weights)  # as they are: most duals do not grow with the cost
            found[j] = _on_all_kernels(there, solution)
        return found

    def _warn_if_loose(self, solutions: Sequence[Solution]) -> None:
        """Say once if a gap missed tol, by how much and what to do; an interruption was already told."""
        loose = [s for s in solutions if s.status in LOOSE]
        if loose:
            worst = max(loose, key=lambda solution: solution.gap)
            where = f" in {len(loose)} of {len(solutions)} problems" if len(solutions) > 1 else ""
            warnings.warn(
                f"The relative duality gap reached {worst.gap:.1e}, not tol={self.tol:g}{where}. {worst.status.value}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep(self, prepared: PreparedFit, solutions: Sequence[Solution]) -> None:
        """Set the fitted attributes; those with an entry per problem are single for a single problem."""
        weights, coef, intercept = prepared.weights(solutions), prepared.coefficients(solutions), intercepts(solutions)
        xp, vectors, rows = namespace(coef), support(coef), prepared.targets.rows
        each = np.repeat(weights, [outputs_of(solution) for solution in solutions], axis=0)  # (n_outputs, m)
        self._predictor = prepared.assembly.predictor(prepared.targets, each, coef, intercept)
        self._certificates = [solution.certificate for solution in solutions]
        self._keep_parts(prepared.assembly, prepared.sample)
        self._n_samples = rows.shape[0]
        self.support_ = xp.take(rows, vectors)
        self.problem_names_ = [subproblem.name for subproblem in prepared.subproblems]
        self._certified = self.problem_names_
        self.kernel_names_, self.kernel_groups_ = prepared.assembly.names, prepared.assembly.groups
        self.kernel_scales_ = prepared.assembly.scales
        self.approximation_error_ = prepared.assembly.lost
        self.storage_ = prepared.assembly.storage
        self.solver_ = solutions[0].solver
        self.dual_gap_ = max(solution.gap for solution in solutions)
        self.intercept_ = intercept
        self.weights_ = single(weights)
        self.dual_coef_ = single(xp.take(coef, vectors, axis=1))
        self.objective_ = single(np.array([solution.certificate.upper for solution in solutions]))
        self.n_iter_ = single(np.array([solution.n_iter for solution in solutions]))
        self.history_ = single([solution.history for solution in solutions])
        self.status_ = single([solution.status.value for solution in solutions])

    def _keep_parts(self, assembly: Assembly, sample: Any) -> None:
        """Keep what is needed to take decision values apart."""
        self._columns, self._sample = assembly.columns, sample
        self._kinds = {effect.on[0]: effect.basis.kind for effect in assembly.singles}

    # -- predicting ---------------------------------------------------------------------------------------

    def _decide(self, X: Any) -> Array:  # (n, n_outputs)
        """Return the decision values of new samples."""
        check_is_fitted(self)
        return self._predictor.decide(self._read_new(X))

    @property
    def pair_weights_(self) -> np.ndarray:
        """Weight of the product of each two kernels, for penalties on pairs of kernels only."""
        check_is_fitted(self)
        if self._predictor.degree != 2:
            raise AttributeError("pair_weights_ is what SpectralNorm(degree=2) learns; others have weights_ only.")
        return self.weights_[..., :, None] * self.weights_[..., None, :]

    # -- reporting ----------------------------------------------------------------------------------------

    def certificate(self) -> Certificate | tables.Certificates:
        """Return the bounds that prove the answer, one certificate for each problem if there are several.

        Returns
        -------
        Certificate or list of Certificate
            With ``lower``, ``upper`` and ``gap``; printed, it reads as a sentence, or a line for each problem. With an
            approximation, it is about the problem with the approximated kernels.
        """
        check_is_fitted(self)
        several = len(self._certificates) > 1
        return tables.Certificates(self._certified, self._certificates) if several else single(self._certificates)

    def summary(self) -> str:
        """Return a short table: kernels by weight, support vectors, gap, time.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        weights = np.atleast_2d(self.weights_)
        sentences = [self.status_] if isinstance(self.status_, str) else list(dict.fromkeys(self.status_))
        return tables.summary(
            title=f"{type(self).__name__}, {self._manner}",
            names=self.kernel_names_,
            groups=self.kernel_groups_,
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
            lacking=getattr(self, "_lacking", None),
            advice=getattr(self, "advice_", ()),
            kinds=list(self._kinds.values()),
        )

    @property
    def _manner(self) -> str:
        """How kernels and errors are weighed, as a phrase."""
        return f"penalty {self.penalty}, C={self.C:g}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.allow_nan = self._absent
        tags.input_tags.three_d_array = self._precomputed
        tags.input_tags.sparse = not self._precomputed and _accept(self._bank, "accepts_sparse", all)
        return tags


def chunk_by_chunk(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method that says something of new samples answer for Dask rows too: chunk by chunk, when asked for."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        if not is_chunked(X):
            return method(self, X)
        check_is_fitted(self)
        return lazily(_light(self), method.__name__, X)

    return answer


def _light(model: Any) -> Any:
    """Return a model without what has an entry for each training sample, which no prediction needs."""
    light = copy(model)
    for name in ("dual_coef_", "support_", "history_", "_sample"):
        vars(light).pop(name, None)
    return light


def inside_a_search() -> bool:
    """Whether a fit was asked for by a search, a resampling or another estimator, which an interruption is to end.

    The code that asked is on the stack: modules of joblib, or of scikit-learn other than what wraps every fit.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(SEARCHES) and not name.startswith(WRAPPERS):
            return True
        frame = frame.f_back
    return False


def single(values: Any) -> Any:
    """Return the one entry there is, or all of them."""
    if isinstance(values, list):
        return values[0] if len(values) == 1 else values
    if values.shape[0] > 1:
        return values
    return values[0].item() if values.ndim == 1 else values[0, ...]


def requires_y(estimator: Any, y: Any) -> None:
    """Refuse a fit without targets."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")


def _all_finite(values: np.ndarray) -> bool:
    """Whether there is no NaN and no infinity; some rows at a time, since an array may be mapped from a large file."""
    step = max(1, LOOKED // max(1, values[:1].size))
    return all(np.all(np.isfinite(values[start : start + step])) for start in range(0, values.shape[0], step))


def _check_same_home(X: Any, ours: Array) -> None:
    """Refuse to predict arrays of another library than the model was fitted on, or on another device."""
    if is_foreign(X) != is_foreign(ours) or (is_foreign(X) and namespace(X) is not namespace(ours)):
        raise TypeError(f"X is a {kind_of(X)}, but the model was fitted on a {kind_of(ours)}: convert X to that.")
    if is_foreign(X) and device_of(X) != device_of(ours):
        raise ValueError(f"X is on {device_of(X)}, but the model was fitted on {device_of(ours)}: move X there.")


def _accept(kernels: Any, what: str, enough: Callable[[Iterator[bool]], bool]) -> bool:
    """Whether all kernels, or any, take some kind of samples; a bank that makes no sense is refused later, by fit."""
    try:
        return enough(getattr(kernel, what) for kernel in as_kernels(kernels))
    except (TypeError, ValueError):
        return False


def _read_new_stack(X: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return a stack between new and training samples, or say what is wrong with its shape."""
    stack = real_array(X)
    if stack.ndim != 3 or stack.shape[1:] != shape:
        raise ValueError(
            f"X must have the shape (n_new, {shape[0]}, {shape[1]}): every new sample with each of the "
            f"{shape[0]} training samples in each of the {shape[1]} kernels; got {stack.shape}."
        )
    return stack
