"""How a prompt template marks its fields, and how a continuation is read back into them."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedaudit.api import PromptTemplate, UsageError

BLANK = "\n\n"
"""What stands between two demonstrations."""


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A template whose fields can be told apart: what stands ahead of input and output."""

    template: PromptTemplate
    input_marker: str
    output_marker: str

    def head(self, *, with_input: bool) -> str:
        """Return what a prompt has ahead of its instruction."""
        form = self.template.with_input if with_input else self.template.without_input
        return form.partition("{instruction}")[0]

    def instruction(self, text: str) -> tuple[str, bool]:
        """Return the instruction that a continuation begins with, and whether something ends it."""
        return _cut(text, (self.input_marker, self.output_marker, BLANK))

    def fields(self, text: str) -> tuple[str, str] | None:
        """Return the input and output of a continuation that goes on behind an instruction.

        The input is empty where only the output's marker is there. None where that is missing or
        does not come next. The output goes on to where another example would begin.
        """
        before, marker, output = text.partition(self.output_marker)
        lead, marked, input_text = before.partition(self.input_marker)
        if not marker or lead.strip() or (marked and not input_text.strip()):
            return None
        return input_text.strip(), _cut(output, self._openings())[0]

    def _openings(self) -> set[str]:
        """Return what can begin another example, or another field of this one."""
        heads = [self.head(with_input=with_input) for with_input in (True, False)]
        lines = {line for head in heads for line in head.splitlines() if line.strip()}
        return {self.input_marker, self.output_marker, *(lines or {BLANK})}


def prompt_layout(template: PromptTemplate) -> PromptLayout:
    """Return the layout of `template`.

    Raises UsageError where its fields are not marked: what a model writes could not be read back.
    """
    before, _, after = template.with_input.partition("{instruction}")
    between, _, tail = after.partition("{input}")
    input_marker, output_marker = between.strip(), tail.strip()
    without_input = template.without_input.partition("{instruction}")[2].strip()
    told_apart = input_marker not in output_marker and output_marker not in input_marker
    if "{input}" in before or not input_marker or not told_apart or without_input != output_marker:
        raise UsageError(
            f"The prompt template {template.name!r} does not mark where an input and where an "
            "output begins, so made-up examples cannot be read back: choose alpaca or fed_pii."
        )
    return PromptLayout(template, input_marker, output_marker)


def _cut(text: str, markers: Iterable[str]) -> tuple[str, bool]:
    """Return `text` up to the first of `markers`, stripped, and whether there was one."""
    positions = [position for marker in markers if (position := text.find(marker)) >= 0]
    return text[: min(positions, default=len(text))].strip(), bool(positions)
