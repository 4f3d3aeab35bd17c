"""A study of memorization: a variant's table, pooled seeds, claims on what was measured."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.audit.session import run_audit
from fedaudit.config.profile import parse
from fedaudit.report.document import write
from fedaudit.reproduction import variant as variants
from fedaudit.reproduction.claims import check_claims
from fedaudit.reproduction.pooling import average_ratios, pool_counts

SELECT = {"variant": "both", "metric": "mr_total"}
PROFILE = {
    "name": "small",
    "scale": {
        "nano": {
            "clients": 2,
            "rounds": 1,
            "central": True,
            "workers": 1,
            "evaluated": 0,
            "device": "cpu",
            "records": {"cases": 3, "documents_per_case": 4},
            "training": {"steps": 2, "learning_rate": 5e-3, "max_length": 48},
        }
    },
    "study": [
        {
            "name": f"seed {seed}",
            "pool": "both",
            "simulate": {"seed": seed},
            "memorize": {"sample": 6, "prefix_length": 6, "new_tokens": 12, "central": True},
        }
        for seed in (0, 1)
    ],
    "claims": [
        {
            "id": "bounded",
            "source": "nowhere",
            "statement": "No more than all prefixes draw something.",
            "left": {**SELECT, "scope": {"source": "tuned", "category": "all"}},
            "compare": "<=",
            "right": 1.0,
        }
    ],
}


def studied(place, jobs, heard):
    from fedaudit.report.redaction import Redactor
    from fedaudit.reproduction.runner import run_study
    from fedaudit.reproduction.variant import Watch

    return run_study(
        parse(PROFILE),
        "nano",
        quick=False,
        settings={},
        federations=place / "federations",
        redactor=Redactor(bytes(32)),
        watch=Watch(
            variant=lambda *told: heard.append(told),
            training=lambda event: None,
            bar=lambda title: lambda *at: heard.append((title, *at)),
        ),
        jobs=jobs,
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return studied(tmp_path_factory.mktemp("study"), 1, [])


def test_several_variants_at_a_time_measure_the_same(found, tmp_path):
    heard = []
    several = studied(tmp_path, 2, heard)
    assert several.measurements == found.measurements
    assert several.findings == found.findings
    assert several.claims == found.claims
    assert several.figures == found.figures
    assert several.limits == found.limits
    assert [path.name for path in several.federations] == [path.name for path in found.federations]
    assert heard == [
        ("seed 0", 1, 2),
        ("seed 1", 2, 2),
        ("variants", 1, 2),
        ("variants", 2, 2),
    ]


def test_a_study_measures_memorization_and_pools_it(found):
    [claim] = found.claims
    assert claim.holds
    total = [
        r for r in found.measurements if r.metric == "mr_total" and r.scope["category"] == "all"
    ]
    told = {(r.scope["variant"], r.scope["source"]): r for r in total}
    assert told.keys() == {
        (variant, source)
        for variant in ("seed 0", "seed 1", "both")
        for source in ("tuned", "base", "central")
    }
    seeds = [told[f"seed {seed}", "tuned"] for seed in (0, 1)]
    both = told["both", "tuned"]
    assert (both.hits, both.n) == (sum(r.hits for r in seeds), sum(r.n for r in seeds))
    assert both.n >= 12
    intra = [
        r for r in found.measurements if r.metric == "mr_intra" and r.scope["variant"] == "both"
    ]
    assert len(intra) == 9
    assert any("Paraphrases were not looked for" in limit for limit in found.limits)
    json.dumps([str(path) for path in found.federations])


def test_a_variant_whose_texts_are_too_short_is_told_and_ends_nothing(federation, small, tmp_path):
    table = {"name": "long", "memorize": {"prefix_length": 300}}
    variant = parse({**PROFILE, "study": [table], "claims": []}).study[0]
    config = replace(small, device="cpu")
    run = partial(run_audit, redactor=None)
    [report] = variants.measure_memorization(variant, federation.path, config, run)
    why = "no client has a text of at least 320 tokens"
    assert [(row.metric, row.value, row.n, row.reason) for row in report.measurements] == [
        (metric, None, 0, why) for metric in ("mr_total", "mr_intra", "mr_inter")
    ]
    for row in report.measurements:
        assert row.scope["prefix_length"] == 300
        assert (row.scope["source"], row.scope["category"]) == ("tuned", "all")
    [limit] = report.limits
    assert limit.startswith("Variant 'long' was not measured. No client has a text of at least 320")
    claim = {**PROFILE["claims"][0], "left": {**SELECT, "variant": "long"}}
    profile = parse({**PROFILE, "study": [table], "claims": [claim]})
    [found] = check_claims(profile, {"long": report.measurements})
    assert (found.holds, found.detail) == (None, f"not measured: {why}")
    write(report, tmp_path / "report.json")  # valid by the schema


def test_a_variant_without_the_table_measures_nothing():
    variant = parse({**PROFILE, "study": [{"name": "none"}], "claims": []}).study[0]
    assert variant.memorize is None
    assert list(variants.measure_memorization(variant, Path("nowhere"), None, None)) == []


def test_a_wrong_option_is_named_with_the_nearest(federation, small):
    table = {"name": "a", "memorize": {"prefix_lenght": 3}}
    variant = parse({**PROFILE, "study": [table], "claims": []}).study[0]
    with pytest.raises(UsageError, match=r"variant a memorize.*Did you mean 'prefix_length'"):
        list(variants.measure_memorization(variant, federation.path, small, None))


def ratio(value, low, high, n, variant, *, metric="mr_inter", reason=""):
    return Measurement(
        kind="memorization",
        plugin="memorize",
        metric=metric,
        value=value,
        low=low,
        high=high,
        n=n,
        baseline=None if value is None else 0.0,
        reason=reason,
        scope={"source": "tuned", "variant": variant},
    )


def test_means_are_weighted_by_n_and_their_errors_add_as_independent_ones():
    rows = [ratio(0.2, 0.1, 0.5, 100, "a"), ratio(0.6, 0.5, 0.7, 300, "b")]
    [one] = average_ratios(rows, "variant", "both")
    # 0.25 * 0.2 + 0.75 * 0.6; below: sqrt(0.025^2 + 0.075^2); above: the same of 0.075 and 0.075
    assert one.value == pytest.approx(0.5)
    assert one.low == pytest.approx(0.5 - 0.00625**0.5)
    assert one.high == pytest.approx(0.5 + 0.01125**0.5)
    assert (one.n, one.hits, one.baseline) == (400, None, 0.0)
    assert one.scope == {"source": "tuned", "variant": "both"}
    assert average_ratios(rows[::-1], "variant", "both")[0].value == pytest.approx(0.5)
    assert pool_counts(rows, "variant", "both") == []


def test_the_mean_of_what_was_not_measured_is_none():
    rows = [ratio(0.2, 0.1, 0.5, 100, "a"), ratio(None, None, None, 0, "b", reason="one client")]
    [one] = average_ratios(rows, "variant", "both")
    assert (one.value, one.reason) == (None, "one client")


def test_bounds_stay_shares():
    rows = [ratio(0.0, 0.0, 0.9, 5, "a"), ratio(1.0, 0.2, 1.0, 5, "b", metric="mr_intra")]
    for one in average_ratios(rows, "variant", "both"):
        assert 0 <= one.low <= one.value <= one.high <= 1


@pytest.mark.parametrize(
    ("table", "adapter", "number"),
    [
        ({}, None, None),
        ({"round": 1}, None, 1),
        ({"model": "central"}, "central/002", None),
    ],
)
def test_what_is_measured_is_the_variants_to_say(federation, small, table, adapter, number):
    asked = []
    variant = parse({**PROFILE, "study": [{"name": "a", "memorize": {}, **table}], "claims": []})

    def run(request):
        asked.append(request)
        return Done()

    assert list(variants.measure_memorization(variant.study[0], federation.path, small, run)) == [0]
    [request] = asked
    assert request.adapter == (adapter and str(federation.path / adapter))
    assert request.round == number
    assert [client.name for client in request.clients] == ["c0", "c1"]
    assert request.protocol.sample == 4000


class Done:
    report = 0
