"""Solvers: one algorithm each, one loop for all."""

from __future__ import annotations

from ..problem import Problem
from . import literature
from .active import ActiveKernels
from .active_newton import ActiveNewton
from .ascent import Ascent
from .base import Solver, solve
from .choose import choose
from .coordinate import Coordinate
from .direct import Direct
from .features import Features
from .frank_wolfe import FrankWolfe
from .interior import Interior
from .lagrangian import Lagrangian
from .mirror import Mirror
from .newton import Newton
from .newton_cg import NewtonCG
from .proximal import Proximal
from .rows import Rows
from .smo import SMO
from .sqp import SQP
from .ssnal import SsNAL

__all__ = [
    "SMO",
    "SQP",
    "ActiveKernels",
    "ActiveNewton",
    "Ascent",
    "Coordinate",
    "Direct",
    "Features",
    "FrankWolfe",
    "Interior",
    "Lagrangian",
    "Mirror",
    "Newton",
    "NewtonCG",
    "Proximal",
    "Rows",
    "Solver",
    "SsNAL",
    "literature",
    "make_solver",
    "solve",
]

_ON_KERNELS = (SQP, Ascent, SMO, Proximal, NewtonCG, Lagrangian, Mirror, Direct, Features, FrankWolfe)
_ON_BANKS = (ActiveKernels, ActiveNewton)
_ON_FEATURES = (Interior, SsNAL, Newton, Coordinate, Rows)
_DEFAULT = _ON_KERNELS + _ON_FEATURES + _ON_BANKS
_NAMES: dict[str, type[Solver]] = {solver.name: solver for solver in _DEFAULT + literature.METHODS}


def make_solver(spec: str | Solver, problem: Problem, tol: float = 1e-3, begun: bool = False) -> Solver:
    """Return the solver that ``spec`` names; "auto" chooses by the problem and the gap asked for.

    ``begun`` says that it starts from the answer to a problem like it.

    Examples
    --------
    >>> from kernelweave.solvers import make_solver
    >>> make_solver("smo", problem=None).name
    'smo'
    """
    if isinstance(spec, Solver):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"solver must be a name or an instance such as SQP(); got {spec!r}.")
    if spec == "auto":
        return choose(problem, tol, begun)
    if spec not in _NAMES:
        raise ValueError(f"solver {spec!r} is not known: choose one of {', '.join(['auto', *sorted(_NAMES)])}.")
    return _NAMES[spec]()
