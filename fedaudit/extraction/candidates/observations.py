"""The strings that completions contain where the attacker's own PII would follow, with counts."""

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
"""If there are more candidates, the most often drawn half of this number is kept."""
PROMPTS = 8
"""The number of prompts per kind of PII after which candidates are scored."""
MAX_OWN_PROMPTS = 20_000
"""The maximum number of (own string, prompt) pairs that are kept: the first ones."""
_STOPS = frozenset(".,;:!?()[]\n，。；：！？（）、")

Key = tuple[str, str]
"""A string and its label."""


@dataclass(slots=True)
class StringObservation:
    """How often a string was drawn, from how many prompts, and after which white space or lead."""

    outputs: int = 0
    prompts: int = 0
    leads: Counter[str] = field(default_factory=Counter)

    @property
    def lead(self) -> str:
        """Return the lead that preceded it most often."""
        return min(self.leads, key=lambda lead: (-self.leads[lead], lead))


@dataclass(slots=True)
class Observations:
    """All strings that were drawn."""

    new_strings: dict[Key, StringObservation] = field(default_factory=dict)
    """Strings that occur in none of the attacker's texts."""
    own_strings: dict[Key, StringObservation] = field(default_factory=dict)
    """The attacker's own strings."""
    own_prompts: dict[Key, Counter[Prompt]] = field(default_factory=lambda: defaultdict(Counter))
    """How often each prompt drew one of the attacker's own strings."""
    prompts: dict[str, list[Prompt]] = field(default_factory=lambda: defaultdict(list))
    """PROMPTS prompts per kind, chosen by hash, so that neither order nor counts matter."""


def observe(context: AttackContext, answers: Iterable[Answer]) -> Observations:
    """Return the strings at the start of the answers, cut where PII would end.

    That is at the character that follows the attacker's own PII in that place, or else at the first
    punctuation. The label is that of the attacker's PII in that place.
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
    """Return a sort key that puts the most often drawn candidates first, then orders by text."""
    return -item[1].outputs, -item[1].prompts, item[0]


def cut_at_end(text: str, after: str) -> str:
    """Return the part of an answer that would be PII; empty if it does not end in the answer.

    ASCII punctuation ends it only before white space or at the end of the answer, so that dots in
    addresses and dates do not; brackets and line breaks always end it.
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
    """Return the number of texts by (string, white space and lead before it)."""
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
    """Add a prompt, and keep the PROMPTS distinct prompts with the smallest hashes."""
    if prompt not in prompts:
        prompts.append(prompt)
        prompts.sort(key=_digest)
        del prompts[PROMPTS:]


def _digest(prompt: Prompt) -> bytes:
    return blake2b(repr(prompt).encode(), digest_size=8).digest()
