"""Commitments to keys: what they bind, and that no key tried afterwards accuses anybody."""

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from fedaudit_plugins.watermarks.kgw import textseal
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Mark, Score
from fedaudit.attribution import report
from fedaudit.attribution.decision.decision import decide
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.federation import commitments
from fedaudit.federation.commitments import Commitment, Commitments
from fedaudit.report.verdict.policy import verdict
from fedaudit.system.files import sha256

CLIENTS = tuple(f"c{at}" for at in range(10))
ROUNDS, SAID, GAMMA = 3, 120, 0.25
EARLY, MIDDLE, LATE = (f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3))


def mark(key, name="m0", **changes):
    secret = {"key": key, "prompts": [[1, 2, 3], [4]]}
    made = Mark(id=name, name="kgw", options={}, secret=secret, salt="5a" * 32)
    return replace(made, **changes)


def digest(one):
    return commitments.digest(one, commitment.settings_of(one))


def test_a_commitment_is_the_hash_of_one_text():
    one = Mark(id="m", name="p", options={}, secret={"b": [1, "é"], "a": 0.5}, salt="00")
    text = (
        '{"id":"m","plugin":"p","salt":"00","scheme":"fedaudit mark 1",'
        '"secret":{"a":0.5,"b":[1,"é"]},"settings":{"x":[2]}}'
    )
    assert commitments.digest(one, {"x": (2,)}) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        mark(8),
        mark(7, "m1"),
        mark(7, salt="5b" * 32),
        mark(7, options={"nulls": 0}),
        mark(7, secret={"key": 7, "prompts": [[1, 2, 3], [5]]}),
    ],
)
def test_every_part_of_a_mark_is_bound(other):
    assert digest(other) != digest(mark(7))


def test_settings_count_as_the_plugin_has_them():
    assert digest(mark(7, options={"nulls": 256, "gamma": 0.25})) == digest(mark(7))


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=4))
def test_the_order_of_a_secret_does_not_matter(secret):
    turned = dict(reversed(secret.items()))
    one, two = (Mark(id="m", name="p", options={}, secret=s, salt="1") for s in (secret, turned))
    assert commitments.digest(one, {}) == commitments.digest(two, {})


def test_without_a_salt_there_is_no_commitment():
    with pytest.raises(ValueError, match="no salt"):
        digest(mark(7, salt=""))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "must hold a JSON object"),
        ({"commitments": []}, "holds no commitments"),
        ({"commitments": [3]}, "takes Commitment, not 3"),
        ({"commitments": [{"id": "a"}]}, "plugin and sha256 are missing"),
        ({"commitments": [{"id": "a", "plugin": "kgw", "sha256": "12"}]}, "is not a SHA-256"),
        ({"commitments": [{"id": "../a", "plugin": "k", "sha256": "0" * 64}]}, "cannot name"),
        ({"commitments": [{"id": "a", "plugin": "k", "sha256": "0" * 64}] * 2}, "two commitments"),
        (
            {"made": "today", "commitments": [{"id": "a", "plugin": "k", "sha256": "0" * 64}]},
            "not a time",
        ),
        ({"schema_version": "2.0"}, "schema version 2.0"),
    ],
)
def test_broken_files_of_commitments(tmp_path, table, says):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InputError) as error:
        commitments.read(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


# no mark at all, and somebody who tries keys


def answers():
    """Return the n-grams that the models of a federation say, by round and model; no mark."""
    drawn = np.random.default_rng(4).integers(0, 5000, (ROUNDS, len(CLIENTS) + 1, SAID, 2))
    return drawn.astype(np.int64)


def z_of(said, key):
    """Return kgw's z of every round and model under a key, (rounds, models)."""
    green = textseal.hash_tokens(said[..., :1], said[..., 1], key) < textseal.limit(GAMMA)
    found = (green.sum(-1) - GAMMA * SAID) / math.sqrt(SAID * GAMMA * (1 - GAMMA))
    found[:, 0] = 0.0  # the global model says nothing that counts: so Z is standard normal
    return found


def combined(z):
    """Return each client's Z: differences from the global model's, over the root of the rounds."""
    return (z[:, 1:] - z[:, :1]).sum(0) / math.sqrt(ROUNDS)


def scores_of(said, keys, published=()):
    """Return the scores of marks m0, m1, ... with those keys, as their owner's file gives them."""
    marks = [mark(int(key), f"m{at}") for at, key in enumerate(keys)]
    z = {one.id: z_of(said, one.secret["key"]) for one in marks}

    def test(one, number, model):
        value = float(z[one.id][number, model])
        return Score(z=value, p_value=0.5, n=SAID, hits=0, chance=GAMMA)

    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=CLIENTS,
        marks={one.id: "kgw" for one in marks},
        commitments=commitment.commitment_digests(marks),
        asked=MIDDLE,
        dimension=8,
        rounds=tuple(
            RoundScores(
                round=number + 1,
                reference={one.id: test(one, number, 0) for one in marks},
                clients={
                    who: {one.id: test(one, number, at + 1) for one in marks}
                    for at, who in enumerate(CLIENTS)
                },
                strength=dict.fromkeys(CLIENTS, 0.8),
                effective=dict.fromkeys(CLIENTS, 5.0),
            )
            for number in range(ROUNDS)
        ),
    )


def decided(scores, folder, published=None, made=EARLY, federations=2, alpha=0.01):
    """Return the report of a decision, with `published` commitments required."""
    (folder / "scores.json").write_text("{}")
    path = None
    if published is not None:
        path = folder / "public.json"
        commitments.write(Commitments(made=made, commitments=tuple(published)), path)
    return report.decided_report(
        scores,
        folder / "scores.json",
        threshold=4.0,
        alpha=alpha,
        start_time=datetime.now(UTC),
        commitments=path,
        federations=federations,
    ).to_json()


@pytest.fixture(scope="module")
def framing():
    """Return what was said, and every key of 10,000 by which somebody's Z is above 4."""
    said = answers()
    return said, [key for key in range(1, 10_001) if combined(z_of(said, key)).max() > 4]


def test_of_10_000_keys_some_accuse_somebody_and_none_where_commitments_are_required(
    framing, tmp_path
):
    said, keys = framing
    assert len(keys) > 1  # 10 clients x 10,000 keys; one in 31,574 of a standard normal Z
    own = public(("m0", 0))  # the honest owner published another mark's
    path = tmp_path / "own.json"
    commitments.write(Commitments(made=EARLY, commitments=tuple(own)), path)
    for key in keys:
        scores = scores_of(said, [key])
        first = decide(scores)
        assert first.flagged
        assert not commitment.withhold_uncommitted(
            first, commitment.check_commitments(scores, path)
        ).flagged
    for key in keys[:2]:
        scores = scores_of(said, [key])
        bare = decided(scores, tmp_path)
        assert bare["verdict"]["status"] == "fail"
        assert any("no commitments were given" in limit for limit in bare["limits"])
        assert any("can find one that accuses anybody" in limit for limit in bare["limits"])
        bound = decided(scores, tmp_path, own)
        assert bound["verdict"]["status"] == "inconclusive"
        assert (
            "mark m0 has no matching commitment published beforehand"
            in bound["verdict"]["reasons"][0]
        )
        assert bound["findings"] == []
        assert any("mark m0 is uncommitted" in limit for limit in bound["limits"])


def commitment_of(one):
    return commitments.commitment(one, commitment.settings_of(one))


def test_who_publishes_5_000_keys_and_opens_one_accuses_nobody(framing, tmp_path):
    said, keys = framing
    best = max(keys, key=lambda key: combined(z_of(said, key)).max())
    scores = scores_of(said, [best])
    others = [Commitment(id=f"x{n}", plugin="kgw", sha256=f"{n:064x}") for n in range(4999)]
    own = commitment_of(mark(best))
    alone = decided(scores, tmp_path, [own])
    assert alone["verdict"]["status"] == "fail"
    many = decided(scores, tmp_path, [own, *others])
    assert many["verdict"]["status"] == "inconclusive"
    assert many["findings"] == []
    assert any("4999 of 5000 published commitments were not opened" in x for x in many["limits"])
    [adjusted] = [
        row["value"]
        for row in many["measurements"]
        if row["scope"].get("adjusted") == "holm"
        and row["scope"]["client"] == flagged_client(alone)
    ]
    p = math.erfc(float(combined(z_of(said, best)).max()) / math.sqrt(2)) / 2
    assert adjusted == pytest.approx(min(1.0, p * 10 * 5000))


def flagged_client(report):
    [finding] = report["findings"]
    return finding["evidence"]["client"]


def measured(z, marks=("m0",), clients=("a", "b")):
    """Return scores whose Z is `z` by (client, mark), in one round."""
    test = {"p_value": 0.5, "n": 1, "hits": 0, "chance": 0.5}
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=clients,
        marks=dict.fromkeys(marks, "kgw"),
        commitments={one: f"{at:064x}" for at, one in enumerate(marks)},
        asked=MIDDLE,
        dimension=8,
        rounds=(
            RoundScores(
                round=1,
                reference={one: Score(z=0.0, **test) for one in marks},
                clients={
                    w: {m: Score(z=z.get((w, m), 0.0), **test) for m in marks} for w in clients
                },
            ),
        ),
    )


def public(*known):
    return [Commitment(id=name, plugin="kgw", sha256=f"{at:064x}") for name, at in known]


def test_a_committed_mark_still_accuses_beside_one_that_is_not(tmp_path):
    scores = measured({("a", "m0"): 7.0, ("b", "m1"): 9.0}, marks=("m0", "m1"))
    report = decided(scores, tmp_path, public(("m0", 0), ("m1", 7)))
    assert report["verdict"]["status"] == "fail"
    assert [one["evidence"]["client"] for one in report["findings"]] == ["a"]
    rows = {
        (row["scope"]["client"], row["scope"]["mark"]): row["baseline"]
        for row in report["measurements"]
        if row["plugin"] == "fed_attr"
        and row["metric"] == "stouffer_z"
        and set(row["scope"]) == {"client", "mark"}
    }
    assert rows == {("a", "m0"): 4.0, ("b", "m1"): None}
    told = {
        row["scope"]["mark"]: row["value"]
        for row in report["measurements"]
        if row["metric"] == "committed"
    }
    assert told == {"m0": 1.0, "m1": 0.0}


def test_an_uncommitted_mark_leaves_no_pass(tmp_path):
    quiet = measured({}, marks=("m0", "m1"))
    both = public(("m0", 0), ("m1", 1))
    for published, says in (
        (None, "a client with a mark of the usual strength (Z "),
        (both, "a client with a mark of the usual strength (Z "),
        (both[:1], "mark m1 has no matching commitment"),
    ):
        [reason] = decided(quiet, tmp_path, published)["verdict"]["reasons"]
        assert says in reason
    assert decided(quiet, tmp_path, both[:1])["verdict"]["status"] == "inconclusive"


def test_commitments_of_other_marks_only_are_refused(tmp_path):
    with pytest.raises(InputError, match="no commitment of any of the marks that are tested: m0"):
        decided(measured({}), tmp_path, public(("other", 0)))


def test_unopened_commitments_count_as_tests_of_every_client(tmp_path):
    # p of Z 4.5 is 3.4e-6. With 2 clients and u unopened commitments it is multiplied by 2 (1 + u):
    # 1,400 others make it 0.0095, and 1,500 make it 0.0102.
    scores = measured({("a", "m0"): 4.5})
    names = [("m0", 0), *((f"x{n}", n + 1) for n in range(1500))]
    assert decided(scores, tmp_path, public(*names[:1401]))["verdict"]["status"] == "fail"
    found = decided(scores, tmp_path, public(*names))
    assert found["verdict"]["status"] == "inconclusive"
    assert found["findings"] == []


def test_the_report_says_what_is_found_beside_commitments_that_nobody_opened(tmp_path):
    scores = measured({("a", "m0"): 20.0})
    names = [("m0", 0), *((f"x{n}", n + 1) for n in range(1000))]
    told = []
    for published in (public(*names[:1]), public(*names)):
        report = decided(scores, tmp_path, published, federations=20, alpha=1e-4)
        found = {
            row["scope"]["strength"]: row["value"]
            for row in report["measurements"]
            if row["metric"] == "marked_found"
        }
        told.append(found[6.0])
    # Z 4 is needed, and 5.33 where p must be 0.0001 / 2,002.
    assert told[0] > told[1] + 0.2


@pytest.mark.parametrize(
    ("made", "trained", "asked", "says"),
    [
        ("", "", MIDDLE, "do not say when they were made; whether that was before the first round"),
        (
            EARLY,
            "",
            MIDDLE,
            "; whether that was before the first round is unknown: no entry of the",
        ),
        (EARLY, "", "", "is unknown: no entry of the server's ledger"),
        ("", EARLY, MIDDLE, "is unknown: no entry of the server's ledger"),
        (
            EARLY,
            MIDDLE,
            LATE,
            f", before the first round began ({MIDDLE}, as the estimates say)",
        ),
        (MIDDLE, MIDDLE, LATE, f", NOT before the first round began ({MIDDLE}, as the estimates s"),
        (LATE, MIDDLE, "", f", NOT before the first round began ({MIDDLE}, as the estimates say)"),
        (LATE, "", MIDDLE, f", NOT before the first sum was asked for ({MIDDLE}, as the estimates"),
        (f"{MIDDLE[:11]}01:00:00+02:00", MIDDLE, LATE, ", before the first round began ("),
    ],
)
@pytest.mark.parametrize("noted", [False, True])
def test_commitments_are_of_before_training_only_against_the_servers_times(
    tmp_path, made, trained, asked, says, noted
):
    path = tmp_path / "c.json"
    commitments.write(Commitments(made=made, commitments=tuple(public(("m0", 0)))), path)
    scores = replace(
        measured({}), asked=asked, trained=trained, noted=sha256(path) if noted else ""
    )
    status = commitment.check_commitments(scores, path)
    told = " ".join(commitment.key_caveats(scores, status, opened=True))
    assert says.partition(": no entry")[0] in told if noted else says in told
    late, before = ", NOT before" in says, ", before" in says
    assert ("only the file itself vouches for its time" in told) == (before and not noted)
    assert bool(status.late) == late
    # What the ledger has says that the keys were not chosen by answers; not when they were made.
    assert ("has this very file from the first sum on" in told) == (noted and not late)
    compared = made and (trained or asked)
    assert status.committed == ({"m0"} if not late and (compared or noted) else frozenset())


@pytest.mark.parametrize(
    ("made", "status"),
    [
        ("2026-01-01T23:59:59+00:00", "fail"),
        ("2026-01-02T00:00:00+00:00", "inconclusive"),
        ("2031-01-01T00:00:00+00:00", "inconclusive"),
    ],
)
def test_commitments_that_say_that_they_are_late_bind_nothing(tmp_path, made, status):
    scores = replace(measured({("a", "m0"): 9.0}), asked="2026-01-02T00:00:00+00:00")
    own = [*public(("m0", 0)), *public(("x", 1))]
    report = decided(scores, tmp_path, own, made=made)
    assert report["verdict"]["status"] == status
    assert bool(report["findings"]) == (status == "fail")
    values = {row["metric"]: row["value"] for row in report["measurements"]}
    assert (values["committed"], values["unopened"]) == (float(status == "fail"), 1.0)
    reason = "mark m0 is uncommitted: the published commitments say that they were made at"
    assert any(reason in limit for limit in report["limits"]) == (status == "inconclusive")


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize(
    ("made", "asked", "says"),
    [
        ("", MIDDLE, "the published commitments do not say when they were made"),
        ("", "", "the published commitments do not say when they were made"),
        (EARLY, "", "the scores say neither when the first round began nor when the first sum was"),
    ],
)
def test_commitments_without_a_time_flag_only_where_the_server_noted_them(
    tmp_path, made, asked, says, noted
):
    # Who deletes the time of a late file must not be better off.
    own = Commitments(made=made, commitments=tuple(public(("m0", 0))))
    commitments.write(own, tmp_path / "public.json")
    scores = replace(
        measured({("a", "m0"): 9.0}),
        asked=asked,
        noted=sha256(tmp_path / "public.json") if noted else "",
    )
    report = decided(scores, tmp_path, own.commitments, made=made)
    assert report["verdict"]["status"] == ("fail" if noted else "inconclusive")
    assert bool(report["findings"]) == noted
    reason = f"mark m0 is uncommitted: {says}"
    assert any(limit.startswith(reason) for limit in report["limits"]) != noted


def test_nothing_changes_where_all_is_committed_and_opened(tmp_path):
    scores = measured({("a", "m0"): 5.0, ("b", "m0"): -1.0})
    path = tmp_path / "c.json"
    commitments.write(Commitments(made=EARLY, commitments=tuple(public(("m0", 0)))), path)
    first = decide(scores)
    held = commitment.check_commitments(scores, path)
    assert commitment.withhold_uncommitted(first, held) == first
    assert commitment.withhold_uncommitted(first, None) is first


def test_the_verdict_goes_by_the_rows(tmp_path):
    scores = measured({("a", "m0"): 9.0})
    report = decided(scores, tmp_path, public(("m0", 5)))
    from fedaudit.report.verdict.recheck import judged_rows

    assert verdict(*judged_rows(report))["status"] == report["verdict"]["status"] == "inconclusive"


def test_commitments_other_than_those_that_the_server_noted_flag_nobody(tmp_path):
    own = Commitments(made=EARLY, commitments=tuple(public(("m0", 0))))
    commitments.write(own, tmp_path / "public.json")
    scores = replace(measured({("a", "m0"): 9.0}), asked=MIDDLE)
    assert decided(scores, tmp_path, own.commitments, made=EARLY)["verdict"]["status"] == "fail"
    another = replace(scores, noted="0" * 64)
    report = decided(another, tmp_path, own.commitments, made=EARLY)
    assert (report["verdict"]["status"], report["findings"]) == ("inconclusive", [])
    reason = "mark m0 is uncommitted: the server noted another file of commitments"
    assert any(limit.startswith(reason) for limit in report["limits"])
