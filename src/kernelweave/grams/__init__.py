"""Stacks of Gram matrices and their representations."""

from .approximations import Approximation, Nystroem, PivotedCholesky, RandomFeatures, make_approximation
from .base import GramStack
from .cached import CachedGram
from .dense import DenseGram
from .lowrank import LowRankGram
from .products import ProductGram

__all__ = [
    "Approximation",
    "CachedGram",
    "DenseGram",
    "GramStack",
    "LowRankGram",
    "Nystroem",
    "PivotedCholesky",
    "ProductGram",
    "RandomFeatures",
    "make_approximation",
]
