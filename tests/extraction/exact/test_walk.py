"""Walks that are stopped, and walks that are shared out, add up to the very digits of one walk."""

import json
import math
import tempfile
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import worked
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import SamplingParams, Target
from fedaudit.cache.answers import (
    AnswerCache,
    CacheHeader,
    OtherQuestions,
    Shard,
    load,
    merged_cache,
)
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.exact import walk
from fedaudit.extraction.exact.walk import GIVES, KEPT_PREFIXES, WalkedPrefixes, walk_prefixes
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, ResponseCache, share_responses

MANNER = QueryParams(samples=2, new_tokens=5, decoding=SamplingParams())
HEADER = CacheHeader(run="abc", config={})
STRINGS = ("Ann Lee", "Bob Low", "Cy Ash")
HIGH_SEVERITY_P = "7"
"""A prompt that Ann's name always follows: ln 0 is to be kept as well."""


def chance(target, prompt, string):
    """Return numbers whose sums in another order differ in their last digits."""
    if prompt == HIGH_SEVERITY_P and string == "Ann Lee":
        return 1.0
    return abs(math.sin(97.3 * int(prompt) + ord(string[0]) + len(target.name))) ** 9


class Dying(FakeEngine):
    """Dies when it is to walk more than `at` prompts."""

    def __init__(self, at=math.inf):
        super().__init__(lambda *_: "", chance=chance)
        self.left, self.walked = at, []

    def prefix_probabilities(self, target, request, **options):
        self.left -= len(request)
        if self.left < 0:
            raise KeyboardInterrupt
        self.walked += request.prompts
        return super().prefix_probabilities(target, request, **options)

    def _text(self, ids):
        return " ".join(map(str, ids))


def plan(copies):
    questions = [Query((index,), count) for index, count in enumerate(copies)]
    return QueryPlan(size=sum(copies), queries=lambda: iter(questions))


def through(engine, asked, kept=None, threshold=1e-3, strings=STRINGS):
    """Walk both models, as an attack of an audit does."""
    case = share_responses(worked.case(engine), ResponseCache(), kept)
    return [
        walk_prefixes(case, target, asked, strings, MANNER, threshold)
        for target in (worked.TUNED, worked.BASE)
    ]


def written(place, engine, asked, shard=None, **options):
    """Walk with a cache in a folder, which may hold what was walked before."""
    made = load(place, write=True) or AnswerCache(place, HEADER, shard)
    try:
        found = through(engine, asked, made, **options)
        made.finish()
    finally:
        made.close()
    return found


def shards(place, of):
    """Return what all shards keep, to be merged."""
    return merged_cache([load(place / str(number), write=False) for number in range(1, of + 1)])


def contents(place):
    """Return all that a cache keeps."""
    rows = load(place, write=False).opened().execute("SELECT answer FROM answers")
    return [json.loads(text) for (text,) in rows]


def digits(walks):
    """Return all that was walked; floats by their bits."""
    return [
        {
            one.name: value.tobytes() if isinstance(value, np.ndarray) else value
            for one in fields(walk)
            for value in [getattr(walk, one.name)]
        }
        for walk in walks
    ]


COPIES = st.lists(st.integers(1, 4), max_size=20)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(walk, "QUERIES", 3)


@given(COPIES, st.lists(st.integers(0, 30), max_size=5))
def test_stopped_anywhere_it_ends_as_if_never_stopped(copies, stops):
    asked, whole = plan(copies), Dying()
    wanted = digits(through(whole, asked))
    with tempfile.TemporaryDirectory() as place:
        repeated = []
        for stop in stops:
            engine = Dying(stop)
            with suppress(KeyboardInterrupt):
                written(Path(place), engine, asked)
            repeated += engine.walked
        last = Dying()
        assert digits(written(Path(place), last, asked)) == wanted
    # No piece that was walked is lost, and none is walked again.
    assert repeated + last.walked == whole.walked


@given(COPIES, st.integers(1, 5))
def test_shards_together_have_the_digits_of_one_walk(copies, of):
    asked, whole = plan(copies), Dying()
    wanted = digits(through(whole, asked))
    with tempfile.TemporaryDirectory() as place:
        engines = [Dying() for _ in range(of)]
        for number, engine in enumerate(engines, 1):
            written(Path(place, str(number)), engine, asked, Shard(number, of))
        nobody = Dying(-1)
        assert digits(through(nobody, asked, shards(Path(place), of))) == wanted
    assert sorted(one for e in engines for one in e.walked) == sorted(whole.walked)
    # They take pieces in turn: of both models none has a piece of 3 more than another.
    sizes = [len(engine.walked) for engine in engines]
    assert max(sizes) - min(sizes) <= 2 * 3


@given(COPIES, st.floats(1e-6, 0.5))
def test_sums_of_pieces_are_those_of_all_at_once(copies, threshold):
    asked, engine = plan(copies), Dying()
    [found, _] = through(engine, asked, threshold=threshold)
    rows = [[chance(worked.TUNED, str(i), s) for s in STRINGS] for i in range(len(copies))]
    given_ = [[p if p >= threshold else 0.0 for p in row] for row in rows]
    missed = [
        math.prod((1 - row[s]) ** n for row, n in zip(given_, copies, strict=True))
        for s in range(len(STRINGS))
    ]
    assert np.exp(found.log_least) == pytest.approx(missed)
    assert found.best.tolist() == [max((row[s] for row in given_), default=0) for s in range(3)]
    # What is below the threshold completes as many draws as it is likely; MANNER has 16 a prefix.
    draws = [
        [round(16 * n * p) if p < threshold else 0 for p in row]
        for row, n in zip(rows, copies, strict=True)
    ]
    assert found.drawn.tolist() == [sum(row[s] for row in draws) for s in range(3)]
    # Where there are draws nothing was followed, so that each stands for itself.
    assert found.weight.tolist() == found.drawn.tolist()
    chances = [
        [p or count / (16 * n) for p, count in zip(row, more, strict=True)]
        for row, more, n in zip(given_, draws, copies, strict=True)
    ]
    assert found.prefixes.tolist() == [sum(row[s] >= GIVES for row in chances) for s in range(3)]
    for s, own in found.likeliest.items():
        starts = [
            (-row[s], sum(copies[:i]) + 1) for i, row in enumerate(chances) if row[s] >= GIVES
        ]
        assert own == [(-minus, start) for minus, start in sorted(starts)[:KEPT_PREFIXES]]


def test_few_probabilities_are_held_and_many_strings_make_larger_pieces(tmp_path, monkeypatch):
    sizes = []

    class Watched(Dying):
        def prefix_probabilities(self, target, request, **options):
            sizes.append(len(request))
            return super().prefix_probabilities(target, request, **options)

    asked = plan([1] * 8)
    wanted = digits(through(Watched(), asked))
    assert sizes == [3, 3, 2] * 2
    sizes.clear()
    monkeypatch.setattr(walk, "MAX_PROBABILITIES", 2 * len(STRINGS))
    assert digits(through(Watched(), asked)) == wanted
    assert sizes == [2, 1, 2, 1, 2] * 2
    many = [f"Ann {number}" for number in range(4 * 8)]
    monkeypatch.setattr(walk, "MAX_PROBABILITIES", 10**6)
    written(tmp_path, Dying(), asked, strings=many)
    assert len(contents(tmp_path)) == 2


def test_the_cache_keeps_sums_and_every_digit_of_them(tmp_path):
    copies = [1] * 9
    found = written(tmp_path, Dying(), plan(copies))
    assert found[0].log_least[0] == -math.inf
    assert digits(found) == digits(through(Dying(), plan(copies)))
    sums = contents(tmp_path)
    assert len(sums) == 2 * 3
    assert load(tmp_path, write=False).loaded_answers == 2 * 9
    # Numbers by string, and a few prefixes by number: no table, and nobody's name.
    lists = [value for one in sums for value in one.values() if isinstance(value, list)]
    assert max(map(len, lists)) <= KEPT_PREFIXES * len(STRINGS)
    assert not any(string in json.dumps(sums) for string in STRINGS)
    whole = WalkedPrefixes.unpack(sums[0], STRINGS, 16)
    again = WalkedPrefixes.unpack(json.loads(json.dumps(whole.pack())), STRINGS, 16)
    assert json.loads(json.dumps(again.pack())) == sums[0]


def test_walks_that_differ_in_anything_have_their_own_records(tmp_path):
    asked, seen = plan([1, 2]), []
    ways = ({}, {}, {"threshold": 0.01}, {"strings": STRINGS[::-1]}, {"strings": STRINGS[:2]})
    for end in (len(ways), 0):
        made = load(tmp_path, write=True) or AnswerCache(tmp_path, HEADER)
        engine = Dying(4 * end)
        seen.append([digits(through(engine, asked, made, **way)) for way in ways])
        made.close()
    assert seen[0] == seen[1]
    assert seen[0][0] == seen[0][1] != seen[0][2]


@pytest.mark.parametrize(("error", "kept"), [(InputError, True), (BatchTooLargeError, False)])
def test_what_this_machine_has_no_room_for_is_asked_again(tmp_path, monkeypatch, error, kept):
    def fails(*given, **options):
        raise error("no")

    with monkeypatch.context() as patched:
        patched.setattr(Dying, "prefix_probabilities", fails)
        with pytest.raises(error):
            written(tmp_path, Dying(), plan([1, 2]))
    if kept:
        with pytest.raises(InputError, match="no"):
            written(tmp_path, Dying(), plan([1, 2]))
    else:
        assert digits(written(tmp_path, Dying(), plan([1, 2]))) == digits(
            through(Dying(), plan([1, 2]))
        )


def test_other_prefixes_than_were_walked_are_refused(tmp_path):
    written(tmp_path, Dying(), plan([1, 2]))
    made = load(tmp_path, write=False)
    with pytest.raises(OtherQuestions, match="lacks the answers"):
        through(Dying(), plan([2, 1]), made)


def test_progress_runs_to_its_end_with_what_was_walked_before(tmp_path):
    told = []

    def watch(title):
        return lambda done, total: told.append((title, done, total))

    for engine in (Dying(3), Dying()):
        made = load(tmp_path, write=True) or AnswerCache(tmp_path, HEADER)
        case = share_responses(
            worked.case(engine, progress=watch),
            ResponseCache(),
            made,
        )
        with suppress(KeyboardInterrupt):
            walk_prefixes(case, worked.TUNED, plan([2, 1, 1, 3]), STRINGS, MANNER, 1e-3)
        made.close()
    assert told[:1] == [("walking tuned", 4, 7)]
    assert told[1:] == [("walking tuned", 4, 7), ("walking tuned", 7, 7), ("walking tuned", 7, 7)]


def test_shards_of_a_real_model_have_its_digits(base, tmp_path):
    engine = LocalEngine(base)
    texts = ["Dear", "To Mr", "Yours", "The claimant", "Judge:", "Case 7: of", "Her friend", "A"]
    prompts = [tokens.ids for tokens in engine.tokenize(texts)]
    asked = QueryPlan(size=len(prompts), queries=lambda: iter(map(Query, prompts)))
    case = AttackContext(
        engine=engine, tuned=Target(name="base"), base=None, attacker=[], victim=None
    )

    def found(kept=None):
        own = share_responses(case, ResponseCache(), kept)
        return digits([walk_prefixes(own, case.tuned, asked, ["Jo", "Ma", "Rob"], MANNER, 1e-3)])

    for number in (1, 2):
        part = AnswerCache(tmp_path / str(number), HEADER, Shard(number, 2))
        found(part)
        part.finish()
    assert found(shards(tmp_path, 2)) == found()
    assert found()[0]["rows"] > found()[0]["queries"]


def test_a_walk_that_the_engine_refuses_is_refused_from_the_cache_too(tmp_path):
    class Refusing(Dying):
        def prefix_probabilities(self, target, request, **options):
            raise InputError("this tokenizer has no bytes")

    with pytest.raises(InputError, match="has no bytes"):
        written(tmp_path, Refusing(), plan([1, 2]))
    made = load(tmp_path, write=False)
    with pytest.raises(InputError, match="has no bytes"):
        through(Dying(), plan([1, 2]), made)
