"""Multiplicative weights: steps from vertex to vertex of the set of duals, with bounds on the optimum at each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, from_dtype, int64, njit, types

FACTS = np.dtype(
    [
        ("steps", "f8"),  # made so far
        ("lower", "f8"),  # best bounds on v = (2 optimum)^(-1/2)
        ("upper", "f8"),
        ("width", "f8"),  # relative distance between the bounds of the best point alone
        ("aim", "f8"),  # width to work towards
        ("best_upper", "f8"),  # the best point's bound and multiplier of the mass
        ("best_margin", "f8"),
        ("free", "f8"),  # whether the mass is free, and not one
        ("radius", "f8"),  # published steps: the largest norm of a sample; zero for annealed steps
        ("eps", "f8"),  # published steps: accuracy, absolute, or relative where that is zero
        ("accuracy", "f8"),
        ("exponent", "f8"),  # of the weights at the point
        ("searched", "f8"),  # whether steps are searched for, and not of lengths known beforehand
    ]
)


class Work(NamedTuple):
    """What the steps read and write; ``point`` and ``vertex`` are signed like the classes, ``g`` are plain products."""

    sign: np.ndarray  # (n,)  -1 or +1
    ridge: np.ndarray  # (n,)  added to the diagonal of every kernel
    cap: np.ndarray  # (n,)  most that a sample may hold
    unit: np.ndarray  # (m,)  factor on each kernel
    point: np.ndarray  # (n,)
    vertex: np.ndarray  # (n,)  to move towards
    held: np.ndarray  # (n,)  vertex whose product is in ``ahead``
    slope: np.ndarray  # (n,)  of the mixed norm, towards more of each sample
    energy: np.ndarray  # (m,)  point' K_k point
    mixed: np.ndarray  # (m,)  share of each kernel over its norm
    best_point: np.ndarray  # (n,)
    best_slope: np.ndarray  # (n,)
    best_energy: np.ndarray  # (m,)
    best_mixed: np.ndarray  # (m,)
    g: np.ndarray  # (n, m)  K_k point
    ahead: np.ndarray  # (n, m)  K_k vertex
    columns: np.ndarray  # (n,)  samples whose columns to read, and how much of each
    delta: np.ndarray  # (n,)
    facts: np.ndarray  # (), of FACTS


PER_KERNEL = {"unit", "energy", "mixed", "best_energy", "best_mixed"}


def workspace(sign: np.ndarray, m: int) -> Work:
    """Return a work space for samples of the classes ``sign`` and ``m`` kernels, at no point yet."""
    n = sign.size
    arrays = {name: np.zeros(m if name in PER_KERNEL else n) for name in Work._fields}
    arrays |= {name: np.zeros((n, m)) for name in ("g", "ahead")}
    facts = np.zeros((), FACTS)
    for name in ("upper", "width", "best_upper"):
        facts[name] = np.inf
    return Work(**arrays | {"sign": sign, "cap": np.full(n, np.inf), "columns": np.arange(n), "facts": facts})


ROW, TABLE = float64[::1], float64[:, ::1]
WORK = types.NamedTuple((ROW,) * 14 + (TABLE, TABLE, int64[::1], ROW, types.Array(from_dtype(FACTS), 0, "C")), Work)
FLAT32, FLAT64 = (types.Array(kind, 2, "C", readonly=True) for kind in (float32, float64))
LEAST = 1e-12  # relative width below which the exponent grows no more
HALVINGS = 30  # of the interval in which the length of a step is searched for
FAST = {"contract", "reassoc"}


@njit(types.void(ROW), cache=True, nogil=True)
def clear(row):
    """Set to zero; a plain loop compiles much faster than an assignment to a slice."""
    for i in range(row.size):
        row[i] = 0.0


@njit(types.void(ROW, float64, ROW), cache=True, nogil=True)
def mix(norms, exponent, out):
    """Put ``w_k / (norm_k sum w)`` in ``out``, where w are the matrix exponential's weights; nothing overflows.

    ``w_k = 2 sinh(t_k) / sum_l (n - 1 + 2 cosh(t_l))`` with ``t = exponent * norms``: the normalisation is by the
    trace of the whole block-diagonal exponential, one number for all kernels, so it cancels.
    """
    top, total = 0.0, 0.0
    for k in range(norms.size):
        top = max(top, norms[k])
    for k in range(norms.size):
        out[k] = 0.0
        if norms[k] > 0.0:
            raised = -np.exp(exponent * (norms[k] - top)) * np.expm1(-2.0 * exponent * norms[k])
            total += raised
            out[k] = raised / norms[k]
    if total > 0.0:
        for k in range(norms.size):
            out[k] /= total


@njit(float64(WORK, float64, float64), cache=True, nogil=True)
def upper_bound(w, mass, top):
    """Bound on v from the dual value of the point, or of the best multiple of it that the caps allow."""
    if w.facts[()].free == 0.0:
        return top
    room = np.inf
    for i in range(w.sign.size):
        if w.point[i] != 0.0:
            room = min(room, w.cap[i] / abs(w.point[i]))
    t = min(mass / top**2, room) if top > 0.0 else room
    return 1.0 / np.sqrt(2.0 * t * mass - (t * top) ** 2)


@njit(float64(WORK, float64, float64), cache=True, nogil=True)
def exponent_at(w, mass, top):
    """Return what multiplies the norms in the exponential.

    Annealed, it lets the soft maximum exceed the largest norm by at most the present width of the bounds.
    """
    facts = w.facts[()]
    if facts.radius > 0.0:
        eps = facts.eps if facts.eps > 0.0 else facts.accuracy * facts.upper
        step = -np.log1p(-0.5 * min(eps / facts.radius, 1.0)) / (2.0 * facts.radius)
        return step * facts.steps / mass
    width = (facts.upper - facts.lower) / facts.upper
    return np.log(2.0 * w.energy.size) / (max(width, LEAST) * top)


@njit(types.UniTuple(float64, 3)(WORK), cache=True, nogil=True)
def lowest(w):
    """Leave as vertex the sample of least slope in each class; value of its slope, mass, margin."""
    plus, minus = -1, -1
    for i in range(w.sign.size):
        if w.sign[i] > 0.0:
            if plus < 0 or w.slope[i] < w.slope[plus]:
                plus = i
        elif minus < 0 or w.slope[i] < w.slope[minus]:
            minus = i
    clear(w.vertex)
    w.vertex[plus], w.vertex[minus] = 0.5, -0.5
    value = 0.5 * (w.slope[plus] + w.slope[minus])
    return value, 1.0, value


@njit(types.void(int64[::1], ROW, int64, int64), cache=True, nogil=True)
def sift(heap, slope, size, i):
    """Let entry ``i`` sink until no sample below it has less slope."""
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and slope[heap[child + 1]] < slope[heap[child]]:
            child += 1
        if slope[heap[i]] <= slope[heap[child]]:
            return
        heap[i], heap[child] = heap[child], heap[i]
        i = child


@njit(int64(int64[::1], ROW, int64), cache=True, nogil=True)
def pop(heap, slope, size):
    """Take the sample of least slope from the heap."""
    first = heap[0]
    heap[0] = heap[size - 1]
    sift(heap, slope, size - 1, 0)
    return first


@njit(int64(WORK), cache=True, nogil=True)
def part(w):
    """Make ``columns`` two heaps by slope, first the samples of sign +1; return how many those are."""
    n, pluses = w.sign.size, 0
    for i in range(n):
        pluses += w.sign[i] > 0.0
    a, b = 0, pluses
    for i in range(n):
        if w.sign[i] > 0.0:
            w.columns[a] = i
            a += 1
        else:
            w.columns[b] = i
            b += 1
    for i in range(pluses // 2 - 1, -1, -1):
        sift(w.columns[:pluses], w.slope, pluses, i)
    for i in range((n - pluses) // 2 - 1, -1, -1):
        sift(w.columns[pluses:], w.slope, n - pluses, i)
    return pluses


@njit(types.UniTuple(float64, 3)(WORK), cache=True, nogil=True)
def fill(w):
    """Fill the samples of least slope to their caps, both classes alike; value of that vertex's slope, mass, margin.

    A fixed mass of one is shared by the classes. A free mass grows until more of it would cost more than it brings,
    which is the search for the ratio of cap to mass that the cost of errors asks for.
    """
    clear(w.vertex)
    pluses = part(w)
    minuses = w.sign.size - pluses
    plus, minus = w.columns[:pluses], w.columns[pluses:]
    i, j = -1, -1
    half, value, pair, room_i, room_j = 0.0, 0.0, 0.0, 0.0, 0.0
    while (room_i > 0.0 or pluses > 0) and (room_j > 0.0 or minuses > 0):
        if room_i <= 0.0:
            i = pop(plus, w.slope, pluses)
            pluses, room_i = pluses - 1, w.cap[i]
        if room_j <= 0.0:
            j = pop(minus, w.slope, minuses)
            minuses, room_j = minuses - 1, w.cap[j]
        pair = w.slope[i] + w.slope[j]
        limit = 0.5 - half
        if w.facts[()].free > 0.0:
            limit = max((2.0 / pair - value) / pair, 0.0) if pair > 0.0 else np.inf
        take = min(room_i, room_j, limit)
        w.vertex[i] += take
        w.vertex[j] -= take
        half += take
        value += take * pair
        if take == limit:
            break
        room_i -= take
        room_j -= take
    return value, 2.0 * half, 0.5 * pair


@njit(types.void(WORK), cache=True, nogil=True, fastmath=FAST)
def slopes(w):
    """Compute the slope of the mixed norm along each sample."""
    factors, whole = np.empty(w.unit.size), 0.0
    for k in range(factors.size):
        factors[k] = w.mixed[k] * w.unit[k]
        whole += w.mixed[k]
    for i in range(w.sign.size):
        total = whole * w.ridge[i] * w.point[i]
        for k in range(factors.size):
            total += factors[k] * w.g[i, k]
        w.slope[i] = w.sign[i] * total


@njit(types.void(WORK, float64, float64, float64), cache=True, nogil=True)
def remember(w, lower, upper, margin):
    """Keep the best bounds, and the point whose own bounds are nearest to each other."""
    facts = w.facts[()]
    facts.lower = max(facts.lower, lower)
    width = (upper - lower) / upper if upper > 0.0 else 0.0
    if width < facts.width:
        facts.width, facts.best_upper, facts.best_margin = width, upper, margin
        for i in range(w.sign.size):
            w.best_point[i], w.best_slope[i] = w.point[i], w.slope[i]
        for k in range(w.energy.size):
            w.best_energy[k], w.best_mixed[k] = w.energy[k], w.mixed[k]


@njit(boolean(WORK), cache=True, nogil=True)
def look(w):
    """Weigh the kernels at the point, bound the optimum and leave the vertex to move to; True when the aim is met."""
    facts = w.facts[()]
    mass, ridge, top = 0.0, 0.0, 0.0
    for i in range(w.sign.size):
        mass += abs(w.point[i])
        ridge += w.ridge[i] * w.point[i] ** 2
    norms = np.empty(w.energy.size)
    for k in range(norms.size):
        norms[k] = np.sqrt(max(w.energy[k] * w.unit[k], 0.0) + ridge)
        top = max(top, norms[k])
    upper = upper_bound(w, mass, top)
    facts.upper = min(facts.upper, upper)
    facts.exponent = exponent_at(w, mass, top) if top > 0.0 else 0.0
    mix(norms, facts.exponent, w.mixed)
    slopes(w)
    value, reach, margin = lowest(w) if np.isinf(w.cap[0]) else fill(w)
    lower = max(value, 0.0)
    if facts.free > 0.0:
        lower = 1.0 / np.sqrt(2.0 * reach - lower**2)
    remember(w, lower, upper, margin)
    return facts.width <= facts.aim


@njit(types.Tuple((int64, boolean))(WORK), cache=True, nogil=True)
def plan(w):
    """Choose the columns that make the vertex's product out of the one held; how many, and whether from zero."""
    new, changed = 0, 0
    for i in range(w.sign.size):
        new += w.vertex[i] != 0.0
        changed += w.vertex[i] != w.held[i]
    afresh = new <= changed
    count = 0
    for i in range(w.sign.size):
        move = w.vertex[i] if afresh else w.vertex[i] - w.held[i]
        if move != 0.0:
            w.columns[count], w.delta[count] = i, move
            count += 1
        w.held[i] = w.vertex[i]
    return count, afresh


@njit(float64(WORK, ROW, ROW, ROW, float64, float64), cache=True, nogil=True)
def slope_along(w, here, cross, there, gain, s):
    """Slope, at a share s of the way, of what the step lowers; ``here``, ``cross``, ``there`` give the squared norms.

    That is the soft largest norm or, where mass is free and grows by ``gain``, half its square less the mass.
    """
    facts = w.facts[()]
    norms, top = np.empty(here.size), 0.0
    for k in range(here.size):
        square = (1.0 - s) ** 2 * here[k] + s * (2.0 * (1.0 - s) * cross[k] + s * there[k])
        norms[k] = np.sqrt(max(square, 0.0))
        top = max(top, norms[k])
    total, turn = 0.0, 0.0
    for k in range(here.size):
        if norms[k] > 0.0:
            weight = np.exp(facts.exponent * (norms[k] - top))
            total += weight
            turn += weight * ((s - 1.0) * here[k] + (1.0 - 2.0 * s) * cross[k] + s * there[k]) / norms[k]
    slope = turn / total if total > 0.0 else 0.0
    return slope * top - gain if facts.free > 0.0 else slope


@njit(float64(WORK, ROW, ROW), cache=True, nogil=True)
def share_of_the_way(w, cross, own):
    """Return how far to go: by the number of steps made or, searched for, to where the slope along the way ends."""
    facts = w.facts[()]
    if facts.searched == 0.0:
        return (1.0 if facts.radius > 0.0 else 2.0) / (facts.steps + 1.0)
    gain, ridged = 0.0, np.zeros(3)
    for i in range(w.sign.size):
        gain += abs(w.vertex[i]) - abs(w.point[i])
        ridged[0] += w.ridge[i] * w.point[i] ** 2
        ridged[1] += w.ridge[i] * w.point[i] * w.vertex[i]
        ridged[2] += w.ridge[i] * w.vertex[i] ** 2
    here, between, there = w.energy * w.unit + ridged[0], cross * w.unit + ridged[1], own * w.unit + ridged[2]
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if slope_along(w, here, between, there, gain, middle) <= 0.0:
            low = middle
        else:
            high = middle
    return high


@njit(types.void(WORK), cache=True, nogil=True, fastmath=FAST)
def walk(w):
    """Move the point and its products towards the vertex."""
    n, m = w.g.shape
    cross, own = np.zeros(m), np.zeros(m)
    for i in range(n):
        v = w.vertex[i]
        if v != 0.0:
            for k in range(m):
                cross[k] += v * w.g[i, k]
                own[k] += v * w.ahead[i, k]
    s = share_of_the_way(w, cross, own)
    for i in range(n):
        w.point[i] += s * (w.vertex[i] - w.point[i])
    for k in range(m):
        w.energy[k] = (1.0 - s) ** 2 * w.energy[k] + s * (2.0 * (1.0 - s) * cross[k] + s * own[k])
    here, there = w.g.reshape(n * m), w.ahead.reshape(n * m)
    for c in range(n * m):
        here[c] += s * (there[c] - here[c])
    w.facts[()].steps += 1.0


@njit([boolean(FLAT32, WORK, int64), boolean(FLAT64, WORK, int64)], cache=True, nogil=True, fastmath=FAST)
def march(flat, w, budget):
    """Make up to ``budget`` steps on a stored stack (n, n m); True when the aim is met."""
    there = w.ahead.reshape(w.ahead.size)
    for _ in range(budget):
        if look(w):
            return True
        count, afresh = plan(w)
        if afresh:
            clear(there)
        for a in range(count):
            row, d = flat[w.columns[a]], w.delta[a]
            for c in range(there.size):
                there[c] += d * row[c]
        walk(w)
    return False
