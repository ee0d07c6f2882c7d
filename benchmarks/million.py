"""A million kernels under one certificate: l1 over one kernel for each column and each pair of up to 1415 columns.

5000 rows of independent normal columns; the label is the sign of five effects of single columns and five products of
two columns, with logistic noise. The bank of 140, 446 and 1415 columns has 9870, 99681 and 1001820 kernels, with
--functions functions of each column (8; a pair has 64), and is never listed: a scoring of all of them is one product of
two matrices, in single precision from 20000 kernels on, and those within two per cent of the largest energy once more
in double. Squared hinge, to a certified relative gap of 1e-2 over the whole bank. "found" are the planted pairs among
the parts of the model, "first" those among its largest pairs. Scoring is the part of the seconds spent on scoring the
bank; seconds are of the whole fit, making the functions included, CPU seconds where one thread runs and wall seconds
where several do; memory is the largest that the process held.

With --device cuda the columns are a torch tensor there, and everything with an entry for each row stays there.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from functools import partial

import numpy as np

from common import THREADS, Cells, Stopwatch, markdown, number, options

COLUMNS = (140, 446, 1415)
ROWS = 5000
SINGLE = (1, 20, 40, 60, 80)
PAIRS = ((0, 10), (25, 50), (33, 77), (90, 120), (110, 139))


def drawn(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The table and the labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    f = sum(np.sin(1.5 * X[:, j]) for j in SINGLE) + sum(X[:, i] * X[:, j] for i, j in PAIRS)
    return X, np.where(f + 0.5 * rng.logistic(size=rows) > 0, 1.0, -1.0)


class Scorings:
    """Counts and times the scorings of a bank."""

    def __init__(self):
        from kernelweave.grams import EffectsGram

        self.count, self.seconds, self.plain = 0, 0.0, EffectsGram.energies
        EffectsGram.energies = lambda gram, beta: self.timed(gram, beta)

    def timed(self, gram, beta):
        clock = time.process_time if THREADS == 1 else time.perf_counter
        begun = clock()
        q = self.plain(gram, beta)
        self.count, self.seconds = self.count + 1, self.seconds + clock() - begun
        return q


def fit(columns: int, rows: int, functions: int, C: float, device: str) -> dict:
    """Fit one bank and say what it found."""
    from kernelweave import MKLClassifier
    from kernelweave import kernels as K

    X, y = drawn(columns, rows)
    if device != "cpu":
        import torch

        X = torch.as_tensor(X, device=device)
    scorings = Scorings()
    bank = K.effects(rank=functions, pair_rank=functions)
    model = MKLClassifier(bank, loss="squared_hinge", C=C, approximation="explicit", tol=1e-2)
    with Stopwatch() as watch:
        model.fit(X, y)
    parts = [effect.columns for effect in model.effects_]
    pairs = [part for part in parts if len(part) == 2]
    return {
        "seconds": watch.seconds, "gap": model.dual_gap_, "cut": not model.dual_gap_ <= 1e-2,
        "columns": columns, "kernels": len(model.kernel_names_), "rounds": int(model.n_iter_),
        "scorings": scorings.count, "scoring": scorings.seconds, "used": int(np.count_nonzero(model.weights_)),
        "found": len(set(PAIRS) & set(parts)), "first": len(set(PAIRS) & set(pairs[: len(PAIRS)])),
        "singles": len({(j,) for j in SINGLE} & set(parts)), "solver": model.solver_, "device": device,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }  # fmt: skip


def apart(*args) -> dict:
    """Fit in a process of its own, whose memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(fit, args)


def comparison(cells: Cells) -> str:
    rows = [
        [
            made["device"], made["columns"], made["kernels"], f"{made['seconds']:.1f}",
            f"{1e6 * made['seconds'] / made['kernels']:.0f}", made["scorings"], f"{made['scoring']:.1f}",
            number(made["gap"], 2), made["used"], f"{made['found']} of {len(PAIRS)}", made["first"],
            f"{made['singles']} of {len(SINGLE)}", f"{made['memory']:.2f}",
        ]
        for made in cells.made.values()
    ]  # fmt: skip
    headers = ["device", "columns", "kernels", "s", "us a kernel", "scorings", "scoring s", "gap", "kernels used"]
    return markdown([*headers, "planted pairs found", "first", "planted columns", "GiB"], rows)


def main() -> None:
    parser = options(__doc__, cap=600)
    parser.add_argument("--columns", default=",".join(map(str, COLUMNS)), help="columns of the banks")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--functions", type=int, default=8, help="functions of each column")
    parser.add_argument("--C", type=float, default=0.01)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    rows = 1000 if args.fast else args.rows
    cells = Cells("million_fast" if args.fast else "million", args.cap, args.again, {})
    for columns in [140, 200] if args.fast else map(int, args.columns.split(",")):
        size = f"{columns} columns, {rows} rows, {args.functions} functions"
        key = f"{size}, C={args.C:g}, {args.device}, {THREADS} threads"
        cells.get(key, partial(apart, columns, rows, args.functions, args.C, args.device))
    about = [" ".join(part.split()) for part in __doc__.strip().split("\n\n")[1:]]
    path = cells.report([f"# {__doc__.split('.')[0]}", *about, comparison(cells)])
    print(comparison(cells))
    print("written to", cells.write().name, "and", path.name)


if __name__ == "__main__":
    main()
