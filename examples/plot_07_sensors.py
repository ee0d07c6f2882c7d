"""
Sensors over time
=================

Six sensors record a curve each; a bank with kernels on every sensor says which to keep.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(5)
y, time = np.arange(120) % 2, np.linspace(0, 1, 30)
curves = rng.normal(scale=0.6, size=(6, 120, 30)).cumsum(axis=2) / 3
curves[1] += y[:, None] * np.sin(2 * np.pi * time)
curves[4] += y[:, None] * (time > 0.6)
X = {f"sensor {k}": curve for k, curve in enumerate(curves)}

clf = kw.MKLClassifier(K.views(widths=[0.25, 1.0]), penalty="group").fit(X, y)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for c in (0, 1):
    left.plot(time, X["sensor 1"][y == c][:8].T, color=["#2f6f9f", "#d1603d"][c], linewidth=0.8)
left.set(title="sensor 1 of some samples, by class", xlabel="time")
kw.plot.weights(clf, ax=right, by="group")
plt.show()
