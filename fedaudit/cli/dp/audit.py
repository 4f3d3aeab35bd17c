"""fedaudit dp audit: is the claim refuted."""

from typing import Any

from fedaudit.audit.request import EpsilonRequest
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.options import Coins, Output, Run, one_target, takes_options


@takes_options("asked", EpsilonRequest, without=("model", "client", "keys", "detector"))
@takes_options("output", Output, Output, without=("reveal", "shard", "dry_run"))
def audit(coins: Coins, run: Run = None, *, asked: dict[str, Any], output: Output) -> int:
    """Test a claimed epsilon by what the model reveals about the coins.

    Exit code 1: the claim is refuted. 7: it is not, and the audit has not shown that it could.
    """
    asked["target"] = one_target(run, asked.get("target"))
    return run_audit(make_request(EpsilonRequest, coins=coins, **asked), output)
