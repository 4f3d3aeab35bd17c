"""Files are whole or absent, and a full disk is not a bug."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError, Interrupted
from fedaudit.system.failures import machine_failure
from fedaudit.system.files import (
    atomic,
    atomic_folder,
    atomic_text,
    check_version,
    existing_path,
    lines_sha256,
    new_folder,
    read_json,
    read_regular,
    restrict_to_owner,
    sha256,
    umask,
)


def test_text_is_written_in_utf_8_without_changing_line_ends(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    atomic_text(path, "张\r\n\n")
    assert path.read_bytes() == "张\r\n\n".encode()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_takes_the_old_ones_place_with_the_mode_that_is_asked_for(tmp_path, mode):
    path = tmp_path / "file.txt"
    path.write_text("old and longer")
    path.chmod(0o666)
    atomic_text(path, "new", mode=mode)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("taken", [0o000, 0o022, 0o027, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_no_file_is_more_open_than_the_umask_allows(tmp_path, taken, mode):
    before = os.umask(taken)
    try:
        atomic_text(tmp_path / "file.txt", "new", mode=mode)
        assert umask() == taken
        assert umask() == taken, "it is as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == mode & ~taken


def test_nobody_else_can_read_a_file_while_it_is_written(tmp_path):
    with atomic(tmp_path / "file.txt") as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, InputError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write_half() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise error("stopped")

    with pytest.raises(error, match="stopped"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "kind", "code"),
    [
        (errno.ENOSPC, Interrupted, 6),
        (errno.EDQUOT, Interrupted, 6),
        (errno.EIO, Interrupted, 6),
        (errno.EACCES, InputError, 3),
        (errno.EROFS, InputError, 3),
    ],
)
@pytest.mark.parametrize("step", ["mkdir", "write_bytes", "replace"])
def test_what_the_disk_refuses_is_named(tmp_path, monkeypatch, number, kind, code, step):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, step, refused)
    with pytest.raises(kind, match=r"file\.txt cannot be written: ") as caught:
        atomic_text(path, "new")
    monkeypatch.undo()
    assert os.strerror(number) in str(caught.value)
    assert caught.value.exit_code == code
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_where_a_folder_is_needed_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        atomic_text(tmp_path / "file" / "below.txt", "new")


def test_sha256_is_of_the_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 5000)
    assert sha256(path) == hashlib.sha256(bytes(range(256)) * 5000).hexdigest()


def test_existing_names_what_is_not_there(tmp_path):
    assert existing_path(tmp_path, "federation") == tmp_path
    with pytest.raises(InputError, match=r"There is no federation .*absent"):
        existing_path(tmp_path / "absent", "federation")


def test_the_fingerprint_of_lines_ignores_their_order_and_nothing_else(tmp_path):
    def fingerprint(text):
        (tmp_path / "lines").write_text(text)
        return lines_sha256(tmp_path / "lines")

    assert fingerprint("a\nb\n") == fingerprint("b\na")
    assert len({fingerprint(text) for text in ("a\nb", "a\nc", "a\nb\nb", "ab")}) == 4


def test_a_folder_is_closed_with_all_that_is_in_it(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("public")
    outside.chmod(0o644)
    folder = tmp_path / "new" / "folder"
    restrict_to_owner(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "a" / "b").mkdir(parents=True)
    for path in (folder / "one", folder / "a" / "b" / ".two"):
        path.write_text("secret")
        path.chmod(0o666)
    (folder / "link").symlink_to(outside)
    folder.chmod(0o777)
    restrict_to_owner(folder)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}
    assert {name: mode for name, mode in modes.items() if name != "link"} == {
        "a": 0o700,
        "b": 0o700,
        "one": 0o600,
        ".two": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644, "what a link leads to is another's"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/below cannot be closed to others: Not a directory"):
        restrict_to_owner(tmp_path / "file" / "below")


def test_only_plain_files_are_read_and_only_up_to_a_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(InputError, match="too large: such a file has 4 bytes at most"):
        read_regular(path, 4)
    (tmp_path / "link").symlink_to(path)
    assert read_regular(tmp_path / "link") == b"12345"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(InputError, match=f"{name} is not a regular file"):
            read_regular(tmp_path / name)
        with pytest.raises(InputError, match="not a regular file"):
            sha256(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)


def test_what_is_no_plain_file_is_not_written_over(tmp_path):
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "link").symlink_to(other)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    names = sorted(path.name for path in tmp_path.iterdir())
    for name in ("link", "pipe", "folder"):
        with pytest.raises(InputError, match=f"{name} cannot be written"):
            atomic_text(tmp_path / name, "new")
    assert other.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_name_twice_in_one_object_is_no_json(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": {"b": 1}, "c": [{"b": 1, "d": 2, "b": 1}]}')
    with pytest.raises(InputError, match=r"x.json is not JSON .*'b' stands twice in one object"):
        read_json(path, "")


def test_a_folder_is_whole_or_absent(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "a") as folder:
        1 / (folder / "x").write_text("")
    assert [*tmp_path.iterdir()] == []
    with atomic_folder(tmp_path / "a", 0o700) as folder:
        (folder / "x").write_text("x")
        assert not (tmp_path / "a").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "x"]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_half_a_surrogate_pair_is_no_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": "\\ud800"}')
    with pytest.raises(InputError, match="is not JSON in UTF-8"):
        read_json(path, "")
    path.write_text('{"a": "\\ud83d\\ude00"}')
    assert read_json(path, "") == {"a": "\U0001f600"}


def test_what_the_system_says_of_a_place_is_one_line(tmp_path):
    with pytest.raises(OSError, match="name too long") as raised:
        (tmp_path / ("x" * 5000)).exists()
    said = machine_failure(raised.value)
    assert said.exit_code == 3
    assert len(str(said)) < 300
    assert str(said).endswith("… cannot be used: File name too long.")
    assert machine_failure(OSError(errno.ENOSPC, "full", "a")).exit_code == 6
    assert machine_failure(OSError("no place")) is None


@pytest.mark.parametrize(
    ("version", "reads"),
    [("1.0", True), ("1.7", True), (1, True), ("1.0x", False), ("2.0", False), ("1.0\n", False)],
)
def test_versions_of_the_same_major_number_are_read(version, reads):
    if reads:
        check_version({"schema_version": version}, Path("one.json"), "1.0")
    else:
        with pytest.raises(InputError, match=r"this fedaudit reads 1\.x"):
            check_version({"schema_version": version}, Path("one.json"), "1.0")


def test_empty_new_folders_go_and_those_with_something_in_them_stay(tmp_path):
    with new_folder(tmp_path / "new/newer") as folder:
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())
    with new_folder(tmp_path / "new/newer") as folder:
        (folder.parent / "result").write_text("stays")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "new", tmp_path / "new/result"]


def test_new_folders_above_one_that_cannot_be_made_go_as_well(tmp_path):
    too_long = "x" * (os.pathconf(tmp_path, "PC_NAME_MAX") + 1)
    with pytest.raises(InputError), new_folder(tmp_path / "new" / too_long):
        pass
    assert not list(tmp_path.iterdir())
