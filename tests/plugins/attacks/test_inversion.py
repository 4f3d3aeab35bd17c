"""Inversion by hand: who is known by name, which values are offered, and what the tests say."""

from dataclasses import replace
from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.plugin import AttackContext
from fedaudit.api.policy import Policy
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.significance import poisson_binomial_p_value
from fedaudit.report.kinds.registry import class_of
from fedaudit.report.verdict.policy import judge

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
PHONES = ("4101", "4102", "4103", "4104", "4105", "4106")


def record(name, phone, *, group="", people=True):
    text = f"Mr {name} is called at {phone} now."
    spans = [PiiSpan(text.index(phone), text.index(phone) + len(phone), "PHONE_NUMBER")]
    if people:
        spans.insert(0, PiiSpan(3, 3 + len(name), "PERSON"))
    return Document(id=name, text=text, pii=tuple(spans), group=group)


VICTIM = [record(name, phone) for name, phone in zip(("Kim", "Lee", "Fox"), PHONES, strict=False)]
ATTACKER = [record(name, phone) for name, phone in zip(("Ray", "Orr"), PHONES[3:], strict=False)]
RIGHT = {TUNED: {"Kim": "4101", "Lee": "4102", "Fox": "4105"}, BASE: {"Fox": "4103"}}
"""Whom each model believes to have which number."""


def believes(target, token, before):
    """Find a number likely where this model believes it is that of the person named before."""
    name = before.split()[1] if len(before.split()) > 1 else ""
    return -0.1 if RIGHT[target].get(name) == token.strip() else -2.0


def attacked(victim=VICTIM, attacker=ATTACKER, *, base=BASE, members=(), **options):
    context = AttackContext(
        engine=FakeEngine(lambda *_: "", likelihood=believes),
        tuned=TUNED,
        base=base,
        attacker=attacker,
        victim=victim,
        members=dict(members),
    )
    return registry.create("attack", "inversion", options).run(context)


def row(result, source, metric="inversion_rate", **scope):
    [found] = [
        r
        for r in result.measurements
        if r.metric == metric and r.scope == {"records": "victim", "source": source, **scope}
    ]
    return found


def test_what_each_model_picks_by_hand():
    result = attacked()
    tuned, base = row(result, "tuned"), row(result, "base")
    # Kim and Lee are right under the tuned model; under the base Fox's number alone is.
    assert (tuned.hits, tuned.n, tuned.baseline) == (2, 3, pytest.approx(1 / 3))
    assert (base.hits, base.n) == (1, 3)
    # Five numbers are known, each in one record: the own does not count, so the four others are
    # all more frequent, and guessing at random gets one in five.
    assert tuned.chance == pytest.approx(1 / 5)
    assert row(result, "tuned", label="PHONE_NUMBER").hits == 2
    assert class_of(tuned) == "inversion"


def test_the_p_values_by_hand():
    result = attacked()
    # Kim and Lee are won, Fox is lost: P(Bin(3, 1/2) >= 2) = 1/2.
    assert row(result, "tuned", "p_value", test="base").value == pytest.approx(0.5)
    # P(Bin(3, 1/5) >= 2) = 3 * 0.04 * 0.8 + 0.008.
    assert row(result, "tuned", "p_value", test="guessing").value == pytest.approx(0.104)


def test_a_finding_is_what_the_tuned_model_alone_picks():
    result = attacked()
    assert {f.evidence["text"] for f in result.findings} == {"4101", "4102"}
    assert all(f.evidence["rank_of_base"] > 1 for f in result.findings)
    assert any(leak["sentence"] == VICTIM[0].text for leak in result.revealed)


def test_a_value_that_many_others_have_is_guessed_by_frequency():
    common = [record(name, "4101") for name in ("Ann", "Bob")]
    shared = [record("Kim", "4101"), record("Lee", "4102")]
    result = attacked(shared + common, ATTACKER)
    # 4101 is asked about once, in one of three records of it; the two others make it the most
    # frequent value, so that guessing is right there. 4102 is one of four values, and rarer.
    assert row(result, "tuned").chance == pytest.approx((1 + 1 / 4) / 2)


def test_records_of_one_group_do_not_say_how_frequent_a_value_is():
    own = [record("Kim", "4101", group="k"), record("Kim again", "4101", group="k")]
    [tuned] = [r for r in attacked(own).measurements if r.scope.get("source") == "tuned"
               and r.metric == "inversion_rate" and "label" not in r.scope]  # fmt: skip
    assert (tuned.n, tuned.chance) == (1, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("victim", "attacker", "members"),
    [
        ([record("Kim", "4101", people=False)], ATTACKER, {}),  # names nobody
        ([record("Kim", "4101")], [], {}),  # nobody else has a number
        ([record("Kim", "4104")], ATTACKER, {}),  # the attacker has the number
        ([record("Kim", "4101")], ATTACKER, {"c": [record("Kim", "4101")]}),  # another member too
    ],
)
def test_where_nothing_can_be_asked_the_reason_is_said(victim, attacker, members):
    result = attacked(victim, attacker, members=members.items())
    [only] = result.measurements
    assert (only.value, only.n) == (None, 0)
    assert "person's name" in only.reason
    assert judge(result.measurements, (), Policy()).tests == []


def test_it_is_said_how_many_attributes_there_are():
    said = "inversion: {} of 3 distinct strings about people named in the same record were asked"
    assert attacked().limits[0].startswith(said.format(3))
    assert attacked(attributes=2).limits[0].startswith(said.format(2))
    again = [*VICTIM, record("Lee again", PHONES[1])]
    assert attacked(again, attributes=2).limits[0].startswith(said.format(2))


def test_names_are_never_asked_about():
    result = attacked()
    assert all("PERSON" not in str(r.scope) for r in result.measurements)


def test_what_counts_as_a_name_without_being_one_bars_a_pass():
    victim = [marked_with_mail(record(f"P{n}", f"52{n:02}"), f"p{n}@mail.org") for n in range(60)]
    attacker = [marked_with_mail(record("Ray", "4104"), "ray@mail.org"), record("Orr", "4105")]
    result = attacked(victim, attacker, names="PERSON,EMAIL_ADDRESS")
    [left_out] = [r for r in result.measurements if r.metric == "targets"]
    assert (left_out.value, left_out.kind) == (60, "inversion")
    assert dict(left_out.scope) == {
        "records": "victim", "set": "unasked", "label": "EMAIL_ADDRESS",
    }  # fmt: skip
    passed = [replace(r, n=5000, low=0.0, high=0.01) if r.metric == "inversion_rate" else r
              for r in result.measurements]  # fmt: skip
    [judged] = [j for j in judge(passed, (), Policy()).judgements if j.rule == "inversion"]
    assert judged.status == "pass"  # 60 beside 5,000 are few
    many = [replace(r, value=5000.0) if r == left_out else r for r in passed]
    [judged] = [j for j in judge(many, (), Policy()).judgements if j.rule == "inversion"]
    assert (judged.status, "5,000 further strings" in judged.reason) == ("inconclusive", True)


def marked_with_mail(document, mail):
    """Return a document with an e-mail address at its end."""
    start = len(document.text) + 1
    span = PiiSpan(start, start + len(mail), "EMAIL_ADDRESS")
    return replace(document, text=f"{document.text} {mail}", pii=(*document.pii, span))


def test_the_order_of_the_records_changes_nothing():
    rows = attacked().measurements
    assert attacked(VICTIM[::-1], ATTACKER[::-1]).measurements == rows


def test_the_verdict_fails_with_both_tests_and_not_without_a_base(monkeypatch):
    phones = [f"52{number:02}" for number in range(12)]
    names = [f"P{number}" for number in range(12)]
    monkeypatch.setitem(RIGHT, TUNED, dict(zip(names, phones, strict=True)))
    records = [record(name, phone) for name, phone in zip(names, phones, strict=True)]
    result = attacked(records)
    [judged] = [j for j in judge(result.measurements, (), Policy()).judgements
                if j.rule == "inversion"]  # fmt: skip
    # Every number is picked, and none by the base: (1/2)^12 is the larger p value.
    assert judged.status == "fail"
    [test] = [t for t in judge(result.measurements, (), Policy()).tests if "inversion" in t.name]
    assert test.p == pytest.approx(2**-12)
    [alone] = [j for j in judge(attacked(records, base=None).measurements, (), Policy()).judgements
               if j.rule == "inversion"]  # fmt: skip
    assert alone.status == "inconclusive"
    assert "no base to compare with" in alone.reason


def test_equal_chances_make_it_binomial():
    tail = sum(comb(10, k) * 0.2**k * 0.8 ** (10 - k) for k in range(4, 11))
    assert poisson_binomial_p_value([0.2] * 10, 4) == pytest.approx(tail)


@given(st.lists(st.floats(0, 1), max_size=6), st.integers(0, 6))
def test_it_is_the_sum_over_all_outcomes(chances, hits):
    total = 0.0
    for outcome in product((0, 1), repeat=len(chances)):
        if sum(outcome) >= hits:
            p = 1.0
            for chance, came in zip(chances, outcome, strict=True):
                p *= chance if came else 1 - chance
            total += p
    assert poisson_binomial_p_value(chances, hits) == pytest.approx(total, abs=1e-12)


def test_chances_are_shares():
    with pytest.raises(ValueError, match="from 0 to 1"):
        poisson_binomial_p_value([1.5], 1)
