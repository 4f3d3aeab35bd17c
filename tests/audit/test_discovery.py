"""What is at hand: a folder that is not there is named before what is asked for."""

import shutil

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.material import discover


def test_a_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "federation").mkdir()
    says = (
        r"^There is no federation federatoin\. Did you mean 'federation'\? There are no documents"
    )
    with pytest.raises(UsageError, match=says):
        discover("federatoin", reader=InputReader())


def test_a_model_of_the_hub_without_an_adapter_is_no_federation_that_is_missing(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    says = r"^There is no folder some/base; a model on the hub also needs --adap"
    with pytest.raises(UsageError, match=says):
        discover("some/base", reader=InputReader())


@pytest.mark.parametrize("words", [("fedaudit-nano",), ("some/base", "lora")])
def test_a_base_is_no_federation_that_is_not_there(tmp_path, monkeypatch, adapter, words):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(adapter, "lora")
    with pytest.raises(UsageError, match=r"^There are no documents to attack with"):
        discover(*words, reader=InputReader())
