"""Controls are as likely as what they are compared with, whether the base is fluent or not."""

import statistics

import pytest

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import query_plan
from fedaudit.extraction.base_likelihood import log_likelihoods
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.extraction.significance import WIDTH, LeakEvidence
from fedaudit.extraction.targets import build_target_set
from fedaudit.nano.generator import corpus


def records(seed, cases):
    """Return records of the kind that the base writes itself."""
    return list(
        corpus(cases=cases, documents_per_case=4, seed=seed, languages=("en",), domains=("legal",))
    )


def strange(seed, count):
    """Return records with names that the base has hardly seen the like of."""
    from faker import Faker

    fake = Faker("lt_LT")
    fake.seed_instance(seed)
    names = [fake.name() for _ in range(count)]
    texts = [f"The application was lodged by Mr {name}, a Lithuanian national." for name in names]
    return [
        Document(
            id=f"s{n}",
            text=text,
            pii=(PiiSpan(text.index(name), text.index(name) + len(name), "PERSON"),),
        )
        for n, (name, text) in enumerate(zip(names, texts, strict=True))
    ]


def trial(base, attacker, victim):
    """Return targets and controls with their likelihoods, nothing said yet."""
    engine = LocalEngine(base)
    case = AttackContext(
        engine=engine,
        tuned=Target(name="tuned"),
        base=Target(name="base"),
        attacker=attacker,
        victim=victim,
    )
    wanted = build_target_set(case, most=800)
    asked = query_plan.plan_by_frequency(case, pii_occurrences(engine, attacker, 30))
    targets = {string: wanted.labels[string] for string in wanted.exclusive}
    known = log_likelihoods(case, asked, {**targets, **wanted.controls})
    return LeakEvidence(
        targets=targets,
        controls=wanted.controls,
        gained={},
        strength={},
        likelihood=known,
        base_chance={},
        outputs=1,
        seed=0,
    )


@pytest.fixture(scope="module")
def trials(base):
    return {
        "fluent": trial(base, records(1, 3), records(2, 3)),
        "strange": trial(base, strange(1, 12), strange(2, 12)),
    }


@pytest.mark.parametrize("kind", ["fluent", "strange"])
def test_controls_are_as_likely_as_their_targets(trials, kind):
    found = trials[kind]
    names = [string for string, label in found.targets.items() if label == "PERSON"]
    assert len(names) >= 4
    # Nearly everything has controls that the base finds about as likely.
    assert found.matched >= 0.8 * len(found.targets)
    for targets, controls in found.strata.values():
        own = statistics.fmean(found.likelihood[one] for one in targets)
        others = statistics.fmean(found.likelihood[one] for one in controls)
        assert abs(own - others) <= WIDTH


def test_names_are_not_matched_with_what_is_far_likelier(trials):
    found = trials["strange"]
    easy = {string: value for string, value in found.likelihood.items() if string in found.controls}
    likeliest = max(found.likelihood[one] for one in found.targets)
    # Invented people of the base's own kind are likelier than any of these names by far ...
    assert max(easy.values()) > likeliest + WIDTH
    # ... and are compared with none of them.
    compared = {one for _, controls in found.strata.values() for one in controls}
    assert max(easy[one] for one in compared) <= likeliest + WIDTH
