"""Kernels and lists of kernels.

A class such as `RBF` is one kernel; the functions with lower-case names return plain lists, to be joined
with ``+``.

>>> from kernelweave import kernels as K
>>> bank = K.rbf(gamma=[0.1, 1], on="each") + K.polynomial(degree=[1, 2, 3])
>>> len(bank)
5
"""

from .base import Kernel, Normalised, PreparedKernels, Product, Scaled, Sum, evaluate
from .effects import Effect, Effects, effects
from .families import (
    as_kernels,
    chi2,
    constant,
    cosine,
    default_bank,
    histogram_intersection,
    laplacian,
    linear,
    polynomial,
    rbf,
    sigmoid,
)
from .vector import (
    RBF,
    Callable,
    Chi2,
    Constant,
    Cosine,
    HistogramIntersection,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
)

__all__ = [
    "RBF",
    "Callable",
    "Chi2",
    "Constant",
    "Cosine",
    "Effect",
    "Effects",
    "HistogramIntersection",
    "Kernel",
    "Laplacian",
    "Linear",
    "Normalised",
    "Polynomial",
    "PreparedKernels",
    "Product",
    "Scaled",
    "Sigmoid",
    "Sum",
    "as_kernels",
    "chi2",
    "constant",
    "cosine",
    "default_bank",
    "effects",
    "evaluate",
    "histogram_intersection",
    "laplacian",
    "linear",
    "polynomial",
    "rbf",
    "sigmoid",
]
