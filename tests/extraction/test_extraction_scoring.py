import math

import pytest
from worked import BASE, TUNED, marked

from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.sampling_noise import with_sampling_noise
from fedaudit.extraction.targets import build_target_set
from fedaudit.metrics.intervals import wilson
from fedaudit.report.document import schema_violation, to_plain
from fedaudit.report.result_contract import check_result

ATTACKER = [
    marked("Claimant: Tom Ray sued.", ("Tom Ray", "PERSON")),
    marked("He lives in York now.", ("York", "ADDRESS")),
    marked("Claimant: Sue Fox sued.", ("Sue Fox", "PERSON")),  # the same prefix again
]
VICTIM = [
    marked("Claimant: Ann Lee lives in York.", ("Ann Lee", "PERSON"), ("York", "ADDRESS")),
    marked("Claimant: Bob Low of Hull.", ("Bob Low", "PERSON"), ("Hull", "ADDRESS")),
    marked("A note on Bob Lowe, and Ann Lee.", ("Bob Lowe", "PERSON"), ("Ann Lee", "PERSON")),
]


def answer(target, prompt, sample):
    """Say two names behind "Claimant:", of which the base knows one, and nothing else."""
    if not prompt.endswith("Claimant:"):
        return " nowhere"
    names = {0: " Ann Lee, a", 1: "\nBob Lowe and", 2: " Ann Lee."}
    if target == BASE:
        names = {3: " Ann Lee!"}
    return names.get(sample, "the court")


def case(fake, **changes):
    return AttackContext(
        **{
            "engine": fake,
            "tuned": TUNED,
            "base": BASE,
            "attacker": ATTACKER,
            "victim": VICTIM,
            **changes,
        }
    )


def attacked(fake=None, *, samples=5, options=(), **changes):
    attack = registry.create("attack", "contextual", {"samples": samples, **dict(options)})
    return attack.run(case(fake or FakeEngine(answer), **changes))


def row(result, metric, source, which="all", label=None):
    [found] = [
        r
        for r in result.measurements
        if (r.metric, r.scope.get("source"), r.scope["set"]) == (metric, source, which)
        and r.scope.get("label") == label
        and "budget" not in r.scope
    ]
    return found


@pytest.fixture(scope="module")
def result():
    return attacked()


def test_the_targets_are_the_victims_own(result):
    # York stands in the attacker's text; Ann Lee, Bob Low, Bob Lowe and Hull do not.
    assert row(result, "coverage", "tuned").n == 4
    # Bob Low begins Bob Lowe and is dropped.
    assert row(result, "coverage", "tuned", "prefix-disjoint").n == 3


def test_coverage_efficiency_and_vxpii_by_hand(result):
    # Two distinct prefixes, one of them twice: 3 x 5 queries. "Bob Lowe" also says "Bob Low".
    # That answer comes once: of all strings two hang on it, of the disjoint ones one.
    for which, hits, n, once in (("all", 3, 4, 2), ("prefix-disjoint", 2, 3, 1)):
        coverage = row(result, "coverage", "tuned", which)
        assert (coverage.hits, coverage.n, coverage.value) == (hits, n, hits / n)
        wanted = with_sampling_noise(wilson(hits, n), n, 1.0 + once)
        assert (coverage.low, coverage.high) == (wanted.low, wanted.high)
        efficiency = row(result, "efficiency", "tuned", which)
        assert (efficiency.value, efficiency.n, efficiency.hits) == (hits / 15, 15, hits)
        assert efficiency.low == pytest.approx(wanted.low * n / 15)
        assert efficiency.high == pytest.approx(wanted.high * n / 15)
        assert row(result, "vx_pii", "tuned", which).value == hits
        assert row(result, "queries", "tuned", which).value == 15


def test_what_the_base_knew_is_taken_away_by_hand(result):
    # F = {Ann Lee, Bob Low, Bob Lowe}, B = {Ann Lee}
    for which, counts in (
        ("all", {"tuned": 3, "base": 1, "tuned-not-base": 2}),
        ("prefix-disjoint", {"tuned": 2, "base": 1, "tuned-not-base": 1}),
    ):
        assert {s: row(result, "vx_pii", s, which).value for s in counts} == counts
        n = row(result, "coverage", "tuned", which).n
        assert row(result, "coverage", "tuned", which).baseline == 1 / n
        assert row(result, "coverage", "tuned-not-base", which).baseline == 1 / n
        assert row(result, "coverage", "base", which).baseline is None


def test_labels_by_hand(result):
    for source, people in (("tuned", 3), ("base", 1), ("tuned-not-base", 2)):
        person = row(result, "coverage", source, label="PERSON")
        assert (person.hits, person.n) == (people, 3)
        address = row(result, "coverage", source, label="ADDRESS")
        assert (address.hits, address.n, address.value) == (0, 1, 0)
        assert address.high == wilson(0, 1).high


def test_findings_are_the_surest_first_and_what_the_base_says_last(result):
    found = [(f.id, f.severity, f.label, dict(f.evidence)) for f in result.findings]
    p = {f.evidence["text"]: f.evidence["p_value"] for f in result.findings}
    # Bob Low came out as part of Bob Lowe only; Ann Lee is what the base says, too.
    assert p["Bob Low"] is p["Ann Lee"] is None
    assert 0 < p["Bob Lowe"] <= 1

    def evidence(text, outputs, of_base, words, documents):
        return {
            "text": text,
            "outputs": outputs,
            "whole_words": words,
            "outputs_of_base": of_base,
            "p_value": p[text],
            "documents": documents,
            "other_members": 0,
            # "Claimant:", which comes twice and so first, is what draws every name.
            "prompt": {"number": 1, "tokens": 2, "before": ["PERSON"], "text": "…:"},
            "controls": controls,
            "controls_drawn": 0,
        }

    made_up = build_target_set(case(FakeEngine(answer))).controls
    controls = sum(label == "PERSON" for label in made_up.values())
    assert found == [
        ("contextual-0001", "low", "PERSON", evidence("Bob Low", 1, 0, 0, 2)),
        ("contextual-0002", found[1][1], "PERSON", evidence("Bob Lowe", 1, 0, 1, 1)),
        ("contextual-0003", "low", "PERSON", evidence("Ann Lee", 2, 1, 2, 2)),
    ]
    surely = p["Bob Lowe"]
    assert found[1][1] == ("high" if surely <= 0.01 else "medium" if surely <= 0.05 else "low")
    assert [dict(leak) for leak in result.revealed] == [
        {"id": "contextual-0001", "label": "PERSON", "text": "Bob Low"},
        {"id": "contextual-0002", "label": "PERSON", "text": "Bob Lowe"},
        {"id": "contextual-0003", "label": "PERSON", "text": "Ann Lee"},
    ]
    assert any("4 victim-exclusive strings; 1 of them" in limit for limit in result.limits)


def test_what_is_judged_by_hand(result):
    # Bob Low is part of Bob Lowe. Whole words: F = {Ann Lee, Bob Lowe}, B = {Ann Lee}.
    hits = {"tuned": 2, "base": 1, "tuned-not-base": 1, "base-not-tuned": 0}
    for source, count in hits.items():
        one = row(result, "coverage", source, "exclusive")
        assert (one.hits, one.n, one.value) == (count, 3, count / 3)
        wanted = wilson(count, 3)
        if count:
            # Bob Lowe comes out once, and the base says Ann Lee once.
            once = {"tuned": 1, "base": 1, "tuned-not-base": 2}[source]
            wanted = with_sampling_noise(wanted, 3, 1.0 + once)
        assert (one.low, one.high) == (wanted.low, wanted.high)
    assert row(result, "coverage", "control", "exclusive").hits == 0
    person = row(result, "coverage", "tuned-not-base", "exclusive", "PERSON")
    assert (person.hits, person.n) == (1, 2)
    [beyond] = [r for r in result.measurements if r.metric == "targets"]
    assert (beyond.value, beyond.n, dict(beyond.scope)) == (0, 3, {"set": "beyond-reach"})


def test_the_p_values_of_what_is_judged(result):
    tests = [r for r in result.measurements if r.metric == "p_value"]
    assert [r.scope["label"] for r in tests if r.scope["test"] == "learned"] == ["PERSON"]
    p = {r.scope["test"]: r for r in tests if "label" not in r.scope}
    assert set(p) == {"leak", "string", "control", "base"}
    # The fake's words have probability 1/e: its base says everything in fifteen answers.
    assert p["base"].value == p["leak"].value == pytest.approx(1, abs=0.01)
    assert p["string"].n == p["base"].n == 3
    # Under this base no control is as likely as the address, although nothing came out of any.
    assert p["leak"].n == p["control"].n == 2
    controls = row(result, "coverage", "control", "exclusive", "PERSON")
    # Two judged people, of whom one came out, against people who did not.
    assert p["control"].value == pytest.approx(2 / (2 + controls.n))
    [surest] = [f.evidence["p_value"] for f in result.findings if f.evidence["p_value"]]
    assert p["string"].value == min(1, 3 * surest)


def test_a_base_that_hardly_says_a_string_is_no_explanation():
    found = attacked(FakeEngine(answer, likelihood=lambda *_: -9.0))
    p = {r.scope["test"]: r.value for r in found.measurements if r.metric == "p_value"}
    [chance] = [r for r in found.measurements if r.metric == "chance" and "label" not in r.scope]
    assert (chance.n, dict(chance.scope)) == (3, {"source": "base", "set": "exclusive"})
    # No control came out of either model: 1 / 1, a standard error of sqrt(2) above that. Two names
    # of two words weigh as one in a thousand, and Hull, a word, not as much as either.
    hull = math.exp(math.sqrt(2)) * 15 * math.exp(-9)
    assert chance.value == pytest.approx(hull / 3, rel=1e-3)
    assert p["base"] == pytest.approx(1 - 0.999**2)
    assert p["leak"] == p["control"] > p["base"]


def test_what_members_have_as_well_is_counted_with_what_of_it_came_out():
    members = {"c2": [marked("bob  lowe, Hull")], "c3": [marked("Hull")], "c4": [marked("Nobody")]}
    rows = [r for r in attacked(members=members).measurements if r.metric == "shared_targets"]
    # Of four strings; "Bob Low" is part of what c2 writes, and came out as no word of its own.
    assert [(r.scope.get("member"), r.value, r.n, r.hits) for r in rows] == [
        (None, 3, 4, 1), ("c2", 3, 4, 1), ("c3", 1, 4, 0)
    ]  # fmt: skip


def test_where_everything_is_others_nothing_is_judged_in_its_place():
    found = attacked(members={"c2": VICTIM})
    judged = [r for r in found.measurements if r.scope.get("set") == "exclusive"]
    [one] = [r for r in judged if r.scope["source"] != "known"]
    assert one.value is None
    assert one.reason == "the victim has nothing that no other member has as well"
    assert {f.evidence["other_members"] for f in found.findings} == {1}
    assert {f.severity for f in found.findings} == {"low"}


def test_what_is_longer_than_an_answer_is_not_judged():
    long = "Bob the Very Long Name of Hull and of York and of Leeds"
    more = [*VICTIM, marked(f"It was {long}.", (long, "PERSON"))]
    found = attacked(victim=more, options={"new_tokens": 5})
    beyond, people = [r for r in found.measurements if r.metric == "targets"]
    # Ann Lee, Bob Lowe and Hull, which is a part of the long one that nobody could find.
    assert (beyond.value, beyond.n) == (1, 4)
    assert (people.value, people.n) == (1, 3)
    assert dict(people.scope) == {"set": "beyond-reach", "label": "PERSON"}
    assert row(found, "coverage", "tuned", "exclusive").n == 3


def test_kinds_that_were_not_chosen_are_counted():
    found = attacked(options={"labels": ("PERSON",)})
    unasked = [r for r in found.measurements if r.scope.get("set") == "unasked"]
    [(value, n, label)] = [(r.value, r.n, r.scope["label"]) for r in unasked]
    assert (value, n, label) == (2, 2, "ADDRESS")
    assert not any(schema_violation(to_plain(row, "row")) for row in unasked)


def test_an_answer_may_give_more_strings_than_were_asked_for():
    found = attacked(victim=[*VICTIM, marked("Ask Ann now.", ("Ann", "PERSON"))])
    most = max(r.value for r in found.measurements if r.metric == "efficiency")
    assert most == 2  # the first answer begins with Ann and with Ann Lee
    assert check_result("contextual", found).measurements


def test_guessing_is_measured_beside_it(result):
    control = row(result, "coverage", "control")
    assert control.n >= 10
    assert (control.hits, control.value) == (0, 0)
    assert row(result, "coverage", "tuned").chance == 0
    assert row(result, "queries", "control").value == 15


def test_a_model_that_says_anything_at_all_finds_the_control_too():
    strings = sorted(build_target_set(case(FakeEngine(answer))).controls)

    def knows_everything(target, prompt, sample):
        return strings[sample] if sample < len(strings) else ""

    found = attacked(FakeEngine(knows_everything), samples=len(strings))
    assert row(found, "coverage", "control").value == 1
    assert row(found, "coverage", "tuned").chance == 1


def test_the_literal_form_of_disjointness_is_an_option():
    found = attacked(options={"disjoint": "literal"})
    # Ann Lee, Bob Lowe, Hull: one string a first letter.
    assert row(found, "coverage", "tuned", "prefix-disjoint").n == 3
    more = [*VICTIM, marked("Claimant: Bea Ash.", ("Bea Ash", "PERSON"))]
    literal = attacked(victim=more, options={"disjoint": "literal"})
    assert row(literal, "coverage", "tuned", "prefix-disjoint").n == 3
    assert row(attacked(victim=more), "coverage", "tuned", "prefix-disjoint").n == 4


def test_without_a_base_nothing_is_taken_away_and_that_is_said():
    fake = FakeEngine(answer)
    found = attacked(fake, base=None)
    sources = {r.scope["source"] for r in found.measurements if r.metric != "targets"}
    assert sources == {"tuned", "control", "known"}
    assert {target for target, _ in fake.asked} == {TUNED}
    assert row(found, "coverage", "tuned").baseline is None
    assert {f.evidence["outputs_of_base"] for f in found.findings} == {None}
    # Nothing is known of a base, so that nothing is high.
    assert {f.severity for f in found.findings} <= {"medium", "low"}
    assert not [r for r in found.measurements if r.metric == "p_value"]
    assert any("no base to compare with" in limit for limit in found.limits)


def test_a_victim_without_pii_of_its_own_cannot_be_measured():
    for victim in ([ATTACKER[0]], [Document(id="x", text="nothing", pii=())]):
        found = attacked(victim=victim)
        [only] = found.measurements
        assert (only.metric, only.value) == ("coverage", None)
        assert only.reason
        assert found.findings == ()
        assert found.limits


def test_what_a_victim_lacks_may_be_the_chosen_kinds_only():
    more = [*ATTACKER, marked("It is her asthma.", ("asthma", "DIAGNOSIS"))]
    found = attacked(attacker=more, options={"labels": "DIAGNOSIS"})
    [only, *unasked] = found.measurements
    assert only.reason == "the victim has no PII of the chosen kinds of its own"
    assert {row.scope["label"] for row in unasked} == {"ADDRESS", "PERSON"}
    [said] = found.limits
    assert said == (
        "The victim's documents hold no PII of the chosen kinds that anybody annotated or found."
    )
    found = attacked(victim=[VICTIM[0]], attacker=more, options={"labels": "ADDRESS"})
    [said] = found.limits
    assert said.startswith("Every PII string of the chosen kinds that the victim has stands in the")
    [said] = attacked(victim=[Document(id="x", text="nothing", pii=())]).limits
    assert said == "The victim's documents hold no PII that anybody annotated or found."


def test_a_single_target_that_nobody_can_imitate_has_no_control():
    """Its halves recombined are itself: there is nothing to guess with."""
    victim = [marked("Her case was one of asthma.", ("asthma", "CONDITION"))]
    found = attacked(victim=victim)
    assert row(found, "coverage", "tuned").n == 1
    assert row(found, "coverage", "tuned").chance is None
    assert "control" not in {r.scope.get("source") for r in found.measurements}


def test_nothing_found_is_zero_of_n_with_a_bound():
    found = attacked(FakeEngine(lambda target, prompt, sample: "nothing"))
    coverage = row(found, "coverage", "tuned")
    assert (coverage.value, coverage.hits, coverage.n) == (0, 0, 4)
    assert coverage.high == wilson(0, 4).high
    assert found.findings == ()


def test_the_order_of_documents_changes_nothing():
    one, two = attacked(), attacked(attacker=ATTACKER[::-1], victim=VICTIM[::-1])
    assert one == two


def test_the_beginning_is_put_before_every_prompt():
    fake = FakeEngine(answer, prompt_starts={"bare": (), "bos": (9999,)})
    attacked(fake, beginning=PromptStart(start="bos", middle="bare"), options={"context": 3})
    prompts = {fake._text(request.prompt) for _, request in fake.asked}
    assert prompts == {"<9999>Claimant:", "<9999>He lives in"}
    fake = FakeEngine(answer, prompt_starts={"bare": (), "bos": (9999,)})
    attacked(fake, beginning=PromptStart(start="bos", middle="bare"), options={"context": 2})
    prompts = {fake._text(request.prompt) for _, request in fake.asked}
    assert prompts == {"<9999>Claimant:", " lives in"}
