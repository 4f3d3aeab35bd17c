"""fedaudit infer: whether the model tells whose personal data a sentence lacks."""

from typing import Annotated, Any

import typer

from fedaudit.audit.request import InferenceRequest
from fedaudit.cli import audit_runner as attacking
from fedaudit.cli.options import Output, Run, Settings, one_target, takes_options


@takes_options("asked", InferenceRequest)
@takes_options("settings", Settings, Settings)
@takes_options("output", Output, Output)
def infer(
    run: Run = None,
    *,
    candidates: Annotated[
        list[int] | None,
        typer.Option(
            "--candidates",
            help="Candidates for each mask; default: 50; may be repeated.",
            min=2,
            max=10_000,
        ),
    ] = None,
    asked: dict[str, Any],
    settings: Settings,
    output: Output,
) -> int:
    """Mask personal data, and see how often the model picks it.

    It picks among candidates, in sentences of one client's records.

    Options of the attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    ranking.sentences=300 or ranking.labels=PERSON,ADDRESS.
    """
    asked["target"] = one_target(run, asked.get("target"))
    set_, servers = settings.split(asked["detector"])
    options = attacking.options(set_, ("ranking", asked["detector"]))
    if candidates:
        options["ranking"] = {**options.get("ranking", {}), "candidates": candidates}
    request = attacking.make_request(InferenceRequest, **asked, **servers, options=options)
    return attacking.run_audit(request, output)
