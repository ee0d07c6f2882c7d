"""
Rows that do not fit in memory
==============================

A Dask array in, the same certificate out: chunks of rows are worked on where they are, one after the other or by the
workers of a cluster, and only sums come back. Without a client the chunks go to threads; with one, such as
``Client(LocalCluster(n_workers=4))``, nothing else changes.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K


def rows(block_info=None):
    """Make a chunk when it is asked for; reading a part of a file would be the same."""
    return np.random.default_rng(block_info[None]["chunk-location"][0]).normal(size=(1000, 6))


X = da.map_blocks(rows, chunks=((1000,) * 8, (6,)), dtype=float, meta=np.empty((0, 6)))
y = X[:, 0] * X[:, 1] + da.sin(2 * X[:, 2]) > 0

bank = K.rbf(gamma=0.3, on=[0, 1]) + K.rbf(gamma=0.3, on="each")
clf = kw.MKLClassifier(bank, loss="logistic", approximation=kw.Nystroem(rank=20), random_state=0).fit(X, y)
print(clf.storage_)
print(clf.certificate())
print("accuracy on all rows:", round(clf.score(X, y), 3))

# %%
# Predictions are Dask arrays too: nothing is computed before it is asked for, and then chunk by chunk.

odds = clf.predict_proba(X)[:, 1]
print(odds)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
part = X[:1000].compute()
points = ax.scatter(part[:, 0], part[:, 1], c=odds[:1000].compute(), s=12, cmap="coolwarm", vmin=0, vmax=1)
ax.set(xlabel="column 0", ylabel="column 1", title="probabilities of the first chunk")
fig.colorbar(points, label="probability")
plt.show()
