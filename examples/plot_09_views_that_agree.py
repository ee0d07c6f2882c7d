"""
Views that must agree
=====================

Neither face nor voice tells anything alone; their product does. Sums of kernels stay at a coin's chance.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(7)
face, voice, gait = rng.normal(size=(3, 300, 2))
y = np.sign(face[:, 0]) == np.sign(voice[:, 0])
X = kw.Views({"face": face, "voice": voice, "gait": gait})
bank = K.views(widths=[0.5, 2.0], linear=False)

for name in ("lp-mkl", "nuc-mkl"):
    clf = kw.recipe(name, bank).fit(X[:200], y[:200])
    print(f"{name}: test accuracy {clf.score(X[200:], y[200:]):.3f}")
kw.plot.pairs(clf)
plt.show()
