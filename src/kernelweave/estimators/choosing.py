"""Choosing penalty, scaling and C by cross-validation: kernels computed once, folds cut out of them, warm paths."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from ..arrays import Array, is_foreign, like, namespace, to_host
from ..assemble import (
    Assembly,
    EffectiveDimension,
    Fold,
    Options,
    StoredFold,
    TailSum,
    check_choice,
    check_cost,
    check_whole,
    fold_of,
    rows_of,
)
from ..grams.dense import DenseGram, Room
from ..kernels.effects import columns_together
from ..losses import Loss, make_loss
from ..penalties import L1, Fixed, Lp, MixingPenalty
from ..problem import Solution
from ..solvers.base import on_threads, one_of_many
from ..solvers.choose import SETTINGS as SOLVING
from ..threads import one_for_blas
from ..weightings import make_mixing
from .base import MKLEstimator, PreparedFit, intercepts, outputs_of

RULES = ("best", "one-se")
SEEN = 2  # folds after which a setting, a candidate at one cost, can be dropped
BEHIND = 3.0  # standard errors that it is then behind the best
TWINS = 1e-4  # share of the largest variance of differences from the best below which a setting is the best once more
CHOOSING = 0.7  # share of max_time that may be spent on it
LEAST, MOST = 1e-2, 1e3  # costs between which those of a path lie by default


@dataclass(frozen=True)
class Candidate:
    """A way to weigh kernels that is tried along C.

    Parameters
    ----------
    penalty : str, MixingPenalty or Weighting
        How kernels are mixed.
    normalize : "trace", "center", None, "dimension", "tail" or Complexity, default="trace"
        Size of the kernels.
    name : str, optional
        What it is called in tables.
    cheapest : bool, default=False
        Whether only the kernels of the least price count in scores; others may have weight where these say nothing.
    loss : str or Loss, optional
        What an error costs, in place of the estimator's own loss.
    """

    penalty: Any
    normalize: Any = "trace"
    name: str = ""
    cheapest: bool = False
    loss: Any = None

    def __str__(self) -> str:
        if self.name:
            return self.name
        plain = isinstance(self.normalize, str) and self.normalize == "trace"
        name = f"{self.penalty}" if plain else f"{self.penalty}, {self.normalize}"
        return name if self.loss is None else f"{name}, {self.loss}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator that it stands for."""
        given = {"penalty": self.penalty, "normalize": self.normalize}
        return given if self.loss is None else {**given, "loss": self.loss}


AUTO = (
    Candidate("uniform", name="average"),
    Candidate("uniform", EffectiveDimension(1.0), "average by dimension"),
    Candidate(Lp(4 / 3), name="lp"),
    Candidate(L1(), EffectiveDimension(1.0), "l1 by dimension"),
    Candidate(L1(), TailSum(10), "l1 by tail"),
    Candidate(L1(), name="l1"),
)
# of several classes, which least squares tell apart about as well as machines, at the price of one factorisation
SHARED = Candidate("uniform", EffectiveDimension(1.0), "squared loss, average by dimension", loss="squared")

PRICES = {1e6: "columns alone", 10.0: "pairs at 10", 3.0: "pairs at 3", 1.0: "pairs at 1"}  # of a pair over a column


def automatic(m: int, together: np.ndarray | None, shared: bool = False) -> list[Candidate]:
    """Return what is tried by default on m kernels; ``together`` says how many columns act in each of the effects.

    ``shared`` says that several classes would share the factors of least squares.

    Examples
    --------
    >>> from kernelweave.estimators.choosing import automatic
    >>> [str(one) for one in automatic(3, np.array([1, 1, 2]))]
    ['columns alone', 'pairs at 10', 'pairs at 3', 'pairs at 1']
    """
    if together is None:
        plain = list(AUTO) if m > 1 else [Candidate("uniform")]
        return [*plain[:2], SHARED, *plain[2:]] if shared and m > 1 else plain
    if np.all(together == together[0]):
        return [Candidate(L1())]
    alone = max(PRICES)
    return [
        Candidate(L1(price ** (0.5 * (together - 1.0))), name=name, cheapest=price == alone)
        for price, name in PRICES.items()
    ]


def read_candidates(
    given: Any,
    names: Sequence[str],
    kept: Sequence[int] | None = None,
    together: np.ndarray | None = None,
    shared: bool = False,
) -> list[Candidate]:
    """Return what is to be tried on kernels of these names, or say what makes no sense; ``kept`` are not zero.

    Examples
    --------
    >>> from kernelweave.estimators.choosing import read_candidates
    >>> [str(one) for one in read_candidates(["l1", {"penalty": "lp", "normalize": "tail"}, "single"], ["a", "b"])]
    ['l1', 'lp, tail', 'a alone', 'b alone']
    """
    if isinstance(given, str) and given == "auto":
        return automatic(len(names), together, shared)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError(
            "candidates must be 'auto', or a list of penalties or of dicts with 'penalty' and 'normalize'; got "
            f"{given!r}."
        )
    found: list[Candidate] = []
    for one in given:
        if isinstance(one, str) and one == "single":
            rows = np.eye(len(names))
            alive = range(len(names)) if kept is None else kept
            found += [Candidate(Fixed(rows[k]), name=f"{names[k]} alone") for k in alive]
        elif isinstance(one, Candidate):
            found.append(one)
        elif isinstance(one, dict):
            unknown = set(one) - {"penalty", "normalize", "name", "loss"}
            if unknown or "penalty" not in one:
                raise ValueError(
                    f"candidates holds {one!r}: a dict has 'penalty', perhaps 'normalize', 'loss' and 'name'."
                )
            found.append(Candidate(**one))
        else:
            found.append(Candidate(one))
    for candidate in found:
        make_mixing(candidate.penalty)
        Options(candidate.normalize)
        if candidate.loss is not None:
            make_loss(candidate.loss)
        if isinstance(candidate.normalize, str) and candidate.normalize == "diagonal":
            raise ValueError(
                "candidates holds normalize='diagonal', which is not a size and would need other kernels: give "
                "normalised kernels, such as RBF().normalised(), in kernels."
            )
    return found


def read_costs(given: Any) -> np.ndarray:
    """Return the costs of a path, rising: so many between a hundredth and a thousand, or those given."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        check_whole("Cs", given)
        return np.geomspace(LEAST, MOST, int(given)) if given > 1 else np.ones(1)
    try:
        costs = np.atleast_1d(np.asarray(given, dtype=float))
    except (TypeError, ValueError):
        costs = np.empty(0)
    known = costs.ndim == 1 and costs.size and np.all(np.isfinite(costs)) and np.all(costs > 0)
    if not known or isinstance(given, bool):
        raise ValueError(f"Cs must be a whole number, or a list of positive finite costs; got {given!r}.")
    for cost in costs:
        check_cost("every entry of Cs", float(cost))
    return np.unique(costs)


@dataclass
class Race:
    """Scores by setting and fold; settings that are clearly behind are dropped, and the best is chosen.

    A setting is behind when the leader is ahead of it by more than three standard errors of the paired differences
    over the folds so far, by more the fewer these are. A variance may be small by chance, so none counts as less than
    the median over all settings, without the leader's twins, which large costs often are.
    """

    scores: np.ndarray  # (candidates, costs, folds) NaN where not scored
    seconds: np.ndarray  # the same: of fits and of predictions
    alive: np.ndarray = field(init=False)  # (candidates, costs)

    def __post_init__(self) -> None:
        self.alive = np.ones(self.scores.shape[:2], dtype=bool)

    def drop(self, done: int, each: bool = True) -> None:
        """Drop what is behind after ``done`` folds: ``each`` setting, or only candidates that are so at all costs."""
        if done < SEEN or done >= self.scores.shape[2]:
            return
        seen = self.scores[self.alive][:, :done]
        behind = seen[np.argmax(seen.mean(axis=1))] - seen
        spread = behind.var(axis=1, ddof=1)
        apart = spread[~(spread < TWINS * spread.max())]
        error = np.sqrt(np.maximum(spread, np.median(apart)) / done * (1.0 + 2.0 / (done - 1)))
        lost = np.zeros_like(self.alive)
        lost[self.alive] = behind.mean(axis=1) > BEHIND * error
        self.alive &= ~lost if each else ~np.all(lost, axis=1, keepdims=True)

    def cut(self, done: int) -> Race:
        """Return the race over the first folds only."""
        return Race(self.scores[:, :, :done], self.seconds[:, :, :, :done])

    def best(self, rule: str) -> tuple[int, int]:
        """Return the candidate and the cost chosen: of several that are level, the first and the smallest."""
        means = self.scores.mean(axis=2)  # NaN where a fold is missing
        if np.all(np.isnan(means)):
            raise ValueError(
                "scoring is NaN for every setting in some fold: use folds in which it is defined, such as "
                "StratifiedKFold, or another scoring."
            )
        level = np.nanmax(means)
        if rule == "one-se":
            c, j = np.unravel_index(np.nanargmax(means), means.shape)
            level -= self.scores[c, j].std(ddof=1) / np.sqrt(self.scores.shape[2]) if self.scores.shape[2] > 1 else 0.0
        c, j = np.argwhere(means >= level)[0]
        return int(c), int(j)


class Choosing(MKLEstimator):
    """The part of an estimator that chooses its penalty, scaling and C by cross-validation.

    It stands before the estimator it chooses for, among whose parameters C, penalty and normalize are no more.
    """

    _plain: ClassVar[type[MKLEstimator]]
    Cs: Any
    candidates: Any
    cv: Any
    scoring: Any
    rule: Any
    drop: Any
    best_params_: dict[str, Any]

    # -- what was chosen, in the place of parameters -----------------------------------------------------

    @property
    def C(self) -> float:
        """The cost chosen; 1 before a fit."""
        return self.best_params_["C"] if hasattr(self, "best_params_") else 1.0

    @property
    def penalty(self) -> Any:
        """The penalty chosen; l1 before a fit."""
        return self.best_params_["penalty"] if hasattr(self, "best_params_") else "l1"

    @property
    def normalize(self) -> Any:
        """The scaling chosen; that of the trace before a fit."""
        return self.best_params_["normalize"] if hasattr(self, "best_params_") else "trace"

    # -- choosing -------------------------------------------------------------------------------------------

    def _fit_chosen(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Choose, and fit what was chosen to all samples."""
        begun = time.perf_counter()
        y = y if hasattr(y, "__getitem__") or y is None else np.asarray(y)
        if hasattr(self, "best_params_"):
            del self.best_params_
        check_choice("rule", self.rule, RULES)
        costs = read_costs(self.Cs)
        with self._limited(begun, CHOOSING):
            prepared = self._prepare(X, y, sample_weight)
            made = prepared.assembly
            together = None if made.bank is None else columns_together(made.bank)
            shared = self._shares_factors(prepared)
            tried = read_candidates(self.candidates, made.names, made.kept.tolist(), together, shared)
            self._check_losses(tried)
            with one_of_many():
                race = self._race(prepared, tried, costs, X, y, groups)
        c, j = race.best(self.rule)
        self.best_params_ = {**tried[c].parameters(), "C": float(costs[j])}
        self.best_candidate_, self.best_score_ = str(tried[c]), float(race.scores[c, j].mean())
        self.best_index_ = c * costs.size + j
        self.cv_results_ = table_of(race, tried, costs)
        self._ready = prepared.assembly
        try:
            with self._limited(begun):
                self._fit(X, y, sample_weight)
        finally:
            del self._ready
        self.fit_time_ = time.perf_counter() - begun
        return self

    def _assemble(self, X: Any, frame: Any, options: Any, targets: Any, whole: bool = False) -> Assembly:
        """Take the kernels that are there from the choice, where their first scaling is that of the fit."""
        if hasattr(self, "_ready") and options.normalize == "trace":
            return self._ready
        return super()._assemble(X, frame, options, targets, whole)

    def _make_loss(self) -> Loss:
        """Return the loss chosen, if one was, else the estimator's own."""
        chosen = getattr(self, "best_params_", {}).get("loss")
        return super()._make_loss() if chosen is None else self._read_loss(chosen)

    def _check_losses(self, tried: Sequence[Candidate]) -> None:
        """Refuse losses of candidates that are not for these targets."""
        for one in (one for one in tried if one.loss is not None):
            if "loss" not in self.get_params(deep=False):
                raise ValueError(f"candidates holds {one}, and {type(self).__name__} has one loss: leave 'loss' out.")
            try:
                self._read_loss(one.loss)
            except (TypeError, ValueError) as error:
                raise type(error)(f"candidates holds {one}, but {error}") from None

    @property
    def _manner(self) -> str:
        loss = getattr(self, "best_params_", {}).get("loss")
        return super()._manner if loss is None else f"{super()._manner}, loss {loss}"

    def _shares_factors(self, prepared: PreparedFit) -> bool:
        """Whether problems of SVMs, one for each of several classes, would share the factors of least squares."""
        alike = len(prepared.subproblems) > 1 and all(one.rows is None for one in prepared.subproblems)
        stored = isinstance(prepared.assembly.gram, DenseGram) and prepared.assembly.gram.shape[0] <= SOLVING.square
        usual = type(prepared.loss) is type(make_loss("hinge"))
        return alike and stored and usual and isinstance(self.solver, str) and self.solver == "auto"

    def _on_bank(self) -> bool:
        """Folds are cut out of kernels that are listed."""
        return False

    def _race(
        self, prepared: PreparedFit, tried: Sequence[Candidate], costs: np.ndarray, X: Any, y: Any, groups: Any
    ) -> Race:
        """Score every candidate along the costs, fold by fold."""
        splits, judge = self._splits(prepared, X, y, groups), Judge(self)
        tried = [_on_kept(candidate, prepared.assembly) for candidate in tried]
        shape = (len(tried), costs.size, len(splits))
        race = Race(np.full(shape, np.nan), np.full((2, *shape), np.nan))
        room = Room(max(train.size for train, _ in splits) ** 2)
        bar, loose = _bar(self.progress, len(tried) * len(splits)), list[float]()
        for f, (train, test) in enumerate(splits):
            fold = fold_of(prepared.assembly, train, test, room)
            job = _Job(fold, train, test, prepared.targets, y, judge, loose)
            left = np.flatnonzero(race.alive.any(axis=1)).tolist()
            try:
                found = self._raced(job, [(tried[c], costs[race.alive[c]]) for c in left], bar)
            except ValueError as error:
                raise ValueError(f"In fold {f + 1} of cv: {error}") from error
            for c, (scores, seconds) in zip(left, found, strict=True):
                race.scores[c, race.alive[c], f], race.seconds[:, c, race.alive[c], f] = scores, seconds
            if self.drop:
                race.drop(f + 1, each=self.rule == "best")  # one-se looks for the smallest cost that is near the best
            if time.perf_counter() > self._end and f + 1 < len(splits):
                race = race.cut(f + 1)
                warnings.warn(
                    f"max_time was reached after {f + 1} of {len(splits)} folds, which the choice is by: raise "
                    "max_time, or try fewer Cs and candidates.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
                break
        if loose:
            warnings.warn(
                f"In {len(loose)} fits of the cross-validation the relative duality gap missed tol={self.tol:g}, the "
                f"worst at {max(loose):.1e}: their scores are of unfinished models; raise tol, or leave out large Cs.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return race

    def _raced(
        self, job: _Job, tried: Sequence[tuple[Candidate, np.ndarray]], bar: Any
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return scores and seconds of candidates on a fold, each at its costs; loose gaps are told in the end."""
        with one_for_blas(), warnings.catch_warnings():  # around the threads: both are those of the process
            warnings.simplefilter("ignore")
            return on_threads(
                lambda one: _tried(self._worker(one[0], job), one[0], one[1], job, bar), tried, self.n_jobs
            )

    def _splits(
        self, prepared: PreparedFit, X: Any, y: Any, groups: Any
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return training and test samples of each fold, by positions among the samples that count."""
        n, rows = prepared.targets.n_rows, to_host(prepared.targets.rows)
        labels = to_host(y) if is_foreign(y) else y
        place = np.full(n, -1)
        place[rows] = np.arange(rows.size)
        cv = check_cv(self.cv, labels, classifier=is_classifier(self))
        splits = []
        seen = X if hasattr(X, "shape") and not is_foreign(X) else np.zeros((n, 1))
        for train, test in cv.split(seen, labels, groups):
            parts = [place[np.arange(n)[part]] for part in (train, test)]
            splits.append(tuple(part[part >= 0] for part in parts))
            if not splits[-1][0].size or not splits[-1][1].size:
                raise ValueError("cv leaves a fold without samples to learn from or to predict: use fewer folds.")
        return splits

    def _worker(self, candidate: Candidate, job: _Job) -> MKLEstimator:
        """Return the estimator that a candidate stands for, to be fitted to a fold."""
        worker = self._plainly().set_params(**candidate.parameters())
        given = {"kernels": "precomputed", "approximation": None} if job.stored else {}
        quiet = {"progress": False, "n_jobs": None, "probability": False}
        worker._end, known = self._end, worker.get_params(deep=False)
        return worker.set_params(**given, **{name: value for name, value in quiet.items() if name in known})

    def _plainly(self) -> MKLEstimator:
        """Return the estimator that is chosen for, with the parameters that both have."""
        known, names = self.get_params(deep=False), self._plain().get_params(deep=False)
        return clone(self._plain(**{name: known[name] for name in names if name in known}))

    def _to_refit(self) -> MKLEstimator:
        return self._plainly().set_params(**self.best_params_)


@dataclass
class _Job:
    """One fold: what is learned from, and what is predicted."""

    fold: Fold
    train: np.ndarray
    test: np.ndarray
    targets: Any
    y: Any
    judge: Judge
    loose: list[float]  # gaps of fits that missed tol, of all folds

    @property
    def stored(self) -> bool:
        """Whether the kernels of the fold are matrices."""
        return isinstance(self.fold, StoredFold)

    def part(self, places: np.ndarray) -> tuple[Any, Any]:
        """Return targets and weights of some samples."""
        rows = to_host(self.targets.rows)[places]
        return rows_of(self.y, rows), rows_of(self.targets.weight, places)


class Judge:
    """Scores of predictions, by the estimator's own score or by ``scoring``."""

    def __init__(self, estimator: Choosing):
        scoring = estimator.scoring
        if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
            raise ValueError(f"scoring must be one name or one callable, by which to choose; got {scoring!r}.")
        self.name, self.score = scoring, check_scoring(estimator._plain(), scoring)
        metric = getattr(self.score, "_score_func", None)
        self.weighted = scoring is None or (metric is not None and has_weight(metric))

    def __call__(self, model: MKLEstimator, X: Any, y: Any, weight: Any) -> float:
        even = bool(namespace(weight).all(weight == weight[0]))
        extra = {} if even or not self.weighted else {"sample_weight": weight}
        try:
            return float(self.score(model, X, y, **extra))
        except AttributeError as error:
            if "proba" not in str(error) or hasattr(model, "predict_proba") or not is_classifier(model):
                raise
            raise ValueError(
                f"scoring={self.name!r} asks for odds, which loss={model.loss!r} does not have while candidates are "
                "compared: use loss='logistic', or a scoring of classes or decision values."
            ) from error


def has_weight(metric: Any) -> bool:
    """Whether a metric takes weights of samples."""
    return "sample_weight" in signature(metric).parameters


@dataclass(frozen=True)
class Known:
    """A predictor whose decision values are known."""

    decisions: Array  # (t, n_outputs)
    like: Any
    shape: tuple[int, int]
    degree: ClassVar[int] = 1

    def decide(self, X: Any) -> Array:
        """Return them."""
        return self.decisions


def _on_kept(candidate: Candidate, assembly: Assembly) -> Candidate:
    """Return a candidate for folds, which hold the kernels that are not zero: its penalty loses entries too."""
    penalty = make_mixing(candidate.penalty)
    if assembly.kept.size == len(assembly.names) or not isinstance(penalty, MixingPenalty):
        return candidate
    return replace(candidate, penalty=assembly.cut(penalty))


def _tried(
    worker: MKLEstimator, candidate: Candidate, costs: np.ndarray, job: _Job, bar: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of a candidate on a fold at each cost, and the seconds of fits and of predictions."""
    begun, fold = time.perf_counter(), job.fold
    y, weight = job.part(job.train)
    prepared = worker._prepare_fold(fold, y, weight)
    if isinstance(prepared.penalty, Fixed):
        fold, prepared = _summed(fold, prepared)
    walks = [worker._along(prepared, subproblem, costs) for subproblem in prepared.subproblems]
    steps = list(zip(*walks, strict=True))
    job.loose.extend(solution.gap for walk in walks for solution in walk if not solution.converged)
    fitted = time.perf_counter()
    silent = _dearer(prepared) if candidate.cheapest else np.empty(0, dtype=int)
    scores = _scores(worker, prepared, fold, steps, costs, job, silent)
    seconds = np.array([fitted - begun, time.perf_counter() - fitted]) / costs.size
    bar.update()
    return scores, np.broadcast_to(seconds[:, None], (2, costs.size))


def _dearer(prepared: PreparedFit) -> np.ndarray:
    """Return the kernels of more than the least price, by position."""
    kept, penalty = prepared.assembly.kept, prepared.penalty
    assert isinstance(penalty, L1)
    prices = penalty.prices(kept.size)
    return kept[prices > prices.min()]


def _summed(fold: Fold, prepared: PreparedFit) -> tuple[Fold, PreparedFit]:
    """Return a fold of one kernel, the sum that fixed weights make, where that is possible."""
    assembly, penalty = prepared.assembly, prepared.penalty
    assert isinstance(penalty, Fixed)
    weights = np.zeros(len(assembly.names))
    weights[assembly.kept] = penalty.weights(np.ones(assembly.kept.size))
    one = fold.summed(weights * assembly.scales)
    if one is None:
        return fold, prepared
    alone = one.scaled(Options(normalize=None, psd="trust"), prepared.targets.weight)
    return one, replace(prepared, assembly=alone, penalty=Fixed([1.0]))


def _scores(
    worker: MKLEstimator,
    prepared: PreparedFit,
    fold: Fold,
    steps: Sequence[Sequence[Solution]],
    costs: np.ndarray,
    job: _Job,
    silent: np.ndarray,  # kernels that do not count
) -> np.ndarray:  # (costs,)
    """Return the scores of the answers at all costs, whose decision values are computed in one go."""
    y, weight = job.part(job.test)
    sizes = [outputs_of(solution) for solution in steps[0]]
    weights = np.concatenate([np.repeat(prepared.weights(step), sizes, axis=0) for step in steps])
    weights[:, silent] = 0.0
    xp = namespace(prepared.coefficients(steps[0]))
    coef = xp.concat([prepared.coefficients(step) for step in steps], axis=0)
    values, width, scores = fold.decide(prepared.assembly, prepared.targets, weights, coef), sum(sizes), []
    for j, (step, cost) in enumerate(zip(steps, costs, strict=True)):
        model = copy.copy(worker).set_params(C=float(cost))
        model._views, model._calibrated = None, None
        model.n_features_in_ = fold.samples.shape[1]
        model._keep(prepared, step)
        decisions = values[:, j * width : (j + 1) * width] + like(values, intercepts(step))
        shape = (prepared.targets.n_rows, fold.test.shape[2] if job.stored else 0)
        model._predictor = Known(decisions, fold.samples[:0], shape)
        scores.append(job.judge(model, fold.test, y, weight))
    return np.array(scores)


def table_of(race: Race, tried: Sequence[Candidate], costs: np.ndarray) -> dict[str, Any]:
    """Return the scores in scikit-learn's layout; settings that were dropped have no mean and the last rank."""
    scores = race.scores.reshape(-1, race.scores.shape[2])
    seconds = race.seconds.reshape(2, *scores.shape)
    names = [str(one) for one in tried]
    pairs = [(name, float(cost)) for name in names for cost in costs]
    means = scores.mean(axis=1)
    ranks = rankdata(-np.where(np.isnan(means), -np.inf, means), method="min").astype(np.int32)
    table: dict[str, Any] = {}
    for name, part in zip(("fit_time", "score_time"), seconds, strict=True):
        table[f"mean_{name}"], table[f"std_{name}"] = np.nanmean(part, axis=1), np.nanstd(part, axis=1)
    table["param_candidate"] = np.ma.array([name for name, _ in pairs], dtype=object)
    table["param_C"] = np.ma.array([cost for _, cost in pairs])
    table["params"] = [{"candidate": name, "C": cost} for name, cost in pairs]
    table |= {f"split{f}_test_score": column for f, column in enumerate(scores.T)}
    table |= {"mean_test_score": means, "std_test_score": scores.std(axis=1), "rank_test_score": ranks}
    return table


class _Silent:
    def update(self) -> None:
        """Do nothing."""


def _bar(progress: bool, total: int) -> Any:
    if not progress:
        return _Silent()
    from tqdm.auto import tqdm

    return tqdm(desc="candidates by folds", total=total)
