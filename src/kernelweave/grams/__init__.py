"""Stacks of Gram matrices and their representations."""

from .approximations import Approximation, Nystroem, PivotedCholesky, RandomFeatures, make_approximation
from .base import GramStack
from .cached import CachedGram
from .dense import DenseGram
from .factorproducts import FactorProducts
from .lowrank import LowRankGram
from .products import ProductGram

__all__ = [
    "Approximation",
    "CachedGram",
    "DenseGram",
    "FactorProducts",
    "GramStack",
    "LowRankGram",
    "Nystroem",
    "PivotedCholesky",
    "ProductGram",
    "RandomFeatures",
    "make_approximation",
]
