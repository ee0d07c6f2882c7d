"""
Learning from a stream
======================

Chunks of samples pass by and none is kept; the accuracy is that on samples held out.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_digits(return_X_y=True)
X_test, y_test = X[1400:], y[1400:]
bank = K.rbf(gamma=[1e-4, 1e-3, 1e-2])
ufo = kw.recipe("ufo-mkl", bank, approximation=kw.RandomFeatures(rank=150), C=10, random_state=0)
seen, right = [], []
for start in range(0, 1400, 140):
    ufo.partial_fit(X[start : start + 140], y[start : start + 140], classes=range(10), total=1400)
    seen.append(start + 140)
    right.append(ufo.score(X_test, y_test))

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.plot(seen, right, "o-")
ax.set(xlabel="samples seen", ylabel="test accuracy")
plt.show()
