"""Which solver "auto" is: what was fastest, in the benchmarks, on problems of a kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..grams import BankGram, BasisGram, CombinableGram, FactorGram, TensorGram
from ..losses.base import BoundLoss
from ..problem import Problem
from .active import ActiveKernels
from .active_newton import ActiveNewton
from .ascent import Ascent
from .base import Solver, check_pair, factors, unit_of
from .coordinate import Coordinate
from .direct import Direct
from .features import Features
from .frank_wolfe import FrankWolfe
from .interior import Interior
from .lagrangian import Lagrangian
from .newton import Newton
from .newton_cg import NewtonCG
from .proximal import Proximal
from .rows import Rows
from .smo import SMO
from .sqp import SQP
from .sqp_rounds import largest_set
from .ssnal import SsNAL


@dataclass(frozen=True)
class ChoiceSettings:
    """Where one solver overtakes another; the heft of a problem is its largest cost times the size of its kernels."""

    light: float = 10.0  #: heft up to which single coordinates get there soon
    rough: float = 30.0  #: heft beyond which passes over single samples become too many
    heavy: float = 1e5  #: heft beyond which the interior point is no longer the quickest on many features
    firm: float = 1e4  #: heft up to which corners rounded less and less are quicker where kernels share a basis
    huge: float = 1e9  #: heft beyond which floating point leaves Newton's method on blocks no curvature
    hard: float = 1e3  #: heft from which kernels of low rank are taken apart into features
    harder: float = 2e3  #: the same from the answer at another cost, without kinks and weights that grow with energies
    size: int = 3000  #: samples up to which that is looked into
    many: int = 10**6  #: entries of the features below which every solver is quick, and the most robust is taken
    wide: int = 600  #: columns from which a matrix of samples that err is cheaper than one of all samples
    long: int = 10**4  #: samples from which it is cheaper
    square: int = 4000  #: samples up to which Newton's steps on a square of samples pay for rows of duals
    slim: float = 0.8  #: columns for each sample from which sums of kernels are formed between samples
    set: int = 500  #: samples in a working set whose kernels must fit on demand
    loose: float = 1e-4  #: gap down to which single coordinates are asked for


SETTINGS = ChoiceSettings()


def choose(problem: Problem, tol: float = 1e-3, begun: bool = False) -> Solver:
    """Return the solver that is best for a problem and a gap; ``begun``: from the answer to a problem like it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties
    >>> from kernelweave.solvers.choose import choose
    >>> gram = DenseGram(np.eye(4)[:, :, None])
    >>> choose(Problem(gram, losses.Squared().bind([1.0, 2.0, 3.0, 4.0]), penalties.L1())).name
    'sqp'
    """
    _refuse_what_nothing_takes(problem)
    if problem.penalty.products:
        return FrankWolfe()
    if isinstance(problem.gram, BankGram):
        return ActiveNewton() if problem.n <= SETTINGS.long and _fits(ActiveNewton(), problem) else ActiveKernels()
    if isinstance(problem.gram, TensorGram):
        return NewtonCG() if problem.loss.smooth else Lagrangian()
    if isinstance(problem.gram, FactorGram):
        return _on_factors(problem, tol)
    return _on_kernels(problem, tol, begun)


def _refuse_what_nothing_takes(problem: Problem) -> None:
    """Say what is wrong with a problem that no solver takes, since another solver is no way out."""
    loss = problem.loss
    if problem.penalty.products and loss.several:
        raise ValueError(
            f"penalty {problem.penalty} weighs products of kernels for one decision value a sample, and {loss} has "
            "several: use multiclass='ovr', targets='each', or another penalty."
        )
    if problem.dual_sum and (loss.several or not loss.quadratic):
        raise ValueError(
            f"dual_sum={problem.dual_sum:g} is for losses of one quadratic dual a sample, such as OneClass, not for "
            f"{loss}: use dual_sum=0.0."
        )


def _on_kernels(problem: Problem, tol: float, begun: bool) -> Solver:
    loss = problem.loss
    if _is_linear(problem):
        return Direct()
    if loss.smooth and (loss.several or loss.terms is None):
        return NewtonCG()
    near = begun and not problem.penalty.steep and not (loss.terms is not None and loss.terms.kinked)
    if _is_hard(problem, SETTINGS.harder if near else SETTINGS.hard) and _fits(Features(), problem):
        return Features()
    if loss.several or not problem.bias or not loss.quadratic:
        return Ascent()
    if problem.gram.on_demand and largest_set(problem, tol) < _least_set(problem):
        return Proximal() if problem.penalty.on_simplex else SMO()
    return SQP()


def _is_linear(problem: Problem) -> bool:
    """Whether the duals solve linear equations of so few samples that these take no time."""
    if problem.gram.on_demand or problem.n > SETTINGS.square or not _fits(Direct(), problem):
        return False
    return not _is_hard(problem, SETTINGS.huge)


def _least_set(problem: Problem) -> int:
    """Return how many samples a working set must hold on demand: all, where most duals are free and weights jump."""
    if problem.penalty.on_simplex and np.any(problem.loss.box.ridge > 0):
        return problem.n
    return min(problem.n, SETTINGS.set)


def _on_factors(problem: Problem, tol: float) -> Solver:
    loss, host = problem.loss, factors(problem).host_features is not None
    if loss.smooth and (loss.several or loss.terms is None):
        return NewtonCG()
    if loss.several and not host:
        return Lagrangian()
    if host and loss.several:
        return _rows_or_table(problem)
    if host and not problem.bias:
        return _without_bias(problem, tol)
    if host and loss.quadratic and factors(problem).columns >= SETTINGS.slim * problem.n:
        return SQP()  # kernels between samples are the smaller side
    if problem.penalty.steep and not loss.several and problem.bias:
        return _with_steep_weights(problem, tol)
    if _is_smooth(loss):
        return Newton() if host or factors(problem).columns > SETTINGS.wide else NewtonCG()
    if not host or problem.dual_sum:
        return Lagrangian() if _is_long_basis(problem, tol) else Interior()
    return _with_corners(problem, tol)


def _is_long_basis(problem: Problem, tol: float) -> bool:
    """Whether kernels share a basis of so many samples that steps on those at corners are worth being more of them."""
    if factors(problem).basis.host_features is None or problem.dual_sum or problem.n <= SETTINGS.long:
        return False
    if tol < SETTINGS.loose or not problem.penalty.smooth or not _fits(Lagrangian(), problem):
        return False
    return not problem.loss.box.kinked and _heft(problem) <= SETTINGS.firm


def _without_bias(problem: Problem, tol: float) -> Solver:
    """Return what is best with a bias too where costs are large and features few, else rows of duals."""
    heft = _heft(problem)
    if heft <= SETTINGS.rough or factors(problem).columns >= problem.n:
        return _rows_or_table(problem)
    if heft > SETTINGS.huge:
        return NewtonCG() if _is_smooth(problem.loss) else _rows_or_table(problem)
    if problem.penalty.steep:
        return _with_steep_weights(problem, tol)
    return Newton() if _is_smooth(problem.loss) else _with_corners(problem, tol)


def _with_steep_weights(problem: Problem, tol: float) -> Solver:
    """Return Newton's method, on a loss with rounded corners if need be: an interior point runs after such weights."""
    if problem.loss.smooth:
        return NewtonCG()
    return Lagrangian() if _fits(Lagrangian(), problem) else _with_corners(problem, tol)


def _with_corners(problem: Problem, tol: float) -> Solver:
    """Return the best for losses without a curvature everywhere: single coordinates, interior point or corners."""
    n, columns, heft = problem.n, factors(problem).columns, _heft(problem)
    easy = heft <= SETTINGS.light and tol >= SETTINGS.loose and problem.penalty.smooth and n * columns >= SETTINGS.many
    if easy and _fits(Coordinate(), problem):
        return Coordinate()
    large = n > SETTINGS.long or columns > SETTINGS.wide or heft > SETTINGS.heavy
    return SsNAL() if large and _fits(SsNAL(), problem) else Interior()


def _is_smooth(loss: BoundLoss) -> bool:
    """Whether Newton's method has a curvature everywhere, of a loss with one decision value a sample."""
    return loss.smooth and not loss.several and (not loss.quadratic or not loss.box.bounded)


def _rows_or_table(problem: Problem) -> Solver:
    """Return single rows of duals for small costs, Newton's steps on a square of samples for large ones."""
    if problem.bias or (problem.loss.several and problem.loss.elementwise):
        return Ascent()
    if _heft(problem) <= SETTINGS.rough or problem.n > SETTINGS.square:
        return Coordinate() if problem.loss.quadratic else Rows()
    return Ascent()


def _is_hard(problem: Problem, hard: float) -> bool:
    """Whether errors cost far more than kernels are worth, where working sets may go on for ever."""
    n, loss = problem.n, problem.loss
    if n > SETTINGS.size or loss.several or loss.terms is None or not isinstance(problem.gram, CombinableGram):
        return False
    unit = 1.0 if loss.terms.entropic else unit_of(problem)
    size = float(np.mean(problem.gram.diagonal()))
    return float(loss.C.max()) * size > hard * unit


def _fits(solver: Solver, problem: Problem) -> bool:
    """Whether a solver takes a problem."""
    try:
        check_pair(problem, solver)
    except ValueError:
        return False
    return True


def _heft(problem: Problem) -> float:
    """Return the largest cost times the mean size of a kernel's entry of a sample, in units of the slopes."""
    gram = factors(problem)
    features, step = gram.host_features, max(1, problem.n // 1000)
    if isinstance(gram, BasisGram) and gram.basis.host_features is not None:
        counted = (np.arange(problem.n) % step == 0).astype(float)
        size = float(np.mean(gram.summed_diagonal(counted))) / float(counted.sum())
    elif features is None:
        return np.inf
    else:
        few = features[::step]
        size = float(np.sum(few.astype(float) ** 2)) / (few.shape[0] * gram.shape[1])
    unit = 1.0 if problem.loss.terms is None or problem.loss.terms.entropic else unit_of(problem)
    return float(problem.loss.C.max()) * size / unit
