"""The server: FedAvg, with noise where the run's settings ask for it, and recorded."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from peft import get_peft_model_state_dict

from bank_app.task import model
from fedaudit.flower import record

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds."""
    config, peft = context.run_config, model()
    strategy = FedAvg(fraction_evaluate=0.0)
    if float(config["noise-multiplier"]):
        strategy = DifferentialPrivacyServerSideFixedClipping(
            strategy,
            noise_multiplier=float(config["noise-multiplier"]),
            clipping_norm=float(config["clipping-norm"]),
            num_sampled_clients=len(list(grid.get_node_ids())),
        )
    strategy = record(strategy, str(config["out"]), lora=peft)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(get_peft_model_state_dict(peft)),
        num_rounds=int(config["rounds"]),
    )
