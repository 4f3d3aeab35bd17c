import pytest

from fedaudit import registry
from fedaudit.audit.candidates import SHOWN, cut, drawn
from fedaudit.audit.plan import Question
from fedaudit.engine.fake import FakeEngine
from fedaudit.interfaces import Case
from fedaudit.records import Document, PiiSpan, Target

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")


def marked(text, *pairs):
    spans = [PiiSpan(text.index(s), text.index(s) + len(s), label) for s, label in pairs]
    return Document(id=text[:20], text=text, pii=tuple(sorted(spans)))


ATTACKER = [
    marked("Claimant: Tom Ray; sued.", ("Tom Ray", "PERSON")),
    marked("He lives in York.", ("York", "ADDRESS")),
]
ANSWERS = {
    "Claimant:": [" Ann Lee; and", " Tom Ray; and", " Bob. Low; and", " Ann Lee; so", " no end"],
    "He lives in": [" Hull. He", " Leeds. He", " Hull. She", " .", " York. He"],
}
LIKELY = {" Hull": 3.0, " Leeds": 0.5, " Ann": 2.0, " Lee": 2.0, " Bob": -1.0}
"""How much likelier the tuned model finds a token."""


def answer(target, prompt, sample):
    return ANSWERS[prompt][sample]


def likelihood(target, token, before):
    return -5.0 + (LIKELY.get(token, 0.0) if target == TUNED else 0.0)


def attacked(attacker=ATTACKER, base=BASE, answers=answer, samples=5, **options):
    fake = FakeEngine(answers, likelihood=likelihood, **options)
    attack = registry.create("attack", "contextual", {"samples": samples})
    return attack.run(Case(engine=fake, tuned=TUNED, base=base, attacker=attacker, victim=None))


def test_candidates_are_ranked_by_gain():
    found = attacked()
    told = [(f.evidence["text"], f.label, f.evidence["outputs"]) for f in found.findings]
    assert told == [
        ("Ann Lee", "PERSON", 2),  # 2 + 2
        ("Hull", "ADDRESS", 2),  # 3
        ("Leeds", "ADDRESS", 1),  # 0.5
        ("Bob. Low", "PERSON", 1),  # -1: the end is what follows the attacker's PII, a semicolon
    ]
    gains = [f.evidence["log_likelihood_gain"] for f in found.findings]
    assert gains == pytest.approx([4, 3, 0.5, -1])
    assert {f.severity for f in found.findings} == {"unverified"}
    assert [f.id for f in found.findings] == [f"contextual-{i:04d}" for i in range(1, 5)]


def test_what_it_cannot_know_is_said():
    found = attacked()
    coverage, queries = found.measurements
    assert (coverage.metric, coverage.value) == ("coverage", None)
    assert "no --victim" in coverage.reason
    assert (queries.metric, queries.value) == ("queries", 10)
    assert any("cannot know which candidates are true" in limit for limit in found.limits)


def test_the_attackers_own_strings_are_no_candidates():
    told = {f.evidence["text"] for f in attacked().findings}
    assert not told & {"Tom Ray", "York"}


def test_the_plain_text_is_kept_for_reveal_only():
    found = attacked()
    assert [leak["text"] for leak in found.revealed] == [f.evidence["text"] for f in found.findings]
    assert [leak["id"] for leak in found.revealed] == [f.id for f in found.findings]


def test_without_a_base_the_commonest_come_first():
    found = attacked(base=None)
    told = [(f.evidence["text"], f.evidence["outputs"]) for f in found.findings]
    assert told == [("Ann Lee", 2), ("Hull", 2), ("Bob. Low", 1), ("Leeds", 1)]
    assert {f.evidence["log_likelihood_gain"] for f in found.findings} == {None}


def test_order_does_not_matter():
    assert attacked(ATTACKER[::-1]) == attacked()


def test_a_ready_made_prompt_draws_candidates_of_unknown_kind():
    prompt = Document(id="p", text="My name is", is_prompt=True)
    found = attacked(
        [prompt], answers=lambda target, text, sample: [" Eve, 7", " x"][sample], samples=2
    )
    assert [(f.evidence["text"], f.label) for f in found.findings] == [("Eve", "UNKNOWN")]


def test_only_the_first_are_findings():
    prompt = Document(id="p", text="My name is", is_prompt=True)
    found = attacked(
        [prompt], answers=lambda target, text, sample: f" Name{sample}.", samples=SHOWN + 20
    )
    assert len(found.findings) == SHOWN
    assert any(f"{SHOWN + 20} candidates" in limit for limit in found.limits)


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
    assert cut(text, after) == wanted


def test_of_too_many_those_drawn_least_often_are_forgotten(monkeypatch):
    monkeypatch.setattr("fedaudit.audit.candidates.KEPT", 3)
    fake = FakeEngine(lambda target, prompt, sample: "")
    case = Case(engine=fake, tuned=TUNED, base=None, attacker=[], victim=None)

    def answered(number, *texts):
        return number, Question((number,), kinds=(("X", ""),)), texts

    found = drawn(
        case,
        [
            answered(1, "Ann.", "Ann.", "Bob.", "Cy.", "Cy."),  # three are kept
            answered(2, "Dee.", "Bob."),  # a fourth: one of them stays, of equals the first
            answered(3, "Cy.", "Dee."),
        ],
    )
    assert {key[0]: seen.outputs for key, seen in found.items()} == {"Ann": 2, "Cy": 1, "Dee": 1}
