"""
Weights along the cost of errors
================================

A small C trusts few kernels. The path is solved from the smallest cost up, each answer from the last.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = StandardScaler().set_output(transform="pandas").fit_transform(X)[::2]
along = kw.path(kw.MKLClassifier(K.linear(on="each")), X, y[::2], C=np.logspace(-3, 1, 12))
print(f"largest gap along the path: {along.gaps.max():.1e}")
kw.plot.path(along)
plt.show()
