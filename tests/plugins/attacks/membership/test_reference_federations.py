"""LiRA, RMIA and DUCI through the attack: which records each takes, and what is said of none."""

import random

import numpy as np
import pytest

from fedaudit.api import AttackContext, Document, ReferenceModel, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy import dataset_usage, likelihood_ratio, rmia, roc
from fedaudit.metrics.privacy.reference_models import Observations

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
DOCUMENTS = [
    Document(id=f"d{n}", text=f"r{n:02} " + " ".join(random.Random(n).choices("abcdefgh", k=10)))
    for n in range(60)
]
MEMBERS, OTHERS = DOCUMENTS[:30], DOCUMENTS[30:]


def references(count, without=()):
    """Return models of which each had half of the documents, but none of `without`."""
    left = {one.text for one in without}
    return tuple(
        ReferenceModel(
            target=Target(name=f"reference {k}", adapter=f"r{k}"),
            texts=frozenset(
                one.text for n, one in enumerate(DOCUMENTS) if (n + k) % 2 and one.text not in left
            ),
        )
        for k in range(count)
    )


def case(models, gain=0.3, **changes):
    had = {one.target.name: one.texts for one in models}
    had["tuned"] = frozenset(one.text for one in MEMBERS)
    names = {name: {text.split()[0] for text in texts} for name, texts in had.items()}

    def likelihood(target, token, before):
        record = before.split()[0]
        hard = random.Random(f"{record}{token}{before}").gauss(-3, 1)
        noise = random.Random(f"{target.name}{record}{token}{before}").gauss(0, 0.1)
        return hard + noise + (gain if record in names.get(target.name, ()) else 0)

    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    given = {"engine": engine, "tuned": TUNED, "base": BASE, "attacker": MEMBERS, "victim": None}
    return AttackContext(**{**given, "held_out": OTHERS, "references": models, **changes})


def rows(asked, score="lira"):
    result = registry.create("attack", "membership", {}).run(asked)
    made = [row for row in result.measurements if row.scope.get("score") == score]
    return {
        (row.metric, row.scope["estimator"]): row
        for row in made
        if "estimator" in row.scope and "fpr" not in row.scope
    }


def test_both_ways_are_those_of_their_definition():
    models = references(6)
    asked = case(models)
    found = rows(asked)
    ids = [one.ids for one in asked.engine.tokenize([one.text for one in DOCUMENTS])]

    def confidences(target):
        return list(map(likelihood_ratio.confidence, asked.engine.score(target, ids)))

    matrix = np.array([confidences(one.target) for one in models]).T
    trained = np.array([[one.text in model.texts for model in models] for one in DOCUMENTS])
    observed = confidences(TUNED)
    for way, score in (
        ("online", likelihood_ratio.online_scores),
        ("offline", likelihood_ratio.offline_scores),
    ):
        values = score(observed, matrix, trained).tolist()
        row, wanted = found["auc", way], roc.auc(values[:30], values[30:])
        assert (row.value, row.low, row.high) == (wanted.value, wanted.low, wanted.high)
        assert row.value > 0.95
        assert (row.scope["members"], row.scope["others"]) == (30, 30)
        assert row.scope["references"] == 6
        assert ("balanced_accuracy", way) in found


def observations(asked):
    """Return what `case` makes the models say, as the metrics take it."""
    ids = [one.ids for one in asked.engine.tokenize([one.text for one in DOCUMENTS])]
    seen = [
        [rmia.probability(row) for row in asked.engine.score(target, ids)]
        for target in (TUNED, *(one.target for one in asked.references))
    ]
    return Observations.from_rows(
        seen[0],
        list(zip(*seen[1:], strict=True)),
        [[one.text in model.texts for model in asked.references] for one in DOCUMENTS],
        [one in OTHERS for one in DOCUMENTS],
    )


def test_rmia_and_the_share_used_are_those_of_their_definitions():
    asked = case(references(6))
    found, seen = rows(asked, "rmia"), observations(asked)
    ratios = {
        "online": rmia.online_ratios(seen.observed, seen.references, seen.trained),
        "offline": rmia.offline_ratios(
            seen.observed, seen.references, seen.trained,
            rmia.tuned_a(seen.references, seen.trained),
        ),
    }  # fmt: skip
    for way, values in ratios.items():
        # The share of the population ranks records as their ratios do.
        wanted = roc.auc(values[:30].tolist(), values[30:].tolist())
        assert found["auc", way].value == pytest.approx(wanted.value)
        assert found["auc", way].value > 0.95
    share, n = dataset_usage.estimate(seen)
    row = found["usage", "duci"]
    assert (row.value, row.low, row.high, row.n) == (share.value, share.low, share.high, n)
    assert row.low > 0.5
    assert row.high == 1


def test_a_single_reference_is_enough_for_rmia_but_not_for_an_estimate():
    found = rows(case(references(1)), "rmia")
    assert found["auc", "offline"].value > 0.5
    assert "at least 1 had and at least 1 had not" in found["auc", "online"].reason
    assert "needs 4 reference federations" in found["usage", "duci"].reason


def test_the_least_share_needs_no_references():
    bound = rows(case(()), "reference")["usage", "lower bound"]
    assert 0.5 < bound.value <= 1
    assert (bound.low, bound.high, bound.n) == (bound.value, 1.0, 30)
    assert rows(case((), gain=0.0), "reference")["usage", "lower bound"].value == 0
    without = rows(case((), base=None), "reference")["usage", "lower bound"]
    assert without.value is None
    assert "no base" in without.reason


def test_online_takes_records_that_were_in_some_models_alone():
    found = rows(case(references(6, without=OTHERS)))
    assert found["auc", "offline"].value > 0.9
    assert "at least 2 had and at least 2 had not" in found["auc", "online"].reason
    part = rows(case(references(6, without=OTHERS[:10])))["auc", "online"]
    assert (part.scope["members"], part.scope["others"]) == (30, 20)


def test_a_single_model_is_too_few_and_none_adds_nothing():
    found = rows(case(references(1)))
    assert "reference federations, at least 2 had not" in found["auc", "offline"].reason
    assert rows(case(())) == rows(case(()), "rmia") == {}


def test_without_a_leak_the_intervals_hold_one_half():
    found = rows(case(references(6), gain=0.0))
    for way in ("online", "offline"):
        assert found["auc", way].low <= 0.5 <= found["auc", way].high


@pytest.mark.parametrize("shifted", [False, True])
def test_sets_that_differ_in_their_texts_are_refused(shifted):
    later = [
        Document(id=f"l{n}", text=f"r{n + 30} " + " ".join(random.Random(n).choices("mnop", k=10)))
        for n in range(30)
    ]
    options = {"shifted": shifted}
    models = tuple(
        ReferenceModel(target=one.target, texts=one.texts | {d.text for d in later[::2]})
        for one in references(4)
    )
    result = registry.create("attack", "membership", options).run(case(models, held_out=later))
    found = [
        r for r in result.measurements
        if r.scope.get("estimator") in ("offline", "duci") and "fpr" not in r.scope
    ]  # fmt: skip
    assert {(r.metric, r.scope["score"]) for r in found} >= {
        ("auc", "lira"), ("auc", "rmia"), ("usage", "rmia")
    }  # fmt: skip
    assert {r.value is None for r in found} == {not shifted}
