import pytest
import worked
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import SamplingParams
from fedaudit.cache.answers import batch_size
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction import sampling
from fedaudit.extraction.prefixes import PiiOccurrence
from fedaudit.extraction.query_plan import (
    Query,
    QueryPlan,
    plan_by_frequency,
    plan_in_order,
    query_chunks,
)
from fedaudit.extraction.sampling import QueryParams, ResponseCache, ask_plan, share_responses

MANNER = QueryParams(samples=2, new_tokens=5, decoding=SamplingParams())


def echo(target, prompt, sample):
    return f"{target.name} {prompt} {sample}"


def plan(*copies, first=0):
    questions = [Query((first + index,), count) for index, count in enumerate(copies)]
    return QueryPlan(size=sum(copies), queries=lambda: iter(questions))


def asked(fake):
    return [(request.prompt, request.samples) for _, request in fake.asked]


def place(*tokens, label="X", after=""):
    return PiiOccurrence(prefix=tokens, tokens=(), at_start=False, label=label, after=after)


# plans


def test_a_multiset_is_asked_by_count_then_by_tokens():
    case = worked.case()
    places = [place(3), place(1, label="A"), place(2), place(1, label="B", after=","), place(1)]
    found = plan_by_frequency(case, places)
    assert list(found.numbered()) == [
        (0, Query((1,), 3, (("A", ""), ("B", ","), ("X", "")))),
        (3, Query((2,), 1, (("X", ""),))),
        (4, Query((3,), 1, (("X", ""),))),
    ]
    assert found.size == 5
    assert list(plan_by_frequency(case, places[::-1]).numbered()) == list(found.numbered())


def test_a_set_is_asked_as_it_stands_and_can_be_gone_through_again():
    found = plan_in_order(worked.case(), [place(3), place(1), place(2)])
    wanted = [(0, (3,)), (1, (1,)), (2, (2,))]
    for _ in range(2):
        assert [(start, one.prompt) for start, one in found.numbered()] == wanted
    assert found.size == 3


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 12), st.integers(1, 5))
def test_pieces_are_the_whole_and_none_is_too_large(copies, most, share):
    found = list(query_chunks(plan(*copies), lambda before: most + before // share, lambda _: True))
    assert [one for piece in found for one in piece] == list(plan(*copies).numbered())
    before = 0
    for piece in found:
        assert sum(question.copies for _, question in piece[:-1]) < most + before // share
        before += sum(question.copies for _, question in piece)


def test_a_piece_grows_with_what_was_asked_before_it():
    # 100 first; 1/16 of 1,600 is 100 as well, of 3,200 it is 200, and no piece exceeds the most.
    at = (0, 1599, 1600, 3200, 10**6)
    assert [batch_size(before, 100, 500) for before in at] == [100, 100, 100, 200, 500]
    assert batch_size(10**6, 100, 7) == 7


@given(st.integers(1, 300), st.integers(1, 3000), st.integers(0, 10**6))
def test_little_is_lost_whenever_one_stops(least, most, stop):
    before = 0
    while before + (size := batch_size(before, least, most)) <= min(stop, 5000):
        before += size
    # What was kept is all but a first piece or a sixteenth.
    assert min(stop, 5000) - before < min(most, max(least, stop / 16 + 1))


# asking


def test_answers_come_in_the_order_of_the_plan(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_CHUNK_ANSWERS", 6)
    fake = FakeEngine(echo)
    case = worked.case(fake)
    found = list(ask_plan(case, worked.TUNED, plan(2, 1, 1, 3), MANNER))
    assert [start for start, _, _ in found] == [0, 2, 3, 4]
    assert [len(texts) for _, _, texts in found] == [4, 2, 2, 6]
    assert asked(fake) == [((0,), 4), ((1,), 2), ((2,), 2), ((3,), 6)]


def test_few_answers_are_held_at_once(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_CHUNK_ANSWERS", 6)
    sizes = []

    class Spy(FakeEngine):
        def generate(self, target, batch, **options):
            sizes.append(sum(request.samples for request in batch.requests))
            return super().generate(target, batch, **options)

    list(ask_plan(worked.case(Spy(echo)), worked.TUNED, plan(*[1] * 10), MANNER))
    assert sizes == [6, 6, 6, 2]


def test_progress_goes_on_from_piece_to_piece(monkeypatch):
    monkeypatch.setattr(sampling, "MAX_CHUNK_ANSWERS", 4)
    told = []

    class Counting(FakeEngine):
        def generate(self, target, batch, *, progress):
            total = sum(request.samples for request in batch.requests)
            progress(total, total)
            return super().generate(target, batch)

    def progress(title):
        return lambda done, total: told.append((title, done, total))

    case = worked.case(Counting(echo), progress=progress)
    list(ask_plan(case, worked.TUNED, plan(1, 1, 1), MANNER))
    assert told[:2] == [("asking tuned", 4, 6), ("asking tuned", 6, 6)]
    assert told[-1] == ("asking tuned", 6, 6)


# remembering


def test_nothing_is_asked_twice():
    fake, cache = FakeEngine(echo), ResponseCache(10_000)
    case = share_responses(worked.case(fake), cache)
    first = list(ask_plan(case, worked.TUNED, plan(2, 1), MANNER))
    again = list(ask_plan(case, worked.TUNED, plan(1, 1, 1), MANNER))
    assert asked(fake) == [((0,), 4), ((1,), 2), ((2,), 2)]
    assert list(again[0][2]) == list(first[0][2])[:2]  # fewer samples are the first ones
    assert cache.reused_answers == {worked.TUNED: 4}


def test_more_samples_are_asked_for_and_remembered_instead():
    fake, cache = FakeEngine(echo), ResponseCache(10_000)
    case = share_responses(worked.case(fake), cache)
    for copies in (1, 3, 2):
        [(_, _, texts)] = ask_plan(case, worked.TUNED, plan(copies), MANNER)
        assert list(texts) == [echo(worked.TUNED, fake._text((0,)), i) for i in range(2 * copies)]
    assert asked(fake) == [((0,), 2), ((0,), 6)]
    assert cache.reused_answers == {worked.TUNED: 4}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"target": worked.BASE},
        {"manner": QueryParams(samples=2, new_tokens=6, decoding=SamplingParams())},
        {"manner": QueryParams(samples=2, new_tokens=5, decoding=SamplingParams(temperature=0.5))},
    ],
    ids=["seed", "target", "new tokens", "decoding"],
)
def test_what_is_unlike_questions_is_another_question(change):
    fake, cache = FakeEngine(echo), ResponseCache(10_000)
    list(ask_plan(share_responses(worked.case(fake), cache), worked.TUNED, plan(1), MANNER))
    case = share_responses(worked.case(fake, seed=change.get("seed", 0)), cache)
    target, manner = change.get("target", worked.TUNED), change.get("manner", MANNER)
    list(ask_plan(case, target, plan(1), manner))
    assert len(fake.asked) == 2
    assert not cache.reused_answers.total()


def test_when_it_is_full_the_earliest_answers_stay():
    fake, cache = FakeEngine(echo), ResponseCache(600)
    case = share_responses(worked.case(fake), cache)
    for _ in range(2):
        list(ask_plan(case, worked.TUNED, plan(1, 1, 1, 1, 1), MANNER))
    again = [prompt for prompt, _ in asked(fake)[5:]]
    assert again == [(2,), (3,), (4,)]
    assert 0 <= cache.free_bytes < 600


def test_without_room_nothing_is_remembered():
    fake = FakeEngine(echo)
    for _ in range(2):
        list(ask_plan(worked.case(fake), worked.TUNED, plan(1), MANNER))
    assert len(fake.asked) == 2


TEXTS = st.lists(st.text(max_size=5) | st.sampled_from(["\ud800", "\x00", '"', "张三"]), max_size=4)


@given(TEXTS, st.integers(0, 5))
def test_what_is_remembered_is_what_was_said(texts, samples):
    cache = ResponseCache(10_000)
    cache.put("x", (1, 2), texts)
    recalled = cache.get("x", (1, 2), samples)
    assert recalled == (texts[:samples] if samples <= len(texts) else None)
    assert cache.get("x", (1, 2, 0), 1) is None
    assert cache.get("y", (1, 2), 1) is None
