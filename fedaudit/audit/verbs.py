"""The audits from Python: the same as the commands, with a report in return.

    import fedaudit

    report = fedaudit.audit("runs/fed_pii", policy="strict", release="weights")
    report.to_json()["verdict"]["status"]

Errors are those of `fedaudit.api.errors`, which the commands show in one line.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedaudit.audit.clients import list_clients
from fedaudit.audit.defenses.plan import DefensePlan
from fedaudit.audit.defenses.study import run_defenses
from fedaudit.audit.defenses.training import DefenseWatch
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.prepare import Options, StrPath, as_path, prepare
from fedaudit.audit.request import (
    ExtractionRequest,
    InferenceRequest,
    MemorizationRequest,
    Protocol,
)
from fedaudit.audit.run import Watcher
from fedaudit.audit.session import AuditSession
from fedaudit.report.document import Report, write


def audit(
    target: StrPath | None = None,
    *,
    out: StrPath | None = None,
    resume: bool = False,
    watching: AbstractContextManager[Watcher] | None = None,
    **settings: Any,
) -> Report:
    """Audit with everything that applies and return the report, which is also written into `out`.

    `settings` are the arguments of `prepare`; `watching` provides the progress callback. Without
    `out` the folder is one below `runs/audit/`, as for the command. Federations trained for
    `defenses` are kept in that folder and not trained again.
    """
    prepared = prepare(target, **settings)
    session = prepared.session(out, resume=resume)
    report = _run_session(session, watching)
    if prepared.defenses is None:
        return report
    return with_defenses(report, prepared.defenses, session.folder, DefenseWatch())


def with_defenses(report: Report, plan: DefensePlan, folder: Path, watch: DefenseWatch) -> Report:
    """Train what is missing under defences; write the report with the results and return it.

    The verdict stays as it is: these results are not judged.
    """
    from fedaudit.report.redaction import Redactor, user_key

    section = run_defenses(plan, report.measurements, folder, Redactor(user_key()), watch)
    full_report = replace(report, defenses=section)
    write(full_report, folder / "report.json")
    return full_report


def extract(
    prefixes: StrPath,
    *,
    victim: StrPath | None = None,
    target: StrPath | None = None,
    adapter: StrPath | None = None,
    attacks: Sequence[str] = ("contextual",),
    options: Options | None = None,
    out: StrPath | None = None,
    resume: bool = False,
    watching: AbstractContextManager[Watcher] | None = None,
    **settings: Any,
) -> Report:
    """Attack one victim with one client's records and return the report, as `fedaudit extract`.

    `settings` are further fields of `fedaudit.audit.request.ExtractionRequest`, such as `seed`.
    """
    request = ExtractionRequest(
        prefixes=Path(prefixes),
        victim=as_path(victim),
        target=None if target is None else str(target),
        adapter=None if adapter is None else str(adapter),
        attacks=tuple(attacks),
        options=options or {},
        **settings,
    )
    return _run_session(AuditSession(request, as_path(out), resume=resume), watching)


def infer(
    data: StrPath,
    *,
    target: StrPath | None = None,
    adapter: StrPath | None = None,
    options: Options | None = None,
    out: StrPath | None = None,
    resume: bool = False,
    watching: AbstractContextManager[Watcher] | None = None,
    **settings: Any,
) -> Report:
    """Ask whose personal data belongs in the sentences of `data`, as `fedaudit infer`.

    `settings` are further fields of `fedaudit.audit.request.InferenceRequest`.
    """
    request = InferenceRequest(
        data=Path(data),
        target=None if target is None else str(target),
        adapter=None if adapter is None else str(adapter),
        options=options or {},
        **settings,
    )
    return _run_session(AuditSession(request, as_path(out), resume=resume), watching)


def memorize(
    target: StrPath | None = None,
    *,
    clients: Sequence[StrPath] = (),
    protocol: Protocol | None = None,
    adapter: StrPath | None = None,
    options: Options | None = None,
    out: StrPath | None = None,
    resume: bool = False,
    watching: AbstractContextManager[Watcher] | None = None,
    **settings: Any,
) -> Report:
    """Measure whose texts a model continues for whom, as `fedaudit memorize`.

    Args:
        target: A federation's folder, or another model if `clients` are named.
        clients: The clients' documents, one file each; by default the federation's own.
        protocol: How texts are drawn, continued and compared. By default the paper's, with shorter
            prefixes if most texts are too short.
        adapter: The folder of a LoRA adapter on the target.
        options: Options of the detector, by its name.
        out: The report's folder; the default is one below `runs/memorize/`.
        resume: Whether an unfinished audit in that folder is resumed.
        watching: Provides the callbacks for progress.
        settings: Further fields of `fedaudit.audit.request.MemorizationRequest`.

    Returns:
        The report, which is also written into its folder.

    Raises:
        UsageError: For options that do not exist or do not go together.
        InputError: For files that cannot be read.
    """
    reader = InputReader()
    request = MemorizationRequest(
        clients=list_clients(as_path(target), [Path(path) for path in clients], reader),
        protocol=protocol or Protocol(),
        shorter=protocol is None,
        target=None if target is None else str(target),
        adapter=None if adapter is None else str(adapter),
        options=options or {},
        **settings,
    )
    return _run_session(AuditSession(request, as_path(out), resume=resume, reader=reader), watching)


def _run_session(session: AuditSession, watching: AbstractContextManager[Watcher] | None) -> Report:
    done = session.run(watching)
    assert done is not None  # only a shard has no report
    return done.report
