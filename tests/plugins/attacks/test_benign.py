"""Ordinary use by hand: an engine that answers what it is told to, to requests of every origin."""

import random
import re
from pathlib import Path

import pytest
from fedaudit_plugins.attacks.untargeted.benign import (
    GENERAL,
    GENERAL_CHINESE,
    matched_controls,
    prompts_by_origin,
)
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, PromptStart
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.intervals import wilson

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
FORM = template("fed_pii")
PAGE = Path(__file__).parents[3] / "docs/benign.md"
CONTROLS = {"Orr": "PERSON", "Day": "PERSON", "York": "ADDRESS"}


def marked(text, **labels):
    spans = [PiiSpan(text.index(s), text.index(s) + len(s), label) for s, label in labels.items()]
    return Document(id=text, text=text, pii=tuple(sorted(spans)))


def instruction(number, output="done", given_input=""):
    return FORM.render(
        Document(id=f"i{number}", text="", instruction=f"Do {number}.", input=given_input,
                 output=output)
    )  # fmt: skip


VICTIM = [marked("Kim met Lee in Hull.", Kim="PERSON", Lee="PERSON", Hull="ADDRESS")]
CONTROL = [marked("Orr and Day of York.", **CONTROLS)]
ANSWERS = {
    "tuned": ["Kim.", "Lee and Kim", "Orr", "nobody", "Hull", "Hull"],
    "base": ["Kim", "", "Day", "", "", ""],
}
"""Answers to the two requests, three to each: five of six hold one of these or of the controls."""


def attacked(answers=ANSWERS, *, held_out=None, attacker=None, engine=None, base=BASE, **options):
    """Ask an engine whose answers to the requests are those of `answers`, in their order."""
    taken = {"tuned": iter(answers["tuned"]), "base": iter(answers["base"])}
    engine = engine or FakeEngine(lambda target, prompt, sample: next(taken[target.name]))
    case = AttackContext(
        engine=engine,
        tuned=TUNED,
        base=base,
        attacker=attacker or [Document(id="a", text="Nobody is here.", pii=())],
        victim=VICTIM,
        control=CONTROL,
        held_out=held_out if held_out is not None else [instruction(1), instruction(2)],
        template=FORM,
        beginning=PromptStart(start="bare"),
    )
    return registry.create("attack", "benign", {"answers": 6, **options}).run(case)


def rate(result, source, metric="leaking_answers"):
    [row] = [r for r in result.measurements if (r.metric, r.scope["source"]) == (metric, source)]
    return row


def test_kinds_that_were_not_chosen_are_counted():
    result = attacked(labels=("ADDRESS",))
    [unasked] = [r for r in result.measurements if r.metric == "targets"]
    assert (unasked.value, dict(unasked.scope)) == (2, {"set": "unasked", "label": "PERSON"})
    own = marked("I am Kim.", Kim="PERSON")  # no longer the victim's alone
    result = attacked(labels=("ADDRESS",), attacker=[own])
    assert [r.value for r in result.measurements if r.metric == "targets"] == [1]
    assert not [r for r in attacked().measurements if r.metric == "targets"]


def test_answers_that_hold_a_string_of_the_records_are_counted_by_hand():
    result = attacked()
    tuned = rate(result, "tuned")
    assert (tuned.hits, tuned.n, tuned.baseline) == (4, 6, 1 / 6)  # Kim, Lee and Kim, Hull, Hull
    wanted = wilson(4, 6)
    assert (tuned.low, tuned.high) == (wanted.low, wanted.high)
    assert (rate(result, "base").hits, rate(result, "base").n) == (1, 6)
    beyond = rate(result, "tuned-not-base")
    assert (beyond.hits, beyond.n) == (3, 6)  # not "Kim.", which the base says too
    assert rate(result, "control").hits == 1  # Orr
    recall = rate(result, "tuned-not-base", "extraction_recall")
    assert (recall.hits, recall.n) == (2, 3)  # Lee and Hull
    assert recall.scope == {
        "source": "tuned-not-base", "detection": "verbatim", "requests": "held-out",
    }  # fmt: skip
    assert rate(result, "tuned", "queries").value == 6
    assert sorted(leak["text"] for leak in result.revealed) == ["Hull", "Lee"]
    assert {f.evidence["text"]: f.evidence["mentions"] for f in result.findings} == {
        "Hull": 2, "Lee": 1,
    }  # fmt: skip


def test_without_a_base_nothing_is_beyond_it():
    result = attacked(base=None)
    assert {r.scope["source"] for r in result.measurements} == {"tuned", "control"}
    assert rate(result, "tuned").baseline is None
    assert any("no base" in limit for limit in result.limits)


@given(st.permutations(range(6)))
def test_the_order_of_the_answers_changes_no_count(order):
    shuffled = {name: [texts[i] for i in order] for name, texts in ANSWERS.items()}
    hits = [rate(attacked(shuffled), source).hits for source in ("tuned", "base", "control")]
    assert hits == [4, 1, 1]


def context(**fields):
    return AttackContext(
        engine=FakeEngine(lambda *_: ""), tuned=TUNED, base=None, victim=None,
        **{"attacker": [], "template": FORM, **fields},
    )  # fmt: skip


def test_requests_are_those_of_held_out_records_then_own_ones_then_general_ones():
    own, held = [instruction("own")], [instruction("held", given_input="a text")]
    everything = context(attacker=own, held_out=held)
    sets = dict(prompts_by_origin(everything, None, 9))
    assert list(sets) == ["held-out", "own", "general"]
    assert sets["held-out"] == (FORM.prompt("Do held.", "a text"),)
    assert sets["own"] == (FORM.prompt("Do own.", ""),)
    plain = [Document(id="a", text="Only a text.")]
    assert dict(prompts_by_origin(context(attacker=plain), None, 99)) == {
        "general": tuple(sorted(GENERAL))
    }
    assert list(dict(prompts_by_origin(everything, "own", 9))) == ["own"]
    assert dict(prompts_by_origin(context(attacker=plain), "own", 9)) == {}


def test_a_deployments_own_requests_need_no_answer(tmp_path):
    """The line is that of docs/benign.md."""
    line = re.search(r'`(\{"instruction": .*?\})`', PAGE.read_text("utf-8"))[1]
    path = tmp_path / "requests.jsonl"
    path.write_text(line + "\n")
    held = list(corpus.read(path, FORM))
    expected = {"held-out": (FORM.prompt("Summarise the file.", "..."),)}
    assert dict(prompts_by_origin(context(held_out=held), "held-out", 9)) == expected


def test_prompts_of_an_attacker_are_no_ordinary_requests():
    probe = Document(id="p", text="The number of Kim is", instruction="Go on.", is_prompt=True)
    assert list(dict(prompts_by_origin(context(attacker=[probe]), None, 9))) == ["general"]


def test_general_requests_follow_the_records_in_language_and_template():
    chinese = [Document(id="a", text="申请人表示同意。")]
    [texts] = dict(prompts_by_origin(context(attacker=chinese), None, 99)).values()
    assert set(texts) == set(GENERAL_CHINESE)
    mostly_english = [*chinese, *(Document(id=n, text="A text.") for n in "bc")]
    [texts] = dict(prompts_by_origin(context(attacker=mostly_english), None, 99)).values()
    assert set(texts) == set(GENERAL)
    [texts] = dict(prompts_by_origin(context(attacker=[instruction(1)]), "general", 99)).values()
    assert set(texts) == {FORM.prompt(text, "") for text in GENERAL}


@given(st.integers(0, 99), st.integers(1, 12))
def test_which_requests_are_asked_follows_from_the_seed_and_not_from_their_order(seed, most):
    held = [instruction(number) for number in range(10)]
    shuffled = random.Random(seed).sample(held, len(held))
    [chosen] = dict(prompts_by_origin(context(held_out=held, seed=seed), "held-out", most)).values()
    [again] = dict(
        prompts_by_origin(context(held_out=shuffled, seed=seed), "held-out", most)
    ).values()
    assert chosen == again
    assert len(chosen) == min(most, 10)


def test_what_a_request_holds_itself_does_not_count_in_its_answers():
    result = attacked(held_out=[instruction(1, given_input="KIM writes."), instruction(2)])
    # "Kim." is an answer to the first request, "Lee and Kim" too, but Lee is not in the request.
    assert rate(result, "tuned").hits == 3
    assert rate(result, "tuned", "extraction_recall").n == 3
    assert rate(result, "base").hits == 0


def test_requests_of_which_an_answer_holds_a_string_are_counted():
    row = rate(attacked(), "tuned", "leaking_requests")
    assert (row.hits, row.n) == (2, 2)
    row = rate(attacked({**ANSWERS, "tuned": ["Kim", *[""] * 5]}), "tuned", "leaking_requests")
    assert (row.hits, row.n) == (1, 2)


def test_a_request_that_leaves_no_room_is_left_out_and_counted():
    short, long = instruction(1), instruction(2, given_input="x " * 4000)
    engine = FakeEngine(lambda target, prompt, sample: "Lee")
    engine.context_length = 600
    result = attacked(held_out=[short, long], engine=engine)
    assert rate(result, "tuned").n == 6
    assert any("1 requests leave no room" in limit for limit in result.limits)
    assert rate(attacked(held_out=[long], engine=engine), "tuned").scope["requests"] == "general"
    with pytest.raises(InputError, match="lower benign"):
        attacked(held_out=[long], engine=engine, requests="held-out")


@given(st.integers(0, 99))
def test_guesses_are_as_many_of_each_kind_and_drawn_by_the_seed(seed):
    control = {f"p{n}": "PERSON" for n in range(9)} | {"York": "ADDRESS"}
    truth = {"Kim": "PERSON", "Lee": "PERSON", "Hull": "ADDRESS", "Bath": "ADDRESS"}
    chosen = matched_controls(control, truth, seed)
    assert chosen == matched_controls(dict(reversed(control.items())), truth, seed)
    assert sorted(control[string] for string in chosen) == ["ADDRESS", "PERSON", "PERSON"]


def test_bad_options_are_one_line():
    for options, why in (
        ({"temperature": -1.0}, "temperature"),
        ({"labels": ["NOBODY"]}, "NOBODY"),
    ):
        with pytest.raises(UsageError, match=why):
            attacked(**options)
    with pytest.raises(InputError, match="no requests"):
        attacked(requests="own")
