"""Tables 1 and 2 of Meirom and Kisilev, NuC-MKL, measured again: protein fold and Internet advertisements.

Every method of the tables, by its recipe: test accuracy, support vectors in percent of the training samples, active
kernels and calls to a solver of support vector machines, each with its deviation over the runs, beside the printed
numbers. The printed rows other than the last are from the survey of Gonen and Alpaydin (JMLR 2011).

The survey's procedure, as we know it, is followed here:

- A test set that comes with the data is used: 311 proteins to learn from and 383 to test on. Otherwise a third of the
  samples, stratified, is the test set: of the advertisements, drawn once.
- With more than 1000 samples to learn from there are ten runs, both ways round of five halvings (5x2 cross-validation):
  advertisements. Otherwise there are 30, one for each of 30 folds, which validates while the others train: protein.
  Both are stratified, and here the same for all methods. Printed counts are multiples of 1/10 and 1/30, which agrees.
- C is one of 0.01, 0.1, 1, 10 and 100, for each method that with the highest mean accuracy on what validates, over all
  runs; here the smallest of equals. The machines trained with it in the runs are tested. Tables hold mean and deviation
  of these tests, here with n - 1.
- SVM (best) is the view with the highest mean accuracy on what validates, chosen together with C; SVM (all) is one
  kernel on the columns of all views.
- The protein table has the views COM, SEC, HYD, VOL, POL and PLZ; kernels are linear with unit diagonal.

What differs, or had to be guessed:

- SEC is not at hand: its columns are published coordinates of a kernel on it, found from all samples. The other views
  of protein are computed anew from the sequences, which are not quite those of the first publication.
- Columns are standardised on what trains. The kernels of the advertisements are taken to be like those of protein, the
  views to be url, origurl, ancurl, alt and caption. `--degree 2` makes all kernels (x'z + 1)^2, with unit diagonal.
- A kernel is active when its weight is, but for its sign, above 1e-4 of the largest. The kernel that is 1 everywhere,
  which NuC-MKL adds, is not counted.
- NLMKL looks for weights near a centre, within a radius in the norm p, all from zero on; here around 0 and within 1.
  With p = 2 that is NuC-MKL without the kernel that is 1 everywhere, and is solved by the same convex method, not by
  the gradient steps of its paper; with p = 1 it is solved by such steps.
- The printed GMKL keeps 2.37 of six kernels, so it mixed the kernels of the views; the recipe gmkl learns the width of
  one Gaussian per view in a product of them all. It is a different model on the same views.
- CABMKL (linear) may weigh kernels below zero. The negative part of an indefinite sum is then dropped, and what is left
  needs every sample to predict.
- The gates of LMKL are scores of all columns of all views.
- Methods end at a relative duality gap of 1e-3, those that are not convex at a stationarity of 1e-2. Where the survey's
  ended is not known, and calls depend on it.

Calls are support vector machines trained in one fit: one for each step of NuC-MKL, NLMKL (p = 2) and GLMKL; all that
were tried, steps too long included, for NLMKL (p = 1), GMKL and LMKL; one for each view for SVM (best); one for the
methods that weigh kernels beforehand or not at all. SimpleMKL trains several in a step and does not say how many, and
MKL, which is the recipe skm, trains none: these have a dash. Seconds are those of one fit, kernels included, for SVM
(best) those of the chosen view.

Cells are written as they are made, and a second start goes on where the first one stopped. `--cap` ends a fit after so
many wall seconds with the point it has reached, which is validated and tested like any other, and counted as not at
tol. Where a fit is lost, its C is left out for that method, and the table says so. `--minutes` ends the work after the
run under way; the sets take turns, so that both have had their share of runs by then.

    python benchmarks/papers/nuc.py                     # an hour
    python benchmarks/papers/nuc.py --minutes 20        # a third of the runs
    python benchmarks/papers/nuc.py --fast              # half a minute, to see that everything runs
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold, train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import (
    RESULTS,
    THREADS,
    Cells,
    Stopwatch,
    canvas,
    capped,
    load,
    markdown,
    number,
    options,
    standardised,
)

RUNS = {"protein": 30, "advert": 10}
SETS = tuple(RUNS)
VIEWS = {
    "protein": ("view_COM", "kpca_SEC", "view_HYD", "view_VOL", "view_POL", "view_PLZ"),
    "advert": ("view_url", "view_origurl", "view_ancurl", "view_alt", "view_caption"),
}
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
KEPT = 1e-4  # share of the largest weight above which a kernel counts as active
OURS = "nuc-mkl"
SMALL = {"capsize": 2, "markersize": 4}

# method: name in the tables, and for each table accuracy, support vectors in percent, active kernels, calls, each ±
PRINTED = {
    "svm-best": ("SVM (best)", "72.06±0.74 58.29±1.00 1.00±0.00 6.00", "95.45±0.31 64.90±5.41 1.00±0.00 5.00±0.00"),
    "svm-all": ("SVM (all)", "79.13±0.45 62.14±1.04 6.00±0.00 1.00", "96.43±0.24 41.99±1.76 5.00±0.00 1.00±0.00"),
    "rbmkl-mean": ("RBMKL (mean)", "78.01±0.63 60.89±1.02 6.00±0.00 1.00", "96.53±0.58 34.40±4.25 5.00±0.00 1.00±0.00"),
    "rbmkl-product": ("RBMKL (product)", "72.35±0.95 100.00±0.00 6.00±0.00 1.00",
                      "89.98±0.49 96.61±1.71 5.00±0.00 1.00±0.00"),
    "abmkl-conic": ("ABMKL (conic)", "79.03±0.92 49.96±1.01 4.60±0.5 1.00",
                    "95.69±0.27 44.16±2.65 3.00±0.00 1.00±0.00"),
    "abmkl-convex": ("ABMKL (convex)", "76.90±1.17 29.54±0.89 6.00±0.00 1.00",
                     "95.10±0.52 58.07±2.47 3.00±0.00 1.00±0.00"),
    "abmkl-ratio": ("ABMKL (ratio)", "78.06±0.62 56.95±1.07 6.00±0.00 1.00",
                    "96.23±0.61 35.07±2.92 5.00±0.00 1.00±0.00"),
    "cabmkl-linear": ("CABMKL (linear)", "79.51±0.78 49.81±0.82 5.97±0.18 1.00",
                      "95.86±0.19 36.43±1.50 5.00±0.00 1.00±0.00"),
    "cabmkl-conic": ("CABMKL (conic)", "79.28±0.97 49.84±0.77 4.73±0.52 1.00",
                     "95.84±0.19 38.06±2.36 4.40±0.52 1.00±0.00"),
    "skm": ("MKL", "76.38±1.19 29.65±1.02 6.00±0.00 1.00", "96.32±0.50 35.82±4.35 4.10±0.32 1.00±0.00"),
    "simplemkl": ("SimpleMKL", "76.34±1.24 29.62±1.08 6.00±0.00 18.83±4.27",
                  "96.37±0.46 33.78±4.40 4.60±0.52 27.00±7.39"),
    "gmkl": ("GMKL", "74.96±0.50 79.85±0.70 2.37±0.56 37.10±3.23", "96.40±0.49 33.18±3.49 4.70±0.48 27.20±7.94"),
    "glmkl": ("GLMKL (p = 1)", "77.71±0.96 55.80±0.95 6.00±0.00 6.10±0.31",
              "96.35±0.55 32.81±3.56 5.00±0.00 5.40±1.07"),
    "glmkl-p2": ("GLMKL (p = 2)", "77.20±0.42 75.34±0.70 6.00±0.00 5.00±0.00",
                 "96.56±0.32 35.62±1.55 5.00±0.00 4.90±0.74"),
    "nlmkl-p1": ("NLMKL (p = 1)", "83.49±0.76 75.34±0.70 6.00±0.0 17.50±0.51",
                 "95.96±0.50 67.63±3.46 5.00±0.00 15.90±5.38"),
    "nlmkl-p2": ("NLMKL (p = 2)", "82.30±0.62 85.67±0.86 6.00±0.00 13.40±4.41",
                 "96.13±0.31 65.70±3.03 5.00±0.00 13.00±0.00"),
    "lmkl-softmax": ("LMKL (softmax)", "81.91±0.92 89.57±0.77 6.00±0.00 85.27±41.77",
                     "95.68±0.53 24.18±5.74 5.00±0.00 38.80±24.11"),
    "lmkl-sigmoid": ("LMKL (sigmoid)", "80.24±1.37 27.24±1.76 6.00±0.00 103.90±62.69",
                     "95.49±0.48 18.22±12.16 5.00±0.00 56.60±53.70"),
    "nuc-mkl": ("NuC-MKL", "85.2±0.42 36.61±0.99 6.00±0.0 9.13±1.69", "97.28±0.16 23.38±2.44 5.00±0.00 14.3±3.88"),
}  # fmt: skip
RECIPES = {"svm-best": "svm-all"}  # of methods that are not called like their recipe
MACHINES = ("nuc-mkl", "nlmkl-p1", "nlmkl-p2", "gmkl", "glmkl", "glmkl-p2", "lmkl-softmax", "lmkl-sigmoid")
UNCOUNTED = ("skm", "simplemkl")


# ------------------------------------------------------------------------------------------------ samples


def table_of(name: str, most: int | None) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The views of a data set, the labels, and the rows to learn from, of advertisements so many, and to test on."""
    data = load("protein_fold" if name == "protein" else "advertisements")
    views = [data[view].astype(float) for view in VIEWS[name]]
    if name == "protein":
        return views, data["y_binary"].astype(float), data["train_idx"], data["test_idx"]
    y = data["y"].astype(float)
    rows, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=0)
    return views, y, rows[:most], test


def folds(name: str) -> StratifiedKFold | RepeatedStratifiedKFold:
    """What makes the runs of a data set."""
    if name == "protein":
        return StratifiedKFold(RUNS[name], shuffle=True, random_state=0)
    return RepeatedStratifiedKFold(n_splits=2, n_repeats=RUNS[name] // 2, random_state=0)


class Split:
    """Training, validation and test samples of a run, standardised on the first."""

    def __init__(self, name: str, run: int, most: int | None):
        views, labels, rows, test = table_of(name, most)
        train, validate = (rows[part] for part in list(folds(name).split(rows, labels[rows]))[run])
        tables = [[standardised(view[train], view[part])[1] for view in views] for part in (train, validate, test)]
        self.X, self.V, self.T = (np.hstack(parts) for parts in tables)
        self.y, self.v, self.t = labels[train], labels[validate], labels[test]
        ends = np.cumsum([view.shape[1] for view in views])
        ranges = [list(range(end - view.shape[1], end)) for view, end in zip(views, ends, strict=True)]
        self.columns = dict(zip(VIEWS[name], ranges, strict=True))

    def bank(self, who: str, view: str, degree: int) -> list:
        """The kernels of a method: one for each view, for one view, or for all columns together."""
        from kernelweave import kernels as K

        if who == "gmkl":
            return [K.RBF(on=columns) for columns in self.columns.values()]
        groups = [self.columns[view]] if view else list(self.columns.values())
        groups = [list(range(self.X.shape[1]))] if who == "svm-all" else groups
        if degree == 1:
            return [K.Linear(on=columns).normalised() for columns in groups]
        return [K.Polynomial(degree=degree, gamma=1.0, coef0=1.0, on=columns).normalised() for columns in groups]


# ------------------------------------------------------------------------------------------------ fits


def models(name: str, who: str) -> list[str]:
    """What is trained for a method, and chosen from together with the cost: for SVM (best) a machine for each view."""
    return [f"{who} {view}" for view in VIEWS[name]] if who == "svm-best" else [who]


def fitted(model, split: Split, cap: float) -> Stopwatch | None:
    """Fit, up to the cap: the watch, None where that left no model. An alarm at a bad moment gets a second try."""
    for seconds in (cap, 1.1 * cap):
        with Stopwatch() as watch, suppress(KeyboardInterrupt), capped(seconds, again=cap):
            model.fit(split.X, split.y)
            return watch
    return None


def fit(split: Split, what: str, C: float, args) -> dict:
    """One model at one cost in one run."""
    from kernelweave import recipe

    who, _, view = what.partition(" ")
    model = recipe(RECIPES.get(who, who), split.bank(who, view, args.degree), C=C)
    watch = fitted(model, split, args.cap)
    if watch is None:
        return {"seconds": None, "gap": None, "cut": True, "validation": None}
    reached = getattr(model, "stationarity_", model.dual_gap_)
    weights = np.abs(np.atleast_1d(model.weights_)[: len(split.columns)])
    alone = 1 if view else len(split.columns)
    return {
        "seconds": watch.seconds, "gap": reached, "cut": bool(reached > model.tol),
        "validation": float(model.score(split.V, split.v)), "accuracy": float(model.score(split.T, split.t)),
        "support": 100 * len(model.support_) / len(split.y),
        "active": int(np.sum(weights > KEPT * weights.max())) if len(weights) > 1 else alone,
        "calls": int(model.n_iter_) if who in MACHINES else None if who in UNCOUNTED
                 else len(split.columns) if view else 1,
    }  # fmt: skip


def key_of(name: str, what: str, run: int, C: float, args) -> str:
    """The name of a cell."""
    return f"{name} degree={args.degree} {what} fold={run} C={C:g}{' fast' if args.fast else ''}"


def keys_of(name: str, run: int, args) -> dict[str, tuple[str, float]]:
    """All cells of a run, with what they train at which cost."""
    jobs = [(what, C) for who in PRINTED for what in models(name, who) for C in args.costs]
    return {key_of(name, what, run, C, args): (what, C) for what, C in jobs}


def run_all(cells: Cells, args) -> None:
    """Run after run, the sets in proportion, until the time is up."""
    small = Split("advert", 0, 60)
    for who in PRINTED:  # compiled code
        fit(small, models("advert", who)[0], 1.0, args)
    turns = [((run + 1) / RUNS[name], name, run) for name in args.sets for run in range(RUNS[name])[: args.runs]]
    for _, name, run in sorted(turns):
        if time.monotonic() > args.until:
            return
        split = Split(name, run, args.most)
        for key, (what, C) in keys_of(name, run, args).items():
            cells.get(key, partial(fit, split, what, C, args))


# ------------------------------------------------------------------------------------------------ what we see


class Choice(NamedTuple):
    """What a method is tested with: model, cost, its cells run by run, and how many costs could not be judged."""

    what: str
    cost: float
    found: list[dict]
    left_out: int

    def column(self, of: str) -> np.ndarray:
        """One column, run by run; empty where it was not counted."""
        return np.array([cell[of] for cell in self.found if cell[of] is not None], dtype=float)


def runs_done(cells: Cells, name: str, args) -> list[int]:
    """The runs in which every method has been tried at every cost."""
    return [run for run in range(RUNS[name])[: args.runs] if keys_of(name, run, args).keys() <= cells.made.keys()]


def chosen(cells: Cells, name: str, who: str, args) -> Choice:
    """The model and cost with the best mean validation accuracy, the smallest cost of equals."""
    runs, best, left_out = runs_done(cells, name, args), (-np.inf, Choice(who, np.nan, [], 0)), 0
    for C in args.costs:
        for what in models(name, who):
            found = [cells.made[key_of(name, what, run, C, args)] for run in runs]
            values = [cell["validation"] for cell in found]
            if None in values:
                left_out += 1
            elif values and np.mean(values) > best[0]:
                best = np.mean(values), Choice(what, C, found, 0)
    return best[1]._replace(left_out=left_out)


def spread(values: np.ndarray) -> str:
    """Mean and deviation."""
    deviation = f"{np.std(values, ddof=1):.2f}" if len(values) > 1 else "-"
    return f"{np.mean(values):.2f} ± {deviation}" if len(values) else "-"


def remarks(choice: Choice) -> str:
    """What has to be known of a row."""
    cut, view = sum(cell["cut"] for cell in choice.found), choice.what.partition(" ")[2]
    told = [f"{view.partition('_')[2]} alone"] if view else []
    told += [f"{cut} of {len(choice.found)} not at tol"] if cut else []
    return "; ".join(told + ([f"{choice.left_out} C left out"] if choice.left_out else []))


def set_table(cells: Cells, name: str, args) -> str:
    """Our numbers beside the printed ones, a row for each method."""
    rows = []
    for who, (label, *printed) in PRINTED.items():
        choice = chosen(cells, name, who, args)
        ours = [100 * choice.column("accuracy"), *(choice.column(of) for of in ("support", "active", "calls"))]
        theirs = [text.replace("±", " ± ") for text in printed[SETS.index(name)].split()]
        pairs = [text for pair in zip(map(spread, ours), theirs, strict=True) for text in pair]
        seconds = spread(choice.column("seconds"))
        rows.append([label, f"`{RECIPES.get(who, who)}`", *pairs, number(choice.cost), seconds, remarks(choice)])
    headers = ["method", "recipe", "accuracy %", "printed", "support vectors %", "printed", "active kernels", "printed",
               "calls", "printed", "C", f"{'CPU' if THREADS == 1 else 'wall'} seconds", "remarks"]  # fmt: skip
    return markdown(headers, rows)


def compared(cells: Cells, name: str, of: str, sign: int, args) -> str:
    """NuC-MKL against every other method, by the differences run by run."""
    ours, met = chosen(cells, name, OURS, args).column(of), {"ahead of": [], "tied with": [], "behind": []}
    for who in MACHINES if of == "calls" else PRINTED:
        theirs = chosen(cells, name, who, args).column(of)
        if who != OURS and len(theirs) == len(ours) > 1:
            gain = sign * (ours - theirs)
            apart = abs(gain.mean()) > gain.std(ddof=1)
            met["tied with" if not apart else "ahead of" if gain.mean() > 0 else "behind"].append(PRINTED[who][0])
    if not any(met.values()):
        return "not compared: fewer than two runs"
    behind = f" ({', '.join(met['behind'])})" if met["behind"] else ""
    return ", ".join(f"{how} {len(names)}" for how, names in met.items()) + behind


def conclusions(cells: Cells, args) -> str:
    """What the paper says of its method, and what is seen here."""
    says = {
        ("accuracy", 1): "NuC-MKL outperforms all other methods in accuracy.",
        ("support", -1): "Few support vectors: on advertisements near the fewest, on protein under half of NLMKL's.",
        ("calls", -1): "Few calls to the solver, here among methods that train machines again and again.",
    }
    rows = [[text, *(compared(cells, name, *column, args) for name in args.sets)] for column, text in says.items()]
    return markdown(["the paper says", *(f"NuC-MKL here, {name}" for name in args.sets)], rows)


# ------------------------------------------------------------------------------------------------ report

TIED = """Tied means that the mean of the differences, run by run, is within one deviation of these differences. Runs
share samples, so this is no test of significance."""


def write_report(cells: Cells, args) -> Path:
    """Everything as Markdown."""
    blocks = __doc__.split("\n\n")[1:-1]
    about = [block if block.startswith("-") else " ".join(block.split()) for block in blocks]
    heading = "## What the paper says, and what we see"
    parts = [f"# {__doc__.split('.')[0]}", *about, heading, conclusions(cells, args), " ".join(TIED.split())]
    for name in args.sets:
        runs = runs_done(cells, name, args)
        parts.append(f"## {name}: {len(runs)} of {RUNS[name]} runs")
        parts.append(set_table(cells, name, args) if runs else "No run was finished.")
    return cells.report(parts)


def draw(cells: Cells, args) -> Path:
    """Accuracy by method, ours as dots and the printed one as crosses."""
    sets = [name for name in args.sets if runs_done(cells, name, args)]
    figure, axes = canvas(1, max(len(sets), 1))
    names = list(PRINTED)[::-1]
    for panel, name in zip(axes[0], sets, strict=False):
        for place, who in enumerate(names):
            values = 100 * chosen(cells, name, who, args).column("accuracy")
            mean, deviation = PRINTED[who][1 + SETS.index(name)].split()[0].split("±")
            colour, wide = "C1" if who == OURS else "C0", values.std(ddof=1) if len(values) > 1 else 0.0
            if len(values):
                panel.errorbar(values.mean(), place, xerr=wide, fmt="o", color=colour, **SMALL)
            panel.errorbar(float(mean), place, xerr=float(deviation), fmt="x", color="0.6", **SMALL)
        panel.set(title=name, xlabel="accuracy %, dots here, crosses printed", yticks=range(len(names)))
        panel.set_yticklabels([PRINTED[who][0] for who in names] if panel is axes[0][0] else [], fontsize=6)
        panel.grid(axis="x", alpha=0.3)
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
    args.costs, args.most = COSTS, None
    if args.fast:
        args.runs, args.costs, args.most = min(args.runs, 2), COSTS[2:3], 300
    args.until = time.monotonic() + 60 * args.minutes


def main() -> None:
    parser = options(__doc__, cap=10)
    parser.add_argument("--runs", type=int, default=30, help="most runs of a set (default all: 30 and 10)")
    parser.add_argument("--sets", default=",".join(SETS), help=f"data sets, from {','.join(SETS)}")
    parser.add_argument("--degree", type=int, default=1, help="degree of the kernels of the views (default 1, linear)")
    parser.add_argument("--minutes", type=float, default=np.inf, help="after when no run is begun (default never)")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    settle(args)
    cells = Cells("nuc_paper_fast" if args.fast else "nuc_paper", args.cap, args.again, {"costs": args.costs})
    run_all(cells, args)
    path = write_report(cells, args)
    print(path.read_text())
    for written in (cells.write(), path, draw(cells, args)):
        print("written to", written.name)


if __name__ == "__main__":
    main()
