"""The global model test (FedAttr, appendix F.4): whether what came out is watermarked at all."""

from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import AttributionContext, AttributionResult, Attributor


@dataclass(frozen=True)
class Global(Attributor):
    """Test the final global model for every watermark; it names no client."""

    name: ClassVar[str] = "global"
    plaintext: ClassVar[bool] = False

    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Return what the last global adapter shows of every mark."""
        [scores] = context.measure([context.last])
        caveat = (
            f"{self.name}: a watermark in the global model says that someone trained on it, not "
            "who did."
        )
        return AttributionResult(clients=(), limits=(caveat,), marks=scores)
