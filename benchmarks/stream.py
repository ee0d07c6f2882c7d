"""Learning from a stream: fifty chunks, one after the other, by `partial_fit`, beside a `fit` on all of them.

usps with its own split, letter with 4000 rows for testing; three Gaussian widths, each by 300 random features; the
recipe ufo-mkl as it comes, jointly and one class against the rest, which goes through the rows, or through each chunk,
twenty times. The chunks are a shuffle of the training rows, and the stream is not told how many there will be. Seconds
are CPU seconds on one thread, features included.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from common import load, markdown, number, options, save, save_markdown, timed

CHUNKS = 50
COSTS = (0.01, 0.1, 1.0)
WIDTHS = {"usps": (0.003, 0.01, 0.03), "letter": (0.01, 0.03, 0.1)}
HEADERS = ["set", "multiclass", "C", "fit %", "stream %", "points below", "s of fit", "s of the stream"]


def parts(name: str) -> tuple[np.ndarray, ...]:
    """Training and test samples and labels."""
    data = load(name)
    X, y = data["X"].astype(np.float32), data["y"]
    if name == "usps":
        return X[data["train_idx"]], y[data["train_idx"]], X[data["test_idx"]], y[data["test_idx"]]
    order = np.random.default_rng(0).permutation(len(y))
    return X[order[4000:]], y[order[4000:]], X[order[:4000]], y[order[:4000]]


def machine(name: str, multiclass: str, C: float):
    """The recipe, not fitted."""
    import kernelweave as kw
    from kernelweave import kernels as K

    features = kw.RandomFeatures(rank=300)
    bank = K.rbf(gamma=list(WIDTHS[name]))
    return kw.recipe("ufo-mkl", bank, C=C, multiclass=multiclass, approximation=features, random_state=0)


def streamed(make, X: np.ndarray, y: np.ndarray):
    """The recipe after all chunks."""
    model, classes = make(), np.unique(y)
    for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), CHUNKS):
        model.partial_fit(X[rows], y[rows], classes=classes)
    return model


def main() -> None:
    args = options(__doc__).parse_args()
    rows = []
    for name in WIDTHS:
        X, y, new, labels = parts(name)
        if args.fast:
            X, y = X[:1000], y[:1000]
        for multiclass in ("joint", "ovr"):
            for C in COSTS:
                make = partial(machine, name, multiclass, C)
                fit, fit_time = timed(lambda make=make, X=X, y=y: make().fit(X, y), repeat=1)
                stream, stream_time = timed(lambda make=make, X=X, y=y: streamed(make, X, y), repeat=1)
                both = [100 * model.score(new, labels) for model in (fit, stream)]
                rows.append([name, multiclass, f"{C:g}", f"{both[0]:.2f}", f"{both[1]:.2f}", f"{both[0] - both[1]:.2f}",
                             number(fit_time.cpu), number(stream_time.cpu)])  # fmt: skip
                print("  ".join(map(str, rows[-1])), flush=True)
    print("\n" + markdown(HEADERS, rows))
    stem = "stream_fast" if args.fast else "stream"
    print(f"\nwritten to {save(stem, {'rows': [dict(zip(HEADERS, row, strict=True)) for row in rows]})}")
    save_markdown(stem, [f"# {(__doc__ or '').strip()}", markdown(HEADERS, rows)])


if __name__ == "__main__":
    main()
