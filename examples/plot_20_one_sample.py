"""
What each column adds for one sample
====================================

The decision value of one tumour, taken apart: what its columns add, and the constant, sum to it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
clf = kw.MKLClassifier(K.effects(price=3.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
print(clf.effects_)
kw.plot.contributions(clf, X.iloc[[40]])
plt.show()
