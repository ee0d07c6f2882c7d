"""Classification."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if

from ..arrays import Array, is_foreign, like, namespace, to_host
from ..assemble import Labels, check_together, class_targets, read_labels, read_weight
from ..chunks import gathered
from ..losses import Loss, make_loss
from .base import PreparedFit, chunk_by_chunk, requires_y
from .calibrate import as_columns, calibrated
from .stream import Streaming


def _gives_odds(clf: MKLClassifier) -> bool:
    """Whether there are probabilities; if not, say how to get them."""
    loss = getattr(clf, "best_params_", {}).get("loss", clf.loss)  # that of a candidate chosen
    if _is_probabilistic(loss):
        if clf.multiclass == "ovo":
            raise AttributeError("predict_proba needs multiclass='ovr': votes of one against one have no odds.")
        return True
    if clf.probability:
        return True
    raise AttributeError(f"predict_proba needs loss='logistic' or probability=True, not {loss!r} alone.")


def _is_probabilistic(loss: Any) -> bool:
    """Whether a loss has probabilities of its own; one that makes no sense is refused later, by fit."""
    try:
        return make_loss(loss).probabilistic
    except (TypeError, ValueError):
        return False


class MKLClassifier(ClassifierMixin, Streaming):
    """Support vector classification that learns its kernel as a weighted sum of many.

    Every fit ends with a certificate: two bounds between which the optimum lies, and their relative distance,
    the duality gap.

    Parameters
    ----------
    kernels : list, dict, Kernel, str or callable, default="auto"
        The bank: kernels, names of kernels, functions of two sets of samples, a list of those, or a dictionary that
        gives each group its kernels. "auto" is seven Gaussian widths around the scale of the data, linear and two
        polynomials, on each view if X has several. "precomputed", or what `kernels.precomputed` returns, takes X as a
        stack of shape (n, n, m), samples first, and of shape (n_new, n, m) when predicting.
    penalty : str, MixingPenalty or Weighting, default="l1"
        How kernels are mixed: "l1" keeps few, "lp" (p=2) uses all, "elasticnet", "moreau-yosida", "uniform"
        is their plain average. "spectral" learns products of two kernels: its kernel is the square of a weighted
        sum. Instances from `kernelweave.penalties` carry parameters, as ``Lp(1.5)``. In its place, weights can be
        learned before the SVM: "alignment", "centred-alignment", "easymkl", or an instance from
        `kernelweave.weightings`.
    loss : str or Loss, default="hinge"
        What an error costs: "hinge", "squared_hinge", "squared" (least squares on labels -1 and +1) or "logistic",
        which gives probabilities.
    C : float, default=1.0
        Cost of an error.
    solver : str or Solver, default="auto"
        The algorithm; "auto" chooses by the problem.
    approximation : str or Approximation, optional
        Replace every kernel by features of low rank, so that time and memory grow linearly with the samples:
        "nystroem", "cholesky", "random_features", "shared", or `kernelweave.Nystroem`, `kernelweave.PivotedCholesky`,
        `kernelweave.RandomFeatures`, `kernelweave.SharedBasis` with their rank; "explicit", which loses nothing, for
        kernels of few known functions, such as effects. The certificate is then about the approximated kernels;
        `approximation_error_` says how much of each kernel was lost. Not for kernels="precomputed"; with products of
        kernels, penalty="spectral", for samples of NumPy and small ranks.
    normalize : {"trace", "diagonal", "center", "dimension", "tail", None} or an instance, default="trace"
        Size of the kernels on the training samples, on which the weights depend. "trace": mean diagonal 1.
        "diagonal": every k(x, x) is 1. "center": variance 1 in feature space, that is mean diagonal minus
        mean entry; centring itself would change nothing more, since the intercept is free and the
        coefficients sum to zero. "dimension", "tail": also divided by what a kernel can fit, see `EffectiveDimension`
        and `TailSum`. None: as they are.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=100000
        Most steps of the solver.
    max_time : float, optional
        Seconds that a fit may take: then the best point so far is the model, with its certificate and a warning.
    multiclass : {"ovr", "ovo", "joint"}, default="ovr"
        How more than two classes are told apart: by binary problems, one against the rest or one against one, each
        with its own kernel weights; or by one problem of all classes with one set of weights: the joint margin of
        Crammer and Singer for loss="hinge", multinomial logistic regression for loss="logistic".
    fit_intercept : "auto" or bool, default="auto"
        Whether decision values have a constant of their own. "auto": yes, wherever the loss takes one; the joint margin
        has none (add ``kernels.Constant()`` to the bank if one is wanted). Some solvers learn none and ask for False.
    probability : bool, default=False
        Whether to calibrate probabilities on decision values from five-fold cross-validation, which takes five more
        fits; loss="logistic" has probabilities of its own.
    class_weight : dict or "balanced", optional
        Factor of C for each class.
    psd : {"check", "clip", "trust"}, default="check"
        What to do about kernels not known to be positive semidefinite: "check" refuses those that are seen to
        be indefinite, "clip" drops the negative part of their spectrum, "trust" does not look. With an
        approximation there is no matrix to look at, so "check" refuses all kernels not known to be so.
    missing : {"refuse", "absent"}, default="refuse"
        What to do about NaN in X: refuse them, or take a sample whose columns of a kernel are all NaN as one that lacks
        this view. In that kernel it is then the mean of the samples that have the view, so that the view says nothing
        about it; new samples may lack any view. Tables of X may lack samples, and those to predict whole tables.
    memory : "auto" or float, default="auto"
        Bytes that the kernels on the training samples, or their features, may take; "auto" is most of what is
        available where the samples are. Kernels of samples that take more are not stored: columns are computed
        when the solver asks for them, and the latest are kept in this memory (half of what is available).
    random_state : int or RandomState, optional
        Chooses the samples that the check of definiteness looks at when it cannot look at all, and what is
        random in an approximation.
    n_jobs : int, optional
        Threads for the binary problems of several classes.
    progress : bool, default=False
        Show a bar with the current gap.

    Attributes
    ----------
    weights_ : ndarray of shape (m,) or (n_problems, m)
        Weight of each kernel, after normalisation; exact zeros where the penalty is sparse.
    pair_weights_ : ndarray of shape (m, m) or (n_problems, m, m)
        Weight of the product of each two kernels, ``weights_`` times itself; penalty="spectral" only. With its linear
        terms the last kernel is "unity", 1 everywhere, and the sum of its row and column is that of the kernels alone.
    kernel_names_ : list of str
        Name of each kernel.
    kernel_groups_ : list of str or None
        What each kernel belongs to, such as the view it looks at; None for a kernel in no group.
    kernel_scales_ : ndarray of shape (m,)
        Factor by which normalisation multiplies each kernel; 0 for kernels left out because they are zero.
    approximation_error_ : ndarray of shape (m,) or None
        Share of each kernel's trace on the training samples that the approximation lost; for random features,
        which lose no trace, the relative error of the kernel in the Frobenius norm. None without approximation.
    dual_coef_ : array of shape (n_support,) or (n_outputs, n_support)
        Signed coefficients of the support vectors, for a joint problem a row for each class; of the library and on the
        device of X.
    support_ : array of shape (n_support,)
        Positions of the support vectors among the rows given to fit; where `dual_coef_` is.
    intercept_ : ndarray of shape (n_outputs,)
        Constant of each decision function: one for each problem, for a joint problem one for each class, which is zero
        for a joint margin.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    problem_names_ : list of str
        The binary problems, after the classes they tell apart.
    dual_gap_ : float
        Certified relative duality gap, the largest of all problems.
    objective_ : float or ndarray of shape (n_problems,)
        Value of the primal problem.
    n_iter_ : int or ndarray of shape (n_problems,)
        Steps of the solver.
    history_ : History or list of History
        Bounds along the fit.
    status_ : str or list of str
        How the fit ended.
    solver_ : str
        Name of the solver used.
    storage_ : str
        How the kernels were stored.
    fit_time_ : float
        Seconds.
    n_features_in_ : int
        Columns of X; training samples for a precomputed stack.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from kernelweave import kernels as K
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier(K.rbf(gamma=[0.01, 0.1, 1.0]) + K.linear(on="each")).fit(X[50:], y[50:])
    >>> clf.weights_.shape, clf.dual_gap_ <= 1e-3
    ((7,), True)
    >>> clf.score(X[50:], y[50:]) > 0.9
    True
    """

    _reads = ("binary", "multiclass")

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        penalty: Any = "l1",
        loss: Any = "hinge",
        C: float = 1.0,
        solver: Any = "auto",
        approximation: Any = None,
        normalize: str | None = "trace",
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
        self.penalty = penalty
        self.loss = loss
        self.C = C
        self.solver = solver
        self.approximation = approximation
        self.normalize = normalize
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLClassifier:
        """Learn the kernel weights and the classifier together.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n, m)
            The training samples, also as a dictionary of tables or what else `kernelweave.Views` takes; float32
            samples have their kernels stored in float32. With an approximation
            also a torch tensor or an array of another library with the array API: all work with an entry per
            sample is then done by that library, on the array's device; or a Dask array or DataFrame, whose chunks of
            rows are worked on where they are.
        y : array of shape (n,)
            Labels; for tensors X, a tensor on the same device or anything that NumPy reads; also a Dask array.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample.

        Returns
        -------
        MKLClassifier
            Itself, fitted.
        """
        return self._fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check samples and labels."""
        requires_y(self, y)
        X = self._read_samples(X)
        return X, read_labels(y, X)

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Labels:
        requires_y(self, y)
        y = read_labels(y, X)
        return class_targets(y, sample_weight, self.class_weight, self.multiclass, X if is_foreign(X) else None)

    def _choose(self, loss: Loss, targets: Any) -> tuple[Loss, float | None]:
        loss, intercept = self._question(loss, targets.classes.size)
        return loss, 0.0 if intercept else None

    def _question(self, loss: Loss, n_classes: int) -> tuple[Loss, bool]:
        """Return the loss of each problem, and whether it has an intercept."""
        if n_classes > 2 and self.multiclass == "joint":
            loss = self._joint(loss)
        elif "binary" not in loss.tasks:
            if n_classes > 2:
                raise ValueError(f"loss={self.loss!r} takes all classes at once: use multiclass='joint'.")
            loss = loss.binary()
        return loss, self._has_intercept(loss)

    def _joint(self, loss: Loss) -> Loss:
        """Return the loss of all classes at once."""
        whole = loss if "multiclass" in loss.tasks else loss.joint()
        if whole is None:
            raise ValueError(
                f"multiclass='joint' is for loss='hinge' and 'logistic', not {self.loss!r}: use multiclass='ovr'."
            )
        if self.fit_intercept is True and not whole.takes_bias:
            raise ValueError(
                f"fit_intercept=True is not for multiclass='joint' with loss={self.loss!r}: use 'auto', and a constant "
                "kernel."
            )
        return whole

    def _check_parameters(self) -> Any:
        if not isinstance(self.probability, bool | np.bool_):
            raise ValueError(f"probability must be True or False, got {self.probability!r}.")
        return super()._check_parameters()

    @property
    def _learns_more(self) -> bool:
        return bool(self.probability)

    def _learn_more(self, prepared: PreparedFit, X: Any, y: Any, sample_weight: Any) -> None:
        """Calibrate probabilities, if asked for."""
        self._calibrated = None
        if self.probability and not prepared.loss.probabilistic:
            self._calibrated = calibrated(self, X, y, sample_weight)

    def _keep(self, prepared: PreparedFit, solutions: Any) -> None:
        targets: Any = prepared.targets
        self._stream, self.classes_ = None, targets.classes
        self._odds = prepared.loss if prepared.loss.probabilistic else None
        self._pairwise_votes = prepared.subproblems[0].rows is not None
        super()._keep(prepared, solutions)

    @chunk_by_chunk
    def decision_function(self, X: Any) -> Array:
        """Return how clearly each sample belongs to each class.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,) or (n_new, n_classes)
            For two classes, positive values mean the second one. A tensor if X is one.
        """
        scores = self._decide(X)
        if self.classes_.size == 2:
            return scores[:, 0]
        return _votes(scores, self.classes_.size) if self._pairwise_votes else scores

    @chunk_by_chunk
    def predict(self, X: Any) -> Array:
        """Return the label of each sample.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,)
            A tensor if X is one and the labels are numbers.
        """
        scores = self.decision_function(X)
        xp = namespace(scores)
        codes = xp.astype(scores > 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
        if is_foreign(scores) and self.classes_.dtype.kind in "biuf":
            return xp.take(like(scores, self.classes_, self.classes_.dtype.name), codes)
        return self.classes_[to_host(codes)]

    @available_if(_gives_odds)
    @chunk_by_chunk
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, for ``loss="logistic"`` or ``probability=True``.

        With more than two classes, each against the rest, the probabilities of a sample are scaled to sum to one; with
        ``multiclass="joint"`` they are those of one model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new, n_classes)
            In the order of ``classes_``. A tensor if X is one.
        """
        odds = self.decision_function(X)
        if self._calibrated is not None:
            return self._calibrated.predict_proba(as_columns(odds))
        if self._odds is None:
            raise NotFittedError("predict_proba needs a fit with probability=True or loss='logistic': fit again.")
        return self._odds.probabilities(odds)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of samples whose label is predicted.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n_train, m)
            Samples.
        y : array of shape (n,)
            Their labels.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
        """
        predicted, y, sample_weight = gathered(self.predict(X)), gathered(y), gathered(sample_weight)
        if sample_weight is None and _plainly_alike(y, predicted):
            return float(np.mean(predicted == y))  # a hundredth of the time that checks of other labels take
        if not is_foreign(predicted):
            sample_weight = to_host(sample_weight) if is_foreign(sample_weight) else sample_weight
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        y = read_labels(y, predicted)
        check_together("sample_weight", sample_weight, predicted)
        hits = like(predicted, predicted) == like(predicted, y)
        weight = read_weight(sample_weight, predicted)
        xp = namespace(hits)
        return float(xp.sum(xp.where(hits, weight, 0.0 * weight)) / xp.sum(weight))


def _plainly_alike(*labels: Any) -> bool:
    """Whether all labels are whole numbers, or all strings, in NumPy's arrays of one shape."""
    if not all(isinstance(y, np.ndarray) and y.ndim == 1 and y.size > 0 for y in labels):
        return False
    kinds = {y.dtype.kind for y in labels}
    return len({y.shape for y in labels}) == 1 and (kinds <= set("biu") or kinds == {"U"})


def _votes(
    scores: Array,  # (n, n_problems) of one class against another
    n_classes: int,
) -> Array:  # (n, n_classes)
    """Return the votes for each class, and within a tie, by less than a vote, how clear they were."""
    xp, pairs = namespace(scores), list(combinations(range(n_classes), 2))
    against, favour = (like(scores, np.eye(n_classes)[[pair[side] for pair in pairs]]) for side in (0, 1))
    won = xp.astype(scores > 0, scores.dtype)
    clear = scores @ (favour - against)
    return won @ favour + (1.0 - won) @ against + clear / (3.0 * (xp.abs(clear) + 1.0))
