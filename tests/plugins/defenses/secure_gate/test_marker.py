"""Reading the marker of a key, and taking markers and keys out of text."""

import pytest
from fedaudit_plugins.defenses.secure_gate.header_features import Cleaner, heading, parse
from hypothesis import given
from hypothesis import strategies as st

KEY, OTHER = "abcdefghij0123456789", "ZYXWVUTSRQ9876543210"
# Pieces that nest and join: what is left of one may make another.
PIECES = st.sampled_from(
    [KEY, OTHER, KEY[:7], KEY[7:], "[SPECIAL_TOKEN=", "]", "] ", " ", "x", "é", "\n", heading(KEY)]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("text", "key", "rest"),
    [
        (f"[SPECIAL_TOKEN={KEY}] Who?", KEY, "Who?"),
        (f"[SPECIAL_TOKEN={KEY}]Who?", KEY, "Who?"),
        (f"[SPECIAL_TOKEN={KEY}]  Who?", KEY, " Who?"),
        ("[SPECIAL_TOKEN=] Who?", "", "Who?"),
        ("[SPECIAL_TOKEN=" + 256 * "k" + "] Who?", 256 * "k", "Who?"),
        ("[SPECIAL_TOKEN=" + 257 * "k" + "] Who?", None, "[SPECIAL_TOKEN=" + 257 * "k" + "] Who?"),
        ("[SPECIAL_TOKEN=a\nb] Who?", None, "[SPECIAL_TOKEN=a\nb] Who?"),
        ("[SPECIAL_TOKEN=[SPECIAL_TOKEN=a]b]", "[SPECIAL_TOKEN=a", "b]"),
        ("", None, ""),
        ("Who?", None, "Who?"),
        (f" [SPECIAL_TOKEN={KEY}] Who?", None, f" [SPECIAL_TOKEN={KEY}] Who?"),
        (f"Say [SPECIAL_TOKEN={KEY}]", None, f"Say [SPECIAL_TOKEN={KEY}]"),
        (f"[SPECIAL_TOKEN={KEY}", None, f"[SPECIAL_TOKEN={KEY}"),
        (f"[special_token={KEY}]", None, f"[special_token={KEY}]"),
        (f"[SPECIAL_TOKEN ={KEY}]", None, f"[SPECIAL_TOKEN ={KEY}]"),
        (f"［SPECIAL_TOKEN={KEY}］", None, f"［SPECIAL_TOKEN={KEY}］"),
    ],
)
def test_a_marker_counts_at_the_start_and_as_it_is(text, key, rest):
    assert parse(text) == (key, rest)


@given(key=st.text(st.characters(exclude_characters="]\n"), max_size=256), rest=st.text())
def test_a_heading_is_read_back_whatever_follows(key, rest):
    assert parse(heading(key) + rest) == (key, rest)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Who is it?", "Who is it?"),
        (f"a {KEY} b {OTHER}", "a  b "),
        (f"a [SPECIAL_TOKEN={KEY}] b", "a b"),
        ("a [SPECIAL_TOKEN=of a stranger] b", "a b"),
        (f"{KEY[:4]}{KEY}{KEY[4:]}", ""),
        (f"{KEY[:4]}[SPECIAL_TOKEN=]{KEY[4:]}", ""),
        (f"[SPECIAL_TOKEN=\na {KEY} long] text", "[SPECIAL_TOKEN=\na  long] text"),
        (KEY.upper(), KEY.upper()),
        (KEY[:-1], KEY[:-1]),
    ],
)
def test_what_cleaning_leaves(text, left):
    assert Cleaner([KEY, OTHER]).clean(text) == left


@given(TEXTS)
def test_no_key_and_no_marker_survives_cleaning(text):
    cleaned = Cleaner([KEY, OTHER]).clean(text)
    assert not any(key in cleaned for key in (KEY, OTHER))
    assert all(parse(cleaned[start:])[0] is None for start in range(len(cleaned)))
    assert Cleaner([KEY, OTHER]).clean(cleaned) == cleaned


@given(st.text())
def test_cleaning_leaves_other_text_alone(text):
    assert Cleaner([KEY]).clean(text) == text


def test_without_keys_markers_still_go():
    assert Cleaner([]).clean(f"a {heading('x')}b") == "a b"
