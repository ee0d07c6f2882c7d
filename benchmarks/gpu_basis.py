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


def draw(n: int, d: int, classes: int, device: str, task: str = "classes") -> tuple[torch.Tensor, torch.Tensor]:
    """Samples in single precision, and targets that follow a smooth function of them: classes, values or times."""
    source = torch.Generator(device=device).manual_seed(0)
    X = torch.randn(n, d, generator=source, device=device, dtype=torch.float32)
    score = torch.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    score += 0.3 * torch.randn(n, generator=source, device=device)
    if task == "values":
        return X, score.double()
    if task == "times":  # a third of them lost from sight before
        time, lost = (torch.empty_like(score).exponential_(generator=source) for _ in range(2))
        time, lost = time / torch.exp(score), 2.0 * lost
        return X, torch.stack([(time <= lost).double(), torch.minimum(time, lost).double()], dim=1)
    cuts = torch.quantile(score[:100_000], torch.linspace(0, 1, classes + 1, device=device)[1:-1])
    return X, torch.bucketize(score, cuts).double()


def widths(count: int, least: float = 4.0) -> list[K.Kernel]:
    """Gaussians from a least width to 100."""
    return [K.RBF(gamma=float(0.5 / width**2)) for width in np.geomspace(least, 100.0, count)]


def shared(rank: int) -> dict[str, object]:
    return {"approximation": kw.SharedBasis(rank=rank), "random_state": 0}


def nystroem(rank: int) -> dict[str, object]:
    return {"approximation": kw.Nystroem(rank=rank), "random_state": 0}


JOINT = {"penalty": "l1", "multiclass": "joint"}
CASES = {  # rows, columns, classes or another task, kernels, what else
    "warm up": (20_000, 10, 2, widths(5), {"penalty": "l1", **shared(50)}),
    "exact l1": (20_000, 10, 2, widths(20), {"penalty": "l1", "tol": 1e-3}),
    "exact, in blocks": (100_000, 10, 2, widths(10), {"penalty": "l1", "tol": 1e-3}),
    "hinge": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "tol": 1e-4, **shared(200)}),
    "logistic": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "loss": "logistic", "tol": 1e-4, **shared(200)}),
    "squared": (1_000_000, 10, 2, widths(50), {"penalty": "l1", "loss": "squared", "tol": 1e-4, **shared(200)}),
    "values": (1_000_000, 10, "values", widths(50), {"penalty": "l1", **shared(200)}),
    "times": (200_000, 10, "times", widths(20), {"penalty": "l1", **shared(100)}),
    "times, nystroem": (200_000, 10, "times", widths(20), {"penalty": "l1", **nystroem(20)}),
    "joint margin, nystroem": (200_000, 10, 10, widths(20), {**JOINT, **nystroem(20)}),
    "softmax": (200_000, 10, 10, widths(20), {**JOINT, "loss": "logistic", **shared(100)}),
    "joint margin": (1_000_000, 10, 10, widths(20), {**JOINT, **shared(100)}),
    "1e7 rows": (10_000_000, 10, 2, widths(50), {"penalty": "l1", "tol": 1e-5, **shared(200)}),
    "1e8 rows": (100_000_000, 20, 2, widths(20, 6.0), {"penalty": "l1", "tol": 5e-5, "memory": 6e10, **shared(100)}),
}


MODELS = {"values": kw.MKLRegressor, "times": kw.MKLSurvival}


def fit(name: str, device: str, scale: float) -> dict[str, object]:
    """Fit one case."""
    n, d, task, bank, given = CASES[name]
    n = max(int(n * scale), 400)
    X, y = draw(n, d, 2, device, task) if isinstance(task, str) else draw(n, d, task, device)
    model = MODELS.get(task, kw.MKLClassifier)(bank, **given)
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
