"""Learning from a stream: chunks of samples pass by, and only functions of the features are kept."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from ..arrays import is_foreign, kind_of
from ..assemble import (
    FactorAssembly,
    FactorExpansion,
    Targets,
    check_columns,
    check_number,
    given_factors,
    read_weight,
    split_classes,
)
from ..chunks import is_chunked
from ..grams import RandomFeatures, SharedBasis
from ..losses import Loss
from ..losses.base import BoundLoss
from ..penalties import MixingPenalty
from ..problem import Problem
from ..solvers import Mirror
from ..solvers.base import check_pair
from ..solvers.mirror import MirrorState
from .base import MKLEstimator, single, sized

STATUS = "Learned from a stream, which keeps no samples: there is no duality gap."
FIXED = ("kernels", "penalty", "loss", "multiclass", "approximation", "solver")  # what a stream cannot change


@dataclass(frozen=True)
class StreamSettings:
    """Numbers that a stream goes by."""

    # passes over a chunk, where the solver does not say
    passes: int = 10
    # one more than the power of a chunk's number with which the functions after it count
    memory: float = 5.0


SETTINGS = StreamSettings()


@dataclass
class Stream:
    """What is left of the samples seen: for each problem, the state of a solver that goes on with the next chunk.

    A problem has one loss, of one or several decision values: of one class against the rest, of all classes at once, or
    of one of several targets.
    """

    assembly: FactorAssembly  # of the first chunk, without its features
    loss: Loss
    penalty: MixingPenalty
    solver: Mirror
    states: list[MirrorState]  # of each problem
    parameters: str  # with which it began
    sample: Any  # some rows of the first chunk
    classes: Any = None  # (n_classes,) that are told apart, if any
    seen: int = 0  # samples
    chunks: int = 0
    latest: list[np.ndarray] = field(default_factory=list)  # (m,) weights of each problem after the latest chunk
    mean: Any = 0.0  # (D, n_outputs) of the functions after each chunk, later ones counting more

    @classmethod
    def begin(
        cls,
        assembly: FactorAssembly,
        loss: Loss,
        penalty: MixingPenalty,
        solver: Mirror,
        outputs: Sequence[int],
        parameters: str,
        sample: Any,
        classes: Any = None,
    ) -> Stream:
        """Return a stream before its first sample; ``outputs`` are the decision values of each problem."""
        factors = np.broadcast_to(assembly.factors, assembly.kept.shape)
        maps, gram = assembly.maps.rescaled(factors), assembly.gram.take(np.arange(0))
        assembly = replace(assembly, gram=gram, maps=maps, factors=1.0)
        states = [solver.begin(assembly.gram, width) for width in outputs]
        return cls(assembly, loss, penalty, solver, states, parameters, sample, classes)

    def take(self, X: Any, losses: Sequence[BoundLoss], total: float | None = None) -> None:
        """Go through a chunk of samples some times, by the losses of their targets, one for each problem."""
        features = np.ascontiguousarray(self.assembly.maps.transform(X))
        gram = self.assembly.gram.on(features)
        problems = [Problem(gram, loss, self.penalty, dual_sum=None) for loss in losses]
        for problem in problems:
            check_pair(problem, self.solver)
        self.seen += gram.shape[0]
        everyone = float(self.seen if total is None else total)
        found = [self._learn(place, problem, everyone) for place, problem in enumerate(problems)]
        share = SETTINGS.memory / (self.chunks + SETTINGS.memory)
        self.latest = [weights for weights, _ in found]
        self.mean = (1.0 - share) * self.mean + share * np.concatenate([z for _, z in found], axis=1)
        self.chunks += 1

    def _learn(self, place: int, problem: Problem, total: float) -> tuple[np.ndarray, np.ndarray]:
        """Let the solver go on with a chunk; weights of the kernels and function of the features after it."""
        state = self.solver.resume(problem, self.states[place], total)
        for _ in range(self.solver.epochs or SETTINGS.passes):
            self.solver.step(problem, state)
        self.states[place] = self.solver.rest(state)
        return self.solver.functions(problem, state)

    @property
    def visits(self) -> int:
        """Visits of samples."""
        return self.states[0].done

    def read(self) -> tuple[np.ndarray, FactorExpansion]:
        """Return the weights of all kernels for each problem, and what predicts: the mean, in kernels with weight."""
        gram, m = self.assembly.gram, len(self.assembly.names)
        latest = np.array(self.latest)
        weights = np.zeros((len(latest), m))
        weights[:, self.assembly.kept] = latest
        alive = np.repeat(latest > 0, [state.beta.shape[1] for state in self.states], axis=0)  # (n_outputs, kept)
        z = self.mean * np.repeat(alive, gram.ranks, axis=1).T
        linear = self.assembly.maps.predictor(z)
        shape, kept = (self.seen, m), self.assembly.kept
        return weights, FactorExpansion(linear, np.zeros(z.shape[1]), self.assembly.like, shape, kept)


def _streams(clf: Any) -> bool:
    """Whether samples can be learned from as they pass by; if not, say what is needed."""
    if (clf.solver == "mirror" or isinstance(clf.solver, Mirror)) and clf.approximation is not None:
        return True
    raise AttributeError("partial_fit needs solver='mirror' and an approximation=, such as approximation='nystroem'.")


class Streaming(MKLEstimator):
    """The part of a classifier that learns from chunks of samples as they pass by."""

    multiclass: Any
    class_weight: Any
    probability: Any
    _stream: Stream | None
    _calibrated: Any

    def _question(self, loss: Loss, n_classes: int) -> tuple[Loss, bool]:
        """Return the loss of each problem, and whether it has a constant of its own."""
        raise NotImplementedError

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check samples and labels."""
        raise NotImplementedError

    @available_if(_streams)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, total: float | None = None
    ) -> Any:
        """Learn from the next chunk of a stream; for ``solver="mirror"`` with an approximation.

        The chunk is gone through as often as the solver's ``epochs`` says, 10 times where it says nothing. The features
        are laid down by the first chunk: its landmarks, and the size of its kernels. It should hold as many rows as the
        rank asked for, or the features be random. No sample is kept, so there is no certificate, and there is no
        intercept.

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
        if is_chunked(X):
            raise TypeError("X is of Dask, all chunks of it: use fit, or partial_fit on one computed chunk at a time.")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if total is not None:
            check_number("total", total)
        stream = getattr(self, "_stream", None)
        spent = 0.0 if stream is None else self.fit_time_
        if stream is None:
            stream = self._begin_stream(X, y, classes, sample_weight)
        if stream.parameters != self._fixed_parameters():
            raise ValueError("Parameters changed since the first chunk of the stream: begin again with a clone.")
        X, codes, cost = self._read_chunk(X, y, sample_weight, stream, classes)
        if codes.size:
            parts = split_classes(stream.classes, codes, self.multiclass)
            stream.take(X, [stream.loss.bind(part.y, cost) for part in parts], total)
            self._keep_stream(stream, [part.name for part in parts], spent + time.perf_counter() - begun)
        return self

    def _fixed_parameters(self) -> str:
        """Return the parameters that a stream cannot change on its way."""
        return repr([getattr(self, name) for name in FIXED])

    def _begin_stream(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Stream:
        """Read the parameters and lay down the features by the first chunk."""
        options, loss, penalty = self._check_parameters()
        known = _all_classes(y if classes is None else classes)
        loss, _ = self._question(loss, known.size)
        if self.multiclass == "ovo" or (self.fit_intercept != "auto" and self.fit_intercept):
            raise ValueError("partial_fit learns no intercept, and not one class against one: use the defaults.")
        if self.probability and not loss.probabilistic:
            raise ValueError("probability=True needs samples held out, which a stream has not: use loss='logistic'.")
        if not isinstance(penalty, MixingPenalty):
            raise ValueError(f"partial_fit learns the weights of kernels, unlike {penalty}: use penalties.Mixed.")
        if isinstance(options.approximation, SharedBasis):
            raise ValueError(
                "approximation='shared' writes all samples in one basis, which a stream never sees together: use "
                "'nystroem' or 'random_features' for partial_fit."
            )
        frame = X
        X, y = self._read(X, y)
        if is_foreign(X):
            raise TypeError(f"X is a {kind_of(X)}, and partial_fit runs on NumPy: convert X yourself.")
        rows = np.flatnonzero(read_weight(sample_weight, np.empty(X.shape[0])))
        _warn_if_few(rows.size, options.approximation)
        every = np.ones(rows.size)
        counted = Targets(rows, every, every, X.shape[0], [])
        assembly: Any = sized(self._assemble(X, frame, options, counted, whole=True), options, counted)
        solver = self.solver if isinstance(self.solver, Mirror) else Mirror()
        problems = split_classes(known, np.arange(known.size), self.multiclass)
        outputs = [1 if loss.elementwise else known.size for _ in problems]
        fixed, sample = self._fixed_parameters(), self._some_rows(X, counted)
        return Stream.begin(assembly, loss, assembly.cut(penalty), solver, outputs, fixed, sample, known)

    def _read_chunk(
        self, X: Any, y: Any, sample_weight: Any, stream: Stream, classes: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return samples, the positions of their labels among the classes, and their costs."""
        X = self._side_by_side(X)
        check_columns(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=stream.assembly.like.dtype, reset=False)
        known = stream.classes
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
            raise ValueError(
                "classes differ from those of the first chunk: a stream has all its labels from the start."
            )
        unknown = np.setdiff1d(y, known)
        if unknown.size:
            raise ValueError(f"y holds {unknown[0]!r}, which was not among the classes: name all with the first chunk.")
        codes = np.searchsorted(known, y)
        none = sample_weight is not None and not np.any(np.asarray(sample_weight))
        weight = np.zeros(codes.size) if none else read_weight(sample_weight, codes)
        keep = weight > 0
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            raise ValueError("class_weight must be a dict or None for a stream: all labels are never seen together.")
        cost = float(self.C) * weight * given_factors(self.class_weight, known)[codes]
        return X[keep], codes[keep], cost[keep]

    def _keep_stream(self, stream: Stream, problems: list[str], seconds: float) -> None:
        """Set the fitted attributes of a model that keeps no samples."""
        for name in ("support_", "dual_coef_", "objective_", "history_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        weights, self._predictor = stream.read()
        self._stream, self._pairwise_votes, self._certificates = stream, False, []
        self._odds, self._calibrated = stream.loss if stream.loss.probabilistic else None, None
        self._keep_parts(stream.assembly, stream.sample)
        self._n_samples = stream.seen
        self.classes_, self.weights_, self.problem_names_ = stream.classes, single(weights), problems
        self._certified = problems
        self.kernel_names_, self.kernel_groups_ = stream.assembly.names, stream.assembly.groups
        self.kernel_scales_ = stream.assembly.scales
        self.approximation_error_, self.storage_ = stream.assembly.lost, "not stored, a stream"
        self.intercept_ = np.zeros(self._predictor.intercept.shape)
        self.solver_, self.status_ = stream.solver.name, STATUS
        self.dual_gap_, self.n_iter_ = float("nan"), stream.visits
        self.fit_time_ = seconds


def _all_classes(labels: Any) -> np.ndarray:
    """Return the different labels of a stream, from all of them or from the first chunk's."""
    labels = column_or_1d(labels)
    if labels.dtype.kind == "f" and np.any(labels != np.round(labels)):
        raise ValueError("Unknown label type: continuous. y holds fractions, a classifier needs classes.")
    known = np.unique(labels)
    if known.size < 2:
        raise ValueError("classes must name two labels or more: give all labels of the stream with the first chunk.")
    return known


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
