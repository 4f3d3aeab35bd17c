"""A claim or setting that was changed after a seed had been run is not judged on it."""

import json

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.records import Claim
from fedaudit.config.profile import parse
from fedaudit.reproduction.study_lock import claim_digests, lock, read, unjudged

CLAIM = {"id": "c", "source": "table 1", "statement": "more", "compare": ">", "right": 0.1}
VARIANTS = [
    {"name": "a", "pool": "both", "attacks": ["contextual"]},
    {"name": "a-5", "pool": "both", "attacks": ["contextual"], "simulate": {"seed": 5}},
    {"name": "b", "simulate": {"rounds": 3}},
]


def digests(settings=None, scale=None, variants=VARIANTS, variant="both", **claim):
    left = {"variant": variant, "metric": "coverage"}
    table = {
        "name": "p", "scale": {"nano": {"clients": 3, **(scale or {})}}, "study": variants,
        "claims": [{**CLAIM, "left": left, **claim}],
    }  # fmt: skip
    return claim_digests(parse(table), "nano", settings or {})["c"]


@pytest.mark.parametrize(
    "change",
    [
        {"right": 0.2},
        {"compare": ">="},
        {"margin": 0.1},
        {"paired": False, "something": True},
        {"variant": "a"},
        {"left": {"variant": "both", "metric": "coverage", "scope": {"set": "all"}}},
        {"settings": {"rounds": 4}},
        {"scale": {"clients": 4}},
        {"variants": [{**VARIANTS[0], "options": {"contextual": {"budget": 9}}}, *VARIANTS[1:]]},
        {"variants": [{**VARIANTS[0], "attacks": []}, *VARIANTS[1:]]},
    ],
)
def test_whatever_is_judged_changes_a_claims_digest(change):
    if change == {"variant": "a"}:  # one of two variants of the same settings: the same measurement
        assert digests(variant="a", right=0.3) != digests(variant="b", right=0.3)
        return
    assert digests(**change) != digests()


@pytest.mark.parametrize(
    "change",
    [
        {"statement": "more than by luck", "source": "figure 2"},
        {"margin": 0.0, "apart": True},
        {"settings": {"seed": 9, "device": "cpu", "workers": 2}},
        {"variants": [*VARIANTS[:2], {"name": "b", "simulate": {"rounds": 9}}]},
        {"variants": [*VARIANTS, {**VARIANTS[1], "name": "a-6", "simulate": {"seed": 6}}]},
        {"variants": [{**VARIANTS[0], "quick": True}, *VARIANTS[1:]]},
    ],
)
def test_words_seeds_other_variants_and_more_federations_do_not(change):
    assert digests(**change) == digests()


def test_a_seed_keeps_what_it_was_locked_with_and_others_get_todays(tmp_path):
    path = tmp_path / "lock-nano.json"
    assert lock(path, {"c": "old"}, [3, 4]) == {3: {"c": "old"}, 4: {"c": "old"}}
    assert lock(path, {"c": "new", "d": "new"}, [4, 5]) == {
        3: {"c": "old"}, 4: {"c": "old"}, 5: {"c": "new", "d": "new"},
    }  # fmt: skip
    assert list(json.loads(path.read_text())) == ["3", "4", "5"]


@pytest.mark.parametrize("text", ["[]", '{"x": {}}', '{"3": 4}', "no"])
def test_a_file_that_is_no_lock_is_refused(text, tmp_path):
    path = tmp_path / "lock-nano.json"
    path.write_text(text)
    with pytest.raises(InputError, match="lock"):
        read(path)


def test_a_claim_that_changed_or_came_later_is_open_on_the_seeds_before():
    claims = [
        Claim(id=name, source="s", statement="t", holds=holds, detail="0.5 > 0.1")
        for name, holds in (("c", True), ("d", False), ("e", None), ("same", False))
    ]
    today = dict.fromkeys(("c", "d", "e", "same"), "new")
    locked = {3: {"c": "old", "same": "new"}, 4: today}
    found = {claim.id: claim for claim in unjudged(claims, locked, today, [3, 4])}
    words = "changed after it had been locked for seed 3: other seeds can judge it"
    assert [found[name].holds for name in ("c", "d", "e", "same")] == [None, None, None, False]
    assert found["c"].detail == found["d"].detail == f"0.5 > 0.1; {words}"
    assert found["same"].detail == "0.5 > 0.1"
    assert unjudged(claims, locked, today, [4]) == claims
