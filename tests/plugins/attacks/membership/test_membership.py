import math
import random
from dataclasses import replace
from functools import cache

import pytest
from fedaudit_plugins.attacks.membership import reader

from fedaudit.api import AttackContext, Counts, Document, InputError, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy import membership_scores, roc
from fedaudit.metrics.privacy.round_changes import round_scores
from fedaudit.report.kinds.membership import Membership
from fedaudit.report.number_format import format_measurement
from fedaudit.report.verdict.policy import verdict

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
WORDS = [f"w{n}" for n in range(200)]


def documents(name, count, seed, words=WORDS, length=12):
    rng = random.Random(seed)
    return [
        Document(id=f"{name}{n}", text=" ".join(rng.choices(words, k=length)), group=f"{name}{n}")
        for n in range(count)
    ]


MEMBERS, OTHERS = documents("m", 100, 1), documents("o", 100, 2)
KNOWN = {one.text for one in MEMBERS}


@cache
def noise_of(text):
    return random.Random(text).gauss(0, 0.5)


def likelihood(gain):
    """Return a model that knows every word of members by `gain` nats better when tuned."""
    words = {tuple(text.split()[:3]): text for text in KNOWN}

    def score(target, token, before):
        noise = noise_of(token + before)
        member = tuple((before + token).split()[:3])[:3] in words or len(before.split()) < 3
        return -3 + noise + (gain if member and target.name == "tuned" else 0)

    return score


def attack(**options):
    return registry.create("attack", "membership", options)


def case(gain=0.0, **changes):
    engine = FakeEngine(lambda *_: "", likelihood=likelihood(gain))
    given = {"engine": engine, "tuned": TUNED, "base": BASE, "attacker": MEMBERS, "victim": None}
    return AttackContext(**{**given, "held_out": OTHERS, **changes})


def rows(result):
    return {(r.metric, r.scope["score"], r.scope.get("fpr")): r for r in result.measurements}


def test_every_score_is_that_of_its_definition():
    asked = case(0.4)
    found = rows(attack().run(asked))
    ids = {one.text: asked.engine.tokenize([one.text])[0].ids for one in (*MEMBERS, *OTHERS)}
    values = {}
    for one in (*MEMBERS, *OTHERS):
        [statistics] = asked.engine.token_statistics(TUNED, [ids[one.text]])
        [base] = asked.engine.score(BASE, [ids[one.text]])
        own = statistics.log_probability
        values[one.text] = {
            "loss": membership_scores.loss(own),
            "zlib": membership_scores.zlib_ratio(own, one.text),
            "reference": membership_scores.reference_ratio(own, base),
            "min_k": membership_scores.min_k(own),
            "min_k++": membership_scores.min_k_plus_plus(statistics),
            "error_zone": membership_scores.error_zone(own, base, statistics.first),
        }
    for name in ("loss", "zlib", "reference", "min_k", "min_k++", "error_zone"):
        ours, theirs = ([values[one.text][name] for one in some] for some in (MEMBERS, OTHERS))
        row, wanted = found["auc", name, None], roc.auc(ours, theirs)
        assert (row.value, row.low, row.high) == (wanted.value, wanted.low, wanted.high)
        assert (row.n, row.chance) == (100, 0.5)
        assert row.scope == {
            "score": name, "source": "tuned", "records": "own", "members": 100, "others": 100,
        }  # fmt: skip
        rate = found["tpr", name, 0.01]
        assert rate.value == roc.tpr_at_fpr(ours, theirs, 0.01).value
        assert rate.hits == round(100 * rate.value)
    assert found["auc", "reference", None].value == 1
    assert found["auc", "loss", None].low > 0.5


def test_without_a_leak_every_interval_holds_one_half():
    found = rows(attack().run(case(0.0)))
    areas = [row for (metric, _, _), row in found.items() if metric == "auc"]
    assert len(areas) == 7
    # Intervals of 95 %: all seven of one seed hold it.
    assert all(row.low <= 0.5 <= row.high for row in areas)


def test_a_rate_needs_as_many_others_as_it_has_steps():
    found = rows(attack().run(case(0.4, held_out=OTHERS[:99])))
    assert found["tpr", "loss", 0.01].value is None
    assert "99 held-out records are too few to show a false positive rate of 0.01" in (
        found["tpr", "loss", 0.01].reason
    )
    assert "0.001" in found["tpr", "loss", 0.001].reason


def test_sets_that_differ_in_their_texts_alone_are_refused():
    later = documents("o", 100, 3, words=[f"w{n}" for n in range(100, 300)])
    result = attack().run(case(0.4, held_out=later))
    found = rows(result)
    assert found["auc", "text", None].low > 0.5
    assert found["auc", "loss", None].value is None
    assert "the texts alone, without any model, tell" in found["auc", "loss", None].reason
    forced = rows(attack(shifted=True).run(case(0.4, held_out=later)))
    assert forced["auc", "loss", None].value is not None


def test_few_groups_are_not_compared_by_their_texts():
    result = attack().run(case(0.4, held_out=OTHERS[:19]))
    assert "20 groups" in rows(result)["auc", "text", None].reason
    assert any(
        "not known whether the texts alone tell the sets apart" in one for one in result.limits
    )


def test_without_a_base_two_scores_are_missing():
    found = rows(attack().run(case(0.4, base=None)))
    assert found["auc", "loss", None].value is not None
    for name in ("reference", "error_zone"):
        assert found["auc", name, None].reason == "there is no base to compare with"


def test_a_record_counts_once_and_a_short_one_not():
    twice = [*MEMBERS, *MEMBERS, Document(id="s", text="one two"), OTHERS[0]]
    result = attack().run(case(0.4, attacker=twice))
    found = rows(result)["auc", "loss", None]
    assert (found.scope["members"], found.scope["others"]) == (101, 99)
    assert "1 records were left out" in result.limits[0]


def test_nothing_to_compare_with():
    with pytest.raises(InputError, match="name some with --held-out"):
        attack().run(case(held_out=None))
    with pytest.raises(InputError, match="and 0 of 0 held-out ones have 8 tokens"):
        attack().run(case(held_out=MEMBERS))


def test_records_that_others_have_too_are_no_leak_of_the_victims():
    # The model knows the first 45 records only: the attacker has 25 of them, a member 20.
    known = [replace(d, text=d.text.upper()) for d in MEMBERS[25:45]]
    stranger = documents("s", 100, 7)
    victim = [*MEMBERS[:45], *stranger]
    result = attack().run(case(0.4, attacker=MEMBERS[:25], victim=victim, members={"c2": known}))
    found = rows(result)["auc", "reference", None]
    assert (found.n, found.scope["members"], found.scope["others"]) == (100, 100, 100)
    assert found.low <= 0.5 <= found.high
    assert min(row.value for row in p_values(result).values()) > 0.01
    left_out = "membership: 45 further records were left out: the attacker or another member has"
    assert any(limit.startswith(left_out) for limit in result.limits)
    # Without the member's file its records count as the victim's, and there is a leak.
    alone = attack().run(case(0.4, attacker=MEMBERS[:25], victim=victim))
    assert p_values(alone)["tail"].value <= 0.01


def test_where_others_have_all_of_the_victims_records_there_is_nothing_to_compare():
    with pytest.raises(InputError, match="has all of the victim's records too"):
        attack().run(case(0.4, attacker=[*MEMBERS, OTHERS[0]], victim=MEMBERS))
    # An attacker whose records are the victim's is the victim.
    same = attack().run(case(0.4, attacker=MEMBERS[::-1], victim=MEMBERS))
    assert rows(same)["auc", "reference", None].n == 100
    assert not any("left out: " in limit for limit in same.limits)


def test_the_table_has_a_line_a_score():
    result = attack().run(case(0.4))
    row_of = [{name: getattr(row, name) for name in row.__slots__} for row in result.measurements]
    table, used = Membership().tables({"measurements": row_of})
    assert used.rows[0][:3] == ("lower bound", "at least 99", "100")
    assert table.columns == ("score", "AUC [95 %]", "balanced", "TPR at 1.0 %", "TPR at 0.1 %")
    lines = {line[0]: line for line in table.rows}
    assert lines["loss, less the base's"][1].startswith("1 [")
    assert lines["the texts alone"][3] == "-"
    loss = rows(result)["tpr", "loss", 0.01]
    assert lines["loss"][3] == format_measurement(
        {"metric": "tpr", "value": loss.value, "low": loss.low, "high": loss.high}
    )
    assert any("Not measured: 100 held-out records" in note for note in table.notes)


def test_the_gain_of_a_leak_is_the_area_of_a_shift():
    # Means over 11 tokens of noise 0.5: a shift of d nats is d / (0.5 / sqrt(11)) deviations.
    found = rows(attack().run(case(0.15)))["auc", "loss", None]
    shift = 0.15 / (0.5 / math.sqrt(11))
    expected = 0.5 * (1 + math.erf(shift / 2))
    assert found.low - 0.05 <= expected <= found.high + 0.05


def p_values(result):
    rows = [row for row in result.measurements if row.metric == "p_value"]
    assert {row.scope["score"] for row in rows} == {"reference"}
    return {row.scope["test"]: row for row in rows}


def test_the_verdict_goes_by_one_score_that_was_fixed_before():
    found = p_values(attack().run(case(0.4)))
    # No draw is as extreme: 1 in 10,000.
    assert found["ranks"].value == found["tail"].value == 1e-4
    without = p_values(attack().run(case(0.0)))
    assert min(without["ranks"].value, without["tail"].value) > 0.01
    assert p_values(attack().run(case(0.4, base=None)))["ranks"].reason == (
        "there is no base to compare with"
    )
    later = documents("o", 100, 3, words=[f"w{n}" for n in range(100, 300)])
    shifted = p_values(attack().run(case(0.4, held_out=later)))
    assert "the texts alone, without any model, tell" in shifted["tail"].reason


def test_how_few_groups_there_are_is_said():
    held = {r.metric: r for r in attack().run(case(0.0)).measurements}
    least, rate = held["least_p_value"], held["tpr_by_group"]
    assert (least.value, least.scope["groups"], least.scope["beside"]) == (1e-4, 100, 100)
    assert rate.low <= rate.value <= rate.high
    people = [[replace(d, group=f"p{n % 4}") for n, d in enumerate(s)] for s in (MEMBERS, OTHERS)]
    result = attack().run(case(0.4, attacker=(), victim=people[0], held_out=people[1]))
    [few] = [r for r in result.measurements if r.metric == "least_p_value"]
    assert few.value == pytest.approx(1 / 70)
    found = verdict(result.measurements, [])
    assert found["status"] == "inconclusive"
    assert "4 and 4 groups of members and held-out records are too few" in found["reasons"][0]
    sure = attack().run(case(0.4, held_out=OTHERS[:99]))
    assert not [r for r in sure.measurements if r.metric == "tpr_by_group"]


def test_a_model_without_the_client_adds_a_score_and_the_memorization_of_records():
    without = Target(name="without c1", adapter="y")
    result = attack().run(case(0.4, counterfactual=without, without="c1"))
    assert rows(result_of_scores(result))["auc", "counterfactual", None].value == 1
    means = {row.scope["of"]: row for row in result.measurements if row.kind == "counterfactual"}
    # Fake statistics call a token the likeliest from ln(1/2) on, which no word here reaches.
    assert means["members"].value == means["held-out"].value == 0
    assert means["members"].n == 100


def result_of_scores(result):
    kept = [row for row in result.measurements if row.kind == "membership"]
    return type(result)(measurements=tuple(kept))


def of_rounds(engine, text):
    """Return the gains over the base after rounds 1, 2 and, audited, 3."""
    [ids] = [engine.tokenize([text])[0].ids]
    [base] = engine.score(BASE, [ids])
    every = [engine.score(model, [ids])[0] for model in (*EARLIER.values(), TUNED)]
    return [membership_scores.reference_ratio(logs, base) for logs in every]


EARLIER = {n: Target(name=f"round {n}", adapter=str(n)) for n in (1, 2)}


def test_a_client_that_trained_in_some_rounds_is_known_by_its_rounds():
    took_part = {1: True, 2: False, 3: True}
    asked = case(0.4, attacker=(), victim=MEMBERS, rounds=EARLIER, took_part=took_part)
    result = attack().run(asked)
    found = rows(result)
    texts = [*sorted(one.text for one in MEMBERS), *sorted(one.text for one in OTHERS)]
    scores = round_scores([of_rounds(asked.engine, text) for text in texts], [True, False, True])
    wanted = roc.auc(scores[:100], scores[100:])
    row = found["auc", "rounds", None]
    assert (row.value, row.low, row.high) == (wanted.value, wanted.low, wanted.high)
    assert (row.scope["rounds"], row.scope["took_part"]) == (3, 2)
    tests = {r.scope["test"] for r in result.measurements if r.metric == "p_value"
             and r.scope["score"] == "rounds"}  # fmt: skip
    assert tests == {"ranks", "tail", "low ranks"}
    reasons = verdict(result.measurements, [])["reasons"]
    assert reasons[1].startswith("membership (score rounds): 100 records can be told")
    no_base = rows(attack().run(case(0.4, rounds=EARLIER, took_part=took_part, base=None)))
    assert no_base["auc", "rounds", None].reason == "there is no base to compare with"


def test_earlier_rounds_are_asked_and_paid_for_where_they_show_more():
    asked = case(0.4, rounds=EARLIER)
    assert {one[0].name for one in scored_by(asked, attack())} == {"tuned", "base"}
    asked = replace(asked, took_part={1: True, 2: False, 3: True})
    names = {one[0].name for one in scored_by(asked, attack())}
    assert names == {"base", "round 1", "round 2", "tuned"}
    counts = Counts(spans=lambda: (0, False), tried=100, held_out=100, has_victim=False, rounds=2)
    assert 2 * attack().cost(counts).scored == 200 * len(names)


def scored_by(asked, made):
    """Return the calls of `score` and `token_statistics` of a run."""
    engine, calls = asked.engine, []
    for name in ("score", "token_statistics"):
        inner = getattr(engine, name)

        def spy(*args, inner=inner, **more):
            calls.append(args)
            return inner(*args, **more)

        setattr(engine, name, spy)
    made.run(asked)
    return calls


def test_neighbours_add_a_score():
    asked = case(0.4)
    found = rows(attack(neighbours=3).run(asked))["auc", "neighbourhood", None]
    ids = {one.text: asked.engine.tokenize([one.text])[0].ids for one in (*MEMBERS, *OTHERS)}
    every = reader.dictionary(ids.values())

    def score(text):
        near = reader.sample_neighbours(ids[text], every, count=3, seed=0)
        [own] = asked.engine.score(TUNED, [ids[text]])
        return membership_scores.neighbourhood(own, asked.engine.score(TUNED, near))

    ours, theirs = ([score(one.text) for one in some] for some in (MEMBERS, OTHERS))
    assert found.value == roc.auc(ours, theirs).value


def test_neighbours_differ_in_few_tokens_and_depend_on_nothing_else():
    text = tuple(range(400))
    every = reader.dictionary([text, (400, 401)])
    assert every == tuple(range(402))
    [one] = reader.sample_neighbours(text, every, count=1, seed=0)
    changed = sum(a != b for a, b in zip(text, one, strict=True))
    # 400 tokens at 0.15: 60, with a standard deviation of 7.
    assert 32 <= changed <= 88
    assert reader.sample_neighbours(text, every, count=3, seed=0)[0] == one
    assert reader.sample_neighbours(text, every, count=1, seed=1) != [one]


def test_what_is_compressed_is_what_is_read():
    asked = case(0.4)
    long = [Document(id="l", text=MEMBERS[0].text + " and more" * 50)]
    [read] = reader.read_records(asked, long, tokens=12, shortest=8)
    assert read.text == MEMBERS[0].text
    [whole] = reader.read_records(asked, long, tokens=256, shortest=8)
    assert whole.text == long[0].text


def test_scores_without_the_likeliest_tokens_leave_out_what_needs_them():
    """A server may give the record's own log-probabilities and no others."""
    asked = case(0.4)
    whole = asked.engine.token_statistics

    def own_only(*args, **options):
        return [replace(one, mean=(), deviation=(), first=()) for one in whole(*args, **options)]

    asked.engine.token_statistics = own_only
    found = rows(attack().run(asked))
    for name in ("error_zone", "min_k++"):
        row = found["auc", name, None]
        assert row.value is None
        assert "does not say how likely tokens other" in row.reason
    assert found["auc", "reference", None].value == 1


def behind_instruction(gain, words):
    """Return a case whose records all begin with the same words, and whose rest was learnt."""
    head = " ".join(f"i{n}" for n in range(words))
    sides = [
        [replace(one, text=f"{head} {one.text}") for one in side] for side in (MEMBERS, OTHERS)
    ]
    own = {one.text for one in sides[0]}
    rests = {text.removeprefix(head).split()[0] for text in own}

    def score(target, token, before):
        rest = (before + token).removeprefix(head).split()
        learnt = len(rest) > 1 and any(t.startswith(before + token) for t in own)
        return -3 + (gain if learnt and target.name == "tuned" and rest[0] in rests else 0)

    engine = FakeEngine(lambda *_: "", likelihood=score)
    return case(engine=engine, attacker=sides[0], victim=sides[0], held_out=sides[1])


def test_what_comes_behind_a_long_instruction_is_read():
    asked = behind_instruction(2.0, words=300)
    result = attack().run(asked)
    assert rows(result)["auc", "reference", None].value > 0.99
    assert verdict(result.measurements, [])["status"] == "fail"
    assert result.limits[0] == (
        "membership: every record was read to its end; 0 records were left out because they have "
        "fewer than 8 tokens."
    )


@pytest.mark.parametrize("limit", ["option", "training", "context"])
def test_records_that_are_cut_before_they_differ_cannot_pass(limit):
    asked = behind_instruction(2.0, words=300)
    if limit == "training":
        asked = replace(asked, trained_tokens=256)
    if limit == "context":
        asked.engine.context_length = 256
    result = attack(tokens=256 if limit == "option" else 0).run(asked)
    found = verdict(result.measurements, [])
    assert found["status"] == "inconclusive"
    assert "100 of 100 records no more than 256 tokens were read" in found["reasons"][0]
    assert result.limits[0].startswith(
        "membership: 200 of 200 records are longer than the 256 tokens that were read of each: "
        "82.1 % of all tokens were read; 0 records"
    )


def test_what_training_did_not_read_is_not_read():
    asked = replace(case(0.4), trained_tokens=10)
    read = reader.read_records(asked, MEMBERS, tokens=0, shortest=8)
    assert {len(one.ids) for one in read} == {10}
    assert {one.length for one in read} == {12}
