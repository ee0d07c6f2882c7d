"""One basis for all widths beside features of each: 50 Gaussians, sigma 1..100, whole fits to a gap of 1e-3.

Columns are standardised, p = 2, C = 1 and 1000. `SharedBasis(rank=100)` and `SharedBasis(rank=200)` stand beside
`Nystroem(rank=50)`, each with the solver that "auto" takes; "times" is how much longer than the first a fit took.
Errors are ``|K_k - approximation|_F / |K_k|_F`` of every kernel on 1000 rows that were not fitted on, the same for
all: mean and largest. Seconds are CPU seconds of one thread, features or basis included. The second table has fits of
the shared basis of 200 columns by the number of widths, from 5 to 200.
Cells are written as they are made, and a second start goes on where the first one stopped.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split

import kernelweave as kw
from common import Cells, Stopwatch, capped, gaussians, markdown, number, options, rows_of, standardised

SETS = {"magic": "magic", "cod_rna": "cod_rna", "ijcnn1": "ijcnn1_train", "adult": "adult_raw14"}
WAYS = {f"shared {rank}": kw.SharedBasis(rank=rank) for rank in (100, 200)} | {"nystroem 50": kw.Nystroem(rank=50)}
COUNTS = (5, 20, 50, 200)
LOOK = 1000  # rows on which errors are measured


def data(name: str, rows: int | None):
    """Training and test part of one set, standardised, with labels -1 and +1."""
    X, y = rows_of(SETS[name])
    parts = train_test_split(X, np.where(y == y.max(), 1.0, -1.0), train_size=0.7, random_state=0, stratify=y)
    A, B = standardised(parts[0], parts[1])
    return A[:rows], parts[2][:rows], B, parts[3]


def fit(train, test, way: str, widths: int, C: float, cap: float) -> dict:
    """Fit once: what it cost and reached, and whether it was cut off."""
    model = kw.MKLClassifier(
        gaussians(widths), penalty=kw.penalties.Lp(2), C=C, approximation=WAYS[way], normalize=None, random_state=0
    )
    watch, n = Stopwatch(), len(train[0])
    try:
        with watch, capped(cap):
            model.fit(*train)
    except KeyboardInterrupt:
        return {"seconds": watch.cpu, "cut": True, "gap": np.inf, "rows": n}
    columns = int(model.storage_.split(" columns")[0].split()[-1])
    return {
        "seconds": watch.cpu, "cut": "interrupted" in model.status_, "gap": model.dual_gap_, "columns": columns,
        "rows": n, "megabytes": n * columns * 8 / 2**20, "solver": model.solver_, "steps": int(model.n_iter_),
        "accuracy": float(model.score(*test)),
    }  # fmt: skip


def errors(X, Z, way: str, widths: int) -> dict:
    """Mean and largest relative error of the kernels on rows that were not fitted on."""
    watch = Stopwatch().start()
    share = np.full(len(X), 1 / len(X))
    bank = gaussians(widths)
    made = WAYS[way].factorise(bank, X, share=share, normalize=None, random_state=0)
    rows = made.maps.transform(Z)
    gram = made.gram.on(rows)
    found = []
    for k, kernel in enumerate(bank):
        K = kernel(Z)
        near = gram.combine(np.arange(len(Z)), np.eye(widths)[k])
        found.append(float(np.linalg.norm(K - near) / np.linalg.norm(K)))
    seconds = watch.stop().cpu
    return {"seconds": seconds, "cut": False, "gap": 0.0, "error_mean": np.mean(found), "error_max": np.max(found)}


def measure(cells: Cells, args) -> None:
    """Make what is missing."""
    for name in args.sets:
        X, y, Z, z = data(name, 2000 if args.fast else args.rows)
        for way in WAYS:
            fit((X[:300], y[:300]), (Z, z), way, 2, 1.0, args.cap)  # compiles
        for way in WAYS:
            cells.get(f"{name} errors {way}", partial(errors, X[:10_000], Z[:LOOK], way, 50))
            for C in (1.0, 1000.0):
                cells.get(f"{name} C={C:g} {way}", partial(fit, (X, y), (Z, z), way, 50, C, args.cap))
        for widths in COUNTS:
            cells.get(f"{name} {widths} widths", partial(fit, (X, y), (Z, z), "shared 200", widths, 1.0, args.cap))


def report(cells: Cells, args) -> list[str]:
    """Both tables."""
    made, first, second = cells.made, [], []
    for name in args.sets:
        for C in (1.0, 1000.0):
            ours = made.get(f"{name} C={C:g} shared 100")
            for way in WAYS:
                cell, error = made.get(f"{name} C={C:g} {way}"), made.get(f"{name} errors {way}")
                if cell is None or error is None or ours is None:
                    continue
                first.append([
                    name, f"{C:g}", way, f"{'> ' if cell['cut'] else ''}{number(cell['seconds'])}",
                    number(cell["seconds"] / ours["seconds"]), cell.get("columns", "-"), number(cell.get("megabytes")),
                    number(error["error_mean"]), number(error["error_max"]), number(cell.get("accuracy"), 4),
                    number(cell.get("gap"), 2), cell.get("solver", "-"),
                ])  # fmt: skip
        times = [made.get(f"{name} {widths} widths") for widths in COUNTS]
        if all(times):
            seconds = [cell["seconds"] for cell in times]
            second.append([name, times[0]["rows"], *map(number, seconds), number(seconds[-1] / seconds[0])])
    head = ["set", "C", "features", "seconds", "times", "columns", "MiB", "error", "largest", "accuracy", "gap"]
    head += ["solver"]
    return [
        (__doc__ or "").split("\n\n", 1)[1].strip(), markdown(head, first),
        markdown(["set", "rows", *(f"{widths} widths" for widths in COUNTS), "200 over 5"], second),
    ]  # fmt: skip


def main() -> None:
    parser = options(__doc__, cap=200.0)
    parser.add_argument("--rows", type=int, default=None, help="training rows at most")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    args = parser.parse_args()
    name = "basis_fast" if args.fast else "basis"
    cells = Cells(name, args.cap, args.again, {"rows": args.rows})
    measure(cells, args)
    cells.report(["# One basis for many widths", *report(cells, args)])
    print("\n".join(report(cells, args)[1:]))


if __name__ == "__main__":
    main()
