"""Products of kernels: machines to a gap of 1e-4, and the cost of one against the number of kernels.

First, NuC-MKL (`SpectralNorm`, solver frank-wolfe) on 300 made-up samples that no product separates and 20 kernels, for
three costs: a step is a machine, so iterations are calls to a solver of support vector machines. Then seconds of one
iteration with 25 to 200 kernels, energies by power iteration (the matrix of all pairs never formed) and by the matrix,
and the exponent b of seconds ~ m^b fitted on the three largest numbers of kernels. An iteration is one machine, the
combined kernel and the energies; the machine does not depend on the number of kernels, so energies are also timed
alone.

    python benchmarks/products.py             # a minute or two
    python benchmarks/products.py --fast      # to see that everything runs
"""

from __future__ import annotations

from functools import partial

import numpy as np

from common import Cells, Stopwatch, markdown, number, options

COSTS = (1.0, 10.0, 100.0)
SIZES = (25, 50, 100, 200)
GAP = 1e-4
WAYS = {"power": 0, "matrix": 10**9}  # kernels up to which the matrix of energies is formed


def samples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five columns, and labels that depend on a product of two of them, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=n) > 0, 1.0, -1.0)


def stack_of(X: np.ndarray, m: int) -> np.ndarray:
    """So many linear and Gaussian kernels on one or two columns, with mean diagonal 1, samples first."""
    kernels = []
    for k in range(m):
        A = X[:, [k % 5]] if k % 3 else X[:, [k % 5, (k + 1 + k // 5) % 5]]
        far = ((A[:, None] - A) ** 2).sum(axis=2)
        kernel = A @ A.T if k % 4 == 0 else np.exp(-far * 0.01 * 5 ** (k % 3) * (1 + k / m))
        kernels.append(kernel * len(X) / np.trace(kernel))
    return np.stack(kernels, axis=2)


def problem_of(n: int, m: int, C: float, linear_terms: bool, seed: int):
    """A problem on products of kernels."""
    from kernelweave import DenseGram, Problem, losses
    from kernelweave.grams import products_for
    from kernelweave.penalties import SpectralNorm

    X, y = samples(n, seed)
    penalty = SpectralNorm(linear_terms)
    return Problem(products_for(DenseGram(stack_of(X, m)), penalty), losses.Hinge().bind(y, C), penalty)


def machines(n: int, C: float, linear_terms: bool, seed: int) -> dict:
    """How many machines the gap takes."""
    from kernelweave import solve

    problem = problem_of(n, 20, C, linear_terms, seed)
    with Stopwatch() as watch:
        found = solve(problem, tol=GAP)
    bound = int(np.sum(np.abs(found.beta) > 0.999 * C))
    cut = not found.converged
    return {"seconds": watch.seconds, "gap": found.gap, "cut": cut, "machines": found.n_iter, "at the bound": bound}


def cost(n: int, m: int, way: str) -> dict:
    """Seconds of an iteration, and of the energies of one machine alone, with so many kernels."""
    from kernelweave import solve
    from kernelweave.grams import products

    problem, before = problem_of(n, m, 10.0, True, 0), products.FORMED
    products.FORMED = WAYS[way]
    try:
        with Stopwatch() as watch:
            found = solve(problem, tol=GAP)
        alone = [energies_of(problem, found.beta) for _ in range(3)]
    finally:
        products.FORMED = before
    return {
        "seconds": watch.seconds / found.n_iter, "gap": found.gap, "cut": not found.converged,
        "machines": found.n_iter, "energies": min(alone),
    }  # fmt: skip


def energies_of(problem, beta: np.ndarray) -> float:
    """Seconds of the energies of some duals and of the weights they lead to."""
    with Stopwatch() as watch:
        _ = problem.gram.energies(beta).top
    return watch.seconds


def exponent(sizes: list[int], seconds: list[float]) -> float | None:
    """The slope of seconds against kernels, both as logarithms, over the three largest; None of fewer than two."""
    if len(sizes) < 2:
        return None
    return float(np.polyfit(np.log(sizes[-3:]), np.log(seconds[-3:]), 1)[0])


def machine_table(cells: Cells, n: int, seeds: int) -> str:
    """How many machines each cost takes, over the draws."""
    rows = []
    for C in COSTS:
        for terms in (True, False):
            jobs = {f"machines C={C:g} terms={terms} seed={s}": partial(machines, n, C, terms, s) for s in range(seeds)}
            found = [cells.get(key, job) for key, job in jobs.items()]
            counts = [cell["machines"] for cell in found]
            rows.append([
                f"{C:g}", "yes" if terms else "no", min(counts), max(counts),
                number(max(cell["gap"] for cell in found), 2), min(cell["at the bound"] for cell in found),
            ])  # fmt: skip
    return markdown(["C", "linear terms", "least machines", "most", "largest gap", "least duals at C"], rows)


def cost_table(cells: Cells, n: int, sizes: tuple[int, ...]) -> str:
    """What an iteration costs, by the number of kernels; the exponents become facts of the file."""
    rows, slopes = [], {}
    for way in WAYS:
        made = [cells.get(f"cost m={m} {way}", partial(cost, n, m, way)) for m in sizes]
        for m, cell in zip(sizes, made, strict=True):
            rows.append([way, m, number(1e3 * cell["seconds"]), number(1e3 * cell["energies"]), cell["machines"]])
        for what in ("seconds", "energies"):
            slopes[f"{way}, {what}"] = exponent(list(sizes), [cell[what] for cell in made])
    cells.facts["exponents"] = slopes
    return markdown(["energies by", "kernels", "ms per iteration", "of energies alone", "iterations"], rows)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--again", action="store_true", help="forget the cells made before")
    args = parser.parse_args()
    n, seeds, sizes = (120, 1, SIZES[:2]) if args.fast else (300, 5, SIZES)
    cells = Cells("products_fast" if args.fast else "products", args.cap, args.again, {"gap": GAP, "rows": n})
    machines(60, 1.0, True, 0), [cost(60, 5, way) for way in WAYS]  # compiled code
    parts = [
        f"# {(__doc__ or '').split('    python')[0].strip()}",
        f"Machines to a gap of {GAP:g}, {n} samples, 20 kernels, {seeds} draws:", machine_table(cells, n, seeds),
        f"Cost of an iteration, {n} samples:", cost_table(cells, n, sizes),
    ]  # fmt: skip
    slopes = "; ".join(f"{name} {number(b, 2)}" for name, b in cells.facts["exponents"].items())
    parts.append(f"Exponents of the number of kernels: {slopes}.")
    print("\n\n".join(parts))
    cells.write()
    print(f"\nwritten to {cells.report(parts)}")


if __name__ == "__main__":
    main()
