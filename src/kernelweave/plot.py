"""Pictures of a fitted model: which kernels matter, how the gap closed, how the weights move with C.

Needs matplotlib (``pip install kernelweave[plot]``), which is loaded only when a picture is drawn.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import to_host
from .effects import effects as shape_of
from .effects import fitted
from .problem import Descent
from .tables import NO_GROUP, shorten

__all__ = [
    "canvas",
    "contributions",
    "convergence",
    "effects",
    "pairs",
    "path",
    "selection",
    "stability",
    "weights",
]

INK = "#30343b"
BAR = "#2f6f9f"
FAINT = "#c9ced6"
LINES = ("#2f6f9f", "#d1603d", "#3a8f5c", "#8a5aa8", "#c2932b", "#4aa3a2", "#b54a77", "#6b6f76")


def canvas(width: float = 7.0, height: float = 4.5) -> Any:
    """Make axes on a figure that is drawn to a file and never shown on a screen.

    Parameters
    ----------
    width, height : float
        The size of the figure in inches.

    Returns
    -------
    matplotlib.axes.Axes
        Save the picture with ``axes.figure.savefig(file)``.

    Examples
    --------
    >>> from kernelweave import plot
    >>> axes = plot.canvas(6, 4)
    >>> float(axes.figure.get_figwidth())
    6.0
    """
    return _matplotlib("figure").Figure(figsize=(width, height), layout="constrained").subplots()


def weights(
    clf: Any, top: int = 20, ax: Any = None, names: Sequence[str] | None = None, by: str = "kernel"
) -> Any:
    """Draw the weights of the kernels, or of groups of them, heaviest first.

    One problem gives horizontal bars, coloured by group where kernels are in groups; several give a heat map with a row
    for each problem.

    Parameters
    ----------
    clf : fitted estimator, or a Pipeline or search that ends in one
        The model to look at.
    top : int, default=20
        How many kernels to show at most; kernels without weight are left out.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when absent.
    names : sequence of str, optional
        Names to use instead of ``kernel_names_``.
    by : {"kernel", "group"}, default="kernel"
        Whether each kernel is drawn, or the sum of the weights in each group.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier().fit(X[:100], y[:100])
    >>> axes = kw.plot.weights(clf, ax=kw.plot.canvas())
    >>> axes.get_xlabel()
    'weight'
    """
    model = _model(clf, "weights_")
    values = np.atleast_2d(model.weights_)  # (n_problems, m)
    names, groups = _names(model, names), [NO_GROUP if group is None else group for group in model.kernel_groups_]
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}.")
    if by not in ("kernel", "group"):
        raise ValueError(f"by must be 'kernel' or 'group', got {by!r}.")
    if by == "group":
        found = list(dict.fromkeys(groups))
        values = np.stack([values[:, [group == name for group in groups]].sum(axis=1) for name in found], axis=1)
        names = groups = found
    size = np.abs(values).mean(axis=0)
    order = np.argsort(-size, kind="stable")[:top]
    shown = order[size[order] > 0]
    labels = [shorten(names[k], 42) for k in shown]
    if len(values) > 1:
        axes = _heat_map(values[:, shown], labels, model.problem_names_, ax)
    else:
        axes = _bars(values[0, shown], labels, ax, [groups[k] for k in shown] if by == "kernel" else [])
    used = np.count_nonzero(size)
    heaviest = f", the {len(shown)} heaviest shown" if len(shown) < used else ""
    axes.set_title(f"{used} of {len(names)} {by}s in use{heaviest}", loc="left", color=INK, fontsize=11)
    return axes


def pairs(clf: Any, top: int = 20, ax: Any = None, names: Sequence[str] | None = None) -> Any:
    """Draw the weights of products of two kernels, as a square with a row and a column for each kernel.

    Several problems are averaged. Beside the kernel that is 1 everywhere stand the kernels on their own.

    Parameters
    ----------
    clf : fitted estimator with penalty="spectral", or a Pipeline or search that ends in one
        The model to look at.
    top : int, default=20
        How many kernels to show at most, heaviest first; kernels without weight are left out.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when absent.
    names : sequence of str, optional
        Names to use instead of ``kernel_names_``.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.recipe("nuc-mkl").fit(X[50:], y[50:])
    >>> axes = kw.plot.pairs(clf, ax=kw.plot.canvas())
    >>> axes.get_title(loc="left")
    'products of 11 kernels'
    """
    model = _model(clf, "pair_weights_")
    values = model.pair_weights_ if model.pair_weights_.ndim == 2 else model.pair_weights_.mean(axis=0)
    names = _names(model, names)
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}.")
    own = np.diagonal(values)
    order = np.argsort(-own, kind="stable")[:top]
    shown = order[own[order] > 0]
    labels = [shorten(names[k], 42) for k in shown]
    axes = _heat_map(values[np.ix_(shown, shown)], labels, labels, ax, rows="")
    axes.set_aspect("equal")
    axes.set_title(f"products of {np.count_nonzero(own)} kernels", loc="left", color=INK, fontsize=11)
    return axes


def convergence(clf: Any, ax: Any = None) -> Any:
    """Draw the certified relative gap by seconds, or how far from stationary a problem that is not convex was.

    For a single problem also how far each bound was from the best of the other one.

    Parameters
    ----------
    clf : fitted estimator, or a Pipeline or search that ends in one
        The model to look at.
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
    >>> clf = kw.MKLClassifier().fit(X[:100], y[:100])
    >>> axes = kw.plot.convergence(clf, ax=kw.plot.canvas())
    >>> axes.get_yscale()
    'log'
    """
    model = _model(clf, "history_")
    histories = model.history_ if isinstance(model.history_, list | tuple) else [model.history_]
    axes = _axes(ax, 6.4, 4.0)
    descents = [history.violation for history in histories if isinstance(history, Descent)]
    if len(histories) == 1 and not descents:
        _bounds(axes, histories[0])
    else:
        for name, history, colour in zip(model.problem_names_, histories, itertools.cycle(LINES), strict=False):
            style = {"color": colour, "label": name, "linewidth": 1.4}
            if descents:
                _curve(axes, history.seconds, history.violation, **style)
            else:
                _gap(axes, history, **style)
    tol = getattr(model, "tol", None)
    if tol:
        axes.axhline(tol, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label=f"tol = {tol:g}", zorder=1)
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("violation of stationarity" if descents else "relative gap")
    _dress(axes, grid="both")
    if len(axes.get_legend_handles_labels()[0]) <= 12:
        axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left")
    return axes


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
        axes.set_title(f"{shorten(effect.name, 30)}  {100 * effect.share:.0f} %", loc="left", color=INK, fontsize=9.5)
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
    row = x if hasattr(x, "iloc") and x.ndim == 2 else np.reshape(np.asarray(x), (1, -1))
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


def path(path: Any, ax: Any = None) -> Any:
    """Draw the weights of the kernels along a path of C, with the largest ones named at the right.

    Parameters
    ----------
    path : Path
        What `kernelweave.path` returned.
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
    >>> along = kw.path(kw.MKLClassifier(), X[:100], y[:100], C=[0.1, 1, 10])
    >>> axes = kw.plot.path(along, ax=kw.plot.canvas())
    >>> axes.get_xscale()
    'log'
    """
    C = np.asarray(path.C, dtype=float)
    values = np.asarray(path.weights, dtype=float)
    several = values.ndim == 3  # (len, n_problems, m)
    values = values.mean(axis=1) if several else values
    order = np.argsort(C)
    C, values = C[order], values[order]
    axes = _axes(ax, 7.6, 4.4)
    largest = [k for k in np.argsort(-values.max(axis=0), kind="stable")[: len(LINES)] if values[:, k].any()]
    axes.plot(C, np.delete(values, largest, axis=1), color=FAINT, linewidth=0.9, zorder=1)
    marker = "o" if len(C) <= 25 else ""
    for k, colour in zip(largest, LINES, strict=False):
        axes.plot(C, values[:, k], color=colour, linewidth=1.8, marker=marker, markersize=3, zorder=2, clip_on=False)
    axes.set_xscale("log")
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("C")
    axes.set_ylabel("mean weight over problems" if several else "weight")
    _dress(axes, grid="both")
    _name_ends(axes, values[-1, largest], [shorten(path.kernel_names[k], 34) for k in largest])
    return axes


def selection(model: Any, ax: Any = None) -> Any:
    """Draw the scores of every candidate along C, with their standard errors, and what was chosen.

    Parameters
    ----------
    model : fitted MKLClassifierCV, MKLRegressorCV or MKLSurvivalCV, or a Pipeline that ends in one
        The model to look at.
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
    >>> clf = kw.MKLClassifierCV(Cs=[0.1, 1.0], candidates=["uniform", "l1"], cv=2).fit(X, y)
    >>> kw.plot.selection(clf, ax=kw.plot.canvas()).get_xlabel()
    'C'
    """
    model = _model(model, "cv_results_")
    table = model.cv_results_
    scores = np.stack([column for name, column in table.items() if name.startswith("split")], axis=1)
    names, costs = np.asarray(table["param_candidate"]), np.asarray(table["param_C"], dtype=float)
    axes = _axes(ax, 7.6, 4.4)
    highest = {name: np.nanmax(np.nanmean(scores[names == name], axis=1)) for name in dict.fromkeys(names)}
    shown = sorted(highest, key=lambda name: -highest[name])[: len(LINES)]
    for name in highest:
        if name not in shown:
            part = np.nanmean(scores[names == name], axis=1)
            axes.plot(costs[names == name], part, color=FAINT, linewidth=0.8, zorder=0)
    for name, colour in zip((name for name in highest if name in shown), LINES, strict=False):
        here = names == name
        seen = ~np.isnan(scores[here]).any(axis=0)
        part = scores[here][:, seen]
        mean, error = part.mean(axis=1), part.std(axis=1, ddof=1 if seen.sum() > 1 else 0) / np.sqrt(seen.sum())
        dropped = seen.sum() < scores.shape[1]
        axes.fill_between(costs[here], mean - error, mean + error, color=colour, alpha=0.0 if dropped else 0.12, lw=0)
        style = {"linestyle": ":", "linewidth": 1.1} if dropped else {"linewidth": 1.8, "marker": "o", "markersize": 3}
        label = shorten(str(name), 30) + (f", dropped after {seen.sum()} folds" if dropped else "")
        axes.plot(costs[here], mean, color=colour, label=label, **style)
    best = model.best_index_
    axes.plot(costs[best], model.best_score_, marker="o", markersize=11, markerfacecolor="none", color=INK)
    axes.set_xscale("log")
    axes.margins(x=0.02)
    axes.set_xlabel("C")
    axes.set_ylabel("score in cross-validation")
    _dress(axes, grid="both")
    more = len(highest) - len(shown)
    words = {"title": f"the best {len(shown)}; {more} others in grey", "title_fontsize": 9} if more else {}
    place = {"loc": "lower right"} if len(shown) <= 5 else {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, **place, **words)
    chosen = f"{model.best_candidate_}, C={costs[best]:.3g}: {model.best_score_:.4g}"
    axes.set_title(chosen, loc="left", color=INK, fontsize=11)
    return axes


def stability(found: Any, top: int = 20, ax: Any = None) -> Any:
    """Draw how often each kernel is selected, most often first, with the threshold.

    Parameters
    ----------
    found : Stability
        What `kernelweave.stability` returned.
    top : int, default=20
        How many kernels to show at most; kernels that are never selected are left out.
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
    >>> found = kw.stability(kw.MKLClassifier(), X[50:], y[50:], n_resamples=4, random_state=0)
    >>> kw.plot.stability(found, ax=kw.plot.canvas()).get_xlabel()
    'share of the halves in which it is selected'
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}.")
    order = np.argsort(-found.frequencies, kind="stable")[:top]
    order = order[found.frequencies[order] > 0]
    axes = _axes(ax, 7.0, 1.4 + 0.27 * max(len(order), 2))
    rows, colours = np.arange(len(order)), [BAR if found.selected[k] else FAINT for k in order]
    axes.barh(rows, found.frequencies[order], height=0.68, color=colours)
    axes.set_yticks(rows, [shorten(found.kernel_names[k], 42) for k in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.0)
    axes.axvline(found.threshold, color=INK, linewidth=1.0)
    if found.decoy_threshold is not None:
        axes.axvline(found.decoy_threshold, color=LINES[1], linewidth=1.0, linestyle="--")
        axes.annotate("decoys", (found.decoy_threshold, len(order) - 0.5), (3, 2), textcoords="offset points",
                      fontsize=8, color=LINES[1])  # fmt: skip
    axes.set_xlabel("share of the halves in which it is selected")
    _dress(axes, grid="x")
    axes.spines["left"].set_visible(False)
    chosen, m = int(found.selected.sum()), len(found.frequencies)
    title = f"{chosen} of {m} kernels selected, at most {found.bound:.2g} by chance"
    axes.set_title(title, loc="left", color=INK, fontsize=11)
    return axes


def _matplotlib(part: str) -> Any:
    """Load a part of matplotlib, or say how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{part}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "kernelweave.plot needs matplotlib; install it with: pip install kernelweave[plot]",
            name=error.name,
        ) from error


def _axes(ax: Any, width: float, height: float) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return _matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]


def _model(fitted: Any, attribute: str) -> Any:
    """Look through searches and pipelines to the fitted estimator inside."""
    while not hasattr(fitted, attribute):
        if hasattr(fitted, "best_estimator_"):
            fitted = fitted.best_estimator_
        elif hasattr(fitted, "named_steps"):
            fitted = fitted[-1]
        else:
            raise ValueError(_cannot_draw(fitted, attribute))
    return fitted


def _cannot_draw(model: Any, attribute: str) -> str:
    """Say why a model cannot be drawn."""
    kind = type(model).__name__
    if not hasattr(model, "weights_"):
        return f"{kind} has no {attribute}; fit it first, then draw it."
    if attribute == "pair_weights_":
        return f"{kind} was fitted without weights of products: fit with penalty='spectral', or draw plot.weights."
    return f"{kind} keeps no {attribute}: it learned from a stream, which has none."


def _names(model: Any, names: Sequence[str] | None) -> list[str]:
    """Return the names given, one for each kernel, or the model's own."""
    chosen, m = list(model.kernel_names_ if names is None else names), len(model.kernel_names_)
    if len(chosen) != m:
        raise ValueError(f"names has {len(chosen)} entries for {m} kernels; give one each.")
    return chosen


def _bars(values: np.ndarray, labels: list[str], ax: Any, groups: Sequence[str] = ()) -> Any:
    """Draw one bar for each kernel with its number at the end, to the left for weights below zero."""
    axes = _axes(ax, 7.0, 1.1 + 0.27 * max(len(labels), 2))
    rows, known = np.arange(len(labels)), list(dict.fromkeys(groups))
    colours = dict(zip(known, itertools.cycle(LINES), strict=False)) if known != [NO_GROUP] else {}
    drawn = axes.barh(rows, values, height=0.68, color=[colours.get(group, BAR) for group in groups] or BAR)
    if colours:
        first = [drawn[list(groups).index(group)] for group in known[:12]]
        axes.legend(first, known[:12], frameon=False, fontsize=9, labelcolor=INK, loc="lower right")
    axes.set_yticks(rows, labels)
    axes.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    for row, value in zip(rows, values, strict=True):
        axes.annotate(
            f"{value:.3g}",
            (value, row),
            (4 if value >= 0 else -4, 0),
            textcoords="offset points",
            va="center",
            ha="left" if value >= 0 else "right",
            fontsize=8,
            color=INK,
        )
    axes.set_xlim(1.12 * values.min(initial=0.0), 1.12 * values.max(initial=1e-12))
    axes.set_xlabel("weight")
    _dress(axes, grid="x")
    axes.spines["left"].set_visible(False)
    return axes


def _heat_map(values: np.ndarray, labels: list[str], problems: list[str], ax: Any, rows: str = "problem") -> Any:
    """Draw problems by kernels, darker for more weight, white for none, red for weights below zero."""
    size = (2.2 + 0.42 * max(len(labels), 4), 2.6 + 0.3 * len(problems))
    axes = _axes(ax, *size)
    low, most = float(values.min(initial=0.0)), float(np.abs(values).max(initial=1e-12))
    colours = {"cmap": "Blues", "vmin": 0.0} if low >= 0 else {"cmap": "RdBu", "vmin": -most, "vmax": most}
    image = axes.imshow(np.ma.masked_equal(values, 0), aspect="auto", **colours)
    axes.set_xticks(np.arange(len(labels)), labels, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(len(problems)), problems)
    axes.set_xticks(np.arange(-0.5, len(labels)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(problems)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.set_ylabel(rows, color=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(which="both", length=0, colors=INK, labelsize=9)
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, colors=INK, labelsize=8)
    bar.set_label("weight", color=INK, fontsize=9)
    return axes


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
    value = row.iloc[0, columns[0]] if hasattr(row, "iloc") else row[0, columns[0]]
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


def _bounds(axes: Any, history: Any) -> None:
    """Draw the gap of one problem, and the part of it that each bound accounts for."""
    lower, upper = np.asarray(history.lower, dtype=float), np.asarray(history.upper, dtype=float)
    low, high = np.max(lower), np.min(upper)
    scale = max(abs(low), abs(high), np.finfo(float).tiny)
    above, below = (upper - low) / scale, (high - lower) / scale
    _gap(axes, history, color=BAR, label="relative gap", linewidth=2)
    if above.size > 1:
        _curve(axes, history.seconds, above, color=LINES[1], label="upper bound above the best lower")
        _curve(axes, history.seconds, below, color=LINES[2], label="lower bound below the best upper")
    if above.size and history.gap[-1] > 0:
        place = {"textcoords": "offset points", "ha": "right", "color": INK, "fontsize": 9}
        axes.annotate(f"{history.gap[-1]:.1e}", (history.seconds[-1], history.gap[-1]), (-8, -3), **place)


def _gap(axes: Any, history: Any, **style: Any) -> None:
    """Draw what was known of the gap from the beginning on: before the first bounds, only that nothing is negative."""
    seconds, gap = np.asarray(history.seconds, dtype=float), np.asarray(history.gap, dtype=float)
    if seconds.size and np.all(np.asarray(history.lower) >= 0) and gap[0] < 1:
        seconds, gap = np.insert(seconds, 0, 0.0), np.insert(gap, 0, 1.0)
    _curve(axes, seconds, gap, drawstyle="steps-post", markersize=4, **style)


def _curve(axes: Any, seconds: Any, values: Any, **style: Any) -> None:
    """Draw what can stand on a logarithmic axis."""
    seconds, values = np.asarray(seconds, dtype=float), np.asarray(values, dtype=float)
    fits = np.isfinite(values) & (values > 0)
    marker = "o" if fits.sum() <= 40 else ""
    axes.plot(seconds[fits], values[fits], **{"linewidth": 1.1, "marker": marker, "markersize": 2.5, **style})


def _dress(axes: Any, grid: str) -> None:
    """Light grid behind, no box, quiet ticks."""
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#e6e8ec", linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(which="both", length=0, colors=INK, labelsize=9)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def _name_ends(axes: Any, ends: np.ndarray, labels: list[str]) -> None:
    """Write each label beside the end of its line, moved apart where they would overlap."""
    heights = _apart(ends, 0.052 * axes.get_ylim()[1])
    frame = ("axes fraction", "data")
    line = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    for end, height, label, colour in zip(ends, heights, labels, LINES, strict=False):
        text = axes.annotate(label, (1, end), (1.03, height), frame, frame, line | {"color": colour}, False)
        text.set(color=colour, fontsize=8.5, va="center")


def _apart(heights: np.ndarray, room: float) -> np.ndarray:
    """Raise heights, lowest first, until each has room above the one below."""
    heights, floor = np.array(heights, dtype=float), -np.inf
    for j in np.argsort(heights, kind="stable"):
        heights[j] = max(heights[j], floor)
        floor = heights[j] + room
    return heights
