"""What every way of bringing kernels in hands on: a Gram stack, names, scales, and a predictor in the end."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..arrays import Array, namespace
from ..grams.base import GramStack
from ..kernels import Effect, Kernel
from ..losses import Loss
from ..penalties import MixingPenalty
from ..problem import Problem
from .targets import Subproblem, Targets


class Predictor(Protocol):
    """What a fitted model keeps."""

    @property
    def like(self) -> Any:
        """An array of the library, device and precision that new samples must have; None for stacks."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels, as a precomputed stack must have them."""
        ...

    @property
    def degree(self) -> int:
        """Kernels in a product: 1 where kernels themselves are added up."""
        ...

    def decide(self, X: Any) -> Array:  # (n, n_outputs)
        """Return the decision values of new samples."""
        ...

    def shares(
        self,
        X: Any,
        owner: np.ndarray,  # (m,) the part that each kernel belongs to
        parts: int,
    ) -> Array:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values; they and the intercepts sum to those.

        A product of kernels is shared evenly among them.
        """
        ...


@dataclass(frozen=True)
class Assembly(ABC):
    """Kernels on the training samples, and what new samples must go through to meet them."""

    gram: GramStack  # the kernels that are not zero
    names: Sequence[str]  # (m,) all kernels
    groups: Sequence[str | None]  # (m,) what each kernel belongs to
    kept: np.ndarray  # positions among all kernels of those in `gram`
    scales: np.ndarray  # (m,) factor of each kernel, 0 where it was left out
    lost: np.ndarray | None  # (m,) share of each kernel's trace that an approximation lost; None without one

    @property
    @abstractmethod
    def storage(self) -> str:
        """How the kernels are stored, as a phrase."""

    @property
    def bank(self) -> Sequence[Kernel] | None:
        """All kernels, resolved, less one that is 1 everywhere; None for a precomputed stack."""
        return None

    @property
    def columns(self) -> Sequence[tuple[int, ...] | None] | None:
        """The columns of each kernel of the bank, None for all; None for a precomputed stack."""
        return None if self.bank is None else [kernel.columns for kernel in self.bank]

    @property
    def singles(self) -> Sequence[Effect]:
        """The kernels of the effects of single columns, if there are any."""
        return [kernel for kernel in self.bank or () if isinstance(kernel, Effect)]

    @abstractmethod
    def predictor(
        self,
        targets: Targets,
        weights: np.ndarray,  # (n_outputs, m)
        coef: Array,  # (n_outputs, n)
        intercept: np.ndarray,  # (n_outputs,)
    ) -> Predictor:
        """Keep what prediction needs: no kernel without weight, no Gram matrix, no training features."""

    @abstractmethod
    def check_energies(self, gram: GramStack, beta: Array) -> None:
        """Refuse an answer along which a kernel shows that it is not positive semidefinite.

        ``gram`` is what the answer was found on: this assembly's, or a part of it.
        """

    def rescaled(
        self,
        factors: np.ndarray,  # of the kernels in `gram`
    ) -> Assembly:
        """Return the same with each kernel times its factor."""
        raise NotImplementedError

    def _rescaled_scales(self, factors: np.ndarray) -> np.ndarray:  # (m,)
        scales = self.scales.copy()
        scales[self.kept] *= factors
        return scales

    def cut(self, penalty: MixingPenalty) -> MixingPenalty:
        """Return the penalty on the kernels kept: parameters with one entry per kernel lose entries too."""
        m = len(self.names)
        penalty = penalty.grouped(self.groups)
        penalty.check(m)
        if self.kept.size == m:
            return penalty
        parameters = penalty.get_params(deep=False)
        return type(penalty)(**{name: _entries(value, self.kept, m) for name, value in parameters.items()})

    def problem(
        self,
        subproblem: Subproblem,
        loss: Loss,
        penalty: MixingPenalty,
        C: Array,  # (n,)
        dual_sum: float | None,
    ) -> Problem:
        """Return one problem on these kernels; C holds the cost of each row that counts."""
        rows = subproblem.rows
        if rows is None:
            return Problem(self.gram, loss.bind(subproblem.y, C), penalty, dual_sum)
        bound = loss.bind(subproblem.y, namespace(C).take(C, rows))
        return Problem(self.gram.take(rows), bound, penalty, dual_sum)


def _entries(value: Any, kept: np.ndarray, m: int) -> Any:
    per_kernel = np.ndim(value) == 1 and len(value) == m
    return [value[k] for k in kept] if per_kernel else value


def say_dropped(names: list[str], scales: np.ndarray, normalize: str | None) -> None:
    """Name the kernels left out because they are zero, or refuse if none is left."""
    dropped = [names[k] for k in np.flatnonzero(scales == 0)]
    what = "zero or constant" if normalize == "center" else "zero"
    if len(dropped) == len(names):
        raise ValueError(f"Every kernel is {what} on the training samples: give one that tells them apart.")
    if dropped:
        few = ", ".join(dropped[:8]) + (f" and {len(dropped) - 8} more" if len(dropped) > 8 else "")
        warnings.warn(f"Kernels {what} on the training samples get weight 0: {few}.", UserWarning, stacklevel=2)
