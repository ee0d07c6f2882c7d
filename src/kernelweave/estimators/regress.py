"""Regression: one number for each sample, or several."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..arrays import Array, is_foreign, namespace, to_host
from ..assemble import Numbers, check_together, number_targets, read_numbers, read_weight, target_names
from ..assemble.parameters import check_choice
from ..chunks import gathered
from .base import MKLEstimator, PreparedFit, chunk_by_chunk, requires_y

TARGETS = ("joint", "each")


class MKLRegressor(RegressorMixin, MKLEstimator):
    """Regression that learns its kernel as a weighted sum of many: least squares, SVR, Huber's loss, quantiles.

    Every fit ends with a certificate: two bounds between which the optimum lies, and their relative distance,
    the duality gap. Targets are taken as they are: scale them yourself if their size should not matter.

    Parameters
    ----------
    kernels : list, dict, Kernel, str or callable, default="auto"
        The bank: kernels, names of kernels, functions of two sets of samples, a list of those, or a dictionary that
        gives each group its kernels. "auto" is seven Gaussian widths around the scale of the data, linear and two
        polynomials, on each view if X has several. "precomputed", or what `kernels.precomputed` returns, takes X as a
        stack of shape (n, n, m), samples first, and of shape (n_new, n, m) when predicting.
    penalty : str, MixingPenalty or Weighting, default="l1"
        How kernels are mixed: "l1" keeps few, "lp" (p=2) uses all, "elasticnet", "moreau-yosida", "uniform"
        is their plain average. "spectral" learns products of two kernels. Instances from `kernelweave.penalties` carry
        parameters, as ``Lp(1.5)``. In its place, weights can be learned beforehand: "alignment", "centred-alignment".
    loss : str or Loss, default="squared"
        What an error ``r = y - f(x)`` costs: "squared" (``r^2 / 2``), "epsilon_insensitive" (support vector regression,
        ``(|r| - epsilon)_+``), "squared_epsilon_insensitive", "huber" (squared up to delta, absolute beyond it),
        "quantile" (the median, or another quantile). Instances from `kernelweave.losses` carry parameters, as
        ``EpsilonInsensitive(epsilon=0.01)``, ``Huber(delta=2.0)``, ``Quantile(level=0.9)``; epsilon and delta are in
        the units of y.
    C : float, default=1.0
        Cost of an error: ``C`` times the loss is added up over the samples. If y is multiplied by s, the same model
        needs s times the C for "epsilon_insensitive" and "quantile", whose loss is an absolute error, and the same C
        for the others (whose errors and penalty both grow by s squared).
    targets : {"joint", "each"}, default="joint"
        For y of shape (n, t): one problem with one set of kernel weights for all targets, or a problem with weights of
        its own for each.
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
    fit_intercept : "auto" or bool, default="auto"
        Whether predictions have a constant of their own, which costs nothing. "auto": yes.
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
    n_jobs : int, optional
        Threads for the problems of several targets.
    progress : bool, default=False
        Show a bar with the current gap.

    Attributes
    ----------
    weights_ : ndarray of shape (m,) or (n_problems, m)
        Weight of each kernel, after normalisation; exact zeros where the penalty is sparse.
    kernel_names_ : list of str
        Name of each kernel.
    kernel_groups_ : list of str or None
        What each kernel belongs to, such as the view it looks at; None for a kernel in no group.
    kernel_scales_ : ndarray of shape (m,)
        Factor by which normalisation multiplies each kernel; 0 for kernels left out because they are zero.
    approximation_error_ : ndarray of shape (m,) or None
        Share of each kernel's trace on the training samples that the approximation lost. None without approximation.
    dual_coef_ : array of shape (n_support,) or (n_targets, n_support)
        Coefficients of the support vectors, a row for each target; of the library and on the device of X.
    support_ : array of shape (n_support,)
        Positions of the support vectors among the rows given to fit; where `dual_coef_` is.
    intercept_ : ndarray of shape (n_targets,)
        Constant of the predictions of each target.
    problem_names_ : list of str
        The problems, after the targets they predict.
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
    solver_, storage_ : str
        Name of the solver used, and how the kernels were stored.
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
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = kw.MKLRegressor(K.rbf(gamma=[1.0, 10.0]) + K.linear(on="each"), C=10.0).fit(X[:300], y[:300])
    >>> reg.weights_.shape, reg.dual_gap_ <= 1e-3
    ((12,), True)
    >>> reg.score(X[300:], y[300:]) > 0.4
    True
    >>> high = kw.MKLRegressor(loss=kw.losses.Quantile(0.9), penalty="lp", C=10.0).fit(X[:300], y[:300])
    >>> bool((y[300:] <= high.predict(X[300:])).mean() > 0.8)
    True
    """

    _reads = ("regression",)

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        penalty: Any = "l1",
        loss: Any = "squared",
        C: float = 1.0,
        targets: str = "joint",
        solver: Any = "auto",
        approximation: Any = None,
        normalize: str | None = "trace",
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
        self.penalty = penalty
        self.loss = loss
        self.C = C
        self.targets = targets
        self.solver = solver
        self.approximation = approximation
        self.normalize = normalize
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLRegressor:
        """Learn the kernel weights and the predictions together.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n, m)
            The training samples, also as a dictionary of tables or what else `kernelweave.Views` takes; float32
            samples have their kernels stored in float32. With an approximation
            also a torch tensor or an array of another library with the array API.
        y : array, Series or DataFrame of shape (n,) or (n, t)
            Targets; for tensors X, a tensor on the same device or anything that NumPy reads.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample.

        Returns
        -------
        MKLRegressor
            Itself, fitted.
        """
        return self._fit(X, y, sample_weight)

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Numbers:
        requires_y(self, y)
        check_choice("targets", self.targets, TARGETS)
        return number_targets(read_numbers(y, X), sample_weight, self.targets == "joint", target_names(y))

    def _keep(self, prepared: PreparedFit, solutions: Any) -> None:
        targets: Any = prepared.targets
        self._flat = targets.flat
        super()._keep(prepared, solutions)

    @chunk_by_chunk
    def predict(self, X: Any) -> Array:
        """Return the prediction for each sample.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,) or (n_new, t)
            As y was in fit. A tensor if X is one.
        """
        values = self._decide(X)
        return values[:, 0] if self._flat else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2, the mean over several targets.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n_train, m)
            Samples.
        y : array of shape (n,) or (n, t)
            Their targets.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            1 for predictions without error, 0 for those of the mean.
        """
        predicted, y, sample_weight = gathered(self.predict(X)), gathered(y), gathered(sample_weight)
        if not is_foreign(predicted):
            sample_weight = to_host(sample_weight) if is_foreign(sample_weight) else sample_weight
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        y = read_numbers(y, predicted)
        check_together("sample_weight", sample_weight, predicted)
        return _determination(y, predicted, read_weight(sample_weight, predicted))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _determination(y: Array, predicted: Array, weight: Array) -> float:
    """Return R2 of arrays of any library, the mean over columns; 0 or 1 where targets do not vary, as scikit-learn."""
    xp = namespace(predicted)
    if y.ndim == 1:
        y, predicted = y[:, None], predicted[:, None]
    weight = weight[:, None] / xp.sum(weight)
    error = xp.sum(weight * (y - predicted) ** 2, axis=0)
    spread = xp.sum(weight * (y - xp.sum(weight * y, axis=0)) ** 2, axis=0)
    flat = xp.where(error > 0, 0.0 * error, 1.0 + 0.0 * error)
    return float(xp.mean(xp.where(spread > 0, 1.0 - error / xp.where(spread > 0, spread, 1.0 + 0.0 * spread), flat)))
