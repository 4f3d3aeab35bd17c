"""What is asked and kept: reduced answers, shards, and audits that are stopped and go on."""

import json
import math
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import worked
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch, follow_up_engine
from fedaudit.api.records import GenerationRequest, SamplingParams
from fedaudit.audit import fingerprint
from fedaudit.cache import engine as caching_engine
from fedaudit.cache.answers import AnswerCache, CacheHeader, Shard, load, merged_cache
from fedaudit.cache.engine import CachingEngine
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction import sampling
from fedaudit.extraction.matcher import TargetMatcher, split_reduced
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, ResponseCache, ask_plan, share_responses
from fedaudit.metrics.extraction import Matcher

MANNER = QueryParams(samples=2, new_tokens=5, decoding=SamplingParams())
HEADER = CacheHeader(run="abc", config={})
ROOT = Path(__file__).parents[2]

# reduced answers

WORDS = st.text("ab ", min_size=1, max_size=4).filter(str.strip).map(str.strip)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=8), st.lists(st.text("ab ", max_size=8), max_size=6))
def test_a_reduced_answer_says_the_same_of_the_strings(strings, texts):
    among, matcher = TargetMatcher(strings), Matcher(strings)
    reduced = [among.reduce(text) for text in texts]
    for text, short in zip(texts, reduced, strict=True):
        begun, strict = split_reduced(short)
        assert list(matcher.hits(begun)) == list(matcher.hits(text))
        assert {begun, strict} <= {*strings, ""}
    packed = json.loads(json.dumps(among.pack(reduced)))
    assert among.unpack(packed, len(texts)) == reduced


def test_hits_by_hand():
    among = TargetMatcher(["Ann Lee", "Ann", "Bob"])
    # Sorted they are Ann, Ann Lee, Bob: 1, 2, 3.
    said = (" Ann Leeds", "Annex", "to Bob", "", "ann lee")
    assert [split_reduced(among.reduce(text)) for text in said] == [
        ("Ann Lee", "Ann"),
        ("Ann", ""),
        ("", ""),
        ("", ""),
        ("", "Ann Lee"),
    ]
    # Draw, what it begins with and what it gives strictly, counted from 1.
    assert among.pack(["", among.reduce("Ann Leeds"), "Bob"]) == [*(1, 2, 1), *(2, 3, 3)]
    assert TargetMatcher(["Bob", "Ann", "Ann Lee", "Bob"]).digest == among.digest
    assert TargetMatcher(["Bob", "Ann"]).digest != among.digest


# shards


@settings(deadline=None)
@given(st.lists(st.integers(0, 999), max_size=20), st.integers(1, 9))
def test_every_question_is_of_just_one_shard(prompt, of):
    having = [n for n in range(1, of + 1) if Shard(n, of).has(prompt)]
    assert len(having) == 1
    assert Shard(having[0], of).has(tuple(prompt))


def test_shards_are_about_equally_large():
    sizes = [sum(Shard(n, 4).has((k, 7)) for k in range(4000)) for n in (1, 2, 3, 4)]
    # Four standard deviations of a binomial with n = 4000, p = 1/4: 4 sqrt(750) = 110.
    assert sum(sizes) == 4000
    assert max(abs(size - 1000) for size in sizes) < 110


# asking


def echo(target, prompt, sample):
    return f"{'Ann' if (len(prompt) + sample) % 3 else 'Bob'} {prompt} {sample} {target.name}"


class Dying(FakeEngine):
    """Dies at its question number `at`, and says the same to every asker."""

    def __init__(self, at=0):
        super().__init__(echo)
        self.left = at or math.inf

    def generate(self, target, batch, **options):
        self.left -= len(batch)
        if self.left < 0:
            raise KeyboardInterrupt
        return super().generate(target, batch, **options)

    def _text(self, ids):
        return " ".join(map(str, ids))


def plan(copies, first=0):
    questions = [Query((first + index,), count) for index, count in enumerate(copies)]
    return QueryPlan(size=sum(copies), queries=lambda: iter(questions))


def heard(place, plans, engine, among, shard=None, cache=None):
    """Ask both models the plans, as attacks of one audit do; return the answers."""
    kept = load(place, write=True) or AnswerCache(place, HEADER, shard)
    try:
        case = share_responses(worked.case(engine), cache or ResponseCache(2_000), kept)
        found = [
            list(ask_plan(case, target, one, MANNER, among))
            for one in plans
            for target in (worked.TUNED, worked.BASE)
        ]
        kept.finish()
    finally:
        kept.close()
    return found


COPIES = st.lists(st.integers(1, 3), max_size=8)


@given(COPIES, COPIES, st.lists(st.integers(1, 20), max_size=5), st.booleans())
def test_stopped_anywhere_it_ends_as_if_never_stopped(one, other, stops, reduced):
    plans = [plan(one), plan(other, first=3)]
    among = TargetMatcher(["Ann", "Bob", "Ann 3"]) if reduced else None
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampling, "MAX_CHUNK_ANSWERS", 6)
        whole, cache = FakeEngineOfAll(), ResponseCache(2_000)
        wanted = heard(Path(place, "one"), plans, whole, among, Shard(), cache)
        asked = 0
        for stop in stops:
            engine = Dying(stop)
            with suppress(KeyboardInterrupt):
                heard(Path(place, "two"), plans, engine, among, Shard())
            asked += len(engine.asked)
        last, again = Dying(), ResponseCache(2_000)
        found = heard(Path(place, "two"), plans, last, among, Shard(), again)
        assert as_lists(found) == as_lists(wanted)
        assert again.reused_answers == cache.reused_answers
        assert asked + len(last.asked) == len(whole.asked)


@pytest.mark.parametrize("sampled", [True, False])
def test_nearly_all_that_was_asked_is_kept(tmp_path, sampled):
    made, stop = AnswerCache(tmp_path, HEADER), 3_150
    asked = QueryPlan(size=5_175, queries=lambda: (Query((n,)) for n in range(5_175)))
    case = share_responses(worked.case(Dying(stop)), ResponseCache(), made)
    manner = QueryParams(samples=1, new_tokens=5, decoding=SamplingParams())
    requests = [GenerationRequest(prompt=(n,), samples=1, max_new_tokens=64) for n in range(5_175)]

    def ask():
        if sampled:
            return list(ask_plan(case, worked.TUNED, asked, manner))
        return CachingEngine(case.engine, made).generate(
            worked.TUNED, GenerationBatch(requests, seed=0)
        )

    with pytest.raises(KeyboardInterrupt):
        ask()
    made.close()
    # All but the piece that was being asked: a first one, or a sixteenth of what came before.
    lost = max(sampling.FIRST_CHUNK_ANSWERS, caching_engine.FIRST // 64, stop / 16)
    assert stop - lost <= load(tmp_path, write=False).loaded_answers <= stop


class FakeEngineOfAll(Dying):
    """Never dies."""


def as_lists(found):
    return [[(start, q, list(texts)) for start, q, texts in one] for one in found]


@given(COPIES, COPIES, st.integers(1, 4), st.booleans())
def test_shards_together_say_what_one_audit_says(one, other, of, reduced):
    plans = [plan(one), plan(other, first=3)]
    among = TargetMatcher(["Ann", "Bob", "Ann 3"]) if reduced else None
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampling, "MAX_CHUNK_ANSWERS", 6)
        cache, again = ResponseCache(900), ResponseCache(900)  # too little for all answers
        wanted = heard(Path(place, "one"), plans, Dying(), among, Shard(), cache)
        shards = [Shard(number, of) for number in range(1, of + 1)]
        for shard in shards:
            heard(Path(place, str(shard.number)), plans, Dying(), among, shard)
        parts = [load(Path(place, str(shard.number)), write=False) for shard in shards]
        nobody = Dying(-1)
        case = share_responses(worked.case(nobody), again, merged_cache(parts))
        found = [
            list(ask_plan(case, target, asked, MANNER, among))
            for asked in plans
            for target in (worked.TUNED, worked.BASE)
        ]
        assert as_lists(found) == as_lists(wanted)
        assert again.reused_answers == cache.reused_answers
        assert nobody.asked == []


# attacks that ask in their own way


def scores(target, token, before):
    return -math.inf if token == "3" else -len(before) / 7


def used(engine, told=None):
    """Use an engine in every way; return all answers."""
    requests = [
        GenerationRequest(prompt=(n, 1), samples=n % 3 + 1, max_new_tokens=4) for n in range(9)
    ]
    rows = [tuple(range(n)) for n in range(6)]
    progress = (lambda done, total: told.append((done, total))) if told is not None else None
    more = {"progress": progress} if progress else {}
    return [
        engine.generate(worked.TUNED, GenerationBatch(requests, seed=1), **more),
        engine.generate(worked.TUNED, GenerationBatch(requests, seed=2)),
        engine.generate(worked.BASE, GenerationBatch(requests[::-1], seed=1)),
        engine.score(worked.TUNED, rows),
        engine.score_groups(worked.TUNED, [rows[2:4], [], rows[4:]]),
        engine.token_statistics(worked.TUNED, rows),
    ]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(caching_engine, "ROOM", 20)


@pytest.mark.parametrize("stop", [1, 4, 9, 13, 20, 26])
def test_a_kept_engine_says_what_the_engine_says(tmp_path, small, stop):
    wanted = used(FakeEngine(echo, likelihood=scores))

    def kept(engine):
        made = load(tmp_path, write=True) or AnswerCache(tmp_path, HEADER)
        try:
            return used(CachingEngine(engine, made))
        finally:
            made.close()

    first = Dying(stop)
    first._text, first.likelihood = FakeEngine(echo)._text, scores
    with pytest.raises(KeyboardInterrupt):
        kept(first)
    second = FakeEngine(echo, likelihood=scores)
    assert kept(second) == wanted
    assert len(first.asked) + len(second.asked) == 27
    third = FakeEngine(echo, likelihood=scores)
    assert kept(third) == wanted
    assert third.asked == []


def test_the_kept_engines_of_all_shards_are_the_engine(tmp_path, small):
    wanted, parts = used(FakeEngine(echo, likelihood=scores)), []
    for number in (1, 2, 3):
        made = AnswerCache(tmp_path / str(number), HEADER, Shard(number, 3))
        fake = FakeEngine(echo, likelihood=scores)
        part = used(CachingEngine(fake, made))
        assert 0 < len(fake.asked) < 27
        assert [list(map(len, some)) for some in part[3:]] == [
            list(map(len, some)) for some in wanted[3:]
        ]
        made.finish()
        parts.append(load(made.folder, write=False))
    nobody = FakeEngine(echo, likelihood=scores)
    assert used(CachingEngine(nobody, merged_cache(parts))) == wanted
    assert nobody.asked == []


def test_what_follows_from_an_answer_is_asked_by_the_shard_that_has_it(tmp_path):
    """Every text that came out is scored: whose shard that question would be does not matter."""
    prompts = [(n, 1) for n in range(40)]

    def asks(engine):
        batch = GenerationBatch(
            [GenerationRequest(prompt=p, samples=1, max_new_tokens=4) for p in prompts], seed=1
        )
        answers = engine.generate(worked.TUNED, batch)
        came_out = [p for p, a in zip(prompts, answers, strict=True) if a.texts[0]]
        return came_out, follow_up_engine(engine).score(worked.BASE, [(*p, 7) for p in came_out])

    wanted, parts = asks(FakeEngineOfAll()), []
    assert wanted[0] == prompts  # every answer of `echo` is a text
    for number in (1, 2, 3):
        made = AnswerCache(tmp_path / str(number), HEADER, Shard(number, 3))
        came_out, scored = asks(CachingEngine(FakeEngineOfAll(), made))
        assert 0 < len(came_out) < 40
        assert scored == [row for p, row in zip(*wanted, strict=True) if p in came_out]
        made.finish()
        parts.append(load(made.folder, write=False))
    nobody = Dying(-1)
    assert asks(CachingEngine(nobody, merged_cache(parts))) == wanted


def test_a_kept_engine_tells_of_the_whole_and_has_what_its_engine_has(tmp_path, small):
    fake, told = FakeEngine(echo, prompt_starts={"bare": (), "bos": (9,)}), []
    engine = CachingEngine(fake, AnswerCache(tmp_path, HEADER))
    used(engine, told)
    engine.cache.close()
    assert told == sorted(told)
    # (1 + 2 + 3) x 3 samples of 4 tokens
    assert {total for _, total in told} == {72}
    assert told[-1] == (72, 72)
    assert engine.prompt_starts == fake.prompt_starts
    assert engine.tokenize(["a b"]) == fake.tokenize(["a b"])
    assert engine.context_length == fake.context_length


# which run it is


def test_what_differs_is_said():
    then = {"seed": "0", "attacks.x.samples": "15", "gone": "1"}
    assert fingerprint.describe_changes(then, then) == ""
    now = {"seed": "1", "attacks.x.samples": "15", "new": '"' + "9" * 64 + '"'}
    said = fingerprint.describe_changes(now, then)
    assert said == 'seed is 1, not 0, gone is absent, not 1, new is "99999999999…, not absent'
    many = fingerprint.describe_changes({str(n): "1" for n in range(5)}, {})
    assert many.endswith("2 is 1, not absent, and 2 more")


# how large it becomes


def test_a_long_audit_takes_little_room():
    script = ROOT / "benchmarks/answers.py"
    done = subprocess.run(
        [sys.executable, script, "--probes", "10000"], capture_output=True, text=True, check=True
    )
    first, second = (json.loads(line.partition(": ")[2]) for line in done.stdout.splitlines())
    assert (first["drawn"], second["drawn"]) == (150_000, 0)
    assert first["hits"] == second["hits"] > 14_000
    # A hundredth of 10^6 probes: a hundredth of 200 MB; memory does not grow with their number.
    assert first["bytes"] < 2e6
    assert max(first["peak_kB"], second["peak_kB"]) < 200_000
