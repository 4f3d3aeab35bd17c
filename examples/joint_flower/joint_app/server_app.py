"""The server: it carries the members' files, and keeps their commitments and results."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedaudit.flower import joint_audit

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Audit jointly."""
    config = context.run_config
    joint_audit(grid, str(config["out"]), members=int(config["members"]))
