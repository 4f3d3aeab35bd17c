"""Where secrets stand: by a model that is told what to say, and by one that computes."""

import math
from dataclasses import replace
from hashlib import blake2b

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.records import Target
from fedaudit.audit import exposure
from fedaudit.canaries import ranking
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.privacy.canary_exposure import chance_p_value

BASE = Target(name="base")


def canary_set(*canaries, **space):
    return CanarySet(
        made="2026-01-01T00:00:00+00:00", salt="0" * 64, kind="id", language="en", label="ID_CARD",
        space=SecretSpace(**space), canaries=canaries,
    )  # fmt: skip


WORDS = canary_set(
    Canary(text="A is {secret} today.", secret="b", client="c0", times=2),
    Canary(text="B is {secret}.", secret="d", client="c0", times=1),
    Canary(text="A is {secret} today.", secret="c"),
    words=tuple("abcdefgh"),
)


def slots(canaries, **options):
    return ranking.slot_references(canaries, **{"limit": 100, "count": 3, "seed": 0, **options})


def test_references_are_all_that_nobody_was_given():
    first, second = slots(WORDS)
    assert first.text == "A is {secret} today."
    assert [one.secret for one in first.canaries] == ["b", "c"]
    assert first.references == second.references == tuple("acefgh")
    assert first.secrets() == tuple("bcaefgh")


def test_a_sample_has_no_canary_and_follows_from_seed_and_sentence():
    first, second = slots(WORDS, limit=7)
    assert set(first.references) | set(second.references) <= set("aefgh")
    assert len(set(first.references)) == 3
    assert slots(WORDS, limit=7) == [first, second]
    assert slots(WORDS, limit=7, seed=9) != [first, second]
    with pytest.raises(ValueError, match="too few"):
        slots(WORDS, limit=7, count=6)


def test_exposure_is_by_the_rank_among_those_that_nobody_was_given():
    order = "dbacefgh"  # from the likeliest on
    engine = FakeEngine(
        lambda *_: "",
        likelihood=lambda t, token, before: (
            -float(order.find(token.strip())) if before.endswith(" is") else -9.0
        ),
    )
    first, control, second = ranking.score(engine, BASE, slots(WORDS))
    # b: of b, a, c, e, f, g, h the likeliest; the second planted secret does not count.
    assert exposure.exposure(first) == pytest.approx(math.log2(7))
    assert exposure.is_maximal(first)
    assert exposure.is_maximal(second)
    # c: second of a, c, e, f, g, h.
    assert control.canary.secret == "c"
    assert exposure.exposure(control) == pytest.approx(math.log2(6) - 1)
    assert not exposure.is_maximal(control)


def test_ties_count_against_the_finding():
    engine = FakeEngine(lambda *_: "")
    for one in ranking.score(engine, BASE, slots(WORDS)):
        assert exposure.exposure(one) == 0
        assert not exposure.is_maximal(one)


def by_hand(loaded, text, end, begin):
    """Return the log-probability of a text up to the last token that begins before `end`."""
    encoded = loaded.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    tokens = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    row = torch.tensor([[*begin, *(token for token, (start, _) in tokens if start < end)]])
    with torch.no_grad():
        log_p = loaded.model(row).logits[0, :-1].double().log_softmax(-1)
    return log_p.gather(1, row[0, 1:, None]).sum().item()


@pytest.mark.parametrize(("start", "heading"), [("bare", ""), ("bos", "Go on.\n<###Output>\n")])
def test_exposure_on_a_real_model_is_that_of_ranks_computed_one_by_one(fresh_base, start, heading):
    english, chinese = "Note 71: ring the witness on {secret} today.", "第7号记录：电话是{secret}。"
    canaries = canary_set(
        Canary(text=english, secret="07700 9043", client="c0", times=1),
        Canary(text=chinese, secret="07700 9057", client="c0", times=1),
        Canary(text=english, secret="07700 9013"),
        pattern="07700 90#[37]",
    )
    engine = LocalEngine(fresh_base)
    begin = engine.prompt_starts[start]
    scored = ranking.score(engine, BASE, slots(canaries), begin=begin, heading=heading)
    assert [one.canary.secret[-2:] for one in scored] == ["43", "13", "57"]
    for one in scored:
        planted = {"07700 9043", "07700 9057"} - {one.canary.secret}
        before = len(heading + one.canary.prefix)
        sums = {
            secret: by_hand(
                fresh_base,
                heading + one.canary.text.format(secret=secret),
                before + len(secret),
                begin,
            )
            for secret in canaries.space
            if secret not in planted
        }
        assert len(sums) == (19 if one.canary.times else 18)
        rank = sorted(sums, key=sums.get, reverse=True).index(one.canary.secret) + 1
        assert one.score == pytest.approx(sums[one.canary.secret], abs=1e-3)
        assert exposure.exposure(one) == pytest.approx(math.log2(len(sums) / rank))


def by_hash(target, token, before):
    """Return a likelihood that nobody chose: of a model that was trained on nothing of it."""
    digest = blake2b(f"{before[-30:]}{token}".encode(), digest_size=4).digest()
    return -1.0 - int.from_bytes(digest, "big") / 2**27


@settings(max_examples=4)
@given(st.permutations(range(12)), st.sampled_from([5, 2000]))
def test_the_order_of_the_file_changes_nothing(order, limit):
    made = make(CanaryRequest(count=6, controls=6, seed=2))
    shuffled = replace(made, canaries=tuple(made.canaries[at] for at in order))
    exposures = [
        {
            one.canary: exposure.exposure(one)
            for one in ranking.score(
                FakeEngine(lambda *_: "", likelihood=by_hash), BASE, slots(some, limit=limit)
            )
        }
        for some in (made, shuffled)
    ]
    assert exposures[0] == exposures[1]


def test_a_model_that_saw_nothing_ranks_planted_secrets_uniformly():
    made = make(CanaryRequest(count=60, controls=60, pattern="QQ ##[0246]", seed=6))
    found = ranking.score(
        FakeEngine(lambda *_: "", likelihood=by_hash), BASE, slots(made, limit=1000)
    )
    for times in (True, False):
        values = [exposure.exposure(one) for one in found if bool(one.canary.times) == times]
        size = len(found[0].references) + 1
        assert len(values) == 60
        assert chance_p_value(values, size) > 0.01
        # 1.44 bits by chance; a single exposure deviates by as many, the mean of 60 by 0.19.
        assert 0.88 < sum(values) / 60 < 2.0
