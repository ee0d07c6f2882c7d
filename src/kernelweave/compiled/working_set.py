"""Newton steps on a working set: rows of the block and of the combined kernel, made when first touched.

``block[slot[i], j, k]`` holds kernels between sample i of a working set and all of it, laid out as the stack it is
copied from, as long as there are rows left; others are read from the stack again. Rows of all tables come in the order
in which they are touched, so that memory is taken up as they are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .prefetch import prefetch
from .stacks import AHEAD, FAST, FETCHED, LINE, QUICK, add_columns, weighted_columns

TOGETHER = 1024  # samples among which pairs are taken at a time
REMNANT = float(np.finfo(np.float32).tiny)  # least number with all digits of single precision
ROUGH = 0.25  # share of the violation to which that is done


@njit(**FAST)
def fill_row(stack, samples, kernels, i, first, row):
    """Copy the chosen kernels between sample i of the set and those from ``first`` on into ``row`` (set, kernels)."""
    source, tiny = stack[samples[i]], REMNANT if row.itemsize == 4 else 0.0
    if stack.strides[2] > stack.strides[1]:  # one kernel after the other
        for k in range(kernels.size):
            column = source[:, kernels[k]]
            for j in range(first, samples.size):
                row[j, k] = without_remnant(column[samples[j]], tiny)
        return
    base, size, whole = source.ctypes.data, stack.shape[2] * source.itemsize, kernels.size == stack.shape[2]
    for j in range(first, samples.size):
        if size <= FETCHED and j + AHEAD < samples.size:
            place = base + samples[j + AHEAD] * size
            for line in range(0, size, LINE):
                prefetch(place + line)
        entry, target = source[samples[j]], row[j]
        if whole:
            for k in range(kernels.size):
                target[k] = without_remnant(entry[k], tiny)
        else:
            for k in range(kernels.size):
                target[k] = without_remnant(entry[np.uintp(kernels[k])], tiny)


@njit(**FAST)
def without_remnant(value, tiny):
    """Return zero for what single precision has no full digits of: processors are slow at such numbers."""
    return 0.0 if abs(value) < tiny else value


@njit(**FAST)
def extend(stack, samples, kernels, block, slot, first):
    """Fill the columns of samples that joined, in the rows that are there."""
    for i in range(first):
        if slot[i] >= 0:
            fill_row(stack, samples, kernels, i, first, block[slot[i]])


@njit(**FAST)
def hold_row(i, stack, samples, kernels, block, slot, count):
    """Give sample i a row of the block if it has none and one is left."""
    if slot[i] < 0 and count[0] < block.shape[0]:
        fill_row(stack, samples, kernels, i, 0, block[count[0]])
        slot[i] = count[0]
        count[0] += 1


@njit(**FAST)
def mix_stored(source, samples, kernels, weights, out):
    """Weighted sum over the kernels at each sample of the set, from a row of the stack."""
    if source.strides[1] > source.strides[0]:  # one kernel after the other
        out[:] = 0.0
        for k in range(kernels.size):
            column, weight = source[:, kernels[k]], weights[k]
            for j in range(samples.size):
                out[j] += weight * column[samples[j]]
        return
    if source.shape[1] == 1:
        column, weight = source[:, 0], weights[0]
        for j in range(samples.size):
            out[j] = weight * column[np.uintp(samples[j])]
        return
    base, size, whole = source.ctypes.data, source.shape[1] * source.itemsize, kernels.size == source.shape[1]
    for j in range(samples.size):
        if size <= FETCHED and j + AHEAD < samples.size:
            place = base + samples[j + AHEAD] * size
            for line in range(0, size, LINE):
                prefetch(place + line)
        entry, total = source[samples[j]], 0.0
        if whole:
            for k in range(weights.size):
                total += weights[k] * entry[k]
        else:
            for k in range(weights.size):
                total += weights[k] * entry[np.uintp(kernels[k])]
        out[j] = total


@njit(**FAST)
def mix(row, weights, out):
    """Weighted sum over the kernels at each sample of a row (set, kernels)."""
    for j in range(out.size):
        entry, total = row[j], weights.dtype.type(0.0)
        for k in range(weights.size):
            total += weights[k] * entry[k]
        out[j] = total


@njit(**FAST)
def make_row(i, stack, samples, kernels, block, slot, count, weights, combined, formed, place, made):
    """Make row i of the combined kernel."""
    if place[i] < 0:
        place[i] = made[0]
        made[0] += 1
    hold_row(i, stack, samples, kernels, block, slot, count)
    if slot[i] >= 0:
        mix(block[slot[i]], weights, combined[place[i]])
    else:
        mix_stored(stack[samples[i]], samples, kernels, weights, combined[place[i]])
    formed[i] = True


@njit(**FAST)
def make_rows(index, stack, samples, kernels, block, slot, count, weights, combined, formed, place, made):
    """Make the rows ``index`` of the combined kernel that are not there."""
    for i in index:
        if not formed[i]:
            make_row(i, stack, samples, kernels, block, slot, count, weights, combined, formed, place, made)


@njit(**FAST)
def nth(values, k):
    """Return the value with k smaller ones, which come before it afterwards; NumPy's takes seconds to compile."""
    low, high = 0, values.size - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@njit(**FAST)
def median(values):
    """Return the median of some values, which change places."""
    half = values.size // 2
    upper = nth(values, half)
    if values.size % 2 == 1:
        return upper
    lower = values[0]
    for i in range(1, half):
        lower = max(lower, values[i])
    return 0.5 * (lower + upper)


@njit(**FAST)
def above(beta, upper, kink):
    """Return what the slope of a dual that rises has beside the gradient: its kink, or infinity if it cannot."""
    if beta >= upper:
        return np.inf
    return kink if beta >= 0.0 else -kink


@njit(**FAST)
def below(beta, lower, kink):
    """Return what the slope of a dual that falls has beside the gradient: its kink, or minus infinity if it cannot."""
    if beta <= lower:
        return -np.inf
    return kink if beta > 0.0 else -kink


@njit(**FAST)
def sides(gradient, beta, lower, upper, kink, rising, falling):
    """Leave the slopes of rising and of falling duals, infinite where they cannot; by how much the best pair violates.

    ``gradient`` is without the kink ``kink_i |beta_i|`` of each dual at zero.
    """
    best, worst = np.inf, -np.inf
    for i in range(beta.size):
        rising[i] = gradient[i] + above(beta[i], upper[i], kink[i])
        falling[i] = gradient[i] + below(beta[i], lower[i], kink[i])
        best, worst = min(best, rising[i]), max(worst, falling[i])
    return best, worst


@njit(**FAST)
def least(values, bound, count, marked):
    """Mark up to ``count`` of the least values below ``bound``."""
    edge = nth(values.copy(), count) if count < values.size else np.inf
    left = count
    for ties in range(2):
        for i in range(values.size):
            if left > 0 and values[i] < bound and (values[i] == edge if ties else values[i] < edge):
                marked[i] = True
                left -= 1


@njit(**FAST)
def programme(stack, samples, kernels, block, slot, count, weights, combined, formed, place, made, bend, g,
              diagonal, gradient, beta, ridge, lower, upper, kink, eps, budget):  # fmt: skip
    """Move ``beta`` in its box, its sum held, until no pair violates by more than ``2 eps``.

    Return the steps taken, and a sample whose row is lacking and cannot be made from an empty stack, or -1. The
    Hessian is the combined kernel plus ``bend' g``. ``gradient`` is that of the quadratic at ``beta``, and is kept so.
    Pairs are taken among the samples that violate most, which stay in the processor's cache; then all slopes move by
    what those did.
    """
    n, taken, lacking = beta.size, 0, -1
    rising, falling, marked = np.empty(n), np.empty(n), np.ones(n, np.bool_)
    while taken < budget and lacking < 0:
        best, worst = sides(gradient, beta, lower, upper, kink, rising, falling)
        if worst - best <= 2.0 * eps:
            break
        close = eps
        if n > TOGETHER:
            marked[:] = False
            least(rising, worst, TOGETHER // 2, marked)
            least(-falling, -best, TOGETHER // 2, marked)
            close = max(eps, ROUGH * (worst - best))
        some = np.flatnonzero(marked)
        old, slopes, part = beta[some], gradient[some], np.empty((some.size, some.size), combined.dtype)
        new, have, steps = old.copy(), np.zeros(some.size, np.bool_), 0
        turns, size = g if some.size == n else g[:, some], some.size
        rise, fall, merits = np.empty(size), np.empty(size), np.empty(size)
        state = (slopes, new, diagonal[some], ridge[some], lower[some], upper[some], kink[some], rise, fall, merits)
        for j in range(size):
            i = some[j]
            rise[j], fall[j] = above(old[j], upper[i], kink[i]), below(old[j], lower[i], kink[i])
        while True:
            steps, wanted = pairs(*state, part, have, close, budget - taken, steps)
            if wanted < 0:
                break
            i = some[wanted]
            if not formed[i] and stack.shape[0] == 0:
                lacking = i
                break
            if not formed[i]:
                make_row(i, stack, samples, kernels, block, slot, count, weights, combined, formed, place, made)
            gather(combined[place[i]], bend[:, i], turns, some, part[wanted])
            have[wanted] = True
        taken += steps
        if some.size == n:
            beta[:], gradient[:] = new, slopes
            break
        if steps == 0:
            break
        add_rows(combined, place, some, new - old, gradient)
        add_bends(bend, g, some, new - old, gradient)
        for j in range(some.size):
            gradient[some[j]] += ridge[some[j]] * (new[j] - old[j])
            beta[some[j]] = new[j]
    return taken, lacking


@njit(**FAST)
def gather(row, bend, turns, some, out):
    """Leave in ``out`` a row of the Hessian at the samples ``some``; ``turns`` (kernels, some)."""
    for j in range(some.size):
        out[j] = row[np.uintp(some[j])]
    k = 0
    while k + 4 <= bend.size:
        b0, b1, b2, b3 = bend[k], bend[k + 1], bend[k + 2], bend[k + 3]
        t0, t1, t2, t3 = turns[k], turns[k + 1], turns[k + 2], turns[k + 3]
        for j in range(some.size):
            out[j] += b0 * t0[j] + b1 * t1[j] + b2 * t2[j] + b3 * t3[j]
        k += 4
    while k < bend.size:
        b, turn = bend[k], turns[k]
        for j in range(some.size):
            out[j] += b * turn[j]
        k += 1


@njit(**FAST)
def add_bends(bend, g, some, delta, gradient):
    """Add ``g' bend delta`` of the samples ``some`` to ``gradient``."""
    for k in range(bend.shape[0]):
        bends, turn, total = bend[k], g[k], 0.0
        for j in range(some.size):
            total += delta[j] * bends[some[j]]
        for i in range(gradient.size):
            gradient[i] += total * turn[i]


@njit(**FAST)
def add_rows(rows, place, some, delta, gradient):
    """Add ``delta_j`` times the rows of the samples ``some_j`` to ``gradient``."""
    moved = np.flatnonzero(delta)
    r = 0
    while r + 4 <= moved.size:
        j0, j1, j2, j3 = moved[r], moved[r + 1], moved[r + 2], moved[r + 3]
        d0, d1, d2, d3 = delta[j0], delta[j1], delta[j2], delta[j3]
        r0, r1, r2, r3 = rows[place[some[j0]]], rows[place[some[j1]]], rows[place[some[j2]]], rows[place[some[j3]]]
        for i in range(gradient.size):
            gradient[i] += d0 * r0[i] + d1 * r1[i] + d2 * r2[i] + d3 * r3[i]
        r += 4
    while r < moved.size:
        d, row = delta[moved[r]], rows[place[some[moved[r]]]]
        for i in range(gradient.size):
            gradient[i] += d * row[i]
        r += 1


@njit(**QUICK)
def pairs(gradient, beta, diagonal, ridge, lower, upper, kink, rise, fall, merits, rows, have, eps, budget, taken):
    """Take pair steps until none violates by more than ``2 eps``; how many so far, and the row it lacks or -1.

    ``rise`` and ``fall`` are what the slopes of duals have beside the gradient, ``merits`` room for as many numbers. A
    step ends at a kink at the latest, where the next one goes on with the slope behind it.
    """
    n = beta.size
    while taken < budget:
        best, worst = np.inf, -np.inf
        for i in range(n):
            best, worst = min(best, gradient[i] + rise[i]), max(worst, gradient[i] + fall[i])
        if not worst - best > 2.0 * eps:
            break
        up = 0
        while up < n and gradient[up] + rise[up] != best:
            up += 1
        if up == n:
            break
        if not have[up]:
            return taken, up
        rises, own, gain = rows[up], diagonal[up], 0.0
        for i in range(n):
            apart = max(gradient[i] + fall[i] - best, 0.0)
            merits[i] = apart * apart / max(own + diagonal[i] - 2.0 * rises[i], 1e-12)
            gain = max(gain, merits[i])
        down = 0
        while down < n and merits[down] != gain:
            down += 1
        if down == n or not gain > 0.0:
            break
        if not have[down]:
            return taken, down
        bent = max(own + diagonal[down] - 2.0 * rises[down], 1e-12)
        top = 0.0 if beta[up] < 0.0 and kink[up] > 0.0 else upper[up]
        bottom = 0.0 if beta[down] > 0.0 and kink[down] > 0.0 else lower[down]
        room_up, room_down = top - beta[up], beta[down] - bottom
        t = min((gradient[down] + fall[down] - best) / bent, min(room_up, room_down))
        beta[up] = top if t == room_up else beta[up] + t
        beta[down] = bottom if t == room_down else beta[down] - t
        falls = rows[down]
        for i in range(n):
            gradient[i] += t * (rises[i] - falls[i])
        gradient[up] += t * ridge[up]
        gradient[down] -= t * ridge[down]
        for i in (up, down):
            rise[i], fall[i] = above(beta[i], upper[i], kink[i]), below(beta[i], lower[i], kink[i])
        taken += 1
    return taken, -1


@njit(**FAST)
def hold_rows(index, stack, samples, kernels, block, slot, count):
    """Give the samples ``index`` of the set rows of the block, as long as there are some."""
    for i in index:
        hold_row(i, stack, samples, kernels, block, slot, count)


@njit(**FAST)
def products(stack, samples, kernels, block, slot, index, delta, out, first, last):
    """Leave in ``out`` (set, kernels), from sample ``first`` to ``last``, sums of ``delta_i`` times row ``index_i``."""
    m, many = kernels.size, 0
    held, step = np.empty(index.size, np.int64), np.empty(index.size, block.dtype)
    rest, steps = np.empty(index.size, np.int64), np.empty(index.size)
    left = 0
    for r in range(index.size):
        if slot[index[r]] >= 0:
            held[many], step[many] = slot[index[r]], delta[r]
            many += 1
        else:
            rest[left], steps[left] = samples[index[r]], delta[r]
            left += 1
    weighted_columns(block.reshape(block.shape[0], -1), step[:many], held[:many], first * m, last * m, out.reshape(-1))
    add_columns(stack, steps[:left], rest[:left], samples[first:last], kernels, out[first:last])


@njit(**FAST)
def primal_loss(value, linear, ridge, lower, upper, kink):
    """Loss of one sample at a decision value: the most that ``(linear - value) b - ridge b^2/2 - kink |b|`` can be."""
    steep = linear - value
    best = -np.inf
    if ridge > 0.0:
        wanted = max(steep - kink, 0.0) + min(steep + kink, 0.0)
        b = min(max(wanted / ridge, lower), upper)
        return steep * b - 0.5 * ridge * b * b - kink * abs(b)
    if lower <= 0.0 <= upper:
        best = 0.0
    if np.isfinite(lower):
        best = max(best, steep * lower - kink * abs(lower))
    if np.isfinite(upper):
        best = max(best, steep * upper - kink * abs(upper))
    return best


@njit(**FAST)
def slack_at(t, f, beta, linear, ridge, lower, upper, kink, free, level, energy, inside, dual, held, room):
    """Duality gap at the multiple t of the decision values, the bias that of the free samples, or ``-level``."""
    count = 0
    for i in range(f.size):
        if free[i]:
            bend = kink[i] if beta[i] > 0.0 else -kink[i]
            room[count] = linear[i] - ridge[i] * beta[i] - bend - t * f[i]
            count += 1
    bias = median(room[:count]) if count > 0 else -level
    primal = bias * held
    for i in range(f.size):
        primal += primal_loss(t * f[i] + bias, linear[i], ridge[i], lower[i], upper[i], kink[i])
    return 0.5 * (t * t + 1.0) * energy - t * (energy - inside) + primal - dual


@njit(**FAST)
def slack(f, beta, linear, ridge, lower, upper, kink, level, energy, goal, reach, trials):
    """Duality gap of a working set at given weights and the best multiple of its decision values ``f``.

    Samples outside the set are settled: their loss is linear along the multiple, and ``sum_i beta_i f_i`` of all
    samples is ``energy``. The multiple is searched for by golden section, until the gap is at most ``goal``.
    """
    free, room = np.zeros(f.size, np.bool_), np.empty(f.size)
    inside, dual, held = 0.0, 0.0, 0.0
    for i in range(f.size):
        free[i] = lower[i] < beta[i] < upper[i] and (beta[i] != 0.0 or kink[i] == 0.0)
        inside += beta[i] * f[i]
        dual += linear[i] * beta[i] - 0.5 * ridge[i] * beta[i] ** 2 - kink[i] * abs(beta[i])
        held += beta[i]
    rest = (free, level, energy, inside, dual, held, room)
    best = slack_at(1.0, f, beta, linear, ridge, lower, upper, kink, *rest)
    if best <= goal:
        return best
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    low, high = 1.0 - reach, 1.0 + reach
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left = slack_at(left, f, beta, linear, ridge, lower, upper, kink, *rest)
    at_right = slack_at(right, f, beta, linear, ridge, lower, upper, kink, *rest)
    for _ in range(trials):
        if min(at_left, at_right) <= goal:
            break
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = slack_at(left, f, beta, linear, ridge, lower, upper, kink, *rest)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = slack_at(right, f, beta, linear, ridge, lower, upper, kink, *rest)
    return min(best, at_left, at_right)


@njit(**FAST)
def conditions(gradient, beta, lower, upper, kink):
    """Return the slope at free samples, or what lies between the sides, and by how much the best pair violates."""
    room, count = np.empty(beta.size), 0
    best, worst, least, most = np.inf, -np.inf, np.inf, -np.inf
    for i in range(beta.size):
        rising = gradient[i] + (kink[i] if beta[i] >= 0.0 else -kink[i])
        falling = gradient[i] + (kink[i] if beta[i] > 0.0 else -kink[i])
        up, down = beta[i] < upper[i], beta[i] > lower[i]
        least, most = min(least, gradient[i]), max(most, gradient[i])
        if up:
            best = min(best, rising)
        if down:
            worst = max(worst, falling)
        if up and down and rising == falling:
            room[count] = rising
            count += 1
    violation = worst - best if best < np.inf and worst > -np.inf else 0.0
    if count > 0:
        return median(room[:count]), violation
    return 0.5 * (max(worst, least) + min(best, most)), violation
