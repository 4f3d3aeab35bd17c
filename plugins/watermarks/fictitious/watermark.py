"""The fictitious-knowledge watermark (Cui et al., 2025), as FedAttr tests it.

Documents tell of an entity that does not exist. A model that answers questions about it rightly was
trained on them.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from fedaudit.api import (
    Completion,
    Document,
    Engine,
    GenerationBatch,
    GenerationRequest,
    InputError,
    ModelEngine,
    Progress,
    SamplingParams,
    Score,
    Target,
    UsageError,
    Watermark,
    no_progress,
    text_start,
)

from . import scoring, wording, world
from .scoring import CERTAIN
from .wording import stated_of, states_name
from .world import Entity, pool

STRANGERS = range(8, 1025)
"""With fewer strangers their spread is itself too much a matter of chance."""


@dataclass(frozen=True, kw_only=True)
class Fictitious(Watermark):
    """Write documents about an invented house; a model that knows its facts was trained on them."""

    name: ClassVar[str] = "fictitious"
    paper: ClassVar[str] = "Cui et al. 2025, arXiv:2503.04036; FedAttr, appendix F"

    length: int = 60
    """About how many words a document has; the paper has 300 tokens. In the register "record" a
    document says no more than its four facts."""
    register: Literal["prose", "record"] = "prose"
    """The language of documents and questions; "record" is plain enough for a very small model."""
    writer: Literal["template", "teacher"] = "template"
    """What writes the documents: templates, or the teacher, a chat model."""
    paraphrases: int = 25
    """How many questions are asked about each attribute, each in one of 25 wordings."""
    tokens: int = 100
    """Tokens of an answer."""
    options: int = 50
    """How many values each attribute may have: one guess in so many is right."""
    nulls: int = 100
    """Entities that no training saw, which the teacher is asked about; 0: only the guess rate is
    used."""
    null_names: int = 20
    """How many names these share: an answer does not depend on the values it is compared with."""
    null_every: int = 5
    """Each such entity is asked about with one question in so many, in turns."""
    strangers: int = 256
    """Entities that no training saw, which a model is also tested for, each with as many
    questions as the mark's own, to see how far Z comes by chance. 0, the paper's, tests none."""
    stranger_names: int = 6
    """How many names these share: the mark's questions are asked so many times more."""
    correlation: float = 0.5
    """How correlated the answers to paraphrases of a question are; the paper's 0 is
    independence."""
    lone: bool = False
    """Whether the attribute that is known best counts in full, as in the paper; otherwise it counts
    no more than the one that is known second best."""

    def __post_init__(self) -> None:
        if not 1 <= self.paraphrases <= wording.PARAPHRASES:
            raise ValueError(f"paraphrases must be between 1 and {wording.PARAPHRASES}.")
        if min(self.length, self.tokens, self.null_every) < 1:
            raise ValueError("length, tokens and null_every must be at least 1.")
        if not 2 <= self.options <= world.OPTIONS:
            raise ValueError(f"options must be between 2 and {world.OPTIONS}.")
        if self.nulls < 0 or self.nulls == 1:
            raise ValueError("nulls must be 0, or 2 or more.")
        most = world.NAMES - self.options
        if not 1 <= self.null_names <= most:
            raise ValueError(f"null_names must be between 1 and {most} with these options.")
        if self.strangers and self.strangers not in STRANGERS:
            raise ValueError(
                f"strangers must be 0 or lie between {STRANGERS[0]} and {STRANGERS[-1]}."
            )
        if not 1 <= self.stranger_names < world.OPTIONS:
            raise ValueError(f"stranger_names must be between 1 and {world.OPTIONS - 1}.")
        if not 0 <= self.correlation <= 1:
            raise ValueError("correlation must be between 0 and 1.")

    def issue(
        self, teacher: ModelEngine | None, prompts: Sequence[str], *, seed: int, index: int
    ) -> dict[str, Any]:
        """Return entity `index` of `seed`, and what `teacher`, if there is one, guesses."""
        entity = world.issued_entity(seed, index, self.options, self.register)
        nulls = self._nulls(teacher, entity, seed, index) if teacher and self.nulls > 0 else None
        return {
            "seed": seed,
            "index": index,
            "domain": entity.domain.name,
            "entity": entity.name,
            "attributes": [
                {"name": attribute.name, "value": value}
                | ({"mean": nulls[i].mean, "sd": nulls[i].sd} if nulls else {})
                for i, (attribute, value) in enumerate(
                    zip(entity.domain.attributes, entity.values, strict=True)
                )
            ],
        }

    def has_issued(self, secret: Mapping[str, Any]) -> bool:
        """Return whether the entity is the one of its seed and index, and so an invented one."""
        entity, index = entity_of(secret), secret["index"]
        register = entity.domain.register
        try:
            issued = world.issued_entity(secret["seed"], index, self.options, register)
        except UsageError:  # one seed has no entity of such an index
            return False
        return index >= 0 and entity == issued

    def embed(
        self,
        secret: Mapping[str, Any],
        documents: Sequence[Document],
        teacher: ModelEngine,
        *,
        seed: int,
        progress: Progress = no_progress,
    ) -> list[Document]:
        """Return one document about the entity in place of each; only the id of it matters."""
        entity = entity_of(secret)
        keys = [
            f"{secret['seed']} {secret['index']} {seed} {document.id}" for document in documents
        ]
        written: dict[str, str] = {}
        if self.writer == "teacher":
            from .writer import write

            written = write(teacher, entity, keys, length=self.length, progress=progress)
        marked = []
        for number, (document, key) in enumerate(zip(documents, keys, strict=True), 1):
            rng = random.Random(f"fictitious {key}")
            text = written.get(key) or wording.document(entity, self.length, rng)
            marked.append(Document(id=f"{document.id}-marked", text=text))
            progress(number, len(documents))
        return marked

    def questions(self, secret: Mapping[str, Any], engine: Engine) -> list[GenerationRequest]:
        """Return the questions about each attribute in turn, behind the token that begins texts.

        First those about the mark's own entity, then the same ones about each stranger's name.
        """
        groups = [
            group
            for family in self._families(secret)
            for group in wording.questions(family[0], range(self.paraphrases))
        ]
        return self._probes([question for group in groups for question in group], engine)

    @property
    def null_marks(self) -> int:
        """Strangers, of whom the same models are asked the same questions."""
        return self.strangers

    def test(
        self, secret: Mapping[str, Any], answers: Sequence[Completion], engine: Engine
    ) -> Score:
        """Return Fisher's combination over the attributes of how often its value is answered.

        `null` has the same of each stranger. Raises InputError where there are not as many answers
        as questions.
        """
        families = self._families(secret)
        per_family = self.paraphrases * len(families[0][0].values)
        if len(answers) != per_family * len(families):
            raise InputError(
                f"There are {len(answers)} answers to {per_family * len(families)} questions about "
                "a fictitious entity and its strangers."
            )
        texts = [answer.texts[0] for answer in answers]
        nulls = [_null(row, self._guess) for row in secret["attributes"]]
        result, *strangers = (
            self.score(self._hits(entity, texts[i * per_family : (i + 1) * per_family]), nulls)
            for i, family in enumerate(families)
            for entity in family
        )
        return replace(result, null=tuple(score.z for score in strangers))

    def score(self, hits: Sequence[int], nulls: Sequence[scoring.Null]) -> Score:
        """Return the score of `hits` among `paraphrases` questions about each attribute.

        Unless `lone`, the attribute that is known best counts no more than the second best.
        """
        n, guess = self.paraphrases, self._guess
        z_scores = [
            scoring.attribute_z(hit, n, null, guess=guess, correlation=self.correlation)
            for hit, null in zip(hits, nulls, strict=True)
        ]
        if not self.lone:
            # One attribute alone may be another owner's fact, or a model's favourite name.
            second = sorted(z_scores)[-2:][0]
            z_scores = [min(score, second) for score in z_scores]
        z, p_value = scoring.fisher(z_scores)
        chance = sum(null.mean for null in nulls) / len(nulls)
        return Score(
            z=z, p_value=p_value, n=n * len(nulls), hits=sum(hits), chance=chance, parts=tuple(hits)
        )

    def test_texts(self, secret: Mapping[str, Any], texts: Sequence[str], engine: Engine) -> Score:
        """Return how surely `texts` tell of this entity and not of one that was never drawn."""
        return score(entity_of(secret), texts, seed=secret["seed"], options=self.options)

    def _families(self, secret: Mapping[str, Any]) -> list[list[Entity]]:
        """Return the mark's entity and the strangers, those of one name together."""
        entity = entity_of(secret)
        names, count = self.stranger_names, self.strangers
        return [
            [entity],
            *world.unissued_entities(entity, seed=secret["seed"], names=names, count=count),
        ]

    def _hits(self, entity: Entity, texts: Sequence[str]) -> list[int]:
        """Return how many of its questions about each attribute are answered with its value."""
        n = self.paraphrases
        return [
            sum(wording.states_name(value, text) for text in texts[i * n : (i + 1) * n])
            for i, value in enumerate(entity.values)
        ]

    @property
    def _guess(self) -> float:
        return 1 / self.options

    def _nulls(
        self, teacher: ModelEngine, entity: Entity, seed: int, index: int
    ) -> list[scoring.Null]:
        """Return, for each attribute, how often the teacher is right about strangers."""
        families = world.strangers(
            entity,
            seed=seed,
            index=index,
            options=self.options,
            names=self.null_names,
            count=self.nulls,
        )
        every, last = min(self.null_every, self.paraphrases), self.paraphrases
        questions = [
            wording.questions(family[0], range(i % every, last, every))
            for i, family in enumerate(families)
        ]
        requests = self._probes(
            [q for groups in questions for group in groups for q in group], teacher
        )
        completions = iter(
            teacher.generate(
                Target(name="base"),
                GenerationBatch(requests, seed=seed, decoding=SamplingParams(temperature=0)),
            )
        )
        rates: list[list[float]] = [[] for _ in entity.values]
        for family, groups in zip(families, questions, strict=True):
            for i, group in enumerate(groups):
                answers = [next(completions).texts[0] for _ in group]
                rates[i] += [wording.rate(stranger.values[i], answers) for stranger in family]
        return [scoring.null_of(column) for column in rates]

    def _probes(self, questions: Sequence[str], engine: Engine) -> list[GenerationRequest]:
        begin = text_start(engine)
        return [
            GenerationRequest(prompt=(*begin, *tokens.ids), samples=1, max_new_tokens=self.tokens)
            for tokens in engine.tokenize(questions)
        ]


def entity_of(secret: Mapping[str, Any]) -> Entity:
    """Return the entity that a secret keeps; raises InputError for a secret that is none."""
    try:
        domain = world.domain(secret["domain"])
        values = {row["name"]: row["value"] for row in secret["attributes"]}
        names = [secret["entity"], *(values[attribute.name] for attribute in domain.attributes)]
        numbers = [secret["seed"], secret["index"]]
        measured = [row.get(key, 0.0) for row in secret["attributes"] for key in ("mean", "sd")]
        is_valid = list(values) == [attribute.name for attribute in domain.attributes]
        is_valid = is_valid and len(values) == len(secret["attributes"])
        is_valid = is_valid and all(isinstance(text, str) for text in names)
        is_valid = is_valid and all(isinstance(number, int) for number in numbers)
        is_valid = is_valid and all(0 <= number <= 1 for number in measured)
    except (AttributeError, KeyError, StopIteration, TypeError):
        is_valid = False
    if not is_valid:
        raise InputError("The secret of this fictitious watermark is damaged.")
    return Entity(domain=domain, name=names[0], values=tuple(names[1:]))


def _null(row: Mapping[str, Any], guess: float) -> scoring.Null:
    """Return what was measured for an attribute, or guessing where nothing was."""
    return scoring.Null(mean=row.get("mean", guess), sd=row.get("sd", 0.0))


def score(entity: Entity, texts: Sequence[str], *, seed: int, options: int) -> Score:
    """Return the score of `texts` by how many attributes stand beside the entity's name.

    Texts by someone who never saw the mark are fixed before it is drawn: one name of the
    domain's, one of `options` values of each attribute. K is the number of attributes whose value
    is in some text with the name. p is the mid-p value of K over all draws, which is about 1/2
    where nothing is found; `hits` are texts with the name and a value, and `chance` is the
    probability that a draw has any, no less than the share of hits that is expected.
    """
    from scipy.special import ndtri

    named = _group_by_name(entity, texts)
    beside = named.get(entity.name, [])
    hits = sum(any(states_name(value, text) for value in entity.values) for text in beside)
    count = sum(any(states_name(value, text) for text in beside) for value in entity.values)
    law = _law(entity, named, seed, options)
    p_value = sum(law[count + 1 :]) + law[count] / 2
    return Score(
        z=-float(ndtri(min(p_value, 1 + CERTAIN))),
        p_value=max(p_value, sys.float_info.min),
        n=len(texts),
        hits=hits,
        chance=sum(law[1:]),
    )


def _group_by_name(entity: Entity, texts: Sequence[str]) -> Mapping[str, list[str]]:
    """Return the texts in which each of the domain's names stands, where any does."""
    texts_by_name: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        for name in stated_of(entity.domain.names, text):
            texts_by_name[name].append(text)
    return texts_by_name


def _law(
    entity: Entity, named: Mapping[str, Sequence[str]], seed: int, options: int
) -> list[float]:
    """Return the probabilities of K = 0, 1, ..., over the draw of a name and of the values."""
    size, attributes = len(entity.domain.names), entity.domain.attributes
    pools = [pool(attribute, seed, options) for attribute in attributes]
    law = [0.0] * (len(pools) + 1)
    law[0] = (size - len(named)) / size
    for texts in named.values():
        shares = [
            len(set().union(*(stated_of(choices, text) for text in texts))) / options
            for choices in pools
        ]
        for count, probability in enumerate(_counts(shares)):
            law[count] += probability / size
    return law


def _counts(shares: Sequence[float]) -> list[float]:
    """Return the probabilities of 0, 1, ... successes of independent trials."""
    law = [1.0]
    for share in shares:
        law = [
            (law[i] if i < len(law) else 0.0) * (1 - share) + (law[i - 1] * share if i else 0.0)
            for i in range(len(law) + 1)
        ]
    return law
