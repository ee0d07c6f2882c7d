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

rng = np.random.default_rng(2)
y = np.arange(200) % 2
names = [f"patient {i}" for i in range(200)]
blood = pd.DataFrame(rng.normal(size=(200, 6)) + 0.5 * y[:, None], names)
scan = pd.DataFrame(rng.normal(size=(200, 6)) + 0.7 * y[:, None], names)
train, test = slice(0, 120), slice(120, 200)

shares, kept, thrown = [0.0, 0.2, 0.4, 0.6], [], []
whole = {"blood": blood.iloc[test], "scan": scan.iloc[test]}
for share in shares:
    have = rng.random(120) >= share
    lacking = {"blood": blood.iloc[train], "scan": scan.iloc[train][have]}
    clf = kw.MKLClassifier(K.views(widths=[0.25, 1.0]), missing="absent").fit(lacking, y[train])
    kept.append(clf.score(whole, y[test]))
    full = {"blood": blood.iloc[train][have], "scan": scan.iloc[train][have]}
    thrown.append(kw.MKLClassifier(K.views(widths=[0.25, 1.0])).fit(full, y[train][have]).score(whole, y[test]))

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.plot(shares, kept, "o-", label="kept, absent in one view")
ax.plot(shares, thrown, "o--", label="thrown away")
ax.set(xlabel="share of training patients without a scan", ylabel="test accuracy")
ax.legend(frameon=False)
plt.show()
