"""LiRA through the attack: which records each way takes, and what is said where there are none."""

import random

import numpy as np
import pytest

from fedaudit.api import AttackContext, Document, ReferenceModel, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy import likelihood_ratio, roc

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


def rows(asked):
    result = registry.create("attack", "membership", {}).run(asked)
    made = [row for row in result.measurements if row.scope.get("score") == "lira"]
    return {(row.metric, row.scope["estimator"]): row for row in made if "fpr" not in row.scope}


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


def test_online_takes_records_that_were_in_some_models_alone():
    found = rows(case(references(6, without=OTHERS)))
    assert found["auc", "offline"].value > 0.9
    assert "in 2 reference federations and out of 2" in found["auc", "online"].reason
    part = rows(case(references(6, without=OTHERS[:10])))["auc", "online"]
    assert (part.scope["members"], part.scope["others"]) == (30, 20)


def test_a_single_model_is_too_few_and_none_adds_nothing():
    found = rows(case(references(1)))
    assert "out of 2 reference federations" in found["auc", "offline"].reason
    assert rows(case(())) == {}


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
    [row] = [
        r for r in result.measurements
        if (r.metric, r.scope.get("estimator")) == ("auc", "offline")
    ]  # fmt: skip
    assert (row.value is None) == (not shifted)
