"""A report as SARIF 2.1.0, for code scanning and other tools that gate on it.

A rule is a class of attacks. Judgements are results of the kinds fail, pass and review
(inconclusive), classes that were not run are of the kind notApplicable or open, records that were
not looked for are open, and findings are results of their own. The log contains nothing beyond the
report, so leaks are masked.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedaudit import __version__
from fedaudit.api.records import Measurement
from fedaudit.report.checklist.leaks import unsearched_records
from fedaudit.report.comparison import finding_identity
from fedaudit.report.kinds.registry import class_of, is_ours, kind_of, kinds_of
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible, map_texts
from fedaudit.report.tables.assessment import judged_name
from fedaudit.report.verdict.attribution import is_accusation
from fedaudit.report.verdict.recheck import judgements, recheck

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "fedaudit/v1"
RULES = {
    "FA-MEMBERSHIP-INFERENCE": ("MembershipInference", "Trained records can be recognised."),
    "FA-ATTRIBUTE-INFERENCE": ("AttributeInference", "The model tells who a text is about."),
    "FA-EXFILTRATION": ("Exfiltration", "Personal data of others can be pulled out."),
    "FA-REGURGITATION": ("Regurgitation", "Training texts are continued, or known."),
    "FA-INVERSION": ("Inversion", "An attribute of a known person can be inferred."),
    "FA-RECONSTRUCTION": ("Reconstruction", "Records can be reconstructed from updates."),
    "FA-ATTRIBUTION": ("Attribution", "A client trained on marked documents."),
    "FA-GATE": ("Gate", "A gate opens without its key."),
    "FA-AUDIT": ("Audit", "What an audit must have measured."),
}
LEVELS = {"high": "error", "medium": "warning", "low": "note", "unverified": "note"}
KINDS = {"fail": "fail", "pass": "pass", "inconclusive": "review"}
NOT_RUN = {"not_run": "open", "not_applicable": "notApplicable"}


def render(report: Row) -> str:
    """Return a valid report's document as one SARIF log with one run."""
    judged = [*_contradiction(report), *_judgement_results(report)]
    results = [*judged, *_finding_results(report), *_not_run(report), *_unsearched(report)]
    rules = [*_rules(report)]
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(report)},
                "invocations": [_invocation(report)],
                "results": [
                    {
                        "ruleId": result["ruleId"],
                        "ruleIndex": rules.index(result["ruleId"]),
                        **result,
                        "locations": [_location(report)],
                    }
                    for result in results
                ],
                "columnKind": "unicodeCodePoints",
                "properties": {
                    "run": report["run"]["id"],
                    "verdict": report["verdict"]["status"],
                    "target_sha256": report["target"]["sha256"] or "unknown",
                },
            }
        ],
    }
    return json.dumps(map_texts(log, _harmless), indent=2, allow_nan=False) + "\n"


def rule_id(judgement: Row) -> str:
    """Return the rule that a judgement belongs to: the class of the measured attack."""
    if judgement["rule"] in ("attribution", "gate"):
        return f"FA-{judgement['rule'].upper()}"
    row = judgement["measurement"]
    return _of_row(row) if row else _of_class("")


def _of_class(name: str) -> str:
    return f"FA-{name.upper().replace('_', '-')}" if name else "FA-AUDIT"


def _of_row(row: Row) -> str:
    """Return the rule of a row's class of attacks, or of its kind where a plugin defines that."""
    if name := class_of(Measurement(**row)):
        return _of_class(name)
    is_foreign = not is_ours(row["kind"]) and kind_of(row["kind"])
    return _of_class(row["kind"] if is_foreign else "")


def _rules(report: Row) -> dict[str, tuple[str, str]]:
    """Return all rules, by id: our classes, and a report's kinds of plugins that are in none."""
    foreign = (k for k in kinds_of(report) if not is_ours(k.name) and not k.attack_class)
    return RULES | {
        _of_class(kind.name): (
            kind.name.title().replace("_", ""),
            kind.answers.get("fail", kind.title or kind.name),
        )
        for kind in foreign
    }


def _driver(report: Row) -> dict[str, Any]:
    return {
        "name": "fedaudit",
        "semanticVersion": __version__,
        "rules": [
            {
                "id": name,
                "name": short,
                "shortDescription": {"text": description},
                "defaultConfiguration": {"level": "error"},
                "properties": {"tags": ["privacy"]},
            }
            for name, (short, description) in _rules(report).items()
        ],
    }


def _invocation(report: Row) -> dict[str, Any]:
    run = report["run"]
    invocation = {
        "executionSuccessful": report["status"] == "success",
        "startTimeUtc": run["started"],
    }
    return {**invocation, "endTimeUtc": run["finished"]} if run["finished"] else invocation


def _contradiction(report: Row) -> Iterator[dict[str, Any]]:
    """Yield a failure if the verdict does not follow from the measurements."""
    checked = recheck(report)
    if not checked.holds:
        yield _result("FA-AUDIT", "fail", "error", checked.message, {}, "recheck")


def _judgement_results(report: Row) -> Iterator[dict[str, Any]]:
    for judgement in judgements(report):
        kind = KINDS[judgement["status"]]
        numbers = judgement["measurement"] or {}
        names = ("value", "low", "high", "n", "hits")
        values = {name: numbers[name] for name in names if numbers.get(name) is not None}
        yield _result(
            rule_id(judgement),
            kind,
            "error" if kind == "fail" else "none",
            judgement["reason"],
            {"judgement": judgement["rule"], "limit": judgement["limit"], **values},
            judgement["rule"],
            judged_name(judgement),
        )


def _finding_results(report: Row) -> Iterator[dict[str, Any]]:
    rows = {f"{row['plugin']} {row['metric']}": row for row in report["measurements"]}
    for finding in report["findings"]:
        row = rows.get(finding["measurement"])
        rule = _of_row(row) if row else _of_class("")
        if is_accusation(finding["label"], finding["measurement"]):
            rule = "FA-ATTRIBUTION"
        yield _result(
            rule,
            "fail",
            LEVELS[finding["severity"]],
            f"{finding['label']} ({finding['severity']}), by {finding['measurement']}",
            {"id": finding["id"], "severity": finding["severity"], "label": finding["label"]},
            "finding",
            finding["measurement"],
            finding["label"],
            *finding_identity(finding),
        )


def _not_run(report: Row) -> Iterator[dict[str, Any]]:
    for entry in report.get("coverage", ()):
        if entry["status"] != "run":
            kind, rule = NOT_RUN[entry["status"]], _of_class(entry["class"])
            title = f"{entry['class'].replace('_', ' ')}: {entry['status'].replace('_', ' ')}"
            text = f"{title}: {entry['reason']}"
            yield _result(rule, kind, "none", text, {"edpb": entry["edpb"]}, "coverage", rule)


def _unsearched(report: Row) -> Iterator[dict[str, Any]]:
    """Yield an open result for each sentence on clients' records that were not looked for."""
    for text in unsearched_records(report):
        yield _result("FA-AUDIT", "open", "none", text, {}, "unsearched", text)


def _result(
    rule: str, kind: str, level: str, text: str, properties: Mapping[str, Any], *identity: str
) -> dict[str, Any]:
    """Return a result whose fingerprint has no number or seed, so that it is stable over runs."""
    digest = hashlib.sha256(make_visible("\n".join((rule, *identity))).encode()).hexdigest()
    return {
        "ruleId": rule,
        "kind": kind,
        "level": level,
        "message": {"text": text},
        "partialFingerprints": {FINGERPRINT: digest},
        "properties": dict(properties),
    }


def _harmless(text: str) -> str:
    """Return a text without hidden characters or a link, in whichever viewer."""
    return make_visible(text).replace("](", "] (")


def _location(report: Row) -> dict[str, Any]:
    """Return the audited file as a relative path: the last part of an absolute path."""
    target = report["target"]
    path = Path(target["adapter"]) if target["adapter"] else None
    if path is None:
        return {"logicalLocations": [{"name": target["base"] or "model"}]}
    parts = path.parts[-3:] if path.is_absolute() else path.parts
    uri = "/".join(part for part in parts if part not in ("/", "..", "."))
    encoded = quote(make_visible(f"{uri}/adapter_model.safetensors"))
    # A file of weights has no lines, but viewers of code show no result without one.
    place = {"artifactLocation": {"uri": encoded}, "region": {"startLine": 1}}
    return {"physicalLocation": place}
