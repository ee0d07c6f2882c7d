"""
Limits instead of means
=======================

The quantile loss learns what a given share of the samples stays below.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(8)
x = np.sort(rng.uniform(0, 6, 200))
y = np.sin(x) + (0.1 + 0.15 * x) * rng.normal(size=200)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(x, y, ".", color="#8a929c")
for level in (0.1, 0.5, 0.9):
    model = kw.MKLRegressor(K.rbf(gamma=[0.1, 1.0]) + K.linear(), loss=kw.losses.Quantile(level), C=3.0)
    said = model.fit(x[:, None], y).predict(x[:, None])
    ax.plot(x, said, label=f"{level:.0%} should stay below, {np.mean(y <= said):.0%} do")
ax.legend(frameon=False)
plt.show()
