"""Views that are missing: samples that lack one beside leaving them out and beside the mean of the others.

Ten random splits (two thirds for training) of sets of several views. Of all samples, 30 per cent lack one view each,
drawn at random. `missing="absent"` takes them as they are; "dropped" fits to the complete training samples alone;
"mean" puts the training mean of the view in its place. Test samples lack views too; where a contestant cannot say
anything of such a sample ("dropped"), it gets the mean view. Banks are linear and three widths on each view, l1,
C = 10. Differences are paired over splits.
"""

from __future__ import annotations

import warnings

import numpy as np

import kernelweave as kw
from choosing import prepared, views_of
from common import markdown, number, options, save, save_markdown
from kernelweave import kernels as K

SETS = ("mfeat_digits", "tcga_breast")
SHARE = 0.3
MOST = 1000


def scores(name: str, seed: int, share: float) -> dict[str, float]:
    """Accuracy of everyone on one split."""
    from sklearn.model_selection import train_test_split

    views, y = views_of(name)
    rng = np.random.default_rng(seed)
    few = rng.permutation(len(y))[:MOST]
    train, test = train_test_split(few, test_size=1 / 3, stratify=y[few], random_state=seed)
    A, B, places = prepared(views, train, test, False)
    lacking = []
    for X in (A, B):
        gone = np.zeros(X.shape, dtype=bool)
        for i in rng.permutation(len(X))[: round(share * len(X))]:
            gone[i, places[rng.choice(list(places))]] = True
        lacking.append(gone)
    holes = [np.where(gone, np.nan, X) for X, gone in zip((A, B), lacking, strict=True)]
    mean = np.nanmean(holes[0], axis=0)
    filled = [np.where(gone, mean, X) for X, gone in zip((A, B), lacking, strict=True)]
    whole = ~lacking[0].any(axis=1)

    def model(**more):
        return kw.MKLClassifier(K.views(places), C=10.0, **more)

    return {
        "absent": model(missing="absent").fit(holes[0], y[train]).score(holes[1], y[test]),
        "dropped": model().fit(A[whole], y[train][whole]).score(filled[1], y[test]),
        "mean": model().fit(filled[0], y[train]).score(filled[1], y[test]),
        "nothing missing": model().fit(A, y[train]).score(B, y[test]),
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--splits", type=int, default=10, help="random splits (default 10)")
    parser.add_argument("--share", type=float, default=SHARE, help="share of the samples that lack a view (default .3)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, lines = [], []
    for name in SETS[1:] if args.fast else SETS:
        made = [scores(name, seed, args.share) for seed in range(2 if args.fast else args.splits)]
        rows += [{"set": name, "seed": seed, **row} for seed, row in enumerate(made)]
        seen = {who: 100 * np.array([row[who] for row in made]) for who in made[0]}
        apart = [seen["absent"] - seen[who] for who in ("dropped", "mean")]
        errors = [part.std(ddof=1) / np.sqrt(part.size) for part in apart]
        told = [f"{part.mean():+.2f} +- {error:.2f}" for part, error in zip(apart, errors, strict=True)]
        lines.append([name, *(number(part.mean()) for part in seen.values()), *told])
    head = ["set", "absent", "dropped", "mean view", "nothing missing", "absent - dropped", "absent - mean view"]
    parts = ["## Accuracy in per cent", markdown(head, lines)]
    print("\n\n".join(parts))
    name = "missing_fast" if args.fast else "missing"
    save(name, {"share": args.share, "rows": rows})
    save_markdown(name, [f"# {__doc__.split(':')[0]}", *parts])


if __name__ == "__main__":
    main()
