"""Kernels of low rank: time to a certified relative gap of 1e-3, learned weights beside one LIBLINEAR solve.

Features are float32, made once by Nystroem outside the timing. Every solver on features learns the weights of
the kernels; what is timed is `solve` alone. Its answer is judged afterwards by the judges of common.py, which
know nothing of the library.

LIBLINEAR (`LinearSVC(loss="hinge", dual=True)`) does less: one machine on the features times the square roots of
the best weights found, float64 and C-contiguous, zero columns dropped, all that outside the timing. Its tolerance
is halved until its certified gap is at most 1e-3, and only that last solve is timed. The upper bound of its gap is
the primal value of its coefficients with the best free bias and scale; its duals are not exposed, so the lower
bound is that of the same fixed-weight machine solved to 1e-5 by us, off the clock. Its own bias is the weight of a
constant column of height `intercept_scaling` and therefore penalised: a tall column makes that harmless and the
solve slow. Heights 1, 10 and 100 are tried in this order until one gets to the gap; the report says which, and how
long a fit of a single pass takes, since `fit` copies the features before it begins.

"ours, fixed weights" is our solver on that same machine: learning the kernel over it is what learning costs.
Seconds are CPU seconds of one thread, or wall seconds where OMP_NUM_THREADS gives more; the best of three below
2 s. Runs cut off by --cap read "> seconds (gap reached)"; a solver cut off is not asked for a larger C.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info

from common import (
    THREADS,
    TOL,
    FeatureStack,
    FixedJudge,
    Judge,
    Run,
    SquaredJudge,
    Stopwatch,
    capped_solve,
    gaussians,
    number,
    nystroem,
    options,
    our_penalty,
    save,
    split,
    table,
)

SOLVERS = ("auto", "interior", "coordinate", "ssnal", "mehrotra", "gfb", "gfb-merged")
SQUARED = ("auto", "newton", "interior", "coordinate", "mehrotra", "gfb", "gfb-merged")  # for the squared hinge
SCALINGS = (1.0, 10.0, 100.0)  # heights of LIBLINEAR's constant column
OURS, LIBLINEAR = "ours, fixed weights", "LIBLINEAR, one solve"
COMPARED = (("auto / LIBLINEAR", LIBLINEAR), ("auto / ours, fixed weights", OURS))
COSTS = (1.0, 10.0, 100.0, 1000.0)
NORMS = {"l2": 2.0, "4/3": 4 / 3, "l1": 1.0}

# Seconds to 1e-3 of plain prototypes written before this library, for one machine at fixed weights, and for
# learned weights the range over C; text where they were cut off, with the gap they had.
PROTOTYPES = {
    "6000": {
        "ssnal": (0.11, 0.21, 0.27, 0.41),
        "coordinate": (0.06, 0.42, "> 3.3 (1.4e-3)", "> 3.8 (2.5e-1)"),
        "mehrotra": (0.34, 0.65, 0.66, 0.86),
        "gfb-merged": (0.37, 0.54, 2.37, "> 6.2 (4.7e-2)"),
        "gfb, best scale": (1.08, "> 1.9", "> 2.0 (9.2e-2)", "> 2.4"),
    },
    "20000": {
        "ssnal": (2.8, 3.3, None, 4.4),
        "coordinate": (1.2, 16, None, None),
        "mehrotra": (11, 37, None, None),
        "gfb-merged": (19, 24, None, None),
        "gfb, scale 1": ("> 26.5 (5.5e-1)", "> 30 (7.6e-1)", None, None),
    },
}
LEARNED = {("6000", "l2"): "0.3-0.8", ("6000", "4/3"): "0.4-0.8", ("6000", "l1"): "0.8-1.1"}


@dataclass
class Setting:
    """One data set with its features."""

    key: str
    name: str
    gram: object
    y: np.ndarray
    features: Stopwatch

    @property
    def stack(self) -> FeatureStack:
        """The features as the judges read them."""
        return FeatureStack(self.gram.features, self.gram.ranks)


# ------------------------------------------------------------------------------------------------ data


def make(key: str, small: bool) -> Setting:
    """The data set and kernels of a case."""
    if key == "ijcnn1":
        count, rank = (10, 10) if small else (50, 50)
        X, y, *_ = split("ijcnn1_train", 1500 if small else 34993, None if not small else 500)
        kernels = gaussians(count)
    else:
        n, count, rank = {"6000": (6000, 10, 40), "20000": (20000, 20, 50)}[key]
        n, count, rank = (n // 10, count // 2, rank // 4) if small else (n, count, rank)
        X, y = synthetic(n)
        kernels = widths_and_subsets(count, X.shape[1])
    gram, watch = nystroem(kernels, X, rank)
    n, D = gram.features.shape
    name = f"{key}: {n} rows, {len(kernels)} kernels of rank {gram.ranks.min()} to {gram.ranks.max()}, D = {D}"
    return Setting(key, name, gram, y, watch)


def synthetic(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of several clusters each in 20 columns, a tenth of the labels at random."""
    X, t = make_classification(
        n, 20, n_informative=8, n_redundant=4, n_clusters_per_class=4, flip_y=0.1, class_sep=1.0, random_state=0
    )
    return (X - X.mean(0)) / X.std(0), np.where(t > 0, 1.0, -1.0)


def widths_and_subsets(count: int, d: int) -> list:
    """RBF kernels of several widths, half of them on all columns, half on eight columns each (seeded)."""
    from kernelweave import kernels

    rng, half = np.random.default_rng(0), (count + 1) // 2
    whole = [kernels.RBF(gamma=float(g)) for g in np.logspace(-2.5, -0.5, half)]
    subsets = [tuple(sorted(map(int, rng.choice(d, 8, replace=False)))) for _ in range(count - half)]
    widths = np.logspace(-2, 0, count - half)
    return whole + [kernels.RBF(gamma=float(g), on=on) for g, on in zip(widths, subsets, strict=True)]


# ------------------------------------------------------------------------------------------------ ours


def best_run(problem, solver: str, cap: float) -> Run:
    """The fastest of three runs, of one where it takes more than 2 s."""
    best = None
    for _ in range(3):
        run = capped_solve(problem, solver, TOL, cap)
        best = min(best or run, run, key=lambda r: r.watch.seconds)
        if run.cut or run.watch.seconds > 2:
            break
    return best


def judged(run: Run, judge: Judge) -> float | None:
    """The independent gap of a run."""
    if run.solution is None:
        return None
    judge.see(run.solution.coef, run.solution.weights)
    return judge.see(run.solution.beta, run.solution.weights)


def row_of(name: str, C: float, run: Run, gap: float | None) -> dict:
    """A run as the report keeps it."""
    solution = run.solution
    return {
        "name": name, "C": C, "seconds": run.watch.seconds, "wall": run.watch.wall, "cut": not run.gap <= TOL,
        "own_gap": run.gap if np.isfinite(run.gap) else None, "gap": gap,
        "iterations": solution.n_iter if solution else None,
        "solver": solution.solver if solution else name, "status": solution.status.name if solution else None,
        "upper": solution.certificate.upper if solution else None,
    }  # fmt: skip


def learn(setting: Setting, args, solvers, squared: bool, best: dict) -> list[dict]:
    """A row for every solver and C; the weights of the best upper bound for each C go to `best`."""
    from kernelweave import Problem, losses

    rows, tired, judge_type = [], set(), SquaredJudge if squared else Judge
    loss = losses.SquaredHinge() if squared else losses.Hinge()
    for C in args.C:
        for solver in [s for s in solvers if s not in tired]:
            problem = Problem(setting.gram, loss.bind(setting.y, C), our_penalty(NORMS[args.penalty]))
            run = best_run(problem, solver, args.cap)
            gap = judged(run, judge_type(setting.stack, setting.y, C, NORMS[args.penalty]))
            rows.append(row_of(solver, C, run, gap))
            say(rows[-1])
            if rows[-1]["cut"]:
                tired.add(solver)
            if run.solution and run.solution.certificate.upper < best.get(C, (np.inf,))[0]:
                best[C] = (run.solution.certificate.upper, run.solution.weights)
    return rows


# ------------------------------------------------------------------------------------------------ one machine


def use(setting: Setting, args, best: dict) -> list[dict]:
    """The rows of one machine at the learned weights of each C: ours and, until it is cut off, LIBLINEAR's."""
    rows = []
    for C, (_, weights) in best.items():
        mine, judge = ours(setting, args, C, weights)
        rows.append(mine)
        if not any(row["cut"] for row in rows if row["name"] == LIBLINEAR):
            rows.append(liblinear(setting, C, weights, judge, args.cap))
            say(rows[-1])
    return rows


def ours(setting: Setting, args, C: float, weights: np.ndarray) -> tuple[dict, FixedJudge]:
    """Our row, and a judge that has seen the optimum to 1e-5."""
    from kernelweave import Problem, losses, penalties

    problem = Problem(setting.gram, losses.Hinge().bind(setting.y, C), penalties.Fixed(weights))
    judge = FixedJudge(setting.stack, setting.y, C, 1, fixed=weights)
    run = best_run(problem, "auto", args.cap)
    row = row_of(OURS, C, run, judged(run, judge))
    say(row)
    judged(capped_solve(problem, "auto", 1e-5, 10 * args.cap), judge)
    return row, judge


def liblinear(setting: Setting, C: float, weights: np.ndarray, judge: FixedJudge, cap: float) -> dict:
    """The row of LIBLINEAR, with the lowest constant column that gets to the gap."""
    ranks = setting.gram.ranks
    per_column = np.repeat(np.sqrt(weights), ranks)
    used = per_column > 0
    X = np.ascontiguousarray(setting.gram.features[:, used] * per_column[used])
    kernel = np.repeat(np.arange(len(ranks)), ranks)[used]
    for scaling in SCALINGS:
        row = sharpened(X, setting.y, C, scaling, judge, kernel, cap)
        if not row["cut"] or row["late"]:
            break
    return row


def sharpened(X, y, C: float, scaling: float, judge: FixedJudge, kernel: np.ndarray, cap: float) -> dict:
    """LIBLINEAR with its tolerance halved until the gap is met; the passes of a solve are bounded by the cap."""
    _, first = one_solve(X, y, C, scaling, 1e-1, 1)
    tol, pace = 1.0, max(first.seconds, 1e-4)
    while True:
        passes = max(1, int(cap / pace))
        model, watch = one_solve(X, y, C, scaling, tol, passes)
        gap, done = liblinear_gap(model, X, judge, kernel), int(np.max(model.n_iter_))
        stopped, pace = done >= passes, watch.seconds / done  # shrinking makes later passes cheaper
        late = stopped and watch.seconds > cap / 2
        if gap <= TOL or late or tol < 1e-12:
            break
        tol = tol if stopped else tol / 2
    return {
        "name": LIBLINEAR, "C": C, "seconds": watch.seconds, "wall": watch.wall, "cut": gap > TOL, "late": late,
        "gap": gap, "own_gap": gap, "iterations": done, "tol": tol, "intercept_scaling": scaling,
        "one_pass_seconds": first.seconds,
    }  # fmt: skip


def one_solve(X, y, C: float, scaling: float, tol: float, passes: int) -> tuple[LinearSVC, Stopwatch]:
    """One timed fit, the best of three where it is quick."""
    best = None
    for _ in range(3):
        model = LinearSVC(
            loss="hinge", dual=True, C=C, tol=tol, max_iter=passes, intercept_scaling=scaling, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the gap says whether it converged
            with Stopwatch() as watch:
                model.fit(X, y)
        best = min(best or watch, watch, key=lambda w: w.seconds)
        if watch.seconds > 0.5:
            break
    return model, best


def liblinear_gap(model: LinearSVC, X: np.ndarray, judge: FixedJudge, kernel: np.ndarray) -> float:
    """The relative distance of its primal value, over the best bias and scale, from the best lower bound."""
    coef = model.coef_[0]
    squares = np.bincount(kernel, coef**2, minlength=len(judge.fixed))
    value, *_ = judge.primal(X @ coef, np.sqrt(judge.fixed * squares))
    return (value - judge.lower) / abs(value)


# ------------------------------------------------------------------------------------------------ report


def show(setting: Setting, rows: list[dict], args, title: str) -> None:
    """Print one table: a row for each contestant, a column for each C."""
    found = {(row["name"], row["C"]): row for row in rows}
    names = list(dict.fromkeys(row["name"] for row in rows))
    headers = [title, *(f"C = {C:g}" for C in args.C)]
    lines = [[name, *(cell(found.get((name, C))) for C in args.C)] for name in names]
    lines += [[text, *(ratio(found, over, C) for C in args.C)] for text, over in COMPARED if over in names]
    print(f"\n{table(headers, lines)}")
    chosen = sorted({row["solver"] for row in rows if row["name"] == "auto"})
    print(f'seconds to {TOL:g} (iterations, as each solver counts them); "auto" chose {", ".join(chosen)}')
    for row in rows:
        if row["gap"] is not None and row["gap"] > 1.01 * TOL and not row["cut"]:
            print(f"  {row['name']} at C = {row['C']:g}: the judge says {row['gap']:.2e}, {row['status']}")


def cell(row: dict | None) -> str:
    """Seconds and iterations, or the gap at which the run was cut off."""
    if row is None:
        return "not run"
    if row["cut"]:
        stalled = "stalled, " if row.get("status") == "STALLED" else ""
        return f"> {row['seconds']:.3g} ({stalled}{number(row['own_gap'], 1)})"
    gap = f", gap {row['gap']:.1e}" if row["name"] == LIBLINEAR else ""
    return f"{row['seconds']:.3g} ({row['iterations']}{gap})"


def ratio(found: dict, over: str, C: float) -> str:
    """Seconds of "auto" over those of another row, with a sign where one of them was cut off."""
    mine, theirs = found.get(("auto", C)), found.get((over, C))
    if not mine or not theirs or (mine["cut"] and theirs["cut"]):
        return "-"
    sign = "> " if mine["cut"] else "< " if theirs["cut"] else ""
    return sign + number(mine["seconds"] / theirs["seconds"])


def show_prototypes(key: str, args) -> None:
    """Print the figures of the prototypes for this size, if there are any."""
    if key not in PROTOTYPES or args.sizes == "small":
        return
    places = [COSTS.index(C) if C in COSTS else None for C in args.C]
    lines = [
        [name, *("-" if j is None or figures[j] is None else figures[j] for j in places)]
        for name, figures in PROTOTYPES[key].items()
    ]
    headers = ["prototypes, fixed weights (similar data)", *(f"C = {C:g}" for C in args.C)]
    print(f"\n{table(headers, lines)}")
    if (key, args.penalty) in LEARNED:
        print(f"prototype with learned weights, every C: {LEARNED[key, args.penalty]} s")


def say(row: dict) -> None:
    """A line of progress on the error stream."""
    gaps = f"gap {number(row['own_gap'], 2)}, judged {number(row['gap'], 2)}"
    print(f"  {row['name']}, C={row['C']:g}: {number(row['seconds'])} s, {gaps}", file=sys.stderr, flush=True)


def warm_up(solvers, args) -> None:
    """Compile what is compiled, on a tiny problem with each penalty and solver."""
    from kernelweave import LowRankGram, Problem, losses, penalties

    V = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    gram, y = LowRankGram(V, [3, 3]), np.where(V[:, 0] > 0, 1.0, -1.0)
    for penalty in (our_penalty(NORMS[args.penalty]), penalties.Fixed()):
        for solver in solvers:
            loss = losses.SquaredHinge() if solver == "newton" else losses.Hinge()
            capped_solve(Problem(gram, loss.bind(y, 1.0), penalty), solver, 1e-2, 60)


def run_case(key: str, args) -> dict:
    """One data set from features to tables."""
    setting, best = make(key, args.sizes == "small"), {}
    print(f"\n{setting.name}, {args.penalty}; features made in {setting.features.seconds:.3g} s (not counted)")
    rows = learn(setting, args, args.solvers, False, best)
    rows += use(setting, args, best)
    show(setting, rows, args, "hinge, learned weights")
    show_prototypes(key, args)
    report = {"name": setting.name, "features_seconds": setting.features.seconds, "rows": rows}
    if key == "6000":
        report["squared_hinge"] = learn(setting, args, args.squared, True, {})
        show(setting, report["squared_hinge"], args, "squared hinge, learned weights")
    return report


def main() -> None:
    parser = options(__doc__, cap=60.0, sizes=True)
    parser.add_argument("--cases", default="6000,20000,ijcnn1", help="cases to run, for example 6000,ijcnn1")
    parser.add_argument("--C", default="1,10,100,1000", help="costs, for example 1,100")
    parser.add_argument("--penalty", default="l2", choices=NORMS, help="norm of the weights")
    parser.add_argument("--solvers", default=",".join(SOLVERS), help="our solvers, by name")
    args = parser.parse_args()
    args.C = [float(C) for C in args.C.split(",")]
    args.cases, args.solvers = args.cases.split(","), args.solvers.split(",")
    args.squared = [s for s in SQUARED if s in args.solvers or s == "newton"]
    pools = ", ".join(f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info())
    print(f"OMP_NUM_THREADS = {THREADS}; threads: {pools}; relative gap {TOL:g}, cap {args.cap:g} s")
    warm_up([*args.solvers, "newton"], args)
    report = {"gap": TOL, "cap": args.cap, "sizes": args.sizes, "penalty": args.penalty, "cases": {}}
    for key in args.cases:
        report["cases"][key] = run_case(key, args)
    name = "lowrank" if args.penalty == "l2" else f"lowrank_{args.penalty.replace('/', '_')}"
    print("\nwritten to", save(name + ("_small" if args.sizes == "small" else ""), report))


if __name__ == "__main__":
    main()
