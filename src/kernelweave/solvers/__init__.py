"""Solvers: one algorithm each, one loop for all."""

from __future__ import annotations

from ..problem import Problem
from .alternating import Alternating
from .base import Solver, solve
from .mwu import MWU
from .proximal import Proximal
from .skm import SKM
from .smo import SMO
from .sqp import SQP

__all__ = ["MWU", "SKM", "SMO", "SQP", "Alternating", "Proximal", "Solver", "make_solver", "solve"]

_NAMES: dict[str, type[Solver]] = {solver.name: solver for solver in (SQP, SMO, Proximal, SKM, Alternating, MWU)}


def make_solver(spec: str | Solver, problem: Problem) -> Solver:
    """Return the solver that ``spec`` names; "auto" chooses by the problem."""
    if isinstance(spec, Solver):
        return spec
    if spec == "auto":
        return SMO() if problem.penalty.kinked else SQP()
    if spec not in _NAMES:
        raise ValueError(f"solver {spec!r} is not known: choose one of {', '.join(['auto', *sorted(_NAMES)])}.")
    return _NAMES[spec]()
