"""What is at hand, what is done with it, what it asks, and why the rest is left out."""

import json
from dataclasses import replace
from pathlib import Path

import fake_audit
import handmade
import pytest

from fedaudit.api.cost import Cost
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document, Target
from fedaudit.audit import cost as cost_module
from fedaudit.audit.cost import Speed, cost_of, try_speed
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.material import discover
from fedaudit.audit.plan import SHOWS, STEPS, make_plan
from fedaudit.canaries import canary_file, generator
from fedaudit.canaries.generator import CanaryRequest
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import manifest
from fedaudit.system.files import sha256

COMMON = {
    "target": "fedaudit-nano", "adapter": "lora", "round": None, "client": None,
    "detector": "presidio", "template": "fed_pii", "seed": 0, "batch_size": 0, "device": "cpu",
    "dtype": "auto", "engine": "local",
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    fake_audit.written(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def federation(here, clients=2):
    """Write a federation that keeps its clients' documents, and return its folder."""
    made = handmade.write(here / "run", clients=clients, rounds=1)
    fake_audit.keep_documents(made.path)
    return made.path


def pair(**named):
    files = {"prefixes": Path("own.jsonl"), "victim": Path("victim.jsonl"), **named}
    return discover("fedaudit-nano", "lora", **files, reader=InputReader())


def held():
    """Write 24 records that nobody trained on, and return their file."""
    path = Path("held.jsonl")
    records = ({"text": f"A note of day {n}.", "pii": []} for n in range(24))
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_federation_offers_its_clients_as_attacker_and_victim(here):
    found = discover(str(federation(here)), reader=InputReader())
    assert [one.name for one in found.clients] == ["c0", "c1"]
    assert (found.client_name(found.prefixes), found.client_name(found.victim)) == ("c0", "c1")
    assert (found.held_out, found.canaries, found.marks) == (None, None, None)
    folder = here / "run"
    (folder / "data/held_out.jsonl").write_text((here / "own.jsonl").read_text())
    (folder / "canaries.json").write_text("{}")
    again = discover(
        str(folder),
        victim=folder / "data/c0.jsonl",
        prefixes=here / "own.jsonl",
        reader=InputReader(),
    )
    assert (again.client_name(again.prefixes), again.client_name(again.victim)) == (
        "own.jsonl",
        "c0",
    )
    assert again.held_out == folder / "data/held_out.jsonl"
    assert again.canaries == folder / "canaries.json"


@pytest.mark.parametrize(("client", "attacker"), [("c0", "c1"), ("c1", "c0")])
def test_of_a_client_s_own_update_that_client_is_the_victim(here, client, attacker):
    folder = federation(here)
    update = str(folder / f"rounds/001/clients/{client}")
    found = discover(str(folder), update, reader=InputReader())
    assert found.audited.update_of == client
    assert [found.client_name(one) for one in (found.victim, found.prefixes)] == [client, attacker]
    plan = make_plan(found, {**COMMON, "target": str(folder), "adapter": update},
                     reader=InputReader())  # fmt: skip
    assert list(plan.steps) == ["extraction", "inference"]
    reason = f"only the update of {client} is audited"
    assert {plan.left_out[name] for name in ("pairs", "memorization", "reconstruction")} == {reason}


def test_a_named_victim_is_attacked_by_another_client(here):
    folder = federation(here)
    found = discover(str(folder), victim=folder / "data/c0.jsonl", reader=InputReader())
    assert [found.client_name(one) for one in (found.victim, found.prefixes)] == ["c0", "c1"]


def test_an_update_of_a_client_whose_records_are_not_there(here):
    folder = handmade.write(here / "run", clients=2, rounds=1).path
    update = str(folder / "rounds/001/clients/c1")
    with pytest.raises(UsageError, match="The records of c1, whose update it is"):
        discover(str(folder), update, prefixes=Path("own.jsonl"), reader=InputReader())
    found = discover(
        str(folder),
        update,
        prefixes=Path("own.jsonl"),
        victim=Path("victim.jsonl"),
        reader=InputReader(),
    )
    assert found.victim == Path("victim.jsonl")


def test_an_adapter_that_no_client_sent_is_no_update(here):
    folder = federation(here)
    update = folder / "rounds/001/clients/c1"
    adapters = (None, str(folder / "rounds/001/global"), "lora")
    assert not any(
        discover(str(folder), one, reader=InputReader()).audited.update_of for one in adapters
    )
    pair = {"prefixes": Path("own.jsonl"), "victim": Path("victim.jsonl")}
    alone = discover("fedaudit-nano", str(update), **pair, reader=InputReader())
    assert alone.audited.update_of == ""


def test_without_documents_there_is_nothing_to_attack_with(here):
    with pytest.raises(UsageError, match="--prefixes"):
        discover("fedaudit-nano", "lora", reader=InputReader())
    with pytest.raises(InputError, match=r"nobody\.jsonl"):
        pair(victim=Path("nobody.jsonl"))


def test_the_models_that_others_have_and_that_are_not_audited_are_named(here):
    made = handmade.write(here / "run", clients=2, rounds=3)
    fake_audit.keep_documents(made.path)
    run = str(made.path)

    def caveats(adapter=None, number=None):
        return discover(run, adapter, number, reader=InputReader()).audited.unaudited_model_caveats

    members, server = caveats()
    assert members.startswith("The members also have the global adapters of rounds 1 to 2, which")
    assert "rounds/003/clients/c0 audits that of c0" in server
    assert "rounds 1 and 3" in caveats(number=2)[0]
    assert caveats(adapter=f"{run}/rounds/003/clients/c0") == []
    deployed = replace(discover(run, reader=InputReader()).audited, deployment="c0", round=None)
    members, others = deployed.unaudited_model_caveats
    assert "rounds 1 to 3" in members
    assert others.startswith("What c1 deployed")


def test_the_records_that_are_not_at_hand_are_named(here):
    folder = federation(here, clients=3)
    found = manifest.read(folder)
    kept = (*found.clients[:2], replace(found.clients[2], data=""))
    files = {name: digest for name, digest in found.files.items() if name != "data/c2.jsonl"}
    manifest.write(replace(found, clients=kept, files=files), folder)
    common = {**COMMON, "target": str(folder), "adapter": None}
    plan = make_plan(discover(str(folder), reader=InputReader()), common, reader=InputReader())
    assert plan.left_out["other clients"] == "the records of c2 are not at hand"
    named = discover(str(folder), victim=folder / "data/c1.jsonl", reader=InputReader())
    assert "other clients" not in make_plan(named, common, reader=InputReader()).left_out


def test_an_attack_named_in_addition_is_made_on_every_victim(here):
    run = str(federation(here, clients=2))
    common = {**COMMON, "target": run, "adapter": None}
    plan = make_plan(discover(run, reader=InputReader()), common,
                     attacks=("superset", "reconstruction"), reader=InputReader())  # fmt: skip
    first, second = (plan.requests[name].attacks for name in ("extraction", "extraction of c0"))
    assert {"superset", "reconstruction"} < {*first}
    assert {"superset", "reconstruction"} & {*second} == {"superset"}


def test_attacks_may_be_named_in_addition(here):
    plan = make_plan(pair(), COMMON, attacks=("superset", "verbatim"), reader=InputReader())
    planned = ("contextual", "verbatim", "untargeted", "benign", "superset")
    assert plan.requests["extraction"].attacks == planned
    assert cost_of(plan.steps["extraction"]).unknown == ("superset",)
    quick = make_plan(pair(), COMMON, attacks=("benign",), quick=True, reader=InputReader())
    assert quick.requests["extraction"].attacks == ("contextual", "verbatim", "benign")
    with pytest.raises(UsageError, match=r"attack named 'superlative'.*superset"):
        make_plan(pair(), COMMON, attacks=("superlative",), reader=InputReader())


def test_a_cost_that_is_unknown_is_no_cost_of_nothing():
    assert Cost().is_counted
    assert Cost(scored=1, unknown=("a",)).is_counted
    assert not Cost(unknown=("a",)).is_counted


def test_two_files_give_what_one_victim_allows(here):
    plan = make_plan(pair(), COMMON, reader=InputReader())
    assert list(plan.steps) == ["extraction", "inference"]
    assert plan.requests["extraction"].attacks == ("contextual", "verbatim", "untargeted", "benign")
    assert set(plan.left_out) == {
        *("membership", "discoverable", "pairs", "memorization", "canaries", "attribution"),
    }
    assert "--held-out" in plan.left_out["membership"]
    held_out = make_plan(pair(held_out=held()), COMMON, reader=InputReader())
    assert "membership" in held_out.requests["extraction"].attacks
    assert "membership" not in held_out.left_out


def test_answers_are_asked_for_where_records_have_some(here):
    records = [
        {"instruction": "Who paid?", "input": f"Case {n}.", "output": f"Person {n}.", "pii": []}
        for n in range(3)
    ]
    Path("answers.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    asked = {"victim": Path("answers.jsonl"), "held_out": held()}
    plan = make_plan(pair(**asked), COMMON, reader=InputReader())
    assert "discoverable" in plan.requests["extraction"].attacks
    assert plan.requests["extraction"].held_out == Path("held.jsonl")
    quick = make_plan(pair(**asked), COMMON, quick=True, reader=InputReader())
    assert quick.left_out["discoverable"] == "left out by --quick"
    alone = make_plan(pair(victim=asked["victim"]), COMMON, reader=InputReader())
    assert "--held-out" in alone.left_out["discoverable"]
    bare = make_plan(pair(held_out=held()), COMMON, reader=InputReader())
    assert bare.left_out["discoverable"] == "no record has an answer to an instruction"


def test_a_federation_is_tried_by_every_pair_but_not_in_a_hurry(here):
    run = str(federation(here, clients=3))
    common = {**COMMON, "target": run, "adapter": None}
    whole = make_plan(discover(run, reader=InputReader()), common, reader=InputReader())
    assert list(whole.steps) == [
        *("extraction", "inference", "extraction of c2", "inference of c2"),
        *("extraction of c0", "inference of c0", "pairs", "memorization"),
    ]
    assert whole.victims == {name: name.partition(" of ")[2] or "c1" for name in [*whole.steps][:6]}
    data = Path(run, "data")
    asked = {
        name: (one.prefixes, one.victim, one.attacks)
        for name, one in whole.requests.items()
        if name.startswith("extraction")
    }
    others = ("verbatim", "untargeted", "benign")
    assert asked == {
        "extraction": (data / "c0.jsonl", data / "c1.jsonl", (*others, "reconstruction")),
        "extraction of c2": (data / "c0.jsonl", data / "c2.jsonl", others),
        "extraction of c0": (data / "c1.jsonl", data / "c0.jsonl", others),
    }
    inferred = whole.requests["inference of c0"]
    assert (inferred.attacker, inferred.data) == (data / "c1.jsonl", data / "c0.jsonl")
    assert "other victims" not in whole.left_out
    quick = make_plan(discover(run, reader=InputReader()), common, quick=True, reader=InputReader())
    assert list(quick.steps) == ["extraction", "inference"]
    assert quick.requests["extraction"].options["contextual"] == {"samples": 8, "new_tokens": 20}
    assert quick.left_out["pairs"] == "left out by --quick"
    assert quick.left_out["other victims"] == "the records of c0 and c2 were left out by --quick"
    assert quick.victims == {}
    own = {"contextual": {"samples": 3}, "ranking": {"sentences": 5}}
    given = make_plan(
        discover(run, reader=InputReader()), common, options=own, quick=True, reader=InputReader()
    )
    assert given.requests["extraction"].options["contextual"] == {"samples": 3, "new_tokens": 20}
    assert given.requests["inference"].options["ranking"] == {"sentences": 5, "candidates": [20]}


@pytest.mark.parametrize("side", ["prefixes", "victim"])
def test_who_names_records_is_answered_about_them_alone(here, side):
    run = federation(here, clients=3)
    named = discover(
        str(run),
        **{side: here / f"{'own' if side == 'prefixes' else side}.jsonl"},
        reader=InputReader(),
    )
    plan = make_plan(named, {**COMMON, "target": str(run), "adapter": None}, reader=InputReader())
    victims = [plan.requests[name].victim.stem for name in plan.steps if "extraction" in name]
    # own.jsonl has the records of c0 and c2, and is taken for c0.
    assert victims == (["victim"] if side == "victim" else ["c1", "c2"])
    assert {plan.requests[name].input_path for name in plan.steps} == {
        named.prefixes if side == "victim" else here / "own.jsonl"
    }
    assert plan.requests["extraction"].attacks == ("contextual", "verbatim", "untargeted", "benign")
    assert all("--victim" in plan.left_out[name] for name in ("pairs", "memorization"))
    assert len(plan.victims) == (0 if side == "victim" else 4)
    hurried = make_plan(
        named, {**COMMON, "target": str(run), "adapter": None}, quick=True, reader=InputReader()
    )
    assert ("other victims" in hurried.left_out) == (side == "prefixes")


def test_a_client_without_records_is_no_victim(here):
    run = federation(here, clients=3)
    empty = run / "data/c2.jsonl"
    empty.write_text("\n")
    found = manifest.read(run)
    hashes = {**found.files, "data/c2.jsonl": sha256(empty)}
    manifest.write(replace(found, files=hashes), run)
    common = {**COMMON, "target": str(run), "adapter": None}
    plan = make_plan(discover(str(run), reader=InputReader()), common, reader=InputReader())
    assert {*plan.victims.values()} == {"c0", "c1"}
    assert plan.steps["extraction"].members["c2"].documents == ()
    assert plan.steps["pairs"].matrix["c2"].documents == ()


def planted(here):
    order = CanaryRequest(kind="phone", clients=("c0",), count=3, controls=2, seed=1)
    made = generator.make(order)
    canary_file.write(made, here / "canaries.json")
    return made


def test_canaries_are_measured_where_there_is_a_file_of_them(here):
    planted(here)
    found = pair(canaries=Path("canaries.json"))
    plan = make_plan(found, COMMON, reader=InputReader())
    assert list(plan.steps) == ["extraction", "inference", "canaries"]
    assert "canaries" not in plan.left_out
    with pytest.raises(InputError, match="not the file that the commitment was made to"):
        make_plan(found, COMMON, commitment="0" * 64, reader=InputReader())


def test_canaries_that_lie_in_a_folder_are_left_out_where_their_client_did_not_train(here):
    """A round that a client was not drawn for is audited all the same."""
    run = federation(here)
    planted(here)
    (here / "canaries.json").rename(run / "canaries.json")
    whole = manifest.read(run)
    first, last = whole.rounds
    manifest.write(
        replace(whole, rounds=(first, replace(last, participants=("c1",), clients={}))), run
    )
    common = {**COMMON, "target": str(run), "adapter": None, "round": 1}
    found = discover(str(run), None, 1, reader=InputReader())
    plan = make_plan(found, common, reader=InputReader())
    assert "canaries" not in plan.steps
    assert plan.left_out["canaries"].startswith(f"c0 took part in no round of {run} up to round 1")
    named = replace(found, named_canaries=True)
    with pytest.raises(InputError, match="c0 took part in no round"):
        make_plan(named, common, reader=InputReader())
    given = discover(str(run), None, 1, canaries=run / "canaries.json", reader=InputReader())
    assert given == named


def test_a_deployed_defence_is_asked_as_it_answers(here):
    planted(here)
    found = pair(canaries=Path("canaries.json"))
    run = discover(str(federation(here)), reader=InputReader())
    kept = replace(run, canaries=found.canaries, audited=replace(run.audited, deployment="c0"))
    plan = make_plan(
        kept, {**COMMON, "target": str(here / "run"), "adapter": None}, reader=InputReader()
    )
    assert list(plan.steps) == [
        *("extraction", "inference"),
        *("extraction of c0", "inference of c0"),
    ]
    assert "gate" in plan.requests["extraction"].attacks
    assert "gate" not in plan.requests["extraction of c0"].attacks
    assert all("defence" in plan.left_out[n] for n in ("pairs", "memorization", "canaries"))


def test_a_wrong_option_is_no_reason_to_leave_a_step_out(here):
    with pytest.raises(UsageError, match=r"ranking\.candidates"):
        make_plan(pair(), COMMON, options={"ranking": {"candidates": "many"}}, reader=InputReader())


def test_every_step_says_what_it_shows():
    assert {*STEPS.values(), "attribution"} == SHOWS.keys()


def test_a_cost_is_counted_by_hand(here):
    # 24 documents a file with 2 PII each; contextual asks 15 times for 10 tokens before each of 48.
    found = pair(held_out=held())
    plan = make_plan(found, COMMON, reader=InputReader())
    cost = cost_of(plan.steps["extraction"])
    verbatim, untargeted, benign = 24, 256, 1000
    # verbatim continues as many held-out documents as victim's.
    assert cost.continuations == 48 * 15 + 2 * verbatim + untargeted + benign
    assert cost.tokens == 48 * 15 * 20 + 2 * verbatim * 50 + untargeted * 256 + benign * 128
    assert cost.scored == 24 + 24  # membership: the victim's records and those held out
    ranking, inversion = 48 * 50, 48 * 20
    assert cost_of(plan.steps["inference"]) == Cost(scored=ranking + inversion)
    step = plan.steps["extraction"]
    other = replace(step, request=replace(step.request, attacks=("superset",)))
    assert cost_of(other) == Cost(unknown=("superset",))
    assert cost_of(other).describe() == "what superset asks is not known before"


def test_what_nobody_annotated_is_counted_in_a_sample(here, monkeypatch):
    monkeypatch.setattr(cost_module, "ANNOTATED_SAMPLE", 10)
    lines = [json.loads(line) for line in Path("own.jsonl").read_text().splitlines()]
    bare = [{**one, "text": f"Write to a{n}@example.org."} for n, one in enumerate(lines)]
    for one in bare:
        del one["pii"]
    Path("bare.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bare))
    found = pair(prefixes=Path("bare.jsonl"))
    plan = make_plan(found, COMMON, reader=InputReader())
    cost = cost_of(plan.steps["extraction"])
    assert cost.continuations == 24 * 15 + 24 + 256 + 1000
    assert cost.describe().startswith("roughly 1,640 continuations")


def test_the_cost_of_pairs_and_memorization(here):
    run = str(federation(here))
    found = discover(run, reader=InputReader())
    plan = make_plan(found, {**COMMON, "target": run, "adapter": None}, reader=InputReader())
    assert cost_of(plan.steps["pairs"]) == Cost(2 * 48 * 15, 2 * 48 * 15 * 20)
    assert cost_of(plan.steps["memorization"]) == Cost(48, 48 * 256)


def test_canaries_cost_one_score_for_each_sentence_and_secret(here):
    made = planted(here)
    plan = make_plan(pair(canaries=Path("canaries.json")), COMMON, reader=InputReader())
    sentences = len({one.prefix for one in made.canaries})
    assert cost_of(plan.steps["canaries"]) == Cost(scored=sentences * 1000)


def test_time_follows_from_speed():
    assert Speed(token=0.01, text=0.5).seconds(Cost(10, 100, 4)) == 2 * (1 + 2)
    assert Speed(token=0.01, text=0.5).seconds(Cost(10, 100, 4), models=1) == 3


def test_speed_is_tried_on_documents(here):
    step = make_plan(pair(), COMMON, reader=InputReader()).steps["extraction"]
    documents = step.tried.documents
    engine = FakeEngine(lambda *_: " nobody left.")
    found = try_speed(engine, Target(name="base"), documents)
    assert found.token > 0
    assert found.text > 0
    # Long texts are read whole, but no more of them than 16,384 tokens together.
    long = [Document(id=str(n), text="a " * 3000) for n in range(20)]
    asked = []
    score = engine.score
    engine.score = lambda target, rows: asked.append([*map(len, rows)]) or score(target, rows)
    try_speed(engine, Target(name="base"), long)
    try_speed(engine, Target(name="base"), long, trained=100)
    assert asked == [[len(engine.tokenize([long[0].text])[0].ids)] * 5, [100] * 20]
    with pytest.raises(ValueError, match="nothing to try"):
        try_speed(engine, Target(name="base"), [])
