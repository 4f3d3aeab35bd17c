"""The ledger: one design a round, what was released together, and every way to change it."""

import json
import math
import shutil
import stat
from dataclasses import replace

import example_report
import handmade
import pytest

from fedaudit.api.errors import InputError
from fedaudit.attribution.decision.known_designs import read_log
from fedaudit.attribution.server import estimation, ledger, sum_plan, sums_log
from fedaudit.federation.folder import open_federation
from fedaudit.system.files import sha256

SMALL = {"others": 3, "pairs": 2, "threshold": 3}


def plan(place, **protocol_config):
    return sum_plan.draw_sum_plan(
        open_federation(place), sum_plan.ProtocolConfig(**{**SMALL, "seed": 4, **protocol_config})
    )


def asked(place, out, **protocol_config):
    return estimation.estimate(plan(place, **protocol_config), out, out.with_suffix(".log.json"))[0]


@pytest.fixture
def fed(tmp_path):
    return handmade.write(tmp_path / "fed").path


def whole(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_every_round_that_was_asked_for_is_an_entry(fed, tmp_path):
    asked(fed, tmp_path / "est")
    assert stat.S_IMODE((fed / ledger.NAME).stat().st_mode) == 0o600
    one, two = ledger.read(fed)
    assert (one.round, two.round) == (1, 2)
    assert (one.others, one.pairs, one.threshold, one.sums) == (3, 2, 3, 2 * 2 * 6)
    assert (one.previous, two.previous) == ("", one.hash)
    assert one.exposure["smallest"] == 3
    assert one.design != two.design
    logged = json.loads((tmp_path / "est.log.json").read_text())["rounds"]
    assert [entry["ledger"] for entry in logged] == [one.hash, two.hash]
    told = (fed / ledger.NAME).read_text()
    assert '"include"' not in told
    assert sorted(p.name for p in fed.iterdir()) == ["federation.json", ledger.NAME, "rounds"]


def test_another_design_of_a_round_is_refused_before_anything_is_written(fed, tmp_path):
    asked(fed, tmp_path / "est")
    before = whole(tmp_path)
    for protocol_config in ({"seed": 5}, {"pairs": 3}, {"others": 4, "seed": 4}):
        with pytest.raises(InputError, match="Round 1 was already asked for with other sets"):
            asked(fed, tmp_path / "second", **protocol_config)
    assert whole(tmp_path) == before


def test_three_releases_are_one(fed, tmp_path):
    """Every way to ask again gives the same estimates or none: no new equation of the updates."""
    first = asked(fed, tmp_path / "est0")
    for again in (1, 2):
        with pytest.raises(InputError, match="already asked for with other sets"):
            asked(fed, tmp_path / f"est{again}", seed=4 + again)
        found = asked(fed, tmp_path / f"est{again}")
        assert found.rounds == first.rounds
        assert found.files == first.files  # SHA-256 of every adapter
    assert len(ledger.read(fed)) == 2


def test_a_round_may_come_later_and_only_new_ones_are_entered(fed, tmp_path):
    asked(fed, tmp_path / "est", rounds=(2,), seed=9)
    asked(fed, tmp_path / "est", rounds=(1,), seed=3)
    assert [one.round for one in ledger.read(fed)] == [2, 1]


def test_what_is_interrupted_goes_on_with_the_sets_of_then(fed, tmp_path, monkeypatch):
    out, log = tmp_path / "est", tmp_path / "est.log.json"

    def killed(*_):
        raise KeyboardInterrupt

    for stage in ("_append_to_ledger", "_estimate_round"):
        with monkeypatch.context() as patched:
            patched.setattr(estimation, stage, killed)
            with pytest.raises(KeyboardInterrupt):
                asked(fed, out)
        run = estimation.identity(open_federation(fed))
        other = plan(fed, seed=77)
        resumed = ledger.resume_plan(other, sums_log.read(log, run))
        assert resumed.designs[1] == plan(fed).designs[1] != other.designs[1]
        assert resumed.designs[2] == other.designs[2]
    estimation.estimate(resumed, out, log)
    assert [one["round"] for one in sums_log.read(log, run)] == [1, 2]
    assert len(ledger.read(fed)) == 2


def test_bounds_of_rounds_add_up_and_a_round_counts_once(fed, tmp_path):
    asked(fed, tmp_path / "est")
    asked(fed, tmp_path / "again")
    entries = ledger.read(fed)
    # An update has 2 * 4 + 4 * 2 numbers: 8 log2(1 + 1 / rho) bits a round.
    for who, bits in ledger.composed_leakage(entries).items():
        by_hand = sum(8 * math.log2(1 + 1 / one.strengths[who]) for one in entries)
        assert bits == pytest.approx(by_hand)
    top = max(ledger.composed_leakage(entries).values())
    [line] = ledger.describe_releases(open_federation(fed), [])
    assert f"at most {top:,.0f} bits" in line
    assert entries[-1].hash in line


def lines_of(fed):
    return (fed / ledger.NAME).read_text().splitlines()


def put(fed, lines):
    (fed / ledger.NAME).write_text("".join(f"{line}\n" for line in lines))


def changed(line, **changes):
    return json.dumps({**json.loads(line), **changes})


def damage(fed, how):
    one, two, three, *_ = lines_of(fed)
    put(
        fed,
        {
            "changed": [one, changed(two, pairs=9), three],
            "rehashed": [one, rehashed(two), three],
            "middle": [one, three],
            "first": [two, three],
            "swapped": [two, one, three],
            "end": [one, two],
            "empty": [],
            "text": [one, "thesis", three],
            "keys": [one, changed(two, more=1), three],
            "short": [one, json.dumps({"round": 2}), three],
            "list": [one, "[]", three],
        }[how],
    )


@pytest.fixture(scope="module")
def three_rounds(tmp_path_factory):
    """Return a folder with a federation of three rounds, and the estimates of all."""
    folder = tmp_path_factory.mktemp("three")
    asked(handmade.write(folder / "fed", rounds=3).path, folder / "est")
    return folder


def rehashed(line):
    entry = ledger._entry(changed(line, pairs=9), 1, None)
    return changed(line, pairs=9, hash=ledger.digest(entry))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("changed", "entry 2 was changed"),
        ("rehashed", "before entry 3 was changed or taken out"),
        ("middle", "before entry 2 was changed or taken out"),
        ("first", "before entry 1 was changed or taken out"),
        ("swapped", "before entry 1 was changed"),
        ("end", "was cut: the log names an entry of round 3"),
        ("empty", "is empty"),
        ("text", "line 2 is not an entry"),
        ("keys", "line 2 is not an entry"),
        ("short", "line 2 is not an entry"),
        ("list", "line 2 is not an entry"),
    ],
)
def test_a_tampered_ledger_is_one_line(three_rounds, tmp_path, how, says):
    shutil.copytree(three_rounds, tmp_path, dirs_exist_ok=True)
    fed = tmp_path / "fed"
    damage(fed, how)
    with pytest.raises(InputError) as error:
        asked(fed, tmp_path / "est")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_ledger_that_is_gone_is_missed_by_the_log(fed, tmp_path):
    asked(fed, tmp_path / "est")
    (fed / ledger.NAME).unlink()
    with pytest.raises(InputError, match="was cut"):
        asked(fed, tmp_path / "est")


def test_the_ledger_of_another_run_is_refused(fed, tmp_path):
    asked(fed, tmp_path / "est")
    other = handmade.write(tmp_path / "other", seed=1).path
    shutil.copy(fed / ledger.NAME, other)
    with pytest.raises(InputError, match="the ledger of another run"):
        asked(other, tmp_path / "new")


def test_other_weights_are_another_design(tmp_path):
    one = handmade.write(tmp_path / "one").path
    two = handmade.write(tmp_path / "two", weights=[1.0, 2.0, 0.5, 3.0, 1.5, 4.0]).path
    a, b = plan(one), plan(two)
    b = replace(b, designs=a.designs, weights=sum_plan.client_weights(b.federation.manifest))
    assert ledger.design_of(a, 1) != ledger.design_of(b, 1)
    assert ledger.design_of(a, 1) == ledger.design_of(replace(a, seed=5), 1)
    turned = {1: replace(a.designs[1], designs=a.designs[1].designs[::-1])}
    assert ledger.design_of(a, 1) == ledger.design_of(replace(a, designs=turned), 1)


def test_estimates_that_are_thrown_away_enter_nothing(fed, tmp_path):
    estimation.estimate(plan(fed), tmp_path / "est", tmp_path / "l.json", recorded=False)
    assert not (fed / ledger.NAME).exists()


EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
SECURE = {"others": 3, "pairs": 2, "threshold": 3, "limit": 1.0, "seed": 3, "weights": "equal"}


def test_the_first_request_is_the_ledgers_earliest(fed, tmp_path, monkeypatch):
    for number, time in ((2, LATE), (1, EARLY)):
        with monkeypatch.context() as patched:
            patched.setattr(ledger, "_now", lambda time=time: time)
            asked(fed, tmp_path / f"est{number}", rounds=(number,))
    run = estimation.identity(open_federation(fed))
    assert ledger.first_request(open_federation(fed), run) == EARLY
    assert asked(fed, tmp_path / "again").asked == EARLY
    thrown_away = estimation.estimate(
        plan(fed), tmp_path / "est", tmp_path / "l.json", recorded=False
    )[0]
    assert thrown_away.asked == EARLY
    assert ledger.first_request(open_federation(fed), "another run") > LATE


def test_stored_sums_were_asked_for_when_the_federation_ran(tmp_path):
    fed = handmade.write(tmp_path / "fed", secure=SECURE).path
    own = {"others": None, "pairs": None, "threshold": None, "seed": None}
    assert asked(fed, tmp_path / "est", **own).asked == ""  # nothing says when
    report = example_report.example().to_json()
    for changes, told in (
        ({"command": "audit"}, ""),
        ({"command": "simulate", "resumed_from": "before"}, ""),
        ({"command": "simulate"}, EARLY),
    ):
        run = {**report["run"], "started": EARLY, "resumed_from": None, **changes}
        (fed / "report.json").write_text(json.dumps({**report, "run": run}))
        assert ledger.first_request(open_federation(fed), "r") == told
    (fed / "report.json").write_text("{}")
    assert ledger.first_request(open_federation(fed), "r") == ""


def test_the_commitments_of_the_first_sum_are_those_that_count(fed, tmp_path):
    run = estimation.identity(open_federation(fed))
    assert ledger.noted_commitments(fed, run) == ""
    public = fed / "commitments.json"
    for number, text in ((1, ""), (2, "first")):
        if text:
            public.write_text(text)
        asked(fed, tmp_path / "est", rounds=(number,))
    assert ledger.noted_commitments(fed, run) == sha256(public)
    public.write_text("second")
    assert ledger.noted_commitments(fed, run) != sha256(public)
    assert ledger.noted_commitments(fed, "another run") == ""


def test_sets_that_were_entered_and_never_asked_for_leave_the_log(fed, tmp_path, monkeypatch):
    out, log = tmp_path / "est", tmp_path / "est.log.json"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(estimation, "_append_to_ledger", killed)
        with pytest.raises(KeyboardInterrupt):
            asked(fed, out)
    run = estimation.identity(open_federation(fed))
    [interrupted] = sums_log.read(log, run)
    asked(fed, out, seed=5)
    entries = sums_log.read(log, run)
    assert [(e["round"], e["seed"]) for e in entries] == [(1, 5), (2, 5)]
    assert [e["ledger"] for e in entries] == [e.hash for e in ledger.read(fed)]
    assert set(read_log(log, run)) == {1, 2}
    # A log that an earlier version left with both is read by what was asked for.
    sums_log.write([interrupted, *entries], log, run)
    assert set(read_log(log, run)) == {1, 2}
    assert sums_log.asked_entries([interrupted, *entries]) == entries
    # Without any ledger nobody knows which of two was asked for.
    bare = {key: value for key, value in entries[0].items() if key != "ledger"}
    sums_log.write([interrupted, bare], log, run)
    with pytest.raises(InputError, match="two designs of round 1"):
        read_log(log, run)
