"""Kernels on vectors, with the formulas of `sklearn.metrics.pairwise` where it has them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    cosine_similarity,
    manhattan_distances,
)
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ..arrays import Array, cast, device_of, is_foreign, is_numpy, kind_of, like, namespace, positive
from .base import Kernel, _block, check_positive, precision, with_diagonal

FEW = 8  # rows below which a matrix product is slower than one of a matrix and a vector for each
DENSE = 2**22  # entries up to which sparse rows are written out, to be multiplied faster
DENSITY = 0.1  # share of entries other than zero from which sparse samples are written out for the same reason,
WRITTEN = 2**24  # and entries up to which they are
SPARSE = 0.25  # share of entries other than zero up to which the others need not be multiplied


class _Anywhere(Kernel):
    """A kernel that follows the library of X."""

    @property
    def accepts_foreign(self) -> bool:
        return True


class _Gamma(Kernel):
    """A kernel whose `gamma` may be a word: a number takes its place when the kernel is resolved."""

    gamma: Any
    _words: ClassVar[tuple[str | None, ...]] = (None, "auto", "scale")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma not in self._words:
            check_positive(self, "gamma", *self._words)

    @property
    def _needs_data(self) -> bool:
        return self.gamma == "scale"

    def _fixed(self, X: Any, columns: tuple[int, ...] | None, sample_weight: Any) -> Kernel:
        if isinstance(self.gamma, (int, float)):
            return self
        gamma = 1.0 / (X.shape[1] if columns is None else len(columns))
        if self.gamma == "scale":
            block = _block(replace(self, on=columns), X)
            variance = _variance(block, sample_weight)
            gamma = gamma / variance if variance else 1.0
        return replace(self, gamma=gamma)  # type: ignore[call-arg]


def _variance(X: Any, sample_weight: Any) -> float:
    """The variance of all entries of X, rows counted by weight; 0 where rounding is all there is."""
    if is_foreign(X):
        return _foreign_variance(X, sample_weight)
    mean = float(np.average(_row_means(X), weights=sample_weight))
    if issparse(X):
        variance = np.average(_row_means(X.multiply(X)), weights=sample_weight) - mean**2
    else:
        variance = np.average(_row_means((X - mean) ** 2), weights=sample_weight)
    return 0.0 if variance <= (10 * np.finfo(X.dtype).eps * mean) ** 2 else float(variance)


def _foreign_variance(X: Array, sample_weight: Any) -> float:
    xp, (n, d) = namespace(X), X.shape
    weight = xp.ones(n, dtype=xp.float64, device=device_of(X)) if sample_weight is None else like(X, sample_weight)
    total = xp.sum(weight) * d
    mean = float(xp.sum(weight * xp.sum(X, axis=1, dtype=xp.float64)) / total)
    variance = float(xp.sum(weight * xp.sum((X - mean) ** 2, axis=1, dtype=xp.float64)) / total)
    return 0.0 if variance <= (10 * xp.finfo(X.dtype).eps * mean) ** 2 else variance


def _row_means(X: Any) -> np.ndarray:
    return np.asarray(X.mean(axis=1, dtype=np.float64)).ravel()


class _Dot(_Anywhere):
    """A function of the inner products."""

    @property
    def statistic(self) -> Hashable:
        return "dot"

    def prepare(self, X: Any, Z: Any = None) -> Array:
        Z = X if Z is None else Z
        if is_foreign(X):
            return X @ namespace(X).matrix_transpose(Z)
        return safe_sparse_dot(X, Z.T, dense_output=True)

    def self_similarity(self, X: Any) -> Array:
        return self.finish(_squares(X))


def _squares(X: Any) -> Array:  # (n, d) -> (n,)
    return namespace(X).sum(X * X, axis=1) if is_foreign(X) else row_norms(X, squared=True)


def _apply(function: str, K: Array) -> Array:
    """A function of every entry; K is used up."""
    return getattr(np, function)(K, out=K) if is_numpy(K) else getattr(namespace(K), function)(K)


@dataclass(frozen=True, eq=False, repr=False)
class Linear(_Dot):
    """The inner product x'z.

    Parameters
    ----------
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Linear()(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[5., 2.],
           [2., 1.]])
    """

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def features(self, X: Any) -> Array:
        return X.toarray() if issparse(X) else X


@dataclass(frozen=True, eq=False, repr=False)
class Polynomial(_Gamma, _Dot):
    """The polynomial (gamma x'z + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
        The power, at least 1.
    gamma : float, None, "auto" or "scale", default=None
        None and "auto" are 1 / n_columns; "scale" is 1 / (n_columns * variance).
    coef0 : float, default=1.0
        The constant; from 0 on the kernel is positive semidefinite.
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Polynomial(degree=2)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 3
    gamma: Any = None
    coef0: float = 1.0
    _always = ("degree",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.degree) is not int or self.degree < 1:
            raise ValueError(f"degree of Polynomial must be a whole number from 1 on; got {self.degree!r}.")

    def finish(self, S: np.ndarray) -> np.ndarray:
        base = self.gamma * S
        base += self.coef0
        if self.degree == 1:
            return base
        K = base * base
        for _ in range(self.degree - 2):  # several times faster than a floating-point power
            K *= base
        return K

    @property
    def psd(self) -> bool | None:
        return True if self.coef0 >= 0 else None


@dataclass(frozen=True, eq=False, repr=False)
class Sigmoid(_Gamma, _Dot):
    """The sigmoid tanh(gamma x'z + coef0), which is not positive semidefinite in general.

    Parameters
    ----------
    gamma : float, None, "auto" or "scale", default=None
        None and "auto" are 1 / n_columns; "scale" is 1 / (n_columns * variance).
    coef0 : float, default=1.0
        The constant.
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Sigmoid()(np.array([[1.0]])).round(3)
    array([[0.964]])
    """

    gamma: Any = None
    coef0: float = 1.0
    _always = ("gamma",)

    def finish(self, S: np.ndarray) -> np.ndarray:
        K = self.gamma * S
        K += self.coef0
        return _apply("tanh", K)

    @property
    def psd(self) -> bool | None:
        return None


class _Unit(Kernel):
    """A kernel with k(x, x) = 1."""

    def self_similarity(self, X: Any) -> Array:
        return _filled(X, X.shape[:1], 1.0)


def _filled(X: Any, shape: tuple[int, ...], value: float) -> Array:
    if is_foreign(X):
        return namespace(X).full(shape, value, dtype=X.dtype, device=device_of(X))
    return np.full(shape, value, dtype=precision(X))


@dataclass(frozen=True, eq=False, repr=False)
class RBF(_Gamma, _Unit, _Anywhere):
    """The Gaussian exp(-gamma ||x - z||^2).

    Parameters
    ----------
    gamma : float, "scale", "auto" or None, default="scale"
        "scale" is 1 / (n_columns * variance), as in `sklearn.svm.SVC`; None and "auto" are 1 / n_columns.
    factor : float, default=1.0
        Multiplies gamma, also when that is found from the data: the way to ask for several relative widths.
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.RBF(gamma=0.5)(np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    gamma: Any = "scale"
    factor: float = 1.0
    _always = ("gamma",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "factor")

    @property
    def statistic(self) -> Hashable:
        return "sqeuclidean"

    def prepare(self, X: Any, Z: Any = None) -> Array:
        if isinstance(Z, _Places):
            return Z.distances(X)
        if is_foreign(X):
            return squared_distances(X, Z)
        if X.shape[1] == 1 and not issparse(X) and not issparse(Z):  # exact, and no matrix product
            S = np.subtract.outer(X[:, 0], (X if Z is None else Z)[:, 0])
            return np.square(S, out=S)
        return _Places(X).distances() if Z is None else _Places(Z).distances(X)

    def prepare_rows(self, Z: Any) -> Any:
        own = type(self).prepare is not RBF.prepare  # what another prepare makes of a record is not known
        return Z if own or is_foreign(Z) or (Z.shape[1] == 1 and not issparse(Z)) else _Places(Z)

    def finish(self, S: np.ndarray) -> np.ndarray:
        K = (-self.gamma * self.factor) * S
        return _apply("exp", K)

    def _fixed(self, X: Any, columns: tuple[int, ...] | None, sample_weight: Any) -> Kernel:
        fixed: Any = super()._fixed(X, columns, sample_weight)
        return replace(fixed, gamma=fixed.gamma * self.factor, factor=1.0)


class _Places:
    """Samples made ready for squared distances from many others, each of which then is one matrix product.

    They are in double precision about their mean, far from which squared distances would cancel; but small whole
    numbers, whose squared distances are exact in single precision, stay as they are, which is twice as fast. Sparse
    samples are written out only if they are few and not very sparse.
    """

    def __init__(self, Z: Any, exact: bool = True):
        self.dtype = Z.dtype
        size = Z.shape[0] * Z.shape[1]
        self.sparse = issparse(Z) and not (Z.nnz >= DENSITY * size and size <= WRITTEN)
        if self.sparse:
            self.points, self.center = Z.astype(np.float64), 0.0
            self.squares = row_norms(self.points, squared=True)
            return
        points = Z.toarray() if issparse(Z) else Z
        self.whole = exact and _small_and_whole(points)
        self.center = 0.0 if self.whole or not len(points) else points.mean(axis=0, dtype=np.float64)
        points = self._placed(points)
        self.points = np.hstack([points, np.ones_like(points[:, :1]), _squares(points)[:, None]])
        self.across: np.ndarray | None = None  # the samples side by side, for sparse rows

    def distances(self, X: Any = None) -> np.ndarray:  # (n, d) -> (n, p)
        """Squared distances from X, or from each other, in the precision of the samples."""
        if X is None:
            S = self._from_sparse(self.points) if self.sparse else self._from_dense(self.points[:, :-2])
            np.fill_diagonal(S, 0.0)
        elif self.sparse:
            S = self._from_sparse(X.astype(np.float64))
        elif not issparse(X):
            S = self._from_rows(X)
        elif self.whole and X.nnz <= SPARSE * X.shape[0] * X.shape[1] and _small_and_whole(X):
            S = self._from_few(X)
        else:
            step = max(1, DENSE // X.shape[1])
            parts = [self._from_rows(X[i : i + step].toarray()) for i in range(0, X.shape[0], step)]
            S = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, len(self.points)), self.dtype), *parts])
        return S.astype(self.dtype, copy=False)

    def _from_few(self, X: Any) -> np.ndarray:
        """Of whole numbers in sparse rows only those that are there are multiplied, and sums are exact."""
        from ..compiled.sparse import distances

        if self.across is None:
            self.across = np.ascontiguousarray(self.points[:, :-2].T)
        S, norms = np.empty((X.shape[0], len(self.points)), dtype=np.float32), row_norms(X, squared=True)
        parts = (X.data.astype(np.float32), X.indices, X.indptr)
        distances(*parts, self.across, norms.astype(np.float32), np.ascontiguousarray(self.points[:, -1]), S)
        return S

    def _from_rows(self, X: np.ndarray) -> np.ndarray:
        if self.whole and not _small_and_whole(X):
            return _Places(self.points[:, :-2].astype(self.dtype), exact=False).distances(X)
        return self._from_dense(self._placed(X))

    def _placed(self, X: np.ndarray) -> np.ndarray:
        return X.astype(np.float32) if self.whole else X - self.center

    def _from_dense(self, X: np.ndarray) -> np.ndarray:
        """One product: ``(-2 x, |x|^2, 1)`` with ``(z, 1, |z|^2)``."""
        left = np.hstack([-2.0 * X, _squares(X)[:, None], np.ones_like(X[:, :1])])
        few = 0 < len(left) < FEW
        S = np.stack([self.points @ row for row in left]) if few else left @ self.points.T
        return np.maximum(S, 0.0, out=S)

    def _from_sparse(self, X: Any) -> np.ndarray:
        if X.shape[0] * X.shape[1] <= DENSE:
            S = np.ascontiguousarray((self.points @ (X.toarray() if issparse(X) else X).T).T)
        else:
            S = safe_sparse_dot(X, self.points.T, dense_output=True)
        S *= -2.0
        S += row_norms(X, squared=True)[:, None]
        S += self.squares
        return np.maximum(S, 0.0, out=S)


def _small_and_whole(X: Any) -> bool:
    """Whether squared distances of these rows from others like them are whole numbers below 2^24."""
    values = X.data if issparse(X) else X
    if values.size and not np.abs(values).max() <= 2.0**11:
        return False
    return bool(np.all(np.rint(values) == values)) and bool(np.all(row_norms(X, squared=True) <= 2.0**21))


def squared_distances(X: Array, Z: Array | None = None) -> Array:  # (n, d), (p, d) -> (n, p)
    """Return squared Euclidean distances in any library, computed in double precision about the mean of Z."""
    xp, dtype, Y = namespace(X), X.dtype, X if Z is None else Z
    if X.shape[1] == 1:  # exact, and no matrix product
        S = X - xp.matrix_transpose(Y)
        return S * S
    Y = cast(Y, xp.float64)
    center = xp.mean(Y, axis=0)
    Y = Y - center
    X = Y if Z is None else cast(X, xp.float64) - center
    S = X @ xp.matrix_transpose(-2.0 * Y)
    S += _squares(X)[:, None]
    S += _squares(Y)[None, :]
    S = cast(positive(S), dtype)
    return with_diagonal(S, 0.0) if Z is None else S


@dataclass(frozen=True, eq=False, repr=False)
class Laplacian(_Gamma, _Unit):
    """The Laplacian exp(-gamma ||x - z||_1).

    Parameters
    ----------
    gamma : float, None or "auto", default=None
        None and "auto" are 1 / n_columns.
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Laplacian(gamma=0.5)(np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    gamma: Any = None
    _always = ("gamma",)
    _words = (None, "auto")

    @property
    def statistic(self) -> Hashable:
        return "manhattan"

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        return _manhattan(X, Z).astype(X.dtype, copy=False)

    def finish(self, S: np.ndarray) -> np.ndarray:
        K = -self.gamma * S
        return _apply("exp", K)


@dataclass(frozen=True, eq=False, repr=False)
class Chi2(_Gamma, _Unit):
    """The chi-squared kernel exp(-gamma sum (x - z)^2 / (x + z)) for histograms: dense, non-negative X only.

    Parameters
    ----------
    gamma : float, default=1.0
        The inverse width.
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Chi2()(np.array([[0.0, 1.0], [0.0, 3.0]])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    gamma: float = 1.0
    _always = ("gamma",)
    _words = ()

    @property
    def statistic(self) -> Hashable:
        return "chi2"

    @property
    def accepts_sparse(self) -> bool:
        return False

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        _check_histograms(self, X, Z)
        X, Z = (None if A is None else np.require(A, requirements="W") for A in (X, Z))  # its code demands it
        return additive_chi2_kernel(X, Z)

    def finish(self, S: np.ndarray) -> np.ndarray:
        K = self.gamma * S
        return _apply("exp", K)


@dataclass(frozen=True, eq=False, repr=False)
class HistogramIntersection(Kernel):
    """The overlap of histograms, sum min(x, z); non-negative X only.

    Parameters
    ----------
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.HistogramIntersection()(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([[3., 1.],
           [1., 3.]])
    """

    @property
    def statistic(self) -> Hashable:
        return "intersection"

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        _check_histograms(self, X, Z)
        rows = _row_sums(X)
        S = np.add.outer(rows, rows if Z is None else _row_sums(Z))
        S -= _manhattan(X, Z)  # 2 min(a, b) = a + b - |a - b|
        S /= 2
        return S.astype(X.dtype, copy=False)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def self_similarity(self, X: Any) -> np.ndarray:
        _check_histograms(self, X, None)
        return _row_sums(X)

    @property
    def _title(self) -> str:
        return "histogram intersection"


def _manhattan(X: Any, Z: Any) -> np.ndarray:
    """Return distances of samples; sparse ones out of order are copied, not put in order where they are."""
    X, Z = (A.copy() if issparse(A) and not A.has_canonical_format else A for A in (X, Z))
    return manhattan_distances(X, Z)


def _row_sums(X: Any) -> np.ndarray:
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


def _check_histograms(kernel: Kernel, X: Any, Z: Any) -> None:
    for A in (X, Z):
        if A is not None and np.any((A.data if issparse(A) else A) < 0):
            raise ValueError(f"{kernel.name} takes no negative values in X: shift or drop those columns.")


@dataclass(frozen=True, eq=False, repr=False)
class Cosine(_Anywhere):
    """The cosine of the angle, x'z / (||x|| ||z||); 0 where a sample is 0.

    Parameters
    ----------
    on : see `Kernel`
        The columns to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Cosine()(np.array([[1.0, 0.0], [3.0, 3.0]])).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    @property
    def statistic(self) -> Hashable:
        return "cosine"

    def prepare(self, X: Any, Z: Any = None) -> Array:
        if is_foreign(X):
            rows = _unit_rows(X)
            return rows @ namespace(X).matrix_transpose(rows if Z is None else _unit_rows(Z))
        return cosine_similarity(X, Z)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def self_similarity(self, X: Any) -> Array:
        return cast(_squares(X) > 0, X.dtype)


def _unit_rows(X: Array) -> Array:
    xp = namespace(X)
    lengths = xp.sqrt(_squares(X))[:, None]
    return X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


@dataclass(frozen=True, eq=False, repr=False)
class Constant(_Anywhere):
    """The same positive value for every pair of samples.

    Parameters
    ----------
    value : float, default=1.0
        The value.
    on : see `Kernel`
        Changes nothing here.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Constant(0.5)(np.array([[1.0], [2.0]]))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """

    value: float = 1.0
    _always = ("value",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "value")

    def prepare(self, X: Any, Z: Any = None) -> Array:
        return _filled(X, (X.shape[0], (X if Z is None else Z).shape[0]), self.value)

    @property
    def accepts_objects(self) -> bool:
        return True

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def self_similarity(self, X: Any) -> Array:
        return _filled(X, X.shape[:1], self.value)

    def features(self, X: Any) -> Array:
        return _filled(X, (X.shape[0], 1), self.value**0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Callable(_Anywhere):
    """Your own function of two sets of samples, or of two samples.

    Samples may be anything: with X a list of strings, graphs or other objects, the function is given those.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` returns the (n, p) matrix between the rows of X and those of Z, in their library. Objects
        come one after another, in an array of one dimension; those in columns of a table in one of two.
    label : str, optional
        What tables call it; the function's own name if None.
    psd : bool, optional
        Say True if every matrix it gives is positive semidefinite; None leaves that to be checked.
    pairwise : bool, default=False
        Whether the function is one of two samples, ``function(x, z)``, and returns a number.
    on : see `Kernel`
        The columns that the function receives.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Callable(lambda X, Z: np.minimum(X, Z.T), "minimum", psd=True)(np.array([[1.0], [2.0]]))
    array([[1., 1.],
           [1., 2.]])
    >>> def shared(x, z):
    ...     return len(set(x) & set(z))
    >>> K.Callable(shared, psd=True, pairwise=True)(["cat", "act", "dog"])
    array([[3., 3., 0.],
           [3., 3., 0.],
           [0., 0., 3.]])
    """

    function: Any
    label: str | None = None
    psd: bool | None = None
    pairwise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"function of Callable must be a function of X and Z; got {self.function!r}.")

    def prepare(self, X: Any, Z: Any = None) -> Array:
        if self.pairwise:
            return self._each_pair(X, Z)
        Z = X if Z is None else Z
        K = self.function(*(A[:, 0] if A.dtype == object and A.shape[1] == 1 else A for A in (X, Z)))
        if is_foreign(X) and type(K) is not type(X):
            raise TypeError(f"{self.name} must return a {kind_of(X)}, as X is; it returned a {kind_of(K)}.")
        K = namespace(X).asarray(K, copy=True) if is_foreign(X) else np.array(K)
        if tuple(K.shape) != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"{self.name} must return one entry per row of X and row of Z, {(X.shape[0], Z.shape[0])}; "
                f"it returned the shape {tuple(K.shape)}."
            )
        return cast(K, precision(X))

    def _each_pair(self, X: Any, Z: Any) -> np.ndarray:
        """Call the function for every two samples, and once for both orders where there is one set of them."""
        if is_foreign(X) or issparse(X):
            raise TypeError(f"{self.name} is a function of two samples, and takes NumPy arrays or objects only.")
        rows = [row[0] if row.dtype == object and row.size == 1 else row for row in X]
        columns = rows if Z is None else [row[0] if row.dtype == object and row.size == 1 else row for row in Z]
        K = np.zeros((len(rows), len(columns)), dtype=precision(X))
        for i, x in enumerate(rows):
            for j in range(i + 1 if Z is None else len(columns)):
                K[i, j] = self.function(x, columns[j])
        return K if Z is not None else np.tril(K) + np.tril(K, -1).T

    @property
    def accepts_objects(self) -> bool:
        return True

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def _head(self, asked: Kernel) -> str:
        return self.label or str(getattr(self.function, "__name__", type(self.function).__name__))


SIDE_BY_SIDE = {RBF, Linear, Polynomial, Sigmoid, Cosine, Constant, Laplacian, Chi2}  # no code of the user's


def side_by_side(kernels: Sequence[Kernel]) -> bool:
    """Whether several threads may compute these kernels at a time."""
    return all(type(kernel) in SIDE_BY_SIDE for kernel in kernels)
