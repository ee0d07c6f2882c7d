"""Outliers: samples unlike the rest, without any targets."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

from sklearn.base import OutlierMixin

from ..arrays import Array, namespace
from ..assemble import Options, Targets, outlier_targets
from ..kernels import RBF, Effects, as_kernels, default_bank
from ..losses import Loss
from .base import MKLEstimator, PreparedFit, chunk_by_chunk

BOUNDARY = 1e-8  # share of the offset by which it is lowered, so that samples on the boundary are inside for certain


class MKLOutlierDetector(OutlierMixin, MKLEstimator):
    """A one-class support vector machine that learns its kernel as a weighted sum of many.

    The scores ``f(x) = sum_k w_k sum_i beta_i k_k(x_i, x)`` are a weighted mean of similarities to training samples
    (the coefficients sum to one), and a sample whose score is below `offset_` is an outlier. Every fit ends with a
    certificate: two bounds between which the optimum lies, and their relative distance, the duality gap.

    Without labels, kernels are weighed by how well they bring the samples together, apart from a share nu of them: of
    several Gaussian widths, "l1" takes the widest, which sees one cluster only. Of kernels whose ``k(x, x)`` grows with
    x, such as polynomials, far samples look more alike than near ones: use them with ``normalize="diagonal"``.

    Parameters
    ----------
    kernels : list, dict, Kernel, str or callable, default="auto"
        The bank: kernels, names of kernels, functions of two sets of samples, a list of those, or a dictionary that
        gives each group its kernels. "auto" is seven Gaussian widths around the scale of the data, on each view if X
        has several. "precomputed", or what `kernels.precomputed` returns, takes X as a stack of shape (n, n, m),
        samples first, and of shape (n_new, n, m) when predicting.
    nu : float, default=0.5
        About the share of training samples that are outliers, above 0 and up to 1: not more of them have a negative
        decision value, and at least as many are support vectors.
    penalty : str or MixingPenalty, default="lp"
        How kernels are mixed: "lp" (p=2) uses all, "l1" keeps few, "uniform" is their plain average, "elasticnet",
        "moreau-yosida", "spectral". Instances from `kernelweave.penalties` carry parameters, as ``Lp(1.5)``.
    solver : str or Solver, default="auto"
        The algorithm; "auto" chooses by the problem.
    approximation : str or Approximation, optional
        Replace every kernel by features of low rank, so that time and memory grow linearly with the samples:
        "nystroem", "cholesky", "random_features", "shared", or `kernelweave.Nystroem`, `kernelweave.PivotedCholesky`,
        `kernelweave.RandomFeatures`, `kernelweave.SharedBasis` with their rank; "explicit", which loses nothing, for
        kernels of few known functions, such as effects. The certificate is then about the approximated kernels.
    normalize : {"trace", "diagonal", "center", "dimension", "tail", None} or an instance, default="trace"
        Size of the kernels on the training samples, on which the weights depend, as for `MKLClassifier`.
    tol : float, default=1e-3
        Relative duality gap to reach.
    max_iter : int, default=100000
        Most steps of the solver.
    max_time : float, optional
        Seconds that a fit may take: then the best point so far is the model, with its certificate and a warning.
    psd : {"check", "clip", "trust"}, default="check"
        What to do about kernels not known to be positive semidefinite, as for `MKLClassifier`.
    missing : {"refuse", "absent"}, default="refuse"
        What to do about NaN in X: refuse them, or take a sample whose columns of a kernel are all NaN as one that lacks
        this view. In that kernel it is then the mean of the samples that have the view, so that the view says nothing
        about it; new samples may lack any view. Tables of X may lack samples, and those to predict whole tables.
    memory : "auto" or float, default="auto"
        Bytes that the kernels on the training samples, or their features, may take, as for `MKLClassifier`.
    random_state : int or RandomState, optional
        Chooses the samples that the check of definiteness looks at when it cannot look at all, and what is
        random in an approximation.
    progress : bool, default=False
        Show a bar with the current gap.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        Weight of each kernel, after normalisation; exact zeros where the penalty is sparse.
    offset_ : float
        Score below which a sample is an outlier: ``decision_function(X) = score_samples(X) - offset_``.
    intercept_ : ndarray of shape (1,)
        Constant of the decision function, ``-offset_``.
    dual_coef_ : array of shape (n_support,)
        Coefficients of the support vectors, which sum to one; of the library and on the device of X.
        `sklearn.svm.OneClassSVM` has coefficients, scores and an offset ``nu * n`` times as large, and the same
        outliers.
    support_ : array of shape (n_support,)
        Positions of the support vectors among the rows given to fit; where `dual_coef_` is.
    kernel_names_ : list of str
        Name of each kernel.
    kernel_groups_ : list of str or None
        What each kernel belongs to, such as the view it looks at; None for a kernel in no group.
    kernel_scales_ : ndarray of shape (m,)
        Factor by which normalisation multiplies each kernel; 0 for kernels left out because they are zero.
    approximation_error_ : ndarray of shape (m,) or None
        Share of each kernel's trace on the training samples that the approximation lost. None without approximation.
    dual_gap_ : float
        Certified relative duality gap.
    objective_ : float
        Value of the primal problem, which is negative.
    n_iter_ : int
        Steps of the solver.
    history_ : History
        Bounds along the fit.
    status_, solver_, storage_ : str
        How the fit ended, name of the solver used, and how the kernels were stored.
    fit_time_ : float
        Seconds.
    n_features_in_ : int
        Columns of X; training samples for a precomputed stack.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2))
    >>> detector = kw.MKLOutlierDetector(nu=0.1).fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """

    _reads = ("outliers",)
    # parameters of other estimators that are not a choice here: costs come from nu
    loss, C, fit_intercept, n_jobs = "one_class", 1.0, "auto", None

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        nu: float = 0.5,
        penalty: Any = "lp",
        solver: Any = "auto",
        approximation: Any = None,
        normalize: str | None = "trace",
        tol: float = 1e-3,
        max_iter: int = 100_000,
        max_time: float | None = None,
        psd: str = "check",
        missing: str = "refuse",
        memory: Any = "auto",
        random_state: Any = None,
        progress: bool = False,
    ):
        self.kernels = kernels
        self.nu = nu
        self.penalty = penalty
        self.solver = solver
        self.approximation = approximation
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.psd = psd
        self.missing = missing
        self.memory = memory
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MKLOutlierDetector:
        """Learn the kernel weights and where the samples are together.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n, m)
            The training samples, also as a dictionary of tables or what else `kernelweave.Views` takes; float32
            samples have their kernels stored in float32. With an approximation
            also a torch tensor or an array of another library with the array API.
        y : ignored
            There are no targets.
        sample_weight : array of shape (n,), optional
            How much each sample counts; nu is a share of all weight.

        Returns
        -------
        MKLOutlierDetector
            Itself, fitted.
        """
        return self._fit(X, y, sample_weight)

    @property
    def _bank(self) -> Any:
        if isinstance(self.kernels, str) and self.kernels == "auto":
            on = None if getattr(self, "_views", None) is None else "views"
            return [kernel.on_columns(on) for kernel in default_bank() if isinstance(kernel, RBF)]
        return self.kernels

    def _check_parameters(self) -> tuple[Options, Loss, Any]:
        nu: Any = self.nu
        if isinstance(nu, bool) or not isinstance(nu, Real) or not 0 < float(nu) <= 1:
            raise ValueError(f"nu must be a number above 0 and up to 1, got {nu!r}: it is the share of outliers.")
        if not self._precomputed and any(isinstance(kernel, Effects) for kernel in as_kernels(self._bank)):
            raise ValueError(
                "kernels of effects have their mean at zero, from which outliers could not be told: use kernels such "
                "as K.rbf(on='each')."
            )
        return super()._check_parameters()

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        return outlier_targets(X, float(self.nu), sample_weight)

    def _choose(self, loss: Loss, targets: Targets) -> tuple[Loss, float | None]:
        return loss, 1.0

    def _keep(self, prepared: PreparedFit, solutions: Any) -> None:
        (found,) = solutions
        super()._keep(prepared, [replace(found, intercept=found.intercept + BOUNDARY * abs(found.intercept))])
        self.offset_ = -float(self.intercept_[0])

    @chunk_by_chunk
    def decision_function(self, X: Any) -> Array:
        """Return how far inside each sample is: negative for outliers.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,)
            ``score_samples(X) - offset_``. A tensor if X is one.
        """
        return self._decide(X)[:, 0]

    @chunk_by_chunk
    def score_samples(self, X: Any) -> Array:
        """Return the weighted mean similarity of each sample to training samples: less for stranger ones.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,)
            A tensor if X is one.
        """
        return self.decision_function(X) + self.offset_

    @chunk_by_chunk
    def predict(self, X: Any) -> Array:
        """Return +1 for samples like the training samples and -1 for outliers.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of int of shape (n_new,)
            A tensor if X is one.
        """
        inside = self.decision_function(X) >= 0
        xp = namespace(inside)
        return 2 * xp.astype(inside, xp.int64) - 1

    @property
    def _manner(self) -> str:
        return f"penalty {self.penalty}, nu={self.nu:g}"
