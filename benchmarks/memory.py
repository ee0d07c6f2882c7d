"""Memory and time of exact l1 MKL whose kernels are never stored, beside one LIBSVM run with the same cache.

Nested subsets of adult (a9a, 123 columns of 0 and 1) up to its 32561 training rows; 12 Gaussian kernels, four widths on
all columns, on the first half of them and on the second. Every fit is `MKLClassifier(memory=...)` to a certified
relative gap of 1e-2 in a process of its own, which notes its peak resident memory before and after. The columns kept
may take CACHE numbers of 8 bytes per sample and kernel; LIBSVM (`SVC` on the same sparse rows, C the same, tol as it
comes) gets as many bytes, and the kernel with the largest learned weight. Ratios to it are of CPU seconds, where both
were measured.

    python benchmarks/memory.py                       # an hour or so, most of it mwu on the largest sets
    python benchmarks/memory.py --rows 1605,3185      # a minute
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse as sp

from common import Cells, capped, load, number, options, table

SUBSETS = {1605: "idx_a1a", 3185: "idx_a3a", 11220: "idx_a6a", 22696: "idx_a8a", 32561: "train_idx"}
WIDTHS = {"all": (0.01, 0.03, 0.1, 0.3), "half": (0.02, 0.06, 0.2, 0.6)}
HALVES = (range(61), range(61, 123))
CACHE = 512  # numbers of 8 bytes per sample and kernel that the columns kept may take
GAP = 1e-2
METHODS = ("sqp", "proximal", "mwu", "LIBSVM")


def samples(rows: int):
    """The rows of a subset, sparse float32, and their labels."""
    data = load("adult_a9a")
    parts = (data["X_data"].astype(np.float32), data["X_indices"], data["X_indptr"])
    X = sp.csr_matrix(parts, shape=tuple(data["X_shape"]))
    chosen = data[SUBSETS[rows]]
    return X[chosen], np.where(data["y"][chosen] > 0, 1.0, -1.0)


def bank() -> list:
    """The twelve kernels."""
    from kernelweave import kernels as K

    return K.rbf(gamma=WIDTHS["all"]) + [k for half in HALVES for k in K.rbf(gamma=WIDTHS["half"], on=list(half))]


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ours(X, y, C: float, solver: str, memory: float, cap: float) -> dict:
    """A fit that keeps columns in so many bytes."""
    import kernelweave as kw

    clf = kw.MKLClassifier(bank(), C=C, solver=solver, tol=GAP, memory=memory)
    kw.MKLClassifier(bank(), C=C, solver=solver, tol=GAP, memory=50_000).fit(X[:200], y[:200])  # compiled code
    before, began, cpu = peak(), time.perf_counter(), time.process_time()
    with capped(cap):
        clf.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    heaviest = bank()[int(np.argmax(clf.weights_))]
    return {
        "seconds": seconds, "cpu": cpu, "gap": clf.dual_gap_, "cut": clf.dual_gap_ > GAP, "before": before,
        "peak": peak(),
        "objective": clf.objective_, "kernels": int(np.count_nonzero(clf.weights_)), "support": clf.support_.size,
        "hit_rate": clf.history_.hit_rate[-1], "storage": clf.storage_,
        "heaviest": {"gamma": heaviest.gamma, "on": heaviest.on},
    }  # fmt: skip


def libsvm(X, y, C: float, kernel: dict, memory: float) -> dict:
    """One run on one kernel."""
    from sklearn.svm import SVC

    X = X if kernel["on"] is None else X[:, kernel["on"]]
    svc = SVC(C=C, gamma=kernel["gamma"], cache_size=memory / 2**20)
    SVC(C=C, gamma=kernel["gamma"]).fit(X[:200], y[:200])
    before, began, cpu = peak(), time.perf_counter(), time.process_time()
    svc.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "seconds": seconds, "cpu": cpu, "gap": None, "cut": False, "before": before, "peak": peak(),
        "kernels": 1, "support": int(svc.n_support_.sum()), "kernel": kernel,
    }  # fmt: skip


def measured(task: dict) -> dict:
    """What a task gives, in a fresh process."""
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def perform(task: dict) -> dict:
    """Do a task in this process."""
    X, y = samples(task["rows"])
    if task["method"] == "LIBSVM":
        return libsvm(X, y, task["C"], task["kernel"], task["memory"])
    return ours(X, y, task["C"], task["method"], task["memory"], task["cap"])


def report(cells: dict[tuple[int, str], dict], m: int) -> str:
    """The table, and the constants that hold over all of it."""
    lines = []
    for (n, method), cell in cells.items():
        unit, single = 8 * n * m, cells[n, "LIBSVM"]
        clock = "cpu" if "cpu" in cell and "cpu" in single else "seconds"
        lines.append([
            n, method, ("> " if cell["cut"] else "") + number(cell["seconds"]), number(cell["gap"], 2),
            number(cell[clock] / single[clock]), cell["kernels"], cell["support"], number(cell.get("hit_rate"), 2),
            f"{cell['peak'] / 2**20:.0f}", f"{(cell['peak'] - cell['before']) / unit:.0f}",
            f"{n * unit / 2**30:.1f} GiB",
        ])  # fmt: skip
    headers = ["rows", "method", "s", "gap", "/ LIBSVM", "kernels", "support", "hits", "peak MiB", "/ 8nm", "stored"]
    fits = [(n, cell) for (n, method), cell in cells.items() if method != "LIBSVM"]
    most = max((cell["peak"] - cell["before"]) / (8 * n * m) for n, cell in fits)
    highest = max(cell["peak"] for _, cell in fits)
    sentence = (
        f"Every fit takes at most {most:.0f} times 8 n m bytes above what the process held before it ({CACHE} of them "
        f"are columns kept); the highest peak is {highest / 2**30:.2f} GiB. 'stored' is what 12 kernels would take."
    )
    return table(headers, lines) + "\n\n" + sentence


def main() -> None:
    parser = options(__doc__, cap=1800.0)
    parser.add_argument("--rows", default=",".join(map(str, SUBSETS)), help="sizes of the subsets")
    parser.add_argument("--C", type=float, default=1.0, help="cost of an error")
    parser.add_argument("--methods", default=",".join(METHODS), help="ours, and LIBSVM last")
    parser.add_argument("--again", action="store_true", help="measure these cells anew")
    parser.add_argument("--task", help="work of one process, for the script itself")
    args = parser.parse_args()
    if args.task:
        print(json.dumps(perform(json.loads(args.task))))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # LIBSVM has one thread
    methods = args.methods.split(",")
    m, sizes = len(bank()), [1605] if args.fast else [int(rows) for rows in args.rows.split(",")]
    cells = Cells("memory_fast" if args.fast else "memory", args.cap, False, {"cache": CACHE, "gap": GAP})
    found = {}
    for n in sizes:
        task = {"rows": n, "C": args.C, "memory": 8.0 * CACHE * n * m, "cap": args.cap}
        for method in methods:
            if method == "LIBSVM":
                task["kernel"] = found[n, methods[0]]["heaviest"]
            job, name = {**task, "method": method}, f"{method} rows={n} C={args.C:g}"
            if args.again:
                cells.made.pop(name, None)
            found[n, method] = cells.get(name, lambda job=job: measured(job))
    print(report(found, m))
    print(f"\nwritten to {cells.write()}")


if __name__ == "__main__":
    main()
