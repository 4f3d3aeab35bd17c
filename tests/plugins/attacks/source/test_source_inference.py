"""Each record is put down to the client whose model has the smallest loss on it."""

import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api import AttackContext, ClientModel, Document, InputError, Target
from fedaudit.api.estimates import wilson
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy.roc import auc
from fedaudit.report.kinds.source import Source

CLIENTS = ("c0", "c1", "c2")
WORDS = [f"w{n}" for n in range(99)]


def records(client, count, *, groups=None):
    rng = random.Random(client)
    return tuple(
        Document(
            id=f"{client}-{n}",
            text=" ".join([client, *rng.choices(WORDS, k=9)]),
            group=f"{client}/{n % (groups or count)}",
        )
        for n in range(count)
    )


def knows(target, token, before):
    """A client's model finds every word of its own records, which begin with its name, likelier."""
    own = (before + token).split()[0] == target.name.split()[-1]
    return -1.0 if own else -2.0


def case(counts=(4, 6, 10), likelihood=knows, *, extra=(), **changes):
    clients = {
        name: ClientModel(
            target=Target(name=f"client {name}", adapter=name),
            documents=(*records(name, count), *extra),
        )
        for name, count in zip(CLIENTS, counts, strict=True)
    }
    given = {
        "engine": FakeEngine(lambda *_: "", likelihood=likelihood),
        "tuned": Target(name="tuned", adapter="x"),
        "base": None,
        "attacker": clients["c0"].documents,
        "victim": None,
        "clients": clients,
    }
    return AttackContext(**{**given, **changes})


def run(asked, **options):
    return registry.create("attack", "source", options).run(asked)


def rows(result):
    return {(r.metric, r.scope.get("client"), r.scope.get("score")): r for r in result.measurements}


def test_models_that_know_their_own_give_every_source_away():
    found = rows(run(case()))
    whole = found["source_accuracy", None, None]
    assert (whole.value, whole.hits, whole.n, whole.chance) == (1.0, 20, 20, 10 / 20)
    assert (whole.low, whole.high) == (wilson(20, 20).low, wilson(20, 20).high)
    one = found["source_accuracy", "c1", None]
    assert (one.value, one.n, one.chance) == (1.0, 6, 1 / 3)
    assert found["auc", "c1", "loss"].value == 1.0
    assert found["auc", "c1", "text"].reason.startswith("the texts alone are compared from 20")


def test_numbers_by_hand():
    """Losses of three records under two models: two are put down rightly, and one wrongly."""
    losses = {("c0", "a"): 1.0, ("c1", "a"): 3.0, ("c0", "b"): 2.0, ("c1", "b"): 1.5,
              ("c0", "d"): 4.0, ("c1", "d"): 2.0}  # fmt: skip

    def likelihood(target, token, before):
        return -losses[target.name.split()[-1], (before + token).split()[0]]

    clients = {
        "c0": ("a x x x x x x x", "b x x x x x x x"),
        "c1": ("d x x x x x x x",),
    }
    models = {
        name: ClientModel(
            target=Target(name=f"client {name}", adapter=name),
            documents=tuple(Document(id=t, text=t, group="one") for t in texts),
        )
        for name, texts in clients.items()
    }
    found = rows(run(case(likelihood=likelihood, clients=models)))
    assert found["source_accuracy", None, None].value == pytest.approx(2 / 3)
    assert found["source_accuracy", "c0", None].value == 1 / 2
    assert found["source_accuracy", "c1", None].value == 1.0
    # c0's scores: 3 - 1 and 1.5 - 2; the other's: 2 - 4.
    wanted = auc([2.0, -0.5], [-2.0])
    row = found["auc", "c0", "loss"]
    assert (row.value, row.low, row.high) == (wanted.value, wanted.low, wanted.high)


def test_models_that_know_nothing_guess():
    def blind(target, token, before):
        return random.Random(f"{target.name}{before}{token}").gauss(-2, 0.5)

    found = rows(run(case((200, 200, 200), blind)))
    assert abs(found["source_accuracy", None, None].value - 1 / 3) < 0.08  # four standard errors
    for client in CLIENTS:
        assert abs(found["auc", client, "loss"].value - 0.5) < 0.1  # four standard errors
        assert found["auc", client, "text"].value > 0.9  # the name of the client is a word


@given(st.permutations(CLIENTS))
def test_the_order_of_clients_does_not_matter(order):
    asked = case((5, 3, 4))
    other = case((5, 3, 4), clients={name: asked.clients[name] for name in order})
    assert rows(run(asked)) == rows(run(other))


def test_records_of_several_clients_and_prompts_are_left_out():
    shared = Document(id="s", text="c0 everybody has this record of many words here", group="s")
    prompt = Document(id="p", text="c0 a prompt that asks for many words here", is_prompt=True)
    found = rows(run(case(extra=(shared, prompt))))
    assert found["source_accuracy", None, None].n == 20


def test_short_records_are_counted():
    short = {
        name: ClientModel(
            target=model.target,
            documents=(*model.documents, Document(id=f"{name}s", text=f"{name} short")),
        )
        for name, model in case().clients.items()
    }
    result = run(case(clients=short))
    assert rows(result)["source_accuracy", None, None].n == 20
    assert "3 records were left out because they have fewer than 8 tokens" in result.limits[-1]


def test_nothing_to_tell_apart():
    with pytest.raises(InputError, match="nothing to tell apart"):
        run(case((4, 0, 0)))


def test_the_table_has_a_line_for_each_client():
    result = run(case())
    report = {"measurements": [asdict(row) for row in result.measurements]}
    [table] = Source().tables(report)
    assert table.title == "Source: source"
    assert [row[0] for row in table.rows] == ["all", "c0", "c1", "c2"]
    assert table.columns[:4] == ("client", "records", "found [95 %]", "guessing")
