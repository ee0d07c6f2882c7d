"""Two views that must agree: where sums of kernels fail and products succeed.

A door opens when the face and the voice belong to the same person, whoever that is: face is Ann *and* voice is Ann,
or face is Ben *and* voice is Ben, and so on. A sum of kernels on the face and kernels on the voice is a function of the
face plus a function of the voice, and no such function can tell these cases from the others. A product of two kernels
is close to one only where both are, which is the *and* that is needed.

Run it with ``python examples/and_of_two_views.py [pairs.png]``; the picture of the pairs needs matplotlib.
"""

from __future__ import annotations

import sys

import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

PEOPLE = 4
VIEWS = {"face": [0, 1, 2], "voice": [3, 4, 5], "gait": [6, 7, 8]}  # the gait is drawn at random: it tells nothing


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of three views, and whether face and voice are of one person."""
    rng = np.random.default_rng(seed)
    looks = np.random.default_rng(0).normal(scale=2.0, size=(len(VIEWS), PEOPLE, 3))  # the same for every draw
    face, gait = rng.integers(PEOPLE, size=(2, n))
    same = rng.random(n) < 0.5
    voice = np.where(same, face, (face + rng.integers(1, PEOPLE, size=n)) % PEOPLE)
    X = np.hstack([looks[view, who] for view, who in enumerate([face, voice, gait])])
    return X + rng.normal(scale=0.7, size=X.shape), np.where(same, "open", "shut")


def main(picture: str | None = None) -> dict[str, float]:
    """Fit sums and products of the same kernels, print how well they do, and draw the pairs if a file is named."""
    X, y = draw(400, seed=1)
    new, truth = draw(2000, seed=2)
    bank = [K.RBF(gamma=gamma, on=columns) for columns in VIEWS.values() for gamma in (0.02, 0.1)]
    names = [f"{view}, {width}" for view in VIEWS for width in ("wide", "narrow")] + ["unity"]
    models = {
        "sum, few kernels (skm)": kw.recipe("skm", bank, C=1),
        "sum, all kernels (lp-mkl)": kw.recipe("lp-mkl", bank, C=1),
        "products (nuc-mkl)": kw.recipe("nuc-mkl", bank, C=1),
    }
    accuracy = {}
    for name, model in models.items():
        accuracy[name] = model.fit(X, y).score(new, truth)
        print(f"{name:27s} {100 * accuracy[name]:5.1f} % right on new samples, relative gap {model.dual_gap_:.0e}")
    products = models["products (nuc-mkl)"]
    print("\nweights of products of two kernels, in percent of the sum of all")
    shares = 100 * products.pair_weights_ / products.pair_weights_.sum()
    for name, row in zip(names, shares, strict=True):
        print(f"{name:14s}" + "".join(f"{share:6.1f}" for share in row))
    if picture is not None:
        kw.plot.pairs(products, names=names, ax=kw.plot.canvas(6, 5)).figure.savefig(picture)
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:2])
