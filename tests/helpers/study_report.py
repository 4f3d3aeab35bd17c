"""The report of an audit within a study, with the rows that a test gives it."""

from datetime import UTC, datetime

from fedaudit.report.run_header import build_report


def study_report(*rows):
    return build_report(
        command="extract",
        name="x",
        config={"attacks": {}},
        started=datetime.now(UTC),
        base="b",
        environment={},
        data=[],
        seeds={},
        measurements=list(rows),
    )
