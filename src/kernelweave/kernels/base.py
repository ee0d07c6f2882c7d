"""What a kernel is: a frozen record that turns samples into a matrix, on columns of its choice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import iadd, imul
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from ..arrays import Array, cast, device_of, dtype_name, is_foreign, kind_of, like, namespace
from .columns import Views, column_groups, known_names, plain, where

SQUARE = 32  # side of the small matrices whose diagonals give k(x, x) where a kernel has no faster way


@dataclass(frozen=True, eq=False, repr=False)
class Kernel(ABC):
    """A similarity between samples, on all columns or on some of them.

    A new kernel is a frozen dataclass with two methods, `prepare` and `finish`. The work is split in two so
    that kernels which differ only in a parameter share the expensive half: see `statistic` and `evaluate`.

    Parameters
    ----------
    on : None, "each", "views", str, int, slice, list, dict or callable, default=None
        The columns to look at. None means all of them; "each" stands for one kernel per column; a list holds
        names, positions or a boolean mask; a slice runs between positions or, inclusively, between names; a
        callable receives the DataFrame, as `sklearn.compose.make_column_selector` does. A dictionary stands for one
        kernel per name, on the columns that the name has there and in the group of that name; columns may be in
        several. Where X has views (see `kernelweave.Views`) the name of one means its columns, and "views" stands for
        one kernel per view. A column that is really called "each" is asked for with ``["each"]``.
    group : str, optional
        What the kernel belongs to, such as the table it looks at: weights are also added up by group. By default the
        name that `on` gives. If X has a view of this name, a kernel that names no columns looks at that view.

    Examples
    --------
    Kernels can be added, multiplied, scaled and normalised:

    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> both = 0.5 * K.Linear(on=[0]) + K.RBF(gamma=1.0) * K.Linear(on=[1])
    >>> isinstance(both, K.Kernel), both(np.eye(2)).shape
    (True, (2, 2))
    """

    on: Any = field(default=None, kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    _label: str | None = field(default=None, init=False, repr=False, compare=False)
    _price: float = field(default=1.0, init=False, repr=False, compare=False)  # what its weight costs, once resolved

    _always: ClassVar[tuple[str, ...]] = ()  # parameters that the name shows even at their default
    __array_ufunc__ = None  # so that numpy scalars leave multiplication to us

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, plain(getattr(self, f.name)))
        if self.group is not None and not isinstance(self.group, str):
            raise TypeError(f"group of {type(self).__name__} must be a name, got {self.group!r}.")

    # -- what the author of a kernel writes -------------------------------------------------------------

    @abstractmethod
    def prepare(
        self,
        X: Any,  # (n, d), columns already chosen
        Z: Any = None,  # (p, d), or None for X itself
    ) -> Any:
        """The expensive half: what kernels with an equal `statistic` share, usually an (n, p) array."""

    @abstractmethod
    def finish(self, S: Any) -> np.ndarray:
        """The cheap half: the matrix from what `prepare` returned, which is left unmodified."""

    def prepare_rows(self, Z: Any) -> Any:
        """What `prepare` is given for a Z that meets many X: Z itself, or a record of work done once."""
        return Z

    @property
    def statistic(self) -> Hashable:
        """The key under which `prepare` is shared; None if it is this kernel's own."""
        return None

    @property
    def psd(self) -> bool | None:
        """True if positive semidefinite by construction, None if not known."""
        return True

    @property
    def columns(self) -> tuple[int, ...] | None:
        """The positions that a resolved kernel looks at, in order; None means all columns."""
        return None if self.on is None else tuple(sorted(set(self.on)))

    @property
    def accepts_sparse(self) -> bool:
        """Whether X may be a sparse matrix."""
        return True

    @property
    def accepts_foreign(self) -> bool:
        """Whether X may be an array of another library than NumPy; its `prepare` and `finish` must then follow X."""
        return False

    @property
    def accepts_objects(self) -> bool:
        """Whether X may be an array of objects, such as strings; kernels that do not take them are given numbers."""
        return False

    def self_similarity(self, X: Any) -> Array:  # (n, d), columns already chosen -> (n,)
        """k(x, x) for every row; correct for any kernel, overridden where there is a faster way."""
        n = X.shape[0]
        pieces = (rows_of(X, slice(i, min(i + SQUARE, n))) for i in range(0, n, SQUARE))
        blocks = [self.finish(self.prepare(piece)) for piece in pieces]
        if is_foreign(X):
            xp = namespace(X)
            return xp.concat([xp.linalg.diagonal(block) for block in blocks])
        return np.concatenate([np.diagonal(block) for block in blocks]) if blocks else np.empty(0)

    def features(self, X: Any) -> Array | None:  # (n, d), columns already chosen -> (n, r)
        """Functions whose inner product the kernel is, where they are few and known; None where not."""
        return None

    @property
    def _needs_data(self) -> bool:
        return False

    def _fixed(self, X: Any, columns: tuple[int, ...] | None, sample_weight: Any) -> Kernel:
        """This kernel with numbers in place of the parameters that depend on the data."""
        return self

    # -- what a user calls ------------------------------------------------------------------------------

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """The (n, p) matrix between the rows of X and those of Z (or of X), in the library and precision of X."""
        return next(evaluate([self], X, Z))[1]

    def diagonal(self, X: Any) -> Array:
        """The diagonal of ``self(X)``, without the matrix."""
        X = _as_matrix(X)
        kernel = self._settled(X, None)
        return cast(kernel.self_similarity(_block(kernel, X)), precision(X))

    def resolve(
        self,
        X: Any,  # (n, d)
        names: Sequence[str] | None = None,
        frame: Any = None,
        sample_weight: Any = None,  # (n,)
        views: Views | None = None,
    ) -> list[Kernel]:
        """The concrete kernels this one stands for on the data X.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            The training data, of NumPy, SciPy, torch or any library with the array API.
        names : list of str, optional
            The column names of X.
        frame : DataFrame, optional
            What the user passed, for column selectors.
        sample_weight : array of shape (n,), optional
            Counts in data-dependent parameters as repetition would.
        views : mapping from str to tuple of int, optional
            The columns of each view of X.

        Returns
        -------
        list of Kernel
            Their `on` is None or a tuple of positions, their parameters are numbers, their names are final.
        """
        X, names = _as_matrix(X), known_names(names, frame)
        _check_sparse(self, X)
        resolved = []
        for columns, place in column_groups(self._place(views), X.shape[1], names, frame, views):
            kernel = replace(self._fixed(X, columns, sample_weight), on=columns, group=self.group or place)
            kernel._priced(self._price)
            resolved.append(kernel._labelled(kernel._head(self) + where(place or columns, names)))
        return resolved

    def _place(self, views: Views | None) -> Any:
        """The columns asked for: those of the view that is the kernel's group, where it names none."""
        return self.group if self.on is None and views and self.group in views else self.on

    def on_columns(self, columns: Any) -> Kernel:
        """The same kernel on other columns; in a combination, parts that name their own columns keep them."""
        return replace(self, on=columns)

    def in_group(self, group: str) -> Kernel:
        """The same kernel as one of a group; one that is in a group already stays there."""
        return self if self.group is not None else replace(self, group=group)

    def normalised(self) -> Normalised:
        """The cosine normalisation k(x, z) / sqrt(k(x, x) k(z, z))."""
        return Normalised(self)

    @property
    def name(self) -> str:
        """What tables and plots call this kernel, such as ``rbf(gamma=0.1) on age``."""
        return self._label or self._head(self) + where(self.on, None)

    def __add__(self, other: Any) -> Sum:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(_parts(self, Sum) + _parts(other, Sum))

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product(_parts(self, Product) + _parts(other, Product))
        return self.__rmul__(other)

    def __rmul__(self, scale: Any) -> Kernel:
        return Scaled(self, scale) if isinstance(plain(scale), (int, float)) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _token(self) == _token(other)

    def __hash__(self) -> int:
        return hash((type(self), _token(self)))

    def __repr__(self) -> str:
        changed = [f.name for f in sorted(fields(self), key=_is_keyword) if f.repr and _changed(f, self)]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    # -- names and readiness ----------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return type(self).__name__.lower()

    def _head(self, asked: Kernel) -> str:
        """The name without its columns: parameters left at their default in `asked` are not worth a word."""
        shown = [
            f"{f.name}={_short(getattr(self, f.name))}"
            for f in fields(self)
            if not f.kw_only and (f.name in self._always or (_changed(f, asked) and _changed(f, self)))
        ]
        return self._title + (f"({', '.join(shown)})" if shown else "")

    def _labelled(self, label: str) -> Kernel:
        object.__setattr__(self, "_label", label)
        return self

    def _priced(self, price: float) -> Kernel:
        object.__setattr__(self, "_price", price)
        return self

    def _settled(self, X: Any, Z: Any) -> Kernel:
        """This kernel resolved: already so, or on the spot where that leaves no doubt."""
        if self._label is not None:
            return self
        if Z is not None and self._needs_data:
            raise ValueError(
                f"{self!r} takes gamma from the training data: call resolve(X_train) first, or give a number."
            )
        return _one(self.resolve(X), f"{self!r} stands for several kernels: call resolve(X) to have them.")


def evaluate(kernels: Sequence[Kernel], X: Any, Z: Any = None) -> Iterator[tuple[int, Array]]:
    """Compute every kernel of a list, sharing the work that they have in common.

    Kernels with the same `statistic` on the same columns come one after the other, so the order may differ
    from that of the list; what they share is released before the next group. Every matrix is the caller's.

    Parameters
    ----------
    kernels : list of Kernel
        Usually resolved on the training data.
    X : array or sparse matrix of shape (n, d)
        The rows. An array of another library than NumPy stays where it is, and so do the matrices.
    Z : array or sparse matrix of shape (p, d), optional
        The columns, of the same library; X itself if None.

    Yields
    ------
    index, matrix : int, array of shape (n, p)
        The position in the list, and the kernel's matrix in the precision of X.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> X = np.array([[0.0], [1.0]])
    >>> for index, matrix in K.evaluate(K.rbf(gamma=[0.5, 2.0]), X):
    ...     print(index, matrix[0].round(3))
    0 [1.    0.607]
    1 [1.    0.135]
    """
    Z = None if Z is X else Z
    X = _as_matrix(X)
    if Z is not None:
        yield from PreparedKernels(kernels, _beside(X, Z))(X)
        return
    kernels = [kernel._settled(X, None) for kernel in kernels]
    for members in _families(kernels).values():
        first = kernels[members[0]]
        yield from _finished(kernels, members, first.prepare(_block(first, X)))


def evaluate_each(kernels: Sequence[Kernel], X: Any, Zs: Sequence[Any]) -> list[Array]:
    """Compute every kernel of a list between the rows of X and rows of its own, sharing the work that they share.

    Parameters
    ----------
    kernels : list of Kernel
        Resolved on the training data.
    X : array or sparse matrix of shape (n, d)
        The rows.
    Zs : list of arrays or sparse matrices of shape (p_k, d)
        The columns of each kernel, of the same library.

    Returns
    -------
    list of arrays of shape (n, p_k)
        In the order of the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.kernels.base import evaluate_each
    >>> X = np.array([[0.0], [1.0]])
    >>> [matrix.round(3).tolist() for matrix in evaluate_each(K.rbf(gamma=[0.5, 2.0]), X, [X, X[1:]])]
    [[[1.0, 0.607], [0.607, 1.0]], [[0.135], [1.0]]]
    """
    X = _as_matrix(X)
    kernels = [kernel._settled(X, Z) for kernel, Z in zip(kernels, Zs, strict=True)]
    found: dict[int, Array] = {}
    for members in _families(kernels).values():
        first = kernels[members[0]]
        ends = np.cumsum([Zs[i].shape[0] for i in members]).tolist()
        together = len(members) > 1 and not any(issparse(Zs[i]) for i in members)
        Z = namespace(Zs[members[0]]).concat([Zs[i] for i in members], axis=0) if together else None
        shared: Any = first.prepare(_block(first, X), _block(first, _beside(X, Z))) if together else None
        for i, start, end in zip(members, [0, *ends[:-1]], ends, strict=True):
            cut = getattr(shared, "shape", None) == (X.shape[0], ends[-1])
            found[i] = kernels[i].finish(shared[:, start:end]) if cut else kernels[i](X, Zs[i])
    return [found[i] for i in range(len(kernels))]


class PreparedKernels:
    """Kernels between any rows and fixed ones; what depends on the fixed ones alone is computed once.

    Parameters
    ----------
    kernels : list of Kernel
        Resolved on the training data.
    Z : array or sparse matrix of shape (p, d)
        The fixed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> prepared = K.PreparedKernels([K.RBF(gamma=0.5), K.Linear()], np.array([[0.0], [1.0]]))
    >>> [matrix.round(3).tolist() for _, matrix in prepared(np.array([[1.0]]))]
    [[[0.607, 1.0]], [[0.0, 1.0]]]
    """

    def __init__(self, kernels: Sequence[Kernel], Z: Any):
        self.Z = _as_matrix(Z)
        self.kernels = [kernel._settled(self.Z, self.Z) for kernel in kernels]
        self._parts = []
        for members in _families(self.kernels).values():
            first = self.kernels[members[0]]
            self._parts.append((members, first.prepare_rows(_block(first, self.Z))))

    def __call__(self, X: Any, among: Any = None) -> Iterator[tuple[int, Array]]:
        """Yield position and matrix of every kernel, or of those whose positions are ``among``, as `evaluate` does."""
        X = _beside(self.Z, X)
        for members, fixed in self._parts:
            wanted = members if among is None else [k for k in members if k in among]
            if wanted:
                first = self.kernels[members[0]]
                yield from _finished(self.kernels, wanted, first.prepare(_block(first, X), fixed))


def _families(kernels: Sequence[Kernel]) -> dict[Hashable, list[int]]:
    """Return the positions of the kernels that share the expensive half, by what they share."""
    families: dict[Hashable, list[int]] = {}
    for i, kernel in enumerate(kernels):
        families.setdefault(i if kernel.statistic is None else (kernel.statistic, kernel.on), []).append(i)
    return families


def _finished(kernels: Sequence[Kernel], members: list[int], shared: Any) -> Iterator[tuple[int, Array]]:
    for i in members[:-1]:
        yield i, _own(kernels[i].finish(shared), shared)
    yield members[-1], kernels[members[-1]].finish(shared)


def _own(matrix: Array, shared: Any) -> Array:
    if matrix is not shared:
        return matrix
    return namespace(matrix).asarray(matrix, copy=True) if is_foreign(matrix) else matrix.copy()


# -- combinations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class _Combination(Kernel):
    """Several kernels joined entry by entry; `on` is for the parts that name no columns themselves."""

    kernels: tuple[Kernel, ...]

    _sign: ClassVar[str]
    _join: ClassVar[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kernels or not all(isinstance(k, Kernel) for k in self.kernels):
            raise TypeError(f"{type(self).__name__} takes a list of kernels; got {self.kernels!r}.")
        if self.group is None and len({kernel.group for kernel in self.kernels}) == 1:
            object.__setattr__(self, "group", self.kernels[0].group)

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        parts = Z(X) if isinstance(Z, PreparedKernels) else evaluate(self.kernels, X, Z)
        return reduce(type(self)._join, (matrix for _, matrix in parts))

    def prepare_rows(self, Z: Any) -> Any:
        return PreparedKernels(self.kernels, Z)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def self_similarity(self, X: Any) -> np.ndarray:
        return reduce(type(self)._join, (kernel.diagonal(X) for kernel in self.kernels))

    @property
    def columns(self) -> tuple[int, ...] | None:
        parts = [kernel.columns for kernel in self.kernels]
        return None if None in parts else tuple(sorted({j for part in parts if part is not None for j in part}))

    @property
    def psd(self) -> bool | None:
        return True if all(kernel.psd for kernel in self.kernels) else None

    @property
    def accepts_sparse(self) -> bool:
        return all(kernel.accepts_sparse for kernel in self.kernels)

    @property
    def accepts_foreign(self) -> bool:
        return all(kernel.accepts_foreign for kernel in self.kernels)

    @property
    def accepts_objects(self) -> bool:
        return any(kernel.accepts_objects for kernel in self.kernels)

    @property
    def _needs_data(self) -> bool:
        return any(kernel._needs_data for kernel in self.kernels)

    def resolve(
        self,
        X: Any,
        names: Sequence[str] | None = None,
        frame: Any = None,
        sample_weight: Any = None,
        views: Views | None = None,
    ) -> list[Kernel]:
        X, names = _as_matrix(X), known_names(names, frame)
        refusal = (
            f"on='each' inside a {type(self).__name__.lower()} could pair columns in many ways: "
            "give it to the whole with (a + b).on_columns('each'), or write the list out."
        )
        resolved = []
        for columns, place in column_groups(self._place(views), X.shape[1], names, frame, views):
            inherited = [_inherit(kernel, columns if place is None else {place: columns}) for kernel in self.kernels]
            parts = [_one(k.resolve(X, names, frame, sample_weight, views), refusal) for k in inherited]
            kernel = replace(self, kernels=tuple(parts), on=None, group=self.group or place)
            kernel._priced(self._price)
            resolved.append(kernel._labelled(kernel._head(self)))
        return resolved

    def _head(self, asked: Kernel) -> str:
        head = f" {self._sign} ".join(_bracketed(kernel, Sum) for kernel in self.kernels)
        return head if self.on is None else f"({head})"


@dataclass(frozen=True, eq=False, repr=False)
class Sum(_Combination):
    """The sum of kernels, written ``a + b``.

    Parameters
    ----------
    kernels : list of Kernel
        The terms.
    on : see `Kernel`
        Columns for the terms that name none.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> (K.Linear() + K.RBF(gamma=0.5)).name
    'linear + rbf(gamma=0.5)'
    """

    _sign = "+"
    _join = staticmethod(iadd)

    def features(self, X: Any) -> Array | None:
        parts = [known_features(kernel, X) for kernel in self.kernels]
        return None if any(part is None for part in parts) else namespace(parts[0]).concat(parts, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Combination):
    """The entrywise product of kernels, written ``a * b``.

    Parameters
    ----------
    kernels : list of Kernel
        The factors.
    on : see `Kernel`
        Columns for the factors that name none.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> (K.Linear(on="age") * K.RBF(gamma=0.5, on="height")).name
    'linear on age * rbf(gamma=0.5) on height'
    """

    _sign = "*"
    _join = staticmethod(imul)

    def features(self, X: Any) -> Array | None:
        parts = [known_features(kernel, X) for kernel in self.kernels]
        return None if any(part is None for part in parts) else reduce(row_products, parts)


@dataclass(frozen=True, eq=False, repr=False)
class _Wrapper(Kernel):
    """A kernel made from one other; once resolved, the columns are kept here and not in the part."""

    kernel: Kernel

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"{type(self).__name__} takes a kernel; got {self.kernel!r}.")
        if self.group is None:
            object.__setattr__(self, "group", self.kernel.group)

    @property
    def columns(self) -> tuple[int, ...] | None:
        return self.kernel.columns if self.on is None else super().columns

    @property
    def psd(self) -> bool | None:
        return self.kernel.psd

    @property
    def accepts_sparse(self) -> bool:
        return self.kernel.accepts_sparse

    @property
    def accepts_foreign(self) -> bool:
        return self.kernel.accepts_foreign

    @property
    def accepts_objects(self) -> bool:
        return self.kernel.accepts_objects

    @property
    def _needs_data(self) -> bool:
        return self.kernel._needs_data

    def resolve(
        self,
        X: Any,
        names: Sequence[str] | None = None,
        frame: Any = None,
        sample_weight: Any = None,
        views: Views | None = None,
    ) -> list[Kernel]:
        parts = _inherit(self.kernel, self._place(views)).resolve(X, names, frame, sample_weight, views)
        labels = [replace(self, kernel=part, on=None)._head(self) for part in parts]
        kernels = [replace(self, kernel=replace(part, on=None), on=part.on) for part in parts]
        return [kernel._labelled(label) for kernel, label in zip(kernels, labels, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(_Wrapper):
    """A kernel times a positive number, written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
        What is scaled.
    scale : float, default=1.0
        The positive factor.
    on : see `Kernel`
        Columns, if the kernel names none.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> (2.0 * K.Linear())(np.array([[1.0], [3.0]]))
    array([[ 2.,  6.],
           [ 6., 18.]])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "scale")

    @property
    def statistic(self) -> Hashable:
        return self.kernel.statistic

    def prepare(self, X: Any, Z: Any = None) -> Any:
        return self.kernel.prepare(X, Z)

    def prepare_rows(self, Z: Any) -> Any:
        return self.kernel.prepare_rows(Z)

    def finish(self, S: Any) -> np.ndarray:
        return self.scale * self.kernel.finish(S)

    def self_similarity(self, X: Any) -> np.ndarray:
        return self.scale * self.kernel.self_similarity(X)

    def features(self, X: Any) -> Array | None:
        inner = known_features(self.kernel, X)
        return None if inner is None else self.scale**0.5 * inner

    def _head(self, asked: Kernel) -> str:
        return f"{_short(self.scale)} * {_bracketed(self.kernel, Sum)}"


@dataclass(frozen=True, eq=False, repr=False)
class Normalised(_Wrapper):
    """A kernel with every sample at unit length: k(x, z) / sqrt(k(x, x) k(z, z)).

    Parameters
    ----------
    kernel : Kernel
        What is normalised.
    on : see `Kernel`
        Columns, if the kernel names none.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Linear().normalised()(np.array([[1.0, 0.0], [3.0, 3.0]])).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    @property
    def statistic(self) -> Hashable:
        inner = self.kernel.statistic
        return None if inner is None else ("normalised", inner)

    def prepare(self, X: Any, Z: Any = None) -> tuple[Any, Any, Any]:
        return self.kernel.prepare(X, Z.inner if isinstance(Z, _Measured) else Z), X, Z

    def prepare_rows(self, Z: Any) -> Any:
        return _Measured(Z, self.kernel.prepare_rows(Z))

    def finish(self, S: tuple[Any, Any, Any]) -> Array:
        inner, X, Z = S
        rows = self._lengths(X)
        K = self.kernel.finish(inner) / rows[:, None]
        K /= rows if Z is None else Z.lengths(self) if isinstance(Z, _Measured) else self._lengths(Z)
        return with_diagonal(K, 1.0) if Z is None else K

    def self_similarity(self, X: Any) -> Array:
        lengths = self._lengths(X)
        return namespace(X).ones_like(lengths) if is_foreign(X) else np.ones_like(lengths)

    def _lengths(self, X: Any) -> Array:
        squares = cast(self.kernel.self_similarity(X), precision(X))
        xp = namespace(X) if is_foreign(X) else np
        if not xp.all(squares > 0):
            i = int(xp.argmin(squares))
            raise ValueError(
                f"{self.name} does not exist for sample {i}, which has k(x, x) = {float(squares[i]):.3g}: "
                "drop such samples, or add Constant() to the kernel before normalising it."
            )
        return xp.sqrt(squares)

    def _head(self, asked: Kernel) -> str:
        return f"normalised {_bracketed(self.kernel, _Combination)}"


class _Measured:
    """Fixed rows for normalised kernels: what the inner kernel made of them, and their lengths in each kernel, once."""

    def __init__(self, Z: Any, inner: Any):
        self.Z, self.inner, self._known = Z, inner, dict[Normalised, Array]()

    def lengths(self, kernel: Normalised) -> Array:
        if kernel not in self._known:
            self._known[kernel] = kernel._lengths(self.Z)
        return self._known[kernel]


def known_features(kernel: Kernel, X: Any) -> Array | None:  # (n, d) -> (n, r)
    """Functions of the rows of X whose inner product a resolved kernel is; None where they are not known."""
    return kernel.features(_block(kernel, X))


def row_products(A: Array, B: Array) -> Array:  # (n, a), (n, b) -> (n, a b)
    """Products of each two columns, one of either table."""
    xp = namespace(A)
    return xp.reshape(A[:, :, None] * B[:, None, :], (A.shape[0], A.shape[1] * B.shape[1]))


# -- columns --------------------------------------------------------------------------------------------


def _inherit(kernel: Kernel, columns: Any) -> Kernel:
    return kernel if columns is None or kernel.on is not None else kernel.on_columns(columns)


def check_positive(kernel: Kernel, parameter: str, *words: str | None) -> None:
    """Refuse a parameter that is not a positive, finite number; `words` are what else the message offers."""
    value = getattr(kernel, parameter)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < np.inf:
        allowed = " or ".join(["a positive number", *map(repr, words)])
        raise ValueError(f"{parameter} of {type(kernel).__name__} must be {allowed}; got {value!r}.")


def _as_matrix(X: Any) -> Any:
    """X as a CSR matrix or a 2-D array, in float32 or float64, or of objects as they are."""
    foreign = is_foreign(X)
    X = X if foreign else X.tocsr() if issparse(X) else _as_array(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, samples and columns; got {X.ndim}.")
    if foreign:
        return X if dtype_name(X) in ("float32", "float64") else cast(X, namespace(X).float64)
    return X if X.dtype in (np.float32, np.float64) or X.dtype == object else X.astype(np.float64)


def _as_array(X: Any) -> np.ndarray:
    """X as an array; strings one after another as one column of them."""
    if isinstance(X, (list, tuple)) and X and all(isinstance(item, str) for item in X):
        return np.array(X, dtype=object)[:, None]
    return np.asarray(X)


def precision(X: Any) -> Any:
    """The type of kernel values on X: that of X, or float64 for objects."""
    return np.dtype(np.float64) if X.dtype == object else X.dtype


def _beside(X: Any, Z: Any) -> Any:
    """Z as a matrix in the precision of X, which must be of the same library."""
    Z = _as_matrix(Z)
    if is_foreign(X) is not is_foreign(Z) or (is_foreign(X) and namespace(X) is not namespace(Z)):
        raise TypeError(f"X is a {kind_of(X)} and Z a {kind_of(Z)}: give both as arrays of one library.")
    return cast(Z, X.dtype)


def _check_sparse(kernel: Kernel, X: Any) -> None:
    if issparse(X) and not kernel.accepts_sparse:
        raise TypeError(f"{kernel.name} does not take sparse data: use X.toarray(), or another kernel.")


def _check_foreign(kernel: Kernel, X: Any) -> None:
    if is_foreign(X) and not kernel.accepts_foreign:
        raise TypeError(f"{kernel.name} takes NumPy arrays only, X is a {kind_of(X)}: use NumPy, or another kernel.")


def _block(kernel: Kernel, X: Any) -> Any:
    _check_sparse(kernel, X)
    _check_foreign(kernel, X)
    block = columns_of(X, kernel.on)
    return block if block.dtype != object or kernel.accepts_objects else _as_numbers(kernel, block)


def _as_numbers(kernel: Kernel, block: np.ndarray) -> np.ndarray:
    try:
        return block.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{kernel.name} takes numbers, and X holds other things: name its columns with on=.") from None


def columns_of(X: Any, columns: tuple[int, ...] | None) -> Any:
    """Some columns of a matrix, without a copy where they are all or, in another library, side by side."""
    if columns is None:
        return X
    if not is_foreign(X):
        return X[:, list(columns)]
    first, last = columns[0], columns[-1] + 1
    if columns == tuple(range(first, last)):
        return X[:, first:last]
    return namespace(X).take(X, like(X, list(columns), "int64"), axis=1)


def rows_of(X: Any, rows: slice) -> Any:
    """Some rows of a matrix."""
    return X[rows, :] if is_foreign(X) else X[rows]


def with_diagonal(K: Array, value: float) -> Array:
    """A square matrix with every entry of its diagonal set; the matrix given may be changed."""
    if not is_foreign(K):
        np.fill_diagonal(K, value)
        return K
    xp, n = namespace(K), K.shape[0]
    return xp.where(xp.eye(n, dtype=xp.bool, device=device_of(K)), xp.full_like(K, value), K)


def _token(value: Any) -> Hashable:
    """A hashable stand-in that tells True from 1, and a slice from a tuple."""
    if isinstance(value, Kernel):
        return tuple(_token(getattr(value, f.name)) for f in fields(value) if f.compare)
    if isinstance(value, slice):
        return slice, value.start, value.stop, value.step
    if isinstance(value, tuple):
        return tuple((type(item), _token(item)) for item in value)
    if isinstance(value, dict):
        return dict, tuple((name, _token(item)) for name, item in value.items())
    return value


def _changed(f: Any, kernel: Kernel) -> bool:
    return getattr(kernel, f.name) != f.default


def _is_keyword(f: Any) -> bool:
    return f.kw_only


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _parts(kernel: Kernel, kind: type[_Combination]) -> tuple[Kernel, ...]:
    if not isinstance(kernel, kind) or kernel.on is not None:
        return (kernel,)
    own = kernel.group is not None and any(part.group != kernel.group for part in kernel.kernels)
    return (kernel,) if own else kernel.kernels


def _bracketed(kernel: Kernel, kind: type[Kernel]) -> str:
    return f"({kernel.name})" if isinstance(kernel, kind) else kernel.name


def _one(kernels: list[Kernel], refusal: str) -> Kernel:
    if len(kernels) != 1:
        raise ValueError(refusal)
    return kernels[0]
