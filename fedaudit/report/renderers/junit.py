"""A report as JUnit XML, for CI: a test case for each judgement and each class not run.

A judgement that fails is a failure, an inconclusive one is an error (the audit could not have seen
the leak), and a class of attacks that was not run, or does not apply, is skipped. A verdict that
does not follow from its measurements is an error of its own.
"""

from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.renderers.sarif import rule_id
from fedaudit.report.tables.assessment import judged_name
from fedaudit.report.verdict.recheck import judgements, recheck

TAGS = {"fail": "failure", "inconclusive": "error", "pass": ""}


def render(report: Row) -> str:
    """Return a valid report's document as one test suite; names of cases contain no numbers."""
    cases = list(_cases(report))
    counts = Counter(child.tag for case in cases for child in case)
    suite = Element(
        "testsuite",
        name="fedaudit",
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{report['budget']['seconds'] or 0:.1f}",
        timestamp=report["run"]["started"],
    )
    suite.extend(cases)
    suites = Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}\n{ElementTree.tostring(suites, 'unicode')}\n"


def _cases(report: Row) -> Iterator[Element]:
    counts = Counter[str]()
    if report["status"] != "success":
        case = _case("run", "finished")
        SubElement(case, "error", message="The audit did not finish.")
        yield case
    checked = recheck(report)
    if not checked.holds:
        case = _case("run", "verdict follows from measurements")
        SubElement(case, "error", message=make_visible(checked.message))
        yield case
    for judgement in judgements(report):
        name = f"{judgement['rule']}: {judged_name(judgement)}"
        counts[name] += 1
        case = _case(rule_id(judgement), name if counts[name] == 1 else f"{name} ({counts[name]})")
        if tag := TAGS[judgement["status"]]:
            reason = make_visible(judgement["reason"])
            child = SubElement(case, tag, message=reason, type=judgement["status"])
            child.text = make_visible(f"{judgement['reason']} Limit: {judgement['limit']}.")
        yield case
    for row in report.get("coverage", ()):
        if row["status"] != "run":
            case = _case("coverage", row["class"].replace("_", " "))
            SubElement(case, "skipped", message=make_visible(row["reason"]))
            yield case


def _case(rule: str, name: str) -> Element:
    return Element("testcase", classname=f"fedaudit.{rule}", name=make_visible(name))
