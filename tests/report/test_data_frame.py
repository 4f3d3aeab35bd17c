"""Measurements as flat rows and as a data frame: the report's numbers, none lost or rounded."""

import sys

import pytest
from example_report import example, number

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement


def test_rows_are_the_measurements_with_scopes_as_columns():
    report = example()
    rows, written = report.rows(), report.to_json()["measurements"]
    assert len(rows) == len(written)
    for flat, row in zip(rows, written, strict=True):
        assert flat["value"] == row["value"]
        scope = {key[6:]: v for key, v in flat.items() if key.startswith("scope.")}
        assert {key: v for key, v in scope.items() if v is not None} == row["scope"]
    assert len({tuple(row) for row in rows}) == 1


def test_a_frame_has_the_same_numbers_and_knows_what_is_not_there():
    missing = Measurement.missing("nobody asked", kind="extraction", plugin="contextual",
                                  metric="coverage", scope={"source": "base"})  # fmt: skip
    report = example(measurements=[number("cost", "x", "seconds", 0.1 + 0.2), missing])
    frame = report.frame()
    assert frame["value"].tolist()[0] == 0.30000000000000004
    assert frame["value"].isna().tolist() == [False, True]
    assert str(frame["n"].dtype) == "Int64"
    assert frame["reason"].tolist() == ["", "nobody asked"]
    assert list(frame.columns) == list(report.rows()[0])


def test_a_report_without_measurements_has_an_empty_frame_with_its_columns():
    frame = example(measurements=[], findings=[]).frame()
    assert len(frame) == 0
    assert "value" in frame.columns


def test_without_pandas_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"pip install pandas, or take rows\(\)"):
        example().frame()
    assert example().rows()
