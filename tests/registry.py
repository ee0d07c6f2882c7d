"""One instance of everything that can be chosen: what is listed here goes through the laws of its room.

A new kernel, penalty, loss or representation needs one line here; solvers join by their own table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kernelweave import grams, losses, penalties, solvers
from kernelweave import kernels as K
from kernelweave.penalties.prox import EntropicProx, SimplexProx

M = 8  # kernels that a penalty with one number per kernel is written for; see ``sized``
BASES = {"PreparedKernels", "Approximation", "GramStack", "Kernel", "Loss", "MixingPenalty", "Solver"}
BASES |= {"BoundLoss", "DualTerms", "BankGram", "CombinableGram", "EntryGram", "FactorGram", "ProductStack"}
BASES |= {"Effect"}  # which only Effects makes, from samples
PRICES = np.array([1.0, 0.8, 1.3, 1.0, 0.6, 1.1, 0.9, 1.5])
SHARES = np.array([0.2, 0.1, 0.15, 0.05, 0.1, 0.2, 0.15, 0.05])


def factored(stack, scale):
    """Return a stack held as factors, each kernel with as many columns as its rank."""
    scaled = stack.astype(float) * (1.0 if scale is None else scale)
    parts = []
    for kernel in np.moveaxis(scaled, 2, 0):
        values, vectors = np.linalg.eigh(kernel)
        kept = values > 1e-12 * values[-1]
        kept[-1] = True
        parts.append(vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0)))
    return grams.LowRankGram(np.hstack(parts), [part.shape[1] for part in parts])


class Entry:
    """A kernel of a stored stack as a function of row numbers, for representations that compute what they need."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __call__(self, X, Z):
        return self.matrix[np.ix_(X[:, 0].astype(int), Z[:, 0].astype(int))]


def on_demand(stack, scale):
    """Return a stack of which five columns are kept at a time."""
    n, m = stack.shape[0], stack.shape[2]
    rows = np.arange(n, dtype=stack.dtype)[:, None]
    bank = [K.Callable(Entry(stack[:, :, k]), f"kernel {k}", psd=True).resolve(rows)[0] for k in range(m)]
    return grams.CachedGram(bank, rows, scale, memory=5 * n * m * stack.itemsize, dtype=stack.dtype)


def minimum(X, Z):
    return np.minimum(X[:, None, :], Z[None, :, :]).sum(axis=2)


KERNELS = [
    K.Linear(),
    K.Linear(on=[0, 2]),
    K.Polynomial(),
    K.Polynomial(degree=2, gamma=0.5, coef0=0.0, on=-1),
    K.Sigmoid(gamma=0.1),
    K.RBF(),
    K.RBF(gamma=0.3, factor=2.0),
    K.RBF(gamma="auto", on=1),
    K.Laplacian(),
    K.Chi2(gamma=0.5),
    K.HistogramIntersection(),
    K.Cosine(),
    K.Constant(0.5),
    K.Callable(minimum, "minimum", psd=True),
    K.RBF(gamma=0.5) + K.Linear(on=slice(0, 2)) + K.Linear(),
    K.RBF(gamma=0.5, on=0) * K.Polynomial(degree=2),
    2.5 * K.Laplacian(gamma=0.2),
    K.Polynomial(degree=2, on=[0, 1]).normalised(),
    (0.5 * (K.Linear() + K.Constant())).normalised(),
    K.Chi2() * K.Constant(2.0),
    K.Tanimoto(),
    K.Jaccard(on=[0, 1]),
    K.Equality(),
    K.Ordinal(),
    K.Ordinal(low=-1.0, high=[1.0, 2.0], on=[1, 3]),
    3.0 * K.Tanimoto(on=[0, 1]) + K.Jaccard(),
    K.Effects(on=1),
    K.Effects(include=[(0, 2)], rank=3),
]
STRING_KERNELS = [  # with tests of their own
    K.Spectrum(2),
    K.Spectrum(3).normalised(),
    K.Mismatch(3, mismatches=1),
    K.Mismatch(3, mismatches=2, alphabet=4),
    2.0 * K.Spectrum(1) + K.Mismatch(2),
]
PENALTIES = [
    penalties.Fixed(),
    penalties.Fixed(np.array([0.5, 0.0, 1.0, 2.0, 0.1, 0.3, 1.0, 0.7])),
    penalties.L1(),
    penalties.L1(PRICES),
    penalties.Lp(1.05),
    penalties.Lp(4 / 3),
    penalties.Lp(2.0),
    penalties.Lp(8.0),
    penalties.Lp(np.inf),
    penalties.SquaredLp(1.5, strength=0.3),
    penalties.SquaredLp(4.0),
    penalties.MoreauYosida(a=0.5),
    penalties.MoreauYosida(a=0.2 * PRICES[::-1], d=PRICES),
    penalties.ElasticNet(c1=0.4, c2=0.5),
    penalties.Mixed(alpha=0.3),
    penalties.Mixed(alpha=0.0, exponent=7.0),
    penalties.Group(["a", "b", "a", "c", "b", "c", "a", "a"], within=np.inf, between=1.2),
    penalties.Group([2, 2, 1, 1, 2, 0, 0, 1], within=3.0, between=2.0),
]
PAIRED = [penalties.SpectralNorm(), penalties.SpectralNorm(linear_terms=False)]  # with tests of their own
EXTREMES = [penalties.Lp(p) for p in (1.001, 1.004, 100.0)] + [
    penalties.Group([0, 1, 0, 1, 0, 1, 0, 1], within=1.004, between=50.0)
]
TOOLS = [SimplexProx(SHARES, 0.7, PRICES**2), EntropicProx(SHARES, 0.7, PRICES**2)]
LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Squared(),
    losses.Logistic(),
    losses.EpsilonInsensitive(0.2),
    losses.SquaredEpsilonInsensitive(0.3),
    losses.Huber(0.7),
    losses.Quantile(0.3),
    losses.OneClass(),
    losses.CrammerSinger(),
    losses.Softmax(),
    losses.Cox(),
]
BINARY = [loss for loss in LOSSES if "binary" in loss.tasks]  # those that read labels -1 and +1
QUADRATIC = [loss for loss in BINARY if loss.bind([-1.0, 1.0]).quadratic]  # of these, what solvers on kernels take
GRAMS = [grams.DenseGram, on_demand, factored]  # each is called with (stack, scale)
VIEWS = [grams.FactorProducts, grams.ProductGram]  # of another representation's kernels; with tests of their own
IN_PASSES = [grams.ChunkedGram, grams.RecomputedGram]  # features that no array holds; with tests of their own
SHARED = [grams.BasisGram, grams.TensorGram]  # one basis, and kernels of any library; with tests of their own
BANKS = [grams.EffectsGram]  # of kernels that are never listed; with tests of their own
APPROXIMATIONS = [grams.Nystroem(rank=5), grams.PivotedCholesky(rank=5), grams.RandomFeatures(rank=6)]
APPROXIMATIONS += [grams.ExplicitFeatures(), grams.SharedBasis(rank=5)]
ROUGH = ["mwu"]  # meant for a gap of 1e-2; with tests of its own
ON_BANKS = ["active", "active-newton"]  # on banks that are never listed; with tests of its own
ON_PAIRS = ["frank-wolfe"]  # on products of kernels; with tests of its own
UNBIASED = ["ascent", "mirror", "rows"]  # for joint margins and problems without a bias; with tests of their own
SMOOTH = ["newton-cg", "lagrangian"]  # on kernels and features of any library; with tests of their own
EQUATIONS = ["direct"]  # at fixed weights, for least squares; with tests of its own
APART = ["features"]  # hands features to other solvers, and takes what they take; with tests of its own
ON_FACTORS = {name for name, solver in solvers._NAMES.items() if set(solver.needs) == {grams.FactorGram}}
FACTORS = sorted(ON_FACTORS - set(UNBIASED))
ELSEWHERE = {*ROUGH, *ON_BANKS, *ON_PAIRS, *UNBIASED, *SMOOTH, *EQUATIONS, *APART}
SOLVERS = sorted(set(solvers._NAMES) - ELSEWHERE - ON_FACTORS)  # on kernels

SPARSE_ONLY = ["level", "proximal", "qcqp", "silp", "simplemkl", "skm"]  # take no penalty but l1


def usual(solver):
    """Return the penalty that a solver on kernels is most at home with."""
    if solver in SPARSE_ONLY:
        return penalties.L1()
    return penalties.SquaredLp(1.5) if solver == "smo-mkl" else penalties.Lp(2)


@dataclass(frozen=True)
class Case:
    """A loss with the shape of its targets: one for each sample, or several columns of them."""

    loss: losses.Loss
    columns: int | None = None

    @property
    def dual_sums(self) -> tuple[float | None, ...]:
        """What the duals of problems with this loss may sum to: None where there is no bias."""
        if self.loss.tasks == ("outliers",):
            return (1.0,)
        return (0.0, None) if self.loss.takes_bias else (None,)

    def bind(self, rng, n, C=1.0, score=None):
        """Return the loss bound to drawn targets, which follow ``score`` if given; costs fit what duals sum to."""
        y = targets_for(self.loss, rng, n, score, self.columns)
        return self.loss.bind(y, (1.0 + np.asarray(C)) / n if self.loss.tasks == ("outliers",) else C)

    def __str__(self) -> str:
        return label(self.loss) + (f"-{self.columns} targets" if self.columns else "")


CASES = [Case(loss) for loss in LOSSES] + [Case(losses.Squared(), 2), Case(losses.EpsilonInsensitive(0.2), 3)]


def targets_for(loss, rng, n, score=None, columns=None):
    """Return targets of the kind that a loss reads, noisy functions of ``score``, shape (n,)."""
    score = rng.normal(size=n) if score is None else score + 0.5 * rng.normal(size=n)
    if columns is not None:
        return np.stack([np.cos(c) * score + 0.3 * rng.normal(size=n) for c in range(columns)], axis=1)
    match "regression" if "regression" in loss.tasks else loss.tasks[0]:
        case "binary":
            y = np.where(score > np.quantile(score, 0.6), 1.0, -1.0)
            y[:2] = 1.0, -1.0
            return y
        case "multiclass":
            y = np.digitize(score, np.quantile(score, [0.3, 0.6])).astype(float)
            y[:3] = np.arange(3)[:n]
            return y
        case "survival":
            time = np.ceil(4.0 * rng.exponential(np.exp(-score)))  # whole numbers, so that there are ties
            event = rng.random(n) < 0.7
            event[0] = True
            return np.stack([event, time], axis=1).astype(float)
        case "outliers":
            return np.zeros(n)
    return score


def exported(room) -> set[str]:
    """Return the names of the classes that a room exports, its base class left out."""
    return {name for name in room.__all__ if isinstance(getattr(room, name), type)} - BASES


def names(instances) -> set[str]:
    """Return the names of the classes of some instances."""
    return {type(instance).__name__ for instance in instances}


def rearranged(penalty, index):
    """Return the penalty for the kernels ``index`` of the eight it was written for."""
    params = penalty.get_params(deep=False)
    picked = {name: np.asarray(v)[index] if np.ndim(v) else v for name, v in params.items()}
    return type(penalty)(**picked)


def sized(penalty, m):
    """Return the penalty for the first ``m`` kernels."""
    return rearranged(penalty, np.arange(m))


def label(instance) -> str:
    """Return a short name for the tables of pytest."""
    if not hasattr(instance, "get_params"):
        return getattr(instance, "__name__", str(instance))
    params = instance.get_params(deep=False).items()
    texts = [f"{name}={'own' if np.ndim(v) else str(v)[:5]}" for name, v in params if v is not None]
    return "-".join([type(instance).__name__, *texts])


def spelled(instance) -> str:
    """Return the repr without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(instance))
