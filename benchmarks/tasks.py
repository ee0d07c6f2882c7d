"""Every task beside our own classifier, a single kernel and multiple-kernel ridge: seconds to a certified gap of 1e-3.

Rows are drawn from magic, columns standardised; 20 kernels: Gaussians of four widths around the scale of the data on
all columns, on each half and on the even and the odd ones, each with a mean diagonal of 1, stored in float64. The
classifier has the data's own labels. Other targets are made from a smooth function of the columns with noise: a number,
three numbers, three classes, a time to an event that is lost from sight in a part of the cases; outliers have none.
Costs are C = 1 and 100 (for outliers nu = 0.5 and 0.1). Seconds are CPU seconds of the solver alone, on one thread, the
median of three solves.

The classifier of the same size, penalty and C is the yardstick: "times" says how many times as long a task takes. "One
kernel" is the seconds of the counterpart in scikit-learn on the weighted sum of kernels that was learned (SVC, SVR,
OneClassSVM, or one Cholesky factorisation for squared error), with the tolerance it comes with. Himalaya's
multiple-kernel ridge has weights chosen by cross-validation, another problem: its seconds (ten candidates drawn at
random, five folds, and by its gradient method) stand beside ours for squared error with R2 on 2000 other rows. It is
left out, and says so, where himalaya is not installed.
"""

from __future__ import annotations

import json
import time
import warnings
from contextlib import suppress
from functools import partial

import numpy as np

from common import (
    RESULTS,
    capped,
    in_words,
    load,
    made_with,
    markdown,
    number,
    options,
    save,
    save_markdown,
    standardised,
)  # fmt: skip

TOL = 1e-3
REPEAT = 3
TEST = 2000
WIDTHS = [4.0**power for power in (-1.0, 0.0, 1.0, 2.0)]  # times the scale of the data
PENALTIES = {"l1": 1.0, "l2": 2.0}
COSTS = (1.0, 100.0)
NUS = {1.0: 0.5, 100.0: 0.1}  # in the place of C


def kernels(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kernels between training rows, and between test rows and them, both (rows, n, 20)."""
    from kernelweave import kernels as K

    d = X.shape[1]
    groups = [None, list(range(d // 2)), list(range(d // 2, d)), list(range(0, d, 2)), list(range(1, d, 2))]
    bank = [k for group in groups for kernel in K.rbf(factor=WIDTHS, on=group) for k in kernel.resolve(X)]
    stack = np.stack([kernel(X, X) for kernel in bank], axis=2)
    scale = 1.0 / np.einsum("iik->k", stack) * X.shape[0]
    return stack * scale, np.stack([kernel(Z, X) for kernel in bank], axis=2) * scale


def targets(X: np.ndarray, labels: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """What each kind of task is to learn."""
    rng = np.random.default_rng(seed)
    clean = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    value = clean + 0.3 * rng.normal(size=len(X))
    times = rng.exponential(np.exp(-clean))
    lost = rng.exponential(3.0 * np.median(times), size=len(X))
    several = np.column_stack([value, np.cos(X[:, 4]) + 0.3 * rng.normal(size=len(X)), value**2])
    return {
        "labels": np.where(labels > 0, 1.0, -1.0),
        "number": value,
        "several": several,
        "classes": np.digitize(value, np.quantile(value, [1 / 3, 2 / 3])).astype(float),
        "survival": np.column_stack([(times <= lost).astype(float), np.minimum(times, lost)]),
        "nothing": np.zeros(len(X)),
    }


def tasks() -> dict[str, tuple[object, str]]:
    """The loss of each task and the targets it has."""
    from kernelweave import losses

    return {
        "hinge (classifier)": (losses.Hinge(), "labels"),
        "logistic": (losses.Logistic(), "labels"),
        "squared": (losses.Squared(), "number"),
        "epsilon-insensitive": (losses.EpsilonInsensitive(0.1), "number"),
        "squared epsilon-insensitive": (losses.SquaredEpsilonInsensitive(0.1), "number"),
        "Huber": (losses.Huber(0.5), "number"),
        "quantile .8": (losses.Quantile(0.8), "number"),
        "squared, 3 targets": (losses.Squared(), "several"),
        "outliers": (losses.OneClass(), "nothing"),
        "softmax, 3 classes": (losses.Softmax(), "classes"),
        "Cox": (losses.Cox(), "survival"),
    }


def problem(gram, loss, y: np.ndarray, p: float, C: float):
    """The task as a problem on stored kernels."""
    from kernelweave import Problem, penalties

    penalty = penalties.L1() if p == 1 else penalties.Lp(p)
    if "outliers" in loss.tasks:
        return Problem(gram, loss.bind(y, 1.0 / (NUS[C] * len(y))), penalty, dual_sum=1.0)
    return Problem(gram, loss.bind(y, C), penalty, dual_sum=0.0 if loss.takes_bias else None)


def seconds(job) -> tuple[float, object]:
    """The median of the CPU seconds of some runs, and what the last one returned."""
    taken = []
    for _ in range(REPEAT):
        start = time.process_time()
        found = job()
        taken.append(time.process_time() - start)
    return float(np.median(taken)), found


def one_kernel(name: str, K: np.ndarray, y: np.ndarray, C: float):
    """The counterpart of a task on one kernel, as a job; None where there is none."""
    from scipy.linalg import cho_factor, cho_solve
    from sklearn.svm import SVC, SVR, OneClassSVM

    precomputed = {"kernel": "precomputed", "cache_size": 2000}
    if name.startswith("hinge"):
        return lambda: SVC(C=C, **precomputed).fit(K, y)
    if name == "epsilon-insensitive":
        return lambda: SVR(C=C, epsilon=0.1, **precomputed).fit(K, y)
    if name == "outliers":
        return lambda: OneClassSVM(nu=NUS[C], **precomputed).fit(K)
    if name in ("squared", "squared, 3 targets"):
        return lambda: cho_solve(cho_factor(K + np.eye(len(K)) / C), y)
    return None


def himalaya(stack: np.ndarray, y: np.ndarray, test: np.ndarray, t: np.ndarray, way: str, cap: float) -> dict | None:
    """Seconds and R2 of himalaya's multiple-kernel ridge, no R2 where it was cut off; None if not installed."""
    try:
        from himalaya.kernel_ridge import MultipleKernelRidgeCV
    except ImportError:
        return None
    more = {"n_iter": 10} if way == "random_search" else {"max_iter": 20}
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver=way, cv=5, solver_params={"progress_bar": False, **more}, random_state=0
    )
    train, new = np.moveaxis(stack, 2, 0).copy(), np.moveaxis(test, 2, 0).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start, done = time.process_time(), False
        with suppress(KeyboardInterrupt), capped(cap):
            model.fit(train, y)
            done = True
        taken = time.process_time() - start
        return {"seconds": taken, "r2": float(np.mean(model.score(new, t))) if done else None}


def measure(n: int, cases: list[str], rest: int, cap: float) -> list[dict]:
    """Every task at one size."""
    from kernelweave import DenseGram, solve

    data = load("magic")
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data["y"]))[: n + rest]
    X, Z = standardised(data["X"][rows[:n]].astype(float), data["X"][rows[n:]].astype(float))
    stack, test = kernels(X, Z)
    both = targets(np.vstack([X, Z]), data["y"][rows] == np.unique(data["y"])[1])
    gram, found = DenseGram(stack), []
    for name, (loss, kind) in tasks().items():
        if cases and not any(case in name for case in cases):
            continue
        y, t = both[kind][:n], both[kind][n:]
        for label, p in PENALTIES.items():
            for C in COSTS:
                posed = problem(gram, loss, y, p, C)
                taken, solution = seconds(partial(solve, posed, tol=TOL))
                job = one_kernel(name, stack @ solution.weights, y, C)
                row = {
                    "n": n, "task": name, "penalty": label, "C": C, "seconds": taken, "gap": solution.gap,
                    "solver": solution.solver, "steps": solution.n_iter,
                    "kernels": int(np.count_nonzero(solution.weights)),
                    "one_kernel": None if job is None else seconds(job)[0],
                }  # fmt: skip
                if kind in ("number", "several") and name.startswith("squared") and "epsilon" not in name:
                    f = np.einsum("rnk,k,n...->r...", test, solution.weights, solution.coef) + solution.intercept
                    row["r2"] = float(np.mean(1.0 - np.mean((t - f) ** 2, axis=0) / np.var(t, axis=0)))
                found.append(row)
                said = f"{taken:.2f} s, gap {solution.gap:.1e}, {solution.solver}"
                print(f"{n} {name}, {label}, C={C:g}: {said}", flush=True)
        if cap > 0 and name.startswith("squared") and "epsilon" not in name:
            for way in ("random_search", "hyper_gradient"):
                rival = himalaya(stack, y, test, t, way, cap)
                print(f"{n} himalaya {way}: {rival or 'not installed: pip install himalaya'}", flush=True)
                if rival is not None:
                    found.append({"n": n, "task": name, "rival": f"himalaya, {way.replace('_', ' ')}", **rival})
    return found


def known(name: str) -> tuple[list[dict], list[dict]]:
    """The rows measured before, and what they were made with; none where there is no file."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return [], []
    before = json.loads(path.read_text())
    return before["rows"], before.get("makers", [before["made_with"]])


def merged(old: list[dict], new: list[dict]) -> list[dict]:
    """Rows by size and in the order of the tasks, the new ones in the place of those of the same size and task."""
    fresh, order = {(r["n"], r["task"], r.get("rival")) for r in new}, list(tasks())
    rows = [r for r in old if (r["n"], r["task"], r.get("rival")) not in fresh] + new
    return sorted(rows, key=lambda r: ("rival" in r, r["n"], order.index(r["task"])))


def report(rows: list[dict]) -> list[str]:
    """The table of tasks, and that of himalaya."""
    ours = [row for row in rows if "rival" not in row]
    unit = {(r["n"], r["penalty"], r["C"]): r["seconds"] for r in ours if r["task"].startswith("hinge")}
    lines = []
    for r in ours:
        yardstick = unit.get((r["n"], r["penalty"], r["C"]))
        times = None if yardstick is None else r["seconds"] / yardstick
        lines.append([r["n"], r["task"], r["penalty"], f"{r['C']:g}", number(r["seconds"]), number(times, 2),
                      number(r["one_kernel"]), f"{r['gap']:.0e}", r["kernels"], f"`{r['solver']}`"])  # fmt: skip
    head = ["rows", "task", "weights", "C", "seconds", "times", "one kernel (s)", "gap", "kernels", "solver"]
    parts = ["## Every task beside our classifier", markdown(head, lines)]
    over = [line for line in lines if line[5] != "-" and float(line[5]) > 2.0]
    parts.append(f"{len(lines) - len(over)} of {len(lines)} take at most twice as long as the classifier.")
    rivals = [r for r in rows if "rival" in r]
    if rivals:
        best = [[r["n"], r["task"], f"ours, {r['penalty']}, C={r['C']:g}", number(r["seconds"]), number(r["r2"])]
                for r in ours if "r2" in r]  # fmt: skip
        best += [[r["n"], r["task"], r["rival"], number(r["seconds"]), number(r["r2"])] for r in rivals]
        head = ["rows", "task", "who", "seconds", "R2, other rows"]
        parts += ["## Squared error beside himalaya", markdown(head, best)]
    return parts


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", default="1000,3000", help="numbers of training rows (default: 1000,3000)")
    only = "parts of the names of tasks, by comma; rows of the others are kept (default: all)"
    parser.add_argument("--only", default="", help=only)
    args = parser.parse_args()
    sizes = [150] if args.fast else [int(size) for size in args.rows.split(",")]
    cases = [case for case in args.only.split(",") if case]
    name = "tasks_fast" if args.fast else "tasks"
    rows, makers = known(name) if cases else ([], [])
    makers = [*(maker for maker in makers if maker != made_with()), made_with()]
    for n in sizes:
        rows = merged(rows, measure(n, cases, 200 if args.fast else TEST, args.cap))
        parts = report(rows)
        save(name, {"rows": rows, "makers": makers})
        save_markdown(name, parts, [in_words(maker) for maker in makers])
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
