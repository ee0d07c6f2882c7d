"""A report of a fitted model: one page that holds everything, for people who were not there."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..assemble import read_survival
from ..estimators.base import MKLEstimator
from .pieces import page
from .sections import SECTIONS, Seen

__all__ = ["report"]


def report(
    model: Any,
    X: Any,
    y: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    samples: int = 200,
    along_C: bool = True,
    stability: Any = None,
) -> Path:
    """Write a page about a fitted model: what was asked, what is proved, which kernels matter, how good it is.

    The page is one file that fetches nothing: it can be mailed, printed and read on a phone. It has the certificate,
    the weights by kernel and group, weights along C, effects of columns, the alignment of kernels, weights of products,
    ROC curve and calibration (or residuals, or survival by risk), what is said of each sample and why, fingerprints of
    the data and versions.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline or search that ends in one
        What the report is about.
    X : as for `predict`
        Samples to look at it with; such as were not fitted on tell most.
    y : as for `fit`, optional
        Their targets; without them there is nothing on how good the model is.
    path : str or path, default="report.html"
        The file to write.
    title : str, optional
        The first words of the page.
    samples : int, default=200
        Samples listed at most.
    along_C : bool, default=True
        Whether to fit again along C on the samples given, which takes some fits; done for up to 2000 samples.
    stability : Stability, optional
        What `kernelweave.stability` returned for this model, to be shown beside the weights.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier().fit(X[::2], y[::2])
    >>> file = kw.report(clf, X[1::2], y[1::2], path=f"{tempfile.mkdtemp()}/iris.html")
    >>> "<h2" in file.read_text(encoding="utf-8")
    True
    """
    seen = replace(_look(model, X, y, samples, along_C), stability=stability)
    made = [(name, section(seen)) for name, section in SECTIONS]
    kind = type(seen.model).__name__
    words = f"{kind}, {seen.model._manner}, looked at with {seen.n} samples."
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page(
        f"Report of a {kind}" if title is None else title,
        words,
        [(name, body) for name, body in made if body is not None],
        f"Made by kernelweave on {moment}.",
    )
    file = Path(path)
    file.write_text(text, encoding="utf-8")
    return file


def _look(model: Any, X: Any, y: Any, samples: int, along_C: bool) -> Seen:
    """Find the estimator, and what it is given of the samples."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}.")
    whole = getattr(model, "best_estimator_", model)
    estimator = whole[-1] if hasattr(whole, "named_steps") else whole
    if not isinstance(estimator, MKLEstimator):
        raise TypeError(f"report takes an estimator of kernelweave or a Pipeline of one, not {type(model).__name__}.")
    if not hasattr(estimator, "weights_"):
        raise ValueError(f"{type(estimator).__name__} is not fitted: fit it first, then report on it.")
    X = estimator._as_views(X, y=y)
    Z = whole[:-1].transform(X) if hasattr(whole, "named_steps") and len(whole) > 1 else X
    count = int(Z.shape[0]) if hasattr(Z, "shape") else len(Z)
    if y is not None and len(y) != count:
        raise ValueError(f"y has {len(y)} entries for {count} samples: give one for each.")
    if y is not None and "survival" in estimator._reads:
        y = read_survival(y, np.empty((count, 0)))
    return Seen(whole, estimator, X, Z, y, samples, along_C and not estimator._precomputed)

