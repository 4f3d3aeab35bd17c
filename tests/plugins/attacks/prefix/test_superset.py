import pytest
import worked
from worked import row

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine


def attack(**options):
    return registry.create("attack", "superset", {"context": 3, "samples": 2, **options})


def asked(fake):
    return [
        (fake._text(request.prompt), request.samples)
        for target, request in fake.asked
        if target == worked.TUNED
    ]


def test_it_asks_every_distinct_end_once_the_most_frequent_first():
    fake = worked.engine()
    attack(new_tokens=7).run(worked.case(fake))
    assert asked(fake) == [
        (" claimant", 2),
        ("The claimant", 2),
        ("So the claimant", 2),
        ("; her friend", 2),
        (" the claimant", 2),
        (" her friend", 2),
        (" friend", 2),
    ]
    assert len(fake.asked) == 14
    assert {request.max_new_tokens for _, request in fake.asked} == {7}


def test_the_worked_example():
    found = attack().run(worked.case())
    # Ann Lee behind " claimant", Cy Ash behind "; her friend", Dee Fay behind " friend".
    assert {f.evidence["text"] for f in found.findings} == {"Ann Lee", "Cy Ash", "Dee Fay"}
    for source, hits in (("tuned", 3), ("base", 1), ("tuned-not-base", 2)):
        assert row(found, "coverage", source).value == hits / 5
        assert row(found, "efficiency", source).value == hits / 14
    assert row(found, "queries").value == 14


def test_all_contextual_prompts_are_among_its_own():
    prompts = []
    for name in ("contextual", "superset"):
        fake = worked.engine(prompt_starts={"bare": (), "bos": (999,)})
        made = registry.create("attack", name, {"context": 2, "samples": 1})
        made.run(worked.case(fake))
        prompts.append({request.prompt for _, request in fake.asked})
    assert prompts[0] < prompts[1]


def test_without_a_victim_it_lists_candidates():
    says = {" friend": " Dee Fay."}
    fake = worked.engine(
        lambda target, prompt, sample: says.get(prompt, "no end"),
        # What the base finds as likely is not a candidate.
        likelihood=lambda target, token, before: -2.0 if target == worked.TUNED else -5.0,
    )
    found = attack(new_tokens=5).run(worked.case(fake, victim=None))
    assert [(f.evidence["text"], f.label) for f in found.findings] == [("Dee Fay", "FRIEND")]
    assert row(found, "queries").value == 14


# what cannot be measured


def test_a_victim_without_pii_of_its_own_is_null_with_a_reason_and_asks_nothing():
    for victim in ([], [Document(id="x", text="nothing", pii=())], [worked.ATTACKER[0]]):
        fake = worked.engine()
        found = attack().run(worked.case(fake, victim=victim))
        [only] = found.measurements
        assert (only.value, only.reason) == (None, "the victim has no PII of its own")
        assert fake.asked == []


@pytest.mark.parametrize("documents", [[], [Document(id="d", text="no PII", pii=())]])
def test_nothing_to_ask_is_a_wrong_input(documents):
    with pytest.raises(InputError, match="nothing to ask") as error:
        attack().run(worked.case(FakeEngine(worked.answer), attacker=documents))
    assert error.value.exit_code == 3


# kinds


def test_only_some_kinds_are_asked_for_and_looked_for():
    fake = worked.engine()
    found = attack(labels="FRIEND").run(worked.case(fake))
    assert {prompt for prompt, _ in asked(fake)} == {"; her friend", " her friend", " friend"}
    coverage = row(found, "coverage")
    assert (coverage.hits, coverage.n) == (2, 2)


def test_a_kind_that_nobody_has_is_named():
    with pytest.raises(UsageError, match=r"'FRIENDS'.*Did you mean 'FRIEND'") as error:
        attack(labels="FRIENDS").run(worked.case())
    assert error.value.exit_code == 2


def test_a_kind_that_only_one_party_has_cannot_be_measured():
    sick = worked.marked("She has asthma.", ("asthma", "DIAGNOSIS"))
    with pytest.raises(InputError, match="nothing to ask"):
        attack(labels="DIAGNOSIS").run(worked.case(victim=[sick]))
    found = attack(labels="DIAGNOSIS").run(worked.case(attacker=[*worked.ATTACKER, sick]))
    only, *unasked = found.measurements
    assert only.reason == "the victim has no PII of the chosen kinds of its own"
    assert {row.scope["set"] for row in unasked} == {"unasked"}
