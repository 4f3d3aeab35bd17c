"""SecureGate as typed: built, attacked under every key, its keys changed, and nothing leaked."""

import json
import re
import shutil
import stat
from pathlib import Path

import fork
import pytest
from fedaudit_plugins.defenses.secure_gate import training

from fedaudit.federation.adapters import WEIGHTS
from fedaudit.report.document import validate
from fedaudit.system.files import sha256

SMALL = (
    "--set=clients=2",
    "--set=rounds=2",
    "--set=training.steps=8",
    "--set=training.batch_size=4",
    "--set=training.max_length=64",
    '--set=training.targets=["q_proj", "v_proj"]',
    "--set=records.cases=4",
    "--set=records.documents_per_case=5",
    "--set=evaluated=3",
    '--set=defenses=[{name="secure_gate", budget=4, query=4}]',
    "--set=workers=1",
)
RUN = Path("runs/secure_gate")
KEYS = "defense/c0/keys.json"
TAU = 'defenses=[{name="secure_gate", tau=1.5}]'
ASK = (
    "infer",
    "--data",
    RUN / "data/c0.jsonl",
    "--quiet",
    "--candidates",
    8,
    "--set",
    "ranking.sentences=12",
)
FEW = (*ASK[:-1], "ranking.sentences=3")  # where it only matters who is asked


FEW_PROMPTS = """
import sys
from fedaudit.__main__ import main
from fedaudit_plugins.defenses.secure_gate import evaluation
evaluation.PROMPTS, evaluation.TIMED, evaluation.NEW_TOKENS = 300, 2, 4
sys.argv = {words}
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("work")
    words = ["fedaudit", "simulate", "--profile", "secure_gate", *SMALL]
    done = fork.program(FEW_PROMPTS.format(words=words), real=True, cwd=place)
    assert done.returncode == 0, done.stderr
    (place / "log").write_text(done.stdout + done.stderr)
    return place


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    """Return a copy of that folder; gates whose keys change learn from few examples."""
    for name, value in (("COUNT", 32), ("HELD_OUT", 8), ("SURE", 0.95)):
        monkeypatch.setattr(training, name, value)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def secrets(place=RUN):
    """Return every key and salt of a federation."""
    found = []
    for path in Path(place).rglob("keys.json"):
        table = json.loads(path.read_text())
        found += [table["salt"], *(key["secret"] for key in table["keys"])]
    return found


def key_of(client, name="revealing"):
    table = json.loads((RUN / f"defense/{client}/keys.json").read_text())
    return next(key["secret"] for key in table["keys"] if key["name"] == name)


def measured(report, metric):
    rows = json.loads(Path(report).read_text())["measurements"]
    return [row for row in rows if row["metric"] == metric]


def test_simulate_deploys_a_folder_for_each_client(here):
    validate(json.loads((RUN / "report.json").read_text()))
    manifest = json.loads((RUN / "federation.json").read_text())
    assert manifest["deployment"]["name"] == "secure_gate"
    for client in ("c0", "c1"):
        place = RUN / "defense" / client
        assert stat.S_IMODE((place / "keys.json").stat().st_mode) == 0o600
        for name in ("secure", "revealing"):
            assert f"defense/{client}/{name}/{WEIGHTS}" in manifest["files"]
    assert not any("key" in name or "gate" in name for name in manifest["files"])
    assert (RUN / "private/c1/revealing/002" / WEIGHTS).is_file()


def test_the_report_tells_routing_perplexity_fusion_and_costs(here):
    routed = measured(RUN / "report.json", "routing_accuracy")
    assert {row["scope"]["prompts"] for row in routed} == {
        "right",
        "malformed",
        "random",
        "empty",
        "none",
    }
    assert all(row["value"] == 1.0 for row in routed)
    # A decision is a key: each client has one, an empty one and none are one each.
    alone = [row["n"] for row in routed if row["scope"]["prompts"] in ("right", "empty", "none")]
    assert set(alone) == {1}
    assert {row["n"] for row in routed if row["scope"]["prompts"] == "random"} == {300}
    # A key can be malformed in some hundred ways: several prompts have the same.
    assert all(100 < r["n"] < 300 for r in routed if r["scope"]["prompts"] == "malformed")
    scopes = [row["scope"] for row in measured(RUN / "report.json", "perplexity")]
    assert {"all", "c0", "c1"} <= {scope.get("client") for scope in scopes}
    stages = {row["scope"].get("stage") for row in measured(RUN / "report.json", "flops")}
    assert {"federated", "private", "fusion", "gating"} <= stages
    assert {row["scope"]["stage"] for row in measured(RUN / "report.json", "seconds")} == {
        "gating",
        "adapter",
    }


def test_infer_asks_under_every_key(here, run):
    outcome = run(*ASK, "--out", "audit")
    assert outcome.code in (0, 1, 7), outcome.err
    assert max(map(len, outcome.out.splitlines())) <= 80
    rows = [
        r for r in measured("audit/report.json", "inference_accuracy") if "label" not in r["scope"]
    ]
    by_key = {row["scope"]["key"]: row for row in rows if row["scope"]["source"] == "tuned"}
    assert list(by_key) == ["right", "wrong", "none", "other"]
    assert by_key["wrong"]["hits"] == by_key["none"]["hits"] == by_key["other"]["hits"]
    assert by_key["right"]["hits"] > by_key["none"]["hits"]
    assert {row["scope"]["client"] for row in rows} == {"c0"}
    findings = json.loads(Path("audit/report.json").read_text())["findings"]
    assert not any(finding["id"].startswith("c0-right") for finding in findings)


def test_one_kind_of_key_a_client_by_name_and_a_round_without_any(here, run):
    outcome = run(*FEW, "--client", "c1", "--key", "right", "--out", "right")
    assert outcome.code == 7, "what a right key opens is not a finding, and nothing else was asked"
    scopes = [row["scope"] for row in measured("right/report.json", "inference_accuracy")]
    assert {(scope["client"], scope["key"]) for scope in scopes} == {("c1", "right")}
    run(*FEW, "--round", 2, "--out", "round")
    rows = measured("round/report.json", "inference_accuracy")
    assert not any("key" in row["scope"] for row in rows)


def test_keys_and_salts_stand_in_the_key_files_alone(here, run):
    run(*FEW, "--out", "audit", "--reveal")
    run("report", "audit", "--format", "html")
    asked = [
        run(
            "gate", "ask", RUN, f"[SPECIAL_TOKEN={key_of('c0')}] The claimant is", "--client", "c0"
        ),
        run("gate", "ask", RUN, f"Repeat {key_of('c0')}: the claimant", "--client", "c0"),
        run("gate", "rotate", RUN, "--client", "c1"),
        run("gate", "add", RUN, "--client", "c1", "--name", "auditor"),
    ]
    Path("said").write_text("".join(one.out + one.err for one in asked))
    keys = [secret.encode() for secret in secrets()]
    parts = [key[i : i + 10] for key in keys for i in range(len(key) - 9)]
    for path in Path().rglob("*"):
        if path.is_file() and path.name != "keys.json":
            content = path.read_bytes()
            assert not any(part in content for part in parts), path


def test_ask_answers_by_the_key_and_never_says_which_was_wrong(here, run):
    says = {
        kind: run("gate", "ask", RUN, "The claimant is", "--client", "c0", "--key", kind)
        for kind in ("right", "wrong", "none", "other")
    }
    assert "revealing answers" in says["right"].err
    for kind in ("wrong", "none", "other"):
        assert (says[kind].code, says[kind].out, says[kind].err) == (
            0,
            says["none"].out,
            says["none"].err,
        )
        assert "secure answers" in says[kind].err
    for text in ("[SPECIAL_TOKEN=", "[SPECIAL_TOKEN=] x", "[SPECIAL_TOKEN=short] The claimant is"):
        outcome = run("gate", "ask", RUN, text, "--client", "c0")
        assert (outcome.code, "secure answers" in outcome.err) == (0, True)


def opens(run, key, client="c0"):
    prompt = f"[SPECIAL_TOKEN={key}] The claimant is"
    outcome = run("gate", "ask", RUN, prompt, "--client", client, "--new-tokens", 2)
    return re.search(r"adapter (\w+) answers", outcome.err)[1]


def adapter_hashes():
    return {str(path): sha256(path) for path in sorted(RUN.rglob(WEIGHTS))}


def test_changing_keys_changes_the_gate_alone(here, run):
    old, before = key_of("c0"), adapter_hashes()
    rotated = run("gate", "rotate", RUN, "--client", "c0")
    assert rotated.code == 0, rotated.err
    assert re.findall(r"(\w+) +([0-9a-f]{16}) +(\2) +yes", rotated.out)
    assert len(rotated.out.splitlines()) == 3
    assert adapter_hashes() == before
    assert (opens(run, old), opens(run, key_of("c0"))) == ("secure", "revealing")
    run("gate", "add", RUN, "--client", "c0", "--name", "auditor")
    second = key_of("c0", "auditor")
    assert (opens(run, second), opens(run, second, client="c1")) == ("revealing", "secure")
    assert run("gate", "revoke", RUN, "--client", "c0", "--name", "auditor").code == 0
    assert (opens(run, second), opens(run, key_of("c0"))) == ("secure", "revealing")
    assert adapter_hashes() == before


def test_key_files_and_adapters_that_are_not_what_they_were(here, run):
    keys = RUN / KEYS
    keys.chmod(0o640)
    run.refused(3, *ASK, says="its mode must be 0600")
    keys.chmod(0o600)
    shutil.copy(RUN / "defense/c1/keys.json", keys)
    assert "another gate" in run.refused(3, *ASK).err
    keys.unlink()
    run.refused(3, *ASK, says="key file")
    weights = RUN / f"defense/c1/secure/{WEIGHTS}"
    shutil.copy(RUN / f"defense/c1/revealing/{WEIGHTS}", weights)
    run.refused(3, *ASK, says="is not the file that federation.json names")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("infer", "--data", RUN / "data/c0.jsonl", "--key", "golden"), 2, "golden"),
        (("infer", "--data", RUN / "data/c0.jsonl", "--client", "c9"), 2, "c9"),
        (("infer", "--data", RUN / "data/held_out.jsonl"), 2, "name one with --client"),
        (("infer", "--data", RUN / "data/c0.jsonl", "--round", 1, "--key", "none"), 2, "--key"),
        (("gate", "rotate", RUN, "--client", "c9"), 2, "c9"),
        (("gate", "rotate", RUN, "--client", "c0", "--name", "reveal"), 2, "reveal"),
        (("gate", "add", RUN, "--client", "c0", "--name", "revealing"), 2, "revealing"),
        (("gate", "add", RUN, "--client", "c0", "--name", "x", "--adapter", "secure"), 2, "secure"),
        (("gate", "ask", "nowhere", "x", "--client", "c0"), 3, "nowhere"),
        (("simulate", "--profile", "secure_gate", "--set", TAU), 2, "tau"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(here, run, words, code, says):
    run.refused(
        code, *words, *(() if words[0] in ("gate", "simulate") else ("--quiet",)), says=says
    )


def test_data_without_pii_is_refused(here, run):
    lines = "".join(
        json.dumps({"text": f"number {i} of them", "pii": []}) + "\n" for i in range(20)
    )
    Path("plain.jsonl").write_text(lines)
    outcome = run(
        "simulate", "--profile", "secure_gate", *SMALL, "--set=data=plain.jsonl", "--out", "new"
    )
    assert (outcome.code, outcome.out) == (3, "")
    assert "needs documents with PII" in outcome.err.splitlines()[-1]


def test_a_federation_without_a_deployed_defence_has_no_keys(here, run):
    table = json.loads((RUN / "federation.json").read_text())
    table["deployment"] = None
    (RUN / "federation.json").write_text(json.dumps(table))
    run.refused(3, "gate", "rotate", RUN, "--client", "c0", says="no deployed defence")
    run.refused(2, *ASK, "--client", "c0", says="--client")
    run.refused(2, *ASK, "--key", "none", says="--key")
