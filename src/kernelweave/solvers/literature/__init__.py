"""Published algorithms, each as its paper has it: to compare with, and to repeat what was printed."""

from __future__ import annotations

from ..base import Solver
from ..interior import Mehrotra
from .alternating import Alternating
from .level import LevelMethod
from .mwu import MWU
from .qcqp import QCQP
from .silp import SILP
from .simplemkl import SimpleMKL
from .skm import SKM
from .smo_mkl import SMOMKL
from .spg import SPG
from .splitting import GFB, MergedGFB

__all__ = [
    "GFB",
    "MWU",
    "QCQP",
    "SILP",
    "SKM",
    "SMOMKL",
    "SPG",
    "Alternating",
    "LevelMethod",
    "Mehrotra",
    "MergedGFB",
    "SimpleMKL",
]

METHODS: tuple[type[Solver], ...] = (
    *(SKM, Alternating, MWU, SimpleMKL, SILP, LevelMethod),
    *(SMOMKL, SPG, QCQP, Mehrotra, GFB, MergedGFB),
)
