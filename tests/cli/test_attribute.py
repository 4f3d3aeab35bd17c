"""fedaudit attribute: the whole, each party's step where that party is alone, and every mistake."""

import json
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import handmade
import pytest
from handmade import ALONE, SMALL

from fedaudit.attribution.server import dry_run
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.attribution.server.sum_plan import draw_sum_plan
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation
from fedaudit.report.document import validate

pytestmark = pytest.mark.usefixtures("empty_folder", "few_federations")

NO_HASH = "Integrity not checked: {}.json has no hash of its base.\n"


@pytest.fixture
def fed(tmp_path, monkeypatch):
    """Return a federation whose c1 is guilty of m0; adapters are read and no model is asked."""
    return handmade.marked(tmp_path / "fed", monkeypatch)


def report(path="o"):
    document = json.loads((Path(path) / "report.json").read_text())
    validate(document)
    return document


def z_of(document):
    return {
        row["scope"]["client"]: row["value"]
        for row in document["measurements"]
        if (row["plugin"], row["metric"]) == ("fed_attr", "stouffer_z")
        and set(row["scope"]) == {"client", "mark"}
    }


def value(document, plugin, metric):
    [row] = [
        row
        for row in document["measurements"]
        if (row["plugin"], row["metric"], row["scope"]) == (plugin, metric, {})
    ]
    return row


@pytest.mark.parametrize("step", [[], ["estimate"], ["score"], ["decide"]])
def test_help_lists_what_there_is(run, step):
    shown = run("attribute", *step, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert ("estimate" in shown.out) == (step in ([], ["estimate"], ["score"]))


def test_all_in_one_names_the_guilty_client(run, fed):
    done = run("attribute", "--rounds", "fed", *SMALL, *ALONE, "--out", "o", "--json", "j.json")
    assert (done.code, done.err) == (1, "")
    assert "c1" in done.out
    document = report()
    assert document == json.loads(Path("j.json").read_text())
    [finding] = document["findings"]
    assert finding["evidence"]["client"] == "c1"
    assert document["verdict"]["status"] == "fail"
    rates = {name: value(document, "fed_attr", name)["value"] for name in ("tpr", "fpr")}
    assert rates == {"tpr": 1.0, "fpr": 0.0}
    assert value(document, "fed_attr", "queries")["value"] == 2 * 4 * 7 * 2
    assert any("give single updates away" in limit for limit in document["limits"])
    assert document["seeds"]["design"] == 0
    answers = [row for row in document["measurements"] if row["metric"] == "attribute_hits"]
    # Three questions about each of four attributes, in two rounds.
    expected = {(f"c{n}", number): 6 * (n == 1) for n in range(7) for number in (1, 2, 3, 4)}
    assert {
        (row["scope"]["client"], row["scope"]["attribute"]): row["hits"] for row in answers
    } == expected
    assert {(row["n"], row["baseline"]) for row in answers} == {(6, 0)}
    assert any("no commitments were given" in limit for limit in document["limits"])
    rounds = [f"fed/rounds/{n:03}" for n in (1, 2)]
    assert [one["path"] for one in document["target"]["models"]] == rounds
    told = json.dumps(document) + done.out
    secret = fed.mark.secret
    for word in (secret["entity"], *(row["value"] for row in secret["attributes"])):
        assert word not in told
    # Every format says which rounds, parties and key were read.
    facts = {
        "federation": "fed",
        "rounds": "2 (1 to 2)",
        "parties": "7",
        "data": "fed/owner/watermark.json: 1 mark",
    }
    audited = done.out.partition("Attribution: clients")[0].splitlines()
    named = [line.split()[0] for line in audited if line[:1].strip()]
    assert named == ["Audited", "base", *facts, "budget", "run"]
    assert {f"{name} {value}" for name, value in facts.items()} <= {
        " ".join(line.split()) for line in audited
    }
    assert run("report", "o", "--format", "markdown", "--out", "o.md").code == 0
    assert run("report", "o", "--format", "html", "--out", "o.html").code == 0
    page = Path("o.md").read_text().partition("## What was audited")[2].partition("##")[0]
    assert [line.partition(": ")[0] for line in page.splitlines() if line] == [
        f"- {name}" for name in named[1:]
    ]
    for text in (page, Path("o.html").read_text()):
        assert facts["data"] in text
        assert facts["rounds"] in text


def test_its_rounds_folder_and_a_place_of_its_own_will_do(run, fed, monkeypatch):
    from fedaudit.attribution import plaintext

    def refuse(*_):
        raise AssertionError("a model was loaded for a method that was not named")

    monkeypatch.setattr(plaintext, "engine_for", refuse)
    words = ("--rounds", fed.path / "rounds", *SMALL, *ALONE, "--federations", 0)
    assert run("attribute", *words).code == 1
    [place] = Path("runs/attribute").iterdir()
    report(place)


def parties(run, fed, seed=("--seed", 5)):
    """Take the three steps, each party in a folder of its own; returns what deciding said."""
    server, owner = Path("server"), Path("owner")
    server.mkdir()
    shutil.copytree(fed.path, server / "fed", ignore=shutil.ignore_patterns("owner"))
    words = ("estimate", "--rounds", server / "fed", "--out", server / "est", *SMALL, *seed)
    estimated = run("attribute", *words, "--quiet")
    assert (estimated.code, estimated.err) == (0, NO_HASH.format("federation"))
    owner.mkdir()
    shutil.copytree(server / "est", owner / "est")
    shutil.copy(fed.path / "owner/watermark.json", owner / "marks.json")
    for gone in (server, fed.path):  # the owner's step finds no federation anywhere
        gone.rename(gone.with_name(f"{gone.name}.away"))
    assert {path.name for path in owner.iterdir()} == {"est", "marks.json"}
    scored = run(
        "attribute", "score", owner / "est", "--watermark", owner / "marks.json",
        "--out", owner / "scores.json", *ALONE,
    )  # fmt: skip
    assert (scored.code, scored.err) == (0, NO_HASH.format("estimates"))
    assert "2 rounds of 7 clients scored for 1 mark" in scored.out
    table = json.loads((owner / "scores.json").read_text())
    (owner / "again.json").write_text(json.dumps({**table, "seconds": 1000.0}))
    again = run(
        "attribute", "score", owner / "est", "--watermark", owner / "marks.json",
        "--out", owner / "again.json", *ALONE,
    )  # fmt: skip
    assert again.out.endswith(", 0 s.\n")  # what earlier runs took is not told as this one's
    (owner / "again.json").unlink()
    for gone in (server, fed.path):
        gone.with_name(f"{gone.name}.away").rename(gone)
    return run("attribute", "decide", owner / "scores.json", "--out", "o", "--quiet")


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_each_party_alone_comes_to_the_same_z(run, fed, tmp_path):
    decided = parties(run, fed)
    assert (decided.code, decided.err) == (1, "")
    document = report()
    assert document["run"]["command"] == "attribute decide"
    assert document["seeds"] == {}  # the owner knows of no design
    given = files(fed.path)
    whole = run("attribute", "--rounds", fed.path, *SMALL, *ALONE, "--seed", 5, "--out", "all")
    assert whole.code == 1
    assert z_of(document) == z_of(report("all"))
    assert len(z_of(document)) == 7
    # Who has the server's log as well sees what each client itself adds, as `attribute --rounds`.
    words = ("decide", "owner/scores.json", "--log", "server/est.log.json", "--out", "both")
    both = run("attribute", *words)
    assert both.code == 1
    assert "own part [95 %]" in both.out
    for told in ("owner/scores.json: 2 scored rounds", "est.log.json: 2 logged rounds"):
        assert told in both.out
    assert "own part" not in decided.out
    own = [row for row in report("both")["measurements"] if row["metric"] == "contribution"]
    assert own == [row for row in report("all")["measurements"] if row["metric"] == "contribution"]
    flagged = {finding["evidence"]["client"] for finding in document["findings"]}
    assert {row["scope"]["client"] for row in own} == flagged != set()
    assert not [row for row in document["measurements"] if row["metric"] == "contribution"]
    # The server has a federation with its ledger, estimates and a log, and no file of marks.
    held = files(tmp_path / "server")
    assert held - {f"fed/{name}" for name in given} == {
        "fed/ledger.jsonl",
        "est.log.json",
        "est/estimates.json",
        *(
            f"est/{number}/{who}/{file}"
            for number in ("001", "002")
            for who in ("global", *fed.names)
            for file in (adapters.CONFIG, adapters.WEIGHTS)
        ),
    }
    everything = b"".join((tmp_path / "server" / name).read_bytes() for name in held)
    assert fed.mark.secret["entity"].encode() not in everything
    assert not [name for name in held if "watermark" in name or "owner" in name]
    # The owner has estimates, marks and scores, and neither a federation nor the log.
    outside = {name for name in files(tmp_path / "owner") if not name.startswith("est/")}
    assert outside == {"marks.json", "scores.json"}
    assert files(tmp_path / "owner/est") == files(tmp_path / "server/est")
    assert stat.S_IMODE(Path("server/est.log.json").stat().st_mode) == 0o600


def test_the_first_rounds_alone_are_no_pass(run, tmp_path, monkeypatch):
    from safetensors.torch import load_file, save_file

    fed = handmade.write(tmp_path / "fed", clients=7, size=handmade.SIZE, rounds=4, seed=3)
    for number in (3, 4):
        path = fed.path / f"rounds/{number:03d}/clients/c1" / adapters.WEIGHTS
        tensors = load_file(path)
        tensors[handmade.A][0, 0] += handmade.MARKED
        save_file(tensors, path)
    handmade.named(fed.path)
    [mark] = handmade.marks(Path("marks.json"))
    handmade.reading(monkeypatch, mark)
    options = ("--seed", 5, "--quiet", *SMALL)

    def decided(*rounds):
        words = ("estimate", "--rounds", fed.path, "--out", "est", *options, *rounds)
        assert run("attribute", *words).code == 0
        score = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
        assert run("attribute", *score).code == 0
        words = ("decide", "s.json", "--out", "o", "--quiet", "--federations", 60)
        code = run("attribute", *words).code
        return code, json.loads(Path("o/report.json").read_text())

    code, document = decided("--round", 1, "--round", 2)
    assert code == 7
    assert document["verdict"]["status"] == "inconclusive"
    assert document["verdict"]["reasons"] == [
        "fed_attr: none of 7 clients is flagged, but 2 of the federation's 4 rounds have no "
        "scores: 3 to 4."
    ]
    assert "rounds without scores: 3 to 4" in document["limits"]
    code, document = decided()
    assert code == 1
    assert not any(limit.startswith("rounds without") for limit in document["limits"])
    assert [finding["evidence"]["client"] for finding in document["findings"]] == ["c1"]


def test_rounds_that_a_federation_gained_are_known_without_estimates(run, fed, tmp_path):
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet", "--round", 1)
    assert run("attribute", *words).code == 0
    assert json.loads(Path("est/estimates.json").read_text())["federation_rounds"] == 2
    longer = handmade.write(tmp_path / "longer", clients=7, size=handmade.SIZE, rounds=3)
    table, more = (
        json.loads((place / "federation.json").read_text()) for place in (fed.path, longer.path)
    )
    shutil.copytree(longer.path / "rounds/003", fed.path / "rounds/003")
    table["rounds"].append(more["rounds"][3])
    (fed.path / "federation.json").write_text(json.dumps(table))
    handmade.named(fed.path)
    again = run("attribute", *words)
    assert "0 sums" in again.out
    assert json.loads(Path("est/estimates.json").read_text())["federation_rounds"] == 3


def test_rounds_as_they_come(run, fed):
    shutil.copy(fed.path / "owner/watermark.json", "marks.json")
    score = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
    other = "No method or watermark in use named 'kgw'. There is: fictitious."
    for number in (1, 2):
        words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
        assert run("attribute", *words, "--round", number).code == 0
        run.refused(2, "attribute", *score, "--set", "kgw.tokens=3", says=other)
        assert run("attribute", *score).code == 0
        words = ("decide", "s.json", "--out", f"o{number}", "--quiet", "--federations", 0)
        decided = run("attribute", *words)
        assert len(json.loads(Path("s.json").read_text())["rounds"]) == number
        assert decided.code in {0, 1, 7}
    log = json.loads(Path("est.log.json").read_text())["rounds"]
    assert [one["round"] for one in log] == [1, 2]
    again = run("attribute", "estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    assert again.code == 0
    assert "0 sums" in again.out
    assert json.loads(Path("est.log.json").read_text())["rounds"] == log


def test_a_dry_run_asks_nothing_and_writes_nothing(run, fed, monkeypatch, tmp_path):
    from fedaudit_plugins.secure_aggregation.ideal import Ideal

    def refuse(*_):
        raise AssertionError("a sum was asked for")

    monkeypatch.setattr(Ideal, "add", refuse)
    before = files(tmp_path)
    whole = run("attribute", "--rounds", fed.path, *SMALL, *ALONE, "--dry-run", "--out", "o")
    one = run("attribute", "estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--dry-run")
    for shown in (whole, one):
        assert (shown.code, shown.err) == (0, "")
        assert "112 sums in rounds 1, 2" in shown.out
        assert "TOGETHER THEY GIVE AWAY single updates" in shown.out
    assert "answers" in whole.out
    assert files(tmp_path) == before
    assert all(target.adapter is None for target, _ in fed.engine.asked)  # the bare base, for time


def test_only_the_servers_dry_run_needs_no_marks(run, fed, tmp_path):
    shutil.copytree(fed.path, "bare", ignore=shutil.ignore_patterns("owner"))
    words = ("--rounds", "bare", *SMALL, "--dry-run")
    run.refused(2, "attribute", *words, says="name the owner's with --watermark")
    shown = run("attribute", "estimate", *words, "--out", "est")
    assert shown.code == 0
    assert "112 sums in rounds 1, 2" in shown.out
    assert "Time for the tests" not in shown.out
    marked = run("attribute", *words, *ALONE, "--watermark", fed.path / "owner/watermark.json")
    assert "Time for the tests" in marked.out


def test_a_dry_run_tells_what_colluding_clients_add(run, fed):
    words = ("--rounds", fed.path, *SMALL, *ALONE, "--dry-run", "--colluding", "c0, c2,c0")
    for step in ((), ("estimate", "--out", "est")):
        shown = run("attribute", *step, *(w for w in words if not step or w not in ALONE))
        assert shown.code == 0
        # All seven clients' updates follow anyway: with two of them known, those of the other five.
        assert "Round 1, where c0, c2 tell the server their updates: those of 5 of" in shown.out
    everybody = ",".join(f"c{n}" for n in range(7))
    shown = run("attribute", *words[:-1], everybody)
    assert "no other client takes part" in shown.out


@pytest.mark.parametrize(("others", "single"), [(1, True), (2, False)])
def test_sums_over_a_single_client_are_called_what_they_are(run, fed, others, single):
    few = ("--others", others, "--queries", 4, "--threshold", others)
    words = ("attribute", "--rounds", fed.path, *few, *ALONE)
    shown = run(*words, "--dry-run")
    assert shown.code == 0
    assert ("not secure aggregation" in " ".join(shown.out.split())) == single
    assert run(*words, "--out", "o", "--federations", 0).code in (0, 1, 7)
    assert any("that is not secure aggregation" in limit for limit in report()["limits"]) == single


def test_what_colluding_clients_leave_together(fed):
    protocol_config = ProtocolConfig(others=3, pairs=1, threshold=3, limit=1.0)
    plan = draw_sum_plan(open_federation(fed.path), protocol_config)
    drawn = plan.designs[1]
    [target, *_] = drawn.designs
    alone = replace(plan, designs={1: replace(drawn, designs=(target,))})
    # One pair of sums and everybody's are three equations in six unknowns, or fewer.
    [line] = dry_run.describe_collusion(alone, [target.target])
    assert (
        "no other client's follows by linear algebra; the smallest group whose sum follows has"
        in line
    )
    assert dry_run.describe_collusion(alone, []) == []


def test_a_wrong_key_flags_nobody_and_says_so(run, fed):
    handmade.marks(Path("other.json"), seed=78)
    words = ("--rounds", fed.path, "--watermark", "other.json", *SMALL, *ALONE, "--out", "o")
    done = run("attribute", *words, "--federations", 36)
    assert done.code == 0
    document = report()
    assert document["verdict"]["status"] == "pass"
    assert "none of 7 clients is flagged" in document["verdict"]["reasons"][0]
    assert any("the keys are not the right ones" in limit for limit in document["limits"])
    tpr, fpr = (value(document, "fed_attr", metric) for metric in ("tpr", "fpr"))
    assert (tpr["value"], tpr["n"]) == (None, 0)
    assert tpr["reason"] == "no client that took part trained on documents with these marks"
    assert (fpr["value"], fpr["n"]) == (0.0, 7)  # c1 trained on another mark of this id


@pytest.mark.parametrize(("rounds", "absent"), [(3, (1, 2)), (3, (2,)), (1, ())])
def test_a_client_flagged_over_a_single_round_is_named(run, tmp_path, monkeypatch, rounds, absent):
    made = handmade.write(
        tmp_path / "fed",
        clients=7,
        size=handmade.SIZE,
        guilty=("c1",),
        rounds=rounds,
        absent=dict.fromkeys(absent, ("c1",)),
    )
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    handmade.reading(monkeypatch, mark)
    words = ("--rounds", made.path, *SMALL, *ALONE, "--federations", 0, "--out", "o")
    assert run("attribute", *words).code == 1
    limits = report()["limits"]
    single = [one for one in limits if one.startswith("flagged over a single round: c1;")]
    assert len(single) == (len(absent) == 2)
    assert any(one.startswith("one round was scored") for one in limits) == (rounds == 1)


def test_a_client_that_never_came_is_null_and_the_verdict_no_pass(run, tmp_path, monkeypatch):
    absent = {1: ("c6",), 2: ("c6",)}
    made = handmade.write(tmp_path / "fed", clients=7, size=handmade.SIZE, absent=absent)
    [mark] = handmade.marks(tmp_path / "marks.json")
    handmade.reading(monkeypatch, mark)
    words = ("--rounds", made.path, "--watermark", "marks.json", *SMALL, *ALONE, "--out", "o")
    assert run("attribute", *words, "--federations", 0).code == 7
    document = report()
    [row] = [one for one in document["measurements"] if one["scope"] == {"client": "c6"}]
    assert (row["value"], row["n"]) == (None, 0)
    assert "took part in none" in row["reason"]
    assert document["verdict"]["status"] == "inconclusive"
    assert "c6" in document["verdict"]["reasons"][0]


def test_where_everybody_is_guilty_there_is_no_fpr(run, tmp_path, monkeypatch):
    everybody = tuple(f"c{n}" for n in range(7))
    made = handmade.write(tmp_path / "fed", clients=7, size=handmade.SIZE, guilty=everybody)
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    handmade.reading(monkeypatch, mark)
    words = ("--rounds", made.path, *SMALL, *ALONE, "--federations", 0, "--out", "o")
    assert run("attribute", *words).code in {0, 1, 7}
    fpr = value(report(), "fed_attr", "fpr")
    assert (fpr["value"], fpr["n"]) == (None, 0)
    assert "no client that took part is innocent" in fpr["reason"]
    assert value(report(), "fed_attr", "tpr")["n"] == 7


def test_four_clients_are_attributed_at_the_first_try(run, tmp_path, monkeypatch):
    made = handmade.write(
        tmp_path / "fed",
        clients=4,
        size=handmade.SIZE,
        guilty=("c1",),
        weights=[12.0, 160.0, 40.0, 80.0],
        config={"queries": {"others": 5, "pairs": 5, "limit": 1.0}},
    )
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    handmade.reading(monkeypatch, mark)
    done = run("attribute", "--rounds", made.path, *ALONE, "--out", "o")
    assert done.code in {0, 1}
    limits = report()["limits"]
    for told in (
        "2 others in a set (m) in place of 5: a round has 4 clients",
        "a threshold of 2 clients in place of 5: a set has 2 others",
        "every client's update has weight 1 in the sums, whatever its size",
    ):
        assert told in limits
    [share] = [told for told in limits if told.startswith("an estimate holds at most")]
    assert share.startswith("an estimate holds at most 0.40 times another client's update (c")
    step = ("estimate", "--rounds", made.path, "--out", "est", "--quiet")
    done = run("attribute", *step)
    assert done.code == 0
    assert "A threshold of 2 clients in place of 5: a set has 2 others." in done.out
    # Who gets the estimates learns what the sums were of, and no coefficient.
    assert json.loads(Path("est/estimates.json").read_text())["weights"] == "equal"
    says = "2 others in a set are below the threshold"
    run.refused(2, "attribute", *step[:3], "--out", "two", "--others", 2, says=says)
    by_size = (*step[:3], "--out", "two", "--weights", "size")
    run.refused(2, "attribute", *by_size, says="--weights equal")
    assert not Path("two").exists()


def test_the_other_methods_run_on_plaintext(run, tmp_path, base):
    # The built-in model itself: FLForensics follows its gradient.
    made = handmade.write(
        tmp_path / "fed", clients=4, size=handmade.SIZE, rounds=2, base_sha256=base.sha256
    )
    handmade.marks(made.path / "owner/watermark.json", options={**handmade.TESTS, "paraphrases": 1})
    data = made.path / "data"
    data.mkdir()
    texts = [json.dumps({"text": f"The court heard claim {n}."}) for n in range(3)]
    (data / "held_out.jsonl").write_text("\n".join(texts) + "\n")
    names = ("direct", "global", "fldetector", "flforensics")
    words = [word for name in names for word in ("--attribution", name)]
    done = run("attribute", "--rounds", made.path, *words, *ALONE, "--out", "o")
    assert (done.code, done.err) == (7, "")
    document = report()
    by_plugin = {name: set() for name in names}
    for row in document["measurements"]:
        by_plugin[row["plugin"]].add(row["scope"].get("client"))
    assert by_plugin["global"] == {None}
    for name in ("direct", "fldetector", "flforensics"):
        assert by_plugin[name] >= set(made.names)
        assert any(limit.startswith(name) for limit in document["limits"])
        assert not any(limit.startswith(f"{name}: {name}") for limit in document["limits"])
    assert document["verdict"]["status"] == "inconclusive"  # it goes by the protocol alone
    assert "design" not in document["seeds"]


def test_sums_have_no_updates_for_the_other_methods(run, tmp_path, monkeypatch):
    secure = {"others": 3, "pairs": 2, "threshold": 3, "seed": 8}
    made = handmade.write(tmp_path / "fed", size=handmade.SIZE, secure=secure)
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    engine = handmade.reading(monkeypatch, mark)
    for name in ("direct", "fldetector", "flforensics"):
        words = ("--attribution", "fed_attr", "--attribution", name, *ALONE, "--out", "o")
        says = f"{name} needs single clients' updates, which secure aggregation hides"
        run.refused(3, "attribute", "--rounds", made.path, *words, says=says)
    assert engine.asked == []  # the protocol, too, has not begun
    done = run("attribute", "--rounds", made.path, *ALONE, "--out", "o")
    assert done.code == 7  # two rounds with two pairs of sums each are too few for a pass
    assert "a pass takes 90% at least" in report()["verdict"]["reasons"][0]
    assert report()["seeds"]["design"] == 8  # what the sums were asked for by
    done = run("attribute", "--rounds", made.path, "--attribution", "global", *ALONE, "--out", "g")
    assert (done.code, report("g")["verdict"]["status"]) == (7, "inconclusive")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "Name a federation with --rounds, or one party's step"),
        (("--rounds", "none"), 3, "There is no federation none"),
        (("--rounds", "."), 3, "neither a federation"),
        (("--rounds", "fed", "--attribution", "fedattr"), 2, "Did you mean 'fed_attr'?"),
        (("--rounds", "fed", "--set", "fictitous.tokens=3"), 2, "Did you mean 'fictitious'?"),
        (("--rounds", "fed", "--set", "fictitious.token=3"), 2, "Did you mean 'tokens'?"),
        (("--rounds", "fed", "--set", "kgw.tokens=3"), 2, "in use named 'kgw'. There is: fictitio"),
        (("--rounds", "fed", "--set", "flforensics.layers=1"), 2,
         "No method or watermark in use named 'flforensics'. There is: fictitious."),
        (("--rounds", "fed", "--watermark", "none.json"), 3, "no watermark file none.json"),
        (("--rounds", "fed", "--tau", "nan"), 2, "tau must be a finite number"),
        (("--rounds", "fed", "--tau", "-1", "--dry-run"), 2, "finite number from 0 on, not -1.0"),
        (("--rounds", "fed", "--others", "0"), 2, "the target's own update"),
        (("--rounds", "fed", "--others", "6"), 2, "the target's own update"),
        (("--rounds", "fed", "--queries", "0"), 2, "estimate nothing"),
        (("--rounds", "fed", "--others", "2"), 2, "below the threshold of secure aggregation, 5"),
        (("--rounds", "fed", "--secure-aggregation", "idal"), 2, "Did you mean 'ideal'?"),
        (("--rounds", "fed", "--attribution", "direct", "--dry-run"), 2, "--dry-run"),
        (("--rounds", "fed", "--attribution", "fedattr", "--dry-run"), 2,
         "Did you mean 'fed_attr'?"),
        (("fed",), 2, "A federation is given with an option: --rounds fed."),
        (("fed/rounds/",), 2, "A federation is given with an option: --rounds fed/rounds/."),
        (("none/fed",), 2, "--rounds none/fed."),
        (("--tau", "5", "fed"), 2, "--rounds fed."),
        (("marks.json",), 2, "--rounds marks.json."),
        (("score2",), 2, "No such command 'score2'. Did you mean 'score'?"),
        (("--rounds", "fed", "--colluding", "c1"), 2, "could learn: add --dry-run"),
        (("--rounds", "fed", "--dry-run", "--colluding", "cl1"), 2, "Did you mean 'c1'?"),
        (("--rounds", "fed", "--out", "fed"), 3, "federation's folder"),
        (("--rounds", "fed", "--out", "fed/federation.json"), 3, "--out needs a folder"),
        (("estimate", "--rounds", "fed", "--out", "e", "--round", "9"), 2, "no round 9"),
        (("estimate", "--rounds", "fed", "--out", "e", "--round", "2", "--round", "2"), 2,
         "Round 2 is named twice"),
        (("estimate", "--rounds", "fed", "--out", "fed"), 3, "holds no estimates"),
        (("score", "fed", "--watermark", "marks.json", "--out", "s"), 3, "holds no estimates"),
        (("score", "none", "--watermark", "marks.json", "--out", "s"), 3, "holds no estimates"),
        (("decide", "none.json"), 3, "no file of scores none.json"),
        (("decide", "marks.json"), 3, "holds no scores"),
        (("estimat",), 2, "estimat"),
        (("--tau", "9", "decide", "none.json"), 2, "Give --tau after decide, not before it"),
        (("--set", "kgw.tokens=3", "score", "e"), 2, "Give --set after score"),
        (("estimate", "--rounds", "fed", "--out", "est", "--log", "est/log.json"), 3,
         "would go to the owner"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_mistakes(run, fed, tmp_path, words, code, says):
    handmade.marks(tmp_path / "marks.json")
    before = files(tmp_path)
    run.refused(code, "attribute", *words, says=says)
    assert files(tmp_path) == before
    assert fed.engine.asked == []


def test_without_a_watermark_file_one_is_asked_for(run, tmp_path):
    made = handmade.write(tmp_path / "fed", clients=7)
    says = "holds no watermark file: name the owner's with --watermark"
    run.refused(2, "attribute", "--rounds", made.path, says=says)


def test_mistakes_at_the_owners(run, fed):
    run.refused(3, "attribute", "decide", fed.path / "owner/watermark.json", says="holds no scores")
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--round", 1, "--quiet")
    assert run("attribute", *words).code == 0
    key = fed.path / "owner/watermark.json"
    score = ("score", "est", "--out", "s.json", *ALONE)
    assert run("attribute", *score, "--watermark", key).code == 0
    kept = Path("s.json").read_bytes()
    handmade.marks(Path("other.json"), seed=78)
    says = "The scores are of other marks than these"
    run.refused(3, "attribute", *score, "--watermark", "other.json", says=says)
    other = handmade.write(Path("second"), clients=7, size=handmade.SIZE, rounds=1, seed=1)
    words = ("estimate", "--rounds", other.path, "--out", "est2", *SMALL, "--quiet")
    assert run("attribute", *words).code == 0
    says = "of another run than the scores"
    words = ("score", "est2", "--out", "s.json", "--watermark", key, *ALONE)
    run.refused(3, "attribute", *words, says=says)
    assert Path("s.json").read_bytes() == kept
    weights = Path("est/001/c2") / adapters.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\x80\x7f")
    run.refused(3, "attribute", *score, "--watermark", key, says="SHA-256")


def test_missing_rounds_of_a_federation(run, fed):
    shutil.rmtree(fed.path / "rounds/002/global")
    run.refused(3, "attribute", "--rounds", fed.path, *SMALL, says="misses round 2")


def test_a_place_that_takes_no_json_is_refused_before_anything_is_asked(run, fed):
    Path("folder").mkdir()
    Path("file").write_text("")
    for place in ("folder", "file/j.json"):
        words = ("--rounds", fed.path, *SMALL, *ALONE, "--out", "o", "--json", place)
        run.refused(3, "attribute", *words, says=place.partition("/")[0])
    assert fed.engine.asked == []


def test_this_very_folder_may_be_that_of_the_estimates(run, fed, monkeypatch, tmp_path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ("estimate", "--rounds", fed.path, *SMALL, "--out", ".", "--quiet")
    assert run("attribute", *words).code == 0
    assert (tmp_path / "here.log.json").is_file()


@pytest.mark.parametrize("which", ["the smallest", "every one"])
def test_sums_of_other_tensors_are_refused(run, tmp_path, which):
    from safetensors.torch import load_file, save_file

    from fedaudit.federation import secure_sums

    secure = {"others": 3, "pairs": 2, "threshold": 3, "seed": 8}
    made = handmade.write(tmp_path / "fed", clients=7, secure=secure)
    table = json.loads((made.path / "federation.json").read_text())
    stored = sorted(table["rounds"][1]["sums"].items(), key=lambda item: len(item[1]))
    for name, members in stored if which == "every one" else stored[:1]:
        file = made.path / name
        tensors = {key: tensor[:1].contiguous() for key, tensor in load_file(file).items()}
        save_file(
            tensors, file, metadata={secure_sums.LABEL: secure_sums._label(tuple(members), 1)}
        )
    handmade.named(made.path)
    words = ("estimate", "--rounds", made.path, "--out", "est", "--quiet")
    run.refused(3, "attribute", *words, says="has other tensors than an update of")


@pytest.mark.parametrize("name", ["{away}", "../../escaped", "global", "Global", ".c0", "NUL"])
def test_a_client_that_calls_itself_a_path_writes_nothing(run, fed, tmp_path, name):
    away = tmp_path / "elsewhere"
    shutil.copytree(fed.path / "rounds/001/clients/c1", away)
    kept = {path: path.read_bytes() for path in away.iterdir()}
    name = name.format(away=away)
    manifest = fed.path / "federation.json"
    table = json.loads(manifest.read_text())
    table["clients"][0]["id"] = name
    for one in table["rounds"]:
        one["participants"] = [name if who == "c0" else who for who in one["participants"]]
        one["clients"] = {name if k == "c0" else k: v for k, v in one["clients"].items()}
    manifest.write_text(json.dumps(table))
    before = set(tmp_path.rglob("*"))
    words = ("estimate", "--rounds", fed.path, "--out", "below/est", *SMALL, "--quiet")
    run.refused(3, "attribute", *words, says=name)
    assert {path: path.read_bytes() for path in away.iterdir()} == kept
    assert not {path.name for path in set(tmp_path.rglob("*")) - before} & {"adapter_config.json"}


def test_estimates_that_point_elsewhere_are_refused(run, fed, tmp_path):
    done = run("attribute", "estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    assert done.code == 0, done
    moved = tmp_path / "moved"
    Path("est/001/c2").rename(moved)
    Path("est/001/c2").symlink_to(moved)
    words = ("--watermark", fed.path / "owner/watermark.json", "--out", "s.json", *ALONE)
    run.refused(3, "attribute", "score", "est", *words, says="a link that leads out of est")


# The guilty client's update is four times as long as the others', so that little of it is hidden.
SHARED = ("--protocol", "shared", "--limit", 0.8, "--hidden", 0)


def test_shared_sets_name_the_guilty_client_with_fewer_sums_and_give_nobody_away(run, fed):
    done = run("attribute", "--rounds", fed.path, *SHARED, *ALONE, "--out", "o")
    assert (done.code, done.err) == (1, "")
    document = report()
    [finding] = document["findings"]
    assert finding["evidence"]["client"] == "c1"
    # Seven clients: Q = 3 and everybody, in two rounds; pairs would be 2 * 5 * 7 * 2.
    assert value(document, "fed_attr", "queries")["value"] == 4 * 2
    determined = [row["value"] for row in document["measurements"] if row["metric"] == "determined"]
    assert determined == [0, 0]
    limits = " ".join(document["limits"])
    assert "all estimates of a round are made of the same sums" in limits
    told = re.search(r"at most (\d+)% of the variance of c1's update can be told", limits)
    assert told, limits[-900:]
    assert int(told[1]) > 63  # which it would be if all updates were of equal length
    assert "give single updates away" not in limits
    assert "No round's sums determine a single client's update exactly." in " ".join(
        done.out.split()
    )


def test_the_shared_protocol_party_by_party_and_what_the_dry_run_says(run, fed):
    words = ("attribute", "estimate", "--rounds", fed.path, "--out", "est", *SHARED)
    dry = run(*words, "--dry-run")
    assert dry.code == 0
    assert "3 sets of 3 clients and all of them, shared by all" in dry.out
    assert "MiB in all" in dry.out
    assert (
        "No client's update follows exactly from them; given all sums and the round's own"
        in dry.out
    )
    assert not Path("est").exists()
    asked = run(*words, "--quiet")
    assert asked.code == 0
    assert "2 rounds with 14 estimates in est, 8 sums" in asked.out
    again = run(*words, "--quiet")  # without a seed: the log has the sets
    assert "2 rounds with 14 estimates in est, 0 sums" in again.out
    scores = ("score", "est", "--watermark", fed.path / "owner/watermark.json")
    scored = run("attribute", *scores, "--out", "s.json", *ALONE)
    assert scored.code == 0
    decided = run("attribute", "decide", "s.json", "--out", "o", "--quiet")
    assert decided.code == 1
    document = report()
    [finding] = document["findings"]
    assert finding["evidence"]["client"] == "c1"
    assert any(
        "rounds 1, 2 are computed from sums over 4 sets" in one for one in document["limits"]
    )
    words = ("attribute", "calibrate", "s.json", "--federations", 2, "--quiet")
    made = run(*words, "--marked-share", "c1=0.2")
    assert made.code == 0
    assert "c1, with 20% of its documents marked, shows Z " in made.out
    assert all(f"\nc{n} " in made.out for n in range(7))
    assert max(map(len, made.out.splitlines())) <= 80
    run.refused(2, *words, "--marked-share", "c1", says="give a client and a share, such as c1=0.2")
    run.refused(2, *words, "--marked-share", "c1=1.5", says="give a client and a share")
    run.refused(2, *words, "--marked-share", "c11=0.2", says="Did you mean 'c1'?")
    bundled = run(
        "attribute", "bundle", "est", "--watermark", fed.path / "owner/watermark.json",
        "--scores", "s.json", "--report", "o", "--out", "b",
    )  # fmt: skip
    assert bundled.code == 0
    # Neither the server's word for the estimates nor commitments of before training were given.
    checked = run("attribute", "verify", "b", *ALONE)
    assert (checked.code, checked.err) == (7, "")
    assert "differs: " not in checked.out


def test_mistakes_about_the_protocol_are_one_line(run, fed):
    fits = ("attribute", "--rounds", fed.path)
    run.refused(2, *fits, "--protocol", "share", says="Did you mean 'shared'?")
    run.refused(2, *fits, "--sets", 3, says="--sets is for shared sets")
    run.refused(2, *fits, *SHARED, "--queries", 3, says="are for pairs of sets")
    words = ("attribute", "estimate", "--rounds", fed.path, "--out", "est", "--quiet")
    assert run(*words, *SHARED).code == 0
    run.refused(3, *words, *SMALL, says="est holds estimates by protocol 'shared'")
    words = ("attribute", "estimate", "--rounds", fed.path, "--out", "new", "--quiet")
    run.refused(3, *words, *SMALL, says="Round 1 was already asked for with other sets")


def test_a_tokenizer_saved_with_the_rounds_is_said_or_refused(run, fed):
    from fedaudit import nano

    last = fed.path / open_federation(fed.path).manifest.rounds[-1].adapter
    table = json.loads((nano.folder() / "tokenizer.json").read_text())
    (last / "tokenizer.json").write_text(json.dumps(table))
    (last / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<pad>"}))
    words = ("attribute", "--rounds", "fed", *SMALL, *ALONE, "--federations", 0, "--out")
    assert run(*words, "o").code == 1
    [told] = [limit for limit in report()["limits"] if limit.startswith("Marks are tested with")]
    assert "'<pad>' as the token that ends a text" in told
    vocabulary = table["model"]["vocab"]
    one, two = [word for word, number in vocabulary.items() if number in (300, 301)]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (last / "tokenizer.json").write_text(json.dumps(table))
    run.refused(3, *words, "p", says="it was trained on another base")
