"""Which columns a kernel looks at: names, positions, slices, masks and selectors, turned into positions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any


def column_groups(
    on: Any, n_columns: int, names: Sequence[str] | None, frame: Any
) -> list[tuple[int, ...] | None]:
    """The positions that `on` stands for: one group, or one per column for "each"; None means all columns."""
    if on is None:
        return [None]
    if isinstance(on, str) and on == "each":
        return [(j,) for j in range(n_columns)]
    if callable(on):
        if frame is None:
            raise ValueError("on is a column selector, which needs X to be a DataFrame; or give positions.")
        on = plain(on(frame))
    columns = _positions(on, n_columns, names)
    if not columns:
        raise ValueError(f"on={on!r} selects no column of X.")
    return [columns]


def _positions(on: Any, n_columns: int, names: Sequence[str] | None) -> tuple[int, ...]:
    if isinstance(on, slice):
        start = _named(on.start, names) if isinstance(on.start, str) else on.start
        stop = _named(on.stop, names) + 1 if isinstance(on.stop, str) else on.stop
        return tuple(range(n_columns)[start : stop : on.step])
    items = on if isinstance(on, tuple) else (on,)
    if isinstance(on, tuple) and any(isinstance(item, bool) for item in items):
        if len(items) != n_columns or not all(isinstance(item, bool) for item in items):
            raise ValueError(f"on is a boolean mask of {len(items)} entries, but X has {n_columns} columns.")
        return tuple(j for j, wanted in enumerate(items) if wanted)
    return tuple(_position(item, n_columns, names) for item in items)


def _position(item: Any, n_columns: int, names: Sequence[str] | None) -> int:
    if isinstance(item, str):
        return _named(item, names)
    if isinstance(item, bool) or not isinstance(item, int):
        raise TypeError(f"on takes names, positions, a mask, a slice, 'each' or a selector; got {item!r}.")
    if not -n_columns <= item < n_columns:
        raise ValueError(f"on asks for column {item}, but X has {n_columns} columns, 0 to {n_columns - 1}.")
    return item % n_columns


def _named(item: str, names: Sequence[str] | None) -> int:
    if names is None:
        raise ValueError(f"on asks for column {item!r}, but X has no names: pass a DataFrame, or a position.")
    if item not in names:
        close = get_close_matches(item, names, n=3, cutoff=0.4) or list(names)[:3]
        raise ValueError(f"on asks for column {item!r}, which X does not have; the closest are {close}.")
    return list(names).index(item)


def known_names(names: Sequence[str] | None, frame: Any) -> list[str] | None:
    found = list(frame.columns) if names is None and frame is not None else names
    return None if found is None or not all(isinstance(name, str) for name in found) else list(found)


def where(on: Any, names: Sequence[str] | None) -> str:
    if on is None:
        return ""
    if isinstance(on, str):
        return " on each column" if on == "each" else f" on {on}"
    items = on if isinstance(on, tuple) else (on,)
    if callable(on) or isinstance(on, slice) or any(isinstance(item, bool) for item in items):
        return " on selected columns"
    if len(items) > 2:
        return f" on {len(items)} columns"
    return " on " + " and ".join(
        item if isinstance(item, str) else names[item] if names else f"column {item}" for item in items
    )


# -- small helpers --------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Numbers as Python's and sequences as tuples: a kernel can be hashed, and leaves float32 in float32."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(plain(item) for item in value) if isinstance(value, (list, tuple, range)) else value
