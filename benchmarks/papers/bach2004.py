"""Figure 2 of Bach, Lanckriet and Jordan (2004): seconds of the support kernel machine, ours beside theirs.

Gaussian kernels of unit diagonal on random subsets of the columns with random widths (seeded; m kernels are the
first m of one list), C = 1, certified relative gap 1e-3. The paper names neither its subsets, its widths nor C,
stops at its own eps1/n = 5e-4 and eps2 = 1e-4, and ran on an Athlon MP 2000+: compare the growth, not the
seconds. Sums over the support vectors' columns are what any proof of an optimum has to read; how many entries
these are is in the table too. A solver that took longer than --cap seconds is not asked for larger sizes. Adult
with 450, 750 and 1100 rows is a seeded draw from the set of 1605 rows, with 6212 rows from the set of 11220.

Cells are written as they are made, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    RESULTS,
    Bank,
    Cells,
    Judge,
    build,
    canvas,
    load,
    markdown,
    number,
    options,
    our_solve,
    warm_up,
)

# name: (what varies, its values, printed seconds of the paper's SMO and of Mosek (None: out of memory))
FIGURE = {
    "ionosphere, n=351": ("m", [6, 12, 24, 48, 96, 192], [2, 3, 54, 56, 88, 166], [4, 8, 20, 51, 162, 548]),
    "breast cancer, n=683": (
        "m",
        [3, 6, 12, 24, 48, 96],
        [11, 20, 54, 141, 149, 267],
        [11, 17, 45, 120, 492, 764],
    ),
    "adult, n=1605": (
        "m",
        [3, 6, 12, 24, 48, 96],
        [20, 23, 36, 119, 618, 957],
        [92, 205, 1313, None, None, None],
    ),
    "adult, m=4": (
        "n",
        [450, 750, 1100, 1605, 2265, 3185, 4781, 6212],
        [17, 29, 44, 72, 121, 202, 410, 670],
        [4, 17, 52, 114, 5455, 8625, None, None],
    ),
}
PAPER = {"m": 1.1, "n": 1.4}  # the exponents printed in section 5
ADULT_SETS = {1605: "idx_a1a", 2265: "idx_a2a", 3185: "idx_a3a", 4781: "idx_a4a", 11220: "idx_a6a"}


def table_of(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows X and labels y of one data set; n matters for adult only."""
    if name.startswith("adult"):
        return adult(n)
    data = load("ionosphere" if name.startswith("ionosphere") else "breast_cancer_wisconsin")
    X = data["X"].astype(float)
    X = X[:, X.std(0) > 0]
    return (X - X.mean(0)) / X.std(0), data["y"].astype(float)


def adult(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A nested adult set of n rows; other sizes are a seeded draw from the next larger set."""
    data = load("adult_a9a")
    parts = (data["X_data"], data["X_indices"], data["X_indptr"])
    X = sp.csr_array(parts, shape=tuple(data["X_shape"]))
    size = min(s for s in ADULT_SETS if s >= n)
    rows = np.random.default_rng(0).permutation(data[ADULT_SETS[size]])[:n]
    return X[rows].toarray().astype(float), data["y"][rows].astype(float)


def random_bank(X: np.ndarray, m: int) -> Bank:
    """Gaussian kernels on random column subsets, widths within a factor 8 of 1 / variance of the subset."""
    rng, bank = np.random.default_rng(0), Bank()
    d = X.shape[1]
    for _ in range(m):
        columns = tuple(sorted(rng.choice(d, rng.integers(1, d + 1), replace=False)))
        width = 2.0 ** rng.uniform(-3, 3)
        bank.add(columns, [width / max(X[:, columns].var(0).sum(), 1e-3)])
    bank.fit_scales(X)
    return bank


SWEEPS = 1500  # working sets after which a solver is cut off; the gap in the table says where it was


def run_series(cells: Cells, name: str, args) -> None:
    """One panel of the figure: a cell per size and solver; a solver past the cap is not asked again."""
    values, tired = FIGURE[name][1], set()
    for value in values[:3] if args.fast else values:
        for solver in [solver for solver in args.solvers if solver not in tired]:
            made = cells.get(key(name, value, solver), partial(cell, name, value, solver, args))
            tired |= {solver} if made["cut"] else set()


def key(name: str, value: int, solver: str) -> str:
    """The name of a cell."""
    return f"{name}, {FIGURE[name][0]}={value}, {solver}"


def cell(name: str, value: int, solver: str, args) -> dict:
    """One fit, judged."""
    n, m = (value, 4) if FIGURE[name][0] == "n" else (1605, value)
    X, y = table_of(name, n)
    stack = build(random_bank(X, m), X, "samples")
    points, watch = our_solve(stack.array, y, args.C, 1, solver, max_iter=SWEEPS)
    judge = Judge(stack, y, args.C, 1)
    for point in points:
        judge.see(*point)
    kept = int(np.sum(judge.weights > 1e-4 * judge.weights.max()))
    facts = {"panel": name, "size": value, "solver": solver, "C": args.C}
    support = int(np.sum(np.asarray(points[-1][0]) != 0))
    facts |= {"rows": n, "kernels": m, "support": support, "reading": reading(stack.array, points[-1][0])}
    return {**facts, "seconds": watch.cpu, "gap": judge.gap, "kept": kept, "cut": watch.cpu > args.cap}


def reading(array: np.ndarray, duals: np.ndarray) -> float:
    """CPU seconds of all products with the duals, from support vectors' entries; best of three."""
    support = np.flatnonzero(duals)
    best = np.inf
    for _ in range(3):
        begun = time.process_time()
        sum(duals[j] * array[j] for j in support)
        best = min(best, time.process_time() - begun)
    return best


def exponent(sizes, seconds) -> float:
    """Slope of log seconds against log size, by least squares."""
    pairs = [(s, t) for s, t in zip(sizes, seconds, strict=True) if t]
    if len(pairs) < 2:
        return float("nan")
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0])


def panel(cells: Cells, name: str, args) -> tuple[str, dict]:
    """One panel as a table, and its exponents."""
    varies, values, smo, mosek = FIGURE[name]
    headers = [varies, *(f"ours {s} (gap, kernels)" for s in args.solvers), *READ, "paper SMO", "paper Mosek"]
    lines = []
    for value, theirs, conic in zip(values, smo, mosek, strict=True):
        ours = [text(cells.made.get(key(name, value, solver))) for solver in args.solvers]
        made = cells.made.get(key(name, value, "auto"), {})
        ours += [number(READ[what](made)) if made else "not run" for what in READ]
        lines.append([value, *ours, theirs, conic or "out of memory"])
    slopes = {f"ours {s}": exponent(*series(cells, name, s)) for s in args.solvers}
    slopes |= {what: exponent(*read(cells, name, what)) for what in READ}
    slopes |= {"paper SMO": exponent(values, smo), "paper Mosek": exponent(values, mosek)}
    lines.append([f"exponent in {varies}", *(number(slope) for slope in slopes.values())])
    return markdown(headers, lines), slopes


def series(cells: Cells, name: str, solver: str) -> tuple[list, list]:
    """Sizes and seconds of one solver."""
    found = [(value, cells.made.get(key(name, value, solver))) for value in FIGURE[name][1]]
    return [v for v, made in found if made], [made["seconds"] for _, made in found if made]


READ = {  # of a proof: what it reads, and how long that takes
    "entries of support vectors": lambda made: made["rows"] * made["support"] * made["kernels"],
    "seconds to read them": lambda made: made["reading"],
}


def read(cells: Cells, name: str, what: str) -> tuple[list, list]:
    """Sizes, and what the optimum found by "auto" has to be proved from."""
    found = [(value, cells.made.get(key(name, value, "auto"))) for value in FIGURE[name][1]]
    return [v for v, made in found if made], [READ[what](made) for _, made in found if made]


def text(made: dict | None) -> str:
    """Seconds with the judged gap and the number of kernels kept."""
    return "not run" if made is None else f"{made['seconds']:.3g} ({made['gap']:.1e}, {made['kept']})"


def summary(slopes: dict[str, dict], solvers: list[str]) -> str:
    """Mean exponents over the panels beside those printed in the paper."""
    lines = []
    for varies, printed in PAPER.items():
        panels = [slopes[name] for name in slopes if FIGURE[name][0] == varies]
        ours = [number(np.mean([p[what] for p in panels])) for what in (*(f"ours {s}" for s in solvers), *READ)]
        lines.append([varies, *ours, printed])
    return markdown(["in", *(f"ours {s}" for s in solvers), *READ, "paper, printed"], lines)


def write_report(cells: Cells, args) -> Path:
    """Everything as Markdown."""
    tables = {name: panel(cells, name, args) for name in FIGURE}
    parts = [f"# {__doc__.split(':')[0]}", *(" ".join(part.split()) for part in __doc__.split("\n\n")[1:-1])]
    slopes = {name: found for name, (_, found) in tables.items()}
    parts += ["## Growth, mean exponents", summary(slopes, args.solvers)]
    for name, (shown, _) in tables.items():
        parts += [f"## {name}, seconds", shown]
    return cells.report(parts)


def draw(cells: Cells, args) -> Path:
    """Log-log picture of all panels."""
    figure, axes = canvas(2, 2)
    for ax, (name, (varies, values, smo, mosek)) in zip(axes.flat, FIGURE.items(), strict=True):
        for solver in args.solvers:
            ax.loglog(*series(cells, name, solver), "o-", label=f"ours, {solver}")
        ax.loglog(values, smo, "s--", label="paper, SMO")
        ax.loglog(values, [t or np.nan for t in mosek], "^:", label="paper, Mosek")
        ax.set(title=name, xlabel=varies, ylabel="seconds")
        ax.set_xticks(values[::2], [str(value) for value in values[::2]])
        ax.set_xticks([], minor=True)
        ax.legend(fontsize="x-small")
    path = RESULTS / f"{cells.name}.png"
    figure.savefig(path, dpi=120)
    return path


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--solvers", default="auto,skm", help="our solvers, by name")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    args.solvers = args.solvers.split(",")
    if problem := warm_up(args.solvers, [1]):
        raise SystemExit(problem)
    cells = Cells("bach2004_fast" if args.fast else "bach2004", args.cap, args.again, {"gap": 1e-3, "printed": PAPER})
    for name in FIGURE:
        run_series(cells, name, args)
    path = write_report(cells, args)
    print(path.read_text())
    for written in (cells.write(), path, draw(cells, args)):
        print("written to", written.name)


if __name__ == "__main__":
    main()
