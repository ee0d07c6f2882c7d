"""Small pictures as SVG: they scale with the page, follow its colours and are read out by their title."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 640, 310
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 30, 48
COLOURS = 8  # series that the style sheet has a colour for


def picture(title: str, body: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Return a whole picture."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


class Axis:
    """Where numbers lie on a line, evenly or by their logarithm."""

    def __init__(self, values: np.ndarray, start: float, stop: float, log: bool = False, pad: float = 0.03):
        kept = np.asarray(values, dtype=float)
        kept = kept[np.isfinite(kept) & ((kept > 0) | (not log))]
        low, high = (float(kept.min()), float(kept.max())) if kept.size else (0.1, 1.0)
        self.log = log
        low, high = (np.log10(low), np.log10(high)) if log else (low, high)
        room = pad * (high - low) or 0.5
        self.low, self.high, self.start, self.stop = low - room, high + room, start, stop

    def __call__(self, value: float) -> float:
        place = np.log10(max(value, 1e-300)) if self.log else value
        return self.start + (self.stop - self.start) * (place - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers along the axis."""
        if self.log:
            powers = np.arange(np.ceil(self.low), np.floor(self.high) + 1)
            step = max(1, int(np.ceil(powers.size / most)))
            return [float(10.0**power) for power in powers[::step]]
        rough = (self.high - self.low) / most
        size = 10.0 ** np.floor(np.log10(rough))
        step = size * min((1, 2, 2.5, 5, 10), key=lambda factor: abs(factor * size - rough))
        return [float(tick) for tick in np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1) * step]


def number(value: float) -> str:
    """Write a number for a tick."""
    value += 0.0  # no zero below zero
    return f"{value:.0e}" if value and (abs(value) < 1e-3 or abs(value) >= 1e5) else f"{value:.4g}"


def frame(x: Axis, y: Axis, xlabel: str, ylabel: str, height: int = HEIGHT) -> str:
    """Return grid, ticks and names of two axes."""
    parts = []
    for tick in x.ticks():
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">{number(tick)}</text>')
    for tick in y.ticks(5):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{middle}" y="{height - 6}" text-anchor="middle">{escape(xlabel)}</text>')
    parts.append(f'<text class="name" x="4" y="{TOP - 12}">{escape(ylabel)}</text>')
    return "".join(parts)


def axes(xs: np.ndarray, ys: np.ndarray, xlog: bool = False, ylog: bool = False) -> tuple[Axis, Axis]:
    """Return axes that hold all points."""
    return Axis(xs, LEFT, WIDTH - RIGHT, xlog), Axis(ys, HEIGHT - BOTTOM, TOP, ylog)


def lines(
    title: str,
    series: Sequence[tuple[str, np.ndarray, np.ndarray]],  # name, x, y
    xlabel: str,
    ylabel: str,
    *,
    xlog: bool = False,
    diagonal: bool = False,
    steps: bool = False,
) -> str:
    """Return curves, named below the picture."""
    xs, ys = (np.concatenate([np.asarray(one[place], dtype=float) for one in series]) for place in (1, 2))
    if diagonal:
        xs, ys = np.append(xs, [0.0, 1.0]), np.append(ys, [0.0, 1.0])
    x, y = axes(xs, ys, xlog)
    body = [frame(x, y, xlabel, ylabel)]
    if diagonal:
        body.append(f'<line class="rule" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>')
    for place, (_, across, up) in enumerate(series):
        body.append(f'<path class="line s{place % COLOURS}" d="{_way(x, y, across, up, steps)}"/>')
    return picture(title, "".join(body)) + legend([name for name, _, _ in series])


def _way(x: Axis, y: Axis, across: np.ndarray, up: np.ndarray, steps: bool) -> str:
    points = [(x(float(a)), y(float(b))) for a, b in zip(across, up, strict=True)]
    way = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for a, b in points[1:]:
        way += f"H{a:.1f}V{b:.1f}" if steps else f"L{a:.1f} {b:.1f}"
    return way


def legend(names: Sequence[str]) -> str:
    """Return the names of series beside their colours."""
    if len(names) < 2:
        return ""
    items = "".join(
        f'<li><span class="key s{place % COLOURS}"></span>{escape(name)}</li>' for place, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def points(title: str, across: np.ndarray, up: np.ndarray, xlabel: str, ylabel: str, diagonal: bool = False) -> str:
    """Return a cloud of points."""
    everything = np.concatenate([across, up]) if diagonal else None
    x, y = axes(*((across, up) if everything is None else (everything, everything)))
    body = [frame(x, y, xlabel, ylabel)]
    if everything is not None and everything.size:
        low, high = float(everything.min()), float(everything.max())
        body.append(f'<line class="rule" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>')
    body += [
        f'<circle class="dot s0" cx="{x(float(a)):.1f}" cy="{y(float(b)):.1f}" r="3"/>'
        for a, b in zip(across, up, strict=True)
    ]
    return picture(title, "".join(body))


def histogram(title: str, values: np.ndarray, xlabel: str, rule: float | None = None) -> str:
    """Return how often values occur, with a line at ``rule``."""
    counts, edges = np.histogram(values, bins=min(30, max(5, int(np.sqrt(values.size)))))
    x, y = axes(edges, np.append(counts, 0.0))
    body = [frame(x, y, xlabel, "samples")]
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        wide, tall = x(float(high)) - x(float(low)), y(0.0) - y(float(count))
        body.append(
            f'<rect class="bar s0" x="{x(float(low)):.1f}" y="{y(float(count)):.1f}" width="{max(wide - 1, 0.5):.1f}" '
            f'height="{tall:.1f}"/>'
        )
    if rule is not None and x.low <= rule <= x.high:
        body.append(f'<line class="rule" x1="{x(rule):.1f}" x2="{x(rule):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    return picture(title, "".join(body))


def gaps(title: str, names: Sequence[str], values: Sequence[float], tol: float, word: str) -> str:
    """Return how far below what was asked for each gap is: a dot for each problem, a line at the tolerance."""
    rows = list(zip(names, values, strict=True))
    height = TOP + BOTTOM + 26 * len(rows)
    shown = np.array([max(value, 1e-16) for value in values] + [tol, 1.0])
    x = Axis(shown, 150, WIDTH - RIGHT, log=True)
    body = []
    for tick in x.ticks():
        body.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        body.append(f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">{number(tick)}</text>')
    body.append(f'<line class="rule" x1="{x(tol):.1f}" x2="{x(tol):.1f}" y1="{TOP - 14}" y2="{height - BOTTOM}"/>')
    side, anchor = (-5, "end") if x(tol) > 0.6 * WIDTH else (5, "start")
    body.append(f'<text x="{x(tol) + side:.1f}" y="{TOP - 6}" text-anchor="{anchor}">asked for: {tol:g}</text>')
    for place, (name, value) in enumerate(rows):
        middle = TOP + 26 * place + 17
        body.append(f'<text x="142" y="{middle + 4}" text-anchor="end">{escape(name[:14])}</text>')
        good, end = "good" if value <= tol else "bad", x(max(value, 1e-16))
        body.append(f'<path class="line {good}" d="M{x(1.0):.1f} {middle}H{end:.1f}"/>')
        body.append(f'<circle class="dot {good}" cx="{end:.1f}" cy="{middle}" r="5"/>')
    centre = (150 + WIDTH) / 2
    body.append(f'<text class="name" x="{centre}" y="{height - 6}" text-anchor="middle">{escape(word)}</text>')
    return picture(title, "".join(body), height=height)
