"""Rows in Dask chunks on a small local cluster: the same answer, its cost, what travels, more data than memory.

Two processes with one thread and 1 GB of memory each. "same" fits data that fit in memory, from NumPy and from Dask:
the largest difference of the weights, seconds of both, passes over the rows, and bytes that went over the loopback
device (everything between client, scheduler and workers). "held" counts what a row takes
here. "large" fits rows that are made when they are needed, 10 GB of them, and reports the peak memory of the workers.

    python benchmarks/dask_rows.py                 # both
    python benchmarks/dask_rows.py --part same
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import kernelweave as kw
from common import RESULTS, markdown, number, save, save_markdown
from kernelweave import chunks
from kernelweave import kernels as K

LIMIT = "1GB"


class Traffic:
    """Passes over the rows, and bytes that went over the loopback device, since it was made."""

    def __init__(self):
        self.passes, self.began = 0, loopback()
        self.plain = {name: getattr(chunks, name) for name in ("computed", "asked")}
        for name in self.plain:
            setattr(chunks, name, partial(self._counted, name))

    def _counted(self, name, *given):
        self.passes += 1
        return self.plain[name](*given)

    def end(self) -> dict[str, float]:
        for name, function in self.plain.items():
            setattr(chunks, name, function)
        moved = loopback() - self.began
        return {"passes": self.passes, "bytes": moved, "bytes_per_pass": moved / max(self.passes, 1)}


def loopback() -> int:
    """Return the bytes that the loopback device has sent so far."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    raise SystemExit("There is no loopback device in /proc/net/dev.")


def score(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.5 * X[:, 3] ** 2 - 0.5


def machine(bank, rank: int, **params) -> kw.MKLClassifier:
    return kw.MKLClassifier(bank, penalty="lp", approximation=kw.Nystroem(rank=rank), random_state=0, **params)


def timed(model: kw.MKLClassifier, X, y, client=None) -> tuple[kw.MKLClassifier, float, float]:
    """Fit, and return wall seconds and CPU seconds of all processes that took part."""
    began, spent = time.perf_counter(), cpu(client)
    model.fit(X, y)
    return model, time.perf_counter() - began, cpu(client) - spent


def cpu(client) -> float:
    """Return the CPU seconds so far of this process, which is the scheduler's too, and of the workers."""
    return time.process_time() + (sum(client.run(time.process_time).values()) if client else 0.0)


def same(rows: int, client) -> list[dict]:
    """Fit the same samples from NumPy and from Dask."""
    import dask.array as da

    X = np.random.default_rng(0).normal(size=(rows, 20))
    y = score(X) + 0.5 * np.random.default_rng(1).normal(size=rows) > 0
    Z = X[:: rows // 25][:25]  # the same landmarks for both
    bank = [kernel for j in range(0, 8, 2) for kernel in K.rbf(gamma=[0.1], on=[j, j + 1])]
    found = []
    for loss, solver in (("hinge", "interior"), ("logistic", "newton")):
        params = {"loss": loss, "solver": solver, "tol": 1e-8}
        approximation = kw.Nystroem(rank=25, landmarks=Z)
        ours, plain, plain_cpu = timed(machine(bank, 25, **params).set_params(approximation=approximation), X, y)
        best, quick, _ = timed(machine(bank, 25, loss=loss, tol=1e-8).set_params(approximation=approximation), X, y)
        table, labels = da.from_array(X, chunks=(rows // 8, 20)), da.from_array(y, chunks=rows // 8)
        table, traffic = client.persist(table), Traffic()
        model = machine(bank, 25, **params).set_params(approximation=approximation)
        theirs, there, there_cpu = timed(model, table, labels, client)
        apart = float(np.abs(theirs.weights_ - ours.weights_).max())
        row = {
            "rows": rows, "loss": loss, "solver": solver, "most_columns": 4 * 25,
            "gap": theirs.dual_gap_, "iterations": int(theirs.n_iter_), "weights_apart": apart, "numpy_seconds": plain,
            "numpy_auto": best.solver_, "numpy_auto_seconds": quick, "dask_seconds": there,
            "times_numpy": there / plain, "numpy_cpu_seconds": plain_cpu, "dask_cpu_seconds": there_cpu,
            "cpu_times_numpy": there_cpu / plain_cpu, "storage": theirs.storage_, **traffic.end(),
        }  # fmt: skip
        row["bytes_per_iteration"] = row["bytes"] / row["iterations"]
        print(
            f"{rows} rows, {loss}: weights apart {apart:.1e}, NumPy {plain:.1f} s ({best.solver_}, its own choice, "
            f"{quick:.1f} s), Dask {there:.1f} s ({row['times_numpy']:.2f} times; CPU seconds "
            f"{row['cpu_times_numpy']:.2f} times), {row['passes']} passes, {row['bytes_per_pass'] / 1e6:.2f} MB each",
            flush=True,
        )
        found.append(row)
    return found


def window(rows: int, columns: int, block_info=None) -> np.ndarray:
    """Return rows that are windows of one long series, at places that the chunk draws: as fast as memory is written."""
    series = np.random.default_rng(0).normal(size=2**17)
    number = block_info[None]["chunk-location"][0]
    places = np.random.default_rng(number + 1).integers(2**17 - columns, size=rows)
    return np.lib.stride_tricks.sliding_window_view(series, columns)[places]


def large(gigabytes: float, client) -> dict:
    """Fit more data than all workers may hold, made when they are needed."""
    import dask.array as da

    columns, rows = 1000, 10_000
    count = round(gigabytes * 1e9 / (8 * rows * columns))
    X = da.map_blocks(
        window, rows, columns, chunks=((rows,) * count, (columns,)), dtype=float, meta=np.empty((0, columns))
    )
    noise = da.random.default_rng(1).normal(size=count * rows, chunks=rows)
    y = X.map_blocks(score, drop_axis=1, dtype=float) + 0.5 * noise > 0
    bank = [kernel for j in (0, 2, 200, 400, 600, 800) for kernel in K.rbf(gamma=[0.1], on=[j, j + 1])]
    traffic = Traffic()
    model, seconds, _ = timed(machine(bank, 15, loss="squared", solver="newton", tol=1e-3), X, y)
    peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    row = {
        "gigabytes": X.nbytes / 1e9, "rows": X.shape[0], "columns_of_X": columns, "chunks": count,
        "gap": model.dual_gap_, "iterations": int(model.n_iter_), "seconds": seconds,
        "peak_bytes_of_workers": sorted(peaks.values()), "limit": LIMIT, "storage": model.storage_,
        "weights": model.weights_.tolist(), **traffic.end(),
    }  # fmt: skip
    row["seconds_per_pass"] = seconds / row["passes"]
    peak = max(peaks.values()) / 1e9
    print(
        f"{row['gigabytes']:.1f} GB in {count} chunks: {seconds:.0f} s, gap {model.dual_gap_:.1e}, peak of a worker "
        f"{peak:.2f} GB of {LIMIT}, {row['passes']} passes of {row['seconds_per_pass']:.1f} s, "
        f"{row['bytes_per_pass'] / 1e6:.1f} MB each",
        flush=True,
    )
    return row


def held(rows: int, client) -> dict:
    """Return how many numbers a row takes here at most while a fit runs, by solver, from two sizes."""
    import dask.array as da

    found = {}
    for loss, solver in (("hinge", "interior"), ("logistic", "newton")):
        peaks = []
        for n in (rows, 2 * rows):
            X = da.random.default_rng(0).normal(size=(n, 4), chunks=(n // 4, 4))
            y = (X[:, 0] * X[:, 1] > 0).compute()
            tracemalloc.start()
            machine(K.rbf(gamma=[0.1]), 10, loss=loss, solver=solver).fit(X, y)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        found[solver] = (peaks[1] - peaks[0]) / (8 * rows)
    print("numbers for each row, here:", {name: round(value, 1) for name, value in found.items()}, flush=True)
    return found


ROWS, WORKERS, NETWORK = 1e9, 100, 1.25e9  # of the plan; bytes a second, 10 Gbit/s


def report() -> None:
    """Write what was measured so far, and what a thousand million rows on a hundred such workers would take."""
    files = {part: RESULTS / f"dask_{part}.json" for part in ("same", "large", "held")}
    found = {part: json.loads(path.read_text())["rows"] for part, path in files.items() if path.exists()}
    parts = [*_said_of_same(found.get("same")), *_said_of_large(found.get("large"))]
    parts += _plan(found) if "same" in found else []
    save_markdown("dask_rows", parts)


def _said_of_same(found: list[dict] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        [row["loss"], row["solver"], f"{row['weights_apart']:.0e}", f"{row['numpy_seconds']:.1f}",
         f"{row['dask_seconds']:.1f}", f"{row['times_numpy']:.2f}", number(row.get("cpu_times_numpy")),
         row["iterations"], row["passes"],
         f"{row['bytes_per_pass'] / 1e6:.2f}", f"{row['bytes_per_iteration'] / 1e6:.1f}"]
        for row in found
    ]  # fmt: skip
    heads = ["loss", "solver", "weights apart", "NumPy, s", "Dask, s", "times", "CPU, times", "steps", "passes"]
    heads += ["MB a pass", "MB a step"]
    return [
        f"Data that fit, {found[0]['rows']} rows, features kept by two workers of one thread each, gap 1e-8:",
        markdown(heads, rows),
    ]


def _said_of_large(large: dict | None) -> list[str]:
    if large is None:
        return []
    peak = max(large["peak_bytes_of_workers"]) / 1e9
    return [
        f"More data than memory: {large['gigabytes']:.1f} GB in {large['chunks']} chunks, made when they are needed, "
        f"fitted to a gap of {large['gap']:.1e} in {large['seconds']:.0f} s by two workers of {large['limit']}, of "
        f"which the larger used {peak:.2f} GB at most: {large['passes']} passes of {large['seconds_per_pass']:.1f} s, "
        f"{large['bytes_per_pass'] / 1e6:.1f} MB each."
    ]


def _plan(found: dict) -> list[str]:
    """Return the passes of each solver at the speed that its rows were worked on here, on more workers."""
    wire, rows = 8 * ROWS / NETWORK, []
    for row in found["same"]:
        work = ROWS / WORKERS / (row["rows"] * row["passes"] / row["dask_seconds"] / 2)
        memory = found.get("held", {}).get(row["solver"])
        minutes = row["passes"] * (work + wire) / 60
        held = "-" if memory is None else f"{8e-9 * ROWS * memory:.0f} GB"
        rows.append([row["solver"], row["passes"], f"{work:.0f} s", f"{wire:.1f} s", f"{minutes:.0f}", held])
    heads = [
        "solver",
        "passes",
        "work of a worker in a pass",
        "a vector to or from the client",
        "minutes",
        "client holds",
    ]
    return [
        f"A plan from these figures, for {ROWS:.0e} rows on {WORKERS} workers as fast as these two, and a network of "
        "10 Gbit/s at the client:",
        markdown(heads, rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["same", "held", "large", "all"], default="all")
    parser.add_argument("--rows", type=float, default=4e5, help="of the data that fit (default 4e5)")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of the data that do not (default 10)")
    options = parser.parse_args()
    from dask.distributed import Client, LocalCluster

    warnings.simplefilter("ignore", kw.AdviceWarning)
    cluster = LocalCluster(2, threads_per_worker=1, processes=True, memory_limit=LIMIT, dashboard_address=None)
    with cluster, Client(cluster, direct_to_workers=True) as client:
        jobs = {
            "same": lambda: same(int(options.rows), client),
            "held": lambda: held(max(int(options.rows) // 4, 100_000), client),
            "large": lambda: large(options.gigabytes, client),
        }
        for part, job in jobs.items():
            if options.part in (part, "all"):
                save(f"dask_{part}", {"rows": job()})
    report()


if __name__ == "__main__":
    main()
