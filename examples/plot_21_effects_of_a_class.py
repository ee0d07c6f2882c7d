"""
What speaks for a class
=======================

Wines of three growers, one against the rest: the columns and pairs that tell the first grower's from the others.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_wine(return_X_y=True, as_frame=True)
clf = kw.MKLClassifier(K.effects(price=3.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
kw.plot.effects(clf, top=6, output=0)
plt.show()
