"""What the shipped profiles come to: a changed variant, claim or figure shows up by its name.

After a change that is meant: `pytest tests/config/test_profile_golden.py --update-golden`, and a
look at the diff of tests/golden/profiles/, which names what changed.
"""

import hashlib
import json
from dataclasses import asdict

import pytest

from fedaudit.config import profile


def digest(part):
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:12]


def listed(chosen):
    """Return a line for each part of a profile, in its order: a hash and its name."""
    lines = [f"profile {chosen.name}: {chosen.title}; {chosen.paper}"]
    lines += [f"{digest(chosen.settings(name))} scale {name}" for name in chosen.scale]
    lines += [f"{digest(asdict(one))} variant {one.name}" for one in chosen.study]
    lines += [f"{digest(asdict(one))} claim {one.id}" for one in chosen.claims]
    lines += [f"{digest(asdict(one))} figure {one.source}: {one.what}" for one in chosen.figures]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", profile.shipped_profiles())
def test_a_shipped_profile_comes_to_what_it_came_to(name, golden):
    golden(f"profiles/{name}.txt", listed(profile.load(name)))


def test_every_setting_counts():
    table = {"name": "x", "scale": {"nano": {"clients": 2}}, "study": [{"name": "a"}]}
    figure = {"source": "table 1", "what": "b", "metric": "m", "value": 0.5}
    before = listed(profile.parse({**table, "figures": [figure]})).splitlines()
    after = listed(
        profile.parse(
            {
                **table,
                "study": [{"name": "a", "scale": {"nano": {"rounds": 3}}}],
                "figures": [{**figure, "value": 0.51}],
            }
        )
    ).splitlines()
    changed = [line for line, old in zip(after, before, strict=True) if line != old]
    assert [line.split(" ", 1)[1] for line in changed] == ["variant a", "figure table 1: b"]
