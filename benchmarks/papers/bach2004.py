"""Figure 2 of Bach, Lanckriet and Jordan (2004): seconds of the support kernel machine, ours beside theirs.

Gaussian kernels of unit diagonal on random subsets of the columns with random widths (seeded; m kernels are
the first m of one list), C = 1, certified relative gap 1e-3. The paper names neither its subsets, its widths
nor C, stops at its own eps1/n = 5e-4 and eps2 = 1e-4, and ran on an Athlon MP 2000+: compare the growth, not
the seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import Bank, Judge, build, load, number, options, our_solve, save, table, warm_up

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


def run_series(name: str, values: list[int], varies: str, args) -> list[dict]:
    """One panel of the figure: a row per size and solver; a solver past the cap is not asked again."""
    rows, tired = [], set()
    for value in values:
        n, m = (value, 4) if varies == "n" else (1605, value)
        X, y = table_of(name, n)
        stack = build(random_bank(X, m), X, "samples")
        for solver in args.solvers:
            if solver in tired:
                continue
            points, watch = our_solve(stack.array, y, args.C, 1, solver, max_iter=SWEEPS)
            judge = Judge(stack, y, args.C, 1)
            for point in points:
                judge.see(*point)
            kept = int(np.sum(judge.weights > 1e-4 * judge.weights.max()))
            rows.append(
                {"solver": solver, varies: value, "seconds": watch.cpu, "gap": judge.gap, "kept": kept}
            )
            print(f"  {name}, {varies}={value}, {solver}: {watch.cpu:.3g} s", file=sys.stderr, flush=True)
            if watch.cpu > args.cap:
                tired.add(solver)
    return rows


def exponent(sizes, seconds) -> float:
    """Slope of log seconds against log size, by least squares."""
    pairs = [(s, t) for s, t in zip(sizes, seconds, strict=True) if t]
    if len(pairs) < 2:
        return float("nan")
    return float(np.polyfit(*np.log(np.array(pairs, float)).T, 1)[0])


def show(name: str, args, rows: list[dict]) -> dict:
    """Print one panel and return its exponents."""
    varies, values, smo, mosek = FIGURE[name]
    ours = {(row["solver"], row[varies]): row for row in rows}
    headers = [varies, *(f"ours {s} (gap, kernels)" for s in args.solvers), "paper SMO", "paper Mosek"]
    lines = []
    for value, theirs, conic in zip(values, smo, mosek, strict=True):
        cells = [cell(ours.get((solver, value))) for solver in args.solvers]
        lines.append([value, *cells, theirs, conic or "out of memory"])
    slopes = {f"ours {s}": exponent(*series(rows, s, varies)) for s in args.solvers}
    slopes |= {"paper SMO": exponent(values, smo), "paper Mosek": exponent(values, mosek)}
    lines.append([f"exponent in {varies}", *(number(slope) for slope in slopes.values())])
    print(f"\n{name}, seconds\n{table(headers, lines)}")
    return slopes


def series(rows: list[dict], solver: str, varies: str) -> tuple[list, list]:
    """Sizes and seconds of one solver."""
    mine = [row for row in rows if row["solver"] == solver]
    return [row[varies] for row in mine], [row["seconds"] for row in mine]


def cell(row: dict | None) -> str:
    """Seconds with the judged gap and the number of kernels kept."""
    return "not run" if row is None else f"{row['seconds']:.3g} ({row['gap']:.1e}, {row['kept']})"


def summary(slopes: dict[str, dict], solvers: list[str]) -> None:
    """Mean exponents over the panels beside those printed in the paper."""
    lines = []
    for varies, printed in PAPER.items():
        panels = [slopes[name] for name in slopes if FIGURE[name][0] == varies]
        means = [np.mean([panel[f"ours {s}"] for panel in panels]) if panels else None for s in solvers]
        lines.append([varies, *map(number, means), printed])
    print("\nmean exponents\n" + table(["in", *(f"ours {s}" for s in solvers), "paper, printed"], lines))


def plot(results: dict, path: Path) -> None:
    """Log-log picture of all panels, saved as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    for axes, (name, rows) in zip(figure.subplots(2, 2).flat, results.items(), strict=False):
        varies, values, smo, mosek = FIGURE[name]
        for solver in sorted({row["solver"] for row in rows}):
            axes.loglog(*series(rows, solver, varies), "o-", label=f"ours, {solver}")
        axes.loglog(values, smo, "s--", label="paper, SMO")
        axes.loglog(values, [t or np.nan for t in mosek], "^:", label="paper, Mosek")
        axes.set(title=name, xlabel=varies, ylabel="seconds")
        axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--solvers", default="auto,skm", help="our solvers, by name")
    parser.add_argument("--plot", type=Path, help="also save a log-log picture here")
    args = parser.parse_args()
    args.solvers = args.solvers.split(",")
    if problem := warm_up(args.solvers, [1]):
        raise SystemExit(problem)
    results, slopes = {}, {}
    for name, (varies, values, *_) in FIGURE.items():
        results[name] = run_series(name, values[:3] if args.fast else values, varies, args)
        slopes[name] = show(name, args, results[name])
    print("\nnot run: a smaller size took longer than the cap, or --fast")
    print("adult n=450, 750, 1100: seeded draws from the 1605-row set; n=6212: from the 11220-row set.")
    summary(slopes, args.solvers)
    payload = {"C": args.C, "gap": 1e-3, "rows": results, "exponents": slopes, "printed": PAPER}
    print("\nwritten to", save("bach2004_fast" if args.fast else "bach2004", payload))
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
