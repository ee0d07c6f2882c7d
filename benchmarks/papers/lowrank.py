"""Figures 1 to 7 of Rakotomamonjy and Chanda, lp-norm multiple kernel learning with low-rank kernels, measured again.

Gaussian kernels with sigma logarithmic in 1..100 (gamma = 1 / (2 sigma^2)), C = 1000, 70/30 splits at random, and the
data sets of the paper's Table 1 that were found (seismic was not; of ijcnn1 only the 49990 rows of its training
part). The paper does not say how columns were scaled: here they are standardised on the training part. Seconds are
CPU seconds in Figures 1 to 5, and wall seconds in 6 and 7, on one thread or on OMP_NUM_THREADS; run these alone on a
machine.

* Figures 1, 2 (p = 2, 50 kernels) and 3, 4 (p = 1.1, 20 kernels, as their captions say): accuracy and seconds by rank.
  Low rank: MKLClassifier with Nystroem and its own choice of solver, features included. Exact: the same with solver
  "sqp" on the whole stack, where that fits in --memory; the paper has SMO-MKL in its place. One basis for all kernels
  (`SharedBasis`), of four times as many columns as a kernel has in low rank, stands beside both. All to a gap of 1e-3.
* Figure 5: seconds by number of kernels at rank 100, p = 2, and on one basis of 200 columns.
* Figures 6 (10 kernels) and 7 (20 kernels): one machine at equal weights, rank 500, seconds by rows, solver alone:
  forward-backward splitting against interior point, and split against merged constraints. Each is measured to gaps
  of 1e-2 and 1e-3. The splitting as printed (scale 1, no over-relaxation) is also run by the paper's rule, a relative
  change of the objective below 1e-4 or 3000 iterations, with the certified gap at which that rule stopped; interior
  point then stands at its first judged point with a gap no larger.

Cells are written as they are made, and a second start goes on where the first one stopped; cells cut off by a smaller
--cap are made again. After a cell was cut off, larger ranks, sizes and further runs of its kind are not asked for.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    RESULTS,
    TOL,
    Cells,
    canvas,
    capped,
    capped_solve,
    gaussians,
    markdown,
    number,
    nystroem,
    options,
    rows_of,
    standardised,
)

C = 1000.0
SETS = {  # in the order of the paper's Table 1; the first four are in its Figures 1 and 3
    "svmguide1": "svmguide1",
    "mushrooms": "mushrooms",
    "magic": "magic",
    "pokerhand": "pokerhand",
    "codrna": "cod_rna",
    "adult": "adult_raw14",
    "ijcnn1": "ijcnn1_train",
}
FIRST = list(SETS)[:4]
SCALING = ("magic", "ijcnn1")  # sets of Figures 6 and 7, where they were chosen
RANKS, COUNTS, ROWS = (10, 25, 50, 100, 200), (5, 10, 20, 30, 40, 50), (500, 1000, 2000, 5000, 10000, 20000, 40000)
KERNELS = {2.0: 50, 1.1: 20}  # by p
EXACT = "exact"
BASIS = 4  # columns of one basis for all kernels, over those of each in low rank
PRINTED = {"scale": 1.0, "relaxation": 1.0}
PAPER_LIMIT = 60  # blocks of 50 iterations
SIMILAR = 0.005  # accuracies this close count as similar
GAPS = (1e-2, 1e-3)

SAYS = {
    "smallest": "For the smallest data sets, running time is in favour of the exact method (SMO-MKL).",
    "accuracy": "Low-rank kernels reach similar accuracies once the rank is large enough.",
    "p": "p = 1.1 behaves like p = 2.",
    "kernels": "Running time by number of kernels is in favour of the low-rank approach.",
    "interior": "GFB is always more efficient than interior point, with a gain from 1.1 to 8.",
    "merged": "Splitting the constraints gains 1 to 3 orders of magnitude over merging them.",
}


# ------------------------------------------------------------------------------------------------ samples


def split(name: str, seed: int, rows: int | None) -> tuple[np.ndarray, ...]:
    """X, X_test, y, y_test: 70 % of the rows, or of as many drawn rows, and the rest; float32, standardised."""
    X, y = rows_of(SETS[name])
    if name == "pokerhand":
        y = np.where(y == 0, 1.0, -1.0)
    if rows is not None and rows < len(y):
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=0)
    X, Z, y, t = train_test_split(X, y, train_size=0.7, random_state=seed)
    X, Z = standardised(X, Z)
    return X.astype(np.float32), Z.astype(np.float32), y, t


# ------------------------------------------------------------------------------------------------ figures 1 to 5


def fit(data, m: int, p: float, rank: int | str, cap: float, seed: int) -> dict:
    """One fit from the samples that `data` gives to a classifier: seconds, gap and test accuracy."""
    from kernelweave import MKLClassifier, Nystroem, SharedBasis, penalties

    X, Z, y, t = data()
    if rank == EXACT:
        kind = {"solver": "sqp"}
    elif isinstance(rank, str):
        kind = {"approximation": SharedBasis(rank=int(rank.split()[-1]))}
    else:
        kind = {"approximation": Nystroem(rank=rank)}
    kind |= {"penalty": penalties.Lp(p), "C": C, "tol": TOL, "normalize": None, "random_state": seed}
    model = MKLClassifier(gaussians(m), **kind)
    begun, fitted = time.process_time(), None
    with suppress(KeyboardInterrupt), capped(cap):
        fitted = model.fit(X, y)
    seconds = time.process_time() - begun
    if fitted is None:
        return {"seconds": seconds, "gap": None, "cut": True, "rows": len(y)}
    lost = model.approximation_error_
    return {
        "seconds": seconds, "gap": model.dual_gap_, "rows": len(y),
        "cut": not model.dual_gap_ <= TOL, "accuracy": float(model.score(Z, t)), "solver": model.solver_,
        "iterations": int(model.n_iter_), "lost_trace": None if lost is None else float(np.mean(lost)),
    }  # fmt: skip


def basis(rank: int) -> str:
    """What stands for one basis of so many columns in the place of a rank."""
    return f"basis {rank}"


def key_of(name: str, p: float, m: int, rank: int | str, run: int) -> str:
    """The name of a fit's cell."""
    return f"{name} p={p:g} m={m} rank={rank} run={run}"


def run_fits(cells: Cells, name: str, p: float, m: int, ranks, args) -> bool:
    """The fits of one data set at growing rank; false when one was cut off, which ends the series."""
    for rank in ranks:
        for run in range(args.runs):
            job = partial(fit, partial(split, name, run, args.rows), m, p, rank, args.cap, run)
            if cells.get(key_of(name, p, m, rank, run), job)["cut"]:
                return False
    return True


def run_ranks(cells: Cells, p: float, args) -> None:
    """Figures 1 to 4: all ranks, and the whole stack where it fits."""
    for name in args.sets:
        run_fits(cells, name, p, args.kernels[p], args.ranks, args)
        run_fits(cells, name, p, args.kernels[p], [basis(BASIS * rank) for rank in args.ranks], args)
        if gigabytes(cells, name, args.kernels[p]) <= args.memory:
            run_fits(cells, name, p, args.kernels[p], [EXACT], args)


def run_counts(cells: Cells, args) -> None:
    """Figure 5: growing number of kernels, low rank, one basis and exact."""
    for name in args.sets:
        for rank in (args.rank, basis(2 * args.rank), EXACT):
            for m in args.counts:
                if rank == EXACT and gigabytes(cells, name, m) > args.memory:
                    break
                if not run_fits(cells, name, 2.0, m, [rank], args):
                    break


def training_rows(cells: Cells, name: str) -> int | None:
    """Training rows of a data set, from any of its cells."""
    return next((cell["rows"] for key, cell in cells.made.items() if key.startswith(f"{name} p=")), None)


def gigabytes(cells: Cells, name: str, m: int) -> float:
    """Size of the whole stack of a data set in float32."""
    rows = training_rows(cells, name)
    return np.inf if rows is None else rows**2 * m * 4 / 1e9


def mean_of(cells: Cells, name: str, p: float, m: int, rank: int | str, what: str) -> tuple[float, float, int] | None:
    """Mean and deviation over the runs, and their number."""
    made = [cells.made.get(key_of(name, p, m, rank, run)) for run in range(100)]
    values = [cell[what] for cell in made if cell and not cell["cut"] and cell.get(what) is not None]
    return (float(np.mean(values)), float(np.std(values)), len(values)) if values else None


# ------------------------------------------------------------------------------------------------ figures 6 and 7


def contestants(figure: int) -> dict[str, tuple]:
    """Name: (solver, whether the paper's rule ends it)."""
    from kernelweave.solvers.literature import GFB, Mehrotra, MergedGFB

    paper = {**PRINTED, "stop": "paper"}
    out = {"GFB": (GFB(), False), "GFB as printed": (GFB(**PRINTED), False), "GFB, paper's rule": (GFB(**paper), True)}
    if figure == 6:
        return out | {"interior point": (Mehrotra(), False)}
    return out | {
        "merged": (MergedGFB(), False),
        "merged as printed": (MergedGFB(**PRINTED), False),
        "merged, paper's rule": (MergedGFB(**paper), True),
    }


def machine(gram, y, solver, by_paper: bool, cap: float) -> dict:
    """One machine at equal weights on the features that `gram` makes: seconds, gap, trail of (seconds, gap)."""
    from kernelweave import Problem, losses, penalties

    problem = Problem(gram(), losses.Hinge().bind(y, C), penalties.Fixed())
    tol, most = (1e-9, PAPER_LIMIT) if by_paper else (min(GAPS), 100_000)
    run = capped_solve(problem, solver, tol, cap, most)
    gap = run.gap if np.isfinite(run.gap) else None
    return {
        "seconds": run.watch.wall, "gap": gap, "cut": run.cut or not (by_paper or run.gap <= tol),
        "columns": problem.gram.features.shape[1], "status": run.solution.status.name if run.solution else None,
        "trail": [(round(seconds, 4), float(f"{reached:.4g}")) for seconds, reached in thinned(run.trail)],
    }  # fmt: skip


def thinned(trail: list) -> list:
    """The points of a trail at which the gap fell by a twentieth or more, and its end."""
    kept: list = []
    for point in trail:
        if not kept or point[1] < 0.95 * kept[-1][1]:
            kept.append(point)
    return kept + trail[-1:] if trail and kept[-1] != trail[-1] else kept


def machine_key(figure: int, name: str, rows: int, who: str) -> str:
    """The name of a machine's cell."""
    return f"figure {figure} {name} rows={rows} {who}"


def run_machines(cells: Cells, figure: int, args) -> None:
    """Figures 6 and 7: growing number of rows."""
    for name in args.scaling:
        X, _, y, _ = split(name, 0, args.rows)
        order, tired = np.random.default_rng(0).permutation(len(y)), set()
        for rows in sizes(len(y), args):
            tired |= run_size(cells, figure, name, X[order[:rows]], y[order[:rows]], tired, args)


def run_size(cells: Cells, figure: int, name: str, X: np.ndarray, y: np.ndarray, tired: set, args) -> set[str]:
    """All methods but the tired ones at one number of rows; those that were cut off."""
    made: dict = {}

    def gram():
        if not made:
            made["gram"], _ = nystroem(gaussians(args.machines[figure]), X, args.big)
        return made["gram"]

    cut = set()
    for who, (solver, by_paper) in contestants(figure).items():
        if who not in tired:
            job = partial(machine, gram, y, solver, by_paper, args.cap)
            if cells.get(machine_key(figure, name, len(y), who), job)["cut"]:
                cut.add(who)
    return cut


def sizes(n: int, args) -> list[int]:
    """Numbers of training rows, up to all of them."""
    return sorted({min(rows, n) for rows in args.sizes})


def seconds_to(cell: dict | None, goal: float) -> float | None:
    """Seconds after which a cell was first judged to have this gap."""
    return next((seconds for seconds, gap in cell["trail"] if gap <= goal), None) if cell else None


# ------------------------------------------------------------------------------------------------ tables


def rank_table(cells: Cells, p: float, args) -> str:
    """Accuracy in per cent and seconds by rank, a row for each data set."""
    m, rows = args.kernels[p], []
    for name in args.sets:
        columns = [fit_cell(cells, name, p, m, rank, args) for rank in (*args.ranks, EXACT)]
        rows.append([name, training_rows(cells, name) or "-", *columns])
        shared = [fit_cell(cells, name, p, m, basis(BASIS * rank), args) for rank in args.ranks]
        rows.append(["", f"one basis, {BASIS} times as many columns", *shared, ""])
    headers = ["data set", "training rows", *(f"rank {rank}" for rank in args.ranks), "exact"]
    return markdown(headers, rows)


def fit_cell(cells: Cells, name: str, p: float, m: int, rank: int | str, args) -> str:
    """Accuracy and seconds, or why there are none."""
    right, spent = (mean_of(cells, name, p, m, rank, what) for what in ("accuracy", "seconds"))
    if right and spent:
        return f"{100 * right[0]:.2f} ± {100 * right[1]:.2f} %, {spent[0]:.3g} s"
    cell = cells.made.get(key_of(name, p, m, rank, 0))
    if cell:
        return f"> {cell['cap']:g} s (gap {number(cell['gap'], 2)})"
    size = gigabytes(cells, name, m)
    return f"not run, {size:.0f} GB" if rank == EXACT and args.memory < size < np.inf else "not run"


def count_table(cells: Cells, args) -> str:
    """Seconds by number of kernels."""
    rows = []
    for name in args.sets:
        for rank in (args.rank, basis(2 * args.rank), EXACT):
            spent = [mean_of(cells, name, 2.0, m, rank, "seconds") for m in args.counts]
            rows.append([name, rank, *(number(s[0]) if s else "-" for s in spent)])
    return markdown(["data set", "rank", *(f"m = {m}" for m in args.counts)], rows)


def machine_table(cells: Cells, figure: int, args) -> str:
    """Seconds to both gaps, and of the paper's rule with the gap it left."""
    rows = []
    for name, size in machine_sizes(cells, figure, args):
        for who in contestants(figure):
            cell = cells.made.get(machine_key(figure, name, size, who))
            if cell:
                shown = ["-", "-"] if "rule" in who else [goal_cell(cell, goal) for goal in GAPS]
                rule = f"{cell['seconds']:.3g} s at a gap of {number(cell['gap'], 2)}" if "rule" in who else ""
                rows.append([name, size, cell["columns"], who, *shown, rule])
    headers = ["data set", "rows", "columns", "method", *(f"s to {goal:g}" for goal in GAPS), "stopped by its rule"]
    return markdown(headers, rows)


def machine_sizes(cells: Cells, figure: int, args) -> list[tuple[str, int]]:
    """Data sets and numbers of rows of which there are cells."""
    found = [(name, size) for name in args.scaling for size in range_of(cells, figure, name)]
    return sorted(found, key=lambda pair: (args.scaling.index(pair[0]), pair[1]))


def range_of(cells: Cells, figure: int, name: str) -> set[int]:
    """Numbers of rows of which there are cells."""
    begin = f"figure {figure} {name} rows="
    return {int(key[len(begin) :].split()[0]) for key in cells.made if key.startswith(begin)}


def goal_cell(cell: dict, goal: float) -> str:
    """Seconds to a gap, or those spent with the gap reached."""
    seconds, stalled = seconds_to(cell, goal), "stalled, " if cell["status"] == "STALLED" else ""
    return number(seconds) if seconds is not None else f"> {cell['seconds']:.3g} ({stalled}{number(cell['gap'], 2)})"


# ------------------------------------------------------------------------------------------------ what we see


def see_smallest(cells: Cells, args) -> str:
    """Exact against the lowest rank that is as accurate, on the data sets where both were run."""
    found = []
    for p, m in args.kernels.items():
        for name in args.sets:
            exact = mean_of(cells, name, p, m, EXACT, "seconds")
            rank = good_rank(cells, name, p, m, args)
            if exact and rank:
                ratio = exact[0] / mean_of(cells, name, p, m, rank, "seconds")[0]
                found.append(f"{name}, p = {p:g}: exact takes {ratio:.2g} times rank {rank}")
    return "; ".join(found) or "no data set has both an exact fit and a rank as accurate"


def good_rank(cells: Cells, name: str, p: float, m: int, args) -> int | None:
    """The lowest rank whose accuracy is at most SIMILAR below the exact one."""
    exact = mean_of(cells, name, p, m, EXACT, "accuracy")
    for rank in args.ranks if exact else ():
        low = mean_of(cells, name, p, m, rank, "accuracy")
        if low and low[0] >= exact[0] - SIMILAR:
            return rank
    return None


def see_accuracy(cells: Cells, args) -> str:
    """The best rank against exact, and what the last doubling of the rank still gained."""
    found = []
    for p, m in args.kernels.items():
        for name in args.sets:
            reached = [(r, a[0]) for r in args.ranks if (a := mean_of(cells, name, p, m, r, "accuracy"))]
            exact = mean_of(cells, name, p, m, EXACT, "accuracy")
            if reached and exact:
                rank, best = max(reached, key=lambda pair: pair[1])
                found.append(f"{name}, p = {p:g}: {100 * (best - exact[0]):+.2f} points at rank {rank}")
            elif len(reached) > 1:
                (before, low), (last, high) = reached[-2:]
                gain = f"{100 * (high - low):+.2f} points from rank {before} to {last}"
                found.append(f"{name}, p = {p:g}: {gain} (no exact fit)")
    return "; ".join(found) or "too few cells"


def see_p(cells: Cells, args) -> str:
    """Accuracy and seconds of p = 1.1 beside p = 2 at equal rank."""
    pairs = []
    for name in args.sets:
        for rank in args.ranks:
            two, one = (
                [mean_of(cells, name, p, args.kernels[p], rank, w) for w in ("accuracy", "seconds")] for p in (2.0, 1.1)
            )
            if all(two) and all(one):
                pairs.append((one[0][0] - two[0][0], one[1][0] / two[1][0]))
    if not pairs:
        return "too few cells"
    change, ratio = np.array(pairs).T
    counts = f"{args.kernels[1.1]} kernels beside {args.kernels[2.0]}"
    return (
        f"accuracy changes by {100 * change.min():+.2f} to {100 * change.max():+.2f} points, "
        f"seconds by a factor of {ratio.min():.2g} to {ratio.max():.2g}, median {np.median(ratio):.2g} ({counts})"
    )


def see_kernels(cells: Cells, args) -> str:
    """Growth of seconds with the number of kernels, and exact over low rank."""
    found = []
    for name in args.sets:
        low, exact = (
            {m: s[0] for m in args.counts if (s := mean_of(cells, name, 2.0, m, rank, "seconds"))}
            for rank in (args.rank, EXACT)
        )
        if len(low) > 1:
            slope = np.polyfit(*np.log([list(low), list(low.values())]), 1)[0]
            both = [exact[m] / low[m] for m in exact if m in low]
            text = f"; exact takes {min(both):.2g} to {max(both):.2g} times that" if both else ""
            found.append(f"{name}: seconds grow like m^{slope:.2g}{text}")
    return ". ".join(found) or "too few cells"


def see_duel(cells: Cells, figure: int, ours: tuple[str, ...], theirs: tuple[str, ...], args) -> str:
    """How many times longer `theirs` takes than `ours`, to each gap and by the paper's rule."""
    found = []
    for goal in GAPS:
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            found.append(f"to a gap of {goal:g}, {other} over {mine}: {ratios(cells, figure, mine, other, goal, args)}")
    rule, gaps = ours[2], []
    for name, size in machine_sizes(cells, figure, args):
        cell = cells.made.get(machine_key(figure, name, size, rule))
        gaps += [cell["gap"]] if cell and cell["gap"] is not None else []
    if gaps:
        found.append(f"the paper's rule stopped GFB at certified gaps of {min(gaps):.2g} to {max(gaps):.2g}")
        spent = rule_ratios(cells, figure, rule, theirs[2], args)
        found.append(f"{theirs[2]} over {rule}, stopped there: {spent}")
    return "; ".join(found)


def ratios(cells: Cells, figure: int, mine: str, other: str, goal: float, args) -> str:
    """Range of seconds over seconds; where one of both did not get there, the cap bounds the ratio."""
    values, only_mine, only_other, neither = [], 0, 0, 0
    for name, size in machine_sizes(cells, figure, args):
        a, b = (seconds_to(cells.made.get(machine_key(figure, name, size, who)), goal) for who in (mine, other))
        values += [b / a] if a and b else []
        only_mine += bool(a and not b)
        only_other += bool(b and not a)
        neither += not a and not b
    text = f"{min(values):.2g} to {max(values):.2g} (sizes: {len(values)})" if values else "no size with both"
    text += f", {only_other} where only {other} gets there" if only_other else ""
    text += f", {only_mine} where only {mine} gets there" if only_mine else ""
    return text + (f", {neither} where neither does" if neither else "")


def rule_ratios(cells: Cells, figure: int, rule: str, other: str, args) -> str:
    """Range of seconds of `other` over those of `rule`; interior point stops at the gap that the rule left."""
    values = []
    for name, size in machine_sizes(cells, figure, args):
        a, b = (cells.made.get(machine_key(figure, name, size, who)) for who in (rule, other))
        if a and b and a["gap"] is not None and not a["cut"]:
            spent = seconds_to(b, a["gap"]) if other == "interior point" else None if b["cut"] else b["seconds"]
            values += [spent / a["seconds"]] if spent else []
    return f"{min(values):.2g} to {max(values):.2g}" if values else "no size with both"


def conclusions(cells: Cells, args) -> str:
    """The printed conclusions beside what the cells say."""
    seen = {
        "smallest": see_smallest(cells, args),
        "accuracy": see_accuracy(cells, args),
        "p": see_p(cells, args),
        "kernels": see_kernels(cells, args),
        "interior": see_duel(
            cells, 6, ("GFB", "GFB as printed", "GFB, paper's rule"), ("interior point",) * 3, args
        ),
        "merged": see_duel(
            cells, 7, ("GFB", "GFB as printed", "GFB, paper's rule"),
            ("merged", "merged as printed", "merged, paper's rule"), args,
        ),
    }  # fmt: skip
    return markdown(["the paper says", "here"], [[SAYS[key], text] for key, text in seen.items()])


# ------------------------------------------------------------------------------------------------ pictures


def draw(cells: Cells, args) -> list[Path]:
    """One picture for each figure of which there are cells."""
    made = []
    for figure, (p, part) in {1: (2.0, True), 2: (2.0, False), 3: (1.1, True), 4: (1.1, False)}.items():
        names = [name for name in args.sets if (name in FIRST) == part]
        made += rank_picture(cells, figure, names, p, args)
    made += count_picture(cells, args)
    return made + machine_picture(cells, 6, args) + machine_picture(cells, 7, args)


def keep(figure, cells: Cells, number: int) -> list[Path]:
    """Write a picture beside the JSON."""
    path = RESULTS / f"{cells.name}_figure{number}.png"
    figure.savefig(path, dpi=120)
    return [path]


def explain(figure, axes) -> None:
    """One legend below, for the curves of all panels."""
    found = {}
    for panel in axes.flat:
        handles, labels = panel.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))


def rank_picture(cells: Cells, number: int, names: list[str], p: float, args) -> list[Path]:
    """Accuracy above, seconds below, by rank; the exact fit as a level line."""
    m = args.kernels[p]
    names = [name for name in names if mean_of(cells, name, p, m, args.ranks[0], "accuracy")]
    if not names:
        return []
    figure, axes = canvas(2, len(names))
    for j, name in enumerate(names):
        for i, what in enumerate(("accuracy", "seconds")):
            points = [(r, v) for r in args.ranks if (v := mean_of(cells, name, p, m, r, what))]
            ranks, values = zip(*points, strict=True)
            means, spreads, _ = zip(*values, strict=True)
            axes[i, j].errorbar(ranks, means, spreads, marker="o", capsize=3, label="low rank")
            shared = [(r, v[0]) for r in args.ranks if (v := mean_of(cells, name, p, m, basis(BASIS * r), what))]
            if shared:
                axes[i, j].plot(*zip(*shared, strict=True), "s-", label=f"one basis of {BASIS} times as many columns")
            exact = mean_of(cells, name, p, m, EXACT, what)
            if exact:
                axes[i, j].axhline(exact[0], color="k", linestyle="--", label="exact (sqp)")
            axes[i, j].set(xscale="log", xlabel="rank", ylabel=what)
            axes[i, j].set_xticks(ranks, [str(r) for r in ranks])
            axes[i, j].set_xticks([], minor=True)
        axes[1, j].set(yscale="log")
        axes[0, j].set(title=f"{name}, p = {p:g}, m = {m}")
    explain(figure, axes)
    return keep(figure, cells, number)


def count_picture(cells: Cells, args) -> list[Path]:
    """Seconds by number of kernels, a panel for each data set."""
    curves = {
        (name, rank): [(m, s[0]) for m in args.counts if (s := mean_of(cells, name, 2.0, m, rank, "seconds"))]
        for name in args.sets
        for rank in (args.rank, basis(2 * args.rank), EXACT)
    }
    names = [name for name in args.sets if len(curves[name, args.rank]) > 1]
    if not names:
        return []
    figure, axes = canvas(1, len(names))
    for panel, name in zip(axes[0], names, strict=True):
        for rank in (args.rank, basis(2 * args.rank), EXACT):
            if curves[name, rank]:
                label = "exact (sqp)" if rank == EXACT else rank if isinstance(rank, str) else f"low rank, {rank}"
                panel.loglog(*zip(*curves[name, rank], strict=True), "o-", label=label)
        panel.set(title=name, xlabel="number of kernels", ylabel="seconds")
        panel.set_xticks(args.counts[::2], [str(m) for m in args.counts[::2]])
        panel.set_xticks([], minor=True)
    explain(figure, axes)
    return keep(figure, cells, 5)


def machine_picture(cells: Cells, number: int, args) -> list[Path]:
    """Seconds by rows: a panel for each gap and one for the paper's rule, a line of panels for each data set."""
    names = [name for name in args.scaling if range_of(cells, number, name)]
    if not names:
        return []
    figure, axes = canvas(len(names), 3)
    for line, name in zip(axes, names, strict=True):
        for panel, goal in zip(line, (*GAPS, None), strict=True):
            for colour, who in enumerate(contestants(number)):
                points = curve(cells, number, name, who, goal)
                if points:
                    panel.loglog(*zip(*points, strict=True), "o-", color=f"C{colour}", label=who)
            title = "by the paper's rule" if goal is None else f"to a gap of {goal:g}"
            panel.set(title=f"{name}, {title}", xlabel="training rows", ylabel="seconds")
            if panel.lines:
                panel.legend(fontsize="small")
    return keep(figure, cells, number)


def curve(cells: Cells, figure: int, name: str, who: str, goal: float | None) -> list[tuple[int, float]]:
    """(rows, seconds) of one method; the goal None is the paper's rule, interior point at the gap it left."""
    points = []
    for rows in sorted(range_of(cells, figure, name)):
        cell = cells.made.get(machine_key(figure, name, rows, who))
        rule = cells.made.get(machine_key(figure, name, rows, "GFB, paper's rule"))
        if goal is not None and "rule" not in who:
            seconds = seconds_to(cell, goal)
        elif goal is None and "rule" in who:
            seconds = cell["seconds"] if cell and not cell["cut"] else None
        elif goal is None and who == "interior point" and rule and rule["gap"] is not None:
            seconds = seconds_to(cell, rule["gap"])
        else:
            seconds = None
        points += [(rows, seconds)] if seconds else []
    return points


# ------------------------------------------------------------------------------------------------ main


def figures_of(key: str) -> set[int]:
    """The figures that a cell may be in."""
    return {int(key.split()[1])} if key.startswith("figure ") else {1, 2, 3, 4, 5}


def write_report(cells: Cells, args) -> Path:
    """All tables as Markdown."""
    m = args.kernels
    parts = [
        "# Low-rank lp-norm MKL: the figures of Rakotomamonjy and Chanda, measured again",
        " ".join(__doc__.split("\n\n")[1].split()),
        "## What the paper concludes, and what we see",
        conclusions(cells, args),
        f"## Figures 1 and 2: p = 2, {m[2.0]} kernels, accuracy and seconds by rank",
        rank_table(cells, 2.0, args),
        f"## Figures 3 and 4: p = 1.1, {m[1.1]} kernels",
        rank_table(cells, 1.1, args),
        f"## Figure 5: seconds by number of kernels, rank {args.rank}, p = 2",
        count_table(cells, args),
        f"## Figure 6: one machine, {args.machines[6]} kernels of rank {args.big}, splitting against interior point",
        machine_table(cells, 6, args),
        f"## Figure 7: one machine, {args.machines[7]} kernels of rank {args.big}, split against merged constraints",
        machine_table(cells, 7, args),
    ]
    return cells.report(parts)


def settle(args) -> None:
    """Fill in what the options leave open, small for --fast."""
    args.sets = args.sets.split(",") if args.sets else (["svmguide1", "magic"] if args.fast else list(SETS))
    unknown = [name for name in args.sets if name not in SETS]
    if unknown:
        raise SystemExit(f"--sets {unknown[0]} is not known: choose from {', '.join(SETS)}.")
    args.scaling = [name for name in SCALING if name in args.sets] or args.sets[:1]
    args.figures = {int(figure) for figure in args.figures.split(",")}
    if args.fast:
        args.runs, args.rows, args.ranks, args.rank, args.big = 1, 800, (10, 25), 25, 40
        args.kernels, args.counts, args.sizes, args.machines = {2.0: 10, 1.1: 5}, (2, 5, 10), (200, 400), {6: 4, 7: 6}
        return
    args.rows, args.rank, args.big = None, 100, 500
    args.ranks = tuple(int(rank) for rank in args.ranks.split(","))
    args.kernels, args.counts, args.sizes, args.machines = KERNELS, COUNTS, ROWS, {6: 10, 7: 20}


def warm_up() -> None:
    """Compile what is compiled, on few rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    for p in KERNELS:
        for rank in (5, basis(5), EXACT):
            fit(lambda: (X, X, y, y), 3, p, rank, 60, 0)


def main() -> None:
    parser = options(__doc__, cap=30)
    parser.add_argument("--runs", type=int, default=5, help="random splits of each fit")
    parser.add_argument("--sets", default="", help=f"data sets, from {','.join(SETS)}")
    parser.add_argument("--ranks", default="10,25,50", help=f"ranks of Figures 1 to 4, from {RANKS}")
    parser.add_argument("--figures", default="1,2,3,4,5,6,7", help="figures to make, for example 6,7")
    parser.add_argument("--memory", type=float, default=8.0, help="gigabytes that an exact stack may take")
    parser.add_argument("--again", action="store_true", help="forget the cells of these figures made before")
    args = parser.parse_args()
    settle(args)
    facts = {"C": C, "gap": TOL}
    cells = Cells("lowrank_paper_fast" if args.fast else "lowrank_paper", args.cap, False, facts)
    if args.again:
        cells.made = {key: cell for key, cell in cells.made.items() if not figures_of(key) & args.figures}
    warm_up()
    for p, figures in ((2.0, {1, 2}), (1.1, {3, 4})):
        if args.figures & figures:
            run_ranks(cells, p, args)
    if 5 in args.figures:
        run_counts(cells, args)
    for figure in sorted(args.figures & {6, 7}):
        run_machines(cells, figure, args)
    path = write_report(cells, args)
    print(path.read_text())
    for written in (cells.write(), path, *draw(cells, args)):
        print("written to", written.name)


if __name__ == "__main__":
    main()
