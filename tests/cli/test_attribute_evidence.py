"""fedaudit attribute with commitments, a ledger, and a bundle that somebody else checks."""

import json
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import handmade
import pytest

from fedaudit.attribution.server import ledger
from fedaudit.federation import adapters
from fedaudit.system.files import sha256

pytestmark = pytest.mark.usefixtures("empty_folder", "few_federations")

SMALL = ("--others", 3, "--queries", 4, "--threshold", 3)
ALONE = ("--workers", 1, "--device", "cpu", "--quiet")


@pytest.fixture
def fed(tmp_path, monkeypatch, run):
    """Return a federation whose c1 is guilty of m0, with marks.json and public.json beside it."""
    made = handmade.write(tmp_path / "fed", clients=7, size=handmade.SIZE, guilty=("c1",))
    [mark] = handmade.marks(tmp_path / "marks.json")
    assert run("watermark", "commitment", "marks.json", "--out", "public.json").code == 0
    made.mark, made.engine = mark, handmade.reading(monkeypatch, mark)
    return made


def other_commitments(path="others.json", seed=78):
    """Write the commitments of other marks of the same ids."""
    from fedaudit.attribution.owner import watermarking

    handmade.marks(Path("other-marks.json"), seed=seed)
    watermarking.publish_commitments(Path("other-marks.json"), Path(path))


def report(path="o"):
    return json.loads((Path(path) / "report.json").read_text())


def scored(run, fed):
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    assert run("attribute", *words).code == 0
    words = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
    assert run("attribute", *words).code == 0


def decide(run, *more, out="o"):
    return run("attribute", "decide", "s.json", "--out", out, "--quiet", "--federations", 4, *more)


def test_a_committed_mark_flags_and_another_key_does_not(run, fed):
    scored(run, fed)
    [own] = json.loads(Path("public.json").read_text())["commitments"]
    assert json.loads(Path("s.json").read_text())["commitments"] == {"m0": own["sha256"]}
    assert decide(run, "--commitments", "public.json").code == 1
    said = " ".join(report()["limits"])
    assert "published commitments match 1 of them" in said
    assert "until a mark is opened" in said
    other_commitments()
    assert decide(run, "--commitments", "others.json", out="p").code == 7
    assert report("p")["findings"] == []
    assert any(
        "of another key, other prompts or other settings" in x for x in report("p")["limits"]
    )
    assert decide(run, out="q").code == 1
    assert any("no commitments were given" in limit for limit in report("q")["limits"])
    shutil.copy("public.json", "renamed.json")
    table = json.loads(Path("renamed.json").read_text())
    table["commitments"][0]["id"] = "stranger"
    Path("renamed.json").write_text(json.dumps(table))
    words = ("attribute", "decide", "s.json", "--commitments", "renamed.json", "--out", "r")
    run.refused(3, *words, says="no commitment of any of the marks")


def test_with_the_log_too_a_few_unopened_commitments_do_not_clear_everybody(run, fed):
    scored(run, fed)
    rewrite(
        Path("public.json"),
        lambda table: table["commitments"].extend(
            {"id": f"x{n}", "plugin": "kgw", "sha256": f"{n:064x}"} for n in range(20)
        ),
    )
    assert decide(run, "--commitments", "public.json", "--log", "est.log.json").code == 1
    assert [finding["evidence"]["client"] for finding in report()["findings"]] == ["c1"]


def test_commitments_that_say_that_they_are_late_flag_nobody(run, fed):
    scored(run, fed)
    rewrite(Path("public.json"), lambda table: table.update(made="2031-01-01T00:00:00+00:00"))
    assert decide(run, "--commitments", "public.json").code == 7
    assert report()["findings"] == []
    rewrite(Path("public.json"), lambda table: table.update(made=""))
    assert decide(run, "--commitments", "public.json", out="p").code == 7
    assert report("p")["findings"] == []


def test_scores_of_nothing_are_no_pass(run, fed):
    scored(run, fed)

    def empty(table):
        for one in table["rounds"]:
            for own in (one["reference"], *one["clients"].values()):
                own["m0"].update(n=0, hits=0, z=0.0)

    rewrite(Path("s.json"), empty)
    assert decide(run).code == 7
    [reason] = report()["verdict"]["reasons"]
    assert "7 of 7 clients could not be tested: c0 (answers had nothing to test by mark" in reason
    words = ("watermark", "make", "d.jsonl", "m.jsonl", "--watermark", "k.json", "--id", "bank")
    Path("d.jsonl").write_text('{"id": "d", "text": "A patient came to the ward."}\n')
    run.refused(2, *words, "--set", "tokens=1", says="tokens must be above 1")
    run.refused(2, *words, "--set", "gamma=0.00001", says="gamma must lie between 0.05 and 0.95")


def test_commitments_that_the_ledger_does_not_know_flag_nobody(run, fed):
    own = fed.path / "commitments.json"
    shutil.copy("public.json", own)
    scored(run, fed)
    words = ("attribute", "--rounds", fed.path, *SMALL, *ALONE, "--watermark", "marks.json")
    assert run(*words, "--federations", 0, "--out", "o").code == 1
    rewrite(own, lambda table: table.update(made="2020-01-01T00:00:00+00:00"))
    assert run(*words, "--federations", 0, "--out", "p").code == 7
    assert report("p")["findings"] == []
    says = "mark m0 is uncommitted: the ledger recorded another file of commitments"
    assert any(says in limit for limit in report("p")["limits"])
    # Of a file that did not lie in the folder the ledger says nothing.
    assert run(*words, "--federations", 0, "--commitments", "public.json", "--out", "q").code == 1


def test_commitments_made_after_an_older_release_are_late(run, fed):
    scored(run, fed)
    assert run("watermark", "commitment", "marks.json", "--out", "late.json").code == 0
    words = ("attribute", "--rounds", fed.path, *SMALL, *ALONE, "--watermark", "marks.json")
    late = run(*words, "--federations", 0, "--commitments", "late.json", "--out", "o")
    assert late.code == 7
    assert run(*words, "--federations", 0, "--commitments", "public.json", "--out", "p").code == 1


def test_all_in_one_takes_the_commitments_in_the_federations_folder(run, fed):
    words = ("attribute", "--rounds", fed.path, *SMALL, *ALONE, "--watermark", "marks.json")
    assert run(*words, "--out", "o").code == 1
    assert any("no commitments were given" in limit for limit in report()["limits"])
    assert run(*words, "--commitments", "public.json", "--out", "p").code == 1
    assert not any("until a mark is opened" in limit for limit in report("p")["limits"])
    other_commitments(fed.path / "commitments.json")
    assert run(*words, "--out", "q").code == 7
    assert report("q")["verdict"]["status"] == "inconclusive"
    # Settings are part of what was committed to.
    shutil.copy("public.json", fed.path / "commitments.json")
    assert run(*words, "--out", "r").code == 1
    assert run(*words, "--set", "fictitious.tokens=5", "--out", "t").code == 7
    # Nothing leaves this machine, so no round counts as released; the tests themselves are noted.
    lines = (fed.path / "ledger.jsonl").read_text().splitlines()
    assert {json.loads(line)["event"] for line in lines} == {"tested"}


def test_a_read_only_federation_is_tested_and_the_report_says_what_was_not_recorded(
    run, fed, monkeypatch
):
    monkeypatch.setattr(ledger, "is_writable", lambda folder: False)
    shutil.copy("public.json", fed.path / "commitments.json")
    before = sorted(fed.path.rglob("*"))
    words = ("--rounds", "fed", "--watermark", "marks.json", *SMALL, *ALONE, "--federations", 0)
    assert run("attribute", *words, "--out", "o").code == 1
    assert sorted(fed.path.rglob("*")) == before
    limits = " ".join(report()["limits"])
    assert "read-only, so its ledger does not record this test" in limits
    assert "no entry of the server's ledger vouches for it" in limits
    # Estimates that leave the server are recorded, or not made.
    says = "fed is read-only: no estimates are made where its ledger.jsonl cannot record the sets."
    run.refused(3, "attribute", "estimate", "--rounds", "fed", "--out", "e", *SMALL, says=says)
    assert not Path("e").exists() or not [*Path("e").rglob("*.safetensors")]


def test_a_second_design_of_a_round_is_one_line(run, fed):
    words = ("attribute", "estimate", "--rounds", fed.path, *SMALL, "--quiet")
    assert run(*words, "--out", "est").code == 0
    for more in (("--out", "est2"), ("--out", "est3", "--seed", 9)):
        run.refused(3, *words, *more, says="Round 1 was already asked for with other sets")
        run.refused(3, *words, *more, "--dry-run", says="already asked for with other sets")
    again = run(*words, "--out", "est2", "--log", "est.log.json")  # the log has the sets of then
    assert again.code == 0
    assert "Round 1 was asked for before with the same sets" in again.out
    assert "2 rounds, one design each" in again.out
    first, second = (json.loads(Path(at, "estimates.json").read_text()) for at in ("est", "est2"))
    assert first["files"] == second["files"]


def test_a_federation_is_the_same_by_whatever_name(run, fed, monkeypatch):
    words = (*SMALL, "--quiet")
    estimate = ("attribute", "estimate", "--rounds")
    assert run(*estimate, fed.path, "--out", "est", *words).code == 0
    Path("elsewhere").mkdir()
    Path("elsewhere/link").symlink_to(fed.path / "rounds")
    Path("loop").symlink_to("loop")
    says = "Round 1 was already asked for with other sets"
    run.refused(3, *estimate, "elsewhere/link", "--out", "est2", *words, says=says)
    run.refused(3, *estimate, fed.path / "rounds/001/..", "--out", "est2", *words, says=says)
    run.refused(3, *estimate, "loop", "--out", "est2", *words, says="loop")
    monkeypatch.chdir(fed.path / "rounds")
    run.refused(3, *estimate, ".", "--out", "../../est2", *words, says=says)
    run.refused(3, *estimate, "001", "--out", "../../est2", *words, says="")
    run.refused(3, *estimate, "../..", "--out", "../../est2", *words, says="")
    assert not (fed.path.parent / "est2").exists()
    assert list(fed.path.parent.rglob("ledger.jsonl")) == [fed.path / "ledger.jsonl"]


def bundled(run, report_folder, out):
    return run(
        "attribute", "bundle", "est", "--watermark", "marks.json", "--scores", "s.json",
        "--report", report_folder, "--commitments", "public.json", "--out", out,
    )  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return the folder that one bundle is made in, and what it was made with."""
    return SimpleNamespace(path=tmp_path_factory.mktemp("kept") / "work", mark=None)


@pytest.fixture
def bundle(request, run, monkeypatch, tmp_path, kept):
    """Work in a copy of a folder with a bundle, which is made once, and return the bundle."""
    if kept.mark:
        shutil.copytree(kept.path, tmp_path, dirs_exist_ok=True)
        handmade.reading(monkeypatch, kept.mark)
        return Path("b")
    fed = request.getfixturevalue("fed")
    scored(run, fed)
    assert decide(run, "--commitments", "public.json").code == 1
    shown = bundled(run, "o", "b")
    assert shown.code == 0
    assert "opens marks" in shown.err
    for gone in ("est", "marks.json", "s.json", "public.json", "o"):
        Path(gone).rename(f"{gone}.away")
    shutil.copytree(tmp_path, kept.path)
    kept.mark = fed.mark
    return Path("b")


def verify(run, *more):
    """Verify with what the server printed and the commitments received before training."""
    known = ["--estimates-sha256", sha256(Path("b/estimates/estimates.json"))]
    public = Path("public.json.away" if Path("public.json.away").exists() else "public.json")
    if "--commitments" not in more and public.exists():
        known += ["--commitments", str(public)]
    return run("attribute", "verify", "b", *ALONE, *known, *more)


def test_an_expert_comes_to_the_same_bits(run, bundle):
    done = verify(run)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    unchecked = [line for line in lines[:-1] if not line.startswith("same: ")]
    assert unchecked == []
    assert lines[0] == "same: files 37 by SHA-256"  # 2 x 8 adapters of two files, and five more
    assert "same: commitment of mark m0" in lines
    # Each round: the global model and seven clients, for one mark.
    assert "same: scores of round 1 (8 tests bit for bit)" in lines
    assert any(line.startswith("same: Z of c1, mark m0 (") for line in lines)
    assert "same: verdict fail" in lines
    assert any("Z of c2, mark m0" in line for line in verify(run, "--client", "c2").out.split("\n"))
    run.refused(2, "attribute", "verify", "b", "--client", "c11", says="Did you mean 'c1'?")
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o700
    assert stat.S_IMODE((bundle / "watermark.json").stat().st_mode) == 0o600


def test_a_decision_with_the_servers_log_is_checked_with_it(run, fed):
    scored(run, fed)
    words = ("--commitments", "public.json", "--log", "est.log.json")
    assert decide(run, *words).code == 1
    assert any(row["metric"] == "contribution" for row in report()["measurements"])
    assert report()["run"]["config"]["sets_known"] is True
    assert any("worked out from the sets" in limit for limit in report()["limits"])
    assert bundled(run, "o", "b").code == 0
    done = verify(run)
    assert done.code == 7
    assert "not checked: decision with the server's log of sums (no bundle has it" in done.out
    assert "same: decision measurements (" not in done.out
    done = verify(run, "--log", "est.log.json", "--commitments", "public.json")
    assert done.code == 0
    assert "same: report is about this log" in done.out
    for section in ("measurements", "findings", "limits"):
        assert f"same: decision {section}" in done.out
    assert "not checked" not in done.out
    assert "differs" not in done.out
    assert "same: verdict fail" in done.out
    run.refused(3, "attribute", "verify", "b", "--log", "none.json", says="none.json")


def test_a_log_that_a_decision_did_not_have_vouches_for_the_estimates(run, fed):
    scored(run, fed)
    assert decide(run, "--commitments", "public.json").code == 1
    assert bundled(run, "o", "b").code == 0
    words = ("attribute", "verify", "b", *ALONE, "--commitments", "public.json")
    assert run(*words).code == 7
    done = run(*words, "--log", "est.log.json")
    assert done.code == 0
    assert "same: estimates as the server handed them over" in done.out
    assert "same: estimates that the log tells of (14)" in done.out


def rewrite(path, change):
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))


def rehash(bundle, *names):
    """Write the SHA-256 of changed files into bundle.json: who forges a bundle can."""
    rewrite(
        bundle / "bundle.json", lambda t: t["files"].update({n: sha256(bundle / n) for n in names})
    )


def change_score(table):
    table["rounds"][0]["clients"]["c2"]["m0"]["z"] += 1e-12


def drop_client(table):
    for name in ("clients", "strength", "effective"):
        table["rounds"][0][name].pop("c2", None)


def change_z(table):
    for row in table["measurements"]:
        if row["metric"] == "stouffer_z" and row["scope"] == {"client": "c2", "mark": "m0"}:
            row["value"] += 1.0


def change_limits(table):
    table["limits"] = table["limits"][1:]


def change_commitment(table):
    table["commitments"][0]["sha256"] = "0" * 64


def change_secret(table):
    table["marks"][0]["secret"]["attributes"][0]["value"] += "x"


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("scores.json", change_score, ["scores of round 1", "report is about these scores"]),
        ("scores.json", drop_client, ["scores of round 1 (other clients were scored"]),
        ("report.json", change_z, ["decision measurements"]),
        ("report.json", change_limits, ["decision limits"]),
        (
            "commitments.json",
            change_commitment,
            ["commitments as published (", "decision findings"],
        ),
        ("watermark.json", change_secret, ["commitment of mark m0", "scores of round 1"]),
    ],
)
def test_whatever_was_changed_differs(run, bundle, name, change, says):
    rewrite(bundle / name, change)
    done = verify(run)
    assert done.code == 1
    assert f"differs: file {name} (not the SHA-256 in bundle.json)" in done.out
    rehash(bundle, name)
    done = verify(run)
    assert done.code == 1
    assert "same: files" in done.out
    for what in says:
        assert f"differs: {what}" in done.out


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
        (
            lambda b: rewrite(b / "bundle.json", lambda t: t["files"].update({"../x": "0"})),
            "outside",
        ),
        (tamper, "SHA-256"),
        (
            lambda b: rewrite(b / "report.json", lambda t: t["run"].update(command="x")),
            "is not a report of",
        ),
        (lambda b: (b / "scores.json").write_text("{}"), "holds no scores"),
        (
            lambda b: rewrite(b / "scores.json", lambda t: t.update(run="other")),
            "scores of another run",
        ),
    ],
)
def test_bundles_that_cannot_be_checked(run, bundle, damage, says):
    damage(bundle)
    outcome = verify(run)
    assert outcome.code == 3, outcome
    assert says in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_marks_that_are_not_opened_are_not_checked(run, fed, monkeypatch):
    handmade.marks(Path("marks.json"), count=2)
    assert run("watermark", "commitment", "marks.json", "--out", "two.json").code == 0
    scored(run, fed)
    assert decide(run, "--commitments", "two.json").code == 1
    parts = (
        *("attribute", "bundle", "est", "--watermark", "marks.json", "--scores", "s.json"),
        *("--report", "o/report.json", "--commitments", "two.json"),
    )
    run.refused(2, *parts, "--mark", "m7", "--out", "b", says="Did you mean")
    assert run(*parts, "--mark", "m0", "--out", "b").code == 0
    run.refused(3, *parts, "--out", "b", says="exists already")
    done = verify(run, "--commitments", "two.json")
    assert done.code == 0, done.out
    assert "not checked: commitment of mark m1 (the mark is not opened)" in done.out
    assert "not checked: scores of mark m1 (the mark is not opened)" in done.out
    assert "same: commitment of mark m0" in done.out
    assert "not checked: decision measurements" in done.out
    assert "same: accusation of c1, by the opened marks alone" in done.out
    told = Path("b/watermark.json").read_text()
    second = json.loads(Path("marks.json").read_text())["marks"][1]["secret"]["entity"]
    assert second not in told


def test_a_bundle_of_scores_that_were_made_with_other_settings(run, fed):
    other = ("--set", "fictitious.tokens=9")
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    assert run("attribute", *words).code == 0
    words = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE, *other)
    assert run("attribute", *words).code == 0
    assert decide(run).code == 1
    parts = (
        *("attribute", "bundle", "est", "--watermark", "marks.json", "--scores", "s.json"),
        *("--report", "o", "--out", "b"),
    )
    says = "s.json was made with other settings of the mark m0 than those in marks.json: give"
    run.refused(3, *parts, says=says)
    assert not Path("b").exists()
    assert run(*parts, *other).code == 0
    Path("public.json").unlink()  # no commitments were received: the accusation rests on the keys
    done = verify(run)
    assert done.code == 7, done.out
    assert "differs" not in done.out.replace("0 differs", "")
    assert "same: scores of round 1 (8 tests bit for bit)" in done.out


def test_calibrate_counts_commitments_that_nobody_opened(run, fed):
    scored(run, fed)
    words = ("attribute", "calibrate", "s.json", "--federations", 3, "--quiet")
    alone = run(*words)
    assert run(*words, "--commitments", "public.json") == alone
    rewrite(
        Path("public.json"),
        lambda table: table["commitments"].extend(
            {"id": f"x{n}", "plugin": "kgw", "sha256": f"{n:064x}"} for n in range(10_000)
        ),
    )
    among = run(*words, "--commitments", "public.json")
    assert (among.code, alone.code) == (0, 0)
    assert "like these, 10,000 unopened commitments beside, 3 of each" in among.out
    other_commitments()
    rewrite(Path("others.json"), lambda table: table["commitments"][0].update(id="stranger"))
    run.refused(3, *words, "--commitments", "others.json", says="no commitment of any of the marks")


HUGE = int("9" * 400)


def test_numbers_beyond_all_bounds_are_one_line(run, fed):
    scored(run, fed)
    good = Path("s.json").read_text()

    def count(table):
        table["rounds"][0]["clients"]["c2"]["m0"]["n"] = HUGE

    def weigh(table):
        table["weights"] = {who: 1e300 if who == "c1" else 1e-300 for who in table["clients"]}

    for change, says in (
        (count, "a count that is not possible"),
        (weigh, "a client's weight is more than 1,000,000,000,000 times the mean"),
        (lambda table: table["rounds"][0].update(round=HUGE), "a round beyond 1,000,000,000"),
    ):
        Path("s.json").write_text(good)
        rewrite(Path("s.json"), change)
        run.refused(3, "attribute", "decide", "s.json", "--out", "o", "--quiet", says=says)
    Path("s.json").write_text(good)
    log = Path("est.log.json").read_text()
    for changes in (
        {"include": [], "exclude": []},
        {"include": [[]], "exclude": [[]]},
        {"include": ["c0"], "exclude": ["c1"]},
    ):
        table = json.loads(log)
        table["rounds"][0]["designs"][0].update(changes)
        Path("est.log.json").write_text(json.dumps(table))
        words = ("attribute", "decide", "s.json", "--log", "est.log.json", "--out", "o", "--quiet")
        run.refused(3, *words, says="the sets of round 1 cannot be read")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_a_mark_with_a_number_that_is_none_is_one_line(run, fed, number):
    text = Path("marks.json").read_text()
    changed = text.replace('"secret": {', f'"secret": {{"x": {number}, ', 1)
    assert changed != text
    Path("marks.json").write_text(changed)
    run.refused(3, "watermark", "commitment", "marks.json", says="a number that is not finite")
