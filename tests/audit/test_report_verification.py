"""What a report says of files is compared with those that are at hand."""

import hashlib
import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from fedaudit import nano
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.templates import template
from fedaudit.audit import verification
from fedaudit.audit.verification import verify_report
from fedaudit.data.corpus import read
from fedaudit.engine.loading.checkpoint import fingerprint
from fedaudit.federation import adapters
from fedaudit.report.redaction import Redactor, load_or_create_key
from fedaudit.report.run_header import build_report

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def sha(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder with an adapter, records and a report's folder, and work in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / adapters.CONFIG).write_bytes(b"{}")
    (tmp_path / "lora" / adapters.WEIGHTS).write_bytes(b"weights")
    (tmp_path / "own.jsonl").write_bytes(b'{"text": "a"}\n')
    (tmp_path / "out").mkdir()
    return tmp_path


def dir_hash():
    """Return in-toto's dirHash of the adapter: sha256sum's lines, sorted by name."""
    lines = f"{sha(b'{}')}  adapter_config.json\n{sha(b'weights')}  adapter_model.safetensors\n"
    return sha(lines.encode())


def made(**changes):
    """Return a report of an audit of that adapter on the built-in base."""
    facts = {
        "base": nano.BASE,
        "base_sha256": fingerprint(nano.folder()),
        "adapter": "lora",
        "sha256": dir_hash(),
        "data": [
            {
                "path": "own.jsonl",
                "sha256": sha(b'{"text": "a"}\n'),
                "records": 1,
                "annotation": None,
            }
        ],
    }
    rest = {
        "command": "extract",
        "name": "r",
        "config": {},
        "started": WHEN,
        "environment": {"versions": {}, "device": "cpu", "git": None},
        "seeds": {},
        "measurements": [Measurement(kind="utility", plugin="u", metric="loss", value=1.0)],
    }
    return json.loads(json.dumps(build_report(**(rest | facts | changes)).to_json()))


def told(report, here, root=None):
    return [str(one) for one in verify_report(report, here / "out", root)]


def test_what_is_as_it_was_is_the_same(here):
    assert told(made(), here) == [
        "same: verdict inconclusive",
        "same: base fedaudit-nano",
        "same: adapter lora",
        "same: data own.jsonl",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (f"lora/{adapters.WEIGHTS}", 2),
        (f"lora/{adapters.CONFIG}", 2),
        ("own.jsonl", 3),
    ],
)
def test_one_byte_more_differs(here, name, line):
    with (here / name).open("ab") as file:
        file.write(b" ")
    lines = told(made(), here)
    assert [one.startswith("differs: ") for one in lines] == [n == line for n in range(4)]
    assert "its SHA-256 is " in lines[line]


def test_a_changed_base_differs(here):
    assert told(made(base_sha256="0" * 64), here)[1].startswith("differs: base fedaudit-nano")


def test_the_base_itself_may_be_what_was_audited(here):
    report = made(adapter=None, sha256=fingerprint(nano.folder()))
    assert told(report, here)[1] == "same: base fedaudit-nano"
    del report["target"]["base_sha256"]
    assert told(report, here)[1] == "same: base fedaudit-nano"


def test_a_verdict_that_cannot_be_judged_differs(here):
    """One row that no rule can read got a forged pass through the check with exit code 0."""
    row = Measurement(kind="defense", plugin="x", metric="fpr", value=None, low=None, high=None,
                      n=None, hits=1, reason="-", scope={"attempt": "a"})  # fmt: skip
    forged = made()
    forged["measurements"].append(asdict(row))
    forged["verdict"]["status"] = "pass"
    [first, *_] = told(forged, here)
    assert first.startswith("differs: verdict pass (Do not rely on this report: its measurements")


def test_without_a_hash_it_is_said_that_nothing_was_checked(here):
    lines = told(
        made(base_sha256=None, sha256=None, artifacts=[{"path": "report.html", "sha256": None}]),
        here,
    )
    why = "(the report has no hash of it)"
    assert lines[1:3] == [
        f"not checked: base fedaudit-nano {why}",
        f"not checked: adapter lora {why}",
    ]
    assert lines[4] == f"not checked: artifact report.html {why}"


def test_what_is_gone_is_not_at_hand(here):
    (here / "own.jsonl").unlink()
    lines = told(made(adapter="gone", base="nobody/nothing"), here)
    assert lines[1:] == [
        "not at hand: base nobody/nothing",
        "not at hand: adapter gone",
        "not at hand: data own.jsonl",
    ]


@pytest.mark.parametrize("name", ["/dev/zero", "x" * 5000, "a\0b", "out", "../../../.."])
def test_no_name_in_a_report_harms_who_checks_it(here, name):
    report = made(base=name, adapter=name)
    report["data"][0]["path"] = name
    lines = told(report, here)
    assert all(one.startswith(("not at hand: ", "differs: ")) for one in lines[1:])


def test_a_folder_of_more_than_adapters_is_not_hashed(here, monkeypatch):
    """A report that named / had all adapters of the machine hashed, which takes hours."""
    report = made(adapter=".")
    assert told(report, here)[2].startswith("differs: adapter .")
    monkeypatch.setattr(verification, "MOST_ENTRIES", 3)
    monkeypatch.setattr(adapters, "fingerprint_below", lambda _: pytest.fail("it is hashed"))
    [line] = [one for one in told(report, here) if "adapter" in one]
    assert line == f"not at hand: adapter . (more than 3 files are below {here})"


def test_what_a_defence_deployed_is_known_by_all_its_adapters(here):
    place = here / "defense" / "c0" / "secure"
    place.mkdir(parents=True)
    for name in (adapters.CONFIG, adapters.WEIGHTS):
        (place / name).write_bytes((here / "lora" / name).read_bytes())
    lines = (
        f"{sha(b'{}')}  secure/adapter_config.json\n"
        f"{sha(b'weights')}  secure/adapter_model.safetensors\n"
    )
    report = made(adapter="defense/c0", sha256=sha(lines.encode()))
    assert told(report, here)[2] == "same: adapter defense/c0"
    (place / "key").write_bytes(b"secret")  # no part of what answers
    assert told(report, here)[2] == "same: adapter defense/c0"
    (place / adapters.WEIGHTS).write_bytes(b"others")
    assert told(report, here)[2].startswith("differs: adapter defense/c0")


def test_names_begin_where_the_user_says_or_above_the_report(here, tmp_path_factory, monkeypatch):
    away = tmp_path_factory.mktemp("away")
    monkeypatch.chdir(away)
    assert told(made(), here)[3] == "same: data own.jsonl"  # beside the report's folder
    assert told(made(), here, away)[3] == "not at hand: data own.jsonl"
    assert told(made(), here, here)[3] == "same: data own.jsonl"
    (away / "own.jsonl").write_bytes(b"another")
    assert told(made(), here)[3].startswith("differs: data own.jsonl")


def test_nothing_is_fetched(here, monkeypatch):
    def reached(*args, **named):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("httpx.Client.send", reached)
    assert told(made(base="gpt2", base_sha256="0" * 64), here)[1] == "not at hand: base gpt2"


# masks


def leaks(*texts, key):
    return [
        Finding(
            id=f"f-{place}",
            severity="high",
            label="PERSON",
            measurement="contextual coverage",
            evidence={**Redactor(key).mask(text, "PERSON"), "outputs": 3},
        )
        for place, text in enumerate(texts)
    ]


@pytest.fixture
def key(monkeypatch, tmp_path):
    """Return the user's key of masks, in a configuration of its own."""
    monkeypatch.setenv("FEDAUDIT_CONFIG", str(tmp_path / "configuration"))
    return load_or_create_key(tmp_path / "configuration")


def masked(here, *texts, key, row):
    """Return what is said of the masks of a report with these leaks, about that record."""
    content = json.dumps(row).encode() + b"\n"
    (here / "own.jsonl").write_bytes(content)
    data = [{"path": "own.jsonl", "sha256": sha(content), "records": 1, "annotation": None}]
    found = told(made(data=data, findings=leaks(*texts, key=key)), here)
    return found[4:]


SPOKEN = {
    "text": "Ann Lee and Bo Fox",
    "pii": [
        {"start": 0, "end": 7, "label": "PERSON"},
        {"start": 12, "end": 18, "label": "PERSON"},
    ],
}


def test_masks_are_those_of_strings_in_the_records(here, key):
    same = masked(here, "Ann Lee", "Bo Fox", key=key, row=SPOKEN)
    assert same == ["same: masks 2 of 2 (of strings in these records)"]
    [line] = masked(here, "Ann Lee", "Cy Ray", key=key, row=SPOKEN)
    assert line.startswith("not checked: masks 1 of 2 (of strings in these records; others")
    [line] = masked(here, "Ann Lee", key=bytes(32), row=SPOKEN)
    assert line.startswith("not checked: masks 0 of 1")
    assert masked(here, key=key, row=SPOKEN) == []


def test_so_are_keyed_names_of_records_without_ids(here, key):
    [document] = read(_written(here, SPOKEN), template("fed_pii"))
    name = Redactor(key).mask(document.id, "")["hmac"]
    found = made(findings=leaks("Ann Lee", key=key))
    found["findings"][0]["evidence"]["document"] = f"record-{name}"
    assert verification.stated_masks(found) == {name, Redactor(key).mask("Ann Lee", "")["hmac"]}
    known = verification.known_masks([here / "own.jsonl"], template("fed_pii"), key)
    assert verification.stated_masks(found) <= known


def _written(here, row):
    (here / "own.jsonl").write_text(json.dumps(row) + "\n")
    return here / "own.jsonl"


def test_masks_of_passages_are_counted_apart(here, key):
    content = json.dumps(SPOKEN).encode() + b"\n"
    (here / "own.jsonl").write_bytes(content)
    data = [{"path": "own.jsonl", "sha256": sha(content), "records": 1, "annotation": None}]
    passage = replace(leaks("and Bo", key=key)[0], id="p", label="DOCUMENT")
    [line] = told(made(data=data, findings=[*leaks("Ann Lee", key=key), passage]), here)[4:]
    more = "1 more, of passages, are not looked up"
    assert line == f"same: masks 1 of 1 (of strings in these records; {more})"
    [line] = told(made(data=data, findings=[passage]), here)[4:]
    assert line.startswith("not checked: masks 0 of 0")
    assert line.endswith(f"{more})")


def test_no_key_is_made_to_check_masks(here, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDAUDIT_CONFIG", str(tmp_path / "none"))
    [line] = masked(here, "Ann Lee", key=bytes(32), row=SPOKEN)
    assert line == "not checked: masks 0 of 1 (the key that they were made with is not here)"
    assert not (tmp_path / "none").exists()
