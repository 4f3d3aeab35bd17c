"""Many adapters asked at once answer as each of them does alone."""

from pathlib import Path

import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.generation import decoding
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

PROJECTIONS = ("q_proj", "v_proj")
KINDS = {
    "plain": {"r": 3, "lora_alpha": 6, "target_modules": PROJECTIONS},
    "rslora": {"r": 5, "lora_alpha": 3, "use_rslora": True, "target_modules": ("q_proj", "o_proj")},
    "patterns": {
        "r": 2,
        "lora_alpha": 3,
        "rank_pattern": {"q_proj": 4, "layers.1.self_attn.v_proj": 1},
        "alpha_pattern": {"v_proj": 5},
        "target_modules": PROJECTIONS,
    },
    "mlp": {"r": 2, "lora_alpha": 2, "target_modules": ("gate_proj", "down_proj")},
    "head": {"r": 2, "lora_alpha": 2, "target_modules": ("lm_head", "v_proj")},
}
QUESTIONS = [[1, 9, 30], [5], [40, 41, 42, 43, 44, 45, 46, 47, 48], [1, 200, 3], [77, 78]]
NEW = 12
GREEDY = SamplingParams(temperature=0)


def target(folder):
    return Target(name=str(folder), adapter=str(folder) if folder else None)


@pytest.fixture(scope="module")
def tiny(base):
    return lambda: tiny_models.llama(base.tokenizer)


@pytest.fixture(scope="module")
def folders(tiny, tmp_path_factory):
    place = tmp_path_factory.mktemp("adapters")
    return [
        tiny_models.write(tiny(), place / kind, seed=seed, **options)
        for seed, (kind, options) in enumerate(KINDS.items())
    ]


@pytest.fixture(scope="module")
def targets(folders):
    return [target(folder) for folder in (*folders[:2], None, *folders[2:], folders[0])]


@pytest.fixture(scope="module")
def engine(tiny):
    return LocalEngine(tiny())


@pytest.fixture(scope="module")
def wanted(engine, targets):
    return engine.answers(targets, QUESTIONS, new=NEW)


def attached(base, folder):
    return (loader.attach(base.model, folder, "slow") if folder else base.model).eval()


@torch.inference_mode()
def slow(model, question):
    """Return the most likely tokens one by one, the whole text read anew for each."""
    ids = list(question)
    for _ in range(NEW):
        token = int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())
        if token in tiny_models.ENDS:
            break
        ids.append(token)
    return tuple(ids[len(question) :])


def hooks(engine):
    return sum(len(module._forward_hooks) for module in engine.base.model.modules())


def test_each_adapter_says_what_it_says_alone_token_by_token(tiny, targets, wanted):
    for one, own in zip(targets, wanted, strict=True):
        base = tiny()
        model = attached(base, one.adapter and Path(one.adapter))
        for question, answer in zip(QUESTIONS, own, strict=True):
            tokens = slow(model, question)
            assert answer.tokens == (tokens,)
            assert answer.texts == (base.tokenizer.decode(tokens, skip_special_tokens=True),)
    assert wanted[0] == wanted[-1]  # one adapter asked twice
    assert len({tuple(own) for own in wanted}) == len(targets) - 1
    lengths = {len(answer.tokens[0]) for own in wanted for answer in own}
    assert len(lengths) > 2  # some ended, at different lengths
    assert NEW in lengths


def test_they_are_the_texts_that_generate_gives(tiny, targets, wanted):
    engine = LocalEngine(tiny())
    requests = [
        GenerationRequest(prompt=tuple(q), samples=1, max_new_tokens=NEW) for q in QUESTIONS
    ]
    for one, own in zip(targets, wanted, strict=True):
        alone = engine.generate(one, GenerationBatch(requests, seed=8, decoding=GREEDY))
        assert [answer.texts for answer in alone] == [answer.texts for answer in own]
    # By now PEFT has put five adapters into this engine, and the last one asked is active.
    assert engine.answers(targets, QUESTIONS, new=NEW) == wanted
    assert hooks(engine) == 0
    again = engine.generate(targets[0], GenerationBatch(requests, seed=8, decoding=GREEDY))
    assert [answer.texts for answer in again] == [answer.texts for answer in wanted[0]]


@settings(max_examples=6, deadline=None)
@given(
    room=st.sampled_from([(1, 10**6), (2, 150), (13, 10**6), (512, 1), (512, 10**6)]),
    asked_of=st.permutations(range(7)).flatmap(lambda p: st.integers(1, 7).map(lambda n: p[:n])),
    asked=st.permutations(range(len(QUESTIONS))),
)
def test_neither_batch_size_nor_order_nor_company_matters(
    engine, targets, wanted, room, asked_of, asked
):
    rows, tokens = room
    found = LocalEngine(engine.base, batch_size=rows, tokens=tokens).answers(
        [targets[i] for i in asked_of], [QUESTIONS[q] for q in asked], new=NEW
    )
    assert found == [[wanted[i][q] for q in asked] for i in asked_of]


def test_the_base_alone_and_nothing_at_all(engine, targets, wanted):
    assert engine.answers([target(None)], QUESTIONS, new=NEW) == [wanted[2]]
    assert engine.answers([], QUESTIONS, new=NEW) == []
    assert engine.answers(targets, [], new=NEW) == [[]] * len(targets)
    assert isinstance(wanted[0][0], Completion)


@pytest.mark.parametrize("rows", [1, 8, 512])
def test_progress_counts_questions(tiny, targets, rows):
    seen = []
    engine = LocalEngine(tiny(), batch_size=rows)
    engine.answers(targets, QUESTIONS, new=1, progress=lambda *event: seen.append(event))
    done = [n for n, _ in seen]
    assert done == sorted(set(done))
    assert seen[-1] == (len(QUESTIONS), len(QUESTIONS))
    assert {total for _, total in seen} == {len(QUESTIONS)}


def test_no_hook_is_left_even_when_the_model_fails(engine, targets, wanted, monkeypatch):
    during = []

    def fail(*args, **options):
        during.append(hooks(engine))
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(decoding, "decode_batch", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            engine.answers(targets, QUESTIONS, new=NEW)
    assert during[0] > 0
    assert hooks(engine) == 0
    assert engine.answers(targets, QUESTIONS, new=NEW) == wanted


@pytest.mark.parametrize(
    ("hidden", "module", "message"),
    [
        (16, "q_proj", r"q_proj.* is \(2, 16\) in the adapter and \(2, 32\) in the base"),
        (64, "up_proj", r"up_proj.* is \(2, 64\) in the adapter and \(2, 32\) in the base"),
    ],
)
def test_an_adapter_for_another_base_is_refused(engine, targets, hidden, module, message, tmp_path):
    other = tiny_models.llama(engine.base.tokenizer, hidden=hidden)
    foreign = tiny_models.write(other, tmp_path / "foreign", r=2, target_modules=[module])
    with pytest.raises(InputError, match=message) as error:
        engine.answers([*targets, target(foreign)], QUESTIONS, new=NEW)
    assert str(foreign) in str(error.value)
    assert hooks(engine) == 0


def test_an_adapter_on_layers_that_the_base_lacks_is_refused(engine, targets, base, tmp_path):
    foreign = tiny_models.write(
        tiny_models.gpt2(base.tokenizer), tmp_path / "gpt2", r=2, target_modules=("c_attn",)
    )
    with pytest.raises(InputError, match=r"is it for another base\?.*c_attn"):
        engine.answers([target(foreign), *targets], QUESTIONS, new=NEW)


def test_what_cannot_be_asked_is_refused(engine, targets):
    with pytest.raises(InputError, match="A prompt is empty"):
        engine.answers(targets, [[]], new=1)
    with pytest.raises(InputError, match="longer than the context"):
        engine.answers(targets, [[5] * 79], new=2)
    assert len(engine.answers(targets[:1], [[5] * 79], new=1)[0][0].tokens[0]) <= 1


def test_layers_that_keep_their_weights_the_other_way_round(base, tmp_path):
    """GPT-2's c_proj is square in the attention and not in the MLP."""
    made = [
        tiny_models.write(
            tiny_models.gpt2(base.tokenizer), tmp_path / name, seed=seed, r=3, target_modules=[name]
        )
        for seed, name in enumerate(("c_attn", "c_proj"))
    ]
    found = LocalEngine(tiny_models.gpt2(base.tokenizer)).answers(
        [target(folder) for folder in (None, *made)], QUESTIONS, new=NEW
    )
    for folder, own in zip((None, *made), found, strict=True):
        model = attached(tiny_models.gpt2(base.tokenizer), folder)
        fresh = [slow(model, q) for q in QUESTIONS]
        assert [answer.tokens for answer in own] == [(tokens,) for tokens in fresh]
    assert len({tuple(own) for own in found}) == 3


def test_one_adapter_by_hand(tiny, tmp_path):
    """A head whose only change adds 1000 to one token's logit answers that token for ever."""
    engine = LocalEngine(tiny())
    head, size = "base_model.model.lm_head", 32
    push = torch.zeros(300, 1)
    push[123] = 1000.0
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 2, "target_modules": ["lm_head"]}
    with torch.inference_mode():
        states = engine.base.model.model(input_ids=torch.tensor([QUESTIONS[0]]))[0][0, -1]
    tensors = {f"{head}.lora_A.weight": states[None], f"{head}.lora_B.weight": push}
    assert states.shape == (size,)
    adapters.write(tensors, config, tmp_path / "one")
    [[bare], [pushed]] = engine.answers(
        [target(None), target(tmp_path / "one")], QUESTIONS[:1], new=1
    )
    assert pushed.tokens == ((123,),) != bare.tokens


def test_the_fake_engine_answers_the_same_way():
    fake = FakeEngine(lambda one, prompt, sample: f"{one.name} says {prompt}")
    asked = [tokens.ids for tokens in fake.tokenize(["yes", "no"])]
    two, seen = [Target(name="a"), Target(name="b", adapter="x")], []
    found = fake.answers(two, asked, new=5, progress=lambda *event: seen.append(event))
    assert [[answer.texts for answer in own] for own in found] == [
        [("a says yes",), ("a says no",)],
        [("b says yes",), ("b says no",)],
    ]
    requests = [GenerationRequest(prompt=tuple(q), samples=1, max_new_tokens=5) for q in asked]
    assert fake.asked == [(one, request) for one in two for request in requests]
    assert found[1][0].tokens == (fake.tokenize(["b says yes"])[0].ids,)
    assert seen == [(2, 2)]
    assert fake.answers([], asked, new=5) == []
