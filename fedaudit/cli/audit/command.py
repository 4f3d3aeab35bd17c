"""The options of fedaudit audit, and the audit that they ask for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.audit.request import AuditRequest
from fedaudit.cli.audit.baseline import print_gate, read_baseline, write_gate
from fedaudit.cli.audit.plan_text import plan_lines
from fedaudit.cli.audit_runner import watching
from fedaudit.cli.console import (
    VERDICT_CODES,
    print_lines,
    print_note,
    print_summary,
    print_text,
    verdict_code,
)
from fedaudit.cli.options import (
    Output,
    Run,
    Settings,
    Watermark,
    one_target,
    settings_by_installed_plugin,
    takes_options,
)
from fedaudit.system.outputs import BASELINE, PAGE, check_output, write_output

if TYPE_CHECKING:
    from fedaudit.audit.prepare import PreparedAudit


@takes_options("asked", AuditRequest, without=("model", "keys"))
@takes_options("settings", Settings, Settings)
@takes_options("output", Output, Output, without=("shard",))
def audit(
    run: Run = None,
    *,
    prefixes: Annotated[
        Path | None,
        typer.Option(
            "--prefixes", "--ours", help="The attacker's documents; default: the first client's."
        ),
    ] = None,
    victim: Annotated[
        Path | None,
        typer.Option(
            "--victim", "--theirs", help="The victim's documents; default: the next client's."
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            "--held-out",
            help="Records that no training saw; default: those that a simulation held out.",
        ),
    ] = None,
    canaries: Annotated[
        Path | None, typer.Option("--canaries", help="The secret file of planted canaries.")
    ] = None,
    commitment: Annotated[
        str, typer.Option("--commitment", help="The published commitment to the canaries.")
    ] = "",
    watermark: Watermark = None,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME|FILE", help="default, strict, research or a file."),
    ] = "default",
    release: Annotated[
        str,
        typer.Option(
            "--release",
            help="Declare who gets the model: internal, api-text, api-logprobs, weights, "
            "federation-member or server.",
        ),
    ] = "",
    position: Annotated[
        list[str] | None,
        typer.Option(
            "--position",
            help="Declare where attackers stand: outsider, member, server or key-holder.",
        ),
    ] = None,
    declared_by: Annotated[
        str, typer.Option("--declared-by", help="Who declares release and positions.")
    ] = "",
    party: Annotated[
        list[str] | None,
        typer.Option(
            "--party",
            metavar="NAME=TITLE",
            help='What pages call a party, as "c1=St Mary\'s Hospital". Repeatable.',
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            help="An earlier report: the audit fails only for what is new or worse, for use in CI.",
        ),
    ] = None,
    defenses: Annotated[
        bool,
        typer.Option(
            "--defenses",
            help="Train again with defences, to measure what each one gains and costs.",
        ),
    ] = False,
    defense: Annotated[
        list[str] | None,
        typer.Option("--defense", metavar="NAME", help="Only this defence; may be repeated."),
    ] = None,
    defense_seeds: Annotated[
        int,
        typer.Option(
            "--defense-seeds",
            help="Trainings for each defence, each with its own seed.",
            min=1,
            max=1_000,
        ),
    ] = 3,
    defense_profile: Annotated[
        str,
        typer.Option(
            "--defense-profile",
            metavar="NAME[:SCALE]",
            help="The settings to train with; default: a simulated federation's own.",
        ),
    ] = "",
    defense_data: Annotated[
        list[str] | None,
        typer.Option(
            "--defense-data",
            metavar="NAME=FILE",
            help="A client's records, if the folder keeps none; give it once for each client.",
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack", help="An attack to make in addition, by its plugin's name; repeatable."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first answer: one victim, fewer questions.")
    ] = False,
    asked: dict[str, Any],
    settings: Settings,
    output: Output,
) -> int:
    """Audit with everything that applies, and give one verdict.

    The verdict follows from the measurements under a policy; the report says which classes of
    attacks were run, and why not the others. Exit code: 0 pass, 1 fail, 7 inconclusive; with
    --baseline 0 nothing new or worse, 1 something is, 7 it cannot be told.
    """
    from fedaudit.audit.prepare import prepare
    from fedaudit.report.checklist.validity import party_titles

    before = None if baseline is None else read_baseline(baseline)
    target = one_target(run, asked.pop("target", None))
    set_, servers = settings.split(asked["detector"], ["vllm"])
    prepared = prepare(
        target,
        prefixes=prefixes,
        victim=victim,
        held_out=held_out,
        canaries=canaries,
        commitment=commitment,
        watermark=watermark,
        policy=policy,
        release=release,
        positions=position or (),
        declared_by=declared_by,
        parties=party_titles(party or ()),
        quick=quick,
        attacks=attack or (),
        options=settings_by_installed_plugin(set_, "attack", "detector", "defense"),
        **asked,
        **servers,
        defenses=tuple(defense) if defense else defenses,
        defense_seeds=defense_seeds,
        defense_profile=defense_profile,
        defense_data=defense_data or (),
    )
    for line in prepared.notes:
        print_note(line, quiet=output.quiet)
    return _print_plan(prepared) if output.dry_run else _run(prepared, before, output)


def _print_plan(prepared: "PreparedAudit") -> int:
    """Print what would be done, with the time that it would take on this machine."""
    from fedaudit.audit.cost import cost_of, documents_of, speed_here
    from fedaudit.cli.audit.defenses import defense_lines

    material, plan, inputs = prepared.material, prepared.plan, prepared.inputs
    costs = {name: cost_of(step) for name, step in plan.steps.items()}
    documents = next(filter(None, map(documents_of, plan.steps.values())), ())
    speed = speed_here(inputs, documents)
    print_lines(plan_lines(material, plan, costs, speed, inputs.request))
    if prepared.defenses:
        print_lines(defense_lines(prepared.defenses))
    return 0


def _run(prepared: "PreparedAudit", baseline: "dict[str, Any] | None", output: Output) -> int:
    """Run the audit, write the report and its page, show a summary, return the exit code."""
    from fedaudit.audit.plan import no_attribution_reason
    from fedaudit.cli.audit.defenses import add_defenses, finished_report
    from fedaudit.report.renderers import html

    quiet = output.quiet
    session = prepared.session(
        output.out, resume=output.resume, copy=output.json, reveal=output.reveal
    )
    check_output(session.folder / "report.html", PAGE)
    if baseline is not None:
        check_output(session.folder / "baseline.json", BASELINE)
    for line in session.notes:
        print_note(line, quiet=quiet)
    plan = prepared.plan
    steps = [*plan.steps, *(["attribution"] if plan.attribution else [])]
    print_note(f"Steps: {', '.join(steps)}; --dry-run describes them.", quiet=quiet)
    if why := no_attribution_reason(plan.left_out):
        print_note(f"Left out: attribution: {why}", quiet=quiet)
    report = finished_report(session) if output.resume and prepared.defenses else None
    if report is None:
        session.run(watching(quiet))
        report = session.document
    page = session.folder / "report.html"
    write_output(page, html.render(report), PAGE)
    if prepared.defenses:
        report = add_defenses(
            prepared.defenses, report, session.folder, copy=output.json, quiet=quiet
        )
        write_output(page, html.render(report), PAGE)
    print_summary(report)
    if output.reveal:
        print_note(f"Leaked strings, in plain text: {session.folder / 'revealed.jsonl'}.")
    print_note(f"The report is {session.folder / 'report.json'}, its page {page}.", quiet=quiet)
    print_note(f"All tables: fedaudit report {session.folder}", quiet=quiet)
    if baseline is None:
        return verdict_code(report)
    print_text()
    comparison = print_gate(baseline, report)
    write_gate(comparison, session.folder / "baseline.json")
    return VERDICT_CODES[comparison.status]
