"""The shards of an audit, merged, are the audit."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import fake_audit
import handmade
import pytest

from fedaudit.audit import access
from fedaudit.cache.answers import FILE, AnswerCache, CacheHeader, Shard, load
from fedaudit.config import registry
from fedaudit.report.document import validate

pytestmark = pytest.mark.usefixtures("few_controls")

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora", "--quiet")
PAIR = ("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", *MODEL)
SEVERAL = ("--attack", "superset", "--attack", "contextual", "--set", "superset.context=3")
EXACT = ("--estimator", "exact")
BRIEF = ("--set", "superset.sweeps=false", "--set", "contextual.sweeps=false")
AUDITS = {
    "one attack": (*PAIR, "--set", "contextual.context=4"),
    "several": (*PAIR, *SEVERAL),
    "no victim": ("extract", "--prefixes", "own.jsonl", *MODEL),
    "verbatim": (*PAIR, "--attack", "verbatim", "--set", "verbatim.shortest=2"),
    "infer": ("infer", "--data", "own.jsonl", *MODEL, "--candidates", "3"),
    "memorize": ("memorize", "--clients", "own.jsonl", "victim.jsonl", *MODEL,
                 "--prefix-length", "4", "--new-tokens", "9"),
    "exact": (*PAIR, *SEVERAL, *EXACT, *BRIEF),
    "exact matrix": (
        *("extract", "--matrix", "--clients", "own.jsonl", "victim.jsonl", *MODEL),
        *("--attack", "superset", "--set", "superset.context=3", *EXACT),
    ),
    "matrix": ("extract", "--matrix", "--clients", "own.jsonl", "victim.jsonl", *MODEL, *SEVERAL),
}  # fmt: skip

ASKED_ANEW = ("several", "infer", "memorize", "exact", "exact matrix", "matrix")
"""Those whose questions are counted; the others, and every attack, are merged below."""


def out(name):
    """Return a new output folder."""
    Path(name).mkdir()
    return name


def report(folder):
    """Return a report without its times and shards."""
    found = json.loads(Path(folder, "report.json").read_text())
    validate(found)
    for name in ("started", "finished", "shards", "resumed_from"):
        found["run"].pop(name, None)
    del found["budget"]["seconds"]
    return found


def asked():
    """Return the lines of what was answered since the last time, and forget them."""
    found = Path("log").read_text().splitlines() if Path("log").exists() else []
    Path("log").unlink(missing_ok=True)
    return found


def prompts(lines):
    """Return the prompts in the lines of a log."""
    return [prompt for line in lines for prompt in re.findall(r"\(\(([\d, ]*)\), \d+\)", line)]


@pytest.fixture
def sharded(here, run):
    """Return a function that runs every shard of an audit and returns their folders."""

    def shards(words, of):
        for number in range(1, of + 1):
            done = run(*words, "--shard", f"{number}/{of}", "--out", f"part{number}")
            assert (done.code, done.out) == (0, ""), done.err
        return [f"part{number}" for number in range(1, of + 1)]

    return shards


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, {"several": 3, "exact": 5}.get(name, 2)) for name in ASKED_ANEW),
        *(
            pytest.param(name, of, marks=pytest.mark.oracle)
            for name, of in (("several", 2), ("infer", 3), ("exact", 2))
        ),
    ],
)
def test_the_shards_of_an_audit_are_the_audit(run, sharded, name, of):
    words = AUDITS[name]
    assert run(*words, "--out", out("one")).code in (0, 1, 7)
    whole = asked()
    parts = sharded(words, of)
    sampled = asked()
    assert not any(Path(part, "report.json").exists() for part in parts)
    merged = run(
        *("merge", *parts[1:], parts[0]),
        *("--out", out("merged"), "--json", "also.json"),
    )
    assert merged.code in (0, 1, 7), merged.err
    assert report("merged") == report("one")
    assert Path("also.json").read_text() == Path("merged/report.json").read_text()
    assert "Verdict" in merged.out
    # Together they ask what a whole audit asks: the shards all that is drawn or
    # computed, the merge how likely the base finds what came out of all of them, and how likely
    # both models find strings where they stand.
    weighed = asked()
    assert all(re.match("(base|tuned scores) ", line) for line in weighed)
    asked_by_all, asked_by_one = Counter(prompts(sampled + weighed)), Counter(prompts(whole))
    assert asked_by_all.keys() == asked_by_one.keys()
    if name == "infer":  # what stands in groups of several shards is scored by each of these
        assert asked_by_one <= asked_by_all
        assert max((asked_by_all - asked_by_one).values(), default=0) < of
    else:
        assert asked_by_all == asked_by_one
    assert all(Path(part, FILE).exists() for part in parts)


def pairs(documents):
    """Return documents of the corpus as instructions and outputs."""
    for one in documents:
        given, _, follows = one["text"].partition(", which ")
        yield {"id": one["id"], "instruction": f"{given} did what?", "output": follows}


def recites(target, prompt, sample):
    """Go on with a document of the victim's, word for word, as a model does that learnt it all."""
    if target.adapter and prompt:
        for one in fake_audit.corpus(victim=True):
            if one["text"].startswith(prompt):
                return one["text"][len(prompt) :]
        for one in pairs(fake_audit.corpus(victim=True)):
            if one["instruction"] in prompt:
                return one["output"]
    return SAYS(target, prompt, sample)


def loads_with_answers(load):
    """Return `load` with the words of all answers known, so that ids don't depend on the answers.

    A fake engine numbers words as it reads them, and a shard has not all answers.
    """

    def loaded(*args, **options):
        engine, sha256 = load(*args, **options)
        names = ("nobody", *fake_audit.NAMES)
        engine.tokenize([f"{lead}{name} left." for lead in (" ", "") for name in names])
        return engine, sha256

    return loaded


SAYS = fake_audit.says
NAMES = [f"{first} {last}" for first in ("Ed", "Flo", "Gus", "Hal") for last in ("May", "Oak")]
HELD_OUT = [fake_audit.document(n, NAMES[n % 8], "Hull", f" {n}.") for n in range(24)]
SETTINGS = {
    "membership": ("membership.shifted=true", "membership.neighbours=2"),
    "verbatim": ("verbatim.shortest=2",),
}
KEEP_NO_ANSWERS = {"gate", "laft", "reconstruction"}
"""Attacks on the model's weights, or on a gate: a model of made-up answers has neither. `gate` and
`reconstruction` run as the shards are merged; `laft` asks as `contextual` does."""


@pytest.mark.parametrize("name", sorted({*registry.plugins("attack")} - KEEP_NO_ANSWERS))
@pytest.mark.parametrize("of", [2, pytest.param(5, marks=pytest.mark.oracle)])
def test_the_shards_of_every_attack_are_the_attack(run, here, sharded, monkeypatch, name, of):
    # What came out is asked about once more by some attacks: here all of it comes out.
    monkeypatch.setattr(fake_audit, "says", recites)
    monkeypatch.setattr(access, "load_engine", loads_with_answers(access.load_engine))
    corpora = {"own": fake_audit.corpus(0), "victim": fake_audit.corpus(1), "held": HELD_OUT}
    for file, documents in corpora.items():
        rows = pairs(documents) if name == "discoverable" else documents
        Path(f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plugin, target = registry.plugins("attack")[name], MODEL
    if plugin.reads_clients:
        fake_audit.keep_documents(handmade.write(here / "fed", clients=2).path)
        target = ("--target", "fed", "--quiet")
    words = [*PAIR[: -len(MODEL)], *target, "--attack", name]
    words += ["--held-out", "held.jsonl"] if plugin.compares or plugin.asks_held_out else []
    words += [word for setting in SETTINGS.get(name, ()) for word in ("--set", setting)]
    assert run(*words, "--out", out("one")).code in (0, 1, 7)
    merged = run("merge", *sharded(words, of), "--out", out("merged"))
    assert merged.code in (0, 1, 7), merged.err
    assert report("merged") == report("one")


def test_every_shard_has_its_share(sharded):
    sharded(AUDITS["one attack"], 3)
    known = [load(Path(f"part{n}"), write=False).loaded_answers for n in (1, 2, 3)]
    assert min(known) > 0
    samples = re.findall(r"\), (\d+)\)", "".join(asked()))
    assert sum(known) == sum(map(int, samples))


@pytest.mark.parametrize("name", ["verbatim", "infer", "memorize", "no victim", "exact matrix"])
def test_what_is_asked_in_its_own_way_goes_on_too(here, run, monkeypatch, name):
    words = AUDITS[name]
    assert run(*words, "--out", out("one")).code in (0, 1, 7)
    whole = asked()
    with monkeypatch.context() as patched:
        fake_audit.replace(patched.setattr, "log", fake_audit.Chances("SIGINT", 4))
        assert run(*words, "--out", out("again")).code == 6
    run.refused(3, *words, "--out", "again", says="unfinished. Go on with --resume")
    assert run(*words, "--out", "again", "--resume").code in (0, 1, 7)
    resumed = json.loads(Path("again/report.json").read_text())["run"].pop("resumed_from")
    assert resumed == json.loads(Path("one/report.json").read_text())["run"]["id"]
    assert report("again") == report("one")
    assert set(asked()) == set(whole)
    assert not Path("again", FILE).exists()


def test_a_stopped_shard_goes_on(here, run, monkeypatch):
    words = AUDITS["several"]
    assert run(*words, "--out", out("one")).code in (0, 1, 7)
    with monkeypatch.context() as patched:
        fake_audit.replace(patched.setattr, "log", fake_audit.Chances("SIGTERM", 5))
        assert run(*words, "--shard", "1/2", "--out", "part1").code == 6
    assert json.loads(Path("part1/report.json").read_text())["status"] == "interrupted"
    run.refused(3, "merge", "part1", says="Shard 1/2 in part1 is not finished: go on with --resume")
    assert run(*words, "--shard", "1/2", "--out", "part1", "--resume").code == 0
    assert not Path("part1/report.json").exists()
    assert run(*words, "--shard", "2/2", "--out", "part2").code == 0
    assert run("merge", "part1", "part2", "--out", out("merged")).code in (0, 1, 7)
    assert report("merged") == report("one")


# what is refused


def test_missing_repeated_and_foreign_shards_are_refused(run, sharded):
    words = AUDITS["one attack"]
    parts = sharded(words, 3)
    run.refused(3, "merge", parts[0], says="There is no shard 2/3, 3/3: all parts are needed")
    run.refused(3, "merge", *parts, parts[1], says="part2 and part2 are both shard 2/3")
    assert run(*words, "--seed", "4", "--shard", "2/3", "--out", "other").code == 0
    run.refused(
        3, "merge", parts[0], "other", parts[2], says="other is of another audit than part1: seed"
    )
    assert run(*words, "--shard", "2/2", "--out", "half").code == 0
    run.refused(3, "merge", parts[0], "half", says="half is shard 2/2, and part1 1/3")
    run.refused(3, "merge", "lora", says="lora holds no shard: there is no answers.sqlite in it")
    run.refused(3, "merge", *parts[:2], "own.jsonl", says="own.jsonl is a file: name the folder of")
    run.refused(2, "merge", *parts, "--server", "foo", says="part1 asks no server foo")
    run.refused(2, "merge", says="Missing argument")
    assert run(*words, "--shard", "2/3", "--out", "wide", "--dtype", "bfloat16").code == 0
    run.refused(3, "merge", parts[0], "wide", parts[2], says='dtype is "bfloat16", not "auto"')


def test_a_whole_audit_is_no_shard(here, run, monkeypatch):
    with monkeypatch.context() as patched:
        fake_audit.replace(patched.setattr, "log", fake_audit.Chances("SIGTERM", 5))
        assert run(*AUDITS["several"], "--out", "whole").code == 6
    run.refused(3, "merge", "whole", says="holds a whole audit's answers")


def test_a_finished_shard_and_what_changed_since_are_named(run, sharded):
    parts = sharded(AUDITS["one attack"], 2)
    words = (*AUDITS["one attack"], "--shard", "1/2", "--out", "part1")
    run.refused(3, *words, says="finished: fedaudit merge puts shards together")
    before = Path("part1", FILE).read_bytes()
    assert run(*words, "--resume").code == 0
    assert Path("part1", FILE).read_bytes() == before
    with Path("victim.jsonl").open("a") as file:
        file.write("\n")
    says = r"has changed since: data.victim.jsonl is"
    run.refused(3, "merge", *parts, "--out", "merged", says=says)
    assert not Path("merged").exists()


def test_the_folder_of_a_shard_names_it_and_of_many_missing_ones_a_few_are_named(here, run):
    assert run(*AUDITS["one attack"], "--shard", "2/10000").code == 0
    [place] = Path("runs/extract").iterdir()
    assert place.name.endswith("-2-of-10000")
    assert (place / FILE).exists()
    run.refused(3, "merge", place, says="no shard 1/10000, 3/10000, 4/10000 and 9996 more: all")


def test_only_what_can_be_shared_out_is_repeated(here, run):
    header = CacheHeader(run="r", config={}, shard="1/1", request={"kind": "scrub"})
    AnswerCache(Path("part"), header, Shard()).finish()
    run.refused(3, "merge", "part", says="part is of the command 'scrub', which has no shards")


def test_what_stands_behind_two_dashes_is_no_option(run, sharded):
    words = ("memorize", "--clients", "own.jsonl", *MODEL, "--prefix-length", "4")
    words = (*words, "--new-tokens", "9")
    parts = []
    for number in (1, 2):
        own = ("--shard", f"{number}/2", "--out", f"part{number}")
        assert run(*words, *own, "--", "victim.jsonl").code == 0
        parts.append(f"part{number}")
    assert run("merge", *parts, "--out", out("merged")).code in (0, 1, 7)
    assert Path("merged/report.json").exists()


def test_answers_to_other_questions_stop_all_attacks(run, sharded, monkeypatch):
    words = (*AUDITS["verbatim"], "--attack", "contextual", "--set", "contextual.context=4")
    parts = sharded(words, 2)
    # As if what one of them asks had changed: the other could go on.
    monkeypatch.setattr(fake_audit.caching_engine, "ROOM", 300)
    run.refused(3, "merge", *parts, says="lacks the answers to some questions of this audit")


@pytest.mark.parametrize(
    "name",
    ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "1/0", "1/10001", f"1/{10**30}", "1/" + "9" * 5000],
)
def test_what_is_no_shard_is_refused(here, run, name):
    run.refused(2, *AUDITS["one attack"], f"--shard={name}", says="it takes i/n")


@pytest.mark.parametrize("option", [["--json", "r.json"], ["--reveal"]])
def test_one_shard_has_no_report(here, run, option):
    run.refused(2, *AUDITS["one attack"], "--shard", "1/2", *option, says="One shard has no report")


def test_shards_of_different_devices_copied_elsewhere_reveal_what_a_whole_audit_does(here, run):
    words = AUDITS["one attack"]
    assert run(*words, "--out", out("one"), "--device", "cuda:3", "--reveal").code in (0, 1, 7)
    for number, device in ((1, "cuda:0"), (2, "cuda:1")):
        own = ("--shard", f"{number}/2", "--device", device, "--out", f"part{number}")
        assert run(*words, *own).code == 0
    moved = [shutil.move(f"part{number}", f"moved{number}") for number in (1, 2)]
    shared = ("--out", out("merged"), "--device", "cuda:3", "--reveal", "--quiet")
    assert run("merge", *moved, *shared).code in (0, 1, 7)
    assert report("merged") == report("one")
    revealed = [Path(name, "revealed.jsonl").read_text() for name in ("one", "merged")]
    assert revealed[0] == revealed[1]
    assert "Di Orr" in revealed[0]
