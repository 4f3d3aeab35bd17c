"""Every table and figure of a paper is accounted for, and the page says what the profiles say."""

import json
import runpy
import tomllib
from pathlib import Path

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config import profile
from fedaudit.config.profile import CoverageEntry, PaperCoverage, Select, load, parse, sources

ROOT = Path(__file__).parents[2]
PRINTED = {
    "cross": (0, 0),  # no paper has it
    "fed_attr": (21, 4),
    "fed_pii": (10, 14),
    "few_fed_pit": (4, 7),
    "leak_curves": (0, 0),  # nor has any this
    "memorization": (18, 1),
    "secure_gate": (9, 7),
}
"""How many tables and figures each paper has, counted in it."""

made = runpy.run_path(str(ROOT / "benchmarks/coverage.py"))
Outcome, summary, table = made["Outcome"], made["summary"], made["table"]

SHOWN = {"source": "table 1", "what": "a table"}
MISSING = {"source": "table 2", "what": "another", "state": "not covered", "reason": "why"}
CLAIM = {
    "id": "c",
    "source": "section 3, table 1",
    "statement": "t",
    "left": {"variant": "a", "metric": "m"},
    "compare": ">",
}


def parsed(*covered, **more):
    claims = [{**CLAIM, **more}]
    table = {"name": "x", "scale": {}, "study": [{"name": "a"}], "claims": claims}
    return parse({**table, "coverage": list(covered)})


@pytest.mark.parametrize("name", profile.shipped_profiles())
def test_every_table_and_figure_is_there_once(name):
    listed = [one.source for one in load(name).coverage]
    tables, figures = PRINTED[name]
    printed = [f"table {n}" for n in range(1, tables + 1)]
    printed += [f"figure {n}" for n in range(1, figures + 1)]
    assert [source for source in listed if source.startswith(("table", "figure"))] == printed


def test_the_page_says_what_profiles_and_studies_say():
    assert made["page"]() == made["PAGE"].read_text("utf-8"), "run python benchmarks/coverage.py"


def test_sources_are_parts_without_the_letters_of_panels():
    assert sources("section 5.2, figure 6a") == ["section 5.2", "figure 6"]
    assert sources("figure 3 (a)") == ["figure 3"]
    assert sources("figure 3, table 9") == ["figure 3", "table 9"]
    assert sources("appendix B.4, figure 7") == ["appendix B.4", "figure 7"]


def test_claims_and_figures_are_counted_by_source():
    covered = PaperCoverage(
        [CoverageEntry(**SHOWN), CoverageEntry(**MISSING)],
        {"c": "section 3, table 1"},
        ["table 1", "table 1"],
    )
    assert table(covered, {})[2:] == [
        "| table 1 | a table | open | not measured: `c`; 2 figures beside ours |",
        "| table 2 | another | not covered | why |",
    ]
    assert summary(covered, {}) == "2 tables and figures: 1 open, 1 not covered"


@pytest.mark.parametrize(
    ("detail", "holds", "state"),
    [
        ("0.2 > 0.1", True, "shown"),
        ("0.2 > 0.1; the intervals overlap", None, "open"),
        ("0.1 > 0.2; the intervals overlap", None, "contrary by value"),
        ("0.2 > 0.2; the intervals overlap", None, "contrary by value"),
        ("0 > 0; the interval holds that number", None, "open"),
        ("0.1 > 0.2", False, "contrary"),
        ("not measured in this run", None, "open"),
    ],
)
def test_states_follow_from_outcomes(detail, holds, state):
    claim, entry = {"id": "c", "holds": holds, "detail": detail}, CoverageEntry(**SHOWN)

    def shown(restated):
        outcome = made["_outcome"](claim, 3, restated)
        return made["state"](entry, ["c"], {"c": outcome} if outcome else {})

    assert shown(()) == state
    assert shown(["c"]) == ("restated" if state == "shown" else state)


def test_the_study_with_the_most_seeds_decides(tmp_path, monkeypatch):
    def study(seeds, holds, again):
        claim = {"holds": holds, "detail": "1 > 0"}
        return {
            "run": {"config": {"profile": "cross", "seeds": seeds}},
            "claims": [{"id": "c", **claim}],
            "again": {"seeds": again, "claims": {"c": {"holds": None, "detail": "1 > 0"}}},
        }

    monkeypatch.setitem(made["outcomes"].__globals__, "STUDIES", tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(study([3], False, [4, 5])))
    (tmp_path / "b.json").write_text(json.dumps(study([3, 4, 5], True, [6])))
    assert made["outcomes"]("cross") == {"c": Outcome(True, 3, False)}
    assert made["outcomes"]("fed_pii") == {}
    # Four seeds that were run when the claim was another one count for less than three.
    locked = study([3, 4, 5, 6], True, [7])
    locked["run"]["config"]["lock"] = {"c": "not as it is today"}
    (tmp_path / "c.json").write_text(json.dumps(locked))
    assert made["outcomes"]("cross") == {"c": Outcome(True, 3, False)}


@pytest.mark.parametrize("name", [name for name, printed in PRINTED.items() if any(printed)])
def test_every_claim_was_measured_with_seeds_that_nothing_was_tuned_on(name):
    chosen = load(name)
    assert {claim.id for claim in chosen.claims} <= made["outcomes"](name).keys()
    for path in made["STUDIES"].glob("*.json"):
        kept = json.loads(path.read_text("utf-8"))
        if kept["run"]["config"]["profile"] == name:
            beside = [kept.get(block, {}) for block in ("again", "more", "fresh")]
            for part in (kept["run"]["config"], *beside):
                assert not {*part.get("seeds", [])} & {*chosen.tuned_seeds}, path


def test_a_restated_claim_is_in_its_profile():
    for name, claims in tomllib.loads(made["RESTATED"].read_text("utf-8")).items():
        assert {*claims} <= {claim.id for claim in load(name).claims}


def test_a_claim_that_was_cut_is_in_no_profile():
    cut = tomllib.loads(made["CUT"].read_text("utf-8"))
    for name, groups in cut.items():
        gone = {claim for group in groups for claim in group["claims"]}
        assert not gone & {claim.id for claim in load(name).claims}


@pytest.mark.parametrize(
    ("covered", "wrong"),
    [
        ([{**SHOWN, "source": "table 2"}], "claim c is about section 3, table 1, which coverage"),
        ([SHOWN, SHOWN], "coverage has table 1 twice"),
        ([SHOWN, {**MISSING, "source": "table 3"}], "coverage lacks table 2"),
        ([SHOWN, {**MISSING, "source": "figure 2"}], "coverage lacks figure 1"),
        ([SHOWN, {**SHOWN, "source": "table 2"}], "table 2 is measured, but no claim"),
        ([{**MISSING, "source": "table 1"}], "table 1 is not covered, but a claim"),
        ([SHOWN, {**MISSING, "reason": ""}], "say why, reason"),
        ([{**SHOWN, "state": "seen"}], "state"),
    ],
)
def test_a_list_that_does_not_agree_is_refused(covered, wrong):
    with pytest.raises(UsageError, match=wrong):
        parsed(*covered)


def test_claims_beyond_the_paper_and_profiles_without_a_list_are_fine():
    assert parsed().coverage == ()
    assert parsed({**MISSING, "source": "table 1"}, source="beyond the paper").claims


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_what_a_claim_needs_at_nano_scale_is_not_called_out_of_its_reach(name):
    chosen = load(name)
    nano = {variant.name for variant in chosen.study if chosen.runs_at(variant, "nano")}
    nano |= {variant.pool for variant in chosen.study if variant.name in nano}
    claims = chosen.claims
    for entry in chosen.coverage:
        if entry.state == "not at this scale":
            for claim in (one for one in claims if entry.source in sources(one.source)):
                sides = [side for side in (claim.left, claim.right) if isinstance(side, Select)]
                assert not all(side.variant in nano for side in sides), (entry.source, claim.id)
