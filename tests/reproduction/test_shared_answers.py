"""Audits of one federation share answers: fewer are asked for, and the numbers are the same."""

import math
import sqlite3
import stat
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from fedaudit.api.errors import InputError
from fedaudit.audit import preflight
from fedaudit.audit.session import run_audit
from fedaudit.cache.answers import FILE
from fedaudit.cache.engine import CachingEngine
from fedaudit.config.profile import Variant
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import controls, learned, positive_controls, prefix_attack
from fedaudit.report.redaction import Redactor
from fedaudit.reproduction.answers import open_answers, remove_answers
from fedaudit.reproduction.audits import audit_variant

ATTACKS = ("contextual", "verbatim", "membership")
BASE, TUNED = True, False


def variant(samples=3, **settings):
    options = {"contextual": {"samples": samples, "sweeps": False}}
    return Variant(**{"name": "v", "attacks": ATTACKS, "options": options, **settings})


def audited(place, config, variants, answers=None, *, whole=False):
    """Return the measurements of each variant."""
    share = partial(CachingEngine, cache=answers, whole=whole) if answers else None
    run = partial(run_audit, redactor=Redactor(bytes(32)), share=share)
    return [
        [row for report in audit_variant(one, place, config, run) for row in report.measurements]
        for one in variants
    ]


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    """Have audits score fewer texts beside the targets."""
    monkeypatch.setattr(learned, "MAX_TARGETS", 4)
    monkeypatch.setattr(positive_controls, "MAX_KNOWN", 4)
    monkeypatch.setattr(controls, "MAX_CONTROLS", 6)
    monkeypatch.setattr(prefix_attack, "CONTROLS", 12)


@pytest.fixture
def asked(monkeypatch):
    """Count the prompts that base (True) and tuned models continue, and the texts they score."""
    counts = Counter()

    def count(method, size):
        original = getattr(LocalEngine, method)

        def counted(self, target, questions, **options):
            counts[method, target.adapter is None] += size(questions)
            return original(self, target, questions, **options)

        monkeypatch.setattr(LocalEngine, method, counted)

    count("generate", len)
    count("score", len)
    count("token_statistics", len)
    count("score_groups", lambda groups: sum(map(len, groups)))
    return counts


def assert_same(rows, oracle):
    """Other batches round differently, which is all that may differ."""
    assert len(rows) == len(oracle)
    for row, other in zip(rows, oracle, strict=True):
        numbers = ("value", "low", "high", "chance", "baseline")
        bare = dict.fromkeys(numbers)
        assert replace(row, **bare) == replace(other, **bare)
        for name in numbers:
            left, right = getattr(row, name), getattr(other, name)
            assert (left is None) == (right is None), (row, name)
            assert left is None or math.isclose(left, right, rel_tol=1e-3, abs_tol=1e-5), (
                row,
                name,
            )


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.oracle)])
def test_each_question_is_asked_of_a_model_once(place, small, asked, monkeypatch, whole):
    """The oracle asks every question of every audit anew.

    Both rounds ask the base the same, as their prompts begin alike. The third audit asks its own
    prefixes more often, and all else as the second does.
    """
    monkeypatch.setattr(preflight, "_best", lambda scores, untold: untold)
    variants = [variant(round=1), variant(round=2), variant(round=2, samples=4)]
    oracle, counts = [], []
    for one in variants:
        asked.clear()
        oracle += audited(place, small, [one])
        counts.append(Counter(asked))
    asked.clear()
    with open_answers(place, small) as answers:
        found = audited(place, small, variants[:2], answers, whole=whole)
        first, second, third = counts
        for method in ("generate", "score", "score_groups"):
            assert first[method, BASE] == second[method, BASE] >= asked[method, BASE]
            assert asked[method, TUNED] <= first[method, TUNED] + second[method, TUNED]
        asked.clear()
        found += audited(place, small, variants[2:], answers, whole=whole)
        assert set(asked) == {("generate", BASE), ("generate", TUNED)}
        assert asked["generate", BASE] < third["generate", BASE]
        asked.clear()
        again = audited(place, small, variants[2:], answers, whole=whole)
    assert not asked
    assert again == found[2:]
    for rows, expected in zip(found, oracle, strict=True):
        assert_same(rows, expected)


def test_answers_are_kept_for_the_owner_alone_until_the_study_is_finished(place, small, asked):
    one = variant(attacks=("membership",), options={})
    with open_answers(place, small) as answers:
        [first] = audited(place, small, [one], answers)
    path = place.parents[1] / "answers" / place.name / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    asked.clear()
    with open_answers(place, small) as answers:
        assert audited(place, small, [one], answers) == [first]
    assert not asked
    remove_answers(place)
    assert not path.parent.exists()


@pytest.mark.parametrize("change", ["dtype", "federation", "code"])
def test_what_answers_depend_on_removes_them(place, small, monkeypatch, change):
    with open_answers(place, small) as answers:
        answers.add("identity", [b"question"], ["answer"], 1)
    with open_answers(place, small) as answers:
        assert answers.get("identity", [b"question"]) == ["answer"]
    config = small
    if change == "dtype":
        config = replace(small, dtype="bfloat16")
    elif change == "federation":
        manifest = place / "federation.json"
        manifest.write_text(manifest.read_text() + " ")
    else:
        monkeypatch.setattr("fedaudit.reproduction.answers.code_sha256", lambda: "other code")
    with open_answers(place, config) as answers:
        assert answers.get("identity", [b"question"]) == [None]


def test_answers_of_another_version_are_begun_anew(place, small):
    path = place.parents[1] / "answers" / place.name / FILE
    with open_answers(place, small) as answers:
        answers.add("identity", [b"question"], ["answer"], 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with open_answers(place, small) as answers:
        assert answers.get("identity", [b"question"]) == [None]


def test_files_of_the_users_among_the_answers_stay(place, small):
    path = place.parents[1] / "answers" / place.name / FILE
    with open_answers(place, small) as answers:
        answers.add("identity", [b"question"], ["answer"], 1)
    (path.parent / "notes.txt").write_text("mine")
    remove_answers(place)
    assert [one.name for one in path.parent.iterdir()] == ["notes.txt"]
    path.write_text("mine")
    with closing(sqlite3.connect(path.with_name("other"))) as connection:
        connection.execute("CREATE TABLE audit (name, value)")
        connection.commit()
    for content in (b"mine", path.with_name("other").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(InputError, match="move it away"):
            open_answers(place, small).__enter__()
        remove_answers(place)
        assert path.read_bytes() == content


def test_two_processes_do_not_share_answers(place, small):
    with open_answers(place, small) as answers:
        answers.add("identity", [b"question"], ["answer"], 1)
        with pytest.raises(InputError, match="Another process is asking the models"):
            open_answers(place, small).__enter__()
        remove_answers(place)
        assert answers.get("identity", [b"question"]) == ["answer"]
        assert (place.parents[1] / "answers" / place.name / FILE).exists()
