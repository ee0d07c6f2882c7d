"""
Words in DNA
============

Strings as samples: how long are the words that tell two kinds of sequences apart?
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(6)
y = np.arange(120) % 2
texts = []
for c in y:
    text = rng.choice(list("ACGT"), 60)
    if c:
        start = rng.integers(0, 54)
        text[start : start + 6] = list("TATAAT")
    texts.append("".join(text))

bank = K.spectrum([2, 3, 4, 5]) + K.mismatch(6, mismatches=1, alphabet=4)
clf = kw.MKLClassifier(bank, normalize="dimension", C=2).fit(texts[:90], y[:90])
print(f"test accuracy {clf.score(texts[90:], y[90:]):.3f}")
kw.plot.weights(clf)
plt.show()
