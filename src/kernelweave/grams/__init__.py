"""Stacks of Gram matrices and their representations."""

from .approximations import Approximation, Nystroem, PivotedCholesky, RandomFeatures, make_approximation
from .base import CombinableGram, EntryGram, FactorGram, GramStack, ProductStack
from .cached import CachedGram
from .dense import DenseGram
from .factorproducts import FactorProducts
from .lowrank import LowRankGram
from .products import ProductGram, products_for

__all__ = [
    "Approximation",
    "CachedGram",
    "CombinableGram",
    "DenseGram",
    "EntryGram",
    "FactorGram",
    "FactorProducts",
    "GramStack",
    "LowRankGram",
    "Nystroem",
    "PivotedCholesky",
    "ProductGram",
    "ProductStack",
    "RandomFeatures",
    "make_approximation",
    "products_for",
]
