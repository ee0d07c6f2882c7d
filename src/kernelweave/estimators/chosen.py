"""Estimators that choose their penalty, the size of their kernels and C by cross-validation."""

from __future__ import annotations

from typing import Any

from .choosing import Choosing
from .classify import MKLClassifier
from .regress import MKLRegressor
from .survive import MKLSurvival


class MKLClassifierCV(Choosing, MKLClassifier):
    """Classification with penalty, scaling of kernels and C chosen by cross-validation.

    Kernels are computed once, on all samples; every fold is a part of them, and every path along C is solved from the
    smallest cost up, each answer from the last. What is chosen is then fitted to all samples, and certified, as
    `MKLClassifier` does it: ``MKLClassifier(kernels, **clf.best_params_)`` is the same model.

    Parameters
    ----------
    kernels : as for `MKLClassifier`, default="auto"
        The bank. Parameters that depend on the data, such as widths, are settled on all samples.
    Cs : int or list of float, default=10
        Costs to try: so many between 0.01 and 1000, or those given.
    candidates : "auto" or list, default="auto"
        Ways to weigh kernels to try, in the order in which they are preferred when level: penalties as `MKLClassifier`
        takes them, dicts with "penalty", "normalize", "loss" and, for tables, "name"; "single" is each kernel alone.
        "auto" is the plain average and that of kernels divided by their effective dimension, lp with p = 4/3, and l1
        on kernels divided by their effective dimension, by their tail, and as they are; on effects, l1 on columns
        alone, and with pairs at ten, three and one times the price of a column. Three classes or more of the loss
        "hinge", each against the rest, are also told apart by least squares on the average by dimension.
    cv : int, splitter or list of (train, test), default=None
        Folds; None is five, with classes in equal shares.
    scoring : str or callable, default=None
        What is best, as scikit-learn has it; None is `score`.
    rule : {"best", "one-se"}, default="best"
        The setting with the best mean, or the first candidate and smallest C within its standard error.
    drop : bool, default=True
        Whether candidates are dropped at each C, from the second fold on, where they are behind the best by more than
        three standard errors of the paired differences; with ``rule="one-se"``, those that are so at every C.
    loss, solver, approximation, tol, max_iter, max_time, multiclass, fit_intercept, probability, class_weight, psd, \
missing, memory, random_state
        As for `MKLClassifier`.
    n_jobs : int, optional
        Threads for the candidates.
    progress : bool, default=False
        Show a bar over candidates and folds, and the gap of the last fit.

    Attributes
    ----------
    best_params_ : dict
        Penalty, normalisation and C that were chosen, and the loss of a candidate that has its own.
    best_candidate_ : str
        Name of the candidate chosen.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its position in ``cv_results_``.
    cv_results_ : dict of arrays
        In scikit-learn's layout; what was dropped has no score on later folds.
    weights_, certificate(), summary() and all the others
        As of `MKLClassifier`.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifierCV(Cs=[0.1, 1.0, 10.0], candidates=["uniform", "l1"]).fit(X, y)
    >>> sorted(clf.best_params_)
    ['C', 'normalize', 'penalty']
    >>> clf.best_score_ > 0.9 and clf.dual_gap_ <= 1e-3
    True
    """

    _plain = MKLClassifier

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        Cs: Any = 10,
        candidates: Any = "auto",
        cv: Any = None,
        scoring: Any = None,
        rule: str = "best",
        drop: bool = True,
        loss: Any = "hinge",
        solver: Any = "auto",
        approximation: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100_000,
        max_time: float | None = None,
        multiclass: str = "ovr",
        fit_intercept: Any = "auto",
        probability: bool = False,
        class_weight: Any = None,
        psd: str = "check",
        missing: str = "refuse",
        memory: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ):
        self.kernels = kernels
        self.Cs = Cs
        self.candidates = candidates
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.drop = drop
        self.loss = loss
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.multiclass = multiclass
        self.fit_intercept = fit_intercept
        self.probability = probability
        self.class_weight = class_weight
        self.psd = psd
        self.missing = missing
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MKLClassifierCV:
        """Choose by cross-validation, and fit what was chosen.

        Parameters
        ----------
        X, y : as for `MKLClassifier`
            The training samples.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample, and how much it counts in scores.
        groups : array of shape (n,), optional
            For splitters that keep groups of samples together.

        Returns
        -------
        MKLClassifierCV
            Itself, fitted.
        """
        return self._fit_chosen(X, y, sample_weight, groups)

    @property
    def partial_fit(self) -> Any:
        """There is none: what is chosen is chosen on all samples."""
        raise AttributeError("MKLClassifierCV has no partial_fit: take MKLClassifier(**best_params_) for a stream.")


class MKLRegressorCV(Choosing, MKLRegressor):
    """Regression with penalty, scaling of kernels and C chosen by cross-validation, as `MKLClassifierCV` does it.

    Parameters
    ----------
    kernels, Cs, candidates, cv, scoring, rule, drop, n_jobs, progress
        As for `MKLClassifierCV`; folds are plain, and `score` is R2.
    loss, targets, solver, approximation, tol, max_iter, max_time, fit_intercept, psd, missing, memory, random_state
        As for `MKLRegressor`.

    Attributes
    ----------
    best_params_, best_candidate_, best_score_, best_index_, cv_results_
        As of `MKLClassifierCV`.
    weights_, certificate(), summary() and all the others
        As of `MKLRegressor`.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = kw.MKLRegressorCV(Cs=[0.1, 1.0, 10.0], candidates=["uniform", "l1"]).fit(X[:200], y[:200])
    >>> reg.best_score_ > 0.3
    True
    """

    _plain = MKLRegressor

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        Cs: Any = 10,
        candidates: Any = "auto",
        cv: Any = None,
        scoring: Any = None,
        rule: str = "best",
        drop: bool = True,
        loss: Any = "squared",
        targets: str = "joint",
        solver: Any = "auto",
        approximation: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100_000,
        max_time: float | None = None,
        fit_intercept: Any = "auto",
        psd: str = "check",
        missing: str = "refuse",
        memory: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ):
        self.kernels = kernels
        self.Cs = Cs
        self.candidates = candidates
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.drop = drop
        self.loss = loss
        self.targets = targets
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.psd = psd
        self.missing = missing
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MKLRegressorCV:
        """Choose by cross-validation, and fit what was chosen.

        Parameters
        ----------
        X, y : as for `MKLRegressor`
            The training samples.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample, and how much it counts in scores.
        groups : array of shape (n,), optional
            For splitters that keep groups of samples together.

        Returns
        -------
        MKLRegressorCV
            Itself, fitted.
        """
        return self._fit_chosen(X, y, sample_weight, groups)


class MKLSurvivalCV(Choosing, MKLSurvival):
    """Survival with penalty, scaling of kernels and C chosen by cross-validation, as `MKLClassifierCV` does it.

    Parameters
    ----------
    kernels, Cs, candidates, cv, scoring, rule, drop, n_jobs, progress
        As for `MKLClassifierCV`; folds are plain, and `score` is Harrell's concordance.
    solver, approximation, tol, max_iter, max_time, psd, missing, memory, random_state
        As for `MKLSurvival`.

    Attributes
    ----------
    best_params_, best_candidate_, best_score_, best_index_, cv_results_
        As of `MKLClassifierCV`.
    weights_, certificate(), summary() and all the others
        As of `MKLSurvival`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = np.array([(True, t) for t in rng.exponential(np.exp(-X[:, 0]))], dtype=[("event", "?"), ("time", "<f8")])
    >>> kw.MKLSurvivalCV(Cs=[0.1, 1.0], candidates=["uniform", "l1"], cv=3).fit(X, y).best_score_ > 0.6
    True
    """

    _plain = MKLSurvival

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        Cs: Any = 10,
        candidates: Any = "auto",
        cv: Any = None,
        scoring: Any = None,
        rule: str = "best",
        drop: bool = True,
        solver: Any = "auto",
        approximation: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100_000,
        max_time: float | None = None,
        psd: str = "check",
        missing: str = "refuse",
        memory: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ):
        self.kernels = kernels
        self.Cs = Cs
        self.candidates = candidates
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.drop = drop
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.psd = psd
        self.missing = missing
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MKLSurvivalCV:
        """Choose by cross-validation, and fit what was chosen.

        Parameters
        ----------
        X, y : as for `MKLSurvival`
            The training samples.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample.
        groups : array of shape (n,), optional
            For splitters that keep groups of samples together.

        Returns
        -------
        MKLSurvivalCV
            Itself, fitted.
        """
        return self._fit_chosen(X, y, sample_weight, groups)
