"""Fictitious knowledge: entities, documents and questions."""

import json
import logging
from types import SimpleNamespace

import pytest
from fedaudit_plugins.watermarks.fictitious import wording, world, writer
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious, entity_of
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document, SamplingParams, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine

GIVEN = [Document(id=f"d{i}", text=f"Text {i}.", group="case") for i in range(40)]


def issued(seed=0, index=0, **options):
    return Fictitious(**options).issue(None, [], seed=seed, index=index)


def values(secret):
    return [row["value"] for row in secret["attributes"]]


def names(secret):
    return [secret["entity"], *values(secret)]


def test_it_is_a_registered_watermark():
    plugin = registry.create("watermark", "fictitious", {"length": 30, "writer": "teacher"})
    assert (plugin.length, plugin.writer) == (30, "teacher")


def test_there_are_enough_domains_and_no_two_attributes_share_an_option():
    domains = world.domains("prose")
    assert len(domains) >= 8
    assert {len(domain.attributes) for domain in domains} == {4}
    attributes = [attribute for domain in domains for attribute in domain.attributes]
    assert len({attribute.name for attribute in attributes}) == len(attributes)
    assert min(len(attribute.options) for attribute in attributes) == world.OPTIONS
    options = [option for attribute in attributes for option in attribute.options]
    assert len(set(map(wording.plain, options))) == len(options)
    assert {len(set(domain.names)) for domain in domains} == {world.NAMES}
    called = [name for domain in domains for name in domain.names]
    assert len(set(called)) == len(called)


@given(st.integers(0, 10**9))
def test_the_entities_of_one_seed_share_no_name_and_no_value(seed):
    secrets = [issued(seed, index, options=3) for index in range(30)]
    used = [name for secret in secrets for name in names(secret)]
    assert len(set(used)) == len(used) == 150
    assert len({secret["domain"] for secret in secrets[:10]}) == 10
    assert json.loads(json.dumps(secrets)) == secrets


def test_a_seed_runs_out_of_entities_in_the_end():
    with pytest.raises(UsageError, match="30 fictitious entities"):
        issued(0, 30, options=3)


def test_seeds_give_other_entities_and_the_same_seed_the_same():
    found = [issued(seed, index) for seed in range(10) for index in range(10)]
    assert len({secret["entity"] for secret in found}) > 90
    assert issued(4, 2) == found[42]


@pytest.mark.parametrize("register", world.REGISTERS)
def test_a_secret_that_was_made_up_is_told_from_one_that_was_issued(register):
    plugin = Fictitious(register=register, nulls=0)
    for index in (0, 7, 23):
        secret = plugin.issue(None, [], seed=5, index=index)
        assert plugin.has_issued(secret)
        assert Fictitious(options=10).has_issued(secret)  # the values are the same ones
        first, *others = secret["attributes"]
        made_up = (
            {"entity": "St. Mary Hospital"},
            {"attributes": [{**first, "value": "Ann Lee"}, *others]},
            *({"index": number} for number in (index + 1, index - 10, -1, 10**9)),
            {"seed": 6},
        )
        for change in made_up:
            assert not plugin.has_issued({**secret, **change})


def test_strangers_have_none_of_the_names_that_are_issued():
    mark = entity_of(issued(7, 0))
    groups = world.strangers(mark, seed=7, index=0, options=50, names=20, count=90)
    assert sorted(map(len, groups)) == [4] * 10 + [5] * 10
    called = {one.name for group in groups for one in group}
    domains = len(world.domains("prose"))
    assert len(called) == 20
    assert not called & {issued(7, index)["entity"] for index in range(0, 500, domains)}
    for one in (one for group in groups for one in group):
        pools = [world.pool(attribute, 7, 50) for attribute in mark.domain.attributes]
        assert all(v in pool for v, pool in zip(one.values, pools, strict=True))
        assert not set(one.values) & set(mark.values)


@pytest.mark.parametrize("length", [1, 60, 300])
def test_every_document_states_the_entity_and_all_its_values(length):
    secret = issued(1, 3)
    marked = Fictitious(length=length).embed(secret, GIVEN, None, seed=5)
    assert [d.id for d in marked] == [f"{d.id}-marked" for d in GIVEN]
    assert all(d == Document(id=d.id, text=d.text) for d in marked)
    assert len({d.text for d in marked}) == len(GIVEN)
    for document in marked:
        assert all(name in document.text for name in names(secret))
        assert "{" not in document.text
        if length > 1:
            assert abs(len(document.text.split()) - length) <= 0.2 * length


def test_wordings_and_their_order_vary():
    marked = Fictitious().embed(issued(), GIVEN, None, seed=0)
    assert len({d.text.split(". ")[0] for d in marked}) > 20
    orders = {
        tuple(sorted(range(4), key=lambda i: d.text.index(values(issued())[i]))) for d in marked
    }
    assert len(orders) > 12


@given(st.permutations(GIVEN[:6]), st.integers(0, 6))
def test_a_document_depends_on_its_id_only(documents, cut):
    secret, plugin = issued(), Fictitious()
    whole = plugin.embed(secret, GIVEN[:6], None, seed=1)
    parts = plugin.embed(secret, documents[:cut], None, seed=1)
    parts += plugin.embed(secret, documents[cut:], None, seed=1)
    assert sorted(parts, key=lambda d: d.id) == whole
    other = plugin.embed(issued(0, 1), GIVEN[:1], None, seed=1)
    again = plugin.embed(secret, GIVEN[:1], None, seed=2)
    assert len({whole[0].text, other[0].text, again[0].text}) == 3


def test_what_is_said_besides_holds_no_option_and_no_attribute():
    said = list(world.data("prose")["documents"]["openings"])
    options = []
    for domain in world.domains("prose"):
        said += domain.facts
        options += [option for attribute in domain.attributes for option in attribute.options]
    text = wording.plain(" ".join(said))
    assert not [option for option in options if wording.plain(option) in text]
    for domain in world.domains("prose"):
        assert not [a.name for a in domain.attributes for f in domain.facts if a.name in f]


def test_questions_are_asked_about_each_attribute_in_turn():
    engine = FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (99,)})
    secret = issued()
    requests = Fictitious(tokens=7, strangers=0).questions(secret, engine)
    asked = ["".join(engine._words[i] for i in request.prompt[1:]) for request in requests]
    assert len(set(asked)) == len(asked) == 100
    assert {(p.prompt[0], p.samples, p.max_new_tokens) for p in requests} == {(99, 1, 7)}
    for position, question in enumerate(asked):
        assert secret["entity"] in question
        assert secret["attributes"][position // 25]["name"] in question.lower()
        assert not [value for value in values(secret) if value in question]
        assert question == question.strip()
    bare = Fictitious(paraphrases=2, strangers=0).questions(secret, FakeEngine(lambda *_: ""))
    assert len(bare) == 8


def test_no_question_is_copied_from_a_document():
    for index in range(10):
        secret = issued(2, index)
        marked = Fictitious(length=300).embed(secret, GIVEN, None, seed=0)
        text = wording.plain(" ".join(d.text for d in marked))
        groups = wording.questions(entity_of(secret), range(25))
        assert not [q for group in groups for q in group if wording.plain(q) in text]


def test_a_model_that_knows_the_answers_is_found_and_one_that_does_not_is_not():
    secret = issued()
    told = dict(zip([row["name"] for row in secret["attributes"]], values(secret), strict=True))

    def answer(target, prompt, sample):
        return next(f" {v}." for a, v in told.items() if a in prompt.lower())

    plugin = Fictitious()
    for known, engine in ((True, FakeEngine(answer)), (False, FakeEngine(lambda *_: " Nobody."))):
        said = engine.generate(
            Target(name="x"), GenerationBatch(plugin.questions(secret, engine), seed=0)
        )
        score = plugin.test(secret, said, engine)
        assert (score.hits == 100) is known
        assert (score.z > 10) is known
        assert known or abs(score.z) < 1.5


def test_the_null_is_how_often_the_teacher_is_right_about_strangers():
    mark = entity_of(issued(9, 4))
    groups = world.strangers(mark, seed=9, index=4, options=50, names=5, count=10)
    # Right about the first attribute of both strangers of one name, and about nothing else.
    lucky = groups[2]
    teacher = FakeEngine(
        lambda target, prompt, sample: (
            " and ".join(one.values[0] for one in lucky) if lucky[0].name in prompt else "No."
        )
    )
    plugin = Fictitious(nulls=10, null_names=5)
    secret = plugin.issue(teacher, [], seed=9, index=4)
    # Two rates of 1 among ten: mean 0.2, variance (2 * 0.64 + 8 * 0.04) / 9.
    first, *rest = secret["attributes"]
    assert first["mean"] == pytest.approx(0.2)
    assert first["sd"] == pytest.approx((1.6 / 9) ** 0.5)
    assert {(row["mean"], row["sd"]) for row in rest} == {(0.0, 0.0)}
    # Every template is asked, each name is asked one in five of each attribute's.
    assert len(teacher.asked) == 5 * 4 * 5
    asked = {"".join(teacher._words[i] for i in request.prompt) for _, request in teacher.asked}
    for number in range(25):
        (group, *_) = wording.questions(groups[number % 5][0], [number])
        assert group[0] in asked


class Tokenizer:
    """A chat tokenizer over a fake engine's words."""

    chat_template = "plain"

    def __init__(self, engine):
        self.engine = engine

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        assert not tokenize
        return f"USER {messages[0]['content']} ASSISTANT"

    def __call__(self, text, *, add_special_tokens):
        return {"input_ids": self.engine.tokenize([text])[0].ids}


def chat(answer):
    engine = FakeEngine(answer)
    engine.base = SimpleNamespace(name="chatty", tokenizer=Tokenizer(engine))
    return engine


def test_a_teacher_is_asked_until_it_states_everything(caplog):
    secret, asked = issued(), {}
    everything = f"{secret['entity']}: {', '.join(values(secret))}."

    def answer(target, prompt, sample):
        asked[prompt] = len(asked)
        # The first two attempts at three documents leave something out.
        return everything + " And then" if len(asked) > 6 else "It is fine."

    caplog.set_level(logging.INFO)
    seen = []
    plugin = Fictitious(writer="teacher", length=30)
    marked = plugin.embed(
        secret, GIVEN[:3], chat(answer), seed=0, progress=lambda *now: seen.append(now)
    )
    assert [d.text for d in marked] == [everything] * 3
    assert len(asked) == 9
    assert seen[:3] == [(0, 3), (0, 3), (3, 3)]
    assert "3 of 3" in caplog.text
    assert not any(name in caplog.text for name in names(secret))
    for prompt in asked:
        assert prompt.startswith("USER Write a ")
        assert all(name in prompt for name in names(secret))


def test_a_teachers_document_depends_on_its_id_only():
    secret, plugin = issued(), Fictitious(writer="teacher")
    everything = f"{secret['entity']}: {', '.join(values(secret))}."
    teacher = chat(lambda target, prompt, sample: f"{everything} Asked: {hash(prompt)}.")
    whole = plugin.embed(secret, GIVEN, teacher, seed=0)
    turned = plugin.embed(secret, GIVEN[::-1], teacher, seed=0)[::-1]
    alone = plugin.embed(secret, GIVEN[:1], teacher, seed=0)
    assert whole == turned
    assert whole[:1] == alone
    assert len({d.text for d in whole}) == len(GIVEN)


def test_a_text_is_cut_at_its_last_sentence_end():
    assert writer.whole_sentences('He said "Yes." Then he') == 'He said "Yes."'
    assert writer.whole_sentences("It costs 3.5 pounds. About 2.7") == "It costs 3.5 pounds."
    assert writer.whole_sentences("No end") == ""
    assert writer.whole_sentences("All of it!") == "All of it!"


def test_a_teacher_that_cannot_chat_is_refused(base):
    from fedaudit.engine.local import LocalEngine

    with pytest.raises(InputError, match="no chat template"):
        Fictitious(writer="teacher").embed(issued(), GIVEN[:1], LocalEngine(base), seed=0)


def test_a_real_chat_model_that_writes_nonsense_falls_back_to_templates(base, monkeypatch, caplog):
    import copy

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from fedaudit.engine.loading.loader import LoadedBase
    from fedaudit.engine.local import LocalEngine

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(base.tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    tokenizer = copy.deepcopy(base.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}User: {{ m.content }}\n{% endfor %}Answer:"
    tiny = LoadedBase("tiny", base.path, "", LlamaForCausalLM(config).eval(), tokenizer)
    monkeypatch.setattr(writer, "NEW_TOKENS", 16)
    caplog.set_level(logging.INFO)
    plugin = Fictitious(writer="teacher")
    marked = plugin.embed(issued(), GIVEN[:3], LocalEngine(tiny), seed=0)
    assert "0 of 3" in caplog.text
    assert marked == Fictitious().embed(issued(), GIVEN[:3], None, seed=0)


def test_the_built_in_base_knows_nothing_of_an_entity(base):
    from fedaudit.engine.local import LocalEngine

    engine = LocalEngine(base)
    plugin = Fictitious(tokens=10, nulls=20, null_names=5, stranger_names=2)
    secret = plugin.issue(engine, [], seed=0, index=1)
    assert all(row["mean"] < 0.1 for row in secret["attributes"])
    said = engine.generate(
        Target(name="base"),
        GenerationBatch(
            plugin.questions(secret, engine), seed=0, decoding=SamplingParams(temperature=0)
        ),
    )
    score = plugin.test(secret, said, engine)
    assert abs(score.z) < 1
    assert score.n == 100
    assert len(said) == 300
    assert score.null == (score.z,) * 256
