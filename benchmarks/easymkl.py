"""EasyMKL's weights, ours beside those of MKLpy, whose main method it is, on the same kernels.

Data set wdbc, all 569 rows, columns standardised; 40 kernels of mean diagonal 1: seven Gaussian widths and polynomials
of degree 1 to 3 on each of the three views (mean, error, worst) and on all columns. MKLpy finds the weights by LIBSVM
where lambda is above 0.01, its default, and by CVXOPT if asked to; both are run as they come. Ours are asked for as
they come, and to a relative gap of 1e-10, which stands for the exact ones. Seconds are of a whole fit with an SVM of
C = 1 on the weighted sum, CPU seconds of one thread, the best of three, kernels computed beforehand.

MKLpy needs an environment of its own, named by --python; nothing is installed here:

    python -m venv benchmarks/.venv-mklpy && benchmarks/.venv-mklpy/bin/pip install torch MKLpy==0.6
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import HERE, RESULTS, Bank, build, load, markdown, number, options, save, standardised, timed

LAMBDAS = (0.02, 0.1, 0.3, 0.6, 0.9)
EXACT = 1e-10
HEADERS = ["lambda", "who", "largest difference of a weight", "relative to the largest weight", "seconds"]


def problem() -> tuple[np.ndarray, np.ndarray]:
    """The kernels (m, n, n) and labels of wdbc."""
    data = load("wdbc")
    X, _ = standardised(data["X"].astype(float), data["X"].astype(float))
    bank = Bank()
    for columns in (range(10), range(10, 20), range(20, 30), range(30)):
        bank.add(tuple(columns), np.logspace(-2, 1, 7) / len(columns), (1, 2, 3))
    bank.fit_scales(X)
    return build(bank, X, "kernels").array, np.where(data["y"] > 0, 1.0, -1.0)


def ours(kernels: np.ndarray, y: np.ndarray) -> list[dict]:
    """Our weights for every lambda, as they come and exact."""
    from kernelweave import MKLClassifier
    from kernelweave.weightings import EasyMKL

    G, rows = np.ascontiguousarray(np.moveaxis(kernels, 0, 2)), []
    for lam in LAMBDAS:
        for who, weighting in (("exact", EasyMKL(lam, tol=EXACT)), ("ours", EasyMKL(lam))):
            model = MKLClassifier("precomputed", penalty=weighting, normalize=None, psd="trust").fit(G, y)  # compiles
            _, watch = timed(lambda model=model: model.fit(G, y))
            rows.append({"lambda": lam, "who": who, "weights": model.weights_.tolist(), "seconds": watch.cpu})
    return rows


def theirs(python: Path, kernels: np.ndarray, y: np.ndarray) -> list[dict]:
    """MKLpy's weights, from its own environment."""
    if not python.exists():
        raise SystemExit(f"{python} was not found: name the interpreter of an environment with MKLpy by --python.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, kernels=kernels, y=y)
        done = subprocess.run(
            [python, HERE / "easymkl.py", "--serve", path], check=True, stdout=subprocess.PIPE, text=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def serve(path: Path) -> None:
    """Print MKLpy's weights as JSON; runs in its environment."""
    import torch
    from MKLpy.algorithms import EasyMKL
    from sklearn.svm import SVC

    torch.set_num_threads(1)
    with np.load(path) as data:
        kernels, y = [torch.from_numpy(K) for K in data["kernels"]], data["y"]
    rows = []
    for lam in LAMBDAS:
        for solver in ("libsvm", "cvxopt"):
            model = EasyMKL(lam=lam, solver=solver, learner=SVC(C=1.0))
            _, watch = timed(lambda model=model: model.fit(kernels, y))
            weights = model.solution.weights.double().tolist()
            rows.append({"lambda": lam, "who": f"MKLpy, {solver}", "weights": weights, "seconds": watch.cpu})
    print(json.dumps(rows))


def compared(rows: list[dict]) -> list[list[object]]:
    """Every row beside the exact weights of its lambda."""
    exact = {row["lambda"]: np.array(row["weights"]) for row in rows if row["who"] == "exact"}
    lines = []
    for row in sorted(rows, key=lambda row: (row["lambda"], row["who"] != "exact")):
        if row["who"] != "exact":
            reference = exact[row["lambda"]]
            row["difference"] = float(np.abs(np.array(row["weights"]) - reference).max())
            shares = [number(row["difference"], 2), number(row["difference"] / reference.max(), 2)]
            lines.append([row["lambda"], row["who"], *shares, number(row["seconds"])])
    return lines


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--python", type=Path, default=HERE / ".venv-mklpy" / "bin" / "python", help="MKLpy's Python")
    parser.add_argument("--serve", type=Path, help="used by the script itself")
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    kernels, y = problem()
    rows = ours(kernels, y) + theirs(args.python, kernels, y)
    lines = compared(rows)
    path = save("easymkl", {"data": "wdbc", "kernels": len(kernels), "exact": EXACT, "rows": rows})
    told = (__doc__ or "").split("MKLpy needs")[0].strip()
    text = f"# EasyMKL against MKLpy\n\n{told}\n\n{markdown(HEADERS, lines)}\n"
    (RESULTS / "easymkl.md").write_text(text)
    print(markdown(HEADERS, lines))
    print(f"\nwritten to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
