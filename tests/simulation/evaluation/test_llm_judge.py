"""A simulation's answers before a judge: a real HTTP server that is told what to like."""

import re
import shutil
from dataclasses import replace

import pytest
from chat_server import Server, parts, prefers

from fedaudit.api.errors import InputError, TargetError, UsageError
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.simulation.config import JudgeSettings, Simulation
from fedaudit.simulation.evaluation import llm_judge
from fedaudit.simulation.evaluation.answers import HeldOutAnswer, other_references
from fedaudit.simulation.runner import prepare, simulate


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def asking(config, server):
    return replace(config, judge=JudgeSettings(url=server.url, model="wise", retries=0))


def tasks(place):
    held_out = corpus.read(place / "data/held_out.jsonl", template("fed_pii"))
    return [document for document in held_out if document.instruction]


def verdicts(result):
    return {
        (row.metric, row.scope["source"]): row
        for row in result.measurements
        if row.plugin == "judge"
    }


def run(config, place):
    return simulate(config, place, listener=lambda event: None)


@pytest.fixture(scope="module")
def many(small, tmp_path_factory):
    """Return a federation of one round with more to answer."""
    config = replace(small, rounds=1, evaluated=8, held_out=0.4)
    path = tmp_path_factory.mktemp("many") / "run"
    return path, config, simulate(config, path, listener=lambda event: None)


@pytest.mark.parametrize(("wise", "outcome"), [(True, "judge_lose"), (False, "judge_win")])
def test_held_out_answers_stand_beside_their_references(many, tmp_path, wise, outcome):
    """And the control, another prompt's reference, loses before a judge that can tell alone."""
    path, config, _ = many
    shutil.copytree(path, tmp_path / "run")
    asked = tasks(path)
    assert len(asked) >= 3
    right = {f"{d.instruction}\n\n{d.input}": d.output for d in asked}
    likes = prefers(lambda prompt, answer: 9 if (answer == right[prompt]) == wise else 2)
    with Server(likes).running() as server:
        result = run(asking(config, server), tmp_path / "run")
    rows = verdicts(result)
    assert {source for _, source in rows} == {"base", "tuned", "control"}
    for source in ("base", "tuned"):
        assert rows[outcome, source].n == len(asked)
        whole = rows[outcome, source].hits + rows["judge_tie", source].hits
        assert whole == len(asked)
        assert rows[outcome, source].scope == {"source": source, "judge": "wise"}
    assert {parts(request)[0] for request in server.requests} == right.keys()
    assert any("judged by wise" in limit for limit in result.limits)
    assert llm_judge.NOBODY not in result.limits
    control = rows["judge_lose", "control"]
    assert control.n == len(asked)
    assert control.hits == (control.n if wise else 0)
    counts = f"in {control.hits} of {control.n} controls"  # too few to tell
    assert any(counts in limit for limit in result.limits)


@pytest.mark.parametrize(("hits", "n", "told"), [(8, 8, False), (6, 8, True), (0, 0, True)])
def test_a_judge_that_is_not_told_from_a_coin_is_said_to_be(hits, n, told):
    """Wilson's interval of 8 of 8 begins at 0.676, of 6 of 8 at 0.409."""
    scope = {"source": "control", "judge": "wise"}
    how = {"kind": "utility", "plugin": "judge", "metric": "judge_lose", "scope": scope}
    control = Measurement.rate(hits, n, reason="none", **how)
    answered = Measurement(kind="utility", plugin="utility", metric="rouge_l", value=1.0)
    config = Simulation(judge=JudgeSettings(base="fedaudit-nano"))
    _, *more = llm_judge.judge_caveats(config, [answered, control])
    assert [("chance" in caveat) for caveat in more] == [True] * told


def test_a_control_is_the_reference_of_the_next_prompt_of_its_task_that_has_another():
    def document(name, output, task):
        return Document(id=name, text="", instruction=name, output=output, task=task)

    same = [document(n, o, "qa") for n, o in [("a", "1"), ("b", "2"), ("c", "2"), ("d", "3")]]
    alone = document("e", "9", "summary")
    found = other_references([same[0], alone, *same[1:]])
    wrong = {one.document.id: one.text for one in found}
    assert wrong == {"a": "2", "b": "3", "c": "3", "d": "1", "e": "2"}
    assert other_references(same[1:3]) == []


def test_a_model_on_this_machine_judges_and_is_named(tmp_path):
    config = Simulation(judge=JudgeSettings(base="fedaudit-nano"))
    document = Document(id="a", text="", instruction="Who sues?", output="Ann Lee", task="qa")
    with llm_judge.open_judge(config, tmp_path / "verdicts.jsonl") as judge:
        rows = {row.metric: row for row in judge([HeldOutAnswer(document, "Bo Ash")], {})}
    assert (rows["judge_malformed"].hits, rows["judge_malformed"].n) == (0, 1)
    assert re.fullmatch(r"fedaudit-nano \([0-9a-f]{8}\)", rows["judge_win"].scope["judge"])
    assert len((tmp_path / "verdicts.jsonl").read_text().split()) > 2


def test_a_judge_that_is_not_there_is_refused_before_it_is_asked():
    with pytest.raises(InputError, match="no/such/model"):
        llm_judge.check(Simulation(judge=JudgeSettings(base="no/such/model")))


def test_a_second_run_asks_nothing_and_finds_the_same(many, tmp_path):
    path, config, _ = many
    shutil.copytree(path, tmp_path / "run")
    with Server(prefers(lambda prompt, answer: min(9, 1 + len(answer)))).running() as server:
        wanted = asking(config, server)
        first = run(wanted, tmp_path / "run")
        count = len(server.requests)
        assert count
        assert verdicts(run(wanted, tmp_path / "run")) == verdicts(first)
        assert len(server.requests) == count
    text = (tmp_path / "run" / llm_judge.VERDICTS).read_text("utf-8")
    assert not any(document.output in text for document in tasks(path))


def test_without_a_judge_the_report_names_what_takes_its_place(many):
    path, _, result = many
    assert llm_judge.NOBODY in result.limits
    assert not verdicts(result)
    assert not (path / llm_judge.VERDICTS).exists()


def test_a_judge_who_is_not_there_ends_in_one_line_and_the_federation_stays(many, tmp_path):
    path, config, _ = many
    shutil.copytree(path, tmp_path / "run")
    dead = replace(config, judge=JudgeSettings(url="http://127.0.0.1:9/v1", model="wise"))
    with pytest.raises(TargetError, match="cannot be reached"):
        run(dead, tmp_path / "run")
    assert run(config, tmp_path / "run").manifest.status == "complete"


def test_a_missing_key_is_told_before_anything_is_trained(small, tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    own = JudgeSettings(url="http://127.0.0.1:9/v1", model="wise", key_variable="NO_SUCH_KEY")
    with pytest.raises(UsageError, match="key_variable"):
        prepare(replace(small, judge=own), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nothing_is_told_where_no_answer_was_asked(small):
    loss = Measurement(kind="utility", plugin="utility", metric="loss", value=1.0)
    assert llm_judge.judge_caveats(small, [loss]) == ()
    assert llm_judge.judge_caveats(small, [replace(loss, metric="rouge_l")]) == (llm_judge.NOBODY,)


def test_the_judge_reads_instruction_and_input_without_the_template():
    document = Document(id="a", text="", instruction="Sum up.", output="x")
    assert llm_judge.judge_prompt(document) == "Sum up."
    assert llm_judge.judge_prompt(replace(document, input="It rains.")) == "Sum up.\n\nIt rains."


# Several models of one source


def test_models_of_one_source_are_averaged_document_by_document():
    from fedaudit.engine.fake import FakeEngine
    from fedaudit.metrics.intervals import bootstrap_mean
    from fedaudit.simulation.evaluation.utility import measure

    form, models = template("fed_pii"), [Target(name="one"), Target(name="two")]
    documents = [
        form.render(Document(id=name, text="", instruction=f"Say {name}.", output=said, task=task))
        for name, said, task in (("a", "Ann sues Bob", "summary"), ("b", "theft", "exam"))
    ]
    says = {("one", "a"): "Ann sues Bob", ("two", "a"): "Ann", ("one", "b"): "theft"}
    heard = []

    def answer(target, prompt, sample):
        return says.get((target.name, prompt[4]), "nothing")

    def likelihood(target, token, before):
        return -1.0 if target.name == "one" else -4.0

    def judge(said, scope):
        heard.append(([one.text for one in said], dict(scope)))
        return [Measurement(kind="utility", plugin="judge", metric="judge_win", value=1.0)]

    found = measure(
        FakeEngine(answer, likelihood=likelihood),
        [("local", models)],
        documents,
        form,
        seed=0,
        max_length=99,
        judge=judge,
    )
    rows = {row.metric: row for row in found}
    assert rows["loss"].value == 2.5
    # Rouge-L of "Ann": one of one and one of three words, F1 1/2; the mean with 1 is 3/4.
    assert rows["rouge_l"].value == 0.75
    assert (rows["accuracy"].value, rows["accuracy"].n) == (0.5, 1)
    assert rows["accuracy"].hits is None  # a mean over models is not a count
    assert rows["loss"].scope == {"source": "local", "clients": 2}
    assert rows["loss"].low == bootstrap_mean([2.5, 2.5], seed=0).low
    # The judge hears the models in turn, a document each.
    assert heard == [
        (["Ann sues Bob", "nothing"], {"source": "local", "clients": 2}),
        (["theft", "Ann sues Bob"], {"source": "control"}),
    ]


def test_an_answers_score_by_hand():
    def scored(task, wanted, text):
        return HeldOutAnswer(Document(id="a", text="", output=wanted, task=task), text).score()

    assert scored("exam", "B", "B. theft") == 1
    assert scored("classification", "theft", "fraud") == 0
    assert scored("", "Ann sues Bob", "Ann sues") == pytest.approx(0.8)  # P 1, R 2/3
