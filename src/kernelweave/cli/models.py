"""From options to a pipeline, and from a pipeline to a file and back."""

from __future__ import annotations

import argparse
import sys
from types import NoneType
from typing import Any

from .base import CommandError, asked, few
from .files import Data
from .specs import parse_kernels, parse_loss
from .tasks import TASKS, choosing_of, estimator_of


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
    """Make the estimator of a task, of a recipe or of a choice by cross-validation; the rest is left at its default."""
    if options.recipe is not None:
        return _recipe(task, options)
    if options.cv is not None:
        return _choosing(task, options)
    return _configured(estimator_of(task)(parse_kernels(options.kernels)), f"--task {task}", options)


def _recipe(task: str, options: argparse.Namespace) -> Any:
    """Make the estimator of a paper; what is asked for besides wins over the recipe's own."""
    from ..recipes import recipe

    if task != "classification":
        raise CommandError(f"--recipe is for classification, not for --task {task}: leave it out.")
    if options.cv is not None:
        raise CommandError("--cv chooses the penalty that --recipe would fix: leave one of them out.")
    kernels = parse_kernels(options.kernels)
    with asked():
        made = recipe(options.recipe, None if kernels == "auto" else kernels)
    return _configured(made, f"--recipe {options.recipe}", options)


def _choosing(task: str, options: argparse.Namespace) -> Any:
    """Make the estimator that chooses penalty, size of kernels and C by cross-validation."""
    kind = choosing_of(task)
    if kind is None:
        raise CommandError(f"--cv is not for --task {task}, which has nothing to choose by: leave it out.")
    if options.C is not None:
        raise CommandError("--cv chooses C: leave out --C, or --cv.")
    penalty = _penalty(options)
    candidates = "auto" if penalty is None else [penalty]
    made = kind(parse_kernels(options.kernels), cv=options.cv, candidates=candidates)
    options = argparse.Namespace(**{**vars(options), "penalty": None, "p": None})
    return _configured(made, f"--cv with --task {task}", options)


def _configured(estimator: Any, asked_for: str, options: argparse.Namespace) -> Any:
    """Set what was asked for, or say that the estimator has no such parameter."""
    known = estimator.get_params()
    given = {
        "penalty": _penalty(options),
        "C": options.C,
        "nu": options.nu,
        "loss": parse_loss(options.loss),
        "solver": options.solver,
        "approximation": _approximation(options),
        "tol": options.tol,
    }
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in known:
            raise CommandError(f"--{name} is not for {asked_for}: leave it out.")
    always = {"psd": options.psd, "random_state": options.seed, "progress": options.progress}
    return estimator.set_params(**given, **{name: value for name, value in always.items() if name in known})


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
    if not _is_ours(notes, pipeline):
        raise CommandError(f"{file} was not saved by `kernelweave fit --out`: open it in Python, with kw.load.")
    return {**notes, "pipeline": pipeline, "version": header.get("kernelweave")}


def _is_ours(notes: dict[str, Any], pipeline: Any) -> bool:
    """Whether the notes in a file are such as `save` writes, for the model that is there."""
    if not hasattr(pipeline, "named_steps") or notes.get("task") not in TASKS:
        return False
    kinds: dict[str, Any] = {"target": (str, NoneType), "event": (str, NoneType), "n_features": int, "first_index": int}
    if not all(name in notes and isinstance(notes[name], kind) for name, kind in kinds.items()):
        return False
    lists = [notes.get("columns"), notes.get("text")]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        return False
    task = "binary" if notes["task"] == "classification" else notes["task"]
    return task in pipeline[-1]._reads
