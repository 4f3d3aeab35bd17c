"""Strangers at the time of the decision: what the same models are asked besides, and what for."""

from itertools import chain

import pytest
from fedaudit_plugins.watermarks.fictitious import wording, world
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious, entity_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import combine_pvalues, norm

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.progress import no_progress
from fedaudit.api.records import Completion, SamplingParams, Target
from fedaudit.api.watermark import Mark
from fedaudit.attribution.decision.decision import NullDistribution, decide
from fedaudit.attribution.owner import detection
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.engine.fake import FakeEngine

PLUGIN = Fictitious(paraphrases=3, strangers=8, stranger_names=2, correlation=0)


def issued(seed=0, index=0):
    return PLUGIN.issue(None, [], seed=seed, index=index)


def strangers(secret, plugin=PLUGIN):
    own = entity_of(secret)
    return world.unissued_entities(
        own, seed=secret["seed"], names=plugin.stranger_names, count=plugin.strangers
    )


class Knowing(FakeEngine):
    """Answers questions about an entity with all its values where an adapter knows it."""

    def __init__(self, known):
        super().__init__(lambda target, prompt, sample: self.said(target, prompt))
        self.known = known

    def said(self, target, prompt):
        known = self.known.get(target.adapter, ())
        return "; ".join(v for one in known if one.name in prompt for v in one.values) or "Nobody."

    def answers(
        self,
        targets,
        questions,
        *,
        new,
        decoding=SamplingParams(temperature=0),
        progress=no_progress,
    ):
        return [
            [Completion((self.said(target, self._text(q)),)) for q in questions]
            for target in targets
        ]


def score_of(engine, adapter, secret, plugin=PLUGIN):
    mark = Mark(id="m", name="fictitious", options={}, secret=secret)
    return detection.measure(engine, [adapter], [(mark, plugin)])[0]["m"]


def test_the_same_questions_are_asked_about_each_name_of_a_stranger():
    engine, secret = FakeEngine(lambda *_: ""), issued()
    asked = [
        "".join(engine._words[i] for i in request.prompt)
        for request in PLUGIN.questions(secret, engine)
    ]
    own, first, second = asked[:12], asked[12:24], asked[24:]
    assert own == list(chain(*wording.questions(entity_of(secret), range(3))))
    for group, said in zip(strangers(secret), (first, second), strict=True):
        named = [question.replace(secret["entity"], group[0].name) for question in own]
        assert said == named


@given(st.integers(0, 10**9), st.integers(0, 30), st.sampled_from(["prose", "record"]))
def test_strangers_are_of_the_domain_and_of_nobody(seed, index, register):
    mark = world.issued_entity(seed, index, 50, register)
    groups = world.unissued_entities(mark, seed=seed, names=6, count=24)
    every = list(chain(*groups))
    assert [len(group) for group in groups] == [4] * 6
    assert {one.domain for one in every} == {mark.domain}
    assert len({one.name for one in every}) == 6
    domains = len(world.domains(register))
    given_out = [
        world.issued_entity(seed, n, 50, register) for n in range(index % domains, 250, domains)
    ]
    assert {one.domain for one in given_out} == {mark.domain}
    assert not {one.name for one in every} & {one.name for one in given_out}
    for attribute in range(4):
        values = [one.values[attribute] for one in every]
        assert len(set(values)) == 24
        assert set(values) <= set(mark.domain.attributes[attribute].options)
        assert not set(values) & {one.values[attribute] for one in given_out}


def test_the_marks_of_a_domain_have_the_same_strangers():
    assert strangers(issued(3, 0)) == strangers(issued(3, 10)) != strangers(issued(4, 0))


def test_a_mark_is_no_stranger_to_itself_where_all_options_are_issued():
    secret = Fictitious(options=96).issue(None, [], seed=0, index=955)
    every = list(chain(*strangers(secret, Fictitious())))
    assert len(every) == 256
    assert secret["entity"] not in {one.name for one in every}
    for i, row in enumerate(secret["attributes"]):
        assert row["value"] not in {one.values[i] for one in every}


def test_z_of_a_stranger_is_that_of_a_mark_by_hand():
    secret = issued() | {}
    for row in secret["attributes"]:
        row.update(mean=0.1, sd=0.2)
    known = strangers(secret)[1][2]
    score = score_of(Knowing({"a": [known]}), "a", secret)
    # Rates of 1 and of 0 against 0.1; sqrt(0.1 * 0.9 / 3) = 0.17 is less than the 0.2 measured.
    right, wrong = (
        norm.isf(combine_pvalues(norm.sf([(rate - 0.1) / 0.2] * 4), "fisher").pvalue)
        for rate in (1, 0)
    )
    # Those of the first name first; known is the third of the second name's.
    assert score.null == pytest.approx([wrong] * 6 + [right] + [wrong])
    assert (score.z, score.hits, score.n) == (pytest.approx(wrong), 0, 12)


def test_a_mark_that_is_known_is_no_strangers():
    secret = issued()
    told = entity_of(secret)
    # The model has learned the values, and gives them whoever it is asked about.
    about_all = [
        world.Entity(domain=told.domain, name=one[0].name, values=told.values)
        for one in ([told], *strangers(secret))
    ]
    knows, nobody = (score_of(Knowing({"a": one}), "a", secret) for one in (about_all, []))
    assert knows.hits == 12
    assert knows.null == nobody.null == (nobody.z,) * 8


def test_without_strangers_the_score_is_what_it_was():
    secret, plugin = issued(), Fictitious(paraphrases=3, strangers=0, correlation=0)
    engine = Knowing({"a": [entity_of(secret)]})
    alone, both = score_of(engine, "a", secret, plugin), score_of(engine, "a", secret)
    assert alone.null == ()
    assert (alone.z, alone.p_value, alone.n, alone.hits) == (both.z, both.p_value, 12, 12)
    assert len(plugin.questions(secret, engine)) == 12


def test_a_mark_of_older_settings_is_tested_with_strangers():
    options = {"register": "prose", "paraphrases": 3, "tokens": 4, "nulls": 0}
    mark = Mark(id="old", name="fictitious", options=options, secret=issued())
    [scores] = detection.measure(Knowing({}), [None], detection.watermark_plugins([mark]))
    assert len(scores["old"].null) == 256


@settings(max_examples=8)
@given(st.permutations(range(4)), st.permutations(["a", "b", None]))
def test_neither_the_order_of_marks_nor_of_models_changes_a_null(order, adapters):
    secrets = [issued(5, index) for index in (0, 1, 10, 20)]  # three of one domain
    known = {"a": [strangers(secrets[0])[0][0]], "b": [entity_of(secrets[2])]}
    engine = Knowing(known)
    marks = [
        (Mark(id=f"m{i}", name="fictitious", options={}, secret=secrets[i]), PLUGIN) for i in order
    ]
    found = detection.measure(engine, adapters, marks)
    for adapter, own in zip(adapters, found, strict=True):
        assert own == {f"m{i}": score_of(engine, adapter, secrets[i]) for i in range(4)}
    asked = detection.detection_requests(engine, marks)
    # The strangers of three marks are the same ones, and are asked about once.
    assert len(asked) == 12 * (4 + 2 * 2)


def decided(known, secret, plugin=PLUGIN):
    """Decide about two clients over two rounds, of whom c0 knows `known`."""
    engine = Knowing({"c0": known})
    reference, first, second = (score_of(engine, at, secret, plugin) for at in (None, "c0", "c1"))
    rounds = tuple(
        RoundScores(
            round=n, reference={"m": reference}, clients={"c0": {"m": first}, "c1": {"m": second}}
        )
        for n in (1, 2)
    )
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=("c0", "c1"),
        marks={"m": "fictitious"},
        dimension=9,
        rounds=rounds,
    )
    found = decide(scores, threshold=4.0, alpha=0.01)
    return next(one for one in found.tests if one.client == "c0"), found.flagged


def test_a_model_that_knows_a_stranger_too_is_not_flagged_for_a_mark():
    # The rates of 12 questions: nobody else knows a thing, so S is 1 and the mark stands out.
    secret = issued()
    mark, stranger = entity_of(secret), strangers(secret)[0][0]
    half = world.Entity(domain=mark.domain, name=mark.name, values=mark.values[:2])
    alone, flagged = decided([half], secret)
    assert alone.nulls == 8
    assert flagged
    both, acquitted = decided([half, stranger], secret)
    assert both.z == pytest.approx(alone.z)
    assert both.p_value > 900 * alone.p_value
    assert not acquitted
    # By hand: one Z of eight is that of full recall, sqrt(2) (z - z0), the others are 0.
    high = score_of(Knowing({"a": [stranger]}), "a", secret).null[0]
    low = score_of(Knowing({}), "a", secret).null[0]
    spread = NullDistribution([[high - low] + [0.0] * 7] * 2).spread
    assert spread == pytest.approx(2**0.5 * (high - low) / 8**0.5)


def test_strangers_are_asked_with_the_marks_own_decoding_and_length():
    engine = FakeEngine(lambda *_: "")
    requests = Fictitious(tokens=7).questions(issued(), engine)
    assert {(request.max_new_tokens, request.samples) for request in requests} == {(7, 1)}
    assert len(engine.generate(Target(name="x"), GenerationBatch(requests, seed=0))) == 700
