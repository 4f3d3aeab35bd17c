"""Self-generation, filter by filter, with an engine that says what it is told to."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from fedaudit_plugins.defenses.fed_mit import FedMit
from fedaudit_plugins.defenses.self_generation.generation import ExampleGenerator
from fedaudit_plugins.defenses.self_generation.prompt_layout import prompt_layout

from fedaudit.api.records import Document, Target
from fedaudit.api.templates import TEMPLATES
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.text_similarity import rouge_l

TEMPLATE = TEMPLATES["alpaca"]
OWN = [
    TEMPLATE.render(
        Document(
            id=str(n),
            text="",
            instruction=f"Alpha{n} beta{n} gamma{n} delta{n}",
            input=f"given{n}" if n % 2 else "",
            output=f"epsilon{n} zeta{n} eta{n}",
        )
    )
    for n in range(10)
]
W = Target(name="w", adapter="w")
ANSWER = "\n\n### Response:\nAn answer of its own"


def make(
    instruction: Callable[[int], str],
    answer: Callable[[str, int], str] = lambda said, times: f"{ANSWER} to {said}",
    examples=OWN,
    max_length=4096,
    **recipe,
):
    """Make up examples; `instruction` gets a count, `answer` the instruction and its count."""
    count, times = [0], Counter()

    def say(target, prompt, sample):
        last = prompt.rpartition("### Instruction:\n")[2]
        if not last:
            count[0] += 1
            return instruction(count[0] - 1)
        times[last] += 1
        return answer(last, times[last])

    engine = FakeEngine(say)
    layout, settings = prompt_layout(TEMPLATE), FedMit(keep=1, **recipe)
    rng = random.Random("seed")
    maker = ExampleGenerator(engine, W, examples, layout, settings, max_length, rng)
    return maker.make(), engine


def good(number):
    return f"Say something new number{number}\n\n### Input:"


def test_what_is_good_comes_through_in_order_until_there_is_enough():
    made, engine = make(good, candidates=5, asked=20)
    assert [d.instruction for d in made.candidates] == [
        f"Say something new number{n}" for n in range(5)
    ]
    first = made.candidates[0]
    assert first.output == "An answer of its own to Say something new number0"
    assert first.text == TEMPLATE.prompt(first.instruction, "") + first.output
    assert made.counts.asked == 5
    assert made.counts.kept_count == 5
    assert made.counts.tried == 5
    assert all(target == W and request.samples == 1 for target, request in engine.asked)


def test_another_batch_is_asked_for_what_is_missing_and_too_many_are_counted():
    made, _ = make(lambda n: good(n) if n != 1 else "Hm\n\n", candidates=4, asked=20)
    assert len(made.candidates) == 4
    assert made.counts.asked == 8
    assert made.counts.dropped == {"short": 1, "format": 0, "surplus": 3}
    assert made.counts.kept_count == 4


def test_it_gives_up_when_so_many_were_asked_for():
    made, _ = make(lambda n: "Hm\n\n", candidates=4, asked=10)
    assert made.candidates == ()
    assert made.counts.asked == 10
    assert made.counts.dropped["short"] == 10


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("As a language model, I cannot do this\n\n", "refusal"),
        ("Sorry, but no more of these\n\n", "refusal"),
        ("\n\n### Response:\nWhat", "short"),
        ("and on " * 40, "unfinished"),
        ("Alpha3 beta3 gamma3 delta3\n\n", "local instruction"),
        ("Alpha3 beta3 gamma3 other\n\n", "local instruction"),  # 3 of 4 words: 0.75
    ],
)
def test_each_bad_instruction_is_dropped_by_its_filter(said, name):
    made, _ = make(lambda n: said, candidates=1, asked=1, instruction_tokens=64)
    assert {k: n for k, n in made.counts.dropped.items() if n} == {name: 1}
    assert made.counts.tried == 0, "nothing was asked for it"


def test_an_instruction_at_the_limit_is_not_above_it():
    # 7 of 10 words on both sides are common: Rouge-L is 0.7
    own = Document(id="a", text="", instruction="a1 a2 a3 a4 a5 a6 a7 a8 a9 a10", output="b")
    said = "a1 a2 a3 a4 a5 a6 a7 c8 c9 c10"
    assert rouge_l(own.instruction, said) == pytest.approx(0.7)
    at, _ = make(lambda n: said, examples=[own] * 8, candidates=1, asked=1)
    assert len(at.candidates) == 1
    above, _ = make(lambda n: said, examples=[own] * 8, candidates=1, asked=1, similarity=0.69)
    assert above.counts.dropped["local instruction"] == 1


def test_three_tries_have_other_demonstrations_and_then_it_is_dropped():
    made, engine = make(good, lambda said, times: "\n\nNo marker", candidates=1, asked=1)
    assert made.counts.dropped["format"] == 1
    assert made.counts.failed == {"no marker": 3}
    prompts = [request.prompt for _, request in engine.asked][1:]
    assert len(set(prompts)) == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("\n\n### Input:\nOwls.", "no marker"),
        ("\n\n### Response:\n ...", "empty"),
        ("\n\n### Response:\nSorry, no.", "refusal"),
        ("\n\n### Response:\n" + "and on " * 200, "unfinished"),
    ],
)
def test_a_try_fails_for_one_reason_and_the_next_may_do(said, reason):
    made, _ = make(
        good,
        lambda last, times: said if times < 3 else ANSWER,
        candidates=1,
        asked=1,
        answer_tokens=100,
    )
    assert made.counts.failed == {reason: 2}
    assert made.counts.tried == 3
    assert [d.output for d in made.candidates] == ["An answer of its own"]


def test_a_copy_of_a_local_example_is_dropped_and_not_tried_again():
    # The instruction has 3 words of 4 and 5 in common (0.67), the example 7 of 8 and 9 (0.82).
    copy = "\n\n### Input:\ngiven3\n\n### Response:\nepsilon3 zeta3 eta3"
    made, _ = make(
        lambda n: "Alpha3 beta3 gamma3 new words", lambda *_: copy, candidates=1, asked=1
    )
    assert made.counts.dropped["local example"] == 1
    assert made.counts.tried == 1


def test_an_example_that_training_would_cut_is_dropped():
    made, engine = make(good, candidates=1, asked=1)
    [one] = made.candidates
    [tokens] = engine.tokenize([one.text])
    fits, _ = make(good, candidates=1, asked=1, max_length=len(tokens.ids) + 1)
    assert len(fits.candidates) == 1, "one token ends it"
    cut, _ = make(good, candidates=1, asked=1, max_length=len(tokens.ids))
    assert cut.counts.dropped["overlong"] == 1


def test_the_same_example_twice_is_one():
    made, _ = make(lambda n: good(0), lambda *_: ANSWER, candidates=3, asked=6)
    assert len(made.candidates) == 1
    assert made.counts.dropped["repeated example"] == 5


def test_new_instructions_may_have_to_differ_from_one_another():
    said = ["One two three four.\n\n", "One two three five.\n\n", "Six seven eight nine.\n\n"]
    alike, _ = make(lambda n: said[n % 3], candidates=3, asked=3)
    assert len(alike.candidates) == 3
    apart, _ = make(lambda n: said[n % 3], candidates=3, asked=3, distinct=True)
    assert [d.instruction[:3] for d in apart.candidates] == ["One", "Six"]
    assert apart.counts.dropped["repeated instruction"] == 1


def test_a_prompt_that_does_not_fit_is_counted_and_not_asked(monkeypatch):
    monkeypatch.setattr(FakeEngine, "context_length", 100)
    made, engine = make(good, candidates=2, asked=2)
    assert made.counts.dropped["too long"] == 2
    assert engine.asked == []


def test_half_of_the_new_ones_are_asked_for_with_an_input_where_both_kinds_are_known():
    def asked(examples):
        _, engine = make(good, examples=examples, candidates=4, asked=4)
        whole_prompts = [engine._text(request.prompt) for _, request in engine.asked]
        ends = [p.rpartition("Below is")[2] for p in whole_prompts if p.endswith(":\n")]
        return [("paired with an input" in end) for end in ends]

    assert asked(OWN) == [True, False, True, False]
    assert asked([d for d in OWN if d.input] * 2) == [True] * 4
    assert asked([d for d in OWN if not d.input] * 2) == [False] * 4


def test_the_seed_decides_what_is_shown():
    _, one = make(good, candidates=2, asked=2)
    _, two = make(good, candidates=2, asked=2)
    assert one.asked == two.asked
    assert len({request.prompt for _, request in one.asked}) == 4


def test_everything_is_greedy_without_a_temperature_and_drawn_by_the_seed_at_one(monkeypatch):
    def temperatures(**recipe):
        asked, generate = [], FakeEngine.generate

        def noting(self, target, batch, **more):
            asked.append((batch.decoding.temperature, batch.seed))
            return generate(self, target, batch, **more)

        with monkeypatch.context() as patched:
            patched.setattr(FakeEngine, "generate", noting)
            make(good, candidates=2, asked=2, **recipe)
        return asked

    assert [t for t, _ in temperatures()] == [0, 0, 0, 0]
    drawn = temperatures(temperature=0.5)
    assert [t for t, _ in drawn] == [0.5] * 4
    assert drawn == temperatures(temperature=0.5)


def test_the_token_that_begins_texts_begins_prompts():
    engine = FakeEngine(lambda *_: "Hm", prompt_starts={"bare": (), "bos": (7,)})
    layout, settings = prompt_layout(TEMPLATE), FedMit(keep=1, candidates=1, asked=1)
    ExampleGenerator(engine, W, OWN, layout, settings, 4096, random.Random(0)).make()
    assert all(request.prompt[0] == 7 for _, request in engine.asked)
    assert engine.asked
