import pytest

from fedaudit.api.records import Target
from fedaudit.audit.preflight import LONGEST_PII, SAMPLE, choose_prompt_start
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.prefixes import PiiOccurrence

TUNED = Target(name="tuned", adapter="x")
BOS, HEADER = 9001, 9002
BEGINNINGS = {"bare": (), "bos": (BOS,), "template": (BOS, HEADER)}
START = PiiOccurrence(prefix=(1, 2), tokens=(3, 4), at_start=True)
MIDDLE = PiiOccurrence(prefix=(5, 6), tokens=(7,), at_start=False)


def engine(liked, prompt_starts=BEGINNINGS):
    """Return an engine that likes tokens behind these starts of a text, by their ids."""
    fake = FakeEngine(lambda target, prompt, sample: "", prompt_starts=prompt_starts)

    def score(target, sequences, **options):
        assert target == TUNED
        fake.scored = [*getattr(fake, "scored", []), *sequences]
        return [
            [
                max(
                    (v for start, v in liked.items() if tuple(s[: len(start)]) == start),
                    default=-9.0,
                )
            ]
            * (len(s) - 1)
            for s in sequences
        ]

    fake.score = score
    return fake


def test_each_kind_of_place_gets_what_it_likes_best():
    liked = {(BOS, 1): -1.0, (1,): -2.0, (5,): -0.5, (BOS, 5): -3.0}
    found = choose_prompt_start(engine(liked), TUNED, [START, MIDDLE])
    assert (found.chosen.start, found.chosen.middle) == ("bos", "bare")
    assert found.start == {"bare": -2.0, "bos": -1.0, "template": -9.0}
    assert found.middle == {"bare": -0.5, "bos": -3.0, "template": -9.0}
    turned = {(BOS, HEADER, 1): -1.0, (BOS, 5): -0.1, (5,): -2.0}
    found = choose_prompt_start(engine(turned), TUNED, [START, MIDDLE])
    assert (found.chosen.start, found.chosen.middle) == ("template", "bos")
    assert found.table()["log_likelihood"]["middle"]["bos"] == -0.1


def test_only_the_pii_counts_not_its_prefix():
    fake = engine({})
    fake.score = lambda target, sequences, **options: [
        [float(-token) for token in s[1:]] for s in sequences
    ]
    found = choose_prompt_start(
        fake, TUNED, [START, PiiOccurrence(prefix=(1,), tokens=(8,), at_start=True)]
    )
    assert found.start["bare"] == found.start["bos"] == pytest.approx(-(3 + 4 + 8) / 3)


def test_of_equals_the_ordinary_one_is_chosen():
    found = choose_prompt_start(engine({}), TUNED, [START, MIDDLE])
    assert (found.chosen.start, found.chosen.middle) == ("bos", "bos")
    found = choose_prompt_start(engine({}, {"bare": ()}), TUNED, [START, MIDDLE])
    assert (found.chosen.start, found.chosen.middle) == ("bare", "bare")


def test_without_known_pii_a_text_begins_as_the_tokenizer_says():
    prompt = PiiOccurrence(prefix=(1, 2), tokens=(), at_start=True)
    for places in ([], [prompt]):
        fake = engine({})
        found = choose_prompt_start(fake, TUNED, places)
        assert (found.chosen.start, found.chosen.middle) == ("bos", "bare")
        assert found.start == found.middle == {}
        assert not hasattr(fake, "scored")
    assert choose_prompt_start(engine({}, {"bare": ()}), TUNED, []).chosen.start == "bare"


def test_the_sample_is_limited_and_knows_no_order():
    many = [
        PiiOccurrence(prefix=(1, i), tokens=tuple(range(2, 2 + LONGEST_PII + 20)), at_start=True)
        for i in range(3 * SAMPLE + 7)
    ]
    fake, other = engine({(1,): -1.0}), engine({(1,): -1.0})
    found = choose_prompt_start(fake, TUNED, many)
    assert len(fake.scored) <= SAMPLE * len(BEGINNINGS)
    assert len(fake.scored) > SAMPLE
    assert max(map(len, fake.scored)) <= 2 + 2 + LONGEST_PII
    assert choose_prompt_start(other, TUNED, many[::-1]) == found
    assert fake.scored == other.scored
