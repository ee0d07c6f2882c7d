"""
What each column does
=====================

With a kernel on each column the model is a sum of functions of one column; predicting along one column, the
others at their mean, draws its function.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = kw.MKLRegressor(K.rbf(on="each"), C=0.1).fit(X, y)
heavy = np.argsort(-model.weights_)[:4]

fig, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True, layout="constrained")
for ax, k in zip(axes, heavy, strict=True):
    along = np.tile(X.mean().to_numpy(), (60, 1))
    along[:, k] = np.linspace(X.iloc[:, k].min(), X.iloc[:, k].max(), 60)
    ax.plot(along[:, k], model.predict(type(X)(along, columns=X.columns)))
    ax.set(xlabel=X.columns[k])
axes[0].set_ylabel("predicted progression")
plt.show()
