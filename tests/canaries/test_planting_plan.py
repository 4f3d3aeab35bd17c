"""A client's records with its canaries: all of them as they were, and the copies as documents."""

import json
import stat
from collections import Counter

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.canaries import canary_file
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.canaries.planting_plan import PlantRequest, plant
from fedaudit.data import corpus

RECORDS = [{"id": f"r{n}", "text": f"Case {n} was heard.", "odd": n, "pii": []} for n in range(9)]


@pytest.fixture
def here(tmp_path):
    found = make(CanaryRequest(count=6, clients=("c0", "c1"), seed=1))
    canary_file.write(found, tmp_path / "c.json")
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    return tmp_path


def order(here, **options):
    return PlantRequest(
        **{
            "secrets": here / "c.json",
            "records": here / "r.jsonl",
            "client": "c1",
            "out": here / "out.jsonl",
            "seed": 0,
            **options,
        }
    )


def written(here):
    return [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]


def test_records_stay_and_copies_are_documents_of_their_own(here):
    done = plant(order(here))
    found = written(here)
    own = [one for one in canary_file.read(here / "c.json").planted if one.client == "c1"]
    assert (done.records, done.canaries, done.copies) == (9 + 21, 3, 21)
    assert sorted((r for r in found if "odd" in r), key=lambda r: r["id"]) == RECORDS
    planted = [record for record in found if "odd" not in record]
    assert Counter(r["text"] for r in planted) == {one.sentence: one.times for one in own}
    assert len({r["id"] for r in found}) == 30
    assert stat.S_IMODE((here / "out.jsonl").stat().st_mode) == 0o600
    for document in corpus.read(here / "out.jsonl", template("fed_pii")):
        if document.pii:
            assert document.strings()[0] in {(one.secret, "PHONE_NUMBER") for one in own}


def test_the_order_is_the_seeds(here):
    plant(order(here))
    first = (here / "out.jsonl").read_text()
    (here / "out.jsonl").unlink()
    plant(order(here))
    assert (here / "out.jsonl").read_text() == first
    plant(order(here, seed=1, out=here / "other.jsonl"))
    assert (here / "other.jsonl").read_text() != first


def test_copies_are_annotated_only_where_all_records_are(here):
    bare = [{"text": "one"}, {"text": "two", "pii": []}]
    (here / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bare))
    plant(order(here))
    assert sum("pii" in record for record in written(here)) == 1


def test_instructions_are_answered_by_the_sentences(here):
    found = make(CanaryRequest(count=3, instruction="Go on.", seed=1))
    canary_file.write(found, here / "i.json")
    plant(order(here, secrets=here / "i.json", client="c0"))
    form = template("fed_pii")
    documents = [one for one in corpus.read(here / "out.jsonl", form) if one.pii]
    assert {one.instruction for one in documents} == {"Go on."}
    assert {one.text for one in documents} == {
        "Go on.\n<###Output>\n" + one.sentence for one in found.planted
    }
    assert found.heading(form) == "Go on.\n<###Output>\n"
    secrets = {one.secret for one in found.planted}
    assert {one.strings()[0][0] for one in documents} == secrets


def test_an_array_stays_one(here):
    (here / "r.jsonl").write_text(json.dumps(RECORDS))
    plant(order(here))
    assert len(json.loads((here / "out.jsonl").read_text())) == 30


def test_what_is_there_is_not_written_over(here):
    (here / "out.jsonl").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        plant(order(here))
    assert (here / "out.jsonl").read_text() == "mine"
    (here / "link.jsonl").symlink_to(here / "nowhere")
    with pytest.raises(InputError, match="exists already"):
        plant(order(here, out=here / "link.jsonl"))
    with pytest.raises(InputError, match="exists already"):
        plant(order(here, out=here / "r.jsonl"))


def test_planting_twice_and_other_clients_are_refused(here):
    plant(order(here))
    with pytest.raises(InputError, match="holds canaries of c1 already"):
        plant(order(here, records=here / "out.jsonl", out=here / "twice.jsonl"))
    with pytest.raises(UsageError, match=r"client of c\.json"):
        plant(order(here, client="c2"))


def test_a_tables_suffix_is_refused(here):
    with pytest.raises(InputError, match="planted in JSONL"):
        plant(order(here, out=here / "out.csv"))
