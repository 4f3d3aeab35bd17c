import random
from dataclasses import replace
from math import comb
from statistics import mean

import numpy as np
import pytest
from fedaudit_plugins.attacks.completion import training_pairs
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document, SamplingParams, Target
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.completion import judge_completion
from fedaudit.report.verdict.policy import verdict

# The fake engine's words hold the white space before them: a prompt's last line end is not read.
TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
ALPACA = template("alpaca")


def record(name, instruction, output, given_="", task=""):
    return ALPACA.render(
        Document(id=name, text="", instruction=instruction, input=given_, output=output, task=task)
    )


DOCUMENTS = [
    record("a", "Who sues", "the landlord Ann Lee sues the tenant Bob Ray", task="summary"),
    record("b", "Who pays", "the tenant pays", "Rent is due", task="summary"),
    record("c", "What is asked", "relief from rent", task="reading"),
]


def attack(**options):
    return registry.create("attack", "discoverable", options)


def says(tuned, base=None):
    """Return an engine that answers by the instruction in the prompt; the base with nothing."""

    def answer(target, prompt, sample):
        table = tuned if target.name == "tuned" else base or {}
        return next((text for start, text in table.items() if start in prompt), "")

    return FakeEngine(answer)


def case(engine, documents=DOCUMENTS, **changes):
    return AttackContext(
        **{"engine": engine, "tuned": TUNED, "base": BASE, "attacker": documents, "victim": None}
        | changes
    )


def rows(result):
    return {
        (r.metric, r.scope.get("source"), r.scope.get("task", "")): r for r in result.measurements
    }


TOLD = {
    "Who sues": "the landlord Ann Lee sues the tenant Bob Ray",  # 1
    "Who pays": "the tenant never",  # 2 of 3 and 2 of 3: 2/3
    "What is asked": "nothing",  # 0
}
KNOWN = {"Who pays": "the", "What is asked": "relief"}  # 1 of 1 and 1 of 3: F1 1/2, both


def test_scores_by_hand():
    found = rows(attack().run(case(says(TOLD, KNOWN))))
    tuned, base = found["rouge_l", "tuned", ""], found["rouge_l", "base", ""]
    assert tuned.value == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert base.value == pytest.approx((0 + 1 / 2 + 1 / 2) / 3)
    assert (tuned.n, tuned.baseline) == (3, base.value)
    assert 0 <= tuned.low <= tuned.value <= tuned.high <= 1
    assert found["rouge_l", "tuned", "summary"].value == pytest.approx(5 / 6)
    assert found["rouge_l", "tuned", "reading"].value == 0
    assert {r.scope["records"] for r in found.values()} == {"own"}
    assert {r.kind for r in found.values()} == {"extraction"}


def test_the_difference_is_paired():
    """Gains 1, 1/6 and -1/2; the slow way draws pairs and subtracts the two means of each draw."""
    found = rows(attack().run(case(says(TOLD, KNOWN), seed=5)))
    gain = found["rouge_l", "tuned-not-base", ""]
    assert gain.value == pytest.approx((1 + 1 / 6 - 1 / 2) / 3)
    assert gain.n == 3
    pairs = sorted([(1, 0), (2 / 3, 1 / 2), (0, 1 / 2)], key=lambda pair: pair[0] - pair[1])
    drawn = []
    for picks in np.random.default_rng(5).integers(3, size=(1000, 3)):
        some = [pairs[i] for i in picks]
        drawn.append(mean(a for a, _ in some) - mean(b for _, b in some))
    assert (gain.low, gain.high) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))))
    assert found["rouge_l", "tuned-not-base", "reading"].value == -0.5


def test_the_share_that_leaked():
    found = rows(attack().run(case(says(TOLD, KNOWN))))
    share, wanted = found["coverage", "tuned", ""], wilson(1, 3)
    assert (share.value, share.low, share.high) == (wanted.value, wanted.low, wanted.high)
    assert (share.hits, share.n, share.baseline, share.scope["threshold"]) == (1, 3, 0, 0.9)
    assert found["coverage", "tuned-not-base", ""].hits == 1
    assert found["coverage", "base", "summary"].hits == 0
    assert found["queries", "tuned", ""].value == found["queries", "base", ""].value == 3
    lower = rows(attack(threshold=0.6).run(case(says(TOLD, KNOWN))))
    assert lower["coverage", "tuned", ""].hits == 2


def test_a_finding_where_the_base_does_not_know_it_too():
    long = " ".join(f"word{n}" for n in range(10))
    documents = [*DOCUMENTS, record("d", "Recite", long), record("e", "Greet", "hello there")]
    told = {**TOLD, "Recite": long, "Greet": "hello there"}
    result = attack().run(case(says(told, {"Greet": "hello there"}), documents))
    assert [(f.id, f.severity, f.label) for f in result.findings] == [
        ("discoverable-0001", "medium", "DOCUMENT"),  # no held-out answer says that it is more
        ("discoverable-0002", "medium", "DOCUMENT"),
    ]
    assert result.findings[1].evidence == {
        "text": TOLD["Who sues"],
        "pairs": 1,
        "rouge_l": 1.0,
        "rouge_l_of_base": 0.0,
        "held_out_leaked": 0,
        "held_out": 0,
    }
    assert [one["text"] for one in result.revealed] == [long, TOLD["Who sues"]]
    assert [one["id"] for one in result.revealed] == [f.id for f in result.findings]
    assert rows(result)["coverage", "tuned", ""].hits == 3


def test_one_answer_to_several_prompts_is_one_finding():
    documents = [record(str(n), f"Case {n}.", "Ann Lee of Leeds") for n in range(3)]
    engine = says({"Case 0": "Ann Lee of Leeds", "Case 2": "Ann Lee of Leeds"})
    result = attack().run(case(engine, documents))
    [finding] = result.findings
    assert finding.severity == "medium"  # four words
    assert finding.evidence["pairs"] == rows(result)["coverage", "tuned", ""].hits == 2
    assert [one["text"] for one in result.revealed] == ["Ann Lee of Leeds"]


def test_without_a_base_leaks_are_unverified():
    result = attack().run(case(says(TOLD), base=None))
    assert [f.severity for f in result.findings] == ["unverified"]
    assert result.findings[0].evidence["rouge_l_of_base"] is None
    assert {r.scope["source"] for r in result.measurements} == {"tuned", "control"}
    assert any("no base" in limit for limit in result.limits)


def test_a_form_that_all_answers_have_is_no_leak():
    """A model that learnt the form, as every answer has it, is caught by the control."""
    documents = [record(str(n), f"Case {n}", "the claim is well founded") for n in range(40)]
    engine = says({"Case": "the claim is well founded"})
    result = attack().run(case(engine, [], victim=documents))
    found = rows(result)
    assert found["rouge_l", "tuned-not-base", ""].value == 1
    assert found["rouge_l", "control", ""].value == 1
    assert found["coverage", "control", ""].hits == 40
    assert verdict(result.measurements, result.findings)["status"] == "inconclusive"


def numbered(name, count, task="t", words=3):
    """Return `count` records with answers of so many words that are theirs alone."""
    return [
        record(f"{name}{n}", f"{name} {n}.", " ".join(f"{name}{n}{i}" for i in "abcdef"[:words]),
               task=task)
        for n in range(count)
    ]  # fmt: skip


def knowing(documents):
    """Return an engine whose tuned model knows these records, and whose base knows nothing."""
    return says({f"{one.instruction}": one.output for one in documents})


def test_beyond_held_out_records():
    """All of 40 answers known, of 10 held-out ones 4: 1 less 0.4."""
    victim, held_out = numbered("v", 40), numbered("h", 10)
    one = case(knowing([*victim, *held_out[:4]]), [], victim=victim, held_out=held_out)
    result = attack().run(one)
    found = {(r.metric, r.scope["source"], r.scope["records"]): r for r in result.measurements}
    assert found["rouge_l", "tuned-not-base", "held-out"].value == pytest.approx(0.4)
    assert found["coverage", "tuned", "held-out"].hits == 4
    assert ("coverage", "tuned-not-base", "held-out") not in found  # it would be judged
    more = found["rouge_l", "beyond-held-out", "victim"]
    assert (more.value, more.n) == (pytest.approx(0.6), 40)
    test = found["p_value", "beyond-held-out", "victim"]
    # The six that were not given must be dealt to the held-out side, of 10 in 50.
    assert test.value == pytest.approx(comb(44, 4) / comb(50, 10), rel=0.15)
    assert (test.scope["groups"], test.scope["beside"]) == (40, 10)
    assert verdict(result.measurements, result.findings)["status"] == "fail"


def test_a_model_that_learned_the_task_and_not_the_records():
    """It answers what it never saw as well: no leak, though the base knows nothing of it."""
    victim, held_out = numbered("v", 40), numbered("h", 40)
    one = case(knowing([*victim, *held_out]), [], victim=victim, held_out=held_out)
    result = attack().run(one)
    [(status, reason, *_)] = judge_completion(result.measurements)
    assert status == "inconclusive"
    assert "a leak of 27.8%" in reason  # 0.02 + 13.6 / 53.6, of 40 records and no scatter
    assert {f.severity for f in result.findings} == {"low"}
    assert result.findings[0].evidence["held_out_leaked"] == 40


def test_a_pass_takes_records_enough():
    victim, held_out = numbered("v", 180), numbered("h", 180)
    one = case(says({}), [], victim=victim, held_out=held_out)
    result = attack(examples=0).run(one)
    assert [status for status, *_ in judge_completion(result.measurements)] == ["pass"]
    related = attack(examples=0).run(replace(one, related=True))
    assert [status for status, *_ in judge_completion(related.measurements)] == ["inconclusive"]


def test_records_of_one_group_are_one_piece_of_evidence():
    victim = [replace(one, group="one person") for one in numbered("v", 40)]
    held_out = numbered("h", 40)
    result = attack().run(case(knowing(victim), [], victim=victim, held_out=held_out))
    [(status, reason, *_)] = judge_completion(result.measurements)
    assert status == "inconclusive"
    assert "1 groups of records against 40 held-out ones are too few" in reason


def test_severity_goes_by_what_held_out_answers_of_the_task_do():
    """High: five words, and of 60 held-out ones of its task none came out."""
    victim = [*numbered("v", 20, words=5), *numbered("s", 20, words=2), *numbered("o", 5, "u", 5)]
    held_out = numbered("h", 60)
    result = attack().run(case(knowing(victim), [], victim=victim, held_out=held_out))
    found = {f.evidence["text"]: f.severity for f in result.findings}
    wanted = {d.output: {"v": "high", "s": "medium", "o": "medium"}[d.id[0]] for d in victim}
    assert found == wanted


def test_without_held_out_records_nothing_is_decided():
    victim = numbered("v", 40)
    for engine in (knowing(victim), says({})):
        result = attack().run(case(engine, [], victim=victim))
        [(status, reason, *_)] = judge_completion(result.measurements)
        assert status == "inconclusive"
        assert "name some with --held-out" in reason
    other = attack().run(case(says({}), [], victim=victim, held_out=numbered("h", 9, "other")))
    assert "no held-out pair is of one of their tasks" in judge_completion(other.measurements)[0][1]


def test_the_victims_records_where_they_are_given():
    engine = says({"What": "relief from rent"})
    result = attack().run(case(engine, DOCUMENTS[:2], victim=DOCUMENTS[2:]))
    assert {r.scope["records"] for r in result.measurements} == {"victim"}
    assert rows(result)["rouge_l", "tuned", ""].n == 1
    assert "the victim's" in result.limits[0]
    assert {engine._text(p.prompt) for _, p in engine.asked} == {
        ALPACA.prompt("What is asked", "").rstrip()
    }


def test_prompts_are_the_templates_whatever_it_is():
    """Not the default's: the text that training saw is what the prompt is cut from."""
    for form in ("alpaca", "fed_pii", "chat"):
        engine, shape = FakeEngine(lambda *_: ""), template(form)
        bare = Document(id="x", text="", instruction="Sum up", input="A case", output="It is over")
        attack().run(case(engine, [shape.render(bare)]))
        assert {engine._text(p.prompt) for _, p in engine.asked} == {
            shape.prompt("Sum up", "A case").rstrip()
        }


def test_a_prompt_has_the_tokens_that_training_read(base):
    """The same as the training's own split of a record into what is read and what is learnt."""
    from fedaudit.simulation.data.loss_mask import mask_prompt

    documents = [
        *DOCUMENTS,
        record("z", "回答问题", "原告是张三", "张三诉李四"),
        record("y", "Say", "🙂 fine"),
    ]
    engine = LocalEngine(base)
    trained = mask_prompt(engine.base.tokenizer, documents, 500)
    for document, sequence in zip(documents, trained, strict=True):
        one = case(engine, [document], beginning=PromptStart(start="bos", middle="bare"))
        [split] = training_pairs.training_pairs(one, one.attacker).splits
        assert list(split.prompt) == list(sequence)[: sequence.given]


def test_records_that_are_no_pairs_are_counted_and_passed_over():
    others = [
        Document(id="t", text="only a text"),
        Document(id="u", text="a text of its own", instruction="Do", output="something else"),
        Document(id="v", text="Say nothing: ", instruction="Say nothing"),
        Document(id="w", text="Draw: ---", instruction="Draw", output="---"),
        Document(id="p", text="a prompt", is_prompt=True),
    ]
    result = attack().run(case(says(TOLD), [*DOCUMENTS, *others, replace(DOCUMENTS[0], id="k")]))
    assert rows(result)["rouge_l", "tuned", ""].n == 3
    assert "3 of 3 distinct training pairs" in result.limits[0]
    assert "4 records were left out" in result.limits[0]


@pytest.mark.parametrize("documents", [[], [Document(id="t", text="only a text")]])
def test_nothing_to_ask_is_a_wrong_input(documents):
    with pytest.raises(InputError, match="nothing to ask") as error:
        attack().run(case(says(TOLD), documents))
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)


def test_the_context_limits_what_is_asked():
    engine = FakeEngine(lambda *_: "")
    [short, *_, long] = sorted(
        (training_pairs.training_pairs(case(engine), DOCUMENTS).splits),
        key=lambda c: len(c.prompt + c.suffix),
    )
    engine.context_length = len(long.prompt + long.suffix) - 1
    result = attack().run(case(engine))
    assert "2 of 2 distinct" in result.limits[0]
    assert "1 because they do not fit in the model's context" in result.limits[0]
    assert all(len(p.prompt) + p.max_new_tokens <= engine.context_length for _, p in engine.asked)
    assert short.prompt in {p.prompt for _, p in engine.asked}


def test_it_asks_greedily_and_equal_questions_once():
    seen = []

    class Spy(FakeEngine):
        def generate(self, target, batch, *, progress):
            asked = [(p.samples, p.max_new_tokens) for p in batch.requests]
            seen.append((target.name, batch.decoding, asked))
            return super().generate(target, batch, progress=progress)

    documents = [
        record("1", "Name one", "Ann"),
        record("2", "Name one", "Bob"),
        record("3", "Name one", "Ann and Bob and Cid and Dan"),
    ]
    found = rows(attack(new_tokens=3).run(case(Spy(lambda *_: "Ann"), documents)))
    greedy = SamplingParams(temperature=0)
    for _, decoding, asked in seen:
        assert (decoding, sorted(asked)) == (greedy, [(1, 3), (1, 7)])
    assert [name for name, *_ in seen] == ["tuned", "base"]
    assert found["queries", "tuned", ""].value == 2
    assert found["rouge_l", "tuned", ""].n == 3


def test_examples_are_drawn_by_the_seed_whatever_their_order():
    documents = [record(str(n), f"Case {n}.", f"answer {n}") for n in range(30)]

    def asked(some, seed=0):
        engine = FakeEngine(lambda *_: "")
        attack(examples=7).run(case(engine, some, seed=seed))
        return {engine._text(p.prompt) for _, p in engine.asked}

    assert len(asked(documents)) == 7
    assert asked(documents) == asked(documents[::-1]) != asked(documents, seed=1)
    whole = FakeEngine(lambda *_: "")
    attack(examples=0).run(case(whole, documents))
    assert len({p.prompt for _, p in whole.asked}) == 30


def test_a_prompt_begins_as_the_target_expects():
    engine = FakeEngine(lambda *_: "", prompt_starts={"bare": (), "bos": (99,)})
    attack().run(case(engine, beginning=PromptStart(start="bos", middle="bare")))
    assert {p.prompt[0] for _, p in engine.asked} == {99}


WORDS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6), st.data())
def test_any_records_in_any_order(pairs, data):
    documents = [record(str(n), f"ask {x}", y, task="st"[n % 2]) for n, (x, y) in enumerate(pairs)]
    answers = data.draw(st.lists(WORDS | st.just(""), min_size=1, max_size=4))

    def answer(target, prompt, sample):
        seed = f"{target.name} {prompt}"
        return random.Random(seed).choice(answers)

    def found(some):
        engine = FakeEngine(answer)
        engine.tokenize([d.text for d in documents])
        return attack().run(case(engine, some))

    result = found(documents)
    assert found(data.draw(st.permutations(documents))) == result
    for row in result.measurements:
        if row.metric == "rouge_l" and row.value is not None:
            floor = -1 if row.scope["source"] == "tuned-not-base" else 0
            assert floor <= row.low <= row.value <= row.high <= 1
    by = rows(result)
    difference = by["rouge_l", "tuned", ""].value - by["rouge_l", "base", ""].value
    assert by["rouge_l", "tuned-not-base", ""].value == pytest.approx(difference)
    told = sum(finding.evidence["pairs"] for finding in result.findings)
    assert told == by["coverage", "tuned-not-base", ""].hits


def test_records_that_others_have_too_are_not_asked_for():
    mine, _, both = DOCUMENTS
    copied = replace(both, id="copy", text=both.text.upper())
    found = attack().run(
        case(says(TOLD), attacker=[mine], victim=DOCUMENTS, members={"c2": [copied]})
    )
    assert rows(found)["rouge_l", "tuned", ""].n == 1
    assert any("2 further records were left out" in limit for limit in found.limits)
    with pytest.raises(InputError, match="has all of the victim's records too"):
        attack().run(case(says(TOLD), victim=DOCUMENTS))
