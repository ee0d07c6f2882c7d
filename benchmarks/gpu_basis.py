"""One basis and exact kernels on a GPU: whole fits, from a tensor X to a certified model.

Gaussian kernels of widths that a basis of 200 columns holds well (the largest error is in the table), standard normal
columns. ``--device cpu --scale 0.001`` runs everything on small samples of the computer's own processor.
"""

from __future__ import annotations

import time

import numpy as np
import torch

import kernelweave as kw
from common import options, save, table
from kernelweave import kernels as K


def draw(n: int, d: int, classes: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples in single precision, and labels that follow a smooth function of them."""
    source = torch.Generator(device=device).manual_seed(0)
    X = torch.randn(n, d, generator=source, device=device, dtype=torch.float32)
    score = torch.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    score += 0.3 * torch.randn(n, generator=source, device=device)
    cuts = torch.quantile(score[:100_000], torch.linspace(0, 1, classes + 1, device=device)[1:-1])
    return X, torch.bucketize(score, cuts).double()


def widths(count: int, least: float = 4.0) -> list[K.Kernel]:
    """Gaussians from a least width to 100."""
    return [K.RBF(gamma=float(0.5 / width**2)) for width in np.geomspace(least, 100.0, count)]


def shared(rank: int) -> dict[str, object]:
    return {"approximation": kw.SharedBasis(rank=rank), "random_state": 0}


CASES = {  # rows, columns, classes, kernels, what else
    "warm up": (20_000, 10, 2, widths(5), {"penalty": "l1", **shared(50)}),
    "exact l1": (20_000, 10, 2, widths(20), {"penalty": "l1", "tol": 1e-3}),
    "exact, in blocks": (100_000, 10, 2, widths(10), {"penalty": "l1", "tol": 1e-3, "memory": 1e9}),
    "hinge": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "tol": 1e-4, **shared(200)}),
    "logistic": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "loss": "logistic", "tol": 1e-4, **shared(200)}),
    "squared": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "loss": "squared", "tol": 1e-4, **shared(200)}),
    "joint margin": (1_000_000, 10, 10, widths(20), {"penalty": "l1", "multiclass": "joint", **shared(100)}),
    "1e7 rows": (10_000_000, 10, 2, widths(50), {"penalty": "l1", "tol": 1e-5, **shared(200)}),
    "1e8 rows": (100_000_000, 20, 2, widths(20, 6.0), {"penalty": "l1", "tol": 1e-4, "memory": 6e10, **shared(100)}),
}


def fit(name: str, device: str, scale: float) -> dict[str, object]:
    """Fit one case."""
    n, d, classes, bank, given = CASES[name]
    X, y = draw(max(int(n * scale), 400), d, classes, device)
    model = kw.MKLClassifier(bank, **given)
    start = time.perf_counter()
    model.fit(X, y)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds, lost = time.perf_counter() - start, model.approximation_error_
    return {
        "case": name, "rows": X.shape[0], "kernels": len(bank), "seconds": seconds, "gap": model.dual_gap_,
        "solver": model.solver_, "with weight": int(np.atleast_2d(model.weights_).any(axis=0).sum()),
        "largest error": None if lost is None else float(lost.max()), "storage": model.storage_,
    }  # fmt: skip


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of each case")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    args = parser.parse_args()
    scale = min(args.scale, 1e-3) if args.fast else args.scale
    rows = []
    for name in args.cases:
        rows.append(fit(name, args.device, scale))
        print(rows[-1], flush=True)
    print(table(list(rows[0]), [[f"{v:.3g}" if isinstance(v, float) else v for v in row.values()] for row in rows]))
    device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    save("gpu_basis_fast" if args.fast else "gpu_basis", {"device": device, "rows": rows})


if __name__ == "__main__":
    main()
