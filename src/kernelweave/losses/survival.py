"""The partial likelihood of times to an event: Cox's proportional hazards, ties as Breslow has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, cumulative_logsumexp, device_of, namespace, positive, to_host
from .base import Loss, entropy

ENCODED = 4  # columns of targets in the form in which they are kept, the last of them -1
TINY = 1e-300  # what a sum of exponentials is at least


class Cox(Loss):
    """Cox's partial likelihood, ``sum_i C_i [log sum_{j at risk} w_j exp f_j - f_i]`` over the events i.

    Decision values are log hazards; the samples at risk at an event are those whose time is not before it, and count by
    ``w_j``, their cost relative to the largest. It is no sum over samples, and a constant added to all decision values
    changes nothing, so there is no bias. Targets have two columns: whether the event was seen (1) or the sample was
    lost from sight before it (0), and the time of either.

    The dual has a closed form. Let ``r = C event - beta``, the mass that events lay on each sample, and let samples be
    in groups from one time of an event to the next. Of the mass ``M_k`` that is at hand in group k, ``r_j`` stays with
    its samples and ``N_k`` goes on to the next groups, where ``D_k``, the cost of the events there, is added. Then
    ``D(beta) = sum_k (M_k log M_k - N_k log N_k) - sum_j r_j log(r_j / w_j)``, wherever no r and no N is below zero.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Cox
    >>> y = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 5.0]])     # event, time
    >>> Cox().bind(y).value(np.zeros(3)).round(4).tolist()
    [1.0986, 0.0, 0.0]
    """

    tasks = ("survival",)
    smooth = True
    takes_bias = False
    elementwise = False
    separable = False

    def encode(self, y: Array) -> Array:
        """Write times as the number of event times passed and the order of the samples, both of which are kept."""
        if y.shape[1] == ENCODED:
            return y
        xp, times = namespace(y), y[:, 1] + 0.0  # in one piece, as torch would have it
        moments = xp.unique_values(times[y[:, 0] > 0])
        moments = xp.sort(moments)
        group = xp.searchsorted(moments, times, side="right")
        columns = [y[:, 0], xp.astype(group, xp.float64), xp.astype(xp.argsort(times), xp.float64), 0.0 * times - 1.0]
        return xp.stack(columns, axis=1)

    def check(self, y: Array) -> None:
        if y.ndim == 2 and y.shape[1] == ENCODED and bool(namespace(y).all(y[:, -1] == -1.0)):
            return
        if y.ndim != 2 or y.shape[1] != 2:
            raise ValueError(f"y has shape {tuple(y.shape)}, but Cox takes two columns: event (0 or 1) and time.")
        xp = namespace(y)
        if not bool(xp.all((y[:, 0] == 0) | (y[:, 0] == 1))):
            raise ValueError("The first column of y must say by 1 and 0 whether the event was seen.")
        if not bool(xp.any(y[:, 0] == 1)):
            raise ValueError("y holds no event at all, so nothing can be learned: give samples with an event.")
        if not bool(xp.all(xp.isfinite(y[:, 1]) & (y[:, 1] >= 0))):
            raise ValueError("Times in y must be finite and not negative: count them from the start of each sample.")

    def shape(self, y: Array) -> tuple[int, ...]:
        return (y.shape[0],)

    def value(self, f: Array, y: Array, C: Array) -> Array:
        risk = _Risk.of(y, C)
        xp = namespace(f)
        return risk.events * (xp.take(risk.log_sums(f), risk.group) - f)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        risk = _Risk.of(y, C)
        return risk.mass(f) - risk.events

    def curvature_times(self, f: Array, x: Array, y: Array, C: Array) -> Array:
        """Second derivative of the total loss times ``x``, or times each column of a table."""
        risk, xp = _Risk.of(y, C), namespace(f)
        rows = x if x.ndim == 1 else xp.matrix_transpose(x) + 0.0  # each in one piece, along which sums are quick
        sums = risk.log_sums(f)
        top = float(xp.max(f + risk.log_weight))
        shared = xp.exp(xp.take(f + risk.log_weight, risk.order) - top) * xp.take(rows, risk.order, axis=-1)
        below = xp.flip(xp.cumulative_sum(xp.flip(shared, axis=-1), axis=-1), axis=-1)
        inside = xp.exp(sums[1:] - top) + TINY
        mean = xp.take(below, risk.starts, axis=-1) / inside  # of x over the samples at risk, by share
        pulled = xp.cumulative_sum(risk.deaths / inside * mean, axis=-1)
        pulled = xp.concat([0.0 * pulled[..., :1], pulled], axis=-1)
        out = risk.mass(f) * rows - xp.exp(f + risk.log_weight - top) * xp.take(pulled, risk.group, axis=-1)
        return out if x.ndim == 1 else xp.matrix_transpose(out)

    def dual(self, beta: Array, y: Array, C: Array) -> Array:
        risk, xp = _Risk.of(y, C), namespace(beta)
        r = positive(risk.events - beta)
        left = risk.left(r)
        at_hand = left + risk.held(r)
        value = float(xp.sum(entropy(at_hand))) - float(xp.sum(entropy(left)))
        own = r * risk.log_weight - entropy(r)
        return own + value / own.shape[0]

    def project(self, beta: Array, y: Array, C: Array) -> Array:
        """Masses from zero on that sum to that of the events, mixed with even ones where too much stays early."""
        risk, xp = _Risk.of(y, C), namespace(beta)
        r = xp.where(risk.group > 0, positive(risk.events - beta), 0.0 * beta)
        total = float(xp.sum(r))
        if total <= 0.0:
            return risk.events - risk.mass(0.0 * beta)
        r = r * (float(xp.sum(risk.events)) / total)
        short = risk.left(r)
        if float(xp.min(short[:-1])) < 0.0 if short.shape[0] > 1 else False:
            even = risk.mass(0.0 * beta)
            spare = risk.left(even)[:-1]
            lack = positive(-short[:-1])
            ratio = xp.where(lack > 0, lack / xp.where(lack + spare > 0, lack + spare, 1.0 + 0.0 * lack), 0.0 * lack)
            share = min(float(xp.max(ratio)) * (1.0 + 1e-12), 1.0)
            r = (1.0 - share) * r + share * even
        beta = risk.events - r
        return beta - r * (float(xp.sum(beta)) / float(xp.sum(r)))  # rounding, of masses far larger than duals at times

    def balance(self, beta: Array, y: Array, C: Array, total: float = 0.0) -> Array:
        return beta  # every feasible point sums to zero

    def baseline(self, f: Array, y: Array, C: Array, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments at which events happen and the cumulative baseline hazard there, by Breslow.

        ``times`` are those of the samples.
        """
        risk = _Risk.of(y, C)
        deaths = to_host(risk.deaths) / float(namespace(C).max(C))  # in the units in which samples at risk are counted
        steps = deaths / np.exp(to_host(risk.log_sums(f))[1:])
        moments = np.unique(times[to_host(y)[:, 0] > 0])
        return moments, np.cumsum(steps)


@dataclass(frozen=True)
class _Risk:
    """Who is at risk when: samples in the order of their times, in groups from one time of an event to the next."""

    group: Array  # (n,) event times passed, 0 .. K
    order: Array  # (n,) samples by time
    starts: Array  # (K,) place in that order of the first sample at risk
    ends: Array  # (K,) place in that order of the last sample of each group
    events: Array  # (n,) cost of a sample's event, 0 where it had none
    deaths: Array  # (K,) cost of the events of each group
    log_weight: Array  # (n,) log of the cost relative to the largest

    @classmethod
    def of(cls, y: Array, C: Array) -> _Risk:
        xp: Any = namespace(y)
        group, order = xp.astype(y[:, 1], xp.int64), xp.astype(y[:, 2], xp.int64)
        ranked = xp.take(group, order)
        numbers = xp.arange(1, int(xp.max(group)) + 1, device=device_of(y))
        starts = xp.searchsorted(ranked, numbers, side="left")
        ends = xp.searchsorted(ranked, numbers, side="right") - 1
        events = C * y[:, 0]
        risk = cls(group, order, starts, ends, events, events, xp.log(C / xp.max(C)))
        object.__setattr__(risk, "deaths", risk.held(events))
        return risk

    def held(self, r: Array) -> Array:  # (K,)
        """Return what each group holds of ``r``."""
        xp = namespace(r)
        sums = xp.cumulative_sum(xp.take(r, self.order))
        early = sums - xp.take(r, self.order)
        return xp.take(sums, self.ends) - xp.take(early, self.starts)

    def left(self, r: Array) -> Array:  # (K,)
        """Return what of the events' mass goes on after each group whose samples hold ``r``; zero after the last."""
        xp = namespace(r)
        left = xp.cumulative_sum(self.deaths - self.held(r))
        return xp.concat([left[:-1], 0.0 * left[-1:]])

    def log_sums(self, f: Array) -> Array:  # (K + 1,)
        """Return the log of the sum over the samples at risk for each group, after an entry for those never at risk."""
        xp = namespace(f)
        ranked = xp.flip(xp.take(f + self.log_weight, self.order))
        sums = xp.take(xp.flip(cumulative_logsumexp(ranked)), self.starts)
        return xp.concat([sums[:1], sums])

    def mass(self, f: Array) -> Array:  # (n,)
        """Return the mass that events lay on each sample at decision values ``f``."""
        xp = namespace(f)
        rates = cumulative_logsumexp(xp.log(self.deaths) - self.log_sums(f)[1:])
        hazard = xp.take(xp.concat([rates[:1], rates]), self.group)
        return xp.where(self.group > 0, xp.exp(f + self.log_weight + hazard), 0.0 * f)


def concordance(
    risk: np.ndarray,  # (n,)
    event: np.ndarray,  # (n,)
    time: np.ndarray,  # (n,)
    weight: np.ndarray | None = None,  # (n,)
) -> float:
    """Return Harrell's concordance: the share of pairs, one known to come first, whose risks say so; ties count half.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses.survival import concordance
    >>> concordance(np.array([3.0, 2.0, 1.0]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]))
    1.0
    """
    weight = np.ones(time.size) if weight is None else weight
    order = np.argsort(risk, kind="stable")
    rank = np.unique(risk[order], return_inverse=True)[1]
    moment = 2 * np.unique(time, return_inverse=True)[1] + (event == 0)  # those lost at the time of an event come later
    moment, first, weight = moment[order], (weight * (event != 0))[order], weight[order]
    right = pairs = 0.0
    for bit in range(int(moment.max()).bit_length()):  # in which the moments of two samples differ first
        more, whole = _compared(moment >> (bit + 1), (moment >> bit) & 1 == 1, rank, first, weight)
        right, pairs = right + more, pairs + whole
    if pairs == 0.0:
        raise ValueError("y holds no two samples of which one is known to come first: concordance has no value.")
    return right / pairs


def _compared(
    group: np.ndarray,  # (n,) samples in the order of their risks, as all of these
    later: np.ndarray,  # (n,) whether a sample comes after those of its group that are not
    rank: np.ndarray,  # (n,) of its risk
    first: np.ndarray,  # (n,) weight as the one of a pair that comes first
    weight: np.ndarray,  # (n,) weight as the other one
) -> tuple[float, float]:
    """Return the weight of pairs within groups whose earlier sample has the higher risk, and that of all pairs."""
    order = np.argsort(group, kind="stable")
    group, rank = group[order], rank[order]
    first, sums = np.where(later, 0.0, first)[order], np.append(0.0, np.cumsum(np.where(later, weight, 0.0)[order]))
    place = group * (int(rank.max()) + 1) + rank  # increasing, since risks increase within a group
    start, end = (sums[np.searchsorted(group, group, side)] for side in ("left", "right"))
    below, up_to = (sums[np.searchsorted(place, place, side)] for side in ("left", "right"))
    return float(first @ (0.5 * (below + up_to) - start)), float(first @ (end - start))
