import math
from dataclasses import replace

import numpy as np
import pytest
import worked
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.errors import ResultError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.watermark import Score
from fedaudit.config import registry
from fedaudit.extraction.scoring import ScoredResult
from fedaudit.report import result_contract
from fedaudit.report.document import schema_violation, to_plain

ROW = Measurement(kind="own_kind", plugin="mine", metric="own_metric", value=1.0)
RATE = replace(ROW, metric="coverage", value=0.5, low=0.1, high=0.9, n=10, hits=5)
LEAK = Finding(id="a", severity="high", label="X", measurement="m", evidence={"text": "Ann Lee"})


def refused(result, *says):
    with pytest.raises(ResultError) as error:
        result_contract.check_result("mine", result)
    line = str(error.value)
    assert line.startswith("The plugin mine returned what no report can hold: ")
    assert "\n" not in line
    assert "Ann Lee" not in line
    assert all(word in line for word in says), line
    assert error.value.exit_code == 70


def rows(**changes):
    return Result(measurements=(RATE, replace(RATE, **changes)))


def leaks(**changes):
    return Result(findings=(LEAK, replace(LEAK, **{"id": "b", **changes})))


def test_a_good_result_is_itself():
    result = Result(measurements=(ROW, RATE), findings=(LEAK,), limits=("None.",))
    assert result_contract.check_result("mine", result) == result


def test_what_our_own_attacks_return_is_good():
    attack = registry.create("attack", "contextual", {"context": 3, "samples": 2})
    result = attack.run(worked.case())
    assert len(result.findings) > 1
    found = result_contract.check_result(attack.name, result)
    assert isinstance(found, ScoredResult)
    assert found == result


@pytest.mark.parametrize("result", [None, "Ann Lee", {"limits": ()}, Result, [Result()]])
def test_a_result_that_is_none(result):
    refused(result, "in place of a Result")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"severity": "critical"}, ["severity of finding 2", "high, medium, low, unverified"]),
        ({"severity": ["high"]}, ["severity of finding 2"]),
        ({"id": ""}, ["the id of finding 2"]),
        ({"id": 3}, ["the id of finding 2"]),
        ({"id": "a"}, ["two findings have one id"]),
        ({"label": None}, ["the label of finding 2"]),
        ({"evidence": ["Ann Lee"]}, ["the evidence of finding 2"]),
        ({"evidence": {"Ann Lee": {1, 2}}}, ["the evidence of finding 2", "field 1"]),
        ({"evidence": {"a": b"Ann Lee"}}, ["field 1"]),
        ({"evidence": {"a": 1, "b": [math.nan]}}, ["field 2", "not finite"]),
        ({"evidence": {"a": -math.inf}}, ["not finite"]),
        ({"evidence": {3: "x"}}, ["a field of the evidence"]),
        ({"evidence": {"text": ["Ann Lee"]}}, ["'text' of finding 2 is not text"]),
        ({"evidence": {"hmac": "x"}}, ["'hmac'"]),
        ({"evidence": {"a": 10**5000}}, ["field 1"]),
        ({"safe": "text"}, ["no set of names"]),
        ({"safe": ("text",)}, ["declares 'text' safe"]),
        ({"safe": (3,)}, ["what is safe of finding 2"]),
    ],
)
def test_a_wrong_finding(changes, says):
    refused(leaks(**changes), *says)


def test_evidence_that_holds_itself():
    evidence = {}
    evidence["a"] = evidence
    refused(leaks(evidence=evidence), "field 1")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metric": "Ann Lee"}, ["the metric of measurement 2", "lower-case"]),
        ({"metric": "x\n"}, ["the metric of measurement 2"]),
        ({"kind": "Own"}, ["the kind of measurement 2"]),
        ({"kind": None}, ["the kind of measurement 2"]),
        ({"value": math.nan}, ["measurement 2 (coverage): value", "not finite"]),
        ({"value": "0.5"}, ["measurement 2 (coverage): value"]),
        ({"value": True}, ["value"]),
        ({"value": 1.5}, ["measurement 2 (coverage): value"]),
        ({"value": None}, ["measurement 2 (coverage): reason"]),
        ({"value": None, "reason": " "}, ["no reason"]),
        ({"low": 0.95}, ["low is above high"]),
        ({"low": None}, ["low"]),
        ({"high": math.inf}, ["high", "not finite"]),
        ({"hits": 11}, ["hits is above n"]),
        ({"hits": -1}, ["hits"]),
        ({"n": 9.5}, ["n is not a whole number"]),
        ({"n": None}, ["measurement 2 (coverage): n"]),
        ({"scope": ["Ann Lee"]}, ["scope"]),
        ({"scope": {"who": {"Ann Lee"}}}, ["scope holds what JSON does not have"]),
        ({"scope": {"source": "Ann Lee"}}, ["scope.source"]),
        ({"plugin": ""}, ["measurement 2"]),
    ],
)
def test_a_wrong_measurement(changes, says):
    refused(rows(**changes), *says)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (Result(limits="Ann Lee"), "limit"),
        (Result(limits=(3,)), "limits"),
        (Result(limits=("",)), "limits"),
        (Result(findings=({"id": "a"},)), "finding 1 is a dict"),
        (Result(measurements=(LEAK,)), "measurement 1 is a Finding"),
        (Result(measurements=(iter([ROW]))), "measurement"),
        (Result(revealed=({"text": "Ann Lee"},)), "revealed text 1"),
        (Result(revealed=({"id": "a", "text": 3},)), "revealed text 1"),
    ],
)
def test_what_else_is_wrong(result, says):
    refused(result, says)


def test_numbers_of_numpy_become_numbers():
    result = rows(value=np.float32(0.5), n=np.int64(10), scope={"budget": np.int32(7)})
    [_, row] = result_contract.check_result("mine", result).measurements
    assert [type(one) for one in (row.value, row.n, row.scope["budget"])] == [float, int, int]


NUMBERS = st.none() | st.booleans() | st.integers(-2, 12) | st.floats(-1, 2) | st.text(max_size=2)


@given(st.tuples(*[NUMBERS] * 5), st.sampled_from(["coverage", "own"]), st.text(max_size=1))
def test_what_passes_is_what_the_schema_has(numbers, metric, reason):
    value, low, high, n, hits = numbers
    row = replace(
        ROW, metric=metric, value=value, low=low, high=high, n=n, hits=hits, reason=reason
    )
    try:
        [found] = result_contract.check_result("mine", Result(measurements=(row,))).measurements
    except ResultError:
        return
    assert schema_violation(to_plain(found, "row")) == ""
    assert found == row


# attribution

CLEAR = ClientScore(client="c0", flagged=False, z=1.0)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "in place of an AttributionResult"),
        (AttributionResult(clients=({"client": "c0"},)), "client 1 is a dict, no ClientScore"),
        (AttributionResult(clients=(CLEAR, replace(CLEAR, z=math.nan))), "client 2: z"),
        (AttributionResult(clients=(replace(CLEAR, score="high"),)), "client 1: score"),
        (AttributionResult(clients=(replace(CLEAR, client=""),)), "client 1"),
        (AttributionResult(clients=(CLEAR,), limits="none"), "limit"),
        (AttributionResult(clients=(), marks={"m": 3}), "mark 1"),
    ],
)
def test_a_wrong_attribution(found, says):
    with pytest.raises(ResultError, match="The plugin mine") as error:
        result_contract.check_attribution("mine", found)
    assert says in str(error.value)


def test_a_good_attribution_is_itself():
    score = Score(z=1.0, p_value=0.2, n=3, hits=1, chance=0.5)
    found = AttributionResult(clients=(CLEAR,), limits=("None.",), marks={"m": score})
    assert result_contract.check_attribution("mine", found) == found
