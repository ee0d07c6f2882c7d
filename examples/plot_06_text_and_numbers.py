"""
Text and numbers
================

Words and measurements of the same objects: a sparse matrix of words is one view, a table of numbers the
other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(4)
y = np.arange(150) % 2
words = [["quiet", "clean", "near", "small"], ["loud", "party", "near", "large"]]
texts = [" ".join(rng.choice(words[c] + ["room", "bed", "city"], 6)) for c in y]
X = kw.Views({"text": TfidfVectorizer().fit_transform(texts), "numbers": rng.normal(size=(150, 3)) + 0.4 * y[:, None]})

bank = {"text": K.linear() + K.rbf(), "numbers": K.rbf(factor=[0.25, 1.0, 4.0])}
clf = kw.MKLClassifier(bank).fit(X[:100], y[:100])
print(f"test accuracy {clf.score(X[100:], y[100:]):.3f}")
kw.plot.weights(clf)
plt.show()
