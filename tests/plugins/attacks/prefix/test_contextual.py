from collections import Counter

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, SamplingParams, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
TEXT = "Claimant: Ann Lee, aged 41, of Leeds"


def marked(text, *strings, id="d"):  # noqa: A002
    spans = tuple(PiiSpan(text.index(s), text.index(s) + len(s), "X") for s in strings)
    return Document(id=id, text=text, pii=spans)


def attack(**options):
    return registry.create("attack", "contextual", options)


def case(fake, *documents, **changes):
    victim = [Document(id="v", text="Claimant: Bob", pii=(PiiSpan(10, 13, "X"),))]
    return AttackContext(
        **{
            "engine": fake,
            "tuned": TUNED,
            "base": BASE,
            "attacker": documents,
            "victim": victim,
            **changes,
        }
    )


def silent(target, prompt, sample):
    return ""


def asked(fake):
    return [(t.name, fake._text(p.prompt), p.samples, p.max_new_tokens) for t, p in fake.asked]


def test_it_asks_what_stands_before_every_pii():
    fake = FakeEngine(silent)
    attack(samples=2, context=3, new_tokens=7).run(
        case(fake, marked(TEXT, "Ann Lee", "41", "Leeds"))
    )
    prompts = {"Claimant:", " Lee, aged", " 41, of"}
    assert set(asked(fake)) == {(t, p, 2, 7) for t in ("tuned", "base") for p in prompts}
    assert len(fake.asked) == 6


def test_a_prefix_is_asked_as_often_as_it_occurs():
    fake = FakeEngine(silent)
    documents = [marked("Claimant: Ann", "Ann", id=str(i)) for i in range(3)]
    found = attack().run(case(fake, *documents, marked("Judge: Kim", "Kim", id="j")))
    assert Counter(asked(fake)) == Counter(
        {
            (name, prompt, samples, 10): 1
            for name in ("tuned", "base")
            for prompt, samples in (("Claimant:", 45), ("Judge:", 15))
        }
    )
    queries = {r.value for r in found.measurements if r.metric == "queries"}
    assert queries == {60}


def test_decoding_and_seed_reach_the_engine():
    seen = []

    class Spy(FakeEngine):
        def generate(self, target, batch, **others):
            seen.append((target.name, batch.seed, batch.decoding))
            return super().generate(target, batch, **others)

    attack(temperature=0.7, top_k=5, top_p=0.9).run(
        case(Spy(silent, chance=lambda *_: 0.0), marked("Claimant: Ann", "Ann"), seed=8)
    )
    wanted = SamplingParams(temperature=0.7, top_k=5, top_p=0.9)
    assert seen == [("tuned", 8, wanted), ("base", 8, wanted)]


def test_greedy_answers_are_asked_for_once():
    """Three equal prefixes and another: two questions, each with one answer."""
    fake = FakeEngine(silent)
    documents = [marked("Claimant: Ann", "Ann")] * 3 + [marked("Witness: Bo", "Bo")]
    result = attack(temperature=0.0).run(case(fake, *documents))
    requests = [request for target, request in fake.asked if target.name == "tuned"]
    assert [request.samples for request in requests] == [1, 1]
    assert {m.value for m in result.measurements if m.metric == "queries"} == {2.0}


def test_what_the_base_says_greedily_it_says_for_certain():
    """The victim's Eve is said by both models: her chance is 1 however unlikely she is."""
    fake = FakeEngine(lambda *_: " Eve", likelihood=lambda *_: -50.0)
    victim = [marked("Claimant: Eve", "Eve")]
    greedy = attack(temperature=0.0)
    result = greedy.run(case(fake, marked("Claimant: Ann", "Ann"), victim=victim))
    chances = {m.scope.get("label"): m.value for m in result.measurements if m.metric == "chance"}
    assert chances == {None: 1, "X": 1}


def test_progress_is_told_by_target():
    titles = []

    def progress(title):
        titles.append(title)
        return lambda done, total: None

    attack().run(case(FakeEngine(silent), marked("Claimant: Ann", "Ann"), progress=progress))
    assert titles == ["asking tuned", "asking base", "weighing", "weighing"]


def test_ready_made_prompts_are_asked_whole():
    fake = FakeEngine(silent)
    text = "a long prompt of many words"
    attack(context=2).run(case(fake, Document(id="p", text=text, is_prompt=True)))
    assert {prompt for _, prompt, _, _ in asked(fake)} == {text}


@pytest.mark.parametrize("documents", [[], [Document(id="d", text="no PII", pii=())]])
def test_nothing_to_ask_is_a_wrong_input(documents):
    with pytest.raises(InputError, match="nothing to ask") as error:
        attack().run(case(FakeEngine(silent), *documents))
    assert error.value.exit_code == 3
