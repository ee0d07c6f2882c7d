"""SVMs with one kernel each, trained apart and put together afterwards: the best of them, or a vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.model_selection import check_cv

from ..arrays import Array, like, namespace, scatter, to_host
from ..assemble import Options, Predictor, Subproblem
from ..assemble.parameters import check_choice
from ..losses import Loss
from ..problem import Solution, Status
from ..solvers.base import on_threads
from .base import PreparedFit
from .classify import MKLClassifier

VOTES = ("lp-beta", "lp-b", "best")


@dataclass(frozen=True)
class Voter:
    """One SVM: a kernel's answer to a binary problem, what it says of samples it did not see, and its trials."""

    subproblem: Subproblem
    solution: Solution  # its weights are those of all kernels, but one of them zero
    outputs: np.ndarray  # (n,)
    trials: list[Solution]  # trained on parts of the samples


@dataclass(frozen=True)
class Ballot:
    """What prediction needs: weighted SVMs, and the problem that each one has a say in."""

    voters: Predictor
    problem: np.ndarray  # (n_voters, n_problems) 0 and 1

    @property
    def like(self) -> Any:
        """An array of the library, device and precision that new samples must have; None for stacks."""
        return self.voters.like

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels, as a precomputed stack must have them."""
        return self.voters.shape

    @property
    def degree(self) -> int:
        """Kernels in a product: there are none."""
        return 1

    def decide(self, X: Any) -> Array:  # (n, n_problems)
        """Return the decision values of new samples."""
        outputs = self.voters.decide(X)
        return outputs @ like(outputs, self.problem)

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> Array:  # (n, parts, n_problems)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        outputs = self.voters.shares(X, owner, parts)
        return outputs @ like(outputs, self.problem)


class BoostedMKLClassifier(MKLClassifier):
    """Classification by SVMs with one kernel each, which vote.

    Every kernel gets an SVM of its own, for several classes one for each class against the rest. What the SVMs say of
    samples that they were not trained on settles their weights; the decision is the weighted sum of what they say.
    The weights are those of the largest margin ``rho`` of the right class over any other,

        min  -rho + sum_i xi_i / (nu n)      with a margin of rho - xi_i at each sample, xi >= 0,

    a linear programme. Other than in `MKLClassifier`, no two kernels share coefficients.

    Parameters
    ----------
    kernels : as for `MKLClassifier`, default="auto"
        The bank.
    vote : {"lp-beta", "lp-b", "best"}, default="lp-beta"
        "lp-beta": one weight for each kernel, summing to one. "lp-b": weights for each class of their own. "best": the
        one kernel that is right most often.
    nu : float, default=0.2
        Share of the samples that may fall short of the margin, above 0 and up to 1; not for "best".
    cv : int, splitter, list of splits or None, default=5
        How samples are held out to weigh the SVMs. A number is that of the folds, each with its share of every
        class, and no more of them than the smallest class has samples. None: weigh the SVMs by what they say of
        the samples that they were trained on, which favours those that fit too closely.
    loss, C, solver, approximation, normalize, tol, max_iter, max_time, class_weight, psd, memory, random_state, \
n_jobs, progress
        As for `MKLClassifier`, of each SVM; threads are for the kernels.

    Attributes
    ----------
    weights_ : ndarray of shape (m,), or (n_classes, m) for "lp-b" and several classes
        Weight of each kernel's SVM.
    margin_ : float
        The ``rho`` of the weights; for "best", the share of samples that were right.
    machines_ : list of str
        The SVMs with a weight, by class and kernel.
    dual_coef_ : array of shape (n_support,) or (n_svms, n_support)
        Signed coefficients of the support vectors in each SVM with a weight.
    dual_gap_ : float
        Certified relative duality gap, the largest of these SVMs.
    objective_, n_iter_, history_, status_
        Of each of these SVMs.
    support_, intercept_, classes_, problem_names_, kernel_names_, kernel_groups_, kernel_scales_, storage_, ...
        As for `MKLClassifier`.

    References
    ----------
    P. Gehler, S. Nowozin. On feature combination for multiclass object classification. ICCV 2009.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.BoostedMKLClassifier(vote="lp-b").fit(X, y)
    >>> clf.weights_.shape, clf.weights_.sum(axis=1).round(6).tolist()
    ((3, 10), [1.0, 1.0, 1.0])
    >>> clf.score(X, y) > 0.9
    True
    """

    penalty, multiclass, fit_intercept, probability = "uniform", "ovr", "auto", False

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        vote: str = "lp-beta",
        nu: float = 0.2,
        cv: Any = 5,
        loss: Any = "hinge",
        C: float = 1.0,
        solver: Any = "auto",
        approximation: Any = None,
        normalize: str | None = "trace",
        tol: float = 1e-3,
        max_iter: int = 100_000,
        max_time: float | None = None,
        class_weight: Any = None,
        psd: str = "check",
        memory: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ):
        self.kernels = kernels
        self.vote = vote
        self.nu = nu
        self.cv = cv
        self.loss = loss
        self.C = C
        self.solver = solver
        self.approximation = approximation
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.psd = psd
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def _check_parameters(self) -> tuple[Options, Loss, Any]:
        check_choice("vote", self.vote, VOTES)
        nu: Any = self.nu
        if isinstance(nu, bool) or not isinstance(nu, Real) or not 0 < float(nu) <= 1:
            raise ValueError(f"nu must be a number above 0 and up to 1, got {nu!r}: use 0.2 to begin with.")
        options, loss, penalty = super()._check_parameters()
        if "binary" not in loss.tasks or not loss.bind(np.array([-1.0, 1.0])).quadratic:
            raise ValueError(f"loss={self.loss!r} is not for SVMs that vote: use 'hinge' or 'squared_hinge'.")
        return options, loss, penalty

    def _begin_stream(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        raise ValueError("partial_fit is for MKLClassifier: SVMs that vote need samples held out, so use fit.")

    # -- training -----------------------------------------------------------------------------------------

    def _solve_all(self, prepared: PreparedFit) -> list[Any]:
        """Train an SVM for every kernel and problem, on threads."""
        folds = self._folds(prepared.targets)

        def train(k: int) -> list[Voter]:
            assembly = prepared.assembly
            alone = replace(assembly, gram=assembly.gram.only(np.array([k])), kept=assembly.kept[[k]])
            return [self._voter(replace(prepared, assembly=alone), one, folds) for one in prepared.subproblems]

        everyone = range(prepared.assembly.gram.shape[1])
        trained = on_threads(train, everyone, self.n_jobs)
        return [voter for voters in trained for voter in voters]

    def _voter(self, prepared: PreparedFit, whole: Subproblem, folds: Sequence[tuple[np.ndarray, np.ndarray]]) -> Voter:
        """Train on all samples, and on parts of them to see what the SVM says of the others."""
        gram, y = prepared.assembly.gram, whole.y
        solution = self._answer(prepared, whole)
        trials = []
        outputs = to_host(gram.decision(solution.coef, np.ones(1))) + solution.intercept
        for train, test in folds:
            rows = like(y, train, "int64")
            trial = self._answer(prepared, Subproblem(whole.name, rows, namespace(y).take(y, rows)))
            coef = scatter(trial.coef, rows, y.shape[0])
            outputs[test] = to_host(gram.decision(coef, np.ones(1)))[test] + trial.intercept
            trials.append(trial)
        return Voter(whole, solution, outputs, trials)

    def _answer(self, prepared: PreparedFit, subproblem: Subproblem) -> Solution:
        solution = self._solve(prepared, prepared.problem(subproblem, self.C))
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # the others have no answer, so there is no model to return
        return solution

    def _folds(self, targets: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return positions, among the rows that count, to train on and to hold out."""
        if self.cv is None:
            return []
        codes, cv = to_host(targets.codes), self.cv
        if isinstance(cv, Integral):
            cv = min(int(cv), int(np.bincount(codes).min()))
            if cv < 2:
                raise ValueError("cv needs 2 folds or more, and 2 samples or more of every class: or use cv=None.")
        splits = list(check_cv(cv, codes, classifier=True).split(np.zeros(codes.size), codes))
        if not isinstance(cv, int) and not hasattr(cv, "split"):  # positions among all rows given
            place = np.full(targets.n_rows, -1)
            place[to_host(targets.rows)] = np.arange(codes.size)
            splits = [tuple(found[found >= 0] for found in (place[train], place[test])) for train, test in splits]
        _check_folds(splits, codes)
        return [(np.sort(train), test) for train, test in splits]

    def _warn_if_loose(self, voters: Sequence[Any]) -> None:
        super()._warn_if_loose([solution for voter in voters for solution in (voter.solution, *voter.trials)])

    # -- voting -------------------------------------------------------------------------------------------

    def _keep(self, prepared: PreparedFit, voters: Sequence[Any]) -> None:
        """Weigh the SVMs and keep those with a weight."""
        problems = len(prepared.subproblems)
        outputs = np.stack([voter.outputs for voter in voters], axis=1)
        outputs = outputs.reshape(len(outputs), -1, problems)  # (n, a, n_problems)
        weights, self.margin_ = self._ballot(outputs, prepared.targets)
        rows = np.repeat(weights, problems, axis=1) if weights.shape[1] < problems else weights  # (a, n_problems)
        voting = [(k, p) for k in range(len(rows)) for p in range(problems) if rows[k, p] > 0]
        chosen = [voters[k * problems + p] for k, p in voting]
        solutions = [
            replace(found, weights=rows[k, p] * np.eye(len(rows))[k], intercept=rows[k, p] * found.intercept)
            for (k, p), found in zip(voting, (voter.solution for voter in chosen), strict=True)
        ]
        targets = replace(prepared.targets, subproblems=[voter.subproblem for voter in chosen])
        super()._keep(replace(prepared, targets=targets), solutions)
        names, kept = self.kernel_names_, prepared.assembly.kept
        problem = np.eye(problems)[[p for _, p in voting]]
        self._predictor = Ballot(self._predictor, problem)
        self.problem_names_ = [one.name for one in prepared.subproblems]
        self.machines_ = [f"{self.problem_names_[p]}: {names[kept[k]]}" for k, p in voting]
        self._certified = self.machines_
        self.intercept_ = problem.T @ self.intercept_
        everyone = np.zeros((weights.shape[1], len(names)))
        everyone[:, kept] = weights.T
        self.weights_ = everyone if len(everyone) > 1 else everyone[0]

    def _ballot(self, outputs: np.ndarray, targets: Any) -> tuple[np.ndarray, float]:
        """Return the weights of kernels, (a, 1) or per class (a, n_problems), and the margin they reach."""
        codes, weight = to_host(targets.codes), to_host(targets.weight)
        if self.vote == "best":
            return best(outputs, codes, weight)
        return largest_margin(outputs, codes, weight, float(self.nu), self.vote == "lp-b")

    @property
    def _manner(self) -> str:
        return f"vote {self.vote}, C={self.C:g}"


def best(
    outputs: np.ndarray,  # (n, m, n_problems)
    codes: np.ndarray,  # (n,)
    weight: np.ndarray,  # (n,)
) -> tuple[np.ndarray, float]:
    """Return the weight one for the kernel that is right most often, the first of equals, and how often.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.estimators.boosting import best
    >>> best(np.array([[[1.0], [-1.0]], [[2.0], [1.0]]]), np.array([0, 1]), np.ones(2))
    (array([[0.],
           [1.]]), 1.0)
    """
    said = (outputs[:, :, 0] > 0).astype(int) if outputs.shape[2] == 1 else outputs.argmax(axis=2)
    right = weight @ (said == codes[:, None]) / weight.sum()
    return np.eye(right.size)[:, [int(right.argmax())]], float(right.max())


def largest_margin(
    outputs: np.ndarray,  # (n, m, n_problems)
    codes: np.ndarray,  # (n,)
    weight: np.ndarray,  # (n,)
    nu: float,
    per_class: bool,
) -> tuple[np.ndarray, float]:
    """Return the weights of kernels, shape (m, 1) or per class (m, n_problems), and the margin they reach.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.estimators.boosting import largest_margin
    >>> outputs = np.array([[[-1.0], [-3.0]], [[3.0], [1.0]]])
    >>> weights, margin = largest_margin(outputs, np.array([0, 1]), np.ones(2), nu=0.1, per_class=False)
    >>> weights.ravel().tolist(), margin
    ([0.5, 0.5], 2.0)
    """
    n, m, _ = outputs.shape
    sample, margins = _margins(outputs, codes, per_class)
    blocks = margins.shape[1] // m
    short = sp.csr_array((np.ones(sample.size), (np.arange(sample.size), sample)), shape=(sample.size, n))
    found = linprog(
        np.concatenate([np.zeros(m * blocks), weight / (nu * weight.sum()), [-1.0]]),
        A_ub=sp.hstack([-margins, -short, sp.csr_array(np.ones((sample.size, 1)))]),
        b_ub=np.zeros(sample.size),
        A_eq=sp.hstack([sp.kron(sp.eye_array(blocks), np.ones((1, m))), sp.csr_array((blocks, n + 1))]),
        b_eq=np.ones(blocks),
        bounds=[(0, None)] * (m * blocks + n) + [(None, None)],
        method="highs",
    )
    if not found.success:
        raise RuntimeError(f"The linear programme of the votes was not solved: {found.message}")
    return np.maximum(found.x[: m * blocks], 0.0).reshape(blocks, m).T, float(found.x[-1])


def _margins(outputs: np.ndarray, codes: np.ndarray, per_class: bool) -> tuple[np.ndarray, Any]:
    """Return whose margin each row is, and what each weight adds to it: the right class less another, each in turn."""
    n, m, questions = outputs.shape
    if questions == 1:
        return np.arange(n), sp.csr_array((2 * codes - 1)[:, None] * outputs[:, :, 0])
    sample, other = np.nonzero(codes[:, None] != np.arange(questions))
    right, wrong = outputs[sample, :, codes[sample]], outputs[sample, :, other]  # (r, m)
    if not per_class:
        return sample, sp.csr_array(right - wrong)
    rows = np.repeat(np.arange(sample.size), m)
    columns = [(m * block[:, None] + np.arange(m)).ravel() for block in (codes[sample], other)]
    values = np.concatenate([right.ravel(), -wrong.ravel()])
    where = (np.concatenate([rows, rows]), np.concatenate(columns))
    return sample, sp.csr_array((values, where), shape=(sample.size, m * questions))


def _check_folds(splits: Sequence[tuple[np.ndarray, np.ndarray]], codes: np.ndarray) -> None:
    """Refuse folds that do not hold out every row once, or train without a class."""
    held = np.sort(np.concatenate([test for _, test in splits]))
    if not np.array_equal(held, np.arange(codes.size)):
        raise ValueError("cv must hold every row out once: use a number of folds, or a splitter such as KFold.")
    if any(np.unique(codes[train]).size < np.unique(codes).size for train, _ in splits):
        raise ValueError("cv has a fold without samples of some class to train on: use a stratified cv.")
