"""The owner's step: differences of tests, from estimates and a file of marks and nothing else."""

import json
from dataclasses import replace

import handmade
import pytest
from fedaudit_plugins.watermarks.fictitious.scoring import Null

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Mark
from fedaudit.attribution import estimates as estimates_folder
from fedaudit.attribution import pipeline
from fedaudit.attribution import report as reporting
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.decision import calibration, decision
from fedaudit.attribution.owner import detection, scoring, worker_pool
from fedaudit.attribution.owner.worker_pool import DetectionJob, DetectionPool, WorkerOptions
from fedaudit.attribution.server import estimation, sum_plan
from fedaudit.config.registry import create
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation.folder import open_federation

ALONE = WorkerOptions(device="cpu", workers=1)
WISH = sum_plan.ProtocolConfig(others=3, pairs=4, threshold=3, seed=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return estimates of a federation whose c1 is guilty of m0, and the marks."""
    place = tmp_path_factory.mktemp("estimates")
    fed = handmade.write(place / "fed", clients=7, size=handmade.SIZE, guilty=("c1",))
    marks = handmade.marks(place / "marks.json")
    estimation.estimate(
        sum_plan.draw_sum_plan(open_federation(fed.path), WISH), place / "est", place / "log.json"
    )
    return place / "est", marks


@pytest.fixture
def given(made, monkeypatch):
    handmade.reading(monkeypatch, made[1][0])
    return made


@pytest.fixture(scope="module")
def table(made, tmp_path_factory):
    """Return a file of scores as JSON."""
    path = tmp_path_factory.mktemp("scores") / "scores.json"
    with pytest.MonkeyPatch.context() as patch:
        handmade.reading(patch, made[1][0])
        scores_file.write(scored(*made), path)
    return path.read_text()


def scored(folder, marks, **more):
    with DetectionPool(ALONE) as own:
        return scoring.score(folder, estimates_folder.read(folder), marks, own, **more)


def flagged(scores):
    return set(decision.decide(scores).flagged)


def test_who_is_guilty_is_flagged_and_its_score_is_the_difference_of_tests(given):
    folder, marks = given
    found, [mark] = scored(folder, marks), marks
    assert flagged(found) == {"c1"}
    plugin = create("watermark", "fictitious", mark.options)
    guess = [Null(mean=1 / plugin.options, sd=0.0)] * 4
    # Three right answers of three about each of four attributes, less none.
    gap = plugin.score([3] * 4, guess).z - plugin.score([0] * 4, guess).z
    for one in found.rounds:
        assert one.reference["m0"].hits == 0
        assert one.clients["c1"]["m0"].hits == 12
        assert decision.score_differences(found, "c1", "m0")[one.round] == pytest.approx(gap)
        assert decision.score_differences(found, "c2", "m0")[one.round] == 0


def test_rounds_without_scores_are_said_whatever_their_numbers(given, tmp_path):
    folder, marks = given
    scores = scored(folder, marks)
    [number] = {r.round for r in scores.rounds[:1]}
    rounds = tuple(replace(scores.rounds[0], round=number + n) for n in (0, 2, 6, 10**12))
    report = decided(replace(scores, rounds=rounds), tmp_path)
    [said] = [limit for limit in report["limits"] if limit.startswith("rounds without")]
    assert number == 1
    assert said == f"rounds without scores: 2, 4 to 6, 8 to {10**12}"


def test_a_report_says_what_its_settings_can_tell(given, tmp_path):
    folder, marks = given
    scores = scored(folder, marks)

    def rows(federations):
        made = decided(scores, tmp_path, federations)
        simulated = [
            row
            for row in made["measurements"]
            if row["metric"] in ("innocent_flagged", "marked_found")
        ]
        return made, simulated

    made, simulated = rows(federations=3)
    # A usual mark has Z 6.26 (T = 1), 8.9, 10.8, 12.5 or, as is in the list, 14 after T rounds.
    [rounds] = calibration.clients_by_rounds(scores)
    usual = calibration.usual_strength(rounds)
    assert usual == round(6.26099 * rounds**0.5, 1)
    strengths = len({*calibration.STRENGTHS, usual})
    assert made["run"]["config"]["federations"] == 3
    assert sum("strength" in row["scope"] for row in simulated) == 2 * strengths - 1
    assert {row["n"] for row in simulated if "strength" in row["scope"]} == {3}
    by_client = {r["scope"]["client"]: r["n"] for r in simulated if "client" in r["scope"]}
    # Each federation with a marked client has one innocent client fewer.
    assert sum(by_client.values()) == 3 * (strengths * len(by_client) - (strengths - 1))
    assert rows(federations=3)[1] == simulated
    made, simulated = rows(federations=0)
    assert not simulated
    assert any("--federations 100 simulates it" in limit for limit in made["limits"])
    many = replace(scores, clients=tuple(f"c{n}" for n in range(calibration.MOST_TESTS + 1)))
    assert calibration.simulated_federations(many, None) == 0
    assert calibration.simulated_federations(scores, None) == calibration.FEDERATIONS
    assert calibration.simulated_federations(replace(scores, rounds=()), 5) == 0


def decided(scores, folder, federations=0):
    """Return the report of a decision over scores alone."""
    return reporting.decided_report(
        scores,
        given_file(folder),
        threshold=4.0,
        alpha=0.01,
        start_time=pipeline.datetime.now(pipeline.UTC),
        federations=federations,
    ).to_json()


def given_file(folder):
    (folder / "scores.json").write_text("{}")
    return folder / "scores.json"


def test_rounds_that_are_known_are_not_asked_again(given, monkeypatch):
    folder, marks = given
    whole = scored(folder, marks)
    found = estimates_folder.read(folder)
    with DetectionPool(ALONE) as own:
        first = scoring.score(folder, replace(found, rounds=found.rounds[:1]), marks, own)
    engine = handmade.reading(monkeypatch, marks[0])
    both = scored(folder, marks, known=first)
    assert both.rounds == whole.rounds
    assert {target.adapter.split("/")[-2] for target, _ in engine.asked} == {"002"}
    engine.asked.clear()
    assert scored(folder, marks, known=both) == both
    assert engine.asked == []


def test_a_round_whose_estimates_were_made_anew_is_asked_again(given, monkeypatch):
    folder, marks = given
    whole = scored(folder, marks)
    first, second = whole.rounds
    assert first.estimates != second.estimates
    other = replace(second, estimates=first.estimates)
    engine = handmade.reading(monkeypatch, marks[0])
    again = scored(folder, marks, known=replace(whole, rounds=(first, other)))
    assert again.rounds == whole.rounds
    assert {target.adapter.split("/")[-2] for target, _ in engine.asked} == {"002"}


def test_what_was_scored_is_kept_round_by_round(given):
    folder, marks = given
    kept = []
    found = scored(folder, marks, keep=kept.append)
    assert [[one.round for one in each.rounds] for each in kept] == [[1], [1, 2]]
    assert kept[-1] == found


def test_scores_of_another_run_or_of_other_marks_are_refused(given, tmp_path):
    folder, marks = given
    found = scored(folder, marks)
    with pytest.raises(InputError, match="of another run than the scores"):
        scored(folder, marks, known=replace(found, run="0123"))
    for chosen in (
        [replace(marks[0], id="m9")],
        handmade.marks(tmp_path / "other.json", seed=78),
        [replace(marks[0], options={**marks[0].options, "tokens": 5})],
        handmade.marks(tmp_path / "more.json", count=2),
    ):
        with pytest.raises(InputError, match="of other marks than these"):
            scored(folder, chosen, known=found)


def test_scores_hold_no_key_and_come_back_as_they_were(given, tmp_path):
    folder, marks = given
    found = scored(folder, marks)
    path = tmp_path / "scores.json"
    scores_file.write(found, path)
    assert scores_file.read(path) == found
    secret = marks[0].secret
    told = path.read_text()
    for word in (secret["entity"], *(row["value"] for row in secret["attributes"])):
        assert word not in told
    assert [len(digits) for digits in found.tests.values()] == [4]


def damaged(table, how):
    one = table["rounds"][0]
    if how == "twice":
        table["rounds"].append(one)
    elif how == "stranger":
        one["clients"]["c99"] = one["clients"]["c1"]
    elif how == "mark":
        one["reference"] = {"m7": one["reference"]["m0"]}
    elif how == "keyless":
        del one["reference"]
    elif how == "text":
        one["clients"]["c1"]["m0"]["z"] = "high"
    elif how == "huge":
        one["clients"]["c1"]["m0"]["z"] = -1e9
    elif how == "null":
        for own in table["rounds"]:
            for tests in (own["reference"], *own["clients"].values()):
                tests["m0"]["null"] = [1001.0]
    elif how == "list":
        return []
    elif isinstance(how, dict):
        table.update(how)
    elif isinstance(how, tuple):
        name, client, value = how
        one[name][client] = value
    return table


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("twice", "has round 1 twice"),
        ("stranger", "round 1 does not match its clients and marks"),
        ("mark", "round 1 does not match its clients and marks"),
        ("keyless", "holds no scores"),
        ("text", "holds no scores"),
        ("list", "holds no scores"),
        ("huge", "round 1 has a score beyond 1,000 standard deviations"),
        ("null", "round 1 has a score beyond 1,000 standard deviations"),
        ({"schema_version": "2.0"}, "schema version 2.0"),
        ({"dimension": -1}, "the dimension of an update is not from 0 to"),
        (("strength", "c0", "x"), "holds no scores"),
        (("strength", "c0", None), "holds no scores"),
        (("strength", "c0", 0), "round 1 has no strength of its clients' masks"),
        (("strength", "c0", -1), "round 1 has no strength of its clients' masks"),
        (("effective", "c99", 5.0), "round 1 has no strength of its clients' masks"),
    ],
)
def test_broken_scores(table, tmp_path, how, says):
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(damaged(json.loads(table), how)))
    with pytest.raises(InputError) as error:
        scores_file.read(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_no_round_yet(given):
    folder, marks = given
    with DetectionPool(ALONE) as own, pytest.raises(InputError, match="nothing to score"):
        scoring.score(folder, replace(estimates_folder.read(folder), rounds=()), marks, own)


def fictitious(count, **options):
    plugin = create("watermark", "fictitious", {**handmade.TESTS, **options})
    return [
        Mark(
            id=f"m{at}",
            name="fictitious",
            options={**handmade.TESTS, **options},
            secret=plugin.issue(None, [], seed=1, index=at),
        )
        for at in range(count)
    ]


def test_a_question_of_two_marks_is_asked_once():
    one, two = fictitious(2)
    same = replace(one, id="copy")
    engine = FakeEngine(lambda target, prompt, sample: prompt)
    each = [engine_asks(engine, [mark]) for mark in (one, two)]
    assert each == [12, 12]
    assert engine_asks(engine, [one, same]) == 12
    assert engine_asks(engine, [one, two, same]) == 24
    found = detection.measure(engine, [None], detection.watermark_plugins([one, two, same]))
    assert found[0]["copy"] == found[0]["m0"]


def engine_asks(engine, marks):
    engine.asked.clear()
    detection.measure(engine, [None], detection.watermark_plugins(marks))
    return len(engine.asked)


def test_marks_with_answers_of_several_lengths_get_their_own():
    short, long = (
        fictitious(1)[0],
        replace(fictitious(2)[1], options={**handmade.TESTS, "tokens": 9}),
    )
    engine = FakeEngine(lambda target, prompt, sample: prompt)
    told = []
    together = detection.measure(
        engine,
        [None],
        detection.watermark_plugins([long, short]),
        lambda done, total: told.append(done),
    )
    alone = [
        detection.measure(engine, [None], detection.watermark_plugins([mark]))[0]
        for mark in (long, short)
    ]
    assert together == [alone[0] | alone[1]]
    assert told == sorted(told)
    assert told[-1] == 24
    assert {request.max_new_tokens for _, request in engine.asked} == {4, 9}


def test_neither_workers_nor_the_split_of_adapters_change_a_score(tmp_path, base):
    # The built-in model itself, with adapters far from zero, in this process and in two others.
    found = []
    for at in range(3):
        tensors = {
            handmade.A: handmade.drawn(2, handmade.SIZE, at, "A"),
            handmade.B: handmade.drawn(handmade.SIZE, 2, at, "B"),
        }
        found.append(tmp_path / f"{at}")
        handmade.adapters.write(tensors, handmade.CONFIG, found[-1])
    marks = (told(base),)

    def job(key, *which):
        return DetectionJob(
            key=key,
            base="fedaudit-nano",
            sha256=base.sha256,
            adapters=tuple(found[at] for at in which),
            marks=marks,
        )

    def answered(jobs, workers):
        with DetectionPool(WorkerOptions(device="cpu", workers=workers)) as own:
            return dict(own.run(jobs))

    together = answered([job(0, 0, 1, 2)], 1)[0]
    apart = answered([job(0, 2), job(1, 0, 1)], 2)
    assert [*apart[1], *apart[0]] == together
    assert len({json.dumps([s.hits for s in one.values()]) for one in together}) > 1


def told(base):
    """Return a mark that the built-in model's answers differ in: a green list, few tokens."""
    from fedaudit.engine.local import LocalEngine

    options = {"prompts": 4, "tokens": 12, "prompt_tokens": 4}
    plugin = create("watermark", "kgw", options)
    texts = [f"The court of {name} heard the claim." for name in ("Bath", "York", "Ely", "Hull")]
    secret = plugin.issue(LocalEngine(base), texts, seed=1, index=0)
    return Mark(id="m0", name="kgw", options=options, secret=secret)


def test_a_base_of_another_fingerprint_is_refused():
    with pytest.raises(InputError, match="not the one that the federation was trained on"):
        worker_pool.engine_for("fedaudit-nano", "0" * 64, ALONE)


def test_settings_that_a_mark_does_not_name_count_as_the_plugin_has_them():
    def digits(**options):
        return scoring.settings_digits(Mark(id="m", name="kgw", options=options, secret={"key": 1}))

    assert digits() == digits(nulls=256) == digits(scheme="textseal")
    assert digits() != digits(nulls=0)
