"""Papers by name: each is a penalty, a solver and a loss, so an ordinary estimator, configured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import report
from .estimators import MKLClassifier


@dataclass(frozen=True)
class Recipe:
    """How a paper is asked for.

    Attributes
    ----------
    name, paper, minimises : str
        What `recipe` calls it, where it was published, and its primal objective.
    penalty, solver, loss : str
        Parameters of the estimator.
    sparse : bool
        Whether kernels that do not help get weight zero exactly.
    """

    name: str
    paper: str
    minimises: str
    penalty: str
    solver: str
    loss: str
    sparse: bool


class Recipes(dict[str, Recipe]):
    """Recipes by name; printed, a table."""

    def __repr__(self) -> str:
        rows = [
            [r.name, r.paper, r.minimises, r.penalty, r.solver, r.loss, "yes" if r.sparse else "no"]
            for r in self.values()
        ]
        header = ["name", "paper", "minimises", "penalty", "solver", "loss", "sparse"]
        return report.table(rows, header, left=len(header))

    __str__ = __repr__


_RECIPES = [
    Recipe(
        name="skm",
        paper="Bach, Lanckriet, Jordan (ICML 2004)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge",
        penalty="l1",
        solver="skm",
        loss="hinge",
        sparse=True,
    ),
    Recipe(
        name="lp-mkl",
        paper="Kloft, Brefeld, Sonnenburg, Zien (JMLR 2011)",
        minimises="1/2 |(|f_k|)_k|_{2p/(p+1)}^2 + C sum hinge",
        penalty="lp",
        solver="alternating",
        loss="hinge",
        sparse=False,
    ),
    Recipe(
        name="svm-average",
        paper="Cortes, Vapnik (Machine Learning 1995)",
        minimises="m/2 sum_k |f_k|^2 + C sum hinge",
        penalty="uniform",
        solver="auto",
        loss="hinge",
        sparse=False,
    ),
]


def recipes() -> Recipes:
    """Return the table of papers that can be asked for by name.

    Returns
    -------
    Recipes
        A dict of records that prints as a table.

    Examples
    --------
    >>> import kernelweave as kw
    >>> list(kw.recipes())
    ['skm', 'lp-mkl', 'svm-average']
    """
    return Recipes((entry.name, entry) for entry in _RECIPES)


def recipe(name: str, kernels: Any = "auto", **params: Any) -> MKLClassifier:
    """Return the estimator of a paper.

    Parameters
    ----------
    name : str
        A name from `recipes`.
    kernels : as for `MKLClassifier`, default="auto"
        The bank.
    **params
        Further parameters of `MKLClassifier`; they win over the recipe's own.

    Returns
    -------
    MKLClassifier
        Not fitted.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.recipe("svm-average", C=10)
    MKLClassifier(C=10, penalty='uniform')
    """
    table = recipes()
    if name not in table:
        raise ValueError(f"recipe {name!r} is not known: choose one of {', '.join(table)}.")
    entry = table[name]
    configured = {"penalty": entry.penalty, "solver": entry.solver, "loss": entry.loss}
    return MKLClassifier(kernels, **(configured | params))
