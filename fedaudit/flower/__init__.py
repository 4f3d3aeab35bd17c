"""What a Flower app adds to have its run audited; Flower is imported only when it is used.

`strategy = record(FedAvg(), "runs/bank", lora=model)`
"""

from fedaudit.flower.joint import joint_audit, take_part
from fedaudit.flower.mods import name_mod
from fedaudit.flower.strategy import record
from fedaudit.flower.watch import watch_mod

__all__ = ["joint_audit", "name_mod", "record", "take_part", "watch_mod"]
