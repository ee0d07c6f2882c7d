"""Kernels of low rank from kernels: landmarks, incomplete Cholesky factors, random features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..arrays import dtype_name, to_host
from ..chunks import Chunks
from ..kernels import RBF, Kernel, Laplacian, Normalised, Scaled
from ..kernels.base import known_features
from .factors import Factors, Job, beside, build, cut_to, whiteners
from .landmarks import draw_landmarks, greedy_pivots, indices
from .maps import Explicit, Landmarks, Source, Waves, features, take_rows
from .shared import Wish, shared_factors

FIRST = 128  # landmarks tried first where a tolerance decides how many
MOST = 8192  # landmarks tried last: beyond them, their eigenvalue problem outweighs all else
LOOK = 500  # samples on which the error of random features is measured

Plan = tuple[Sequence[Source], Sequence[np.ndarray | None]]  # where raw columns come from, what mixes them


class Approximation(BaseEstimator, ABC):
    """A way to write kernels as inner products of few features.

    Examples
    --------
    >>> import kernelweave as kw
    >>> isinstance(kw.Nystroem(rank=20), kw.grams.Approximation)
    True
    """

    #: whether the features are the kernels, and nothing is lost
    exact = False

    def factorise(
        self,
        kernels: Sequence[Kernel],  # (m,)
        X: Any,  # (n, d)
        *,
        share: Any,  # (n,)
        normalize: str | None,
        random_state: Any,
        dtype: str | None = None,
        memory: float | None = None,
        progress: bool = False,
        whole: bool = False,
    ) -> Factors:
        """Compute features of the samples.

        Parameters
        ----------
        kernels : list of Kernel
            Resolved on X.
        X : array or CSR matrix of shape (n, d), or Chunks
            The samples; the features lie in their library and on their device. Of samples in chunks, a sample decides
            on landmarks.
        share : array of shape (n,)
            Weights of the samples, which sum to 1.
        normalize : None, "trace", "center" or "diagonal"
            What is scaled to 1: nothing, the mean of the kernel's own diagonal, or that less the mean of the
            approximated kernel. "diagonal" is for `Kernel.normalised`, nothing is left to do here.
        random_state : int, RandomState or None
            Seed of everything drawn.
        dtype : "float32" or "float64", optional
            Precision of the features; that of X if None.
        memory : float, optional
            Bytes that the features may take; where they would take more, they are made from X at every pass.
        progress : bool, default=False
            Whether to show a bar.
        whole : bool, default=False
            Whether to keep directions that these samples do not show, for others to come.

        Returns
        -------
        Factors
            Within each kernel the features are orthogonal and ordered by size, unless they are kept whole or are, of
            all kernels together, about as many as samples or more.
        """
        rng = check_random_state(random_state)
        rows, sample = (X, X.sample) if isinstance(X, Chunks) else (None, X)
        job = Job(list(kernels), sample, share, normalize, dtype or dtype_name(X), memory, progress, whole, rows)
        with np.errstate(over="ignore", invalid="ignore"):  # told by the kernel's name
            return self._factors(job, rng)

    def _factors(self, job: Job, rng: np.random.RandomState) -> Factors:
        """Return each kernel's own features, made by a plan."""
        sources, mixes = self._plan(job, rng)
        return build(job, sources, mixes, self._lost(job, sources, mixes, rng))

    @abstractmethod
    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        """Return where raw columns come from, and the matrix of each kernel that makes features of them."""

    def _lost(self, job: Job, sources: Any, mixes: Any, rng: np.random.RandomState) -> np.ndarray | None:
        """Return the loss of each kernel, or None if it is the missing trace."""
        return None


class Nystroem(Approximation):
    """Kernels as seen from landmarks: ``K(X, Z) K(Z, Z)^-1 K(Z, X)``, cut to a rank.

    All kernels share one set of landmarks, so kernels that differ in a width only share the distances too.

    Parameters
    ----------
    rank : int or None, default=100
        Most features of one kernel. It has fewer if its rank at the landmarks is lower.
    landmarks : "uniform", "kmeans", "leverage" or array of shape (p, d), default="uniform"
        Samples drawn evenly, centres of clusters, samples drawn by ridge leverage, or landmarks of your own.
    n_landmarks : int, optional
        How many to draw; as many as ``rank`` if None or, if ``tol`` decides, as many as it takes.
    tol : float, optional
        With it, a kernel gets the fewest features whose missing trace is at most this share of its trace.
        Where ``rank`` or the landmarks given stop that, the reported loss is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> bank = [K.RBF(gamma=0.5), K.RBF(gamma=1.0), K.Linear()]
    >>> made = Nystroem(rank=30).factorise(bank, X, share=np.full(500, 1 / 500), normalize="trace", random_state=0)
    >>> made.gram.ranks
    array([30, 30,  2])
    >>> bool(made.lost.max() < 0.1)
    True
    """

    def __init__(self, rank=100, landmarks="uniform", n_landmarks=None, tol=None):
        self.rank = rank
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.tol = tol

    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        _check_rank(self)
        _check_whole(self, "n_landmarks", self.n_landmarks)
        if self.tol is None:
            source = self._source(job, range(len(job.kernels)), self.n_landmarks or self.rank, rng)
            return [source], whiteners(source.kernels, source.Z, job, self.rank)
        return self._thrifty(job, rng)

    def _source(self, job: Job, positions: Sequence[int], count: int, rng: np.random.RandomState) -> Landmarks:
        kernels = tuple(job.kernels[k] for k in positions)
        return Landmarks(tuple(positions), kernels, draw_landmarks(self.landmarks, count, kernels, job.X, rng))

    def _thrifty(self, job: Job, rng: np.random.RandomState) -> Plan:
        """Double the landmarks of the kernels that lose too much; cut the others to what they need."""
        n = job.X.shape[0]
        fixed = self.n_landmarks is not None or not isinstance(self.landmarks, str)
        count = min(n, self.n_landmarks or FIRST)
        sources: list[Source] = []
        mixes: list[np.ndarray | None] = [None] * len(job.kernels)
        pending = list(range(len(job.kernels)))
        while pending:
            source = self._source(job, pending, count, rng)
            found = cut_to(self.tol, self.rank, source.kernels, source.Z, job)
            last = fixed or count >= n
            settled = {k: mix for k, (mix, met) in zip(pending, found, strict=True) if met or last}
            part = source.only({k: k for k in settled})
            sources += [] if part is None else [part]
            for k, mix in settled.items():
                mixes[k] = mix
            pending = [k for k in pending if k not in settled]
            if pending and 2 * count > MOST:
                name = job.kernels[pending[0]].name
                raise ValueError(
                    f"{name} loses more than tol={self.tol:g} of its trace at {count} landmarks: "
                    "use a larger tol, or a rank."
                )
            count = min(n, 2 * count)
        return sources, mixes


class PivotedCholesky(Approximation):
    """Incomplete Cholesky factors: each kernel chooses its own landmarks, each time the sample it represents worst.

    Parameters
    ----------
    rank : int, optional
        Most features of one kernel.
    tol : float or None, default=1e-3
        A kernel has enough features once its missing trace is at most this share of its trace.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import PivotedCholesky
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> share = np.full(500, 1 / 500)
    >>> made = PivotedCholesky(tol=1e-2).factorise([K.RBF(gamma=0.1)], X, share=share, normalize=None, random_state=0)
    >>> bool(made.lost[0] <= 1e-2), int(made.gram.ranks[0]) < 20
    (True, True)
    """

    def __init__(self, rank=None, tol=1e-3):
        self.rank = rank
        self.tol = tol

    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        _check_rank(self)
        sources: list[Source] = []
        mixes: list[np.ndarray | None] = []
        for k, kernel in enumerate(job.kernels):
            rank = min(self.rank or job.X.shape[0], job.most + 1 if job.rows is None else np.inf)
            pivots = greedy_pivots(kernel, job.X, rank, self.tol) or [0]
            Z = take_rows(job.X, np.array(pivots))
            sources.append(Landmarks((k,), (kernel,), Z))
            mixes += whiteners([kernel], Z, job, None)
        if job.rows is None:  # pivots took as much memory as the features
            job.check_columns(sum(mix.shape[1] for mix in mixes if mix is not None))
        return sources, mixes


class SharedBasis(Approximation):
    """One basis for all kernels on the same columns: ``K_k = Q S_k Q'``, with a small core ``S_k`` for each kernel.

    Kernels that differ in a width hold nearly the same functions. A pool of their own columns ``k(., z)``, three times
    ``rank`` of them, is chosen among all kernels and shared landmarks by a pivoted factorisation on some samples; the
    basis is what holds most of the kernels' traces in their span, and each kernel is what `Nystroem` makes of it at the
    landmarks, projected on the basis. Memory and time for the samples are those of one kernel of rank ``rank``, however
    many kernels there are, and prediction evaluates the pool only. Kernels on other columns get a part of the basis of
    their own. Banks of kernels that have little in common gain nothing.

    The error reported of a kernel is the mean distance of its diagonal from that of ``Q S_k Q'``, as a share of its
    trace, on up to 500 samples.

    Parameters
    ----------
    rank : int or None, default=200
        Most columns of the basis for the kernels on the same columns of X.
    tol : float, optional
        With it, the basis is of the fewest functions in which no kernel misses more than this share of its trace. Where
        ``rank`` or the landmarks given stop that, the reported loss is larger.
    landmarks : "uniform", "kmeans", "leverage" or array of shape (p, d), default="uniform"
        As in `Nystroem`.
    n_landmarks : int, optional
        How many to draw; as many as ``rank`` if None or, if ``tol`` decides, as many as it takes.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import SharedBasis
    >>> from kernelweave import kernels as K
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> bank = [K.RBF(gamma=gamma) for gamma in np.geomspace(0.01, 1.0, 30)]
    >>> made = SharedBasis(rank=60).factorise(bank, X, share=np.full(500, 1 / 500), normalize="trace", random_state=0)
    >>> made.gram.shape, made.gram.columns, bool(made.lost.max() < 0.1)
    ((500, 30), 60, True)
    """

    def __init__(self, rank=200, tol=None, landmarks="uniform", n_landmarks=None):
        self.rank = rank
        self.tol = tol
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks

    def _factors(self, job: Job, rng: np.random.RandomState) -> Factors:
        _check_rank(self)
        _check_whole(self, "n_landmarks", self.n_landmarks)
        return shared_factors(job, Wish(self.rank, self.tol, self.landmarks, self.n_landmarks), rng)

    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        raise TypeError("SharedBasis has no features of single kernels to plan.")


class RandomFeatures(Approximation):
    """Random Fourier features: cosines and sines at frequencies drawn from the kernel's spectrum.

    For `RBF`, with orthogonal draws, and `Laplacian`, also scaled, normalised or on some columns. Since these
    features have the kernel's own diagonal, no trace is missing: the loss reported is the relative error in the
    Frobenius norm of the approximated kernel on up to 500 samples.

    Parameters
    ----------
    rank : int, default=100
        Features of one kernel, an even number: half cosines, half sines.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import RandomFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> share = np.full(500, 1 / 500)
    >>> made = RandomFeatures(rank=400).factorise([K.RBF(gamma=0.5)], X, share=share, normalize=None, random_state=0)
    >>> bool(made.lost[0] < 0.1)
    True
    """

    def __init__(self, rank=100):
        self.rank = rank

    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        _check_whole(self, "rank", self.rank, least=2)
        if self.rank is None or self.rank % 2:
            raise ValueError(f"rank of RandomFeatures must be even, for cosines and sines; got {self.rank!r}.")
        groups: dict[Any, list[tuple[int, float, float]]] = {}
        for k, kernel in enumerate(job.kernels):
            kind, factor, size = _spectrum(kernel, kernel)
            groups.setdefault((kind, kernel.on), []).append((k, factor, size))
        sources: list[Source] = []
        for (kind, columns), members in groups.items():
            d = job.X.shape[1] if columns is None else len(columns)
            draws = DRAWS[kind](d, self.rank // 2, rng)
            positions, factors, sizes = zip(*members, strict=True)
            sources.append(Waves(positions, columns, beside(job.X, draws), factors, sizes))
        return sources, [None] * len(job.kernels)

    def _lost(self, job: Job, sources: Any, mixes: Any, rng: np.random.RandomState) -> np.ndarray:
        n = job.X.shape[0]
        some = take_rows(job.X, indices(n, min(n, LOOK), rng))
        blocks = [to_host(block).astype(float) for block in features(sources, mixes, some)]
        seen = to_host(some) if not hasattr(some, "tocsr") else some
        errors = []
        for kernel, V in zip(job.kernels, blocks, strict=True):
            K = kernel(seen).astype(float)
            errors.append(np.linalg.norm(K - V @ V.T) / np.linalg.norm(K))
        return np.array(errors)


class ExplicitFeatures(Approximation):
    """Kernels that are inner products of a few known functions, written as these: nothing is lost.

    For `Effects`, `Linear`, `Constant`, and sums, products and multiples of them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import ExplicitFeatures
    >>> X, share = np.random.default_rng(0).normal(size=(500, 2)), np.full(500, 1 / 500)
    >>> bank = K.Effects(rank=5, pair_rank=3).resolve(X)
    >>> ExplicitFeatures().factorise(bank, X, share=share, normalize="trace", random_state=0).gram.ranks
    array([5, 5, 9])
    """

    exact = True

    def _plan(self, job: Job, rng: np.random.RandomState) -> Plan:
        few, sources = take_rows(job.X, np.arange(min(2, job.X.shape[0]))), []
        for k, kernel in enumerate(job.kernels):
            known = known_features(kernel, few)
            if known is None:
                raise ValueError(
                    f"{kernel.name} is not an inner product of a few known functions, or samples lack what it looks at:"
                    " use approximation='nystroem'."
                )
            sources.append(Explicit((k,), kernel, int(known.shape[1])))
        return sources, [None] * len(job.kernels)


_NAMES: dict[str, type[Approximation]] = {
    "cholesky": PivotedCholesky,
    "explicit": ExplicitFeatures,
    "nystroem": Nystroem,
    "random_features": RandomFeatures,
    "shared": SharedBasis,
}


def make_approximation(spec: str | Approximation) -> Approximation:
    """Return an approximation by name, or the one given.

    Examples
    --------
    >>> from kernelweave.grams import make_approximation
    >>> make_approximation("nystroem")
    Nystroem()
    """
    if isinstance(spec, Approximation):
        return spec
    if isinstance(spec, str) and spec in _NAMES:
        return _NAMES[spec]()
    known = ", ".join(map(repr, _NAMES))
    raise ValueError(f"approximation={spec!r} is not known: use {known}, or an instance such as Nystroem(rank=200).")


def _check_rank(approximation: Any) -> None:
    name, tol = type(approximation).__name__, approximation.tol
    _check_whole(approximation, "rank", approximation.rank)
    if approximation.rank is None and tol is None:
        raise ValueError(f"{name} needs a rank or a tol: both are None.")
    if tol is not None and not (isinstance(tol, (int, float)) and 0 < tol < 1):
        raise ValueError(f"tol of {name} must lie between 0 and 1; got {tol!r}.")


def _check_whole(approximation: Approximation, parameter: str, value: Any, least: int = 1) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        name = type(approximation).__name__
        raise ValueError(f"{parameter} of {name} must be a whole number from {least} on; got {value!r}.")


# -- frequencies of shift-invariant kernels ---------------------------------------------------------------


def _spectrum(kernel: Kernel, asked: Kernel) -> tuple[str, float, float]:
    """Return the kind of a kernel's frequencies, their factor, and k(x, x)."""
    if isinstance(kernel, RBF):
        return "normal", (2.0 * kernel.gamma * kernel.factor) ** 0.5, 1.0
    if isinstance(kernel, Laplacian):
        return "cauchy", kernel.gamma, 1.0
    if isinstance(kernel, (Scaled, Normalised)) and kernel.kernel.on is None:
        kind, factor, size = _spectrum(kernel.kernel, asked)
        return kind, factor, kernel.scale * size if isinstance(kernel, Scaled) else 1.0
    raise ValueError(
        f"{asked.name} has no random Fourier features, only rbf and laplacian have: use 'nystroem' or 'cholesky'."
    )


def _orthogonal(d: int, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Normal draws, orthogonal to each other within every ``d`` of them."""
    blocks = []
    for start in range(0, count, d):
        some = min(d, count - start)
        directions, _ = np.linalg.qr(rng.standard_normal((d, some)))
        blocks.append(directions * np.sqrt(rng.chisquare(d, some)))
    return np.concatenate(blocks, axis=1)


def _cauchy(d: int, count: int, rng: np.random.RandomState) -> np.ndarray:
    return rng.standard_cauchy((d, count))


DRAWS = {"normal": _orthogonal, "cauchy": _cauchy}
