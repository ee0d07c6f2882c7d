"""Papers by name: each is a penalty, a solver and a loss, so an ordinary estimator, configured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from . import report
from .assemble import described
from .estimators import MKLClassifier
from .grams import Nystroem
from .penalties import SpectralNorm
from .solvers import MWU


@dataclass(frozen=True)
class Recipe:
    """How a paper is asked for.

    Attributes
    ----------
    name, paper, minimises : str
        What `recipe` calls it, where it was published, and its primal objective.
    penalty, solver, loss : str or instance
        Parameters of the estimator.
    sparse : bool
        Whether kernels that do not help get weight zero exactly.
    tol : float
        Relative gap the method is meant for.
    approximation : Approximation or None
        How kernels are replaced by features of low rank, if they are.
    """

    name: str
    paper: str
    minimises: str
    penalty: Any
    solver: Any
    loss: Any
    sparse: bool
    tol: float = 1e-3
    approximation: Any = None


class Recipes(dict[str, Recipe]):
    """Recipes by name; printed, a table."""

    def __repr__(self) -> str:
        rows = [
            [r.name, r.paper, r.minimises, *(str(part) for part in (r.penalty, r.solver, r.loss)),
             "yes" if r.sparse else "no", "exact" if r.approximation is None else described(r.approximation)]
            for r in self.values()
        ]  # fmt: skip
        header = ["name", "paper", "minimises", "penalty", "solver", "loss", "sparse", "kernels"]
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
        name="mwu-mkl",
        paper="Moeller, Raman, Saha, Venkatasubramanian",
        minimises="1/2 (sum_k |f_k|)^2 + C/2 sum hinge^2",
        penalty="l1",
        solver="mwu",
        loss="squared_hinge",
        sparse=True,
        tol=1e-2,
    ),
    Recipe(
        name="mwu-mkl-paper",
        paper="Moeller, Raman, Saha, Venkatasubramanian",
        minimises="1/2 (sum_k |f_k|)^2 + C/2 sum hinge^2",
        penalty="l1",
        solver=MWU(steps="paper"),
        loss="squared_hinge",
        sparse=False,
        tol=1e-1,
    ),
    Recipe(
        name="low-rank-lp-mkl",
        paper="Rakotomamonjy, Chanda (Neurocomputing 2014)",
        minimises="1/2 |(|f_k|)_k|_{2p/(p+1)}^2 + C sum hinge",
        penalty="lp",
        solver="gfb",
        loss="hinge",
        sparse=False,
        approximation=Nystroem(rank=100),
    ),
    Recipe(
        name="nuc-mkl",
        paper="Meirom, Kisilev (AISTATS 2016)",
        minimises="1/2 sum_ab |f_ab|^2 / Z_ab + C sum hinge, |Z|_* <= 1",
        penalty="spectral",
        solver="frank-wolfe",
        loss="hinge",
        sparse=False,
    ),
    Recipe(
        name="nlmkl-p2",
        paper="Cortes, Mohri, Rostamizadeh (NIPS 2009)",
        minimises="1/2 sum_ab |f_ab|^2 / (u_a u_b) + C sum hinge, |u|_2 <= 1",
        penalty=SpectralNorm(linear_terms=False),
        solver="frank-wolfe",
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
    ['skm', 'lp-mkl', 'mwu-mkl', 'mwu-mkl-paper', 'low-rank-lp-mkl', 'nuc-mkl', 'nlmkl-p2', 'svm-average']
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
    configured = {
        "penalty": clone(entry.penalty, safe=False),
        "solver": clone(entry.solver, safe=False),
        "approximation": clone(entry.approximation, safe=False),
        "loss": entry.loss,
        "tol": entry.tol,
    }
    return MKLClassifier(kernels, **(configured | params))
