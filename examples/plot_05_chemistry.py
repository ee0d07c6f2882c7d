"""
Fingerprints of molecules
=========================

Two kinds of fingerprints, bits and counts, with the kernels chemists use. With RDKit the arrays come from
``GetFingerprintAsNumPy`` and ``GetCountFingerprintAsNumPy``; here they are drawn.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(3)
active = np.arange(200) % 2
bits = (rng.random((200, 128)) < np.where((np.arange(128) < 16) & (active[:, None] == 1), 0.35, 0.1)).astype(float)
counts = rng.poisson(np.where((np.arange(64) < 8) & (active[:, None] == 1), 1.6, 0.8)).astype(float)
X = {"bits": bits, "counts": counts}

bank = K.tanimoto(on="bits") + K.jaccard(on="counts") + K.linear(on="views")
clf = kw.MKLClassifier(bank, penalty="lp").fit({name: part[:140] for name, part in X.items()}, active[:140])
print(f"test accuracy {clf.score({name: part[140:] for name, part in X.items()}, active[140:]):.3f}")
kw.plot.weights(clf)
plt.show()
