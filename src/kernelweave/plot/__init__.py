"""Pictures of a fitted model: which kernels matter, how the gap closed, how the weights move with C.

Needs matplotlib (``pip install kernelweave[plot]``), which is loaded only when a picture is drawn.
"""

from .frame import canvas
from .kernels import pairs, weights
from .parts import contributions, effects
from .runs import convergence, path, selection, stability

__all__ = [
    "canvas",
    "contributions",
    "convergence",
    "effects",
    "pairs",
    "path",
    "selection",
    "stability",
    "weights",
]
