"""Choosing by cross-validation against tuned rivals: accuracy on splits, and what it costs.

Part a. Ten random splits (two thirds for training, classes in equal shares) of small and middle-sized sets, 2000 rows
at most; columns standardised by the training rows. `MKLClassifierCV` with its defaults stands beside an SVC over a 5 x
5 grid of C and gamma, logistic regression over ten C, the plain average of the same bank over ten C, and histogram
gradient boosting with its defaults. On sets of several views the bank is linear and three widths on each view, and
the rivals get all views side by side. Differences are paired over splits; "behind" says that ours is below the SVC by
more than two standard errors. Regression likewise on scikit-learn's diabetes and two synthetic sets, R2 against SVR and
KernelRidge over grids.

Part b. CPU seconds of the choice at 1000 and 2000 rows of magic and spambase, ten kernels, five folds, beside the SVC
grid and beside `GridSearchCV` over the same candidates and costs.
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
from joblib import Parallel, delayed

from common import Cells, load, markdown, number, options

SETS = (
    "wdbc", "ionosphere", "sonar", "glass", "liver_bupa", "pima_diabetes", "german_credit", "spambase", "letter",
    "mfeat_digits", "protein_fold", "tcga_breast", "3sources",
)  # fmt: skip
NUMBERS = ("diabetes", "friedman", "additive")
MOST = 2000  # rows of a set
FOLDS = 5
COSTS = np.geomspace(1e-2, 1e3, 10)
GAMMAS = np.geomspace(1e-2, 1e2, 5)  # over the number of columns
SVC_COSTS = np.geomspace(1e-1, 1e3, 5)


def views_of(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The views of a set, one called "X" where it has no others, and its labels."""
    import scipy.sparse as sp

    data = load(name)

    def get(key: str) -> np.ndarray:
        if f"{key}_data" in data:
            parts = (data[f"{key}_data"], data[f"{key}_indices"], data[f"{key}_indptr"])
            return sp.csr_matrix(parts, shape=tuple(data[f"{key}_shape"])).toarray().astype(float)
        return data[key].astype(float)

    parts = ("_indices", "_indptr", "_shape")
    names = sorted({key.removesuffix("_data") for key in data if key.startswith("view_") and not key.endswith(parts)})
    views = {key.removeprefix("view_"): get(key) for key in names}
    y = data["y_binary"] if name == "protein_fold" else data["y"]
    return (views or {"X": get("X")}), y


def prepared(views: dict[str, np.ndarray], train: np.ndarray, test: np.ndarray, text: bool):
    """All views side by side, standardised by the training rows (text: rows of length 1), and where each view is."""
    left, right, places, at = [], [], {}, 0
    for name, values in views.items():
        keep = np.ptp(values[train], axis=0) > 0
        A, B = values[train][:, keep], values[test][:, keep]
        if text:
            A, B = (part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in (A, B))
        else:
            mean, scale = A.mean(axis=0), A.std(axis=0)
            A, B = (A - mean) / scale, (B - mean) / scale
        left.append(A)
        right.append(B)
        places[name] = list(range(at, at + A.shape[1]))
        at += A.shape[1]
    return np.hstack(left), np.hstack(right), places


def bank_of(places: dict[str, list[int]]):
    """The default bank, or linear and three widths on each of several views."""
    from kernelweave import kernels as K

    return "auto" if len(places) == 1 else K.views(places)


def contestants(places: dict[str, list[int]], columns: int) -> dict:
    """Estimators by name, each as its users would choose it."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    import kernelweave as kw

    bank = bank_of(places)
    return {
        "ours": kw.MKLClassifierCV(bank),
        "SVC grid": GridSearchCV(SVC(), {"C": SVC_COSTS, "gamma": GAMMAS / columns}, cv=FOLDS),
        "logistic": GridSearchCV(LogisticRegression(max_iter=2000), {"C": COSTS}, cv=FOLDS),
        "average": kw.MKLClassifierCV(bank, candidates=["uniform"]),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }


def regressors(columns: int) -> dict:
    """The same for numbers."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    import kernelweave as kw

    def scaled(model):
        return TransformedTargetRegressor(model, transformer=StandardScaler())

    ridge = {"alpha": 1.0 / SVC_COSTS, "gamma": GAMMAS / columns}
    return {
        "ours": scaled(kw.MKLRegressorCV()),
        "SVR grid": scaled(GridSearchCV(SVR(), {"C": SVC_COSTS, "gamma": GAMMAS / columns}, cv=FOLDS)),
        "ridge grid": scaled(GridSearchCV(KernelRidge(kernel="rbf"), ridge, cv=FOLDS)),
        "boosting": HistGradientBoostingRegressor(random_state=0),
    }


def numbers_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples and numbers to predict."""
    from sklearn.datasets import load_diabetes, make_friedman1

    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    if name == "friedman":
        return make_friedman1(600, 10, noise=1.0, random_state=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] + 0.5 * rng.normal(size=600)


def parts_of(name: str, split: int) -> tuple:
    """Training and test rows of one split, ready to fit, and where each view is."""
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    if name in NUMBERS:
        X, y = numbers_of(name)
        views, cutter = {"X": X}, ShuffleSplit
    else:
        views, y = views_of(name)
        few = np.random.default_rng(0).permutation(len(y))[:MOST]
        views, y, cutter = {key: part[few] for key, part in views.items()}, y[few], StratifiedShuffleSplit
    splits = list(cutter(10, test_size=1 / 3, random_state=0).split(y[:, None], y))
    train, test = splits[split]
    A, B, places = prepared(views, train, test, name == "3sources")
    return A, y[train], B, y[test], places


def compared(name: str, who: str, split: int) -> dict:
    """Score and CPU seconds of one contestant on one split of a set."""
    A, y, B, z, places = parts_of(name, split)
    model = (regressors(A.shape[1]) if name in NUMBERS else contestants(places, A.shape[1]))[who]
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = model.fit(A, y).score(B, z)
    chosen = None
    if who == "ours":
        chosen = getattr(model, "best_candidate_", None) or model.regressor_.best_candidate_
    facts = {"set": name, "split": split, "who": who, "score": float(score), "chosen": chosen}
    return {**facts, "seconds": time.process_time() - begun, "gap": None, "cut": False}


def costs_of(name: str, n: int) -> dict:
    """CPU seconds of the choice, of the SVC grid, and of a grid search over the same candidates."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    import kernelweave as kw
    from kernelweave.estimators.choosing import AUTO

    views, y = views_of(name)
    few = np.random.default_rng(0).permutation(len(y))[:n]
    X, _, _ = prepared({"X": views["X"][few]}, np.arange(n), np.arange(1), False)
    y = y[few]
    kw.MKLClassifierCV(Cs=2, cv=2).fit(X[:100], y[:100])  # compile
    seconds = {}
    grid = {"C": SVC_COSTS, "gamma": GAMMAS / X.shape[1]}
    space = [{"penalty": [c.penalty], "normalize": [c.normalize], "C": COSTS} for c in AUTO]
    jobs = {
        "ours": kw.MKLClassifierCV(),
        "ours, nobody dropped": kw.MKLClassifierCV(drop=False),
        "SVC grid": GridSearchCV(SVC(), grid, cv=FOLDS),
        "GridSearchCV": GridSearchCV(kw.MKLClassifier(), space, cv=FOLDS),
    }
    for who, model in jobs.items():
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        seconds[who] = time.process_time() - begun
        print(f"{name} {n} {who}: {seconds[who]:.1f} s", flush=True)
    return {"set": name, "n": n, **seconds, "seconds": sum(seconds.values()), "gap": None, "cut": False}


def report(rows: list[dict], costs: list[dict]) -> list[str]:
    """The table of scores with paired differences, and that of costs."""
    parts, lines, ahead = [], [], []
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        scores = {who: np.array([r["score"] for r in here if r["who"] == who])
                  for who in dict.fromkeys(r["who"] for r in here)}  # fmt: skip
        tuned = "SVR grid" if name in NUMBERS else "SVC grid"
        apart = scores["ours"] - scores[tuned]
        error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else np.nan
        ahead.append(apart.mean())
        verdict = "behind" if apart.mean() < -2 * error else "ahead" if apart.mean() > 2 * error else "level"
        chosen = [r["chosen"] for r in here if r["who"] == "ours"]
        often = max(set(chosen), key=chosen.count)
        seconds = [np.mean([r["seconds"] for r in here if r["who"] == who]) for who in ("ours", tuned)]
        best = {who: number(100 * part.mean()) for who, part in scores.items()}
        shown = [best.get(who, "-") for who in ("ours", tuned, "logistic", "average", "ridge grid", "boosting")]
        apart_in_words = f"{100 * apart.mean():+.2f} +- {100 * error:.2f}"
        lines.append([name, *shown, apart_in_words, verdict, often, number(seconds[0] / seconds[1], 2)])
    if lines:
        head = ["set", "ours", "SVC or SVR grid", "logistic grid", "average", "ridge grid", "boosting", "ours - grid",
                "verdict", "chosen most often", "CPU seconds over the grid's"]  # fmt: skip
        worse = sum(line[8] == "behind" for line in lines)
        mean = f"Mean difference to the tuned SVC or SVR {100 * np.mean(ahead):+.2f} points; "
        mean += f"behind on {worse} of {len(lines)}."
        parts += ["## Accuracy, or R2, in per cent", markdown(head, lines), mean]
    if costs:
        head = ["set", "rows", "ours (s)", "nobody dropped (s)", "SVC grid (s)", "GridSearchCV (s)", "ours / SVC grid",
                "ours / GridSearchCV"]  # fmt: skip
        everyone = ("ours", "ours, nobody dropped", "SVC grid", "GridSearchCV")
        table = []
        for c in costs:
            ratios = [number(c["ours"] / c[who], 2) for who in everyone[2:]]
            table.append([c["set"], c["n"], *(number(c[who]) for who in everyone), *ratios])
        parts += ["## Cost of a choice, CPU seconds", markdown(head, table)]
    return parts


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sets", default=",".join((*SETS, *NUMBERS)), help="names by comma; empty: none")
    parser.add_argument("--splits", type=int, default=10, help="random splits of each set, ten at most (default 10)")
    parser.add_argument("--rows", default="1000,2000", help="sizes of part b; empty: none")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make part a's cells (default 1)")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    names = ["wine", "diabetes"] if args.fast else [name for name in args.sets.split(",") if name]
    sizes = [200] if args.fast else [int(size) for size in args.rows.split(",") if size]
    cells = Cells("choosing_fast" if args.fast else "choosing", args.cap, args.again, {})
    missing = [
        (name, who, split)
        for name in names
        for split in range(2 if args.fast else args.splits)
        for who in (regressors(1) if name in NUMBERS else contestants({"X": [0]}, 1))
        if f"{name} | {who} | {split}" not in cells.made
    ]
    for cell in Parallel(args.jobs, return_as="generator_unordered")(delayed(compared)(*one) for one in missing):
        cells.get(f"{cell['set']} | {cell['who']} | {cell['split']}", partial(dict, cell))
    for n in sizes:
        for name in ("magic", "spambase"):
            cells.get(f"cost | {name} | {n}", partial(costs_of, name, n))
    made = cells.made
    parts = report([made[key] for key in made if not key.startswith("cost")],
                   [made[key] for key in made if key.startswith("cost")])  # fmt: skip
    print("\n\n".join(parts))
    about = [" ".join(part.split()) for part in __doc__.strip().split("\n\n")[1:]]
    cells.report([f"# {__doc__.split(':')[0]}", *about, *parts])


if __name__ == "__main__":
    main()
