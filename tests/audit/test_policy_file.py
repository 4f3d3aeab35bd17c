"""Policies that are built in, and those of files."""

from dataclasses import replace
from importlib.resources import files

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.policy_file import BUILT_IN, read_policy
from fedaudit.report.verdict.criteria import DEFAULT


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_policy_reads_and_says_what_it_is_for(name):
    found = read_policy(name)
    assert found.name == name
    assert found.description


def test_the_default_policy_has_the_limits_of_every_command():
    assert replace(read_policy("default"), description="") == DEFAULT


def test_strict_is_stricter_and_research_laxer():
    strict, research = read_policy("strict"), read_policy("research")
    assert strict.detectable < DEFAULT.detectable
    assert strict.membership is not None
    assert "membership_inference" in strict.required
    assert research.extraction > DEFAULT.extraction
    assert not research.attribution


def test_a_file_is_named_after_itself_and_knows_kinds_of_data(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text('level = 0.05\n[kinds]\nPERSON = 0.2\n"Identity Documents" = 0.01\n')
    found = read_policy(str(path))
    assert (found.name, found.level) == ("ours", 0.05)
    assert found.kinds == {"PERSON": 0.2, "Identity Documents": 0.01}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("level = ", "is not TOML"),
        ("lvl = 0.1", "no 'lvl'"),
        ("[kinds]\nPRESON = 0.1", "'PRESON' is not a kind of data"),
        ("detectable = 1.5", "detectable is 1.5"),
        ("\ud800", "is not TOML"),
        ("confidence = 0.05", "confidence is 0.05, the probability of being right"),
        ("power = 0.1", "power is 0.1, the probability of being right"),
        ("[kinds]\nPERSON = 0.9\nNAME = 0.01", "PERSON and NAME are the same kind"),
        ("[kinds]\nID_CARD = 0.9\nid-card = 0.01", "ID_CARD and id-card are the same kind"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path, text, says):
    path = tmp_path / "ours.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError) as error:
        read_policy(str(path))
    assert says in str(error.value)
    assert "ours.toml" in str(error.value)


@pytest.mark.parametrize(
    "named", ["strict", "Strict ", "strict\u200b", "s\u00adtrict", "str\u0456ct", "\uff53trict"]
)
def test_a_file_is_not_taken_for_a_policy_of_fedaudit(tmp_path, named):
    path = tmp_path / "strict.toml"
    path.write_text(f'name = "{named}"\ndetectable = 0.9\n', "utf-8")
    with pytest.raises(InputError, match="not those of fedaudit's policy strict"):
        read_policy(str(path))


@pytest.mark.parametrize("named", ["stricter", "our default", "strict 2", "\u200b"])
def test_another_name_is_free(tmp_path, named):
    path = tmp_path / "ours.toml"
    path.write_text(f'name = "{named}"\ndetectable = 0.9\n', "utf-8")
    assert read_policy(str(path)).name == named


def test_a_copy_of_a_policy_keeps_its_name(tmp_path):
    path = tmp_path / "strict.toml"
    path.write_bytes(files("fedaudit.audit").joinpath("policies/strict.toml").read_bytes())
    assert read_policy(str(path)) == read_policy("strict")


def test_other_words_are_no_other_limits(tmp_path):
    path = tmp_path / "default.toml"
    path.write_text('description = "What our board wants."\n')
    assert replace(read_policy(str(path)), description=DEFAULT.description) == DEFAULT


def test_a_name_that_nobody_knows():
    with pytest.raises(UsageError, match="Did you mean 'strict'"):
        read_policy("strct")
    with pytest.raises(InputError, match=r"There is no policy no\.toml"):
        read_policy("no.toml")
