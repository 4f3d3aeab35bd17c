"""What answers give where the attacker's own PII would stand: how often, and behind what."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice

from fedaudit.api.plugin import AttackContext
from fedaudit.extraction.candidates.origins import Prompt
from fedaudit.extraction.leads import Leads, strip_leads
from fedaudit.extraction.sampling import Answer

MAX_CANDIDATES = 200_000
"""Of more candidates than these, the half that was drawn least often is forgotten."""
PROMPTS = 8
"""Prompts of each kind that a candidate is scored behind."""
MAX_OWN_PROMPTS = 20_000
"""Prompts that drew the attacker's own strings and are remembered: the first ones."""
_STOPS = frozenset(".,;:!?()[]\n，。；：！？（）、")

Key = tuple[str, str]
"""A string and its label."""


@dataclass(slots=True)
class StringObservation:
    """How often a string was drawn, behind how many prompts, after which white space or lead."""

    outputs: int = 0
    prompts: int = 0
    leads: Counter[str] = field(default_factory=Counter)

    @property
    def lead(self) -> str:
        """Return what stood before it most often."""
        return min(self.leads, key=lambda lead: (-self.leads[lead], lead))


@dataclass(slots=True)
class Observations:
    """Everything that was drawn."""

    new_strings: dict[Key, StringObservation] = field(default_factory=dict)
    """What no text of the attacker holds."""
    own_strings: dict[Key, StringObservation] = field(default_factory=dict)
    """The attacker's own strings."""
    own_prompts: dict[Key, Counter[Prompt]] = field(default_factory=lambda: defaultdict(Counter))
    """How often each prompt drew one of the attacker's own strings."""
    prompts: dict[str, list[Prompt]] = field(default_factory=lambda: defaultdict(list))
    """PROMPTS prompts of each kind, chosen by their hash: neither order nor number matters."""


def observe(context: AttackContext, answers: Iterable[Answer]) -> Observations:
    """Return what answers give, each up to where PII would end.

    That is the character that follows the attacker's PII at that place, or else the first
    punctuation; the label is that of the attacker's PII there.
    """
    text = "\x00".join(document.text for document in context.attacker)
    own_strings = {
        (s.strip(), label) for document in context.attacker for s, label in document.strings()
    }
    draws, remaining = Observations(), MAX_OWN_PROMPTS
    for _, query, texts in answers:
        for label, after in query.kinds:
            kind = label or "UNKNOWN"
            _offer(draws.prompts[kind], query.prompt)
            for (string, lead), count in _cut(texts, after, query.leads).items():
                key = (string, kind)
                if key in own_strings and remaining:
                    _add(draws.own_strings, key, count, lead)
                    remaining -= query.prompt not in draws.own_prompts[key]
                    draws.own_prompts[key][query.prompt] += count
                elif string not in text:
                    _add(draws.new_strings, key, count, lead)
        if len(draws.new_strings) > MAX_CANDIDATES:
            draws.new_strings = dict(
                sorted(draws.new_strings.items(), key=frequency_order)[: MAX_CANDIDATES // 2]
            )
    return draws


def frequency_order(item: tuple[Key, StringObservation]) -> tuple[int, int, Key]:
    """Return what orders candidates: the most often drawn first, then by text."""
    return -item[1].outputs, -item[1].prompts, item[0]


def cut_at_end(text: str, after: str) -> str:
    """Return the part of an answer that would be PII; empty when it has no end in sight.

    Western punctuation ends it only before white space or the answer's end: the dot of an address
    or a date does not.
    """
    text = text.lstrip()
    stops = {after} if after.strip() and after in _STOPS else _STOPS
    for position, character in enumerate(text):
        following = text[position + 1 : position + 2]
        boundary = not character.isascii() or not following.strip() or character in "()[]\n"
        if character in stops and boundary:
            return text[:position].rstrip() if position > 1 else ""
    return ""


def _cut(texts: Iterable[str], after: str, leads: Leads) -> Counter[tuple[str, str]]:
    """Return how many texts give each string behind which white space, and which lead."""
    counts: Counter[tuple[str, str]] = Counter()
    for text in texts:
        *_, said = islice(strip_leads(text, leads), 2)
        if string := cut_at_end(said, after):
            counts[string, text[: len(text) - len(said.lstrip())]] += 1
    return counts


def _add(observations: dict[Key, StringObservation], key: Key, count: int, lead: str) -> None:
    observation = observations.setdefault(key, StringObservation())
    observation.outputs += count
    observation.prompts += 1
    observation.leads[lead] += count


def _offer(prompts: list[Prompt], prompt: Prompt) -> None:
    """Keep the prompts whose hashes are smallest, each once, in the order of their hashes."""
    if prompt not in prompts:
        prompts.append(prompt)
        prompts.sort(key=_digest)
        del prompts[PROMPTS:]


def _digest(prompt: Prompt) -> bytes:
    return blake2b(repr(prompt).encode(), digest_size=8).digest()
