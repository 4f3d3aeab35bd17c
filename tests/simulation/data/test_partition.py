from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.engine.embeddings import embed, kmeans_clusters
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.partition import corpus_of, deal_by_corpus, deal_documents
from fedaudit.simulation.data.settings import Partition, Records
from fedaudit.simulation.initialization import documents, split

ALPHAS = st.none() | st.sampled_from([1e-9, 1e-3, 0.1, 0.5, 10.0, 1e6])
GROUPED = st.lists(
    st.tuples(st.sampled_from(["", "", "a", "b", "c", "d"]), st.integers(0, 4)),
    min_size=1,
    max_size=60,
)


def made(pairs):
    found = [Document(id=f"d{i}", text="x", group=group) for i, (group, _) in enumerate(pairs)]
    return found, [kind for _, kind in pairs]


@given(GROUPED, st.integers(1, 6), ALPHAS, st.integers(0, 99))
def test_every_document_goes_to_exactly_one_client_with_its_group(pairs, clients, alpha, seed):
    found, classes = made(pairs)
    dealt = deal_documents(found, classes, clients=clients, alpha=alpha, seed=seed)
    assert len(dealt) == clients
    assert Counter(d.id for own in dealt for d in own) == Counter(d.id for d in found)
    for group in {d.group for d in found} - {""}:
        assert sum(any(d.group == group for d in own) for own in dealt) == 1


@given(GROUPED, st.integers(1, 6), ALPHAS, st.integers(0, 99))
def test_clients_differ_by_at_most_the_largest_group(pairs, clients, alpha, seed):
    found, classes = made(pairs)
    dealt = deal_documents(found, classes, clients=clients, alpha=alpha, seed=seed)
    counts = [len(own) for own in dealt]
    largest = max(Counter(d.group or d.id for d in found).values())
    # Each group goes to whoever has the fewest at that moment.
    assert max(counts) - min(counts) <= largest


@given(GROUPED, ALPHAS, st.integers(0, 99))
def test_the_seed_decides(pairs, alpha, seed):
    found, classes = made(pairs)
    deals = [deal_documents(found, classes, clients=3, alpha=alpha, seed=seed) for _ in range(2)]
    assert deals[0] == deals[1]


def test_another_seed_deals_otherwise():
    found, classes = made([("", i % 4) for i in range(40)])
    for alpha in (None, 0.5):
        deals = [
            deal_documents(found, classes, clients=3, alpha=alpha, seed=seed) for seed in (0, 1)
        ]
        assert deals[0] != deals[1]


def skew(alpha, seed):
    """Return how far the clients' shares of the classes are from everybody's, from 0 to 1."""
    found, classes = made([("", i % 4) for i in range(400)])
    kind = dict(zip([d.id for d in found], classes, strict=True))
    dealt = deal_documents(found, classes, clients=4, alpha=alpha, seed=seed)
    shares = [
        np.bincount([kind[d.id] for d in own], minlength=4) / len(own) - 0.25 for own in dealt
    ]
    return np.abs(shares).sum() / (4 * 1.5)  # 1.5: a client of one class alone


def test_the_skew_grows_as_alpha_falls():
    means = [np.mean([skew(a, s) for s in range(8)]) for a in (0.05, 0.5, 5.0, 500.0, None)]
    assert means[0] > means[1] > means[2] > means[3]
    # alpha -> infinity is IID but for chance; alpha -> 0 is one class a client, but clients that
    # want the same one must share it.
    assert abs(means[3] - means[4]) < 0.05
    assert means[0] > 0.5


def config(**changes):
    return Simulation(
        **{
            "clients": 3,
            "records": Records(cases=9, documents_per_case=4),
            "partition": Partition(method="iid"),
            "held_out": 0.25,
            **changes,
        }
    )


@pytest.mark.parametrize(
    "partition",
    [
        Partition(method="iid"),
        Partition(method="dirichlet", by="task"),
        Partition(method="dirichlet", by="group"),
        Partition(method="cluster", clusters=3),
    ],
    ids=["iid", "task", "group", "cluster"],
)
def test_a_split_holds_every_document_once(partition, base):
    wanted = config(partition=partition)
    found = documents(wanted)
    dealt = split(wanted, found, base)
    assert len(found) == 36
    assert len(dealt.held_out) == 9
    everywhere = [*dealt.held_out, *(d for own in dealt.clients for d in own)]
    assert Counter(d.id for d in everywhere) == Counter(d.id for d in found)
    for group in {d.group for d in found}:
        assert sum(any(d.group == group for d in own) for own in dealt.clients) <= 1
    counts = [len(own) for own in dealt.clients]
    assert max(counts) - min(counts) <= 4
    assert split(wanted, found, base) == dealt


def test_too_few_documents(base):
    wanted = config(clients=30)
    with pytest.raises(InputError, match="27 documents are too few to train 30 clients"):
        split(wanted, documents(wanted), base)
    wanted = config(clients=20)  # 27 documents, but only 9 cases
    with pytest.raises(InputError, match="without documents: lower `clients`"):
        split(wanted, documents(wanted), base)


def test_clusters_of_embeddings_are_the_texts_own(base):
    texts = ["The court of appeal heard the claimant.", "原告向法院提起诉讼。"]
    vectors = embed(base, [*texts, texts[0], texts[1], ""])
    assert vectors.shape == (5, base.model.config.hidden_size)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert vectors[2] == pytest.approx(vectors[0])
    found = kmeans_clusters(vectors[:4], 2, seed=0)
    assert found[0] == found[2] != found[1] == found[3]
    assert len(set(kmeans_clusters(vectors, 50, seed=0))) <= 5


def test_an_embedding_does_not_depend_on_its_company(base):
    texts = ["one", "a text that is quite a bit longer than the other", "原告"]
    together = embed(base, texts)
    for text, vector in zip(texts, together, strict=True):
        assert embed(base, [text])[0] == pytest.approx(vector, abs=1e-5)
    long = "word " * 2000
    assert embed(base, [long])[0] == pytest.approx(embed(base, [long + "more"])[0])


def test_an_embedding_is_the_mean_of_the_last_hidden_states(base):
    import torch

    ids = base.tokenizer("The claimant")["input_ids"]
    with torch.inference_mode():
        out = base.model(torch.tensor([ids]), output_hidden_states=True)
    wanted = out.hidden_states[-1][0].double().mean(0).numpy()
    assert embed(base, ["The claimant"])[0] == pytest.approx(
        wanted / np.linalg.norm(wanted), abs=1e-5
    )


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(0, 9),
)
def test_clients_of_a_corpus_partition_have_one_corpus_each(pairs, clients, seed):
    found = [
        Document(id=f"d{i}", text="x", group=f"{corpus}/{case}")
        for i, (corpus, case) in enumerate(pairs)
    ]
    dealt = deal_by_corpus(found, clients=clients, seed=seed)
    corpora = {corpus_of(document) for document in found}
    assert Counter(d.id for own in dealt for d in own) == Counter(d.id for d in found)
    if len(corpora) <= clients:
        assert all(len({corpus_of(d) for d in own}) <= 1 for own in dealt)


def test_corpora_share_the_clients_evenly():
    found = [Document(id=f"{c}{i}", text="x", group=f"{c}/{i}") for c in "ab" for i in range(10)]
    dealt = deal_by_corpus(found, clients=4, seed=0)
    assert [{corpus_of(d) for d in own} for own in dealt] == [{"a"}, {"a"}, {"b"}, {"b"}]
    assert [len(own) for own in dealt] == [5, 5, 5, 5]
