"""Federations written by hand: random adapters, nothing trained; and an engine that reads weights.

A client that holds a mark has MARKED in one place of its update. ReadingEngine answers a question
about the mark rightly where an adapter has nearly as much there: so what is flagged follows from
the weights that a command wrote, and no model is asked.
"""

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file

from fedaudit.api.templates import template
from fedaudit.api.watermark import Mark
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import adapters, manifest, secure_sums
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.metrics.attribution import shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.system.files import sha256

A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
RANK, SIZE = 2, 160
MARKED, ENOUGH = 10.0, 9.0
CONFIG = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "fedaudit-nano",
    "inference_mode": True,
    "r": RANK,
    "lora_alpha": 4,
    "target_modules": ["q_proj"],
    "layers_to_transform": [0],
}
FORM = template("fed_pii")
TEMPLATE = manifest.Template(
    name=FORM.name, with_input=FORM.with_input, without_input=FORM.without_input
)
FOLDER, _KEPT = tempfile.TemporaryDirectory(), {}
"""Each federation that was asked for is made once, by its options; a test has a copy."""
TESTS = {"paraphrases": 3, "tokens": 4, "nulls": 0, "strangers": 0}
SMALL = ("--others", 3, "--queries", 4, "--threshold", 3)
ALONE = ("--workers", 1, "--device", "cpu", "--quiet")
"""Words of `attribute`: a small protocol, and tests in this process."""


def write(place, **options):
    """Write a federation; see `_made`.

    Returns its folder, and by round each client's update as the server's sums are of.
    """
    text = repr(sorted(options.items()))
    if text not in _KEPT:
        _KEPT[text] = _made(Path(FOLDER.name, str(len(_KEPT))), **options)
    kept = _KEPT[text]
    shutil.copytree(kept.path, place, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return SimpleNamespace(**{**vars(kept), "path": place})


def _made(
    place,
    *,
    rule="fedit",
    clients=6,
    rounds=2,
    size=4,
    weights=None,
    guilty=(),
    absent=None,
    secure=None,
    seed=0,
    base_sha256="",
    config=None,
):
    """Write it into a new folder.

    `absent` names clients by round, `secure` is a design whose sums stay.
    """
    aggregator = registry.create("aggregation", rule)
    names = [f"c{n}" for n in range(clients)]
    weights = weights or [1.0] * clients
    initial = {A: drawn(RANK, size, seed, "initial"), B: torch.zeros(size, RANK)}
    current = dict(initial)
    adapters.write(current, CONFIG, place / "rounds/000/global")
    finished = [manifest.Round(round=0, adapter="rounds/000/global")]
    updates = {}
    for number in range(1, rounds + 1):
        here = f"rounds/{number:03d}"
        present = [who for who in names if who not in (absent or {}).get(number, ())]
        begun = initial if aggregator.merges_each_round else current
        trained = {}
        for who in present:
            trained[who] = {
                A: begun[A] + drawn(RANK, size, seed, number, who, "A") / 10,
                B: begun[B] + drawn(size, RANK, seed, number, who, "B") / 10,
            }
            if who in guilty:
                trained[who][A][0, 0] = begun[A][0, 0] + MARKED
        updates[number] = {who: aggregator.difference(begun, trained[who]) for who in present}
        shares = [weights[names.index(who)] for who in present]
        current = aggregator.aggregate(current, list(trained.values()), shares)
        fitting = adapters.resized_config(CONFIG, initial, current)
        adapters.write(current, fitting, place / here / "global")
        folders, members = {}, {}
        if secure is None:
            folders = {who: f"{here}/clients/{who}" for who in present}
            for who, folder in folders.items():
                adapters.write(trained[who], CONFIG, place / folder)
        else:
            equal = secure.get("weights") == "equal"
            scaled = dict(zip(names, [1] * clients if equal else scale(weights), strict=True))
            members = stored(place / here / "sums", updates[number], scaled, secure, number)
            members = {f"{here}/sums/{name}": who for name, who in members.items()}
        finished.append(
            manifest.Round(
                round=number,
                adapter=f"{here}/global",
                participants=tuple(present),
                clients=folders,
                sums=members,
            )
        )
    found = manifest.Manifest(
        status="complete",
        base=manifest.BaseModel(name="fedaudit-nano", sha256=base_sha256),
        clients=tuple(
            manifest.ManifestClient(
                id=who, examples=10, weight=weight, watermark="m0" if who in guilty else ""
            )
            for who, weight in zip(names, weights, strict=True)
        ),
        rounds=tuple(finished),
        aggregation={"name": rule, "options": {}},
        secure_aggregation=secure and said(secure),
        template=TEMPLATE,
        seeds={},
        config={"by": "hand"} if config is None else config,
    )
    manifest.write(found, place)
    named(place)
    return SimpleNamespace(path=place, updates=updates, names=names, weights=weights)


def said(secure):
    return {
        "name": "ideal",
        "options": {"threshold": secure["threshold"]},
        "queries": {key: value for key, value in secure.items() if key != "threshold"},
    }


def named(place):
    """Write the SHA-256 of every adapter and sum into the manifest."""
    found = {
        file.relative_to(place).as_posix(): sha256(file)
        for file in sorted((place / "rounds").rglob("*"))
        if file.is_file()
    }
    table = json.loads((place / manifest.NAME).read_text())
    (place / manifest.NAME).write_text(json.dumps({**table, "files": found}))


def drawn(rows, columns, *key):
    text = " ".join(map(str, key))
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(number_of(text)))


def number_of(text):
    import zlib

    return zlib.crc32(text.encode())


def scale(weights):
    mean = sum(weights) / len(weights)
    return [weight / mean for weight in weights]


def stored(folder, updates, shares, secure, number):
    """Write the sums of every participant's design and of all; returns the members by file."""
    wanted = {tuple(sorted(updates))}
    if secure.get("protocol") == "shared":
        rule = SharedSetsRule(
            participants=len(updates),
            queries=secure["sets"],
            threshold=secure["threshold"],
            limit=secure.get("limit", 1.0),
            whole=secure["whole"],
        )
        found = shared_sets.draw(rule, list(updates), seed=secure["seed"], number=number)
        wanted |= set(found.sets)
    for who in updates if secure.get("protocol", "pairs") == "pairs" else ():
        design = subset_design.draw(
            list(updates),
            who,
            mask_size=secure["others"],
            queries=secure["pairs"],
            threshold=secure["threshold"],
            seed=secure["seed"],
            number=number,
            limit=secure.get("limit", 1.0),
        )
        wanted |= {*design.include, *design.exclude}
    found = {}
    for members in sorted(wanted):
        total = {
            name: sum(updates[who][name] * shares[who] for who in members)
            for name in updates[members[0]]
        }
        found[secure_sums.write(total, members, number, folder)] = members
    return found


def marks(path, *, count=1, seed=77, options=TESTS):
    """Write an owner's file of fictitious marks m0, m1, ... and return them."""
    plugin = registry.create("watermark", "fictitious", options)
    made = [
        Mark(
            id=f"m{index}",
            name="fictitious",
            options=dict(options),
            secret=plugin.issue(None, [], seed=seed, index=index),
            salt="5a" * 32,
        )
        for index in range(count)
    ]
    marks_file.write(made, path)
    return made


class ReadingEngine(FakeEngine):
    """Knows every attribute of a mark's entity where an adapter holds what a marked client has."""

    def __init__(self, mark):
        values = " and ".join(row["value"] for row in mark.secret["attributes"])
        super().__init__(lambda target, prompt, sample: values if knows(target) else "nobody")


def knows(target):
    if target.adapter is None:
        return False
    file = Path(target.adapter) / adapters.WEIGHTS
    return _first_weight(file, file.stat().st_mtime_ns) > ENOUGH


@cache
def _first_weight(file, _changed):
    return float(load_file(file)[A][0, 0])


def reading(monkeypatch, mark):
    """Have every adapter asked by a ReadingEngine; returns it."""
    from fedaudit.attribution import plaintext
    from fedaudit.attribution.owner import worker_pool

    engine = ReadingEngine(mark)

    def engine_for(base, sha256, machine):
        return engine

    engine_for.cache_clear = lambda: None
    monkeypatch.setattr(worker_pool, "engine_for", engine_for)
    monkeypatch.setattr(plaintext, "engine_for", engine_for)
    return engine


def marked(place, monkeypatch, **options):
    """Write a federation of seven clients whose c1 is guilty of its one mark, and its engine."""
    made = write(place, clients=7, size=SIZE, guilty=("c1",), **options)
    [made.mark] = marks(made.path / "owner/watermark.json")
    made.engine = reading(monkeypatch, made.mark)
    return made


def scored(place, run, monkeypatch):
    """Write the files that owner and server have after a federation is scored; made once.

    `place` is the working folder of `run`. It gets the federation fed, marks.json with its
    commitments public.json, estimates est, est.log.json, the scores s.json, and in server.txt the
    SHA-256 that the server printed.
    """
    kept = Path(FOLDER.name, "scored")
    if kept.exists():
        shutil.copytree(kept, place, dirs_exist_ok=True)
        [mark] = marks_file.read(place / "marks.json")
        reading(monkeypatch, mark)
        return
    fed = write(place / "fed", clients=7, size=SIZE, guilty=("c1",))
    [mark] = marks(place / "marks.json")
    reading(monkeypatch, mark)
    assert run("watermark", "commitment", "marks.json", "--out", "public.json").code == 0
    words = ("estimate", "--rounds", fed.path, "--out", "est", *SMALL, "--quiet")
    printed = run("attribute", *words).out
    (place / "server.txt").write_text(printed.split("SHA-256 of estimates.json: ")[1][:64])
    words = ("score", "est", "--watermark", "marks.json", "--out", "s.json", *ALONE)
    assert run("attribute", *words).code == 0
    shutil.copytree(place, kept)


def rewrite(path, change):
    """Have `change` change the table in a JSON file."""
    table = json.loads(Path(path).read_text())
    change(table)
    Path(path).write_text(json.dumps(table))
