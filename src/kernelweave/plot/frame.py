"""What all pictures share: axes, colours, bars, heat maps, and what is said where nothing can be drawn."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tables import NO_GROUP

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
