"""
Regions of an image
===================

Which parts of an image matter? A Gaussian kernel on each region of handwritten digits, and weights drawn
where their region is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kernelweave as kw
from kernelweave import kernels as K

X, y = load_digits(return_X_y=True)
two = np.isin(y, [3, 8])
X, y = X[two] / 16.0, y[two]
rows, columns = np.divmod(np.arange(64), 8)
regions = {
    f"rows {r}-{r + 1}, columns {c}-{c + 1}": np.flatnonzero((rows // 2 == r // 2) & (columns // 2 == c // 2))
    for r in range(0, 8, 2)
    for c in range(0, 8, 2)
}
clf = kw.MKLClassifier(K.rbf(on=regions), C=1).fit(X[:250], y[:250])
print(f"test accuracy {clf.score(X[250:], y[250:]):.3f}")

shown = np.zeros(64)
for weight, region in zip(clf.weights_, regions.values(), strict=True):
    shown[region] = weight
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
images = {"mean 3": X[y == 3].mean(axis=0), "mean 8": X[y == 8].mean(axis=0), "weight": shown}
for ax, (title, image) in zip(axes, images.items(), strict=True):
    ax.imshow(image.reshape(8, 8), cmap="Blues")
    ax.set_title(title)
    ax.set_axis_off()
plt.show()
