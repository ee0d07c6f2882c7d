"""Samples that come as several tables: put side by side, aligned by their index, and known by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse

from .parameters import MISSING, check_choice, check_unmasked


@dataclass(frozen=True)
class Table:
    """One table: its numbers, and the names of its rows and columns where it has any."""

    values: Any  # (n, d) array or CSR matrix
    columns: list[str] | None = None  # (d,)
    index: list[Any] | None = None  # (n,)


class Views:
    """Samples in several tables, the views, by name.

    `fit` and `predict` take a dictionary of tables, a list of them, a DataFrame whose columns have two levels, an
    AnnData or a MuData as they are. This class is the same as something that can be cut into rows, which
    cross-validation needs: give it to `GridSearchCV` or `cross_val_score`.

    Tables with an index (DataFrames, AnnData) are aligned by it, in the order of the first, a MuData in that of its
    `obs_names`; the others must have their samples in that order, and so must targets and weights. Every view must
    have every sample; or else, with ``missing="absent"``, samples that a view lacks are NaN in it, and those that the
    first view lacks come after its own (see ``index``).

    Parameters
    ----------
    tables : dict, list of tables, DataFrame with two levels of columns, AnnData or MuData
        A table is an array, a sparse matrix, a DataFrame of pandas or polars, an AnnData, or a list of strings, graphs
        or other objects, for kernels that take such. Those of a list are called "view 0", "view 1", ...; an AnnData
        alone is the view "X", a MuData has a view for each modality.
    layers, obsm : str or sequence of str, optional
        For an AnnData: further views, from its `layers` and `obsm`.
    var : str, optional
        For an AnnData: the column of `var` that says which view each variable belongs to, such as "feature_types".
    missing : {"refuse", "absent"}, default="refuse"
        Whether samples may lack views, as for the estimators.

    Attributes
    ----------
    columns : dict from str to tuple of int
        The columns of each view in the joined table: what `on=` and `kernels.views` take.
    column_names : list of str or None
        ``view:column`` for every column, if all tables name theirs.
    index : list or None
        The name of each sample, if tables have an index.
    shape : tuple of int
        Samples and columns of the joined table.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = kw.Views({"face": rng.normal(size=(60, 3)) + y[:, None], "voice": rng.normal(size=(60, 5))})
    >>> X.shape, X.columns["face"]
    ((60, 8), (0, 1, 2))
    >>> len(cross_val_score(kw.MKLClassifier("views"), X, y, cv=3))
    3
    """

    def __init__(
        self,
        tables: Any,
        *,
        layers: str | Sequence[str] = (),
        obsm: str | Sequence[str] = (),
        var: str | None = None,
        missing: str = "refuse",
    ):
        named = _tables(tables, _listed(layers), _listed(obsm), var)
        if named is None:
            raise TypeError(
                "tables must be a dictionary or list of tables, a DataFrame with two levels of columns, an AnnData or "
                f"a MuData; got {type(tables).__name__}."
            )
        if not named:
            raise ValueError("X holds no view: give at least one table with its name.")
        read = {str(name): _read(str(name), table) for name, table in named.items()}
        check_choice("missing", missing, MISSING)
        self.index, self.tables = _aligned(read, missing == "absent", _own_order(tables))

    @property
    def names(self) -> list[str]:
        """The names of the views."""
        return list(self.tables)

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The columns of each view in the joined table."""
        ends = np.cumsum([table.values.shape[1] for table in self.tables.values()]).tolist()
        return {name: tuple(range(a, b)) for name, a, b in zip(self.tables, [0, *ends], ends, strict=False)}

    @property
    def column_names(self) -> list[str] | None:
        """The name of every column, with its view before it, if all tables name theirs."""
        if any(table.columns is None for table in self.tables.values()):
            return None
        return [f"{name}:{column}" for name, table in self.tables.items() for column in table.columns or ()]

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and columns of the joined table."""
        shapes = [table.values.shape for table in self.tables.values()]
        return shapes[0][0], sum(shape[1] for shape in shapes)

    def joined(self) -> Any:  # (n, d)
        """Return all views side by side: an array, or a CSR matrix if any view is sparse."""
        blocks = [table.values for table in self.tables.values()]
        if any(block.dtype == object for block in blocks):
            return np.hstack([(block.toarray() if issparse(block) else block).astype(object) for block in blocks])
        if any(issparse(block) for block in blocks):
            return csr_matrix(hstack([csr_matrix(block) for block in blocks]))
        return np.hstack(blocks)

    def like(self, fitted: Views, missing: str = "refuse") -> Any:  # (n, d)
        """Return all views side by side in the order of a model's, or say in what they differ."""
        if missing == "absent" and set(self.names) < set(fitted.names):
            return self._with_empty(fitted).like(fitted)
        if set(self.names) != set(fitted.names):
            raise ValueError(f"X has the views {_few(self.names)}, the model was fitted on {_few(fitted.names)}.")
        for name, theirs in fitted.tables.items():
            ours = self.tables[name]
            if ours.values.shape[1] != theirs.values.shape[1]:
                raise ValueError(
                    f"view {name!r} of X has {ours.values.shape[1]} columns, the model was fitted on "
                    f"{theirs.values.shape[1]}."
                )
            if None not in (ours.columns, theirs.columns) and ours.columns != theirs.columns:
                raise ValueError(f"view {name!r} of X has other columns, or another order, than at fit.")
        ordered = object.__new__(Views)
        ordered.index, ordered.tables = self.index, {name: self.tables[name] for name in fitted.names}
        return ordered.joined()

    def _with_empty(self, fitted: Views) -> Views:
        """Return these views and those of a model that are not given, which no sample has."""
        filled = object.__new__(Views)
        filled.index, filled.tables = self.index, {
            name: self.tables.get(name, Table(np.full((len(self), theirs.values.shape[1]), np.nan), theirs.columns))
            for name, theirs in fitted.tables.items()
        }
        return filled

    def emptied(self) -> Views:
        """Return the same views without samples: what a model keeps of them."""
        empty = object.__new__(Views)
        empty.index, empty.tables = None, {
            name: Table(np.empty((0, table.values.shape[1])), table.columns) for name, table in self.tables.items()
        }
        return empty

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Return a view by its name, or all views of some samples."""
        if isinstance(key, str):
            return self.tables[key].values
        rows = np.arange(len(self))[key[0] if isinstance(key, tuple) else key]
        taken = object.__new__(Views)
        taken.index = None if self.index is None else [self.index[row] for row in np.atleast_1d(rows)]
        taken.tables = {
            name: Table(table.values[np.atleast_1d(rows)], table.columns, None) for name, table in self.tables.items()
        }
        return taken

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("Views are not a sequence of samples: use X['name'] for a view, X[rows] for some samples.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        joined = self.joined()
        return np.asarray(joined.toarray() if issparse(joined) else joined, dtype=dtype)

    def __repr__(self) -> str:
        parts = [f"{name} {table.values.shape[1]}" for name, table in self.tables.items()]
        return f"<Views of {len(self)} samples, columns: {', '.join(parts)}>"


def as_views(X: Any, missing: str = "refuse") -> Views | None:
    """Return X as views if it comes in several tables, else None.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import as_views
    >>> as_views([np.eye(3), np.ones((3, 2))])
    <Views of 3 samples, columns: view 0 3, view 1 2>
    >>> as_views(np.eye(3)) is None
    True
    """
    if isinstance(X, Views):
        return X
    return None if _tables(X, [], [], None) is None else Views(X, missing=missing)


def check_order(name: str, values: Any, index: Sequence[Any] | None) -> None:
    """Refuse targets or weights whose index names samples of the views, in another order or with others.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelweave.assemble import check_order
    >>> check_order("y", pd.Series([0, 1], ["ann", "bob"]), ["bob", "ann"])
    Traceback (most recent call last):
        ...
    ValueError: the index of y is not that of the views of X: use y.loc[kw.Views(X).index].
    """
    if index is None or not hasattr(values, "iloc"):
        return
    labels = values.index.tolist()
    if labels != list(index) and not set(labels).isdisjoint(index):
        way = f"{name}.loc[kw.Views(X).index]" if set(labels) >= set(index) else "one of the same samples, or an array"
        raise ValueError(f"the index of {name} is not that of the views of X: use {way}.")


def as_objects(X: Any) -> np.ndarray | None:
    """Return X as an array of objects with two dimensions if it holds other things than numbers, else None.

    That is a sequence of strings, graphs or other samples, or a table with columns that are not numbers.

    Examples
    --------
    >>> from kernelweave.assemble import as_objects
    >>> as_objects(["ACGT", "GATTACA"]).shape
    (2, 1)
    >>> as_objects([[1.0, 2.0], [3.0, 4.0]]) is None
    True
    """
    if isinstance(X, Views):
        joined = X.joined()
        return joined if joined.dtype == object else None
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        numeric = all(_is_numeric(X.iloc[:, j]) for j in range(X.shape[1]))
        return None if numeric else X.to_numpy(dtype=object)
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):  # polars
        table = X.to_numpy()
        return table.astype(object) if table.dtype.kind not in "biuf" else None
    return _sequence(X)


def _sequence(X: Any) -> np.ndarray | None:
    """Return samples one after another as a column of objects, if they are not numbers or rows of them."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return X.astype(object) if X.dtype.kind in "US" or (X.dtype == object and not _holds_numbers(X)) else None
    if not isinstance(X, (list, tuple)) and not (hasattr(X, "shape") and len(X.shape) == 1 and hasattr(X, "tolist")):
        return None
    items = list(X) if isinstance(X, (list, tuple)) else X.tolist()
    if not items or _holds_numbers(items):
        return None
    column = np.empty((len(items), 1), dtype=object)
    column[:, 0] = items if all(isinstance(item, str) for item in items) else None
    if column[0, 0] is None:
        for row, item in enumerate(items):  # one by one: NumPy would look into lists
            column[row, 0] = item
    return column


def _holds_numbers(items: Any) -> bool:
    """Whether something is an array of numbers; strings are never taken for numbers."""
    try:
        found = np.asarray(items)
    except ValueError:  # rows of different lengths
        return False
    if found.dtype != object:
        return found.dtype.kind in "biufc"
    try:
        return not any(isinstance(item, (str, bytes)) for item in found.ravel()) and found.astype(float).ndim > 0
    except (TypeError, ValueError):
        return False


def check_columns(X: Any, place: str = "X") -> None:
    """Refuse columns of a DataFrame, of pandas or polars, that are not numbers, by name; and dates, and masks."""
    check_unmasked(place, X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"{place} holds {X.dtype}, not numbers: give dates as numbers, as days since 2000, say.")
    if hasattr(X, "get_columns"):  # of polars
        known = [dtype.is_numeric() or str(dtype) == "Boolean" for dtype in X.dtypes]
        bad = [name for name, numeric in zip(X.columns, known, strict=True) if not numeric]
    elif hasattr(X, "iloc") and hasattr(X, "columns"):
        bad = [str(name) for j, name in enumerate(X.columns) if not _is_numeric(X.iloc[:, j])]
    else:
        return
    if bad:
        raise ValueError(
            f"{place} has columns that are not numbers: {_few(bad)}; drop them, or encode them as numbers first."
        )


def _is_numeric(column: Any) -> bool:
    if column.dtype.kind in "biuf":
        return True
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return column.dtype.kind == "O"


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _few(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _is_annotated(X: Any) -> bool:
    return all(hasattr(X, name) for name in ("X", "var_names", "obs_names", "obsm", "layers"))


def _tables(X: Any, layers: list[str], obsm: list[str], var: str | None) -> dict[Any, Any] | None:
    """Return the tables by name, or None if X is one table or none."""
    if _is_annotated(X) and not hasattr(X, "mod"):
        return _annotated(X, layers, obsm, var)
    if layers or obsm or var is not None:
        raise ValueError("layers=, obsm= and var= are for an AnnData: leave them out.")
    if isinstance(X, Mapping) and not issparse(X):  # a kind of sparse matrix is a dictionary too
        return dict(X)
    if hasattr(X, "mod") and hasattr(X, "obs_names"):
        return dict(X.mod)
    if isinstance(X, (list, tuple)) and X and all(len(getattr(part, "shape", ())) == 2 for part in X):
        return {f"view {k}": part for k, part in enumerate(X)}
    if getattr(getattr(X, "columns", None), "nlevels", 1) > 1:
        return {name: X[name] for name in dict.fromkeys(X.columns.get_level_values(0))}
    return None


def _annotated(X: Any, layers: list[str], obsm: list[str], var: str | None) -> dict[Any, Any]:
    """Return the matrix of an AnnData, whole or split by a column of `var`, and the layers and obsm asked for."""
    columns, index = _words(X.var_names), list(X.obs_names)
    tables: dict[Any, Any] = {}
    if var is None:
        tables["X"] = Table(X.X, columns, index)
    elif var not in X.var.columns:
        raise ValueError(f"var={var!r} is not a column of X.var, which has {_few(list(X.var.columns))}.")
    else:
        labels = np.asarray(X.var[var]).astype(str)
        for label in dict.fromkeys(labels.tolist()):
            places = np.flatnonzero(labels == label)
            tables[label] = Table(X.X[:, places], [columns[j] for j in places], index)
    for kind, names, home in (("layers", layers, X.layers), ("obsm", obsm, X.obsm)):
        for name in names:
            if name not in home:
                raise ValueError(f"{kind}: {name!r} is not in X.{kind}, which has {_few(list(home.keys())) or 'none'}.")
            own = columns if kind == "layers" else None
            tables[name] = Table(home[name], own, index)
    return tables


def _words(names: Any) -> list[str]:
    return [str(name) for name in names]


def _read(name: str, table: Any) -> Table:
    """Return one table as numbers, or say what is wrong with it."""
    place = f"view {name!r} of X"
    if _is_annotated(table):
        table = Table(table.X, _words(table.var_names), list(table.obs_names))
    if isinstance(table, Table):
        if not hasattr(table.values, "iloc"):
            return Table(_numbers(table.values, place), table.columns, table.index)
        return Table(_numbers(table.values.to_numpy(), place), _words(table.values.columns), table.index)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        check_columns(table, place)
        return Table(_numbers(table.to_numpy(), place), _words(table.columns), table.index.tolist())
    if hasattr(table, "to_numpy") and hasattr(table, "columns"):  # polars, which has no index
        return Table(_numbers(table.to_numpy(), place), _words(table.columns))
    if hasattr(table, "iloc"):  # a Series, of objects
        column = _sequence(table)
        return Table(_numbers(table, place) if column is None else column, None, table.index.tolist())
    column = None if issparse(table) or getattr(table, "ndim", 1) > 1 else _sequence(table)
    return Table(_numbers(table, place) if column is None else column)


def _numbers(values: Any, place: str) -> Any:
    """Return a matrix of float32 or float64."""
    values = values.tocsr() if issparse(values) else np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"{place} must have two dimensions, samples and columns; its shape is {values.shape}.")
    if values.dtype in (np.float32, np.float64):
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{place} holds something that is not a number: drop it, or encode it first.") from None


def _own_order(X: Any) -> list[Any] | None:
    """Return the samples of a MuData, which has an order of its own."""
    return list(X.obs_names) if hasattr(X, "mod") and hasattr(X, "obs_names") else None


def _aligned(
    tables: dict[str, Table], fill: bool, order: list[Any] | None
) -> tuple[list[Any] | None, dict[str, Table]]:
    """Return the index and the tables with their rows in the order given, or else in that of the first that has one.

    With ``fill``, samples that a table lacks are NaN in it, and those that the first lacks come after its own.
    """
    first = next((name for name, table in tables.items() if table.index is not None), None)
    sizes = {table.values.shape[0] for table in tables.values() if table.index is None}
    if first is None:
        _check_sizes(tables, sizes)
        return None, tables
    index = tables[first].index if order is None else order
    assert index is not None
    if fill:
        known = {name: table for name, table in tables.items() if table.index is not None}
        for name, table in known.items():
            _check_unique(name, table.index)
        index = list(dict.fromkeys([*index, *(label for table in known.values() for label in table.index or ())]))
        tables = {name: _filled(table, index) if name in known else table for name, table in tables.items()}
    _check_sizes({name: t for name, t in tables.items() if t.index is None or name == first}, sizes | {len(index)})
    whose = first if order is None else "obs_names"
    return index, {name: _in_order(name, table, whose, index) for name, table in tables.items()}


def _check_sizes(tables: dict[str, Table], sizes: set[int]) -> None:
    if len(sizes) > 1:
        counts = _few([f"{name} {table.values.shape[0]}" for name, table in tables.items()])
        raise ValueError(f"the views of X have different numbers of samples: {counts}; give every view every sample.")


def _check_unique(name: str, labels: Sequence[Any] | None) -> None:
    if labels is not None and len(set(labels)) < len(labels):
        raise ValueError(f"view {name!r} of X names samples twice, and views are aligned: make its index unique.")


def _filled(table: Table, index: list[Any]) -> Table:
    """Return a table with a row for each sample of the index, NaN where it has none."""
    assert table.index is not None
    if issparse(table.values) or table.values.dtype == object:
        raise ValueError("missing='absent' takes tables of numbers that are not sparse: use toarray().")
    place = {label: row for row, label in enumerate(table.index)}
    values = np.full((len(index), table.values.shape[1]), np.nan, dtype=table.values.dtype)
    rows = [row for row, label in enumerate(index) if label in place]
    values[rows] = table.values[[place[index[row]] for row in rows]]
    return Table(values, table.columns, index)


def _in_order(name: str, table: Table, first: str, index: list[Any]) -> Table:
    """Return a table with its rows in the order of the index, or say which samples it lacks."""
    if table.index is None or table.index == index:
        return table
    for who, labels in ((first, index), (name, table.index)):
        _check_unique(who, labels)
    place = {label: row for row, label in enumerate(table.index)}
    for less, more, lacking in (
        (name, first, [label for label in index if label not in place]),
        (first, name, [label for label in table.index if label not in set(index)]),
    ):
        if lacking:
            raise ValueError(
                f"view {less!r} of X lacks {len(lacking)} of the samples that {more!r} has, such as {lacking[0]!r}: "
                "use missing='absent', or keep only samples that every view has, with table.loc[common]."
            )
    rows = np.array([place[label] for label in index], dtype=int)
    return Table(table.values[rows], table.columns, index)
