"""Survival: the risk of an event, from times some of which are only known to be longer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, is_foreign, like, to_host
from ..assemble import Targets, read_survival, read_weight, survival_targets
from ..chunks import gathered
from ..losses.survival import concordance
from .base import MKLEstimator, PreparedFit, chunk_by_chunk, requires_y


class MKLSurvival(MKLEstimator):
    """Cox's proportional hazards with a kernel that is learned as a weighted sum of many; ties as Breslow has them.

    A sample's hazard is ``h(t | x) = h_0(t) exp f(x)``, and f minimises the negative partial likelihood plus the
    penalty on its parts. Every fit ends with a certificate: two bounds between which the optimum lies, and their
    relative distance, the duality gap.

    Parameters
    ----------
    kernels : list, dict, Kernel, str or callable, default="auto"
        The bank: kernels, names of kernels, functions of two sets of samples, a list of those, or a dictionary that
        gives each group its kernels. "auto" is seven Gaussian widths around the scale of the data, linear and two
        polynomials, on each view if X has several. "precomputed", or what `kernels.precomputed` returns, takes X as a
        stack of shape (n, n, m), samples first, and of shape (n_new, n, m) when predicting.
    penalty : str or MixingPenalty, default="l1"
        How kernels are mixed: "l1" keeps few, "lp" (p=2) uses all, "elasticnet", "moreau-yosida", "uniform"
        is their plain average. Instances from `kernelweave.penalties` carry parameters, as ``Lp(1.5)``.
    C : float, default=1.0
        Cost of an error: factor of the negative partial likelihood, which is a sum over events.
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
    event_times_ : ndarray of shape (n_times,)
        Times at which events were seen, increasing.
    baseline_hazard_ : ndarray of shape (n_times,)
        Cumulative baseline hazard there, Breslow's estimate.
    dual_coef_ : array of shape (n_support,)
        Coefficients of the samples; of the library and on the device of X.
    support_ : array of shape (n_support,)
        Positions of the samples with a coefficient among the rows given to fit; where `dual_coef_` is.
    intercept_ : ndarray of shape (1,)
        Zero: a constant would change nothing.
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
        Value of the primal problem.
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
    >>> X = rng.standard_normal((80, 3))
    >>> time, lost = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 80)
    >>> y = np.array(list(zip(time <= lost, np.minimum(time, lost))), dtype=[("event", bool), ("time", float)])
    >>> model = kw.MKLSurvival(penalty="lp").fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    >>> model.predict_survival_function(X[:2], times=[0.0, 0.5]).shape
    (2, 2)
    """

    _reads = ("survival",)
    # parameters of other estimators that are not a choice here
    loss, fit_intercept = "cox", "auto"
    n_jobs: Any = None

    def __init__(
        self,
        kernels: Any = "auto",
        *,
        penalty: Any = "l1",
        C: float = 1.0,
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
        self.penalty = penalty
        self.C = C
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MKLSurvival:
        """Learn the kernel weights and the risks together.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n, m)
            The training samples, also as a dictionary of tables or what else `kernelweave.Views` takes; float32
            samples have their kernels stored in float32. With an approximation
            also a torch tensor or an array of another library with the array API.
        y : structured array of two fields, DataFrame or array of shape (n, 2); or array of shape (n,)
            Whether the event of each sample was seen (True or 1), or the sample was lost from sight before it (False
            or 0); and the time of either, from 0 on. In this order, unless columns named "event" and "time", or the
            only boolean one, say otherwise. Times alone mean that every event was seen.
        sample_weight : array of shape (n,), optional
            How often each sample counts, as an event and among those at risk.

        Returns
        -------
        MKLSurvival
            Itself, fitted.
        """
        return self._fit(X, y, sample_weight)

    def _read_targets(self, X: Any, y: Any, sample_weight: Any) -> Targets:
        requires_y(self, y)
        return survival_targets(read_survival(y, X), sample_weight)

    def _keep(self, prepared: PreparedFit, solutions: Any) -> None:
        super()._keep(prepared, solutions)
        (solution,), (subproblem,) = solutions, prepared.subproblems
        risks = prepared.assembly.gram.decision(solution.coef, solution.weights)
        bound = prepared.loss.bind(subproblem.y, prepared.targets.weight)
        loss: Any = prepared.loss
        self.event_times_, self.baseline_hazard_ = loss.baseline(risks, bound.y, bound.C, to_host(subproblem.y)[:, 1])

    @chunk_by_chunk
    def predict(self, X: Any) -> Array:
        """Return the risk of each sample: the log of its hazard over the baseline's, higher for earlier events.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.

        Returns
        -------
        array of shape (n_new,)
            A tensor if X is one.
        """
        return self._decide(X)[:, 0]

    def predict_survival_function(self, X: Any, times: Any = None) -> np.ndarray:
        """Return the probability that the event of each sample comes after each of some times.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            New samples, of the library and on the device of those given to fit.
        times : array of shape (n_times,), optional
            Times from 0 on; `event_times_` by default. After the last event seen, probabilities stay as they were then.

        Returns
        -------
        ndarray of shape (n_new, n_times)
            ``exp(-H_0(t) exp f(x))``, with the cumulative baseline hazard by Breslow; NumPy's.
        """
        risks = to_host(gathered(self.predict(X)))
        times = self.event_times_ if times is None else _read_times(times)
        places = np.searchsorted(self.event_times_, times, side="right")
        hazard = np.concatenate([[0.0], self.baseline_hazard_])[places]
        with np.errstate(over="ignore"):  # a risk beyond all numbers leaves no chance
            rates = np.exp(risks)[:, None] * hazard
        return np.exp(-np.where(hazard > 0, rates, 0.0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return Harrell's concordance: the share of comparable pairs of which the one of higher risk comes first.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d); or a stack of shape (n, n_train, m)
            Samples.
        y : as for `fit`
            Their events and times.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            1 for risks in the order of the events, 0.5 for risks that say nothing.
        """
        risks, sample_weight = gathered(self.predict(X)), gathered(sample_weight)
        table = to_host(read_survival(gathered(y), risks))
        weight = None
        if sample_weight is not None:
            weight = to_host(read_weight(like(risks, sample_weight) if is_foreign(risks) else sample_weight, risks))
        return concordance(to_host(risks), table[:, 0], table[:, 1], weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags


def _read_times(times: Any) -> np.ndarray:
    """Return times to predict for, or say what is wrong with them."""
    times = np.asarray(to_host(times) if is_foreign(times) else times, dtype=float)
    if times.ndim != 1 or not times.size or not np.all(times >= 0):
        raise ValueError("times must be a list of numbers from 0 on, one for each column of the answer.")
    return times
