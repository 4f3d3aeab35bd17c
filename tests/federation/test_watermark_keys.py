"""The owner's file of marks: whole, private, and refused when it is anything else."""

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Mark
from fedaudit.federation import watermark_keys

KEY = 8123459876543210
SECRETS = ({"key": KEY, "prompts": [[1, 2]]}, {"entity": "Åse"})
MARKS = [
    Mark(id="mark0", name="kgw", options={"gamma": 0.25}, secret=SECRETS[0], salt="5a"),
    Mark(id="银行", name="fictitious", options={}, secret=SECRETS[1], salt="5b"),
]


def table():
    return json.loads(
        json.dumps({"schema_version": "1.0", "marks": [watermark_keys.asdict(m) for m in MARKS]})
    )


def put(folder, content):
    path = folder / "watermark.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def refused(path):
    with pytest.raises(InputError) as error:
        watermark_keys.read(path)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def test_one_key_under_two_ids_is_refused_and_not_shown(tmp_path):
    twice = table()
    twice["marks"].append({**twice["marks"][0], "id": "again", "options": {}})
    said = refused(put(tmp_path, twice))
    assert "the marks mark0 and again have one key" in said
    assert str(KEY) not in said


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "owner/watermark.json"
    watermark_keys.write(MARKS, path)
    assert watermark_keys.read(path) == MARKS
    assert [p.name for p in path.parent.iterdir()] == ["watermark.json"]
    assert "银行" in path.read_text("utf-8")


def test_a_file_of_another_version_is_refused(tmp_path):
    path = put(tmp_path, {**table(), "schema_version": "2.0"})
    assert refused(path) == f"{path} has schema version 2.0; this fedaudit reads 1.x."
    assert watermark_keys.read(put(tmp_path, {**table(), "schema_version": "1.7"})) == MARKS


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_it(umask, tmp_path):
    path = tmp_path / "w.json"
    before = os.umask(umask)
    try:
        for _ in range(2):  # anew, and over one that was there
            watermark_keys.write(MARKS, path)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            path.chmod(0o644)
    finally:
        os.umask(before)


def test_a_mark_shows_no_secret():
    assert str(KEY) not in repr(MARKS)
    assert "Åse" not in repr(MARKS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON in UTF-8"),
        (b'{"marks": "\xff"}', "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON in UTF-8"),
        (b"[]", "holds no marks"),
        (b"null", "holds no marks"),
        (b"{}", "holds no marks"),
        (b'{"marks": []}', "holds no marks"),
        (b'{"marks": {"id": "a"}}', "holds no marks"),
        (b'{"marks": [1]}', "mark 0"),
        (b'{"marks": [{"id": "a"}]}', "mark 0"),
        (b'{"marks": [{"id": "a", "secret": {}}]}', "mark 0 has no salt"),
    ],
)
def test_a_file_that_holds_no_marks(content, message, tmp_path):
    assert message in refused(put(tmp_path, content))


def test_no_file_at_all(tmp_path):
    assert "There is no watermark file" in refused(tmp_path / "nowhere.json")


def test_a_folder_is_told_which_file_is_meant(tmp_path):
    named = f"{tmp_path} is a folder: name the file of marks that `fedaudit watermark make` writes"
    assert refused(tmp_path) == f"{named}."
    path = tmp_path / watermark_keys.OWNER
    watermark_keys.write(MARKS, path)
    assert refused(tmp_path) == f"{named}, {path}."
    assert refused(path.parent).endswith(f"writes, {path}.")


def test_marks_that_contradict_themselves(tmp_path):
    twice = table()
    twice["marks"][1]["id"] = "mark0"
    assert "two marks of one id" in refused(put(tmp_path, twice))
    for key, value in (("id", 3), ("name", None), ("options", [1]), ("secret", "x"), ("more", 1)):
        wrong = table()
        wrong["marks"][1][key] = value
        assert f"{key}" in refused(put(tmp_path, wrong))
        assert "mark 1" in refused(put(tmp_path, wrong))


def test_a_refusal_shows_no_secret(tmp_path):
    for key in ("id", "name", "options", "more"):
        wrong = table()
        wrong["marks"][0][key] = 5
        assert str(KEY) not in refused(put(tmp_path, wrong))
    for marks_ in ([table()["marks"][0] | {"secret": str(KEY)}], [str(KEY)], [[KEY]], str(KEY)):
        assert str(KEY) not in refused(put(tmp_path, {"marks": marks_}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
PLACES = [("marks",), ("marks", 0), *(("marks", 0, key) for key in table()["marks"][0])]


@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_it_it_is_read_or_refused(tmp_path_factory, place, value):
    given = inner = table()
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    try:
        found = watermark_keys.read(put(tmp_path_factory.mktemp("m"), given))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert all(isinstance(mark, Mark) for mark in found)
