"""Claims and figures of a study stand in its page as its report has them."""

import runpy
from pathlib import Path

made = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/study_tables.py"))
PAGE = """before
<!-- claims -->
what was there
<!-- end of claims -->
between
<!-- figures -->
<!-- end of figures -->
after
"""


def report(**config):
    claims = [
        {"id": "a", "statement": "x > y | z", "source": "t. 1", "holds": True, "detail": "2 > 1"},
        {"id": "b", "statement": "y", "source": "t. 2", "holds": False, "detail": "1 > 2"},
        {"id": "c", "statement": "z", "source": "fig. 3", "holds": None, "detail": ""},
    ]
    figures = [
        {"source": "t. 1", "what": "loss", "metric": "loss", "paper": 0.5, "ours": 0.25},
        {"source": "t. 2", "what": "never run", "metric": "loss", "paper": 1.5, "ours": None},
    ]
    config = {"profile": "toy", "scale": "nano", "figures": figures, **config}
    run = {"started": "2026-01-02T03:04:05+00:00", "config": config}
    return {"run": run, "claims": claims, "measurements": []}


def test_claims_and_figures_are_those_of_the_report():
    kept = made["kept_report"](report(quick=True, seeds=[3, 4]))
    page = made["page_with_table"](PAGE, kept)
    assert page.splitlines()[:9] == [
        "before",
        "<!-- claims -->",
        "`fedaudit reproduce toy --quick --seeds 2` (2026-01-02; seeds 3, 4): 1 claims hold, "
        "1 fail, 1 are open.",
        "",
        "| | claim | measured | source |",
        "| --- | --- | --- | --- |",
        "| holds | x &gt; y &#124; z | 2 &gt; 1 | t. 1 |",
        "| **fails** | y | 1 &gt; 2 | t. 2 |",
        "| open | z | - | fig. 3 |",
    ]
    assert "| loss | 0.5 | 0.25 | t. 1 |" in page
    assert "never run" not in page  # what a study did not measure has no row
    assert "what was there" not in page
    assert page.startswith("before")
    assert page.endswith("after\n")
    assert made["page_with_table"](page, kept) == page  # and once is enough


def test_a_study_of_one_seed_says_so():
    page = made["page_with_table"](PAGE, made["kept_report"](report()))
    assert "`fedaudit reproduce toy` (2026-01-02; one seed): 1 claims hold" in page


def test_claims_that_turn_over_with_other_seeds_are_told():
    page = "<!-- other seeds -->\n<!-- end of other seeds -->\n"
    first, again = report(quick=True, seeds=[2, 3]), report(quick=True, seeds=[3, 4])
    written = made["page_with_table"](page, made["kept_report"](first, again))
    told = (
        "With seeds 3, 4 (`fedaudit reproduce toy --quick --seeds 2 --seed 3`) 3 of 3 claims that "
        "both measure come out the same, and none of those that hold or fail turn over. "
        "Seed 3 is in both."
    )
    assert written.splitlines()[1:-1] == [told]
    older = {**again, "claims": again["claims"][:2]}  # from before there was the third
    written = made["page_with_table"](page, made["kept_report"](first, older))
    assert "2 of 2 claims that both measure come out the same" in written
    again["claims"][0]["holds"] = False
    again["claims"][2] |= {"holds": True, "detail": "3 > 1"}
    written = made["page_with_table"](page, made["kept_report"](first, again))
    assert "1 of 3 claims that both measure come out the same, and 1 of those that" in written
    assert written.splitlines()[-3:-1] == [
        "| x &gt; y &#124; z | holds: 2 &gt; 1 | **fails**: 2 &gt; 1 |",
        "| z | open: - | holds: 3 &gt; 1 |",
    ]


def test_claims_that_a_quick_study_leaves_out_are_not_the_same():
    page = "<!-- other seeds -->\n<!-- end of other seeds -->\n"
    first, again = report(quick=True, seeds=[2]), report(quick=True, seeds=[3])
    for one in (first, again):
        one["claims"][2]["detail"] = "not measured in this run"
    written = made["page_with_table"](page, made["kept_report"](first, again))
    assert "2 of 2 claims that both measure come out the same" in written


def test_claims_of_a_seed_that_was_locked_first_stand_apart():
    kept = made["kept_report"](report(lock={"c": "1234"}))
    claims = {"c": {"holds": True, "detail": "3 > 2"}, "gone": {"holds": True, "detail": "1 > 0"}}
    block = {"seeds": [7], "lock": {"c": "1234"}, "claims": claims}
    assert kept["run"]["config"]["lock"] == {"c": "1234"}
    page = made["page_with_table"](PAGE, {**kept, "fresh": block})
    assert "Locked before they were run, seeds 7:\n\n| | claim" in page
    assert "| holds | z | 3 &gt; 2 | fig. 3 |" in page
    assert page.count("fig. 3") == 2  # the first time open
    assert "1 &gt; 0" not in page


def copies_report(scale, value, low, high, seeds):
    """Return a report of two variants, and one number of each for records in one and two copies."""
    columns = [
        {
            "title": f"verbatim, {n} copies", "metric": "coverage", "plugin": "verbatim",
            "scope": {"copies": n}, "better": "lower", "axis": True,
        }
        for n in (1, 2)
    ]  # fmt: skip
    row = {
        "kind": "extraction", "plugin": "verbatim", "metric": "coverage", "value": value,
        "low": low, "high": high, "n": 8, "hits": round(8 * value),
    }  # fmt: skip
    scopes = [{"copies": 1, "variant": "1 pass"}, {"copies": 2, "variant": "2 passes"}]
    given = report(scale=scale, tradeoffs=columns, seeds=seeds)
    return given | {"measurements": [{**row, "scope": scope} for scope in scopes]}


def test_curves_stand_beside_those_of_another_base():
    kept = made["kept_report"](copies_report("small", 0.25, 0.1, 0.5, [1]))
    kept["small"] = made["kept_report"](copies_report("nano", 0.5, 0.2, 0.8, [1, 2]))
    page = made["page_with_table"]("<!-- curves -->\n<!-- end of curves -->\n", kept)
    assert page.splitlines()[1:-1] == [
        "**Verbatim**",
        "",
        "| | base | 1 copies | 2 copies |",
        "| --- | --- | --: | --: |",
        "| 1 pass | SmolLM2-135M, 1 seed | 2 of 8, 25.0 % \\[10.0, 50.0\\] | - |",
        "| 1 pass | fedaudit-nano, 2 seeds | 4 of 8, 50.0 % \\[20.0, 80.0\\] | - |",
        "| 2 passes | SmolLM2-135M, 1 seed | - | 2 of 8, 25.0 % \\[10.0, 50.0\\] |",
        "| 2 passes | fedaudit-nano, 2 seeds | - | 4 of 8, 50.0 % \\[20.0, 80.0\\] |",
    ]
    assert made["page_with_table"](page, kept) == page
    del kept["small"]["measurements"][1]  # a variant that the other base was not measured at
    shorter = made["page_with_table"](page, kept).splitlines()
    assert shorter == [*page.splitlines()[:-2], page.splitlines()[-1]]


def test_figures_of_a_real_model_stand_beside_those_of_the_built_in_one():
    kept = made["kept_report"](report(seeds=[1]))
    small = report(scale="small", seeds=[4, 5])
    small["run"]["config"]["figures"] = [
        {**figure, "ours": ours}
        for figure, ours in zip(small["run"]["config"]["figures"], (None, 2.5), strict=True)
    ]
    kept["small"] = made["kept_report"](small)
    written = made["page_with_table"]("<!-- figures -->\n<!-- end of figures -->\n", kept)
    assert written.splitlines()[1:-1] == [
        "| | the paper | fedaudit-nano | SmolLM2-135M | source |",
        "| --- | --: | --: | --: | --- |",
        "| loss | 0.5 | 0.25 | - | t. 1 |",
        "| never run | 1.5 | - | 2.5 | t. 2 |",
    ]


def test_claims_that_a_real_model_contradicts_come_first():
    kept = made["kept_report"](report(seeds=[1]))
    small = report(scale="small", seeds=[4])
    for claim, (holds, detail) in zip(
        small["claims"], ((True, "9 > 1"), (True, "3 > 2"), (None, "not measured: x")), strict=True
    ):
        claim.update(holds=holds, detail=detail)
    kept["small"] = made["kept_report"](small)
    written = made["page_with_table"](PAGE, kept).partition("SmolLM2-135M (")[2].splitlines()
    assert written[:6] == [
        "`fedaudit reproduce toy --scale small`, 2026-01-02; seeds 4): 2 claims hold, 0 fail, "
        "0 are open.",
        "",
        "| SmolLM2-135M | fedaudit-nano | claim | measured | source |",
        "| --- | --- | --- | --- | --- |",
        "| holds | **fails** | y | 3 &gt; 2 | t. 2 |",
        "| holds | holds | x &gt; y &#124; z | 9 &gt; 1 | t. 1 |",
    ]
