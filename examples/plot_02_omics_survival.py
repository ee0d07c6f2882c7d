"""
Omics with survival
===================

Times to an event, some of them not seen to their end, from three tables. The curves are of patients held out,
by thirds of the predicted risk.
"""

import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw
from kernelweave import kernels as K

rng = np.random.default_rng(1)
risk = rng.normal(size=240)
X = {
    "expression": 0.8 * risk[:, None] + rng.normal(size=(240, 25)),
    "proteins": 0.3 * risk[:, None] + rng.normal(size=(240, 10)),
    "images": rng.normal(size=(240, 30)),
}
time = rng.exponential(np.exp(-risk))
end = rng.exponential(1.5, size=240)
y = np.column_stack([time <= end, np.minimum(time, end)])
train, test = slice(0, 160), slice(160, 240)
views = kw.Views(X)

cox = kw.MKLSurvival(K.views(widths=[0.25, 1.0]), C=0.02).fit(views[train], y[train])
said = cox.predict(views[test])
print(f"concordance {cox.score(views[test], y[test]):.3f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
kw.plot.weights(cox, ax=left, by="group")
third = np.searchsorted(np.quantile(said, [1 / 3, 2 / 3]), said)
for place, name in enumerate(["low risk", "middle", "high risk"]):
    event, moment = y[test][third == place].T
    times = np.unique(moment)
    steps = [1 - event[moment == t].sum() / (moment >= t).sum() for t in times]
    right.step(np.insert(times, 0, 0), np.insert(np.cumprod(steps), 0, 1), where="post", label=name)
right.set(xlabel="time", ylabel="share without event")
right.legend(frameon=False)
plt.show()
