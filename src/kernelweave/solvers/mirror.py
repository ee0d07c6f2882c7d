"""Stochastic mirror descent on the kernels' functions: any convex loss, exact zeros, one sample at a time."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..arrays import is_numpy
from ..grams import DenseGram
from ..grams.base import GramStack
from ..problem import Certificate, Point, Problem, Status
from .base import Solver


class OnKernels:
    """What mirror descent keeps where kernels are matrices: their outputs at all samples."""

    def __init__(self, gram: GramStack, classes: int):
        n, m = gram.shape
        self.gram, self.stored = gram, isinstance(gram, DenseGram)
        self.sums = np.zeros((classes, n, m), dtype=gram.stack.dtype if self.stored else float)
        self.scale = (gram.scale if self.stored else np.ones(m))[None, :]
        self.diagonal = gram.diagonal()

    def set(self, beta: np.ndarray) -> None:
        """Take the outputs of the coefficients ``beta`` (n, c)."""
        self.sums[:] = self.gram.products(beta) / self.scale

    def energies(self, beta: np.ndarray) -> np.ndarray:
        """Return ``beta' K_k beta`` from the outputs."""
        totals = np.array([beta[:, c] @ part for c, part in enumerate(self.sums)])
        return np.maximum(totals.sum(axis=0) * self.scale[0], 0.0)

    def outputs(self, weights: np.ndarray) -> np.ndarray:  # (n, c)
        """Return the weighted sum of the kernels' outputs."""
        return np.stack([part @ (weights * self.scale[0]) for part in self.sums], axis=1)

    def meet(self, i: int, parts: np.ndarray, own: np.ndarray) -> None:
        """Leave each kernel's outputs at sample i, and its entry of sample i, in ``parts`` and ``own``."""
        parts[:], own[:] = self.sums[:, i].T * self.scale.T, self.diagonal[i]

    def push(self, i: int, move: np.ndarray) -> None:
        """Add ``move`` to the coefficients of sample i."""
        column = self.gram.spread(np.ones(1), np.array([i])) / self.scale
        for c in np.flatnonzero(move):
            self.sums[c] += (move[c] * column).astype(self.sums.dtype, copy=False)

    def epoch(self, rules: tuple[Any, ...], problem: Problem, order: np.ndarray, state: MirrorState) -> bool:
        """Visit all samples in compiled code; False where columns have to be asked for one by one."""
        from ..compiled import mirror as engine

        if self.stored:
            run: Any = engine.epoch_on_kernels
            run(*rules, self.gram.stack, self.scale, problem.y, problem.C, order, self.sums,
                                    state.norms, state.beta, state.done)  # fmt: skip
        return self.stored


class OnFeatures:
    """What mirror descent keeps where kernels are features: the functions themselves."""

    def __init__(self, gram: GramStack, classes: int):
        self.gram, self.ends = gram, np.cumsum(gram.ranks)
        self.theta = np.zeros((classes, gram.features.shape[1]))

    def set(self, beta: np.ndarray) -> None:
        """Take the functions of the coefficients ``beta`` (n, c)."""
        self.theta[:] = self.gram.fold(beta).T

    def energies(self, beta: np.ndarray) -> np.ndarray:
        """Return ``beta' K_k beta`` from the functions."""
        return self.gram.energies(self.theta.T)

    def outputs(self, weights: np.ndarray) -> np.ndarray:  # (n, c)
        """Return the weighted sum of the kernels' outputs."""
        return self.gram.lift(np.ascontiguousarray(self.gram.weigh(weights, self.theta.T)))

    def meet(self, i: int, parts: np.ndarray, own: np.ndarray) -> None:
        """Leave each kernel's outputs at sample i, and its entry of sample i, in ``parts`` and ``own``."""
        from ..compiled import mirror as engine

        engine.project(self.gram.features, i, self.ends, self.theta, parts, own)

    def push(self, i: int, move: np.ndarray) -> None:
        """Add ``move`` to the coefficients of sample i."""
        self.theta += move[:, None] * self.gram.features[i]

    def epoch(self, rules: tuple[Any, ...], problem: Problem, order: np.ndarray, state: MirrorState) -> bool:
        """Visit all samples in compiled code."""
        from ..compiled import mirror as engine

        run: Any = engine.epoch_on_features
        run(*rules, self.gram.features, self.ends, problem.y, problem.C, order, self.theta,
                                 state.norms, state.beta, state.done, float(order.size))  # fmt: skip
        return True


@dataclass
class MirrorState:
    """Sums over all visits: coefficients, and the energies they lead to; the duals are their means times n."""

    form: OnKernels | OnFeatures
    beta: np.ndarray  # (n, c)
    norms: np.ndarray  # (m,)
    order: np.random.Generator
    done: int = 0  # visits


class Mirror(Solver):
    """Stochastic mirror descent (UFO): samples are met in random order, and the duals are averages of loss slopes.

    A sample whose loss is flat costs as much as there are kernels; one that moves also reads its column of each
    kernel, once. Each pass meets every sample once, so that its end is a feasible dual point, whose weights (exact
    zeros included) are the model: the certificate comes for free. Quick to a fair answer, slow to a precise one.

    Parameters
    ----------
    epochs : int or None, default=None
        Passes over the samples, after which the last point is the answer, as published, whatever its gap; None goes on
        until the gap asked for and returns the best point met.
    random_state : int, default=0
        Seed of the order in which samples are met.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> gram = DenseGram(np.stack([np.outer(x, x), np.ones((4, 4))], axis=2))
    >>> problem = Problem(gram, losses.Hinge(), penalties.Mixed(0.1), np.sign(x), C=1.0, bias=False)
    >>> (solve(problem, "mirror").weights > 0).tolist()
    [True, False]
    """

    name = "mirror"
    needs_quadratic = False
    biased = False
    biasless = True
    joint = True

    def __init__(self, epochs: int | None = None, random_state: int = 0):
        self.epochs = epochs
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        for name, value, least in (("epochs", self.epochs, 1), ("random_state", self.random_state, 0)):
            asked: Any = value
            if not (isinstance(asked, Integral) and int(asked) >= least) and not (name == "epochs" and asked is None):
                return f"takes a whole number from {least} on as {name}, not {value!r}."
        if hasattr(problem.loss, "quadratic") and np.any(problem.loss.quadratic(problem.y, problem.C).ridge > 0):
            return f"is for losses of bounded slope, such as 'hinge' and 'logistic', not {problem.loss}."
        if not problem.penalty.smooth:
            return f"follows the gradient of the penalty, which {problem.penalty} lacks: use penalties.Mixed."
        features = getattr(problem.gram, "features", None)
        if features is not None and not is_numpy(features):
            return "runs on NumPy features: convert X to NumPy."
        if features is None and not hasattr(problem.gram, "spread"):
            return "needs the columns of single kernels, not of their products: use solver='auto'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> MirrorState:
        shape = (problem.shape + (1,))[:2]
        form: Any = OnFeatures if hasattr(problem.gram, "features") else OnKernels
        state = MirrorState(
            form(problem.gram, shape[1]),
            np.zeros(shape),
            np.zeros(problem.gram.shape[1]),
            np.random.default_rng(int(self.random_state)),
        )
        if start is not None and start.any():
            state.beta[:], state.done = start.reshape(shape), shape[0]
            self.refresh(problem, state)
        return state

    def step(self, problem: Problem, state: MirrorState) -> bool:
        order = state.order.permutation(problem.y.size)
        rule, params = problem.penalty.compiled(state.norms.size)
        slope = problem.loss.rule()
        if slope is None or not state.form.epoch((rule, params, slope), problem, order, state):
            _visit_all(problem, state, order, rule, params)
        state.done += order.size
        state.norms = state.form.energies(state.beta)  # so that rounding does not add up
        return True

    def read(self, problem: Problem, state: MirrorState) -> Point:
        ratio = problem.y.size / max(state.done, 1)
        q = ratio**2 * state.norms
        weights = problem.penalty.weights(q)
        f = ratio * state.form.outputs(weights)
        return Point(ratio * state.beta.reshape(problem.shape), weights, q, f.reshape(problem.shape))

    def heed(self, problem: Problem, state: MirrorState, certificate: Certificate) -> Status | None:
        over = self.epochs is not None and state.done >= self.epochs * problem.y.size
        return Status.EPOCHS if over else None

    def refresh(self, problem: Problem, state: MirrorState) -> None:
        state.form.set(state.beta)
        state.norms = state.form.energies(state.beta)


def _visit_all(problem: Problem, state: MirrorState, order: np.ndarray, rule: Any, params: np.ndarray) -> None:
    """Visit samples one by one, for columns on demand and for losses without compiled slopes."""
    from ..compiled import mirror as engine

    (n, c), m = state.beta.shape, state.norms.size
    parts, own, q, weights, f = np.empty((m, c)), np.empty(m), np.empty(m), np.empty(m), np.empty(c)
    for t, i in enumerate(order.tolist(), start=state.done):
        state.form.meet(i, parts, own)
        engine.answer(rule, params, parts, state.norms, n / t if t else 0.0, q, weights, f)
        slope = problem.loss.slope(f.reshape(1, *problem.shape[1:]), problem.y[i : i + 1], problem.C[i : i + 1])
        move = -np.asarray(slope, dtype=float).reshape(c)
        if engine.lengthen(parts, own, move, state.norms):
            state.form.push(i, move)
            state.beta[i] += move
