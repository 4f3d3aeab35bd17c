"""fedaudit attribute with commitments, a ledger, and a bundle that somebody else checks."""

import json
import shutil
from pathlib import Path

import handmade
import pytest
from handmade import ALONE, SMALL, rewrite

from fedaudit.attribution.server import ledger

pytestmark = pytest.mark.usefixtures("empty_folder", "few_federations")

WHOLE = (*SMALL, *ALONE, "--watermark", "marks.json", "--federations", 0)


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


@pytest.fixture
def scored(run, tmp_path, monkeypatch):
    """Have the federation, marks, commitments, estimates and scores in the folder."""
    handmade.scored(tmp_path, run, monkeypatch)


def decide(run, *more, out="o"):
    return run("attribute", "decide", "s.json", "--out", out, "--quiet", "--federations", 0, *more)


def test_a_committed_mark_flags_and_another_key_does_not(run, scored):
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
    early = Path("public.json").read_text()
    for late in ("2031-01-01T00:00:00+00:00", ""):  # commitments that say that they are late
        rewrite(Path("public.json"), lambda table, late=late: table.update(made=late))
        assert decide(run, "--commitments", "public.json", out="s").code == 7
        assert report("s")["findings"] == []
    # With the log, too, a few unopened commitments do not clear everybody.
    Path("public.json").write_text(early)
    rewrite(
        Path("public.json"),
        lambda table: table["commitments"].extend(
            {"id": f"x{n}", "plugin": "kgw", "sha256": f"{n:064x}"} for n in range(20)
        ),
    )
    assert decide(run, "--commitments", "public.json", "--log", "est.log.json", out="t").code == 1
    assert [finding["evidence"]["client"] for finding in report("t")["findings"]] == ["c1"]


def test_scores_of_nothing_are_no_pass(run, scored):

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
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    assert run("attribute", *words).code == 0
    words = ("attribute", "--rounds", fed.path, *WHOLE)
    assert run(*words, "--out", "o").code == 1
    rewrite(own, lambda table: table.update(made="2020-01-01T00:00:00+00:00"))
    assert run(*words, "--out", "p").code == 7
    assert report("p")["findings"] == []
    says = "mark m0 is uncommitted: the server noted another file of commitments"
    assert any(says in limit for limit in report("p")["limits"])
    # Of a file that did not lie in the folder the ledger says nothing.
    assert run(*words, "--commitments", "public.json", "--out", "q").code == 1
    # Those that were made after a round was released are late.
    assert run("watermark", "commitment", "marks.json", "--out", "late.json").code == 0
    assert run(*words, "--commitments", "late.json", "--out", "r").code == 7


def test_all_in_one_takes_the_commitments_in_the_federations_folder(run, fed):
    words = ("attribute", "--rounds", fed.path, *WHOLE)
    assert run(*words, "--commitments", "public.json", "--out", "p").code == 1
    assert not any("until a mark is opened" in limit for limit in report("p")["limits"])
    other_commitments(fed.path / "commitments.json")
    assert run(*words, "--out", "q").code == 7
    assert report("q")["verdict"]["status"] == "inconclusive"
    # Settings are part of what was committed to.
    shutil.copy("public.json", fed.path / "commitments.json")
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
    assert run("attribute", "--rounds", "fed", *WHOLE, "--out", "o").code == 1
    assert sorted(fed.path.rglob("*")) == before
    limits = " ".join(report()["limits"])
    assert "read-only, so its ledger does not record this test" in limits
    assert "no entry of the server's ledger vouches for it" in limits
    # Estimates that leave the server are recorded, or not made.
    says = "fed is read-only: no estimates are made where its ledger.jsonl cannot record the sets."
    run.refused(3, "attribute", "estimate", "--rounds", "fed", "--out", "e", *SMALL, says=says)
    assert not Path("e").exists() or not [*Path("e").rglob("*.safetensors")]


def test_a_second_design_of_a_round_is_one_line(run, scored):
    words = ("attribute", "estimate", "--rounds", "fed", *SMALL, "--quiet")
    for more in (("--out", "est2"), ("--out", "est3", "--seed", 9)):
        run.refused(3, *words, *more, says="Round 1 was already asked for with other sets")
        run.refused(3, *words, *more, "--dry-run", says="already asked for with other sets")
    again = run(*words, "--out", "est2", "--log", "est.log.json")  # the log has the sets of then
    assert again.code == 0
    assert "Round 1 was asked for before with the same sets" in again.out
    assert "2 rounds, one design each" in again.out
    first, second = (json.loads(Path(at, "estimates.json").read_text()) for at in ("est", "est2"))
    assert first["files"] == second["files"]


def test_a_federation_is_the_same_by_whatever_name(run, scored, tmp_path, monkeypatch):
    words = (*SMALL, "--quiet")
    estimate, fed = ("attribute", "estimate", "--rounds"), tmp_path / "fed"
    Path("elsewhere").mkdir()
    Path("elsewhere/link").symlink_to(fed / "rounds")
    Path("loop").symlink_to("loop")
    says = "Round 1 was already asked for with other sets"
    run.refused(3, *estimate, "elsewhere/link", "--out", "est2", *words, says=says)
    run.refused(3, *estimate, fed / "rounds/001/..", "--out", "est2", *words, says=says)
    run.refused(3, *estimate, "loop", "--out", "est2", *words, says="loop")
    monkeypatch.chdir(fed / "rounds")
    run.refused(3, *estimate, ".", "--out", "../../est2", *words, says=says)
    run.refused(3, *estimate, "001", "--out", "../../est2", *words, says="")
    run.refused(3, *estimate, "../..", "--out", "../../est2", *words, says="")
    assert not (tmp_path / "est2").exists()
    assert list(tmp_path.rglob("ledger.jsonl")) == [fed / "ledger.jsonl"]


def verify(run, *more):
    """Verify with what the server printed."""
    printed = ("--estimates-sha256", Path("server.txt").read_text())
    return run("attribute", "verify", "b", *ALONE, *printed, *more)


def test_marks_that_are_not_opened_are_not_checked(run, fed):
    handmade.marks(Path("marks.json"), count=2)
    assert run("watermark", "commitment", "marks.json", "--out", "two.json").code == 0
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    printed = run("attribute", *words).out
    Path("server.txt").write_text(printed.split("SHA-256 of estimates.json: ")[1][:64])
    words = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
    assert run("attribute", *words).code == 0
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
    assert "it follows from the bundle's scores; those of m1 are not checked" in done.out
    assert "same: accusation of c1, by the opened marks alone" in done.out
    told = Path("b/watermark.json").read_text()
    second = json.loads(Path("marks.json").read_text())["marks"][1]["secret"]["entity"]
    assert second not in told


def test_a_bundle_of_scores_that_were_made_with_other_settings(run, scored):
    other = ("--set", "fictitious.tokens=9")
    Path("s.json").unlink()
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
    done = verify(run)  # no commitments were received: the accusation rests on the keys
    assert done.code == 7, done.out
    assert "differs" not in done.out.replace("0 differs", "")
    assert "same: scores of round 1 (8 tests bit for bit)" in done.out


def test_calibrate_counts_commitments_that_nobody_opened(run, scored):
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


def test_numbers_beyond_all_bounds_are_one_line(run, scored):
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


def test_a_mark_with_a_number_that_is_none_is_one_line(run):
    handmade.marks(Path("marks.json"))
    text = Path("marks.json").read_text()
    for number in ("NaN", "1e999", "-Infinity"):
        changed = text.replace('"secret": {', f'"secret": {{"x": {number}, ', 1)
        assert changed != text
        Path("marks.json").write_text(changed)
        run.refused(3, "watermark", "commitment", "marks.json", says="a number that is not finite")
