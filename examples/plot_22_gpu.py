"""
On a GPU, or wherever the array is
==================================

The array decides where the work is done. With torch and a GPU, the samples below are a tensor there, and so are the
features, coefficients and predictions; with torch alone they are a tensor in memory, without it an array. The lines
that fit are the same. With features of low rank the time grows as the number of samples does.
"""

import time

import numpy as np
from matplotlib import pyplot

import kernelweave as kw
from kernelweave import kernels as K

try:
    import torch
except ModuleNotFoundError:
    torch = None

numbers = np.random.default_rng(0).normal(size=(8000, 6)).astype(np.float32)
if torch is None:
    X, where = numbers, "NumPy"
else:
    X = torch.as_tensor(numbers, device="cuda" if torch.cuda.is_available() else "cpu")
    where = f"torch, {X.device}"
y = X[:, 0] * X[:, 1] > 0

bank = K.rbf(gamma=[0.03, 0.1, 0.3]) + K.polynomial(degree=2)
sizes, seconds = [1000, 2000, 4000, 8000], []
for n in [500, *sizes]:  # the first one compiles
    begun = time.perf_counter()
    clf = kw.MKLClassifier(bank, penalty="lp", approximation=kw.Nystroem(rank=30), random_state=0).fit(X[:n], y[:n])
    seconds.append(time.perf_counter() - begun)
print(f"{where}: accuracy {float((clf.predict(X) == y).sum()) / len(y):.3f}, gap {clf.dual_gap_:.1e}, {clf.storage_}")

figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(sizes, seconds[1:], marker="o", color="#2f6f9f")
axes.set(xlabel="samples", ylabel="seconds of a fit", title=where, ylim=(0, None), xlim=(0, None))
axes.spines[["top", "right"]].set_visible(False)
pyplot.show()
