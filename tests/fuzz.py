"""Random problems through the public face, each judged by code that shares nothing with the library.

``python tests/fuzz.py --minutes 10 --seed 1`` draws problems of every kind, fits them under a limit of CPU time and
looks at what came back: the objective of the model, computed here in extended precision from its coefficients, weights
and intercept, must not be above the certified upper bound, and no objective known may be below the lower bound;
nothing but ValueError and TypeError may be raised, no number may be NaN. What fails is made smaller and written down as
a test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy import sparse

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import penalties as P

LIMIT = 20.0  # seconds of CPU for a fit
GRACE = 2.0  # seconds of CPU that a fit may take beyond the time it was given: steps and judgements are finished
LONG = np.longdouble
EPS = 2.3e-16
REFUSALS = (ValueError, TypeError)
BINARY = ["hinge", "squared_hinge", "logistic", "squared"]
NUMERIC = ["squared", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", "quantile"]
LOSSES = {
    "binary": BINARY,
    "one against the rest": BINARY,
    "joint": ["crammer_singer", "softmax"],
    "regression": NUMERIC,
    "several targets": ["squared", "epsilon_insensitive"],
    "outliers": ["one_class"],
    "survival": ["cox"],
}
PENALTIES = ["l1", "lp", "lp 1.1", "lp 4", "uniform", "elasticnet", "moreau-yosida", "mixed", "squared-lp", "spectral"]
RARER = ["group", "group 4 2", "priced l1", "cubes"]  # penalties, less often
PRODUCTS = {"spectral": 2, "cubes": 3}  # penalties of products of so many kernels
APPROXIMATIONS = ["nystroem", "basis", "cholesky", "waves"]
KINDS = ["gaussian", "wide", "linear", "rank one", "constant", "zero", "copy", "nearly singular", "identity", "columns"]
SOLVERS = ["auto"] * 12 + [
    "sqp", "smo", "proximal", "ascent", "features", "newton-cg", "alternating", "silp", "simplemkl", "skm", "level",
    "interior", "ssnal", "newton", "coordinate", "rows", "mirror", "mwu", "qcqp", "spg", "smo-mkl",
]  # fmt: skip

OTHERS = ["frank-wolfe", "lagrangian", "active", "gfb", "gfb-merged", "mehrotra", "direct"]  # solvers, less often
FACES = ["plain"] * 14 + [  # estimators, and what is asked of them
    "chosen", "recipe", "recipe", "nonconvex", "boosted", "stream", "pairs of classes", "probability", "functions",
    "absent", "solver", "one class", "effects",
]  # fmt: skip
DRESSES = ["array"] * 6 + ["frame", "sparse", "objects", "list", "fortran", "read-only"]
GENTLE = 1e-9  # share of the objective that kernels computed here and there may differ by
INDEFINITE = 1e-7  # of a diagonal, for each sample: by which single precision may put eigenvalues below zero
SECOND = 10  # of so many problems one is solved a second time, more finely, for what the lower bounds have to be below


# -- drawing --


def draw(seed):
    """Return a problem as plain words and numbers, from which `build` makes arrays."""
    rng = np.random.default_rng(seed)

    def pick(some):
        return some[int(rng.integers(len(some)))]

    task = pick(list(LOSSES))
    wild = rng.random() < 0.5
    spec = {
        "seed": int(seed),
        "task": task,
        "n": int(pick([2, 3, 4, 7, 12, 20, 30, 45, 60, 100, 101, 150, 200]) if wild else rng.integers(8, 80)),
        "kinds": [pick(KINDS) for _ in range(int(rng.integers(1, 7)))],
        "scales": float(rng.uniform(0, 8)) if wild and rng.random() < 0.4 else 0.0,  # spread of their sizes, as powers
        "C": float(np.round(10 ** (rng.uniform(-6, 8) if wild else rng.uniform(-2, 2)), 12)),
        "loss": pick(LOSSES[task]),
        "penalty": pick(PENALTIES),
        "solver": pick(SOLVERS),
        "normalize": pick(["trace", "trace", None, "center", "dimension"]),
        "form": pick(["stack", "stack", "stack", "samples", "features"]),
        "dtype": pick(["float64", "float64", "float32"]),
        "weights": pick(["none", "none", "even", "wild", "zeros"]),
        "labels": pick(["noisy", "random", "separable", "unbalanced", "words"]),
        "tol": pick([1e-3, 1e-3, 1e-2, 1e-6]),
        "intercept": pick(["auto", "auto", "auto", False]),
        "max_time": pick([None, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.5, 0.5]),
        "face": pick(FACES),
        "which": int(rng.integers(1000)),
        "dress": pick(DRESSES),
        "written": bool(rng.random() < 0.1),
        "offset": pick([0.0] * 9 + [100.0]),
    }
    if rng.random() < 0.1:
        spec["penalty"] = pick(RARER)
    if spec["form"] == "samples" and rng.random() < 0.1:
        spec["face"], spec["approximation"] = "approximated", pick(APPROXIMATIONS)
    return spec


def samples_of(spec):
    """Return the rows of the problem, some of them equal, and a score that targets follow."""
    rng = np.random.default_rng([spec["seed"], 1])
    X = rng.normal(size=(spec["n"], 3))
    if rng.random() < 0.2:
        X = np.round(X)
    if rng.random() < 0.1:
        X = X * 1e-3
    return X + spec.get("offset", 0.0), X @ np.array([1.0, -0.5, 0.2])


def stack_of(spec):
    """Return kernels of all the kinds asked for, samples first."""
    X, _ = samples_of(spec)
    rng = np.random.default_rng([spec["seed"], 2])
    far, dots = ((X[:, None] - X) ** 2).sum(axis=2), X @ X.T
    kernels = []
    for kind in spec["kinds"]:
        made = {
            "gaussian": np.exp(-rng.uniform(0.1, 5.0) * far),
            "wide": np.exp(-(10.0 ** rng.uniform(-5, -2)) * far),
            "linear": dots,
            "rank one": np.outer(X[:, 0], X[:, 0]),
            "constant": np.ones_like(dots),
            "zero": np.zeros_like(dots),
            "copy": kernels[-1] if kernels else dots,
            "nearly singular": 1.0 + 1e-9 * dots,
            "identity": np.eye(len(X)),
            "columns": X[:, :2] @ X[:, :2].T,
        }[kind]
        kernels.append(made if kind == "copy" else made * 10.0 ** rng.uniform(-spec["scales"], spec["scales"]))
    if spec.get("written"):  # numbers of single precision in a stack of double precision
        return np.stack(kernels, axis=2).astype(np.float32).astype(float)
    return np.stack(kernels, axis=2).astype(spec["dtype"])


def targets_of(spec):
    """Return what is to be learned, as a user would give it."""
    _, score = samples_of(spec)
    rng = np.random.default_rng([spec["seed"], 3])
    if face_of(spec) == "one class":
        return np.array(["the only one"] * spec["n"])
    n, task, style = spec["n"], spec["task"], spec["labels"]
    noisy = rng.normal(size=n) if style == "random" else score + (0.0 if style == "separable" else rng.normal(size=n))
    if task in ("binary", "one against the rest", "joint"):
        edges = [0.5] if task == "binary" else [0.3, 0.7]
        edges = [0.9 + 0.05 * e for e in edges] if style == "unbalanced" else edges
        codes = np.digitize(noisy, np.quantile(noisy, edges))
        return np.array(["ant", "bee", "cat"])[codes] if style == "words" else codes
    if task == "regression":
        return 1e6 + noisy if style == "unbalanced" else noisy
    if task == "several targets":
        return np.stack([noisy, 3.0 * score + rng.normal(size=n)], axis=1)
    if task == "survival":
        return np.stack([rng.random(n) < 0.7, np.ceil(4.0 * rng.exponential(np.exp(-np.clip(noisy, -5, 5))))], axis=1)
    return None


def weights_of(spec):
    rng = np.random.default_rng([spec["seed"], 4])
    n = spec["n"]
    made = {"even": 2.0 * np.ones(n), "wild": 10.0 ** rng.uniform(-3, 3, size=n), "zeros": 1.0 * (rng.random(n) < 0.7)}
    return made.get(spec["weights"])


def penalty_of(spec):
    name, m = spec["penalty"], len(spec["kinds"]) if spec["form"] == "stack" else 3
    made = {"lp 1.1": P.Lp(1.1), "lp 4": P.Lp(4.0), "elasticnet": P.ElasticNet(0.1, 0.5), "mixed": P.Mixed(0.1, 3.0)}
    made |= {"moreau-yosida": P.MoreauYosida(a=0.3), "squared-lp": P.SquaredLp(1.5, strength=0.3), "lp": P.Lp(2.0)}
    made |= {"priced l1": P.L1(d=prices(m)), "cubes": P.SpectralNorm(degree=3)}
    names = [["first", "second"][g] for g in groups(m)]
    made |= {"group": P.Group(names), "group 4 2": P.Group(names, within=4.0, between=2.0)}
    return made.get(name, P.Fixed(np.ones(m)) if name == "uniform" else name)


def prices(m):
    return 0.5 + np.arange(m) % 3


def groups(m):
    return np.arange(m) % 2


def time_of(spec):
    """Return the seconds a fit is given; only "auto" promises to end without, and recipes have solvers of their own."""
    named = spec["solver"] != "auto" or face_of(spec) == "recipe"
    return 1.0 if named and spec["max_time"] is None else spec["max_time"]


OF_SAMPLES = ("functions", "absent", "effects", "approximated")
CLASSES = ("binary", "one against the rest", "joint")
CHOSEN = {"regression": kw.MKLRegressorCV, "several targets": kw.MKLRegressorCV, "survival": kw.MKLSurvivalCV}
CHOSEN |= dict.fromkeys(CLASSES, kw.MKLClassifierCV)
JUDGED = ("plain", "chosen", "pairs of classes", "probability", "functions", "solver")  # whose objective is known here


def face_of(spec):
    """Return what is asked for; the plain estimator where the task does not have that."""
    face, task = spec.get("face", "plain"), spec["task"]
    if face in ("recipe", "nonconvex", "boosted", "stream", "pairs of classes", "probability", "one class"):
        return face if task in CLASSES and (face != "stream" or spec["form"] == "samples") else "plain"
    if face == "chosen":
        return face if task in CHOSEN else "plain"
    if face == "effects" and task == "outliers":  # which take no banks of effects
        return "plain"
    return "plain" if face in OF_SAMPLES and spec["form"] != "samples" else face


def near(A, B, gamma=0.1):
    A, B = (part.toarray() if hasattr(part, "toarray") else part for part in (A, B))
    return np.exp(-gamma * ((A[:, None] - B) ** 2).sum(axis=2))


def nearer(A, B):
    return near(A, B, 1.0)


def dots(A, B):
    return A @ B.T


def estimator_of(spec):
    """Return the estimator asked for."""
    face, which = face_of(spec), spec.get("which", 0)
    if face == "solver":
        spec = {**spec, "solver": OTHERS[which % len(OTHERS)]}
    model = plain_estimator(spec)
    known = model.get_params(deep=False)
    if face == "functions":
        return model.set_params(kernels=[near, nearer, dots])
    if face == "effects":  # banks that are never listed, and listed ones
        few = {"penalty": "l1", "approximation": "explicit"} if which % 4 else {}
        return model.set_params(kernels="effects", normalize="trace", **few)
    if face == "approximated":
        made = {"nystroem": kw.Nystroem(rank=20), "basis": kw.SharedBasis(rank=20), "cholesky": kw.PivotedCholesky(20)}
        made["waves"] = kw.RandomFeatures(50)
        bank = K.rbf(gamma=[0.1, 0.5, 1.0]) if spec["approximation"] == "waves" else known["kernels"]
        return model.set_params(kernels=bank, approximation=made[spec["approximation"]], random_state=0)
    if face == "absent":
        return model.set_params(missing="absent", kernels=K.linear(on="each"))
    if face == "pairs of classes":
        loss = {"crammer_singer": "hinge", "softmax": "logistic"}.get(spec["loss"], spec["loss"])
        return model.set_params(multiclass="ovo", loss=loss)
    if face == "probability":
        return model.set_params(probability=True)
    if face == "chosen":
        made = CHOSEN[spec["task"]](Cs=[spec["C"] / 10.0, spec["C"]], candidates=["uniform", "l1"], cv=2)
        shared = set(known) & set(made.get_params(deep=False))
        return made.set_params(**{name: known[name] for name in shared} | {"solver": "auto"})
    few = {name: known[name] for name in ("C", "max_time", "normalize") if name in known}
    if face == "stream":
        return kw.recipe(["ufo-mkl", "obscure"][which % 2], known["kernels"], approximation="nystroem", **few)
    if face == "recipe":
        return kw.recipe(list(kw.recipes())[which % len(kw.recipes())], known["kernels"], **few)
    if face == "nonconvex":
        models = ["nlmkl-p1", "gmkl", "lmkl-softmax", "lmkl-sigmoid"]
        return kw.NonconvexMKLClassifier(known["kernels"], model=models[which % len(models)], **few)
    if face == "boosted":
        return kw.BoostedMKLClassifier(known["kernels"], vote=["lp-beta", "lp-b", "best"][which % 3], **few)
    return model


def plain_estimator(spec):
    task, samples = spec["task"], spec["form"] != "stack"
    bank = [K.rbf(gamma=[0.1, 1.0]), K.linear()] if samples else "precomputed"
    penalty = "uniform" if samples and spec["penalty"] == "uniform" else penalty_of(spec)
    known = {"kernels": bank, "penalty": penalty, "solver": spec["solver"], "normalize": spec["normalize"]}
    known |= {"tol": spec["tol"], "approximation": "explicit" if spec["form"] == "features" else None}
    known["max_time"] = time_of(spec)
    if spec["form"] == "features":
        known["kernels"] = K.linear(on="each")
        known["penalty"] = "uniform" if spec["penalty"] == "uniform" else known["penalty"]
    if task == "outliers":
        return kw.MKLOutlierDetector(nu=float(np.clip(spec["C"], 0.05, 1.0)), **known)
    if task == "survival":
        return kw.MKLSurvival(C=spec["C"], **known)
    known |= {"C": spec["C"], "loss": spec["loss"], "fit_intercept": spec["intercept"]}
    if task in ("regression", "several targets"):
        return kw.MKLRegressor(**known)
    return kw.MKLClassifier(multiclass="joint" if task == "joint" else "ovr", **known)


def fitted(spec, **changes):
    """Return the model, the X it was fitted on and the targets."""
    X = stack_of(spec) if spec["form"] == "stack" else dressed(spec)
    y, weights = targets_of(spec), weights_of(spec)
    model = estimator_of({**spec, **changes})
    given = {} if weights is None else {"sample_weight": weights}
    if face_of(spec) == "stream":
        halves = [np.arange(spec["n"]) < spec["n"] // 2, np.arange(spec["n"]) >= spec["n"] // 2]
        for rows in halves if isinstance(X, np.ndarray) else [slice(None)]:
            part = {name: value[rows] for name, value in given.items()}
            model.partial_fit(X[rows], y[rows], classes=np.unique(y), **part)
        return model, X, y
    return (model.fit(X, **given) if y is None else model.fit(X, y, **given)), X, y


def dressed(spec):
    """Return the rows of the problem as users give them: the same numbers, but for those that are absent."""
    X = samples_of(spec)[0].astype(spec["dtype"])
    if face_of(spec) == "absent":
        X[np.random.default_rng([spec["seed"], 5]).random(X.shape) < 0.2] = np.nan
        return X
    if spec.get("dress") == "read-only":
        X.flags.writeable = False
    made = {"frame": lambda: pd.DataFrame(X, columns=["a", "b", "c"]), "sparse": lambda: sparse.csr_array(X)}
    made |= {"objects": lambda: X.astype(object), "list": X.tolist, "fortran": lambda: np.asfortranarray(X)}
    return on_device(made.get(spec.get("dress"), lambda: X)(), spec)


def placed(spec, device):
    """Return the problem with its samples on a device, which kernels that are given cannot be."""
    form = "samples" if spec["form"] == "stack" else spec["form"]
    return spec | {"device": device, "form": form, "dress": "array", "written": False}


def on_device(X, spec):
    """Return X as a tensor where the problem names a device."""
    if "device" not in spec:
        return X
    import torch

    return torch.as_tensor(np.asarray(X), device=spec["device"])


def on_host(array):
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


# -- an objective of our own --


def total_loss(spec, f, y, cost):
    """Return the loss at decision values ``f`` (n,) or (n, c), from its definition; ``y`` are codes or numbers."""
    r = None if spec["task"] in ("joint", "outliers", "survival") else y - f
    c = cost if f.ndim == 1 or spec["task"] == "joint" else cost[:, None]
    match spec["loss"]:
        case "hinge":
            return np.sum(c * np.maximum(1 - y * f, 0))
        case "squared_hinge":
            return np.sum(c * np.maximum(1 - y * f, 0) ** 2) / 2
        case "logistic":
            return np.sum(c * np.logaddexp(LONG(0), -y * f))
        case "squared":
            return np.sum(c * r**2) / 2
        case "epsilon_insensitive":
            return np.sum(c * np.maximum(np.abs(r) - LONG(0.1), 0))
        case "squared_epsilon_insensitive":
            return np.sum(c * np.maximum(np.abs(r) - LONG(0.1), 0) ** 2) / 2
        case "huber":
            a = np.abs(r)
            return np.sum(c * np.where(a <= 1, a**2 / 2, a - LONG(0.5)))
        case "quantile":
            return np.sum(c * np.maximum(r / 2, -r / 2))
        case "one_class":
            return np.sum(c * np.maximum(-f, 0))
        case "crammer_singer":
            own = np.take_along_axis(f, y[:, None], axis=1)
            apart = f - own + 1
            np.put_along_axis(apart, y[:, None], 0, axis=1)
            return np.sum(c * apart.max(axis=1))
        case "softmax":
            own = np.take_along_axis(f, y[:, None], axis=1)[:, 0]
            top = f.max(axis=1)
            return np.sum(c * (top + np.log(np.sum(np.exp(f - top[:, None]), axis=1)) - own))
        case "cox":
            event, moment = y[:, 0] > 0, y[:, 1]
            raised, total = f + np.log(cost / cost.max()), -np.sum(cost * event * f)
            for time_ in np.unique(moment[event]):
                risk = raised[moment >= time_]
                size = risk.max() + np.log(np.sum(np.exp(risk - risk.max())))
                total += size * np.sum(cost[event & (moment == time_)])
            return total
    raise NotImplementedError(spec["loss"])


def mixing_cost(spec, u):
    """Return the penalty of the norms ``u`` of the kernels' parts, from its definition."""
    match spec["penalty"]:
        case "l1":
            return np.sum(u) ** 2 / 2
        case "lp" | "lp 1.1" | "lp 4":
            p = {"lp": LONG(2), "lp 1.1": LONG(1.1), "lp 4": LONG(4)}[spec["penalty"]]
            return length(u, 2 * p / (p + 1)) ** 2 / 2
        case "elasticnet":
            return LONG(0.1) * np.sum(u) + np.sum(u**2) / 4
        case "moreau-yosida":
            return np.sum(u) ** 2 / 2 + LONG(0.3) ** 2 * np.sum(u**2) / 2
        case "mixed":
            return length(u, LONG(1.5)) ** 2 / 2 + LONG(0.1) * np.sum(u)
        case "squared-lp":
            size = (length(u, LONG(1.2)) ** 2 / LONG(0.6)) ** (LONG(1) / 3)
            return LONG(1.5) * LONG(0.3) * size**2
        case "priced l1":
            return np.sum(prices(u.size) * u) ** 2 / 2
        case "group":
            return length(in_groups(u, LONG(2)), LONG(12) / 11) ** 2 / 2
        case "group 4 2":
            return length(in_groups(u, LONG(8) / 5), LONG(4) / 3) ** 2 / 2
    raise NotImplementedError(spec["penalty"])


def in_groups(u, p):
    return np.array([length(u[groups(u.size) == g], p) for g in (0, 1)])


def length(u, p):
    most = u.max(initial=0)
    return most * np.sum((u / most) ** p) ** (1 / p) if most > 0 else LONG(0)


def kernels_of(spec, X, model):
    """Return the kernels as the model scales them, in extended precision; None where they are not known here."""
    A = (X if spec["form"] == "stack" else samples_of(spec)[0].astype(spec["dtype"])).astype(LONG)
    if spec["form"] == "stack":
        stack = A
    elif spec["form"] == "samples":
        far = np.maximum(((A[:, None] - A) ** 2).sum(axis=2), 0)
        stack = np.stack([np.exp(-LONG(0.1) * far), np.exp(-far), A @ A.T], axis=2)
    else:
        stack = A[:, None, :] * A[None, :, :]
    scales = on_host(model.kernel_scales_).astype(LONG)
    if spec["penalty"] in PRODUCTS and scales.size > stack.shape[2]:  # the kernel that is 1 everywhere
        stack = np.concatenate([stack, np.ones_like(stack[:, :, :1])], axis=2)
    return stack * scales


def objectives(spec, model, X, y):
    """Return for each problem its certificate, the model's objective, and that of some multiples of it and itself."""
    stack, n = kernels_of(spec, X, model), spec["n"]
    weight = weights_of(spec)
    weight = np.ones(n) if weight is None else weight
    rows = np.flatnonzero(weight > 0)
    cost = weight[rows].astype(LONG)
    cost = cost / (LONG(model.nu) * cost.sum()) if spec["task"] == "outliers" else cost * LONG(spec["C"])
    found = model.certificate()
    bounds = list(found) if isinstance(found, list) else [found]
    duals = np.atleast_2d(on_host(model.dual_coef_))
    coef = np.zeros((len(duals), n), dtype=LONG)
    coef[:, on_host(model.support_)] = duals
    weights = np.atleast_2d(on_host(model.weights_)).astype(LONG)
    intercept = on_host(model.intercept_).astype(LONG)
    several = spec["task"] in ("joint", "several targets")
    if len(bounds) == 1 and several and coef.shape[0] > 1:
        blocks = [(bounds[0], coef[:, rows].T, intercept, weights[0], goal(spec, y, rows))]
    else:
        blocks = [
            (bound, coef[j, rows], intercept[j], weights[j], goal(spec, y, rows, j, len(bounds)))
            for j, bound in enumerate(bounds)
        ]
    for bound, beta, bias, w, target in blocks:
        here = np.arange(rows.size) if face_of(spec) != "pairs of classes" else np.flatnonzero(target != 0)
        part = stack[np.ix_(rows[here], rows[here])]
        goal_here = None if target is None else target[here]
        given = (beta[here], bias, w, goal_here, cost[here])
        found, others, noise = values_at(spec, part, *given)
        if spec["form"] == "stack" and (spec["dtype"] == "float32" or spec.get("written")):
            here_again, others, _ = values_at(spec, definite(part), *given)
            others = [here_again, *others]
        else:
            others = [found, *others]
        yield bound, (found, others, noise)


def definite(stack):
    """Return kernels that single precision made indefinite without what they have below zero.

    A kernel with an eigenvalue below zero has no objective that could be below a bound. Nothing else is changed: a
    larger diagonal would lower the optimum, and bounds would be found wrong that are not.
    """
    stack = stack.copy()
    for k in range(stack.shape[2]):
        kernel = stack[:, :, k]
        root = np.sqrt(np.maximum(kernel.diagonal(), 0))
        size = np.where(root > 0, root, 1)
        values, vectors = np.linalg.eigh((kernel / np.outer(size, size)).astype(float))
        if 0.0 < -values[0] <= INDEFINITE * len(kernel):  # more is not explained by rounding
            below = vectors * np.sqrt(np.maximum(-values, 0)) * size[:, None]
            kernel += below @ below.T
    return stack


def goal(spec, y, rows, j=0, count=1):
    """Return the targets of one problem as its loss reads them."""
    if y is None:
        return None
    y = np.asarray(y)[rows]
    if spec["task"] in ("binary", "one against the rest", "joint"):
        classes, codes = np.unique(y, return_inverse=True)
        if face_of(spec) == "pairs of classes" and classes.size > 2:
            a, b = list(combinations(range(classes.size), 2))[j]
            return (codes == b).astype(LONG) - (codes == a).astype(LONG)  # zero for the others
        if spec["task"] == "joint" and classes.size > 2:
            return codes
        positive = 1 if classes.size == 2 else j
        return np.where(codes == positive, LONG(1), LONG(-1))
    y = y.astype(LONG)
    return y[:, j] if y.ndim == 2 and spec["task"] == "several targets" and count > 1 else y


def values_at(spec, stack, beta, bias, w, target, cost):
    """Return the objective of the model, of some multiples of it, and what rounding in float64 makes of it."""
    columns, size = (beta if beta.ndim == 2 else beta[:, None]), LONG(1)
    if spec["penalty"] in PRODUCTS:  # a power of one sum of kernels, whose weights cost the sum of their powers
        degree = PRODUCTS[spec["penalty"]]
        stack, size, w = ((stack @ w) ** degree)[:, :, None], np.sum(w**degree), np.ones(1, dtype=LONG)
    g = np.einsum("ijk,jc->ick", stack, columns)
    q = np.maximum(np.einsum("ic,ick->k", columns, g), 0)
    f = np.einsum("ick,k->ic", g, w)
    f = f if beta.ndim == 2 else f[:, 0]
    fixed = spec["penalty"] == "uniform" or spec["penalty"] in PRODUCTS
    u = w * np.sqrt(q)

    def value(t):
        mixing = t * t * size * np.sum(w * q) / 2 if fixed else mixing_cost(spec, t * u)
        price = np.sum(bias) if spec["task"] == "outliers" else LONG(0)
        return mixing + total_loss(spec, t * f + bias, target, cost) + price

    diagonal = np.maximum(np.einsum("iik->ik", stack), 0)
    reach = np.sqrt(diagonal @ w) * (np.abs(columns).sum(axis=1) @ np.sqrt(diagonal @ w))
    blur = 1e3 * EPS if spec["dtype"] == "float64" or spec["form"] == "stack" else 10.0 * 1.2e-7
    off = blur * reach  # by which decision values may differ
    steep = np.ones_like(cost) if spec["task"] != "regression" else 1 + np.abs(target - f)
    if spec["loss"].startswith("squared"):  # whose slope grows
        steep = 1 + np.abs(target - f).reshape(cost.size, -1).max(axis=1) + off / 2
    noise = float(np.sum(cost * off * steep))
    return float(value(LONG(1))), [float(value(LONG(t))) for t in (0.0, 0.5, 0.9, 0.99, 1.01, 1.1)], noise


# -- judging --


def faults_of(spec, model, X, y):
    """Return what is wrong with a model, as short words: nothing, one hopes."""
    found = []
    names = ["weights_", "dual_coef_", "intercept_", "dual_gap_"]
    if isinstance(model, kw.NonconvexMKLClassifier) or face_of(spec) == "stream":  # which have no gap, and no more yet
        names = ["weights_"]
    numbers = [getattr(model, name) for name in names]
    if any(np.isnan(on_host(part).astype(float)).any() for part in numbers):
        found.append("NaN")
    if np.min(model.weights_) < 0 and face_of(spec) != "recipe":  # of which some have weights of either sign
        found.append("negative weight")
    says = model.decision_function if hasattr(model, "decision_function") else model.predict
    if not np.all(np.isfinite(on_host(says(X)))):
        found.append("decision not finite")
    if face_of(spec) == "probability" and not np.allclose(on_host(model.predict_proba(X)).sum(axis=1), 1.0):
        found.append("probabilities do not sum to one")
    if face_of(spec) == "one class":
        found.append("one class was not refused")
    if face_of(spec) not in JUDGED:
        return found
    asked, spec = spec, as_solved(spec, model, y)
    exact, single = spec["form"] == "stack", spec["dtype"] == "float32"
    judged = list(objectives(spec, model, X, y))
    finer = second_opinion(asked) if spec["seed"] % SECOND == 0 and face_of(spec) == "plain" else [np.inf] * len(judged)
    for (bound, (here, others, noise)), known in zip(judged, finer, strict=True):
        others = [*others, known]
        slack = 1e-12 * abs(bound.upper) + 1e-300 + bound.rounding
        if not bound.lower <= bound.upper + slack + 1e-6 * abs(bound.upper):
            found.append("bounds contradict each other")
        if not exact:
            slack += (1e-5 if single else GENTLE) * abs(bound.upper) + noise
        if spec["task"] == "outliers":
            slack += 2.1e-8 * abs(float(np.sum(model.intercept_)))  # by which the boundary is moved, on purpose
        if here > bound.upper + slack:
            found.append(f"above the upper bound by {(here - bound.upper) / abs(bound.upper or 1):.1e}")
        if bound.lower > min(others) + slack:
            found.append(f"below the lower bound by {(bound.lower - min(others)) / abs(bound.lower or 1):.1e}")
    return found


def as_solved(spec, model, y):
    """Return the problem that was solved in the end: the one chosen, and for two classes always the binary one."""
    if face_of(spec) == "chosen":
        best = model.best_params_
        spec = {**spec, "C": best["C"], "penalty": best["penalty"]}
    rows = weights_of(spec)
    if spec["task"] in CLASSES and len(np.unique(y if rows is None else y[rows > 0])) == 2:
        spec = {**spec, "task": "binary"}
    if spec["task"] == "binary" or face_of(spec) == "pairs of classes":
        spec = {**spec, "loss": {"crammer_singer": "hinge", "softmax": "logistic"}.get(spec["loss"], spec["loss"])}
    return spec


def second_opinion(spec):
    """Return objectives of the same problems, solved more finely: whatever the solver says of them, they are what it
    found."""
    model, X, y = fitted({**spec, "solver": "auto", "tol": 1e-9, "max_time": 1.0})
    solved = as_solved(spec, model, y)
    return [min(others) for _, (_, others, _) in objectives(solved, model, X, y)]


class TooLong(BaseException):
    """Raised when the time for a fit is up."""


def _alarm(*_):
    raise TooLong


def outcome(spec, limit=LIMIT, spoil=None):
    """Fit a problem and return how it went, the faults, the gap and the CPU seconds.

    ``spoil`` changes the certificates of the model first, to see whether that is noticed.
    """
    begun = time.process_time()
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, X, y = fitted(spec)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - begun
        if spoil is not None:
            model._certificates = [spoil(one) for one in model._certificates]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            faults = faults_of(spec, model, X, y)
        if face_of(spec) == "stream":
            return "fault" if faults else "not converged", faults, np.inf, seconds
        status = model.status_ if isinstance(model.status_, str) else " ".join(sorted(set(model.status_)))
        gap = float(model.dual_gap_)
        if time_of(spec) is not None and seconds > time_of(spec) + GRACE and not faults:
            return "too long", [f"max_time={time_of(spec)} took {seconds:.1f} s"], gap, seconds
        how = "fault" if faults else "converged" if gap <= spec["tol"] else "not converged"
        return how, faults or [status], gap, seconds
    except TooLong:
        return "too long", ["too long"], np.nan, time.process_time() - begun
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        ours = any(name in where.filename for name in ("kernelweave", "sklearn"))
        if isinstance(error, REFUSALS) and ours and (where.line or "").startswith("raise"):  # NumPy stumbled over none
            return "refused", [f"{type(error).__name__}: {error}"], np.nan, time.process_time() - begun
        words = f"{type(error).__name__} in {Path(where.filename).name}:{where.name}"
        return "exception", [words], np.nan, time.process_time() - begun
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


BAD = ("fault", "too long", "exception")
SIMPLER = {
    "weights": "none", "labels": "noisy", "dtype": "float64", "form": "stack", "normalize": None, "scales": 0.0,
    "penalty": "l1", "solver": "auto", "intercept": "auto", "tol": 1e-3, "C": 1.0,
    "max_time": None, "face": "plain", "dress": "array", "written": False, "offset": 0.0,
}  # fmt: skip


def shrunk(spec, how, limit=LIMIT):
    """Return a simpler problem that goes wrong in the same way."""
    for trial in _simpler(spec):
        if outcome(trial, limit)[0] == how:
            spec = {**spec, **trial} if trial["n"] == spec["n"] else trial
    for trial in _simpler(spec):  # what was no use before may be now
        if trial != spec and outcome(trial, limit)[0] == how:
            spec = trial
    return spec


def _simpler(spec):
    for n in (3, 6, 12, 25, 50):
        if n < spec["n"]:
            yield {**spec, "n": n}
    for kind in dict.fromkeys(spec["kinds"]):
        if len(spec["kinds"]) > 1:
            yield {**spec, "kinds": [kind]}
    for name, value in SIMPLER.items():
        if spec.get(name, value) != value:
            yield {**spec, name: value}


HEAD = '''"""Problems that went wrong."""\n\nimport fuzz\n\n\n'''


def as_test(spec, how, faults):
    """Return a test that fails as long as the problem goes wrong."""
    name = f"test_found_{how.replace(' ', '_')}_{spec['seed']}"
    return f"def {name}():  # {'; '.join(faults)[:90]}\n    assert fuzz.outcome({spec!r})[0] not in fuzz.BAD\n"


def run(seeds, until=np.inf, folder=None, device=None):
    """Judge problems until the time is up; the counts, and what went wrong."""
    counts, kinds, bad, seconds, slowest, number = Counter(), Counter(), [], 0.0, 0.0, 0
    for seed in seeds:
        if time.monotonic() > until:
            break
        spec = draw(seed) if device is None else placed(draw(seed), device)
        how, faults, _gap, took = outcome(spec)
        if how == "refused" and spec["solver"] != "auto":
            spec = {**spec, "solver": "auto"} | ({"face": "plain"} if face_of(spec) == "solver" else {})
            how, faults, _gap, took = outcome(spec)
        if how == "too long":  # perhaps it was compiling
            how, faults, _gap, took = outcome(spec)
        number, seconds, slowest = number + 1, seconds + took, max(slowest, took)
        counts[spec["task"], how] += 1
        kinds.update((name, of(spec), how) for name, of in ASPECTS.items())
        if how in BAD:
            bad.append((spec, how, faults))
            print(how, faults, json.dumps(spec), flush=True)
            if folder is not None:
                path = Path(folder) / "test_found.py"
                path.parent.mkdir(parents=True, exist_ok=True)
                first = "" if path.exists() else HEAD
                small = shrunk(spec, how, 5.0 if how == "too long" else LIMIT)
                with open(path, "a", encoding="utf-8") as file:
                    file.write(f"{first}{as_test(small, how, faults)}\n\n")
    return {"counts": counts, "kinds": kinds, "bad": bad, "seconds": seconds, "slowest": slowest, "number": number}


def run_in_processes(jobs, seeds, seconds, folder=None, device=None):
    """Judge problems in several processes, each every so many-th of them; the counts of all together."""
    if jobs == 1:
        return run(seeds, time.monotonic() + seconds, folder, device)
    until = time.monotonic() + seconds  # of a clock that the processes of a computer share
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:  # a device is not for forks
        shares = [seeds[first::jobs] for first in range(jobs)]
        parts = list(pool.map(run, shares, [until] * jobs, [folder] * jobs, [device] * jobs))
    total = {name: sum((part[name] for part in parts), start) for name, start in
             {"counts": Counter(), "kinds": Counter(), "bad": [], "seconds": 0.0, "number": 0}.items()}  # fmt: skip
    return {**total, "slowest": max(part["slowest"] for part in parts)}


COLUMNS = ("converged", "not converged", "refused", *BAD)
ASPECTS = {  # by which problems are counted, besides the task
    "representation": lambda spec: f"{spec['form']}, {spec['dtype']}",
    "penalty": lambda spec: spec["penalty"],
    "solver": lambda spec: "auto" if spec["solver"] == "auto" else "named",
    "cost": lambda spec: "below 1e-2" if spec["C"] < 1e-2 else "above 1e2" if spec["C"] > 1e2 else "1e-2 to 1e2",
    "face": face_of,
    "time given": lambda spec: "no limit" if time_of(spec) is None else "a limit",
}


def table(totals, name="task", rows=(*LOSSES, "all")):
    """Return the outcomes by task, or by something else, as lines of Markdown."""
    lines = [f"| {name} | problems | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for row in rows:
        own = [sum(v for (t, h), v in totals.items() if h == how and row in (t, "all")) for how in COLUMNS]
        lines.append(f"| {row} | {sum(own)} | " + " | ".join(map(str, own)) + " |")
    return lines


def tables_of_kinds(runs):
    """Return the outcomes by each other aspect of the problems, as lines of Markdown."""
    lines = []
    for name in ASPECTS:
        totals = Counter()
        for one in runs:
            for aspect, row, how, value in one["kinds"]:
                if aspect == name:
                    totals[row, how] += value
        lines += ["", *table(totals, name, sorted({row for row, _ in totals}))]
    return lines


def record(path, run_of, command):
    """Add a run to the file of all runs, and write the page."""
    path = Path(path)
    log = path.with_suffix(".json")
    runs = json.loads(log.read_text()) if log.exists() else []
    counts = [[*key, value] for key, value in sorted(run_of["counts"].items())]
    kinds = [[*key, value] for key, value in sorted(run_of["kinds"].items())]
    numbers = {name: run_of[name] for name in ("number", "seconds", "slowest")}
    runs.append({"command": command, "counts": counts, "kinds": kinds, **numbers})
    log.write_text(json.dumps(runs, indent=1) + "\n")
    totals = Counter()
    for one in runs:
        for task, how, value in one["counts"]:
            totals[task, how] += value
    hours, slowest = sum(one["seconds"] for one in runs) / 3600, max(one["slowest"] for one in runs)
    number = sum(one["number"] for one in runs)
    words = [
        "# Random problems", "",
        "`make fuzz MINUTES=10` fits random problems of all tasks, losses, penalties, solvers and representations, and",
        "judges every certificate by code that shares nothing with the library. A fault is a wrong bound, a NaN or a",
        f"negative weight; too long is more than {LIMIT:g} s of CPU, or {GRACE:g} s beyond the time that a fit was "
        "given; an",
        "exception is any but `ValueError` and `TypeError`.",
        f"All runs: {number} problems, {hours:.2f} hours of CPU, the slowest fit {slowest:.1f} s.", "",
        *table(totals), *tables_of_kinds(runs), "", "Runs:", "",
        *(f"- `{one['command']}`: {one['number']} problems" for one in runs), "",
    ]  # fmt: skip
    path.write_text("\n".join(words))


def main():
    """Judge random problems for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="problems are numbered from a million times this on")
    parser.add_argument("--first", type=int, default=0, help="number of the first problem, after the seed's own")
    parser.add_argument("--jobs", type=int, default=1, help="processes that judge at the same time")
    parser.add_argument("--device", help="have samples and kernels as torch tensors there, such as cpu or cuda")
    parser.add_argument("--record", help="page to add the counts to, such as docs/fuzz.md")
    parser.add_argument("--failures", help="folder for what went wrong, as tests")
    given = parser.parse_args()
    start = 1_000_000 * given.seed + given.first
    seeds = range(start, start + 1_000_000)
    found = run_in_processes(given.jobs, seeds, 60.0 * given.minutes, given.failures, given.device)
    print("\n".join(table(found["counts"])))
    print(f"{found['number']} problems, {found['seconds']:.0f} s of CPU, the slowest {found['slowest']:.1f} s")
    if given.record:
        rest = f" --jobs {given.jobs}" if given.jobs > 1 else ""
        rest += f" --device {given.device}" if given.device else ""
        record(given.record, found, f"python tests/fuzz.py --minutes {given.minutes:g} --seed {given.seed}{rest}")
    raise SystemExit(bool(found["bad"]))


if __name__ == "__main__":
    main()
