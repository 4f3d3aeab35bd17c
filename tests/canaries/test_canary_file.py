"""The file of canaries: whole and secret, and hostile ones refused without a secret in the line."""

import json
import stat

import pytest

from fedaudit.api.errors import InputError
from fedaudit.canaries import canary_file
from fedaudit.canaries.generator import CanaryRequest, make


@pytest.fixture
def path(tmp_path):
    canary_file.write(make(CanaryRequest(count=3, controls=2, seed=1)), tmp_path / "c.json")
    return tmp_path / "c.json"


def test_what_is_written_is_read_and_its_owners_alone(path):
    found = canary_file.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    canary_file.write(found, path.with_name("again.json"))
    assert path.with_name("again.json").read_bytes() == path.read_bytes()
    assert [one.times for one in found.planted] == [1, 4, 16]
    assert len(found.controls) == 2
    assert {one.client for one in found.controls} == {""}


def test_the_commitment_is_to_all_of_it(path):
    first = canary_file.commitment(canary_file.read(path))
    assert len(first) == 64
    assert first == canary_file.commitment(canary_file.read(path))
    table = json.loads(path.read_text())
    for change in (
        lambda t: t.update(salt="0" * 64),
        lambda t: t["canaries"][0].update(times=2),
        lambda t: t["canaries"][0].update(client="c1"),
        lambda t: t["canaries"].reverse(),
        lambda t: t["space"].update(pattern="07700 ######"),
    ):
        other = json.loads(json.dumps(table))
        change(other)
        path.write_text(json.dumps(other))
        assert canary_file.commitment(canary_file.read(path)) != first


def set_in(*keys):
    def change(table, value):
        for key in keys[:-1]:
            table = table[key]
        table[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "value", "says"),
    [
        (set_in("schema_version"), "2.0", "schema version 2.0"),
        (set_in("canaries"), [], "holds no canaries"),
        (set_in("canaries"), {}, "holds no canaries"),
        (set_in("canaries", 0), "07700 900123", "canary 0 is not a table"),
        (set_in("canaries", 0, "secret"), 7700900123, "canary 0 is not a table"),
        (set_in("canaries", 0, "secret"), "07700 800123", "canary 0 has a secret that is not"),
        (set_in("canaries", 0, "text"), "nothing", "canary 0 needs a text"),
        (set_in("canaries", 0, "text"), "{secret} and {secret}", "canary 0 needs a text"),
        (set_in("canaries", 0, "text"), "\x1b[31m {secret}", "do not show"),
        (set_in("canaries", 0, "text"), "x" * 20_000 + "{secret}", "canary 0 needs a text"),
        (set_in("canaries", 0, "times"), -1, "copies, or neither"),
        (set_in("canaries", 0, "times"), 10**9, "copies, or neither"),
        (set_in("canaries", 0, "times"), 0, "copies, or neither"),
        (set_in("canaries", 0, "times"), "4", "takes int"),
        (set_in("canaries", 0, "client"), "../c0", "cannot name a file"),
        (set_in("canaries", 0, "clent"), "c0", "Did you mean"),
        (set_in("salt"), "abc", "salt"),
        (set_in("instruction"), "a {secret}", "its instruction"),
        (set_in("instruction"), "a\nb", "its instruction"),
        (set_in("made"), "yesterday", "not a time"),
        (set_in("kind"), "a b", "cannot name a file"),
        (set_in("space"), "07700 900123", "space is not a table.*`fedaudit canary make` writes"),
        (set_in("space", "pattern"), "[", "a pattern is"),
        (set_in("space", "words"), [1, 2], "not texts; `fedaudit canary make` writes"),
        (set_in("space", "check"), "none", "a check is one of"),
        (set_in("label"), ["07700 900123"], "takes str"),
    ],
)
def test_hostile_files_are_refused_in_a_line_without_a_secret(path, change, value, says):
    table = json.loads(path.read_text())
    own = [one["secret"] for one in table["canaries"]]
    change(table, value)
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match=says) as refused:
        canary_file.read(path)
    line = str(refused.value)
    assert not any(secret in line for secret in own)
    assert "\n" not in line


def test_one_secret_twice_and_nobody_given_any_are_refused(path):
    table = json.loads(path.read_text())
    twice = {**table, "canaries": [*table["canaries"], table["canaries"][0]]}
    path.write_text(json.dumps(twice))
    with pytest.raises(InputError, match="one secret twice"):
        canary_file.read(path)
    path.write_text(json.dumps({**table, "canaries": table["canaries"][3:]}))
    with pytest.raises(InputError, match="no one is given any"):
        canary_file.read(path)


def test_somebody_must_be_left_to_be_ranked_among(path):
    table = json.loads(path.read_text())
    secrets = [one["secret"] for one in table["canaries"]]
    table["space"] = {"pattern": "", "check": "", "words": secrets}
    path.write_text(json.dumps(table))
    assert len(canary_file.read(path).planted) == 3  # and two controls
    table["canaries"] = [one | {"client": "c0", "times": 1} for one in table["canaries"]]
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match="no 2 secrets that no one is given"):
        canary_file.read(path)


def test_no_file_and_no_json_are_one_line(tmp_path):
    with pytest.raises(InputError, match="There is no file of canaries"):
        canary_file.read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        canary_file.read(tmp_path / "bad.json")
