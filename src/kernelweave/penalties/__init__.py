"""Mixing penalties: how kernels share the work."""

from __future__ import annotations

from .base import MixingPenalty
from .mixed import Mixed
from .norms import L1, ElasticNet, Fixed, Group, Lp, MoreauYosida, SquaredLp
from .spectral import SpectralNorm

__all__ = [
    "L1",
    "ElasticNet",
    "Fixed",
    "Group",
    "Lp",
    "Mixed",
    "MixingPenalty",
    "MoreauYosida",
    "SpectralNorm",
    "SquaredLp",
    "make_penalty",
]

_NAMES: dict[str, type[MixingPenalty]] = {
    "average": Fixed,
    "elasticnet": ElasticNet,
    "group": Group,
    "l1": L1,
    "lp": Lp,
    "mixed": Mixed,
    "moreau-yosida": MoreauYosida,
    "spectral": SpectralNorm,
    "squared-lp": SquaredLp,
    "uniform": Fixed,
}


def make_penalty(spec: str | MixingPenalty) -> MixingPenalty:
    """Return the penalty that ``spec`` names, with its defaults, or ``spec`` itself if it is one.

    Examples
    --------
    >>> from kernelweave.penalties import make_penalty
    >>> make_penalty("lp")
    Lp()
    """
    if isinstance(spec, MixingPenalty):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"penalty must be a name or an instance such as Lp(1.5); got {spec!r}.")
    if spec not in _NAMES:
        raise ValueError(f"penalty={spec!r} is not known: choose one of {', '.join(sorted(_NAMES))}.")
    return _NAMES[spec]()
