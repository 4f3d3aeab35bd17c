"""Did an organisation take part? Style that it shares with those who did must not say so."""

import random
from functools import cache, partial

import pytest
from fedaudit_plugins.attacks.membership import organisation

from fedaudit.api import AttackContext, Document, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy import text_baseline
from fedaudit.report.kinds.membership import Membership

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
WORDS = [f"w{n}" for n in range(100)]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Compare the texts of the two sets with those of fewer drawn ones."""
    few = partial(text_baseline.permutation_p_value, draws=39)
    monkeypatch.setattr(text_baseline, "permutation_p_value", few)


def documents(name, groups, seed, words=WORDS, group="g"):
    rng = random.Random(seed)
    return [
        Document(
            id=f"{name}{n}",
            text=" ".join(rng.choices(words, k=12)),
            group=f"{group}/{name}{n // 2}",
        )
        for n in range(2 * groups)
    ]


CLAIMED, OWN = documents("a", 25, 1), documents("b", 25, 2)


@cache
def noise_of(text):
    return random.Random(text).gauss(0, 0.4)


def likelihood(trained, gain, style):
    """Return models: `gain` nats better on trained texts, `style` nats better on everything."""
    begins = {tuple(one.text.split()[:3]) for one in trained}

    def score(target, token, before):
        noise = noise_of(token + before)
        if target.name == "base":
            return -3 + noise
        own = noise_of(target.name + token + before)
        known = tuple((before + token).split()[:3]) in begins and len(before.split()) >= 3
        return -3 + noise + own + style + (gain if known else 0)

    return score


def case(trained=(), gain=0.5, style=1.0, **changes):
    engine = FakeEngine(lambda *_: "", likelihood=likelihood(trained, gain, style))
    given = {"engine": engine, "tuned": TUNED, "base": BASE, "attacker": CLAIMED, "victim": None}
    return AttackContext(**{**given, "held_out": OWN, **changes})


def outcome(asked, **options):
    result = registry.create("attack", "membership", {"organisation": True, **options}).run(asked)
    made = [row for row in result.measurements if row.scope.get("unit") == "organisation"]
    [p] = [row for row in made if row.metric == "p_value"]
    return p, made, [one for one in result.limits if one.startswith("organisation")], result


def test_one_that_shares_the_style_of_those_who_took_part_did_not():
    p, made, limits, _ = outcome(case())
    assert p.value > organisation.LEVEL
    assert (p.scope["groups"], p.scope["beside"], p.scope["rounds"]) == (25, 25, 1)
    [gap] = [row for row in made if row.metric == "score_gap"]
    assert gap.low <= 0 <= gap.high
    assert "not shown at 1%" in limits[0]
    assert "That it did not take part is not shown either" in limits[0]
    # The trap: the model gains a nat a token on this organisation's records, over its base.
    assert style_gain(case()) == pytest.approx(1, abs=0.1)


def style_gain(asked):
    ids = [one.ids for one in asked.engine.tokenize([one.text for one in CLAIMED])]
    rows = [asked.engine.score(target, ids) for target in (TUNED, BASE)]
    return sum(sum(a) - sum(b) for a, b in zip(*rows, strict=True)) / sum(map(len, rows[0]))


def test_one_that_took_part_did():
    p, made, limits, _ = outcome(case(CLAIMED))
    assert p.value == 1e-4
    [gap] = [row for row in made if row.metric == "score_gap"]
    # Half a nat on those of 11 scored tokens behind which the fourth word is known: 9 of them.
    assert gap.value == pytest.approx(0.5 * 9 / 11, abs=0.1)
    assert limits == [
        "organisation: that it took part is shown at 1% (p = 0.0001), provided that the held-out "
        "records are its own and were set aside at random; someone else may have trained on "
        "copies of its records."
    ]


def test_every_round_has_a_gap_and_they_are_tested_together():
    rounds = {n: Target(name=f"round {n}", adapter=f"r{n}") for n in (1, 2)}
    p, made, _, _ = outcome(case(CLAIMED, rounds=rounds))
    gaps = {row.scope.get("round"): row for row in made if row.metric == "score_gap"}
    assert list(gaps) == [None, 1, 2, "last"]
    mean = sum(gaps[name].value for name in (1, 2, "last")) / 3
    assert gaps[None].value == pytest.approx(mean)
    assert p.scope["rounds"] == 3


def test_records_that_others_have_as_well_are_left_out():
    ours, own = documents("a", 25, 10), documents("b", 25, 20)
    asked = case(ours[:10], attacker=ours, held_out=own, members={"c1": ours[:10]})
    p, *_ = outcome(asked)
    assert p.scope["members"] == 40
    assert p.value > organisation.LEVEL
    named = case(ours[:10], attacker=ours[:10], victim=ours, held_out=own)
    assert outcome(named)[0].scope["members"] == 40
    same = case(ours[:10], attacker=ours[::-1], victim=ours, held_out=own)
    assert outcome(same)[0].scope["members"] == 50


def reason(asked):
    p, made, limits, _ = outcome(asked)
    assert p.value is None
    assert len(made) == 1
    assert limits == [f"organisation: whether it took part cannot be told: {p.reason}."]
    return p.reason


def test_where_no_suitable_control_is_given_it_cannot_tell():
    assert reason(case(CLAIMED, base=None)) == "there is no base to compare with"
    elsewhere = documents("b", 25, 2, group="other")
    assert "is this organisation's own" in reason(case(CLAIMED, held_out=elsewhere))
    unnamed = [Document(id=one.id, text=one.text) for one in OWN]
    assert "is this organisation's own" in reason(case(CLAIMED, held_out=unnamed))
    both = [*CLAIMED, *documents("z", 3, 9, group="other")]
    assert "are of 2 organisations" in reason(case(CLAIMED, attacker=both))
    copies = reason(case(CLAIMED, members={"c1": CLAIMED}))
    assert "0 and 25 groups" in copies
    assert "50 claimed records are another member's as well" in copies
    assert "25 and 19 groups" in reason(case(CLAIMED, held_out=OWN[:38]))
    later = documents("b", 25, 2, words=[f"w{n}" for n in range(50, 150)])
    assert "differ from the others in their texts" in reason(case(CLAIMED, held_out=later))


def test_what_the_base_tells_apart_was_not_set_aside_at_random():
    def easier(target, token, before):
        begins = {tuple(one.text.split()[:3]) for one in CLAIMED}
        known = tuple((before + token).split()[:3]) in begins
        return likelihood((), 0, 0)(target, token, before) + (1 if known else 0)

    engine = FakeEngine(lambda *_: "", likelihood=easier)
    assert "the base, which no one here trained" in reason(case(engine=engine))


def test_the_table_has_a_line_a_round():
    rounds = {1: Target(name="round 1", adapter="r1")}
    _, made, _, _ = outcome(case(CLAIMED, rounds=rounds))
    rows = [{name: getattr(row, name) for name in row.__slots__} for row in made]
    [table] = Membership().tables({"measurements": rows})
    assert table.title == "Did the organisation take part: membership"
    assert [line[0] for line in table.rows] == ["all rounds", "round 1", "round last"]
    assert [line[-1] for line in table.rows] == ["0.0001", "-", "-"]
    [missing] = outcome(case(base=None))[1]
    row = {name: getattr(missing, name) for name in missing.__slots__}
    [table] = Membership().tables({"measurements": [row]})
    assert any("no base" in note for note in table.notes)
