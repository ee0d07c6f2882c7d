"""SMO-MKL: sequential minimal optimisation of the smooth dual of the squared p-norm."""

from __future__ import annotations

import numpy as np

from ...grams import EntryGram
from ...penalties import SquaredLp
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, entries
from ..smo import SMOState, begin, point_of, recompute, tighten


class SMOMKL(Solver):
    """The SMO of Vishwanathan, Sun, Theera-Ampornpunt and Varma (NIPS 2010), for ``penalty=SquaredLp(p, strength)``.

    It maximises ``sum_i D_i(beta_i) - (sum_k q_k^r)^(2/r) / (8 strength)``, with ``1/p + 1/r = 1``, in the duals alone.
    Pairs of samples are chosen as in LIBSVM, the first by its gradient and the second by the gain that the Hessian of
    this dual promises; Newton's method finds the step. The weights follow from the energies, and are those of `Lp` at
    another C, see `SquaredLp`. The solver `smo` does so for any smooth penalty, in working sets that fit a cache.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(penalty=kw.penalties.SquaredLp(1.5), solver="smo-mkl").get_params()["solver"]
    'smo-mkl'
    """

    name = "smo-mkl"
    needs = (EntryGram,)
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        if entries(problem).stored is None:
            return f"works on stored kernels, and {type(problem.gram).__name__} computes them: use solver='smo'."
        if isinstance(problem.penalty, SquaredLp) and np.isfinite(problem.penalty.p):
            return None
        return f"is for penalty=SquaredLp(p) with a finite p, not {problem.penalty}: use solver='sqp'."

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SMOState:
        return begin(problem, problem.penalty, start)

    def step(self, problem: Problem, state: SMOState) -> bool:
        from ...compiled.smo_mkl import smo_mkl

        stored, box, n = entries(problem).stored, state.box, state.beta.size
        assert stored is not None
        _, params = problem.penalty.compiled(state.q.size)
        steps, state.violation = smo_mkl(params, *stored, problem.gram.diagonal(), state.g, state.q, state.beta,
                                         box.linear, box.ridge, box.lower, box.upper, state.eps, n)  # fmt: skip
        return steps < n

    def read(self, problem: Problem, state: SMOState) -> Point:
        return point_of(state, state.weights)

    def adapt(self, problem: Problem, state: SMOState, certificate: Certificate) -> Status | None:
        return tighten(state)

    def refresh(self, problem: Problem, state: SMOState) -> None:
        recompute(problem, state)
