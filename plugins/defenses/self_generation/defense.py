"""What FewFedPIT and FedMIT have in common: where a client's further examples come from."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from fedaudit.api import (
    Defense,
    Document,
    FinishedFederation,
    InputError,
    PromptTemplate,
    Result,
    Target,
    TrainedClient,
)

from . import filter_counts, measurements
from .demonstrations import usable_documents
from .generation import ExampleGenerator, Recipe, fits_context
from .prompt_layout import prompt_layout
from .selection import count_selection, select_candidates
from .selection_criteria import Method


@dataclass(frozen=True, kw_only=True)
class SelfGeneration(Defense):
    """Where a client's further examples come from, and how many of them are kept."""

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

    def check(self, template: PromptTemplate) -> None:
        """Refuse a template whose fields cannot be read back, and a file that is not there."""
        if self.auxiliary_adapters and self.source:
            self._public(template)
        elif self.auxiliary_adapters:
            prompt_layout(template)

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents as they are; InputError where they are too few to show."""
        if self.auxiliary_adapters and not self.source:
            usable_documents(documents, max(self.shown, self.demonstrations))
        return list(documents)

    def synthetic(self, turn: TrainedClient) -> list[Document]:
        """Return what a client trains on beside its own data in a turn, and write the statistics.

        Examples are made up by the round's global adapter and chosen by the client's own.
        """
        seed = int.from_bytes(sha256(f"synthesis {turn.seed}".encode()).digest()[:6])
        recipe = self._recipe(turn)
        if self.source:
            public = self._public(turn.template)
            fit_flags = fits_context(turn.engine, public, recipe)
            public = [example for example, fits in zip(public, fit_flags, strict=True) if fits]
            sample = random.Random(seed).sample(public, min(self.keep, len(public)))
            return _with_turn_ids(sample, turn)
        examples = usable_documents(turn.documents, max(self.shown, self.demonstrations))
        generation = ExampleGenerator(
            engine=turn.engine,
            target=Target(name="global", adapter=str(turn.start)),
            examples=examples,
            layout=prompt_layout(turn.template),
            recipe=recipe,
            rng=random.Random(seed),
        ).make()
        selected = select_candidates(
            turn.engine,
            Target(name="private", adapter=str(turn.trained)),
            turn.template,
            generation.candidates,
            keep=self.keep,
            method=self.selection,
            seed=seed,
        )
        filter_counts.write(count_selection(generation, selected, examples, recipe), turn.folder)
        return _with_turn_ids(selected, turn)

    def _recipe(self, turn: TrainedClient) -> Recipe:
        return Recipe(
            candidates=self.candidates,
            asked=self.asked,
            shown=self.shown,
            demonstrations=self.demonstrations,
            tries=self.tries,
            similarity=self.similarity,
            instruction_tokens=self.instruction_tokens,
            answer_tokens=self.answer_tokens,
            max_length=turn.max_length,
            distinct=self.distinct,
            temperature=self.temperature,
        )

    def _public(self, template: PromptTemplate) -> list[Document]:
        """Return the examples of the file `source`, in an order that follows from them alone."""
        from fedaudit.data.public_examples import read_public_examples

        usable = usable_documents(read_public_examples(self.source, template), 1)
        public = sorted(usable, key=lambda document: (document.text, document.id))
        if len(public) < self.keep:
            raise InputError(
                f"{self.source} holds {len(public)} examples, fewer than keep ({self.keep})."
            )
        return public

    def deploy(self, finished: FinishedFederation) -> Result:
        """Return what every filter dropped in each round, and where too little was left."""
        if self.source:
            return Result(
                limits=(f"{self.name}: examples are drawn from {Path(self.source).name}.",)
            )
        counts_by_client = {
            (number, client): counts
            for client, client_state in finished.parties.items()
            for number, folder in client_state.turns.items()
            if (counts := filter_counts.read(folder))
        }
        bare = [
            client
            for client, client_state in finished.parties.items()
            if not any(document.input for document in client_state.prepared)
        ]
        caveats = [
            f"{self.name}: no example of {', '.join(bare)} has an input, so none is shown with one."
        ]
        return Result(
            measurements=tuple(measurements.rows(self.name, counts_by_client)),
            limits=(
                *measurements.filter_caveats(self.name, counts_by_client, self.keep),
                *(caveats if bare else ()),
            ),
        )


def _with_turn_ids(examples: Sequence[Document], turn: TrainedClient) -> list[Document]:
    """Return the examples with ids of this turn."""
    return [replace(d, id=f"made-{turn.round}-{number}") for number, d in enumerate(examples)]
