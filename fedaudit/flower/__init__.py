"""What a Flower app adds to have its run audited; Flower is imported only when it is used.

    from fedaudit.flower import record
    strategy = record(FedAvg(), "runs/bank", lora=model)

* `arrays`: A Flower record of arrays as the tensors of a LoRA adapter, or why it is none.
* `mods`: The client mod that tells the server a client's name.
* `rules`: What a Flower strategy is in fedaudit's terms: its rule, its weights, its noise.
* `run_folder`: Writes the federation folder of a Flower run, one round at a time.
* `strategy`: The wrapper around a strategy that records what the server sees.
"""

from fedaudit.flower.mods import name_mod
from fedaudit.flower.strategy import record

__all__ = ["name_mod", "record"]
