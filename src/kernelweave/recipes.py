"""Papers by name: each is an ordinary estimator, configured."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import clone

from . import kernels as K
from . import tables
from .estimators import BoostedMKLClassifier, MKLClassifier, NonconvexMKLClassifier
from .grams import Nystroem
from .penalties import Lp, Mixed, SpectralNorm
from .solvers import Mirror
from .solvers.literature import MWU
from .weightings import Alignment, CentredAlignment, EasyMKL

QUADRATIC = ("hinge", "squared_hinge", "squared")
MARGIN = (*QUADRATIC, "logistic")
EXACT = "3e4, stored or on demand"
COMBINED = "5e3, stored"
ENTRIES = "1e4, stored or on demand"
PRODUCTS = f"{ENTRIES}; 1e5, features of low rank"
FEATURES = "1e6, features of low rank"

COLUMNS = ("name", "paper", "minimises", "convex", "sparse", "losses", "scales to", "estimator")
SHORT = ("name", "paper", "convex", "sparse", "scales to")  # where not all columns fit
PAGE = """# Methods by name

`kw.recipe(name, kernels, ...)` returns the estimator of the last column on these kernels; further parameters win over
its own.

- **minimises**: the problem, with `f_k` the part of the decision function in kernel k and `w` the weights, from zero on
  unless said. What stands after a semicolon is learned before the SVM. `A(., .)` is the cosine between two
  matrices, read as vectors.
- **convex**: whether an answer is the best there is; if so, its duality gap proves it.
- **sparse**: whether kernels that do not help get weight zero exactly.
- **losses**: what can be given as `loss=`, the recipe's own first.
- **scales to**: about how many samples, with ten kernels or so on one computer, and how the kernels are held.

This page is written by `kernelweave recipes --format markdown`.

"""


@dataclass(frozen=True)
class Recipe:
    """How a paper is asked for.

    Attributes
    ----------
    name, paper, minimises : str
        What `recipe` calls it, where it was published, and its primal objective.
    penalty, solver, loss, tol, approximation
        Parameters of the estimator; None leaves them at their defaults.
    sparse, convex : bool
        Whether kernels that do not help get weight zero exactly; whether an answer is the best there is.
    losses : tuple of str
        What the method can be asked for with.
    scales : str
        About how many samples it is for, and how kernels are held.
    kernels : as for `MKLClassifier`
        The bank if none is given.
    bank : callable, optional
        What is done to the bank first.
    settings : dict
        Further parameters of the estimator.
    estimator : type
        The estimator.
    """

    name: str
    paper: str
    minimises: str
    penalty: Any = None
    solver: Any = None
    loss: Any = "hinge"
    sparse: bool = False
    tol: float | None = None
    approximation: Any = None
    convex: bool = True
    losses: tuple[str, ...] = QUADRATIC
    scales: str = EXACT
    kernels: Any = "auto"
    bank: Callable[[Any], Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    estimator: type[MKLClassifier] = MKLClassifier

    def make(self, kernels: Any = None, **params: Any) -> MKLClassifier:
        """Return the estimator, not fitted; ``params`` win over the recipe's own."""
        kernels = self.kernels if kernels is None else kernels
        return self.estimator(self.bank(kernels) if self.bank else kernels, **(self._params() | params))

    def _params(self) -> dict[str, Any]:
        named = {"penalty": self.penalty, "solver": self.solver, "approximation": self.approximation}
        named |= {"loss": self.loss, "tol": self.tol}
        given = {name: value for name, value in named.items() if value is not None} | self.settings
        return {name: clone(value, safe=False) for name, value in given.items()}

    def row(self) -> dict[str, str]:
        """Return what the table says, by column."""
        convex, sparse = ("yes" if fact else "no" for fact in (self.convex, self.sparse))
        losses = ", ".join(sorted(self.losses, key=lambda loss: loss != self.loss))
        made = " ".join(repr(self.estimator(**self._params())).split())
        made = made.replace("(", "(kernels=[product of all], ", 1) if self.bank else made
        facts = [self.name, self.paper, self.minimises, convex, sparse, losses, self.scales, made]
        return dict(zip(COLUMNS, facts, strict=True))


class Recipes(dict[str, Recipe]):
    """Recipes by name; printed, a table."""

    def named(self, name: str) -> Recipe:
        """Return the recipe of this name, or say which name is meant."""
        if name not in self:
            near = get_close_matches(name.lower(), self, n=1) if isinstance(name, str) else []
            hint = f"use {near[0]!r}, or choose" if near else "choose"
            raise ValueError(f"recipe {name!r} is not known: {hint} one of {', '.join(self)}.")
        return self[name]

    def rows(self) -> list[dict[str, str]]:
        """Return the table, a dict for each line."""
        return [recipe.row() for recipe in self.values()]

    def markdown(self) -> str:
        """Return the page of the documentation."""
        lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
        for row in self.rows():
            name, paper, minimises, *facts, made = (text.replace("|", "\\|") for text in row.values())
            lines.append([f"`{name}`", paper, minimises, *facts, f"`{made}`"])
        return PAGE + "".join("| " + " | ".join(line) + " |\n" for line in lines)

    def text(self, width: int) -> str:
        """Return the table, so many characters wide; where not all columns fit, those that matter most."""
        rows = self.rows()
        whole = tables.table([list(row.values()) for row in rows], COLUMNS, left=len(COLUMNS))
        if len(whole.split("\n", 1)[0]) <= width:
            return whole
        return tables.fitted([[row[column] for column in SHORT] for row in rows], SHORT, width)

    def __repr__(self) -> str:
        return self.text(shutil.get_terminal_size().columns)

    __str__ = __repr__


def _multiplied(kernels: Any) -> list[K.Kernel]:
    """Return the product of all kernels of a bank."""
    if K.as_precomputed(kernels) is not None:
        raise ValueError(
            "recipe 'rbmkl-product' multiplies kernels of samples: multiply precomputed ones yourself, with "
            "X.prod(axis=2, keepdims=True), and use recipe 'svm-average'."
        )
    return [K.Product(tuple(K.as_kernels(kernels)))]


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
        scales=ENTRIES,
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
        losses=("squared_hinge", "hinge"),
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
        losses=("squared_hinge", "hinge"),
        scales="5e2, stored or on demand",
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
        scales=FEATURES,
    ),
    Recipe(
        name="ufo-mkl",
        paper="Orabona, Luo (ICML 2011)",
        minimises="1/2 |(|f_k|)_k|_p^2 + alpha sum_k |f_k| + C sum hinge of all classes, p = 1 + 1 / (2 ln m - 1)",
        penalty=Mixed(alpha=1.0),
        solver=Mirror(epochs=20),
        sparse=True,
        losses=("hinge", "logistic", "your own"),
        scales="1e4, stored or on demand; streams",
        settings={"multiclass": "joint", "fit_intercept": False},
    ),
    Recipe(
        name="obscure",
        paper="Orabona, Jie, Caputo (CVPR 2010), its objective by mirror descent",
        minimises="1/2 |(|f_k|)_k|_p^2 + C sum hinge of all classes, p = 1.01",
        penalty=Mixed(exponent=101.0),
        solver=Mirror(epochs=20),
        losses=("hinge", "logistic", "your own"),
        scales="1e4, stored or on demand; streams",
        settings={"multiclass": "joint", "fit_intercept": False},
    ),
    Recipe(
        name="nuc-mkl",
        paper="Meirom, Kisilev (AISTATS 2016)",
        minimises="1/2 sum_ab |f_ab|^2 / Z_ab + C sum hinge, |Z|_* <= 1",
        penalty="spectral",
        solver="frank-wolfe",
        loss="hinge",
        sparse=False,
        losses=MARGIN,
        scales=PRODUCTS,
    ),
    Recipe(
        name="nlmkl-p2",
        paper="Cortes, Mohri, Rostamizadeh (NIPS 2009)",
        minimises="1/2 sum_ab |f_ab|^2 / (u_a u_b) + C sum hinge, |u|_2 <= 1",
        penalty=SpectralNorm(linear_terms=False),
        solver="frank-wolfe",
        loss="hinge",
        sparse=False,
        losses=MARGIN,
        scales=PRODUCTS,
    ),
    Recipe(
        name="nlmkl-p1",
        paper="Cortes, Mohri, Rostamizadeh (NIPS 2009)",
        minimises="1/2 sum_ab |f_ab|^2 / (u_a u_b) + C sum hinge, sum u <= 1",
        sparse=True,
        convex=False,
        scales=COMBINED,
        settings={"model": "nlmkl-p1"},
        losses=MARGIN,
        estimator=NonconvexMKLClassifier,
    ),
    Recipe(
        name="gmkl",
        paper="Varma, Babu (ICML 2009)",
        minimises="1/2 |f|^2 + price sum_k d_k + C sum hinge, in the product of Gaussians exp(-d_k g_k |x - z|_k^2)",
        sparse=True,
        convex=False,
        scales=COMBINED,
        settings={"model": "gmkl"},
        losses=MARGIN,
        estimator=NonconvexMKLClassifier,
    ),
    Recipe(
        name="lmkl-softmax",
        paper="Gonen, Alpaydin (ICML 2008)",
        minimises="1/2 sum_k |f_k|^2 + C sum hinge, in eta_k(x) k(x, z) eta_k(z); eta: softmax of linear scores of x",
        convex=False,
        scales=COMBINED,
        settings={"model": "lmkl-softmax"},
        losses=MARGIN,
        estimator=NonconvexMKLClassifier,
    ),
    Recipe(
        name="lmkl-sigmoid",
        paper="Gonen, Alpaydin (ICML 2008)",
        minimises="1/2 sum_k |f_k|^2 + C sum hinge, in eta_k(x) k(x, z) eta_k(z); eta: sigmoids of linear scores of x",
        convex=False,
        scales=COMBINED,
        settings={"model": "lmkl-sigmoid"},
        losses=MARGIN,
        estimator=NonconvexMKLClassifier,
    ),
    Recipe(
        name="simplemkl",
        paper="Rakotomamonjy, Bach, Canu, Grandvalet (JMLR 2008)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge",
        penalty="l1",
        solver="simplemkl",
        sparse=True,
        scales=ENTRIES,
    ),
    Recipe(
        name="silp",
        paper="Sonnenburg, Raetsch, Schaefer, Schoelkopf (JMLR 2006)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge",
        penalty="l1",
        solver="silp",
        sparse=True,
        scales=ENTRIES,
    ),
    Recipe(
        name="level",
        paper="Xu, Jin, King, Lyu (NIPS 2008)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge",
        penalty="l1",
        solver="level",
        sparse=True,
        scales=ENTRIES,
    ),
    Recipe(
        name="glmkl",
        paper="Xu, Jin, Yang, King, Lyu (ICML 2010)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge; its update of the weights is that of lp-mkl at p = 1",
        sparse=True,
        penalty="l1",
        solver="alternating",
        scales=ENTRIES,
    ),
    Recipe(
        name="glmkl-p2",
        paper="Xu, Jin, Yang, King, Lyu (ICML 2010)",
        minimises="1/2 |(|f_k|)_k|_{4/3}^2 + C sum hinge; its update of the weights is that of lp-mkl at p = 2",
        penalty="lp",
        solver="alternating",
        scales=ENTRIES,
    ),
    Recipe(
        name="smo-mkl",
        paper="Vishwanathan, Sun, Theera-Ampornpunt, Varma (NIPS 2010)",
        minimises="1/2 sum_k |f_k|^2 / w_k + 1/2 |w|_p^2 + C sum hinge",
        penalty="squared-lp",
        solver="smo-mkl",
        scales=COMBINED,
    ),
    Recipe(
        name="spg-gmkl",
        paper="Jain, Vishwanathan, Varma (KDD 2012)",
        minimises="1/2 |(|f_k|)_k|_{2p/(p+1)}^2 + C sum hinge",
        penalty="lp",
        solver="spg",
        scales=ENTRIES,
    ),
    Recipe(
        name="mkl-qcqp",
        paper="Lanckriet, Cristianini, Bartlett, El Ghaoui, Jordan (JMLR 2004)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge",
        penalty="l1",
        solver="qcqp",
        sparse=True,
        scales="2e2, stored or on demand",
    ),
    Recipe(
        name="conv-mkl",
        paper="Cortes, Kloft, Mohri (NIPS 2013)",
        minimises="1/2 (sum_k |f_k|)^2 + C sum hinge, each kernel over the sum of its eigenvalues after the tenth",
        penalty="l1",
        sparse=True,
        settings={"normalize": "tail"},
        losses=MARGIN,
    ),
    Recipe(
        name="elastic-net-mkl",
        paper="Tomioka, Suzuki (NIPS workshop 2009)",
        minimises="c1 sum_k |f_k| + c2/2 sum_k |f_k|^2 + C sum hinge",
        penalty="elasticnet",
        sparse=True,
        losses=MARGIN,
    ),
    Recipe(
        name="svm-average",
        paper="Cortes, Vapnik (Machine Learning 1995)",
        minimises="m/2 sum_k |f_k|^2 + C sum hinge",
        penalty="uniform",
        losses=MARGIN,
    ),
    Recipe(
        name="svm-all",
        paper="Cortes, Vapnik (Machine Learning 1995)",
        minimises="1/2 sum_k |f_k|^2 + C sum hinge: features of all kernels side by side; one Gaussian by default",
        penalty=Lp(np.inf),
        kernels=K.RBF(),
        settings={"normalize": None},
        losses=MARGIN,
    ),
    Recipe(
        name="svm-best",
        paper="Cortes, Vapnik (Machine Learning 1995)",
        minimises="1/2 |f_k|^2 + C sum hinge; k: right most often in cross-validation",
        sparse=True,
        settings={"vote": "best"},
        estimator=BoostedMKLClassifier,
    ),
    Recipe(
        name="lp-beta",
        paper="Gehler, Nowozin (ICCV 2009)",
        minimises="1/2 |f_k|^2 + C sum hinge for each k; w: -rho + sum xi / (nu n), margins of sum w_k f_k, sum w = 1",
        sparse=True,
        settings={"vote": "lp-beta"},
        estimator=BoostedMKLClassifier,
    ),
    Recipe(
        name="lp-b",
        paper="Gehler, Nowozin (ICCV 2009)",
        minimises="1/2 |f_k|^2 + C sum hinge for each k; w: -rho + sum xi / (nu n), each class with w of its own",
        sparse=True,
        settings={"vote": "lp-b"},
        estimator=BoostedMKLClassifier,
    ),
    Recipe(
        name="rbmkl-mean",
        paper="Gonen, Alpaydin (JMLR 2011)",
        minimises="m/2 sum_k |f_k|^2 + C sum hinge",
        penalty="uniform",
        losses=MARGIN,
    ),
    Recipe(
        name="rbmkl-product",
        paper="Gonen, Alpaydin (JMLR 2011)",
        minimises="1/2 |f|^2 + C sum hinge, in the product of all kernels",
        penalty="uniform",
        bank=_multiplied,
        losses=MARGIN,
    ),
    Recipe(
        name="abmkl-ratio",
        paper="Qiu, Lane (TCBB 2009)",
        minimises="1/2 sum_k |f_k|^2 / w_k + C sum hinge; w_k: A(K_k, yy'), sum w = 1",
        penalty=Alignment("ratio"),
        scales=ENTRIES,
        losses=MARGIN,
    ),
    Recipe(
        name="abmkl-conic",
        paper="Lanckriet et al. (JMLR 2004)",
        minimises="1/2 sum_k |f_k|^2 / w_k + C sum hinge; w: most A(K_w, yy'), sum w = 1",
        penalty=Alignment("conic"),
        sparse=True,
        scales=ENTRIES,
        losses=MARGIN,
    ),
    Recipe(
        name="abmkl-convex",
        paper="He, Chang, Xie (CVPR 2008)",
        minimises="1/2 sum_k |f_k|^2 / w_k + C sum hinge; w: least |K_w - yy'|, sum w = 1",
        penalty=Alignment("convex"),
        sparse=True,
        scales=ENTRIES,
        losses=MARGIN,
    ),
    Recipe(
        name="cabmkl-linear",
        paper="Cortes, Mohri, Rostamizadeh (ICML 2010)",
        minimises="1/2 |f|^2 + C sum hinge, in the positive part of K_w; w: most A(K_w, yy') centred, of any sign",
        penalty=CentredAlignment("linear"),
        scales=COMBINED,
        settings={"normalize": "center", "psd": "clip"},
        losses=MARGIN,
    ),
    Recipe(
        name="cabmkl-conic",
        paper="Cortes, Mohri, Rostamizadeh (ICML 2010)",
        minimises="1/2 sum_k |f_k|^2 / w_k + C sum hinge; w: most A(K_w, yy') centred, |w| = 1",
        penalty=CentredAlignment("conic"),
        sparse=True,
        scales=ENTRIES,
        settings={"normalize": "center"},
        losses=MARGIN,
    ),
    Recipe(
        name="easymkl",
        paper="Aiolli, Donini (Neurocomputing 2015)",
        minimises="1/2 sum_k |f_k|^2 / w_k + C sum hinge; w_k: g'YK_kYg, sum w = 1, g: (1 - lam) g'YKYg + lam g'g",
        penalty=EasyMKL(),
        losses=MARGIN,
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
    >>> table = kw.recipes()
    >>> "skm" in table, table["easymkl"].sparse
    (True, False)
    """
    return Recipes((entry.name, entry) for entry in _RECIPES)


def recipe(name: str, kernels: Any = None, **params: Any) -> MKLClassifier:
    """Return the estimator of a paper.

    Parameters
    ----------
    name : str
        A name from `recipes`.
    kernels : as for `MKLClassifier`, optional
        The bank; by default "auto", or the recipe's own.
    **params
        Further parameters of the estimator; they win over the recipe's own.

    Returns
    -------
    MKLClassifier, or what the recipe's line in the table says
        Not fitted.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.recipe("svm-average", C=10)
    MKLClassifier(C=10, penalty='uniform')
    """
    return recipes().named(name).make(kernels, **params)
