"""Mixing penalties: how kernels share the work."""

from .base import MixingPenalty
from .norms import L1, ElasticNet, Fixed, Group, Lp, MoreauYosida

__all__ = ["L1", "ElasticNet", "Fixed", "Group", "Lp", "MixingPenalty", "MoreauYosida"]
