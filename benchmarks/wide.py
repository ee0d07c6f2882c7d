"""Features with more columns than rows beside exact kernels: whole fits, the same bank, the same gap.

Seconds are CPU seconds of one thread, the best of three below 2 s.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import kernelweave as kw
from common import options, save, table, timed
from kernelweave import kernels as K

CASES = {  # rows, bank, rank
    "300 rows, 10 kernels": (300, K.rbf(gamma=np.logspace(-2, 1, 10)), None),
    "500 rows, 190 kernels of rank 16": (500, K.rbf(gamma=np.logspace(-3, 1, 19), on="each"), 16),
    "1000 rows, 20 kernels of rank 80": (1000, K.rbf(gamma=np.logspace(-3, 1, 20)), 80),
}


def main() -> None:
    args = options(__doc__).parse_args()
    rows = []
    for name, (n, bank, rank) in list(CASES.items())[: 1 if args.fast else None]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 10))
        y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n) > 0
        features = "nystroem" if rank is None else kw.Nystroem(rank=rank)
        for penalty in ("l1", kw.penalties.Lp(2)):
            exact = kw.MKLClassifier(bank, penalty=penalty)
            short = kw.MKLClassifier(bank, penalty=penalty, approximation=features, random_state=0)
            for model in (exact, short):
                model.fit(X, y)  # compiles
            _, exact_watch = timed(partial(exact.fit, X, y))
            fitted, watch = timed(partial(short.fit, X, y))
            rows.append({
                "case": name, "penalty": str(penalty), "exact": exact_watch.cpu, "features": watch.cpu,
                "ratio": watch.cpu / exact_watch.cpu, "gap": fitted.dual_gap_, "solver": fitted.solver_,
            })  # fmt: skip
    print(table(list(rows[0]), [[f"{v:.3g}" if isinstance(v, float) else v for v in row.values()] for row in rows]))
    print(f"written to {save('wide_fast' if args.fast else 'wide', {'rows': rows})}")


if __name__ == "__main__":
    main()
