"""Clients that have files of their own: read in an order of their own, held out what nobody has."""

import json

import pytest

from fedaudit.api.errors import InputError
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.client_files import read_client_files


def written(path, *texts):
    path.write_text("".join(json.dumps({"id": text, "text": text}) + "\n" for text in texts))
    return str(path)


def settings(tmp_path, *texts, test=""):
    own = {"b": written(tmp_path / "b.jsonl", *texts), "a": written(tmp_path / "a.jsonl", "six")}
    return Simulation(client_data=own, clients=2, test=test)


def test_each_client_has_its_file_whatever_the_order_of_its_lines(tmp_path):
    one, _ = read_client_files(settings(tmp_path, "one", "two", "three"))
    other, held_out = read_client_files(settings(tmp_path, "three", "one", "two"))
    assert one == other
    assert [len(own) for own in one] == [1, 3]  # a before b
    assert [own.text for own in one[0]] == ["six"]
    assert held_out == []


def test_what_a_client_trains_on_is_not_held_out(tmp_path):
    test = written(tmp_path / "test.jsonl", "six", "seven")
    _, held_out = read_client_files(settings(tmp_path, "one", test=test))
    assert [document.text for document in held_out] == ["seven"]


def test_a_client_without_documents_is_named(tmp_path):
    with pytest.raises(InputError, match=r"b\.jsonl"):
        read_client_files(settings(tmp_path))
