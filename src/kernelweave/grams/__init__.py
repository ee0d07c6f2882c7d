"""Stacks of Gram matrices and their representations."""

from .base import GramStack
from .dense import DenseGram
from .lowrank import LowRankGram

__all__ = ["DenseGram", "GramStack", "LowRankGram"]
