"""Every table and figure of a paper is accounted for, and the page says what the profiles say."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config import profile
from fedaudit.config.coverage import CoverageEntry, PaperCoverage, sources, summary, table
from fedaudit.config.profile import Select, load, parse

ROOT = Path(__file__).parents[2]
PRINTED = {
    "cross": (0, 0),  # no paper has it
    "fed_attr": (21, 4),
    "fed_pii": (10, 14),
    "few_fed_pit": (4, 7),
    "memorization": (18, 1),
    "secure_gate": (9, 7),
}
"""How many tables and figures each paper has, counted in it."""

SHOWN = {"source": "table 1", "what": "a table", "state": "shown"}
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


def test_the_page_says_what_the_profiles_say():
    made = runpy.run_path(str(ROOT / "benchmarks/coverage.py"))
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
    assert table(covered)[2:] == [
        "| table 1 | a table | shown | claims: `c`; 2 figures beside ours |",
        "| table 2 | another | not covered | why |",
    ]
    assert summary(covered.covered) == "2 tables and figures: 1 shown, 1 not covered"


def test_a_contrary_one_names_the_claims_that_fail():
    chosen = parsed({**SHOWN, "state": "contrary", "claims": ["c"]})
    assert table(chosen.covered())[2] == "| table 1 | a table | contrary | against it: `c` |"


@pytest.mark.parametrize(
    ("covered", "wrong"),
    [
        ([{**SHOWN, "source": "table 2"}], "claim c is about section 3, table 1, which coverage"),
        ([SHOWN, SHOWN], "coverage has table 1 twice"),
        ([SHOWN, {**MISSING, "source": "table 3"}], "coverage lacks table 2"),
        ([SHOWN, {**MISSING, "source": "figure 2"}], "coverage lacks figure 1"),
        ([SHOWN, {**SHOWN, "source": "table 2"}], "table 2 is shown, but no claim"),
        ([{**MISSING, "source": "table 1"}], "table 1 is not covered, but a claim"),
        ([{**SHOWN, "state": "contrary"}], "claims = "),
        ([{**SHOWN, "claims": ["c"]}], "claims = "),
        ([{**SHOWN, "state": "contrary", "claims": ["d"]}], "goes against d, which is no claim"),
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


@given(st.lists(st.sampled_from(["shown", "contrary", "not at this scale", "not covered"])))
def test_the_states_add_up(states):
    covered = [
        CoverageEntry(
            source=f"table {number}",
            what="w",
            state=state,
            reason="r",
            claims=("c",) if state == "contrary" else (),
        )
        for number, state in enumerate(states, 1)
    ]
    whole, parts = summary(covered).split(" tables and figures: ")
    assert int(whole) == len(states)
    assert sum(int(part.split()[0]) for part in parts.split(", ") if part) == len(states)
