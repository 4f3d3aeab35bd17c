"""A stored study's claims, judged by today's rule from the values that it kept."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SEEDS = (3, 4, 5)


@pytest.fixture
def judging(monkeypatch, tmp_path):
    """The module, with federations kept in an empty folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("judge_again", "attribution_study_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import judge_again

    monkeypatch.setattr(judge_again, "KEPT", tmp_path)
    return judge_again


def keep(folder, name, *, flagged, accused, plugin="fed_attr"):
    """Keep a federation of three marked clients and seven others."""
    truth = {f"c{i}": "mark0" if i < 3 else "" for i in range(10)}
    rows = [
        {"plugin": plugin, "metric": metric, "hits": hits, "n": n, "value": hits / n, "client": ""}
        for metric, hits, n in (("tpr", flagged, 3), ("fpr", accused, 7))
    ]
    (folder / f"{name}.json").write_text(json.dumps({"truth": truth, "rows": rows}))


def profile_of(monkeypatch, judging, claims, name="toy"):
    study = [{"name": "a"}, {"name": "b"}, {"name": "kgw-fedit"}]
    table = {"name": name, "scale": {"nano": {}}, "study": study, "claims": claims}
    from fedaudit.config import profile

    chosen = profile.parse(table)
    monkeypatch.setattr(judging.profile, "load", lambda _: chosen)
    return chosen


def claim(**more):
    left = {"variant": "a", "metric": "loss"}
    return {"id": "c", "source": "t", "statement": "s", "left": left, "compare": ">", **more}


def stored(details, name="toy", **beside):
    claims = [{"id": "c", "source": "old", "statement": "old", "holds": True, "detail": details}]
    return {"run": {"config": {"profile": name, "seeds": list(SEEDS)}}, "claims": claims, **beside}


def by_seed(*pairs):
    parts = "; ".join(f"{left} > {right}" for left, right in pairs)
    return f"1 > 2; alone it holds with 3 of 3 seeds (3, 4, 5: {parts})"


@pytest.mark.parametrize(
    ("number", "holds"), [(0.35, True), (0.36, None), (0.84, None), (0.85, False)]
)
def test_a_number_is_compared_with_the_interval_of_the_seeds_values(
    number, holds, judging, monkeypatch
):
    # 0.5, 0.6 and 0.7: mean 0.6, s 0.1, t(2) = 4.3027: 0.6 - 0.2484 = 0.3516, 0.6 + 0.2484 = 0.8484
    profile_of(monkeypatch, judging, [claim(right=number)])
    kept = stored(by_seed((0.5, 0), (0.6, 0), (0.7, 0)))
    [found] = judging.judge_again(kept)["claims"]
    assert found["holds"] is holds
    assert (found["source"], found["statement"]) == ("t", "s")  # today's words


@pytest.mark.parametrize(("last", "holds"), [(1.5, True), (0.9, None)])
def test_paired_values_are_judged_by_their_differences(last, holds, judging, monkeypatch):
    # Differences 1.1, 1.2 and 1.3: 1.2 less 0.2484. With 1.1, 1.2 and 0.1: 0.8 less 1.51.
    right = {"variant": "b", "metric": "loss"}
    profile_of(monkeypatch, judging, [claim(right=right, paired=True)])
    rights = (0.4, 0.4, 0.2) if last == 1.5 else (0.4, 0.4, 0.8)
    kept = stored(by_seed((1.5, rights[0]), (1.6, rights[1]), (last, rights[2])))
    [found] = judging.judge_again(kept)["claims"]
    assert found["holds"] is holds
    assert "the difference is " in found["detail"]
    assert "; alone it holds with 3 of 3 seeds (3, 4, 5: 1.5 > 0.4; " in found["detail"]
    again = {**kept, "claims": [{**kept["claims"][0], **found}]}
    assert judging.judge_again(again)["claims"][0] == found  # what it came from is kept


def test_paired_differences_that_only_rounding_tells_apart_have_no_interval(judging, monkeypatch):
    right = {"variant": "b", "metric": "loss"}
    profile_of(monkeypatch, judging, [claim(right=right, paired=True)])
    kept = stored(by_seed((0.4889, 0.3333), (0.6444, 0.4889), (0.6444, 0.4889)))
    [found] = judging.judge_again(kept)["claims"]
    assert found["holds"] is None
    assert "gives it no interval" in found["detail"]


def test_equal_values_of_all_seeds_have_no_interval(judging, monkeypatch):
    profile_of(monkeypatch, judging, [claim(right=0.1)])
    [found] = judging.judge_again(stored(by_seed((1, 0), (1, 0), (1, 0))))["claims"]
    assert found["holds"] is None


def test_a_claim_that_was_not_measured_stays_so_and_one_that_is_gone_goes(judging, monkeypatch):
    profile_of(monkeypatch, judging, [claim(id="new")])
    beside = {"again": {"seeds": [6], "claims": {"c": {"holds": True, "detail": "1 > 0"}}}}
    found = judging.judge_again(stored("1 > 0", **beside))
    assert [(one["id"], one["holds"]) for one in found["claims"]] == [("new", None)]
    assert found["again"]["claims"] == {}


def counts(number):
    side = {"variant": "kgw-fedit", "metric": "fpr", "plugin": "fed_attr"}
    return claim(left=side, compare="<", right=number)


def test_flagged_clients_are_counted_over_the_kept_federations(judging, monkeypatch, tmp_path):
    # 0 of 14: Wilson's upper end is 1.96**2 / (14 + 1.96**2) = 3.8415 / 17.8415 = 0.2153.
    keep(tmp_path, "kgw-fedit-3", flagged=3, accused=0)
    keep(tmp_path, "kgw-fedit-5", flagged=3, accused=0)
    for number, holds in ((0.22, True), (0.21, None)):
        profile_of(monkeypatch, judging, [counts(number)], name="fed_attr")
        [found] = judging.judge_again(stored("0 < 0.1", name="fed_attr"))["claims"]
        assert found["holds"] is holds
        assert "0 of 14 [0, 22 %]" in found["detail"]


def test_fresh_seeds_judge_only_what_was_locked_as_it_is(judging, monkeypatch, tmp_path):
    from fedaudit.reproduction.study_lock import claim_digests, lock, lock_path

    chosen = profile_of(monkeypatch, judging, [counts(0.36)], name="fed_attr")
    for seed in (9, 10):
        keep(tmp_path, f"kgw-fedit-{seed}", flagged=3, accused=seed - 9)
    today, path = claim_digests(chosen, "nano", {}), lock_path(tmp_path, "nano")
    lock(path, today, [9])
    lock(path, {"c": "another number"}, [10])
    found = judging.judge_again(stored("0 < 0.1", name="fed_attr"))["fresh"]
    # 0 of 7: 3.8415 / 10.8415 = 0.3543; seed 10 was run when the claim had another number.
    assert found["claims"]["c"]["holds"] is True
    assert "0 of 7 [0, 35 %]" in found["claims"]["c"]["detail"]
    assert (found["seeds"], found["lock"]) == ([9, 10], today)
    profile_of(monkeypatch, judging, [counts(0.5)], name="fed_attr")
    assert judging.judge_again(stored("0 < 0.1", name="fed_attr"))["fresh"]["claims"] == {}
