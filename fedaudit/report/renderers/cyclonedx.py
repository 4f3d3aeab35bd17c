"""A report as CycloneDX 1.6: the model, and `declarations` that carry the assessor's checklist.

Questions become requirements, their statements claims, measurements evidence, and measurements
that failed the policy counter-evidence. Names (`bom-ref`) contain no number and no seed, so they
are the same in the next run. Affirmation and signature are left to a person.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

from fedaudit import __version__
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.answer import result
from fedaudit.report.checklist.attackers import headline_totals
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.questions import RESISTANCE, AssessedClaim, claims, questions
from fedaudit.report.checklist.validity import NOT_OWNED, ReportOwner
from fedaudit.report.comparison import row_key
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible, map_texts
from fedaudit.report.tables.assessment import judged_name
from fedaudit.report.verdict.recheck import JudgedReport

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:fedaudit:cyclonedx")
MODEL, ASSESSOR, STANDARD = "model", "assessor", "standard"
FINDINGS = "evidence:findings"


def render(report: Row, owned: ReportOwner = NOT_OWNED) -> str:
    """Return a valid report's document as one bill of materials with declarations."""
    report = JudgedReport(report)
    run, target = report["run"], report["target"]
    serial = uuid.uuid5(NAMESPACE, make_visible(f"{run['id']} {target['sha256']}"))
    assessments = claims(report)
    document = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": run["finished"] or run["started"],
            "tools": {
                "components": [{"type": "application", "name": "fedaudit", "version": __version__}]
            },
        },
        "components": [_model(report), *_data(report)],
        "definitions": {"standards": [_standard(report)]},
        "declarations": {
            "assessors": [_assessor(report, owned)],
            "attestations": [_attestation(report, assessments)],
            "claims": [_claim(assessment) for assessment in assessments],
            "evidence": list(_evidence(report, assessments, owned).values()),
        },
    }
    return json.dumps(map_texts(document, make_visible), indent=2, allow_nan=False) + "\n"


def _model(report: Row) -> dict[str, Any]:
    """Return the model that was audited with its digests, its base and what was measured."""
    target = report["target"]
    component = {
        "type": "machine-learning-model",
        "name": target["adapter"] or target["base"] or MODEL,
    }
    base = {"type": "machine-learning-model", "name": target["base"] or "unknown"}
    model: dict[str, Any] = {**component, "bom-ref": MODEL, **_hashes(target["sha256"])}
    if target["adapter"]:
        model["pedigree"] = {"ancestors": [{**base, **_hashes(target.get("base_sha256"))}]}
    model["modelCard"] = {
        "quantitativeAnalysis": {
            "performanceMetrics": [_metric(r) for r in headline_totals(report)]
        },
        "considerations": {
            "technicalLimitations": list(dict.fromkeys([*report["limits"], RESISTANCE])),
            "ethicalConsiderations": [
                {"name": m.basis, "mitigationStrategy": m.action} for m in measures(report)
            ],
        },
    }
    return model


def _hashes(digest: str | None) -> dict[str, Any]:
    return {"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {}


def _metric(row: Row) -> dict[str, Any]:
    metric = {"type": f"{row['plugin']} {row['metric']}", "value": str(row["value"])}
    where = ", ".join(f"{key} {value}" for key, value in sorted(row["scope"].items()))
    if row["low"] is not None and row["high"] is not None:
        interval = {"lowerBound": str(row["low"]), "upperBound": str(row["high"])}
        return {**metric, "slice": where, "confidenceInterval": interval}
    return {**metric, "slice": where}


def _data(report: Row) -> Iterator[dict[str, Any]]:
    """Yield the files of records, once each, without their content."""
    for digest, path in {file["sha256"]: file["path"] for file in report["data"]}.items():
        yield {"type": "data", "name": path, "bom-ref": f"data:{digest[:16]}", **_hashes(digest)}


def _standard(report: Row) -> dict[str, Any]:
    return {
        "bom-ref": STANDARD,
        "name": "What assessors of data protection ask about tests of a model",
        "version": "1",
        "description": "Drawn from EDPB Opinion 28/2024, NIST AI 100-2 and SP 800-226.",
        "owner": "fedaudit",
        "requirements": [
            {
                "bom-ref": f"requirement:{question.name}",
                "identifier": question.name,
                "title": question.text,
                "text": question.text,
                "descriptions": [question.source],
            }
            for question in questions(report)
        ],
    }


def _assessor(report: Row, owned: ReportOwner) -> dict[str, Any]:
    declared = (report.get("context") or {}).get("declared_by")
    name = owned.owner or declared or "not declared"
    return {"bom-ref": ASSESSOR, "thirdParty": False, "organization": {"name": name}}


def _attestation(report: Row, assessments: list[AssessedClaim]) -> dict[str, Any]:
    status = report["verdict"]["status"]
    return {
        "summary": f"Verdict of the tests: {status}. {RESISTANCE}",
        "assessor": ASSESSOR,
        "map": [
            {
                "requirement": f"requirement:{assessment.item.name}",
                "claims": [f"claim:{assessment.item.name}"],
                "conformance": _conformance(assessment),
            }
            for assessment in assessments
        ],
    }


def _conformance(assessment: AssessedClaim) -> dict[str, Any]:
    """Return the score with its reason; if the report cannot tell, the reason alone."""
    rationale = {"rationale": f"{assessment.answer.status}: {assessment.answer.text}"}
    return rationale if assessment.score is None else {"score": assessment.score, **rationale}


def _claim(assessment: AssessedClaim) -> dict[str, Any]:
    """Return a claim; rows that failed the policy are evidence against it, others for it."""
    judged = [
        (j["status"], _ref(j["measurement"])) for j in assessment.judgements if j["measurement"]
    ]
    against = {ref for status, ref in judged if status == "fail"}
    refs = dict.fromkeys([*(ref for _, ref in judged), *map(_ref, assessment.answer.rows)])
    finding_refs = [FINDINGS] if assessment.item.number == 13 else []
    claim: dict[str, Any] = {
        "bom-ref": f"claim:{assessment.item.name}",
        "target": MODEL,
        "predicate": assessment.statement,
        "reasoning": assessment.answer.text,
    }
    if for_it := [*(ref for ref in refs if ref not in against), *finding_refs]:
        claim["evidence"] = for_it
    if against:
        claim["counterEvidence"] = sorted(against)
    return claim


def _evidence(report: Row, assessments: list[AssessedClaim], owned: ReportOwner) -> dict[str, Any]:
    """Return every measurement that a claim rests on, by name, and the masked findings."""
    evidence: dict[str, dict[str, Any]] = {}
    for assessment in assessments:
        for judgement in assessment.judgements:
            if row := judgement["measurement"]:
                limit = f"{judgement['status']}: {judgement['reason']} Limit: {judgement['limit']}."
                evidence[_ref(row)] = _item(report, owned, row, limit)
        for row in assessment.answer.rows:
            evidence.setdefault(_ref(row), _item(report, owned, row, result(row)))
    counts = leaks.severity(report)
    listed = [dict(zip(counts.columns, row, strict=True)) for row in counts.rows]
    evidence[FINDINGS] = {
        "bom-ref": FINDINGS,
        "propertyName": "fedaudit:findings",
        "description": "Findings by kind and severity; texts are masked in the report.",
        **_contents("findings", listed),
        **_dates(report, owned),
    }
    return evidence


def _item(report: Row, owned: ReportOwner, row: Row, text: str) -> dict[str, Any]:
    name = judged_name({"rule": "", "measurement": row})
    return {
        "bom-ref": _ref(row),
        "propertyName": f"fedaudit:{row['kind']}:{row['metric']}",
        "description": f"{name}: {text}",
        **_contents("measurement", row),
        **_dates(report, owned),
    }


def _contents(name: str, value: object) -> dict[str, Any]:
    text = json.dumps(map_texts(value, make_visible), sort_keys=True, allow_nan=False)
    attachment = {"contentType": "application/json", "content": text}
    return {"data": [{"name": name, "contents": {"attachment": attachment}}]}


def _dates(report: Row, owned: ReportOwner) -> dict[str, str]:
    created = {"created": report["run"]["finished"] or report["run"]["started"]}
    if owned.expires is None:
        return created
    return {**created, "expires": f"{owned.expires}T23:59:59Z"}


def _ref(row: Row) -> str:
    """Return a measurement's name, made from what was measured and not from the value."""
    digest = hashlib.sha256(make_visible("\n".join(row_key(row))).encode()).hexdigest()
    return f"evidence:{digest[:16]}"
