"""Ours against named rivals on exact kernels: one run, one judge, the same certified relative gap for all.

Three problems (cases.py), C in {1, 100}, weights in the unit l1, l1.1 and l2 ball. Kernels are computed
beforehand. Rivals that solve the same problem are stopped by the judge of common.py at a relative gap of
1e-3, and the judge's own time is not counted; SVC on one kernel and MKLpy solve other problems, so only
their time and accuracy are shown. Seconds are CPU seconds of one thread, the best of three below 2 s.
"Kernels" counts weights above 1e-4 of the largest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv

import numpy as np

import contestants
from cases import make
from common import (
    HERE,
    TOL,
    Case,
    Judge,
    Race,
    Stack,
    Stopwatch,
    accuracy,
    best_bias,
    build,
    number,
    options,
    our_fit,
    our_solve,
    save,
    table,
    timed,
    unit,
    warm_up,
)

CONIC_ROWS = 400  # an interior-point method is asked up to this many training rows
MKLPY = HERE / ".venv-mklpy"
RIVALS = {
    "alternation + LIBSVM": contestants.alternation,
    "SILP + LIBSVM": contestants.silp,
    "Clarabel": contestants.conic,
}
HEADERS = ["contestant", "seconds", "/ read", "/ SVC learned", "/ aim", "gap", "kernels", "test acc", "note"]
NAMES = {1: "l1", 1.1: "l1.1", 2: "l2"}


def judged(name: str, case: Case, judge: Judge, watch: Stopwatch, note: str = "") -> dict:
    """The row of a contestant that solves the same problem."""
    if judge.gap > TOL:
        note = f"gap {TOL:g} not reached; {note}".rstrip("; ")
    kept = int(np.sum(judge.weights > 1e-4 * judge.weights.max()))
    return {
        "name": name, "p": judge.p, "C": judge.C, "seconds": watch.cpu, "wall": watch.wall, "gap": judge.gap,
        "lower": judge.lower, "upper": judge.upper, "kept": kept,
        "accuracy": accuracy(case, judge.beta, judge.weights, judge.bias), "note": note,
    }  # fmt: skip


def run_ours(case: Case, args, rows: list[dict], learned: dict) -> float:
    """Our rows on the samples-first stack; fills in learned weights, returns the seconds of one reading."""
    stack = build(case.bank, case.X, "samples")
    _, reading = timed(stack.array.sum)
    for C, p, solver in ((C, p, s) for C in args.C for p in args.p for s in args.solvers):
        lower = -np.inf  # a lower bound holds for everybody; a fitted model shows its primal side only
        for label, contestant in (("solver only", our_solve), ("fit", our_fit)):
            try:
                points, watch = contestant(stack.array, case.y, C, p, solver, TOL)
            except ImportError:
                note = "kernelweave is not installed"
                rows.append({"name": f"ours, {label}", "p": p, "C": C, "seconds": None, "note": note})
                continue
            judge = Judge(stack, case.y, C, p, lower)
            for point in points:
                judge.see(*point)
            lower = judge.lower
            learned.setdefault((C, p), points[0][1])
            rows.append(judged(f"ours {solver}, {label}", case, judge, watch))
            say(rows[-1])
    return reading.cpu


def run_rivals(case: Case, args, rows: list[dict], learned: dict) -> None:
    """Everybody who solves the same problem, and SVC on one kernel, on the kernels-first stack."""
    stack = build(case.bank, case.X, "kernels")
    average = np.full(len(case.bank), 1 / len(case.bank))
    for C in args.C:
        rows.append(run_svc("SVC, average kernel", case, stack, C, None, average))
        for p in args.p:
            for name in [name for name in RIVALS if applies(name, p, len(case.y))]:
                race, note = run_race(RIVALS[name], case, stack, C, p, args.cap)
                learned.setdefault((C, p), race.judge.weights)
                rows.append(judged(name, case, race.judge, race.watch, note))
                say(rows[-1])
            rows.append(run_svc("SVC, learned kernel", case, stack, C, p, unit(learned[C, p], p)))


def applies(name: str, p: float, n: int) -> bool:
    """SILP is a method for l1; an interior-point method is asked for few rows only."""
    return (name != "SILP + LIBSVM" or p == 1) and (name != "Clarabel" or n <= CONIC_ROWS)


def run_race(rival, case: Case, stack: Stack, C, p, cap: float) -> tuple[Race, str]:
    """Let a rival run to the gap or the cap, the fastest of three where it is quick."""
    best = None
    for _ in range(3):
        race = Race(Judge(stack, case.y, C, p), cap)
        try:
            note = rival(stack, case.y, C, p, race)
        except RuntimeError as error:
            note = str(error)
        if best is None or race.watch.cpu < best.watch.cpu:
            best, best_note = race, note
        if race.watch.cpu > 2:
            break
    return best, best_note + (f", cap of {cap:g} s" if best.watch.cpu > cap else "")


def run_svc(name, case, stack: Stack, C, p, weights) -> dict:
    """One SVC on one mixed kernel; mixing is timed apart."""
    with Stopwatch() as mixing:
        K = stack.mix(weights)
    beta, watch = timed(lambda: contestants.svm(K, case.y, C))
    right = accuracy(case, beta, weights, best_bias(K @ beta, case.y))
    kept = int(np.sum(weights > 1e-4 * weights.max()))
    return {
        "name": name, "p": p, "C": C, "seconds": watch.cpu, "wall": watch.wall, "kept": kept,
        "accuracy": right, "mixing_seconds": mixing.cpu, "note": f"mixing {mixing.cpu:.3g} s not counted",
    }  # fmt: skip


def run_mklpy(key: str, args) -> list[dict]:
    """MKLpy's two main methods in their own environment, made on first use."""
    try:
        python = mklpy_python()
        command = [python, HERE / "mklpy_worker.py", key, "fast" if args.fast else "full", str(args.cap)]
        command += [str(C) for C in args.C]
        limit = 300 + 2 * args.cap * len(args.C)
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
    except (OSError, subprocess.SubprocessError) as error:
        note = f"could not be run ({type(error).__name__})"
        return [{"name": "MKLpy", "C": C, "seconds": None, "note": note} for C in args.C]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def mklpy_python():
    """The interpreter of MKLpy's environment; torch goes first and pinned, since MKLpy would pull any."""
    python = MKLPY / "bin" / "python"
    if not (MKLPY / "ready").exists():
        venv.create(MKLPY, with_pip=True, clear=True)
        for package in ("torch==2.13.0", "MKLpy==0.6"):
            subprocess.run([python, "-m", "pip", "install", "-q", package], check=True, capture_output=True)
        (MKLPY / "ready").touch()
    return python


def show(case: Case, reading: float, rows: list[dict], args) -> None:
    """Print one table per C and penalty; rows without a penalty appear in each."""
    print(f"\n{case.name}; reading the stack once (K.sum()) takes {reading:.3g} s")
    for C, p in ((C, p) for C in args.C for p in args.p):
        mine = [row for row in rows if row["C"] == C and row.get("p") in (None, p)]
        svc = next(row["seconds"] for row in mine if row["name"] == "SVC, learned kernel")
        for row in mine:
            row["to_read"], row["to_svc"], row["to_aim"] = ratios(row, reading, svc)
        print(f"\nC = {C:g}, {NAMES.get(p, p)} weights (aim: 5 reads + 5 SVC = {5 * (reading + svc):.3g} s)")
        print(table(HEADERS, [cells(row) for row in mine]))


def ratios(row: dict, reading: float, svc: float) -> list[float | None]:
    """Seconds over one reading, over SVC on the learned kernel, and for ours over the aim."""
    seconds, aim = row["seconds"], 5 * (reading + svc)
    if seconds is None:
        return [None] * 3
    return [seconds / reading, seconds / svc, seconds / aim if row["name"].startswith("ours") else None]


def cells(row: dict) -> list[object]:
    """A row as the table shows it."""
    shown = [number(row[key]) for key in ("seconds", "to_read", "to_svc", "to_aim")]
    quality = [number(row.get("gap"), 2), row.get("kept", "-"), number(row.get("accuracy"))]
    return [row["name"], *shown, *quality, row["note"]]


def say(row: dict) -> None:
    """A line of progress on the error stream."""
    text = f"  {row['name']}, p={row['p']:g}, C={row['C']:g}: {number(row['seconds'])} s"
    print(f"{text}, gap {number(row['gap'], 2)}", file=sys.stderr, flush=True)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", default="a,b,c", help="cases to run, for example a,c")
    parser.add_argument("--C", default="1,100", help="costs, for example 1,100")
    parser.add_argument("--p", default="1,1.1,2", help="norms of the weights; 1 is the sparse one")
    parser.add_argument("--solvers", default="auto", help="our solvers, by name")
    parser.add_argument("--no-mklpy", action="store_true", help="leave out MKLpy and its environment")
    args = parser.parse_args()
    args.C = [float(C) for C in args.C.split(",")]
    args.p = [float(p) for p in args.p.split(",")]
    args.solvers = args.solvers.split(",")
    problem = warm_up(args.solvers, args.p)
    report = {"gap": TOL, "cap": args.cap, "fast": args.fast, "cases": {}}
    for key in args.only.split(","):
        case, rows, learned = make(key, args.fast), [], {}
        reading = run_ours(case, args, rows, learned)
        run_rivals(case, args, rows, learned)
        rows += [] if args.no_mklpy else run_mklpy(key, args)
        show(case, reading, rows, args)
        report["cases"][key] = {"name": case.name, "read_seconds": reading, "rows": rows}
    path = save("rivals_exact_fast" if args.fast else "rivals_exact", report)
    print(f"\n{problem or ''}\nwritten to {path}")


if __name__ == "__main__":
    main()
