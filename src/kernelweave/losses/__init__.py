"""Losses: what an error costs."""

from .base import Loss
from .margin import Hinge, SquaredHinge

__all__ = ["Hinge", "Loss", "SquaredHinge"]
