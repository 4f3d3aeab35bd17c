"""What of a record a client learns: its whole text, or only the answer in it."""

from collections.abc import Iterable, Sequence
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document


class MaskedSequence(list[int]):
    """A training sequence whose first `given` tokens are read, but not learned."""

    given: int = 0

    def __init__(self, tokens: Iterable[int], given: int) -> None:
        super().__init__(tokens)
        self.given = given


def prompt_length(sequence: Sequence[int]) -> int:
    """Return how many tokens at the beginning of a training sequence are not learned."""
    return sequence.given if isinstance(sequence, MaskedSequence) else 0


def mask_prompt(
    tokenizer: Any, documents: Sequence[Document], max_length: int
) -> list[MaskedSequence]:
    """Return each document's tokens, with start and end tokens; only the answer is learned.

    A document without instruction and answer is learned whole. Raises InputError if nothing of the
    answer is left within `max_length` tokens.
    """
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    result = []
    for document in documents:
        encoded = tokenizer(document.text, return_offsets_mapping=True)
        begin = _beginning(document)
        read = sum(stop <= begin for _, stop in encoded["offset_mapping"])
        tokens = [*encoded["input_ids"], *end][:max_length]
        if begin and read >= len(tokens):
            raise InputError(
                f"Document {document.id}: its answer begins after {read} tokens, of which "
                f"{max_length} are read: raise training.max_length."
            )
        result.append(MaskedSequence(tokens, read if begin else 0))
    return result


def _beginning(document: Document) -> int:
    """Return where in the text the answer begins; 0 for a document without an answer."""
    is_record = document.instruction and document.output and not document.is_prompt
    if not is_record or not document.text.endswith(document.output):
        return 0
    return len(document.text) - len(document.output)
