"""Prompt templates: how instruction, input and output become the text that is trained on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.records import Document, PiiSpan, TextPiece, join_pieces

_SLOTS = re.compile(r"(\{instruction\}|\{input\})")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with {instruction} and {input}; the output follows where it ends."""

    name: str
    with_input: str
    without_input: str

    def __post_init__(self) -> None:
        for form, fields in (
            (self.with_input, ("{instruction}", "{input}")),
            (self.without_input, ("{instruction}",)),
        ):
            if any(form.count(field) != 1 for field in fields):
                raise InputError(
                    f"Prompt template {self.name!r} must hold {' and '.join(fields)} once each."
                )

    def prompt(self, instruction: str, given: str) -> str:
        """Return the text up to where the output begins."""
        return self._parts(instruction, given)[0]

    def header(self) -> str:
        """Return what every prompt with an input begins with, before any field."""
        return self.with_input.partition("{instruction}")[0].partition("{input}")[0]

    def render(self, document: Document) -> Document:
        """Return `document` with `text` rendered; one that has a text is returned as it is.

        The spans of a record without `text` count in its rendered text.
        """
        if document.text:
            return document
        return replace(
            document, text=self.prompt(document.instruction, document.input) + document.output
        )

    def compose(
        self,
        document: Document,
        input_spans: tuple[PiiSpan, ...],
        output_spans: tuple[PiiSpan, ...],
    ) -> Document:
        """Return `document` rendered, its spans moved from input and output to the text."""
        prompt, at = self._parts(document.instruction, document.input)
        spans = _moved(input_spans, at) + _moved(output_spans, len(prompt))
        return replace(document, text=prompt + document.output, pii=spans)

    def fill(self, instruction: Sequence[TextPiece], given: Sequence[TextPiece]) -> list[TextPiece]:
        """Return the prompt in pieces, of which those of the fields keep their places."""
        fields = {"{instruction}": instruction, "{input}": given}
        return [
            piece
            for slot in self._slots(join_pieces(given))
            for piece in fields.get(slot, [TextPiece(slot)])
        ]

    def asked(self, document: Document) -> str:
        """Return what a document's answer follows: its text up to there, or else the prompt."""
        if document.output and document.text.endswith(document.output):
            return document.text[: -len(document.output)]
        return self.prompt(document.instruction, document.input)

    def _slots(self, given: str) -> list[str]:
        # Split, then join: a field's own text may contain "{input}".
        return _SLOTS.split(self.with_input if given else self.without_input)

    def _parts(self, instruction: str, given: str) -> tuple[str, int]:
        """Return the prompt and where `given` begins in it."""
        fields, text, at = {"{instruction}": instruction, "{input}": given}, "", None
        for slot in self._slots(given):
            at = len(text) if slot == "{input}" else at
            text += fields.get(slot, slot)
        return text, len(text) if at is None else at


def _moved(spans: tuple[PiiSpan, ...], by: int) -> tuple[PiiSpan, ...]:
    return tuple(PiiSpan(span.start + by, span.end + by, span.label) for span in spans)


_QWEN = (
    "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
_SMOLLM2 = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
_LLAMA = (
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
TEMPLATES = {
    template.name: template
    for template in (
        # papers: FedPII, figure 9 (the task sentence is the instruction)
        PromptTemplate(
            "fed_pii",
            "{instruction}\n<###Input>\n{input}\n<###Output>\n",
            "{instruction}\n<###Output>\n",
        ),
        # tatsu-lab/stanford_alpaca, the template of FewFedPIT and of most instruction data
        PromptTemplate(
            "alpaca",
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:\n",
        ),
        # Udsa et al., table 8, for models without a chat template of their own
        PromptTemplate(
            "chat",
            "User:\n{instruction} {input}\nAssistant:\n",
            "User:\n{instruction}\nAssistant:\n",
        ),
        # The same within the models' own turns; tokenizers read the marks as special tokens
        PromptTemplate(
            "qwen", _QWEN.format("{instruction} {input}"), _QWEN.format("{instruction}")
        ),
        PromptTemplate(
            "smollm2", _SMOLLM2.format("{instruction} {input}"), _SMOLLM2.format("{instruction}")
        ),
        PromptTemplate(
            "llama3", _LLAMA.format("{instruction} {input}"), _LLAMA.format("{instruction}")
        ),
    )
}


def template(name: str) -> PromptTemplate:
    """Return the built-in template of that name."""
    if name not in TEMPLATES:
        raise unknown_name_error("prompt template", name, TEMPLATES)
    return TEMPLATES[name]
