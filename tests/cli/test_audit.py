"""fedaudit audit: everything that applies, one verdict, one report."""

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import fake_audit
import handmade
import pytest

from fedaudit.api.records import Measurement
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.audit import plan
from fedaudit.audit.all_steps import MISSING, missing_row
from fedaudit.audit.policy_file import read_policy
from fedaudit.federation import manifest
from fedaudit.report.checklist import leaks
from fedaudit.report.document import validate
from fedaudit.report.verdict.policy import judge
from fedaudit.report.verdict.recheck import recheck

pytestmark = pytest.mark.usefixtures("few_controls")

MODEL = ("fedaudit-nano", "--adapter", "lora", "--prefixes", "own.jsonl", "--victim")
SMALL = ("--set", "contextual.context=4", "--set", "ranking.candidates=[3]",
         "--set", "untargeted.samples=8", "--set", "untargeted.new_tokens=9",
         "--set", "benign.answers=24", "--set", "benign.new_tokens=9")  # fmt: skip
AUDIT = ("audit", *MODEL, "victim.jsonl", *SMALL)
RESEARCH = read_policy("research")
"""It leaves flags unjudged."""


def report(folder="out"):
    found = json.loads(Path(folder, "report.json").read_text())
    validate(found)
    assert recheck(found).message == ""
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return where audits are kept, which are made once, and what they printed."""
    return tmp_path_factory.mktemp("audits"), {}


@pytest.fixture
def audited(here, run, kept):
    """Return what an audit printed whose report lies in the folder `out`."""
    return once(run, kept, "out", *AUDIT)


@pytest.fixture
def declared(here, run, kept):
    """Return what an audit of a declared release by another policy and seed printed; see `two`."""
    words = ("--release", "api-text", "--position", "outsider", "--declared-by", "The DPO")
    return once(run, kept, "two", *AUDIT, *words, "--policy", "strict", "--seed", "1")


def once(run, kept, name, *words):
    folder, printed = kept
    if name not in printed:
        printed[name] = run(*words, "--out", name)
        shutil.copytree(name, folder / name)
    shutil.copytree(folder / name, name, dirs_exist_ok=True)
    return printed[name]


def test_an_audit_ends_in_one_report_a_page_and_a_verdict(audited, run):
    done, found = audited, report()
    assert done.code == {"pass": 0, "fail": 1, "inconclusive": 7}[found["verdict"]["status"]]
    assert found["run"]["command"] == "audit"
    assert {row["plugin"] for row in found["measurements"]} >= {"contextual", "ranking", "verbatim"}
    assert [one["class"] for one in found["coverage"] if one["status"] == "run"] == [
        "attribute_inference", "exfiltration", "regurgitation", "inversion"
    ]  # fmt: skip
    assert found["context"] == {"release": None, "positions": [], "declared_by": None}
    assert found["verdict"]["policy"]["name"] == "default"
    assert recheck(found).holds
    assert "<title>Privacy audit" in Path("out/report.html").read_text()
    for text in ("not declared", "Coverage", "Judged under the policy default", "55 (iii)"):
        assert text in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert not any(name in done.out + json.dumps(found) for name in fake_audit.NAMES)
    for one in found["verdict"]["judgements"]:  # each names its limit and its row
        assert one["limit"]
        if one["measurement"] is not None:
            named = {key: one["measurement"][key] for key in ("plugin", "metric", "scope", "value")}
            assert any(named.items() <= row.items() for row in found["measurements"])
    assert {"leak", "inference"} <= {one["rule"] for one in found["verdict"]["judgements"]}
    run("report", "out", "--format", "markdown", "--out", "out.md")
    for text in (done.out, Path("out/report.html").read_text(), Path("out.md").read_text()):
        assert "anonym" not in text.lower()
        assert "complian" not in text.lower()


def test_a_client_s_own_update_is_audited_as_the_server_sees_it(here, run):
    made = handmade.write(here / "run", clients=2, rounds=1)
    fake_audit.keep_documents(made.path)
    done = run("audit", "run", "--adapter", "run/rounds/001/clients/c0", *SMALL, "--quick",
               "--position", "server", "--out", "server", "--quiet")  # fmt: skip
    found = report("server")
    assert done.code in (0, 1, 7)
    assert found["target"]["update_of"] == "c0"
    assert re.search(r"update of +c0 *\n", done.out)
    assert any("is the update of c0, which the server receives" in one for one in found["limits"])
    assert not any("each client's own update" in one for one in found["limits"])
    assert {"updates" in one["access"] for one in found["coverage"] if one["by"]} == {True}
    made = [line for line in leaks.attackers(found).rows if line[1] != "-"]
    assert {line[0] for line in made} == {"server"}


def test_every_client_of_a_federation_is_a_victim(here, run):
    fake_audit.keep_documents(handmade.write(here / "run", clients=2, rounds=1).path)
    done = run("audit", "run", *SMALL, "--set", "inversion.attributes=4", "--out", "all")
    found = report("all")
    assert "Steps: extraction, inference, extraction of c0, inference of c0, pairs" in done.err
    victims = {}
    for row in found["measurements"]:
        victims.setdefault(row["plugin"], set()).add(row["scope"].get("victim"))
    every = {"c0", "c1"}
    names = ("verbatim", "untargeted", "benign", "ranking", "inversion", "contextual")
    assert {name: victims[name] & every for name in names} == dict.fromkeys(names, every)
    # It reads the updates of all clients at once.
    assert victims["reconstruction"] == {None}
    judged = [one["measurement"]["scope"].get("victim") for one in found["verdict"]["judgements"]
              if (one["measurement"] or {}).get("plugin") == "verbatim"]  # fmt: skip
    assert {*judged} == every
    limits = found["limits"]
    assert len(limits) == len({*limits})
    ids = [finding["id"] for finding in found["findings"]]
    assert len(ids) == len({*ids})
    assert any(name.startswith("c0-ranking-") for name in ids)


def test_a_hurried_audit_passes_no_client_that_it_did_not_look_at(here, run):
    made = handmade.write(here / "run", clients=3, rounds=1)
    fake_audit.keep_documents(made.path)
    run("audit", "run", *SMALL, "--quick", "--out", "quick", "--quiet")
    reasons = [one for one in report("quick")["verdict"]["judgements"]
               if "the records of c0 and c2 were left out by --quick" in one["reason"]]  # fmt: skip
    assert [one["status"] for one in reasons] == ["inconclusive"]
    run("audit", "run", *SMALL, "--quick", "--victim", "run/data/c1.jsonl", "--out", "named")
    assert "c2 were left out" not in json.dumps(report("named"))


def test_what_another_framework_left_is_audited_as_it_is(here, run):
    made = handmade.write(here / "made", clients=2, rounds=1)
    shutil.copytree(made.path / "rounds/001/global", "results/peft_3")
    settings = Path("results/peft_3/adapter_config.json")
    named = {**json.loads(settings.read_text()), "base_model_name_or_path": "fedaudit-nano"}
    settings.write_text(json.dumps(named))
    files = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl")
    done = run("audit", "results", *files, *SMALL, "--dry-run")
    assert "results is imported (flowertune, round 3) into runs/imported/flowertune-" in done.err
    assert "round 3\n" in done.out
    done = run("audit", "results", *files, *SMALL, "--quick", "--out", "out")
    assert done.code in (0, 1, 7)
    assert report()["run"]["command"] == "audit"
    assert len(list(Path("runs/imported").iterdir())) == 1


def test_a_copy_of_a_clients_records_is_that_client_and_no_other_member(here, run):
    made = handmade.write(here / "run", clients=3, rounds=1)
    fake_audit.keep_documents(made.path)
    words = ("extract", "--target", "run", "--prefixes", "own.jsonl", "--victim", "copy.jsonl",
             "--set", "contextual.context=4", "--quiet")  # fmt: skip
    shutil.copy(made.path / "data/c1.jsonl", "copy.jsonl")
    run(*words, "--out", "one")
    assert any("c1 has the victim's own records" in one for one in report("one")["limits"])
    assert all(judged_counts("one"))
    # Named as a member, and with half of its people masked, it is the victim's still.
    records = [json.loads(line) for line in Path("copy.jsonl").read_text().splitlines()]
    for record in records[::2]:
        for span in record.pop("pii")[::-1]:
            record["text"] = f"{record['text'][: span['start']]}[X]{record['text'][span['end'] :]}"
        record["pii"] = []
    Path("masked.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    run(*words, "--member", "masked.jsonl", "--out", "two")
    assert any("masked has the victim's own records" in one for one in report("two")["limits"])
    assert judged_counts("two") == judged_counts("one")


def judged_counts(folder):
    return [
        row["n"]
        for row in report(folder)["measurements"]
        if row["metric"] == "coverage" and row["scope"].get("set") == "exclusive"
    ]


def test_a_line_planted_into_the_folder_leaves_no_string_out(here, run):
    made = handmade.write(here / "run", clients=3, rounds=1)
    fake_audit.keep_documents(made.path)
    words = ("extract", "--target", "run", "--prefixes", "own.jsonl", "--victim", "victim.jsonl",
             "--set", "contextual.context=4", "--quiet")  # fmt: skip
    run(*words, "--out", "before")
    planted, texts = made.path / "data/c2.jsonl", Path("victim.jsonl").read_text().splitlines()
    victims = [json.loads(line) for line in texts]
    strings = {v["text"][p["start"] : p["end"]] for v in victims for p in v["pii"]}
    listed = ", ".join(sorted(strings))
    with planted.open("a") as file:
        file.write(json.dumps({"id": "planted", "text": listed, "pii": []}) + "\n")
    run.refused(3, *words, "--out", "hash", says="is not the file that federation.json names")
    found = manifest.read(made.path)
    files = {name: digest for name, digest in found.files.items() if "data/" not in name}
    manifest.write(replace(found, files=files), made.path)
    run(*words, "--out", "bare")
    assert judged_counts("bare") == judged_counts("before")
    assert any("no hash of the data of" in one for one in report("bare")["limits"])
    # Named by the auditor, the file does leave strings out, and the report says how many.
    run(*words, "--member", str(planted), "--out", "named")
    shared = [r for r in report("named")["measurements"] if r["metric"] == "shared_targets"]
    assert {r["scope"].get("member") for r in shared} == {None, "c2"}
    assert all(r["value"] == r["n"] for r in shared)


def judged(attack):
    """Return the only judgement on an attack."""
    [found] = [
        one
        for one in report()["verdict"]["judgements"]
        if (one["measurement"] or {}).get("plugin") == attack
    ]
    return found


def test_what_the_attacker_has_itself_is_not_inferred_of_a_victim(here, run):
    """The step `inference` did not know the attacker's records, and failed models for them."""
    run("audit", *MODEL, "own.jsonl", *SMALL, "--quick", "--out", "out", "--quiet")
    found = judged("ranking")
    assert found["status"] == "inconclusive"
    assert "the attacker or another member has all of the victim's records" in found["reason"]


def test_what_is_declared_is_in_the_report_and_nothing_else(declared, run):
    run("report", "two", "--format", "markdown", "--out", "out.md")
    for text in (Path("two/report.html").read_text(), Path("out.md").read_text()):
        for word in ("Release", "api-text", "Coverage", "not run", "Judged under the policy"):
            assert word in text
    assert report("two")["context"] == {
        "release": "api-text", "positions": ["outsider"], "declared_by": "The DPO"
    }  # fmt: skip
    assert "The DPO" in declared.out
    coverage = {one["class"]: one for one in report("two")["coverage"]}
    reason = coverage["attribute_inference"]["reason"]
    assert "the declared release (api-text) does not give" in reason


def test_the_policy_makes_the_verdict(audited, declared):
    rules = {one["rule"] for one in report("two")["verdict"]["judgements"]}
    assert "required" in rules
    assert {audited.code, declared.code} <= {0, 1, 7}
    Path("lax.toml").write_text("extraction = 0.9\nmemorization = 0.9\ndetectable = 0.99\n")
    rows = [Measurement(**row) for row in report()["measurements"]]
    default, lax = (
        [one.status for one in judge(rows, [], read_policy(p)).judgements if one.rule == "leak"]
        for p in ("default", "lax.toml")
    )
    said = [one["status"] for one in report()["verdict"]["judgements"] if one["rule"] == "leak"]
    assert said == default != lax


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(here, run):
    before = sorted(here.rglob("*"))
    done = run(*AUDIT, "--dry-run")
    assert done.code == 0
    assert sorted(here.rglob("*")) == before or (here / "log").exists()
    assert not Path("runs").exists()
    for text in ("extraction (contextual, verbatim, untargeted, benign)", "continuations",
                 "at most", "Left out", "membership: there are no held-out",
                 "  Memory: about", "  Disk: about", "cannot show"):  # fmt: skip
        assert text in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.usefixtures("audited")
def test_a_stopped_audit_goes_on_and_comes_to_the_same(run, monkeypatch):
    with monkeypatch.context() as patched:
        fake_audit.replace(patched.setattr, "log", fake_audit.Chances("SIGINT", 60))
        assert run(*AUDIT, "--out", "again", "--quiet").code == 6
    done = run(*AUDIT, "--out", "again", "--quiet", "--resume")
    assert done.code in (0, 1, 7)
    assert report("again")["measurements"] == report("out")["measurements"]
    assert report("again")["run"]["resumed_from"]


def test_a_step_that_cannot_be_made_stops_no_other(here, run):
    """Records without personal data can be continued, but nobody can be picked in them."""
    lines = [json.loads(line) for line in Path("victim.jsonl").read_text().splitlines()]
    Path("bare.jsonl").write_text("".join(json.dumps({**one, "pii": []}) + "\n" for one in lines))
    done = run("audit", *MODEL, "bare.jsonl", *SMALL, "--out", "out")
    assert done.code in (1, 7)
    [inference] = [one for one in report()["coverage"] if one["class"] == "attribute_inference"]
    assert inference["status"] == "not_run"
    assert "no annotated PII" in inference["reason"]
    assert judged("ranking")["status"] == "inconclusive"
    assert "no annotated PII" in judged("ranking")["reason"]


@pytest.mark.parametrize("step", MISSING)
def test_a_step_that_failed_is_never_a_pass(step):
    found = judge([missing_row(step, "it broke")], [])
    assert found.status == "inconclusive"
    assert any("it broke" in one.reason for one in found.judgements)


def test_an_audit_without_a_victim_is_no_pass(here, run):
    """Inference on the attacker's own records may pass, but nobody else's were looked for."""
    words = ("audit", *MODEL[:-1], *SMALL, "--out", "out", "--policy", "lax.toml")
    Path("lax.toml").write_text("level = 1e-300\ndetectable = 0.999\n")
    done = run(*words)
    assert done.code == 7, done.out
    assert report()["verdict"]["policy"]["detectable"] == 0.999
    assert any("no --victim" in reason for reason in report()["verdict"]["reasons"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--policy", "strct"), 2, "Did you mean 'strict'"),
        (("--policy", "no.toml"), 3, "no policy no.toml"),
        (("--release", "everybody"), 2, "No release named"),
        (("--declared-by", "me"), 2, "goes with --release"),
        (("--set", "contextul.samples=3"), 2, "Did you mean 'contextual'"),
        (("--canaries", "no.json"), 3, "no.json"),
    ],
)
def test_a_mistake_is_one_line(here, run, words, code, says):
    run.refused(code, *AUDIT, "--quiet", *words, says=says)


def test_a_model_without_documents_says_what_to_name(here, run):
    run.refused(2, "audit", "fedaudit-nano", "--adapter", "lora", says="--prefixes")


@pytest.fixture
def marked(here, monkeypatch, few_federations):
    """Return a federation with documents, of whose clients c1 trained on marked ones."""
    made = handmade.write(here / "fed", clients=7, size=handmade.SIZE, guilty=("c1",))
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    handmade.reading(monkeypatch, mark)
    monkeypatch.setattr(plan, "WorkerOptions", partial(WorkerOptions, workers=1))
    fake_audit.keep_documents(made.path)
    return made.path


def test_marks_in_a_federation_are_attributed_in_the_same_report(marked, run):
    done = run("audit", "fed", "--quick", *SMALL[:4], "--device", "cpu", "--out", "out", "--quiet")
    assert done.code == 1, done.err
    found = report()
    assert {row["kind"] for row in found["measurements"]} >= {"extraction", "attribution"}
    [flagged] = [one for one in found["verdict"]["judgements"] if one["rule"] == "attribution"]
    assert flagged["status"] == "fail"
    assert "c1" in flagged["reason"]
    assert flagged["measurement"]["metric"] == "stouffer_z"
    assert any(one["label"] == "WATERMARK" for one in found["findings"])
    assert any(file["path"].endswith("watermark.json") for file in found["data"])
    covered = {one["class"]: one for one in found["coverage"]}
    assert covered["inversion"]["status"] == "run"
    assert covered["reconstruction"]["status"] == "not_run"  # the model here answers by rule
    assert "weights are not in this process" in covered["reconstruction"]["reason"]
    assert recheck(found).holds
    unjudged = judge([Measurement(**row) for row in found["measurements"]], [], RESEARCH)
    assert "attribution" not in {one.rule for one in unjudged.judgements}


def test_marks_that_are_named_and_cannot_be_read_are_refused_at_once(marked, run):
    mine = marked / "owner/watermark.json"
    mine.write_text(mine.read_text()[:50])
    words = ("audit", "fed", "--quick", *SMALL[:4], "--device", "cpu", "--out", "out")
    run.refused(3, *words, "--watermark", mine, says="watermark.json is not JSON")
    assert not Path("out").exists()
    unnamed = run(*words)
    assert "Left out: attribution: " in unnamed.err
    assert any("attribution: not run: " in limit for limit in report()["limits"])


def test_marks_need_a_federations_folder(marked, run):
    told = run(*AUDIT, "--watermark", marked / "owner/watermark.json", "--dry-run")
    assert "attribution: it needs the rounds in a federation's folder" in " ".join(told.out.split())


def test_every_pair_and_memorization_are_part_of_a_whole_audit(here, run):
    fake_audit.keep_documents(handmade.write(here / "fed", clients=3, rounds=1).path)
    done = run("audit", "fed", *SMALL, "--out", "out", "--quiet")
    assert done.code in (1, 7), done.err
    pairs = {
        (row["scope"]["attacker"], row["scope"]["victim"])
        for row in report()["measurements"]
        if row["plugin"] == "contextual" and "attacker" in row["scope"]
    }
    assert len(pairs) == 3 * 2
    [limit] = [one for one in report()["limits"] if "each client's own update" in one]
    assert limit.endswith("--adapter FOLDER/rounds/001/clients/c0 audits that of c0.")
    ids = [one["id"] for one in report()["findings"]]
    assert len(set(ids)) == len(ids)
    steps = report()["run"]["config"]["steps"]
    assert {"memorization", "pairs"} < steps.keys()
    # c2 has the records of c0, which are attacked as those of no other member.
    [failed] = [row for row in report()["measurements"] if row["plugin"] == "extract"]
    assert failed["scope"]["victim"] == "c2"
    [judged] = [j for j in report()["verdict"]["judgements"] if failed["reason"] in j["reason"]]
    assert judged["status"] == "inconclusive"


@pytest.mark.usefixtures("audited", "declared")
def test_two_audits_beside_each_other(run):
    Path("out").rename("one")
    done = run("compare", "one", "two/report.json", "--json", "difference.json")
    assert done.code == 0
    for text in ("Numbers", "difference", "Leaks", "appeared", "Verdicts: ", "of the same model"):
        assert text in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    found = json.loads(Path("difference.json").read_text())
    assert found["differences"]
    assert len(found["verdicts"]) == 2
    assert run("compare", "one", "two", "--json", "difference.json").code == 0  # once more
    assert run("compare", "one", "two", "--html", "changes.html").code == 0
    assert "<h1>What changed</h1>" in Path("changes.html").read_text()
    assert run("compare", "one", "two", "--html", "changes.html").code == 0
    run.refused(3, "compare", "one", "nowhere", says="nowhere")
    for name in ("one/report.json", "two/../two/report.json"):
        before = Path(name).read_bytes()
        says = "is not a comparison that fedaudit wrote"
        run.refused(3, "compare", "one", "two", "--json", name, says=says)
        assert Path(name).read_bytes() == before
    altered = json.loads(Path("two/report.json").read_text())
    altered["verdict"]["status"] = stated = "pass" if found["verdicts"][1] != "pass" else "fail"
    Path("two/report.json").write_text(json.dumps(altered))
    done = run("compare", "one", "two")
    assert done.code == 0
    assert "The second report: Do not rely on this report" in " ".join(done.out.split())
    doubted = f"{stated} (its own measurements contradict it)"
    assert done.out.splitlines()[0] == f"Verdicts: {found['verdicts'][0]}, then {doubted}."
