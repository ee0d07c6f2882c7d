"""Effects of columns and pairs of columns at the door, as a bank of kernels that are never listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, cast, like, namespace, readable
from ..grams import EffectsGram, GramStack
from ..grams.effects import ColumnSets, mean_diagonals
from ..grams.maps import pieces
from ..kernels import Effect, Effects, as_kernels
from ..kernels.base import known_features
from .base import Assembly
from .expansion import finite
from .factors import empty_like
from .memory import allowed_features
from .parameters import Options
from .targets import Targets


def unlisted(kernels: Any) -> Effects | None:
    """Return the effects that a bank consists of, if it is one of columns and pairs and nothing else."""
    asked = as_kernels(kernels)
    spec = asked[0]
    if len(asked) == 1 and isinstance(spec, Effects) and spec.degree == 2 and spec.include is None:
        return spec
    return None


class EffectNames(Sequence[str]):
    """The names of a bank's kernels, made when asked for."""

    def __init__(self, titles: Sequence[str]):
        self.titles, self.sets = list(titles), ColumnSets(range(len(titles)))

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        return " * ".join(self.titles[j] for j in self.sets[k])


class EffectGroups(Sequence[str | None]):
    """The groups of a bank's kernels: those of the columns, and one for all pairs."""

    def __init__(self, singles: Sequence[str | None], pairs: str | None, size: int):
        self.singles, self.pairs, self.size = list(singles), pairs, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(self.size))]
        if not -self.size <= k < self.size:
            raise IndexError(k)
        return self.singles[k % self.size] if k % self.size < len(self.singles) else self.pairs


@dataclass(frozen=True)
class EffectsAssembly(Assembly):
    """The effects of columns and of pairs of columns on the training samples, as features of the single columns."""

    gram: EffectsGram
    effects: list[Effect]  # of single columns
    like: Array  # an empty array where the samples are

    @property
    def singles(self) -> list[Effect]:
        return self.effects

    @property
    def columns(self) -> ColumnSets:
        return ColumnSets([effect.on[0] for effect in self.effects])

    @property
    def storage(self) -> str:
        n, width = self.gram.shape[0], sum(part.shape[1] for part in self.gram.parts)
        size = n * width * self.gram.parts[0].dtype.itemsize
        return f"{width} functions of {len(self.singles)} columns, {readable(size)}, products when needed"

    def check_energies(self, gram: GramStack, beta: Array) -> None:
        """Features are positive semidefinite by construction: there is nothing to refuse."""

    def predictor(self, targets: Targets, weights: np.ndarray, coef: Array, intercept: np.ndarray) -> EffectsExpansion:
        xp = namespace(coef)
        active = np.flatnonzero(weights.any(axis=0))
        forms = []
        for k, V in zip(active.tolist(), self.gram.features(active), strict=True):
            sums = xp.matrix_transpose(cast(V, coef.dtype)) @ xp.matrix_transpose(coef)  # (r, n_outputs)
            forms.append(sums * like(coef, self.scales[k] * weights[:, k])[None, :])
        places = self.gram.sets.places(active)
        shape = (targets.n_rows, len(self.names))
        constant, pair_rank = like(coef, intercept), self.gram.pair_rank
        return EffectsExpansion(self.singles, places, active, forms, constant, self.like, shape, pair_rank)


@dataclass(frozen=True)
class EffectsExpansion:
    """What prediction needs: the functions of single columns, and the coefficients of them or of their products."""

    singles: list[Effect]
    places: list[tuple[int, ...]]  # of each kernel with weight, among the columns
    active: np.ndarray  # (a,) positions among all kernels
    forms: list[Array]  # (r_j, n_outputs) or (r_i r_j, n_outputs) of each kernel with weight
    intercept: Array  # (n_outputs,)
    like: Array  # of the library, device and precision that new samples must have
    shape: tuple[int, int]
    pair_rank: int | None  # functions of a column that take part in pairs
    degree: ClassVar[int] = 1

    def decide(self, X: Any) -> Array:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return self.shares(X, np.zeros(self.shape[1], dtype=int), 1)[:, 0, :] + self.intercept

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> Array:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        xp = namespace(self.intercept)
        widest = max((form.shape[0] for form in self.forms), default=1)
        blocks = [self._some(piece, owner, parts) for _, piece in pieces(X, max(widest, parts))]
        return finite(xp.concat(blocks, axis=0))

    def _some(self, X: Any, owner: np.ndarray, parts: int) -> Array:
        kind = self.intercept.dtype
        used = sorted({j for places in self.places for j in places})
        known = {j: cast(known_features(self.singles[j], X), kind) for j in used}
        out = like(self.intercept, np.zeros((X.shape[0], parts, self.intercept.shape[0])))
        for k, places, form in zip(self.active.tolist(), self.places, self.forms, strict=True):
            part, V = int(owner[k]), known[places[0]]
            if len(places) == 1:
                values = V @ form
            else:
                U, V = (known[j][:, : self.pair_rank] for j in places)
                values = _bilinear(U, V, form)
            out[:, part, :] = out[:, part, :] + values
        return out


def _bilinear(U: Array, V: Array, form: Array) -> Array:  # (n, a), (n, b), (a b, c) -> (n, c)
    """Return the sums of products of each two columns, without forming these."""
    xp = namespace(U)
    sums = U @ xp.reshape(form, (U.shape[1], V.shape[1] * form.shape[1]))  # (n, b c)
    return xp.sum(xp.reshape(sums, (U.shape[0], V.shape[1], form.shape[1])) * V[:, :, None], axis=1)


def from_effects(
    X: Any,  # (n, d)
    spec: Effects,
    options: Options,
    *,
    weight: Array,  # (n,)
    names: Sequence[str] | None = None,  # (d,)
    frame: Any = None,
    views: Any = None,
) -> EffectsAssembly:
    """Compute the functions of single columns, from which the kernels of all pairs follow.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked samples, of any library.
    spec : Effects
        The bank.
    options : Options
        Scaling and memory.
    weight : array of shape (n,)
        Weight of each sample in statistics of the data, where the samples are.
    names : sequence of str, optional
        Names of the columns.
    frame : DataFrame, optional
        What the user passed.
    views : mapping from str to tuple of int, optional
        The columns of each view of X.

    Returns
    -------
    EffectsAssembly

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import Options
    >>> from kernelweave.assemble.effects import from_effects
    >>> from kernelweave.kernels import Effects
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> made = from_effects(X, Effects(), Options(), weight=np.ones(50))
    >>> made.gram.shape, made.names[5]
    ((50, 10), 'smooth on column 0 * smooth on column 2')
    """
    singles = spec.singles(X, names, frame, weight, views)
    _check_room(X, singles, options)
    features = [known_features(effect, X) for effect in singles]
    share = weight / namespace(weight).sum(weight)
    d = len(singles)
    gram = EffectsGram(features, pair_rank=spec.pair_rank)
    if options.normalize is not None:
        gram.scale = 1.0 / np.maximum(mean_diagonals(gram, share), 1e-150)
    gram.scale[d:] /= spec.price
    labels = EffectNames([effect.name for effect in singles])
    kept, groups = np.arange(len(labels)), EffectGroups([one.group for one in singles], spec.group, len(labels))
    return EffectsAssembly(gram, labels, groups, kept, gram.scale, None, singles, empty_like(X))


def _check_room(X: Any, singles: Sequence[Effect], options: Options) -> None:
    """Refuse features that would not fit, before they are computed."""
    if not singles:
        raise ValueError("Effects has no column left to look at: every one of them is constant.")
    need = X.shape[0] * sum(effect.basis.rank for effect in singles) * X.dtype.itemsize
    allowed = allowed_features(X, options.memory)
    if need > allowed:
        raise ValueError(
            f"The functions of single columns would take {readable(need)}, but memory= allows {readable(allowed)}: use "
            "a smaller rank in K.effects(), fewer columns, or a larger memory= in bytes."
        )
