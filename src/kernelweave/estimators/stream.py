"""Learning from a stream: chunks of samples pass by, and only functions of the features are kept."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from ..arrays import is_foreign, kind_of
from ..assemble import FactorAssembly, FactorExpansion, Targets, check_number, read_weight
from ..grams import RandomFeatures
from ..losses import CrammerSinger, Logistic, Loss
from ..penalties import MixingPenalty
from ..solvers import Mirror
from .base import MKLEstimator, check_columns

PASSES = 10  # over a chunk, where the solver does not say
MEMORY = 5.0  # one more than the power of a chunk's number with which the function after it counts
SETTINGS = ("kernels", "penalty", "loss", "multiclass", "approximation", "solver")
STATUS = "Learned from a stream, which keeps no samples: there is no duality gap."


@dataclass
class Stream:
    """What is left of the samples seen: for each question, sums of their features and the energies of these sums."""

    assembly: FactorAssembly  # of the first chunk, without its features
    classes: np.ndarray
    loss: Loss
    penalty: MixingPenalty
    theta: list[np.ndarray]  # (c, D) for each question
    norms: list[np.ndarray]  # (m,) for each question
    order: np.random.Generator
    passes: int  # over each chunk
    settings: str  # parameters with which it began
    seen: int = 0  # samples
    done: int = 0  # visits of samples
    total: float = 0.0
    chunks: int = 0
    mean: Any = 0.0  # (D, n_outputs) of the functions after each chunk, later ones counting more

    @classmethod
    def begin(
        cls,
        assembly: FactorAssembly,
        classes: np.ndarray,
        loss: Loss,
        penalty: MixingPenalty,
        solver: Mirror,
        settings: str,
    ) -> Stream:
        """Return a stream before its first sample."""
        D, m = assembly.gram.features.shape[1], assembly.gram.shape[1]
        joint = isinstance(loss, CrammerSinger)
        questions = 1 if joint or classes.size == 2 else classes.size
        width = classes.size if joint else 1
        assembly = replace(assembly, gram=assembly.gram.take(np.arange(0)))
        order = np.random.default_rng(int(solver.random_state))
        return cls(assembly, classes, loss, penalty, [np.zeros((width, D)) for _ in range(questions)],
                   [np.zeros(m) for _ in range(questions)], order, solver.epochs or PASSES, settings)  # fmt: skip

    def take(self, X: Any, codes: np.ndarray, cost: np.ndarray, total: float | None) -> None:
        """Go through a chunk of samples some times, in a random order each time."""
        V = np.ascontiguousarray(self.assembly.maps.transform(X))
        self.seen += codes.size
        self.total = float(self.seen if total is None else total)
        for _ in range(self.passes):
            self._pass(V, codes, cost)
        share = MEMORY / (self.chunks + MEMORY)
        self.mean = (1.0 - share) * self.mean + share * np.concatenate([z for _, z in self._functions()], axis=1)
        self.chunks += 1

    def _pass(self, V: np.ndarray, codes: np.ndarray, cost: np.ndarray) -> None:
        """Visit every sample of a chunk once, for each question."""
        from ..compiled import mirror as engine

        order = self.order.permutation(codes.size)
        ends, beta = np.cumsum(self.assembly.gram.ranks), np.zeros((codes.size, self.theta[0].shape[0]))
        rule, params = self.penalty.compiled(ends.size)
        for question, (theta, norms) in enumerate(zip(self.theta, self.norms, strict=True)):
            engine.epoch_on_features(rule, params, self.loss.rule(), V, ends, self._targets(codes, question), cost,
                                     order, theta, norms, beta, self.done, self.total)  # fmt: skip
            norms[:] = self.assembly.gram.energies(theta.T)  # so that rounding does not add up
        self.done += codes.size

    def _targets(self, codes: np.ndarray, question: int) -> np.ndarray:
        if isinstance(self.loss, CrammerSinger):
            return codes.astype(float)
        return np.where(codes == (1 if len(self.theta) == 1 else question), 1.0, -1.0)

    def _functions(self) -> list[tuple[np.ndarray, np.ndarray]]:  # (m,) and (D, c) for each question
        """Return the weights of the kernels and the function that the samples seen lead to."""
        gram, ratio, found = self.assembly.gram, self.total / self.done, []
        for theta, norms in zip(self.theta, self.norms, strict=True):
            weights = self.penalty.weights(ratio**2 * norms)
            found.append((weights, ratio * gram.weigh(weights, theta.T)))
        return found

    def read(self) -> tuple[np.ndarray, FactorExpansion]:
        """Return the weights of all kernels for each question, and what predicts: the mean, in kernels with weight."""
        gram, m = self.assembly.gram, len(self.assembly.names)
        latest = np.array([weights for weights, _ in self._functions()])
        weights = np.zeros((len(latest), m))
        weights[:, self.assembly.kept] = latest
        alive = np.repeat(latest > 0, [theta.shape[0] for theta in self.theta], axis=0)  # (n_outputs, kept)
        z = self.mean * np.repeat(alive, gram.ranks, axis=1).T
        linear = self.assembly.maps.predictor(z)
        return weights, FactorExpansion(linear, np.zeros(z.shape[1]), self.assembly.like, (self.seen, m))


def class_factors(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return the factor of each class, which a stream must know beforehand."""
    if class_weight is None:
        return np.ones(classes.size)
    if not isinstance(class_weight, dict):
        raise ValueError("class_weight must be a dict or None for a stream: all labels are never seen together.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors


def _streams(clf: Any) -> bool:
    """Whether samples can be learned from as they pass by; if not, say what is needed."""
    if (clf.solver == "mirror" or isinstance(clf.solver, Mirror)) and clf.approximation is not None:
        return True
    raise AttributeError("partial_fit needs solver='mirror' and an approximation, such as kw.recipe('ufo-mkl').")


class Streaming(MKLEstimator):
    """The part of a classifier that learns from chunks of samples as they pass by."""

    multiclass: Any
    class_weight: Any
    probability: Any
    _stream: Stream | None
    _calibrated: Any

    def _question(self, loss: Loss, n_classes: int) -> tuple[Loss, bool]:
        """Return the loss of each question, and whether it has a constant of its own."""
        raise NotImplementedError

    @available_if(_streams)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, total: float | None = None
    ) -> Any:
        """Learn from the next chunk of a stream; for ``solver="mirror"`` with an approximation.

        The chunk is gone through as often as the solver's ``epochs`` says, 10 times where it says nothing. The features
        are laid down by the first chunk: its landmarks, and the size of its kernels. It should hold as many rows as the
        rank asked for, or the features be random. No sample is kept, so there is no certificate.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, d)
            The chunk.
        y : array of shape (n,)
            Its labels.
        classes : array of shape (n_classes,), optional
            All labels of the stream; needed for the first chunk, unless that holds them all.
        sample_weight : array of shape (n,), optional
            Factor of C for each sample.
        total : float, optional
            Samples that the stream will hold, with which C means what it means in `fit`; chunks may then also pass
            again. By default every sample counts as new, and the stream as ending here.

        Returns
        -------
        MKLClassifier
            Itself.

        Examples
        --------
        >>> import kernelweave as kw
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = kw.recipe("ufo-mkl", approximation=kw.Nystroem(rank=15), C=10)
        >>> for start in range(10):
        ...     clf = clf.partial_fit(X[start::10], y[start::10], classes=[0, 1, 2], total=150)
        >>> clf.score(X, y) > 0.9
        True
        """
        begun = time.perf_counter()
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if total is not None:
            check_number("total", total)
        stream = getattr(self, "_stream", None)
        spent = 0.0 if stream is None else self.fit_time_
        if stream is None:
            stream = self._begin_stream(X, y, classes, sample_weight)
        if stream.settings != self._settings():
            raise ValueError("Parameters changed since the first chunk of the stream: begin again with a clone.")
        X, codes, cost = self._read_chunk(X, y, sample_weight, stream, classes)
        if codes.size:
            stream.take(X, codes, cost, total)
            self._keep_stream(stream, spent + time.perf_counter() - begun)
        return self

    def _settings(self) -> str:
        """Return the parameters that a stream cannot change on its way."""
        return repr([getattr(self, name) for name in SETTINGS])

    def _begin_stream(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Stream:
        """Read the parameters and lay down the features by the first chunk."""
        options, loss, penalty = self._check_parameters()
        solver = self.solver if isinstance(self.solver, Mirror) else Mirror()
        labels = column_or_1d(y if classes is None else classes)
        if labels.dtype.kind == "f" and np.any(labels != np.round(labels)):
            raise ValueError("Unknown label type: continuous. y holds fractions, a classifier needs classes.")
        known = np.unique(labels)
        if known.size < 2:
            raise ValueError(
                "classes must name two labels or more: give all labels of the stream with the first chunk."
            )
        loss, bias = self._question(loss, known.size)
        if bias or self.multiclass == "ovo":
            raise ValueError("partial_fit learns no intercept, and not one class against one: use the defaults.")
        if self.probability and not isinstance(loss, Logistic):
            raise ValueError("probability=True needs samples held out, which a stream has not: use loss='logistic'.")
        if loss.rule() is None or not isinstance(penalty, MixingPenalty) or not penalty.smooth:
            raise ValueError("partial_fit takes losses of this library and smooth penalties, such as penalties.Mixed.")
        frame = X
        X, y = self._read(X, y)
        if is_foreign(X):
            raise TypeError(f"X is a {kind_of(X)}, and partial_fit runs on NumPy: convert X yourself.")
        rows = np.flatnonzero(read_weight(sample_weight, np.empty(X.shape[0])))
        every = np.ones(rows.size)
        targets = Targets(known, np.zeros(rows.size, dtype=int), every, rows, every, X.shape[0])
        _warn_if_few(rows.size, options.approximation)
        assembly: Any = self._assemble(X, frame, options, targets, whole=True)
        return Stream.begin(assembly, known, loss, assembly.cut(penalty), solver, self._settings())

    def _read_chunk(
        self, X: Any, y: Any, sample_weight: Any, stream: Stream, classes: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return samples, the positions of their labels among the classes, and their costs."""
        check_columns(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=stream.assembly.like.dtype, reset=False)
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), stream.classes):
            raise ValueError(
                "classes differ from those of the first chunk: a stream has all its labels from the start."
            )
        unknown = np.setdiff1d(y, stream.classes)
        if unknown.size:
            raise ValueError(f"y holds {unknown[0]!r}, which was not among the classes: name all with the first chunk.")
        codes = np.searchsorted(stream.classes, y)
        none = sample_weight is not None and not np.any(np.asarray(sample_weight))
        weight = np.zeros(codes.size) if none else read_weight(sample_weight, codes)
        keep = weight > 0
        cost = float(self.C) * weight * class_factors(self.class_weight, stream.classes)[codes]
        return X[keep], codes[keep], cost[keep]

    def _keep_stream(self, stream: Stream, seconds: float) -> None:
        """Set the fitted attributes of a model that keeps no samples."""
        for name in ("support_", "dual_coef_", "objective_", "history_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        weights, self._predictor = stream.read()
        self._stream, self._pairwise_votes, self._certificates = stream, False, []
        self._odds, self._calibrated = isinstance(stream.loss, Logistic), None
        self._n_samples = stream.seen
        self.classes_, self.weights_ = stream.classes, weights if len(weights) > 1 else weights[0]
        labels = [str(label) for label in stream.classes.tolist()]
        self.problem_names_ = labels if len(weights) > 1 else [" / ".join(labels)]
        self.kernel_names_, self.kernel_scales_ = stream.assembly.names, stream.assembly.scales
        self.approximation_error_, self.storage_ = stream.assembly.lost, "not stored, a stream"
        self.intercept_ = np.zeros(self._predictor.intercept.shape)
        self.solver_, self.status_, self.dual_gap_, self.n_iter_ = "mirror", STATUS, float("nan"), stream.done
        self.fit_time_ = seconds


def _warn_if_few(n: int, approximation: Any) -> None:
    """Say that a first chunk is too small to lay down as many features as were asked for."""
    rank = getattr(approximation, "rank", None)
    if rank is not None and n < rank and not isinstance(approximation, RandomFeatures):
        warnings.warn(
            f"The first chunk has {n} rows, fewer than rank={rank}, and lays down the features: begin with a larger "
            "one, or use RandomFeatures.",
            UserWarning,
            stacklevel=4,
        )
