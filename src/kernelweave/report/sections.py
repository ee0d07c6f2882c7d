"""The sections of a report: each looks at a fitted model and some samples, and returns a piece of a page or None."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, r2_score, roc_auc_score, roc_curve

from ..assemble import Views, as_views
from ..assemble.expansion import Expansion
from ..kernels import evaluate
from ..path import path as along_costs
from ..tables import NO_GROUP, group_shares
from . import charts, pieces

TOP = 20  # kernels, classes or parts shown at most
FEW = 12  # rows and columns of a matrix shown at most
SOME = 300  # samples on which kernels are compared
PATH = 2000  # samples up to which weights are followed along C


@dataclass(frozen=True)
class Seen:
    """A fitted model, the samples it is looked at with, and how both are to be read."""

    whole: Any  # estimator or pipeline
    model: Any  # the estimator
    X: Any  # as given
    Z: Any  # as the estimator takes them
    y: Any  # (n,), or event and time, or None
    most: int  # samples in the table of samples
    along: bool  # whether to follow weights along C
    stability: Any = None  # what `kernelweave.stability` returned

    @property
    def task(self) -> str:
        """What the model learns."""
        reads = self.model._reads
        return "classification" if "binary" in reads else reads[0]

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.Z.shape[0]) if hasattr(self.Z, "shape") else len(self.Z)

    def scores(self) -> np.ndarray:  # (n,) or (n, n_outputs)
        """Return decision values, or predicted numbers and risks."""
        say = self.whole.decision_function if hasattr(self.whole, "decision_function") else self.whole.predict
        return np.asarray(say(self.X), dtype=float)


def asked(seen: Seen) -> str:
    """What was asked for, and of what."""
    model, groups = seen.model, dict.fromkeys(group for group in seen.model.kernel_groups_ if group is not None)
    rows: list[tuple[str, Any]] = [("estimator", type(model).__name__), ("task", seen.task)]
    if hasattr(model, "classes_"):
        rows.append(("classes", ", ".join(map(str, model.classes_))))
    rows += [("kernels", len(model.kernel_names_))]
    if groups:
        rows.append(("groups of kernels", ", ".join(groups)))
    best = getattr(model, "best_params_", {})
    if best:
        rows.append(("chosen by cross-validation", f"{model.best_candidate_}, mean score {model.best_score_:.4g}"))
    for name in ("penalty", "loss", "C", "nu", "normalize", "approximation", "tol", "random_state"):
        value = best.get(name, getattr(model, name, None))
        if value is not None:
            rows.append((name, value))
    rows += [("solver", model.solver_), ("kernels stored", model.storage_)]
    rows += [("training samples", model._n_samples), ("columns", model.n_features_in_)]
    return pieces.facts(rows)


def certificate(seen: Seen) -> str:
    """What is proved of the answer."""
    model = seen.model
    found = model._certificates
    if hasattr(model, "stationarity_"):
        values = [one.violation for one in found]
        words = "The problem is not convex, and nothing bounds its optimum: this is how far it is from stationary."
        picture = charts.gaps("Stationarity", model._certified, values, model.tol, "violation of stationarity")
        return pieces.text(words) + picture
    if not found:
        return pieces.text("The model learned from a stream, which keeps no samples: there is no certificate.")
    names = model._certified if len(found) > 1 else ["the problem"]
    values = [one.gap for one in found]
    words = (
        f"The best possible objective lies between the two bounds of each line: the answer is within "
        f"{max(values):.2g} of it, relative to its size; {model.tol:g} was asked for."
    )
    rows = [[name, one.lower, one.upper, one.gap] for name, one in zip(names, found, strict=True)]
    picture = charts.gaps("Relative duality gaps", names[:TOP], values[:TOP], model.tol, "relative duality gap")
    words += "" if model.approximation_error_ is None else " It is about the approximated kernels."
    header = ["problem", "lower bound", "upper bound", "relative gap"]
    return pieces.text(words) + picture + pieces.table(header, rows, "Certificates")


def weights(seen: Seen) -> str:
    """Which kernels, and which groups of them, the model uses."""
    model = seen.model
    values = np.atleast_2d(model.weights_)  # (n_problems, m)
    size = np.abs(values).mean(axis=0)
    order = [k for k in np.argsort(-size, kind="stable") if size[k] > 0]
    if not order:
        return pieces.text("No kernel has any weight: the decision function is constant.")
    used = f"{len(order)} of {len(size)} kernels have weight"
    parts = [pieces.text(used + (", means over all problems." if len(values) > 1 else "."))]
    shares = group_shares(model.kernel_groups_, values)
    if set(shares) != {NO_GROUP}:
        rows = [(name, f"{100 * share:.1f} %", share) for name, share in list(shares.items())[:TOP]]
        parts += [pieces.heading("By group"), pieces.bars(("group", "share", ""), rows)]
    rows = [(model.kernel_names_[k], f"{values[:, k].mean():.4g}", size[k]) for k in order[:TOP]]
    parts += [pieces.heading("By kernel"), pieces.bars(("kernel", "weight", ""), rows)]
    if len(order) > TOP:
        parts.append(pieces.text(f"And {len(order) - TOP} more with less weight.", soft=True))
    if len(values) > 1:
        names = [model.kernel_names_[k] for k in order[:FEW]]
        parts.append(pieces.heading("By problem"))
        parts.append(pieces.heat(model.problem_names_[:FEW], names, values[:FEW, order[:FEW]].T, "Weights by problem"))
    return "".join(parts)


def stability(seen: Seen) -> str | None:
    """How often kernels are selected in halves of the samples."""
    found = seen.stability
    if found is None:
        return None
    order = [k for k in np.argsort(-found.frequencies, kind="stable")[:TOP] if found.frequencies[k] > 0]
    rows = [(found.kernel_names[k], f"{100 * found.frequencies[k]:.0f} %", found.frequencies[k]) for k in order]
    words = (
        f"How often each kernel has a weight when half of the samples are drawn again. {int(found.selected.sum())} are "
        f"there in {100 * found.threshold:.0f} % of the halves or more, of which at most {found.bound:.2g} are "
        "expected by chance."
    )
    return pieces.text(words) + pieces.bars(("kernel", "selected", ""), rows)


def along_C(seen: Seen) -> str | None:
    """How the weights move with the cost of errors."""
    model, C = seen.model, getattr(seen.model, "best_params_", {}).get("C", getattr(seen.model, "C", None))
    if not seen.along or seen.y is None or C is None or not hasattr(model, "_certified") or seen.n > PATH:
        return None
    plain = model
    if hasattr(model, "best_params_"):
        plain = model._plain(model.kernels, **model.best_params_)
    try:
        found = along_costs(clone(plain), seen.Z, seen.y, C=(float(C) * np.logspace(-2, 2, 9)).tolist())
    except (TypeError, ValueError):
        return None
    values = found.weights if found.weights.ndim == 2 else found.weights.mean(axis=1)
    labels = found.kernel_groups if any(found.kernel_groups) else found.kernel_names
    names = [NO_GROUP if label is None else label for label in labels]
    sums = {name: values[:, [one == name for one in names]].sum(axis=1) for name in dict.fromkeys(names)}
    largest = sorted(sums, key=lambda name: -float(sums[name].max()))[: charts.COLOURS]
    series = [(name, found.C, sums[name]) for name in largest]
    words = f"The model has C = {C:.4g}; fitted again on the samples given here, for {found.C.size} values around it."
    return pieces.text(words) + charts.lines("Weights along C", series, "C", "weight", xlog=True)


def effects(seen: Seen) -> str | None:
    """Which sets of columns matter, by the variance they explain."""
    try:
        found = sorted(seen.model.effects_, key=lambda one: -one.share)[:TOP]
    except (AttributeError, ValueError):
        return None
    rows = [(one.name, f"{100 * one.share:.1f} %", one.share) for one in found]
    words = "Share of the variance of the decision values that each set of columns explains, on training samples."
    if any(one.share < -0.0005 for one in found):
        words += " A share below zero is of columns that take back some of what others say."
    return pieces.text(words) + pieces.bars(("columns", "share of variance", ""), rows) if rows else None


def alignment(seen: Seen) -> str | None:
    """Which kernels say nearly the same, and could stand for each other."""
    found = _matrices(seen)
    if found is None or len(found[0]) < 2:
        return None
    names, matrices = found
    centred = [K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean() for K in matrices]
    lengths = [np.linalg.norm(K) or 1.0 for K in centred]
    units = np.array([(K / length).ravel() for K, length in zip(centred, lengths, strict=True)])
    values = units @ units.T
    words = (
        "Centred alignment of the heaviest kernels on samples given here. Kernels near 1 say the same: which of them "
        "gets the weight may be chance."
    )
    short = [f"({place + 1})" for place in range(len(names))]
    rows = [f"({place + 1}) {name}" for place, name in enumerate(names)]
    return pieces.text(words) + pieces.heat(short, rows, values, "Alignment of kernels")


def _matrices(seen: Seen) -> tuple[list[str], list[np.ndarray]] | None:
    """Return the heaviest kernels on some samples, where the model keeps its kernels."""
    model, kept = seen.model, seen.model._predictor
    kept = getattr(kept, "kernels", None) if not isinstance(kept, Expansion) else kept
    if not isinstance(kept, Expansion) or kept.kernels is None:
        return None
    size = np.abs(np.atleast_2d(model.weights_)).mean(axis=0)
    heavy = np.argsort(-size[kept.active], kind="stable")[:FEW]
    Z = model._read_new(seen.Z)
    some = Z[np.linspace(0, Z.shape[0] - 1, min(SOME, Z.shape[0])).astype(int)]
    made = dict(evaluate([kept.kernels[k] for k in heavy], some))
    names = [model.kernel_names_[kept.active[k]] for k in heavy]
    return names, [np.asarray(made[place], dtype=float) for place in range(len(names))]


def pairs(seen: Seen) -> str | None:
    """Which products of two kernels the model uses."""
    try:
        values = np.asarray(seen.model.pair_weights_)
    except AttributeError:
        return None
    values = values if values.ndim == 2 else values.mean(axis=0)
    order = np.argsort(-np.diagonal(values), kind="stable")[:FEW]
    names = [seen.model.kernel_names_[k] for k in order]
    short = [f"({place + 1})" for place in range(len(names))]
    rows = [f"({place + 1}) {name}" for place, name in enumerate(names)]
    words = "Weight of the product of each two kernels; beside unity stand the kernels on their own."
    return pieces.text(words) + pieces.heat(short, rows, values[np.ix_(order, order)], "Weights of products")


def goodness(seen: Seen) -> str | None:
    """How good the predictions are on the samples given here."""
    if seen.y is None and seen.task != "outliers":
        return None
    kinds = {"classification": _classes, "regression": _numbers, "survival": _survival, "outliers": _outliers}
    note = "Measured on the samples given here: if those are the training samples, new ones will do worse."
    return pieces.text(note, soft=True) + kinds[seen.task](seen)


def _classes(seen: Seen) -> str:
    classes, y = seen.model.classes_, np.asarray(seen.y)
    if not np.isin(y, classes).any():
        listed = ", ".join(map(str, classes[:FEW]))
        raise ValueError(f"y holds none of the classes of the model, {listed}: give labels as at fit.")
    predicted = np.asarray(seen.whole.predict(seen.X))
    parts = [pieces.text(f"Accuracy {np.mean(predicted == y):.4f} on {y.size} samples.")]
    shown = classes[:FEW]
    counts = confusion_matrix(y, predicted, labels=shown)
    parts.append(pieces.heading("Confusion"))
    rows = [[f"{label} in truth", *row] for label, row in zip(shown, counts.tolist(), strict=True)]
    parts.append(pieces.table(["", *(f"said {label}" for label in shown)], rows, "Confusion"))
    scores = seen.scores()
    scores = scores[:, None] if scores.ndim == 1 else scores
    against = [(classes[1], scores[:, 0])] if scores.shape[1] == 1 else list(zip(classes, scores.T, strict=True))
    known = [(label, y == label, score) for label, score in against[: charts.COLOURS]]
    curves = [(label, truth, score) for label, truth, score in known if 0 < np.sum(truth) < y.size]
    if curves:
        series = []
        for label, truth, score in curves:
            away, hits, _ = roc_curve(truth, score)
            series.append((f"{label}, area {roc_auc_score(truth, score):.3f}", away, hits))
        title = f"ROC of {series[0][0]}" if len(series) == 1 else "ROC"
        parts += [pieces.heading(title), charts.lines(title, series, "false alarms", "found", diagonal=True)]
    parts.append(_calibration(seen, y))
    return "".join(parts)


def _calibration(seen: Seen, y: np.ndarray) -> str:
    """Return how often what is said with a probability happens, for two classes."""
    if not hasattr(seen.whole, "predict_proba") or len(seen.model.classes_) != 2 or np.unique(y).size < 2:
        return ""
    odds = np.asarray(seen.whole.predict_proba(seen.X))[:, 1]
    happened, said = calibration_curve(y == seen.model.classes_[1], odds, n_bins=8, strategy="quantile")
    title = f"Calibration of the probability of {seen.model.classes_[1]}"
    chart = charts.lines(title, [("model", said, happened)], "probability said", "share in truth", diagonal=True)
    return pieces.heading("Calibration") + chart


def _numbers(seen: Seen) -> str:
    y = np.asarray(seen.y, dtype=float).reshape(seen.n, -1)
    said = np.asarray(seen.whole.predict(seen.X), dtype=float).reshape(seen.n, -1)
    parts = [pieces.text(f"R2 {r2_score(y, said):.4f} on {seen.n} samples.")]
    some = np.linspace(0, seen.n - 1, min(1000, seen.n)).astype(int)
    for place in range(min(y.shape[1], 4)):
        name = f"Target {place}" if y.shape[1] > 1 else "Target"
        truth, guess = y[some, place], said[some, place]
        parts.append(charts.points(f"{name}: predicted and true", guess, truth, "predicted", "true", diagonal=True))
        parts.append(charts.histogram(f"{name}: residuals", truth - guess, "true less predicted", rule=0.0))
    return "".join(parts)


def _survival(seen: Seen) -> str:
    """Return survival by thirds of the risk, by Kaplan and Meier."""
    event, time = np.asarray(seen.y, dtype=float).T
    risk = np.asarray(seen.whole.predict(seen.X), dtype=float).ravel()
    words = f"Concordance {seen.whole.score(seen.X, seen.y):.4f} on {seen.n} samples."
    third = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk)
    series = []
    for place, name in enumerate(("lowest third of risk", "middle third", "highest third")):
        rows = third == place
        if rows.any():
            series.append((f"{name}, {int(rows.sum())} samples", *_kaplan_meier(event[rows], time[rows])))
    return pieces.text(words) + charts.lines("Survival by risk", series, "time", "share without event", steps=True)


def _kaplan_meier(event: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the share of samples without event after each."""
    times, share, left = [0.0], [1.0], 1.0
    for moment in np.unique(time):
        left *= 1.0 - np.sum(event[time == moment]) / np.sum(time >= moment)
        times.append(float(moment))
        share.append(left)
    return np.array(times), np.array(share)


def _outliers(seen: Seen) -> str:
    scores = seen.scores().ravel()
    words = f"{np.sum(scores < 0)} of {scores.size} samples are unlike the rest: their score is below zero."
    return pieces.text(words) + charts.histogram("Scores of samples", scores, "score", rule=0.0)


def samples(seen: Seen) -> str:
    """What is said of each sample, and what each part of the model adds to it."""
    rows = np.arange(min(seen.n, seen.most))
    X, Z = _rows(seen.X, rows), _rows(seen.Z, rows)
    predicted, scores = np.asarray(seen.whole.predict(X)), _scores(seen, X)
    names, parts = _parts(seen, Z)
    labels = _labels(seen.X, rows)
    header: list[str] = ["sample"]
    columns: list[Any] = [labels]
    if seen.y is not None:
        truth = np.asarray(seen.y)[rows]
        header.append("event, time" if seen.task == "survival" else "truth")
        columns.append([", ".join(f"{v:g}" for v in row) if np.ndim(row) else _plain(row) for row in truth])
    header += ["said", *(["decision value"] if scores is not None else []), *names]
    columns.append([", ".join(f"{v:.3g}" for v in row) if np.ndim(row) else _plain(row) for row in predicted])
    columns += [*([scores] if scores is not None else []), *parts.T]
    which = f"The first {rows.size} of {seen.n} samples" if rows.size < seen.n else "All samples"
    words = f"{which}; press a title to sort."
    if names:
        words += " What parts of the model add, with the intercept, sums to the decision value."
    body = [list(cells) for cells in zip(*columns, strict=True)]
    return pieces.text(words) + pieces.table(header, body, "Samples", sortable=True)


def _scores(seen: Seen, X: Any) -> np.ndarray | None:
    """Return one decision value for each sample, where there is one and it is not the prediction."""
    if not hasattr(seen.whole, "decision_function"):
        return None
    scores = np.asarray(seen.whole.decision_function(X), dtype=float)
    return scores if scores.ndim == 1 else None


def _parts(seen: Seen, Z: Any) -> tuple[list[str], np.ndarray]:
    """Return the names of the parts of a model and what each adds, the largest first; none where that is not known."""
    nothing: tuple[list[str], np.ndarray] = ([], np.empty((0, 0)))
    take_apart, name_parts = (getattr(seen.model, name, None) for name in ("contributions", "parts"))
    if take_apart is None or name_parts is None:
        return nothing
    by = "group" if any(seen.model.kernel_groups_) else "kernel"
    try:
        values, names = np.asarray(take_apart(Z, by=by), dtype=float), list(name_parts(by))
    except (AttributeError, ValueError):
        return nothing
    if values.ndim != 2:
        return nothing
    order = np.argsort(-values.std(axis=0), kind="stable")[:6]
    return [names[k] for k in order], values[:, order]


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Return some samples."""
    views = as_views(X)
    if views is not None:
        return views[rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[row] for row in rows] if isinstance(X, (list, tuple)) else X[rows]


def _labels(X: Any, rows: np.ndarray) -> list[str]:
    views = as_views(X)
    index = views.index if views is not None else X.index.tolist() if hasattr(X, "iloc") else None
    return [str(row if index is None else index[row]) for row in rows]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, (float, np.floating)) else value


def origin(seen: Seen) -> str:
    """What the samples were, and what made the model."""
    import kernelweave

    rows: list[tuple[str, Any]] = [("samples given here", seen.n), ("fingerprint of X", _fingerprint(seen.X))]
    if seen.y is not None:
        rows.append(("fingerprint of y", _fingerprint(seen.y)))
    seed = getattr(seen.model, "random_state", None)
    rows.append(("seed", "none given" if seed is None else seed))
    rows.append(("Python", f"{platform.python_version()} on {sys.platform}"))
    rows.append(("kernelweave", kernelweave.__version__))
    rows += [(name, metadata.version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
    return pieces.facts(rows)


def _fingerprint(data: Any) -> str:
    """Return the beginning of the SHA-256 of some data: the same for the same values and names."""
    digest = hashlib.sha256()
    for part in _bytes(data):
        digest.update(part)
    return f"SHA-256 {digest.hexdigest()[:16]}"


def _bytes(data: Any) -> Sequence[bytes]:
    views = data if isinstance(data, Views) else as_views(data)
    if views is not None:
        return [part for name in views.names for part in (name.encode(), *_bytes(views[name]))]
    names = [str(name).encode() for name in data.columns] if hasattr(data, "columns") else []
    if issparse(data):
        data = data.tocsr()
        return [data.data.tobytes(), data.indices.tobytes(), data.indptr.tobytes()]
    values = np.asarray(data)
    plain = values.dtype.kind not in "OUS"
    return [*names, np.ascontiguousarray(values).tobytes() if plain else repr(values.tolist()).encode()]


SECTIONS = (
    ("What was asked", asked),
    ("Certificate", certificate),
    ("Weights", weights),
    ("Stability", stability),
    ("Weights along C", along_C),
    ("Effects", effects),
    ("Kernels that say the same", alignment),
    ("Products of kernels", pairs),
    ("How good it is", goodness),
    ("Samples", samples),
    ("Data and versions", origin),
)
