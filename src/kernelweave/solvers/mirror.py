"""Stochastic mirror descent on the kernels' functions: any convex loss, exact zeros, one sample at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from ..grams import CombinableGram, EntryGram, FactorGram, GramStack
from ..problem import Certificate, Point, Problem, Status
from .base import Solver


class MirrorForm(ABC):
    """What mirror descent keeps of the samples met: sums of their slopes times their kernels, in some form."""

    @abstractmethod
    def set(self, beta: np.ndarray) -> None:
        """Take the sums of the coefficients ``beta`` (n, c)."""

    @abstractmethod
    def energies(self, beta: np.ndarray) -> np.ndarray:
        """Return ``beta' K_k beta`` from the sums, of the coefficients ``beta`` that led to them."""

    @abstractmethod
    def outputs(self, weights: np.ndarray) -> np.ndarray:  # (n, c)
        """Return the weighted sum of the kernels' outputs."""

    @abstractmethod
    def meet(self, i: int, parts: np.ndarray, own: np.ndarray) -> None:
        """Leave each kernel's outputs at sample i, and its entry of sample i, in ``parts`` and ``own``."""

    @abstractmethod
    def push(self, i: int, move: np.ndarray) -> None:
        """Add ``move`` to the coefficients of sample i."""

    @abstractmethod
    def epoch(self, faces: tuple[Any, ...], order: np.ndarray, state: MirrorState) -> bool:
        """Visit samples in compiled code, by the compiled faces of penalty and loss; False where that cannot be."""


class OnKernels(MirrorForm):
    """What mirror descent keeps where kernels are matrices: their outputs at all samples."""

    def __init__(self, gram: CombinableGram, outputs: int):
        n, m = gram.shape
        self.gram = gram
        self.stored = gram.stored if isinstance(gram, EntryGram) else None
        stack, scale = self.stored or (np.empty(0), np.ones(m))
        self.sums = np.zeros((outputs, n, m), dtype=stack.dtype)
        self.scale = scale[None, :]
        self.diagonal = gram.diagonal()

    def set(self, beta: np.ndarray) -> None:
        self.sums[:] = self.gram.products(beta) / self.scale

    def energies(self, beta: np.ndarray) -> np.ndarray:
        totals = np.array([beta[:, c] @ part for c, part in enumerate(self.sums)])
        return np.maximum(totals.sum(axis=0) * self.scale[0], 0.0)

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        return np.stack([part @ (weights * self.scale[0]) for part in self.sums], axis=1)

    def meet(self, i: int, parts: np.ndarray, own: np.ndarray) -> None:
        parts[:], own[:] = self.sums[:, i].T * self.scale.T, self.diagonal[i]

    def push(self, i: int, move: np.ndarray) -> None:
        column = self.gram.weighted_columns(np.ones(1), np.array([i])) / self.scale
        for c in np.flatnonzero(move):
            self.sums[c] += (move[c] * column).astype(self.sums.dtype, copy=False)

    def epoch(self, faces: tuple[Any, ...], order: np.ndarray, state: MirrorState) -> bool:
        from ..compiled import mirror as engine

        if self.stored is None:
            return False
        run: Any = engine.epoch_on_kernels
        run(*faces, self.stored[0], self.scale, order, self.sums, state.norms, state.beta, state.done, state.total)
        return True


class OnFeatures(MirrorForm):
    """What mirror descent keeps where kernels are features: the functions themselves."""

    def __init__(self, gram: FactorGram, theta: np.ndarray):
        assert gram.host_features is not None
        self.gram, self.features, self.ends = gram, gram.host_features, np.cumsum(gram.ranks)
        self.theta = theta  # (c, D)

    def set(self, beta: np.ndarray) -> None:
        self.theta[:] = self.gram.rmatvec(beta).T

    def energies(self, beta: np.ndarray) -> np.ndarray:
        return self.gram.squared_norms(self.theta.T)

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        return self.gram.matvec(np.ascontiguousarray(self.gram.scale_blocks(weights, self.theta.T)))

    def meet(self, i: int, parts: np.ndarray, own: np.ndarray) -> None:
        from ..compiled import mirror as engine

        engine.project(self.features, i, self.ends, self.theta, parts, own)

    def push(self, i: int, move: np.ndarray) -> None:
        self.theta += move[:, None] * self.features[i]

    def epoch(self, faces: tuple[Any, ...], order: np.ndarray, state: MirrorState) -> bool:
        from ..compiled import mirror as engine

        run: Any = engine.epoch_on_features
        run(*faces, self.features, self.ends, order, self.theta, state.norms, state.beta, state.done, state.total)
        return True


@dataclass
class MirrorState:
    """Sums over all visits: coefficients, and the energies they lead to; the duals are their means times n."""

    form: MirrorForm
    beta: np.ndarray  # (n, c)
    norms: np.ndarray  # (m,)
    order: np.random.Generator
    done: int = 0  # visits
    total: float = 0.0  # samples that there are

    @property
    def ratio(self) -> float:
        """What a sum over all visits is multiplied by, so that every sample counts once."""
        return self.total / max(self.done, 1)


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
    >>> problem = Problem(gram, losses.Hinge().bind(np.sign(x)), penalties.Mixed(0.1), dual_sum=None)
    >>> (solve(problem, "mirror").weights > 0).tolist()
    [True, False]
    """

    name = "mirror"
    needs = (CombinableGram, FactorGram)
    takes = ("any",)
    biased = False
    biasless = True
    several = True

    def __init__(self, epochs: int | None = None, random_state: int = 0):
        self.epochs = epochs
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        for name, value, least in (("epochs", self.epochs, 1), ("random_state", self.random_state, 0)):
            asked: Any = value
            if not (isinstance(asked, Integral) and int(asked) >= least) and not (name == "epochs" and asked is None):
                return f"takes a whole number from {least} on as {name}, not {value!r}."
        loss, gram = problem.loss, problem.gram
        if isinstance(gram, FactorGram) and gram.host_features is None:
            return "runs on NumPy features of each kernel, held in memory: use solver='auto'."
        if not loss.separable:
            return f"meets samples one by one, and {loss} is no sum over samples: use solver='auto'."
        if loss.terms is not None and not np.all(np.isfinite(loss.terms.upper - loss.terms.lower)):
            return f"is for losses of bounded slope, such as 'hinge' and 'logistic', not {loss}."
        if not problem.penalty.smooth:
            return f"follows the gradient of the penalty, which {problem.penalty} lacks: use penalties.Mixed."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> MirrorState:
        outputs = problem.shape[1] if problem.loss.several else 1
        form: MirrorForm
        if isinstance(problem.gram, FactorGram):
            form = OnFeatures(problem.gram, np.zeros((outputs, problem.gram.columns)))
        else:
            assert isinstance(problem.gram, CombinableGram)
            form = OnKernels(problem.gram, outputs)
        state = self._begin(form, problem.gram, outputs)
        if start is not None and start.any():
            state.beta[:], state.done = start.reshape(state.beta.shape), problem.n
            self.refresh(problem, state)
        return state

    def step(self, problem: Problem, state: MirrorState) -> bool:
        order = state.order.permutation(problem.n)
        rule, params = problem.penalty.compiled(state.norms.size)
        face = problem.loss.compiled
        if face is None or not state.form.epoch((rule, params, *face), order, state):
            _visit_all(problem, state, order, rule, params)
        state.done += order.size
        state.norms = state.form.energies(state.beta)  # so that rounding does not add up
        return True

    def read(self, problem: Problem, state: MirrorState) -> Point:
        q = state.ratio**2 * state.norms
        weights = problem.penalty.weights(q)
        f = state.ratio * state.form.outputs(weights)
        return Point(state.ratio * state.beta.reshape(problem.shape), weights, q, f.reshape(problem.shape))

    def adapt(self, problem: Problem, state: MirrorState, certificate: Certificate) -> Status | None:
        over = self.epochs is not None and state.done >= self.epochs * problem.n
        return Status.EPOCHS if over else None

    def refresh(self, problem: Problem, state: MirrorState) -> None:
        state.form.set(state.beta)
        state.norms = state.form.energies(state.beta)

    def _begin(self, form: MirrorForm, gram: GramStack, outputs: int) -> MirrorState:
        n, m = gram.shape
        order = np.random.default_rng(int(self.random_state))
        return MirrorState(form, np.zeros((n, outputs)), np.zeros(m), order, total=float(n))

    # -- streams: samples that pass by in chunks, of which only functions of the features are kept --------------------

    def begin(self, gram: FactorGram, outputs: int) -> MirrorState:
        """Return the state before the first sample of a stream; ``gram`` has its features but need hold no sample."""
        return self._begin(OnFeatures(gram, np.zeros((outputs, gram.columns))), gram, outputs)

    def resume(self, problem: Problem, state: MirrorState, total: float) -> MirrorState:
        """Return the state that goes on with the samples of ``problem``, a chunk of a stream of ``total`` samples."""
        assert isinstance(problem.gram, FactorGram) and isinstance(state.form, OnFeatures)
        theta = state.form.theta
        beta = np.zeros((problem.n, theta.shape[0]))
        return replace(state, form=OnFeatures(problem.gram, theta), beta=beta, total=total)

    def rest(self, state: MirrorState) -> MirrorState:
        """Return the state without the samples of its chunk."""
        assert isinstance(state.form, OnFeatures)
        gram = state.form.gram.take(np.arange(0))
        assert isinstance(gram, FactorGram)
        return replace(state, form=OnFeatures(gram, state.form.theta), beta=state.beta[:0])

    def functions(self, problem: Problem, state: MirrorState) -> tuple[np.ndarray, np.ndarray]:  # (m,) and (D, c)
        """Return the kernels' weights and the function of the features that the samples met so far lead to."""
        assert isinstance(problem.gram, FactorGram) and isinstance(state.form, OnFeatures)
        weights = problem.penalty.weights(state.ratio**2 * state.norms)
        return weights, state.ratio * problem.gram.scale_blocks(weights, state.form.theta.T)


def _visit_all(problem: Problem, state: MirrorState, order: np.ndarray, rule: Any, params: np.ndarray) -> None:
    """Visit samples one by one, for columns on demand and for losses without compiled slopes."""
    from ..compiled import mirror as engine

    c, m = state.beta.shape[1], state.norms.size
    parts, own, q, weights, f = np.empty((m, c)), np.empty(m), np.empty(m), np.empty(m), np.empty(c)
    for t, i in enumerate(order.tolist(), start=state.done):
        state.form.meet(i, parts, own)
        engine.answer(rule, params, parts, state.norms, state.total / t if t else 0.0, q, weights, f)
        move = -np.asarray(problem.loss.slope_of(i, f), dtype=float)
        if engine.lengthen(parts, own, move, state.norms):
            state.form.push(i, move)
            state.beta[i] += move
