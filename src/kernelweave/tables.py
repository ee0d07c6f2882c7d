"""Text for people: the short table of a fitted model, made from plain records."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "NO_GROUP",
    "Certificates",
    "Effect",
    "Effects",
    "fitted",
    "group_shares",
    "groups_by_weight",
    "kernels_by_weight",
    "shorten",
    "summary",
    "table",
]

NO_GROUP = "(no group)"  # what tables and plots call the kernels that are in none


class Certificates(list[Any]):
    """The certificates of several problems, a list; printed, a table with a line for each.

    Parameters
    ----------
    names : sequence of str
        The name of each problem.
    certificates : sequence of Certificate
        What is known of each.

    Examples
    --------
    >>> from kernelweave.problem import Certificate
    >>> from kernelweave.tables import Certificates
    >>> Certificates(["cat", "dog"], [Certificate(1.0, 1.25), Certificate(2.0, 2.0)])
    problem  lower bound  upper bound  relative gap
    cat                1         1.25      2.00e-01
    dog                2            2      0.00e+00
    """

    def __init__(self, names: Sequence[str], certificates: Sequence[Any]):
        super().__init__(certificates)
        self.names = list(names)

    @property
    def gap(self) -> float:
        """The largest relative duality gap of all."""
        return max(certificate.gap for certificate in self)

    def __str__(self) -> str:
        if len(self.names) != len(self) or not all(hasattr(one, "lower") for one in self):
            return "\n".join(f"{name}  {one}" for name, one in zip(self.names, self, strict=False))
        cells = [[f"{one.lower:.8g}", f"{one.upper:.8g}", f"{one.gap:.2e}"] for one in self]
        rows = [[shorten(name), *row] for name, row in zip(self.names, cells, strict=True)]
        return table(rows, ["problem", "lower bound", "upper bound", "relative gap"])

    __repr__ = __str__


def shorten(name: str, most: int = 48) -> str:
    """Cut a long name in the middle, where it says least.

    Examples
    --------
    >>> from kernelweave.tables import shorten
    >>> shorten("polynomial(degree=2) on 200 columns", 20)
    'polynomial(… columns'
    """
    if len(name) <= most:
        return name
    head = (most - 1) * 3 // 5
    return f"{name[:head]}\u2026{name[head + 1 - most :]}"


def fitted(rows: Sequence[Sequence[str]], header: Sequence[str], width: int) -> str:
    """Align rows of text in columns that are at most so wide together: the widest are broken into lines.

    Examples
    --------
    >>> from kernelweave.tables import fitted
    >>> print(fitted([["skm", "Bach, Lanckriet, Jordan"], ["silp", "Sonnenburg"]], ["name", "paper"], 22))
    name  paper
    skm   Bach, Lanckriet,
          Jordan
    silp  Sonnenburg
    """
    widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]
    room = width - 2 * (len(header) - 1)
    while sum(widths) > room and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in [header, *rows]:
        cells = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip())
    return "\n".join(lines)


class Effect(NamedTuple):
    """One part of a model, and how much of the variance of the decision values it explains.

    Examples
    --------
    >>> from kernelweave.tables import Effect
    >>> Effect("age", (0,), variance=2.0, share=0.4).share
    0.4
    """

    name: str
    columns: tuple[int, ...]
    variance: float  #: of what the part adds
    share: float  #: its covariance with the decision values, over their variance; shares of all parts sum to one


class Effects(list[Effect]):
    """The parts of a model by the variance they explain, largest first, a list; printed, a table.

    Parameters
    ----------
    names : sequence of str
        The name of each part.
    columns : sequence of tuples of int
        What each part looks at.
    values : array of shape (n, n_parts, n_outputs)
        What each part adds to the decision values of some samples; variances of several outputs are added up.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.tables import Effects
    >>> print(Effects(["age", "age : height"], [(0,), (0, 1)], np.array([[3.0, 1.0], [-3.0, -1.0]])[:, :, None]))
    part          variance   share
    age                  9  75.0 %
    age : height         1  25.0 %
    <BLANKLINE>
    single columns 75.0 %, pairs 25.0 %
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Any], values: np.ndarray):
        centred = values - values.mean(axis=0)
        together = centred.sum(axis=1, keepdims=True)
        variances = (centred**2).mean(axis=0).sum(axis=1)
        whole = float((together**2).mean(axis=0).sum())
        shares = (centred * together).mean(axis=0).sum(axis=1) / (whole if whole > 0 else 1.0)
        parts = zip(names, columns, variances.tolist(), shares.tolist(), strict=True)
        made = [Effect(name, tuple(some), variance, share) for name, some, variance, share in parts]
        super().__init__(sorted(made, key=lambda effect: -effect.variance))

    def share(self, degree: int) -> float:
        """Return the share of the variance that the parts of ``degree`` columns explain together."""
        return float(sum(effect.share for effect in self if len(effect.columns) == degree))

    def __str__(self) -> str:
        if not self:
            return "no part: the decision function is constant"
        rows = [[effect.name, f"{effect.variance:.3g}", f"{100 * effect.share:.1f} %"] for effect in self]
        known = {1: "single columns", 2: "pairs", 3: "triples"}
        degrees = sorted({len(effect.columns) for effect in self})
        foot = [f"{known.get(d, f'sets of {d} columns')} {100 * self.share(d):.1f} %" for d in degrees]
        return table(rows, ["part", "variance", "share"]) + "\n\n" + ", ".join(foot)


def table(rows: Sequence[Sequence[str]], header: Sequence[str], left: int = 1) -> str:
    """Align rows of text in columns.

    Parameters
    ----------
    rows : sequence of sequences of str
        The cells, one sequence for each line.
    header : sequence of str
        The titles of the columns.
    left : int, default=1
        How many of the first columns are aligned to the left; the others are aligned to the right.

    Returns
    -------
    str

    Examples
    --------
    >>> from kernelweave.tables import table
    >>> print(table([["linear", "0.75"], ["rbf", "0.25"]], ["kernel", "weight"]))
    kernel  weight
    linear    0.75
    rbf       0.25
    """
    widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(width) if j < left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def summary(
    *,
    title: str,
    names: Sequence[str],  # (m,)
    groups: Sequence[str | None] | None = None,  # (m,)
    weights: np.ndarray,  # (m,) or (n_problems, m)
    gap: float,
    tol: float,
    n_samples: int,
    n_support: int | None,
    n_iter: int,
    seconds: float,
    solver: str,
    storage: str,
    status: str,
    problems: Sequence[str] | None = None,  # (n_problems,)
    lost: np.ndarray | None = None,  # (m,)
    stationarity: float | None = None,
    lacking: Mapping[str, int] | None = None,
    advice: Sequence[str] = (),
    kinds: Sequence[str] = (),
    top: int = 10,
) -> str:
    """Write the short table of a fitted model.

    Parameters
    ----------
    title : str
        The first words, for example ``"MKLClassifier, l1 penalty, C=1"``.
    names : sequence of str
        The name of each kernel.
    groups : sequence of str or None, optional
        The group of each kernel; weights are added up by group if any kernel is in one.
    weights : array of shape (m,) or (n_problems, m)
        The weight of each kernel, for each problem when there are several.
    gap, tol : float
        The certified relative gap and the one that was asked for.
    n_samples, n_support : int
        Training samples, and those with a coefficient other than zero; None if they are not kept.
    n_iter : int
        Iterations, over all problems.
    seconds : float
        Time of the whole fit.
    solver, storage : str
        The solver's name, and how the kernels were stored, as phrases.
    status : str
        How the fit ended, as a sentence.
    problems : sequence of str, optional
        The name of each problem; needed only when there are several.
    lost : array of shape (m,), optional
        Share of each kernel that an approximation lost; the gap is then of the approximated kernels.
    stationarity : float, optional
        What a problem that is not convex has instead of a gap.
    lacking : mapping from str to int, optional
        How many samples lack each view.
    advice : sequence of str, optional
        What the owner of the model should know.
    kinds : sequence of str, optional
        What the effect of each column is, where the kernels are effects.
    top : int, default=10
        How many kernels to list.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.tables import summary
    >>> print(summary(title="MKLClassifier", names=["linear", "rbf"], weights=np.array([0.0, 1.0]),
    ...               gap=4e-4, tol=1e-3, n_samples=100, n_support=21, n_iter=7, seconds=0.12,
    ...               solver="proximal", storage="dense", status="The duality gap is within tol."))
    MKLClassifier: 100 samples, 1 of 2 kernels in use
    <BLANKLINE>
    kernel  weight    share
    rbf          1  100.0 %  ####################
    <BLANKLINE>
    relative gap     4.0e-04 (tol 1.0e-03)
    status           The duality gap is within tol.
    support vectors  21 of 100
    solver           proximal, 7 iterations, 0.12 s
    kernels stored   dense
    """
    weights = np.atleast_2d(np.asarray(weights, dtype=float))
    used = int(np.count_nonzero(weights.any(axis=0)))
    head = f"{title}: {n_samples} samples, {used} of {len(names)} kernels in use"
    whose = "" if lost is None else ", certified for the approximated kernels"
    judged = ("relative gap", "not known" if np.isnan(gap) else f"{gap:.1e} (tol {tol:.1e}){whose}")
    if stationarity is not None:
        judged = ("stationarity", f"{stationarity:.1e} (tol {tol:.1e}), no gap: the problem is not convex")
    facts = [
        judged,
        ("status", status),
        ("support vectors", "not kept" if n_support is None else f"{n_support} of {n_samples}"),
        ("solver", f"{solver}, {n_iter} iteration{'s' * (n_iter != 1)}, {_duration(seconds)}"),
        ("kernels stored", storage),
    ]
    if kinds:
        facts.append(("columns", _counted(kinds)))
    if lost is not None:
        worst = int(np.argmax(lost))
        share = f"{100 * lost[worst]:.2g} % of a kernel's trace"
        facts.append(("approximation", f"off by at most {share}, in {names[worst]}"))
    if lacking and any(lacking.values()):
        facts.append(("missing", ", ".join(f"{count} samples lack {name}" for name, count in lacking.items() if count)))
    facts += [("advice", sentence) for sentence in advice]
    if len(weights) > 1:
        facts.insert(0, ("problems", f"{len(weights)}, weights are means over them"))
    parts = [head, kernels_by_weight(names, weights, problems, top)]
    if groups is not None and any(group is not None for group in groups) and weights.any():
        parts.append(groups_by_weight(groups, weights, top))
    return "\n\n".join([*parts, "\n".join(f"{label:<15}  {fact}" for label, fact in facts)])


def group_shares(groups: Sequence[str | None], weights: np.ndarray) -> dict[str, float]:
    """Return what each group has of all weight, the largest share first.

    Parameters
    ----------
    groups : sequence of str or None
        The group of each kernel; kernels in none are taken together.
    weights : array of shape (m,) or (n_problems, m)
        The weight of each kernel; several problems are averaged, weights below zero count by their size.

    Returns
    -------
    dict from str to float

    Examples
    --------
    >>> from kernelweave.tables import group_shares
    >>> group_shares(["rna", "rna", "scan", None], [0.25, 0.125, 0.5, 0.125])
    {'scan': 0.5, 'rna': 0.375, '(no group)': 0.125}
    """
    size = np.abs(np.atleast_2d(np.asarray(weights, dtype=float))).mean(axis=0)
    labels = [NO_GROUP if group is None else group for group in groups]
    total = max(float(size.sum()), np.finfo(float).tiny)
    sums = {name: sum(size[k] for k, label in enumerate(labels) if label == name) for name in dict.fromkeys(labels)}
    return {name: float(sums[name] / total) for name in sorted(sums, key=lambda name: -sums[name])}


def groups_by_weight(groups: Sequence[str | None], weights: np.ndarray, top: int = 10) -> str:
    """List the groups of kernels by their share of all weight.

    Parameters
    ----------
    groups : sequence of str or None
        The group of each kernel.
    weights : array of shape (m,) or (n_problems, m)
        The weight of each kernel; several problems are averaged.
    top : int, default=10
        How many groups to list.

    Returns
    -------
    str

    Examples
    --------
    >>> from kernelweave.tables import groups_by_weight
    >>> print(groups_by_weight(["rna", "rna", "scan"], [0.25, 0.0, 0.75]))
    group  kernels   share
    scan    1 of 1  75.0 %  ####################
    rna     1 of 2  25.0 %  #######
    """
    used = np.count_nonzero(np.atleast_2d(np.asarray(weights, dtype=float)), axis=0).tolist()
    labels = [NO_GROUP if group is None else group for group in groups]
    shares = group_shares(groups, weights)
    shown = list(shares)[:top]
    live = [label for label, alive in zip(labels, used, strict=True) if alive]
    cells = [[shorten(name), f"{live.count(name)} of {labels.count(name)}", _percent(shares[name])] for name in shown]
    lines = _with_bars(table(cells, ["group", "kernels", "share"]), [shares[name] for name in shown])
    rest = list(shares.values())[top:]
    if rest:
        lines.append(f"and {len(rest)} more groups, {_percent(sum(rest))} together")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _with_bars(text: str, shares: Sequence[float]) -> list[str]:
    """Return the lines of a table with a bar for each share beside it, the first the longest; none for no share."""
    lines = text.split("\n")
    width = max(map(len, lines))
    bars = ["", *("#" * (max(1, round(20 * share / shares[0])) if share > 0 else 0) for share in shares)]
    return [f"{line:<{width}}  {bar}".rstrip() for line, bar in zip(lines, bars, strict=True)]


def kernels_by_weight(
    names: Sequence[str],  # (m,)
    weights: np.ndarray,  # (m,) or (n_problems, m)
    problems: Sequence[str] | None = None,
    top: int = 10,
) -> str:
    """List the kernels with weight, heaviest first; weights below zero count by their size.

    Parameters
    ----------
    names : sequence of str
        The name of each kernel.
    weights : array of shape (m,) or (n_problems, m)
        The weight of each kernel; several problems are averaged.
    problems : sequence of str, optional
        The name of each problem, when there are several.
    top : int, default=10
        How many kernels to list.

    Returns
    -------
    str

    Examples
    --------
    >>> from kernelweave.tables import kernels_by_weight
    >>> print(kernels_by_weight(["linear", "cosine", "rbf"], [0.0, 0.25, 0.75]))
    kernel  weight   share
    rbf       0.75  75.0 %  ####################
    cosine    0.25  25.0 %  #######
    """
    weights = np.atleast_2d(np.asarray(weights, dtype=float))
    mean, size = weights.mean(axis=0), np.abs(weights).mean(axis=0)
    order = [k for k in np.argsort(-size, kind="stable") if size[k] > 0]
    if not order:
        return "no kernel has any weight: the decision function is constant"
    shares = size / size.sum()
    header = ["kernel", "weight", "share"]
    rows = [[shorten(names[k]), f"{mean[k]:.3g}", _percent(shares[k])] for k in order[:top]]
    if len(weights) > 1:
        header += ["used by", "most in"]
        labels = problems if problems is not None else [str(j) for j in range(len(weights))]
        for row, k in zip(rows, order, strict=False):
            row += [str(np.count_nonzero(weights[:, k])), str(labels[int(np.abs(weights[:, k]).argmax())])]
    lines = _with_bars(table(rows, header), [shares[k] for k in order[:top]])
    rest = len(order) - top
    if rest > 0:
        lines.append(f"and {rest} more with weight, {_percent(shares[order[top:]].sum())} together")
    return "\n".join(lines)


def _counted(kinds: Sequence[str]) -> str:
    """Write how many columns have effects of each kind."""
    words = {"smooth": "smooth", "levels": "of few whole numbers", "category": "categories", "linear": "of two values"}
    return ", ".join(f"{kinds.count(kind)} {word}" for kind, word in words.items() if kind in kinds)


def _duration(seconds: float) -> str:
    """Write a time as a person would say it."""
    if seconds < 1:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min"
