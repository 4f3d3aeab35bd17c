"""An output takes the place of nothing but an output of the same kind."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system import outputs
from fedaudit.system.outputs import FORMS, OutputKind, check_output, write_output

KINDS = {name: kind for name, kind in vars(outputs).items() if isinstance(kind, OutputKind)}
DEMO = Path(__file__).parents[1] / "golden/demo_report.json.gz"
PRECIOUS = {
    "federation.json": '{"schema_version": "1.0", "base": {"name": "x"}, "clients": [], "run": {}}',
    "adapter_config.json": '{"peft_type": "LORA", "r": 8}',
    "record.jsonl": '{"id": "a", "text": "One record.", "pii": []}',
    "other.sarif": '{"$schema": "x", "version": "2.1.0", "runs": [{"tool": {"driver": {}}}]}',
    "other.intoto.json": json.dumps(
        {"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": []}
    ),
    "notes.md": "# Privacy audit\n\nfedaudit report says that ...\n",
    "page.html": "<html><body>A page about fedaudit report</body></html>",
    "array.json": "[1, 2]",
    "table.csv": "id,text\na,b\n",
    "bytes.bin": "\x00\x01",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "report.json"
    report = json.loads(gzip.decompress(DEMO.read_bytes()))
    kept = {name: report[name][:count] for name, count in (("measurements", 60), ("findings", 5))}
    path.write_text(json.dumps(report | kept))
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PRECIOUS)
def test_no_output_takes_the_place_of_a_users_file(tmp_path, name, kind):
    path = tmp_path / name
    path.write_text(PRECIOUS[name])
    with pytest.raises(InputError, match="it stays as it is"):
        write_output(path, "new", KINDS[kind])
    assert path.read_text() == PRECIOUS[name]


@pytest.mark.parametrize("kind", KINDS)
def test_free_places_and_empty_files_are_taken(tmp_path, kind):
    (tmp_path / "empty").touch()
    for name in ("empty", "free"):
        write_output(tmp_path / name, "new", KINDS[kind])
        assert (tmp_path / name).read_text() == "new"


def test_every_form_of_a_report_is_told_from_every_other(tmp_path, demo, monkeypatch, capsys):
    from fedaudit import cli

    def report(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["fedaudit", "report", str(demo), *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code

    for form in FORMS:
        path = tmp_path / f"report.{form}"
        assert report("--format", form, "--out", str(path)) == 0
        assert report("--format", form, "--out", str(path)) == 0, "the same again"
        for kind in FORMS.values():
            if kind is not FORMS[form]:
                with pytest.raises(InputError):
                    check_output(path, kind)
    before = demo.read_bytes()
    taken = shutil.copy(demo, tmp_path / "taken")
    for form in FORMS:
        # What the name contradicts is refused before the file is looked at.
        suits = form in ("json", "sarif", "cyclonedx")
        assert report("--format", form, "--out", str(demo)) == (3 if suits else 2)
        if form != "json":
            assert report("--format", form, "--out", str(taken)) == 3
    assert demo.read_bytes() == taken.read_bytes() == before
    capsys.readouterr()


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "runs"),
        ("extract", "--prefixes", "own.jsonl"),
        ("infer", "--data", "own.jsonl"),
        ("memorize", "--clients", "own.jsonl", "own.jsonl"),
        ("attribute", "--rounds", "runs"),
        ("attribute", "decide", "scores.json"),
        ("canary", "measure", "c.json"),
        ("dp", "audit", "c.json", "--epsilon", "1"),
        ("watch", "runs", "--ours", "own.jsonl"),
        ("forget", "verify", "runs", "--before", "runs", "--ours", "own.jsonl"),
        ("joint", "report", "runs"),
        ("simulate", "--profile", "fed_pii"),
        ("reproduce", "fed_pii"),
        ("scrub", "own.jsonl", "clean.jsonl"),
        ("compare", "a", "b"),
        ("merge", "a", "b"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_takes_the_place_of_no_input(tmp_path, demo, words, monkeypatch, capfd):
    """The report of another command is somebody's result, too."""
    from fedaudit import cli

    monkeypatch.chdir(tmp_path)
    names = ["federation.json", "adapter_config.json", "record.jsonl"]
    if words[0] not in ("audit", "merge"):  # the demonstration is an audit's report
        shutil.copy(demo, tmp_path / "report.json")
        names.append("report.json")
    for name in names:
        if name in PRECIOUS:
            (tmp_path / name).write_text(PRECIOUS[name])
        before = (tmp_path / name).read_bytes()
        monkeypatch.setattr("sys.argv", ["fedaudit", *words, "--json", name])
        with pytest.raises(SystemExit) as left:
            cli.main()
        said = capfd.readouterr().err
        assert (left.value.code, len(said.splitlines())) == (3, 1), said
        assert f"{name} exists and is not" in said
        assert (tmp_path / name).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == sorted(names)


NEW = {
    "canary make": ("canary", "make", "--out", "taken"),
    "dp make": ("dp", "make", "--client", "c0", "--corpus", "record.jsonl", "--out", "taken"),
    "watermark make": ("watermark", "make", "record.jsonl", "taken", "--watermark", "m.json"),
    "its marks": ("watermark", "make", "record.jsonl", "out.jsonl", "--watermark", "taken"),
    "watermark commitment": ("watermark", "commitment", "m.json", "--out", "taken"),
    "attribute bundle": ("attribute", "bundle", "e", "--watermark", "m.json", "--scores", "s.json",
                         "--report", "r.json", "--out", "taken"),
    "scrub": ("scrub", "record.jsonl", "taken"),
    "scrub --force": ("scrub", "record.jsonl", "taken", "--force"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["dangling link", "link", "federation", "text"])
@pytest.mark.parametrize("command", NEW)
def test_what_must_be_new_takes_no_place_that_is_taken(tmp_path, command, kind, monkeypatch, capfd):
    from fedaudit import cli

    monkeypatch.chdir(tmp_path)
    Path("record.jsonl").write_text(PRECIOUS["record.jsonl"])
    taken = Path("taken")
    if kind.endswith("link"):
        taken.symlink_to("nowhere" if kind == "dangling link" else "record.jsonl")
    else:
        taken.write_text(PRECIOUS["federation.json"] if kind == "federation" else "Mine.")
    before = {path: path.lstat().st_ino for path in tmp_path.iterdir()}
    monkeypatch.setattr("sys.argv", ["fedaudit", *NEW[command]])
    with pytest.raises(SystemExit) as left:
        cli.main()
    said = capfd.readouterr()
    assert (left.value.code, said.out, len(said.err.splitlines())) == (3, "", 1), said
    assert "taken" in said.err or "record.jsonl" in said.err
    assert {path: path.lstat().st_ino for path in tmp_path.iterdir()} == before
    assert Path("record.jsonl").read_text() == PRECIOUS["record.jsonl"]


def test_pages_and_reports_of_other_commands_stay(tmp_path, demo, monkeypatch, capfd):
    from fedaudit import cli

    monkeypatch.chdir(tmp_path)
    shutil.copy(demo, "audit.json")
    other = json.loads(demo.read_text())
    other["run"]["command"] = "extract"
    Path("extract.json").write_text(json.dumps(other))
    pages = ("report.html", "annex.html", "changes.html")
    made = {
        "report.html": ("report", "audit.json", "--format", "html", "--out"),
        "annex.html": ("report", "audit.json", "--format", "annex", "--out"),
        "changes.html": ("compare", "audit.json", "audit.json", "--html"),
        "audit.json": ("report", "extract.json", "--format", "json", "--out"),
    }

    def run(name, file):
        monkeypatch.setattr("sys.argv", ["fedaudit", *made[name], file])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code, capfd.readouterr()

    for name in pages:
        assert run(name, name)[0] == run(name, name)[0] == 0
    for name in made:
        for file in {*pages, "audit.json", "extract.json"} - {name}:
            before = Path(file).read_bytes()
            code, said = run(name, file)
            contradicts = made[name][0] == "report" and Path(name).suffix != Path(file).suffix
            refused = (2 if contradicts else 3, "", 1)
            assert (code, said.out, len(said.err.splitlines())) == refused, (name, file)
            assert Path(file).read_bytes() == before
    assert run("audit.json", "audit.json")[0] == 3


def test_a_report_is_replaced_by_one_of_the_same_command(tmp_path, demo):
    from dataclasses import replace

    command = json.loads(demo.read_text())["run"]["command"]
    check_output(demo, replace(outputs.REPORT, command=command))
    check_output(demo, replace(outputs.REPORT, command=f"{command} step"))
    with pytest.raises(InputError):
        check_output(demo, replace(outputs.REPORT, command=f"{command}s"))


@pytest.mark.parametrize(
    "words",
    [
        ("extract", "--prefixes", "own.jsonl", "--target", "fedaudit-nano", "--adapter", "lora"),
        ("infer", "--data", "own.jsonl", "--target", "fedaudit-nano", "--adapter", "lora"),
        ("audit", "--prefixes", "own.jsonl", "--target", "fedaudit-nano", "--adapter", "lora"),
        ("simulate", "--profile", "fed_pii", "--out", "d"),
    ],
    ids=lambda words: words[0],
)
def test_a_copy_of_a_report_leaves_another_commands_report(here, run, demo, words):
    other = json.loads(demo.read_text())
    other["run"]["command"] = "attribute decide"
    Path("report.json").write_text(json.dumps(other))
    run.refused(3, *words, "--json", "report.json", says="it stays as it is")
    assert json.loads(Path("report.json").read_text()) == other
    assert not Path("d").exists()
