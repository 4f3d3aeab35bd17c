"""What FewFedPIT and FedMIT have in common: where a client's further examples come from."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from fedaudit.api import (
    Document,
    Engine,
    FinishedFederation,
    InputError,
    Measurement,
    PromptTemplate,
    Result,
    Target,
    TrainedClient,
)

from . import filter_counts
from .demonstrations import usable_documents
from .filter_counts import FILTERS, FilterCounts
from .generation import (
    ExampleGenerator,
    GeneratedExamples,
    SimilarityIndex,
    fits_context,
    whole_text,
)
from .instruction_following import scores
from .prompt_layout import prompt_layout
from .selection_criteria import Losses, Method, select_examples
from .settings import GenerationSettings


@dataclass(frozen=True, kw_only=True)
class SelfGeneration(GenerationSettings):
    """Where a client's further examples come from, and how many of them are kept."""

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
        if self.source:
            public = self._public(turn.template)
            fit_flags = fits_context(turn.engine, public, turn.max_length)
            public = [example for example, fits in zip(public, fit_flags, strict=True) if fits]
            sample = random.Random(seed).sample(public, min(self.keep, len(public)))
            return _with_turn_ids(sample, turn)
        examples = usable_documents(turn.documents, max(self.shown, self.demonstrations))
        generation = ExampleGenerator(
            engine=turn.engine,
            target=Target(name="global", adapter=str(turn.start)),
            examples=examples,
            layout=prompt_layout(turn.template),
            recipe=self,
            max_length=turn.max_length,
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
        filter_counts.write(
            count_selection(generation, selected, examples, self.similarity), turn.folder
        )
        return _with_turn_ids(selected, turn)

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
            measurements=tuple(rows(self.name, counts_by_client)),
            limits=(
                *filter_caveats(self.name, counts_by_client, self.keep),
                *(caveats if bare else ()),
            ),
        )


def _with_turn_ids(examples: Sequence[Document], turn: TrainedClient) -> list[Document]:
    """Return the examples with ids of this turn."""
    return [replace(d, id=f"made-{turn.round}-{number}") for number, d in enumerate(examples)]


Turns = Mapping[tuple[int, str], FilterCounts]
"""The counts of each round's clients."""


def rows(plugin: str, turns: Turns) -> list[Measurement]:
    """Return what every filter dropped, in all rounds and in each, and what was kept in each.

    `dropped` is a share of the new examples of all clients that reached the filter; one that
    nothing reached has no row. `kept` is of the client that kept fewest.
    """
    measurements = list(_dropped_rows(plugin, {}, list(turns.values())))
    for number in sorted({number for number, _ in turns}):
        counts_by_client = {client: counts for (n, client), counts in turns.items() if n == number}
        measurements += _dropped_rows(plugin, {"round": number}, list(counts_by_client.values()))
        measurements.append(_fewest_kept(plugin, number, counts_by_client))
    return measurements


def _dropped_rows(
    plugin: str, shared_scope: Mapping[str, object], all_counts: Sequence[FilterCounts]
) -> Iterable[Measurement]:
    reached = [counts.reached() for counts in all_counts]
    for name in FILTERS:
        n, hits = (sum(by_filter[name][index] for by_filter in reached) for index in (0, 1))
        if not n:
            continue
        yield Measurement.rate(
            hits,
            n,
            kind="defense",
            plugin=plugin,
            metric="dropped",
            scope={**shared_scope, "filter": name},
        )


def _fewest_kept(
    plugin: str, number: int, counts_by_client: Mapping[str, FilterCounts]
) -> Measurement:
    client = min(counts_by_client, key=lambda name: (counts_by_client[name].kept_count, name))
    return Measurement(
        kind="defense",
        plugin=plugin,
        metric="kept",
        value=counts_by_client[client].kept_count,
        scope={
            "round": number,
            "client": client,
            "clients": len(counts_by_client),
            "mean": round(
                sum(counts.kept_count for counts in counts_by_client.values())
                / len(counts_by_client),
                3,
            ),
            "highest": round(max(counts.highest for counts in counts_by_client.values()), 4),
            "alike": sum(counts.alike for counts in counts_by_client.values()),
        },
    )


def filter_caveats(plugin: str, turns: Turns, keep: int) -> list[str]:
    """Return in which turns fewer than `keep` examples were left, and what dropped most there."""
    short = [turn for turn in sorted(turns) if turns[turn].kept_count < keep]
    if not short:
        return []
    dropped = {
        name: sum(turns[turn].dropped.get(name, 0) for turn in short)
        for name in FILTERS
        if name != "selection"
    }
    most = max(dropped, key=lambda name: dropped[name])
    attempts = sum(turns[turn].asked for turn in short)
    numbers = sorted({number for number, _ in short})
    return [
        f"{plugin}: in {len(short):,} of {len(turns):,} turns (rounds {_list_numbers(numbers)}) "
        f"a client kept fewer than {keep} examples of its own making; of {attempts:,} new "
        f"instructions asked for there, {dropped[most]:,} were lost because {FILTERS[most]}."
    ]


def _list_numbers(numbers: Sequence[int]) -> str:
    """Return numbers separated by commas, runs of three or more as first and last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spelt = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(spelt)


def select_candidates(
    engine: Engine,
    target: Target,
    template: PromptTemplate,
    candidates: Sequence[Document],
    *,
    keep: int,
    method: Method,
    seed: int,
) -> list[Document]:
    """Return the `keep` candidates that `method` prefers under `target`, in the order they came in.

    Training uses that order and not the score's, so that it depends only on which candidates are
    kept. A candidate that the model's context does not hold is never kept.
    """
    losses: Sequence[Losses | None] = [Losses(0.0, 0.0)] * len(candidates)
    if method != "random":  # which looks at no score
        pairs = [(template.prompt(d.instruction, d.input), d.output) for d in candidates]
        losses = scores(engine, target, pairs)
    keys = [whole_text(candidate) for candidate in candidates]
    return [
        candidates[i] for i in sorted(select_examples(losses, keep, method, keys=keys, seed=seed))
    ]


def count_selection(
    generation: GeneratedExamples,
    selected: Sequence[Document],
    examples: Sequence[Document],
    similarity: float,
) -> FilterCounts:
    """Return the counts of a round that keeps `selected` of what was made from `examples`."""
    text_index, answers = (
        SimilarityIndex(map(whole_text, examples)),
        SimilarityIndex(d.output for d in examples),
    )
    counts = generation.counts
    counts.drop("selection", len(generation.candidates) - len(selected))
    counts.highest = max((text_index(whole_text(example)) for example in selected), default=0.0)
    counts.alike = sum(answers(example.output) > similarity for example in selected)
    return counts
