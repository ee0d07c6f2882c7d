"""Products with float32 features on a CUDA device, each feature read once, in float64.

Written here because no library call multiplies float32 by float64 without a float64 copy of the features.
"""

from __future__ import annotations

import triton
import triton.language as tl

TILE = 4096  # entries of a tile
COLUMNS = 128  # of a tile, at most
WIDE = 512  # columns of a tile whose rows are summed, at most
NARROW = 16  # columns of a tile, at least
CHUNKS = 1024  # parts of the samples summed on their own; fixed, so that results do not depend on the device


@triton.jit
def _lift(V, z, out, n, D, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), dtype=tl.float64)
    for start in range(0, D, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        mask = (rows[:, None] < n) & (columns[None, :] < D)
        tile = tl.load(V + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)
        part = tl.load(z + columns, mask=columns < D, other=0.0)
        total += tl.sum(tile.to(tl.float64) * part[None, :], axis=1)
    tl.store(out + rows, total, mask=rows < n)


@triton.jit
def _fold(V, beta, out, n, D, stride, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    chunk = tl.program_id(1)
    first = chunk.to(tl.int64) * size
    total = tl.zeros((COLUMNS,), dtype=tl.float64)
    for start in range(0, size, ROWS):
        rows = first + start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n) & (columns[None, :] < D)
        tile = tl.load(V + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)
        part = tl.load(beta + rows, mask=rows < n, other=0.0)
        total += tl.sum(tile.to(tl.float64) * part[:, None], axis=0)
    tl.store(out + chunk * D + columns, total, mask=columns < D)


@triton.jit
def _scale(V, root, out, n, D, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows[:, None] < n) & (columns[None, :] < D)
    tile = tl.load(V + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)
    factor = tl.load(root + rows, mask=rows < n, other=0.0)
    tl.store(out + rows[:, None] * D + columns[None, :], tile.to(tl.float64) * factor[:, None], mask=mask)


def scale(V, root, out):
    """Write the rows of V, each times its entry of ``root``, into ``out``, float64 of the same shape."""
    (n, D), (rows, columns) = V.shape, _tile(V, WIDE)
    _scale[(triton.cdiv(n, rows), triton.cdiv(D, columns))](V, root.contiguous(), out, n, D, V.stride(0), rows, columns)
    return out


def matvec(V, z, out):
    """Write ``V z`` into ``out``, shape (n,)."""
    (n, D), (rows, columns) = V.shape, _tile(V, WIDE)
    _lift[(triton.cdiv(n, rows),)](V, z.contiguous(), out, n, D, V.stride(0), rows, columns)
    return out


def rmatvec(V, beta, parts):
    """Write the sums of ``V' beta`` over chunks of samples into ``parts``, shape (CHUNKS, D)."""
    (n, D), (rows, columns) = V.shape, _tile(V, COLUMNS)
    size = triton.cdiv(triton.cdiv(n, CHUNKS), rows) * rows
    _fold[(triton.cdiv(D, columns), CHUNKS)](V, beta.contiguous(), parts, n, D, V.stride(0), size, rows, columns)
    return parts


def _tile(V, most):
    """Return rows and columns of a tile: as wide as the features, up to a width."""
    columns = min(most, max(NARROW, triton.next_power_of_2(V.shape[1])))
    return TILE // columns, columns
