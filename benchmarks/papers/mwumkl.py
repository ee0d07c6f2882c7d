"""Figure 1 of Moeller, Raman, Saha and Venkatasubramanian, multiple kernel learning by MWU, measured again.

What the paper concludes from its figure is set beside accuracy and seconds measured here, on the same two data sets.
It names neither kernels, nor C, nor splits. Here there are twelve kernels on all columns: nine Gaussians, whose gamma
is 1/16 to 16 times 1 / (columns x variance), the linear kernel, and polynomials of degree 2 and 3. Each is scaled to
a mean diagonal of 1, the paper's trace normalisation. Splits are 70/30, stratified, seeded. The columns of pima are
standardised on the training part; the 0/1 columns of adult stay as they are.

n is read as the number of all rows, since the 768 of pima are the whole set: 9768 rows of adult, of which 70 % are for
training. They are drawn once from the 32561 rows of a9a, of which they are 30 %. With `--rows 13954` the rows for
training would be 9768.

Methods: the recipes mwu-mkl (its own gap of 1e-2, and 1e-1 beside it) and mwu-mkl-paper (the paper's step, 1e-1);
UNIFORM as recipe svm-average and, since the paper ran an SVM, as LIBSVM on the mean kernel; SKM; lp with p = 2 by our
default solver and by the alternation, which also stands for GroupMKL, as it does with l1; our default, l1; and l1
with the squared hinge, which is the problem of mwu-mkl solved to 1e-3. All others go to a certified gap of 1e-3 too,
LIBSVM to its own default, judged afterwards. C is 1 for all, or --C, which is not the same to all: the squared hinge is
weighed by C/2, and weights sum to 1 with UNIFORM and l1 but to more with p = 2.

Kernels are float32, computed once for each split and shared; their seconds stand apart. Seconds are of the solver
alone, CPU seconds on one thread, or wall seconds on OMP_NUM_THREADS; run it alone on a machine. LIBSVM's include the
sum of the kernels, as every solver's do. `--cap` ends a fit with its best certified point, whose accuracy counts;
LIBSVM is not capped. A kernel is kept when its weight is above 1e-4 of the largest.

Cells are written as they are made, and a second start goes on where the first one stopped; cells cut off by a smaller
--cap are made again.
"""

from __future__ import annotations

import sys
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    RESULTS,
    Cells,
    Stopwatch,
    canvas,
    capped_solve,
    load,
    markdown,
    number,
    options,
    rows_of,
    standardised,
)

SETS = ("pima", "adult")
KEPT = 1e-4  # share of the largest weight above which a kernel counts as kept
CLOSE = 0.01  # accuracies this close count as comparable
SEVERE = 10.0  # times UNIFORM that count as severe degradation
MWU, ROUGH, PAPER = OURS = ("mwu-mkl", "mwu-mkl to 1e-1", "mwu-mkl-paper")
AVERAGE, LIBSVM = UNIFORM = ("UNIFORM, svm-average", "UNIFORM, LIBSVM")
KERNELS = "kernels"

SAYS = {
    "small": "Small data (n <= 2000): accuracy comparable to the best of the related methods.",
    "others": "Large data: most methods other than UNIFORM suffer severe degradation in running time.",
    "large": "Large data: accuracy comparable to UNIFORM.",
    "faster": "Large data: faster than UNIFORM.",
}


def methods() -> dict:
    """Name: an estimator that holds penalty, loss, solver and tolerance; None for LIBSVM."""
    from kernelweave import MKLClassifier, recipe

    return {
        MWU: recipe("mwu-mkl"),
        ROUGH: recipe("mwu-mkl", tol=1e-1),
        PAPER: recipe("mwu-mkl-paper"),
        AVERAGE: recipe("svm-average"),
        LIBSVM: None,
        "SKM": recipe("skm"),
        "lp": recipe("lp-mkl", solver="auto"),
        "lp, alternation": recipe("lp-mkl"),
        "l1, alternation": recipe("lp-mkl", penalty="l1"),
        "l1, our default": MKLClassifier(),
        "l1, squared hinge": MKLClassifier(loss="squared_hinge"),
    }


# ------------------------------------------------------------------------------------------------ samples


def table_of(name: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples X and labels y of a data set; of adult as many rows as asked for, always the same."""
    if name == "pima":
        return rows_of("pima_diabetes")
    X, y = rows_of("adult_a9a")
    chosen = np.random.default_rng(0).permutation(load("adult_a9a")["train_idx"])[:rows]
    return X[chosen], y[chosen]


class Split:
    """70 % of the rows and the rest; kernels are computed when first asked for, and shared by all methods."""

    def __init__(self, X: np.ndarray, y: np.ndarray, run: int, scale: bool):
        X, Z, self.y, self.t = train_test_split(X, y, train_size=0.7, stratify=y, random_state=run)
        X, Z = standardised(X, Z) if scale else (X, Z)
        self.X, self.Z, self.watch = X.astype(np.float32), Z.astype(np.float32), Stopwatch()

    @cached_property
    def made(self):
        """The kernels on the training rows, which the watch times."""
        from kernelweave import kernels
        from kernelweave.assemble import Options, from_samples

        bank = kernels.rbf(factor=[2.0**power for power in range(-4, 5)]) + kernels.linear()
        bank += kernels.polynomial(degree=[2, 3], gamma="scale")
        with self.watch:
            made = from_samples(self.X, bank, Options(), weight=np.ones(len(self.y)))
        if not hasattr(made.gram, "stack"):
            raise SystemExit(f"The kernels of {len(self.y)} rows do not fit in memory: use fewer --rows.")
        return made

    @cached_property
    def across(self) -> dict[int, np.ndarray]:
        """Each kernel between test and training rows."""
        from kernelweave.kernels import evaluate

        return dict(evaluate(self.made.kernels, self.Z, self.X))

    def accuracy(self, coef: np.ndarray, weights: np.ndarray, intercept: float) -> float:
        """Share of right answers on the test rows."""
        f, coef, weights = np.full(len(self.t), intercept), coef.astype(np.float32), weights * self.made.scales
        for k in np.flatnonzero(weights):
            f += weights[k] * (self.across[k] @ coef)
        return float(np.mean((f > 0) == (self.t > 0)))


# ------------------------------------------------------------------------------------------------ fits


def compute(split: Split) -> dict:
    """Seconds of the kernels, and how they are stored."""
    rows, storage = split.made.gram.shape[0], split.made.storage
    return {"seconds": split.watch.seconds, "gap": None, "cut": False, "rows": rows, "storage": storage}


def fit(split: Split, model, C: float, cap: float) -> dict:
    """One method on one split, from kernels to a certified point."""
    from kernelweave import Problem
    from kernelweave.losses import make_loss
    from kernelweave.penalties import make_penalty

    problem = Problem(split.made.gram, make_loss(model.loss).bind(split.y, C), make_penalty(model.penalty))
    run = capped_solve(problem, model.solver, model.tol, cap)
    cut, gap = run.cut or not run.gap <= model.tol, run.gap if np.isfinite(run.gap) else None
    cell = {"seconds": run.watch.seconds, "gap": gap, "cut": cut, "accuracy": None, "kept": None}
    if run.solution is None:
        return cell
    found = run.solution
    return cell | {
        "accuracy": split.accuracy(found.coef, found.weights, found.intercept),
        "kept": int(np.sum(found.weights > KEPT * found.weights.max())),
        "status": found.status.name, "solver": found.solver, "iterations": int(found.n_iter),
    }  # fmt: skip


def fit_libsvm(split: Split, C: float) -> dict:
    """LIBSVM on the mean kernel, judged like ours."""
    from kernelweave import Problem, certify, losses, penalties
    from kernelweave.problem import Point

    gram, y = split.made.gram, split.y
    n, m = gram.shape
    weights, coef = np.full(m, 1 / m), np.zeros(n)
    with Stopwatch() as watch:
        with Stopwatch() as mixing:
            kernel = gram.combine(np.arange(n), weights)
        machine = SVC(kernel="precomputed", C=C).fit(kernel, y)
    coef[machine.support_] = machine.dual_coef_[0]
    judged = certify(Problem(gram, losses.Hinge().bind(y, C), penalties.Fixed()), Point(coef, weights))
    return {
        "seconds": watch.seconds, "mixing": mixing.seconds, "gap": judged.gap, "cut": False, "kept": m,
        "accuracy": split.accuracy(coef, weights, float(machine.intercept_[0])), "solver": "libsvm",
    }  # fmt: skip


def key_of(name: str, who: str, run: int, args) -> str:
    """The name of a cell."""
    return f"{name} n={args.sizes[name]} C={args.C:g} {who} run={run}"


def run_split(cells: Cells, name: str, X: np.ndarray, y: np.ndarray, run: int, args) -> None:
    """All methods on one split."""
    split = Split(X, y, run, scale=name == "pima")
    cells.get(key_of(name, KERNELS, run, args), partial(compute, split))
    for who, model in methods().items():
        job = partial(fit_libsvm, split, args.C) if model is None else partial(fit, split, model, args.C, args.cap)
        cells.get(key_of(name, who, run, args), job)


# ------------------------------------------------------------------------------------------------ what we see


def runs_of(cells: Cells, name: str, who: str, args) -> list[dict]:
    """The cells of one method, a cell for each run."""
    found = (cells.made.get(key_of(name, who, run, args)) for run in range(args.runs))
    return [cell for cell in found if cell]


def mean_of(cells: Cells, name: str, who: str, what: str, args) -> tuple[float, float] | None:
    """Mean and deviation over the runs; None where there is nothing."""
    values = [cell[what] for cell in runs_of(cells, name, who, args) if cell.get(what) is not None]
    return (float(np.mean(values)), float(np.std(values))) if values else None


def unfinished(cells: Cells, name: str, who: str, args) -> int:
    """Runs that did not get to their gap."""
    return sum(cell["cut"] for cell in runs_of(cells, name, who, args))


def seconds_text(cells: Cells, name: str, who: str, args) -> str:
    """Mean seconds, marked as a bound where runs were cut off."""
    more = "> " if unfinished(cells, name, who, args) else ""
    return f"{more}{mean_of(cells, name, who, 'seconds', args)[0]:.3g} s"


def compare(cells: Cells, name: str, other: str, args) -> tuple[bool, str]:
    """Accuracy of mwu-mkl beside another's, split by split."""
    pairs = [
        (mine["accuracy"], theirs["accuracy"])
        for mine, theirs in zip(*(runs_of(cells, name, who, args) for who in (MWU, other)), strict=True)
        if None not in (mine["accuracy"], theirs["accuracy"])
    ]
    if not pairs:
        return False, f"no split has the accuracy of both {MWU} and {other}"
    change = 100 * np.array([a - b for a, b in pairs])
    mine, theirs = 100 * np.mean(pairs, axis=0)
    error = f", standard error {change.std(ddof=1) / len(change) ** 0.5:.2f}" if len(change) > 1 else ""
    text = f"{MWU} {mine:.2f} %, {other} {theirs:.2f} %: {change.mean():+.2f} points (splits: {len(change)}{error})"
    return bool(change.mean() >= -100 * CLOSE), text


def see_small(cells: Cells, args) -> tuple[str, str]:
    """mwu-mkl against the most accurate of the others on pima."""
    means = {who: mean_of(cells, "pima", who, "accuracy", args) for who in methods() if who not in OURS}
    best = max((who for who in means if means[who]), key=lambda who: means[who][0])
    close, text = compare(cells, "pima", best, args)
    return verdict([close]), f"the best other on pima is {best}; {text}"


def see_large(cells: Cells, args) -> tuple[str, str]:
    """mwu-mkl against UNIFORM on adult."""
    close, text = compare(cells, "adult", LIBSVM, args)
    return verdict([close]), text


def see_others(cells: Cells, args) -> tuple[str, str]:
    """Seconds of everybody else over those of UNIFORM on adult."""
    base = mean_of(cells, "adult", LIBSVM, "seconds", args)[0]
    slow, found = [], []
    for who in methods():
        if who not in OURS + UNIFORM:
            times = mean_of(cells, "adult", who, "seconds", args)[0] / base
            cut = unfinished(cells, "adult", who, args)
            slow.append(times > SEVERE)
            found.append(f"{who} {'> ' if cut else ''}{times:.2g}{f' ({cut} cut off)' if cut else ''}")
    text = f"{sum(slow)} of {len(slow)} take over {SEVERE:g} times {LIBSVM}; times {LIBSVM}: {', '.join(found)}"
    return verdict(slow), text


def see_faster(cells: Cells, args) -> tuple[str, str]:
    """Seconds of the three forms of MWU beside those of the two forms of UNIFORM on adult."""
    faster, found = [], []
    for mine in OURS:
        spent, cut = mean_of(cells, "adult", mine, "seconds", args)[0], unfinished(cells, "adult", mine, args)
        ratios = [spent / mean_of(cells, "adult", other, "seconds", args)[0] for other in UNIFORM]
        faster += [ratio < 1 and not cut for ratio in ratios]
        shown = " and ".join(f"{ratio:.2g} times {other}" for ratio, other in zip(ratios, UNIFORM, strict=True))
        found.append(f"{mine} takes {seconds_text(cells, 'adult', mine, args)}, {'over ' if cut else ''}{shown}")
    mixing = mean_of(cells, "adult", LIBSVM, "mixing", args)[0]
    theirs = ", ".join(f"{other} {seconds_text(cells, 'adult', other, args)}" for other in UNIFORM)
    return verdict(faster), f"{'; '.join(found)} ({theirs}, of which the mean kernel {mixing:.2g} s)"


def verdict(seen: list[bool]) -> str:
    """Whether all, some or none of the comparisons are as the paper says."""
    if all(seen):
        return "yes"
    return f"in {sum(seen)} of {len(seen)} comparisons" if any(seen) else "no"


def conclusions(cells: Cells, args) -> str:
    """The paper's conclusions beside what the cells say."""
    looks = {"small": ("pima", see_small), "others": ("adult", see_others)}
    looks |= {"large": ("adult", see_large), "faster": ("adult", see_faster)}
    rows = []
    for key, (name, look) in looks.items():
        rows.append([SAYS[key], *(look(cells, args) if name in args.sets else ("not run", ""))])
    return markdown(["the paper says", "seen", "here"], rows)


# ------------------------------------------------------------------------------------------------ report


def method_table(cells: Cells, name: str, args) -> str:
    """Accuracy, seconds, gap and kernels kept, a row for each method."""
    rows = []
    for who, model in methods().items():
        found = runs_of(cells, name, who, args)
        means = [mean_of(cells, name, who, what, args) for what in ("accuracy", "seconds", "kept")]
        accuracy, seconds, kept = means
        gaps = [cell["gap"] for cell in found if cell["gap"] is not None]
        cut = unfinished(cells, name, who, args)
        rows.append([
            who, "hinge" if model is None else model.loss, "LIBSVM's own" if model is None else f"{model.tol:g}",
            f"{100 * accuracy[0]:.2f} ± {100 * accuracy[1]:.2f}" if accuracy else "-",
            f"{'> ' if cut else ''}{seconds[0]:.3g} ± {seconds[1]:.2g}", number(max(gaps), 2) if gaps else "-",
            f"{kept[0]:.3g}" if kept else "-", f"{len(found) - cut} of {len(found)}",
        ])  # fmt: skip
    headers = ["method", "loss", "gap asked for", "accuracy %", "seconds", "largest gap", "kernels kept", "finished"]
    return markdown(headers, rows)


def heading(cells: Cells, name: str, args) -> str:
    """A data set, and what its kernels took."""
    made = runs_of(cells, name, KERNELS, args)
    spent = mean_of(cells, name, KERNELS, "seconds", args)[0]
    size = f"{args.sizes[name]} rows, {made[0]['rows']} of them for training"
    kernels = f"Kernels: {spent:.3g} s for each split, {made[0]['storage']}."
    return f"## {name}: {size}\n\n{kernels} Splits: {args.runs}. C = {args.C:g}."


def write_report(cells: Cells, args) -> Path:
    """Everything as Markdown."""
    about = [" ".join(part.split()) for part in __doc__.split("\n\n")[1:-1]]
    parts = [f"# {__doc__.split('.')[0]}", *about, "## What the paper concludes, and what we see"]
    rule = f"Comparable: at most {100 * CLOSE:g} more wrong in 100. Severe: over {SEVERE:g} times UNIFORM's seconds."
    parts += [rule, conclusions(cells, args)]
    for name in args.sets:
        parts += [heading(cells, name, args), method_table(cells, name, args)]
    return cells.report(parts)


def draw(cells: Cells, args) -> Path:
    """Accuracy and seconds by method, a line of panels for each data set; cut-off runs as open triangles."""
    figure, axes = canvas(len(args.sets), 2)
    names = list(methods())[::-1]
    for line, name in zip(axes, args.sets, strict=True):
        for panel, what in zip(line, ("accuracy", "seconds"), strict=True):
            for place, who in enumerate(names):
                if found := mean_of(cells, name, who, what, args):
                    cut = unfinished(cells, name, who, args)
                    look = {"marker": ">", "markerfacecolor": "none"} if cut else {"marker": "o"}
                    colour = "C1" if who in OURS else "C2" if who in UNIFORM else "C0"
                    panel.errorbar(found[0], place, xerr=found[1], capsize=2, color=colour, **look)
            panel.set(title=f"{name}, n = {args.sizes[name]}", xlabel=what, yticks=range(len(names)))
            panel.set_yticklabels(names if what == "accuracy" else [], fontsize="small")
            panel.grid(axis="x", alpha=0.3)
        line[0].locator_params(axis="x", nbins=5)
        line[1].set(xscale="log")
    path = RESULTS / f"{cells.name}.png"
    figure.savefig(path, dpi=120)
    return path


# ------------------------------------------------------------------------------------------------ main


def settle(args) -> None:
    """Fill in what the options leave open, small for --fast."""
    args.sets = args.sets.split(",")
    unknown = [name for name in args.sets if name not in SETS]
    if unknown:
        raise SystemExit(f"--sets {unknown[0]} is not known: choose from {', '.join(SETS)}.")
    if args.fast:
        args.runs, args.rows = min(args.runs, 2), 600
    args.sizes = {"pima": 768, "adult": args.rows}


def warm_up() -> None:
    """Compile what is compiled, on few rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(180, 3))
    split = Split(X, np.sign(X[:, 0]), 0, scale=True)
    for model in methods().values():
        fit_libsvm(split, 1.0) if model is None else fit(split, model, 1.0, 60)


def main() -> None:
    parser = options(__doc__, cap=20)
    parser.add_argument("--runs", type=int, default=10, help="random splits (default 10)")
    parser.add_argument("--sets", default=",".join(SETS), help=f"data sets, from {','.join(SETS)}")
    parser.add_argument("--rows", type=int, default=9768, help="rows of adult, training and test (default 9768)")
    parser.add_argument("--C", type=float, default=1.0, help="cost of an error, for all methods (default 1)")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    settle(args)
    tables = {name: table_of(name, args.rows) for name in args.sets}
    cells = Cells("mwumkl_paper_fast" if args.fast else "mwumkl_paper", args.cap, args.again, {})
    warm_up()
    for name, (X, y) in tables.items():
        for run in range(args.runs):
            run_split(cells, name, X, y, run, args)
    path = write_report(cells, args)
    print(path.read_text())
    for written in (cells.write(), path, draw(cells, args)):
        print("written to", written.name)


if __name__ == "__main__":
    main()
