"""Effects of single columns and of pairs of them: centred kernels of few functions, and the bank made of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ..arrays import Array, is_foreign, like, namespace, to_host
from .base import Kernel, Product, _as_matrix, _check_sparse, check_positive
from .columns import Views, column_groups, known_names, plain, where

KNOTS = 64  # places of a column between which functions are straight
FEW = 10  # different whole numbers up to which each has a function of its own
LEVELS = 256  # categories that are told apart, the most frequent ones
FAINT = 1e-10  # of the largest variance of a function: what is below is rounding
FLAT = 1e-12  # of the mean square of functions: a variance below it is rounding
TAIL = 0.01  # share of the samples at each end of a column whose distance from the middle is the unit
FAR = 1.5  # of such units beyond which a value counts as no further out
RANKED = 0.25  # share that a value's rank has in its place, the rest is the value's own
WIDE = 0.25  # gamma of the Gaussian of numbers, on a scale of deviation 1


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions of one column, with mean zero on the training samples, uncorrelated there, largest variance first.

    They are given by their values at knots and straight between them, constant beyond the first and the last; for
    categories they are given at each category, and zero at those that were not seen.
    """

    kind: str  # "smooth", "levels", "category" or "linear"
    knots: np.ndarray  # (k,) increasing
    table: np.ndarray  # (k, r)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basis) and self._token() == other._token()

    def __hash__(self) -> int:
        return hash(self._token())

    def _token(self) -> tuple[Any, ...]:
        return self.kind, self.table.shape, self.knots.tobytes(), self.table.tobytes()

    @property
    def rank(self) -> int:
        """Number of functions."""
        return self.table.shape[1]

    def leading(self, count: int) -> Basis:
        """Return the first functions only, those of largest variance."""
        return replace(self, table=self.table[:, :count])

    def __call__(self, x: Array) -> Array:  # (n,) -> (n, r)
        """Return the functions at some values, in the precision and library of these."""
        xp = namespace(x)
        x = xp.asarray(x, copy=True)  # side by side in memory, which a search in it asks for
        knots, table = (like(x, values, _precision(x)) for values in (self.knots, self.table))
        place = xp.clip(xp.searchsorted(knots, x), 1, self.knots.size - 1)
        left, right = xp.take(knots, place - 1), xp.take(knots, place)
        low, high = xp.take(table, place - 1, axis=0), xp.take(table, place, axis=0)
        if self.kind == "category":
            return xp.where((x == right)[:, None], high, xp.where((x == left)[:, None], low, 0.0 * low))
        step = xp.clip((x - left) / (right - left), 0.0, 1.0)[:, None]
        return low + step * (high - low)


def _precision(x: Array) -> str:
    return "float32" if "float32" in str(x.dtype) else "float64"


def make_basis(
    x: np.ndarray,  # (n,)
    share: np.ndarray,  # (n,) summing to one
    *,
    kernel: Any = "smooth",
    rank: int = 8,
    category: bool = False,
) -> Basis | None:
    """Return the functions of a column, or None if it is constant, or all its values are alike to the kernel.

    Parameters
    ----------
    x : array of shape (n,)
        The column.
    share : array of shape (n,)
        Weights of the samples, which sum to one.
    kernel : "smooth" or Kernel, default="smooth"
        What decides which functions are simple, for columns that are neither categories nor of two values.
    rank : int, default=8
        Most functions of numbers; categories, and whole numbers of which there are few, have as many as they take.
    category : bool, default=False
        Whether the values are names of categories.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.kernels.effects import make_basis
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> basis = make_basis(x, np.full(50, 1 / 50), rank=3)
    >>> basis(x).shape, bool(np.abs(basis(x).mean(axis=0)).max() < 1e-12)
    ((50, 3), True)
    """
    values, which = np.unique(x, return_inverse=True)
    mass = np.bincount(which, weights=share, minlength=values.size)
    if values.size < 2:
        return None
    whole = values.size <= FEW and bool(np.all(values == np.round(values)))
    if values.size == 2:
        kind, knots, raw = "linear", values, np.array([[0.0], [1.0]])
    elif category:
        kind, knots, raw = "category", *_indicators(values, mass)
    elif whole and isinstance(kernel, str):
        line = _standardised(_unit(values), mass)
        kind, knots, raw = "levels", values, np.column_stack([line, np.eye(values.size)])
    else:
        knots = values if values.size <= KNOTS else _quantiles(values, mass)
        K = _wide(knots, values, mass) if isinstance(kernel, str) else _between(kernel, knots, x, share)
        kind, raw = "smooth", _root(K)
    return _principal(Basis(kind, knots, raw), values, mass, rank if kind == "smooth" else raw.shape[1])


def _principal(basis: Basis, values: np.ndarray, mass: np.ndarray, rank: int) -> Basis | None:
    """Return the functions centred and turned to their principal axes, their variances summing to one; None if flat."""
    told = np.isin(values, basis.knots) if basis.kind == "category" else np.ones(values.size, dtype=bool)
    weight, moments = _moments(basis.knots, values[told], mass[told])
    mean = weight @ basis.table / weight.sum()  # those not told apart are zero, which is the mean
    table = basis.table - mean
    variances, axes = np.linalg.eigh(table.T @ moments @ table)
    if variances[-1] <= FLAT * float(weight @ np.sum(basis.table**2, axis=1)):
        return None
    count = min(rank, int(np.sum(variances > FAINT * variances[-1])))
    axes = axes[:, ::-1][:, :count] / np.sqrt(variances[::-1][:count].sum())
    return replace(basis, table=table @ axes)


def _moments(knots: np.ndarray, values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (k,), (k, k)
    """Return first and second moments of where values lie between knots: enough for functions straight between them."""
    k = knots.size
    right = np.clip(np.searchsorted(knots, values), 1, k - 1)
    step = np.clip((values - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
    ends = ((right - 1, 1.0 - step), (right, step))
    weight, moments = np.zeros(k), np.zeros((k, k))
    for place, part in ends:
        weight += np.bincount(place, weights=mass * part, minlength=k)
        moments.flat[:: k + 1] += np.bincount(place, weights=mass * part**2, minlength=k)
    beside = np.bincount(right - 1, weights=mass * step * (1.0 - step), minlength=k)[: k - 1]
    moments[np.arange(k - 1), np.arange(1, k)] += beside
    moments[np.arange(1, k), np.arange(k - 1)] += beside
    return weight, moments


def _indicators(values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most frequent categories, and one function for each."""
    common = np.sort(np.argsort(-mass, kind="stable")[:LEVELS])
    return values[common], np.eye(common.size)


def _standardised(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    centred = values - mass @ values
    return centred / np.sqrt(mass @ centred**2)


def _quantiles(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return knots among the values, with about the same number of samples between each two."""
    below = np.cumsum(mass) - 0.5 * mass
    places = np.searchsorted(below, np.linspace(0.0, 1.0, KNOTS))
    places[0], places[-1] = 0, values.size - 1
    return values[np.unique(np.minimum(places, values.size - 1))]


def _wide(knots: np.ndarray, values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return a wide Gaussian kernel between knots: most of it is a line, less a curve, next to nothing wiggles."""
    places = _places(values, mass)
    mean = mass @ places
    t = np.interp(knots, values, places) / np.sqrt(mass @ (places - mean) ** 2)
    return np.exp(-WIDE * (t[:, None] - t) ** 2)


def _places(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return where values lie from 0 to 1: partly by rank among the samples, partly by value without far tails."""
    below = np.cumsum(mass) - 0.5 * mass
    low, middle, high = np.interp([TAIL, 0.5, 1.0 - TAIL], below, values)
    low, high = middle - FAR * (middle - low), middle + FAR * (high - middle)
    by_rank = _unit(below)
    by_value = _unit(np.clip(values, low, high)) if high > low else by_rank
    return RANKED * by_rank + (1.0 - RANKED) * by_value


def _unit(x: np.ndarray) -> np.ndarray:
    return (x - x[0]) / (x[-1] - x[0])


def _between(kernel: Kernel, knots: np.ndarray, x: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return a kernel of the user between knots, its parameters taken from the column."""
    made = kernel.resolve(x[:, None], sample_weight=share)
    return np.asarray(made[0](knots[:, None]))


def _root(K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Kernel):
    """The inner product of a few functions of one column, which have mean zero on the training samples.

    Parameters
    ----------
    basis : Basis
        The functions.
    on : see `Kernel`
        The column.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> effect = K.effects(degree=1)[0].resolve(X)[0]
    >>> effect(X)[0].tolist(), effect.name
    ([1.0, 1.0, -1.0, -1.0], 'linear on column 0')
    """

    basis: Any

    def prepare(self, X: Any, Z: Any = None) -> Array:
        rows = self.features(X)
        columns = rows if Z is None else Z.features if isinstance(Z, _Mapped) else self.features(Z)
        return rows @ namespace(rows).matrix_transpose(columns)

    def prepare_rows(self, Z: Any) -> Any:
        return _Mapped(self.features(Z))

    def finish(self, S: Array) -> Array:
        return S

    def features(self, X: Any) -> Array:  # (n, 1) -> (n, r)
        return self.basis(X[:, 0])

    def leading(self, count: int) -> Effect:
        """The kernel of the first functions only, those of largest variance."""
        fewer = Effect(self.basis.leading(count), on=self.on, group=self.group)
        fewer._labelled(self.name)
        return fewer

    def self_similarity(self, X: Any) -> Array:
        return namespace(X).sum(self.features(X) ** 2, axis=1)

    @property
    def accepts_sparse(self) -> bool:
        return False

    @property
    def accepts_foreign(self) -> bool:
        return True

    def _head(self, asked: Kernel) -> str:
        return self.basis.kind


class _Mapped:
    """Fixed rows, as their functions."""

    def __init__(self, features: Array):
        self.features = features


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Kernel):
    """One kernel for the effect of each column, and one for what each pair of columns has beyond their own effects.

    Stands for a list of kernels, which `resolve` gives. The kernel of a column is that of a few functions with mean
    zero on the training samples; that of a pair is the product of the two, so that its functions have mean zero along
    either column. A sum of functions, one from each kernel, and a constant can then be written in one way only.

    What the functions of a column are depends on it. Two values: one line. Categories: one function for each. Whole
    numbers of which there are few: one for each, and a line. All else: the functions of a wide Gaussian, on a scale
    that is partly the value and partly its rank among the samples, so that neither tails nor crowds are lost.
    Constant columns have no effect.

    Parameters
    ----------
    degree : int, default=2
        Columns that may act together: 1 for single columns only, 3 for triples too.
    kernel : "smooth" or Kernel, default="smooth"
        Decides which functions of numbers are simple; a kernel such as ``RBF(gamma=0.1)`` is used on the values.
    include : list of columns and of tuples of columns, optional
        The effects to consider, instead of all of up to ``degree`` columns.
    categories : list of columns, optional
        Columns whose numbers are names of categories; those with the type "category" in a DataFrame are by themselves.
    price : float, default=1.0
        What the weight of a pair costs, compared with that of a column; of a triple, the square of it.
    rank : int, default=8
        Most functions of a column of numbers on its own.
    pair_rank : int, default=4
        Most functions of each of the columns that act together, those of largest variance.
    on : see `Kernel`
        The columns to consider; None means all.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> [kernel.name for kernel in K.Effects().resolve(X, names=["a", "b", "c"])][2:4]
    ['smooth on c', 'smooth on a * smooth on b']
    """

    degree: int = 2
    kernel: Any = "smooth"
    include: Any = None
    categories: Any = None
    price: float = 1.0
    rank: int = 8
    pair_rank: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter in ("degree", "rank", "pair_rank"):
            value = getattr(self, parameter)
            if type(value) is not int or value < 1:
                raise ValueError(f"{parameter} of Effects must be a whole number from 1 on; got {value!r}.")
        if not isinstance(self.kernel, Kernel) and self.kernel != "smooth":
            raise ValueError(f"kernel of Effects must be 'smooth' or one kernel; got {self.kernel!r}.")
        if self.include == ():
            raise ValueError("include of Effects names no effect: leave it None for all of them.")
        check_positive(self, "price")

    def prepare(self, X: Any, Z: Any = None) -> Any:
        raise TypeError("Effects stands for several kernels: call resolve(X) to have them.")

    def finish(self, S: Any) -> np.ndarray:
        raise TypeError("Effects stands for several kernels: call resolve(X) to have them.")

    @property
    def accepts_sparse(self) -> bool:
        return False

    @property
    def accepts_foreign(self) -> bool:
        return True

    @property
    def _needs_data(self) -> bool:
        return True

    def normalised(self) -> Any:
        """Refuse to be normalised sample by sample, which would undo the centring."""
        raise ValueError("normalize='diagonal' would undo the centring of effects: use 'trace' or None.")

    def resolve(
        self,
        X: Any,
        names: Sequence[str] | None = None,
        frame: Any = None,
        sample_weight: Any = None,
        views: Views | None = None,
    ) -> list[Kernel]:
        """The kernels of single columns, then those of pairs, and so on.

        Parameters
        ----------
        X, names, frame, sample_weight, views
            As for `Kernel.resolve`.

        Returns
        -------
        list of Kernel
        """
        singles = {effect.on[0]: effect for effect in self.singles(X, names, frame, sample_weight, views)}
        resolved: list[Kernel] = []
        for columns in self._sets(X.shape[1], list(singles), known_names(names, frame)):
            if not all(j in singles for j in columns):
                continue  # constant
            if len(columns) == 1:
                resolved.append(singles[columns[0]])
                continue
            factors = tuple(singles[j].leading(self.pair_rank) for j in columns)
            product = Product(factors, group=self.group)
            product._labelled(" * ".join(factor.name for factor in factors))
            resolved.append(product._priced(self.price ** (len(factors) - 1)))
        if not resolved:
            raise ValueError("Effects has no column left to look at: every one of them is constant.")
        return resolved

    def singles(
        self,
        X: Any,
        names: Sequence[str] | None = None,
        frame: Any = None,
        sample_weight: Any = None,
        views: Views | None = None,
    ) -> list[Effect]:
        """The kernels of the single columns that are not constant."""
        X, names = _as_matrix(X), known_names(names, frame)
        _check_sparse(self, X)
        weight = np.ones(X.shape[0]) if sample_weight is None else to_host(sample_weight).astype(float)
        share = weight / weight.sum()
        told = self._told(X.shape[1], names, frame)
        effects, constant = [], []
        for j, place in self._considered(X.shape[1], names, frame, views).items():
            x = (to_host(X[:, j]) if is_foreign(X) else X[:, j]).astype(float)
            basis = make_basis(x, share, kernel=self.kernel, rank=self.rank, category=j in told)
            title = where((j,), names)
            if basis is None:
                constant.append(title.removeprefix(" on "))
            else:
                effect = Effect(basis, on=(j,), group=self.group or place)
                effect._labelled(basis.kind + title)
                effects.append(effect)
        if constant and effects:
            few = ", ".join(constant[:8]) + (f" and {len(constant) - 8} more" if len(constant) > 8 else "")
            warnings.warn(f"Columns constant on the training samples have no effect: {few}.", UserWarning, stacklevel=2)
        return effects

    def _considered(
        self, n_columns: int, names: Sequence[str] | None, frame: Any, views: Views | None
    ) -> dict[int, str | None]:
        """Return the columns to look at, each with the name of its view where that was asked for."""
        groups = column_groups(self._place(views), n_columns, names, frame, views)
        columns = {j: place for some, place in groups for j in (range(n_columns) if some is None else some)}
        if self.include is None:
            return columns
        wanted = {j for some in self._included(n_columns, names) for j in some}
        if not wanted <= set(columns):
            raise ValueError(f"include of Effects names column {min(wanted - set(columns))}, which on leaves out.")
        return {j: place for j, place in columns.items() if j in wanted}

    def _included(self, n_columns: int, names: Sequence[str] | None) -> list[tuple[int, ...]]:
        items = self.include if isinstance(self.include, tuple) else (self.include,)
        return [tuple(sorted(set(some))) for item in items for some in _named("include", item, n_columns, names, None)]

    def _told(self, n_columns: int, names: Sequence[str] | None, frame: Any) -> set[int]:
        """Return the columns that are said to be categories."""
        told: set[int] = set()
        if self.categories is not None and self.categories != ():
            told.update(*_named("categories", self.categories, n_columns, names, frame))
        if frame is not None:
            told |= {j for j, dtype in enumerate(frame.dtypes) if str(dtype) == "category"}
        return told

    def _sets(self, n_columns: int, columns: list[int], names: Sequence[str] | None) -> Iterable[tuple[int, ...]]:
        if self.include is not None:
            return dict.fromkeys(self._included(n_columns, names))
        return (some for size in range(1, self.degree + 1) for some in combinations(columns, size))


def _named(
    parameter: str, item: Any, n_columns: int, names: Sequence[str] | None, frame: Any
) -> list[tuple[int, ...]]:
    """Return the sets of columns that an item of a parameter stands for, or say which parameter makes no sense."""
    try:
        groups = column_groups(item, n_columns, names, frame)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{parameter} of Effects{str(error).removeprefix('on')}") from None
    return [tuple(range(n_columns)) if some is None else some for some, _ in groups]


def columns_together(kernels: Sequence[Kernel]) -> np.ndarray | None:
    """Return how many columns act together in each kernel of a bank of effects; None where it has other kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.kernels.effects import columns_together
    >>> columns_together(K.Effects().resolve(np.eye(3)[:, :2])).tolist(), columns_together([K.Linear()])
    ([1, 1, 2], None)
    """
    factors = [kernel.kernels if isinstance(kernel, Product) else (kernel,) for kernel in kernels]
    if not all(isinstance(one, Effect) for some in factors for one in some):
        return None
    return np.array([len(some) for some in factors])


def effects(
    degree: int = 2,
    kernel: Any = "smooth",
    include: Any = None,
    categories: Any = None,
    price: float = 1.0,
    rank: int = 8,
    pair_rank: int = 4,
    *,
    on: Any = None,
    group: str | None = None,
) -> list[Kernel]:
    """A list with one `Effects`: a kernel for each column and for each pair of columns.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.effects(price=3.0)
    [Effects(price=3.0)]
    """
    return [Effects(degree, kernel, plain(include), plain(categories), price, rank, pair_rank, on=on, group=group)]
