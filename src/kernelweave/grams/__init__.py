"""Stacks of Gram matrices and their representations."""

from .base import GramStack
from .dense import DenseGram

__all__ = ["DenseGram", "GramStack"]
