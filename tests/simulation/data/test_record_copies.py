"""`records.copies`: how often clients' documents come in their training."""

import json
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Document
from fedaudit.data import corpus
from fedaudit.engine.loading.loader import load_base
from fedaudit.nano import BASE
from fedaudit.simulation import initialization
from fedaudit.simulation.data.settings import Records
from fedaudit.simulation.initialization import copies_of
from fedaudit.simulation.preparation import prepare


def test_numbers_are_taken_in_turn_and_the_first_copy_keeps_its_id():
    found = copies_of([Document(id=name, text=name.upper()) for name in "abc"], (1, 3))
    assert [(one.id, one.text) for one in found] == [
        ("a", "A"), ("b", "B"), ("b-copy-2", "B"), ("b-copy-3", "B"), ("c", "C")
    ]  # fmt: skip


@given(count=st.integers(0, 12), numbers=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_document_comes_as_often_as_its_turn_says(count, numbers):
    documents = [Document(id=f"d{n}", text=f"text {n}") for n in range(count)]
    found = copies_of(documents, numbers)
    assert len({one.id for one in found}) == len(found)
    assert Counter(one.text for one in found) == {
        one.text: numbers[n % len(numbers)] for n, one in enumerate(documents)
    }


def test_clients_have_copies_and_held_out_documents_none(small, tmp_path):
    lines = [json.dumps({"text": f"Case {n} was heard."}) for n in range(20)]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    config = replace(
        small, defenses=(), held_out=0.3, data=str(tmp_path / "all.jsonl"),
        records=Records(copies=(1, 2)),
    )  # fmt: skip
    run = prepare(config, tmp_path / "run")
    initialization.create(config, run.out, load_base(BASE, device="cpu"), run.aggregator)

    def texts(name):
        path = run.out / f"data/{name}.jsonl"
        return Counter(one.text for one in corpus.read(path, config.prompt_template))

    for client in ("c0", "c1"):
        assert sorted(texts(client).values()) == [1, 1, 1, 1, 2, 2, 2]
    assert sorted(texts("held_out").values()) == [1] * 6
