"""Stacks of Gram matrices and their representations."""

from .approximations import (
    Approximation,
    ExplicitFeatures,
    Nystroem,
    PivotedCholesky,
    RandomFeatures,
    SharedBasis,
    make_approximation,
)
from .base import BankGram, CombinableGram, EntryGram, FactorGram, GramStack, ProductStack
from .basis import BasisGram
from .cached import CachedGram
from .chunked import ChunkedGram
from .dense import DenseGram
from .effects import EffectsGram
from .factorproducts import FactorProducts
from .lowrank import LowRankGram
from .products import ProductGram, products_for
from .recomputed import RecomputedGram
from .tensors import TensorGram

__all__ = [
    "Approximation",
    "BankGram",
    "BasisGram",
    "CachedGram",
    "ChunkedGram",
    "CombinableGram",
    "DenseGram",
    "EffectsGram",
    "EntryGram",
    "ExplicitFeatures",
    "FactorGram",
    "FactorProducts",
    "GramStack",
    "LowRankGram",
    "Nystroem",
    "PivotedCholesky",
    "ProductGram",
    "ProductStack",
    "RandomFeatures",
    "RecomputedGram",
    "SharedBasis",
    "TensorGram",
    "make_approximation",
    "products_for",
]
