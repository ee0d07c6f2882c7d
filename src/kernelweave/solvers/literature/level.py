"""The level method: SVMs give cuts, and the weights move no further than to a level between the bounds."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import nnls

from ...problem import Problem
from .cuts import Cuts, CutState, Cutting


@dataclass(frozen=True)
class LevelSettings:
    """Constants of the projection on a level."""

    dust: float = 1e-12  #: share that rounding leaves of none
    steps: int = 100  #: of the active set method, per constraint


SETTINGS = LevelSettings()


class LevelMethod(Cutting):
    """The extended level method of Xu, Jin, King and Lyu (NIPS 2008), for ``penalty='l1'``.

    It minimises over the simplex of weights the value ``J(w)`` of the SVM at ``w``, by the cuts of `SILP`. The next SVM
    is trained not where the cuts are lowest but at the nearest weights to the present ones at which all cuts are below
    a level between their lower bound and the best J. A step is an SVM, a linear programme and a projection, or a proof
    as for `SILP`.

    Parameters
    ----------
    level : float, default=0.29
        How far the level is from the lower to the upper bound, between 0 (which is SILP) and 1. The default is where
        the bound on the number of SVMs is least; nearer to 1 weights move less and SVMs are many more.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(solver="level").get_params()["solver"]
    'level'
    """

    name = "level"

    def __init__(self, level: float = 0.29):
        self.level = level

    def refuse(self, problem: Problem) -> str | None:
        level: Any = self.level
        if not isinstance(level, Real) or not 0 < float(level) < 1:
            return f"takes a level between 0 and 1, not {level!r}."
        return super().refuse(problem)

    @property
    def rough(self) -> float:
        return super().rough * (1.0 - self.level)  # else the level may be above what the SVM is worth

    def choose(self, state: CutState, lowest: np.ndarray) -> np.ndarray:
        cuts = state.cuts
        return project(state.shares, cuts, cuts.lower + self.level * max(cuts.upper - cuts.lower, 0.0), lowest)


def project(
    shares: np.ndarray,  # (m,)
    cuts: Cuts,
    level: float,
    lowest: np.ndarray,  # (m,)
) -> np.ndarray:  # (m,)
    """Return the nearest point of the simplex at which no cut is above ``level``, or ``lowest`` if none is found.

    A least distance under linear constraints ``G x >= h`` is a least squares problem with nonnegative unknowns (Lawson
    and Hanson 1974, chapter 23), one for each constraint, which SciPy solves by an active set.
    """
    m, size = shares.size, max(abs(cuts.upper), 1e-300)
    slopes = 0.5 * np.array(cuts.costs) / size
    above = (np.array(cuts.totals) - level) / size - slopes @ shares
    G = np.vstack([np.eye(m), slopes, np.ones(m), -np.ones(m)])
    h = np.concatenate([-shares, above, [0.0, 0.0]])
    E, e = np.vstack([G.T, h]), np.append(np.zeros(m), 1.0)
    try:
        rest = E @ nnls(E, e, maxiter=SETTINGS.steps * h.size)[0] - e
    except RuntimeError:  # no answer within so many steps
        return lowest
    if not rest[-1] < 0:
        return lowest
    found = shares - rest[:-1] / rest[-1]
    found[found < SETTINGS.dust] = 0.0
    return found / found.sum() if found.any() else lowest
