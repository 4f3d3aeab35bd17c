"""`records.limit`: some of the documents, whatever the order of their file, and said so."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.datasets import ClientSequences, length_caveats
from fedaudit.simulation.data.settings import Records
from fedaudit.simulation.initialization import documents
from fedaudit.simulation.runner import data_caveats


def settings(folder, texts, limit):
    path = folder / "all.jsonl"
    path.write_text("".join(json.dumps({"id": text, "text": text}) + "\n" for text in texts))
    return Simulation(data=str(path), records=Records(limit=limit))


@given(
    texts=st.permutations([f"text {number}" for number in range(9)]),
    limit=st.integers(min_value=1, max_value=12),
)
def test_the_same_documents_are_used_whatever_the_order_of_the_file(tmp_path_factory, texts, limit):
    folder = tmp_path_factory.mktemp("limit")
    used = documents(settings(folder, texts, limit))
    everything = documents(settings(folder, sorted(texts), 0))
    assert len(everything) == 9
    assert used == everything[:limit]


def test_how_many_are_used_is_a_caveat_only_where_some_are_not(tmp_path):
    config = settings(tmp_path, ["one", "two", "three"], 2)
    assert data_caveats(config) == [f"{config.data}: 2 of 3 documents are used (records.limit)."]
    assert data_caveats(replace(config, records=Records(limit=3))) == []
    assert data_caveats(replace(config, records=Records())) == []


def test_invented_documents_are_limited_as_well():
    config = Simulation(records=Records(cases=2, documents_per_case=3))
    assert (
        documents(replace(config, records=Records(cases=2, documents_per_case=3, limit=4)))
        == (documents(config)[:4])
    )


def test_a_limit_beside_files_of_clients_means_nothing():
    with pytest.raises(ValueError, match="client_data"):
        Simulation(client_data={"a": "a.jsonl"}, clients=1, records=Records(limit=1))


def test_records_that_training_does_not_read_whole_are_counted():
    tokens = ClientSequences(shared={"c0": [[1, 2], [1, 2, 3]], "c1": [[1] * 3]}, private={})
    assert length_caveats(tokens, 4) == []
    assert length_caveats(tokens, 3) == [
        "2 of 3 records have 3 tokens or more, and training read 3 of each (training.max_length)."
    ]
