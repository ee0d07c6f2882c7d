"""
Which columns matter, which act together, and how
=================================================

One kernel for each column and each pair of columns, mixed by l1: the model of the progression of diabetes is a sum of
curves, bars and maps, drawn from the largest down.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = kw.MKLRegressor(K.effects(price=2.0), C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
print(model.effects_)
kw.plot.effects(model, top=6)
plt.show()
