"""Which files of other members an audit looks at."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.records import (
    check_files,
    member_files,
    shared_records_caveats,
    unvouched_caveats,
    victim_copies,
    victim_copies_caveat,
)
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.federation.folder import Federation


@pytest.fixture
def federation(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("c0", "c1", "c2"):
        (tmp_path / "data" / f"{name}.jsonl").write_text("")
    clients = [
        *(SimpleNamespace(id=f"c{n}", data=f"data/c{n}.jsonl") for n in range(4)),  # c3's is gone
        SimpleNamespace(id="c4", data=""),
    ]
    files = {f"data/c{n}.jsonl": "0" * 64 for n in range(3)}
    known = Federation(tmp_path, SimpleNamespace(clients=clients, files=files))
    return AuditTarget(base="base", federation=known)


def request(federation, **changes):
    data = federation.federation.path / "data"
    return ExtractionRequest(
        **{"prefixes": data / "c0.jsonl", "victim": data / "c1.jsonl", **changes}
    )


def test_the_federations_own_but_attacker_and_victim(federation):
    data = federation.federation.path / "data"
    assert member_files(request(federation), federation) == {"c2": data / "c2.jsonl"}
    beside = {"prefixes": data / ".." / "data" / "c0.jsonl", "victim": data / "c2.jsonl"}
    assert member_files(request(federation, **beside), federation) == {"c1": data / "c1.jsonl"}


def test_named_ones_go_first_and_are_never_attacker_or_victim(federation, tmp_path):
    data, other = tmp_path / "data", tmp_path / "other.jsonl"
    other.write_text("")
    asked = request(federation, members=(other, data / "c1.jsonl"))
    assert member_files(asked, federation) == {"other": other}
    (tmp_path / "more").mkdir()
    twin = tmp_path / "more" / "other.jsonl"
    twin.write_text("")
    asked = request(federation, members=(other, twin))
    assert set(member_files(asked, federation).values()) == {other, twin}


def test_nobody_is_looked_at_without_victim_or_federation(federation):
    assert member_files(request(federation, victim=None), federation) == {}
    assert member_files(request(federation), AuditTarget(base="base")) == {}


def test_files_that_cannot_be_read_are_named(federation, tmp_path):
    for wrong in ({"members": (tmp_path / "no.jsonl",)}, {"control": tmp_path / "no.jsonl"}):
        with pytest.raises(InputError, match=r"no\.jsonl"):
            check_files(request(federation, **wrong))
    with pytest.raises(InputError, match="is a folder; a JSONL file is needed"):
        check_files(request(federation, members=(tmp_path,)))


def file(*texts):
    documents = [Document(id=str(n), text=text, pii=()) for n, text in enumerate(texts)]
    return InputFile(path=Path("some.jsonl"), documents=documents, sha256="")


def test_who_has_more_copies_than_other_records_is_the_victim():
    kept = {"c1": file("a", "b", "c"), "c2": file("a", "x"), "c3": file("b", "a")}
    assert victim_copies(file("b", "a"), kept) == ["c1", "c3"]
    assert victim_copies(file("a", "b", "d"), kept) == ["c1", "c3"]
    assert victim_copies(file("a", "d"), kept) == []
    assert victim_copies(file(), kept) == victim_copies(None, kept) == []
    assert victim_copies(file("a"), {"empty": file()}) == []


def test_the_report_says_who_was_taken_for_the_victim():
    assert victim_copies_caveat(["c1"]).startswith("c1 has the victim's own records, most of them")
    assert victim_copies_caveat(["c1", "c2", "c3"]).startswith("c1, c2 and c3 have the victim's")


def test_data_without_a_hash_in_the_manifest_leaves_nothing_out(federation):
    del federation.federation.manifest.files["data/c2.jsonl"]
    asked = request(federation)
    assert member_files(asked, federation) == {}
    [caveat] = unvouched_caveats(asked, federation)
    assert caveat.startswith("federation.json has no hash of the data of c2: strings in these")
    assert unvouched_caveats(request(federation, victim=None), federation) == []
    named = request(federation, members=(federation.federation.path / "data/c2.jsonl",))
    assert unvouched_caveats(named, federation) == []
    assert set(member_files(named, federation)) == {"c2"}


def test_the_report_says_how_many_of_the_victims_records_the_attacker_has():
    assert shared_records_caveats(file("a"), None) == []
    assert shared_records_caveats(file("a"), file("b", "c")) == []
    [said] = shared_records_caveats(file("a", "B "), file("b", "c"))
    assert said.startswith("1 of the victim's 2 records are in the attacker's file as well")
