"""Solvers: one algorithm each, one loop for all."""

from __future__ import annotations

from ..problem import Problem
from .alternating import Alternating
from .base import Solver, solve
from .coordinate import Coordinate
from .interior import Interior, Mehrotra
from .mwu import MWU
from .newton import Newton
from .proximal import Proximal
from .skm import SKM
from .smo import SMO
from .splitting import GFB, MergedGFB
from .sqp import SQP
from .ssnal import SsNAL

__all__ = [
    "GFB",
    "MWU",
    "SKM",
    "SMO",
    "SQP",
    "Alternating",
    "Coordinate",
    "Interior",
    "Mehrotra",
    "MergedGFB",
    "Newton",
    "Proximal",
    "Solver",
    "SsNAL",
    "make_solver",
    "solve",
]

_NAMES: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (SQP, SMO, Proximal, SKM, Alternating, MWU)
    + (Interior, Coordinate, SsNAL, Newton, Mehrotra, GFB, MergedGFB)
}


def make_solver(spec: str | Solver, problem: Problem) -> Solver:
    """Return the solver that ``spec`` names; "auto" chooses by the problem."""
    if isinstance(spec, Solver):
        return spec
    if spec == "auto":
        return _choose(problem)
    if spec not in _NAMES:
        raise ValueError(f"solver {spec!r} is not known: choose one of {', '.join(['auto', *sorted(_NAMES)])}.")
    return _NAMES[spec]()


def _choose(problem: Problem) -> Solver:
    """Return the solver that measured best on problems of this kind."""
    if hasattr(problem.gram, "weighted"):
        return Newton() if Interior().refuse(problem) else Interior()
    return SMO() if problem.penalty.kinked else SQP()
