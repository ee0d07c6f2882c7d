"""What every benchmark shares: data, kernel stacks, the judges, a stopwatch, our own fits, tables and JSON."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import daxpy
from scipy.optimize import brentq, minimize_scalar
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
OF_A_PAPER = Path(sys.argv[0]).resolve().parent == HERE / "papers"  # whether the script that runs is one of those
RESULTS = Path(
    os.environ.get("KERNELWEAVE_RESULTS", HERE.parent / "docs" / "results" if OF_A_PAPER else HERE / "results")
)
TOL = 1e-3  # the certified relative gap everybody has to reach

THREADS = int(os.environ.get("OMP_NUM_THREADS") or 1)

# Libraries loaded so far are pinned by threadpoolctl, those loaded later by their environment variables.
os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"], str(THREADS)))
threadpool_limits(THREADS)


# ------------------------------------------------------------------------------------------------ data


def load(name: str) -> dict[str, np.ndarray]:
    """Read one archive of the data folder, named by KERNELWEAVE_DATA (default ../shared/data)."""
    folder = Path(os.environ.get("KERNELWEAVE_DATA", HERE.parent.parent / "shared" / "data"))
    path = folder / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path} was not found; set KERNELWEAVE_DATA to the folder that holds {name}.npz.")
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows X (n, d), dense, and the labels y of one archive."""
    data = load(name)
    if "X" in data:
        return data["X"].astype(float), data["y"].astype(float)
    parts = (data["X_data"], data["X_indices"], data["X_indptr"])
    return sp.csr_array(parts, shape=tuple(data["X_shape"])).toarray().astype(float), data["y"].astype(float)


def standardised(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both tables with columns of mean 0 and deviation 1 on the first; constant columns become 0."""
    mean, std = X.mean(0), X.std(0)
    std[std == 0] = 1.0
    return (X - mean) / std, (Z - mean) / std


@dataclass
class Case:
    """A training and a test table, and the bank of kernels to learn from."""

    name: str
    X: np.ndarray  # (n, d), standardised
    y: np.ndarray  # (n,), -1 or +1
    X_test: np.ndarray
    y_test: np.ndarray
    bank: Bank


def split(name: str, n_train: int, n_test: int | None = None) -> tuple[np.ndarray, ...]:
    """X, y, X_test, y_test of a stratified split with seed 0, standardised on the training part."""
    X, y = rows_of(name)
    X, Z, y, t = train_test_split(X, y, train_size=n_train, test_size=n_test, stratify=y, random_state=0)
    X, Z = standardised(X, Z)
    return X, y, Z, t


# ------------------------------------------------------------------------------------------------ kernels


@dataclass
class Bank:
    """Kernels as (columns, kind, parameter): kind "rbf" with gamma, or "poly" with a degree.

    Kernels on the same columns stand next to each other, so that they share one distance or product.
    """

    kernels: list[tuple[tuple[int, ...], str, float]] = field(default_factory=list)
    scales: np.ndarray | None = None  # (m,), mean diagonal on the training rows

    def __len__(self) -> int:
        return len(self.kernels)

    def add(self, columns: tuple[int, ...], gammas=(), degrees=()) -> None:
        """Put RBF widths and polynomial degrees on some columns into the bank."""
        self.kernels += [(columns, "rbf", float(g)) for g in gammas]
        self.kernels += [(columns, "poly", float(d)) for d in degrees]

    def fit_scales(self, X: np.ndarray) -> None:
        """Fix the numbers that give every kernel a mean diagonal of 1 on the training rows."""
        self.scales = np.array([np.mean(self._diagonal(X, *kernel)) for kernel in self.kernels])

    @staticmethod
    def _diagonal(X, columns, kind, parameter):
        return np.ones(len(X)) if kind == "rbf" else ((X[:, columns] ** 2).sum(1) + 1.0) ** parameter

    def block(self, A, B, picked: np.ndarray) -> np.ndarray:
        """Values (m_picked, len(A), len(B)) of the picked kernels."""
        out = np.empty((len(picked), len(A), len(B)))
        columns = kind = shared = None
        for row, k in enumerate(picked):
            if self.kernels[k][:2] != (columns, kind):
                columns, kind = self.kernels[k][:2]
                shared = statistic(A[:, columns], B[:, columns], kind)
            parameter = self.kernels[k][2]
            out[row] = np.exp(-parameter * shared) if kind == "rbf" else shared**parameter
        return out / self.scales[picked, None, None]


def statistic(A: np.ndarray, B: np.ndarray, kind: str) -> np.ndarray:
    """Squared distances for "rbf", 1 + products for "poly"."""
    products = A @ B.T
    if kind == "poly":
        return products + 1.0
    return np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * products, 0.0)


@dataclass
class Stack:
    """All training kernels in one array, (n, n, m) when samples come first, (m, n, n) when kernels do."""

    array: np.ndarray
    first: str  # "samples" or "kernels"

    def outputs(self, beta: np.ndarray) -> np.ndarray:
        """The (n, m) matrix whose column k is K_k beta."""
        n = len(beta)
        if self.first == "samples":
            return (beta @ self.array.reshape(n, -1)).reshape(n, -1)
        return np.column_stack([K @ beta for K in self.array])

    def energies(self, beta: np.ndarray) -> np.ndarray:
        """The numbers beta' K_k beta, from the rows of support vectors where these are few; kernels first."""
        support = np.flatnonzero(beta)
        if 2 * len(support) > len(beta):
            return (self.array.reshape(-1, len(beta)) @ beta).reshape(-1, len(beta)) @ beta
        return np.array([beta[support] @ (K.take(support, axis=0) @ beta) for K in self.array])

    def mix(self, weights: np.ndarray) -> np.ndarray:
        """sum_k weights_k K_k over the kernels that count; kernels first."""
        out = np.zeros(self.array.shape[1] ** 2)
        for k in np.flatnonzero(weights > 1e-9 * weights.max()):
            daxpy(self.array[k].ravel(), out, a=weights[k])
        return out.reshape(self.array.shape[1:])


@dataclass
class FeatureStack:
    """Kernels of low rank, K_k = V_k V_k', with the features [V_1, .., V_m] side by side in any precision."""

    features: np.ndarray  # (n, D)
    ranks: np.ndarray  # (m,)

    def outputs(self, beta: np.ndarray) -> np.ndarray:
        """The (n, m) matrix whose column k is V_k (V_k' beta), computed in float64."""
        out = np.empty((len(beta), len(self.ranks)))
        ends = np.cumsum(self.ranks)
        for k, (start, end) in enumerate(zip(ends - self.ranks, ends, strict=True)):
            V = self.features[:, start:end].astype(np.float64)
            out[:, k] = V @ (V.T @ beta)
        return out


def build(bank: Bank, X: np.ndarray, first: str) -> Stack:
    """Fill a stack block of rows by block of rows, so that nothing but the stack itself is large."""
    n, m = len(X), len(bank)
    array = np.empty((n, n, m) if first == "samples" else (m, n, n))
    for rows in row_blocks(n, n * m):
        values = bank.block(X[rows], X, np.arange(m))
        if first == "samples":
            array[rows] = np.moveaxis(values, 0, -1)
        else:
            array[:, rows] = values
    return Stack(array, first)


def row_blocks(n: int, row_size: int, numbers: int = 4_000_000) -> Iterator[slice]:
    """Slices of rows that hold about so many numbers each."""
    step = max(1, numbers // row_size)
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def accuracy(case: Case, beta: np.ndarray, weights: np.ndarray, bias: float) -> float:
    """Share of right answers on the test rows; only kept kernels and support vectors are computed."""
    support, kept = np.flatnonzero(beta), np.flatnonzero(weights > 1e-9 * weights.max())
    right = 0
    for rows in row_blocks(len(case.y_test), len(kept) * max(1, len(support))):
        values = case.bank.block(case.X_test[rows], case.X[support], kept)
        f = np.tensordot(weights[kept], values, 1) @ beta[support] + bias
        right += np.sum((f > 0) == (case.y_test[rows] > 0))
    return float(right / len(case.y_test))


# ------------------------------------------------------------------------------------------------ the judge


def best_bias(f: np.ndarray, y: np.ndarray) -> float:
    """The bias that minimises the hinge loss of f + b: the n_plus-th smallest breakpoint."""
    n_plus = int(np.sum(y > 0))
    return float(np.partition(y - f, n_plus - 1)[n_plus - 1])


@dataclass
class Judge:
    """Certified bounds on the optimum of hinge-loss MKL with weights in the unit lp ball, p >= 1.

    Written with numpy alone and on its own, so that it owes nothing to any contestant. For any beta and
    any weights w the lower bound is the dual value and the upper bound the primal value in block norms
    u_k = w_k sqrt(q_k), both over the best scale. The best bounds seen are kept apart.
    """

    stack: Stack | FeatureStack
    y: np.ndarray
    C: float
    p: float
    lower: float = -np.inf
    upper: float = np.inf
    beta: np.ndarray | None = None  # of the best upper bound, with its weights, bias and scale in beta
    weights: np.ndarray | None = None
    bias: float = 0.0

    @property
    def gap(self) -> float:
        """The relative gap (upper - lower) / |upper|."""
        return (self.upper - self.lower) / abs(self.upper) if np.isfinite(self.upper) else np.inf

    def see(self, beta: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Judge a point and return the gap of the best bounds so far; no weights: those of the penalty."""
        feasible = self.repair(beta)
        g = self.stack.outputs(feasible)
        q = np.maximum(feasible @ g, 0.0)
        self.lower = max(self.lower, self.dual(feasible, q))
        if np.abs(beta - feasible).max() > 1e-9 * self.C:  # the primal value asks nothing of beta
            g = self.stack.outputs(beta)
            q = np.maximum(beta @ g, 0.0)
        weights = self.penalty_weights(q) if weights is None else weights
        value, scale, bias = self.primal(g @ weights, weights * np.sqrt(q))
        if value < self.upper:
            self.upper, self.beta, self.weights, self.bias = value, scale * beta, weights, bias
        return self.gap

    def repair(self, beta: np.ndarray) -> np.ndarray:
        """Clip to the box and scale the heavier class down so that beta sums to zero."""
        alpha = np.clip(beta * self.y, 0.0, self.C)
        plus, minus = alpha[self.y > 0].sum(), alpha[self.y < 0].sum()
        target = min(plus, minus)
        alpha[self.y > 0] *= target / max(plus, 1e-300)
        alpha[self.y < 0] *= target / max(minus, 1e-300)
        return alpha * self.y

    def dual(self, beta: np.ndarray, q: np.ndarray) -> float:
        """max over t of t sum(alpha) - t^2 h(q) inside the box."""
        linear, h = float(beta @ self.y), self.h(q)
        if linear <= 0:
            return 0.0
        t = min(linear / (2 * h) if h > 0 else np.inf, self.C / np.abs(beta).max())
        return t * linear - t**2 * h

    def primal(self, f: np.ndarray, u: np.ndarray) -> tuple[float, float, float]:
        """min over t and b of t^2 Omega(u) + C sum hinge(t f + b): the value, t and b."""
        omega = self.omega(u)

        def value(t: float) -> float:
            hinge = np.maximum(1 - self.y * (t * f + best_bias(t * f, self.y)), 0.0)
            return t**2 * omega + self.C * hinge.sum()

        found = minimize_scalar(value, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-7})
        t = min((1.0, float(found.x)), key=value)
        return value(t), t, best_bias(t * f, self.y)

    def h(self, q: np.ndarray) -> float:
        """Half the dual norm of q."""
        top = q.max()
        if self.p == 1 or top == 0:
            return top / 2
        dual = self.p / (self.p - 1)
        return top * np.sum((q / top) ** dual) ** (1 / dual) / 2

    def omega(self, u: np.ndarray) -> float:
        """Half the squared block norm of u, exponent 2p / (p + 1)."""
        top = u.max()
        s = 2 * self.p / (self.p + 1)
        return 0.0 if top == 0 else 0.5 * (top * np.sum((u / top) ** s) ** (1 / s)) ** 2

    def penalty_weights(self, q: np.ndarray) -> np.ndarray:
        """Twice the gradient of h, unique for p > 1."""
        return unit((q / q.max()) ** (1 / (self.p - 1)), self.p)


@dataclass
class FixedJudge(Judge):
    """The same for one machine on the kernel sum_k fixed_k K_k; p plays no part."""

    fixed: np.ndarray | None = None

    def h(self, q: np.ndarray) -> float:
        return float(self.fixed @ q) / 2

    def omega(self, u: np.ndarray) -> float:
        used = self.fixed > 0
        return float(np.sum(u[used] ** 2 / self.fixed[used])) / 2

    def penalty_weights(self, q: np.ndarray) -> np.ndarray:
        return self.fixed


@dataclass
class SquaredJudge(Judge):
    """The same for the squared hinge, C/2 sum (1 - y f)_+^2: duals have no upper bound and a square of their own."""

    def repair(self, beta: np.ndarray) -> np.ndarray:
        top = float(np.maximum(beta * self.y, 0.0).max())
        return Judge(self.stack, self.y, max(top, 1e-300), self.p).repair(beta)

    def dual(self, beta: np.ndarray, q: np.ndarray) -> float:
        linear, square = float(beta @ self.y), self.h(q) + float(beta @ beta) / (2 * self.C)
        return linear**2 / (4 * square) if linear > 0 else 0.0

    def primal(self, f: np.ndarray, u: np.ndarray) -> tuple[float, float, float]:
        omega = self.omega(u)

        def short(t: float, b: float) -> np.ndarray:
            return np.maximum(1 - self.y * (t * f + b), 0.0)

        def bias(t: float) -> float:
            ends = self.y - t * f
            return float(brentq(lambda b: self.y @ short(t, b), ends.min() - 1, ends.max() + 1))

        def value(t: float) -> float:
            return t**2 * omega + self.C / 2 * np.sum(short(t, bias(t)) ** 2)

        found = minimize_scalar(value, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-6})
        t = min((1.0, float(found.x)), key=value)
        return value(t), t, bias(t)


def unit(weights: np.ndarray, p: float) -> np.ndarray:
    """Scale weights to lp norm 1."""
    top = weights.max()
    return weights / (top * np.sum((weights / top) ** p) ** (1 / p))


# ------------------------------------------------------------------------------------------------ timing


@dataclass
class Stopwatch:
    """CPU seconds and wall seconds between `start` and `stop`, added up."""

    cpu: float = 0.0
    wall: float = 0.0

    @property
    def seconds(self) -> float:
        """What counts: CPU seconds of one thread, wall seconds of several."""
        return self.cpu if THREADS == 1 else self.wall

    def start(self) -> Stopwatch:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def stop(self) -> Stopwatch:
        self.cpu += time.process_time() - self._cpu
        self.wall += time.perf_counter() - self._wall
        return self

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()


def timed(job, repeat: int = 3):
    """Run a job, again while it is quick, and return its result with the fastest watch."""
    best = None
    for _ in range(repeat):
        with Stopwatch() as watch:
            result = job()
        best = min(best or watch, watch, key=lambda w: w.seconds)
        if watch.seconds > 2:
            break
    return result, best


@contextmanager
def capped(seconds: float, again: float = 0.0) -> Iterator[None]:
    """Send a KeyboardInterrupt after so many wall seconds: a fit then ends with its best certified point.

    `again` is after how many more it is sent again, for fits in which one may be lost; 0 for never.
    """

    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rows say themselves what was cut off
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Race:
    """A judge with a stopwatch that stands still while the judge works, and a cap on the seconds."""

    judge: Judge
    cap: float
    watch: Stopwatch = field(default_factory=Stopwatch)
    rounds: int = 0

    def over(self, *points) -> bool:
        """Show points (beta, weights) to the judge; true when the gap is reached or the time is up."""
        self.watch.stop()
        self.rounds += 1
        for beta, weights in points:
            self.judge.see(beta, weights)
        done = self.judge.gap <= TOL or self.watch.cpu > self.cap
        self.watch.start()
        return done


# ------------------------------------------------------------------------------------------------ ours


def our_penalty(p: float):
    """The penalty of the library whose weights live in the unit lp ball."""
    from kernelweave import penalties

    return penalties.L1() if p == 1 else penalties.Lp(p)


def our_fit(G, y, C, p, solver="auto", tol=TOL, repeat=3):
    """Fit MKLClassifier on a samples-first stack: points (beta, weights) to judge, and the watch."""
    from kernelweave import MKLClassifier

    def job():
        parameters = {"penalty": our_penalty(p), "C": C, "solver": solver, "tol": tol}
        return MKLClassifier("precomputed", normalize=None, **parameters).fit(G, y)

    model, watch = timed(job, repeat)
    beta = np.zeros(len(y))
    beta[model.support_] = np.ravel(model.dual_coef_)
    return [(beta, np.ravel(model.weights_))], watch


def our_solve(G, y, C, p, solver="auto", tol=TOL, repeat=3, max_iter=100_000):
    """The solver alone, without validation and estimator: points (beta, weights) to judge, and the watch."""
    from kernelweave.grams import DenseGram
    from kernelweave.losses import Hinge
    from kernelweave.problem import Problem
    from kernelweave.solvers import solve

    def job():
        problem = Problem(DenseGram(G), Hinge().bind(y, C), our_penalty(p))  # which remembers nothing of the last time
        return solve(problem, solver, tol=tol, max_iter=max_iter)

    solution, watch = timed(job, repeat)
    return [(solution.coef, solution.weights), (solution.beta, solution.weights)], watch


def gaussians(count: int) -> list:
    """RBF kernels with sigma logarithmic in 1..100, gamma = 1 / (2 sigma^2)."""
    from kernelweave import kernels

    return [kernels.RBF(gamma=float(0.5 / sigma**2)) for sigma in np.logspace(0, 2, count)]


def nystroem(kernels: list, X: np.ndarray, rank: int, seed: int = 0):
    """Float32 features of the rows, a LowRankGram, and the watch."""
    from kernelweave import Nystroem

    share = np.full(len(X), 1 / len(X))
    with Stopwatch() as watch:
        made = Nystroem(rank=rank).factorise(
            kernels, X.astype(np.float32), share=share, normalize=None, random_state=seed
        )
    return made.gram, watch


@dataclass
class Run:
    """One solve on features: the solution (None if cut off before the first point), bounds seen, the watch."""

    solution: object
    trail: list[tuple[float, float]]  # (wall seconds, certified gap) whenever a point was judged
    cut: bool
    watch: Stopwatch

    @property
    def gap(self) -> float:
        """The certified gap of the best point."""
        return self.solution.gap if self.solution else min((gap for _, gap in self.trail), default=np.inf)


def capped_solve(problem, solver, tol: float, cap: float, max_iter: int = 100_000) -> Run:
    """`solve`, ended after `cap` wall seconds."""
    from kernelweave import solve

    trail, solution = [], None

    def note(iteration, certificate, point) -> bool:
        trail.append((time.perf_counter() - begun, certificate.gap))
        return trail[-1][0] > cap

    begun = time.perf_counter()
    with Stopwatch() as watch, suppress(KeyboardInterrupt), capped(cap):
        solution = solve(problem, solver, tol=tol, max_iter=max_iter, callbacks=[note])
    return Run(solution, trail, solution is None or solution.status.name == "INTERRUPTED", watch)


def warm_up(solvers=("auto",), penalties=(1, 2)) -> str | None:
    """Compile our engines on a small problem; returns a sentence when the library cannot be used."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    G = np.stack([np.exp(-g * statistic(X, X, "rbf")) for g in (0.1, 1.0)], axis=-1)
    try:
        for solver in solvers:
            for p in penalties:
                our_solve(G, np.sign(X[:, 0]), 1.0, p, solver, repeat=1)
                our_fit(G, np.sign(X[:, 0]), 1.0, p, solver, TOL)
    except ImportError:
        return "kernelweave could not be imported; install the project first."
    return None


# ------------------------------------------------------------------------------------------------ reports


def table(headers: list[str], rows: list[list[object]]) -> str:
    """A plain text table: names and notes to the left, numbers to the right."""
    cells = [headers] + [["" if value is None else str(value) for value in row] for row in rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(headers))]
    left = {0, headers.index("note")} if "note" in headers else {0}
    lines = []
    for row in cells:
        padded = [
            c.ljust(w) if j in left else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown(headers: list[str], rows: list[list[object]]) -> str:
    """A table for people."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines)


def canvas(rows: int, columns: int):
    """A figure and its axes in two dimensions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * columns, 2.9 * rows + 0.3), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def number(value: float | None, digits: int = 3) -> str:
    """A short number, a dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.{digits}g}"


def made_with() -> dict[str, object]:
    """Versions, hardware and the command."""
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    with suppress(ImportError):
        import kernelweave

        packages["kernelweave"] = kernelweave.__version__
    for package in ("numpy", "scipy", "scikit-learn", "numba"):
        with suppress(PackageNotFoundError):
            packages[package] = version(package)
    script = Path(sys.argv[0]).resolve()
    command = script.relative_to(HERE.parent).as_posix() if script.is_relative_to(HERE) else script.name
    return {
        "command": " ".join(["python", command, *sys.argv[1:]]), "python": platform.python_version(), **packages,
        "processor": processor(), "cores": os.cpu_count(), "threads": THREADS,
    }  # fmt: skip


def processor() -> str:
    """The processor by its name, where the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def save(name: str, payload: dict) -> Path:
    """Write a result as JSON beside what it was made with; whoever reads it meanwhile finds the old one whole."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path, fresh = RESULTS / f"{name}.json", RESULTS / f"{name}.json.new"
    fresh.write_text(json.dumps({"made_with": made_with(), **payload}, indent=1, default=float) + "\n")
    fresh.replace(path)
    return path


def save_markdown(name: str, parts: list[str], makers: list[str] | None = None) -> Path:
    """Write a report, with what it was made with at its end; the draws are those of the seeds in the script."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.md"
    last = "Seeds are fixed in the script. Made " + "; ".join(makers or [in_words(made_with())]) + "."
    path.write_text("\n\n".join([*parts, last]) + "\n")
    return path


def in_words(maker: dict) -> str:
    """A command, with versions and hardware."""
    facts = ", ".join(f"{key} {value}" for key, value in maker.items() if key != "command")
    return f"by `{maker.get('command', 'an earlier version of the script')}` with {facts}"


def save_csv(name: str, rows: list[dict]) -> Path:
    """Write rows as CSV, with a column for each number or word that any of them has."""
    columns = list(dict.fromkeys(key for row in rows for key, value in row.items() if np.ndim(value) == 0))
    path = RESULTS / f"{name}.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


class Cells:
    """Measurements by name, kept in a JSON file that is written after each of them, beside facts about all.

    Each knows what it was made with, by its place in the list ``makers`` of the file, also where others go on later.
    """

    def __init__(self, name: str, cap: float, again: bool, facts: dict):
        self.name, self.cap, self.facts, self.made, self.makers = name, cap, facts, {}, []
        path = RESULTS / f"{name}.json"
        if path.exists() and not again:
            before = json.loads(path.read_text())
            self.makers = before.get("makers", [before["made_with"]])
            self.made = {key: {"maker": 0, **cell} for key, cell in before["cells"].items()}

    def get(self, key: str, job) -> dict:
        """The cell of this name; `job` makes it where there is none, or one that was cut off earlier than now."""
        cell = self.made.get(key)
        if cell is None or (cell["cut"] and cell["cap"] < self.cap):
            print(f"  {time.strftime('%H:%M:%S')} {key} ...", end=" ", file=sys.stderr, flush=True)
            cell = {**job(), "cap": self.cap, "maker": self._maker()}
            self.made[key] = cell
            print(f"{number(cell['seconds'])} s, gap {number(cell['gap'], 2)}", file=sys.stderr, flush=True)
            self.write()
        return cell

    def _maker(self) -> int:
        """The place of the present command, versions and hardware among the makers."""
        now = json.loads(json.dumps(made_with()))
        if now not in self.makers:
            self.makers.append(now)
        return self.makers.index(now)

    def credits(self) -> list[str]:
        """What the cells were made with, the makers of most of them first."""
        counts = Counter(cell["maker"] for cell in self.made.values())
        texts = {k: in_words(self.makers[k]) for k in counts}
        return [f"{count} cells {texts[k]}" if len(counts) > 1 else texts[k] for k, count in counts.most_common()]

    def write(self) -> Path:
        """Write all cells, as JSON and as CSV."""
        path = save(self.name, {"makers": self.makers, **self.facts, "cells": self.made})
        save_csv(self.name, [{"cell": key, **cell} for key, cell in self.made.items()])
        return path

    def report(self, parts: list[str]) -> Path:
        """Write a report on the cells."""
        return save_markdown(self.name, parts, self.credits())


def options(doc: str | None, cap: float = 120.0, sizes: bool = False) -> argparse.ArgumentParser:
    """The options all scripts share; with `sizes`, --sizes small stands in for --fast."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--cap", type=float, default=cap, help=f"seconds a contestant may use (default {cap:g})")
    if sizes:
        parser.add_argument("--sizes", choices=["full", "small"], default="full", help="small: a quick check")
    else:
        parser.add_argument("--fast", action="store_true", help="smaller sizes, to see that everything runs")
    return parser
