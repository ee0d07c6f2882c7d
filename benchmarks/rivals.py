"""All recipes on six data sets: seconds to the same certified gap, and accuracy in nested cross-validation.

Part a, where methods have the same problem. Each recipe that minimises the l1, the lp (p = 2) or the squared-lp problem
with the hinge, or the l1 problem with the squared hinge, runs beside further solvers of the library and beside its
default, `auto`, on the same stored kernels until the certified relative gap is 1e-3. Every fit has a process of its own
and is ended after `--cap` wall seconds; on a busy computer it has then had fewer seconds of the processor, see its
line. Seconds are CPU seconds of one thread, the best of several fits, seven at most, until 0.5 s are spent; kernels are
computed beforehand, judging is counted, for all alike. Recipes with the same solver on the same problem share a line;
one is left out on more than twice the samples that it scales to by its own line in the table of recipes.
Afterwards a judge that shares no code with the library looks at every answer (not for squared-lp, which it does not
know): column "judged".

Part b, for all recipes. Three outer splits, each a third of the rows for testing; C is the one of 1, 10 and 100 with
the best mean accuracy in three inner folds, the smallest of equals; the recipe is then trained with it on the outer
training rows. Tables are standardised on training rows. A fit is ended after a quarter of `--cap`; a solver so ended
shows the best point it had, and a fit with nothing to show counts as wrong throughout. Seconds are those of the last
training. The error of a mean is what drawing so many test rows gives; ranks of recipes within it say nothing.

Where our default is not the fastest: a step of its Newton method reads the kernels in play twice (the combined kernel,
and what the step changes in all products), a machine of spg or level once and for the energies of its support vectors.
On some hundred rows where two to six such machines are enough, that decides; on harder problems (larger C, more rows)
the quadratic convergence does. For squared-lp, smo-mkl moves one pair at a time and reads only their columns, which is
best where few duals move; with kernels of low rank or C = 100 on thousands of rows it takes many times as long.

Tables of one piece (wdbc, ionosphere, sonar, spambase) have kernels on all columns and on each third of them, those of
views (protein, mfeat) on each view. Part a: Gaussians of three widths and polynomials of degree 1 and 2 on each for
tables, of two widths and degree 2 for views. Part b: one Gaussian and one polynomial of degree 2 on each; gmkl, which
learns widths, has the Gaussians only. All have a unit diagonal. Rows are drawn once, stratified. The question put to
protein is all-alpha or all-beta against the other folds, to mfeat the digit 8 against the rest.

Cells are written as they are made, and a second start goes on where the first one stopped.

    python benchmarks/rivals.py                          # an hour or two
    python benchmarks/rivals.py --part a --only wdbc,sonar --cap 20
    python benchmarks/rivals.py --fast --cap 4           # minutes, to see that everything runs
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold, train_test_split

from common import (
    TOL,
    Cells,
    Judge,
    SquaredJudge,
    Stack,
    Stopwatch,
    capped,
    capped_solve,
    load,
    markdown,
    number,
    options,
    rows_of,
    standardised,
    table,
)

OURS = "auto"
VIEWS = {
    "protein": ("view_COM", "kpca_SEC", "view_HYD", "view_VOL", "view_POL", "view_PLZ"),
    "mfeat": ("view_fac", "view_fou", "view_kar", "view_mor", "view_pix", "view_zer"),
}
ROWS = {"wdbc": 569, "ionosphere": 351, "sonar": 208, "spambase": 1000, "protein": 694, "mfeat": 1000}  # of part a
MOST = 150  # rows of part b
COSTS = (1.0, 10.0, 100.0)  # to choose from in part b
FOLDS = 3
REPEAT = 7


# ------------------------------------------------------------------------------------------------ samples


def table_of(name: str, most: int) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Some rows X and labels y of a data set, and the groups of columns its kernels look at."""
    if name in VIEWS:
        data = load({"protein": "protein_fold", "mfeat": "mfeat_digits"}[name])
        views = [data[view].astype(float) for view in VIEWS[name]]
        X, ends = np.hstack(views), np.cumsum([view.shape[1] for view in views])
        y = data["y_binary"].astype(float) if name == "protein" else np.where(data["y"] == 8, 1.0, -1.0)
        groups = [list(range(end - view.shape[1], end)) for view, end in zip(views, ends, strict=True)]
    else:
        X, y = rows_of(name)
        every = list(range(X.shape[1]))
        groups = [every, *(part.tolist() for part in np.array_split(every, 3))]
    if most < len(y):
        X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=0)
    return X, y, groups


def bank(groups: list[list[int]], widths: tuple[float, ...], degrees: tuple[int, ...]) -> list:
    """Gaussians and polynomials on each group of columns."""
    from kernelweave import kernels as K

    made: list = []
    for on in groups:
        made += [K.RBF(gamma=width / len(on), on=on) for width in widths]
        made += [K.Polynomial(degree=d, gamma=1 / len(on), coef0=1.0, on=on).normalised() for d in degrees]
    return made


def apart(job: Callable[[], dict], cap: float, fits: int, size: tuple[int, ...]) -> dict:
    """The cell that a job of so many fits returns in a process of its own, which is ended where they do not end."""
    facts = dict(zip(("rows", "bank"), size, strict=True))
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(job()))
    process.start()
    theirs.close()
    lost = {"seconds": None, "gap": None, "cut": True}
    try:
        return (ours.recv() if ours.poll(1.5 * fits * cap + 20) else lost) | facts
    except EOFError:
        return lost | facts
    finally:
        process.kill()
        process.join()


# ------------------------------------------------------------------------------------------------ part a


@dataclass(frozen=True)
class Family:
    """A problem that several methods solve."""

    penalty: str
    loss: str = "hinge"
    others: tuple[str, ...] = ()  # solvers that no recipe stands for
    judge: Callable | None = None

    def contestants(self, samples: int = 0) -> dict[str, object]:
        """Solvers by the names of their recipes, our default first, without those for far fewer samples."""
        from kernelweave import recipes

        found: dict[str, tuple[object, list[str]]] = {OURS: (OURS, [OURS])}
        for recipe in recipes().values():
            same = recipe.penalty == self.penalty and recipe.loss == self.loss and recipe.approximation is None
            if same and recipe.solver is not None and samples <= 2 * float(recipe.scales.split(",")[0]):
                found.setdefault(repr(recipe.solver), (recipe.solver, []))[1].append(recipe.name)
        return {", ".join(names): solver for solver, names in found.values()} | {name: name for name in self.others}


FAMILIES = {
    "l1": Family("l1", others=("spg", "proximal"), judge=partial(Judge, p=1)),
    "lp": Family("lp", others=("smo",), judge=partial(Judge, p=2)),
    "squared-lp": Family("squared-lp", others=("smo",)),
    "l1, squared hinge": Family("l1", "squared_hinge", ("proximal",), partial(SquaredJudge, p=1)),
}


def problem_of(family: Family, G: np.ndarray, y: np.ndarray, C: float):
    """The problem on a stack with samples first."""
    from kernelweave.grams import DenseGram
    from kernelweave.losses import Hinge, SquaredHinge
    from kernelweave.penalties import L1, Lp, SquaredLp
    from kernelweave.problem import Problem

    loss = Hinge() if family.loss == "hinge" else SquaredHinge()
    return Problem(DenseGram(G), loss.bind(y, C), {"l1": L1, "lp": Lp, "squared-lp": SquaredLp}[family.penalty]())


def race(family: Family, solver, G: np.ndarray, y: np.ndarray, C: float, cap: float) -> dict:
    """One method on one problem, the fastest of several fits where it is quick."""
    problem, spent = problem_of(family, G, y, C), 0.0
    best = None
    for _ in range(REPEAT):
        run = capped_solve(problem, solver, TOL, cap)
        best = run if best is None or run.watch.seconds < best.watch.seconds else best
        spent += run.watch.seconds
        if spent > 0.5 or run.cut:
            break
    gap = best.gap if np.isfinite(best.gap) else None
    cell = {"seconds": best.watch.seconds, "wall": best.watch.wall, "gap": gap, "cut": best.cut}
    if best.solution is None:
        return cell
    found = best.solution
    judge = family.judge(Stack(G, "samples"), y, C) if family.judge else None
    for beta in (found.coef, found.beta) if judge else ():
        judge.see(beta, found.weights)
    return cell | {
        "solver": found.solver, "status": found.status.name, "steps": found.n_iter, "lower": found.certificate.lower,
        "upper": found.certificate.upper, "judged": judge.gap if judge else None,
        "kept": int(np.sum(found.weights > 1e-4 * found.weights.max())),
    }  # fmt: skip


def warm_up(part: str) -> None:
    """Compile and load what the contestants need, so that their processes find it there."""
    from kernelweave import recipes

    X = np.random.default_rng(0).normal(size=(40, 3))
    y, groups = np.sign(X[:, 0]), [[0, 1], [2]]
    if part == "b":
        for who in recipes():
            trained(who, groups, 1.0, 30.0, X, y, X, y)
        return
    G = np.stack([kernel(X) for kernel in bank(groups, (1.0,), (2,))], axis=-1)
    for family in FAMILIES.values():
        for solver in family.contestants().values():
            capped_solve(problem_of(family, G, y, 1.0), solver, 0.1, 30.0, max_iter=30)


def key_a(name: str, family: str, C: float, who: str) -> str:
    """The name of a cell of part a."""
    return f"a {name}, {family}, C={C:g}, {who}"


def run_a(cells: Cells, args) -> None:
    """Every method of every family; the data sets in turn."""
    warm_up("a")
    for name in args.only:
        X, y, groups = table_of(name, args.rows[name])
        X = standardised(X, X)[0]
        kernels = bank(groups, (0.5, 2.0), (2,)) if name in VIEWS else bank(groups, (0.25, 1.0, 4.0), (1, 2))
        G = np.stack([kernel(X) for kernel in kernels], axis=-1)
        for label, family in FAMILIES.items():
            for C in args.C:
                for who, solver in family.contestants(len(y)).items():
                    job = partial(race, family, solver, G, y, C, args.cap)
                    cells.get(key_a(name, label, C, who), partial(apart, job, args.cap, 1, G.shape[1:]))
        show_a(cells, name, args)
        write_report(cells, args)


def ranked(cells: Cells, name: str, family: str, C: float) -> list[tuple[str, dict]]:
    """Those who reached the gap by their seconds, then the others by the gap they have."""
    made = {who: cells.made.get(key_a(name, family, C, who)) for who in FAMILIES[family].contestants()}

    def place(entry: tuple[str, dict]) -> tuple[bool, float]:
        cell = entry[1]
        return not reached(cell), cell["seconds"] if reached(cell) else np.inf if cell["gap"] is None else cell["gap"]

    return sorted(((who, cell) for who, cell in made.items() if cell), key=place)


def reached(cell: dict) -> bool:
    """Whether a fit ended at the gap."""
    return cell["gap"] is not None and cell["gap"] <= TOL


def lines_a(cells: Cells, name: str, family: str, C: float) -> list[list[object]]:
    """A table: one line a method."""
    order = ranked(cells, name, family, C)
    best = order[0][1]["seconds"]
    lines = []
    for who, cell in order:
        note = "" if reached(cell) else "cut off" if cell["cut"] else cell.get("status", "").lower()
        times = number(cell["seconds"] / best, 2) if reached(cell) else "-"
        quality = [number(cell["gap"], 2), number(cell.get("judged"), 2), number(cell.get("upper"), 6)]
        counts = [cell.get("kept", "-"), cell.get("steps", "-")]
        lines.append([who, number(cell["seconds"]), times, *quality, *counts, note])
    return lines


HEADERS_A = ["method", "CPU s", "/ best", "gap", "judged", "objective", "kernels", "steps", "note"]


def show_a(cells: Cells, name: str, args) -> None:
    """Print the tables of one data set."""
    for label in FAMILIES:
        for C in args.C:
            print(f"\n{name}, {label}, C = {C:g}: {size_of(cells, 'a', name)}")
            print(table(HEADERS_A, lines_a(cells, name, label, C)), flush=True)


def size_of(cells: Cells, part: str, name: str) -> str:
    """How many rows and kernels, in words."""
    cell = next(cell for key, cell in cells.made.items() if key.startswith(f"{part} {name},"))
    return f"{cell['rows']} rows, {cell['bank']} kernels"


def verdict(cells: Cells, family: str, args) -> str:
    """Where our default is the fastest of a family, and where another one is."""
    first, behind = [], []
    for name in args.only:
        for C in args.C:
            order = ranked(cells, name, family, C)
            mine = dict(order).get(OURS)
            if mine is None:
                continue
            (who, best), case = order[0], f"{name} (C = {C:g})"
            if who == OURS:
                first.append(case)
            elif reached(mine):
                seconds = f"{number(mine['seconds'])} s to {number(best['seconds'])} s"
                behind.append(f"{case}: {number(mine['seconds'] / best['seconds'])} times {who}, {seconds}")
            else:
                behind.append(f"{case}: the gap was not reached, {who} takes {number(best['seconds'])} s")
    return f"{family}: our default is the fastest on {', '.join(first) or 'none'}" + (
        f"; not on {'; '.join(behind)}." if behind else ", so everywhere." if first else "."
    )


def agreement(cells: Cells, family: str, args) -> str:
    """How far apart the objectives are that methods with the same problem certified."""
    worst, clash = 0.0, 0
    for name in args.only:
        for C in args.C:
            done = [cell for _, cell in ranked(cells, name, family, C) if reached(cell)]
            if done:
                uppers, lower = [cell["upper"] for cell in done], max(cell["lower"] for cell in done)
                worst = max(worst, max(uppers) / min(uppers) - 1)
                clash += lower > min(uppers) * (1 + 1e-9)
    return f"{family}: objectives at the gap differ by {number(100 * worst, 2)} % at most; bounds clash {clash} times."


# ------------------------------------------------------------------------------------------------ part b


def trained(who: str, groups: list[list[int]], C: float, cap: float, X, y, Z, t) -> dict:
    """Accuracy on Z, t of one recipe trained on X, y, with its seconds."""
    from kernelweave import recipe

    X, Z = standardised(X, Z)
    model = recipe(who, bank(groups, (1.0,), () if who == "gmkl" else (2,)), C=C)
    got: dict = {"accuracy": 0.0, "gap": None, "cut": True}
    with Stopwatch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what did not converge is marked as cut
        try:
            with capped(cap):
                model.fit(X, y)
            gap = float(getattr(model, "stationarity_", model.dual_gap_))
            got = {"gap": gap, "cut": bool(gap > model.tol)}
        except KeyboardInterrupt:
            pass
    if got["gap"] is not None:
        got["accuracy"] = float(np.mean(model.predict(Z) == t))
    return got | {"seconds": watch.seconds}


def nested(who: str, X, y, groups, outer: int, cap: float) -> dict:
    """One outer split: C chosen in inner folds, then training and testing."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    train, test = list(folds.split(X, y))[outer]
    scores, spent = [], 0.0
    for C in COSTS:
        tries = [
            trained(who, groups, C, cap, X[train[a]], y[train[a]], X[train[b]], y[train[b]])
            for a, b in folds.split(X[train], y[train])
        ]
        scores.append(float(np.mean([one["accuracy"] for one in tries])))
        spent += sum(one["seconds"] for one in tries)
    C = COSTS[int(np.argmax(scores))]
    last = trained(who, groups, C, cap, X[train], y[train], X[test], y[test])
    return {**last, "C": C, "inner": scores, "inner_seconds": spent}


def key_b(name: str, who: str, outer: int) -> str:
    """The name of a cell of part b."""
    return f"b {name}, {who}, split {outer}"


def run_b(cells: Cells, args) -> None:
    """Every recipe on every data set, one outer split after the other."""
    from kernelweave import recipes

    warm_up("b")
    cap = args.cap / 4
    for outer in range(FOLDS):
        for name in args.only:
            X, y, groups = table_of(name, args.most)
            for who in recipes():
                job = partial(nested, who, X, y, groups, outer, cap)
                fits = FOLDS * len(COSTS) + 1
                cells.get(key_b(name, who, outer), partial(apart, job, cap, fits, (len(y), 2 * len(groups))))
            write_report(cells, args)
    print(f"\naccuracy %\n{table(headers_b(cells, args), lines_b(cells, args))}")


def splits(cells: Cells, args) -> dict[str, list[int]]:
    """The outer splits that all recipes have been tried on, for each data set that has any."""
    from kernelweave import recipes

    done = {
        name: [o for o in range(FOLDS) if all(key_b(name, who, o) in cells.made for who in recipes())]
        for name in args.only
    }
    return {name: outer for name, outer in done.items() if outer}


def headers_b(cells: Cells, args) -> list[str]:
    """The columns of the ranking."""
    return ["recipe", "mean rank", "mean", *splits(cells, args), "seconds", "not at tol"]


def lines_b(cells: Cells, args) -> list[list[object]]:
    """The ranking: by the mean over data sets of the place among all recipes, ties sharing the mean place."""
    from kernelweave import recipes

    names, sets = list(recipes()), splits(cells, args)
    if not sets:
        return []
    found = {(who, s): [cells.made[key_b(s, who, o)] for o in outer] for who in names for s, outer in sets.items()}
    right = np.array([[np.mean([c.get("accuracy", 0.0) for c in found[who, s]]) for s in sets] for who in names])
    places = rankdata(-np.round(right, 9), axis=0).mean(1)
    lines = []
    for i in np.argsort(places, kind="stable"):
        mine = [cell for s in sets for cell in found[names[i], s]]
        cut = sum(cell["cut"] for cell in mine)
        tested = np.array([sum(cell["rows"] / 3 for cell in found[names[i], s]) for s in sets])
        error = np.sqrt(np.sum(right[i] * (1 - right[i]) / tested)) / len(sets)  # of a mean of so many tosses
        shown = [f"{100 * right[i].mean():.1f} ± {100 * error:.1f}", *(f"{100 * value:.1f}" for value in right[i])]
        seconds = [cell["seconds"] for cell in mine if cell["seconds"] is not None]
        spent = number(float(np.mean(seconds)), 2) if seconds else "-"
        lines.append([names[i], f"{places[i]:.1f}", *shown, spent, f"{cut} of {len(mine)}" if cut else ""])
    return lines


# ------------------------------------------------------------------------------------------------ report


def write_report(cells: Cells, args) -> Path:
    """Everything as Markdown."""
    about = [" ".join(block.split()) for block in (__doc__ or "").split("\n\n")[1:-1]]
    parts = ["# Every recipe on six data sets", *about]
    raced = [name for name in args.only if any(key.startswith(f"a {name},") for key in cells.made)]
    if raced:
        parts += ["## Seconds to a gap of 1e-3", *(f"- {verdict(cells, label, args)}" for label in FAMILIES)]
        parts += ["All methods of a family have the same optimum:"]
        parts += [f"- {agreement(cells, label, args)}" for label in FAMILIES]
    for name in raced:
        for label in FAMILIES:
            for C in [C for C in args.C if ranked(cells, name, label, C)]:
                parts.append(f"### {name}, {label}, C = {C:g}: {size_of(cells, 'a', name)}")
                parts.append(markdown(HEADERS_A, lines_a(cells, name, label, C)))
    lines = lines_b(cells, args)
    if lines:
        sizes = "; ".join(
            f"{name}: {size_of(cells, 'b', name)}, {len(outer)} of {FOLDS} outer splits"
            for name, outer in splits(cells, args).items()
        )
        parts += ["## Accuracy in nested cross-validation, %", f"{sizes}.", markdown(headers_b(cells, args), lines)]
    return cells.report(parts)


def main() -> None:
    parser = options(__doc__, cap=60.0)
    parser.add_argument("--only", default=",".join(ROWS), help="data sets, for example wdbc,sonar")
    parser.add_argument("--part", default="a,b", help="a: seconds to the gap, b: accuracy")
    parser.add_argument("--C", default="1,100", help="costs of part a")
    parser.add_argument("--again", action="store_true", help="measure everything again")
    args = parser.parse_args()
    args.only, args.part = args.only.split(","), args.part.split(",")
    args.C = [float(C) for C in args.C.split(",")]
    args.rows = {name: min(rows, 120) if args.fast else rows for name, rows in ROWS.items()}
    args.most = 60 if args.fast else MOST
    cells = Cells("rivals_fast" if args.fast else "rivals", args.cap, args.again, {"gap": TOL})
    if "a" in args.part:
        run_a(cells, args)
        print("\n" + "\n".join([verdict(cells, label, args) for label in FAMILIES]))
        print("\n".join([agreement(cells, label, args) for label in FAMILIES]))
    if "b" in args.part:
        run_b(cells, args)
    cells.write()
    print(f"\nwritten to {write_report(cells, args)}")


if __name__ == "__main__":
    main()
