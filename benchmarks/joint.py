"""Several classes: one joint problem against one-vs-rest, with the same kernels and the same choice of C.

Both are l1 to a certified gap of 1e-3 by our default solver: the joint margin of Crammer and Singer, with one set of
kernel weights for all classes and no bias, and a binary hinge problem for each class, with its own weights and bias.
C is the best of 0.1, 1, 10, 100, 1000 on 30 % of the training rows, where the other 70 % are fitted; of equals, the
least. Then all training rows are fitted, and the test rows counted.

* mfeat: 2000 digits in six views, 1000 for training; Gaussians of five widths on each view, stored.
* letter: 26 classes; 4000 rows for training and 8000 for testing; seven Gaussian widths, linear and polynomials of
  degrees 2 and 3, each by 60 Nystroem features.
* usps: ten digits, 3000 rows drawn from its training part, all 2007 of its test part; five Gaussian widths, linear and
  polynomials of degrees 2 and 3, stored.
* usps parts: the same rows; five Gaussian widths on the whole image, on each half and on each quarter, stored.

Kernels have a mean diagonal of 1, samples are float32. A kernel is kept when its weight is not zero, for one-vs-rest in
any of the problems; the kernels of a single problem stand beside, on average. Seconds are of the last fit and its
kernels, CPU seconds on one thread or wall seconds on OMP_NUM_THREADS; "all" are those of every fit, the choice of C
included. Cells are written as they are made, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split

from common import Cells, Stopwatch, capped, load, markdown, number, options, standardised

SETS = ("mfeat", "letter", "usps", "usps parts")
WAYS = ("joint", "ovr")
COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
VIEWS = ("fac", "fou", "kar", "mor", "pix", "zer")
RANK = 60
WIDE, CLOSE = [4.0**power for power in range(-2, 3)], [2.0**power for power in range(-3, 4)]  # times the scale
SIDE = 16  # of an image


@dataclass
class Task:
    """Rows to learn from and to test on, and the bank."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    t: np.ndarray
    bank: list
    approximation: object = None


def gaussians(groups: list, factors: list[float] = WIDE) -> list:
    """Gaussians of several widths around the scale of the data, on each group of columns."""
    from kernelweave import kernels

    return [kernel for columns in groups for kernel in kernels.rbf(factor=factors, on=columns)]


def dots() -> list:
    """The linear kernel and polynomials of degrees 2 and 3."""
    from kernelweave import kernels

    return kernels.linear() + kernels.polynomial(degree=[2, 3], gamma="scale")


def drawn(X: np.ndarray, y: np.ndarray, train: int, test: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, stratified, always the same."""
    X, Z, y, t = train_test_split(X, y, train_size=train, test_size=test, stratify=y, random_state=0)
    return (*standardised(X, Z), y, t)


def mfeat(small: bool) -> Task:
    data = load("mfeat_digits")
    parts = [data[f"view_{view}"].astype(float) for view in VIEWS]
    X, Z, y, t = drawn(np.hstack(parts), data["y"], *((200, 200) if small else (1000, 1000)))
    ends = np.cumsum([part.shape[1] for part in parts])
    columns = [list(range(end - part.shape[1], end)) for part, end in zip(parts, ends.tolist(), strict=True)]
    return Task(X, y, Z, t, gaussians(columns))


def letter(small: bool) -> Task:
    from kernelweave import Nystroem

    data = load("letter")
    X, Z, y, t = drawn(data["X"].astype(float), data["y"], *((520, 520) if small else (4000, 8000)))
    return Task(X, y, Z, t, gaussians([None], CLOSE) + dots(), Nystroem(rank=20 if small else RANK))


def usps(small: bool, parts: bool = False) -> Task:
    data = load("usps")
    X, y, test = data["X"].astype(float), data["y"], data["test_idx"][: 200 if small else None]
    train, _ = train_test_split(data["train_idx"], train_size=300 if small else 3000,
                                stratify=y[data["train_idx"]], random_state=0)  # fmt: skip
    bank = gaussians(regions()) if parts else gaussians([None]) + dots()
    return Task(X[train], y[train], X[test], y[test], bank)


def regions() -> list[list[int]]:
    """The columns of the whole image, its halves and its quarters."""
    places, half = np.arange(SIDE**2).reshape(SIDE, SIDE), SIDE // 2
    cuts = (slice(None), slice(half), slice(half, None))
    return [places[rows, columns].ravel().tolist() for rows in cuts for columns in cuts]


MAKERS = {"mfeat": mfeat, "letter": letter, "usps": usps, "usps parts": partial(usps, parts=True)}


# ------------------------------------------------------------------------------------------------ fits


def fit(task: Task, way: str, C: float, cap: float) -> dict:
    """Learn from X and count right answers on Z."""
    from kernelweave import MKLClassifier

    model = MKLClassifier(
        task.bank, penalty="l1", C=C, multiclass=way, approximation=task.approximation, random_state=0
    )
    done = False
    with Stopwatch() as watch, suppress(KeyboardInterrupt), capped(cap):
        model.fit(task.X.astype(np.float32), task.y)
        done = True
    if not done:
        return {"seconds": watch.seconds, "gap": None, "cut": True, "accuracy": 0.0, "C": C}
    kept = np.atleast_2d(model.weights_) > 0
    return {
        "seconds": watch.seconds, "gap": model.dual_gap_, "cut": not model.dual_gap_ <= model.tol, "C": C,
        "accuracy": float(model.score(task.Z.astype(np.float32), task.t)), "kept": int(kept.any(axis=0).sum()),
        "kept_each": float(kept.sum(axis=1).mean()), "solver": model.solver_, "storage": model.storage_,
        "rows": len(task.y), "tested": len(task.t), "kernels": len(model.kernel_names_),
        "classes": len(model.classes_),
    }  # fmt: skip


def try_costs(cells: Cells, name: str, task: Task, way: str) -> None:
    """Fit 70 % of the training rows with every C, and count right answers on the others."""
    X, Z, y, t = train_test_split(task.X, task.y, train_size=0.7, stratify=task.y, random_state=1)
    part = Task(X, y, Z, t, task.bank, task.approximation)
    for C in COSTS:
        cells.get(f"{name} {way} C={C:g} of a part", partial(fit, part, way, C, cells.cap))


def final_key(cells: Cells, name: str, way: str) -> tuple[str, float]:
    """The cell of the fit to all training rows, and its C, which was right most often on the others."""
    found = [cells.made[f"{name} {way} C={C:g} of a part"]["accuracy"] for C in COSTS]
    C = COSTS[int(np.argmax(found))]
    return f"{name} {way} C={C:g} of all", C


def run_set(cells: Cells, name: str, small: bool) -> None:
    task = MAKERS[name](small)
    for way in WAYS:
        try_costs(cells, name, task, way)
        key, C = final_key(cells, name, way)
        cells.get(key, partial(fit, task, way, C, cells.cap))


# ------------------------------------------------------------------------------------------------ report


def comparison(cells: Cells, sets: list[str]) -> str:
    """A row for each set and way."""
    rows = []
    for name in sets:
        for way in WAYS:
            cell = cells.made[final_key(cells, name, way)[0]]
            tried = [cells.made[f"{name} {way} C={C:g} of a part"] for C in COSTS]
            cut = sum(one["cut"] for one in [cell, *tried])
            if cell["gap"] is None:
                rows.append([name, way, *[""] * 9, f"> {cell['seconds']:.1f}", "", "", cut])
                continue
            rows.append([
                name, way, cell["rows"], cell["tested"], cell["classes"], cell["kernels"], f"{cell['C']:g}",
                f"{100 * cell['accuracy']:.2f}", cell["kept"], f"{cell['kept_each']:.1f}", number(cell["gap"], 2),
                f"{cell['seconds']:.1f}", f"{sum(one['seconds'] for one in [cell, *tried]):.1f}", cell["solver"],
                cut or "",
            ])  # fmt: skip
    headers = ["set", "multiclass", "rows", "test rows", "classes", "kernels", "C", "accuracy %", "kept"]
    return markdown([*headers, "kept in a problem", "gap", "s", "all s", "solver", "cut off"], rows)


def main() -> None:
    parser = options(__doc__, cap=300)
    parser.add_argument("--sets", default=",".join(SETS), help=f"data sets, from {','.join(SETS)}")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    cells = Cells("joint_fast" if args.fast else "joint", args.cap, args.again, {})
    sets = args.sets.split(",")
    for name in sets:
        if name not in SETS:
            raise SystemExit(f"--sets {name} is not known: choose from {', '.join(SETS)}.")
        run_set(cells, name, args.fast)
    about = [part if part.startswith("*") else " ".join(part.split()) for part in __doc__.strip().split("\n\n")[1:]]
    path = cells.report([f"# {__doc__.split('.')[0]}", *about, comparison(cells, sets)])
    print(comparison(cells, sets))
    print("written to", cells.write().name, "and", path.name)


if __name__ == "__main__":
    main()
