"""Attacks on records by how many copies of each were trained on."""

import json
from types import SimpleNamespace

import pytest
from study_report import study_report

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.canaries import canary_file
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.config.profile import Variant
from fedaudit.reproduction import audits
from fedaudit.reproduction.audits import audit_variant
from fedaudit.simulation.config import Simulation

RECORDS = {
    "c0": ["Own."],
    "c1": ["Once in c1.", "Twice in c1.", "Twice in c1."],
    "c2": ["Once in c2.", "Twice in c2.", "Twice in c2.", "Three.", "Three.", "Three."],
}


@pytest.fixture
def federation_folder(tmp_path, monkeypatch):
    """Return a folder with the records of three clients, one of them with a canary."""
    monkeypatch.setattr(audits, "_common", lambda *_: {"attacks": (), "target": "there"})
    monkeypatch.setattr(audits, "is_deployed", lambda *_: False)
    folder = tmp_path / "federations/abc"
    request = CanaryRequest(count=1, times=(1,), controls=2, clients=("c2",), seed=1)
    canaries = make(request)
    (folder / "owner").mkdir(parents=True)
    canary_file.write(canaries, folder / canary_file.OWNER)
    (folder / "data").mkdir()
    texts = RECORDS | {"c2": [*RECORDS["c2"], canaries.planted[0].sentence]}
    for client, own in texts.items():
        lines = [json.dumps({"id": f"{client}{n}", "text": t}) for n, t in enumerate(own)]
        (folder / f"data/{client}.jsonl").write_text("\n".join(lines))
    return folder


def asked(variant, folder):
    """Return what is asked of `extract`: the copies, and the texts in each file."""
    row = Measurement(kind="extraction", plugin="verbatim", metric="coverage", value=0.5, scope={})
    found = []

    def texts(path):
        return sorted(json.loads(line)["text"] for line in path.read_text().splitlines())

    def run(request):
        [member] = request.members
        found.append([texts(path) for path in (request.input_path, request.victim_path, member)])
        return SimpleNamespace(report=study_report(row), revealed=())

    reports = audit_variant(variant, folder, Simulation(clients=3), run)
    copies = [report.measurements[0].scope["copies"] for report in reports]
    return dict(zip(copies, found, strict=True))


def test_records_of_all_other_clients(federation_folder):
    variant = Variant(name="v", attacks=("verbatim",), victim="others", copies=True)
    one, two, three = ["Once in c1.", "Once in c2."], ["Twice in c1.", "Twice in c2."], ["Three."]
    assert asked(variant, federation_folder) == {
        1: [["Own."], one, sorted(two + three)],
        2: [["Own."], two, sorted(one + three)],
        3: [["Own."], three, sorted(one + two)],
    }


def test_records_of_one_victim(federation_folder):
    variant = Variant(name="v", attacks=("verbatim",), victim="c1", copies=True)
    found = asked(variant, federation_folder)
    assert {number: victim for number, (_, victim, _) in found.items()} == {
        1: ["Once in c1."],
        2: ["Twice in c1."],
    }
    assert found[1][2] == ["Once in c2.", "Three.", "Twice in c1.", "Twice in c2."]


def test_records_that_all_come_equally_often_are_refused(federation_folder):
    for client in ("c1", "c2"):
        (federation_folder / f"data/{client}.jsonl").write_text(json.dumps({"text": client}))
    variant = Variant(name="v", attacks=("verbatim",), victim="others", copies=True)
    with pytest.raises(UsageError, match="variant v: every record comes 1 times"):
        asked(variant, federation_folder)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"victim": "others"}, "goes with copies"),
        ({"copies": True, "clients": ("*",)}, "an attacker and a victim"),
        ({"copies": True, "victim": "others", "infer": {}}, "one victim"),
    ],
)
def test_choices_that_exclude_each_other_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        Variant(name="v", **settings)
