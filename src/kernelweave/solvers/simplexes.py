"""A convex quadratic over many small simplexes, by an interior point."""

from __future__ import annotations

import numpy as np

from ..arrays import cholesky

STEPS = 60  # Newton steps, at most
BOUNDARY = 0.99  # share of the way to the nearest bound that a step goes
APART = 0.1  # share of each simplex by which the first point is kept from its faces


def least_on_simplexes(
    square: np.ndarray,  # (v, v)
    linear: np.ndarray,  # (v,)
    group: np.ndarray,  # (v,) int
    size: np.ndarray,  # (groups,)
    start: np.ndarray,  # (v,)
    tol: float,
) -> np.ndarray:  # (v,)
    """Return where ``x' square x / 2 + linear'x`` is least, for x >= 0 with a sum of at most its size in each group.

    Mehrotra's predictor and corrector; each step factorises one matrix of the size of x. It ends where the duality gap
    is at most ``tol``, or where floating point ends it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.solvers.simplexes import least_on_simplexes
    >>> linear, group, size = np.array([-4.0, -1.0, -1.0]), np.array([0, 0, 1]), np.array([2.0, 3.0])
    >>> least_on_simplexes(np.eye(3), linear, group, size, np.zeros(3), 1e-8).round(6).tolist()
    [2.0, 0.0, 1.0]
    """
    count = np.bincount(group, minlength=size.size)
    x = (1.0 - APART) * start + APART * (size / (count + 1))[group]
    room = size - _sums(x, group, size.size)
    beside = group[:, None] == group
    mu = max(float(np.abs(square @ x + linear) @ x) / (x.size + size.size), tol)
    z, u = mu / x, mu / room
    for _ in range(STEPS):
        slope = square @ x + linear
        gap = float(x @ z + room @ u)
        if gap + float(size[group] @ np.abs(slope - z + u[group])) <= tol:
            break
        system = square + beside * (u / room)[group]
        system.flat[:: x.size + 1] += z / x
        solve = cholesky(system)
        if solve is None:
            break

        def toward(of_x, of_room, slope=slope, solve=solve, x=x, z=z, u=u, room=room):
            """Return the steps of x, its room and their multipliers towards products with these as targets."""
            dx = solve(-slope + of_x / x - (of_room / room)[group])
            fall = -_sums(dx, group, size.size)
            return dx, fall, (of_x - z * dx) / x - z, (of_room - u * fall) / room - u

        dx, fall, dz, du = toward(0.0, 0.0 * room)
        far = _reach((x, room, z, u), (dx, fall, dz, du))
        after = float((x + far * dx) @ (z + far * dz) + (room + far * fall) @ (u + far * du))
        aim = gap * (max(after, 0.0) / gap) ** 3 / (x.size + size.size)
        dx, fall, dz, du = toward(aim - dx * dz, aim - fall * du)
        far = min(1.0, BOUNDARY * _reach((x, room, z, u), (dx, fall, dz, du)))
        x, room, z, u = x + far * dx, room + far * fall, z + far * dz, u + far * du
    there = x / size[group] > z / max(float(z.max()), float(np.abs(slope).max()), 1e-300)
    return np.where(there, x, 0.0) if gap <= tol else x


def _sums(x: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    return np.bincount(group, weights=x, minlength=groups)


def _reach(places: tuple[np.ndarray, ...], steps: tuple[np.ndarray, ...]) -> float:
    """Return the step, about 1 at most, at which the first of several positive numbers comes to zero."""
    pairs = zip(places, steps, strict=True)
    return 1.0 / max(1.0 / 1.01, *(float(np.max(-step / place)) for place, step in pairs))
