import os
import stat
import unicodedata

import pytest
from example_report import HOSTILE, KEY
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, Interrupted
from fedaudit.report.redaction import (
    KEY_FILE,
    Redactor,
    config_folder,
    is_hidden,
    load_key,
    load_or_create_key,
    make_visible,
    readable_mask,
    user_key,
)

ANY_TEXT = st.text(st.characters())  # lone surrogates included


def test_a_mask_says_label_length_and_hmac_and_nothing_else():
    # hmac.new(bytes(range(32)), "张三".encode(), "sha256").hexdigest()[:16]
    mask = Redactor(KEY).mask("张三", "PERSON")
    assert mask == {"label": "PERSON", "length": 2, "hmac": "f816bf03f906c81a"}
    assert readable_mask(mask) == "PERSON(2) #f816…"


@given(ANY_TEXT, st.binary(min_size=32, max_size=40), st.binary(min_size=32, max_size=40))
def test_a_leak_matches_under_its_key_only(text, key, other):
    mask = Redactor(key).mask(text, "PERSON")
    assert mask == Redactor(key).mask(text, "PERSON")
    assert mask["hmac"] == Redactor(key).mask(text, "NAME")["hmac"]
    # HMAC pads a key with zero bytes: only those say nothing
    if key.rstrip(b"\0") != other.rstrip(b"\0"):
        assert mask["hmac"] != Redactor(other).mask(text, "PERSON")["hmac"]


def test_different_leaks_have_different_masks():
    redactor = Redactor(KEY)
    masks = {redactor.mask(f"1381234{number:04}", "PHONE")["hmac"] for number in range(2000)}
    assert len(masks) == 2000


def test_a_redactor_does_not_show_its_key_and_refuses_a_short_one():
    assert "\\x" not in repr(Redactor(KEY))
    with pytest.raises(ValueError, match="32 bytes or more, not 0"):
        Redactor(b"")


def test_a_key_is_made_once_and_only_for_its_owner(tmp_path):
    key = load_or_create_key(tmp_path)
    path = tmp_path / KEY_FILE
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_key(tmp_path) == load_key(path) == key
    assert [entry.name for entry in tmp_path.iterdir()] == [KEY_FILE]


def test_two_processes_that_make_the_key_at_once_get_the_same(tmp_path, monkeypatch):
    link = os.link

    def overtaken(source, target):
        monkeypatch.setattr(os, "link", link)
        load_or_create_key(tmp_path)
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert load_or_create_key(tmp_path) == load_key(tmp_path / KEY_FILE)
    assert [entry.name for entry in tmp_path.iterdir()] == [KEY_FILE]


def test_the_key_is_the_users_wherever_the_report_is(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDAUDIT_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert config_folder() == tmp_path / "home/.config/fedaudit"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    key = user_key()
    assert key == user_key()
    assert load_key(tmp_path / "xdg/fedaudit/redaction-key") == key
    assert stat.S_IMODE((tmp_path / "xdg/fedaudit").stat().st_mode) == 0o700
    monkeypatch.setenv("FEDAUDIT_CONFIG", str(tmp_path / "own"))
    assert user_key() == load_key(tmp_path / "own/redaction-key") != key


def test_a_configuration_that_cannot_be_made_is_one_line_that_names_the_variable(
    tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDAUDIT_CONFIG", str(tmp_path / "file/below"))
    with pytest.raises(InputError, match="Name another folder with FEDAUDIT_CONFIG"):
        user_key()


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("00" * 32, 0o644, "Others can read the redaction key .*: chmod 600 it"),
        ("00" * 31, 0o600, "shorter than 32 bytes"),
        ("secret", 0o600, "is not hexadecimal"),
        ("é", 0o600, "is not hexadecimal"),
        ("", 0o600, "shorter than 32 bytes"),
    ],
)
def test_a_bad_key_file_is_one_clear_line(tmp_path, content, mode, message):
    path = tmp_path / "key"
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
    with pytest.raises(InputError, match=message) as caught:
        load_key(path)
    assert "\n" not in str(caught.value)
    assert content == "" or content not in str(caught.value)


def test_a_key_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_key(tmp_path / "missing")
    with pytest.raises(InputError, match="is not a file"):
        load_key(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match="is not a file"):
        load_key(tmp_path / "fifo")


def test_a_key_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Interrupted, match="No space left"):
        load_or_create_key(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_disk_without_links_is_told_of_and_leaves_nothing(tmp_path, monkeypatch):
    def refused(source, target):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(InputError, match="cannot be made: Operation not permitted"):
        load_or_create_key(tmp_path)
    assert not list(tmp_path.iterdir())


@given(ANY_TEXT)
def test_visible_text_has_nothing_hidden(text):
    shown_text = make_visible(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown_text)
    assert not any(map(is_hidden, shown_text))
    assert make_visible(shown_text) == shown_text
    shown_text.encode("utf-8")


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_clean_text_stays_as_it_is(text):
    clean = "".join(char for char in text if not is_hidden(char))
    assert make_visible(clean) == clean


@given(ANY_TEXT.filter(lambda text: "\\" not in text))
def test_visible_drops_nothing(text):
    spelt = make_visible(text).encode("ascii", "backslashreplace").decode("ascii")
    assert spelt.encode("ascii").decode("unicode_escape") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x1b]8;;https://e.example\x07", r"\x1b]8;;https://e.example\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\tc\nd", r"a\rb\tc\nd"),
        ("\u202egnp", r"\u202egnp"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("x\ud800", r"x\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\ufe0f\u3164", r"\ufe0f\u3164"),
        ("\x7f", r"\x7f"),
        ("张\u3000三\xa0é", "张\u3000三\xa0é"),
        ("[red]|`<b>", "[red]|`<b>"),
    ],
)
def test_visible_spells_out(text, expected):
    assert make_visible(text) == expected


def test_the_hostile_examples_are_hostile():
    assert sum(any(map(is_hidden, text)) for text in HOSTILE.values()) >= 10
