import pytest
import worked
from worked import row

from fedaudit.api.errors import InputError
from fedaudit.config import registry

ORDER = (" claimant", "The claimant", "So the claimant", "; her friend", " the claimant")

SAID = (
    "frequency: {} of {} sub-prefixes with a count of at least {} were asked, down to a count of "
    "{}."
)


def attack(**options):
    return registry.create("attack", "frequency", {"context": 3, "samples": 2, **options})


def asked(**options):
    """Return the tuned model's prompts, in order, and what the attack has to say of them."""
    fake = worked.engine()
    found = attack(**options).run(worked.case(fake))
    prompts = [fake._text(p.prompt) for target, p in fake.asked if target == worked.TUNED]
    return tuple(prompts), found.limits[0]


def test_only_what_is_frequent_enough_is_asked():
    assert asked() == (
        ORDER[:2],
        SAID.format(2, 2, 2, 2),
    )
    assert asked(minimum=3)[0] == ORDER[:1]
    assert len(asked(minimum=1)[0]) == 7


def test_a_budget_takes_the_first_ones():
    assert asked(minimum=1, budget=5) == (
        ORDER,
        SAID.format(5, 7, 1, 1),
    )
    assert asked(minimum=2, budget=1)[0] == ORDER[:1]


def test_a_budget_larger_than_the_set_takes_the_set_and_says_so():
    prompts, said = asked(budget=10_000)
    assert prompts == ORDER[:2]
    assert said == (
        "frequency: the budget of 10,000 prefixes is larger than the set; all 2 sub-prefixes "
        "with a count of at least 2 were asked."
    )


def test_the_worked_example():
    found = attack(minimum=1, budget=5).run(worked.case())
    # Ann Lee behind " claimant", Cy Ash behind "; her friend".
    assert {f.evidence["text"] for f in found.findings} == {"Ann Lee", "Cy Ash"}
    assert row(found, "coverage").value == 2 / 5
    assert row(found, "efficiency").value == 2 / 10
    assert row(found, "coverage", "tuned-not-base").value == 1 / 5


def test_a_budget_is_what_the_sweep_of_the_superset_has_there():
    superset = registry.create("attack", "superset", {"context": 3, "samples": 2})
    swept = superset.run(worked.case())
    for budget in (1, 2, 5):
        found = attack(minimum=1, budget=budget).run(worked.case())
        for metric in ("coverage", "efficiency"):
            whole, part = row(found, metric), row(swept, metric, budget=budget, samples=2)
            assert (whole.value, whole.hits, whole.n) == (part.value, part.hits, part.n)


def test_none_frequent_enough_is_said_with_the_most_frequent():
    with pytest.raises(InputError, match="count of 4 or more: of 7, the most frequent has 3"):
        attack(minimum=4).run(worked.case())


def test_no_pii_at_all_is_a_wrong_input():
    with pytest.raises(InputError, match="nothing to ask"):
        attack().run(worked.case(attacker=[worked.ATTACKER[0].annotated(())]))
