"""From options to a pipeline, and from a pipeline to a file and back."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .base import CommandError, asked, few
from .files import Data
from .specs import parse_kernels, parse_loss
from .tasks import estimator_of


def make_pipeline(data: Data, options: argparse.Namespace) -> Any:
    """Put encoding, scaling and the estimator together."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    named = bool(data.columns)
    prepare = _scaler(options.scale, sparse=not named)
    if data.text:
        encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        rest = [name for name in data.columns if name not in data.text]
        parts = [("numbers", prepare, rest), ("text", encoder, list(data.text))]
        prepare = ColumnTransformer(parts, verbose_feature_names_out=False)
        print(f"kernelweave: note: one column for each value of {few(data.text)}", file=sys.stderr)
    if named and prepare != "passthrough":
        prepare = prepare.set_output(transform="pandas")
    return make_pipeline(prepare, _estimator(data.task, options))


def _estimator(task: str, options: argparse.Namespace) -> Any:
    """Make the estimator of a task; what was not asked for is left at its default."""
    given = {"penalty": _penalty(options), "C": options.C, "nu": options.nu, "loss": parse_loss(options.loss)}
    given = {name: value for name, value in given.items() if value is not None}
    chosen = estimator_of(task)
    for name in given:
        if name not in chosen().get_params():
            raise CommandError(f"--{name} is not for --task {task}: leave it out.")
    return chosen(
        parse_kernels(options.kernels),
        approximation=_approximation(options),
        tol=options.tol,
        psd=options.psd,
        random_state=options.seed,
        progress=options.progress,
        **given,
    )


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
    from .. import penalties

    if options.penalty == "lp":
        return penalties.Lp(2.0 if options.p is None else options.p)
    if options.p is not None:
        given = "the default" if options.penalty is None else f"--penalty {options.penalty}"
        raise CommandError(f"--p goes with --penalty lp, not with {given}.")
    return options.penalty


def _approximation(options: argparse.Namespace) -> Any:
    """Read --approximation and --rank."""
    if options.approximation is None:
        if options.rank is not None:
            raise CommandError("--rank goes with --approximation: name one, such as --approximation nystroem.")
        return None
    from ..grams import make_approximation

    chosen = make_approximation(options.approximation)
    return chosen if options.rank is None else chosen.set_params(rank=options.rank)


def save(pipeline: Any, data: Data, options: argparse.Namespace) -> None:
    """Write a model that `predict` and `info` can open."""
    from ..modelfile import save as write

    notes = {
        "task": data.task,
        "target": options.target,
        "event": options.event,
        "columns": list(data.columns),
        "text": list(data.text),
        "n_features": int(data.X.shape[1]),
        "first_index": data.first_index,
    }
    with asked():
        write(pipeline, options.out, notes=notes)
    print(f"\nmodel saved to {options.out}")


def load(file: str) -> dict[str, Any]:
    """Open a saved model, with what is known of the files it can predict."""
    from ..modelfile import read_model

    with asked():
        pipeline, header = read_model(file)
    notes = header["notes"]
    if not {"task", "target", "event", "columns", "text", "n_features", "first_index"} <= set(notes):
        raise CommandError(f"{file} was not saved by `kernelweave fit --out`: open it in Python, with kw.load.")
    return {**notes, "pipeline": pipeline, "version": header.get("kernelweave")}
