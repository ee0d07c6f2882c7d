"""
Which columns matter, which act together, and how
=================================================

One kernel for each column and each pair of columns, mixed by l1: the model is a sum of curves and maps, drawn from the
largest down. Three tables: the progression of diabetes, tumours, and wines of three growers.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = kw.MKLRegressor(K.effects(price=2.0), C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
print(model.effects_)
kw.plot.effects(model, top=6)
plt.show()

# %%
# What each column adds for one patient.
kw.plot.contributions(model, X.iloc[[9]])
plt.show()

# %%
# Tumours: the decision value is positive where they are benign.
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
clf = kw.MKLClassifier(K.effects(price=3.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
print(clf.effects_)
kw.plot.effects(clf, top=6)
plt.show()

# %%
# Wines: what speaks for the first grower.
X, y = load_wine(return_X_y=True, as_frame=True)
clf = kw.MKLClassifier(K.effects(price=3.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2).fit(X, y)
kw.plot.effects(clf, top=6, output=0)
plt.show()
