"""FewFedWeight's pseudo-labels: the global model answers a client's prompts, weighed by energy.

The clients' half of Dong et al. 2022 (arXiv:2212.08354), with which FewFedPIT compares itself; the
server's half, which weighs clients by their performance, is not here. A client

1. trains the global adapter on its own data, which gives the model that judges
2. lets the global model answer the prompts of its own data, greedily: pseudo-labels
3. weighs each by exp(-E / temperature), E the mean loss of its tokens under the model of step 1
4. trains the global adapter on its own data and on as many pseudo-labelled examples, drawn in
   proportion to their weights: in the mean this is the weighted loss
5. sends the result

docs/few-fed-pit-baselines.md has what the papers leave open. It is not protection: what is sent was
trained on the client's own data.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import ClassVar

from fedaudit.api import (
    Defense,
    Document,
    FinishedFederation,
    GenerationBatch,
    GenerationRequest,
    Result,
    SamplingParams,
    Target,
    TrainedClient,
    Update,
    text_start,
)
from fedaudit.metrics.text_similarity import words

from .self_generation.demonstrations import usable_documents

WEIGHTED = "weighted"


@dataclass(frozen=True, kw_only=True)
class FewFedWeight(Defense):
    """Train on private data and the global model's answers to its prompts, weighted by energy."""

    name: ClassVar[str] = "few_fed_weight"
    paper: ClassVar[str] = (
        "FewFedWeight's pseudo-labels without its weights of clients, arXiv:2212.08354"
    )
    auxiliary_adapters = (WEIGHTED,)
    """The adapter that is sent; the one that was trained on private data alone only weighs."""

    temperature: float = 1.0
    """Weights are exp(-energy / temperature): the higher it is, the more alike they are."""
    answer_tokens: int = 256
    """The most tokens of a pseudo-label."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError("temperature must be above 0.")
        if self.answer_tokens < 1:
            raise ValueError("answer_tokens must be at least 1.")

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents as they are; InputError where none has a prompt to answer."""
        usable_documents(documents, 1)
        return list(documents)

    def auxiliary_data(self, turn: TrainedClient) -> Mapping[str, Sequence[Document]]:
        """Return the client's documents, and pseudo-labelled ones drawn by their weights."""
        from .self_generation.instruction_following import scores

        examples = pseudo_label_documents(turn, self.answer_tokens)
        pairs = [(turn.template.prompt(d.instruction, d.input), d.output) for d in examples]
        losses = scores(turn.engine, Target(name="own", adapter=str(turn.trained)), pairs)
        scored_examples = [
            (d, loss.conditional) for d, loss in zip(examples, losses, strict=True) if loss
        ]
        samples = self._resample(scored_examples, turn)
        return {WEIGHTED: [*turn.documents, *samples]}

    def _resample(
        self, scored_examples: Sequence[tuple[Document, float]], turn: TrainedClient
    ) -> list[Document]:
        """Return as many examples as were scored, drawn by their energies, some more than once."""
        if not scored_examples:
            return []
        rng = random.Random(sha256(f"few_fed_weight {turn.seed}".encode()).digest())
        examples, energies = zip(*scored_examples, strict=True)
        samples = rng.choices(examples, weights(energies, self.temperature), k=len(examples))
        return [replace(d, id=f"{d.id}-{turn.round}-{n}") for n, d in enumerate(samples)]

    def upload(self, start: Update, trained: Update, private: Mapping[str, Update]) -> Update:
        """Return the adapter that was trained on both."""
        return private[WEIGHTED]

    def deploy(self, finished: FinishedFederation) -> Result:
        """Say that nothing is protected."""
        caveat = (
            f"{self.name}: this is a way to learn from few examples and protects nothing: what "
            "clients send was trained on their own data."
        )
        return Result(limits=(caveat,))


def pseudo_label_documents(turn: TrainedClient, new_tokens: int) -> list[Document]:
    """Return the client's pairs with the global model's greedy answers in place of their own.

    A prompt that the model's context does not hold with its answer is left out, and so is one that
    gets no words.
    """
    documents = usable_documents(turn.documents, 1)
    prompts = [turn.template.prompt(d.instruction, d.input) for d in documents]
    begin = text_start(turn.engine)
    ids = [(*begin, *tokens.ids) for tokens in turn.engine.tokenize(prompts)]
    room = turn.engine.context_length - new_tokens
    fit = list(dict.fromkeys(prompt for prompt in ids if len(prompt) <= room))
    generations = turn.engine.generate(
        Target(name="global", adapter=str(turn.start)),
        GenerationBatch(
            [
                GenerationRequest(prompt=prompt, samples=1, max_new_tokens=new_tokens)
                for prompt in fit
            ],
            seed=0,
            decoding=SamplingParams(temperature=0),
        ),
    )
    texts = {prompt: g.texts[0].strip() for prompt, g in zip(fit, generations, strict=True)}
    answered = [(d, texts.get(prompt, "")) for d, prompt in zip(documents, ids, strict=True)]
    return [
        turn.template.render(replace(document, text="", pii=None, output=text))
        for document, text in answered
        if words(text)
    ]


def weights(energies: Sequence[float], temperature: float) -> list[float]:
    """Return exp(-energy / temperature) of each energy, as shares of their sum."""
    # Less the lowest: the shares stay the same, and none is lost to rounding.
    least = min(energies)
    exponentials = [math.exp((least - energy) / temperature) for energy in energies]
    total = math.fsum(exponentials)
    return [x / total for x in exponentials]
