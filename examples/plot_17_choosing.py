"""
Choosing by cross-validation
============================

Penalty and C are chosen on kernels that are computed once; every fold is a part of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_breast_cancer(return_X_y=True)
bank = K.rbf(factor=[0.1, 1.0, 10.0]) + K.linear()
costs = np.logspace(-2, 2, 7)
clf = kw.MKLClassifierCV(bank, Cs=costs, candidates=["uniform", "lp", "l1"], cv=4, drop=False)
clf.fit(scale(X)[::2], y[::2])
print(clf.best_candidate_, clf.best_params_["C"])

scores = np.ma.asarray(clf.cv_results_["mean_test_score"]).reshape(3, costs.size)
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, row in zip(["average", "lp", "l1"], scores, strict=True):
    ax.semilogx(costs, row, "o-", label=name)
ax.set(xlabel="C", ylabel="mean accuracy over folds")
ax.legend(frameon=False)
plt.show()
