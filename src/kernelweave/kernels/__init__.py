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
    as_precomputed,
    chi2,
    constant,
    cosine,
    default_bank,
    equality,
    from_distance,
    histogram_intersection,
    jaccard,
    laplacian,
    linear,
    mismatch,
    ordinal,
    polynomial,
    precomputed,
    rbf,
    sigmoid,
    spectrum,
    tanimoto,
    views,
)
from .sets import Equality, Jaccard, Ordinal, Tanimoto
from .strings import Mismatch, Spectrum
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
    "Equality",
    "HistogramIntersection",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "Linear",
    "Mismatch",
    "Normalised",
    "Ordinal",
    "Polynomial",
    "PreparedKernels",
    "Product",
    "Scaled",
    "Sigmoid",
    "Spectrum",
    "Sum",
    "Tanimoto",
    "as_kernels",
    "as_precomputed",
    "chi2",
    "constant",
    "cosine",
    "default_bank",
    "effects",
    "equality",
    "evaluate",
    "from_distance",
    "histogram_intersection",
    "jaccard",
    "laplacian",
    "linear",
    "mismatch",
    "ordinal",
    "polynomial",
    "precomputed",
    "rbf",
    "sigmoid",
    "spectrum",
    "tanimoto",
    "views",
]
