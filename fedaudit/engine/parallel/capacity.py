"""The CPUs and GPUs of a cluster, and the share that one engine or training takes."""

from dataclasses import dataclass

from fedaudit.api.errors import TargetError, UsageError


@dataclass(frozen=True, slots=True)
class ResourceShare:
    """The CPUs and GPUs of a cluster that one engine or training takes."""

    cpus: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The CPU and GPU slots of a whole cluster."""

    cpus: int
    gpus: int

    def shared(self, count: int, device: str) -> tuple[int, ResourceShare]:
        """Return the number of engines and each engine's share.

        The number is `count`, or, if that is 0, one per GPU; without GPUs, or on the device "cpu",
        one per CPU slot. Raises UsageError if `count` engines do not fit, TargetError for "cuda"
        without a GPU.
        """
        gpus = 0 if device == "cpu" else self.gpus
        if device == "cuda" and not gpus:
            raise TargetError("The Ray cluster has no GPU; leave --device out or name cpu.")
        slots = gpus or self.cpus
        if not 1 <= (count or slots) <= slots:
            kind = "GPUs" if gpus else "CPU slots"
            raise UsageError(f"The Ray cluster has {slots} {kind}: no room for {count} engines.")
        return (count or slots), (
            ResourceShare(1, 1) if gpus else ResourceShare(self.cpus // (count or slots))
        )
