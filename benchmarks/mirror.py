"""What a pass of stochastic mirror descent costs: exponents in kernels and samples, and bytes moved per update.

Samples are Gaussian points with random labels, which say nothing of them, so that many visits move something; kernels
are Gaussians of as many widths as asked for, or random features, in float32. Two losses: the logistic, where every
visit is an update, and the joint margin of 17 classes, where an update moves two classes. Time is that of one pass (a
step of the solver, without the certificate), the least of --passes passes after a first one; CPU seconds on one thread.
"Fit" is the joint margin on points around a centre of their class, on average over the 20 passes of a fit.

An update on stored kernels reads the sample's column of every kernel once, n m numbers, and reads and writes as many
sums for each class that moves; any visit also reads the sums of the sample and its own entry of every kernel. Those
bytes over the seconds are the rate, set beside that of a triad a = b + s c on arrays of float32 that do not fit in the
cache, also on one core (three numbers for each step; the fourth, which many processors read before they write, is not
counted). The sums of a class may stay in the cache, so that the rate can be above the triad's; that of the kernels
alone, which cannot, stands beside. On features an update costs their number, whatever the number of samples.

Exponents are slopes of log seconds over log size: of a pass, and of a visit in it. A pass on stored kernels makes n
visits of which those that move cost n m, so that it grows with the square of n where all samples move, and linearly
where as many as before do. Cells are written as they are made, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from common import Cells, Stopwatch, markdown, options, statistic, timed

KERNELS = (50, 100, 200, 400, 800)  # at BASE samples
SAMPLES = (200, 400, 800, 1600)  # at FEW kernels
FEATURE_SAMPLES = (2000, 4000, 8000, 16000)
BASE, FEW, RANK, CLASSES = 600, 100, 20, 17
APART, FIT = 1.5, 20  # deviation of the centres of classes, and passes of a fit
FORMS, KINDS = ("stored", "features"), ("logistic", "joint", "fit")


def points(n: int, d: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Points in d dimensions around the centres of their classes, and the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, size=n)
    centres = apart * np.random.default_rng(1).normal(size=(CLASSES, d))
    return rng.normal(size=(n, d)) + centres[y], y


def stored(n: int, m: int, apart: float):
    """Gaussians of m widths on n points, float32, and the classes."""
    from kernelweave import DenseGram

    X, y = points(n, 10, apart)
    far = statistic(X, X, "rbf").astype(np.float32)
    np.fill_diagonal(far, 0.0)
    over = (-np.logspace(-3, 0, m)).astype(np.float32)
    stack = np.empty((n, n, m), dtype=np.float32)
    for i in range(n):
        np.exp(np.multiply(far[i, :, None], over, out=stack[i]), out=stack[i])
    return DenseGram(stack), y


def features(n: int, m: int, apart: float):
    """Features of m kernels of a fixed rank, float32, and the classes."""
    from kernelweave.grams import LowRankGram

    V, y = points(n, m * RANK, apart)
    return LowRankGram((RANK**-0.5 * V).astype(np.float32), [RANK] * m), y


def passes(gram, classes: np.ndarray, kind: str, count: int) -> dict:
    """Seconds of one pass, visits that moved and bytes that had to move."""
    from kernelweave import Problem, losses, penalties, solvers

    n, m = gram.shape
    joint = kind != "logistic"
    loss, y = (losses.CrammerSinger(), classes) if joint else (losses.Logistic(), np.where(classes % 2, 1.0, -1.0))
    problem = Problem(gram, loss.bind(y, 1.0), penalties.Mixed(1e-3 * n), dual_sum=None)
    solver = solvers.Mirror()
    state = solver.init(problem, None, 1e-3)
    times, moved = [], []
    for _ in range(FIT if kind == "fit" else count + 1):
        before = state.beta.copy()
        with Stopwatch() as watch:
            solver.step(problem, state)
        times.append(watch.seconds)
        moved.append(int(np.any(state.beta != before, axis=1).sum()))
    best = int(np.argmin(times[1:])) + 1
    seconds, updates = (np.mean(times), np.mean(moved)) if kind == "fit" else (times[best], moved[best])
    cell = {"seconds": float(seconds), "gap": None, "cut": False, "n": n, "m": m, "updates": float(updates)}
    return cell | ({} if hasattr(gram, "features") else {"bytes": traffic(n, m, updates, joint)})


def traffic(n: int, m: int, moved: float, joint: bool) -> float:
    """Bytes that a pass has to move."""
    moving, classes = (2, CLASSES) if joint else (1, 1)
    return 4 * m * (moved * n * (1 + 2 * moving) + n * (classes + 1))


def triad(size: int = 30_000_000) -> dict:
    """Bytes per second of a = b + s c on one core."""
    from numba import float32, njit, void

    @njit(void(float32[::1], float32[::1], float32[::1], float32), fastmath=True)
    def add(a, b, c, s):
        for i in range(a.size):
            a[i] = b[i] + s * c[i]

    a, b, c = (np.full(size, value, dtype=np.float32) for value in (0, 1, 2))
    _, watch = timed(lambda: add(a, b, c, 0.5), repeat=7)
    return {"seconds": watch.seconds, "gap": None, "cut": False, "bytes": 12 * size}


# ------------------------------------------------------------------------------------------------ what is measured


def series(form: str, what: str, args) -> list[tuple[int, int]]:
    """Sizes (n, m) along kernels or along samples."""
    base = BASE // args.shrink
    if what == "kernels":
        return [(base, m // args.shrink) for m in KERNELS]
    return [(n // args.shrink, FEW // args.shrink) for n in (SAMPLES if form == "stored" else FEATURE_SAMPLES)]


def run(cells: Cells, args) -> None:
    cells.get("triad", partial(triad, 30_000_000 // args.shrink))
    makers = dict(zip(FORMS, (stored, features), strict=True))
    for form in FORMS:
        for n, m in dict.fromkeys(series(form, "kernels", args) + series(form, "samples", args)):
            measure(cells, form, makers[form], n, m, args)
    measure(cells, "stored", stored, *args.large, args)


def measure(cells: Cells, form: str, make, n: int, m: int, args) -> None:
    """All kinds at one size; kernels are made where a cell is missing, and forgotten before the next are."""
    for kinds, apart in ((KINDS[:2], 0.0), (KINDS[2:], APART)):
        if any(key_of(form, kind, n, m) not in cells.made for kind in kinds):
            gram, y = make(n, m, apart)
            for kind in kinds:
                cells.get(key_of(form, kind, n, m), partial(passes, gram, y, kind, args.passes))
            del gram


def key_of(form: str, kind: str, n: int, m: int) -> str:
    return f"{form} {kind} n={n} m={m}"


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def exponents(cells: Cells, args) -> str:
    """A row for each form, kind and direction."""
    rows = []
    for form in FORMS:
        for kind in KINDS:
            for what in ("kernels", "samples"):
                sizes = series(form, what, args)
                found = [cells.made[key_of(form, kind, n, m)] for n, m in sizes]
                along = [size[what == "kernels"] for size in sizes]
                seconds = [cell["seconds"] for cell in found]
                shares = [cell["updates"] / cell["n"] for cell in found]
                visits = [spent / cell["n"] for spent, cell in zip(seconds, found, strict=True)]
                rows.append([
                    form, kind, what, f"{along[0]} to {along[-1]}", f"{exponent(along, seconds):.2f}",
                    f"{exponent(along, visits):.2f}", f"{100 * min(shares):.0f} to {100 * max(shares):.0f}",
                    f"{seconds[0]:.3g} to {seconds[-1]:.3g}",
                ])  # fmt: skip
    headers = ["kernels are", "kind", "growing", "sizes", "exponent of a pass", "of a visit", "visits that move %"]
    return markdown([*headers, "s of a pass"], rows)


def rates(cells: Cells, args) -> str:
    """Bytes per second of the passes on stored kernels beside the triad."""
    base = cells.made["triad"]["bytes"] / cells.made["triad"]["seconds"]
    rows = [["triad", "", "", "", f"{cells.made['triad']['bytes'] / 1e6:.0f}", f"{base / 1e9:.1f}", "100", ""]]
    for n, m in (series("stored", "kernels", args)[-1], args.large):
        for kind in KINDS:
            cell = cells.made[key_of("stored", kind, n, m)]
            rate = cell["bytes"] / cell["seconds"]
            rows.append([
                f"{kind}, {m} kernels, {n} samples", f"{cell['seconds']:.3f}", f"{cell['updates']:.0f}",
                f"{1e3 * cell['seconds'] / max(cell['updates'], 1):.3f}",
                f"{cell['bytes'] / max(cell['updates'], 1) / 1e6:.1f}", f"{rate / 1e9:.1f}", f"{100 * rate / base:.0f}",
                f"{4e-9 * n * m * cell['updates'] / cell['seconds']:.1f}",
            ])  # fmt: skip
    headers = ["", "s of a pass", "updates", "ms of an update", "MB of an update", "GB/s", "% of the triad"]
    return markdown([*headers, "GB/s of kernels alone"], rows)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--large", default="1360,1400", help="samples and kernels of the largest run; 4 n n m bytes")
    parser.add_argument("--passes", type=int, default=3, help="passes that are timed (default 3)")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    args.shrink = 5 if args.fast else 1
    args.large = tuple(int(size) // args.shrink for size in args.large.split(","))
    cells = Cells("mirror_fast" if args.fast else "mirror", args.cap, args.again, {})
    passes(*stored(30, 5, 0.0), "joint", 1)  # compiles
    run(cells, args)
    about = [" ".join(part.split()) for part in __doc__.split("\n\n")[1:]]
    tables = [exponents(cells, args), rates(cells, args)]
    path = cells.report([f"# {__doc__.split('.')[0]}", *about, *tables])
    print("\n\n".join(tables))
    print("written to", cells.write().name, "and", path.name)


if __name__ == "__main__":
    main()
