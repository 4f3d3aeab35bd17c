"""Self-generation: new instructions, then inputs and responses for them (FewFedPIT, 3.3).

Everything is asked in batches, greedily unless set otherwise; what prompts show is drawn by a seed.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fedaudit.api import (
    Document,
    Engine,
    GenerationBatch,
    GenerationRequest,
    SamplingParams,
    Target,
    text_start,
)
from fedaudit.metrics.text_similarity import words

from .demonstrations import alternate_kinds, example_kinds, example_prompt, instruction_prompt
from .filter_counts import FilterCounts
from .prompt_layout import PromptLayout
from .settings import GenerationSettings


class SimilarityIndex:
    """Texts to compare others with; each is cut into words once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [words(text) for text in dict.fromkeys(texts)]

    def __call__(self, text: str) -> float:
        """Return the highest Rouge-L of `text` with any of the texts, 0 to 1; 0 of none.

        It is the F1 of the longest common subsequence of words, as `metrics.utility.rouge_l`.
        """
        from rapidfuzz.distance import LCSseq

        query = words(text)
        overlaps = ((LCSseq.similarity(query, t), len(query) + len(t)) for t in self._texts)
        return max((2 * common / total for common, total in overlaps if common), default=0.0)


def whole_text(example: Document) -> str:
    """Return an example's fields as one text, without anything that a template adds."""
    return "\n".join((example.instruction, example.input, example.output))


REFUSALS = ("as a ", "as an ", "sorry", "i'm sorry", "i am sorry", "i cannot", "i can't")
"""How a text begins that is not an instruction and no response but an excuse; lower case."""
FEWEST_WORDS = 3
"""An instruction of fewer words is too short, as in the paper."""


@dataclass(frozen=True, slots=True)
class GeneratedExamples:
    """What passed every filter but the selection, in the order it was made."""

    candidates: tuple[Document, ...]
    counts: FilterCounts


@dataclass(slots=True)
class ExampleGenerator:
    """Makes up examples with one model from one client's examples."""

    engine: Engine
    target: Target
    examples: Sequence[Document]
    layout: PromptLayout
    recipe: GenerationSettings
    max_length: int
    """Tokens that an example may have, what begins and ends a text included."""
    rng: random.Random
    counts: FilterCounts = field(default_factory=FilterCounts)
    new: list[Document] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    """The new instructions, where they must differ from one another."""

    def make(self) -> GeneratedExamples:
        """Ask for new instructions, inputs and responses until there are enough candidates."""
        while len(self.new) < self.recipe.candidates and self.counts.asked < self.recipe.asked:
            remaining = self.recipe.asked - self.counts.asked
            requests = list(self._instructions(min(self.recipe.candidates, remaining)))
            self._keep(self._complete_examples(requests))
        surplus = max(0, len(self.new) - self.recipe.candidates)
        self.counts.drop("surplus", surplus)
        return GeneratedExamples(tuple(self.new[: self.recipe.candidates]), self.counts)

    def _instructions(self, count: int) -> Iterator["RequestedExample"]:
        """Ask for `count` new instructions and yield those that are good."""
        local_index = SimilarityIndex(d.instruction for d in self.examples)
        kinds, prompts = example_kinds(self.examples), []
        for number in range(count):
            kind = kinds[number % len(kinds)]
            demonstrations = self.rng.sample(list(self.examples), self.recipe.shown)
            prompts.append((instruction_prompt(self.layout, demonstrations, with_input=kind), kind))
        self.counts.asked += count
        answers = self._continue_prompts(
            [prompt for prompt, _ in prompts], self.recipe.instruction_tokens
        )
        for (_, kind), text in zip(prompts, answers, strict=True):
            instruction, reason = self._judge_instruction(text, local_index)
            if reason:
                self.counts.drop(reason)
            else:
                self.instructions.append(instruction)
                yield RequestedExample(instruction, kind)

    def _judge_instruction(self, text: str | None, local_index: SimilarityIndex) -> tuple[str, str]:
        """Return the instruction in an answer, and which filter drops it, if any."""
        if text is None:
            return "", "too long"
        instruction, is_finished = self.layout.instruction(text)
        earlier_instructions = self.instructions if self.recipe.distinct else ()
        most, limit = self.recipe.similarity, self.recipe.instruction_tokens
        filters: dict[str, Callable[[], bool]] = {
            "unfinished": lambda: not is_finished and self._runs_on(text, limit),
            "refusal": lambda: _refuses(instruction),
            "short": lambda: len(words(instruction)) < FEWEST_WORDS,
            "local instruction": lambda: local_index(instruction) > most,
            "repeated instruction": lambda: (
                SimilarityIndex(earlier_instructions)(instruction) > most
            ),
        }
        return instruction, next((name for name, drops in filters.items() if drops()), "")

    def _complete_examples(self, requests: Sequence["RequestedExample"]) -> list[Document]:
        """Return an example for each instruction for which a try succeeded, in order."""
        examples: dict[int, Document] = {}
        for _ in range(self.recipe.tries):
            pending = [index for index in range(len(requests)) if index not in examples]
            prompts = [self._example_prompt(requests[index]) for index in pending]
            self.counts.tried += len(pending)
            answers = self._continue_prompts(prompts, self.recipe.answer_tokens)
            for index, text in zip(pending, answers, strict=True):
                input_text, output, reason = self._read(text)
                if reason:
                    self.counts.fail(reason)
                else:
                    examples[index] = self._example(requests[index].instruction, input_text, output)
        self.counts.drop("format", len(requests) - len(examples))
        return [examples[index] for index in sorted(examples)]

    def _example_prompt(self, request: "RequestedExample") -> str:
        demonstrations = alternate_kinds(self.rng, self.examples, self.recipe.demonstrations)
        return example_prompt(
            self.layout, demonstrations, request.instruction, with_input=request.with_input
        )

    def _read(self, text: str | None) -> tuple[str, str, str]:
        """Return the input and the output in an answer, and why the try failed, if it did."""
        if text is None:
            return "", "", "too long"
        fields = self.layout.fields(text)
        if fields is None:
            return "", "", "no marker"
        input_text, output = fields
        if not words(output):
            return input_text, output, "empty"
        if text.rstrip().endswith(output) and self._runs_on(text, self.recipe.answer_tokens):
            return input_text, output, "unfinished"
        return input_text, output, "refusal" if _refuses(output) else ""

    def _example(self, instruction: str, input_text: str, output: str) -> Document:
        document = Document(
            id="", text="", instruction=instruction, input=input_text, output=output
        )
        return self.layout.template.render(document)

    def _keep(self, examples: Sequence[Document]) -> None:
        """Keep what is unlike every local example and not too long, and each example once."""
        local_index = SimilarityIndex(map(whole_text, self.examples))
        new_texts = set(map(whole_text, self.new))
        for example, fits in zip(
            examples, fits_context(self.engine, examples, self.max_length), strict=True
        ):
            if not fits:
                self.counts.drop("overlong")
            elif local_index(whole_text(example)) > self.recipe.similarity:
                self.counts.drop("local example")
            elif whole_text(example) in new_texts:
                self.counts.drop("repeated example")
            else:
                new_texts.add(whole_text(example))
                self.new.append(example)

    def _continue_prompts(self, prompts: Sequence[str], new: int) -> list[str | None]:
        """Return the continuation of every prompt; None for one that is too long.

        Equal prompts are asked once.
        """
        begin = text_start(self.engine)
        ids = [(*begin, *tokens.ids) for tokens in self.engine.tokenize(prompts)]
        fit = [
            prompt
            for prompt in dict.fromkeys(ids)
            if len(prompt) + new <= self.engine.context_length
        ]
        generations = self.engine.generate(
            self.target,
            GenerationBatch(
                [GenerationRequest(prompt=prompt, samples=1, max_new_tokens=new) for prompt in fit],
                seed=self.rng.getrandbits(32),
                decoding=SamplingParams(temperature=self.recipe.temperature),
            ),
        )
        texts = {prompt: g.texts[0] for prompt, g in zip(fit, generations, strict=True)}
        return [texts.get(prompt) for prompt in ids]

    def _runs_on(self, text: str, new: int) -> bool:
        """Tell whether a continuation stopped only because it may not be longer."""
        [tokens] = self.engine.tokenize([text])
        return len(tokens.ids) >= new


@dataclass(frozen=True, slots=True)
class RequestedExample:
    """A new instruction that an input, where it is to have one, and a response are made up for."""

    instruction: str
    with_input: bool


def fits_context(engine: Engine, examples: Sequence[Document], most: int) -> list[bool]:
    """Tell of each example whether training, which reads so many tokens, reads all of it."""
    overhead = len(text_start(engine)) + 1
    encodings = engine.tokenize([example.text for example in examples])
    return [len(tokens.ids) + overhead <= most for tokens in encodings]


def _refuses(text: str) -> bool:
    return text.lower().startswith(REFUSALS)
