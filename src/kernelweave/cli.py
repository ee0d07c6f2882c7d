"""The command line: ``kernelweave demo``, ``fit``, ``predict``, ``info`` and ``recipes``.

Every command returns 0 when it did what was asked and 2, with one sentence on standard error, when the
request, a file or a value is wrong. Anything else is a defect and shows as one, with a traceback and 1.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from . import report

__all__ = ["main", "parse_kernels"]

FORMAT = "kernelweave-model-1"
KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".svm", ".svmlight", ".libsvm"), "svmlight"
)
PARAMETERS: dict[str, tuple[str, type] | None] = {
    "linear": None,
    "cosine": None,
    "histogram_intersection": None,
    "polynomial": ("degree", int),
    "rbf": ("gamma", float),
    "laplacian": ("gamma", float),
    "chi2": ("gamma", float),
    "sigmoid": ("gamma", float),
}
GRAMMAR = """\
a kernel SPEC is FAMILY[:VALUES][@COLUMNS], for example
  rbf:0.01,0.1,1      three widths on all columns
  rbf:0.1@each        one kernel for each column
  linear@age,income   on two columns by name (0,1,2 by number, 0:10 for a range)
  polynomial:1,2,3    three degrees
  auto                widths around the scale of the data, linear, polynomial (the default)
families: """ + ", ".join(PARAMETERS)


class CommandError(Exception):
    """What was asked cannot be done; the message says why and what to change."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``kernelweave``; those of the process when absent.

    Returns
    -------
    int
        0 when done, 2 when the request, a file or a value is wrong.

    Examples
    --------
    >>> from kernelweave.cli import main
    >>> main(["info", "no-such-file.joblib"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _note
            options.command(options)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (CommandError, OSError) as error:
        print(f"kernelweave: {error}", file=sys.stderr)
        return 2
    return 0


def parse_kernels(specs: Sequence[str]) -> Any:
    """Turn the kernel SPECs of the command line into kernels.

    Parameters
    ----------
    specs : sequence of str
        Such as ``["rbf:0.1,1@each", "linear"]``.

    Returns
    -------
    list of Kernel, or "auto"

    Examples
    --------
    >>> from kernelweave.cli import parse_kernels
    >>> len(parse_kernels(["rbf:0.1,1", "linear"]))
    3
    """
    if "auto" in specs:
        if len(specs) > 1:
            raise CommandError("--kernels auto stands alone; leave out the other SPECs or leave out auto.")
        return "auto"
    return [kernel for spec in specs for kernel in _family(spec)]


def _family(spec: str) -> list[Any]:
    """Read one SPEC."""
    from . import kernels

    head, _, columns = spec.partition("@")
    name, _, values = head.partition(":")
    name = name.strip().lower().replace("-", "_")
    if name not in PARAMETERS:
        raise CommandError(f"--kernels {spec}: {name!r} is unknown; known: {', '.join(PARAMETERS)}, auto.")
    if "@" in spec and not columns.strip():
        raise CommandError(f"--kernels {spec}: name the columns after @, or write @each.")
    parameters: dict[str, Any] = {"on": _columns(columns)} if columns else {}
    if values:
        parameters |= _values(spec, PARAMETERS[name], values)
    return list(getattr(kernels, name)(**parameters))


def _values(spec: str, parameter: tuple[str, type] | None, text: str) -> dict[str, list[Any]]:
    """Read the numbers after the colon of a SPEC."""
    if parameter is None:
        raise CommandError(f"--kernels {spec}: this family takes no values; write it without the colon.")
    name, kind = parameter
    words = [word.strip() for word in text.split(",")]
    try:
        return {name: [word if (name, word) == ("gamma", "scale") else kind(word) for word in words]}
    except ValueError:
        noun = "whole numbers" if kind is int else "numbers"
        raise CommandError(f"--kernels {spec}: give {name} as {noun} with commas between.") from None


def _columns(text: str) -> Any:
    """Read the columns after the @ of a SPEC: each, a range, numbers or names."""
    words = [word.strip() for word in text.split(",")]
    start, colon, stop = text.partition(":")
    if text.strip() == "each":
        return "each"
    if colon and start.strip().isdigit() and stop.strip().isdigit():
        return list(range(int(start), int(stop)))
    return [int(word) for word in words] if all(word.isdigit() for word in words) else words


# --- the commands -----------------------------------------------------------------------


def _fit(options: argparse.Namespace) -> None:
    """Fit a classifier on a file and say what it found."""
    from sklearn.model_selection import train_test_split

    data = _read(options.data, target=options.target, encode=options.encode)
    rows, held_out = np.arange(data.X.shape[0]), np.arange(0)
    with _asked():
        if options.test_size:
            rows, held_out = train_test_split(
                rows, test_size=options.test_size, random_state=options.seed, stratify=data.y
            )
        pipeline = _pipeline(data, options).fit(*data.rows(rows))
    print(pipeline[-1].summary())
    if held_out.size:
        print(f"test accuracy    {pipeline.score(*data.rows(held_out)):.4f} on {held_out.size} rows held out")
    if options.out:
        _save(pipeline, data, options)


def _predict(options: argparse.Namespace) -> None:
    """Predict the rows of a file with a saved model."""
    model = _load(options.model)
    pipeline, data = model["pipeline"], _read(options.data, model=model)
    with _asked():
        labels = pipeline.predict(data.X)
        scores = np.asarray(pipeline.decision_function(data.X)).reshape(len(labels), -1)
    header, columns = ["prediction"], [labels]
    if options.scores:
        header += [f"score {label}" for label in pipeline.classes_[-scores.shape[1] :]]
        columns += list(scores.T)
    if options.out:
        with open(options.out, "w", newline="", encoding="utf-8") as file:
            _write(file, header, columns)
        print(f"{len(labels)} predictions written to {options.out}", file=sys.stderr)
    else:
        _write(sys.stdout, header, columns)
    if data.y is not None and set(data.y) <= set(pipeline.classes_):
        print(f"accuracy {np.mean(labels == data.y):.4f} on {len(labels)} rows", file=sys.stderr)


def _info(options: argparse.Namespace) -> None:
    """Say what a saved model is."""
    model = _load(options.model)
    classes = ", ".join(map(str, model["pipeline"].classes_))
    print(f"target {model['target'] or 'the label of each line'}, classes {classes}")
    print(f"{model['n_features']} columns, saved by kernelweave {model['version']}\n")
    print(model["pipeline"][-1].summary())


def _recipes(options: argparse.Namespace) -> None:
    """Print the table of papers and what configures each."""
    import kernelweave

    print(kernelweave.recipes())


def _demo(options: argparse.Namespace) -> None:
    """Fit bundled data with several views and compare with single-kernel machines."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from .estimators import MKLClassifier

    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    C, bunch = 10.0, load_breast_cancer()
    bank, names = _views()
    labels = bunch.target_names[bunch.target]
    X, X_test, y, y_test = train_test_split(
        bunch.data, labels, test_size=0.3, random_state=0, stratify=labels
    )
    print(
        f"Breast cancer data: {len(X)} rows to learn from, {len(X_test)} to test on; {len(bank)} kernels on"
    )
    print("three views (mean, error and worst of ten measurements of cell nuclei) and on all columns.\n")
    ours = _scaled(MKLClassifier(bank, penalty="l1", C=C)).fit(X, y)
    _tell(ours[-1], names)
    machines = {"multiple kernels, l1": ours} | _single_kernel_machines(bank, names, X, y, C)
    rows = [[name, f"{machine.score(X_test, y_test):.4f}"] for name, machine in machines.items()]
    print(report.table(rows, ["machine", "test accuracy"]) + "\n")
    _picture(ours, names, folder / "kernelweave-demo-weights.png")


# --- the demonstration -----------------------------------------------------------------------


def _views() -> tuple[list[Any], list[str]]:
    """Make the bank of the demonstration, the same kernels on each view, and their names."""
    from . import kernels as K

    views = {"mean": range(10), "error": range(10, 20), "worst": range(20, 30), "all": range(30)}
    bank: list[Any] = []
    names: list[str] = []
    for view, columns in views.items():
        gammas = (np.logspace(-2, 1, 7) / len(columns)).tolist()
        on = list(columns)
        bank += K.rbf(gamma=gammas, on=on) + K.polynomial(degree=[2, 3], on=on) + K.linear(on=on)
        names += [f"{view}: rbf(gamma={gamma:.3g})" for gamma in gammas]
        names += [f"{view}: polynomial(degree=2)", f"{view}: polynomial(degree=3)", f"{view}: linear"]
    return bank, names


def _scaled(machine: Any) -> Any:
    """Standardise the columns, then the machine."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), machine)


def _tell(model: Any, names: Sequence[str]) -> None:
    """Print the kernels by weight and the certificate of the demonstration's model."""
    print(report.kernels_by_weight(names, model.weights_) + "\n")
    used, vectors = np.count_nonzero(model.weights_), len(model.support_)
    print(
        f"{used} of {len(names)} kernels in use, {vectors} support vectors, fitted in {model.fit_time_:.2f} s"
    )
    print(f"{model.certificate()}\n")


def _single_kernel_machines(
    bank: list[Any], names: list[str], X: np.ndarray, y: np.ndarray, C: float
) -> dict[str, Any]:
    """Fit SVC on the kernel that cross-validates best on the training rows, and on the average of all."""
    from sklearn.model_selection import cross_val_score
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    scaled = StandardScaler().fit_transform(X)
    singles = [_unit_trace(kernel.resolve(scaled)[0], scaled) for kernel in bank]
    machines = [_scaled(SVC(kernel=kernel, C=C)) for kernel in singles]
    best = int(np.argmax([cross_val_score(machine, X, y, cv=5).mean() for machine in machines]))

    def average(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.mean([kernel(A, B) for kernel in singles], axis=0)

    return {
        f"SVC, best single kernel ({names[best]})": machines[best].fit(X, y),
        "SVC, average of all kernels": _scaled(SVC(kernel=average, C=C)).fit(X, y),
    }


def _unit_trace(kernel: Any, X: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Divide a kernel by its mean diagonal on X."""
    scale = float(np.mean(kernel.diagonal(X)))
    return lambda A, B: kernel(A, B) / scale


def _picture(model: Any, names: list[str], file: Path) -> None:
    """Save the weights as a picture, or say what is needed for one."""
    from . import plot

    try:
        axes = plot.weights(model, ax=plot.canvas(7.0, 4.5), names=names)
    except ModuleNotFoundError as error:
        print(f"no picture: {error}")
        return
    axes.figure.savefig(file, dpi=150)
    print(f"picture of the weights: {file}")


# --- files -----------------------------------------------------------------------


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


def _read(
    file: str, target: str | None = None, encode: str = "refuse", model: dict[str, Any] | None = None
) -> Data:
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
        raise CommandError(f"--target is needed for {file}; its columns are {_list(frame.columns)}.")
    if target not in frame.columns:
        close = difflib.get_close_matches(target, frame.columns, n=3) or frame.columns
        raise CommandError(f"--target {target}: {file} has no such column; it has {_list(close)}.")
    if frame[target].isna().any():
        raise CommandError(f"--target {target} has missing values in {file}; fill or drop those rows.")
    y = _labels(frame[target].to_numpy(), target)
    frame = frame.drop(columns=target)
    if frame.shape[1] == 0:
        raise CommandError(f"{file} has no column besides the target {target}.")
    text = tuple(_not_numbers(frame))
    if text and encode == "refuse":
        raise CommandError(
            f"{file} has columns that are not numbers: {_list(text)}; drop them, or add --encode onehot."
        )
    _check_values(file, frame, text)
    return Data(frame, y, tuple(frame.columns), text)


def _to_predict(file: str, frame: Any, model: dict[str, Any]) -> Data:
    """Take the model's columns out of a table, in the model's order, and the target where it is there."""
    missing = [name for name in model["columns"] if name not in frame.columns]
    if missing:
        raise CommandError(f"{file} lacks columns the model was fitted on: {_list(missing)}.")
    target = model["target"]
    known = target in frame.columns and not frame[target].isna().any()
    y = frame[target].to_numpy() if known else None
    frame = frame[list(model["columns"])]
    text = [name for name in _not_numbers(frame) if name not in model["text"]]
    if text:
        raise CommandError(f"{file} has text where the model was fitted on numbers: {_list(text)}.")
    _check_values(file, frame, model["text"])
    return Data(frame, y)


def _not_numbers(frame: Any) -> list[str]:
    """Name the columns that are neither numbers nor true/false."""
    return [name for name in frame.columns if frame[name].dtype.kind not in "biuf"]


def _check_values(file: str, frame: Any, text: Sequence[str]) -> None:
    """Refuse missing and infinite values, naming the columns."""
    missing = frame.columns[frame.isna().any()]
    if len(missing):
        raise CommandError(f"{file} has missing values in {_list(missing)}; fill them or drop those rows.")
    numbers = frame.drop(columns=list(text))
    infinite = numbers.columns[np.isinf(numbers.to_numpy(dtype=float)).any(axis=0)]
    if len(infinite):
        raise CommandError(f"{file} has infinite values in {_list(infinite)}; replace or drop them.")


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


def _list(names: Any, most: int = 8) -> str:
    """Write names one after another, not too many."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# --- models -----------------------------------------------------------------------


def _pipeline(data: Data, options: argparse.Namespace) -> Any:
    """Put encoding, scaling and the classifier together."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    from .estimators import MKLClassifier

    named = bool(data.columns)
    prepare = _scaler(options.scale, sparse=not named)
    if data.text:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        rest = [name for name in data.columns if name not in data.text]
        parts = [("numbers", prepare, rest), ("text", encoder, list(data.text))]
        prepare = ColumnTransformer(parts, verbose_feature_names_out=False)
        print(f"kernelweave: note: one column for each value of {_list(data.text)}", file=sys.stderr)
    if named and prepare != "passthrough":
        prepare = prepare.set_output(transform="pandas")
    classifier = MKLClassifier(
        parse_kernels(options.kernels),
        penalty=_penalty(options),
        C=options.C,
        tol=options.tol,
        progress=options.progress,
    )
    return make_pipeline(prepare, classifier)


def _scaler(scale: str, sparse: bool) -> Any:
    """Choose how numbers are scaled; sparse data keep their zeros."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scale == "none":
        return "passthrough"
    if scale == "minmax":
        return MaxAbsScaler() if sparse else MinMaxScaler(clip=True)
    return StandardScaler(with_mean=not sparse)


def _penalty(options: argparse.Namespace) -> Any:
    """Read --penalty and --p."""
    from . import penalties

    if options.penalty == "lp":
        return penalties.Lp(2.0 if options.p is None else options.p)
    if options.p is not None:
        raise CommandError(f"--p goes with --penalty lp, not with --penalty {options.penalty}.")
    return options.penalty


def _save(pipeline: Any, data: Data, options: argparse.Namespace) -> None:
    """Write a model that `predict` and `info` can open."""
    import joblib

    import kernelweave

    model = {
        "format": FORMAT,
        "version": kernelweave.__version__,
        "pipeline": pipeline,
        "target": options.target,
        "columns": data.columns,
        "text": data.text,
        "n_features": data.X.shape[1],
        "first_index": data.first_index,
    }
    joblib.dump(model, options.out, compress=3)
    print(f"\nmodel saved to {options.out}")


def _load(file: str) -> dict[str, Any]:
    """Open a saved model."""
    import joblib

    if not Path(file).is_file():
        raise CommandError(f"there is no file {file}.")
    try:
        model = joblib.load(file)
    except Exception as error:  # unpickling foreign bytes can raise anything
        raise CommandError(f"{file} is not a model saved by `kernelweave fit --out`.") from error
    if not isinstance(model, dict) or model.get("format") != FORMAT:
        raise CommandError(f"{file} is not a model saved by `kernelweave fit --out`.")
    return model


# --- the edges -----------------------------------------------------------------------


@contextmanager
def _asked() -> Iterator[None]:
    """Report what the library refuses as a request that cannot be met."""
    try:
        yield
    except (ValueError, MemoryError) as error:
        raise CommandError(str(error)) from error


def _note(
    message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None
) -> None:
    """Show a warning as a note, without the line of code it comes from."""
    print(f"kernelweave: note: {message}", file=sys.stderr)


def _write(file: TextIO, header: list[str], columns: Sequence[np.ndarray]) -> None:
    """Write columns as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _fraction(text: str) -> float:
    """Read a number between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return value


def _output(text: str) -> str:
    """Refuse an output file in a folder that is not there, before any work is done."""
    if not Path(text).resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of {text} does not exist")
    return text


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="kernelweave", description="Multiple kernel learning.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], None], text: str, **more: Any) -> Any:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        sub.set_defaults(command=command)
        return sub

    demo = add("demo", _demo, "fit bundled data and compare with single-kernel machines")
    demo.add_argument("--out", default=".", metavar="DIR", help="folder for the picture (default: here)")
    _describe_fit(
        add(
            "fit",
            _fit,
            "fit a classifier on a CSV, Parquet or svmlight file",
            epilog=GRAMMAR,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    predict = add("predict", _predict, "predict the rows of a file with a saved model")
    predict.add_argument(
        "model", metavar="MODEL", help="file written by fit --out; open only models you trust"
    )
    predict.add_argument("data", metavar="DATA", help="file with the columns the model was fitted on")
    predict.add_argument(
        "--out", type=_output, metavar="FILE", help="CSV file to write (default: standard output)"
    )
    predict.add_argument("--scores", action="store_true", help="also write the decision values")
    info = add("info", _info, "say what a saved model is: its kernels by weight, gap and support vectors")
    info.add_argument("model", metavar="MODEL", help="file written by fit --out; open only models you trust")
    add("recipes", _recipes, "list the papers that can be asked for by name")
    return parser


def _describe_fit(fit: argparse.ArgumentParser) -> None:
    """Describe the options of `fit`."""
    fit.add_argument("data", metavar="DATA", help="file ending in " + ", ".join(KINDS))
    fit.add_argument("--target", metavar="COL", help="column to predict (svmlight files have their own)")
    fit.add_argument(
        "--kernels",
        nargs="+",
        default=["auto"],
        metavar="SPEC",
        help="see below; give DATA first (default: auto)",
    )
    fit.add_argument("--penalty", default="l1", metavar="NAME", help="l1 (default, sparse), lp, ...")
    fit.add_argument("--p", type=float, metavar="P", help="the p of --penalty lp (default: 2)")
    fit.add_argument("--C", type=float, default=1.0, metavar="C", help="cost of errors (default: 1)")
    fit.add_argument(
        "--tol", type=float, default=1e-3, metavar="T", help="relative gap asked for (default: 1e-3)"
    )
    fit.add_argument(
        "--scale", choices=["standard", "minmax", "none"], default="standard", help="scaling of columns"
    )
    fit.add_argument(
        "--encode", choices=["refuse", "onehot"], default="refuse", help="what to do with text columns"
    )
    fit.add_argument("--test-size", type=_fraction, metavar="F", help="share of rows held out to test on")
    fit.add_argument("--seed", type=int, default=0, metavar="N", help="seed of that choice (default: 0)")
    fit.add_argument("--progress", action="store_true", help="show a progress bar")
    fit.add_argument("--out", type=_output, metavar="MODEL", help="file to save the model in")
