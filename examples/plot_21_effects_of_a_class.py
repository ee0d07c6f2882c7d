"""
What speaks for a class
=======================

Wines of three growers, one against the rest: the columns and the pair that tell the second grower's from the others.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_wine(return_X_y=True, as_frame=True)
clf = kw.MKLClassifier(K.effects(price=1.5), loss="squared_hinge", C=0.3, approximation="explicit", tol=1e-2)
clf.fit(X, y)
kw.plot.effects(clf, top=6, output=1)
plt.show()
