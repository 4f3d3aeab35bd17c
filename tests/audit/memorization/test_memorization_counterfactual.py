"""What prefixes draw because a client took part, with models that are told what they know."""

import pytest
from memorized import MODELS, corpus, found, text

from fedaudit.api.records import Target
from fedaudit.audit.memorization.findings import examples, findings
from fedaudit.audit.memorization.rows import counterfactual_rows, suffixes_without
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.intervals import difference, wilson

A, B = corpus("a"), corpus("b")
AB = {"a": A, "b": B}
WITHOUT = Target(name="without b", adapter="w")


def engine(without):
    """The tuned model knows all texts, the model without b those given, the base none."""
    known = {"tuned": [*A, *B], "without b": without}

    def answer(target, prompt, sample):
        texts = [one.text for one in known.get(target.name, ())]
        start = next((one for one in texts if one.startswith(prompt.strip())), None)
        return text(f"{target.name} {prompt}", 3) if start is None else start[len(prompt) :]

    return FakeEngine(answer)


def measured(without):
    made, clients, _ = found(AB, engine(without), models=(*MODELS, WITHOUT))
    tuned, base, other = made
    return made, list(counterfactual_rows(tuned, base, {"b": other}, clients))


def number(rows, metric, attacker, **scope):
    [row] = [
        r for r in rows
        if r.metric == metric and r.scope["attacker"] == attacker
        and all(r.scope.get(k) == v for k, v in scope.items())
    ]  # fmt: skip
    return row


def test_what_b_alone_taught_is_gone_without_it():
    # Two of b's six texts are known without it: somebody else has them as well.
    _, rows = measured([*A, *B[:2]])
    own = number(rows, "counterfactual_memorization", "b")
    wanted = difference(wilson(6, 6), wilson(2, 6))
    assert own.value == pytest.approx(1 - 2 / 6)
    assert (own.low, own.high, own.n) == (wanted.low, wanted.high, 6)
    assert own.scope == {"attacker": "b", "victim": "b", "unit": "prefix", "without": "b"}
    means = {s: number(rows, "mean_chance", "b", source=s).value for s in ("tuned", "base")}
    assert means == {"tuned": 1, "base": 0}
    assert number(rows, "mean_chance", "b", source="counterfactual").value == pytest.approx(2 / 6)
    assert number(rows, "control_gap", "b").value == pytest.approx(2 / 6)
    test = number(rows, "p_value", "b")
    # Four prefixes drew it with b only: 1 in 2^4.
    assert (test.value, test.hits, test.n) == (1 / 16, 4, 4)
    others = number(rows, "counterfactual_memorization", "a")
    assert (others.value, others.n) == (0, 6)
    assert {row.scope["victim"] for row in rows} == {"b"}


def test_of_a_client_whose_texts_the_other_has_as_well_nothing_is_known():
    both = {"a": [*A, *B], "b": B}
    made, clients, _ = found(both, engine([*A]), models=(*MODELS, WITHOUT))
    tuned, base, other = made
    rows = list(counterfactual_rows(tuned, base, {"b": other}, clients))
    [unknown] = [row for row in rows if row.scope["attacker"] == "a"]
    assert (unknown.metric, unknown.value) == ("counterfactual_memorization", None)
    assert unknown.reason == "a has every text of b as well, so nothing was looked for"
    assert number(rows, "counterfactual_memorization", "b").value == 1


def test_what_everybody_taught_is_no_memorization_of_b():
    _, rows = measured([*A, *B])
    assert number(rows, "counterfactual_memorization", "b").value == 0
    assert number(rows, "p_value", "b").value == 1


def test_findings_say_whether_a_text_comes_out_without_its_client():
    made, _ = measured([*A, *B[:2]])
    tuned, base, other = made
    drawn = examples(tuned.answers, base.answers)
    leaks, _ = findings(drawn, compared=True, without=suffixes_without({"b": other}))
    told = {one.evidence["document"]: one.evidence.get("drawn_without") for one in leaks}
    assert {name: told[name] for name in ("b-0", "b-1")} == {"b-0": True, "b-1": True}
    assert not any(told[f"b-{n}"] for n in range(2, 6))
    assert all(told[f"a-{n}"] is None for n in range(6))
    assert all("drawn_without" not in one.evidence for one in findings(drawn, compared=True)[0])


def test_prefixes_that_repeat_themselves_in_one_model_are_in_neither_share():
    def answer(target, prompt, sample):
        if target.name == "without b" and prompt.strip() in B[0].text:
            return "and so on " * 12
        return engine(A).answer(target, prompt, sample)

    made, clients, _ = found(AB, FakeEngine(answer), models=(*MODELS, WITHOUT))
    rows = list(counterfactual_rows(made[0], made[1], {"b": made[2]}, clients))
    own = number(rows, "counterfactual_memorization", "b")
    assert (own.value, own.n) == (1, 5)

    def always(target, prompt, sample):
        repeats = target.name == "without b"
        return "and so on " * 12 if repeats else engine(A).answer(target, prompt, sample)

    made, clients, _ = found(AB, FakeEngine(always), models=(*MODELS, WITHOUT))
    rows = list(counterfactual_rows(made[0], made[1], {"b": made[2]}, clients))
    assert [row.value for row in rows] == [None, None]
    assert "repeats itself" in rows[0].reason
