"""What a Flower app adds to have its run audited; Flower is imported only when it is used.

`strategy = record(FedAvg(), "runs/bank", lora=model)`
"""

from fedaudit.flower.mods import name_mod
from fedaudit.flower.strategy import record
from fedaudit.flower.watch import watch_mod

__all__ = ["name_mod", "record", "watch_mod"]
