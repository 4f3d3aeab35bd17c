"""How much of a cluster there is, and what one engine or training takes of it."""

from dataclasses import dataclass

from fedaudit.api.errors import TargetError, UsageError


@dataclass(frozen=True, slots=True)
class ResourceShare:
    """What one engine or training takes of a cluster."""

    cpus: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The slots of a whole cluster."""

    cpus: int
    gpus: int

    def shared(self, count: int, device: str) -> tuple[int, ResourceShare]:
        """Return how many engines have room, or `count` of them, and what each takes.

        One a GPU where there are GPUs, unless the device is "cpu"; else one a CPU slot.
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
