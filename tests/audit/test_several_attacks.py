"""Several attacks in one audit of a real federation."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.audit.attacks import resolve
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.session import run_audit
from fedaudit.engine.local import LocalEngine
from fedaudit.report.document import validate
from fedaudit.report.redaction import Redactor
from fedaudit.report.verdict.policy import judge

OPTIONS = {"context": 6, "samples": 2, "new_tokens": 4}


@pytest.fixture(scope="module")
def few(federation, tmp_path_factory):
    """Return files with a few documents of each of the two clients."""
    folder = tmp_path_factory.mktemp("few")
    for name in ("c0", "c1"):
        lines = (federation.path / f"data/{name}.jsonl").read_text().splitlines(keepends=True)
        (folder / f"{name}.jsonl").write_text("".join(lines[:4]))
    return [folder / "c0.jsonl", folder / "c1.jsonl"]


@pytest.fixture
def audited(federation, few, monkeypatch):
    """Return what audits with some attacks, and the questions that it asked of each model."""
    asked = []
    generate = LocalEngine.generate

    def spied(self, target, batch, **options):
        asked.extend((target.name, probe.prompt, probe.samples) for probe in batch.requests)
        return generate(self, target, batch, **options)

    monkeypatch.setattr(LocalEngine, "generate", spied)

    def audit(*attacks, options=()):
        asked.clear()
        own, other = few
        request = ExtractionRequest(
            prefixes=own,
            victim=other,
            attacks=attacks,
            options={**dict.fromkeys(attacks, OPTIONS), **dict(options)},
            target=str(federation.path),
            device="cpu",
        )
        report = run_audit(request, Redactor(bytes(range(32)))).report
        return report, list(asked)

    return audit


def rows(report, plugin):
    return [r for r in report.measurements if r.plugin == plugin and r.metric != "overlap"]


def test_they_find_together_what_they_find_alone_and_ask_less(audited):
    names = ("superset", "contextual")
    together, asked = audited(*names)
    validate(together.to_json())
    swept = [r for r in together.measurements if "samples" in r.scope]
    assert {r.metric for r in swept} >= {"coverage", "efficiency"}
    scopes = [r.scope for r in together.measurements if "not" in r.scope]
    assert {(scope["attacks"], scope["not"]) for scope in scopes} == {names, names[::-1]}
    assert len({(who, prompt) for who, prompt, _ in asked}) == len(asked)
    for name in names:
        alone, own = audited(name)
        assert rows(alone, name) == rows(together, name)
        assert alone.budget["queries"] == sum(n for who, _, n in own if who == "tuned")
    spent = sum(n for who, _, n in asked if who == "tuned")
    counted = sum(
        r.value
        for r in together.measurements
        if (r.metric, r.scope.get("source"), r.scope.get("set")) == ("queries", "tuned", "all")
    )
    assert together.budget["queries"] == spent < counted


def test_an_attack_is_named_once(tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text('{"text": "nothing"}\n')

    def checked(*attacks):
        request = ExtractionRequest(prefixes=own, attacks=attacks, target="fedaudit-nano")
        return resolve(request, InputReader()).audited

    with pytest.raises(UsageError, match="frequency is named twice"):
        checked("frequency", "contextual", "frequency")
    assert checked("frequency", "contextual").base == "fedaudit-nano"


def test_what_one_attack_cannot_do_stands_in_the_report_and_keeps_the_audit_from_passing(audited):
    """No nano document has so many tokens behind its beginning."""
    long = {"verbatim": {"shortest": 5000, "suffix": 5000}}
    report, _ = audited("contextual", "verbatim", options=long)
    validate(report.to_json())
    [missing] = rows(report, "verbatim")
    assert (missing.value, missing.metric) == (None, "coverage")
    assert "There is nothing to continue" in missing.reason
    assert any(r.metric == "coverage" and r.value is not None for r in rows(report, "contextual"))
    verdict = judge(report.measurements, report.findings)
    [found] = [j for j in verdict.judgements if j.reason.startswith("verbatim")]
    assert found.status == "inconclusive"
    assert "There is nothing to continue" in found.reason
