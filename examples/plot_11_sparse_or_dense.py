"""
Sparse or dense
===============

One parameter leads from few kernels (p near 1) to all alike (p large).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_breast_cancer(return_X_y=True)
bank = K.rbf(on="each")
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for p in (1.0, 1.2, 2.0, 8.0):
    clf = kw.MKLClassifier(bank, penalty="l1" if p == 1 else kw.penalties.Lp(p)).fit(scale(X)[::2], y[::2])
    ax.plot(np.sort(clf.weights_ / clf.weights_.max())[::-1], "o-", markersize=3, label=f"p = {p:g}")
ax.set(xlabel="kernels, heaviest first", ylabel="weight, relative to the heaviest")
ax.legend(frameon=False)
plt.show()
