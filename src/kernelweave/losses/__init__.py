"""Losses: what an error costs."""

from __future__ import annotations

from .base import BoundLoss, DualTerms, Loss
from .margin import Hinge, Logistic, SquaredHinge
from .multiclass import CrammerSinger, Softmax
from .outliers import OneClass
from .regression import EpsilonInsensitive, Huber, Quantile, Squared, SquaredEpsilonInsensitive
from .survival import Cox

__all__ = [
    "BoundLoss",
    "Cox",
    "CrammerSinger",
    "DualTerms",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "OneClass",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "make_loss",
]

_NAMES: dict[str, type[Loss]] = {
    "cox": Cox,
    "crammer_singer": CrammerSinger,
    "epsilon_insensitive": EpsilonInsensitive,
    "hinge": Hinge,
    "huber": Huber,
    "logistic": Logistic,
    "one_class": OneClass,
    "quantile": Quantile,
    "softmax": Softmax,
    "squared": Squared,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "squared_hinge": SquaredHinge,
}


def make_loss(spec: str | Loss) -> Loss:
    """Return the loss that ``spec`` names, or ``spec`` itself if it is one.

    Examples
    --------
    >>> from kernelweave.losses import make_loss
    >>> make_loss("hinge")
    Hinge()
    """
    if isinstance(spec, Loss):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"loss must be a name or an instance such as Hinge(); got {spec!r}.")
    if spec not in _NAMES:
        raise ValueError(f"loss={spec!r} is not known: choose one of {', '.join(sorted(_NAMES))}.")
    return _NAMES[spec]()
