"""
The same fit on a GPU
=====================

The array decides where the work is done: tensors on a GPU are worked on there, tensors in the computer's own memory
here. This page was made with the latter where there is no card.
"""

import matplotlib.pyplot as plt

try:
    import torch
except ImportError:
    torch = None  # without it, the page shows the fit of NumPy's array
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 6)).astype(np.float32)
y = (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) > 0).astype(int)
if torch is not None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    X, y = torch.asarray(X, device=device), torch.asarray(y, device=device)

bank = K.rbf(gamma=[0.05, 0.3, 1.0]) + K.rbf(gamma=0.3, on=[0, 1])
clf = kw.MKLClassifier(bank, approximation=kw.Nystroem(rank=40), random_state=0).fit(X, y)
print(clf.storage_)
print(clf.certificate())
print("accuracy:", round(clf.score(X, y), 3), "predictions:", type(clf.predict(X)).__name__)

# %%
# With little memory the features are made again at every pass. The answer is the same, and ``storage_`` says so.

small = kw.MKLClassifier(bank, approximation=kw.Nystroem(rank=40), random_state=0, memory=1e5).fit(X, y)
print(small.storage_)
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
places = np.arange(len(clf.weights_))
ax.barh(places - 0.2, clf.weights_, height=0.4, label="features held")
ax.barh(places + 0.2, small.weights_, height=0.4, label="made at each pass")
ax.set_yticks(places, clf.kernel_names_)
ax.set_xlabel("weight")
ax.legend()
plt.show()
