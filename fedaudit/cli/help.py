"""How `--help` shows a command: its options by what they are about, then two examples."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

LONG = 9
"""A command with more options than these shows them in groups."""
SECTIONS = {
    "Data": (
        *("--prefixes", "--ours", "--victim", "--member", "--control", "--held-out"),
        *("--canaries", "--references", "--commitment", "--watermark", "--data", "--clients"),
        *("--sample", "--retrieved", "--central", "--only", "--except", "--detector"),
        *("--pattern", "--template"),
    ),
    "Model": (
        *("--target", "--model", "--adapter", "--round", "--client", "--key"),
        *("--counterfactual", "--reference", "--profile", "--scale", "--without"),
    ),
    "What to ask": (
        *("--attack", "--candidates", "--matrix", "--budget", "--estimator", "--prefix-length"),
        *("--decoding", "--top-k", "--top-p", "--temperature", "--new-tokens", "--prompt"),
        *("--all-pairs", "--compat", "--paraphraser", "--defenses", "--defense"),
        *("--defense-seeds", "--defense-profile", "--defense-data", "--quick", "--style"),
        *("--strict", "--set", "--seed", "--seeds", "--follow"),
    ),
    "Judgement": (
        *("--policy", "--release", "--position", "--declared-by", "--party", "--baseline"),
        *("--limit", "--verify", "--attest", "--public-key", "--root", "--owner", "--expires"),
        "--laws",
    ),
    "Output": (
        *("--format", "--out", "--json", "--html", "--reveal", "--dry-run", "--resume"),
        *("--force", "--quiet", "--help"),
    ),
    "Machine": (
        "--device",
        "--dtype",
        "--engine",
        "--batch-size",
        "--workers",
        "--jobs",
        "--shard",
    ),
}
"""What options are about, by the first name of each."""
EXAMPLES = {
    "audit": (
        "fedaudit audit runs/fed_pii --dry-run",
        "fedaudit audit BASE --adapter ADAPTER --ours ours.jsonl --theirs theirs.jsonl",
    ),
    "extract": (
        "fedaudit extract --target runs/fed_pii --ours ours.jsonl --theirs theirs.jsonl",
        "fedaudit extract --target BASE --adapter ADAPTER --ours ours.jsonl --theirs theirs.jsonl",
    ),
    "infer": (
        "fedaudit infer --data runs/fed_pii/data/c1.jsonl",
        "fedaudit infer --data theirs.jsonl --target BASE --adapter ADAPTER --out inferred",
    ),
    "memorize": (
        "fedaudit memorize runs/fed_pii",
        "fedaudit memorize runs/fed_pii --decoding temperature --temperature 0.8",
    ),
    "watch": (
        "fedaudit watch runs/bank --ours ours.jsonl --held-out set_aside.jsonl",
        "fedaudit watch runs/bank --ours ours.jsonl --held-out set_aside.jsonl --canaries "
        "canaries.json --limit 0.05 --follow",
    ),
    "simulate": (
        "fedaudit simulate --profile fed_pii",
        "fedaudit simulate --profile secure_gate --set rounds=3 --out runs/gate",
    ),
    "reproduce": (
        "fedaudit reproduce fed_pii --quick",
        "fedaudit reproduce fed_attr --seeds 3 --out studies/fed_attr",
    ),
    "report": (
        "fedaudit report runs/audit/fed_pii --format html",
        'fedaudit report runs/audit/fed_pii --format annex --owner "Court of X"',
    ),
    "compare": (
        "fedaudit compare before after --html changes.html",
        "fedaudit compare baseline.json after --gate",
    ),
    "scrub": (
        "fedaudit scrub records.jsonl clean.jsonl",
        'fedaudit scrub records.csv clean.csv --pattern "CASE=[A-Z]{2}/[0-9]{4}" --strict',
    ),
    "data": (
        "fedaudit data alpaca alpaca_data.json",
        "fedaudit data pubmedqa pqa_artificial.parquet --each 30000 --out questions.jsonl",
    ),
}
"""Two command lines for each command, the second with more options."""


class HelpfulCommand(TyperCommand):
    """A command whose help has its options in sections, and examples at its end."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; those of a long command by section."""
        options = [one for one in self.get_params(ctx) if one.param_type_name == "option"]
        if len(options) <= LONG:
            super().format_options(ctx, formatter)
        else:
            arguments = [one for one in self.get_params(ctx) if one not in options]
            for title, params in (("Arguments", arguments), *_sections(options)):
                records = [record for one in params if (record := one.get_help_record(ctx))]
                if records:
                    with formatter.section(title):
                        formatter.write_dl(records)
        if examples := EXAMPLES.get(self.name or ""):
            formatter.write("\nExamples:\n")
            for example in examples:
                formatter.write(f"  {example}\n")


def section_of(option: str) -> str:
    """Return what an option is about; "Options" for one that no section has."""
    found = (title for title, names in SECTIONS.items() if option in names)
    return next(found, "Options")


def _sections(options: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    # Of "-h" and "--help", click gives either first.
    names = [next(name for name in one.opts if name.startswith("--")) for one in options]
    for title in (*SECTIONS, "Options"):
        yield (
            title,
            [one for one, name in zip(options, names, strict=True) if section_of(name) == title],
        )
