"""EasyMKL and AverageMKL of MKLpy on one case, run in MKLpy's own environment; prints a JSON row per line."""

from __future__ import annotations

import json
import signal
import sys

import numpy as np
import torch
from MKLpy.algorithms import AverageMKL, EasyMKL
from sklearn.svm import SVC

from cases import make
from common import Stopwatch, accuracy, build


def give_up(*_: object) -> None:
    raise TimeoutError


def run(method, case, kernels, C: float, cap: float) -> dict:
    """Fit one method with an SVC on top; time and test accuracy only, since it solves another problem."""
    row = {"name": f"MKLpy {method.__name__}", "C": C, "seconds": None, "note": ""}
    signal.setitimer(signal.ITIMER_REAL, cap)
    try:
        with Stopwatch() as watch:
            model = method(learner=SVC(C=C)).fit(kernels, case.y)
    except TimeoutError:
        return row | {"note": f"cap of {cap:g} s"}
    except Exception as error:  # a rival that fails is a row, not the end of the run
        return row | {"note": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    beta, weights = np.zeros(len(case.y)), model.solution.weights.numpy()
    beta[model.learner.support_] = model.learner.dual_coef_[0]
    right = accuracy(case, beta, weights, float(model.learner.intercept_[0]))
    kept = int(np.sum(weights > 1e-4 * weights.max()))
    return row | {"seconds": watch.cpu, "wall": watch.wall, "accuracy": right, "kept": kept}


def main(key: str, fast: str, cap: str, *costs: str) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, give_up)
    case = make(key, fast == "fast")
    kernels = [torch.from_numpy(K) for K in build(case.bank, case.X, "kernels").array]
    for C in map(float, costs):
        for method in (AverageMKL, EasyMKL):
            print(json.dumps(run(method, case, kernels, C, float(cap))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
