"""The verdict on canaries: every status by hand, and what a report shows of them."""

from io import StringIO

import pytest
from example_report import example
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.kinds.exposure import Exposure
from fedaudit.report.renderers import terminal
from fedaudit.report.verdict.criteria import DEFAULT
from fedaudit.report.verdict.policy import verdict


def judge(rows):
    return Exposure().judge(rows, DEFAULT)


ROW = {"kind": "exposure", "plugin": "canary"}


def group(times, hits, n, p, source="tuned", size=1000):
    scope = {"source": source, "times": times, "space": size, "estimator": "exact"}
    return [
        Measurement(**ROW, metric="exposure", value=2.0, low=1.0, high=3.0, n=n, chance=1.43,
                    scope=scope),
        Measurement.rate(hits, n, **ROW, metric="maximal_exposure", scope=scope, chance=1 / size),
        Measurement(**ROW, metric="p_value", value=p, n=n, scope=scope),
    ]  # fmt: skip


CONTROLS = group(0, 0, 100, 0.5)


def statuses(*groups):
    return [status for status, *_ in judge([r for some in groups for r in some])]


def test_secrets_far_above_chance_fail():
    assert statuses(CONTROLS, group(16, 0, 4, 1e-6)) == ["fail"]
    # Two of four at 1/1000 each: 6 / 10^6 by the binomial law, whatever the other test says.
    assert statuses(CONTROLS, group(16, 2, 4, 0.9)) == ["fail"]
    [(_, reason, *_)] = judge(group(16, 2, 4, 0.9))
    assert "(p = 1.2e-05)" in reason  # Holm: twice that, of two tests
    assert "planted 16 times each" in reason


def test_holm_counts_the_tests_of_all_multiplicities():
    # 0.004 is the smallest of four p values: 0.016 is above 0.01, of two 0.008 is not.
    assert statuses(group(1, 0, 4, 0.004)) == ["fail"]
    assert "fail" not in statuses(group(1, 0, 4, 0.004), group(4, 0, 4, 0.5))


def test_few_secrets_are_inconclusive_and_many_pass():
    assert statuses(CONTROLS, group(1, 0, 4, 0.5)) == ["inconclusive"]  # at most 49 %
    assert statuses(CONTROLS, group(1, 0, 50, 0.5)) == ["pass"]  # at most 7.1 %
    assert statuses(CONTROLS, group(1, 0, 50, 0.5), group(4, 0, 4, 0.5)) == ["pass", "inconclusive"]


def test_exposed_controls_leave_everything_open():
    [(status, reason, *_)] = judge([*group(0, 9, 100, 1e-5), *group(16, 4, 4, 1e-9)])
    assert status == "inconclusive"
    assert "nobody was given are exposed" in reason


def test_the_base_and_controls_alone_are_not_judged():
    assert statuses(CONTROLS, group(16, 4, 4, 1e-9, source="base")) == []
    missing = Measurement.missing("too long", **ROW, metric="maximal_exposure",
                                  scope={"source": "tuned", "times": 1})  # fmt: skip
    assert statuses([missing]) == ["inconclusive"]


@pytest.mark.parametrize(("hits", "p", "status"), [(4, 1e-9, "fail"), (0, 0.5, "inconclusive")])
def test_it_is_the_verdict_of_a_report_and_shown(hits, p, status):
    some = [*CONTROLS, *group(16, hits, 4, p), *group(16, 0, 4, 0.5, source="base")]
    assert verdict(some, ())["status"] == status
    file = StringIO()
    terminal.render(example(measurements=some).to_json(), Console(file=file, width=100))
    shown = file.getvalue()
    assert "Exposure of canaries" in shown
    assert "never" in shown
    assert "16x" in shown
    assert f"{hits} / 4" in shown
    assert "Other measurements" not in shown
