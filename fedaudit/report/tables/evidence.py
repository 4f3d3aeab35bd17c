"""The table of the tests behind a verdict, and what the audit could have seen."""

from fedaudit.api.kind import Table
from fedaudit.report.number_format import number, percent
from fedaudit.report.query import Row
from fedaudit.report.tables.table import shorten
from fedaudit.report.verdict.leak import LEARNED_LEVEL
from fedaudit.report.verdict.recheck import FINE, RecheckedVerdict, stated_policy

MOST_TESTS = 20


def evidence(report: Row) -> list[Table]:
    """Return the p value of every test, the smallest first; reports without tests have no table."""
    verdict = report["verdict"]
    tests = sorted(verdict.get("tests", ()), key=lambda t: (t["adjusted"], t["p"], t["name"]))
    if not tests:
        return []
    over = f", adjusted for {len(tests):,} tests (Holm)" if len(tests) > 1 else ""
    rule = f"Fails at p = {number(verdict['level'])} or less{over}."
    table = Table(
        title="Evidence",
        columns=("test", "p", "adjusted p"),
        rows=tuple((test["name"], number(test["p"]), number(test["adjusted"])) for test in tests),
        numeric=frozenset({"p", "adjusted p"}),
        notes=tuple(
            filter(None, (rule, detectable_text(report), *_beyond(report), *_shared(report)))
        ),
    )
    return [shorten(table, MOST_TESTS)]


def headline(report: Row, checked: RecheckedVerdict = FINE) -> str:
    """Return the verdict in a few words; a pass says what it would have seen.

    If the verdict does not follow from its measurements, only that is said.
    """
    verdict = report["verdict"]
    if checked.brief:
        return f"{verdict['status']} ({checked.brief})"
    detectable_rate = verdict.get("detectable")
    if verdict["status"] != "pass" or detectable_rate is None:
        return str(verdict["status"])
    return f"pass (a leak of {percent(detectable_rate)} of the targets would have been seen)"


def detectable_text(report: Row) -> str:
    """Return how small a leak would have been seen; "" if that is not stated, or no question."""
    detectable_rate = report["verdict"].get("detectable")
    if detectable_rate is None or report["verdict"]["status"] == "fail":
        return ""  # how small a leak would have been missed is not a question where there is one
    if detectable_rate >= 1:
        return "Too little was looked for, or to compare it with, to see any leak."
    sure = f"with {stated_policy(report).power:.0%} probability"
    text = f"A leak of {percent(detectable_rate)} of the targets would have been seen {sure}."
    learned = [row["value"] for row in report["measurements"] if _is_learned_test(row)]
    if learned and min(learned) <= LEARNED_LEVEL / len(learned):
        text += (
            f" The model has learned strings that may not have come out (p = {min(learned):.1g})."
        )
    return text


def _is_learned_test(row: Row) -> bool:
    """Tell whether a row has the p value that the model has not learned a kind of the targets."""
    of_test = row["metric"] == "p_value" and row["scope"].get("test") == "learned"
    return bool(of_test and row["value"] is not None)


def _shared(report: Row) -> list[str]:
    """Return how many targets each other member has as well, and how many of them came out."""
    notes = (
        f"{row['plugin']}: {row['scope']['member']} has {row['value']:,.0f} of the victim's "
        f"{row['n']:,} strings as well, which were not judged; {row['hits']:,} of them came out of "
        "the tuned model but not of its base."
        for row in report["measurements"]
        if row["metric"] == "shared_targets"
        and "member" in row["scope"]
        and "attacker" not in row["scope"]  # a matrix has a row for each pair and other member
    )
    return list(dict.fromkeys(notes))


def _beyond(report: Row) -> list[str]:
    """Return how many targets of each attack are longer than its answers."""
    notes = (
        f"{row['plugin']}: {row['value']:,.0f} of {row['n']:,} targets are longer than an answer"
        " and were not looked for."
        for row in report["measurements"]
        if row["metric"] == "targets" and row["value"] and "label" not in row["scope"]
    )
    return list(dict.fromkeys(notes))
