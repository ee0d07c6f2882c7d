"""Pictures of what a model is made of: effects of columns, and what adds up to one prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import is_foreign, to_host
from ..effects import effects as shape_of
from ..effects import fitted
from ..tables import shorten
from .frame import BAR, FAINT, INK, LINES, _bars, _dress, _matplotlib, _model


def effects(model: Any, top: int = 9, output: int | None = None, figure: Any = None) -> Any:
    """Draw what columns and pairs of columns add to the decision values, those with the largest variance first.

    A column has a curve, with the density of the training samples under it, or bars where it has few values; a pair
    has a map, red where it adds and blue where it takes away. Curves and bars share one scale, and so do maps.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline or search that ends in one
        The model to look at; parts of more than two columns are left out.
    top : int, default=9
        How many parts to show at most.
    output : int, optional
        Which decision value, where a sample has several; the first by default.
    figure : matplotlib.figure.Figure, optional
        Where to draw; a new figure when absent.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = kw.MKLClassifier("effects", approximation="explicit").fit(X[50:], y[50:])
    >>> figure = kw.plot.effects(clf, top=4, figure=kw.plot.canvas().figure)
    >>> len(figure.axes) >= 4
    True
    """
    model = fitted(model)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}.")
    outputs = model.intercept_.size
    if output is not None and not 0 <= output < outputs:
        raise ValueError(f"output must be from 0 to {outputs - 1}, got {output}.")
    table = model._table(output or 0)
    drawn = [effect for effect in table if 1 <= len(effect.columns) <= 2 and effect.variance > 0][:top]
    if not drawn:
        raise ValueError("model has no part of one or two columns to draw: fit it with kernels='effects'.")
    shapes = [shape_of(model, effect.columns) for effect in drawn]
    values = [_of_output(shape.value, len(shape.columns), output) for shape in shapes]
    across = min(3, len(drawn))
    down = -(-len(drawn) // across)
    figure = _matplotlib("pyplot").figure(layout="constrained") if figure is None else figure
    figure.clear()
    figure.set_size_inches(3.5 * across, 2.7 * down)
    frames = np.ravel(figure.subplots(down, across, squeeze=False))
    lines = [value for value in values if value.ndim == 1]
    limits = (min(map(np.min, lines)), max(map(np.max, lines))) if lines else (0.0, 1.0)
    most = max((np.abs(value).max() for value in values if value.ndim == 2), default=1.0)
    for axes, effect, shape, value in zip(frames, drawn, shapes, values, strict=False):
        if value.ndim == 1:
            _draw_column(axes, shape, value, limits)
        else:
            _draw_pair(axes, shape, value, most)
        title = f"{shorten(effect.name, 30)}  {round(100 * effect.share)} %"
        axes.set_title(title, loc="left", color=INK, fontsize=9.5)
    for axes in frames[len(drawn) :]:
        axes.set_visible(False)
    return figure


def contributions(
    model: Any, x: Any, by: str = "columns", top: int = 12, output: int | None = None, ax: Any = None
) -> Any:
    """Draw what each part adds to the decision value of one sample, the largest first.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline or search that ends in one
        The model to look at.
    x : array of shape (d,), or table with one row
        The sample, as the estimator itself reads it.
    by : {"columns", "kernel", "group"}, default="columns"
        What a part is.
    top : int, default=12
        How many parts to show at most; the others are added up.
    output : int, optional
        Which decision value, where a sample has several; the first by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when absent.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier("effects", approximation="explicit").fit(X[50:], y[50:])
    >>> axes = kw.plot.contributions(clf, X[60], ax=kw.plot.canvas())
    >>> axes.get_xlabel()
    'adds to the decision value'
    """
    model = _model(model, "weights_")
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}.")
    row = _one_row(x)
    shares = np.asarray(to_host(model.contributions(row, by=by)), dtype=float)
    if len(shares) != 1:
        raise ValueError(f"x must be one sample, got {len(shares)}: give one row.")
    if output is not None and not 0 <= output < model.intercept_.size:
        raise ValueError(f"output must be from 0 to {model.intercept_.size - 1}, got {output}.")
    values = _of_output(shares[0], 1, output)
    names, constant = model.parts(by), float(model.intercept_[output or 0])
    order = np.argsort(-np.abs(values), kind="stable")
    shown, rest = order[:top], order[top:]
    labels = [*(_label_of(model, names[k], row, by) for k in shown), *([f"{rest.size} others"] if rest.size else [])]
    heights = np.append(values[shown], [values[rest].sum()] if rest.size else [])
    axes = _bars(np.append(heights, constant), [*labels, "constant"], ax)
    for bar in axes.patches:
        bar.set_color(BAR if bar.get_width() >= 0 else LINES[1])
    low, high = min(0.0, heights.min(initial=constant), constant), max(0.0, heights.max(initial=constant), constant)
    axes.set_xlim(low - 0.16 * (high - low), high + 0.16 * (high - low))
    axes.axvline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_xlabel("adds to the decision value")
    axes.set_title(f"decision value {values.sum() + constant:.3g}", loc="left", color=INK, fontsize=11)
    return axes


def _one_row(x: Any) -> Any:
    """Return a sample as a table of one row, in its own library."""
    if hasattr(x, "iloc") and x.ndim == 2:
        return x
    return x.reshape(1, -1) if is_foreign(x) else np.reshape(np.asarray(x), (1, -1))


def _of_output(value: np.ndarray, plain: int, output: int | None) -> np.ndarray:
    """Return the values of one decision value, where there are several."""
    if value.ndim == plain:
        return value
    return value[..., output or 0]


def _label_of(model: Any, name: str, row: Any, by: str) -> str:
    """Return the name of a part, with the sample's value where it is one column."""
    columns = dict(zip(model.parts(by), model._partition(by).columns, strict=True))[name]
    if by != "columns" or columns is None or len(columns) != 1:
        return shorten(name, 42)
    value = row.iloc[0, columns[0]] if hasattr(row, "iloc") else float(row[0, columns[0]])
    return f"{shorten(name, 42)} = {value:.4g}"


def _draw_column(axes: Any, shape: Any, value: np.ndarray, limits: tuple[float, float]) -> None:
    """Draw a curve over the density of the samples, or bars with their counts in the labels."""
    room = 0.08 * (limits[1] - limits[0]) or 1.0
    low, high = limits[0] - 2.5 * room, limits[1] + room
    grid, data = shape.grid[0], shape.data[0]
    if shape.discrete[0]:
        places, many = np.arange(grid.size), grid.size > 8
        axes.bar(places, value, width=0.7, color=[BAR if v >= 0 else LINES[1] for v in value])
        counts = [np.count_nonzero(data == v) for v in grid]
        form = "{:g} ({})" if many else "{:g}\n{}"
        labels = [form.format(v, count) for v, count in zip(grid, counts, strict=True)]
        axes.set_xticks(places, labels, rotation=90 if many else 0)
    else:
        heights, edges = np.histogram(data, bins=30, range=(grid[0], grid[-1]))
        tall = 2.0 * room * heights / max(heights.max(), 1)
        axes.bar(edges[:-1], tall, width=np.diff(edges), bottom=low, align="edge", color=FAINT, zorder=1)
        axes.plot(grid, value, color=BAR, linewidth=2, zorder=3)
        axes.set_xlim(grid[0], grid[-1])
    axes.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    axes.set_ylim(low, high)
    axes.set_xlabel(shorten(shape.names[0], 30), fontsize=9)
    _dress(axes, grid="y")


def _draw_pair(axes: Any, shape: Any, value: np.ndarray, most: float) -> None:
    """Draw a map, red where the pair adds and blue where it takes away, with some samples on it."""
    edges = [_edges(grid, whole) for grid, whole in zip(shape.grid, shape.discrete, strict=True)]
    image = axes.pcolormesh(edges[0], edges[1], value.T, cmap="RdBu_r", vmin=-most, vmax=most, rasterized=True)
    places = [
        np.searchsorted(grid, x) if whole else x
        for grid, whole, x in zip(shape.grid, shape.discrete, shape.data, strict=True)
    ]
    axes.plot(places[0], places[1], ".", color=INK, markersize=1.2, alpha=0.35)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    for axis, grid, whole in zip((axes.xaxis, axes.yaxis), shape.grid, shape.discrete, strict=True):
        if whole:
            axis.set_ticks(np.arange(grid.size), [f"{v:g}" for v in grid])
    axes.set_xlabel(shorten(shape.names[0], 30), fontsize=9)
    axes.set_ylabel(shorten(shape.names[1], 30), fontsize=9)
    _dress(axes, grid="both")
    axes.grid(False)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, colors=INK, labelsize=8)


def _edges(grid: np.ndarray, whole: bool) -> np.ndarray:
    """Return the borders of cells around the values of a grid."""
    if whole:
        return np.arange(grid.size + 1) - 0.5
    middle = 0.5 * (grid[1:] + grid[:-1])
    return np.concatenate([[2 * grid[0] - middle[0]], middle, [2 * grid[-1] - middle[-1]]])
