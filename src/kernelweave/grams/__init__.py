"""Stacks of Gram matrices and their representations."""

from .approximations import Approximation, Nystroem, PivotedCholesky, RandomFeatures, make_approximation
from .base import GramStack
from .cached import CachedGram
from .dense import DenseGram
from .lowrank import LowRankGram

__all__ = [
    "Approximation",
    "CachedGram",
    "DenseGram",
    "GramStack",
    "LowRankGram",
    "Nystroem",
    "PivotedCholesky",
    "RandomFeatures",
    "make_approximation",
]
