"""One basis for many kernels: against exact kernels, against the dense Gram of what it is, in every estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import kernelweave as kw
from kernelweave import grams, losses, penalties
from kernelweave import kernels as K
from kernelweave.grams import shared
from kernelweave.losses.rounded import RoundedLoss
from kernelweave.solvers import newton_cg
from reference import optimum_of
from registry import CASES, targets_for

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
BANK = [
    *(K.RBF(gamma=gamma) for gamma in (0.01, 0.1, 0.5)),
    K.Linear(on=[0, 1]),
    K.RBF(gamma=0.5, on=[0, 1]),
    K.Linear(),
]


def made(rank=200, normalize="trace", bank=BANK, **given):
    share = np.full(len(X), 1 / len(X))
    return kw.SharedBasis(rank=rank, **given).factorise(bank, X, share=share, normalize=normalize, random_state=0)


def dense(gram):
    m = gram.shape[1]
    return kw.DenseGram(np.stack([gram.combine(np.arange(gram.shape[0]), row) for row in np.eye(m)], axis=2))


def test_with_as_many_functions_as_samples_kernels_are_themselves():
    found = made(rank=len(X), normalize=None)
    assert found.lost.max() < 1e-6
    for k, kernel in enumerate(BANK):
        np.testing.assert_allclose(found.gram.combine(np.arange(len(X)), np.eye(6)[k]), kernel(X), atol=1e-5)


def test_products_are_those_of_the_dense_stack():
    gram = made(rank=20).gram
    stack, rng = dense(gram), np.random.default_rng(1)
    beta, weights, rows = rng.normal(size=len(X)), rng.random(6), np.arange(0, 120, 7)
    np.testing.assert_allclose(gram.energies(beta), stack.energies(beta))
    np.testing.assert_allclose(gram.decision(beta, weights), stack.decision(beta, weights))
    np.testing.assert_allclose(gram.products(beta), stack.products(beta), atol=1e-10)
    np.testing.assert_allclose(gram.diagonal(), stack.diagonal())
    np.testing.assert_allclose(gram.mean_diagonal(), stack.diagonal().mean(axis=0))
    np.testing.assert_allclose(gram.summed_diagonal(beta**2), beta**2 @ stack.diagonal())
    np.testing.assert_allclose(gram.diagonal_of(weights), stack.diagonal() @ weights)
    np.testing.assert_allclose(gram.take(rows).energies(beta[rows]), stack.take(rows).energies(beta[rows]))
    np.testing.assert_allclose(gram.only(np.array([4, 1])).energies(beta), gram.energies(beta)[[4, 1]])
    np.testing.assert_allclose(gram.only(np.array([3])).energies(beta), gram.energies(beta)[[3]])
    np.testing.assert_allclose(gram.rescaled(weights).energies(beta), weights * gram.energies(beta))
    columns = gram.weighted_columns(beta[rows], rows, rows, np.array([0, 5]))
    np.testing.assert_allclose(columns, stack.weighted_columns(beta[rows], rows, rows, np.array([0, 5])), atol=1e-10)
    np.testing.assert_allclose(gram.weighted(beta**2), made_features(gram).weighted(beta**2), atol=1e-9)


def made_features(gram):
    """The features that the basis stands for, written out."""
    V = np.stack([gram.basis.matvec(gram.fold(column)) for column in np.eye(int(gram.ranks.sum()))], axis=1)
    return grams.LowRankGram(V, gram.ranks)


@pytest.mark.parametrize("solver", ["interior", "newton", "newton-cg", "lagrangian", "ssnal"])
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)], ids=["l1", "l2"])
def test_solvers_agree_with_the_dense_twin(solver, penalty):
    gram = made(rank=20).gram
    loss = losses.Logistic() if solver in ("newton", "newton-cg") else losses.Hinge()
    bound = loss.bind(np.sign(Y), 2.0)
    found = kw.solve(kw.Problem(gram, bound, penalty), solver, tol=1e-6)
    exact = kw.solve(kw.Problem(dense(gram), bound, penalty), tol=1e-7)
    assert found.converged
    assert found.certificate.upper == pytest.approx(exact.certificate.upper, rel=2e-6)


def test_optimum_is_clarabel_s():
    gram = made(rank=15).gram
    for penalty in (penalties.L1(), penalties.Lp(4 / 3)):
        problem = kw.Problem(gram, losses.Hinge().bind(np.sign(Y), 3.0), penalty)
        twin = kw.Problem(dense(gram), problem.loss, penalty)
        assert kw.solve(problem, tol=1e-7).certificate.upper == pytest.approx(optimum_of(twin).value, rel=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_loss_is_certified_on_a_basis_and_on_exact_kernels_of_tensors(case):
    torch = pytest.importorskip("torch")
    gram, rng = made(rank=20, bank=BANK[:3]).gram, np.random.default_rng(2)
    bound = case.bind(rng, len(X), 2.0, Y)
    tensors = grams.TensorGram(BANK[:3], torch.from_numpy(X))
    for stack in (gram, tensors):
        problem = kw.Problem(stack, bound, penalties.Lp(2.0), case.dual_sums[0])
        assert kw.solve(problem, tol=1e-3).converged


@pytest.mark.parametrize(("loss", "sums"), [("hinge", None), ("logistic", 0.0)])
def test_rows_of_duals_on_tensors_have_the_optimum_of_numpy(loss, sums):
    torch = pytest.importorskip("torch")
    joint = {"hinge": losses.CrammerSinger(), "logistic": losses.Softmax()}[loss]
    few, bank = X[:40], BANK[:3]
    bound = joint.bind(targets_for(joint, np.random.default_rng(3), 40, Y[:40]), 1.0)
    stored, device = kw.DenseGram(np.stack([k(few) for k in bank], axis=2)), torch.from_numpy(few)
    exact = kw.solve(kw.Problem(stored, bound, penalties.Lp(2.0), sums), tol=1e-6)
    for stack in (grams.TensorGram(bank, device), grams.TensorGram(bank, device, stored=False, room=0.0)):
        found = kw.solve(kw.Problem(stack, bound, penalties.Lp(2.0), sums), tol=1e-5)
        assert found.converged
        assert found.certificate.upper == pytest.approx(exact.certificate.upper, rel=2e-5)


def test_a_tolerance_is_met_by_the_worst_kernel_and_less_takes_more_functions():
    loose, tight = (made(rank=None, tol=tol, bank=BANK[:3]) for tol in (0.1, 0.01))
    assert loose.gram.columns < tight.gram.columns
    assert tight.lost.max() < 0.02


def diagonal_lost(found, bank, Z):
    """How far the diagonals are from the kernels' own, as a share of the trace."""
    have = found.gram.on(found.maps.transform(Z)).diagonal()
    own = np.stack([kernel.diagonal(Z) for kernel in bank], axis=1)
    return np.abs(own - have).sum(axis=0) / own.sum(axis=0)


@pytest.mark.parametrize(("rank", "count"), [(1, 2), (30, 3), (30, 60), (120, 60)])
def test_errors_that_are_told_are_those_of_all_samples_and_near_the_best(rank, count, monkeypatch):
    rng = np.random.default_rng(4)
    rows, others = (rng.normal(size=(n, 4)) @ np.diag([1.0, 0.7, 0.4, 0.2]) for n in (2000, 1000))
    bank, share = [K.RBF(gamma=gamma) for gamma in np.logspace(-2, 0.5, count)], np.full(2000, 1 / 2000)
    basis = kw.SharedBasis(rank=rank)
    found = basis.factorise(bank, rows, share=share, normalize=None, random_state=0)
    np.testing.assert_allclose(found.lost, diagonal_lost(found, bank, rows), rtol=0.3, atol=2e-3)
    monkeypatch.setattr(shared, "FEWEST", 10**9)  # kernels are fitted at all samples that are looked at
    whole = diagonal_lost(basis.factorise(bank, rows, share=share, normalize=None, random_state=0), bank, others)
    assert np.all(diagonal_lost(found, bank, others) <= 1.2 * whole + 2e-3)


def test_a_large_bank_is_told_by_some_of_each_kind(monkeypatch):
    rng = np.random.default_rng(5)
    rows, others = rng.normal(size=(1500, 3)), rng.normal(size=(500, 3))
    bank = [K.RBF(gamma=gamma) for gamma in np.logspace(-3, 0, 60)]
    bank = [*bank[:20], K.Linear(), *bank[20:], K.Laplacian(gamma=0.3)]
    given = {"share": np.full(1500, 1 / 1500), "normalize": None, "random_state": 0}
    found = kw.SharedBasis(rank=40).factorise(bank, rows, **given)
    monkeypatch.setattr(shared, "ALIKE", 1000)
    every = kw.SharedBasis(rank=40).factorise(bank, rows, **given)
    lost, least = (diagonal_lost(one, bank, others) for one in (found, every))
    assert np.all(lost <= 1.2 * least + 2e-3)  # that of the two that are alone as well


@pytest.mark.parametrize(
    ("given", "word"),
    [({"rank": 0}, "rank"), ({"rank": None}, "rank"), ({"tol": 2.0}, "tol"), ({"landmarks": "no"}, "landmarks")],
)
def test_parameters_that_make_no_sense_are_refused_in_a_sentence(given, word):
    with pytest.raises(ValueError, match=word):
        made(**given)


def test_samples_that_are_nowhere_a_number_are_told():
    wild = X.copy()
    wild[3] = 1e200
    with pytest.raises(ValueError, match="NaN or infinity"):
        kw.MKLClassifier([K.Polynomial(degree=3)], approximation="shared").fit(wild, Y > 0)


ESTIMATORS = [
    (kw.MKLClassifier(BANK, approximation="shared", random_state=0), Y > 0),
    (kw.MKLClassifier(BANK, approximation=kw.SharedBasis(rank=30), random_state=0), np.digitize(Y, [-0.5, 0.5])),
    (kw.MKLClassifier(BANK, approximation="shared", multiclass="joint", random_state=0), np.digitize(Y, [-0.5, 0.5])),
    (kw.MKLRegressor(BANK, approximation="shared", random_state=0), Y),
    (kw.MKLRegressor(BANK, approximation="shared", loss="epsilon_insensitive", random_state=0), Y),
    (kw.MKLSurvival(BANK, approximation="shared", random_state=0), np.column_stack([Y > -0.5, np.exp(-Y)])),
    (kw.MKLOutlierDetector(BANK, approximation="shared", random_state=0), None),
]


@pytest.mark.parametrize(("model", "y"), ESTIMATORS, ids=range(len(ESTIMATORS)))
def test_every_estimator_takes_it(model, y, tmp_path):
    model = clone(model).fit(X, y) if y is not None else clone(model).fit(X)
    values = model.predict(X)
    assert model.dual_gap_ <= 1e-3
    assert model.approximation_error_.shape == (6,)
    whole = model.approximation == "shared"  # whose rank is enough here; a smaller one loses some of a kernel, not all
    assert model.approximation_error_.max() < (1e-3 if whole else 1.0)
    shares = model.contributions(X)
    parts = shares.reshape(len(X), shares.shape[1], -1).sum(axis=1).squeeze()
    score = getattr(model, "decision_function", model.predict)(X)
    constant = np.median((score - parts).reshape(len(X), -1), axis=0)
    np.testing.assert_allclose(score, parts + constant.squeeze(), atol=1e-8)
    pytest.importorskip("skops")
    kw.save(model, tmp_path / "model")
    assert np.array_equal(kw.load(tmp_path / "model").predict(X), values)


def test_a_part_without_a_kernel_of_any_size_is_left_out():
    flat = np.column_stack([X[:, :2], np.ones(len(X))])
    bank = [K.RBF(gamma=0.5, on=[0, 1]), K.Linear(on=2), K.Linear(on=[0, 1])]
    with pytest.warns(UserWarning, match="get weight 0"):
        model = kw.MKLClassifier(bank, approximation="shared", normalize="center", random_state=0).fit(flat, Y > 0)
    assert model.weights_[1] == 0.0
    assert model.score(flat, Y > 0) > 0.7


def test_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    for approximation in ("shared", None):
        here = kw.MKLClassifier(BANK, approximation=approximation, random_state=0, tol=1e-5).fit(X, Y > 0)
        there = clone(here).fit(torch.from_numpy(X), torch.from_numpy(Y > 0))
        assert there.objective_ == pytest.approx(here.objective_, rel=2e-5)
        values = there.decision_function(torch.from_numpy(X))
        assert isinstance(values, torch.Tensor)
        np.testing.assert_allclose(values.numpy(), here.decision_function(X), atol=0.05)
    assert "on cpu" in there.storage_
    assert there.contributions(torch.from_numpy(X), by="kernel").shape == (120, np.count_nonzero(there.weights_))


def test_kernels_not_known_to_be_definite_are_refused_on_tensors():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="psd='trust'"):
        kw.MKLClassifier([K.Sigmoid()]).fit(torch.from_numpy(X), torch.from_numpy(Y > 0))


def test_a_basis_that_does_not_fit_is_made_at_every_pass():
    held = kw.MKLClassifier(BANK, approximation="shared", random_state=0, tol=1e-4).fit(X, Y > 0)
    again = clone(held).set_params(memory=1000.0).fit(X, Y > 0)
    assert "recomputed" in again.storage_
    assert again.objective_ == pytest.approx(held.objective_, rel=2e-4)


@pytest.mark.parametrize("approximation", [kw.SharedBasis(rank=30), kw.Nystroem(rank=8)], ids=["shared", "nystroem"])
def test_joint_margins_of_many_samples_on_tensors(approximation):
    """Duals of many samples are off by little each; the model is judged by coefficients that are not."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.digitize(np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=2000), [-0.7, 0.0, 0.7])
    bank, given = K.rbf(gamma=[0.005, 0.02, 0.1]), {"penalty": "l1", "multiclass": "joint", "random_state": 0}
    model = kw.MKLClassifier(bank, C=30.0, approximation=approximation, **given)
    model.fit(torch.tensor(X), torch.tensor(y))
    assert model.solver_ == "lagrangian"
    assert model.dual_gap_ <= 1e-3
    assert model.n_iter_ <= 60


def test_steps_of_survival_by_a_matrix_are_those_of_conjugate_gradients():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(300, 70)) / np.arange(1, 71) ** 0.5
    y = np.stack([rng.random(300) < 0.7, rng.integers(1, 90, 300)], axis=1).astype(float)
    gram = grams.LowRankGram(V, [40, 30])
    problem = kw.Problem(gram, losses.Cox().bind(y, C=2.0), penalties.Lp(2), dual_sum=None)
    state = newton_cg.NewtonCG().init(problem, problem.feasible(rng.normal(size=300)), 1e-6)
    bend = 2.0 * state.penalty.curvature(state.q)
    system = newton_cg._System(problem, state, bend)
    direct, iterated = system._in_basis(gram), system._iterated(1e-10)
    np.testing.assert_allclose(direct[0], iterated[0], atol=1e-7)
    assert direct[1] == pytest.approx(system.inner(system.residual, iterated[1]), rel=1e-6)


def long_problem(C=1.0, n=10_400):
    """A problem of so many samples that most of them lie far from the corner of their loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    bank = [kernel for gamma in (0.01, 0.1, 1.0) for kernel in K.RBF(gamma=gamma).resolve(X)]
    given = {"share": np.full(n, 1 / n), "normalize": None, "random_state": 0}
    gram = kw.SharedBasis(rank=20).factorise(bank, X, **given).gram
    return kw.Problem(gram, losses.Hinge().bind(y, C), penalties.Lp(2.0))


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_corners_of_many_samples_are_rounded_and_have_the_optimum_of_the_interior_point(C):
    problem = long_problem(C)
    found, other = kw.solve(problem, tol=1e-4), kw.solve(problem, "interior", tol=1e-5)
    assert (found.solver, found.converged, other.converged) == ("lagrangian", True, True)
    assert found.certificate.upper == pytest.approx(other.certificate.upper, rel=1.2e-4)
    again = kw.certify(problem, kw.problem.Point(found.beta, found.weights))
    assert again.lower <= other.certificate.upper <= again.upper * (1 + 1e-12)


def test_a_loss_of_ones_own_on_many_samples_that_no_solver_on_a_basis_takes_is_refused():
    class Leaky(losses.Loss):
        def value(self, f, y, C):
            return C * np.maximum(1.0 - y * f, 0.3 * (1.0 - y * f))

        def slope(self, f, y, C):
            return -C * y * np.where(y * f < 1.0, 1.0, 0.3)

        def dual(self, beta, y, C):
            return y * beta

    problem = long_problem()
    with pytest.raises(ValueError, match="does not take the dual of Leaky"):
        kw.solve(kw.Problem(problem.gram, Leaky().bind(problem.loss.y), problem.penalty))


def test_a_step_from_the_samples_at_corners_is_that_from_all(monkeypatch):
    problem = long_problem()
    solver = kw.solvers.Lagrangian()
    state = solver.init(problem, None, 1e-3)
    for _ in range(4):
        solver.step(problem, state)
    system = newton_cg._System(state.round, state.inner, 2.0 * state.inner.penalty.curvature(state.inner.q))
    assert 0 < system._giving(problem.gram.basis).size < 0.5 * problem.n
    few = system._in_basis(problem.gram)
    monkeypatch.setattr(newton_cg._System, "_giving", lambda *_: None)
    whole = system._in_basis(problem.gram)
    np.testing.assert_allclose(few[0], whole[0], atol=1e-9)
    assert few[1] == pytest.approx(whole[1], rel=1e-9)
    assert few[1] == pytest.approx(system.inner(system.residual, system.smooth(few[0])), rel=1e-6)


def test_diagonals_asked_for_by_two_threads_are_each_ones_own(monkeypatch):
    gram, equal = made(rank=20).gram, np.array_equal
    one, other = np.random.default_rng(0).random((2, 6))

    def meanwhile(a, b):  # another thread comes between a look at the weights and reading what belongs to them
        monkeypatch.setattr(np, "array_equal", equal)
        gram.diagonal_of(other)
        return equal(a, b)

    wanted = gram.diagonal_of(one).copy()
    monkeypatch.setattr(np, "array_equal", meanwhile)
    np.testing.assert_allclose(gram.diagonal_of(one), wanted, rtol=1e-10)


def test_sums_of_diagonals_are_those_of_the_samples_that_count():
    gram, rng = made(rank=20).gram, np.random.default_rng(0)
    diagonal = gram.diagonal()
    for weights in (rng.random(6), rng.random(6)):
        for _ in range(2):
            np.testing.assert_allclose(gram.diagonal_of(weights), diagonal @ weights, rtol=1e-10)
    theta = np.where(rng.random(len(X)) < 0.2, 1.0, 0.0)
    np.testing.assert_allclose(gram.summed_diagonal(theta), theta @ diagonal, rtol=1e-10)


def test_parts_of_kernels_by_their_cores_are_those_by_the_roots(monkeypatch):
    gram, rng = made(rank=20).gram, np.random.default_rng(0)
    z, other, w = rng.normal(size=gram.columns), rng.normal(size=gram.columns), rng.random(6)
    one, two = newton_cg.Tabled.of(gram, z), newton_cg.Tabled.of(gram, other)
    known, too = (newton_cg.Folded(gram, gram.unfold(part)) for part in (z, other))
    np.testing.assert_allclose(one.outputs(), known.outputs(), atol=1e-10)
    np.testing.assert_allclose(one.moved(two, 0.3).energies(), known.moved(too, 0.3).energies(), rtol=1e-9)
    np.testing.assert_allclose(one.times(2.0).mixed(w), known.times(2.0).mixed(w), atol=1e-9)
    np.testing.assert_allclose(one.inner(two), known.inner(too), atol=1e-9)
    problem = long_problem()
    assert problem.gram.tabled
    found = kw.solve(problem, "lagrangian", tol=1e-6)
    monkeypatch.setattr(grams.basis, "TABLED", 0)
    other = kw.solve(long_problem(), "lagrangian", tol=1e-6)
    assert found.converged and found.certificate.upper == pytest.approx(other.certificate.upper, rel=2e-6)


def test_what_a_step_aims_at_is_known_from_the_look_at_the_last():
    problem, solver = long_problem(), kw.solvers.Lagrangian()
    state, hits = solver.init(problem, None, 1e-3), 0
    for _ in range(8):
        solver.step(problem, state)
        system = newton_cg._System(state.round, state.inner, None)
        wanted = problem.gram.basis.rmatvec(system.residual)
        np.testing.assert_allclose(system._aim(problem.gram), wanted, atol=1e-9 * np.abs(state.inner.image.z).max())
        hits += np.array_equal(state.inner.known[0], system.duals)
    assert hits


def test_what_kernels_make_of_a_step_is_known_with_it():
    problem = long_problem()
    solver = kw.solvers.Lagrangian()
    state = solver.init(problem, None, 1e-3)
    for _ in range(4):
        solver.step(problem, state)
    inner = state.inner
    system = newton_cg._System(state.round, inner, 2.0 * inner.penalty.curvature(inner.q))
    x, _ = system.solve(inner.close)
    known, anew = system.image_of(x).unfolded(), newton_cg.image_of(problem, x).unfolded()
    assert system._folded is not None
    np.testing.assert_allclose(known, anew, atol=1e-9 * np.abs(inner.image.unfolded()).max())


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Huber(), losses.EpsilonInsensitive(0.3)], ids=str)
def test_a_rounded_loss_has_the_duals_of_its_definition(loss):
    rng = np.random.default_rng(0)
    bound = loss.bind(rng.choice([-1.0, 1.0], size=30), C=rng.uniform(0.5, 2.0, size=30))
    near, rate, f = bound.project(rng.normal(size=30)), rng.uniform(0.2, 3.0, size=30), rng.normal(size=30)
    rounded = RoundedLoss(bound, near, rate)
    grid = np.linspace(np.maximum(bound.box.lower, -9.0), np.minimum(bound.box.upper, 9.0), 20_001)
    values = np.stack([bound.dual(beta) - beta * f - (beta - near) ** 2 / (2.0 * rate) for beta in grid])
    np.testing.assert_allclose(rounded.duals(f), np.take_along_axis(grid, values.argmax(axis=0)[None], 0)[0], atol=1e-3)
    np.testing.assert_allclose(rounded.value(f), values.max(axis=0), atol=1e-6)
    step = 1e-6
    slopes = (rounded.slope(f + step) - rounded.slope(f - step)) / (2.0 * step)
    np.testing.assert_allclose(rounded.curvature(f), slopes, atol=1e-6)
    bias = rounded.best_bias(f)
    assert abs(rounded.slope(f + bias).sum()) <= 1e-9
