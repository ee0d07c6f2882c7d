"""The demonstration: bundled data with several views, beside SVMs with a single kernel."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import tables


def demo(options: argparse.Namespace) -> None:
    """Fit bundled data with several views and compare with single-kernel SVMs."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from ..estimators import MKLClassifier

    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    C, bunch = 10.0, load_breast_cancer()
    bank = _views()
    labels = bunch.target_names[bunch.target]
    X, X_test, y, y_test = train_test_split(bunch.data, labels, test_size=0.3, random_state=0, stratify=labels)
    print(f"Breast cancer data: {len(X)} rows to learn from, {len(X_test)} to test on; {len(bank)} kernels on")
    print("three views (mean, error and worst of ten measurements of cell nuclei) and on all columns.\n")
    print("Compiling the solvers, which happens once on a computer ...\n", flush=True)
    _scaled(MKLClassifier(bank[:2])).fit(X[:60], y[:60])
    ours = _scaled(MKLClassifier(bank, penalty="l1", C=C)).fit(X, y)
    _tell(ours[-1])
    models = {"multiple kernels, l1": ours} | _single_kernel_svms(bank, ours[-1].kernel_names_, X, y, C)
    rows = [[name, f"{model.score(X_test, y_test):.4f}"] for name, model in models.items()]
    print(tables.table(rows, ["model", "test accuracy"]) + "\n")
    _picture(ours, folder / "kernelweave-demo-weights.png")


def _views() -> list[Any]:
    """Make the bank of the demonstration: the same kernels on each view."""
    from .. import kernels as K

    views = {"mean": range(10), "error": range(10, 20), "worst": range(20, 30), "all": range(30)}
    bank: list[Any] = []
    for view, columns in views.items():
        on = {view: columns}
        gammas = (np.logspace(-2, 1, 7) / len(columns)).tolist()
        bank += K.rbf(gamma=gammas, on=on) + K.polynomial(degree=[2, 3], on=on) + K.linear(on=on)
    return bank


def _scaled(model: Any) -> Any:
    """Standardise the columns, then the model."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def _tell(model: Any) -> None:
    """Print the kernels and views by weight and the certificate of the demonstration's model."""
    print(tables.kernels_by_weight(model.kernel_names_, model.weights_) + "\n")
    print(tables.groups_by_weight(model.kernel_groups_, model.weights_) + "\n")
    used, vectors = np.count_nonzero(model.weights_), len(model.support_)
    many = len(model.kernel_names_)
    print(f"{used} of {many} kernels in use, {vectors} support vectors, fitted in {model.fit_time_:.2f} s")
    print(f"{model.certificate()}\n")


def _single_kernel_svms(bank: list[Any], names: list[str], X: np.ndarray, y: np.ndarray, C: float) -> dict[str, Any]:
    """Fit SVC on the kernel that cross-validates best on the training rows, and on the average of all."""
    from sklearn.model_selection import cross_val_score
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    scaled = StandardScaler().fit_transform(X)
    singles = [_unit_trace(kernel.resolve(scaled)[0], scaled) for kernel in bank]
    models = [_scaled(SVC(kernel=kernel, C=C)) for kernel in singles]
    best = int(np.argmax([cross_val_score(model, X, y, cv=5).mean() for model in models]))

    def average(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.mean([kernel(A, B) for kernel in singles], axis=0)

    return {
        f"SVC, best single kernel ({names[best]})": models[best].fit(X, y),
        "SVC, average of all kernels": _scaled(SVC(kernel=average, C=C)).fit(X, y),
    }


def _unit_trace(kernel: Any, X: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Divide a kernel by its mean diagonal on X."""
    scale = float(np.mean(kernel.diagonal(X)))
    return lambda A, B: kernel(A, B) / scale


def _picture(model: Any, file: Path) -> None:
    """Save the weights as a picture, or say what is needed for one."""
    from .. import plot

    try:
        axes = plot.weights(model, ax=plot.canvas(7.0, 4.5))
    except ModuleNotFoundError as error:
        print(f"no picture: {error}")
        return
    axes.figure.savefig(file, dpi=150)
    print(f"picture of the weights: {file}")
