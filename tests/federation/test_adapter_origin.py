"""What is saved beside an adapter about its base is compared with the base."""

import json

import pytest

from fedaudit.api.errors import InputError
from fedaudit.federation.adapter_origin import other_base_caveats, tokenizer_caveats


def saved(folder, *, tokens=("a", "b", "</s>"), added=(), eos="</s>", template=""):
    folder.mkdir()
    vocabulary = {token: number for number, token in enumerate(tokens)}
    rows = [{"id": len(tokens) + i, "content": token} for i, token in enumerate(added)]
    table = {"model": {"vocab": vocabulary}, "added_tokens": rows}
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


def test_a_tokenizer_beside_the_adapter_is_compared(tmp_path):
    base = saved(tmp_path / "base")
    assert tokenizer_caveats(saved(tmp_path / "same"), base) == []
    (tmp_path / "none").mkdir()
    assert tokenizer_caveats(tmp_path / "none", base) == []
    other = saved(tmp_path / "other", added=["<|im_end|>"], eos="<|im_end|>", template="{{ x }}")
    [told] = tokenizer_caveats(other, base)
    assert "1 further token," in told
    assert "'<|im_end|>' as the token that ends a text, not '</s>'" in told
    assert "a chat template of its own" in told
    assert "The base's tokenizer was used" in told


def test_tokens_that_are_other_ones_are_refused(tmp_path):
    base = saved(tmp_path / "base")
    other = saved(tmp_path / "other", tokens=("b", "a", "</s>"))
    with pytest.raises(InputError, match=r"token 0 is 'b', and in that of the base .* it is 'a'"):
        tokenizer_caveats(other, base)
