"""Effects of columns and pairs beside boosted trees, explainable boosting, a tuned SVM and xRFM: accuracy and seconds.

Ours is l1 over one kernel for each column and each pair (`K.effects`, explicit features, squared hinge, a certified gap
of 1e-2). What the data decide, by cross-validation in the training rows: C from 0.01 up to 10, until two in a row are
no gain; then, at that C, the price
of pairs over columns, 1, 3, 10 or no pairs at all; then, on small sets, whether these hundreds of kernels do better
than one on all columns together, linear or Gaussian along C, by more than a standard error over the folds. "columns" is
the same without pairs. SVC has its C and gamma chosen from 5 x 5 on the same rows. Explainable boosting,
HistGradientBoosting and xRFM are as they come.

Small sets: --small-splits splits (10), 70 % for training, five folds inside. Large sets: up to --rows training rows and
5000 others for testing, --splits splits, and choices on a third of up to 2000 training rows held out. Everybody has the
same rows. Choices count in the seconds, which are CPU seconds on one thread; categories of adult are told to those who
take them (ours, boosted trees, explainable boosting).
Cells are written as they are made, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, train_test_split

from common import Cells, Stopwatch, capped, load, markdown, options, standardised

LARGE = ("magic", "spambase", "adult_raw14", "higgs_11k", "cod_rna", "letter")
SMALL = ("german_credit", "wdbc", "sonar", "liver_bupa", "pima_diabetes", "ionosphere", "wine", "glass")
CATEGORIES = {"adult_raw14": [1, 3, 5, 6, 7, 8, 9, 13]}
COSTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PRICES = (1.0, 3.0, 10.0, None)
WORSE = 2  # costs in a row without a gain at which larger ones are not tried
TOL = 1e-2


# ------------------------------------------------------------------------------------------------ choices


def folds_of(X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions to learn from and to try on: five folds of a small set, one third of up to 2000 rows of a large one."""
    if len(y) <= 1000:
        count = min(5, int(np.unique(y, return_counts=True)[1].min()))
        return list(StratifiedKFold(max(count, 2), shuffle=True, random_state=0).split(X, y))
    some = np.arange(len(y))
    if len(y) > 2000:
        some, _ = train_test_split(some, train_size=2000, stratify=y, random_state=0)
    fit, test = train_test_split(some, test_size=1 / 3, stratify=y[some], random_state=0)
    return [(fit, test)]


def tried(make, X: np.ndarray, y: np.ndarray, folds: list) -> np.ndarray:
    """Share of right answers of a model on the rows held out, for each fold."""
    return np.array([np.mean(make().fit(X[fit], y[fit]).predict(X[test]) == y[test]) for fit, test in folds])


def best(candidates: list, X: np.ndarray, y: np.ndarray, folds: list) -> tuple[np.ndarray, object]:
    """The first of the candidates, simplest first, that nobody beats."""
    scores = [tried(make, X, y, folds) for make in candidates]
    place = int(np.argmax([score.mean() for score in scores]))
    return scores[place], candidates[place]


def best_along(candidates: list, X: np.ndarray, y: np.ndarray, folds: list) -> tuple[np.ndarray, object]:
    """The same along a path, which ends when WORSE candidates in a row did not gain on the best before them."""
    found = [(tried(candidates[0], X, y, folds), candidates[0])]
    since = 0
    for make in candidates[1:]:
        score = tried(make, X, y, folds)
        since = 0 if score.mean() > found[-1][0].mean() else since + 1
        if not since:
            found.append((score, make))
        if since == WORSE:
            break
    return found[-1]


def clearly(ahead: np.ndarray) -> bool:
    """Whether differences over folds are above zero by more than their standard error."""
    return bool(ahead.mean() > ahead.std(ddof=1) / np.sqrt(ahead.size))


# ------------------------------------------------------------------------------------------------ contestants


def effects_model(price: float | None, C: float, categories: list[int]):
    from kernelweave import MKLClassifier
    from kernelweave import kernels as K

    if price is None:
        bank = K.effects(degree=1, categories=categories)
    else:
        bank = K.effects(price=price, categories=categories)
    return MKLClassifier(bank, loss="squared_hinge", C=C, approximation="explicit", tol=TOL)


def together(kind: str, C: float):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from kernelweave import MKLClassifier
    from kernelweave import kernels as K

    bank = K.linear() if kind == "linear" else K.rbf(factor=[0.1, 0.3, 1.0])
    return make_pipeline(StandardScaler(), MKLClassifier(bank, loss="squared_hinge", C=C, tol=TOL))


def ours(X, y, Z, categories, *, pairs: bool = True):
    """Choose C, then the price of pairs, then whether all columns together do better."""
    folds = folds_of(X, y)
    along = [partial(effects_model, 3.0 if pairs else None, C, categories) for C in COSTS]
    score, chosen = best_along(along, X, y, folds)
    if pairs:
        C = chosen.args[1]
        priced = [partial(effects_model, price, C, categories) for price in PRICES if price != 3.0]
        second, other = best(priced, X, y, folds)
        score, chosen = (second, other) if second.mean() > score.mean() else (score, chosen)
        if len(y) <= 1000:
            rest = [partial(together, kind, C) for kind in ("linear", "gaussians") for C in (0.1, 1.0, 10.0, 100.0)]
            third, other = best(rest, X, y, folds)
            chosen = chosen if clearly(score - third) else other
    model = chosen().fit(X, y)
    return model.predict(Z), {"chosen": " ".join(map(str, chosen.args[:2])), "gap": float(_gap(model))}


def _gap(model) -> float:
    return (model[-1] if hasattr(model, "named_steps") else model).dual_gap_


def svc(X, y, Z, categories):
    from sklearn.svm import SVC

    X, Z = standardised(X, Z)
    folds, d = folds_of(X, y), X.shape[1]
    grid = [partial(SVC, C=C, gamma=g / d) for C in (0.1, 1.0, 10.0, 100.0, 1000.0) for g in (0.03, 0.1, 0.3, 1.0, 3.0)]
    _, chosen = best(grid, X, y, folds)
    return chosen().fit(X, y).predict(Z), {"chosen": str(chosen.keywords)}


def trees(X, y, Z, categories):
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0, categorical_features=categories or None)
    return model.fit(X, y).predict(Z), {}


def explainable(X, y, Z, categories):
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if j in categories else "continuous" for j in range(X.shape[1])]
    model = ExplainableBoostingClassifier(feature_types=kinds, n_jobs=1, random_state=0)
    return model.fit(X, y).predict(Z), {}


def xrfm(X, y, Z, categories):
    from xrfm import xRFM

    X, Z = standardised(X, Z)
    classes, codes = np.unique(y, return_inverse=True)
    A, B, a, b = train_test_split(X.astype(np.float32), codes, test_size=0.2, stratify=codes, random_state=0)
    model = xRFM(device="cpu", tuning_metric="accuracy")
    model.fit(A, a, B, b)
    return classes[np.asarray(model.predict(Z.astype(np.float32))).ravel().astype(int)], {}


CONTESTANTS = {
    "effects": ours, "columns": partial(ours, pairs=False), "explainable boosting": explainable,
    "boosted trees": trees, "SVC": svc, "xRFM": xrfm,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ cells


def rows_of(name: str, seed: int, most: int) -> tuple[np.ndarray, ...]:
    """Training and test rows of one split."""
    data = load(name)
    X, y = data["X"].astype(float), data["y"]
    share = 0.7 if name in SMALL else min(most, len(y) - 1000)
    test = None if name in SMALL else min(5000, len(y) - share)
    split = StratifiedShuffleSplit(1, train_size=share, test_size=test, random_state=seed)
    fit, held = next(split.split(X, y))
    return X[fit], y[fit], X[held], y[held]


def cell(name: str, who: str, seed: int, most: int, cap: float) -> dict:
    X, y, Z, t = rows_of(name, seed, most)
    done, said = None, {}
    with Stopwatch() as watch, suppress(KeyboardInterrupt), capped(cap), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done, said = CONTESTANTS[who](X, y, Z, CATEGORIES.get(name, []))
    right = 0.0 if done is None else float(np.mean(done == t))
    facts = {"seconds": watch.seconds, "cut": done is None, "accuracy": right, "rows": len(y), "tested": len(t)}
    return {"gap": None, **facts, **said}


# ------------------------------------------------------------------------------------------------ report


def accuracies(cells: Cells, sets: list[str], names: list[str]) -> str:
    """Mean accuracy with the standard error of the mean over splits, and mean seconds, a row for each set."""
    rows = []
    for name in sets:
        row = []
        for who in names:
            found = [made for key, made in cells.made.items() if key.startswith(f"{name} | {who} |")]
            fine = [made for made in found if not made["cut"]]
            if not fine:
                row.append("cut off" if found else "not run")
                continue
            right = 100 * np.array([made["accuracy"] for made in fine])
            error = f" +- {right.std(ddof=1) / len(right) ** 0.5:.1f}" if len(right) > 1 else ""
            lost = f", {len(found) - len(fine)} cut off" if len(fine) < len(found) else ""
            row.append(f"{right.mean():.1f}{error} ({np.mean([made['seconds'] for made in fine]):.1f} s{lost})")
        keys = [key for key in cells.made if key.startswith(f"{name} |")]
        rows.append([name, cells.made[keys[0]]["rows"], len({key.split(" | ")[2] for key in keys}), *row])
    return markdown(["set", "rows", "splits", *names], rows)


def main() -> None:
    parser = options(__doc__, cap=300)
    parser.add_argument("--sets", default=",".join(LARGE + SMALL), help="data sets, by name")
    parser.add_argument("--who", default=",".join(CONTESTANTS), help="contestants, by name")
    parser.add_argument("--rows", type=int, default=6000, help="training rows of the large sets")
    parser.add_argument("--splits", type=int, default=1, help="splits of the large sets")
    parser.add_argument("--small-splits", type=int, default=10, help="splits of the small sets")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    sets, names = args.sets.split(","), args.who.split(",")
    for name, known in [*((one, LARGE + SMALL) for one in sets), *((one, CONTESTANTS) for one in names)]:
        if name not in known:
            raise SystemExit(f"{name} is not known: choose from {', '.join(known)}.")
    most = 500 if args.fast else args.rows
    cells = Cells("effects_fast" if args.fast else "effects", args.cap, args.again, {})
    for name in sets:
        for seed in range(1 if args.fast else args.small_splits if name in SMALL else args.splits):
            for who in names:
                cells.get(f"{name} | {who} | {seed} | {most}", partial(cell, name, who, seed, most, args.cap))
    everyone = [name for name in LARGE + SMALL if any(key.startswith(f"{name} |") for key in cells.made)]
    about = [" ".join(part.split()) for part in __doc__.strip().split("\n\n")[1:]]
    made = accuracies(cells, everyone, list(CONTESTANTS))
    path = cells.report([f"# {__doc__.split('.')[0]}", *about, made])
    print(made)
    print("written to", cells.write().name, "and", path.name)


if __name__ == "__main__":
    main()
