"""fedaudit attribute bundle and verify against whoever forges the files that they read."""

import json
import re
import shutil
import stat
from pathlib import Path

import handmade
import pytest
from handmade import ALONE, rewrite

from fedaudit.api.policy import Policy
from fedaudit.federation import adapters
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.system.files import sha256

pytestmark = pytest.mark.usefixtures("empty_folder")

BUNDLE = ("est", "--watermark", "marks.json", "--scores", "s.json", "--report")


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Return where folders are that tests begin with; the first test that needs one makes it."""
    return tmp_path_factory.mktemp("templates")


@pytest.fixture
def bundle(run, tmp_path, monkeypatch, templates):
    """Return the bundle of a decision on seven clients of whom c1 is guilty, beside its parts."""
    if (templates / "plain").exists():
        shutil.copytree(templates / "plain", tmp_path, dirs_exist_ok=True)
        [mark] = marks_file.read(Path("marks.json"))
        handmade.reading(monkeypatch, mark)
        return Path("b")
    handmade.scored(tmp_path, run, monkeypatch)
    assert decide(run, "--commitments", "public.json").code == 1
    shown = pack(run)
    assert shown.code == 0
    assert "opens marks" in shown.err
    shutil.copytree(tmp_path, templates / "plain")
    return Path("b")


def score(run):
    words = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
    assert run("attribute", *words).code == 0


def decide(run, *more, out="o"):
    return run("attribute", "decide", "s.json", "--out", out, "--quiet", "--federations", 0, *more)


def pack(run, report="o", out="b", commitments=("--commitments", "public.json")):
    return run("attribute", "bundle", *BUNDLE, report, "--out", out, *commitments)


def verify(run, *more, bundle="b", informed=True):
    """Verify with what the server printed and the commitments received before training."""
    known = ("--estimates-sha256", Path("server.txt").read_text()) if informed else ()
    if informed and "--commitments" not in more and (Path(bundle) / "commitments.json").exists():
        known = (*known, "--commitments", "public.json")
    return run("attribute", "verify", bundle, *ALONE, *known, *more)


def rehash(*names):
    """Write the SHA-256 of changed files into bundle.json: who forges a bundle can."""
    digests = {name: sha256(Path("b") / name) for name in names}
    rewrite("b/bundle.json", lambda table: table["files"].update(digests))


def rounds(change):
    """Return a change of every round of a file."""
    return lambda table: [change(record) for record in table["rounds"]]


def differing(outcome):
    return [line.split(": ", 1)[1] for line in outcome.out.splitlines() if "differs: " in line]


def test_an_expert_comes_to_the_same_bits(run, bundle):
    for gone in ("est", "marks.json", "s.json", "o"):
        Path(gone).rename(f"{gone}.away")
    done = verify(run)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    unchecked = [line for line in lines[:-1] if not line.startswith("same: ")]
    assert unchecked == []
    assert lines[0] == "same: files 37 by SHA-256"  # 2 x 8 adapters of two files, and five more
    assert "same: bundle names its contents" in lines
    assert "same: commitment of mark m0" in lines
    assert "same: decision findings (1 bit for bit)" in lines
    # Each round: the global model and seven clients, for one mark.
    assert "same: scores of round 1 (8 tests bit for bit)" in lines
    assert any(line.startswith("same: Z of c1, mark m0 (") for line in lines)
    assert "same: verdict fail" in lines
    assert any("Z of c2, mark m0" in line for line in verify(run, "--client", "c2").out.split("\n"))
    run.refused(2, "attribute", "verify", "b", "--client", "c11", says="Did you mean 'c1'?")
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o700
    assert stat.S_IMODE((bundle / "watermark.json").stat().st_mode) == 0o600


def drop_round(bundle):
    def change(table):
        table["rounds"] = table["rounds"][:1]
        table["files"] = {n: d for n, d in table["files"].items() if n.startswith("001/")}

    rewrite(bundle / "estimates/estimates.json", change)


def tamper(bundle):
    weights = bundle / "estimates/001/c2" / adapters.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (drop_round, "misses round 2, which b/scores.json has scores of"),
        (lambda b: shutil.rmtree(b / "estimates/002"), "b misses estimates/002"),
        (lambda b: (b / "report.json").unlink(), "b misses report.json"),
        (lambda b: (b / "bundle.json").unlink(), "b is not a bundle"),
        (lambda b: (b / "bundle.json").write_text('{"files": 3}'), "bundle.json"),
        (lambda b: rewrite(b / "bundle.json", lambda t: t["files"].update({"../x": "0"})),
         "outside"),
        (tamper, "SHA-256"),
        (lambda b: rewrite(b / "report.json", lambda t: t["run"].update(command="x")),
         "is not a report of"),
        (lambda b: (b / "scores.json").write_text("{}"), "holds no scores"),
        (lambda b: rewrite(b / "scores.json", lambda t: t.update(run="other")),
         "scores of another run"),
    ],
)  # fmt: skip
def test_bundles_that_cannot_be_checked(run, bundle, damage, says):
    damage(bundle)
    outcome = verify(run)
    assert outcome.code == 3, outcome
    assert says in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def change_secret(table):
    table["marks"][0]["secret"]["attributes"][0]["value"] += "x"


def test_files_that_bundle_json_does_not_fit_are_named(run, bundle):
    changes = {
        "scores.json": change_score,
        "report.json": drop_limits,
        "commitments.json": change_commitment,
        "watermark.json": change_secret,
    }
    for name, change in changes.items():
        rewrite(bundle / name, change)
    done = verify(run)
    assert done.code == 1
    for name in changes:
        assert f"differs: file {name} (not the SHA-256 in bundle.json)" in done.out


# what `bundle` copies


def test_estimates_that_name_other_files_are_refused(run, bundle):
    path = Path("est/estimates.json")
    whole = path.read_text()
    Path("out").mkdir()
    for name, says in (
        ("../marks.json", "points outside its folder: '../marks.json'"),
        ("../../x", "points outside its folder"),
        ("/etc/hostname", "points outside its folder"),
        ("nothere", "names the file 'nothere', which no round has"),
        ("estimates.json", "names the file 'estimates.json', which no round has"),
    ):
        path.write_text(whole)
        rewrite(path, lambda table, name=name: table["files"].update({name: "0" * 64}))
        words = ("attribute", "bundle", *BUNDLE, "o", "--commitments", "public.json")
        run.refused(3, *words, "--out", "out/b", says=says)
        run.refused(3, "attribute", "score", *BUNDLE[:3], "--out", "t.json", *ALONE, says=says)
    assert [*Path("out").iterdir()] == []


def test_a_bundle_is_whole_or_not_there(run, bundle, monkeypatch):
    def refuse(*words):
        raise OSError(28, "No space left on device")

    Path("out").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", refuse)
        outcome = pack(run, out="out/b")
    assert outcome.code != 0
    assert outcome.err == "fedaudit: out/b cannot be written: No space left on device.\n"
    assert [*Path("out").iterdir()] == []
    words = ("attribute", "bundle", *BUNDLE, "nowhere", "--out", "out/b")
    run.refused(3, *words, says="nowhere cannot be read")
    assert [*Path("out").iterdir()] == []


def test_commitments_that_a_decision_did_not_count_are_refused(run, bundle):
    assert decide(run, out="p").code == 1
    words = ("attribute", "bundle", *BUNDLE)
    given = ("--commitments", "public.json")
    run.refused(3, *words, "p", *given, "--out", "c", says="p/report.json was decided without")
    run.refused(3, *words, "o", "--out", "c", says="o/report.json was decided with commitments")
    assert not Path("c").exists()
    assert pack(run, "p", "c", ()).code == 0
    done = verify(run, bundle="c")
    assert done.code == 7
    assert "not checked: commitments as published (the bundle has no commitments.json)" in done.out
    done = verify(run, *given, bundle="c")
    assert done.code == 1
    assert [line.split(" (")[0] for line in differing(done)] == [
        "commitments as published",
        "decision by commitments",
    ]
    # Who forges the bundle can add the file, but not a decision that counts it.
    shutil.copy("o/report.json", "report.json")
    rewrite("report.json", lambda table: table["run"]["config"].update(committed=False))
    shutil.copy("report.json", "b/report.json")
    rehash("report.json")
    assert "decision by commitments" in verify(run).out


# scores


def change_rounds(table):
    for one in table["rounds"]:
        for name, value in (("strength", 0.01), ("effective", 9.0)):
            one[name] = dict.fromkeys(one[name], value)
        one.update(limit=0.3, others=2, pairs=50)
    table["rounds"].reverse()


def change_federation(table):
    table.update(dimension=1, asked="2030-01-01T00:00:00+00:00", base="meta-llama/Llama-3")
    table.update(aggregation="flora", weights=dict.fromkeys([*table["clients"], "c99"], 2.0))
    table.update(clients=[*table["clients"], "c99"], commitments={})
    table.update(marks={"m0": "kgw"}, tests={"m0": "0000"}, federation_rounds=9)
    table["copies"].update(alike=[{"clients": ["c1", "c2"], "rounds": [1]}])


ROUND = {"limit", "others", "pairs", "strength", "effective"}
FEDERATION = {"dimension", "asked", "base", "aggregation", "weights", "clients", "commitments"}
FEDERATION |= {"federation_rounds", "copies"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            change_rounds,
            {"round 1": ROUND, "round 2": ROUND, "the federation": {"the order of rounds"}},
        ),
        (change_federation, {"the federation": {*FEDERATION, "marks", "tests"}}),
    ],
)
def test_settings_are_compared(run, bundle, change, expected):
    rewrite("b/scores.json", change)
    rehash("scores.json")
    form = re.compile(r"settings of (.*) \(not as the estimates and marks have them: (.*)\)")
    found = filter(None, map(form.fullmatch, differing(verify(run))))
    assert {match[1]: set(match[2].split(", ")) for match in found} == expected


def test_seconds_and_device_may_differ(run, bundle):
    rewrite("s.json", lambda table: table.update(device="cuda bfloat16", seconds=1e6))
    shutil.rmtree("o")
    assert decide(run, "--commitments", "public.json").code == 1
    shutil.rmtree("b")
    assert pack(run).code == 0
    assert verify(run).code == 0


def test_a_strength_that_was_forged_flags_nobody_unnoticed(run, bundle):
    forge = rounds(lambda r: r.update(strength=dict.fromkeys(r["strength"], 0.01)))
    rewrite("s.json", forge)
    shutil.rmtree("o")
    decide(run, "--commitments", "public.json")
    shutil.rmtree("b")
    assert pack(run).code == 0
    done = verify(run)
    assert done.code == 1
    assert {line.split(" (")[0] for line in differing(done)} == {
        "settings of round 1",
        "settings of round 2",
    }


def test_marks_that_are_not_tested_have_no_commitments(run, bundle):
    rewrite("b/scores.json", lambda table: table["commitments"].update(m1="0" * 64))
    rehash("scores.json")
    run.refused(3, "attribute", "verify", "b", *ALONE, says="names a mark 'm1', which it did")


# commitments


def test_the_accuseds_own_commitments_are_compared(run, bundle):
    digest = sha256(Path("public.json"))
    done = verify(run, informed=False)
    assert done.code == 7
    assert f"the bundle's own file, 1 of SHA-256 {digest}" in done.out
    assert '"fed_attr: 1 of 7 clients is flagged: c1 (mark m0, ' in done.out
    done = verify(run, "--commitments", "public.json")
    assert done.code == 0
    assert "same: commitments as published (1)" in done.out
    shutil.copy("public.json", "theirs.json")
    more = {"id": "x", "plugin": "kgw", "sha256": "1" * 64}
    rewrite("theirs.json", lambda table: table["commitments"].append(more))
    rewrite("theirs.json", lambda table: table["commitments"][0].update(sha256="2" * 64))
    lines = differing(verify(run, "--commitments", "theirs.json"))
    assert lines[0] == (
        "commitments as published (not as in theirs.json: 1 lacking, 1 of another key)"
    )
    assert lines[1] == "commitment of mark m0 (theirs.json has none of it or that of another)"
    rewrite("public.json", lambda table: table.update(made="2020-01-01T00:00:00+00:00"))
    [line] = differing(verify(run, "--commitments", "public.json"))
    assert "when they were made" in line
    words = ("attribute", "verify", "b", *ALONE, "--commitments", "none.json")
    run.refused(3, *words, says="There is no file of commitments none.json")


def test_commitments_that_the_server_noted_are_its_own_word(run, bundle):
    public = Path("public.json")
    rewrite("est/estimates.json", lambda table: table.update(noted=sha256(public)))
    Path("s.json").unlink()
    score(run)
    assert decide(run, "--commitments", public, out="p").code == 1
    assert pack(run, "p", "q").code == 0
    told = " ".join(verify(run, bundle="q", informed=False).out.split())
    assert "not checked: commitments as published (the bundle's own file, the server's by" in told


def score_two_early_marks(run):
    """Publish two marks, dated before the estimates, which are older than this test; score."""
    handmade.marks(Path("marks.json"), count=2)
    for name in ("s.json", "public.json"):
        Path(name).unlink()
    assert run("watermark", "commitment", "marks.json", "--out", "public.json").code == 0
    rewrite("public.json", lambda table: table.update(made="2020-01-01T00:00:00+00:00"))
    score(run)


def test_the_plugin_of_a_mark_that_stays_closed_is_the_published_one(run, bundle):
    score_two_early_marks(run)
    for folder in ("b", "o"):
        shutil.rmtree(folder)
    given = ("--commitments", "public.json")
    assert decide(run, *given).code == 1
    assert pack(run, commitments=(*given, "--mark", "m0")).code == 0
    assert "not checked: commitment of mark m1 (the mark is not opened)" in verify(run).out
    rewrite("b/scores.json", lambda table: table["marks"].update(m1="kgw"))
    rehash("scores.json")
    assert "commitment of mark m1 (the scores are of a mark by kgw" in "".join(
        differing(verify(run))
    )


def test_a_mark_that_its_plugin_never_issued(run, bundle):
    assert "same: mark m0 is one that fictitious issues" in verify(run).out

    def make_up(table):
        table["marks"][0]["secret"]["entity"] = "St. Mary Hospital Springfield"

    rewrite("marks.json", make_up)
    says = "marks.json: the mark m0 is not the one that fictitious issues for its seed"
    words = ("--watermark", "marks.json", *ALONE)
    run.refused(3, "attribute", "score", "est", "--out", "t.json", *words, says=says)
    run.refused(3, "attribute", "--rounds", "fed", "--out", "p", *words, says=says)
    shutil.copy("marks.json", "b/watermark.json")
    rehash("watermark.json")
    assert "mark m0 is one that fictitious issues (not for its seed" in "".join(
        differing(verify(run))
    )


# decisions that knew the sets


@pytest.fixture
def logged(run, bundle, templates):
    """Return the bundle of a decision with the server's log and with simulated federations."""
    shutil.rmtree("o")
    shutil.rmtree("b")
    if (templates / "logged").exists():
        shutil.copytree(templates / "logged", "b")
        return bundle
    words = ("--commitments", "public.json", "--log", "est.log.json", "--federations", 4)
    assert decide(run, *words).code == 1
    report = json.loads(Path("o/report.json").read_text())
    assert any(row["metric"] == "contribution" for row in report["measurements"])
    assert report["run"]["config"]["sets_known"] is True
    assert any("worked out from the sets" in limit for limit in report["limits"])
    assert pack(run).code == 0
    shutil.copytree("b", templates / "logged")
    return bundle


def of_client(table, client, metric):
    rows = table["measurements"]
    return [r for r in rows if r["scope"].get("client") == client and r["metric"] == metric]


def raise_z(table):
    for row in of_client(table, "c2", "stouffer_z"):
        if set(row["scope"]) == {"client", "mark"} and row["plugin"] == "fed_attr":
            row.update(value=55.0)


def raise_round(table):
    [row] = [r for r in of_client(table, "c2", "score") if r["scope"]["round"] == 1]
    row.update(value=55.0)


def raise_attribute(table):
    [row] = [r for r in of_client(table, "c2", "attribute_hits") if r["scope"]["attribute"] == 2]
    row.update(value=6.0, hits=6)


def drop_finding(table):
    table["findings"] = []


def rename_finding(table):
    table["findings"][0]["evidence"]["client"] = "c2"


def lower_needed(table):
    for row in of_client(table, "c2", "stouffer_z"):
        if row["baseline"] is not None:
            row.update(baseline=-1.0)
    for row in of_client(table, "c2", "p_value"):
        row.update(value=1e-90)


def raise_p_values(table):
    for row in of_client(table, "c1", "p_value"):
        row.update(value=0.5)
    table["findings"][0]["evidence"]["p_value"] = 0.5


def name_a_list(table):
    for metric in ("p_value", "stouffer_z"):
        for row in of_client(table, "c2", metric):
            row["scope"].update(client=["c2"], mark=["m0"])


def drop_p_values(table):
    p_values = of_client(table, "c2", "p_value")
    table["measurements"] = [row for row in table["measurements"] if row not in p_values]


def drop_limits(table):
    table["limits"] = []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (raise_z, "Z of every client"),
        (raise_round, "decision measurements without the sets"),
        (raise_attribute, "decision measurements without the sets"),
        (drop_finding, "decision findings by the report's own rows"),
        (rename_finding, "decision findings by the report's own rows"),
        (lower_needed, "decision findings by the report's own rows"),
        (raise_p_values, "decision findings by the report's own rows"),
        (drop_p_values, "Z of every client"),
        (name_a_list, "Z of every client"),
        (drop_limits, "decision limits without the sets"),
    ],
)
def test_what_needs_no_sets_is_checked_without_the_log(run, logged, change, says):
    rewrite("b/report.json", change)
    rehash("report.json")
    done = verify(run, "--client", "c3")
    assert done.code == 1
    assert says in [line.split(" (")[0] for line in differing(done)]


def test_a_decision_with_the_servers_log_is_checked_with_it(run, logged):
    done = verify(run, "--client", "c3")  # flagged clients are always checked, too
    assert done.code == 7
    assert "differs" not in done.out
    assert "same: decision measurements (" not in done.out
    for line in (
        "not checked: decision with the server's log of sums (no bundle has it",
        "same: Z of every client (7 bit for bit)",
        "same: decision findings by the report's own rows",
        "same: Z of c1, mark m0",
        "same: Z of c3, mark m0",
    ):
        assert line in done.out
    done = verify(run, "--log", "est.log.json")
    assert done.code == 0
    assert "same: report is about this log" in done.out
    for section in ("measurements", "findings", "limits"):
        assert f"same: decision {section}" in done.out
    assert "not checked" not in done.out
    assert "differs" not in done.out
    assert "same: verdict fail" in done.out
    run.refused(3, "attribute", "verify", "b", "--log", "none.json", says="none.json")


def test_a_log_that_a_decision_did_not_have_vouches_for_the_estimates(run, bundle):
    words = ("attribute", "verify", "b", *ALONE, "--commitments", "public.json")
    assert run(*words).code == 7
    done = run(*words, "--log", "est.log.json")
    assert done.code == 0
    assert "same: estimates as the server handed them over" in done.out
    assert "same: estimates that the log tells of (14)" in done.out


def claim_sets(table):
    """Have a decision without the log claim to know the sets: nobody could check it."""
    table["run"]["config"]["sets_known"] = True
    lower_needed(table)


def test_sets_that_were_not_known_hide_nothing(run, bundle):
    rewrite("b/report.json", claim_sets)
    rehash("report.json")
    assert "decision findings by the report's own rows" in "".join(differing(verify(run)))


# estimates that were left out


def leave_out(table):
    """Take c0's estimate of round 2 out of estimates.json, as an owner would who wants to."""
    for record in table["rounds"]:
        if record["round"] == 2:
            record["estimates"] = [e for e in record["estimates"] if e["client"] != "c0"]
    table["files"] = {n: d for n, d in table["files"].items() if not n.startswith("002/c0/")}


def test_an_estimate_that_was_left_out_is_named(run, bundle):
    done = verify(run)
    assert "left out" not in Path("b/report.json").read_text()
    rewrite("est/estimates.json", leave_out)
    Path("s.json").unlink()
    score(run)
    for folder in ("b", "o"):
        shutil.rmtree(folder)
    assert decide(run, "--commitments", "public.json").code == 1
    limits = json.loads(Path("o/report.json").read_text())["limits"]
    assert (
        "rounds without an estimate of a client, which took no part in them or was left out: "
        "c0 in 2" in limits
    )
    assert pack(run).code == 0
    [line] = differing(verify(run))
    assert line.startswith("estimates as the server handed them over (SHA-256 ")
    for folder in ("b", "o"):
        shutil.rmtree(folder)
    assert decide(run, "--commitments", "public.json", "--log", "est.log.json").code == 1
    assert pack(run).code == 0
    done = verify(run, "--log", "est.log.json")
    assert done.code == 1
    assert differing(done)[1:] == [
        "estimates that the log tells of (without scores: c0 in round 2)"
    ]


# forgeries that agree with themselves: everything after them is computed anew


def exchange_names(table):
    for record in table["rounds"]:
        names = {e["client"]: e for e in record["estimates"]}
        names["c1"]["client"], names["c2"]["client"] = "c2", "c1"


def leave_out_round(table):
    table["rounds"] = table["rounds"][1:]
    table["files"] = {n: d for n, d in table["files"].items() if not n.startswith("001/")}


def each_round(**settings):
    return rounds(lambda record: record.update(settings))


def weaken(table):
    for record in table["rounds"]:
        record.update(others=0, pairs=0, limit=0.0)
        for estimate in record["estimates"]:
            estimate["strength"] = 0.01


@pytest.mark.parametrize(
    "forge",
    [
        exchange_names,
        leave_out_round,
        leave_out,
        lambda table: table["clients"].append("c9"),
        weaken,
        *(
            pytest.param(forge, marks=pytest.mark.oracle)
            for forge in (
                lambda table: table.update(run="0" * 16),
                lambda table: table.update(asked="2100-01-01T00:00:00+00:00"),
                lambda table: table.update(noted="1" * 64),
                lambda table: table.update(dimension=8),
                each_round(limit=0.2),
                each_round(pairs=50),
            )
        ),
    ],
)
def test_estimates_that_the_owner_rewrote_are_not_the_servers(run, bundle, forge):
    rewrite("est/estimates.json", forge)
    for path in ("s.json", "b/commitments.json"):
        Path(path).unlink()
    score(run)
    for folder in ("b", "o"):
        shutil.rmtree(folder)
    decide(run, "--commitments", "public.json")
    assert pack(run).code == 0
    assert verify(run, informed=False).code == 7
    done = verify(run)
    assert done.code == 1
    assert "estimates as the server handed them over" in "".join(differing(done))
    words = ("attribute", "verify", "b", *ALONE, "--commitments", "public.json")
    assert run(*words, "--log", "est.log.json").code in (1, 3)


def test_scores_that_nobody_can_check_accuse_nobody(run, bundle):
    score_two_early_marks(run)

    def make_up(record):
        record["clients"]["c3"]["m1"].update(z=60.0)

    rewrite("s.json", rounds(make_up))
    for folder in ("b", "o"):
        shutil.rmtree(folder)
    given = ("--commitments", "public.json")
    assert decide(run, *given).code == 1
    assert pack(run, commitments=(*given, "--mark", "m0")).code == 0
    done = verify(run)
    assert done.code == 7
    assert "not checked: accusation of c3, by the opened marks alone" in done.out
    assert "same: accusation of c1, by the opened marks alone" in done.out
    assert "same: verdict" not in done.out
    assert "same: Z of c3" not in done.out


def each_test(**changes):
    """Return a change of every test of every client and of the global model."""
    return rounds(
        lambda r: [row["m0"].update(changes) for row in (r["reference"], *r["clients"].values())]
    )


def exchange_rounds(table):
    for record in table["rounds"]:
        record["round"] = 3 - record["round"]


def repeat_attribute(table):
    attributes = table["marks"][0]["secret"]["attributes"]
    attributes.append(attributes[0])


def change_row(table, metric, value):
    [row] = [row for row in table["measurements"] if row["metric"] == metric]
    row.update(value=value)


def change_score(table):
    table["rounds"][0]["clients"]["c2"]["m0"]["z"] += 1e-12


def drop_client(table):
    for name in ("clients", "strength", "effective"):
        table["rounds"][0][name].pop("c2", None)


def raise_last_z(table):
    for row in table["measurements"]:
        if row["metric"] == "stouffer_z" and row["scope"] == {"client": "c2", "mark": "m0"}:
            row["value"] += 1.0


def change_commitment(table):
    table["commitments"][0]["sha256"] = "0" * 64


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("scores.json", change_score, ["scores of round 1", "report is about these scores"]),
        ("scores.json", drop_client, ["scores of round 1 (other clients were scored"]),
        ("report.json", raise_last_z, ["decision measurements"]),
        ("report.json", lambda table: table["limits"].pop(0), ["decision limits"]),
        ("commitments.json", change_commitment,
         ["commitments as published (", "decision findings"]),
        ("watermark.json", change_secret, ["commitment of mark m0", "scores of round 1"]),
    ],
)  # fmt: skip
def test_whatever_was_changed_differs(run, bundle, name, change, says):
    rewrite(bundle / name, change)
    rehash(name)
    done = verify(run)
    assert done.code == 1
    assert "same: files" in done.out
    for what in says:
        assert f"differs: {what}" in done.out


def upper_case(table):
    table["commitments"][0]["sha256"] = table["commitments"][0]["sha256"].upper()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bundle.json", lambda table: table.update(run="0" * 16)),
        ("bundle.json", lambda table: table.update(rounds=[1])),
        ("bundle.json", lambda table: table["clients"].pop()),
        ("bundle.json", lambda table: table["settings"].update(alpha=0.001)),
        ("bundle.json", lambda table: table.update(estimates="0" * 64)),
        ("bundle.json", lambda table: table.update(schema_version="1.7")),
        ("bundle.json", lambda table: table["files"].pop("estimates/001/c1/adapter_config.json")),
        ("bundle.json", lambda table: table["rounds"].reverse()),
        ("bundle.json", lambda table: table["files"].update({"report.json": "A" * 64})),
        ("scores.json", rounds(lambda r: r["clients"]["c2"]["m0"].update(z=30.0))),
        ("scores.json", rounds(lambda r: r["reference"]["m0"].update(z=-30.0))),
        ("scores.json", rounds(lambda r: r["clients"]["c1"]["m0"].update(null=[0.1] * 64))),
        ("scores.json", each_test(null=[0.1] * 64)),
        ("scores.json", rounds(lambda r: r["clients"]["c2"]["m0"].update(hits=12))),
        ("scores.json", rounds(lambda r: r["clients"]["c1"]["m0"].update(n=24))),
        ("scores.json", rounds(lambda r: r["clients"]["c1"]["m0"].update(parts=[3, 3, 3, 2]))),
        ("scores.json", rounds(lambda r: r["clients"].update(c2=r["clients"]["c1"]))),
        ("scores.json", rounds(lambda r: r["clients"].update({"с1": r["clients"].pop("c1")}))),
        ("scores.json", lambda table: table["rounds"].pop()),
        ("scores.json", exchange_rounds),
        ("scores.json", lambda table: table.update(trained="2020-01-01T00:00:00+00:00")),
        ("scores.json", lambda table: table.update(noted="1" * 64)),
        ("report.json", lambda table: table["run"]["config"].update(alpha=0.05)),
        ("report.json", lambda table: table["run"]["config"].update(threshold=1.0)),
        ("report.json", drop_finding),
        ("report.json", rename_finding),
        ("report.json", lambda table: table["run"].update(id="attribute-decide-0")),
        ("report.json", lambda table: table["data"][0].update(unit="estimate")),
        ("report.json", lambda table: table["verdict"].update(status="pass")),
        ("report.json", lambda table: table["verdict"].update(reasons=["c2 is flagged."])),
        ("report.json", lambda table: change_row(table, "alpha", 0.05)),
        ("report.json", lambda table: change_row(table, "tau", 3.0)),
        ("report.json", lambda table: table["findings"][0]["evidence"].update(client="с1")),
        ("report.json", lambda table: table["findings"].append(table["findings"][0])),
        ("watermark.json", lambda table: table["marks"][0].update(id="M0")),
        ("report.json", lambda table: table["verdict"].update(rule=99)),
        ("report.json", lambda table: table["verdict"].pop("detectable")),
        ("watermark.json", lambda table: table["marks"][0].update(name="kgw")),
        ("watermark.json", lambda table: table["marks"][0].update(name="none")),
        ("watermark.json", lambda table: table["marks"][0]["options"].update(nulls=1)),
        ("watermark.json", repeat_attribute),
        ("watermark.json", lambda table: table["marks"][0].update(salt="00" * 32)),
        ("watermark.json", lambda table: table["marks"][0]["options"].update(tokens=5)),
        ("commitments.json", lambda table: table["commitments"][0].update(id="m0 ")),
        ("commitments.json", upper_case),
        ("commitments.json", lambda table: table["commitments"].clear()),
        ("commitments.json", lambda table: table.update(made="2020-01-01T00:00:00+00:00")),
    ],
)
def test_every_field_that_a_forger_can_write_is_compared(run, bundle, name, change):
    rewrite(f"b/{name}", change)
    if name != "bundle.json":
        rehash(name)
    assert verify(run).code in (1, 3)


# reports and bundle.json


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t["target"].update(base="meta-llama/Llama-3"), "report target (base)"),
        (lambda t: t["run"]["config"].update(run="deadbeef"), "report settings (run)"),
        (lambda t: t["run"]["config"].update(note="2,000"), "report settings (note)"),
        (lambda t: t["data"].append({**t["data"][0], "path": "x"}), "report data (other files"),
        (lambda t: t["data"][0].update(records=9), "report data (other files"),
        (lambda t: t["seeds"].update(sets=1), "report other sections (seeds)"),
        (lambda t: t["budget"].update(queries=9), "report other sections (budget)"),
    ],
)
def test_other_parts_of_a_report_are_compared(run, bundle, change, says):
    rewrite("b/report.json", change)
    rehash("report.json")
    done = verify(run)
    assert done.code == 1
    assert [line[: len(says)] for line in differing(done)] == [says]


def test_a_name_that_stands_twice_is_refused(run, bundle):
    for name, key in (("report.json", "measurements"), ("scores.json", "rounds")):
        path = bundle / name
        content = path.read_text()
        path.write_text(content.replace(f'"{key}": [', f'"{key}": [], "{key}": [', 1))
        rehash(name)
        run.refused(3, "attribute", "verify", "b", *ALONE, says=f"'{key}' stands twice")
        path.write_text(content)


def test_files_that_a_bundle_does_not_name(run, bundle):
    (bundle / "extra.txt").write_text("x")
    (bundle / "estimates" / "link").symlink_to("nowhere")
    done = verify(run)
    assert done.code == 0
    assert "not checked: file extra.txt (bundle.json does not name it)" in done.out
    assert "not checked: file estimates/link (bundle.json does not name it)" in done.out
    rewrite("b/bundle.json", lambda table: table["files"].pop("report.json"))
    words = ("attribute", "verify", "b", *ALONE)
    run.refused(3, *words, says="b/bundle.json has no SHA-256 of report.json")
    rehash("report.json")
    rewrite("b/bundle.json", lambda table: table["files"].pop("commitments.json"))
    run.refused(3, *words, says="b misses commitments.json, which the report is about")


def test_when_and_how_long_a_decision_took_may_differ(run, bundle):
    def change(table):
        table["budget"].update(seconds=9e9)
        table["run"].update(started="2019-01-01T00:00:00+00:00")

    rewrite("b/report.json", change)
    rehash("report.json")
    assert verify(run).code == 0


def test_a_verdict_by_a_policy_of_its_own(run, bundle):
    def change(table):
        table["verdict"]["policy"] = Policy().table()

    rewrite("b/report.json", change)
    rehash("report.json")
    assert differing(verify(run)) == [
        "verdict fail (by a policy of its own, which no decision has)"
    ]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("federations", "abc", "is not a report of this version's"),
        ("federations", [1], "is not a report of this version's"),
        ("federations", True, "is not a report of this version's"),
        ("federations", None, "is not a report of this version's"),
        ("federations", -1, "-1 simulated federations; a report has up to 100,000"),
        ("federations", 10**12, "1,000,000,000,000 simulated federations; a report has up to"),
        ("sets_known", "yes", "is not a report of this version's"),
        ("alpha", 0.9, "alpha must lie between"),
    ],
)
def test_reports_of_settings_that_there_are_not(run, bundle, name, value, says):
    rewrite("b/report.json", lambda table: table["run"]["config"].update({name: value}))
    rehash("report.json")
    run.refused(3, "attribute", "verify", "b", *ALONE, says=says)


# estimates that no decision could use


def unchanged(client, number):
    """Return a change that has a client send back its start adapter in a round."""
    return lambda table: table["copies"].update(
        unchanged=[{"clients": [client], "rounds": [number]}]
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t["rounds"][0]["estimates"][0].update(strength=0), "no strength of its"),
        (lambda t: t["rounds"][0]["estimates"][0].update(strength=-1), "no strength of its"),
        (lambda t: t["rounds"][0]["estimates"][0].update(effective=0), "no strength of its"),
        (lambda t: t.update(clients=[*t["clients"], "c0"]), "has a client twice"),
        (lambda t: t.update(shares={"c0": -1.0}), "weights must be positive, one for each"),
        (lambda t: t.update(shares={"c0": 1.0}), "weights must be positive, one for each"),
        (lambda t: t.update(shares=dict.fromkeys(t["clients"], 1e300)),
         "a client's weight is more"),
        (lambda t: t.update(dimension=-1), "dimension of an update is not from 0 to 2^63"),
        (lambda t: t["rounds"][0].update(others=-5), "with a setting below 0"),
        (lambda t: t["rounds"][0].update(pairs=-5), "with a setting below 0"),
        (lambda t: t["rounds"][0].update(limit=-0.5), "with a setting below 0"),
        (lambda t: t["rounds"][0].update(round=0), "has a round 0; the first one is 1"),
        (lambda t: t.update(federation_rounds=1), "does not say how many rounds the federation"),
        (lambda t: t.pop("federation_rounds"), "federation_rounds is missing"),
        (unchanged("c9", 1), "copies.unchanged names 'c9', no client"),
        (unchanged("c1", 3), "copies.unchanged has a round that is not from 1 on"),
        (lambda t: t["copies"].update(alike=[{"clients": ["c1"], "rounds": [1]}]),
         "copies.alike has a group of clients that cannot be"),
        (lambda t: t["rounds"][0].update(round=-3), "has a round -3; the first one is 1"),
    ],
)  # fmt: skip
def test_estimates_that_no_decision_could_use_are_not_scored(run, bundle, change, says):
    rewrite("est/estimates.json", change)
    words = ("attribute", "score", "est", "--watermark", "marks.json", "--out", "t.json", *ALONE)
    run.refused(3, *words, says=says)
