"""fedaudit extract: what private data comes out of the model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.cli.options import Device, Dtype, Json, Out, Quiet, Seed, Set

if TYPE_CHECKING:
    from fedaudit.audit.extract import Request


def extract(
    prefixes: Annotated[
        Path,
        typer.Option("--prefixes", help="The attacker's own documents, or prompts, as JSONL."),
    ],
    victim: Annotated[
        Path | None,
        typer.Option("--victim", help="The victim's documents, to score against."),
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack's name; may be repeated.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="A federation's folder, a model folder or a hub id."),
    ] = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="A LoRA adapter's folder, on the target.")
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", help="The federation's round; the last without it.")
    ] = None,
    set_: Set = None,
    seed: Seed = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Continuations drawn at once; 0 chooses.", min=0)
    ] = 0,
    detector: Annotated[
        str, typer.Option("--detector", help="What finds PII in unannotated documents.")
    ] = "presidio",
    template: Annotated[
        str, typer.Option("--template", help="The prompt template, where the target names none.")
    ] = "fed_pii",
    out: Out = None,
    json: Json = None,
    reveal: Annotated[
        bool,
        typer.Option("--reveal", help="Write the leaks in plain text to a file only you can read."),
    ] = False,
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Pull personal data out of a model and say how much of it training put there.

    Options of an attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    contextual.samples=30 or presidio.ner=spacy:en_core_web_sm.
    """
    from fedaudit.audit import extract as audits
    from fedaudit.cli.show import bars, note, saved, shown
    from fedaudit.options import parse_settings
    from fedaudit.report.redaction import Redactor, load_or_create_key

    chosen = tuple(attack or ["contextual"])
    request = audits.Request(
        prefixes=prefixes,
        victim=victim,
        attacks=chosen,
        options=_options(parse_settings(set_ or []), (*chosen, detector)),
        target=target,
        adapter=adapter,
        round=round_,
        detector=detector,
        template=template,
        seed=seed or 0,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
    )
    audited = audits.check(request)
    if audited.found and audited.federation:
        note(f"Auditing {audited.federation.path}, the federation written last.", quiet=quiet)
    place = _place(request, out)
    place.mkdir(parents=True, exist_ok=True)
    redactor = Redactor(load_or_create_key(place if out else place.parent))
    with bars(quiet) as bar:
        audit = audits.run(request, redactor, bar)
    report = saved(audit.report, place / "report.json", json)
    shown(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return 1 if report["verdict"]["status"] == "fail" else 0


def _options(table: dict[str, Any], plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return options by plugin; a key must name an attack that runs, or the detector."""
    from fedaudit.errors import unknown

    for name, options in table.items():
        if name not in plugins or not isinstance(options, dict):
            raise unknown("attack or detector in use", name, plugins)
    return table


def _place(request: "Request", out: Path | None) -> Path:
    """Return the output folder; refuses one that holds another run's report."""
    from fedaudit.audit.extract import run_id, settings
    from fedaudit.errors import InputError
    from fedaudit.report.document import read

    identity = run_id(settings(request))
    place = out or Path("runs") / "extract" / identity
    if place.is_file():
        raise InputError(f"{place} is a file; --out needs a folder.")
    if (place / "report.json").exists() and read(place / "report.json")["run"]["id"] != identity:
        raise InputError(f"{place} holds another run's report; choose another --out or remove it.")
    if (place / "federation.json").exists():
        raise InputError(f"{place} is a federation's folder; choose another --out.")
    return place


def _reveal(leaks: Any, path: Path) -> None:
    import json

    from fedaudit.files import atomic_text

    lines = (json.dumps(dict(leak), ensure_ascii=False) + "\n" for leak in leaks)
    atomic_text(path, "".join(lines), mode=0o600)
