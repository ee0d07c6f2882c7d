"""Solvers: one algorithm each, one loop for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import is_numpy
from ..grams import CachedGram
from ..penalties import L1, SpectralNorm
from ..problem import Problem
from .alternating import Alternating
from .ascent import Ascent
from .base import Solver, solve
from .coordinate import Coordinate
from .frank_wolfe import FrankWolfe
from .interior import Interior, Mehrotra
from .level import LevelMethod
from .mirror import Mirror
from .mwu import MWU
from .newton import Newton
from .proximal import Proximal
from .qcqp import QCQP
from .rows import Rows
from .silp import SILP
from .simplemkl import SimpleMKL
from .skm import SKM
from .smo import SMO
from .smo_mkl import SMOMKL
from .spg import SPG
from .splitting import GFB, MergedGFB
from .sqp import SQP
from .ssnal import SsNAL

__all__ = [
    "GFB",
    "MWU",
    "QCQP",
    "SILP",
    "SKM",
    "SMO",
    "SMOMKL",
    "SPG",
    "SQP",
    "Alternating",
    "Ascent",
    "Coordinate",
    "FrankWolfe",
    "Interior",
    "LevelMethod",
    "Mehrotra",
    "MergedGFB",
    "Mirror",
    "Newton",
    "Proximal",
    "Rows",
    "SimpleMKL",
    "Solver",
    "SsNAL",
    "learns_bias",
    "make_solver",
    "solve",
]

LIGHT = 10.0  # cost times size of the kernels up to which single coordinates get there soon
MANY = 10**6  # features below which every solver is quick, and the most robust is taken
HEAVY = 1e5  # cost times size of the kernels beyond which the interior point loses its footing
WIDE = 600  # columns from which a matrix of samples that err is cheaper than one of all samples,
LONG = 10**4  # and samples from which it is
ROUGH = 30.0  # cost times size of the kernels beyond which passes over single samples become too many,
SQUARE = 4000  # unless a joint margin has more samples than these

_NAMES: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (SQP, Ascent, SMO, Proximal, SKM, Alternating, MWU, Mirror, FrankWolfe)
    + (SimpleMKL, SILP, LevelMethod, SMOMKL, SPG, QCQP)
    + (Interior, Coordinate, Rows, SsNAL, Newton, Mehrotra, GFB, MergedGFB)
}


def make_solver(spec: str | Solver, problem: Problem, tol: float = 1e-3) -> Solver:
    """Return the solver that ``spec`` names; "auto" chooses by the problem and the gap asked for."""
    if isinstance(spec, Solver):
        return spec
    if spec == "auto":
        return _on_factors(problem, tol) if hasattr(problem.gram, "weighted") else _on_kernels(problem)
    if spec not in _NAMES:
        raise ValueError(f"solver {spec!r} is not known: choose one of {', '.join(['auto', *sorted(_NAMES)])}.")
    return _NAMES[spec]()


def learns_bias(spec: str | Solver) -> bool:
    """Whether the solver that ``spec`` names takes problems with a bias."""
    known: Any = _NAMES.get(spec, Solver) if isinstance(spec, str) else spec
    return bool(known.biased)


def _on_kernels(problem: Problem) -> Solver:
    if isinstance(problem.penalty, SpectralNorm):
        return FrankWolfe()
    if not problem.bias or not hasattr(problem.loss, "quadratic"):
        return Ascent()
    if isinstance(problem.gram, CachedGram):  # each column costs: the solvers that ask for the fewest
        return Proximal() if isinstance(problem.penalty, L1) else SMO()
    return SMO() if problem.penalty.kinked else SQP()


def _on_factors(problem: Problem, tol: float) -> Solver:
    """Return what was fastest in ``benchmarks/lowrank.py`` and ``benchmarks/gpu.py`` on problems of this kind."""
    if not problem.bias:
        return _without_bias(problem)
    if not hasattr(problem.loss, "quadratic"):
        return Newton()
    if Interior().refuse(problem):
        return Newton()
    features = problem.gram.features
    if not is_numpy(features):
        return Interior()
    heft = _heft(problem)
    easy = heft <= LIGHT and tol >= 1e-4 and problem.penalty.smooth and features.size >= MANY
    if easy and not Coordinate().refuse(problem):
        return Coordinate()
    large = features.shape[0] > LONG or features.shape[1] > WIDE or heft > HEAVY
    return SsNAL() if large and not SsNAL().refuse(problem) else Interior()


def _heft(problem: Problem) -> float:
    """Return the largest cost times the mean size of a kernel's entry of a sample, from some samples."""
    features = problem.gram.features
    few = features[:: max(1, features.shape[0] // 1000)]
    return float(problem.C.max()) * float(np.sum(few.astype(float) ** 2)) / (few.shape[0] * problem.gram.shape[1])


def _without_bias(problem: Problem) -> Solver:
    """Return single rows of duals for small costs, Newton's steps on a square of samples for large ones."""
    if not is_numpy(problem.gram.features) or _heft(problem) <= ROUGH:
        return Rows()
    return Rows() if len(problem.shape) > 1 and problem.y.size > SQUARE else Ascent()
