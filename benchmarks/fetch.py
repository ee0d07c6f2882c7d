"""Fetches data of the benchmarks by their public names, checks them, and writes them as the benchmarks read them.

Sets that scikit-learn brings need no network; the others come from OpenML. A set is written only if it has the rows,
columns and counts of labels of the one that the published figures are from, so a set that changed there is refused.
Run it with ``python benchmarks/fetch.py [NAME ...]``; the folder is the one named by KERNELWEAVE_DATA.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Source:
    """Where a set is from, what it must look like, and the label of each class, told by how often it occurs."""

    name: str  # of OpenML, or of a loader of scikit-learn
    shape: tuple[int, int]
    labels: dict[int, int]  # from count to label


SOURCES = {
    "wdbc": Source("load_breast_cancer", (569, 30), {357: -1, 212: 1}),
    "spambase": Source("spambase", (4601, 57), {2788: -1, 1813: 1}),
    "magic": Source("MagicTelescope", (19020, 10), {12332: 1, 6688: -1}),
    "ionosphere": Source("ionosphere", (351, 34), {126: -1, 225: 1}),
    "sonar": Source("sonar", (208, 60), {97: -1, 111: 1}),
    "pima_diabetes": Source("diabetes", (768, 8), {500: -1, 268: 1}),
}


def main(arguments: list[str] | None = None) -> int:
    """Fetch the sets named, all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SOURCES)}")
    names = parser.parse_args(arguments).names or list(SOURCES)
    folder = Path(os.environ.get("KERNELWEAVE_DATA", "data"))
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names:
        if name not in SOURCES:
            parser.error(f"{name} is not known: choose of {', '.join(SOURCES)}")
        try:
            X, y = checked(SOURCES[name], *read(SOURCES[name]))
        except (OSError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed += 1
            continue
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y)
        print(f"{name}: {X.shape[0]} x {X.shape[1]}, written to {folder / f'{name}.npz'}")
    return 1 if failed else 0


def read(source: Source) -> tuple[Any, Any]:
    """Return samples and labels as they are published."""
    from sklearn import datasets

    loader: Callable[..., Any] | None = getattr(datasets, source.name, None)
    if loader is not None:
        return loader(return_X_y=True)
    return datasets.fetch_openml(source.name, version=1, return_X_y=True, as_frame=False, parser="liac-arff")


def checked(source: Source, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return samples and labels as benchmarks read them, or say in what they are not the set that is meant."""
    X = np.asarray(X, dtype=float)
    classes, codes, counts = np.unique(np.asarray(y).astype(str), return_inverse=True, return_counts=True)
    found = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    if X.shape != source.shape or sorted(counts.tolist()) != sorted(source.labels):
        raise ValueError(
            f"{source.name} is {X.shape[0]} x {X.shape[1]} with classes {found}, not {source.shape[0]} x "
            f"{source.shape[1]} with {sorted(source.labels)}: it is another set of this name."
        )
    return X, np.array([source.labels[count] for count in counts.tolist()])[codes]


if __name__ == "__main__":
    sys.exit(main())
