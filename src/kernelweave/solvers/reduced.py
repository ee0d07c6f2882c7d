"""The linear system at the heart of the second-order solvers on factors, reduced from samples to features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, cholesky, device_of, like, lower_root, namespace
from ..compiled.features import matvec, rmatvec
from ..grams import FactorGram
from ..grams.base import Spread
from ..problem import Problem
from .base import factors


@dataclass(frozen=True)
class ReducedSettings:
    """Constants of the linear system, and of the samples that are looked at first."""

    drawn: int = 500  #: samples for each column from which an accelerator forms the matrix, where there are many more
    narrow: int = 1500  #: columns up to which an accelerator forms the matrix of all samples sooner than it corrects
    golden: float = 0.6180339887498949  #: whose multiples fill the unit interval evenly
    spare: float = 0.1  #: weight of the samples, together, that may be left out of the factored matrix
    trusted: float = 1e-7  #: relative error asked for, from which on the matrix of all samples needs no correction
    patience: int = 30  #: corrections after which a direction is taken as it is
    diverged: float = 1e3  #: times the least error so far: beyond it corrections only do harm
    vanished: float = 1e-14  #: share of the largest eigenvalue of the weights' Jacobian that counts as none
    least: int = 2000  #: samples to begin with, at least
    per_column: int = 5  #: samples to begin with, for each column
    part: int = 200  #: of how many samples there is one to begin with, at least: costs that much larger fit too well
    worth: int = 8  #: how many times more samples there must be for that


SETTINGS = ReducedSettings()
Product = Callable[[Array], Array]


class Reduced:
    """Find x, one entry per sample, and a level b with ``x = c + theta (r - V (p + S V'x) - b)`` and ``sum(x) = s``.

    Without a bias, b is zero and x may sum to anything.

    ``S = diag(w) + 2 U J U'`` is the curvature of ``h(||u_1||^2, .., ||u_m||^2)`` in u: w the kernel weights and J
    their Jacobian, U the parts of u as columns of a block diagonal matrix. With ``S = L L'`` and ``z = L'V'x`` this is
    ``(I + L'GL) z = L'(V'(c + theta r) - G p)`` in D + m unknowns, where ``G = V' diag(theta) V`` less its mean. On the
    computer's own processor G is formed from the samples that matter, in the precision of the features, and
    conjugate gradients on all samples in float64 make up for the rest; where there are fewer such samples than columns,
    the matrix between them is factored instead. An accelerator forms all of G in float64, and so do features whose
    every product is a pass over the samples. Where kernels share a basis, ``V = Q B``, the same holds with Q for V and
    ``B S B'`` for S: the system has the size of the basis.

    Parameters
    ----------
    spread : Spread
        u, kernel by kernel.
    close : float
        Largest error of ``S V'x``, in Euclidean norm, that a solution may have.
    rough : bool, default=True
        Whether to form G in the precision of the features.
    bias : bool, default=True
        Whether there is a level b.
    """

    def __init__(
        self,
        gram: FactorGram,
        spread: Spread,
        weights: np.ndarray,  # (m,)
        jacobian: np.ndarray,  # (m, m)
        theta: Array,  # (n,)
        close: float,
        rough: bool = True,
        bias: bool = True,
    ):
        self.gram, self.theta, self.close, self.bias = gram, theta, close, bias
        self.basis = gram.basis
        self.total = self._mass(theta)
        if not self.total > 0.0:
            raise np.linalg.LinAlgError("no dual can move, and a level needs some that can")
        self.sums: Array = None if self.basis.costly else self.basis.rmatvec(theta)
        self.root = root_of_curvature(gram, spread, weights, jacobian)
        self.exact = False  # whether the matrix factored is that of all samples, in double precision
        self.curved, inverse = self._factored(rough)
        self.failed = inverse is None  # whether a better matrix would have helped
        if inverse is None:
            self.curved, inverse = self._factored(rough=False)
        v = spread.mixed(np.maximum(weights, 0.0))
        self.exact = self.exact and inverse is not None and close >= SETTINGS.trusted * _norm(v)
        self.inverse: Product = inverse or (lambda z: z)

    def _mass(self, theta: Array) -> float:
        """Return the sum of theta, by which means are formed: infinite where there is no level to share."""
        return float(namespace(theta).sum(theta)) if self.bias else np.inf

    def _factored(self, rough: bool) -> tuple[Product, Product | None]:
        """Return what multiplies with G, perhaps from some samples only, and what solves with ``I + L'GL``."""
        if self.basis.costly:  # one pass for all samples is less than the passes of conjugate gradients
            self.exact = True
            G, self.sums = self.basis.moments(self.theta)
            return self._solvable(G - self.sums[:, None] * (self.sums / self.total)[None, :])
        theta, rows, sums, total = self.theta, None, self.sums, self.total
        if rough and self.gram.on_host:
            theta, rows = samples_that_matter(theta, SETTINGS.spare)
        elif rough and self.basis.columns > SETTINGS.narrow:
            theta, rows = drawn_by_weight(theta, SETTINGS.drawn * self.basis.columns)
        self.exact = rows is None and not self.gram.on_host
        if rows is not None:
            sums, total = self.basis.rmatvec(theta), self._mass(theta)
        V, L = self.basis.host_features, self.root
        if V is not None and isinstance(L, _SplitRoot) and (V if rows is None else rows).shape[0] < V.shape[1]:
            some = slice(None) if rows is None else rows
            V = V[some] if rough else V[some].astype(float)
            root, mean = np.sqrt(theta[some]).astype(V.dtype), (sums / total).astype(V.dtype)
            return _between_samples(root[:, None] * (V - mean), L)
        G = self.basis.weighted(theta, rows, rough=rough and self.gram.on_host)
        return self._solvable(G - sums[:, None] * (sums / total)[None, :])

    def _solvable(self, G: Array) -> tuple[Product, Product | None]:
        """Return what multiplies with G, and what solves with ``I + L'GL``."""
        xp = namespace(G)
        A = self.root.around(G)
        return lambda p: G @ p, cholesky(A + xp.eye(A.shape[0], dtype=A.dtype, device=device_of(A)))

    def solve(
        self,
        r: Array,  # (n,)
        p: Array,  # (r,)
        s: float,
        c: Array | float = 0.0,  # (n,)
    ) -> tuple[Array, float, Array]:
        """Return x, the level b and the sums ``Q'x`` of the basis, where p is too."""
        xp, theta = namespace(r), self.theta
        weighted = theta * r + c
        excess = float(xp.sum(weighted)) - s
        centred = self.basis.rmatvec(weighted) - self.sums * (excess / self.total)
        z = self.inverse(self.root.gather(centred - self.curved(p)))
        t = p + self.root.scatter(z)
        lifted = self.basis.matvec(t)
        if self.exact:
            folded = centred - self.curved(t)
        else:
            z, lifted, folded = self._corrected(z, lifted, weighted, excess)
        level = (excess - float(xp.sum(theta * lifted))) / self.total
        return weighted - theta * (lifted + level), level, folded

    def _corrected(self, z: Array, lifted: Array, weighted: Array, excess: float) -> tuple[Array, Array, Array]:
        """Conjugate gradients from z, preconditioned by the factored matrix: z, ``Q (p + L z)`` and ``Q'x``."""
        xp = namespace(z)
        reached = self.theta * lifted
        folded = self.basis.rmatvec(weighted - reached)
        folded = folded - self.sums * ((excess - float(xp.sum(reached))) / self.total)
        residual = self.root.gather(folded) - z
        p, last, least, best = 0.0 * z, 1.0, np.inf, (z, lifted, folded)
        for _ in range(SETTINGS.patience):
            error = _norm(self.root.scatter(residual))
            if error < least:
                least, best = error, (z, lifted, folded)
            if error <= self.close:
                return best
            if not error <= SETTINGS.diverged * least:
                break
            step = self.inverse(residual)
            size = float(residual @ step)
            if not size > 0.0:  # what is left is rounding
                break
            p, last = step + (size / last) * p, size
            along = self.basis.matvec(self.root.scatter(p))
            reached = self.theta * along
            image = self.basis.rmatvec(reached) - self.sums * (float(xp.sum(reached)) / self.total)
            image_z = p + self.root.gather(image)
            bend = float(p @ image_z)
            if not bend > 0.0:
                break
            t = size / bend
            z, lifted, folded, residual = z + t * p, lifted + t * along, folded - t * image, residual - t * image_z
        self.failed = True
        return best


class _SplitRoot:
    """A root of ``diag(w) + 2 U J U'``, where every column of the features belongs to one kernel."""

    def __init__(self, gram: FactorGram, spread: Spread, weights: np.ndarray, jacobian: np.ndarray):
        self.straight = gram.per_column(np.sqrt(np.maximum(weights, 0.0)))
        bend = np.repeat(_root(2.0 * jacobian), gram.ranks, axis=0)  # (D, rank of J)
        self.bend = spread.u[:, None] * gram.asarray(bend)

    def scatter(self, z: Array) -> Array:
        """Return ``L z``."""
        D = self.straight.shape[0]
        return self.straight * z[:D] + self.bend @ z[D:]

    def gather(self, v: Array) -> Array:
        """Return ``L' v``."""
        xp = namespace(v)
        return xp.concat([self.straight * v, xp.matrix_transpose(self.bend) @ v])

    def across(self, W: Array) -> Array:
        """Return ``W L``, in the precision of W."""
        xp = namespace(W)
        straight, bend = xp.astype(self.straight, W.dtype), xp.astype(self.bend, W.dtype)
        return xp.concat([W * straight[None, :], W @ bend], axis=1)

    def around(self, G: Array) -> Array:
        """Return ``L' G L``."""
        xp = namespace(G)
        right = self.across(G)
        return xp.concat([self.straight[:, None] * right, xp.matrix_transpose(self.bend) @ right], axis=0)


class _WholeRoot:
    """A root of ``S_w + 2 [S_k z] J [S_k z]'``, where kernels share a basis: of its size, however many they are."""

    def __init__(self, core: Array, gram: FactorGram, spread: Spread, jacobian: np.ndarray):
        xp, g = namespace(core), spread.table
        self.L = lower_root(core + (g @ gram.asarray(2.0 * jacobian)) @ xp.matrix_transpose(g))

    def scatter(self, z: Array) -> Array:
        return self.L @ z

    def gather(self, v: Array) -> Array:
        return namespace(v).matrix_transpose(self.L) @ v

    def around(self, G: Array) -> Array:
        return namespace(G).matrix_transpose(self.L) @ G @ self.L


def root_of_curvature(
    gram: FactorGram, spread: Spread, weights: np.ndarray, jacobian: np.ndarray
) -> _SplitRoot | _WholeRoot:
    """Return L with ``L L'`` the curvature of ``h(||u_1||^2, .., ||u_m||^2)`` in the basis of the kernels."""
    core = gram.core(np.maximum(weights, 0.0))
    return _SplitRoot(gram, spread, weights, jacobian) if core is None else _WholeRoot(core, gram, spread, jacobian)


def _between_samples(
    W: np.ndarray,  # (k, D)
    root: _SplitRoot,
) -> tuple[Product, Product | None]:
    """Return what multiplies with ``G = W'W``, and what solves with ``I + L'GL``, for more columns than samples.

    With ``A = W L`` that is ``(I + A'A)^-1 = I - A'(I + AA')^-1 A``.
    """
    A = root.across(W)
    M = (A @ A.T).astype(float)
    M[np.diag_indices_from(M)] += 1.0
    solve = cholesky(M)
    inverse = None if solve is None else lambda z: z - _fold(A, solve(_lift(A, z)))
    return lambda p: _fold(W, _lift(W, p)), inverse


def _lift(A: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return ``A z`` in double precision."""
    return A @ z if A.dtype == z.dtype else matvec(A, z)


def _fold(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``A' x`` in double precision."""
    return A.T @ x if A.dtype == x.dtype else rmatvec(A, x)


def _norm(x: Array) -> float:
    return float(x @ x) ** 0.5


def _root(J: np.ndarray) -> np.ndarray:
    """Return R with ``R R' = J``, without the directions in which a positive semidefinite J vanishes."""
    values, vectors = np.linalg.eigh(J)
    kept = values > SETTINGS.vanished * max(float(values[-1]), 1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])


def samples_that_matter(
    theta: Array,  # (n,)
    spare: float,
) -> tuple[Array, Array | None]:
    """Return theta without its smallest entries, up to ``spare`` in sum, and the positions left; None for all."""
    xp = namespace(theta)
    order = xp.argsort(theta)
    sums = xp.cumulative_sum(xp.take(theta, order))
    gone = min(int(xp.sum(xp.astype(sums <= spare, xp.int64))), theta.shape[0] - 1)
    if gone < 0.1 * theta.shape[0]:
        return theta, None
    least = float(theta[order[gone]])
    kept = theta >= least
    return xp.where(kept, theta, 0.0 * theta), xp.nonzero(kept)[0]


def drawn_by_weight(
    theta: Array,  # (n,)
    count: int,
) -> tuple[Array, Array | None]:
    """Return weights of about ``count`` samples that stand for all, drawn in proportion to theta; None for all."""
    xp, n = namespace(theta), theta.shape[0]
    if n < 2 * count:
        return theta, None
    level = float(xp.sum(theta)) / count
    for _ in range(6):  # until those drawn for certain, and the others by their share, are as many as asked for
        certain = theta >= level
        rest = count - int(xp.sum(xp.astype(certain, xp.int64)))
        level = float(xp.sum(xp.where(certain, 0.0 * theta, theta))) / max(rest, 1)
    place = xp.astype(xp.arange(n, device=device_of(theta)), theta.dtype) * SETTINGS.golden
    kept = (place - xp.floor(place)) * level < theta
    return xp.where(kept, xp.where(theta > level, theta, level + 0.0 * theta), 0.0 * theta), xp.nonzero(kept)[0]


def sample_of(problem: Problem) -> Problem | None:
    """Return the problem on few samples at as much more cost, if there are many; its answer is a good beginning."""
    n = problem.n
    few = max(SETTINGS.least, SETTINGS.per_column * factors(problem).columns, n // SETTINGS.part)
    if n < SETTINGS.worth * few:
        return None
    rows = np.sort(np.random.default_rng(0).choice(n, few, replace=False, shuffle=False))
    loss = problem.loss.take(like(problem.loss.zero, rows, "int64")).times(n / few)
    part = replace(problem, gram=problem.gram.take(rows), loss=loss)
    return part if _told_apart(part) or not _told_apart(problem) else None


def _told_apart(problem: Problem) -> bool:
    """Whether the best constant has a slope other than zero at some sample, so that there is something to learn."""
    zero = problem.loss.zero
    return bool(namespace(zero).any(problem.loss.slope(zero + problem.best_bias(zero)) != 0))


def slope_unit(problem: Problem) -> float:
    """Return the size of the slopes of a quadratic dual: 1 for labels -1 and +1, else about the spread of the targets.

    Where they are all alike it is what the sum of the duals makes of the kernels.
    """
    linear = problem.loss.box.linear
    size = _spread(linear if problem.bias else namespace(linear).concat([linear, -linear]))
    if size == 0.0 and problem.dual_sum:
        q = problem.gram.energies(problem.feasible(problem.loss.zero))
        size = 2.0 * problem.penalty.value(q) / abs(problem.dual_sum)
    return size or 1.0


def _spread(values: Array) -> float:
    """Return the mean square over the mean size of deviations from the mean, which is 1 for -1 and +1 however many."""
    xp = namespace(values)
    if float(xp.max(values)) == float(xp.min(values)):
        return 0.0
    apart = values - xp.mean(values)
    return float(xp.mean(apart**2)) / float(xp.mean(xp.abs(apart)))
