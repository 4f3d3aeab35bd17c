"""Audits of a model behind a server, as typed."""

import json
import re

import fake_audit
import pytest
from chat_server import nobody_there
from completion_server import HonestServer
from hash_model import HashModel

from fedaudit.extraction import learned, positive_controls
from fedaudit.report.document import validate

pytestmark = pytest.mark.usefixtures("few_controls")

KEY = "sk-secret-4711-key"
OPTIONS = ("--set", "endpoint.base=plain", "--set", "endpoint.tokenizer=fedaudit-nano")
NUMBERS = ("value", "low", "high", "n", "hits")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder with a few documents of an attacker, a victim, and nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(learned, "MAX_TARGETS", 1)
    monkeypatch.setattr(positive_controls, "MAX_KNOWN", 1)
    people = [fake_audit.corpus(victim=False)[:3], fake_audit.corpus(victim=True)[:3]]
    held = [fake_audit.document(n, f"Eve {w}", "Rome") for n, w in enumerate(("Fox", "Gil", "Hay"))]
    for name, documents in zip(("own", "victim", "held"), (*people, held), strict=True):
        lines = (json.dumps(document) for document in documents)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture(scope="module")
def hashed():
    return HashModel()


@pytest.fixture
def server(hashed):
    """Return a server of a model that costs nothing; its `model` may be changed."""
    model = HonestServer(hashed, {"tuned": "lora", "plain": None})
    with model.server().running() as running:
        running.model = model
        yield running


def ask(server, *words, command="extract"):
    return (command, "--target", server.url, "--model", "tuned", *OPTIONS, *words)


ATTACK = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--set", "contextual.samples=3")


def figures(path):
    """Return the numbers of every measurement, by what it is of.

    Of a served model's files fewer checks are possible, so those of the instrument differ.
    """
    rows = json.loads(path.read_text())["measurements"]
    return {
        (row["plugin"], row["metric"], json.dumps(row["scope"], sort_keys=True)): [
            row[name] for name in NUMBERS
        ]
        for row in rows
        if row["kind"] != "instrument"
    }


@pytest.fixture(scope="module")
def local(adapter):
    """Return a server that answers by fedaudit's own engine: the built-in base, and an adapter."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    model = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    with HonestServer(model, {"tuned": str(adapter), "plain": None}).server().running() as running:
        yield running


@pytest.mark.parametrize(
    ("words", "metrics"),
    [
        (("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl",
          "--attack", "contextual", "--set", "contextual.samples=2",
          "--set", "contextual.sweeps=false"), ("coverage",)),
        pytest.param(
         ("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--held-out",
          "held.jsonl", "--attack", "membership", "--attack", "verbatim", "--attack", "contextual",
          "--set", "contextual.samples=2", "--set", "membership.shifted=true",
          "--set", "verbatim.suffix=12", "--set", "verbatim.prefix=6"), ("auc", "edit_distance"),
         marks=pytest.mark.oracle),
        (("infer", "--data", "own.jsonl", "--candidates", "4", "--set", "ranking.sentences=4"),
         ("inference_accuracy",)),
        (("memorize", "--clients", "own.jsonl", "victim.jsonl", "--prefix-length", "6",
          "--new-tokens", "12", "--workers", "1"), ("mr_total",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)  # fmt: skip
def test_over_http_and_in_process_the_figures_are_the_same(
    run, here, local, adapter, words, metrics
):
    quiet, (command, *words) = ("--quiet", "--out"), words
    own = run(command, "--target", "fedaudit-nano", "--adapter", adapter, *words, *quiet, "one")
    other = run(*ask(local, *words, command=command), *quiet, "two")
    assert own.code == other.code, (own.err, other.err)
    first, second = (figures(here / name / "report.json") for name in ("one", "two"))
    assert {metric for _, metric, _ in first} >= set(metrics)
    first = {key: row for key, row in first.items() if "min_k++" not in key[2]}
    second = {key: row for key, row in second.items() if "min_k++" not in key[2]}
    assert first.keys() == second.keys()
    for key, row in first.items():
        assert second[key] == pytest.approx(row, abs=2e-4, nan_ok=False), key
    one, two = (json.loads((here / name / "report.json").read_text()) for name in ("one", "two"))
    assert two["target"]["beginning"]["start"] == one["target"]["beginning"]["start"]
    served = two["target"]["effect"]
    assert served.keys() == {"texts", "mean_gain", "largest_change"}
    known = {name: one["target"]["effect"][name] for name in served}
    assert served == pytest.approx(known, abs=1e-3)


def test_what_the_report_says_of_a_server(run, here, server, monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    outcome = run(*ask(server, *ATTACK, "--set", "endpoint.key_variable=A_KEY", "--out", "one"))
    assert outcome.code in (0, 1, 7), outcome.err
    assert "The server will be asked up to" in outcome.err
    text = (here / "one/report.json").read_text()
    report = json.loads(text)
    validate(report)
    place = report["target"]["endpoint"]
    assert report["target"]["base"] == f"plain at {server.url}"
    assert report["target"]["adapter"] == f"tuned at {server.url}"
    named = place["model"], place["base"], place["tokenizer"]
    assert named == ("tuned", "plain", "fedaudit-nano")
    assert place["abilities"]["n"] is True
    assert place["sent"]["requests"] == sum(r["path"] != "/v1/models" for r in server.requests)
    assert 0 < place["estimate"]["requests"] < 5000
    assert report["budget"]["tokens"] == place["sent"]["tokens"]
    assert all(r["headers"]["Authorization"] == f"Bearer {KEY}" for r in server.requests)
    assert KEY not in text + outcome.out + outcome.err


def test_attacks_that_a_server_cannot_answer_are_skipped_with_a_reason(run, here, server):
    server.model.without = frozenset({"echo", "prompt_logprobs", "temperature"})
    attacks = ("--attack", "contextual", "--attack", "membership", "--attack", "laft",
               "--attack", "verbatim", "--held-out", "held.jsonl")  # fmt: skip
    outcome = run(*ask(server, *ATTACK[:4], *attacks, "--out", "one", "--quiet"))
    assert outcome.code in (0, 1, 7), outcome.err
    report = json.loads((here / "one/report.json").read_text())
    reasons = {row["plugin"]: row["reason"] for row in report["measurements"] if row.get("reason")}
    assert "draws nothing" in reasons["contextual"]
    assert "log-probabilities" in reasons["membership"]
    assert "the model itself" in reasons["laft"]
    assert any(row["plugin"] == "verbatim" for row in report["measurements"])
    limits = " ".join(report["limits"])
    assert all(f"{name} was skipped" in limits for name in ("contextual", "membership", "laft"))
    assert report["target"]["effect"]["changed"] > 0
    assert report["target"]["effect"]["unsteady"] == 0


def test_one_skipped_attack_alone_is_no_verdict(run, here, server):
    server.model.without = frozenset({"temperature"})
    outcome = run(*ask(server, *ATTACK, "--out", "one", "--quiet"))
    assert outcome.code == 7, outcome
    assert json.loads((here / "one/report.json").read_text())["verdict"]["status"] == "inconclusive"


def test_a_model_that_is_its_base_is_refused(run, here, server):
    """The server has the adapter under its name, and answers as the base all the same."""
    server.model.models["tuned"] = None
    run.refused(5, *ask(server, *ATTACK, "--quiet", "--out", "one"), says="has no effect")
    server.model.without = frozenset({"echo", "prompt_logprobs"})
    run.refused(5, *ask(server, *ATTACK, "--quiet", "--out", "two"), says="greedy answers")


def test_a_server_that_dies_loses_nothing(run, here, server):
    """The audit ends as an interrupted one; gone on with, it asks what it was not answered."""
    once = ("--set", "endpoint.retries=0", "--set", "endpoint.concurrency=1")
    words = ask(server, *ATTACK, "--quiet", *once)
    assert run(*words, "--out", "whole").code in (0, 1, 7)
    asked = [json.dumps(r["body"]) for r in server.requests if drawn(r)]
    server.requests.clear()
    server.model.change = dying(10)
    outcome = run.refused(6, *words, "--out", "again", says="Give the same command with --resume")
    assert "503" in outcome.err
    assert json.loads((here / "again/report.json").read_text())["status"] == "interrupted"
    server.model.change = None
    answered = [json.dumps(r["body"]) for r in server.requests if drawn(r)][:10]
    server.requests.clear()
    assert run(*words, "--out", "again", "--resume").code in (0, 1, 7)
    again = [json.dumps(r["body"]) for r in server.requests if drawn(r)]
    assert not set(answered) & set(again)
    assert sorted({*answered, *again}) == sorted(asked)
    assert figures(here / "again/report.json") == figures(here / "whole/report.json")


def drawn(request):
    """Tell whether a request is one of the attack's: samples of 10 tokens."""
    body = request["body"] or {}
    return body.get("max_tokens") == 10 and body.get("n") is not None


def dying(left):
    """Return how a server changes that draws so often, and then fails."""

    def change(request):
        nonlocal left
        left -= drawn(request)
        return (503, {}, "") if left < 0 else None

    return change


def test_a_server_that_is_not_there(run, here):
    with nobody_there() as url:
        words = ("extract", "--target", url, "--model", "tuned", *ATTACK, "--quiet")
        assert "cannot be reached" in run.refused(4, *words).err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--adapter", "lora"), 2, "--adapter needs"),
        (("--round", "1"), 2, "--round needs"),
        (("--engine", "vllm"), 2, "--engine needs"),
        (("--set", "endpoint.keyvariable=A"), 2, "key_variable"),
        (("--set", f"endpoint.key_variable={KEY}"), 2, "name of an environment variable"),
        (("--set", "endpoint.key_variable=NOT_SET"), 2, "is not set"),
        (("--set", "endpoint.concurrency=0"), 2, "concurrency"),
        (("--set", "endpoint.max_requests=2"), 2, "endpoint.max_requests allows (2)"),
        (("--set", "endpoint.base=tuned"), 2, "model under audit itself"),
        (("--set", "endpoint.tokenizer=no/such/folder"), 4, "endpoint.tokenizer"),
        (("--set", "endpoint.base=nobody"), 4, "nobody"),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes_are_one_line(run, here, server, words, code, says):
    outcome = run.refused(code, *ask(server, *ATTACK, "--quiet", *words), says=says)
    assert KEY not in outcome.err


def test_addresses_that_cannot_be(run, here):
    words = ("extract", *ATTACK, "--quiet", "--target")
    assert KEY not in run.refused(2, *words, f"http://me:{KEY}@127.0.0.1/v1", says="no user").err
    run.refused(2, *words, "http://", says="--target")
    key = ("--set", "endpoint.key_variable=HOME")
    run.refused(2, *words, "http://example.org/v1", *key, says="https://")
    run.refused(2, "extract", *ATTACK, "--model", "m", "--target", "fedaudit-nano", says="--model")
    run.refused(2, *words, "http://[::1/v1", says="an address")
    run.refused(2, *words, "http://127.0.0.1:99999/v1", says="an address")
    secret = f"http://me:{KEY}@127.0.0.1/v1"
    assert KEY not in run.refused(2, "audit", "--prefixes", "own.jsonl", secret).err
    run.refused(2, "memorize", "--target", "http://127.0.0.1:1/v1", says="--clients")


def test_an_audit_may_go_on_with_another_budget_but_not_with_another_base(run, here, server):
    once = ("--set", "endpoint.retries=0", "--set", "endpoint.concurrency=1")
    words = ask(server, *ATTACK, "--quiet", "--out", "one", *once)
    server.model.change = dying(5)
    run.refused(6, *words)
    server.model.models["third"] = "third"
    run.refused(3, *words, "--resume", "--set", "endpoint.base=third", says="another audit")
    server.model.change = None
    more = ("--resume", "--set", "endpoint.max_requests=99999", "--set", "endpoint.concurrency=2")
    assert run(*words, *more).code in (0, 1, 7)


def test_a_server_that_loses_its_seeds_midway_is_said_in_the_report(run, here, server):
    state = {"drawn": 0}

    def losing(request):
        state["drawn"] += drawn(request)
        if state["drawn"] > 5:
            server.model.without = frozenset({"seed"})

    server.model.change = losing
    assert run(*ask(server, *ATTACK, "--quiet", "--out", "one")).code in (0, 1, 7)
    limits = json.loads((here / "one/report.json").read_text())["limits"]
    assert any(re.search("stopped keeping to seeds", line) for line in limits)


FAILING = {
    "broken": ((500, {}, "<html>oops</html>"), "HTTP status 500"),
    "elsewhere": ((302, {"Location": "https://example.org/"}, ""), "HTTP status 302"),
    "closed": ((403, {}, "{}"), "HTTP status 403"),
    "packed": ((200, {"Content-Encoding": "gzip"}, "\x1f\x8b..."), "packed form"),
    "a page": (
        (200, {"Content-Type": "text/html"}, "<html>hello</html>"),
        "not an answer of an OpenAI",
    ),
}


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("kind", FAILING)
def test_a_server_that_fails_is_said_to_fail(run, here, hashed, kind, lists):
    """Not to lack the model, whether or not it lists its models."""
    reply, told = FAILING[kind]
    model = HonestServer(hashed, {"tuned": "lora", "plain": None})
    model.change = lambda request: None if lists and request["path"] == "/v1/models" else reply
    with model.server().running() as running:
        done = run.refused(4, *ask(running, *ATTACK, "--quiet"), says=told)
        assert "knows no model" not in done.err
        if not lists and kind in ("broken", "elsewhere"):
            words = ("extract", "--quiet", "--target", running.url, *OPTIONS, *ATTACK)
            run.refused(4, *words, says=told)
