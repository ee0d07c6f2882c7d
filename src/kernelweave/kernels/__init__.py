"""Kernels and lists of kernels.

A class such as `RBF` is one kernel; the functions with lower-case names return plain lists, to be joined
with ``+``.

>>> from kernelweave import kernels as K
>>> bank = K.rbf(gamma=[0.1, 1], on="each") + K.polynomial(degree=[1, 2, 3])
>>> len(bank)
5
"""

from .base import Kernel, Normalised, PreparedKernels, Product, Scaled, Sum, evaluate
from .families import (
    as_kernels,
    as_precomputed,
    chi2,
    constant,
    cosine,
    default_bank,
    histogram_intersection,
    laplacian,
    linear,
    polynomial,
    precomputed,
    rbf,
    sigmoid,
    views,
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
    "as_precomputed",
    "chi2",
    "constant",
    "cosine",
    "default_bank",
    "evaluate",
    "histogram_intersection",
    "laplacian",
    "linear",
    "polynomial",
    "precomputed",
    "rbf",
    "sigmoid",
    "views",
]
