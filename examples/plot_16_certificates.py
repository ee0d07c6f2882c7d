"""
Solvers under one judge
=======================

Bounds along a fit of three solvers on the same problem: the gap is computed by the same function for all, each time a
solver says that its point is worth judging.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_breast_cancer(return_X_y=True)
bank = K.rbf(factor=[0.01, 0.1, 1.0]) + K.linear()
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for solver in ("sqp", "smo", "alternating"):
    clf = kw.MKLClassifier(bank, penalty="lp", solver=solver, tol=1e-6, C=1)
    clf.fit(scale(X)[:150], y[:150])  # the first fit of each compiles it, which is not what is compared
    clf.fit(scale(X), y)
    ax.semilogy(clf.history_.seconds, clf.history_.gap, "o-", markersize=5, label=f"{solver}, {clf.n_iter_} steps")
ax.set(xlabel="seconds", ylabel="relative duality gap", xlim=(0, None))
ax.legend(frameon=False)
plt.show()
