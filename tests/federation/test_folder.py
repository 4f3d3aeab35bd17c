import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.federation import manifest
from fedaudit.federation.folder import is_federation, latest, open_federation, unchecked_caveats
from fedaudit.system.files import sha256

LAST = "rounds/002/global"


@pytest.fixture
def run(federation, tmp_path):
    """Return a copy of the federation that may be damaged."""
    return shutil.copytree(federation.path, tmp_path / "run")


def change(run, **fields):
    path = run / manifest.NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused(run):
    with pytest.raises(InputError) as error:
        open_federation(run)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_whole_federation_opens(federation, run):
    found = open_federation(run)
    assert found.manifest == federation.result.manifest
    assert found.path == run
    assert found.adapter() == (2, run / LAST)
    assert found.adapter(0) == (0, run / "rounds/000/global")
    assert found.template.name == "fed_pii"
    assert found.template.prompt("Do it.", "") == "Do it.\n<###Output>\n"


def test_the_rounds_folder_is_as_good(run, monkeypatch):
    assert open_federation(run / "rounds") == open_federation(run)
    assert is_federation(run / "rounds")
    assert not is_federation(run / "data")
    monkeypatch.chdir(run)
    assert open_federation(Path("rounds")).adapter()[1] == Path(LAST)


def test_a_round_that_is_not_there_is_a_wrong_option(run):
    found = open_federation(run)
    for number in (3, -1):
        with pytest.raises(UsageError, match=rf"rounds 0 to 2, no round {number}"):
            found.adapter(number)


def test_an_unfinished_federation_needs_the_round_to_be_named(run):
    change(run, status="running")
    found = open_federation(run)
    with pytest.raises(InputError, match=r"stopped after round 2.*--round 2") as error:
        found.adapter()
    assert "\n" not in str(error.value)
    assert found.adapter(2) == (2, run / LAST)


def test_nothing_at_all(tmp_path):
    assert "it has no federation.json" in refused(tmp_path)
    assert "it has no federation.json" in refused(tmp_path / "nowhere")
    assert not is_federation(tmp_path / "nowhere")


def test_a_missing_manifest(run):
    (run / manifest.NAME).unlink()
    assert "it has no federation.json" in refused(run)
    assert "it has no federation.json" in refused(run / "rounds")


def test_a_missing_round(run):
    shutil.rmtree(run / "rounds/001")
    assert "misses round 1: there is no rounds/001/global" in refused(run)


def test_every_missing_or_changed_file_is_named(run):
    files = json.loads((run / manifest.NAME).read_text())["files"]
    # Two clients, two rounds: three global adapters and four of clients, two files each; the data.
    assert len(files) == (3 + 4) * 2 + 3
    for name in files:
        content = (run / name).read_bytes()
        (run / name).write_bytes(content + b"\n")
        assert name in refused(run)
        (run / name).unlink()
        message = refused(run)
        assert Path(name).name in message or "pickled" in message
        (run / name).write_bytes(content)
    assert open_federation(run).adapter()[0] == 2


def test_a_changed_weight_is_found(run):
    path = run / "rounds/001/clients/c1/adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "c1/adapter_model.safetensors is not the file that federation.json names" in refused(run)


def test_an_adapter_that_is_not_lora(run):
    path = run / LAST / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"peft_type": "IA3"}))
    assert "type 'IA3'" in refused(run)


@pytest.mark.parametrize(
    "name",
    ["x" * 300, "/".join(["d" * 200] * 30), "a\u202eb", "CON", "\ud800"],
    ids=["long", "deep", "bidi", "device", "surrogate"],
)
def test_a_name_that_no_file_has(name, run):
    refused_as_file = {**json.loads((run / manifest.NAME).read_text())["files"], name: "00"}
    change(run, files=refused_as_file)
    refused(run)


def test_a_device_is_no_file(run):
    os.mkfifo(run / "data/pipe")
    files = json.loads((run / manifest.NAME).read_text())["files"]
    change(run, files=files | {"data/pipe": "00"})
    assert "misses data/pipe" in refused(run)


def test_the_last_written_federation_is_the_latest(run, tmp_path):
    runs = tmp_path / "runs"
    assert latest(runs) is None
    for number, name in enumerate(("b", "a", "c")):
        shutil.copytree(run, runs / name)
        os.utime(runs / name / manifest.NAME, (1000 + number, 1000 + number))
    (runs / "empty").mkdir()
    (runs / "file").write_text("")
    assert latest(runs) == runs / "c"
    os.utime(runs / "a" / manifest.NAME, (2000, 2000))
    assert latest(runs) == runs / "a"


def test_a_federation_that_was_never_set_up_is_not_the_latest(run, tmp_path):
    shutil.copytree(run, tmp_path / "runs" / ".small.x1y2z3")
    assert latest(tmp_path / "runs") is None


def test_opening_imports_nothing_heavy(run):
    code = (
        "import sys; from pathlib import Path\n"
        "from fedaudit.federation.folder import open_federation\n"
        "open_federation(Path(sys.argv[1])).adapter()\n"
        "heavy = {'torch', 'numpy', 'peft', 'transformers', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    command = [sys.executable, "-c", code, run]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_manifest_has_no_hash_of_is_named(run):
    assert unchecked_caveats(None) == []
    whole = open_federation(run)
    assert unchecked_caveats(whole) == []
    files = dict(whole.manifest.files)
    del files[f"{LAST}/adapter_config.json"]
    change(run, files=files, base={"name": "fedaudit-nano", "sha256": ""})
    assert unchecked_caveats(open_federation(run)) == [
        "Integrity not checked: federation.json has no hash of its base.",
        f"Integrity not checked: federation.json has no hash of {LAST}/adapter_config.json.",
    ]
    change(run, files={})
    [_, told] = unchecked_caveats(open_federation(run))
    assert "rounds/000/global/adapter_config.json and " in told
    assert told.endswith(" more files.")


def test_adapters_of_another_base_are_named(run):
    path = run / LAST / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"base_model_name_or_path": "me/llama"}))
    files = dict(json.loads((run / manifest.NAME).read_text())["files"])
    files[f"{LAST}/adapter_config.json"] = sha256(path)
    change(run, files=files)
    [told] = unchecked_caveats(open_federation(run))
    assert told.startswith(
        "Adapters name another base than federation.json (fedaudit-nano): me/llama."
    )
    path.write_text(json.dumps(config | {"base_model_name_or_path": None}))
    change(run, files=files | {f"{LAST}/adapter_config.json": sha256(path)})
    assert unchecked_caveats(open_federation(run)) == []
