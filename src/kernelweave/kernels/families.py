"""Plain lists of kernels: one per value of a parameter, or per combination of values."""

from __future__ import annotations

from collections.abc import Callable as Function
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from . import sets, strings, vector
from .base import Kernel
from .effects import effects


def _grid(kind: type[Kernel], on: Any, group: str | None, **parameters: Any) -> list[Kernel]:
    """One kernel per combination of the values; the last parameter varies fastest."""
    points = product(*(np.ravel(np.array(value, dtype=object)) for value in parameters.values()))
    return [kind(**dict(zip(parameters, point, strict=True)), on=on, group=group) for point in points]


def linear(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Linear` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.linear(on="each")
    [Linear(on='each')]
    """
    return _grid(vector.Linear, on, group)


def polynomial(
    degree: Any = 3, gamma: Any = None, coef0: Any = 1.0, *, on: Any = None, group: str | None = None
) -> list[Kernel]:
    """One `Polynomial` kernel per combination of degree, gamma and coef0; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> [k.name for k in K.polynomial(degree=[1, 2])]
    ['polynomial(degree=1)', 'polynomial(degree=2)']
    """
    return _grid(vector.Polynomial, on, group, degree=degree, gamma=gamma, coef0=coef0)


def sigmoid(gamma: Any = None, coef0: Any = 1.0, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `Sigmoid` kernel per combination of gamma and coef0; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.sigmoid(gamma=[0.1, 1.0])
    [Sigmoid(gamma=0.1), Sigmoid(gamma=1.0)]
    """
    return _grid(vector.Sigmoid, on, group, gamma=gamma, coef0=coef0)


def rbf(gamma: Any = "scale", factor: Any = 1.0, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `RBF` kernel per combination of gamma and factor; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.rbf(gamma=[0.1, 1.0], on="each")
    [RBF(gamma=0.1, on='each'), RBF(gamma=1.0, on='each')]
    """
    return _grid(vector.RBF, on, group, gamma=gamma, factor=factor)


def laplacian(gamma: Any = None, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `Laplacian` kernel per gamma, a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> len(K.laplacian(gamma=[0.1, 1.0, 10.0]))
    3
    """
    return _grid(vector.Laplacian, on, group, gamma=gamma)


def chi2(gamma: Any = 1.0, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `Chi2` kernel per gamma, a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.chi2(gamma=0.5)
    [Chi2(gamma=0.5)]
    """
    return _grid(vector.Chi2, on, group, gamma=gamma)


def histogram_intersection(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `HistogramIntersection` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.histogram_intersection()
    [HistogramIntersection()]
    """
    return _grid(vector.HistogramIntersection, on, group)


def cosine(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Cosine` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.cosine()
    [Cosine()]
    """
    return _grid(vector.Cosine, on, group)


def constant(value: Any = 1.0, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `Constant` kernel per value.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.constant()
    [Constant()]
    """
    return _grid(vector.Constant, on, group, value=value)


def tanimoto(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Tanimoto` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.tanimoto(on={"morgan": slice(0, 1024)})[0].name
    'tanimoto on morgan'
    """
    return _grid(sets.Tanimoto, on, group)


def jaccard(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Jaccard` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.jaccard()
    [Jaccard()]
    """
    return _grid(sets.Jaccard, on, group)


def equality(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Equality` kernel.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.equality(on="each")
    [Equality(on='each')]
    """
    return _grid(sets.Equality, on, group)


def ordinal(*, on: Any = None, group: str | None = None) -> list[Kernel]:
    """A list with one `Ordinal` kernel, whose range is that of the training samples.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.ordinal(on=["stage", "grade"])[0].name
    'ordinal on stage and grade'
    """
    return _grid(sets.Ordinal, on, group)


def spectrum(length: Any = 3, *, on: Any = None, group: str | None = None) -> list[Kernel]:
    """One `Spectrum` kernel per length of words, a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.spectrum([2, 3])
    [Spectrum(length=2), Spectrum()]
    """
    return _grid(strings.Spectrum, on, group, length=length)


def mismatch(
    length: Any = 4, mismatches: Any = 1, alphabet: Any = None, *, on: Any = None, group: str | None = None
) -> list[Kernel]:
    """One `Mismatch` kernel per combination of length and mismatches; each may be a value or a list.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> [k.name for k in K.mismatch([3, 4], alphabet=4)]
    ['mismatch(length=3, mismatches=1, alphabet=4)', 'mismatch(length=4, mismatches=1, alphabet=4)']
    """
    return _grid(strings.Mismatch, on, group, length=length, mismatches=mismatches, alphabet=alphabet)


def from_distance(distances: Any, gamma: Any = 1.0, power: float = 2.0) -> np.ndarray:
    """Kernels ``exp(-gamma distance^power)`` from distances computed beforehand, for ``kernels="precomputed"``.

    They are positive semidefinite for every gamma if the distances are Euclidean and power is 2 or less; for others,
    such as edit distances, ask for ``psd="clip"``.

    Parameters
    ----------
    distances : array of shape (n, p) or (n, p, q)
        One or several distances between samples; for new samples, p are the training samples.
    gamma : float or list of float, default=1.0
        One kernel for each, and for each distance. Choose it from the training samples, such as
        ``1 / np.median(distances) ** 2``, and use the same for new ones.
    power : float, default=2.0
        The power of the distance.

    Returns
    -------
    ndarray of shape (n, p, m)
        The kernels, samples first; distances vary slowest.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.from_distance(np.array([[0.0, 1.0], [1.0, 0.0]]), gamma=[0.5, 2.0])[0].round(3)
    array([[1.   , 1.   ],
           [0.607, 0.135]])
    """
    D = np.asarray(distances, dtype=float)
    if D.ndim not in (2, 3):
        raise ValueError(f"distances must have the shape (n, p) or (n, p, q), samples first; got {D.shape}.")
    if not np.all(D >= 0):
        raise ValueError("distances must be numbers from zero on.")
    widths = np.ravel(np.asarray(gamma, dtype=float))
    if not np.all(widths > 0) or not power > 0:
        raise ValueError(f"gamma and power must be above zero; got {gamma!r} and {power!r}.")
    D = (D[:, :, None] if D.ndim == 2 else D) ** power
    return np.exp(-D[:, :, :, None] * widths).reshape(*D.shape[:2], -1)


def views(
    columns: Mapping[str, Any] | None = None,
    *,
    widths: Any = (0.0625, 0.25, 1.0, 4.0, 16.0),
    linear: bool = True,
) -> list[Kernel]:
    """The same kernels on every view of the samples, in a group for each view.

    Parameters
    ----------
    columns : mapping from str to columns, optional
        Name and columns of each view, as `on` takes them; views may overlap. By default the views that X itself has:
        see `kernelweave.Views`.
    widths : float or list of float
        One Gaussian kernel for each, with this multiple of the gamma that the view's own scale gives.
    linear : bool, default=True
        Whether there is a linear kernel too.

    Returns
    -------
    list of Kernel
        View by view.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> bank = K.views({"blood": ["iron", "sugar"], "scan": slice(2, 50)}, widths=[0.5, 2.0])
    >>> [kernel.name for kernel in bank][:3]
    ['rbf(gamma=scale, factor=0.5) on blood', 'rbf(gamma=scale, factor=2) on blood', 'linear on blood']
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise TypeError(f"columns must be a dictionary, from names of views to columns; got {columns!r}.")
    places = ["views"] if columns is None else [{name: part} for name, part in columns.items()]
    lists = [rbf(factor=widths, on=on) + (_linear(on=on) if linear else []) for on in places]
    return [kernel for kernels in lists for kernel in kernels]


_linear = linear  # `views` has an argument of that name


@dataclass(frozen=True)
class Precomputed:
    """Names for kernels that were computed beforehand; made by `precomputed`."""

    kernel_names: tuple[Any, ...] | None = None
    groups: tuple[str | None, ...] | None = None

    def read(self, m: int) -> tuple[list[str], list[str | None]]:
        """Name and group of each of ``m`` kernels, or why these do not fit."""
        for what, given in (("kernel_names", self.kernel_names), ("groups", self.groups)):
            if given is not None and len(given) != m:
                raise ValueError(f"{what} has {len(given)} entries for a stack of {m} kernels: give one for each.")
        names = [f"kernel {k}" for k in range(m)] if self.kernel_names is None else list(self.kernel_names)
        return names, [None] * m if self.groups is None else list(self.groups)


def precomputed(kernel_names: Sequence[str] | None = None, groups: Sequence[str | None] | None = None) -> Precomputed:
    """What to give as ``kernels=`` for a stack of kernels computed beforehand, with names for them.

    ``kernels="precomputed"`` is the same without names.

    Parameters
    ----------
    kernel_names : sequence of str, optional
        A name for each kernel of the stack.
    groups : sequence of str, optional
        The group of each kernel, such as the table it was computed from; None for a kernel in no group.

    Returns
    -------
    Precomputed

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> from kernelweave import kernels as K
    >>> X, y = np.random.default_rng(0).normal(size=(2, 20, 3)), np.arange(20) % 2
    >>> stack = np.stack([table @ table.T for table in X], axis=2)
    >>> clf = kw.MKLClassifier(K.precomputed(["rna", "scan"])).fit(stack, y)
    >>> clf.kernel_names_
    ['rna', 'scan']
    """
    for what, given in (("kernel_names", kernel_names), ("groups", groups)):
        if given is not None and (isinstance(given, str) or not all(isinstance(x, str) or x is None for x in given)):
            raise TypeError(f"{what} must be a list of names, one for each kernel; got {given!r}.")
    return Precomputed(*(None if given is None else tuple(given) for given in (kernel_names, groups)))


def as_precomputed(spec: Any) -> Precomputed | None:
    """The names of kernels computed beforehand, if that is what stands for the bank.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.as_precomputed("precomputed").read(2)[0], K.as_precomputed("auto")
    (['kernel 0', 'kernel 1'], None)
    """
    if isinstance(spec, Precomputed):
        return spec
    return Precomputed() if isinstance(spec, str) and spec == "precomputed" else None


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
    "equality": equality,
    "effects": effects,
    "histogram_intersection": histogram_intersection,
    "jaccard": jaccard,
    "laplacian": laplacian,
    "linear": linear,
    "mismatch": mismatch,
    "ordinal": ordinal,
    "poly": polynomial,
    "polynomial": polynomial,
    "rbf": rbf,
    "sigmoid": sigmoid,
    "spectrum": spectrum,
    "tanimoto": tanimoto,
    "views": views,
}


def as_kernels(spec: Any) -> list[Kernel]:
    """A list of kernels from anything that may stand for one.

    Parameters
    ----------
    spec : Kernel, str, callable, a list of those, or a dictionary
        A name is that of a family with its defaults; a callable is wrapped in `Callable`; lists may nest. A dictionary
        gives each group its kernels.

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
    if isinstance(spec, Mapping):
        if not spec:
            raise ValueError("kernels is an empty dictionary: give at least one group its kernels, or use 'auto'.")
        return [kernel.in_group(str(name)) for name, part in spec.items() for kernel in as_kernels(part)]
    if isinstance(spec, type) or (callable(spec) and spec in NAMES.values()):
        raise TypeError(f"kernels has {spec.__name__} where its result is wanted: write {spec.__name__}().")
    if callable(spec):
        return [vector.Callable(spec)]
    raise TypeError(f"kernels takes kernels, names, functions, or a list of them; got {type(spec).__name__}.")
