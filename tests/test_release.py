"""What `make release` does beside calling tools."""

import io
import runpy
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
made = runpy.run_path(str(ROOT / ".ci/release.py"))


def packed(files, time, owner):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, (text, mode) in files:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = len(text), time, owner, mode
            tar.addfile(member, io.BytesIO(text))
    return content.getvalue()


def test_an_sdist_does_not_say_when_and_by_whom_it_was_built():
    files = [("a-1/b.py", (b"x = 1\n", 0o664)), ("a-1/a", (b"#!/bin/sh\n", 0o775))]
    one, other = packed(files, 1_000, "ann"), packed(files[::-1], 2_000, "bob")
    assert made["repacked"](one, 5) == made["repacked"](other, 5) != made["repacked"](one, 6)
    with tarfile.open(fileobj=io.BytesIO(made["repacked"](one, 5))) as tar:
        assert [(m.name, m.mtime, m.uname, m.mode) for m in tar] == [
            ("a-1/a", 5, "", 0o755),
            ("a-1/b.py", 5, "", 0o644),
        ]
        assert tar.extractfile("a-1/b.py").read() == b"x = 1\n"


def test_the_versions_agree():
    assert (
        made["check_versions"]()
        == made["check_versions"]
        .__globals__["re"]
        .findall(r'__version__ = "(.+)"', (ROOT / "fedaudit/__init__.py").read_text())[0]
    )


def test_a_change_log_without_the_version_stops_a_release(tmp_path, monkeypatch):
    (tmp_path / "fedaudit").mkdir()
    (tmp_path / "fedaudit/__init__.py").write_text('__version__ = "9.1"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 9.0 - 2026-01-01\n")
    monkeypatch.setitem(made["check_versions"].__globals__, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"CHANGELOG\.md has no line '## 9\.1 - '"):
        made["check_versions"]()
