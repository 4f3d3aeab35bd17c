"""Strings that the model was trained on: which are taken, and behind which prompts they count."""

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.learned import gain_scores, learned_rows
from fedaudit.extraction.positive_controls import MAX_KNOWN, places_of, positive_controls
from fedaudit.extraction.targets import build_target_set

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
NAMES = [f"N{a}{b} Q{b}{a}" for a in "abcdefghij" for b in "klmnopqrst"]


def marked(text, *strings, label="PERSON", group=""):
    spans = tuple(PiiSpan(text.index(s), text.index(s) + len(s), label) for s in strings)
    return Document(id=text, text=text, pii=tuple(sorted(spans)), group=group)


def case(attacker, victim, members=None, **fake):
    return AttackContext(
        engine=FakeEngine(lambda *_: "", **fake),
        tuned=TUNED,
        base=BASE,
        attacker=attacker,
        victim=victim,
        members=members or {},
    )


def test_they_are_of_the_victims_kinds_and_in_none_of_its_texts():
    own = [
        marked("Claimant: Tom Ray", "Tom Ray"),
        marked("In Hull", "Hull", label="PLACE"),
        marked("Heard by Ann Lee", "Ann Lee"),
    ]
    members = {"c2": [marked("Judge: Zoe Qux", "Zoe Qux")]}
    victim = [marked("Witness: Bob Fox, not ANN LEE", "Bob Fox")]
    found = positive_controls(case(own, victim, members), {"PERSON"})
    assert found.labels == {"Tom Ray": "PERSON", "Zoe Qux": "PERSON"}
    assert set(found.owners) == {"Tom Ray"}  # a member's string counts behind every prompt
    assert not positive_controls(case(own, None), {"PERSON"}).labels


def test_many_are_drawn_and_the_order_of_records_does_not_count():
    own = [marked(f"Claimant: {name}", name) for name in NAMES]
    victim = [marked("Witness: Bob Fox", "Bob Fox")]
    first = positive_controls(case(own, victim), {"PERSON"})
    assert len(first.labels) == MAX_KNOWN
    assert first == positive_controls(case(own[::-1], victim), {"PERSON"})


def test_a_prompt_that_only_its_own_record_has_does_not_count():
    own = [
        marked("Claimant: Tom Ray of Hull", "Tom Ray", group="case 1"),
        marked("The claimant is Tom Ray", "Tom Ray", group="case 1"),
        marked("Claimant: Kit Day of York", "Kit Day", group="case 2"),
    ]
    context = case(own, [marked("Witness: Bob Fox", "Bob Fox")])
    found = positive_controls(context, {"PERSON"})

    def prompt(text):
        return context.engine.tokenize([text])[0].ids

    assert not found.counts(prompt("The claimant is"), "Tom Ray")
    assert found.counts(prompt("The claimant is"), "Kit Day")
    assert found.counts(prompt("Claimant:"), "Tom Ray")  # another case's record has it too
    assert found.counts(prompt("The weather is"), "Tom Ray")  # no record has it


def test_what_training_made_likelier_scores_high_and_what_it_did_not_scores_as_chance():
    names, invented = NAMES[:12], [f"Z{name[1:]}" for name in NAMES]
    victim = [marked(f"Witness {i}: {name} came", name) for i, name in enumerate(names)]
    controls = [name for name in invented if name not in names]

    def learned(target, token, before):
        return 0.0 if target == TUNED and any(token.strip() in name for name in names) else -5.0

    def mean(likelihood):
        context = case([marked("Claimant: Tom Ray", "Tom Ray")], victim, likelihood=likelihood)
        scores = gain_scores(context, places_of(victim), controls)
        assert len(scores) == len(names)
        return sum(scores) / len(scores)

    assert mean(learned) > 3
    assert mean(lambda *_: -5.0) == 0  # all gains are equal: ties are not in a string's favour


def test_rows_name_each_kind_and_need_a_base():
    victim = [marked(f"Witness {i}: {name} came", name) for i, name in enumerate(NAMES[:5])]
    context = case([marked("Claimant: Tom Ray", "Tom Ray")], victim, likelihood=lambda *_: -5.0)
    targets = build_target_set(context)
    rows = list(learned_rows("contextual", context, targets, targets.labels))
    assert [(r.metric, r.scope["source"], r.n) for r in rows] == [
        ("gain_score", "tuned-not-base", 5),
        ("p_value", "tuned-not-base", 5),
        ("gain_score", "known", 1),
    ]
    assert rows[1].value == 1  # nothing gained: the least score, which every one reaches
