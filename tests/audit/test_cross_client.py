"""Every client as attacker on every other one."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.audit import access, attacks, cross_client
from fedaudit.audit.access import ModelView
from fedaudit.audit.clients import list_clients
from fedaudit.audit.cross_client import Attacker, attack_all
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ClientData, CrossClientRequest
from fedaudit.audit.session import run_audit
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import manifest as manifests
from fedaudit.report.document import validate
from fedaudit.report.redaction import Redactor

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
NAMES = {"a": ("Ann Lee", "Bob Ray"), "b": ("Cem Oz", "Dora Fay"), "c": ("Eve Kim", "Ann Lee")}


def document(name, role="Claimant"):
    text = f"{role}: {name}."
    return Document(
        id=name, text=text, pii=(PiiSpan(len(role) + 2, len(role) + 2 + len(name), "PERSON"),)
    )


DATA = {client: [document(name) for name in names] for client, names in NAMES.items()}


def engine(says):
    """Return an engine whose tuned model says `says[sample]`; the base says nothing."""
    return FakeEngine(
        lambda target, prompt, sample: says[sample % len(says)] if target.name == "tuned" else ""
    )


def pairs(fake, data=DATA, *, budget=10_000, base=BASE, seed=0, **options):
    """Return the results of every pair by (attacker, victim), and the limits of each attacker."""
    attack = registry.create("attack", "contextual", {"samples": 2, **options})
    view, found, told = ModelView(engine=fake, tuned=TUNED), {}, {}
    for name in data:
        case = AttackContext(
            engine=fake, tuned=TUNED, base=base, attacker=data[name], victim=None, seed=seed
        )
        others = {other: data[other] for other in data if other != name}
        attacker = Attacker(name=name, context=case, victims=others)
        first, *results = attack_all(attack, attacker, budget, view)
        told[name] = first.limits
        for victim, result in zip(others, results, strict=True):
            found[name, victim] = result
    return found, told


def coverage(result, source="tuned-not-base", subset="all"):
    [row] = [
        r
        for r in result.measurements
        if r.metric == "coverage"
        and (r.scope["source"], r.scope["set"]) == (source, subset)
        and not {"label", "category"} & r.scope.keys()
    ]
    return row


def test_every_pair_by_hand():
    found, told = pairs(engine([" Cem Oz.", " Eve Kim!"]))
    assert "larger than the set; all 2 were asked" in told["a"][0]
    hits = {pair: (coverage(r).hits, coverage(r).n) for pair, r in found.items()}
    assert hits == {
        ("a", "b"): (1, 2),
        ("a", "c"): (1, 1),  # Ann Lee stands in a's documents too
        ("b", "a"): (0, 2),
        ("b", "c"): (1, 2),
        ("c", "a"): (0, 1),
        ("c", "b"): (1, 2),
    }
    for (attacker, victim), result in found.items():
        assert {(r.scope["attacker"], r.scope["victim"]) for r in result.measurements} == {
            (attacker, victim)
        }
        assert coverage(result, "control").hits == 0
        assert all(one.id.startswith(f"{attacker}-{victim}-") for one in result.findings)


def test_an_attackers_questions_are_asked_once():
    fake = engine([""])
    pairs(fake)
    asked = [(target.name, fake._text(probe.prompt)) for target, probe in fake.asked]
    assert asked == [("tuned", "Claimant:"), ("base", "Claimant:")] * 3


OUTPUTS = st.lists(st.sampled_from([n for names in NAMES.values() for n in names]), min_size=2)


@settings(max_examples=settings().max_examples // 3)
@given(OUTPUTS, st.permutations(list(DATA)), st.integers(1, 3))
def test_a_pair_is_what_the_attack_finds_alone(says, order, samples):
    """The fast path against the slow one: the attack run for every pair by itself."""
    alone_and_together(lambda: engine(says), order, samples=samples)


CHANCES = st.dictionaries(
    st.sampled_from([n for names in NAMES.values() for n in names]), st.floats(0, 1)
)


@settings(max_examples=settings().max_examples // 4)
@given(CHANCES, st.permutations(list(DATA)), st.integers(1, 3))
def test_a_computed_pair_is_what_the_attack_computes_alone(gives, order, samples):
    def chance(target, prompt, string):
        return gives.get(string, 2e-4) / (1 if target.name == "tuned" else 3)

    def fake():
        return FakeEngine(lambda *_: "", chance=chance)

    alone_and_together(fake, order, samples=samples, estimator="exact")


def test_an_attackers_prefixes_are_walked_once_for_all_victims():
    seen = []

    class Watched(FakeEngine):
        def prefix_probabilities(self, target, request, **options):
            seen.append((target.name, [self._text(prompt) for prompt in request.prompts]))
            return super().prefix_probabilities(target, request, **options)

    fake = Watched(lambda *_: "", chance=lambda *_: 0.5)
    found, told = pairs(fake, estimator="exact")
    assert seen == [("tuned", ["Claimant:"]), ("base", ["Claimant:"])] * 3
    assert "larger than the set; all 2 were asked" in told["a"][0]
    # Two prefixes of two samples each, for each of the two names of b.
    assert coverage(found["a", "b"], "tuned").value == 1 - 0.5**4
    assert coverage(found["a", "b"], "tuned").n == 2


def alone_and_together(made, order, **options):
    """Compare every pair with the attack run for it by itself."""
    found, _ = pairs(made(), {c: DATA[c][::-1] for c in order}, **options)
    attack = registry.create("attack", "contextual", {**options, "sweeps": False})
    for (attacker, victim), result in found.items():
        alone = attack.run(
            AttackContext(
                engine=made(),
                tuned=TUNED,
                base=BASE,
                attacker=DATA[attacker],
                victim=DATA[victim],
                members={c: DATA[c] for c in order if c not in (attacker, victim)},
            )
        )
        own = {"attacker", "victim"}
        assert [
            replace(row, scope={k: v for k, v in row.scope.items() if k not in own})
            for row in result.measurements
        ] == list(alone.measurements)
        assert [one.evidence["text"] for one in result.findings] == [
            one.evidence["text"] for one in alone.findings
        ]


def test_the_budget_draws_prefixes():
    roles = ("Claimant", "Judge", "Doctor", "Witness")
    data = {
        client: [document(f"{name} {role}", role) for name in names for role in roles]
        for client, names in NAMES.items()
    }

    def asked(seed):
        fake = engine([""])
        found, told = pairs(fake, data, budget=3, seed=seed)
        queries = {
            r.value for one in found.values() for r in one.measurements if r.metric == "queries"
        }
        assert queries == {6.0}
        assert all("drawn at random, 3 of 8" in notes[0] for notes in told.values())
        return [(fake._text(p.prompt), p.samples) for _, p in fake.asked]

    first = asked(0)
    assert sum(samples for _, samples in first) == 2 * 2 * 3 * 3
    assert asked(0) == first
    assert asked(1) != first


def test_who_has_no_pii_attacks_nobody_and_loses_nothing():
    data = {**DATA, "d": [Document(id="d", text="nothing here", pii=())]}
    found, _ = pairs(engine([" Cem Oz"]), data)
    for victim in "abc":
        [row] = found["d", victim].measurements
        assert (row.value, row.reason) == (None, cross_client.NOTHING_TO_ASK)
        [row] = found[victim, "d"].measurements
        assert (row.value, row.reason) == (None, "the victim has no PII of its own")
    assert coverage(found["a", "b"]).hits == 1


def test_a_victim_without_pii_of_its_own():
    found, _ = pairs(engine([" Ann Lee"]), {"a": DATA["a"], "b": DATA["a"][:1]})
    [row] = found["a", "b"].measurements
    assert row.reason == "the victim has no PII of its own"
    assert coverage(found["b", "a"]).n == 1


def test_an_attack_that_one_client_cannot_make_is_no_end():
    def run(**options):
        attack = registry.create("attack", "frequency", {"minimum": 2, "samples": 1})
        fake = engine([" Cem Oz"])
        lone = {"a": [document("Ann Lee", "Judge")], "b": DATA["b"]}
        case = AttackContext(engine=fake, tuned=TUNED, base=BASE, attacker=lone["a"], victim=None)
        attacker = Attacker(name="a", context=case, victims={"b": lone["b"]})
        return list(attack_all(attack, attacker, 99, ModelView(engine=fake, tuned=TUNED)))

    _, result = run()
    [row] = result.measurements
    assert row.value is None
    assert "No sub-prefix" in row.reason


# who takes part


def lines(path, *documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        {"id": d.id, "text": d.text, "pii": [{"start": s.start, "end": s.end, "label": s.label}
                                             for s in d.pii]}
        for d in documents
    )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_clients_of_a_federation(federation):
    found = list_clients(federation.path, [], InputReader())
    assert [one.name for one in found] == ["c0", "c1"]
    assert [Path(one.path) for one in found] == [
        federation.path / f"data/c{n}.jsonl" for n in (0, 1)
    ]
    assert len({one.sha256 for one in found}) == 2


def test_clients_by_file(tmp_path):
    one, two = (lines(tmp_path / d / "x.jsonl", *DATA[d]) for d in "ab")
    assert [
        p.name
        for p in list_clients(None, [one, lines(tmp_path / "y.jsonl", *DATA["b"])], InputReader())
    ] == [
        "x",
        "y",
    ]
    assert [p.name for p in list_clients(None, [one, two], InputReader())] == [str(one), str(two)]


def test_wrong_clients(tmp_path, federation, monkeypatch):
    one = lines(tmp_path / "x.jsonl", *DATA["a"])
    clients = list_clients(None, [one], InputReader())
    with pytest.raises(InputError, match="two clients or more"):
        attacks.resolve(request(federation, clients=clients), InputReader())
    with pytest.raises(InputError, match="named twice"):
        list_clients(None, [one, one], InputReader())
    with pytest.raises(InputError, match="There is no file"):
        list_clients(None, [one, tmp_path / "none.jsonl"], InputReader())
    with pytest.raises(InputError, match="is a folder; a JSONL file is needed"):
        list_clients(None, [one, tmp_path], InputReader())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--clients"):
        list_clients(None, [], InputReader())
    with pytest.raises(UsageError, match="--clients"):
        list_clients(Path("fedaudit-nano"), [], InputReader())


def test_a_federation_that_keeps_no_documents(tmp_path, federation):
    place = tmp_path / "fed"
    shutil.copytree(federation.path, place)
    table = json.loads((place / manifests.NAME).read_text())
    for client in table["clients"]:
        client["data"] = ""
    table["files"] = {n: h for n, h in table["files"].items() if not n.startswith("data/")}
    (place / manifests.NAME).write_text(json.dumps(table))
    with pytest.raises(InputError, match=r"keeps no documents of c0.*--clients"):
        list_clients(place, [], InputReader())


def request(federation, **changes):
    return CrossClientRequest(
        **{
            "clients": list_clients(federation.path, [], InputReader()),
            "target": str(federation.path),
            "budget": 20,
            "device": "cpu",
            "options": {"contextual": {"samples": 3}},
        }
        | changes
    )


def test_only_attacks_that_ask_prefixes(federation):
    with pytest.raises(UsageError, match="untargeted asks no prefixes"):
        attacks.resolve(request(federation, attacks=("untargeted",), options={}), InputReader())


def test_the_audit_of_a_federation(federation):
    audit = run_audit(request(federation), Redactor(bytes(32)))
    report = audit.report.to_json()
    validate(report)
    rows = [r for r in report["measurements"] if r["metric"] == "coverage"]
    assert {(r["scope"]["attacker"], r["scope"]["victim"]) for r in rows} == {
        ("c0", "c1"),
        ("c1", "c0"),
    }
    assert report["budget"]["queries"] == 2 * 20 * 3
    assert [row["path"] for row in report["data"]] == [
        str(federation.path / f"data/c{n}.jsonl") for n in (0, 1)
    ]
    assert [client["name"] for client in report["run"]["config"]["clients"]] == ["c0", "c1"]
    assert len(audit.revealed) == len(report["findings"])
    plain = [one["text"] for one in audit.revealed if len(one["text"]) > 8]
    assert not [text for text in plain if text in json.dumps(report, ensure_ascii=False)]


def test_its_id_follows_from_every_clients_file(federation, tmp_path):
    from fedaudit.audit.fingerprint import compute_fingerprint

    one = request(federation)
    other = replace(
        one, clients=(one.clients[0], ClientData(name="c1", path=one.clients[1].path, sha256="0"))
    )

    def identity(asked):
        return compute_fingerprint(attacks.resolve(asked, InputReader())).run

    assert identity(one) == identity(request(federation))
    assert len({identity(x) for x in (one, other, replace(one, budget=21))}) == 3


def test_nobody_has_pii(federation, tmp_path):
    bare = Document(id="d", text="There is nothing personal in this sentence.", pii=())
    files = [lines(tmp_path / f"{n}.jsonl", bare) for n in "xy"]
    with pytest.raises(InputError, match="No client's documents hold PII"):
        run_audit(
            request(federation, clients=list_clients(None, files, InputReader())),
            Redactor(bytes(32)),
        )


def test_a_tuned_copy_is_made_for_each_attacker(federation, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = {"laft": {"samples": 1, "pairs": 4, "rank": 2, "new_tokens": 2}}
    audit = run_audit(
        request(federation, attacks=("laft",), options=options, budget=5), Redactor(bytes(32))
    )
    assert len(list((tmp_path / "fedaudit/tuned").iterdir())) == 2
    told = [limit for limit in audit.report.limits if "tuned on 4 pairs" in limit]
    assert [limit[:3] for limit in told] == ["c0:", "c1:"]


def test_a_kind_of_pii_that_one_client_lacks_ends_no_matrix(federation, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = "The claimant Gil Roe lives in Hull."
    both = Document(id="x", text=text, pii=(PiiSpan(13, 20, "PERSON"), PiiSpan(30, 34, "ADDRESS")))
    clients = list_clients(
        None,
        [lines(tmp_path / "x.jsonl", both), lines(tmp_path / "y.jsonl", *DATA["b"])],
        InputReader(),
    )
    small = {"samples": 1, "pairs": 4, "rank": 2, "new_tokens": 2}

    def audited(labels, left_out):
        options = {"laft": {**small, "labels": labels}}
        one = request(federation, clients=clients, attacks=("laft",), options=options)
        rows = run_audit(one, Redactor(bytes(32))).report.measurements
        unasked = {(r.scope["victim"], r.scope["label"]): r.value for r in rows
                   if r.scope.get("set") == "unasked"}  # fmt: skip
        assert unasked == left_out
        return {
            (r.scope["attacker"], r.scope["victim"]): r.n if r.value is not None else r.reason
            for r in rows
            if (r.metric, r.scope.get("source"), r.scope.get("set")) == ("coverage", "tuned", "all")
            and not {"label", "budget"} & r.scope.keys()
        }

    # y has no address, but people to learn from.
    assert audited("PERSON,ADDRESS", {}) == {("x", "y"): 2, ("y", "x"): 2}
    left_out = {("x", "PERSON"): 1, ("y", "PERSON"): 2}
    assert audited("ADDRESS", left_out) == {
        ("x", "y"): "the victim has no PII of the chosen kinds of its own",
        ("y", "x"): cross_client.NOTHING_TO_ASK,
    }


def test_whose_deployed_model_everybody_asks_must_be_said(federation, monkeypatch):
    from fedaudit.audit.target import AuditTarget

    answering = AuditTarget(base="fedaudit-nano", adapter=Path("defense/c0"), deployment="c0")
    monkeypatch.setattr(attacks, "resolve_target", lambda request, reader: answering)
    monkeypatch.setattr(access, "fingerprint", lambda *_: "0" * 64)
    with pytest.raises(UsageError, match=r"--round.*--client"):
        attacks.resolve(request(federation), InputReader())
    inputs = attacks.resolve(request(federation, client="c0"), InputReader())
    assert inputs.audited is answering
