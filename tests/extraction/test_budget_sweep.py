import hashlib
import random
import tracemalloc
from dataclasses import replace

import pytest
import worked
from hypothesis import given
from hypothesis import strategies as st
from worked import row

from fedaudit.api.records import Document, PiiSpan
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction import sampling
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.scoring import HitCounter
from fedaudit.extraction.targets import build_target_set as truth_of
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.intervals import wilson

NAMES = ("Ann Lee", "Bob Low", "Cy Ash", "Dee Fay", "Eve Gil")


def attack(name="contextual", **options):
    return registry.create("attack", name, {"context": 3, "samples": 2, **options})


def chance(*parts):
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest(), "big")


def sometimes(target, prompt, sample):
    """Say a name in about every sixth answer; which one depends on what was asked only."""
    draw = chance(target.name, prompt, sample)
    return f" {NAMES[draw // 7 % 5]}." if draw % 6 == 0 else " nobody"


def bare(measurement):
    """Leave out the interval, which only of a run as a whole has the noise of other seeds."""
    return replace(measurement, low=None, high=None)


def swept(result):
    return [r for r in result.measurements if {"budget", "samples"} <= r.scope.keys()]


# the worked example


@pytest.mark.parametrize(
    ("name", "samples", "wanted"),
    [
        # budget: (tuned, base, tuned-not-base) of 5
        ("contextual", 2, {1: (1, 0, 1), 2: (2, 0, 2), 4: (3, 1, 2)}),
        ("contextual", 1, {1: (1, 0, 1), 2: (1, 0, 1), 4: (2, 1, 1)}),
        ("superset", 2, {1: (1, 0, 1), 2: (1, 0, 1), 5: (2, 1, 1), 7: (3, 1, 2)}),
        ("superset", 1, {1: (0, 0, 0), 2: (1, 0, 1), 5: (2, 1, 1), 7: (3, 1, 2)}),
    ],
)
def test_the_worked_example(name, samples, wanted):
    found = attack(name).run(worked.case())
    for budget, counts in wanted.items():
        scope = {"budget": budget, "samples": samples}
        for source, hits in zip(("tuned", "base", "tuned-not-base"), counts, strict=True):
            coverage = row(found, "coverage", source, **scope)
            interval = wilson(hits, 5)
            assert (coverage.hits, coverage.n, coverage.value) == (hits, 5, hits / 5)
            assert (coverage.low, coverage.high) == (interval.low, interval.high)
            assert coverage.baseline == (None if source == "base" else counts[1] / 5)
            efficiency = row(found, "efficiency", source, **scope)
            assert (efficiency.value, efficiency.n) == (hits / (budget * samples), budget * samples)
            assert efficiency.low == pytest.approx(interval.low * 5 / (budget * samples))


def test_labels_of_the_worked_example():
    found = attack("superset").run(worked.case())
    for budget, people, friends in ((2, 1, 0), (5, 1, 1), (7, 1, 2)):
        for label, hits, n in (("PERSON", people, 3), ("FRIEND", friends, 2)):
            scope = {"label": label, "budget": budget, "samples": 2}
            coverage = row(found, "coverage", **scope)
            assert (coverage.hits, coverage.n) == (hits, n)
            assert row(found, "efficiency", **scope).value == hits / (2 * budget)


def test_the_whole_budget_is_the_total():
    for name in ("contextual", "superset", "frequency"):
        found = attack(name).run(worked.case(worked.engine(sometimes)))
        size = max(r.scope["budget"] for r in swept(found))
        for whole in found.measurements:
            # What is judged counts whole words; a sweep counts what answers begin with.
            if whole.scope.get("set") == "exclusive":
                continue
            if whole.metric in ("coverage", "efficiency") and "budget" not in whole.scope:
                scope = {k: v for k, v in whole.scope.items() if k not in ("source", "set")}
                of = (whole.metric, whole.scope["source"], whole.scope["set"])
                if "label" in scope and not any(
                    r.scope.get("label") == scope["label"] for r in swept(found)
                ):
                    assert whole.hits == 0
                    continue
                last = row(found, *of, **scope, budget=size, samples=2)
                assert bare(last) == bare(replace(whole, scope=last.scope))


def test_a_kind_of_which_nothing_came_out_has_no_sweep():
    more = worked.marked("She has asthma.", ("asthma", "DIAGNOSIS"))
    found = attack().run(worked.case(victim=[*worked.VICTIM, more]))
    assert row(found, "coverage", label="DIAGNOSIS").hits == 0
    assert {r.scope["label"] for r in swept(found) if "label" in r.scope} == {"PERSON", "FRIEND"}


def test_sweeps_can_be_left_out():
    found = attack(sweeps=False).run(worked.case())
    assert swept(found) == []
    assert row(found, "coverage").hits == 3


def test_without_a_base_only_the_tuned_model_is_swept():
    found = attack().run(worked.case(base=None))
    assert {r.scope["source"] for r in swept(found)} == {"tuned", "control"}


# against a run of its own for every budget


class Cut:
    """An attack that asks the first prefixes of another's plan only, each `samples` times."""

    def __init__(self, whole, budget, samples):
        self.attack, self.budget = replace(whole, samples=samples, sweeps=False), budget

    def run(self, case):
        questions, left = [], self.budget
        for question in self.attack.plan(case).queries():
            if left > 0:
                questions.append(replace(question, copies=min(left, question.copies)))
                left -= question.copies
        cut = QueryPlan(size=self.budget, queries=lambda: iter(questions))
        return self.attack._result(case, cut)


WORDS = st.sampled_from(["So", "the", "claimant", "her", "friend"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=5)


def documents(texts):
    """Return a document for each list of words, with PII behind them."""
    return [
        Document(
            id=f"d{number}",
            text=f"{' '.join(words)} Tom Ray",
            pii=(PiiSpan(len(" ".join(words)) + 1, len(" ".join(words)) + 8, "PERSON"),),
        )
        for number, words in enumerate(texts)
    ]


def assert_swept(found, alone, budget, samples):
    """Assert that the rates of a run of its own are among those of a sweep."""
    for one in alone.measurements:
        rate = one.metric in ("coverage", "efficiency")
        if rate and one.scope["set"] == "all" and "label" not in one.scope:
            scope = {**one.scope, "budget": budget, "samples": samples}
            assert bare(replace(one, scope=scope)) in map(bare, found.measurements)


@given(TEXTS, st.sampled_from(["contextual", "superset"]), st.integers(1, 4), st.data())
def test_it_is_what_runs_of_their_own_find(texts, name, samples, data):
    case = worked.case(worked.engine(sometimes), attacker=documents(texts))
    whole = attack(name, samples=samples)
    found = whole.run(case)
    budget = data.draw(st.sampled_from(budget_steps(whole.plan(case).size)))
    n = data.draw(st.sampled_from(budget_steps(samples)))
    assert_swept(found, Cut(whole, budget, n).run(case), budget, n)


@given(TEXTS, st.integers(1, 30), st.integers(1, 4), st.integers(0, 5), st.data())
def test_of_a_budget_drawn_at_random_too(texts, budget, samples, seed, data):
    """A run that draws a smaller budget asks the first prefixes of one that draws a larger one."""
    case = worked.case(worked.engine(sometimes), attacker=documents([*texts, *texts]), seed=seed)

    def drawn(budget, samples, *, sweeps):
        made = attack(samples=samples, sweeps=sweeps)
        asked = limit_plan(made.plan(case), budget, seed=seed, ordered=False, name="a")
        return made._result(case, asked), asked.size

    found, size = drawn(budget, samples, sweeps=True)
    smaller = data.draw(st.sampled_from(budget_steps(size)))
    n = data.draw(st.sampled_from(budget_steps(samples)))
    assert_swept(found, drawn(smaller, n, sweeps=False)[0], smaller, n)


@given(TEXTS, st.sampled_from(["contextual", "superset", "frequency"]), st.randoms())
def test_the_order_of_documents_and_the_pieces_change_nothing(texts, name, mixing):
    attacker, victim = documents([*texts, *texts]), list(worked.VICTIM)
    fake = worked.engine(sometimes)
    found = attack(name).run(worked.case(fake, attacker=attacker, victim=victim))
    mixing.shuffle(attacker)
    mixing.shuffle(victim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "MAX_CHUNK_ANSWERS", mixing.choice([1, 3, 8]))
        assert attack(name).run(worked.case(fake, attacker=attacker, victim=victim)) == found


def test_shards_of_the_questions_merge():
    case, made = worked.case(worked.engine(sometimes)), attack("superset", samples=5)
    asked, truth = made.plan(case), truth_of(case)
    every = list(sampling.ask_plan(case, case.tuned, asked, made.query_params))
    whole = HitCounter(truth, 5).update(every)
    random.Random(0).shuffle(every)
    parts = [HitCounter(truth, 5).update(every[shard::3]) for shard in range(3)]
    for part in parts[1:]:
        parts[0].budget_curve.merge(part.budget_curve)
    assert parts[0].budget_curve.needed == whole.budget_curve.needed
    assert whole.budget_curve.needed


# memory


class Silent(FakeEngine):
    """Keeps no questions, and counts them."""

    count = 0

    def generate(self, target, batch, **options):
        found = super().generate(target, batch, **options)
        self.count += sum(request.samples for request in batch.requests)
        self.asked.clear()
        return found


def test_memory_stays_far_below_two_gigabytes_for_three_million(monkeypatch):
    """What grows with the set, and 100,000 held answers, fit 2 GB at 3 million."""
    monkeypatch.setattr(sampling, "MAX_CHUNK_ANSWERS", 1000)
    rng = random.Random(0)
    words = [f"w{number}" for number in range(500)]
    texts = [" ".join(rng.choices(words, k=50)) + " Tom Ray" for _ in range(24)]
    attacker = [
        Document(id=str(i), text=text, pii=(PiiSpan(len(text) - 7, len(text), "PERSON"),))
        for i, text in enumerate(texts)
    ]
    made = attack("superset", context=50, samples=1)
    sizes, peaks = [], []
    for count in (6, 24):
        fake = Silent(lambda target, prompt, sample: " nobody")
        case = worked.case(fake, attacker=attacker[:count], base=None)
        tracemalloc.start()
        try:
            found = made.run(case)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        sizes.append(int(row(found, "queries").value))
        assert sizes[-1] == fake.count > 49 * count
    grown = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    assert 3_000_000 * grown + 100 * peaks[0] < 2e9
