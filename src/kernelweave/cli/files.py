"""Tables and svmlight files in, predictions out."""

from __future__ import annotations

import csv
import difflib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .base import CommandError, few
from .tasks import as_events, as_target, task_of

KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".svm", ".svmlight", ".libsvm"), "svmlight"
)


@dataclass(frozen=True)
class Data:
    """A file as the estimator takes it, and what is needed to read the next file in the same way."""

    X: Any  # DataFrame or CSR matrix
    y: np.ndarray | None  # (n,), or event and time in two columns
    task: str = "classification"
    columns: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    first_index: int = 0

    def rows(self, index: np.ndarray) -> tuple[Any, Any]:
        """Take some rows of X and y."""
        X = self.X.iloc[index] if self.columns else self.X[index]
        return X, None if self.y is None else self.y[index]


@dataclass(frozen=True)
class Wanted:
    """What is to be learned from a file."""

    task: str = "auto"
    target: str | None = None
    event: str | None = None
    encode: str = "refuse"

    def checked(self, file: str, columns: Any) -> Wanted:
        """Refuse columns that are not there, or not for the task."""
        if self.task == "outliers":
            for option, value in (("--target", self.target), ("--event", self.event)):
                if value is not None:
                    raise CommandError(f"{option} is not for --task outliers: drop {value} from {file} instead.")
            return self
        if self.target is None:
            raise CommandError(f"--target is needed for {file}; its columns are {few(columns)}.")
        if self.event is not None and self.task not in ("auto", "survival"):
            raise CommandError("--event goes with --task survival, whose --target is the time.")
        if self.event is None and self.task == "survival":
            raise CommandError("--event is needed for --task survival: the column that says if the event was seen.")
        for option, value in (("--target", self.target), ("--event", self.event)):
            if value is not None and value not in columns:
                close = difflib.get_close_matches(value, columns, n=1)
                hint = f" Did you mean {close[0]}?" if close else ""
                have = f"{len(columns)} column{'s' * (len(columns) != 1)}: {few(columns)}"
                raise CommandError(f"{option} {value}: {file} has no such column.{hint} It has {have}.")
        return replace(self, task="survival") if self.event is not None else self


def read(file: str, wanted: Wanted | None = None, model: dict[str, Any] | None = None) -> Data:
    """Read a file to fit on, or, given a model, one to predict."""
    wanted = Wanted() if wanted is None else wanted
    kind = _kind(file)
    if not Path(file).is_file():
        raise CommandError(f"there is no file {file}.")
    if model is not None and (kind == "svmlight") != (not model["columns"]):
        ours = "CSV or Parquet" if model["columns"] else "svmlight"
        raise CommandError(f"{file} must be of the kind the model was fitted on, {ours}.")
    if kind == "svmlight":
        return _read_svmlight(file, wanted, model)
    frame = _read_table(file, kind)
    return _to_predict(file, frame, model) if model is not None else _to_fit(file, frame, wanted)


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


def _to_fit(file: str, frame: Any, wanted: Wanted) -> Data:
    """Take the target out of a table and check the rest."""
    wanted = wanted.checked(file, frame.columns)
    named = [name for name in (wanted.target, wanted.event) if name is not None]
    for option, name in zip(("--target", "--event"), named, strict=False):
        if frame[name].isna().any():
            raise CommandError(f"{option} {name} has missing values in {file}; fill or drop those rows.")
    task, y = _target(frame, wanted)
    frame = frame.drop(columns=named)
    if frame.shape[1] == 0:
        raise CommandError(f"{file} has no column besides the target {wanted.target}.")
    text = tuple(_not_numbers(frame))
    if text and wanted.encode == "refuse":
        raise CommandError(f"{file} has columns that are not numbers: {few(text)}; drop them, or add --encode onehot.")
    _check_values(file, frame, text)
    return Data(frame, y, task, tuple(frame.columns), text)


def _target(frame: Any, wanted: Wanted) -> tuple[str, np.ndarray | None]:
    """Return what is to be learned from a table, and its target."""
    if wanted.target is None:
        return "outliers", None
    y = frame[wanted.target].to_numpy()
    if wanted.event is not None:
        event = as_events(frame[wanted.event].to_numpy(), wanted.event)
        return "survival", np.column_stack([event, as_target("survival", y, wanted.target)])
    task = _settled(wanted.task, y, wanted.target)
    return task, as_target(task, y, wanted.target)


def _settled(task: str, y: np.ndarray, name: str) -> str:
    """Tell by the target what is to be learned, where the task is not named."""
    if task != "auto":
        return task
    task = task_of(y)
    if task == "regression":
        print(f"kernelweave: note: {name} holds fractions, so this is a regression (--task)", file=sys.stderr)
    return task


def _to_predict(file: str, frame: Any, model: dict[str, Any]) -> Data:
    """Take the model's columns out of a table, in the model's order, and the target where it is there."""
    missing = [name for name in model["columns"] if name not in frame.columns]
    if missing:
        raise CommandError(f"{file} lacks columns the model was fitted on: {few(missing)}.")
    y, frame = _known(frame, model), frame[list(model["columns"])]
    text = [name for name in _not_numbers(frame) if name not in model["text"]]
    if text:
        raise CommandError(f"{file} has text where the model was fitted on numbers: {few(text)}.")
    _check_values(file, frame, model["text"])
    return Data(frame, y)


def _known(frame: Any, model: dict[str, Any]) -> np.ndarray | None:
    """Return the target of a table to predict where it is there, None elsewhere."""
    named = [name for name in (model.get("event"), model["target"]) if name is not None]
    if not named or any(name not in frame.columns or frame[name].isna().any() for name in named):
        return None
    columns = [frame[name].to_numpy() for name in named]
    if model.get("task", "classification") != "classification" and any(c.dtype.kind not in "biuf" for c in columns):
        return None
    return columns[0] if len(columns) == 1 else np.column_stack([column.astype(float) for column in columns])


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


def _read_svmlight(file: str, wanted: Wanted, model: dict[str, Any] | None) -> Data:
    """Read svmlight, counting columns from 0 or 1 as the file, or the model's own file, does."""
    from sklearn.datasets import load_svmlight_file

    if wanted.target is not None:
        raise CommandError("--target is not for svmlight files, whose lines begin with the label.")
    if wanted.event is not None or wanted.task == "survival":
        raise CommandError("--task survival needs a table with a column of events, which svmlight files do not have.")
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
        task = _settled(wanted.task, y, "the label")
        y = None if task == "outliers" else as_target(task, y, "the label")
        return Data(X[:, first:], y, task, first_index=first)
    first, width = model["first_index"], model["n_features"]
    if X.shape[1] - first > width:
        raise CommandError(f"{file} has {X.shape[1] - first} columns, the model was fitted on {width}.")
    X.resize(X.shape[0], first + width)
    return Data(X[:, first:], y)


def write_csv(file: TextIO, header: list[str], columns: Sequence[np.ndarray]) -> None:
    """Write columns as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
