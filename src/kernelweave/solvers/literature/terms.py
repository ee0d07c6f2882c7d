"""What published methods read from the terms of a dual: whether it is a hinge's, and the size of its duals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays import namespace
from ...losses.base import DualTerms


class MarginTerms(NamedTuple):
    """The dual of the hinge, whose duals have a cap, or of the squared hinge, whose duals have a ridge."""

    sign: np.ndarray  # (n,) -1 or +1, the class
    cap: np.ndarray  # (n,) largest size of a dual, infinite for the squared hinge
    ridge: np.ndarray  # (n,) zero for the hinge

    @property
    def hinge(self) -> bool:
        """Whether this is the hinge, and not the squared one."""
        return bool(np.isfinite(self.cap[0]))


def margin_terms(box: DualTerms) -> MarginTerms | None:
    """Return the dual of a hinge or squared hinge as signs, caps and ridges, or None where it is another."""
    sign = np.sign(box.linear)
    cap, other = np.where(sign > 0, [box.upper, box.lower], [-box.lower, box.upper])
    one_sided = bool(np.all(np.abs(box.linear) == 1.0)) and not other.any() and not box.entropic and not box.kinked
    hinge = bool(np.all(np.isfinite(cap))) and not box.ridge.any()
    squared = bool(np.all(np.isinf(cap)) and np.all(box.ridge > 0))
    return MarginTerms(sign, cap, box.ridge) if one_sided and (hinge or squared) else None


def mean_cost(box: DualTerms, unit: float = 1.0) -> float:
    """Return the mean size that duals can have: the room between bounds, or what the ridge leaves where that is less.

    For labels -1 and +1, the mean of the costs C; ``unit`` is the size of other targets.
    """
    xp = namespace(box.ridge)
    one, ridged = 1.0 + 0.0 * box.ridge, box.ridge > 0
    size = xp.where(ridged, unit / xp.where(ridged, box.ridge, one), one * np.inf)
    size = xp.minimum(size, box.upper - box.lower)
    return float(xp.mean(xp.where(xp.isfinite(size), size, one)))
