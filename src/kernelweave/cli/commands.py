"""The commands and their options."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import CommandError, asked
from .demo import demo
from .files import KINDS, Wanted, read, write_csv
from .models import load, make_pipeline, save
from .specs import APPROXIMATIONS, GRAMMAR
from .tasks import TASKS, described, scored


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
    >>> main(["info", "no-such-file.kw"])
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


def _fit(options: argparse.Namespace) -> None:
    """Fit a model on a file and say what it found."""
    from sklearn.model_selection import train_test_split

    data = read(options.data, Wanted(options.task, options.target, options.event, options.encode))
    rows, held_out = np.arange(data.X.shape[0]), np.arange(0)
    with asked():
        if options.test_size:
            labels = data.y if data.task == "classification" else None
            rows, held_out = train_test_split(
                rows, test_size=options.test_size, random_state=options.seed, stratify=labels
            )
        pipeline = make_pipeline(data, options).fit(*data.rows(rows))
    print(pipeline[-1].summary())
    if options.cv is not None:
        print(_chosen(pipeline[-1]))
    if held_out.size:
        with asked():
            name, text = scored(data.task, pipeline, *data.rows(held_out))
        print(f"{'test ' + name:<15}  {text} held out")
    if options.plot:
        _draw(pipeline[-1], options.plot)
    if options.report:
        _write_report(pipeline, *data.rows(held_out if held_out.size else rows), options.report)
    if options.out:
        save(pipeline, data, options)


def _chosen(model: Any) -> str:
    """Say what cross-validation chose, and how it scored."""
    return f"{'chosen':<15}  {model.best_candidate_}, C={model.best_params_['C']:.3g}, score {model.best_score_:.4f}"


def _write_report(pipeline: Any, X: Any, y: Any, file: str) -> None:
    """Write the page about a model."""
    from ..report import report

    with asked():
        report(pipeline, X, y, file)
    print(f"report written to {file}")


def _report(options: argparse.Namespace) -> None:
    """Write a page about a saved model, looked at with the rows of a file."""
    model = load(options.model)
    data = read(options.data, model=model)
    if data.y is None and model["task"] != "outliers":
        note = f"{options.data} has no target, so the page cannot say how good the model is"
        print(f"kernelweave: note: {note}", file=sys.stderr)
    _write_report(model["pipeline"], data.X, data.y, options.out)


def _draw(model: Any, file: str) -> None:
    """Save a picture of the weights."""
    from .. import plot

    with asked():
        axes = plot.weights(model, ax=plot.canvas(7.5, 5.0))
        axes.figure.savefig(file, dpi=150)
    print(f"picture of the weights: {file}")


def _predict(options: argparse.Namespace) -> None:
    """Predict the rows of a file with a saved model."""
    model = load(options.model)
    pipeline, data = model["pipeline"], read(options.data, model=model)
    task = model.get("task", "classification")
    with asked():
        predicted = pipeline.predict(data.X)
        header, columns = _scores(task, pipeline, data.X) if options.scores else ([], [])
    header, columns = ["prediction", *header], [predicted, *columns]
    if options.out:
        with open(options.out, "w", newline="", encoding="utf-8") as file:
            write_csv(file, header, columns)
        print(f"{len(predicted)} predictions written to {options.out}", file=sys.stderr)
    else:
        write_csv(sys.stdout, header, columns)
    known = data.y is not None and (task != "classification" or set(data.y) <= set(pipeline.classes_))
    if known or task == "outliers":
        with asked():
            print(" ".join(scored(task, pipeline, data.X, data.y)), file=sys.stderr)


def _scores(task: str, pipeline: Any, X: Any) -> tuple[list[str], list[np.ndarray]]:
    """Return the names and the columns of the decision values of some rows."""
    if task not in ("classification", "outliers"):
        raise CommandError(f"--scores is not for a model of {task}, whose predictions are its decision values.")
    scores = np.asarray(pipeline.decision_function(X)).reshape(X.shape[0], -1)
    if task == "outliers":
        return ["score"], [scores[:, 0]]
    return [f"score {label}" for label in pipeline.classes_[-scores.shape[1] :]], list(scores.T)


def _info(options: argparse.Namespace) -> None:
    """Say what a saved model is."""
    model = load(options.model)
    print(described(model))
    print(f"{model['n_features']} columns, saved by kernelweave {model['version']}\n")
    print(model["pipeline"][-1].summary())


def _recipes(options: argparse.Namespace) -> None:
    """Print the table of papers and what configures each."""
    from ..recipes import recipes

    table = recipes()
    if options.names:
        try:
            table = type(table)((name, table.named(name)) for name in options.names)
        except ValueError as error:
            raise CommandError(str(error)) from None
    if options.format == "csv":
        rows = table.rows()
        write_csv(sys.stdout, list(rows[0]), [np.array([row[column] for row in rows]) for column in rows[0]])
    elif options.format == "json":
        print(json.dumps(table.rows(), indent=1))
    elif options.names and options.format == "table":  # few of them, to be read from top to bottom
        print("\n\n".join("\n".join(f"{fact:10} {text}" for fact, text in row.items()) for row in table.rows()))
    else:
        print(table.markdown().rstrip() if options.format == "markdown" else table)
        if options.format == "table":
            print("\nkernelweave recipes NAME shows all that is known of one.")


def _note(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    """Show a warning as a note, without the line of code it comes from."""
    print(f"kernelweave: note: {message}", file=sys.stderr)


def _fraction(text: str) -> float:
    """Read a number between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return value


def _folds(text: str) -> int:
    """Read a number of folds."""
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be 2 or more, got {text}")
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

    show = add("demo", demo, "fit bundled data and compare with single-kernel SVMs")
    show.add_argument("--out", default=".", metavar="DIR", help="folder for the picture (default: here)")
    _describe_fit(
        add(
            "fit",
            _fit,
            "fit a model on a CSV, Parquet or svmlight file",
            epilog=GRAMMAR,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    predict = add("predict", _predict, "predict the rows of a file with a saved model")
    predict.add_argument("model", metavar="MODEL", help="file written by fit --out")
    predict.add_argument("data", metavar="DATA", help="file with the columns the model was fitted on")
    predict.add_argument("--out", type=_output, metavar="FILE", help="CSV file to write (default: standard output)")
    predict.add_argument("--scores", action="store_true", help="also write the decision values")
    info = add("info", _info, "say what a saved model is: its kernels by weight, gap and support vectors")
    info.add_argument("model", metavar="MODEL", help="file written by fit --out")
    page = add("report", _report, "write a page about a saved model, looked at with the rows of a file")
    page.add_argument("model", metavar="MODEL", help="file written by fit --out")
    page.add_argument("data", metavar="DATA", help="file with the columns the model was fitted on, and the target")
    page.add_argument("--out", type=_output, default="report.html", metavar="FILE", help="page (default: report.html)")
    recipes = add("recipes", _recipes, "list the papers that can be asked for by name")
    recipes.add_argument("names", nargs="*", metavar="NAME", help="papers to show (default: all)")
    formats = ["table", "csv", "json", "markdown"]
    recipes.add_argument("--format", choices=formats, default="table", help="how to write the list (default: table)")
    return parser


def _describe_fit(fit: argparse.ArgumentParser) -> None:
    """Describe the options of `fit`."""
    fit.add_argument("data", metavar="DATA", help="file ending in " + ", ".join(KINDS))
    fit.add_argument(
        "--task",
        choices=["auto", *TASKS],
        default="auto",
        help="what to learn (default: classification, or regression where the target holds fractions)",
    )
    fit.add_argument("--target", metavar="COL", help="column to predict (svmlight files have their own)")
    fit.add_argument("--event", metavar="COL", help="survival: whether the event was seen; --target is the time")
    fit.add_argument(
        "--kernels",
        nargs="+",
        default=["auto"],
        metavar="SPEC",
        help="see below; give DATA first (default: auto)",
    )
    fit.add_argument("--penalty", metavar="NAME", help="l1 (sparse; the default but for outliers), lp, ...")
    fit.add_argument("--p", type=float, metavar="P", help="the p of --penalty lp (default: 2)")
    fit.add_argument("--loss", metavar="SPEC", help="hinge, logistic, squared, huber:1.5, quantile:0.9, ...")
    fit.add_argument("--C", type=float, metavar="C", help="cost of errors (default: 1)")
    fit.add_argument("--nu", type=float, metavar="NU", help="share of outliers (default: 0.5)")
    fit.add_argument("--approximation", choices=APPROXIMATIONS, help="features of low rank instead of kernels")
    fit.add_argument("--rank", type=int, metavar="R", help="columns for each kernel of --approximation")
    fit.add_argument("--recipe", metavar="NAME", help="a published method; see kernelweave recipes")
    fit.add_argument("--solver", metavar="NAME", help="how to solve (default: chosen by the problem)")
    fit.add_argument("--cv", type=_folds, metavar="K", help="choose C, penalty and sizes by K-fold cross-validation")
    fit.add_argument("--tol", type=float, metavar="T", help="relative gap asked for (default: 1e-3)")
    fit.add_argument("--scale", choices=["standard", "minmax", "none"], default="standard", help="scaling of columns")
    fit.add_argument("--encode", choices=["refuse", "onehot"], default="refuse", help="what to do with text columns")
    fit.add_argument("--psd", choices=["check", "clip", "trust"], default="check", help="what to do if indefinite")
    fit.add_argument("--test-size", type=_fraction, metavar="F", help="share of rows held out to test on")
    fit.add_argument("--seed", type=int, default=0, metavar="N", help="seed of every random choice (default: 0)")
    fit.add_argument("--progress", action="store_true", help="show a progress bar")
    fit.add_argument("--plot", type=_output, metavar="FILE", help="picture of the weights (.png, .svg or .pdf)")
    fit.add_argument("--report", type=_output, metavar="FILE", help="page about the model, on rows held out if any")
    fit.add_argument("--out", type=_output, metavar="MODEL", help="file to save the model in")
