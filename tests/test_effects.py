"""Effects: decision values taken apart, and banks of one kernel for each column and each pair of columns."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.problem import Point
from reference import optimum_of

X, LABELS = make_classification(90, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=3)
BINARY = np.where(LABELS == 0, 1, -1)
NUMBERS = X[:, 0] + np.sin(X[:, 1])
SURVIVAL = np.column_stack([LABELS > 0, np.exp(X[:, 0])])
BANK = [*K.rbf(gamma=0.5, on="each"), *K.linear(on=[0, 1]), K.RBF(gamma=0.1) + K.Linear(on=2), *K.rbf(gamma=2.0, on=0)]


def decided(model, Z):
    """Return what contributions and intercepts sum to."""
    if hasattr(model, "_pairwise_votes") and model._pairwise_votes:
        return model._decide(Z)
    return model.decision_function(Z) if hasattr(model, "decision_function") else model.predict(Z)


MODELS = {
    "stored": (kw.MKLClassifier(BANK), BINARY),
    "lp": (kw.MKLClassifier(BANK, penalty="lp"), BINARY),
    "alignment": (kw.MKLClassifier(BANK, penalty=kw.weightings.CentredAlignment("linear"), psd="clip"), BINARY),
    "on demand": (kw.MKLClassifier(BANK, memory=2e5), BINARY),
    "features": (kw.MKLClassifier(BANK, approximation=kw.Nystroem(20), random_state=0), BINARY),
    "random features": (kw.MKLClassifier(K.rbf(on="each"), approximation="random_features", random_state=0), BINARY),
    "one against the rest": (kw.MKLClassifier(BANK), LABELS),
    "one against one": (kw.MKLClassifier(BANK, multiclass="ovo"), LABELS),
    "joint": (kw.MKLClassifier(BANK, multiclass="joint"), LABELS),
    "softmax": (kw.MKLClassifier(BANK, multiclass="joint", loss="logistic", approximation="nystroem"), LABELS),
    "products": (kw.MKLClassifier(BANK, penalty="spectral"), BINARY),
    "products of three": (kw.MKLClassifier(BANK[:3], penalty=kw.penalties.SpectralNorm(degree=3)), LABELS),
    "products without unity": (kw.MKLClassifier(BANK, penalty=kw.penalties.SpectralNorm(linear_terms=False)), LABELS),
    "product features": (kw.MKLClassifier(BANK, penalty="spectral", approximation=kw.Nystroem(4)), LABELS),
    "no bias": (kw.MKLClassifier(BANK, penalty="spectral", fit_intercept=False), BINARY),
    "regression": (kw.MKLRegressor(BANK), NUMBERS),
    "targets": (kw.MKLRegressor(BANK, targets="joint"), np.column_stack([NUMBERS, X[:, 2]])),
    "survival": (kw.MKLSurvival(BANK), SURVIVAL),
    "outliers": (kw.MKLOutlierDetector(BANK, nu=0.2), None),
    "votes": (kw.BoostedMKLClassifier(BANK, cv=None), LABELS),
    "square": (kw.NonconvexMKLClassifier(BANK, model="nlmkl-p1"), BINARY),
    "gates": (kw.NonconvexMKLClassifier(BANK[:4], model="lmkl-softmax", max_iter=8, tol=0.5), BINARY),
    "one Gaussian": (kw.NonconvexMKLClassifier(K.rbf(on="each"), model="gmkl"), BINARY),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_decision_values(name):
    model, y = MODELS[name]
    model = pickle.loads(pickle.dumps(model.fit(X, y)))
    Z = np.vstack([X[:20], np.random.default_rng(0).normal(size=(10, 5))])
    values = decided(model, Z)
    for by in ("kernel", "columns", "group"):
        shares = model.contributions(Z, by=by)
        assert shares.shape == (30, len(model.parts(by)), *values.shape[1:])
        constant = model.intercept_ if values.ndim == 2 else model.intercept_[0]
        np.testing.assert_allclose(shares.sum(axis=1) + constant, values, rtol=0, atol=1e-10 * np.abs(values).max())
    assert len(set(model.parts("columns"))) == len(model.parts("columns"))
    assert sum(effect.variance for effect in model.effects_) > 0


def test_shares_of_kernels_are_their_own():
    model = kw.MKLClassifier(BANK, penalty="lp").fit(X, BINARY)
    stack = np.stack([kernel(X) for item in BANK for kernel in item.resolve(X)], axis=2) * model.kernel_scales_
    expected = np.einsum("ijk,j,k->ik", stack[:, model.support_], model.dual_coef_, model.weights_)
    np.testing.assert_allclose(model.contributions(X), expected, atol=1e-10)


def test_shares_of_groups_and_columns_add_up_kernels():
    model = kw.MKLClassifier(BANK, penalty="lp").fit(X, BINARY)
    model.kernel_groups_ = ["a", "a", "b", None, None, None, "b", "a"]
    single = model.contributions(X)
    by = model.contributions(X, by="group")
    assert model.parts("group") == ["a", "b", *model.kernel_names_[3:6]]
    np.testing.assert_allclose(by[:, 0], single[:, [0, 1, 7]].sum(axis=1), atol=1e-12)
    first = model.parts("columns").index("column 0")
    together = model.contributions(X, by="columns")[:, first]
    np.testing.assert_allclose(together, single[:, [0, 7]].sum(axis=1), atol=1e-12)


def test_products_belong_to_the_columns_of_both_kernels():
    bank = [*K.rbf(gamma=0.5, on=[0, 1]), *K.rbf(gamma=0.5, on=2)]
    model = kw.MKLClassifier(bank, penalty="spectral").fit(X, BINARY)
    assert model.parts("columns") == ["column 0 : column 1", "column 0 : column 1 : column 2", "column 2", "constant"]
    moved = X.copy()
    moved[:, 2] += 1.0
    change = np.abs(model.contributions(moved, by="columns") - model.contributions(X, by="columns")).max(axis=0)
    assert change[0] == 0.0 and change[3] < 1e-12 and change[1] > 1e-3 and change[2] > 1e-3


@pytest.mark.parametrize("by", ["column", None, 3])
def test_an_unknown_kind_of_parts_is_refused(by):
    model = kw.MKLClassifier(K.linear()).fit(X, BINARY)
    with pytest.raises(ValueError, match="by="):
        model.contributions(X, by=by)


def test_precomputed_stacks_have_shares_but_no_columns():
    stack = np.stack([X @ X.T, np.exp(-((X[:, :1] - X[:, 0]) ** 2))], axis=2)
    model = kw.MKLClassifier("precomputed", penalty="lp").fit(stack, BINARY)
    shares = model.contributions(stack[:7])
    np.testing.assert_allclose(shares.sum(axis=1) + model.intercept_, model.decision_function(stack[:7]), atol=1e-12)
    with pytest.raises(ValueError, match="by='columns' needs samples"):
        model.contributions(stack, by="columns")
    with pytest.raises(AttributeError, match="contributions"):
        _ = model.effects_


# -- kernels of effects -----------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
MIXED = np.column_stack([
    RNG.normal(size=(80, 2)), RNG.exponential(size=80) ** 3, RNG.integers(0, 4, 80), RNG.integers(0, 2, 80),
    RNG.poisson(20, 80),
])  # fmt: skip
WAYS = {
    "stored": {},
    "on demand": {"memory": 2e5},
    "listed features": {"approximation": "explicit", "solver": "interior"},
    "a bank never listed": {"approximation": "explicit"},
    "sizes of centred kernels": {"approximation": "explicit", "normalize": "center"},
}


def along(model, Z, columns, free):
    """Return the mean of a pair's part over the training values of one of its columns, the other held."""
    place = model._partition("columns").columns.index(columns)
    held = next(j for j in columns if j != free)
    means = []
    for value in np.unique(Z[:, held])[:5]:
        rows = Z.copy()
        rows[:, held] = value
        means.append(model.contributions(rows, by="columns")[:, place].mean())
    return np.abs(means).max()


@pytest.mark.parametrize("way", WAYS)
def test_effects_are_centred_and_the_same_however_they_are_held(way):
    y = np.sign(MIXED[:, 0] * MIXED[:, 1] + np.log(MIXED[:, 2] + 0.1) + MIXED[:, 4] - 0.5)
    model = kw.MKLClassifier(K.effects(price=1.5, categories=[3]), tol=1e-6, **WAYS[way]).fit(MIXED, y)
    plain = {"normalize": WAYS[way].get("normalize", "trace")}
    reference = kw.MKLClassifier(K.effects(price=1.5, categories=[3]), tol=1e-6, **plain).fit(MIXED, y)
    assert model.objective_ == pytest.approx(reference.objective_, rel=3e-6)
    np.testing.assert_allclose(model.kernel_scales_, reference.kernel_scales_, rtol=1e-9)
    assert list(model.kernel_names_) == list(reference.kernel_names_)
    shares, columns = model.contributions(MIXED, by="columns"), model._partition("columns").columns
    values = model.decision_function(MIXED)
    np.testing.assert_allclose(shares.sum(axis=1) + model.intercept_, values, atol=1e-10)
    singles = [k for k, part in enumerate(columns) if len(part) == 1]
    assert singles and np.abs(shares[:, singles].mean(axis=0)).max() < 1e-12
    pair = next(part for part in columns if len(part) == 2)
    assert along(model, MIXED, pair, pair[0]) < 1e-12 and along(model, MIXED, pair, pair[1]) < 1e-12


def test_columns_get_the_functions_that_suit_them():
    singles = K.Effects(categories=[3]).singles(MIXED)
    assert [effect.basis.kind for effect in singles] == ["smooth", "smooth", "smooth", "category", "linear", "smooth"]
    assert singles[3].basis.rank == 3 and singles[4].basis.rank == 1
    assert K.Effects().singles(MIXED)[3].basis.kind == "levels"
    unseen = singles[3].basis(np.array([-1.0, 1.5, 9.0]))
    assert np.all(unseen == 0.0)


def test_every_category_has_an_effect_of_its_own():
    town = np.repeat(np.arange(20.0), 6)
    worth = np.random.default_rng(2).normal(size=20)
    model = kw.MKLRegressor(K.effects(categories=[0]), C=1e3, approximation="explicit")
    curve = kw.effects(model.fit(np.column_stack([town, np.tile([0.0, 1.0, 5.5], 40)]), worth[town.astype(int)]), 0)
    assert np.corrcoef(curve.value, worth)[0, 1] > 0.999
    assert K.Effects(degree=1).singles(np.arange(10.0)[:, None])[0].basis.rank == 9


@pytest.mark.parametrize("move", [lambda Z: 1e300 * Z, lambda Z: 1e-300 * Z, lambda Z: Z + 1e9, lambda Z: 1e-12 * Z])
def test_no_unit_of_columns_matters(move):
    Z = move(np.column_stack([MIXED[:, 3:5], RNG.permutation(MIXED[:, 5])]))
    model = kw.MKLRegressor(K.effects(), penalty="lp", approximation="explicit").fit(Z, MIXED[:, 3] + MIXED[:, 4])
    columns = model._partition("columns").columns
    shares = model.contributions(Z, by="columns")[:, [len(part) == 1 for part in columns]]
    assert shares.shape[1] == 3 and np.abs(shares.mean(axis=0)).max() < 1e-12
    assert model.score(Z, MIXED[:, 3] + MIXED[:, 4]) > 0.9


def test_columns_alike_to_the_kernel_have_no_effect():
    with pytest.raises(ValueError, match="no column left"):
        K.effects(kernel=K.RBF(gamma=1e-30))[0].resolve(MIXED[:, :2])


def test_categories_of_a_frame_are_known():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(MIXED, columns=list("abcdef"))
    frame["d"] = frame["d"].astype("category")
    model = kw.MKLRegressor("effects", approximation="explicit").fit(frame, MIXED[:, 0] + (MIXED[:, 3] == 2))
    assert model._kinds[3] == "category" and "1 categories" in model.summary()
    assert {"a", "d"} <= set(model.parts("columns"))
    shape = kw.effects(model, "d")
    assert shape.discrete == [True] and shape.grid[0].tolist() == [0, 1, 2, 3] and int(np.argmax(shape.value)) == 2


def test_constant_columns_are_left_out_and_told():
    Z = np.column_stack([X[:, 0], np.ones(len(X)), X[:, 1]])
    with pytest.warns(UserWarning, match="no effect: column 1"):
        model = kw.MKLClassifier(K.effects(), approximation="explicit").fit(Z, BINARY)
    assert len(model.kernel_names_) == 3
    with pytest.raises(ValueError, match="every one of them is constant"):
        kw.MKLClassifier(K.effects(), approximation="explicit").fit(np.ones((len(X), 2)), BINARY)


def test_weights_of_samples_count_as_repetition():
    counts = np.random.default_rng(1).integers(1, 4, len(MIXED))
    weighted = K.Effects().resolve(MIXED, sample_weight=counts)
    repeated = K.Effects().resolve(np.repeat(MIXED, counts, axis=0))
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one(MIXED), other(MIXED), atol=1e-9)


def test_only_effects_that_are_included_are_considered():
    chosen = K.effects(include=[0, (0, 1), (1, 2, 4)])[0].resolve(X)
    assert [kernel.columns for kernel in chosen] == [(0,), (0, 1), (1, 2, 4)]
    assert len(K.effects(include=["each", (0, 1)])[0].resolve(X)) == 6
    assert [kernel._price for kernel in K.Effects(degree=3, price=2.0).resolve(X[:, :3])] == [1, 1, 1, 2, 2, 2, 4]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: K.effects(degree=0), "degree of Effects"),
        (lambda: K.effects(kernel="cubic"), "kernel of Effects"),
        (lambda: K.effects(price=-1.0), "price of Effects"),
        (lambda: kw.MKLClassifier("effects", normalize="diagonal").fit(X, BINARY), "undo the centring"),
        (lambda: kw.MKLClassifier("rbf", approximation="explicit").fit(X, BINARY), "few known functions"),
        (lambda: kw.MKLClassifier(K.effects(include=["a"])).fit(X, BINARY), "include of Effects asks .* no names"),
        (lambda: K.effects(categories=[9])[0].resolve(X), "categories of Effects asks for column 9"),
        (lambda: K.effects(include=[]), "include of Effects names no effect"),
        (lambda: K.effects(include=[(0, 4)], on=[0, 1])[0].resolve(X), "column 4, which on leaves out"),
        (lambda: kw.MKLOutlierDetector("effects").fit(X), "mean at zero"),
        (lambda: kw.MKLClassifier("effects", approximation="explicit", memory=1e3).fit(X, BINARY), "smaller rank"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- banks that are never listed --------------------------------------------------------------------------


def bank_and_list(n=70, d=12, seed=0):
    """Return a bank and the same kernels listed, with columns of different ranks."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, 1 + j % 3)) for j in range(d)]
    scale = rng.uniform(0.5, 2.0, d * (d + 1) // 2)
    bank = kw.grams.EffectsGram(parts, scale, pair_rank=2)
    features = [np.sqrt(s) * V for s, V in zip(scale, bank.features(np.arange(scale.size)), strict=True)]
    return bank, kw.LowRankGram(np.hstack(features), [V.shape[1] for V in features])


@pytest.mark.parametrize("single", [False, True])
def test_a_bank_does_what_its_list_does(single, monkeypatch):
    if single:
        monkeypatch.setattr("kernelweave.grams.effects.MANY", 10)
    monkeypatch.setattr("kernelweave.grams.effects.BLOCK", 200)
    bank, listed = bank_and_list()
    assert bank.sets[:3] == [(0,), (1,), (2,)] and bank.sets[12] == (0, 1) and bank.sets[-1] == (10, 11)
    rng = np.random.default_rng(1)
    for beta in (rng.normal(size=70), rng.normal(size=(70, 3)), np.eye(70)[4]):
        q, expected = bank.energies(beta), listed.energies(beta)
        np.testing.assert_allclose(q, expected, rtol=1e-4 if single else 1e-10)
        assert q.max() == pytest.approx(expected.max(), rel=1e-10)  # which the lower bound is about
        off, error = bank.energy_errors(beta, q, 1e-15), np.abs(q - expected)
        assert np.all(error <= off) and np.all(off <= 1e-4 * q.max())
        assert not single or error.max() > 1e-3 * off.max()
        weights = np.where(rng.random(q.size) < 0.2, rng.random(q.size), 0.0)
        np.testing.assert_allclose(bank.decision(beta, weights), listed.decision(beta, weights), atol=1e-9)
    np.testing.assert_allclose(bank.diagonal(), listed.diagonal(), atol=1e-10)
    some = np.array([3, 20, 50])
    np.testing.assert_allclose(bank.only(some).energies(beta), listed.energies(beta)[some], atol=1e-10)
    few = np.arange(9)
    q, expected = bank.take(few).energies(beta[few]), listed.take(few).energies(beta[few])
    np.testing.assert_allclose(q, expected, rtol=1e-4 if single else 1e-10)


CASES = {
    "hinge": (kw.losses.Hinge(), 0.0),
    "squared hinge": (kw.losses.SquaredHinge(), 0.0),
    "logistic": (kw.losses.Logistic(), 0.0),
    "no bias": (kw.losses.Hinge(), None),
    "squared": (kw.losses.Squared(), 0.0),
    "softmax": (kw.losses.Softmax(), 0.0),
    "survival": (kw.losses.Cox(), None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bank_has_the_optimum_of_its_list(case):
    loss, dual_sum = CASES[case]
    bank, listed = bank_and_list()
    rng = np.random.default_rng(2)
    score = bank.parts[1][:, 0] * bank.parts[4][:, 0] + bank.parts[0][:, 0]
    y = {"softmax": np.digitize(score, [-0.5, 0.5]).astype(float)}.get(case, np.sign(score))
    if case == "survival":
        y = np.column_stack([rng.random(70) < 0.7, np.exp(-score)])
    problem = kw.Problem(bank, loss.bind(score if case == "squared" else y, 0.5), kw.penalties.L1(), dual_sum)
    plain = kw.Problem(listed, problem.loss, problem.penalty, dual_sum)
    found, other = kw.solve(problem, tol=1e-9), kw.solve(plain, tol=1e-9)
    assert found.solver == ("active-newton" if "squared" in case else "active") and found.gap < 1e-8
    assert found.certificate.upper == pytest.approx(other.certificate.upper, rel=1e-8)
    outside = kw.certify(plain, Point(found.beta, found.weights))  # the bound is over all kernels
    assert outside.lower == pytest.approx(found.certificate.lower, rel=1e-8)


ON_WEIGHTS = {
    "cheap": (kw.losses.SquaredHinge(), 0.02, 0.0),
    "dear": (kw.losses.SquaredHinge(), 30.0, 0.0),
    "no bias": (kw.losses.SquaredHinge(), 5.0, None),
    "numbers": (kw.losses.Squared(), 0.5, 0.0),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("case", ON_WEIGHTS)
def test_newton_on_the_weights_has_the_optimum_of_a_cone_program(case, many, monkeypatch):
    if many:  # kernels in play are solved before all are scored
        settings = replace(kw.solvers.active_newton.SETTINGS, many=1, first=2, grow=2)
        monkeypatch.setattr("kernelweave.solvers.active_newton.SETTINGS", settings)
    loss, C, dual_sum = ON_WEIGHTS[case]
    bank, listed = bank_and_list(n=40, d=6)
    rng = np.random.default_rng(2)
    score = bank.parts[1][:, 0] * bank.parts[4][:, 0] + bank.parts[0][:, 0] + 0.3 * rng.normal(size=40)
    penalty = kw.penalties.L1(rng.uniform(0.5, 2.0, len(bank.sets)))
    problem = kw.Problem(bank, loss.bind(score if "regression" in loss.tasks else np.sign(score), C), penalty, dual_sum)
    found = kw.solve(problem, "active-newton", tol=1e-9)
    assert found.converged
    blocks = [listed.features[:, first : first + rank] for first, rank in listed.segments()]
    expected = optimum_of(problem, np.stack([V @ V.T for V in blocks], axis=2))
    assert found.certificate.upper == pytest.approx(expected.value, rel=10 * expected.accuracy + 1e-7)


def test_newton_on_the_weights_begins_where_it_is_told_to():
    bank, _ = bank_and_list()
    y = np.sign(bank.parts[1][:, 0] * bank.parts[4][:, 0] + bank.parts[0][:, 0])
    problem = kw.Problem(bank, kw.losses.SquaredHinge().bind(y, 2.0), kw.penalties.L1())
    first = kw.solve(problem, "active-newton", tol=1e-6)
    start = Point(first.beta, first.weights)
    again = kw.solve(problem, "active-newton", tol=1e-6, start=start)
    assert again.n_iter == 0 < first.n_iter  # it is an answer
    cold, warm = (kw.solve(problem, "active-newton", tol=1e-9, start=begin) for begin in (None, start))
    assert 0 < warm.n_iter < cold.n_iter


@pytest.mark.parametrize("loss", [kw.losses.Hinge(), kw.losses.Logistic(), kw.losses.Huber()])
def test_newton_on_the_weights_refuses_duals_without_a_ridge(loss):
    bank, _ = bank_and_list()
    problem = kw.Problem(bank, loss.bind(np.sign(bank.parts[0][:, 0]), 1.0), kw.penalties.L1())
    with pytest.raises(ValueError, match="active-newton"):
        kw.solve(problem, "active-newton")


def test_newton_on_the_weights_is_followed_by_rounds_where_it_ends_and_says_so(monkeypatch, caplog):
    settings = replace(kw.solvers.active_newton.SETTINGS, most=2)
    monkeypatch.setattr("kernelweave.solvers.active_newton.SETTINGS", settings)
    bank, _ = bank_and_list()
    y = np.sign(bank.parts[1][:, 0] * bank.parts[4][:, 0] + bank.parts[0][:, 0])
    problem = kw.Problem(bank, kw.losses.SquaredHinge().bind(y, 2.0), kw.penalties.L1())
    with caplog.at_level("INFO", logger="kernelweave"):
        assert kw.solve(problem, "active-newton", tol=1e-6).converged
    assert "rounds as those of active go on" in caplog.text


def test_newton_on_the_weights_factors_no_more_when_its_time_is_up(monkeypatch):
    bank, _ = bank_and_list()
    y = np.sign(bank.parts[1][:, 0] * bank.parts[4][:, 0] + bank.parts[0][:, 0])
    monkeypatch.setattr(kw.solvers.active_newton, "_factored", None)
    problem = kw.Problem(bank, kw.losses.SquaredHinge().bind(y, 2.0), kw.penalties.L1())
    found = kw.solve(problem, "active-newton", max_time=1e-9)
    assert found.status is kw.problem.Status.MAX_TIME and 0.0 < found.gap <= 1.0


def test_newton_on_the_weights_can_be_asked_for():
    kwargs = {"loss": "squared_hinge", "C": 0.5, "approximation": "explicit", "tol": 1e-6}
    model, other = (kw.MKLClassifier("effects", solver=name, **kwargs) for name in ("active-newton", "active"))
    model, other = model.fit(X, LABELS), other.fit(X, LABELS)
    assert model.solver_ == "active-newton" and other.solver_ == "active"
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-2)
    np.testing.assert_allclose(model.objective_, other.objective_, rtol=1e-5)


def test_matrices_of_a_bank_are_made_once():
    bank, listed = bank_and_list(n=8)
    held = kw.grams.effects.Matrices()
    beta = np.random.default_rng(0).normal(size=8)
    for kernels in ([3, 20, 50], [3, 7, 50, 0], [8]):
        stack = bank.only(np.array(kernels), held)
        assert isinstance(stack, kw.DenseGram) == (len(kernels) > 1)
        np.testing.assert_allclose(stack.energies(beta), listed.energies(beta)[kernels], atol=1e-10)
    assert held.held[:4].tolist() == [3, 7, 50, 0]
    np.testing.assert_allclose(bank.diagonal_of(np.array([5, 40])), listed.diagonal()[:, [5, 40]])
    assert bank.diagonal_of(np.empty(0, dtype=int)).shape == (8, 0)


def test_a_bank_takes_l1_only():
    bank, _ = bank_and_list()
    with pytest.raises(ValueError, match="use penalty='l1'"):
        kw.Problem(bank, kw.losses.Hinge().bind(np.ones(70)), kw.penalties.Lp(2))
    listed = kw.MKLClassifier("effects", penalty="lp", approximation="explicit").fit(X, BINARY)
    assert "low rank" in listed.storage_ and listed.weights_.all()


def test_planted_effects_are_found():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 30))
    truth = {
        (0,): 1.5 * np.sin(Z[:, 0]), (1,): 1.2 * np.abs(Z[:, 1]), (2,): 1.5 * np.tanh(Z[:, 2]),
        (3, 4): 1.5 * Z[:, 3] * np.tanh(Z[:, 4]), (5, 6): 1.5 * np.sin(Z[:, 5]) * np.sin(Z[:, 6]),
    }  # fmt: skip
    f = sum(part - part.mean() for part in truth.values())
    y = f + rng.logistic(size=1000) > 0
    model = kw.MKLClassifier(K.effects(price=2.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2).fit(Z, y)
    assert {effect.columns for effect in model.effects_[:5]} == set(truth)
    shares, columns = model.contributions(Z, by="columns"), model._partition("columns").columns
    inner = np.all(np.abs(Z[:, :7]) < 2.0, axis=1)
    for part, values in truth.items():
        assert np.corrcoef(shares[inner, columns.index(part)], values[inner])[0, 1] > 0.95, part
    noise = kw.MKLClassifier(K.effects(price=2.0), loss="logistic", C=0.1, approximation="explicit", tol=1e-2)
    table = noise.fit(Z, rng.permutation(y)).effects_
    assert sum(effect.share for effect in table) == pytest.approx(1.0)
    assert f"pairs {100 * table.share(2):.1f} %" in str(table) or not table.share(2)


# -- curves and pictures ----------------------------------------------------------------------------------


def test_curves_are_the_shares_along_a_grid():
    model = kw.MKLRegressor("effects", approximation="explicit").fit(X, NUMBERS)
    curve = kw.effects(model, 0, points=7)
    rows = np.tile(X[3], (7, 1))
    rows[:, 0] = curve.grid[0]
    place = model.parts("columns").index("column 0")
    np.testing.assert_allclose(curve.value, model.contributions(rows, by="columns")[:, place], atol=1e-12)
    assert np.corrcoef(curve.value, curve.grid[0])[0, 1] > 0.99
    with pytest.raises(ValueError, match="neither a part nor a column"):
        kw.effects(model, "height")
    with pytest.raises(ValueError, match="part asks for column 100"):
        kw.effects(model, 100)
    with pytest.raises(ValueError, match="points must be a whole number"):
        kw.effects(model, 0, points=0)
    whole = kw.MKLRegressor("rbf").fit(X, NUMBERS)
    with pytest.raises(ValueError, match="only one or two can be drawn"):
        kw.effects(whole, "all columns")
    with pytest.raises(TypeError, match="estimator of kernelweave"):
        kw.effects(3, 0)


def test_curves_are_drawn_along_the_samples_that_have_the_column():
    torn = X.copy()
    torn[:6, 0] = np.nan
    model = kw.MKLRegressor(K.effects(degree=1), missing="absent").fit(torn, NUMBERS)
    curve = kw.effects(model, 0)
    assert curve.data[0].size == 84 and np.isfinite(curve.grid[0]).all() and np.isfinite(curve.value).all()


def test_pictures_show_every_part_of_one_or_two_columns():
    pytest.importorskip("matplotlib")
    model = kw.MKLClassifier(K.effects(categories=[3]), approximation="explicit").fit(MIXED, LABELS[:80])
    figure = kw.plot.effects(model, top=4, output=1, figure=kw.plot.canvas().figure)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    place = int(np.argmax(model.contributions(MIXED, by="columns")[:, :, 1].var(axis=0)))
    assert len(titles) == 4 and titles[0].startswith(model.parts("columns")[place])
    axes = kw.plot.contributions(model, MIXED[0], top=3, output=2, ax=kw.plot.canvas())
    assert len(axes.patches) == 5
    assert axes.get_title(loc="left") == f"decision value {model.decision_function(MIXED[:1])[0, 2]:.3g}"
    with pytest.raises(ValueError, match="output must be from 0 to 2"):
        kw.plot.effects(model, output=3, figure=kw.plot.canvas().figure)


def test_effects_in_a_search():
    from sklearn.model_selection import GridSearchCV

    banks = [K.effects(price=1.0), K.effects(degree=1)]
    model = kw.MKLClassifier(approximation="explicit", tol=1e-2)
    search = GridSearchCV(model, {"kernels": banks, "C": [0.1, 1.0]}, cv=2).fit(X, BINARY)
    assert kw.effects(search, search.best_estimator_.effects_[0].columns).value.size > 0


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    host = kw.MKLClassifier("effects", approximation="explicit", tol=1e-5).fit(X, BINARY)
    model = kw.MKLClassifier("effects", approximation="explicit", tol=1e-5).fit(torch.as_tensor(X), BINARY)
    shares = model.contributions(torch.as_tensor(X), by="columns")
    assert isinstance(shares, torch.Tensor) and model.solver_ == "active"
    assert model.objective_ == pytest.approx(host.objective_, rel=2e-5)
    sums = shares.sum(dim=1) + float(model.intercept_[0])
    np.testing.assert_allclose(sums.numpy(), model.decision_function(torch.as_tensor(X)).numpy(), atol=1e-10)
    assert kw.effects(model, model.effects_[0].columns).value.size > 0
    assert len(kw.plot.contributions(model, torch.as_tensor(X[0]), ax=kw.plot.canvas()).patches) > 1


def test_sparse_samples_are_refused_and_choices_list_the_bank():
    from scipy.sparse import csr_array

    for way in WAYS.values():
        with pytest.raises(TypeError, match="does not take sparse data"):
            kw.MKLClassifier("effects", **way).fit(csr_array(X), BINARY)
    one = kw.MKLClassifier("effects", approximation="explicit").fit(X[:, :1], BINARY)
    assert list(one.kernel_names_) == ["smooth on column 0"]
    sized = kw.MKLClassifier("effects", approximation="explicit", normalize="dimension").fit(X, BINARY)
    assert "low rank" in sized.storage_
    chosen = kw.MKLClassifierCV(K.effects(degree=1), approximation="explicit", cv=2, Cs=[0.1, 1.0]).fit(X, BINARY)
    assert len(chosen.effects_) >= 1


def test_folds_keep_prices():
    from kernelweave.assemble import Options, fold_of, from_samples

    some = np.arange(60)
    for memory in ("auto", 1e5):
        made = from_samples(X, K.effects(price=5.0), Options(memory=memory), weight=np.ones(len(X)))
        sizes = fold_of(made, some, np.arange(60, 90)).scaled(Options(memory=memory), np.ones(60)).gram.diagonal()
        np.testing.assert_allclose(sizes.mean(axis=0), [1.0] * 5 + [0.2] * 10, rtol=1e-6)


def test_models_of_effects_go_through_files(tmp_path):
    model = kw.MKLClassifier(K.effects(categories=[3]), approximation="explicit").fit(MIXED, LABELS[:80])
    assert model.effects_
    kw.save(model, tmp_path / "model.kw")
    read = kw.load(tmp_path / "model.kw")
    np.testing.assert_array_equal(read.contributions(MIXED, by="columns"), model.contributions(MIXED, by="columns"))
    assert list(read.kernel_names_) == list(model.kernel_names_) and read.effects_ == model.effects_
