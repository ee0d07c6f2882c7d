"""Peak memory of a low-rank fit on the CPU, against the bytes of the features themselves.

A fresh process draws the samples, notes its peak resident memory, fits `MKLClassifier(approximation=...)` and notes
the peak again; the difference is what the fit took. Every solver that forms no more than the square of the columns
should stay near the features.

    python benchmarks/lowrank_memory.py            # 200 000 samples, 20 kernels of rank 50, float32
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"


def peak() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fit(n: int, solver: str) -> dict[str, object]:
    """Fit in this process and report."""
    import kernelweave as kw
    from kernelweave import kernels as K

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] ** 2 - 0.5
    y = score + 0.5 * rng.normal(size=n) > 0
    bank = K.rbf(gamma=np.geomspace(0.005, 1.0, 20))
    clf = kw.MKLClassifier(bank, penalty="lp", solver=solver, approximation=kw.Nystroem(rank=50), random_state=0)
    clf.fit(X[:2000], y[:2000])  # compiled code and libraries are not the fit's
    before, began = peak(), time.perf_counter()
    clf.fit(X, y)
    columns = int(re.search(r"(\d+) columns", clf.storage_)[1])
    features = 4 * n * columns
    return {
        "samples": n,
        "columns": columns,
        "solver": clf.solver_,
        "feature_bytes": features,
        "fit_bytes": peak() - before,
        "ratio": (peak() - before) / features,
        "seconds": time.perf_counter() - began,
        "gap": clf.dual_gap_,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=float, default=2e5)
    parser.add_argument("--solvers", nargs="+", default=["auto", "interior", "ssnal"])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(fit(int(options.samples), options.child)))
        return
    rows = []
    for solver in options.solvers:
        command = [sys.executable, __file__, "--samples", str(options.samples), "--child", solver]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        print(
            f"{solver:10} ({row['solver']}): {row['samples']} samples, {row['columns']} columns, features "
            f"{row['feature_bytes'] / 2**20:.0f} MiB, the fit took {row['fit_bytes'] / 2**20:.0f} MiB: "
            f"{row['ratio']:.2f} times the features; gap {row['gap']:.1e}, {row['seconds']:.1f} s",
            flush=True,
        )
    (RESULTS / "lowrank_memory.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
