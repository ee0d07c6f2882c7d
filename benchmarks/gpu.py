"""Low-rank MKL on a GPU: seconds to a certified gap for up to ten million samples.

Everything is made on the device from a seed: samples, labels, features, fit. The times are those of a whole
``MKLClassifier.fit`` (landmarks, features, solver, certificate), after one small fit that starts the device's
libraries. Beside them stand the card's own measured ceilings: the float64 matrix rate and the copy bandwidth.

    python benchmarks/gpu.py                     # l = 1e5, 1e6 and 1e7; p = 2, 1.05 and l1
    python benchmarks/gpu.py --sizes 1e6 --losses hinge logistic squared --tol 1e-3
    python benchmarks/gpu.py --sizes 1e5 --device cpu
    python benchmarks/gpu.py --sizes 1e8 --bank columns --tol 1e-4 --penalties "lp 2" l1 --name gpu_rows
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch

import kernelweave as kw
from kernelweave import kernels as K

RESULTS = Path(__file__).parent / "results"
PENALTIES = {"lp 2": kw.penalties.Lp(2.0), "lp 1.05": kw.penalties.Lp(1.05), "l1": kw.penalties.L1()}
COLUMNS, RANK, C = 20, 50, 1.0
PROGRESS = "KERNELWEAVE_PROGRESS" in os.environ  # whether to show gaps on the way
TOLERANCES = {100_000: 1e-6, 1_000_000: 1e-6, 10_000_000: 1e-5}
AIMS = {1_000_000: 2.0, 10_000_000: 25.0}


def draw(n: int, device: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 samples and noisy labels that no single width or column decides."""
    generator = torch.Generator(device).manual_seed(seed)
    X = torch.randn(n, COLUMNS, generator=generator, device=device)
    score = X[:, 0] * X[:, 1] + torch.sin(2.0 * X[:, 2]) + 0.5 * X[:, 3] ** 2 - 0.5
    noise = 0.5 * torch.randn(n, generator=generator, device=device)
    return X, (score + noise > 0).to(torch.int64)


def widths() -> list[K.Kernel]:
    """Return twenty Gaussian kernels: five widths on all columns, and on three parts of them."""
    parts = [None, list(range(10)), list(range(5, 15)), list(range(10, COLUMNS))]
    return [kernel for part in parts for kernel in K.rbf(gamma=np.geomspace(0.02, 0.5, 5), on=part)]


def columns() -> list[K.Kernel]:
    """Return twenty Gaussian kernels, one on each column: few landmarks approximate them well."""
    return [kernel for j in range(COLUMNS) for kernel in K.rbf(gamma=[0.5], on=[j])]


def pairs() -> list[K.Kernel]:
    """Return twenty Gaussian kernels, two widths on each two neighbouring columns."""
    return [kernel for j in range(0, COLUMNS, 2) for kernel in K.rbf(gamma=[0.05, 0.2], on=[j, j + 1])]


BANKS = {"widths": (widths, RANK), "columns": (columns, 20), "pairs": (pairs, RANK)}  # and their rank


def classifier(
    penalty: kw.penalties.MixingPenalty, tol: float, loss: str = "hinge", bank: str = "widths"
) -> kw.MKLClassifier:
    kernels, rank = BANKS[bank]
    approximation = kw.Nystroem(rank=rank, landmarks="uniform")
    return kw.MKLClassifier(
        kernels(), penalty=penalty, loss=loss, C=C, tol=tol, approximation=approximation, random_state=0,
        progress=PROGRESS,
    )  # fmt: skip


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(work, device: str, repeat: int = 5) -> float:
    """Return the least seconds of some runs."""
    work()
    best = np.inf
    for _ in range(repeat):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        best = min(best, time.perf_counter() - began)
    return best


def ceilings(device: str) -> dict[str, float]:
    """Measure the float64 matrix rate (flop/s) and the copy bandwidth (bytes/s, read plus written)."""
    side, count = (8192, 2**30) if device == "cuda" else (1024, 2**25)
    A = torch.randn(side, side, dtype=torch.float64, device=device)
    source = torch.randn(count, device=device)
    target = torch.empty_like(source)
    rate = 2 * side**3 / timed(lambda: A @ A, device)
    bandwidth = 8 * count / timed(lambda: target.copy_(source), device)
    return {"float64_flops": rate, "copy_bytes": bandwidth}


def fit(
    n: int, name: str, tol: float, device: str, loss: str = "hinge", bank: str = "widths"
) -> dict[str, object]:
    """Fit once and report."""
    X, y = draw(n, device, seed=1)
    X_test, y_test = draw(100_000, device, seed=2)
    clf = classifier(PENALTIES[name], tol, loss, bank)
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    synchronise(device)
    began = time.perf_counter()
    clf.fit(X, y)
    synchronise(device)
    seconds = time.perf_counter() - began
    history = clf.history_
    solving = history.seconds[-1]
    D = columns_of(clf)
    return {
        "samples": n,
        "penalty": name,
        "loss": loss,
        "bank": bank,
        "storage": clf.storage_,
        "largest_approximation_error": float(clf.approximation_error_.max()),
        "columns": D,
        "tol": tol,
        "gap": clf.dual_gap_,
        "seconds": seconds,
        "solver": clf.solver_,
        "solver_seconds": solving,
        "iterations": int(clf.n_iter_),
        "seconds_per_iteration": solving / int(clf.n_iter_),
        "flops_per_iteration": float(n) * D**2,  # one triangle of the weighted product
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
        "feature_bytes": 4 * n * D,
        "kernels_kept": int(np.count_nonzero(clf.weights_)),
        "test_accuracy": float((clf.predict(X_test) == y_test).to(torch.float64).mean()),
        "history": {"seconds": history.seconds, "gap": history.gap},
    }


def columns_of(clf: kw.MKLClassifier) -> int:
    """Return the columns of the features; kernels on few columns have less than the rank asked for."""
    return int(re.search(r"(\d+) columns", clf.storage_)[1])


def line(row: dict, top: dict) -> str:
    share = row["flops_per_iteration"] / row["seconds_per_iteration"] / top["float64_flops"]
    passes = row["seconds_per_iteration"] * top["copy_bytes"] / row["feature_bytes"]
    peak = f"{row['peak_bytes'] / 2**30:6.1f}" if row["peak_bytes"] else "     -"
    aim = f"(aim {AIMS[row['samples']]:g})" if row["samples"] in AIMS else ""
    return (
        f"{row['samples']:>9} {row['loss']:13} {row['penalty']:8} {row['gap']:8.1e} {row['seconds']:8.2f} s"
        f" {aim:9} {row['iterations']:3d} its {row['seconds_per_iteration']:7.3f} s/it"
        f" {100 * share:5.1f} % of matrix rate {passes:5.1f} feature reads' time {peak} GiB"
        f" {row['columns']:5d} columns {row['kernels_kept']:3d} kernels  accuracy {row['test_accuracy']:.4f}"
    )


def write(report: dict, options: argparse.Namespace) -> None:
    """Write what was measured so far."""
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--losses", nargs="+", default=["hinge"], help="losses of the classifier (default: hinge)")
    parser.add_argument("--tol", type=float, help="gap to reach (default: 1e-6, 1e-5 from 1e7 samples on)")
    parser.add_argument("--bank", choices=BANKS, default="widths", help="the kernels (default: widths)")
    parser.add_argument("--penalties", nargs="+", choices=PENALTIES, default=list(PENALTIES), help="default: all")
    parser.add_argument("--name", default="gpu", help="of the file of results")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = options.device
    card = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    top = ceilings(device)
    rate, bandwidth = top["float64_flops"] / 1e12, top["copy_bytes"] / 1e12
    print(f"{card}: float64 {rate:.1f} Tflop/s, copy {bandwidth:.2f} TB/s", flush=True)
    for loss in options.losses:
        for name in options.penalties:
            fit(20_000, name, 1e-4, device, loss, options.bank)  # starts the libraries
    rows: list[dict] = []
    command = " ".join(["python benchmarks/gpu.py", *sys.argv[1:]])
    report = {"command": command, "card": card, "torch": torch.__version__, "ceilings": top, "rows": rows}
    for n in map(int, options.sizes):
        for loss in options.losses:
            for name in options.penalties:
                rows.append(fit(n, name, options.tol or TOLERANCES.get(n, 1e-6), device, loss, options.bank))
                print(line(rows[-1], top), flush=True)
                write(report, options)
    if device == "cuda" and 100_000 in map(int, options.sizes):
        for name in options.penalties:  # the same data on the computer's own processor
            X, y = (part.cpu() for part in draw(100_000, device, seed=1))
            X_test, y_test = (part.cpu() for part in draw(100_000, device, seed=2))
            clf = classifier(PENALTIES[name], 1e-6, bank=options.bank).fit(X, y)
            accuracy = float((clf.predict(X_test) == y_test).to(torch.float64).mean())
            rows.append({"samples": 100_000, "penalty": name, "device": "cpu", "seconds": clf.fit_time_,
                         "gap": clf.dual_gap_, "test_accuracy": accuracy})  # fmt: skip
            print(f"   100000 {name:8} on the CPU: {clf.fit_time_:.2f} s, accuracy {accuracy:.4f}", flush=True)
    write(report, options)


if __name__ == "__main__":
    main()
