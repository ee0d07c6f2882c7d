"""Pictures of kernels: their weights, and those of pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tables import NO_GROUP, shorten
from .frame import INK, _bars, _heat_map, _model, _names


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
