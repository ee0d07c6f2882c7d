"""Plain lists of kernels: one per value of a parameter, or per combination of values."""

from __future__ import annotations

from collections.abc import Callable as Function
from itertools import product
from typing import Any

import numpy as np

from . import vector
from .base import Kernel
from .effects import effects


def _grid(kind: type[Kernel], on: Any, **parameters: Any) -> list[Kernel]:
    """One kernel per combination of the values; the last parameter varies fastest."""
    points = product(*(np.ravel(np.array(value, dtype=object)) for value in parameters.values()))
    return [kind(**dict(zip(parameters, point, strict=True)), on=on) for point in points]


def linear(*, on: Any = None) -> list[Kernel]:
    """A list with one `Linear` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.linear(on="each")
    [Linear(on='each')]
    """
    return _grid(vector.Linear, on)


def polynomial(degree: Any = 3, gamma: Any = None, coef0: Any = 1.0, *, on: Any = None) -> list[Kernel]:
    """One `Polynomial` kernel per combination of degree, gamma and coef0; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> [k.name for k in K.polynomial(degree=[1, 2])]
    ['polynomial(degree=1)', 'polynomial(degree=2)']
    """
    return _grid(vector.Polynomial, on, degree=degree, gamma=gamma, coef0=coef0)


def sigmoid(gamma: Any = None, coef0: Any = 1.0, *, on: Any = None) -> list[Kernel]:
    """One `Sigmoid` kernel per combination of gamma and coef0; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.sigmoid(gamma=[0.1, 1.0])
    [Sigmoid(gamma=0.1), Sigmoid(gamma=1.0)]
    """
    return _grid(vector.Sigmoid, on, gamma=gamma, coef0=coef0)


def rbf(gamma: Any = "scale", factor: Any = 1.0, *, on: Any = None) -> list[Kernel]:
    """One `RBF` kernel per combination of gamma and factor; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.rbf(gamma=[0.1, 1.0], on="each")
    [RBF(gamma=0.1, on='each'), RBF(gamma=1.0, on='each')]
    """
    return _grid(vector.RBF, on, gamma=gamma, factor=factor)


def laplacian(gamma: Any = None, *, on: Any = None) -> list[Kernel]:
    """One `Laplacian` kernel per gamma, a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> len(K.laplacian(gamma=[0.1, 1.0, 10.0]))
    3
    """
    return _grid(vector.Laplacian, on, gamma=gamma)


def chi2(gamma: Any = 1.0, *, on: Any = None) -> list[Kernel]:
    """One `Chi2` kernel per gamma, a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.chi2(gamma=0.5)
    [Chi2(gamma=0.5)]
    """
    return _grid(vector.Chi2, on, gamma=gamma)


def histogram_intersection(*, on: Any = None) -> list[Kernel]:
    """A list with one `HistogramIntersection` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.histogram_intersection()
    [HistogramIntersection()]
    """
    return _grid(vector.HistogramIntersection, on)


def cosine(*, on: Any = None) -> list[Kernel]:
    """A list with one `Cosine` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.cosine()
    [Cosine()]
    """
    return _grid(vector.Cosine, on)


def constant(value: Any = 1.0, *, on: Any = None) -> list[Kernel]:
    """One `Constant` kernel per value.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.constant()
    [Constant()]
    """
    return _grid(vector.Constant, on, value=value)


def default_bank() -> list[Kernel]:
    """What ``kernels="auto"`` means: seven Gaussian widths around the data's scale, linear, two polynomials.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> len(K.default_bank())
    10
    """
    widths = [2.0**power for power in (-6, -4, -2, 0, 2, 4, 6)]
    return rbf(factor=widths) + linear() + polynomial(degree=[2, 3], gamma="scale")


NAMES: dict[str, Function[[], list[Kernel]]] = {
    "auto": default_bank,
    "chi2": chi2,
    "constant": constant,
    "cosine": cosine,
    "effects": effects,
    "histogram_intersection": histogram_intersection,
    "laplacian": laplacian,
    "linear": linear,
    "poly": polynomial,
    "polynomial": polynomial,
    "rbf": rbf,
    "sigmoid": sigmoid,
}


def as_kernels(spec: Any) -> list[Kernel]:
    """A list of kernels from anything that may stand for one.

    Parameters
    ----------
    spec : Kernel, str, callable, or a list of those
        A name is that of a family with its defaults; a callable is wrapped in `Callable`; lists may nest.

    Returns
    -------
    list of Kernel
        Not yet resolved.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.as_kernels(["linear", K.RBF(gamma=0.1)])
    [Linear(), RBF(gamma=0.1)]
    """
    if isinstance(spec, Kernel):
        return [spec]
    if isinstance(spec, str):
        if spec not in NAMES:
            raise ValueError(f"kernels={spec!r} is not a known name; the known ones are {', '.join(NAMES)}.")
        return NAMES[spec]()
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("kernels is an empty list: give at least one kernel, or 'auto'.")
        return [kernel for item in spec for kernel in as_kernels(item)]
    if isinstance(spec, type) or (callable(spec) and spec in NAMES.values()):
        raise TypeError(f"kernels has {spec.__name__} where its result is wanted: write {spec.__name__}().")
    if callable(spec):
        return [vector.Callable(spec)]
    raise TypeError(f"kernels takes kernels, names, functions, or a list of them; got {type(spec).__name__}.")
