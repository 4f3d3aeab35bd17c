"""fedaudit joint: an audit by members who show each other no records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.cli.audit_runner import make_request, options, watching
from fedaudit.cli.console import VERDICT_CODES, print_note, print_report, print_text
from fedaudit.cli.options import Json, Quiet, Reveal, Settings, takes_options
from fedaudit.joint.request import JointRequest
from fedaudit.system.outputs import REVEALED, check_output

if TYPE_CHECKING:
    from collections.abc import Iterable

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The member's folder, with the files that came.")
]


@takes_options("asked", JointRequest, without=("model", "client", "keys"))
@takes_options("settings", Settings, Settings)
def commit(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The member's name.")],
    key: Annotated[
        Path, typer.Option("--key", help="The member's ed25519 key, which signs what it sends.")
    ],
    attack: Annotated[
        str, typer.Option("--attack", help="The attack, the same for all members.")
    ] = "contextual",
    *,
    asked: dict[str, Any],
    settings: Settings,
) -> int:
    """Commit to one's records, the model and the attack.

    Every member sends its NAME.commit.json to all others, and puts theirs into its folder.
    """
    from fedaudit.joint import member

    set_, _ = settings.split(asked["detector"], servers=())
    asked["options"] = options(set_, (attack, asked["detector"]))
    request = make_request(JointRequest, attacks=(attack,), **asked)
    _print_sent([member.commit(folder, name, request, key)], "all members")
    return 0


def ask(folder: Folder, quiet: Quiet = False) -> int:
    """Draw from the model, and ask the others about one's own strings.

    Needs the commitments of all members. Every member sends its NAME.ask.zip to all others.
    """
    from fedaudit.joint import asking, member

    own = member.open_member(folder)
    with watching(quiet) as watch:
        path = asking.ask(own, watch)
    _print_keys(own.folder)
    _print_sent([path], "all members")
    return 0


def answer(folder: Folder) -> int:
    """Answer what the others ask.

    Needs the ask.zip of all members. Each NAME.answer-for-MEMBER.zip goes to that member alone.
    """
    from fedaudit.joint import answering, member

    _print_sent(answering.answer(member.open_member(folder)), "the member in the name of each")
    return 0


def count(
    folder: Folder,
    counts: Annotated[
        bool,
        typer.Option(
            "--counts", help="Tell the others how many strings came out; default: the verdict only."
        ),
    ] = False,
    reveal: Reveal = False,
    quiet: Quiet = False,
) -> int:
    """Count which of one's own strings came out.

    Needs all answers. The report, in FOLDER/private, stays with the member; every member sends its
    NAME.result.json to all others.
    """
    from fedaudit.audit import evidence
    from fedaudit.joint import counting, member

    own = member.open_member(folder)
    plain = own.private / "revealed.jsonl"
    check_output(plain, REVEALED)
    with watching(quiet) as watch:
        audit = counting.count(own, watch, lambda line: print_note(line, quiet=quiet))
    if reveal:
        evidence.write_revealed_leaks(audit.revealed, plain)
    sent = counting.send_result(own, audit.report, counts=counts)
    table = audit.report.to_json()
    print_report(table)
    if reveal:
        print_note(f"Leaked strings, in plain text: {plain}.", quiet=quiet)
    print_note(f"The report is {own.private / counting.REPORT}, for this member only.", quiet=quiet)
    _print_sent([sent], "all members")
    return VERDICT_CODES[table["verdict"]["status"]]


def report(
    folder: Folder,
    json: Json = None,
) -> int:
    """Show all members' results as one report.

    Needs the commitments and results of all members, and no records: a coordinator may do it, too.
    The counts of all pairs are shown if every member sent its own.
    """
    from fedaudit.joint import combining
    from fedaudit.report.document import write

    combined = combining.combine(folder)
    if json and combined.report is None:
        raise UsageError("A member sent its verdict only: without all counts there is no report.")
    if combined.report and json:
        write(combined.report, json)
    if combined.report:
        print_report(combined.report.to_json())
    _print_keys(folder)
    for line in combined.lines():
        print_text(line)
    return VERDICT_CODES[combined.status]


def _print_keys(folder: Path) -> None:
    from fedaudit.joint.member import key_lines

    for line in key_lines(folder):
        print_text(line)


def _print_sent(paths: "Iterable[Path]", receiver: str) -> None:
    for path in paths:
        print_text(str(path))
    print_note(f"Send to {receiver}.")


app = typer.Typer(
    help="Audit together without showing each other any record.",
    no_args_is_help=True,
)
for command in (commit, ask, answer, count, report):
    app.command()(command)
