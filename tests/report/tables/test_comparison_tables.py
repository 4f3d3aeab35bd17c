"""Where the lines of a comparison stand that its tables have no room for."""

from fedaudit.report.baseline import BaselineComparison
from fedaudit.report.comparison import LeakChange, ReportComparison
from fedaudit.report.tables.comparison import baseline_tables, comparison_tables


def test_what_a_comparison_cuts_is_said_to_be_where_it_is():
    counts = {"measurement": "contextual coverage", "appeared": 1, "went": 0, "stayed": 0}
    changes = [LeakChange(**counts, label=f"KIND_{i}", p=1.0) for i in range(43)]
    compared = ReportComparison(differences=[], leaks=changes, notes=[])
    (leaks,) = comparison_tables(compared)
    assert (len(leaks.rows), leaks.notes[-1]) == (40, "and 3 more with --json FILE")

    gate = BaselineComparison(status="fail", reasons=[], leaks=changes[:32], numbers=[], notes=[])
    (leaks,) = baseline_tables(gate)
    told = "and 2 more in baseline.json (of compare: with --json FILE)"
    assert (len(leaks.rows), leaks.notes[-1]) == (30, told)
