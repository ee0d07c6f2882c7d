"""The default solver's constants, and the records that its rounds and steps work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..grams import CachedGram
from ..losses.base import DualTerms
from ..penalties.base import MixingPenalty


@dataclass(frozen=True)
class SQPSettings:
    """Constants of the default solver; margins are in units of the slopes, goals are shares of the objective."""

    first: int = 600  #: samples of the first working set
    few: tuple[int, int] = (150, 300)  #: least and most of them where there are many kernels
    third: float = 0.3  #: share of all samples that they are between these
    every: tuple[int, int] = (450, 350)  #: samples up to which it is all of them: for l1, for other penalties
    every_stored: tuple[int, int] = (900, 1024)  #: the same for stored kernels of which there are not many
    many: int = 64  #: kernels from which only those in play are followed between rounds
    grow: float = 2.5  #: most samples in the next set, per support vector
    leap: float = 6.0  #: the same on demand, where rounds cost more than samples
    spread: float = 1.2  #: the same per free support vector
    extra: int = 50  #: and besides
    nearly: float = 0.6  #: share of all samples from which the set is all of them
    margin: float = 0.05  #: distance from violation at which a sample counts as settled
    wide: float = 0.3  #: the same where a round has changed nothing
    start: float = 0.02  #: share of the dual value that the first round works towards
    rough_start: float = 0.3  #: the same for many kernels, most of which the next round leaves out
    part: float = 0.05  #: share of the gap that the others work towards
    spare: float = 0.8  #: share of the tolerance that is always enough
    near: float = 0.03  #: share of the largest energy below it within which a kernel stays in play, at least
    far: float = 0.5  #: and at most; between these it is the gap
    far_on_demand: float = 0.2  #: the same on demand
    slight: float = 0.05  #: share of the gap below which a kernel's share counts for nothing, on demand
    stored: float = 0.3  #: the same share for the kernels that the block holds
    progress: float = 0.7  #: of the distance of the bounds: a round that leaves more has not helped
    behind: float = 0.1  #: share of the gap due to the weights at which a proximal stage is left for the next
    settled: float = 10.0  #: the weights' gap, in gains of the last step, at which it is left too
    first_strength: float = 2.0  #: of the first proximal stage
    growth: float = 3.0  #: of the proximal step from stage to stage
    bolder: float = 3.0  #: the same for gaps below `fine`
    pull: float = 30.0  #: strength of a proximal step that every round may begin with
    pace: float = 10.0  #: over the gap: the strength it may begin with where that is more
    strongest: float = 3e3  #: most strength of a proximal step
    sharpest: float = 3e3  #: the same for gaps below `fine`: beyond it Newton's steps drown in rounding
    fine: float = 1e-5  #: gap below which the block is in double precision
    trim: float = 1e-2  #: times tol: share below which a kernel gets weight zero
    nothing: float = 1e-8  #: share below which it does in the end, whatever the tolerance
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    faint: float = 1e-5  #: share of the largest curvature that is not followed
    stale: float = 0.05  #: relative change of the weights up to which rows of the combined kernel are kept
    least_goal: float = 1e-15  #: share of the objective below which floating point has no more to give
    dust: float = 1e-14  #: share of the largest dual that counts as none
    newton: int = 50  #: most Newton steps in a round
    models: int = 8  #: most quadratic programmes in a Newton step
    model: float = 0.3  #: share of the violation to which a Newton step's model is solved
    astray: float = 2.0  #: times the violation: a model in which it grows beyond that is left
    poor: float = 1e-3  #: step within a model below which it is left
    rough: float = 0.1  #: share of its violation to which a quadratic programme is solved
    alone: float = 0.03  #: the same where it is the problem itself, weights being fixed
    inner: float = 0.01  #: share of the violation below which neither need go
    inner_goal: float = 0.1  #: share of the round's goal below which neither need go
    budget: int = 12  #: pair steps in one quadratic programme, per sample
    turn: int = 3  #: pair steps, per sample, between two Newton steps on the free duals
    quick: int = 5000  #: pair steps that are always quicker than one of these
    jitter: float = 1e-10  #: ridge of these, as a share of the mean diagonal; in single precision the root of it
    halvings: int = 8  #: of such a step that does not lower the objective
    near_step: float = 1e-2  #: relative error of a step within a model
    close_step: float = 1e-6  #: the same of a Newton step
    trials: int = 40  #: of either
    rounding: float = 1e-13  #: relative error of a slope: a fall that cannot be told from none is taken
    golden: int = 12  #: trials of the primal's scale
    share: float = 0.12  #: of the stored kernels' bytes that the block may take
    least: int = 2**25  #: bytes that it always may
    kept: int = 2**27  #: bytes of rows that are kept for the next problem on the same kernels, at most
    tables: float = 0.5  #: share of the memory that the combined kernel may take on demand; columns have the rest
    few_rows: int = 100  #: samples whose combined kernel is always allowed
    batch: int = 128  #: rows computed at a time on demand

    def first_goal(self, kernels: int) -> float:
        """Return the share of the dual value that the first round works towards."""
        return self.rough_start if kernels > self.many else self.start


SETTINGS = SQPSettings()
EMPTY = np.empty((0, 0, 0))


@dataclass
class Block:
    """Kernels between the samples of a working set, rows filled when first touched.

    Kernels on demand have columns of their own among these samples. Where entries cannot be read one by one, there are
    none, and sums of kernels are formed whole.
    """

    samples: np.ndarray  # (u,)
    kernels: np.ndarray  # (b,) those held
    entries: np.ndarray  # (rows, room, b) without their scales
    slot: np.ndarray  # (room,) row of each sample, -1 where it has none
    count: np.ndarray  # (1,) rows that are filled
    held: bool = False
    stack: np.ndarray = field(default_factory=lambda: EMPTY)  # the stored kernels
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))  # (b,)
    columns: CachedGram | None = None  # of the samples and kernels, computed when asked for

    @property
    def whole(self) -> bool:
        """Whether sums of kernels are formed whole."""
        return not self.held and self.columns is None


@dataclass
class Local:
    """What a round works on: some samples and kernels, their duals and products.

    ``penalty`` is fixed weights at first, where a round begins as an ordinary support vector machine.
    """

    kernels: np.ndarray  # (a,)
    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (u,)
    g: np.ndarray  # (u, a)
    q: np.ndarray  # (a,)
    diagonal: np.ndarray  # (u, a)
    place: np.ndarray  # (a,) where the block has the kernels
    combined: np.ndarray  # (u, u) rows of the kernel at `weights`
    formed: np.ndarray  # (u,) those that are there
    row: np.ndarray  # (u,) row of each sample in it, -1 where it has none
    made: np.ndarray  # (1,) rows that are given
    weights: np.ndarray | None = None  # (a,)
    image: np.ndarray | None = None  # (u,) the combined kernel times the last step, where one programme was all of it
    steps: int = 0

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Return the slope of the objective at the round's duals, without kinks."""
        return self.g @ weights + self.box.ridge * self.beta - self.box.linear


@dataclass
class SQPState:
    """Duals with ``g[i, k] = (K_k beta)_i`` of the kernels ``known``, and ``q`` of all; the round under way."""

    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    known: np.ndarray  # (m,) whether g is kept up to date
    weights: np.ndarray  # (m,)
    diagonal: np.ndarray  # (n, m)
    tol: float
    dtype: Any  # precision of the block
    unit: float  # size of the slopes
    lower: float = -np.inf
    upper: float = np.inf
    goal: float = np.inf  # objective accuracy the round works towards
    still: bool = False  # whether the last round changed nothing
    judge: bool = False  # whether to be judged before anything else
    helped: bool = True  # whether the last round narrowed the bounds
    wary: bool = False  # whether the last round was misled by the kernels it left out
    buffer: np.ndarray = field(default_factory=lambda: np.empty(0))  # of the block's entries
    table: np.ndarray = field(default_factory=lambda: np.empty(0))  # of the combined kernel's rows
    block: Block = field(init=False)
    local: Local = field(init=False)


def precision(penalty: MixingPenalty, tol: float) -> Any:
    """Return the precision of blocks: single is beyond fine tolerances and weights that grow with the energies."""
    return np.float64 if penalty.steep or tol < SETTINGS.fine else np.float32
