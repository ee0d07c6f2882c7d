"""Curves and surfaces: what a part of a model adds to its decision values, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import like, namespace, to_host
from .assemble import check_whole
from .estimators.base import MKLEstimator
from .estimators.parts import NO_SAMPLES

__all__ = ["EffectShape", "effects", "fitted"]

FEW = 12  # different values up to which a column is shown value by value
INNER = (0.005, 0.995)  # quantiles of a column between which curves are drawn


@dataclass(frozen=True)
class EffectShape:
    """What a part adds to the decision values, along its one column or over its two.

    Attributes
    ----------
    name : str
        The part.
    columns : tuple of int
        Its columns, as positions.
    names : list of str
        Their names.
    grid : list of ndarray
        Values of each column at which the part is known, increasing.
    value : ndarray of shape (g,) or (g, h); with one more axis where a sample has several decision values
        What the part adds there.
    data : list of ndarray
        Values of each column in some of the training samples.
    discrete : list of bool
        Whether the grid of each column holds all the values that were seen.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from kernelweave import kernels as K
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> shape = kw.effects(kw.MKLRegressor(K.linear(on="each")).fit(X, y), "bmi", points=5)
    >>> shape.name, shape.grid[0].size, bool(shape.value[-1] > shape.value[0])
    ('bmi', 5, True)
    """

    name: str
    columns: tuple[int, ...]
    names: list[str]
    grid: list[np.ndarray]
    value: np.ndarray
    data: list[np.ndarray]
    discrete: list[bool]


def effects(model: Any, part: Any, points: int = 100) -> EffectShape:
    """Return the curve of a part of one column, or the surface of a part of two, as arrays.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline or search that ends in one
        Whose kernels look at single columns or pairs of them, such as ``kernels="effects"``. In a pipeline, columns are
        measured as its last step sees them.
    part : str, int, or tuple of names or positions of columns
        The part: its name in ``model.parts("columns")``, a column, or two columns.
    points : int, default=100
        Values of each column, where it has more than 12; of the columns of a pair, half as many.

    Returns
    -------
    EffectShape
        With ``grid`` and ``value``.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = kw.MKLRegressor("effects", approximation="explicit").fit(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2])
    >>> shape = kw.effects(model, (1, 2), points=20)
    >>> shape.name, shape.value.shape, bool(shape.value[0, 0] > 0 > shape.value[0, -1])
    ('column 1 : column 2', (10, 10), True)
    """
    model = fitted(model)
    check_whole("points", points)
    partition = model._partition("columns")
    place = _place(model, partition, part)
    columns = partition.columns[place]
    if columns is None or not 1 <= len(columns) <= 2:
        raise ValueError(
            f"part {partition.names[place]!r} looks at {len(columns or ())} columns, and only one or two can be drawn: "
            "choose another of model.parts('columns')."
        )
    sample = _rows(model)
    looked = sample[:, list(columns)]
    data = list(looked[np.all(looked == looked, axis=1)].T)  # without samples that lack them
    seen = [np.unique(values) for values in data]
    discrete = [
        values.size <= FEW or model._kinds.get(j) == "category" for j, values in zip(columns, seen, strict=True)
    ]
    steps = max(2, points if len(columns) == 1 else points // 2)
    grid = [few if whole else _spread(x, steps) for few, whole, x in zip(seen, discrete, data, strict=True)]
    rows = np.tile(sample[:1], (int(np.prod([some.size for some in grid])), 1))
    for j, values in zip(columns, np.meshgrid(*grid, indexing="ij"), strict=True):
        rows[:, j] = values.ravel()
    value = to_host(model._shares(_beside(model, rows), partition))[:, place]
    value = value.reshape(*(some.size for some in grid), -1)
    names = model._titles([(j,) for j in columns])
    value = value[..., 0] if value.shape[-1] == 1 else value
    return EffectShape(partition.names[place], columns, names, grid, value, data, discrete)


def fitted(model: Any) -> Any:
    """Look through searches and pipelines to the fitted estimator inside, or say what is missing."""
    while not isinstance(model, MKLEstimator):
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "named_steps"):
            model = model[-1]
        else:
            raise TypeError(f"model must be a fitted estimator of kernelweave; got {type(model).__name__}.")
    model.parts()  # which says so if it is not fitted
    if model._sample is None:
        raise ValueError(f"effects are drawn along {NO_SAMPLES}: use contributions(X, by='kernel').")
    return model


def _place(model: Any, partition: Any, part: Any) -> int:
    """Return which part is meant."""
    if isinstance(part, str) and part in partition.names:
        return partition.names.index(part)
    wanted = part if isinstance(part, tuple | list) else (part,)
    known = [str(name) for name in getattr(model, "feature_names_in_", [])]
    found = []
    for item in wanted:
        if isinstance(item, str) and item in known:
            found.append(known.index(item))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            if not -model.n_features_in_ <= item < model.n_features_in_:
                raise ValueError(f"part asks for column {item}, but the model has {model.n_features_in_} columns.")
            found.append(int(item) % model.n_features_in_)
        else:
            raise ValueError(f"part {item!r} is neither a part nor a column: choose from model.parts('columns').")
    columns = tuple(sorted(set(found)))
    if columns not in partition.columns:
        used = ", ".join(partition.names[:5]) or "none"
        raise ValueError(f"part {part!r} has no weight in this model; parts that have are {used}.")
    return partition.columns.index(columns)


def _rows(model: Any) -> np.ndarray:
    sample = model._sample
    return sample.toarray() if hasattr(sample, "toarray") else np.array(to_host(sample))


def _beside(model: Any, rows: np.ndarray) -> Any:
    """Return rows in the library and on the device of the model."""
    sample = model._sample
    if hasattr(sample, "toarray"):
        return type(sample)(rows)
    kind = str(sample.dtype).rsplit(".", 1)[-1]
    return rows.astype(sample.dtype) if namespace(sample) is namespace(rows) else like(sample, rows, kind)


def _spread(x: np.ndarray, count: int) -> np.ndarray:
    low, high = np.quantile(x, INNER)
    return np.linspace(low, high, count) if high > low else np.unique(x)
