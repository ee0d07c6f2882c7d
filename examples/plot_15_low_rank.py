"""
How many features are enough
============================

Nystroem features of growing rank: what they lose of the kernels, and the accuracy on samples held out.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

import kernelweave as kw
from kernelweave import kernels as K

X, y = make_classification(n_samples=3000, n_features=10, n_informative=6, random_state=0)
ranks, lost, right = [5, 10, 20, 40, 80], [], []
for rank in ranks:
    clf = kw.MKLClassifier(K.rbf(factor=[0.25, 1.0]), approximation=kw.Nystroem(rank=rank), random_state=0)
    clf.fit(X[:2000], y[:2000])
    lost.append(clf.approximation_error_.max())
    right.append(clf.score(X[2000:], y[2000:]))

fig, (left, other) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(ranks, lost, "o-")
left.set(xlabel="rank", ylabel="share of a kernel's trace that is lost")
other.plot(ranks, right, "o-", color="#2e7d4f")
other.set(xlabel="rank", ylabel="test accuracy")
plt.show()
