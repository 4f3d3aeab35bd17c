import math

import pytest

from fedaudit.api.records import Document, Target
from fedaudit.api.templates import template
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.intervals import bootstrap_mean, wilson
from fedaudit.simulation.evaluation.utility import measure

FORM = template("fed_pii")
TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
DOCUMENTS = [
    Document(id="plain", text="one two three"),
    FORM.render(
        Document(id="a", text="", instruction="Sort.", input="A", output="loan", task="exam")
    ),
    FORM.render(
        Document(id="b", text="", instruction="Sort.", input="B", output="theft", task="exam")
    ),
    FORM.render(
        Document(id="c", text="", instruction="Sum up.", output="the cat sat", task="summary")
    ),
]
ANSWERS = {"Sort.\n<###Input>\nA": " Loan, of course", "Sort.\n<###Input>\nB": "loan"}


def answer(target, prompt, sample):
    if target == BASE:
        return ""
    known = [text for start, text in ANSWERS.items() if prompt.startswith(start)]
    return known[0] if known else "the cat ran"


def likelihood(target, token, before):
    return -2.0 if target == BASE else -0.5


def rows(
    engine=None, documents=DOCUMENTS, *, targets=(("base", BASE), ("tuned", TUNED)), length=99
):
    engine = engine or FakeEngine(answer, likelihood=likelihood)
    found = measure(engine, targets, documents, FORM, seed=0, max_length=length)
    return {(r.scope["source"], r.metric, r.scope.get("task")): r for r in found}


def test_there_is_a_row_for_every_source_metric_and_task():
    found = rows()
    assert set(found) == {
        (source, metric, task)
        for source in ("base", "tuned")
        for metric, task in (
            ("loss", None),
            ("perplexity", None),
            ("accuracy", "exam"),
            ("rouge_l", "summary"),
            ("bleu", "summary"),
        )
    }
    assert {row.kind for row in found.values()} == {"utility"}


def test_loss_and_perplexity_by_hand():
    found = rows()
    for source, loss in (("base", 2.0), ("tuned", 0.5)):
        row = found[source, "loss", None]
        assert (row.value, row.low, row.high, row.n) == (loss, loss, loss, 4)
        assert found[source, "perplexity", None].value == pytest.approx(math.exp(loss))


def test_the_loss_is_a_mean_over_documents_of_the_mean_over_tokens():
    def by_token(target, token, before):
        return -float(len(before.split()))

    engine = FakeEngine(answer, likelihood=by_token)
    documents = [
        Document(id="1", text="a b c"),
        Document(id="2", text="a b"),
        Document(id="3", text="a"),
    ]
    row = rows(engine, documents)["tuned", "loss", None]
    wanted = bootstrap_mean([1.5, 1.0], seed=0)  # a single token has no score
    assert (row.value, row.low, row.high, row.n) == (wanted.value, wanted.low, wanted.high, 2)


def test_texts_are_cut_and_begun_as_in_training():
    seen = []

    def spy(target, token, before):
        seen.append((before, token))
        return -1.0

    engine = FakeEngine(answer, likelihood=spy, prompt_starts={"bare": (), "bos": (9999,)})
    documents = [Document(id="1", text="a b c d e f")]
    rows(engine, documents, targets=[("tuned", TUNED)], length=3)
    assert seen == [("<9999>", "a"), ("<9999>a", " b")]


def test_accuracy_and_rouge_by_hand():
    found = rows()
    exam = found["tuned", "accuracy", "exam"]
    wanted = wilson(1, 2)
    assert (exam.value, exam.hits, exam.n) == (0.5, 1, 2)
    assert (exam.low, exam.high) == (wanted.low, wanted.high)
    assert (found["base", "accuracy", "exam"].value, found["base", "accuracy", "exam"].hits) == (
        0,
        0,
    )
    # "the cat ran" for "the cat sat": two of three words in order, so P = R = F1 = 2/3.
    assert found["tuned", "rouge_l", "summary"].value == pytest.approx(2 / 3)
    assert found["base", "rouge_l", "summary"].value == 0
    assert found["tuned", "rouge_l", "summary"].hits is None
    # 2 of 3 words, 1 of 2 pairs, half of one of 1 triple: the cube root of 1/6.
    score = found["tuned", "bleu", "summary"]
    assert score.value == score.low == score.high == pytest.approx(100 * (1 / 6) ** (1 / 3))
    assert (score.n, score.hits) == (1, None)


def test_bleu_has_the_bootstrap_interval_of_its_documents():
    said = ["a b c d", "a b x d", "x", ""]
    documents = [
        FORM.render(
            Document(id=str(n), text="", instruction=f"{n}.", output="a b c d", task="summary")
        )
        for n in range(len(said))
    ]
    known = dict(zip((FORM.prompt(d.instruction, "") for d in documents), said, strict=True))
    engine = FakeEngine(lambda target, prompt, sample: known[prompt], likelihood=likelihood)
    row = rows(engine, documents, targets=[("tuned", TUNED)])["tuned", "bleu", "summary"]
    # 3 of 4 words, 1 of 3 pairs, half of one of 2 triples, a quarter of one of 1 run of four.
    second = 100 * (3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4)
    wanted = bootstrap_mean([100, second, 0, 0], seed=0)
    assert (row.value, row.low, row.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert (row.n, row.reason) == (4, "")
    turned = rows(engine, documents[::-1], targets=[("tuned", TUNED)])["tuned", "bleu", "summary"]
    assert (turned.value, turned.low, turned.high) == (row.value, row.low, row.high)


def test_every_legal_task_is_measured_by_the_papers_metric():
    """Each task has two documents; the model answers the first rightly and the second not."""
    given = {
        "summary": (["they dispute rent"] * 2, ["they dispute rent", "they met"]),
        "reading": (["Ann Lee"] * 2, ["Ann Lee.", "Bob"]),
        "case_matching": (["A", "B"], ["Case A is closer.", "A claim of rent"]),
        "exam": (["C", "AD"], ["C. tort law", "A"]),
        "classification": (["unpaid rent"] * 2, ["Unpaid rent.", "rent"]),
    }
    documents, known = [], {}
    for task, (wanted, said) in given.items():
        for number, output in enumerate(wanted):
            own = Document(
                id=f"{task}{number}",
                text="",
                instruction=f"{task} {number}",
                input="x",
                output=output,
                task=task,
            )
            documents.append(FORM.render(own))
            known[FORM.prompt(own.instruction, own.input)] = said[number]
    engine = FakeEngine(lambda target, prompt, sample: known[prompt], likelihood=likelihood)
    found = rows(engine, documents, targets=[("tuned", TUNED)])
    for task in ("case_matching", "exam", "classification"):
        row = found["tuned", "accuracy", task]
        assert (row.hits, row.n, row.value) == (1, 2, 0.5)
    # "they" is common to "they dispute rent" and "they met": P = 1/2, R = 1/3, F1 = 2/5.
    assert found["tuned", "rouge_l", "summary"].value == pytest.approx((1 + 2 / 5) / 2)
    assert found["tuned", "rouge_l", "reading"].value == 0.5
    # 1 of 2 words, half of one of 1 pair, 2 words for 3: exp(1 - 3/2) * sqrt(1/2 * 1/2).
    assert found["tuned", "bleu", "summary"].value == pytest.approx(50 + 25 * math.exp(-0.5))
    # "Ann Lee." has the full stop as a third word: 2 of 3, 1 of 2, half of one of 1; "Bob" has 0.
    assert found["tuned", "bleu", "reading"].value == pytest.approx(50 * (1 / 6) ** (1 / 3))
    assert len(found) == 2 + 3 + 2 * 2


def test_answers_are_greedy_and_see_the_prompt_only():
    engine = FakeEngine(answer)
    rows(engine, targets=[("tuned", TUNED)])
    prompts = [engine._text(request.prompt) for _, request in engine.asked]
    assert prompts == [FORM.prompt(d.instruction, d.input) for d in DOCUMENTS[1:]]
    assert {request.samples for _, request in engine.asked} == {1}


def test_a_task_that_does_not_fit_the_context_is_left_out():
    long = FORM.render(
        Document(id="l", text="", instruction="Sort.", input="A " * 500, output="loan", task="exam")
    )
    engine = FakeEngine(answer, likelihood=likelihood)
    engine.context_length = 100
    found = rows(engine, [*DOCUMENTS, long])
    assert found["tuned", "accuracy", "exam"].n == 2
    assert found["tuned", "loss", None].n == 5
    assert all(len(p.prompt) + p.max_new_tokens <= 100 for _, p in engine.asked)
    row = rows(engine, [long])["tuned", "accuracy", "exam"]
    assert (row.value, row.n, row.hits) == (None, None, None)
    assert "longer than the model's context" in row.reason


def test_without_documents_there_is_nothing_to_measure():
    assert rows(documents=[]) == {}


def test_without_tasks_there_is_the_loss():
    assert {metric for _, metric, _ in rows(documents=DOCUMENTS[:1])} == {"loss", "perplexity"}


def test_without_a_text_of_two_tokens_the_loss_is_missing_with_a_reason():
    row = rows(documents=[Document(id="1", text="a")])["tuned", "loss", None]
    assert row.value is None
    assert row.reason
