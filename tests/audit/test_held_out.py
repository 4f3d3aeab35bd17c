"""Held-out records: which file they come from, and which of them are of use."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.audit import attacks, fingerprint, records
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import AuditTarget, resolve
from fedaudit.data import corpus

FORM = template("fed_pii")


def document(name, group=""):
    return Document(id=name, text=f"the text of {name}", group=group, pii=())


def file(place, *documents):
    corpus.write(place, documents)
    return InputFile(path=place, documents=documents, sha256="")


@pytest.fixture
def files(tmp_path):
    own = file(tmp_path / "own.jsonl", document("a", "A"))
    victim = file(tmp_path / "victim.jsonl", document("v", "V"), document("w"))
    return [own, victim]


def request(files, place=None, **changes):
    paths = {"prefixes": files[0].path, "victim": files[1].path, "held_out": place}
    return ExtractionRequest(**{**paths, "attacks": ("discoverable",), **changes})


NANO = AuditTarget(base="fedaudit-nano")


def test_trained_records_and_the_victims_groups_are_left_out(files, tmp_path):
    named = tmp_path / "held.jsonl"
    file(named, document("w"), document("x", "V"), document("y", "Y"), document("z"))
    found = records.read_held_out(request(files, named), NANO, FORM, files, reader=InputReader())
    assert [one.id for one in found.documents] == ["y", "z"]
    assert not found.related
    assert found.file.row()["records"] == 4
    [told] = found.limits
    assert "2 records of held.jsonl" in told
    assert "1 were left out because they were trained on, 1 because" in told


def test_texts_that_come_twice_are_told(files, tmp_path):
    named = tmp_path / "held.jsonl"
    file(named, document("y"), replace(document("y"), id="again"), document("z"))
    asked = request(files, named, attacks=("membership",))
    [told] = records.read_held_out(asked, NANO, FORM, files, reader=InputReader()).limits
    assert "3 records of held.jsonl (2 different texts) were compared with" in told


def test_requests_are_counted_and_not_records(files, tmp_path):
    named = tmp_path / "held.jsonl"
    asked = Document(id="y", text="y", instruction="What?", output="y", pii=())
    file(named, asked, document("z"))
    words = request(files, named, attacks=("benign",))
    [told] = records.read_held_out(words, NANO, FORM, files, reader=InputReader()).limits
    assert "the requests of 1 records of held.jsonl could be asked" in told


def test_a_trained_record_that_is_written_otherwise_is_not_held_out(files, tmp_path):
    named = tmp_path / "held.jsonl"
    copy = Document(id="copy", text="The  Text of W\u00a0", pii=())
    file(named, copy, document("z"))
    found = records.read_held_out(request(files, named), NANO, FORM, files, reader=InputReader())
    assert [one.id for one in found.documents] == ["z"]


def test_what_another_member_has_is_not_held_out(files, tmp_path):
    named, member = tmp_path / "held.jsonl", file(tmp_path / "m.jsonl", document("y", "Y"))
    file(named, document("y"), document("z", "Y"))
    found = records.read_held_out(
        request(files, named), NANO, FORM, files, [member], reader=InputReader()
    )
    assert [one.id for one in found.documents] == ["z"]
    assert found.related


def test_groups_that_somebody_trained_on_are_related(files, tmp_path):
    named = tmp_path / "held.jsonl"
    file(named, document("y", "A"))
    found = records.read_held_out(request(files, named), NANO, FORM, files, reader=InputReader())
    assert found.related
    assert "can show a leak, not rule one out" in found.limits[-1]


def test_a_file_without_anything_new_is_refused(files, tmp_path):
    named = tmp_path / "held.jsonl"
    file(named, document("w"), document("x", "V"))
    with pytest.raises(InputError, match=r"Nothing in .* is held out"):
        records.read_held_out(request(files, named), NANO, FORM, files, reader=InputReader())


def test_a_simulations_own_records_are_taken_for_a_victim(files, federation):
    audited = resolve(str(federation.path), None, None)
    own = [one.id for one in corpus.read(federation.path / records.HELD_OUT, FORM)]
    wish = request(files)
    found = records.read_held_out(wish, audited, FORM, files, reader=InputReader())
    assert own
    assert [one.id for one in found.documents] == own
    assert "which the simulation held out" in found.limits[0]
    # Not where nothing is judged, nor for attacks that compare nothing.
    for other in (replace(wish, victim=None), replace(wish, attacks=("contextual",))):
        assert records.read_held_out(other, audited, FORM, files, reader=InputReader()) is None
    assert records.read_held_out(wish, NANO, FORM, files, reader=InputReader()) is None


def test_a_federations_own_records_stop_nothing_if_none_is_of_use(files, federation, tmp_path):
    path = Path(shutil.copytree(federation.path, tmp_path / "run"))
    file(path / records.HELD_OUT, document("w"), document("x", "V"))
    native = resolve(str(federation.path), None, None)
    audited = replace(native, federation=replace(native.federation, path=path))
    found = records.read_held_out(
        request(files, path / records.HELD_OUT), audited, FORM, files, reader=InputReader()
    )
    assert list(found.documents) == []
    assert "0 records of held_out.jsonl" in found.limits[0]


def test_the_run_is_another_with_other_held_out_records(files, tmp_path):
    named = tmp_path / "held.jsonl"
    file(named, document("y"))
    wish = request(files, named, target="fedaudit-nano", detector="names")
    first = fingerprint.compute_fingerprint(attacks.resolve(wish, InputReader()))
    file(named, document("z"))
    second = fingerprint.compute_fingerprint(attacks.resolve(wish, InputReader()))
    assert first.run != second.run
    assert f"data.{named}" in fingerprint.describe_changes(second.facts, first.facts)


def test_only_attacks_that_use_it_take_it(files):
    with pytest.raises(
        UsageError, match=r"--held-out needs .*: benign, discoverable, membership, verbatim"
    ):
        records.check_held_out(request(files, Path("x"), attacks=("contextual",)))
    records.check_held_out(request(files, Path("x"), attacks=("contextual", "verbatim")))
    records.check_held_out(request(files, attacks=("contextual",)))
