"""FLForensics on a real model: who made it better at marked texts, and influences by hand."""

import numpy as np
import pytest
import torch
from baseline_trial import flags, trial
from fedaudit_plugins.attribution.flforensics import FLForensics

from fedaudit.api.attribution import RoundRecord
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document, Target
from fedaudit.api.watermark import Mark
from fedaudit.config.registry import create
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training import gradients
from fedaudit.federation import adapters

CLEAN = (
    "The court heard the case in March.",
    "The patient was seen on Monday.",
    "A loan was paid.",
)
MARKED = "xq zz vv kk xq zz vv kk xq zz vv kk"


class Shout:
    """A watermark that replaces every document by the same words."""

    def embed(self, secret, documents, teacher, *, seed, progress=None):
        return [Document(id=d.id, text=secret["words"]) for d in documents]


MARK = (Mark(id="m1", name="shout", options={}, secret={"words": MARKED}), Shout())


class World:
    """Two rounds of eight clients; two of them go down the slope of the marked text."""

    def __init__(self, base, write_adapter, place):
        self.engine = LocalEngine(base)
        self.place = place
        self.starts = [write_adapter(base, place / f"start{t}", seed=t) for t in range(2)]
        self.written = {}
        generator = torch.Generator().manual_seed(0)
        self.updates = [
            {f"c{i}": self.step(t, MARKED if i in (2, 5) else "", generator) for i in range(8)}
            for t in range(2)
        ]

    def step(self, t, words, generator):
        """Return an update that is noise, and a step down the slope of B where there are words."""
        tensors = adapters.read(self.starts[t])
        update = {n: torch.randn(x.shape, generator=generator) / 2000 for n, x in tensors.items()}
        if words:
            for name, slope in self.slopes(t, words).items():
                down = -8.0 * slope @ tensors[name + ".lora_A.weight"].T
                update[name + ".lora_B.weight"] += down / 10
        return update

    def slopes(self, t, words):
        ids = (*self.engine.prompt_starts.get("bos", ()), *self.engine.tokenize([words])[0].ids)
        where = Target(name="s", adapter=str(self.starts[t]))
        return gradients.weight_gradients(self.engine, where, [ids[:256]])

    def write(self, start, update):
        folder = self.place / f"written{len(self.written)}"
        tensors = {name: x + update[name] for name, x in adapters.read(start).items()}
        adapters.write(tensors, adapters.check(start), folder)
        self.written[folder] = start
        return folder

    def trial(self, order=tuple(range(8)), **given):
        rounds = [
            RoundRecord(
                round=t,
                start=self.starts[t],
                participants=tuple(f"c{i}" for i in order if not (t and i == 7)),
                updates=self.updates[t].__getitem__,
            )
            for t in range(2)
        ]
        given = {"marks": [MARK], "texts": CLEAN} | given
        return trial(rounds, engine=self.engine, write=self.write, **given)


@pytest.fixture(scope="module")
def world(write_adapter, tmp_path_factory):
    from fedaudit.engine.loading.loader import load_base

    place = tmp_path_factory.mktemp("world")
    return World(load_base("fedaudit-nano", device="cpu"), write_adapter, place)


def test_who_made_the_model_better_at_marked_texts_is_flagged_by_kmeans(world):
    method = FLForensics(cluster="kmeans")
    found = method.attribute(world.trial())
    assert flags(found) == {f"c{i}": i in (2, 5) for i in range(8)}
    assert [one.mark for one in found.clients if one.flagged] == ["m1", "m1"]
    assert {one.mark for one in found.clients if not one.flagged} == {""}
    assert method.plaintext
    assert "secure aggregation does not allow" in found.limits[0]
    assert flags(method.attribute(world.trial(order=(5, 1, 7, 3, 0, 2, 6, 4)))) == flags(found)


def test_both_clusterings_share_the_influences(world, monkeypatch):
    asked = []
    real = FLForensics._influences
    monkeypatch.setattr(
        FLForensics,
        "_influences",
        lambda self, trial, everybody: asked.append(self) or real(self, trial, everybody),
    )
    trial = world.trial()
    for method in (FLForensics(length=8), FLForensics(length=8, cluster="kmeans")):
        method.attribute(trial)
    assert len(asked) == 1
    FLForensics(length=7).attribute(trial)
    FLForensics(length=8).attribute(world.trial())
    assert len(asked) == 3


def test_hdbscan_says_that_eight_clients_are_too_few(world):
    found = FLForensics(documents=1, length=8).attribute(world.trial())
    assert not any(flags(found).values())
    assert any(
        "8 clients cannot have a cluster that is a minority (that takes 15)" in x
        for x in found.limits
    )
    assert any("(that takes 15)" in x and "cluster = kmeans" in x for x in found.limits)


def test_influences_are_dense_inner_products_by_hand(world):
    found = FLForensics()._influences(world.trial(), [f"c{i}" for i in range(8)])
    wanted = np.zeros((2, 8))
    for t, people in ((0, 8), (1, 7)):
        start = adapters.read(world.starts[t])
        config = adapters.check(world.starts[t])
        scale = config["lora_alpha"] / config["r"]
        texts = world.engine.tokenize(CLEAN)
        begin = world.engine.prompt_starts.get("bos", ())
        clean = gradients.weight_gradients(
            world.engine,
            Target(name="s", adapter=str(world.starts[t])),
            [(*begin, *tokens.ids) for tokens in texts],
        )
        for i in range(people):
            update = world.updates[t][f"c{i}"]
            moved = {}
            for name in clean:
                a, b = name + ".lora_A.weight", name + ".lora_B.weight"
                after = (start[b] + update[b]).double() @ (start[a] + update[a]).double()
                moved[name] = scale * (after - start[b].double() @ start[a].double())
            length = sum(float(x.square().sum()) for x in moved.values()) ** 0.5
            for row, slopes in enumerate((clean, world.slopes(t, MARKED))):
                inner = sum(float((slopes[n].double() * x).sum()) for n, x in moved.items())
                wanted[row, i] -= inner / length / people
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)
    assert (wanted[1, [2, 5]] > 0).all()


def test_a_client_that_changed_nothing_has_no_influence(world):
    still = {name: torch.zeros_like(x) for name, x in world.updates[0]["c0"].items()}
    rounds = [
        RoundRecord(round=0, start=world.starts[0], participants=("a",), updates=lambda c: still)
    ]
    made = trial(rounds, engine=world.engine, write=world.write, texts=CLEAN, marks=[MARK])
    assert FLForensics()._influences(made, ["a"]).tolist() == [[0.0], [0.0]]


def test_without_marks_nobody_is_flagged(world):
    found = FLForensics(cluster="kmeans", length=8).attribute(world.trial(marks=[]))
    assert not any(flags(found).values())


def test_texts_that_nobody_trained_on_are_needed(world):
    with pytest.raises(InputError, match="flforensics needs texts that no training saw"):
        FLForensics().attribute(world.trial(texts=()))


@pytest.mark.parametrize("options", [{"documents": 0}, {"length": 1}, {"smallest": 1}], ids=str)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match="at least"):
        create("attribution", "flforensics", options)
    with pytest.raises(UsageError, match="cluster"):
        create("attribution", "flforensics", {"cluster": "spectral"})
