"""What an auditor keeps: canaries, documents with coins, policies."""

import json
from datetime import UTC, datetime
from pathlib import Path

import example_report
from cases import OUT, Target, structured, toml

from fedaudit.audit.policy_file import read_policy
from fedaudit.canaries import (
    canary_file,
    coin_file,
    generator,
    planting_plan,
    ranking,
)
from fedaudit.report.verdict.policy import verdict


def _records(folder: Path) -> Path:
    rows = ({"id": f"r{n}", "text": f"Case {n} was heard.", "pii": []} for n in range(9))
    path = folder / "r.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def _canaries(folder: Path) -> None:
    _records(folder)
    made = generator.make(generator.CanaryRequest(count=6, clients=("c0", "c1"), seed=1))
    canary_file.write(made, folder / "c.json")


def _read_canaries(folder: Path) -> None:
    found = canary_file.read(folder / "c.json")
    canary_file.commitment(found)
    ranking.slot_references(found, limit=1000, count=20, seed=0)
    planting_plan.plant(
        planting_plan.PlantRequest(
            secrets=folder / "c.json",
            records=folder / "r.jsonl",
            client="c1",
            out=folder / OUT / "r.jsonl",
            seed=0,
        )
    )


def _coins(folder: Path) -> None:
    _records(folder)
    made = coin_file.CoinSet(
        made=datetime.now(UTC).isoformat(),
        salt="0" * 64,
        client="c0",
        canaries=tuple(
            coin_file.CoinCanary(prefix=f"Case {n} ", suffix="was odd", included=n % 2 == 0)
            for n in range(coin_file.MIN_COINS)
        ),
    )
    coin_file.write(made, folder / "c.json")


def _read_coins(folder: Path) -> None:
    coin_file.commitment(coin_file.read(folder / "c.json"))
    planting_plan.plant_coins(
        planting_plan.PlantRequest(
            secrets=folder / "c.json",
            records=folder / "r.jsonl",
            out=folder / OUT / "r.jsonl",
            client="c0",
            seed=0,
        )
    )


def _policies(folder: Path) -> None:
    text = (
        'name = "ours"\ndescription = "Ours"\nlevel = 0.01\ndetectable = 0.05\npower = 0.9\n'
        "confidence = 0.95\nmembership = 0.05\nmembership_fpr = 0.01\nattribution = false\n"
        'required = ["exfiltration", "regurgitation"]\n'
        '[kinds]\nPERSON = 0.01\n"Identity Documents" = 0.05\n'
    )
    (folder / "p.toml").write_text(text)


def _read_policies(folder: Path) -> None:
    policy = read_policy(str(folder / "p.toml"))
    made = example_report.example()
    policy.table()
    verdict(made.measurements, made.findings, policy, explained=True)


KEPT = {
    "canaries": Target(_canaries, _read_canaries, {"c.json": structured}, 3),
    "coins": Target(_coins, _read_coins, {"c.json": structured}, 2),
    "policies": Target(_policies, _read_policies, {"p.toml": toml}, 3),
}
