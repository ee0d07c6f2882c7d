"""Learning from a stream: chunks of samples pass by once, and only functions of the features are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from ..assemble import FactorAssembly, FactorExpansion
from ..losses import CrammerSinger, Loss
from ..penalties import MixingPenalty
from ..solvers import Mirror

STATUS = "Learned from a stream, which keeps no samples: there is no duality gap."


@dataclass
class Stream:
    """What is left of the samples seen: for each question, sums of their features and the energies of these sums."""

    assembly: FactorAssembly  # of the first chunk, without its features
    classes: np.ndarray
    loss: Loss
    penalty: MixingPenalty
    theta: list[np.ndarray]  # (c, D) for each question
    norms: list[np.ndarray]  # (m,) for each question
    order: np.random.Generator
    settings: str  # parameters with which it began
    done: int = 0
    total: float = 0.0

    @classmethod
    def begin(
        cls,
        assembly: FactorAssembly,
        classes: np.ndarray,
        loss: Loss,
        penalty: MixingPenalty,
        solver: Mirror,
        settings: str,
    ) -> Stream:
        """Return a stream before its first sample."""
        D, m = assembly.gram.features.shape[1], assembly.gram.shape[1]
        joint = isinstance(loss, CrammerSinger)
        questions = 1 if joint or classes.size == 2 else classes.size
        width = classes.size if joint else 1
        assembly = replace(assembly, gram=assembly.gram.take(np.arange(0)))
        order = np.random.default_rng(int(solver.random_state))
        return cls(assembly, classes, loss, penalty, [np.zeros((width, D)) for _ in range(questions)],
                   [np.zeros(m) for _ in range(questions)], order, settings)  # fmt: skip

    def take(self, X: Any, codes: np.ndarray, cost: np.ndarray, total: float | None) -> None:
        """Let a chunk of samples pass, each once, in random order."""
        from ..compiled import mirror as engine

        V = np.ascontiguousarray(self.assembly.maps.transform(X))
        order = self.order.permutation(codes.size)
        self.total = float(self.done + codes.size if total is None else total)
        ends, beta = np.cumsum(self.assembly.gram.ranks), np.zeros((codes.size, self.theta[0].shape[0]))
        rule, params = self.penalty.compiled(ends.size)
        for question, (theta, norms) in enumerate(zip(self.theta, self.norms, strict=True)):
            engine.epoch_on_features(rule, params, self.loss.rule(), V, ends, self._targets(codes, question), cost,
                                     order, theta, norms, beta, self.done, self.total)  # fmt: skip
            norms[:] = self.assembly.gram.energies(theta.T)  # so that rounding does not add up
        self.done += codes.size

    def _targets(self, codes: np.ndarray, question: int) -> np.ndarray:
        if isinstance(self.loss, CrammerSinger):
            return codes.astype(float)
        return np.where(codes == (1 if len(self.theta) == 1 else question), 1.0, -1.0)

    def read(self) -> tuple[np.ndarray, FactorExpansion]:
        """Return the weights of all kernels for each question, and what predicts."""
        gram, m, ratio = self.assembly.gram, len(self.assembly.names), self.total / self.done
        weights, columns = np.zeros((len(self.theta), m)), []
        for question, (theta, norms) in enumerate(zip(self.theta, self.norms, strict=True)):
            found = self.penalty.weights(ratio**2 * norms)
            weights[question, self.assembly.kept] = found
            columns.append(ratio * gram.weigh(found, theta.T))
        z = np.concatenate(columns, axis=1)
        linear = self.assembly.maps.predictor(z)
        return weights, FactorExpansion(linear, np.zeros(z.shape[1]), self.assembly.like, (self.done, m))


def class_factors(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return the factor of each class, which a stream must know beforehand."""
    if class_weight is None:
        return np.ones(classes.size)
    if not isinstance(class_weight, dict):
        raise ValueError("class_weight must be a dict or None for a stream: all labels are never seen together.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors
