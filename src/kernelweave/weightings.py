"""Weights of kernels learned before the SVM: from kernels and targets alone, then held fixed.

An estimator takes them in the place of a penalty, ``MKLClassifier(penalty=CentredAlignment("conic"))``: each binary
problem gets its own weights, and the SVM on the weighted sum is certified as any other.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .arrays import Array, namespace, to_host
from .assemble import check_number
from .assemble.definite import positive_part
from .grams import DenseGram, EntryGram, FactorGram, GramStack, ProductGram
from .losses import SquaredHinge
from .penalties import _NAMES as PENALTIES
from .penalties import Fixed, MixingPenalty, make_penalty
from .problem import Problem, Solution, Status
from .solvers import solve

__all__ = ["Alignment", "CentredAlignment", "EasyMKL", "Weighting", "make_mixing"]

NOTHING = "No kernel tells the two classes apart, or numbers, so none can be weighed: use penalty='uniform'."


@dataclass(frozen=True)
class WeightingSettings:
    """Constants of weightings."""

    rounding: float = 100 * float(np.finfo(float).eps)  #: share of a kernel's size that rounding may leave of none


SETTINGS = WeightingSettings()


class Weighting(BaseEstimator):
    """How kernels are weighed before an SVM is trained on their weighted sum.

    A ``sample_weight`` counts here as repeats of a sample do; ``class_weight`` and ``C`` are costs of errors, which
    only the SVM knows.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> gram = kw.DenseGram(np.stack([np.eye(4), np.outer(y, y)], axis=2))
    >>> weighting = kw.weightings.CentredAlignment()
    >>> isinstance(weighting, kw.weightings.Weighting), int(weighting.weights(gram, y).argmax())
    (True, 1)
    """

    #: kinds of targets that it weighs kernels by, as `Loss.tasks` names them
    tasks: tuple[str, ...] = ("binary",)

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def weights(
        self,
        gram: GramStack,
        y: Array,  # (n,) -1 and +1, or numbers
        sample_weight: Array | None = None,  # (n,) 2 means the same as the sample twice
    ) -> np.ndarray:  # (m,)
        """Return one weight for each kernel."""
        raise NotImplementedError


class Alignment(Weighting):
    """Weights by how much kernels resemble ``yy'``, the kernel that tells the two classes, or numbers, apart.

    Estimators standardise targets that are numbers: to a mean square of one and, with an intercept, a mean of zero.
    With ``<A, B>`` the sum of all products of entries, and ``A(A, B)`` the cosine ``<A, B> / (|A| |B|)``:

    - "ratio": ``A(K_k, yy')``, scaled to sum to one;
    - "conic": the weights from zero on of the sum most aligned with ``yy'``. Alignment has no scale; they sum to one;
    - "convex": the weights from zero on, summing to one, of the sum nearest to ``yy'``, entry by entry. This depends
      on the size of the kernels: a mean diagonal of 1, as ``normalize="trace"`` gives, is that of ``yy'``.

    Parameters
    ----------
    kind : {"ratio", "conic", "convex"}, default="ratio"
        Which of the three.

    References
    ----------
    M. Gonen, E. Alpaydin. Multiple kernel learning algorithms. JMLR 12, 2011, section 3.2 (ABMKL), after Qiu and Lane,
    Lanckriet et al., and He et al.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram
    >>> from kernelweave.weightings import Alignment
    >>> y = np.array([-1.0, 1.0])
    >>> gram = DenseGram(np.stack([np.outer(y, y), np.eye(2)], axis=2))
    >>> Alignment().weights(gram, y).round(4)
    array([0.5858, 0.4142])
    >>> Alignment("conic").weights(gram, y).round(4)
    array([1., 0.])
    """

    tasks = ("binary", "regression")

    def __init__(self, kind: str = "ratio"):
        self.kind = kind

    def check(self) -> None:
        _check_kind(self, ("ratio", "conic", "convex"))

    def weights(self, gram: GramStack, y: Array, sample_weight: Array | None = None) -> np.ndarray:
        self.check()
        kernels, ideal = _vectors(gram, y, sample_weight, centred=False)
        if self.kind == "convex":
            return _nearest_to_zero(kernels - ideal[:, None])
        lengths = _lengths(kernels, gram)
        units = _refuse_orthogonal(kernels / lengths, ideal)
        return _summing_to_one(ideal @ units if self.kind == "ratio" else nnls(units, ideal)[0] / lengths)


class CentredAlignment(Weighting):
    """Weights of the sum most aligned with ``yy'`` once kernels are centred in feature space.

    ``a_k = <K_k, yy'>`` and ``M_kl = <K_k, K_l>`` of the centred kernels give

    - "conic": ``v`` from zero on with the least ``v'Mv - 2v'a``, scaled to length one;
    - "linear": ``M^-1 a``, scaled to length one. Weights may be below zero and their sum of kernels indefinite: the
      estimator's ``psd`` then says whether that is refused ("check"), or the negative part of the sum's spectrum
      dropped ("clip"). As weights that cancel leave little of the kernels, the estimator then scales the sum to a
      variance of one in feature space. Of kernels that depend on each other linearly, those of length one get the
      least weights.

    Kernels that are constant have nothing to align and get weight zero.

    Parameters
    ----------
    kind : {"conic", "linear"}, default="conic"
        Whether weights below zero are left out.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh. Two-stage learning kernel algorithms. ICML 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram
    >>> from kernelweave.weightings import CentredAlignment
    >>> y = np.array([-1.0, 1.0, 1.0])
    >>> gram = DenseGram(np.stack([np.outer(y, y), np.eye(3)], axis=2))
    >>> CentredAlignment().weights(gram, y).round(4)
    array([1., 0.])
    """

    tasks = ("binary", "regression")

    def __init__(self, kind: str = "conic"):
        self.kind = kind

    def check(self) -> None:
        _check_kind(self, ("conic", "linear"))

    def weights(self, gram: GramStack, y: Array, sample_weight: Array | None = None) -> np.ndarray:
        self.check()
        kernels, ideal = _vectors(gram, y, sample_weight, centred=True)
        lengths = _lengths(kernels, gram)
        units = _refuse_orthogonal(kernels / lengths, ideal)
        found = nnls(units, ideal)[0] if self.kind == "conic" else np.linalg.lstsq(units, ideal, rcond=None)[0]
        return (found / lengths) / np.linalg.norm(found / lengths)


class EasyMKL(Weighting):
    """Weights by what each kernel adds to the distance between two classes.

    In the plain sum of all kernels, the weighted means of the two classes are brought as near to each other as
    ``lam`` lets them: the minimum over ``g``, from zero on and summing to one in each class, of

        (1 - lam) g'YKYg + lam g'g

    Weights are ``g'YK_kYg``, scaled to sum to one. That problem is, up to the length of ``g``, an SVM with the squared
    hinge and ``C = (1 - lam) / lam``, and solved as such.

    Parameters
    ----------
    lam : float, default=0.1
        From above 0, the nearest points of the classes, to 1, the means of all their samples.
    tol : float, default=1e-6
        Relative duality gap of that SVM.

    References
    ----------
    F. Aiolli, M. Donini. EasyMKL: a scalable multiple kernel learning algorithm. Neurocomputing 169, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram
    >>> from kernelweave.weightings import EasyMKL
    >>> y = np.array([-1.0, 1.0])
    >>> gram = DenseGram(np.stack([np.outer(y, y), np.eye(2)], axis=2))
    >>> EasyMKL().weights(gram, y).round(4)
    array([0.6667, 0.3333])
    """

    def __init__(self, lam: Any = 0.1, tol: float = 1e-6):
        self.lam = lam
        self.tol = tol

    def check(self) -> None:
        if isinstance(self.lam, bool) or not isinstance(self.lam, Real) or not 0 < float(self.lam) <= 1:
            raise ValueError(f"lam must be a number above 0 and up to 1, got {self.lam!r}: use 0.1 to begin with.")
        check_number("tol", self.tol)

    def weights(self, gram: GramStack, y: Array, sample_weight: Array | None = None) -> np.ndarray:
        self.check()
        counts, y = _counts(gram, sample_weight), gram.asarray(y)
        if not _two_classes(y):
            raise ValueError(f"{self} tells two classes apart, and y is not of two: use CentredAlignment() instead.")
        return _summing_to_one(gram.energies(_means(counts, y) if self.lam == 1 else self._nearest(gram, y, counts)))

    def _nearest(self, gram: GramStack, y: Array, counts: Array) -> Array:
        """Return the signed combination of samples at which the classes are nearest, but for its length."""
        C = (1.0 - self.lam) / self.lam * counts
        loss, sum_of_all = SquaredHinge().bind(y, C), Fixed(np.ones(gram.shape[1]))
        solution = solve(Problem(gram, loss, sum_of_all), tol=self.tol)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        sure = solution.certificate
        rounding = np.isfinite(sure.gap) and sure.upper - sure.lower - sure.widened <= self.tol * abs(sure.upper)
        if not solution.converged and not rounding:  # which alone may take more than tol
            warnings.warn(
                f"The weights of EasyMKL are known to a relative duality gap of {solution.gap:.1e}, not "
                f"tol={self.tol:g}. {solution.status.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return solution.beta


_NAMES: dict[str, type[Weighting]] = {
    "alignment": Alignment,
    "centred-alignment": CentredAlignment,
    "easymkl": EasyMKL,
}


def make_mixing(spec: Any) -> MixingPenalty | Weighting:
    """Return what ``penalty=`` of an estimator names: a penalty, or a weighting in its place.

    Examples
    --------
    >>> from kernelweave.weightings import make_mixing
    >>> make_mixing("easymkl"), make_mixing("lp")
    (EasyMKL(), Lp())
    """
    if isinstance(spec, str) and spec in _NAMES:
        return _NAMES[spec]()
    if isinstance(spec, Weighting):
        spec.check()
        return spec
    if isinstance(spec, str) and spec not in PENALTIES:
        raise ValueError(
            f"penalty={spec!r} is not known: choose one of {', '.join(sorted(PENALTIES))}; or, to weigh kernels "
            f"beforehand, one of {', '.join(sorted(_NAMES))}."
        )
    return make_penalty(spec)


# -- an SVM on weighted kernels ------------------------------------------------------------------------


def weighed(
    problem: Problem,
    weighting: Weighting,
    sample_weight: Array,  # (n,)
    psd: str,
) -> Problem:
    """Return the problem with weights learned and held fixed; its own penalty plays no part."""
    _refuse_targets(problem, weighting)
    y = problem.loss.y
    y = y if _two_classes(y) else _standardised(y, _counts(problem.gram, sample_weight), problem.bias)
    weights = weighting.weights(problem.gram, y, sample_weight)
    if np.all(weights >= 0):
        return replace(problem, penalty=Fixed(weights))
    gram = SignedSum(problem.gram, weights, sample_weight, psd, problem.bias)
    size = float(np.average(gram.diagonal()[:, 0], weights=sample_weight))
    return replace(problem, gram=gram, penalty=Fixed(np.array([1.0 / size if size > 0 else 1.0])))


def _refuse_targets(problem: Problem, weighting: Weighting) -> None:
    """Refuse problems without one column of targets that kernels could be compared with."""
    if problem.loss.several:
        raise ValueError(
            f"penalty {weighting} compares kernels with one target for each sample, and {problem.loss} has several: "
            "use multiclass='ovr' or 'ovo' with another loss, a fit for each target, or a penalty such as 'lp'."
        )
    if not set(weighting.tasks) & set(problem.loss.loss.tasks):
        raise ValueError(
            f"penalty {weighting} is for {' or '.join(weighting.tasks)} targets, which {problem.loss} does not learn: "
            "use a penalty such as 'lp' or 'uniform'."
        )


def _two_classes(y: Array) -> bool:
    """Whether targets are the labels -1 and +1, both of them."""
    xp = namespace(y)
    return bool(xp.all(xp.abs(y) == 1.0)) and bool(xp.any(y > 0)) and bool(xp.any(y < 0))


def _standardised(
    y: Array,  # (n,)
    counts: Array,  # (n,)
    centred: bool,
) -> Array:  # (n,)
    """Return numbers with mean square one and, if ``centred``, with mean zero; zeros where nothing is left of them."""
    xp, whole = namespace(y), float(namespace(y).sum(counts))
    moved = y - float(xp.sum(counts * y)) / whole if centred else y
    size = (float(xp.sum(counts * moved**2)) / whole) ** 0.5
    return moved / size if size > SETTINGS.rounding * float(xp.max(xp.abs(y))) else 0.0 * y


class SignedSum(DenseGram):
    """One kernel, the sum of others some of which have weights below zero; of an indefinite one, the positive part.

    Parameters
    ----------
    gram : DenseGram or CachedGram
        The kernels.
    weights : ndarray of shape (m,)
        Their weights.
    sample_weight : ndarray of shape (n,)
        Weight of each sample in the spectrum: 2 means the same as the sample twice.
    psd : {"check", "clip", "trust"}
        What to do if the sum is indefinite: refuse it, drop the negative part of its spectrum, or not to look.
    centred : bool
        Whether to move the origin to the mean of the samples, which a bias makes up for.
    """

    def __init__(self, gram: GramStack, weights: np.ndarray, sample_weight: np.ndarray, psd: str, centred: bool):
        if not isinstance(gram, EntryGram):
            raise ValueError(
                "Kernels with weights below zero can be added up only with their entries, which features of low rank "
                "do not have: use approximation=None, or CentredAlignment('conic')."
            )
        self.mixing = weights
        self.share = sample_weight / sample_weight.sum() if centred else np.zeros(sample_weight.size)
        mixed, self.projection = gram.combine(np.arange(gram.shape[0]), weights), None
        self.offset = self.share @ mixed
        mixed = mixed - self.offset - self.offset[:, None] + self.offset @ self.share
        if psd != "trust":
            mixed, self.projection = positive_part(mixed, sample_weight)
        if psd == "check" and self.projection is not None:
            raise ValueError(
                "The sum of kernels with weights below zero is not positive semidefinite, so nothing could be "
                "certified: use psd='clip' to drop the negative part of its spectrum, or CentredAlignment('conic')."
            )
        super().__init__(mixed[:, :, None])

    def spelled_out(self, solution: Solution) -> Solution:
        """Return a solution on this one kernel as weights and coefficients of all."""
        coef = solution.coef
        if self.projection is not None:
            coef = self.projection @ coef
            coef = coef - self.share * coef.sum()
        bias = solution.intercept - float(solution.weights[0] * (self.offset @ coef))
        return replace(solution, weights=solution.weights * self.mixing, coef=coef, intercept=bias)


# -- what weights are made of -----------------------------------------------------------------------------


def _check_kind(weighting: Any, known: tuple[str, ...]) -> None:
    if weighting.kind not in known:
        raise ValueError(f"kind={weighting.kind!r} is not known: choose one of {', '.join(map(repr, known))}.")


def _counts(gram: GramStack, sample_weight: Array | None) -> Array:  # (n,)
    """Return how often each sample counts, where the kernels are."""
    return gram.asarray(np.ones(gram.shape[0]) if sample_weight is None else sample_weight)


def _means(counts: Array, y: Array) -> Array:  # (n,)
    """Return the coefficients of the mean of one class minus that of the other."""
    xp = namespace(y)
    plus = xp.where(y > 0, counts, xp.zeros_like(counts))
    return plus / xp.sum(plus) - (counts - plus) / xp.sum(counts - plus)


def _vectors(
    gram: GramStack,
    y: Array,  # (n,)
    sample_weight: Array | None,  # (n,)
    centred: bool,
) -> tuple[np.ndarray, np.ndarray]:  # (r, m), (r,)
    """Return one column for each kernel and one for ``yy'``, with the products ``<., .>`` of these matrices."""
    counts, y = _counts(gram, sample_weight), gram.asarray(y)
    if centred:
        y = y - namespace(y).sum(counts * y) / namespace(y).sum(counts)
    if isinstance(gram, FactorGram):
        vectors = _root_of_factors(gram, y, counts, centred)
    else:
        vectors = _root_of_entries(ProductGram(gram), y, counts, centred)
    return vectors[:, :-1], vectors[:, -1]


def _root_of_factors(gram: FactorGram, y: Array, counts: Array, centred: bool) -> np.ndarray:
    """Root of the products, which are ``|V_k'V_l|^2``, as ``yy'`` has the factor y."""
    xp = namespace(y)
    inner, towards = to_host(gram.weighted(counts)), to_host(gram.rmatvec(counts * y))
    if centred:
        sums = to_host(gram.rmatvec(counts))
        inner = inner - np.outer(sums, sums) / float(xp.sum(counts))
    starts = np.cumsum(gram.ranks) - gram.ranks
    products = np.add.reduceat(np.add.reduceat(inner**2, starts, axis=0), starts, axis=1)
    likeness = np.add.reduceat(towards**2, starts)[:, None]
    square = np.full((1, 1), float(xp.sum(counts * y**2)) ** 2)
    values, vectors = np.linalg.eigh(np.block([[products, likeness], [likeness.T, square]]))
    noise = len(values) * SETTINGS.rounding * values[-1]
    return np.sqrt(np.where(values > noise, values, 0.0))[:, None] * vectors.T


def _root_of_entries(pairs: ProductGram, y: np.ndarray, counts: np.ndarray, centred: bool) -> np.ndarray:
    """Triangular factor of the matrix whose columns are all entries, some rows of pairs of samples at a time."""
    gram, (n, m) = pairs.base, pairs.base.shape
    everyone, root = np.arange(n), np.sqrt(counts)
    if centred:
        mean = gram.products(counts / counts.sum())
        grand = counts @ mean / counts.sum()
    triangle: Any = np.zeros((0, m + 1))
    for part in pairs.parts(everyone, everyone):
        columns = slice(0, part.stop)
        stack, rows, others = pairs.entries(everyone[part], everyone[columns])
        entries = stack[np.ix_(rows, others)] * gram.scale
        if centred:
            entries -= mean[part][:, None, :] + (mean[columns] - grand)
        twice = np.where(everyone[columns] < part.start, np.sqrt(2.0), 1.0)  # pairs in the other order are left out
        entries = np.concatenate([entries, np.outer(y[part], y[columns])[:, :, None]], axis=2)
        entries *= np.outer(root[part], twice * root[columns])[:, :, None]
        triangle = np.linalg.qr(np.vstack([triangle, entries.reshape(-1, m + 1)]), mode="r")
    return triangle


def _lengths(kernels: np.ndarray, gram: GramStack) -> np.ndarray:  # (m,)
    """Return ``|K_k|``, infinite for kernels of which centring left nothing but rounding."""
    lengths, diagonal = np.linalg.norm(kernels, axis=0), gram.diagonal()
    largest = gram.shape[0] * to_host(namespace(diagonal).max(diagonal, axis=0))  # what a length is at most
    return np.where(lengths > SETTINGS.rounding * largest, lengths, np.inf)


def _nearest_to_zero(points: np.ndarray) -> np.ndarray:  # (r, m) -> (m,)
    """Return the weights, from zero on and summing to one, of the shortest mean of some points.

    Nonnegative least squares finds it: the direction of the ``u`` with the least ``|points u|^2 + (sum u - 1)^2`` is
    that of the weights, whatever its length.
    """
    size = float(np.linalg.norm(points, axis=0).max())
    rows = np.vstack([points / (size if size > 0 else 1.0), np.ones(points.shape[1])])
    return _summing_to_one(nnls(rows, np.append(np.zeros(len(points)), 1.0))[0])


def _summing_to_one(values: np.ndarray) -> np.ndarray:
    values = np.maximum(values, 0.0)  # what rounding left below zero
    if not values.any():
        raise ValueError(NOTHING)
    return values / values.sum()


def _refuse_orthogonal(units: np.ndarray, ideal: np.ndarray) -> np.ndarray:
    """Return kernels of length one, if any of them is aligned with ``yy'`` at all."""
    if np.all(ideal @ units <= SETTINGS.rounding * np.linalg.norm(ideal)):
        raise ValueError(NOTHING)
    return units
