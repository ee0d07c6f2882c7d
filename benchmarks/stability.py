"""Stability selection: false selections beside their bound, and what 50 halves of the samples cost.

Part a. Synthetic data, --repeats times: 200 samples, 20 columns, of which three matter; one Gaussian on each column,
l1. A kernel of any other column that is selected (in three quarters of 50 halves) is a false selection; the bound is
what `kw.stability` states.

Part b. CPU seconds of 50 halves beside one fit to all samples, which includes computing the kernels, as a choice would;
the best of three each.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

import kernelweave as kw
from common import markdown, number, options, save, save_markdown
from kernelweave import kernels as K

MATTER = 3
COSTS = (0.1, 0.3, 1.0)


def made(n: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples and labels that three columns decide, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    score = 1.5 * np.sin(X[:, 0]) + X[:, 1] - (X[:, 2] ** 2 - 1.0) + 0.5 * rng.normal(size=n)
    return X, np.where(score > np.median(score), 1, -1)


def counted(C: float, repeats: int) -> dict:
    """Mean false and true selections, and the mean bound."""
    false, true, bounds = [], [], []
    for seed in range(repeats):
        X, y = made(200, 20, seed)
        found = kw.stability(kw.MKLClassifier(K.rbf(gamma=0.3, on="each"), C=C), X, y, random_state=seed)
        true.append(found.selected[:MATTER].sum())
        false.append(found.selected[MATTER:].sum())
        bounds.append(found.bound)
    return {"C": C, "repeats": repeats, "false": float(np.mean(false)), "most": int(np.max(false)),
            "bound": float(np.mean(bounds)), "true": float(np.mean(true))}  # fmt: skip


def cost(n: int, C: float) -> dict:
    """CPU seconds of a fit and of 50 halves."""
    X, y = made(n, 20, 0)
    model = kw.MKLClassifier(K.rbf(gamma=0.3, on="each"), C=C)
    one, all_of = least(lambda: model.fit(X, y)), least(lambda: kw.stability(model, X, y, random_state=0))
    return {"n": n, "C": C, "fit": one, "halves": all_of}


def least(work: Callable[[], object]) -> float:
    """CPU seconds of the best of three; the first at a size takes up memory, which can cost more than a fit."""
    spent = []
    for _ in range(3):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=100, help="synthetic data sets (default 100)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", kw.AdviceWarning)
    cost(60, 1.0)  # compiles
    seen = [counted(C, 2 if args.fast else args.repeats) for C in COSTS]
    costs = [cost(n, C) for n in ((100,) if args.fast else (500, 1000, 2000)) for C in COSTS]
    head = ["C", "data sets", "false selections, mean", "most", "bound, mean", f"of the {MATTER} that matter, mean"]
    lines = [[f"{s['C']:g}", s["repeats"], number(s["false"]), s["most"], number(s["bound"]), number(s["true"])]
             for s in seen]  # fmt: skip
    parts = ["## False selections", markdown(head, lines)]
    head = ["rows", "C", "one fit (s)", "50 halves (s)", "halves / fit"]
    lines = [[c["n"], f"{c['C']:g}", number(c["fit"]), number(c["halves"]), number(c["halves"] / c["fit"])]
             for c in costs]  # fmt: skip
    parts += ["## Cost, CPU seconds", markdown(head, lines)]
    print("\n\n".join(parts))
    name = "stability_fast" if args.fast else "stability"
    save(name, {"seen": seen, "costs": costs})
    save_markdown(name, [f"# {__doc__.split(':')[0]}", *parts])


if __name__ == "__main__":
    main()
