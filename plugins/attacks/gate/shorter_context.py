"""An engine with less context, for prompts that grow before the model reads them."""

from collections.abc import Iterable

from fedaudit.api import Engine, EngineWrapper


class ShorterContext(EngineWrapper):
    """An engine that leaves room in its context for the longest of some texts before a prompt."""

    def __init__(self, engine: Engine, texts: Iterable[str]) -> None:
        super().__init__(engine)
        self.reserved = max(len(tokens.ids) for tokens in engine.tokenize([*texts]))

    @property
    def context_length(self) -> int:
        """The most tokens a prompt and its continuation may have together."""
        return self.engine.context_length - self.reserved
