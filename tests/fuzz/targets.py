"""What is fuzzed: valid files of every kind, and the functions that commands read them with.

A target makes its files once; a case changes one of them, runs, and puts it back.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import attributed_report
import auditor_files
import example_report
import foreign_files
import gated_report
import handmade
import memorized_report
from cases import OUT, Target, caches, lines, rows, structured, tensors, toml

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.templates import template
from fedaudit.api.watermark import Score
from fedaudit.attribution import estimates, scores
from fedaudit.attribution import report as reporting
from fedaudit.attribution.evidence import bundle, verification
from fedaudit.attribution.owner import scoring
from fedaudit.attribution.owner.worker_pool import DetectionJob, DetectionPool, WorkerOptions
from fedaudit.attribution.pipeline import participants, true_marks
from fedaudit.attribution.server import dry_run, estimation, ledger, sum_plan, sums_log
from fedaudit.audit import deployment, session, stored_request
from fedaudit.audit.clients import read_clients
from fedaudit.audit.fingerprint import compute_fingerprint
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import CrossClientRequest, ExtractionRequest, MemorizationRequest
from fedaudit.audit.resolve import resolve as resolve_inputs
from fedaudit.audit.target import resolve
from fedaudit.cache.answers import FILE, AnswerCache, CacheHeader, load
from fedaudit.config import profile, registry
from fedaudit.data import corpus
from fedaudit.federation import adapters, commitments, manifest, watermark_keys
from fedaudit.federation.folder import Federation
from fedaudit.report import document
from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.verdict.policy import verdict
from fedaudit.simulation.runner import prepare
from fedaudit.simulation.session import simulation_settings as settings

# a federation's folder


def _federation(folder: Path) -> None:
    made = handmade.write(folder / "fed", clients=4, rounds=1)
    path = made.path / manifest.NAME
    table = json.loads(path.read_text())
    (made.path / "data").mkdir()
    for client in table["clients"]:
        client["data"] = f"data/{client['id']}.jsonl"
        (made.path / client["data"]).write_text('{"text": "a"}\n')
    table["config"] = {"queries": {"others": 2, "pairs": 2, "limit": 1.0}}
    table["seeds"] = {"simulation": 0, "queries": 3}
    path.write_text(json.dumps(table))


def _read_federation(folder: Path) -> None:
    audited = resolve(str(folder / "fed"), None, None)
    found = audited.federation
    assert found is not None
    plan = sum_plan.draw_sum_plan(found, sum_plan.ProtocolConfig(threshold=2))
    dry_run.describe_plan(plan, (), None)
    true_marks(found, []), participants(found), estimation.identity(found)
    out, log = folder / OUT / "estimates", folder / OUT / "log.json"
    estimation.estimate(plan, out, log, recorded=False)


def _sums(folder: Path) -> None:
    secure = {"threshold": 2, "others": 2, "pairs": 2, "seed": 3}
    handmade.write(folder / "fed", clients=4, rounds=1, secure=secure)


def _read_sums(folder: Path) -> None:
    found = resolve(str(folder / "fed"), None, None).federation
    assert found is not None
    plan = sum_plan.draw_sum_plan(found, sum_plan.ProtocolConfig())
    out, log = folder / OUT / "estimates", folder / OUT / "log.json"
    estimation.estimate(plan, out, log, recorded=False)


def _deployed(folder: Path) -> None:
    _federation(folder)
    path = folder / "fed" / manifest.NAME
    table = json.loads(path.read_text())
    options = {"tau": 0.5, "budget": 4, "revealing": ["a", "b=legal/*"], "nesterov": True}
    table["deployment"] = {"name": "secure_gate", "options": options}
    table["seeds"] = {"simulation": 0}
    (folder / "fed/defense/c0").mkdir(parents=True)
    path.write_text(json.dumps({"deployment": table.pop("deployment"), **table}))


def _read_deployed(folder: Path) -> None:
    audited = resolve(str(folder / "fed"), None, None, client="c0")
    assert audited.federation is not None
    deployment.defense_of(audited.federation)


# adapters and bases


@cache
def _tiny() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64, eos_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def _adapter(folder: Path) -> None:
    import torch
    from peft import LoraConfig

    from fedaudit.engine.loading.loader import tensors_of, with_adapter
    from fedaudit.simulation.initialization import plain_config

    config = LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM",
        rank_pattern={"layers.0.self_attn.q_proj": 1}, alpha_pattern={"layers.1": 3},
    )  # fmt: skip
    peft = with_adapter(_tiny(), config, "made", trainable=True)
    drawn = {name: torch.randn(one.shape) for name, one in tensors_of(peft, "made").items()}
    peft.unload()
    adapters.write(
        drawn, plain_config({**config.to_dict(), "inference_mode": True}), folder / "lora"
    )


def _read_adapter(folder: Path) -> None:
    from fedaudit.engine.loading.loader import attach

    adapters.check(folder / "lora")
    adapters.fingerprint(folder / "lora")
    attach(_tiny(), folder / "lora", "read").unload()


def _base(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["</s>", "<s>", *"abcdefghij", "Ġ", "ab", "Ġa", "ba"]
    backend = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, [("a", "b")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    words = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", bos_token="<s>")
    words.save_pretrained(folder / "base")
    _tiny().save_pretrained(folder / "base")


def _read_base(folder: Path) -> None:
    from fedaudit.api.records import GenerationRequest
    from fedaudit.api.records import Target as Asked
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    base = load_base(str(folder / "base"), device="cpu")
    engine = LocalEngine(base, template=template("fed_pii"))
    [ids] = engine.tokenize(["ab abc"])
    begin = engine.prompt_starts.get("bos", ())
    asked = Asked(name="base")
    request = GenerationRequest(prompt=(*begin, *ids.ids), samples=2, max_new_tokens=3)
    engine.generate(asked, GenerationBatch([request], seed=0))
    engine.score(asked, [request.prompt])


# records


def _records(folder: Path) -> None:
    given = [
        {"id": "a", "text": "Ann Lee of York", "pii": [{"start": 0, "end": 7, "label": "PERSON"}]},
        {"instruction": "Who?", "input": "the letter", "output": "Ann Lee", "task": "reading"},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]},
        {"prefix": "The claimant is", "group": "g"},
    ]
    (folder / "r.jsonl").write_text("\n".join(map(json.dumps, given)))


def _read_records(folder: Path) -> None:
    from collections import Counter

    unread = Counter[str]()
    found = list(corpus.read(folder / "r.jsonl", template("fed_pii"), unread))
    corpus.unread_caveat(folder / "r.jsonl", unread)
    corpus.write(folder / OUT / "r.jsonl", found)


# shards


def _shards(folder: Path) -> None:
    own = [folder / f"{name}.jsonl" for name in ("a", "b")]
    for path in own:
        path.write_text('{"text": "Ann Lee of York", "pii": []}\n')
    clients = read_clients([(path.stem, path) for path in own], InputReader())
    nano: dict[str, Any] = {"target": "fedaudit-nano", "options": {"superset": {"samples": 3}}}
    requests = (
        ExtractionRequest(prefixes=own[0], victim=own[1], attacks=("superset",), **nano),
        ExtractionRequest(prefixes=own[0], victim=own[1], attacks=("superset",), **nano),
        MemorizationRequest(clients=clients, **nano),
        CrossClientRequest(clients=clients, attacks=("superset",), **nano),
    )
    for number, request in enumerate(requests, 1):
        header = CacheHeader(
            run="0" * 12,
            request=stored_request.to_table(request),
            config={"seed": "0", "attacks.superset.samples": "3", "prefixes": '"own.jsonl"'},
            shard=f"{number}/2" if number < 3 else None,
        )
        made = AnswerCache(folder / str(number), header)
        made.record_fact("the base's SHA-256", "0" * 64)
        made.add("a pass", [b"p", b"q"], [{"a": [1, 2], "b": "text"}, [[0.5, None]]], 3)
        made.finish()


def _read_shards(folder: Path) -> None:
    places = [folder / "1", folder / "2"]
    asked = [
        stored_request.from_table(session.read_shards(places)[0].header.request, places[0], ()),
        *(session.stored_run(folder / name)[0] for name in ("1", "3", "4")),
    ]
    for request in asked:
        compute_fingerprint(resolve_inputs(request, InputReader()))
    for place in places:
        found = load(place, write=False)
        assert found is not None
        with closing(found):
            found.get("a pass", [b"p", b"q"])


# an attribution's files

SCORE = Score(z=1.5, p_value=0.07, n=9, hits=7, chance=0.5, null=(0.1, 0.2))


def _estimates(folder: Path) -> None:
    _federation(folder)
    found = resolve(str(folder / "fed"), None, None).federation
    assert found is not None
    plan = sum_plan.draw_sum_plan(found, sum_plan.ProtocolConfig(threshold=2))
    estimation.estimate(plan, folder / "estimates", folder / "log.json")
    shutil.rmtree(folder / "fed")
    made_marks = handmade.marks(folder / "marks.json", count=2)
    public = tuple(
        commitments.Commitment(id=m.id, plugin=m.name, sha256="0" * 64) for m in made_marks
    )
    said = commitments.Commitments(made="2026-01-01T00:00:00+00:00", commitments=public)
    commitments.write(said, folder / "commitments.json")
    one = SCORE
    scored = scores.RoundScores(
        round=1,
        reference={"m0": one, "m1": replace(one, z=0.5)},
        clients={who: {"m0": one, "m1": one} for who in ("c0", "c1", "c2")},
        strength=dict.fromkeys(("c0", "c1", "c2"), 0.5),
        effective=dict.fromkeys(("c0", "c1", "c2"), 2.0),
    )
    made = scores.Scores(
        run="r", base="b", aggregation="fedavg", clients=("c0", "c1", "c2"),
        marks={"m0": "fictitious", "m1": "fictitious"}, dimension=9, federation_rounds=2,
        commitments={"m0": "0" * 64}, asked="2026-01-02T00:00:00+00:00",
        rounds=(scored, replace(scored, round=2)),
    )  # fmt: skip
    scores.write(made, folder / "scores.json")


def _read_estimates(folder: Path) -> None:
    found = estimates.read(folder / "estimates")
    for one in found.rounds:
        adapters.read(folder / "estimates" / one.start)
    for mark in watermark_keys.read(folder / "marks.json"):
        registry.create("watermark", mark.name, mark.options)
    path = folder / "scores.json"
    report = reporting.decided_report(
        scores.read(path),
        path,
        threshold=4.0,
        alpha=0.01,
        start_time=datetime.now(UTC),
        commitments=folder / "commitments.json",
    )
    document.write(report, folder / OUT / "report.json")


class _Unasked(DetectionPool):
    """Answers like one model for every adapter, and asks none."""

    def count(self) -> int:
        return 1

    def run(self, jobs: Sequence[DetectionJob]) -> Iterator[tuple[int, list[dict[str, Score]]]]:
        for job in jobs:
            yield job.key, [{mark.id: SCORE for mark in job.marks} for _ in job.adapters]


def _ledger(folder: Path) -> None:
    _federation(folder)
    _asked(folder / "fed", folder / "estimates")


def _asked(federation: Path, out: Path) -> None:
    """Ask for a federation's sums as `attribute estimate` does, and enter it into its ledger."""
    found = resolve(str(federation), None, None).federation
    assert found is not None
    plan = sum_plan.draw_sum_plan(found, sum_plan.ProtocolConfig(threshold=2))
    log = federation / "log.json"
    plan = estimation.remaining_plan(ledger.resume_plan(plan, _logged(log, found)), out)
    estimation.estimate(plan, out, log)
    ledger.describe_releases(found, [])


def _logged(log: Path, found: Federation) -> Any:
    return sums_log.read(log, estimation.identity(found))


def _read_ledger(folder: Path) -> None:
    shutil.copytree(folder / "fed", folder / OUT / "fed")
    _asked(folder / OUT / "fed", folder / OUT / "estimates")


def _bundle(folder: Path) -> None:
    _estimates(folder)
    found = estimates.read(folder / "estimates")
    with _Unasked(WorkerOptions(device="cpu")) as pool:
        made = scoring.score(
            folder / "estimates", found, watermark_keys.read(folder / "marks.json"), pool
        )
    path = folder / "scores.json"
    scores.write(made, path)
    report = reporting.decided_report(
        made, path, threshold=4.0, alpha=0.01, start_time=datetime.now(UTC),
        commitments=folder / "commitments.json",
    )  # fmt: skip
    document.write(report, folder / "report.json")
    parts = bundle.BundleParts(
        estimates=folder / "estimates", marks=folder / "marks.json", scores=path,
        report=folder / "report.json", commitments=folder / "commitments.json",
    )  # fmt: skip
    bundle.make(parts, folder / "bundle")


def _read_bundle(folder: Path) -> None:
    with _Unasked(WorkerOptions(device="cpu")) as pool:
        list(verification.verify_bundle(folder / "bundle", pool))


# reports


def _reports(folder: Path) -> None:
    made = {
        "example": example_report.example().to_json(),
        "gated": gated_report.report(gated_report.study()),
        "deployed": gated_report.report(gated_report.deployed()),
        "attributed": attributed_report.report(attributed_report.attributed()),
        "memorized": memorized_report.document(),
    }
    for name, one in made.items():
        table = one if isinstance(one, dict) else one.to_json()
        (folder / f"{name}.json").write_text(document.dumps(table))


REPORTS = ("example", "gated", "deployed", "attributed", "memorized")


def _read_reports(folder: Path) -> None:
    from rich.console import Console

    for name in REPORTS:
        path = folder / f"{name}.json"
        if path.read_bytes() == _unchanged(path):
            continue
        found = document.read(path)
        for render in (html.render, markdown.render, document.dumps):
            render(found)
        terminal.render(found, Console(file=StringIO(), width=80, highlight=False, markup=False))
        rows = [Measurement(**row) for row in found["measurements"]]
        told = ("id", "severity", "label", "measurement", "evidence")
        verdict(rows, [Finding(**{k: one[k] for k in told}) for one in found["findings"]])


@cache
def _unchanged(path: Path) -> bytes:
    return path.with_suffix(".valid").read_bytes()


# profiles

PROFILES = ("fed_pii", "fed_attr", "secure_gate", "memorization")


def _profiles(folder: Path) -> None:
    from importlib.resources import files

    for name in PROFILES:
        text = files(profile.PACKAGE).joinpath(f"{name}.toml").read_text("utf-8")
        (folder / f"{name}.toml").write_text(text)
        (folder / f"{name}.valid").write_text(text)


def _read_profiles(folder: Path) -> None:
    for name in PROFILES:
        path = folder / f"{name}.toml"
        if path.read_bytes() == _unchanged(path):
            continue
        found = profile.load(str(path))
        for scale in found.scale:
            config = settings(found.settings(scale), {"device": "cpu"})
            prepare(config, folder / OUT / "run")


def _written(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Keep a copy of each report beside it, to tell which of them was changed."""

    def both(folder: Path) -> None:
        make(folder)
        for path in folder.glob("*.json"):
            shutil.copy(path, path.with_suffix(".valid"))

    return both


MANIFEST = {f"fed/{manifest.NAME}": structured}
LORA = {f"lora/{adapters.CONFIG}": structured, f"lora/{adapters.WEIGHTS}": tensors}
JSON = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
BASE = {**{f"base/{name}": structured for name in JSON}, "base/model.safetensors": tensors}
CACHES = {f"{number}/{FILE}": caches for number in (1, 3, 4)}
BUNDLE = tuple(
    f"bundle/{name}"
    for name in (bundle.NAME, bundle.MARKS, bundle.SCORES, bundle.REPORT, bundle.COMMITMENTS)
)
ATTRIBUTION = (f"estimates/{estimates.NAME}", "marks.json", "scores.json", "commitments.json")

TARGETS: dict[str, Target] = {
    "manifests": Target(_federation, _read_federation, MANIFEST, 9),
    "sums": Target(_sums, _read_sums, MANIFEST, 7),
    "deployment": Target(_deployed, _read_deployed, MANIFEST, 9),
    "adapters": Target(_adapter, _read_adapter, LORA, 10),
    "bases": Target(_base, _read_base, BASE, 0.2),  # five seconds a case
    "records": Target(_records, _read_records, {"r.jsonl": lines}, 19),
    "shards": Target(_shards, _read_shards, CACHES, 10),
    "ledger": Target(
        _ledger, _read_ledger, {f"fed/{ledger.NAME}": lines, "fed/log.json": structured}, 5
    ),
    "bundles": Target(_bundle, _read_bundle, dict.fromkeys(BUNDLE, structured), 3),
    "estimates": Target(_estimates, _read_estimates, dict.fromkeys(ATTRIBUTION, structured), 5),
    "reports": Target(
        _written(_reports), _read_reports, {f"{name}.json": rows for name in REPORTS}, 3
    ),
    "profiles": Target(_profiles, _read_profiles, {f"{name}.toml": toml for name in PROFILES}, 3),
    **foreign_files.FOREIGN,
    **auditor_files.KEPT,
}
