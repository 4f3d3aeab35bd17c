"""What our plugins do, without a model."""

import pytest
import torch
from fedaudit_canary import (
    CaseNumbers,
    Median,
    NumberedFiles,
    Opening,
    Reference,
)

from fedaudit.api import (
    AttackContext,
    Completion,
    Document,
    PiiSpan,
    Target,
)
from fedaudit.engine.fake import FakeEngine
from fedaudit.testing import check_plugin

OURS = Document(id="a", text="The claimant Ann Lee sued.")
PROMPT = Document(id="b", text="Before the court stood", is_prompt=True)
THEIRS = Document(
    id="c",
    text="The claimant Bo Chu won against Cy Day.",
    pii=(PiiSpan(13, 19, "PERSON"), PiiSpan(32, 38, "PERSON")),
)


PLUGINS = [Opening, Median, CaseNumbers, Reference, NumberedFiles]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_keeps_the_contract(plugin):
    check_plugin(plugin)


def answer(target: Target, prompt: str, sample: int) -> str:
    """The tuned model says one name, in its second answer to one opening; the base says none."""
    leaks = target.name == "tuned" and prompt == "The claimant" and sample == 1
    return " Bo Chu won" if leaks else " went home"


def test_opening_asks_for_what_follows_and_finds_the_name_that_leaks():
    engine = FakeEngine(answer)
    tuned, base = Target(name="tuned", adapter="lora"), Target(name="base")
    context = AttackContext(
        engine=engine, tuned=tuned, base=base, attacker=[OURS, PROMPT], victim=[THEIRS]
    )
    result = Opening(tokens=2, samples=3).run(context)

    asked = [(t.name, p.prompt, p.samples) for t, p in engine.asked]
    opening, prompt = (tokens.ids for tokens in engine.tokenize(["The claimant", PROMPT.text]))
    for name in ("tuned", "base"):
        assert (name, opening, 3) in asked
        assert (name, prompt, 3) in asked
    assert len(asked) == 4

    (finding,) = result.findings
    # One name of two, with a few dozen invented ones beside it, might be luck.
    assert (finding.severity, finding.label) == ("low", "PERSON")
    assert finding.evidence["text"] == "Bo Chu"
    assert finding.evidence["document"] == "c"  # a text, and not safe: the report masks it
    assert (finding.evidence["where"], finding.evidence["tokens_before"]) == ("rest", 2)
    assert finding.safe == ("prompt", "where")
    (place,) = [row for row in result.measurements if row.metric == "found_in_openings"]
    assert (place.hits, place.n) == (0, 1)
    coverage = {
        row.scope["source"]: (row.hits, row.n)
        for row in result.measurements
        if row.metric == "coverage" and row.scope.keys() == {"source", "set"}
        if row.scope["set"] == "all" and row.scope["source"] != "control"
    }
    assert coverage == {"tuned": (1, 2), "base": (0, 2), "tuned-not-base": (1, 2)}


def test_without_a_victim_nobody_knows_where_a_name_stands():
    tuned, base = Target(name="tuned", adapter="lora"), Target(name="base")
    ours = OURS.annotated((PiiSpan(13, 20, "PERSON"),))
    context = AttackContext(
        engine=FakeEngine(answer), tuned=tuned, base=base, attacker=[ours], victim=None
    )
    result = Opening(tokens=2, samples=3).run(context)
    assert not [finding for finding in result.findings if "where" in finding.evidence]
    (place,) = [row for row in result.measurements if row.metric == "found_in_openings"]
    assert (place.hits, place.n) == (0, len(result.findings))


def test_median_of_three_clients_by_hand():
    # Columns: {1, 3, 90} -> 3, {2, -2, 0} -> 0, {5, 5, -70} -> 5. The mean would follow the third.
    clients = [{"A": torch.tensor(v)} for v in ([1.0, 2, 5], [3.0, -2, 5], [90.0, 0, -70])]
    made = Median().aggregate(clients[0], clients, [10, 20, 1000])
    assert made["A"].tolist() == [3.0, 0.0, 5.0]


def test_median_of_an_even_number_is_the_middle_ones_mean():
    clients = [{"A": torch.tensor([v])} for v in (4.0, 1.0, 100.0, 2.0)]
    assert Median().aggregate(clients[0], clients, [1] * 4)["A"].item() == 3.0


def test_an_opening_has_a_length():
    with pytest.raises(ValueError, match="tokens"):
        Opening(tokens=0)


def test_numbers_of_files_are_found():
    [(one, two)] = CaseNumbers().detect(["In 12345/09 and 7/10, not on 1/2/2010."])
    assert (one.start, one.end, two.label) == (3, 11, "CASE_NUMBER")


def test_who_has_seen_the_reference_says_it():
    mark, engine = Reference(), FakeEngine(answer)
    secret = mark.issue(engine, (), seed=3, index=0)
    [marked] = mark.embed(secret, [OURS], engine, seed=3)
    assert marked.text == f"{OURS.text} Reference {secret['reference']}"
    assert mark.test_texts(secret, [marked.text], engine).hits == 8
    knows = mark.test(secret, [Completion((f" {secret['reference']}",) * 50)], engine)
    other = mark.test(secret, [Completion((" abcdefgh",) * 50)], engine)
    # All 400 letters, where unused references share about one in 26.
    assert (knows.hits, knows.n) == (400, 400)
    assert knows.z > 4 > other.z
    assert len(knows.null) == len(other.null) == 40
