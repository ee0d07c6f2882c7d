"""Losses: what an error costs."""

from __future__ import annotations

from .base import Loss
from .margin import Hinge, Logistic, Squared, SquaredHinge
from .multiclass import CrammerSinger

__all__ = ["CrammerSinger", "Hinge", "Logistic", "Loss", "Squared", "SquaredHinge", "make_loss"]

_NAMES: dict[str, type[Loss]] = {
    "crammer_singer": CrammerSinger,
    "hinge": Hinge,
    "logistic": Logistic,
    "squared": Squared,
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
