import random
from math import inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked import BASE, TUNED, marked

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.candidates.observations import PROMPTS, cut_at_end, observe
from fedaudit.extraction.candidates.ranking import MAX_FINDINGS, Candidate, distinct_strings
from fedaudit.extraction.candidates.support import Support
from fedaudit.extraction.query_plan import Query

ATTACKER = [
    marked("Claimant: Tom Ray; sued.", ("Tom Ray", "PERSON")),
    marked("He lives in York.", ("York", "ADDRESS")),
]
ANSWERS = {
    "Claimant:": [" Ann Lee; and", " Tom Ray; and", " Bob. Low; and", " Ann Lee; so", " no end"],
    "He lives in": [" Hull. He", " Leeds. He", " Hull. She", " .", " York. He"],
}
MEDIUM_SEVERITY_P = {" Hull": 3.0, " Leeds": 0.5, " Ann": 2.0, " Lee": 2.0, " Bob": 1.0}
"""How much likelier the tuned model finds a token."""


def answer(target, prompt, sample):
    return ANSWERS[prompt][sample]


def likelihood(target, token, before):
    return -5.0 + (MEDIUM_SEVERITY_P.get(token, 0.0) if target == TUNED else 0.0)


def attacked(attacker=ATTACKER, base=BASE, answers=answer, samples=5, likely=likelihood, **options):
    fake = FakeEngine(answers, likelihood=likely, **options)
    attack = registry.create("attack", "contextual", {"samples": samples})
    return attack.run(
        AttackContext(engine=fake, tuned=TUNED, base=base, attacker=attacker, victim=None)
    )


def test_candidates_are_ranked_by_likelihood_gain_and_draws():
    found = attacked()
    told = [(f.evidence["text"], f.label, f.evidence["outputs"]) for f in found.findings]
    assert told == [
        ("Hull", "ADDRESS", 2),  # -2 + 3 / 2 + ln 2 = 0.19
        ("Ann Lee", "PERSON", 2),  # -6 + 4 / 2 + ln 2 = -3.31
        ("Leeds", "ADDRESS", 1),  # -4.5 + 0.5 / 2 + ln 1 = -4.25
    ]  # "Bob. Low" is not of the form of "Tom Ray"
    gains = [f.evidence["gain"] for f in found.findings]
    assert gains == pytest.approx([3, 4, 0.5])
    assert {f.evidence["belief"] for f in found.findings} == {None}
    assert {f.severity for f in found.findings} == {"unverified"}
    assert [f.id for f in found.findings] == [f"contextual-{i:04d}" for i in range(1, 4)]


def test_what_the_base_says_as_readily_is_no_candidate():
    found = attacked(
        likely=lambda target, token, before: -5.0 - (token == " Leeds") * (target == TUNED)
    )
    assert [f.evidence["text"] for f in found.findings] == []


def test_support_weighs_what_the_base_lacks_and_how_often_it_was_drawn():
    assert Support(-6.0, -10.0, 2).score == pytest.approx(-6 + 2 + log(2), abs=1e-4)
    assert Support(-6.0, None, 1).score == -6.0
    impossible = Support(-inf, -inf)
    assert (impossible.gain, impossible.score, impossible.is_likelier) == (0.0, -inf, False)


def test_what_it_cannot_know_is_said():
    found = attacked()
    coverage, queries, precision = found.measurements
    assert (coverage.metric, coverage.value) == ("coverage", None)
    assert "no --victim" in coverage.reason
    assert (queries.metric, queries.value) == ("queries", 10)
    assert (precision.metric, precision.value, precision.scope["top"]) == ("precision", None, 10)
    assert "of no kind did more than 0 of the attacker's own strings" in precision.reason
    assert any("cannot know which candidates are true" in limit for limit in found.limits)


def test_the_attackers_own_strings_are_no_candidates():
    told = {f.evidence["text"] for f in attacked().findings}
    assert not told & {"Tom Ray", "York"}


def test_the_plain_text_is_kept_for_reveal_only():
    found = attacked()
    assert [leak["text"] for leak in found.revealed] == [f.evidence["text"] for f in found.findings]
    assert [leak["id"] for leak in found.revealed] == [f.id for f in found.findings]


def test_without_a_base_nothing_is_said_of_precision():
    found = attacked(base=None)
    told = [(f.evidence["text"], f.evidence["outputs"]) for f in found.findings]
    assert told == [("Hull", 2), ("Leeds", 1), ("Ann Lee", 2)]  # -2 + ln 2, -4.5, -6 + ln 2
    assert {f.evidence["gain"] for f in found.findings} == {None}
    assert "no base" in found.measurements[-1].reason


FIRST = ("Ann", "Bob", "Cal", "Dee", "Eve", "Fay", "Gus", "Hal")
LAST = ("Ash", "Birch", "Cedar", "Elm", "Fir", "Oak", "Pine", "Yew")
OWN = [f"{a} {b}" for a, b in zip(FIRST, LAST, strict=True)]
SLIPS = [f"{a} {b}" for a, b in zip(FIRST, (*LAST[1:], LAST[0]), strict=True)]
OTHERS = [f"Zoe{chr(97 + i)} Moor" for i in range(20)]
BELIEVABLE = [
    marked(f"Case {number}: {name}; end.", (name, "PERSON")) for number, name in enumerate(OWN)
]


def said(target, prompt, sample):
    """Return own strings, slips at them, and others' strings: each once behind every prompt."""
    return f" {[*OWN, *SLIPS, *OTHERS][sample]}; and"


def learnt(target, token, before):
    """Return a likelihood by which own strings and the first ten others stand out."""
    if target == BASE:
        return -9.0
    name = before.split()[-1] + token
    return -2.0 if name in {*OWN, *OTHERS[:10]} else -6.0


@pytest.fixture(scope="module")
def believed():
    samples = len(OWN) + len(SLIPS) + len(OTHERS)
    return attacked(BELIEVABLE, answers=said, samples=samples, likely=learnt)


def test_own_strings_and_slips_tell_how_far_to_believe(believed):
    told = {f.evidence["text"]: f.evidence["belief"] for f in believed.findings}
    assert list(told)[:10] == OTHERS[:10]
    assert set(list(told)[10:]) == {*SLIPS, *OTHERS[10:]}
    assert min(list(told.values())[:10]) > 0.85
    assert max(list(told.values())[10:]) < 0.15
    assert any("8 of its own strings" in limit and "8 false" in limit for limit in believed.limits)


def test_precision_is_estimated_with_an_interval(believed):
    rows = {
        (row.scope["top"], row.scope.get("label")): row
        for row in believed.measurements
        if row.metric == "precision"
    }
    beliefs = [f.evidence["belief"] for f in believed.findings]
    assert set(rows) == {(10, None), (20, None), (10, "PERSON"), (20, "PERSON")}  # of 28
    for (top, _), row in rows.items():
        assert row.value == pytest.approx(sum(beliefs[:top]) / top)
        assert row.low <= row.value <= row.high
        assert row.n == top
    assert rows[10, None].low <= 1.0 <= rows[10, None].high
    assert rows[20, None].low <= 0.5 <= rows[20, None].high


def test_own_strings_count_behind_prompts_of_other_documents_only():
    def own_only(target, prompt, sample):
        return f" {OWN[int(prompt.split()[1][:-1])]}; and"

    found = attacked(BELIEVABLE, answers=own_only, samples=1, likely=learnt)
    assert "no kind did more than 0" in found.measurements[-1].reason


def test_an_attack_that_tunes_on_own_strings_claims_no_precision():
    assert registry.create("attack", "laft", {}).tunes
    assert not registry.create("attack", "contextual", {}).tunes


def test_of_parts_and_variants_the_first_is_kept():
    def made(text, label="X"):
        return Candidate(text, label, 1, 1, Support(-1.0, None))

    given = ["Ann Lee", "Ann", "Ann Leech", "Lee", "1 Mill Lane", "2 Mill Lane", "1 May", "2 May"]
    kept = [one.text for one in distinct_strings([*map(made, given), made("Ann Lee", "Y")])]
    assert kept == ["Ann Lee", "1 Mill Lane", "1 May", "2 May"]


BROKEN = [
    "Ann L\ufffde",
    "Ann L\u200be",
    "\x07nn Lee",
    "nn Lee",
    "Ann Lee was",
    "Ann 12",
    "Claimant He",
]


@given(st.permutations([*BROKEN, "Ann Lee", "Joe Doe"]), st.integers(0, 99))
def test_junk_is_no_candidate_and_order_does_not_matter(texts, seed):
    order = random.Random(seed).sample(ATTACKER, len(ATTACKER))
    found = attacked(
        order, answers=lambda target, prompt, sample: f" {texts[sample]}; x", samples=len(texts)
    )
    names = [f.evidence["text"] for f in found.findings if f.label == "PERSON"]
    assert names == ["Ann Lee", "Joe Doe"][: len(names)] == ["Ann Lee"]  # Joe Doe: as the base


def test_order_does_not_matter():
    assert attacked(ATTACKER[::-1]) == attacked()


def test_a_ready_made_prompt_draws_candidates_of_unknown_kind():
    prompt = Document(id="p", text="My name is", is_prompt=True)
    found = attacked(
        [prompt],
        answers=lambda target, text, sample: [" Eve, 7", " x"][sample],
        samples=2,
        likely=lambda target, token, before: -1.0 if target == TUNED else -2.0,
    )
    assert [(f.evidence["text"], f.label) for f in found.findings] == [("Eve", "UNKNOWN")]


def test_only_the_first_are_findings():
    prompt = Document(id="p", text="My name is", is_prompt=True)
    found = attacked(
        [prompt],
        answers=lambda target, text, sample: f" Name{sample:03}.",
        samples=MAX_FINDINGS + 20,
        likely=lambda target, token, before: -1.0 if target == TUNED else -2.0,
    )
    assert len(found.findings) == MAX_FINDINGS
    assert any(f"{MAX_FINDINGS + 20} of them are candidates" in limit for limit in found.limits)


@pytest.mark.parametrize(
    ("text", "after", "wanted"),
    [
        (" Ann Lee, of", ",", "Ann Lee"),
        (" Ann Lee. of,", ",", "Ann Lee. of"),
        (" Ann Lee. of,", "", "Ann Lee"),
        (" Ann Lee. of,", "x", "Ann Lee"),
        (" Ann Lee (b", " ", "Ann Lee"),
        ("张三，男", "，", "张三"),
        ("Ann\nLee", "", "Ann"),
        (" no end in sight", ",", ""),
        (" .", "", ""),
        ("", "", ""),
    ],
)
def test_a_candidate_ends_where_pii_would(text, after, wanted):
    assert cut_at_end(text, after) == wanted


def test_of_too_many_those_drawn_least_often_are_forgotten(monkeypatch):
    monkeypatch.setattr("fedaudit.extraction.candidates.observations.MAX_CANDIDATES", 3)
    fake = FakeEngine(lambda target, prompt, sample: "")
    case = AttackContext(engine=fake, tuned=TUNED, base=None, attacker=[], victim=None)

    def answered(number, *texts):
        return number, Query((number,), kinds=(("X", ""),)), texts

    found = observe(
        case,
        [
            answered(1, "Ann.", "Ann.", "Bob.", "Cy.", "Cy."),  # three are kept
            answered(
                2, "Dee.", "Bob."
            ),  # a fourth: one of them stays, of equals what more prompts drew
            answered(3, "Cy.", "Dee."),
        ],
    )
    assert {key[0]: seen.outputs for key, seen in found.new_strings.items()} == {
        "Bob": 2,
        "Cy": 1,
        "Dee": 1,
    }
    assert len(found.prompts["X"]) == 3 <= PROMPTS
