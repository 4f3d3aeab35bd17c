"""fedaudit canary measure: how far training moved each of them up among all."""

from typing import Any

from fedaudit.audit.request import ExposureRequest
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.options import Canaries, Output, Run, one_target, takes_options


@takes_options("asked", ExposureRequest, without=("model", "client", "keys", "detector"))
@takes_options("output", Output, Output, without=("shard", "dry_run"))
def measure(canaries: Canaries, run: Run = None, *, asked: dict[str, Any], output: Output) -> int:
    """Measure how far training raised each planted secret's rank.

    The rank is among all secrets of its kind, or a random sample of them, by how likely the model
    finds each.

    Exit code 1: secrets that were planted stand higher than chance explains.
    """
    asked["target"] = one_target(run, asked.get("target"))
    return run_audit(make_request(ExposureRequest, canaries=canaries, **asked), output)
