"""Tables and svmlight files in, predictions out."""

from __future__ import annotations

import csv
import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .base import CommandError, few

KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".svm", ".svmlight", ".libsvm"), "svmlight"
)


@dataclass(frozen=True)
class Data:
    """A file as the estimator takes it, and what is needed to read the next file in the same way."""

    X: Any  # DataFrame or CSR matrix
    y: np.ndarray | None
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    first_index: int = 0

    def rows(self, index: np.ndarray) -> tuple[Any, Any]:
        """Take some rows of X and y."""
        X = self.X.iloc[index] if self.columns else self.X[index]
        return X, None if self.y is None else self.y[index]


def read(file: str, target: str | None = None, encode: str = "refuse", model: dict[str, Any] | None = None) -> Data:
    """Read a file to fit on, or, given a model, one to predict."""
    kind = _kind(file)
    if not Path(file).is_file():
        raise CommandError(f"there is no file {file}.")
    if model is not None and (kind == "svmlight") != (not model["columns"]):
        wanted = "CSV or Parquet" if model["columns"] else "svmlight"
        raise CommandError(f"{file} must be of the kind the model was fitted on, {wanted}.")
    if kind == "svmlight":
        return _read_svmlight(file, target, model)
    frame = _read_table(file, kind)
    return _to_predict(file, frame, model) if model is not None else _to_fit(file, frame, target, encode)


def _kind(file: str) -> str:
    """Tell the format of a file by its name."""
    suffixes = [suffix.lower() for suffix in Path(file).suffixes if suffix.lower() not in (".gz", ".bz2")]
    kind = KINDS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise CommandError(f"{file}: the name must end in one of {', '.join(KINDS)}, to tell the format.")
    return kind


def _read_table(file: str, kind: str) -> Any:
    """Read CSV or Parquet with pandas."""
    try:
        pandas = importlib.import_module("pandas")
        if kind == "parquet":
            frame = pandas.read_parquet(file)
        else:
            frame = pandas.read_csv(file, sep="\t" if ".tsv" in Path(file).suffixes else ",")
    except ImportError as error:
        raise CommandError(
            f"reading {kind} files needs pandas and pyarrow; install them with: pip install kernelweave[cli]"
        ) from error
    except ValueError as error:
        raise CommandError(f"{file} could not be read as {kind}: {error}") from error
    if frame.empty:
        raise CommandError(f"{file} holds no rows or no columns.")
    return frame.rename(columns=str)


def _to_fit(file: str, frame: Any, target: str | None, encode: str) -> Data:
    """Take the target out of a table and check the rest."""
    if target is None:
        raise CommandError(f"--target is needed for {file}; its columns are {few(frame.columns)}.")
    if target not in frame.columns:
        close = difflib.get_close_matches(target, frame.columns, n=3) or frame.columns
        raise CommandError(f"--target {target}: {file} has no such column; it has {few(close)}.")
    if frame[target].isna().any():
        raise CommandError(f"--target {target} has missing values in {file}; fill or drop those rows.")
    y = _labels(frame[target].to_numpy(), target)
    frame = frame.drop(columns=target)
    if frame.shape[1] == 0:
        raise CommandError(f"{file} has no column besides the target {target}.")
    text = tuple(_not_numbers(frame))
    if text and encode == "refuse":
        raise CommandError(f"{file} has columns that are not numbers: {few(text)}; drop them, or add --encode onehot.")
    _check_values(file, frame, text)
    return Data(frame, y, tuple(frame.columns), text)


def _to_predict(file: str, frame: Any, model: dict[str, Any]) -> Data:
    """Take the model's columns out of a table, in the model's order, and the target where it is there."""
    missing = [name for name in model["columns"] if name not in frame.columns]
    if missing:
        raise CommandError(f"{file} lacks columns the model was fitted on: {few(missing)}.")
    target = model["target"]
    known = target in frame.columns and not frame[target].isna().any()
    y = frame[target].to_numpy() if known else None
    frame = frame[list(model["columns"])]
    text = [name for name in _not_numbers(frame) if name not in model["text"]]
    if text:
        raise CommandError(f"{file} has text where the model was fitted on numbers: {few(text)}.")
    _check_values(file, frame, model["text"])
    return Data(frame, y)


def _not_numbers(frame: Any) -> list[str]:
    """Name the columns that are neither numbers nor true/false."""
    return [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]


def _check_values(file: str, frame: Any, text: Sequence[str]) -> None:
    """Refuse missing and infinite values, naming the columns."""
    missing = frame.columns[frame.isna().any()]
    if len(missing):
        raise CommandError(f"{file} has missing values in {few(missing)}; fill them or drop those rows.")
    numbers = frame.drop(columns=list(text))
    infinite = numbers.columns[np.isinf(numbers.to_numpy(dtype=float)).any(axis=0)]
    if len(infinite):
        raise CommandError(f"{file} has infinite values in {few(infinite)}; replace or drop them.")


def _read_svmlight(file: str, target: str | None, model: dict[str, Any] | None) -> Data:
    """Read svmlight, counting columns from 0 or 1 as the file, or the model's own file, does."""
    from sklearn.datasets import load_svmlight_file

    if target is not None:
        raise CommandError("--target is not for svmlight files, whose lines begin with the label.")
    try:
        X, y = load_svmlight_file(file, zero_based=True)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"{file} could not be read as svmlight: {error}") from error
    if X.nnz == 0:
        raise CommandError(f"{file} holds no rows or no values.")
    if not np.isfinite(X.data).all():
        raise CommandError(f"{file} has missing or infinite values; replace them by finite numbers.")
    if model is None:
        first = min(1, int(X.indices.min()))
        return Data(X[:, first:], _labels(y, "the label"), first_index=first)
    first, width = model["first_index"], model["n_features"]
    if X.shape[1] - first > width:
        raise CommandError(f"{file} has {X.shape[1] - first} columns, the model was fitted on {width}.")
    X.resize(X.shape[0], first + width)
    return Data(X[:, first:], y)


def _labels(y: np.ndarray, target: str) -> np.ndarray:
    """Write whole numbers as such, and refuse a target that is a measurement."""
    if y.dtype.kind != "f":
        return y
    if not np.all(np.isfinite(y)) or np.any(y != np.round(y)):
        raise CommandError(f"{target} holds fractions, a classifier needs classes: name a column of labels.")
    return y.astype(int)


def write_csv(file: TextIO, header: list[str], columns: Sequence[np.ndarray]) -> None:
    """Write columns as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
