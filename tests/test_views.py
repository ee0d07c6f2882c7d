"""Views by name: groups of kernels, samples in several tables, and what is reported of each view."""

from __future__ import annotations

import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.penalties import Group
from kernelweave.tables import group_shares

N = 40


@pytest.fixture(scope="module")
def tables():
    """Two tables with an index, the second in another order."""
    rng = np.random.default_rng(0)
    y, index = np.arange(N) % 2, [f"patient {i}" for i in range(N)]
    rna = pd.DataFrame(rng.normal(size=(N, 4)) + y[:, None], index, [f"g{j}" for j in range(4)])
    scan = pd.DataFrame(rng.normal(size=(N, 3)), index, [f"s{j}" for j in range(3)])
    return {"rna": rna, "scan": scan.iloc[rng.permutation(N)]}, y


@pytest.fixture(scope="module")
def joined(tables):
    """The same as one array, in the order of the first table."""
    X, _ = tables
    return np.hstack([X["rna"].to_numpy(), X["scan"].loc[X["rna"].index].to_numpy()])


def annotated(table, **more):
    """Return what an AnnData shows of a table."""
    facts = {"X": table.to_numpy(), "obs_names": table.index, "var_names": table.columns, "obsm": {}, "layers": {}}
    return SimpleNamespace(**(facts | {"var": pd.DataFrame(index=table.columns)} | more))


BANK = K.views(widths=[0.5, 2.0])


def kinds_of_samples(tables):
    """Yield the same samples in every form that is taken, by name."""
    X, _ = tables
    rna, scan = X["rna"], X["scan"].loc[X["rna"].index]
    yield "dictionary", X
    yield "dictionary in the other order", {"scan": scan, "rna": rna}
    yield "arrays", {"rna": rna.to_numpy(), "scan": scan.to_numpy()}
    yield "one sparse", {"rna": rna.to_numpy(), "scan": csr_matrix(scan.to_numpy())}
    yield "two levels of columns", pd.concat({"rna": rna, "scan": scan}, axis=1)
    yield "MuData", SimpleNamespace(mod={name: annotated(table) for name, table in X.items()}, obs_names=rna.index)
    both = pd.concat([rna, scan], axis=1)
    yield "AnnData", kw.Views(annotated(both, var=pd.DataFrame({"kind": ["rna"] * 4 + ["scan"] * 3})), var="kind")
    yield "obsm", kw.Views({"rna": annotated(rna), "scan": scan})


def test_all_forms_of_samples_give_the_same_model(tables, joined):
    _, y = tables
    places = {"rna": range(4), "scan": range(4, 7)}
    expected = kw.MKLClassifier(K.views(places, widths=[0.5, 2.0]), tol=1e-6).fit(joined, y)
    weights = dict(zip(expected.kernel_names_, expected.weights_, strict=True))
    for name, X in kinds_of_samples(tables):
        clf = kw.MKLClassifier(BANK, tol=1e-6).fit(X, y)
        found = dict(zip(clf.kernel_names_, clf.weights_, strict=True))
        assert found == pytest.approx(weights, abs=1e-3), name
        np.testing.assert_allclose(
            clf.decision_function(X), expected.decision_function(joined), atol=1e-3, err_msg=name
        )


def test_a_list_of_blocks_has_views_by_number(tables, joined):
    _, y = tables
    clf = kw.MKLClassifier(BANK).fit([joined[:, :4], joined[:, 4:]], y)
    assert set(clf.kernel_groups_) == {"view 0", "view 1"}
    assert clf.predict([joined[:5, :4], joined[:5, 4:]]).shape == (5,)


def test_samples_as_lists_of_numbers_are_still_samples(joined, tables):
    clf = kw.MKLClassifier(K.linear()).fit(joined.tolist(), tables[1])
    assert clf.n_features_in_ == 7 and clf.kernel_groups_ == [None]


def test_the_default_bank_is_on_every_view(tables):
    X, y = tables
    clf = kw.MKLClassifier().fit(X, y)
    assert len(clf.kernel_names_) == 2 * len(K.default_bank())
    assert set(clf.kernel_groups_) == {"rna", "scan"}
    assert set(kw.MKLOutlierDetector().fit(X).kernel_groups_) == {"rna", "scan"}


def test_kernels_by_view(tables):
    X, y = tables
    bank = {"rna": K.rbf(gamma=[0.1, 1.0]), "both": K.linear(on=["rna", "scan"]), "one": K.linear(on="scan:s1")}
    clf = kw.MKLClassifier(bank).fit(X, y)
    assert clf.kernel_groups_ == ["rna", "rna", "both", "one"]
    assert clf.kernel_names_ == [
        "rbf(gamma=0.1) on rna",
        "rbf(gamma=1) on rna",
        "linear on 7 columns",
        "linear on scan:s1",
    ]


def test_pathways_as_a_dictionary_may_overlap(joined, tables):
    frame = pd.DataFrame(joined, columns=list("abcdefg"))
    pathways = {"glycolysis": ["a", "b", "c"], "respiration": ["c", "d"], "rest": slice("e", "g")}
    clf = kw.MKLClassifier(K.rbf(on=pathways) + K.linear()).fit(frame, tables[1])
    assert clf.kernel_groups_ == ["glycolysis", "respiration", "rest", None]
    assert clf.kernel_names_[1].endswith("on respiration")
    single = K.RBF(on=["c", "d"]).resolve(joined, list("abcdefg"))[0]
    together = K.RBF(on=pathways).resolve(joined, list("abcdefg"))[1]
    np.testing.assert_array_equal(single(joined), together(joined))


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(gamma=0.5, group="rna"),
        2.0 * K.RBF(gamma=0.5, group="rna"),
        K.RBF(gamma=0.5, group="rna").normalised(),
        K.RBF(gamma=0.5, group="rna") + K.Linear(group="rna"),
        K.RBF(gamma=0.5, group="rna") * K.Linear(group="rna", on=[0, 1]),
        K.RBF(gamma=0.5).in_group("rna").in_group("scan"),
        (K.RBF(gamma=0.5) + K.Linear()).on_columns({"rna": [0, 1, 2]}),
        (3.0 * K.RBF(gamma=0.5)).on_columns({"rna": [0, 1, 2]}),
    ],
    ids=repr,
)
def test_groups_survive_algebra_resolving_and_copies(kernel, joined):
    for one in (kernel, clone(kernel, safe=False), pickle.loads(pickle.dumps(kernel))):
        [resolved] = one.resolve(joined)
        assert resolved.group == "rna"
        assert resolved.group == pickle.loads(pickle.dumps(resolved)).group


def test_kernels_of_two_groups_are_in_none():
    mixed = K.RBF(group="rna") * K.RBF(group="scan")
    assert mixed.group is None
    assert (mixed * K.Linear(group="rna")).name == "rbf(gamma=scale) * rbf(gamma=scale) * linear"
    assert K.Linear(group="rna") != K.Linear()


def test_precomputed_kernels_have_names_and_groups(joined, tables):
    y = tables[1]
    stack = np.stack([joined[:, j : j + 2] @ joined[:, j : j + 2].T for j in range(3)], axis=2)
    bank = K.precomputed(["first", "second", "third"], groups=["rna", "rna", "scan"])
    clf = kw.MKLClassifier(bank, penalty=Group(between=1.5)).fit(stack, y)
    assert clf.kernel_names_ == ["first", "second", "third"] and clf.kernel_groups_ == ["rna", "rna", "scan"]
    plain = kw.MKLClassifier("precomputed", penalty=Group(["a", "a", "b"], between=1.5)).fit(stack, y)
    np.testing.assert_allclose(clf.weights_, plain.weights_)
    search = GridSearchCV(kw.MKLClassifier(bank), {"C": [1, 10]}, cv=2).fit(stack, y)
    assert search.best_estimator_.kernel_names_ == ["first", "second", "third"]
    with pytest.raises(ValueError, match="groups has 1 entries for a stack of 3 kernels"):
        kw.MKLClassifier(K.precomputed(groups=["rna"])).fit(stack, y)


def test_group_penalty_takes_the_groups_of_the_kernels(tables):
    X, y = tables
    bank = BANK + K.linear(on=["rna:g0", "scan:s0"])
    clf = kw.MKLClassifier(bank, penalty=Group(between=1.3), tol=1e-6).fit(X, y)
    labels = [group or "own" for group in clf.kernel_groups_]
    named = kw.MKLClassifier(bank, penalty=Group(labels, between=1.3), tol=1e-6).fit(X, y)
    np.testing.assert_allclose(clf.weights_, named.weights_, rtol=1e-6)
    rna = clf.weights_[[group == "rna" for group in clf.kernel_groups_]]
    assert np.ptp(rna) < 1e-12 and rna[0] > clf.weights_[labels.index("scan")]
    assert clf.penalty.groups is None
    assert kw.MKLClassifier(bank, penalty="group").fit(X, y).dual_gap_ <= 1e-3
    with pytest.raises(ValueError, match="no kernel is in one"):
        kw.MKLClassifier(K.linear() + K.rbf(), penalty="group").fit(X["rna"], y)


def test_views_go_through_cross_validation(tables):
    X, y = tables
    views = kw.Views(X)
    assert len(cross_val_score(kw.MKLClassifier(BANK), views, y, cv=3)) == 3
    search = GridSearchCV(kw.MKLClassifier(BANK), {"C": [0.1, 10.0]}, cv=3).fit(views, y)
    np.testing.assert_array_equal(search.predict(X), search.predict(views))
    np.testing.assert_array_equal(views[[3, 1]].joined(), np.asarray(views)[[3, 1]])
    assert views[5:8].index == views.index[5:8] and "rna 4, scan 3" in repr(views)


def test_every_estimator_takes_views(tables):
    X, y = tables
    event = np.column_stack([np.ones(N), 1.0 + np.arange(N)])
    fitted = [
        kw.MKLClassifier(BANK, probability=True).fit(X, y),
        kw.MKLClassifier(BANK, approximation=kw.Nystroem(rank=5), random_state=0).fit(X, y),
        kw.MKLClassifier(BANK, penalty="spectral").fit(X, y),
        kw.MKLRegressor(BANK).fit(X, y.astype(float)),
        kw.MKLOutlierDetector(BANK).fit(X),
        kw.MKLSurvival(BANK).fit(X, event),
        kw.BoostedMKLClassifier(BANK).fit(X, y),
        kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["l1"], cv=2).fit(X, y),
        kw.NonconvexMKLClassifier(BANK).fit(X, y),
        kw.recipe("ufo-mkl", BANK, approximation=kw.Nystroem(rank=5), random_state=0).partial_fit(X, y, classes=[0, 1]),
    ]
    for model in fitted:
        assert {"rna", "scan"} <= set(model.kernel_groups_) and len(model.kernel_groups_) == len(model.kernel_names_)
        assert model.predict(X).shape == (N,)
        assert "group" in model.summary() and "rna" in model.summary()
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_path_and_plots_know_groups(tables):
    X, y = tables
    clf = kw.MKLClassifier(BANK).fit(X, y)
    assert kw.path(clf, X, y, C=[0.1, 1.0]).kernel_groups == clf.kernel_groups_
    bars = kw.plot.weights(clf, ax=kw.plot.canvas())
    assert {text.get_text() for text in bars.get_legend().get_texts()} <= {"rna", "scan"}
    grouped = kw.plot.weights(clf, ax=kw.plot.canvas(), by="group")
    widths = sorted(patch.get_width() for patch in grouped.patches)
    shares = group_shares(clf.kernel_groups_, clf.weights_)
    np.testing.assert_allclose(widths, sorted(share * clf.weights_.sum() for share in shares.values() if share))
    plain = kw.plot.weights(kw.MKLClassifier().fit(X["rna"], y), ax=kw.plot.canvas())
    assert plain.get_legend() is None


def test_group_shares_add_up_to_one(rng):
    weights = rng.normal(size=(3, 5))
    shares = group_shares(["a", None, "a", "b", None], weights)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_an_anndata_brings_layers_and_obsm(tables):
    X, y = tables
    rna = X["rna"]
    data = annotated(rna, layers={"raw": rna.to_numpy() ** 2}, obsm={"pca": rna.to_numpy()[:, :2]})
    assert kw.Views(data).names == ["X"]
    views = kw.Views(data, layers="raw", obsm=["pca"])
    assert views.columns == {"X": (0, 1, 2, 3), "raw": (4, 5, 6, 7), "pca": (8, 9)}
    assert kw.MKLClassifier(BANK).fit(views, y).predict(views).shape == (N,)
    with pytest.raises(ValueError, match=r"'umap' is not in X\.obsm, which has pca"):
        kw.Views(data, obsm="umap")
    with pytest.raises(ValueError, match=r"not a column of X\.var"):
        kw.Views(data, var="kind")
    with pytest.raises(ValueError, match="are for an AnnData"):
        kw.Views(X, obsm="pca")


def test_polars_tables(tables, joined):
    pl = pytest.importorskip("polars")
    X, y = tables
    frames = {name: pl.DataFrame({c: t[c].to_numpy() for c in t.columns}) for name, t in X.items()}
    frames["scan"] = pl.DataFrame(X["scan"].loc[X["rna"].index].to_numpy(), schema=list(X["scan"].columns))
    clf = kw.MKLClassifier(BANK + K.linear(on="scan:s1")).fit(frames, y)
    np.testing.assert_array_equal(clf.predict(frames), clf.predict(X))
    alone = kw.MKLClassifier(K.linear(on=["g1", "g2"])).fit(frames["rna"], y)
    assert alone.kernel_names_ == ["linear on g1 and g2"]
    digits = pl.Series("sex", [str(k % 2) for k in range(len(y))])
    for column in (digits, digits.cast(pl.Categorical)):
        with pytest.raises(ValueError, match="not numbers: sex"):
            kw.MKLClassifier(K.linear()).fit(frames["rna"].with_columns(column), y)
    flags = frames["rna"].with_columns(digits == "1")
    assert len(kw.MKLClassifier(K.linear()).fit(flags, y).predict(flags)) == len(y)


def refusals(tables):
    """Yield samples, kernels and what must be said of them."""
    X, _ = tables
    rna, scan = X["rna"], X["scan"]
    yield {"rna": rna, "scan": scan.iloc[3:]}, BANK, "'scan' of X lacks 3 of the samples that 'rna' has, such as 'pati"
    yield {"rna": rna.iloc[3:], "scan": scan}, BANK, "'rna' of X lacks 3 of the samples that 'scan' has"
    yield {"rna": rna.to_numpy(), "scan": scan.to_numpy()[3:]}, BANK, "different numbers of samples: rna 40, scan 37"
    yield {"rna": rna, "scan": scan.set_axis(["a"] * N)}, BANK, "'scan' of X names samples twice"
    yield {"rna": rna.assign(g0="x"), "scan": scan}, BANK, "'rna' of X has columns that are not numbers: g0"
    yield {"rna": rna, "scan": np.full((N, 2), "x")}, BANK, "'scan' of X holds something that is not a number"
    yield {"rna": rna, "scan": np.ones(N)}, BANK, "'scan' of X must have two dimensions"
    yield {}, BANK, "X holds no view"
    yield rna, BANK, "needs an X with views"
    yield X, K.linear(on="cnv"), "asks for column 'cnv'"
    yield rna, K.linear(on={}), "empty dictionary"
    yield rna, K.linear(on={"a": "each"}), "not 'each'"
    yield X, {}, "empty dictionary"


def test_refusals(tables):
    for X, bank, message in refusals(tables):
        with pytest.raises(ValueError, match=message):
            kw.MKLClassifier(bank).fit(X, tables[1])


def test_new_samples_must_have_the_views_of_the_old(tables):
    X, y = tables
    clf = kw.MKLClassifier(BANK).fit(X, y)
    np.testing.assert_array_equal(clf.predict({"scan": X["scan"], "rna": X["rna"].loc[X["scan"].index]}).shape, (N,))
    for other, message in [
        ({"rna": X["rna"]}, "X has the views rna, the model was fitted on rna, scan"),
        ({"rna": X["rna"], "scan": X["scan"].iloc[:, 1:]}, "'scan' of X has 2 columns, the model was fitted on 3"),
        ({"rna": X["rna"].iloc[:, ::-1], "scan": X["scan"]}, "other columns, or another order"),
    ]:
        with pytest.raises(ValueError, match=message):
            clf.predict(other)


@pytest.mark.parametrize("bad", [K.rbf, K.precomputed])
def test_words_in_the_place_of_names_are_refused(bad):
    with pytest.raises(TypeError, match=r"a name|list of names"):
        bad(group=3) if bad is K.rbf else bad("rna")
    with pytest.raises(TypeError, match="must be a dictionary"):
        K.views(["a", "b"])


def test_targets_in_another_order_are_refused(tables):
    X, y = tables
    named = pd.Series(y, X["rna"].index)
    clf = kw.MKLClassifier(BANK).fit(X, named)
    cross_val_score(clf, kw.Views(X), named, cv=2)
    kw.MKLClassifier(BANK).fit(X, pd.Series(y, [f"row {i}" for i in range(N)]))  # names of other things
    for samples in (X, kw.Views(X)):
        with pytest.raises(ValueError, match=r"the index of y is not that of the views of X: use y.loc\[kw.Views\(X\)"):
            kw.MKLClassifier(BANK).fit(samples, named[::-1])
    with pytest.raises(ValueError, match="the index of sample_weight is not that of the views"):
        kw.MKLClassifier(BANK).fit(X, y, named[::-1] + 1.0)
    with pytest.raises(ValueError, match="use one of the same samples, or an array"):
        kw.MKLClassifier(BANK).fit(X, named.rename(index={named.index[0]: "somebody"}))
    for look in (kw.stability, kw.report, partial(kw.path, C=[1.0])):
        with pytest.raises(ValueError, match="the index of y is not that of the views"):
            look(clf, X, named[::-1])
    again = kw.MKLClassifier(BANK).fit(X, named[::-1].loc[kw.Views(X).index])
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


def test_a_mudata_has_an_order_of_its_own(tables):
    X, _ = tables
    rng = np.random.default_rng(1)
    order = X["rna"].index[rng.permutation(N)]
    mudata = SimpleNamespace(mod={name: annotated(table) for name, table in X.items()}, obs_names=order)
    views = kw.Views(mudata)
    assert views.index == list(order)
    np.testing.assert_array_equal(views["scan"], X["scan"].loc[order])
    less = {"rna": annotated(X["rna"].iloc[3:]), "scan": annotated(X["scan"])}
    filled = kw.Views(SimpleNamespace(mod=less, obs_names=order), missing="absent")
    assert filled.index == list(order) and np.isnan(filled["rna"]).all(axis=1).sum() == 3
    with pytest.raises(ValueError, match="view 'rna' of X lacks 3 of the samples that 'obs_names' has"):
        kw.Views(SimpleNamespace(mod=less, obs_names=order))
