"""What is saved beside an adapter about its base is compared with the base."""

import json

import pytest

from fedaudit.api.errors import InputError
from fedaudit.federation.adapter_origin import other_base_caveats, saved_tokenizer


def saved(folder, *, tokens=("a", "b", "</s>"), added=(), eos="</s>", template="", **rules):
    folder.mkdir()
    vocabulary = {token: number for number, token in enumerate(tokens)}
    rows = [{"id": len(tokens) + i, "content": token} for i, token in enumerate(added)]
    model = {"vocab": vocabulary, **rules.pop("model", {})}
    table = {"model": model, "added_tokens": rows, **rules}
    (folder / "tokenizer.json").write_text(json.dumps(table))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    if template:
        (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.mark.parametrize(
    ("config", "base", "says"),
    [
        ({"base_model_name_or_path": "me/other"}, "nano", ["another base than the one audited"]),
        (
            {"base_model_name_or_path": "me/other", "revision": "v3"},
            "nano",
            ["me/other (revision v3)"],
        ),
        ({"base_model_name_or_path": "me/one", "revision": "v3"}, "me/one", ["the revision v3"]),
        (
            {"base_model_name_or_path": "unsloth/one-bnb-4bit"},
            "me/one",
            ["another base", "few bits"],
        ),
        ({"base_model_name_or_path": "me/one"}, "me/one", []),
        ({"base_model_name_or_path": None}, "me/one", []),
        (
            {"base_model_name_or_path": "me/one", "revision": "abc"},
            "/hub/models--me--one/snapshots/abc",
            [],
        ),
    ],
)
def test_another_base_is_named(config, base, says):
    told = other_base_caveats([config], base)
    assert len(told) == len(says)
    assert all(part in caveat for part, caveat in zip(says, told, strict=True))


def test_a_local_copy_of_the_base_that_is_named_is_that_base(tmp_path):
    (tmp_path / "one").mkdir()
    assert not other_base_caveats([{"base_model_name_or_path": "me/one"}], str(tmp_path / "one"))
    assert other_base_caveats([{"base_model_name_or_path": "me/two"}], str(tmp_path / "one"))
    (tmp_path / "base").mkdir()
    named = {"base_model_name_or_path": "/scratch/ann/two/base"}
    assert other_base_caveats([named], str(tmp_path / "base"))


def test_a_tokenizer_beside_the_adapter_is_compared(tmp_path):
    base = saved(tmp_path / "base")
    assert saved_tokenizer(saved(tmp_path / "same"), base) is None
    (tmp_path / "none").mkdir()
    assert saved_tokenizer(tmp_path / "none", base) is None
    other = saved(tmp_path / "other", added=["<|im_end|>"], eos="<|im_end|>", template="{{ x }}")
    found = saved_tokenizer(other, base)
    assert found.differences == (
        "1 further token",
        "'<|im_end|>' as the token that ends a text, not '</s>'",
        "a chat template of its own",
    )
    assert found.template
    assert "saved beside the adapter was used, not the base's: it has 1 further" in found.caveat()


def test_a_tokenizer_whose_base_is_elsewhere_was_not_compared(tmp_path):
    found = saved_tokenizer(saved(tmp_path / "own"), None)
    assert not found.template
    assert "was not compared with the base's, which was not on this machine" in found.caveat()


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ({"added": ["<a>"]}, {"added": ["<b>"]}, ("1 renamed special token",)),
        ({"tokens": ("a", "b")}, {}, ("1 missing token",)),
        ({"model": {"merges": ["a b"]}}, {"model": {"merges": [["a", "b"]]}}, None),
        ({"model": {"merges": ["a b"]}}, {"model": {"merges": ["b a"]}}, ("other rules of how",)),
        ({"truncation": {"max_length": 5}}, {}, None),
        ({"normalizer": {"type": "Lowercase"}}, {}, ("other rules of how",)),
    ],
)
def test_files_are_compared_by_what_they_do(ours, theirs, says, tmp_path):
    found = saved_tokenizer(saved(tmp_path / "own", **ours), saved(tmp_path / "base", **theirs))
    if says is None:
        assert found is None
        return
    assert all(found.differences[i].startswith(text) for i, text in enumerate(says))


def test_tokens_that_are_other_ones_are_refused(tmp_path):
    base = saved(tmp_path / "base")
    other = saved(tmp_path / "other", tokens=("b", "a", "</s>"))
    with pytest.raises(InputError, match=r"token 0 is 'b', and in that of the base .* it is 'a'"):
        saved_tokenizer(other, base)
