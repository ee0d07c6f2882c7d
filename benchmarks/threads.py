"""One thread and two: wall seconds of whole fits on stored kernels, on demand, on features and of one-vs-rest problems.

Every number of threads has a process of its own, which is told by OMP_NUM_THREADS and NUMBA_NUM_THREADS; one-vs-rest
problems are solved by n_jobs threads. Seconds are wall seconds, the best of three after one that compiles: run it on a
computer that does nothing else, with at least two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np

from common import options, save, table

CASES = {  # rows, classes, the model's own arguments
    "exact": (4000, 2, {}),
    "exact, small": (300, 2, {}),
    "on demand": (4000, 2, {"memory": 2**27}),
    "features": (20000, 2, {"approximation": "nystroem"}),
    "features, small": (500, 2, {"approximation": "nystroem"}),
    "one-vs-rest": (1500, 4, {}),
}


def measure(name: str, fast: bool, threads: int) -> float:
    """Best of three wall seconds of a fit."""
    import kernelweave as kw
    from kernelweave import kernels as K

    rows, classes, arguments = CASES[name]
    rows = min(rows, 600) if fast else rows
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    if classes > 2:
        arguments = {**arguments, "n_jobs": threads}
    model = kw.MKLClassifier(K.rbf(gamma=np.logspace(-3, 0, 10)), random_state=0, **arguments)
    seconds = []
    for _ in range(4):
        begun = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - begun)
    return min(seconds[1:])


def in_a_process(name: str, fast: bool, threads: int) -> float:
    several = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"], str(threads))
    command = [sys.executable, __file__, "--case", name, "--threads", str(threads), *(["--fast"] if fast else [])]
    done = subprocess.run(command, env={**os.environ, **several}, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--case", help="time one case in this process and print its seconds")
    parser.add_argument("--threads", type=int, default=1, help="threads of that one")
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case, args.fast, args.threads)))
        return
    rows = []
    for name in CASES:
        one, two = (in_a_process(name, args.fast, threads) for threads in (1, 2))
        rows.append({"case": name, "rows": CASES[name][0], "one thread": one, "two threads": two, "gain": one / two})
        print(rows[-1], file=sys.stderr, flush=True)
    names = list(rows[0])
    print(table(names, [[f"{v:.3g}" if isinstance(v, float) else v for v in row.values()] for row in rows]))
    print(f"written to {save('threads_fast' if args.fast else 'threads', {'cores': os.cpu_count(), 'rows': rows})}")


if __name__ == "__main__":
    main()
