"""
Patients who lack a table
=========================

Some patients were never scanned. With ``missing="absent"`` a sample that lacks a view is the mean of the
others in it; the others are not thrown away.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw
from kernelweave import kernels as K

y, train, test = np.arange(460) % 2, slice(0, 60), slice(60, 460)
names = [f"patient {i}" for i in range(460)]
bank = K.views(widths=[0.25, 1.0])


def compare(share, seed):
    """Return the accuracy with incomplete patients kept, and with them thrown away."""
    rng = np.random.default_rng(seed)
    blood, scan = (pd.DataFrame(rng.normal(size=(460, 6)) + 0.5 * y[:, None], names) for _ in range(2))
    whole = {"blood": blood.iloc[test], "scan": scan.iloc[test]}
    have = rng.random(60) >= share
    lacking = {"blood": blood.iloc[train], "scan": scan.iloc[train][have]}
    full = {"blood": blood.iloc[train][have], "scan": scan.iloc[train][have]}
    kept = kw.MKLClassifier(bank, missing="absent", C=0.3).fit(lacking, y[train])
    thrown = kw.MKLClassifier(bank, C=0.3).fit(full, y[train][have])
    return kept.score(whole, y[test]), thrown.score(whole, y[test])


shares = [0.0, 0.2, 0.4, 0.6, 0.8]
means = np.array([np.mean([compare(share, seed) for seed in range(10)], axis=0) for share in shares])
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.plot(shares, means[:, 0], "o-", label="kept, absent in one view")
ax.plot(shares, means[:, 1], "o--", label="thrown away")
ax.set(xlabel="share of training patients without a scan", ylabel="test accuracy, mean of ten draws")
ax.legend(frameon=False)
plt.show()
