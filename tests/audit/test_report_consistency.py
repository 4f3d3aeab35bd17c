"""Parts of a report that other parts determine, recomputed."""

from dataclasses import asdict

import pytest

from fedaudit.api.records import Measurement
from fedaudit.audit.consistency import consistency_checks


def share(hits, n, **scope):
    return Measurement.rate(
        hits, n, kind="extraction", plugin="contextual", metric="coverage", scope=scope
    )


ROWS = [
    share(3, 40, source="tuned-not-base"),
    share(2, 30, source="tuned-not-base", label="PERSON"),
    share(1, 10, source="tuned-not-base", label="EMAIL_ADDRESS"),
    share(0, 40, source="base"),
]


def finding(label):
    return {"label": label, "measurement": "contextual coverage"}


def report(**changes):
    labels = ("PERSON", "PERSON", "EMAIL_ADDRESS")
    made = {"measurements": [asdict(row) for row in ROWS], "findings": [*map(finding, labels)]}
    return made | changes


def checks(made):
    return {check.kind: (check.state, check.why) for check in consistency_checks(made)}


def test_what_was_measured_is_the_same():
    assert checks(report()) == {"shares": ("same", ""), "findings": ("same", "")}
    assert checks(report(measurements=[], findings=[])) == {}


@pytest.mark.parametrize(
    ("place", "change", "why"),
    [
        (0, {"value": 0.0}, "contextual coverage is 0, and 3 of 40 are 0.075"),
        (0, {"n": 400}, "contextual coverage is 0.075, and 3 of 400 are 0.0075"),
        (
            0,
            {"low": 0.0, "high": 0.001},
            "the interval of contextual coverage, 0 to 0.001, does not hold its 0.075",
        ),
        # Wilson's interval of none of 40 ends at z^2 / (40 + z^2), z = 1.96.
        (
            3,
            {"high": 0.001},
            "the interval of contextual coverage ends at 0.001, that of 0 of 40 at 0.08762",
        ),
    ],
)
def test_a_share_that_its_counts_contradict_differs(place, change, why):
    made = report()
    made["measurements"][place] |= change
    assert checks(made)["shares"] == ("differs", why)


def test_a_computed_share_has_no_counts_to_be_checked_by():
    made = report()
    for row in made["measurements"]:
        row.update(hits=None, value=0.5)
    assert checks(made) == {"findings": ("same", "")}


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("PERSON", "contextual coverage has 4 findings, and its rows 3 hits; and 1 more"),
        ("HEALTH", "contextual coverage has 4 findings, and its rows 3 hits; and 1 more"),
    ],
)
def test_findings_beyond_the_hits_differ(label, why):
    made = report()
    made["findings"].append(finding(label))
    assert checks(made)["findings"] == ("differs", why)


def test_a_finding_of_a_kind_without_a_hit_differs():
    made = report()
    made["findings"][0]["label"] = "HEALTH"
    why = "contextual coverage has 1 findings of the kind HEALTH, and its rows 0 hits"
    assert checks(made)["findings"] == ("differs", why)


def change(mean, by=None):
    estimates = [None if v is None else {"value": v, "low": v - 0.1, "high": v + 0.1}
                 for v in (mean, by)]  # fmt: skip
    return dict(zip(("mean", "difference"), estimates, strict=True))


def defence(name, *leaks, reason=""):
    costs = dict.fromkeys(("loss", "seconds", "tokens", "bytes", "flops"))
    return {"defense": name, "reason": reason, "leaks": list(leaks), **costs}


def tried(dp):
    """Return a table in which scrubbing brings the leak down by 40 points, and dp by `dp`."""
    return [
        defence("none", {"attack": "contextual", **change(0.5)}),
        defence("scrub", {"attack": "contextual", **change(0.1, -0.4)}),
        defence("dp", {"attack": "contextual", **change(0.5 + dp, dp)}),
    ]


SAYS = [
    "To be tried first: scrub. It lowered what contextual prefixes draw out for sure.",
    "scrub would have brought what contextual prefixes draw out from 50.0 % [40.0, 60.0] to 10.0 % "
    "[0.0, 20.0]; what it does to held-out loss was not measured.",
    "dp would have raised what contextual prefixes draw out from 50.0 % [40.0, 60.0] to 70.0 % "
    "[60.0, 80.0]; what it does to held-out loss was not measured.",
]


def of_defences(rows, says):
    return checks(report(defenses={"tried": rows, "recommendations": says}))["defences"]


def test_recommended_is_what_the_table_of_defences_recommends():
    assert of_defences(tried(0.2), SAYS) == ("same", "")
    assert of_defences(tried(0.2), ["To be tried first: dp."]) == (
        "differs",
        "the recommendations do not follow from the table of defences",
    )
    rows = tried(0.2)
    rows[2]["leaks"][0]["difference"] = None
    assert of_defences(rows, SAYS)[0] == "differs"


def test_without_a_number_to_compare_with_nothing_is_recommended():
    rows = [defence("none", reason="seed 1: it ended."), defence("dp", reason="not measured")]
    said = "Training again without a defence gave no number: seed 1: it ended."
    assert of_defences(rows, [said]) == ("same", "")
    assert of_defences(rows, ["To be tried first: dp."])[0] == "differs"
