"""
Who is unlike the rest
======================

One-class learning with several widths at once.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(9)
X = np.vstack([rng.normal(size=(100, 2)) * 0.4 + centre for centre in ([0, 0], [3, 1])] + [rng.uniform(-2, 5, (12, 2))])
model = kw.MKLOutlierDetector(K.rbf(gamma=[0.1, 1.0, 5.0]), nu=0.08).fit(X)

across, up = np.meshgrid(np.linspace(-3, 6, 80), np.linspace(-3, 6, 80))
score = model.decision_function(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
ax.contourf(across, up, score, levels=12, cmap="Blues", alpha=0.6)
ax.contour(across, up, score, levels=[0.0], colors="#d1603d")
ax.scatter(*X.T, c=np.where(model.predict(X) < 0, "#d1603d", "#30343b"), s=14)
plt.show()
