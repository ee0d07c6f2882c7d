"""Kernels and losses in one word: the SPECs of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import CommandError

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
APPROXIMATIONS = ("nystroem", "cholesky", "random_features")
GRAMMAR = """\
a kernel SPEC is FAMILY[:VALUES][@COLUMNS], for example
  rbf:0.01,0.1,1      three widths on all columns
  rbf:0.1@each        one kernel for each column
  linear@age,income   on two columns by name (0,1,2 by number, 0:10 for a range)
  polynomial:1,2,3    three degrees
  auto                widths around the scale of the data, linear, polynomial (the default)
families: """ + ", ".join(PARAMETERS)


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


def parse_loss(spec: str | None) -> Any:
    """Turn the loss SPEC of the command line, NAME or NAME:VALUE, into a loss; None into None.

    Examples
    --------
    >>> from kernelweave.cli.specs import parse_loss
    >>> parse_loss("quantile:0.9")
    Quantile(level=0.9)
    """
    if spec is None:
        return None
    from .. import losses

    name, colon, value = spec.partition(":")
    try:
        loss = losses.make_loss(name.strip().lower().replace("-", "_"))
    except ValueError as error:
        raise CommandError(f"--{error}") from None
    if not colon:
        return loss
    parameters = list(loss.get_params())
    if len(parameters) != 1:
        raise CommandError(f"--loss {spec}: {name} takes no value; write it without the colon.")
    try:
        return loss.set_params(**{parameters[0]: float(value)})
    except ValueError:
        raise CommandError(f"--loss {spec}: give {parameters[0]} as a number.") from None


def _family(spec: str) -> list[Any]:
    """Read one SPEC."""
    from .. import kernels

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
