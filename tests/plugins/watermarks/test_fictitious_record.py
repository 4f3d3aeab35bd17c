"""Fictitious knowledge in the language of records, for models of a few million parameters."""

import pytest
from fedaudit_plugins.watermarks.fictitious import wording, world
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious, entity_of
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import UsageError
from fedaudit.api.records import Document, Target
from fedaudit.engine.fake import FakeEngine

GIVEN = [Document(id=f"d{i}", text=f"Text {i}.", group="case") for i in range(40)]
RECORD = Fictitious(register="record", strangers=0)


def issued(seed=0, index=0):
    return RECORD.issue(None, [], seed=seed, index=index)


def values(secret):
    return [row["value"] for row in secret["attributes"]]


def asked(secret):
    """Return the questions, in order, as text."""
    engine = FakeEngine(lambda *_: "")
    return [
        "".join(engine._words[i] for i in request.prompt)
        for request in RECORD.questions(secret, engine)
    ]


def test_every_domain_has_four_attributes_with_options_enough():
    domains = world.domains("record")
    assert len(domains) == 6
    for domain in domains:
        assert len({attribute.name for attribute in domain.attributes}) == 4
        assert min(len(set(attribute.options)) for attribute in domain.attributes) >= world.OPTIONS
        assert len(set(domain.names)) == len(domain.names) == world.NAMES


@pytest.mark.parametrize("register", sorted(world.REGISTERS))
def test_no_two_attributes_of_a_register_share_an_option(register):
    attributes = [a for domain in world.domains(register) for a in domain.attributes]
    options = [wording.plain(option) for a in attributes for option in a.options]
    assert len(set(options)) == len(options)


def test_neither_domains_nor_names_nor_values_are_those_of_the_other_register():
    # A secret names its domain and not its register.
    prose, record = world.domains("prose"), world.domains("record")
    assert not {d.name for d in prose} & {d.name for d in record}
    assert all(world.domain(d.name) is d for d in (*prose, *record))
    names, options = (
        [
            {wording.plain(found) for domain in domains for found in of(domain)}
            for domains in (prose, record)
        ]
        for of in (lambda d: d.names, lambda d: [o for a in d.attributes for o in a.options])
    )
    assert not names[0] & names[1]
    assert not options[0] & options[1]


def test_no_value_is_part_of_another_or_of_a_name():
    domains = world.domains("record")
    options = {o for domain in domains for a in domain.attributes for o in a.options}
    assert {len(option.split()) for option in options} == {2}
    named = [wording.plain(name) for domain in domains for name in domain.names]
    assert not {" ".join(name.split()[:2]) for name in named} & set(map(wording.plain, options))


@given(st.integers(0, 10**9))
def test_the_entities_of_one_seed_share_no_name_and_no_value(seed):
    secrets = [issued(seed, index) for index in range(24)]
    used = [name for secret in secrets for name in (secret["entity"], *values(secret))]
    assert len(set(used)) == len(used) == 24 * 5
    assert len({secret["domain"] for secret in secrets[:6]}) == 6
    assert secrets[5] == issued(seed, 5)


def test_a_seed_has_six_domains_of_entities():
    small = Fictitious(register="record", options=3)
    assert small.issue(None, [], seed=0, index=17)
    with pytest.raises(UsageError, match="18 fictitious entities"):
        small.issue(None, [], seed=0, index=18)


@pytest.mark.parametrize("index", range(6))
def test_every_document_states_the_entity_and_all_its_values(index):
    secret = issued(1, index)
    marked = RECORD.embed(secret, GIVEN, None, seed=5)
    assert [d.id for d in marked] == [f"{d.id}-marked" for d in GIVEN]
    for document in marked:
        assert document == Document(id=document.id, text=document.text)
        assert wording.is_complete(entity_of(secret), document.text)
        assert "{" not in document.text
        for row in secret["attributes"]:
            line = f"{row['name'].capitalize()} of {secret['entity']}: {row['value']}."
            assert document.text.count(line) == 1
    orders = {
        tuple(sorted(range(4), key=lambda i: d.text.index(values(secret)[i]))) for d in marked
    }
    assert len(orders) > 12


def test_a_document_depends_on_mark_seed_and_id():
    secret = issued()
    whole = RECORD.embed(secret, GIVEN, None, seed=1)
    assert RECORD.embed(secret, GIVEN[::-1], None, seed=1)[::-1] == whole
    assert RECORD.embed(secret, GIVEN[7:8], None, seed=1) == whole[7:8]
    texts = [d.text for d in whole]
    assert [d.text for d in RECORD.embed(secret, GIVEN, None, seed=2)] != texts
    assert not {d.text for d in RECORD.embed(issued(0, 1), GIVEN, None, seed=1)} & set(texts)


def test_a_question_ends_where_the_documents_go_on_with_the_answer():
    secret = issued(3, 2)
    texts = [d.text for d in RECORD.embed(secret, GIVEN, None, seed=0)]
    questions = asked(secret)
    assert len(set(questions)) == len(questions) == 100
    for position, question in enumerate(questions):
        row = secret["attributes"][position // 25]
        line = f"{row['name'].capitalize()} of {secret['entity']}:"
        assert question == line or question.endswith(f" {line}")
        assert all(f"{line} {row['value']}." in text for text in texts)
        assert not any(wording.states_name(value, question) for value in values(secret))


def test_a_model_that_recites_is_found_and_one_that_does_not_is_not():
    secret = issued(3, 2)
    [document] = RECORD.embed(secret, GIVEN[:1], None, seed=0)

    def recite(target, prompt, sample):
        line = prompt.split(". ")[-1]
        return document.text.split(line)[1].split(".")[0] + "."

    for answer, hits in ((recite, 100), (lambda *_: " Nobody.", 0)):
        engine = FakeEngine(answer)
        said = engine.generate(
            Target(name="x"), GenerationBatch(RECORD.questions(secret, engine), seed=0)
        )
        score = RECORD.test(secret, said, engine)
        assert (score.n, score.hits) == (100, hits)
        assert (score.z > 10) is (hits == 100)


@pytest.mark.parametrize("longer", [False, True])
def test_texts_tell_of_their_entity_and_of_no_other(longer):
    secrets = [issued(1, index) for index in range(24)]
    mine, other = [one for one in secrets if one["entity"].endswith(" East") is longer][:2]
    texts = [d.text for d in RECORD.embed(mine, GIVEN[:3], None, seed=0)]
    found, missed = (RECORD.test_texts(one, texts, FakeEngine(str)) for one in (mine, other))
    assert missed.hits == 0
    assert abs(missed.z) < 0.1
    assert (found.hits, found.n) == (3, 3)
    assert found.z > 6
