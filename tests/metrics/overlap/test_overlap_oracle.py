"""What the published program answers: its recorded verdicts, offsets and steps."""

import json
import re
from pathlib import Path

import pytest
from overlap_texts import steps_of

from fedaudit.metrics import overlap
from fedaudit.metrics.overlap import ORIGINAL, compare, paraphrases, prepare_text

RECORDED = json.loads(Path(__file__).with_name("pan2014.json").read_text("utf-8"))


def by_id(name):
    cases = RECORDED[name]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def quads(items):
    return [(*item["a"], *item["b"]) for item in items]


@by_id("cases")
def test_verdict_spans_seeds_and_passages_are_the_published_ones(case):
    found = compare(case["text_a"], case["text_b"], compat=True)
    a, b = (prepare_text(case[side], ORIGINAL) for side in ("text_a", "text_b"))
    seeds, passages, wide = steps_of(a, b)
    assert found.verdict == {"summary": "idea"}.get(case["verdict"], case["verdict"])
    assert sorted(found.spans) == sorted(quads(case["offsets"]))
    assert seeds == [(seed["a"], seed["b"]) for seed in case["seeds"]]
    assert passages == quads(case["cases_gap4"])
    assert wide == quads(case["cases_gap24"])
    for side, prepared in (("a", a), ("b", b)):
        units = [list(span) for span in zip(prepared.starts, prepared.ends, strict=True)]
        assert units == case["fragment_spans"][side]


class Table:
    """The recorded scores and entities of a case."""

    def __init__(self, case):
        self.default = next((s["default"] for s in case["scores"] if "default" in s), 0.1)
        self.table = {(s["b"], s["a"]): s["p"] for s in case["scores"] if "b" in s}
        self.names = case["entity_vocabulary"]

    def score(self, pairs):
        return [self.table.get(pair, self.default) for pair in pairs]

    def find(self, texts):
        return [{n for n in self.names if re.search(rf"\b{re.escape(n)}\b", t)} for t in texts]


@by_id("paraphrase_stage")
def test_the_paraphrase_stage_is_the_published_one(case):
    texts, table = (case["text_a"], case["text_b"]), Table(case)
    candidate = compare(*texts, compat=True)
    assert list(candidate.spans) == quads(case["detections"])
    found = paraphrases(*texts, candidate, table, table, compat=True)
    pairs = [[one.high, one.low] for one in found]
    flat = [[p and [p.generated, p.training, p.probability] for p in both] for both in pairs]
    assert flat == [[one["high"], one["low"]] for one in case["result"] or []]


RUN = "The applicant was detained for eleven months in a facility outside the capital."
OURS = "A choir sang at noon. The village pond froze over during the night. "
THEIRS = "Prices of copper fell again. The referee stopped the match for half an hour. "


def test_a_copied_sentence_is_verbatim_where_it_stands():
    found = compare(OURS + RUN, THEIRS + RUN, compat=True)
    spans = [(len(OURS), len(OURS + RUN), len(THEIRS), len(THEIRS + RUN))]
    assert (found.verdict, list(found.spans)) == ("verbatim", spans)


@pytest.mark.parametrize(
    ("letters", "verdict"), [(50, "candidate"), (51, "verbatim")], ids=["50", "51"]
)
def test_a_run_of_more_than_fifty_characters_is_verbatim(letters, verdict):
    # The run lies inside both sentences: no sentence end lengthens it.
    run = "judge refused every single request made by lawyer "
    run = (run + "x" * (letters - len(run))).strip().ljust(letters, "y")
    assert len(run) == letters
    a = f"{OURS}Yesterday {run} again."
    b = f"{THEIRS}Apparently {run} twice."
    assert compare(a, b, compat=True).verdict == verdict


def test_one_sentence_that_grew_threefold_is_an_idea_and_not_the_other_way_round():
    short = "Surgeons removed both lobes of the swollen thyroid gland."
    long = (
        "Surgeons removed both lobes of the gland, the swollen thyroid. "
        "Both lobes of the thyroid gland were removed because surgeons found the gland swollen. "
        "The thyroid gland was swollen, so that both lobes were removed by the surgeons that day."
    )
    assert compare(OURS + short, THEIRS + long, compat=True).verdict == "idea"
    assert compare(THEIRS + long, OURS + short, compat=True).verdict == "candidate"


def test_unrelated_and_empty_texts_have_nothing_in_common():
    for a, b in ((OURS, THEIRS), ("", RUN), (RUN, ""), ("", ""), ("...", "!!!"), (" \n", "a")):
        for compat in (True, False):
            assert compare(a, b, compat=compat) == overlap.Overlap("none", ())


def test_texts_of_different_settings_are_refused():
    with pytest.raises(ValueError, match="different settings"):
        overlap.compare_prepared(prepare_text("a"), prepare_text("a", ORIGINAL))
