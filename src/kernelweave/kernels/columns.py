"""Which columns a kernel looks at: names, positions, slices, masks and selectors, turned into positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

Views = Mapping[str, tuple[int, ...]]  # columns of each view of X, by its name


def column_groups(
    on: Any, n_columns: int, names: Sequence[str] | None, frame: Any, views: Views | None = None
) -> list[tuple[tuple[int, ...] | None, str | None]]:
    """The positions that `on` stands for, each with the name that they have there; None means all columns, or none.

    There is one entry, or one per column for "each", per view for "views", per name for a dictionary.
    """
    if on is None:
        return [(None, None)]
    if isinstance(on, dict):
        if not on:
            raise ValueError("on is an empty dictionary: give at least one name with its columns.")
        if any(isinstance(part, dict) or (isinstance(part, str) and part in ("each", "views")) for part in on.values()):
            raise ValueError("on is a dictionary, whose entries must be columns: not 'each', 'views' or a dictionary.")
        found = [(column_groups(part, n_columns, names, frame, views), name) for name, part in on.items()]
        return [(columns, name) for groups, name in found for columns, _ in groups]
    if isinstance(on, str) and on == "each":
        return [((j,), None) for j in range(n_columns)]
    if isinstance(on, str) and on == "views":
        if not views:
            raise ValueError("on='views' needs an X with views: a dictionary of tables, or kw.Views; or name columns.")
        return [(columns, name) for name, columns in views.items()]
    if isinstance(on, str) and views and on in views:
        return [(views[on], on)]
    if callable(on):
        if frame is None:
            raise ValueError("on is a column selector, which needs X to be a DataFrame; or give positions.")
        on = plain(on(frame))
    columns = _positions(_spread(on, views), n_columns, names)
    if not columns:
        raise ValueError(f"on={on!r} selects no column of X.")
    return [(columns, None)]


def _spread(on: Any, views: Views | None) -> Any:
    """Columns of the views that a list names, in place of their names."""
    if not views or not isinstance(on, tuple):
        return on
    known = [views.get(item, (item,)) if isinstance(item, str) else (item,) for item in on]
    return tuple(column for columns in known for column in columns)


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
        return {"each": " on each column", "views": " on each view"}.get(on, f" on {on}")
    if isinstance(on, dict):
        return " on " + (" and ".join(on) if len(on) <= 2 else f"each of {len(on)} views")
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
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return tuple(plain(item) for item in value) if isinstance(value, (list, tuple, range)) else value
