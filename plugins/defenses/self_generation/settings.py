"""The options of defences that make up training examples."""

from dataclasses import dataclass

from fedaudit.api import Defense

from .selection_criteria import Method


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Defense):
    """How examples are made up, and how many of them are kept."""

    candidates: int = 32
    """How many examples are made up in each turn, not counting those that the filters drop."""
    keep: int = 16
    """How many of them are trained on."""
    selection: Method = "ifs"
    """How the examples to train on are chosen; see docs/few-fed-pit.md."""
    asked: int = 128
    """The most new instructions asked for in a turn to get that many candidates."""
    shown: int = 8
    """Instructions that a prompt for a new one shows."""
    demonstrations: int = 4
    """Examples that a prompt for an input and a response shows."""
    tries: int = 3
    """Tries at an input and a response before an instruction is given up."""
    similarity: float = 0.7
    """A new text whose Rouge-L with anything of the client's own is above this is dropped."""
    distinct: bool = False
    """Also drop a new instruction that is as similar to another new one."""
    temperature: float = 0.0
    """The sampling temperature of all that is made up; 0 is greedy, as in the paper."""
    instruction_tokens: int = 64
    """The most tokens of a new instruction."""
    answer_tokens: int = 256
    """The most tokens of an input with its response."""
    source: str = ""
    """A JSONL file of public examples in place of self-made ones, or "nano:DOMAIN[:TASKS]" of the
    built-in generator; each turn draws `keep` of them."""

    def __post_init__(self) -> None:
        if min(self.keep, self.shown, self.demonstrations, self.tries, self.asked) < 1:
            raise ValueError("keep, shown, demonstrations, tries and asked must be at least 1.")
        if self.candidates < self.keep:
            raise ValueError("candidates must be at least keep.")
        if not 0 < self.similarity <= 1:
            raise ValueError("similarity must be above 0 and at most 1.")
        if self.temperature < 0:
            raise ValueError("temperature must be at least 0.")
        if min(self.instruction_tokens, self.answer_tokens) < 1:
            raise ValueError("instruction_tokens and answer_tokens must be at least 1.")
