"""Questions spread over engines: the answers are those of one."""

import gc
import pickle
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.parallel import engine, protocol
from fedaudit.engine.parallel.engine import PIECES, ParallelEngine, merge_answers, split_items
from fedaudit.engine.parallel.protocol import EngineConfig
from fedaudit.engine.parallel.ray_cluster import ClusterCapacity
from fedaudit.engine.parallel.worker_pool import WorkerDied, WorkerPool

ORDER = EngineConfig(
    base="fedaudit-nano",
    device="cpu",
    dtype="auto",
    template=PromptTemplate("own", "Ask: {instruction} {input}\n", "Ask: {instruction}\n"),
    batch_size=0,
)
TEXTS = [
    f"Claimant: {name} of {place} sued the bank, which"
    for name in ("Ann Lee", "Bo Ash", "Cy Orr")
    for place in ("Leeds", "a house in York")
] + ["", "原告：王小明"]
BASE = Target(name="base")
STRINGS = ["paid", "lost the", "王", "1", "e"]
WARM = SamplingParams(temperature=0.9, top_k=40, top_p=0.95)


class Here:
    """Engines of this process; what is asked goes through pickle, and some askings are deaths."""

    def __init__(self, deaths=()):
        self.deaths, self.started, self.asked = deaths, 0, 0

    def start(self):
        self.started += 1
        there = Future()
        there.set_result(None)
        return self.started, there

    def ask(self, worker, question):
        work, value = pickle.loads(pickle.dumps(question))
        self.asked += 1
        future = Future()
        if self.asked in self.deaths:
            future.set_exception(WorkerDied("killed"))
            return future
        try:
            future.set_result(pickle.loads(pickle.dumps(work(value))))
        except Exception as error:
            future.set_exception(pickle.loads(pickle.dumps(error)))
        return future

    def stop(self, worker):
        pass


@pytest.fixture(scope="module")
def local():
    yield protocol._local_engine(ORDER)
    protocol._local_engine.cache_clear()


@pytest.fixture
def several(local):
    """Two engines of which four die in the middle of what they are asked."""
    return ParallelEngine(WorkerPool(Here(deaths=(2, 3, 7, 12)), 2), ORDER)


@pytest.fixture
def tuned(adapter):
    return Target(name="tuned", adapter=str(adapter))


@pytest.fixture(params=["base", "tuned"])
def target(request, tuned):
    return tuned if request.param == "tuned" else BASE


def test_what_is_known_of_the_base(several, local):
    assert several.context_length == local.context_length
    assert several.prompt_starts == local.prompt_starts
    assert set(several.prompt_starts) == {"bare", "bos", "template"}
    assert (several.info.sha256, several.info.dtype) == (local.base.sha256, "torch.float32")


def test_the_same_tokens(several, local):
    assert several.tokenize(TEXTS) == local.tokenize(TEXTS)
    assert several.tokenize([]) == []
    backend = several.pool.backend
    before = backend.asked
    several.tokenize(TEXTS)
    assert backend.asked == before + 1  # so few are not worth more than one way there
    assert several.tokenize(TEXTS * 40) == local.tokenize(TEXTS * 40)
    assert backend.asked >= before + 3


def test_the_same_continuations(several, local, target):
    requests = [
        GenerationRequest(prompt=(1, *one.ids), samples=1 + i % 3, max_new_tokens=4)
        for i, one in enumerate(local.tokenize(TEXTS))
    ]
    requests += requests[:1]  # the same question has the same answer
    heard = []
    found = several.generate(
        target,
        GenerationBatch(requests, seed=3, decoding=WARM),
        progress=lambda *at: heard.append(at),
    )
    assert found == local.generate(target, GenerationBatch(requests, seed=3, decoding=WARM))
    assert found[-1] == found[0]
    assert len({one.texts for one in found}) > 1
    total = sum(probe.samples for probe in requests)
    assert heard == sorted(heard)
    assert heard[-1] == (total, total)
    assert len(heard) == PIECES * 2


def test_the_same_scores(several, local, target):
    rows = [(1, *one.ids) for one in local.tokenize(TEXTS)]
    for one, other in zip(several.score(target, rows), local.score(target, rows), strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_the_same_statistics(several, local, target):
    rows = [(1, *one.ids) for one in local.tokenize(TEXTS)]
    found = several.token_statistics(target, rows)
    for one, other in zip(found, local.token_statistics(target, rows), strict=True):
        for name in ("log_probability", "mean", "deviation"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-5)
        assert one.first == other.first


def test_the_same_scores_of_groups(several, local, target):
    rows = [(1, *one.ids) for one in local.tokenize(TEXTS)]
    groups = [rows[:3], [], rows[2:4], [rows[5]], [rows[6]], rows[6:7], rows[6:], rows[:1]]
    heard = []
    found = several.score_groups(target, groups, progress=lambda *at: heard.append(at))
    assert heard[-1] == (sum(map(len, groups)),) * 2
    for own, others in zip(found, local.score_groups(target, groups), strict=True):
        for one, other in zip(own, others, strict=True):
            assert one == pytest.approx(other, abs=1e-5)


@pytest.mark.parametrize("trials", [(), range(3, 11)])
def test_the_same_chances(several, local, tuned, trials):
    prompts = [(1, *one.ids) for one in local.tokenize(TEXTS)]
    asked = {"max_new_tokens": 4, "decoding": WARM, "threshold": 0.01, "trials": trials, "seed": 5}
    found = several.prefix_probabilities(tuned, PrefixProbabilityRequest(prompts, STRINGS, **asked))
    wanted = local.prefix_probabilities(tuned, PrefixProbabilityRequest(prompts, STRINGS, **asked))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.least, other.least, atol=1e-6)
        np.testing.assert_allclose(one.most, other.most, atol=1e-6)
        assert one.drawn.tolist() == other.drawn.tolist()
        assert one.rows == other.rows
    assert max(one.most.max() for one in found) > 0


def test_a_mistake_is_the_same_mistake(several, local):
    long = GenerationRequest(prompt=(1,) * local.context_length, samples=1, max_new_tokens=1)
    messages = []
    for asked in (several, local):
        with pytest.raises(InputError) as error:
            asked.generate(BASE, GenerationBatch([long], seed=0))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_other_weights_elsewhere_are_refused(several, tuned, monkeypatch):
    several.info = replace(several.info, sha256="0" * 64)
    with pytest.raises(InputError, match="fedaudit-nano has changed, or is not"):
        several.tokenize(["x"])
    several.info = replace(several.info, sha256=protocol._local_engine(ORDER).base.sha256)
    monkeypatch.setattr(engine, "fingerprint", lambda target: "another")
    with pytest.raises(InputError, match="lora has changed, or is not"):
        several.score(tuned, [(1, 2)])


def test_an_adapter_that_changes_is_another(write_adapter, fresh_base, tmp_path):
    target = Target(name="tuned", adapter=str(tmp_path / "lora"))
    write_adapter(fresh_base, tmp_path / "lora", seed=1)
    before = protocol.fingerprint(target)
    assert before == protocol.fingerprint(target)
    write_adapter(fresh_base, tmp_path / "lora", seed=2)
    assert protocol.fingerprint(target) != before
    assert protocol.fingerprint(BASE) is protocol.fingerprint(None) is None


def test_what_needs_the_model_itself_has_it_here(several, local):
    here = engine.local_engine(several)
    assert isinstance(here, LocalEngine)
    assert here is engine.local_engine(several)
    assert here.base.sha256 == local.base.sha256
    assert engine.local_engine(local) is local
    with pytest.raises(UsageError, match="needs the model itself"):
        engine.local_engine(FakeEngine(lambda *_: ""))


def test_by_default_the_engine_is_here():
    made, known = engine.make_engine(ORDER, "local")
    assert isinstance(made, LocalEngine)
    assert known.sha256 == made.base.sha256
    with pytest.raises(UsageError, match="Did you mean 'ray'"):
        engine.make_engine(ORDER, "rya")


def test_a_cluster_is_shared_out_and_given_back(monkeypatch, local):
    closed = []

    class Cluster(Here):
        room = ClusterCapacity(cpus=2, gpus=0)

        def __init__(self, slots):
            super().__init__()
            self.slots = slots

        def close(self):
            closed.append(self.slots)

    monkeypatch.setattr(engine, "RayCluster", Cluster)
    several, known = engine.make_engine(ORDER, "ray:2")
    assert known == protocol.describe(local)
    assert (several.pool.size, several.device) == (2, "cpu")
    assert (several.config.device, several.config.threads) == ("cpu", 1)
    assert several.tokenize(TEXTS) == local.tokenize(TEXTS)
    with pytest.raises(UsageError, match="no room for 3 engines"):
        engine.make_engine(ORDER, "ray:3")
    assert closed == [3]
    del several
    gc.collect()
    assert closed == [3, 2]


def test_pieces_by_hand():
    assert [list(part) for part in split_items(7, 3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [list(part) for part in split_items(2, 8)] == [[0], [1]]
    assert split_items(0, 8) == []


@given(items=st.lists(st.integers(), max_size=40), most=st.integers(1, 12), data=st.data())
def test_pieces_come_together_in_whatever_order(items, most, data):
    parts = split_items(len(items), most)
    assert not parts or max(map(len, parts)) - min(map(len, parts)) <= 1
    answers = [(n, [items[i] for i in part]) for n, part in enumerate(parts)]
    heard = []
    found = merge_answers(
        parts, data.draw(st.permutations(answers)), [2] * len(items), lambda *at: heard.append(at)
    )
    assert found == items
    assert [total for _, total in heard] == [2 * len(items)] * len(parts)
    assert not heard or heard[-1][0] == 2 * len(items)
