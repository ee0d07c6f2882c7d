"""
Three tables of the same patients
=================================

Gene expression, methylation and micro-RNA of the same patients: few tables should do, each with several
kernels, so the penalty is on groups. The second picture adds the weights up by table.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(0)
y = np.arange(120) % 2
patients = [f"patient {i}" for i in range(120)]
shifts = {"expression": 0.5, "methylation": 0.25, "micro-RNA": 0.0}
X = {name: pd.DataFrame(rng.normal(size=(120, 40)) + shift * y[:, None], patients) for name, shift in shifts.items()}

clf = kw.MKLClassifier(K.views(widths=[0.25, 1.0, 4.0]), penalty=kw.penalties.Group(within=2.0, between=1.1)).fit(X, y)
print(clf.summary())

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
kw.plot.weights(clf, ax=left)
kw.plot.weights(clf, ax=right, by="group")
plt.show()
