"""The linear system at the heart of the second-order solvers on factors, reduced from samples to features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, cholesky, device_of, namespace
from ..grams.base import GramStack

DRAWN = 500  # samples for each column from which an accelerator forms the matrix, where there are many more
GOLDEN = 0.6180339887498949  # its multiples fill the unit interval evenly
SPARE = 0.1  # weight of the samples, together, that may be left out of the factored matrix
PATIENCE = 30  # corrections after which a direction is taken as it is
DIVERGED = 1e3  # times the least error so far: beyond it corrections only do harm


class Reduced:
    """Find x, one entry per sample, and a level b with ``x = theta (r - V (p + S V'x) - b)`` and ``sum(x) = s``.

    ``S = diag(w) + 2 U J U'`` is the curvature of ``h(||u_1||^2, .., ||u_m||^2)`` in u: w the kernel weights and J
    their Jacobian, U the parts of u as columns of a block diagonal matrix. With ``S = L L'`` and ``z = L'V'x`` this is
    ``(I + L'GL) z = L'(V'theta r - G p)`` in D + m unknowns, where ``G = V' diag(theta) V`` less its mean. On the
    computer's own processor G is formed from the samples that matter, in the precision of the features, and
    conjugate gradients on all samples in float64 make up for the rest; an accelerator forms all of it in float64.

    Parameters
    ----------
    close : float
        Largest error of ``S V'x``, in Euclidean norm, that a solution may have.
    rough : bool, default=True
        Whether to form G in the precision of the features.
    """

    def __init__(
        self,
        gram: GramStack,
        u: Array,  # (D,)
        weights: np.ndarray,  # (m,)
        jacobian: np.ndarray,  # (m, m)
        theta: Array,  # (n,)
        close: float,
        rough: bool = True,
    ):
        xp = namespace(theta)
        self.gram, self.theta, self.close = gram, theta, close
        self.total, self.sums = float(xp.sum(theta)), gram.fold(theta)
        self.root = gram.per_column(np.sqrt(np.maximum(weights, 0.0)))
        self.bend = u[:, None] * gram.asarray(np.repeat(_root(2.0 * jacobian), gram.ranks, axis=0))  # (D, r)
        self.exact = False  # whether the matrix factored is that of all samples, in double precision
        self.G, inverse = self._factored(rough)
        self.failed = inverse is None  # whether a better matrix would have helped
        if inverse is None:
            self.G, inverse = self._factored(rough=False)
        self.exact = self.exact and inverse is not None
        self.inverse: Callable[[Array], Array] = inverse or (lambda z: z)

    def _factored(self, rough: bool) -> tuple[Array, Callable[[Array], Array] | None]:
        """Return G, perhaps from some samples only, and what solves with ``I + L'GL``."""
        xp, theta, rows, sums, total = namespace(self.theta), self.theta, None, self.sums, self.total
        if rough and self.gram.on_host:
            theta, rows = samples_that_matter(theta, SPARE)
        elif rough:
            theta, rows = drawn_by_weight(theta, DRAWN * self.gram.features.shape[1])
        self.exact = rows is None and not self.gram.on_host
        if rows is not None:
            sums, total = self.gram.fold(theta), float(xp.sum(theta))
        G = self.gram.weighted(theta, rows, rough=rough and self.gram.on_host) - sums[:, None] * (sums / total)[None, :]
        right = xp.concat([G * self.root[None, :], G @ self.bend], axis=1)
        A = xp.concat([self.root[:, None] * right, xp.matrix_transpose(self.bend) @ right], axis=0)
        return G, cholesky(A + xp.eye(A.shape[0], dtype=A.dtype, device=device_of(A)))

    def solve(
        self,
        r: Array,  # (n,)
        p: Array,  # (D,)
        s: float,
    ) -> tuple[Array, float, Array]:
        """Return x, the level b and ``V'x``."""
        xp, theta = namespace(r), self.theta
        weighted = theta * r
        excess = float(xp.sum(weighted)) - s
        known = self.gram.fold(weighted)
        centred = known - self.sums * (excess / self.total)
        z = self.inverse(self._gather(centred - self.G @ p))
        t = p + self._scatter(z)
        lifted = self.gram.lift(t)
        if self.exact:
            folded = centred - self.G @ t
        else:
            z, lifted, folded = self._corrected(z, lifted, weighted, excess)
        level = (excess - float(xp.sum(theta * lifted))) / self.total
        return weighted - theta * (lifted + level), level, folded

    def _corrected(self, z: Array, lifted: Array, weighted: Array, excess: float) -> tuple[Array, Array, Array]:
        """Conjugate gradients from z, preconditioned by the factored matrix: z, ``V (p + L z)`` and ``V'x``."""
        xp = namespace(z)
        reached = self.theta * lifted
        folded = self.gram.fold(weighted - reached)
        folded = folded - self.sums * ((excess - float(xp.sum(reached))) / self.total)
        residual = self._gather(folded) - z
        p, last, least, best = 0.0 * z, 1.0, np.inf, (z, lifted, folded)
        for _ in range(PATIENCE):
            error = _norm(self._scatter(residual))
            if error < least:
                least, best = error, (z, lifted, folded)
            if error <= self.close:
                return best
            if not error <= DIVERGED * least:
                break
            step = self.inverse(residual)
            size = float(residual @ step)
            p, last = step + (size / last) * p, size
            along = self.gram.lift(self._scatter(p))
            reached = self.theta * along
            image = self.gram.fold(reached) - self.sums * (float(xp.sum(reached)) / self.total)
            image_z = p + self._gather(image)
            t = size / float(p @ image_z)
            z, lifted, folded, residual = z + t * p, lifted + t * along, folded - t * image, residual - t * image_z
        self.failed = True
        return best

    def _scatter(self, z: Array) -> Array:
        """Return ``L z``."""
        D = self.root.shape[0]
        return self.root * z[:D] + self.bend @ z[D:]

    def _gather(self, v: Array) -> Array:
        """Return ``L' v``."""
        xp = namespace(v)
        return xp.concat([self.root * v, xp.matrix_transpose(self.bend) @ v])


def _norm(x: Array) -> float:
    return float(x @ x) ** 0.5


def _root(J: np.ndarray) -> np.ndarray:
    """Return R with ``R R' = J``, without the directions in which a positive semidefinite J vanishes."""
    values, vectors = np.linalg.eigh(J)
    kept = values > 1e-14 * max(float(values[-1]), 1e-300)
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
    place = xp.astype(xp.arange(n, device=device_of(theta)), theta.dtype) * GOLDEN
    kept = (place - xp.floor(place)) * level < theta
    return xp.where(kept, xp.where(theta > level, theta, level + 0.0 * theta), 0.0 * theta), xp.nonzero(kept)[0]
