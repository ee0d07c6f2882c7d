"""Pictures of several fits, or of one on its way: convergence, weights along C, choices, stability."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..problem import Descent
from ..tables import shorten
from .frame import BAR, FAINT, INK, LINES, _axes, _dress, _model


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
