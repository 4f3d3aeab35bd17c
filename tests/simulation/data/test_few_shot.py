"""Few documents of every cluster, dealt by cluster; two clients a round; the rate of a round."""

from collections import Counter
from dataclasses import replace
from math import cos, pi

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.data import corpus
from fedaudit.engine.embeddings import embed, load_embedder
from fedaudit.simulation.client.trainer import rate_at, schedule_span
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.settings import FewShot, Partition, Records
from fedaudit.simulation.initialization import documents, few_shot_documents, split


def made(count):
    return [Document(id=f"d{i}", text=f"text {i}") for i in range(count)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 9))
def test_every_cluster_gives_as_many_as_it_may(labels, each, seed):
    found, kinds = few_shot_documents(made(len(labels)), labels, shots=each, seed=seed)
    assert len({d.id for d in found}) == len(found) == len(kinds)
    wanted = {kind: min(each, n) for kind, n in Counter(labels).items()}
    assert Counter(kinds) == wanted
    for document, kind in zip(found, kinds, strict=True):
        assert labels[int(document.id[1:])] == kind
    order = [int(d.id[1:]) for d in found]
    assert order == sorted(order)


def test_what_is_drawn_of_a_cluster_depends_on_it_alone():
    found = made(60)
    labels = [i % 3 for i in range(60)]
    drawn, kinds = few_shot_documents(found, labels, shots=4, seed=1)
    own = [d.id for d, kind in zip(drawn, kinds, strict=True) if kind == 1]
    without = [(d, kind) for d, kind in zip(found, labels, strict=True) if kind != 2]
    again, others = few_shot_documents(
        [d for d, _ in without], [k for _, k in without], shots=4, seed=1
    )
    assert [d.id for d, kind in zip(again, others, strict=True) if kind == 1] == own
    other, _ = few_shot_documents(found, labels, shots=4, seed=2)
    assert [d.id for d in other] != [d.id for d in drawn]


def test_every_document_is_drawn_equally_often():
    counts = Counter(
        document.id
        for seed in range(600)
        for document in few_shot_documents(made(6), [0] * 6, shots=2, seed=seed)[0]
    )
    assert len(counts) == 6
    assert all(150 < n < 250 for n in counts.values())  # 200 on average, sd below 12


def config(**changes):
    return Simulation(
        **{
            "clients": 4,
            "records": Records(cases=12, documents_per_case=6),
            "partition": Partition(method="cluster", alpha=1.0, clusters=2),
            "few_shot": FewShot(each=2, clusters=5),
            "held_out": 0.25,
            **changes,
        }
    )


def test_a_split_of_few(base):
    wanted = config()
    found = documents(wanted)
    dealt = split(wanted, found, base)
    own = [d for client in dealt.clients for d in client]
    assert len(found) == 72
    assert len(dealt.held_out) == 18
    assert len(own) == len({d.id for d in own}) == 10
    assert not {d.id for d in own} & {d.id for d in dealt.held_out}
    assert split(wanted, found, base) == dealt
    everything = split(replace(wanted, few_shot=FewShot()), found, base)
    assert sum(map(len, everything.clients)) == 54
    assert everything.held_out == dealt.held_out


def test_a_partition_goes_by_the_clusters_that_the_few_are_of(base, monkeypatch):
    from fedaudit.simulation import initialization

    asked = []

    def classes(documents, classes, **options):
        asked.append(list(classes))
        return [documents[k :: options["clients"]] for k in range(options["clients"])]

    monkeypatch.setattr(initialization, "deal_documents", classes)
    wanted = config()
    split(wanted, documents(wanted), base)
    assert Counter(asked[0]) == dict.fromkeys(range(5), 2)


def test_fewer_than_clients(base):
    wanted = config(few_shot=FewShot(each=1, clusters=3))
    with pytest.raises(InputError, match="3 documents are too few to train 4 clients"):
        split(wanted, documents(wanted), base)


# A file of its own to test with


def test_a_test_file_takes_the_place_of_a_share(base, tmp_path):
    plain = config(held_out=0.5)
    every = documents(plain)
    corpus.write(tmp_path / "data.jsonl", every[10:])
    corpus.write(tmp_path / "test.jsonl", every[:10])
    own = {"data": str(tmp_path / "data.jsonl"), "test": str(tmp_path / "test.jsonl")}
    wanted = replace(plain, few_shot=FewShot(), **own)
    found = documents(wanted)
    dealt = split(wanted, found, base)
    assert {d.id for d in dealt.held_out} == {d.id for d in every[:10]}
    assert sum(map(len, dealt.clients)) == len(every) - 10
    corpus.write(tmp_path / "again.jsonl", every[9::-1])
    again = replace(wanted, test=str(tmp_path / "again.jsonl"))
    assert split(again, found, base) == dealt
    assert again.sha256() == wanted.sha256() != replace(wanted, test="").sha256()


def test_what_is_tested_is_not_trained_on(base, tmp_path):
    plain = config()
    corpus.write(tmp_path / "test.jsonl", documents(plain)[:2])
    with pytest.raises(InputError, match="is in nano as well"):
        split(replace(plain, test=str(tmp_path / "test.jsonl")), documents(plain), base)


# Embedders


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, base):
    """Return the folder of an encoder of one layer that looks both ways."""
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = BertConfig(**size, intermediate_size=16, vocab_size=len(base.tokenizer))
    BertModel(settings).save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    return folder


def test_an_encoder_embeds_a_text_whatever_stands_beside_it(encoder):
    model = load_embedder(str(encoder), device="cpu")
    texts = ["one", "a text that is quite a bit longer than the other", "原告"]
    together = embed(model, texts)
    assert together.shape == (3, 16)
    for text, vector in zip(texts, together, strict=True):
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            mean = model.model(ids).last_hidden_state[0].double().mean(0).numpy()
        assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_a_language_models_body_embeds_as_the_model_does(base):
    body = load_embedder("fedaudit-nano", device="cpu")
    texts = ["The claimant", "a longer text about a claimant and a defendant"]
    assert embed(body, texts) == pytest.approx(embed(base, texts), abs=1e-5)


def test_few_by_the_clusters_of_an_encoder(encoder, base):
    wanted = config(partition=Partition(method="cluster", alpha=1.0, embedding=str(encoder)))
    dealt = split(wanted, documents(wanted), base)
    assert sum(map(len, dealt.clients)) == 10


def test_no_model_and_a_broken_one(tmp_path):
    with pytest.raises(InputError, match="holds no model in safetensors"):
        load_embedder(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="is not a valid safetensors file"):
        load_embedder(str(tmp_path))


# A rate that falls by the round


def test_the_cosine_begins_every_round_at_that_rounds_rate():
    """OpenFedLLM's rate of round n of N (from 0), which FewFedPIT follows: 1 + cos(pi n / N)."""
    settings = Training(learning_rate=2e-3, decay="cosine")
    for steps in (1, 3, 40):
        for number in range(1, 31):
            before, total = schedule_span(settings, steps, number, 30)
            rates = [rate_at(settings, step, steps, before, total) for step in range(steps)]
            wanted = [1e-3 * (1 + cos(pi * n / 30)) for n in (number - 1, number)]
            assert rates[0] == pytest.approx(wanted[0])
            assert rates == sorted(rates, reverse=True)
            assert rates[-1] > wanted[1]


def test_a_file_that_a_defence_draws_from_counts_by_its_lines(tmp_path):
    every = documents(config())
    for name, chosen in (("a", every[:9]), ("b", every[8::-1]), ("c", every[:8])):
        corpus.write(tmp_path / f"{name}.jsonl", chosen)

    def digest(name):
        source = {"name": "few_fed_pit", "source": str(tmp_path / f"{name}.jsonl")}
        return replace(config(), defenses=(source,)).sha256()

    assert digest("a") == digest("b") != digest("c")
    with pytest.raises(InputError, match=r"There is no file .*d\.jsonl"):
        digest("d")
