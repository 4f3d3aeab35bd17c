"""The strings and records that only the victim has, to look for, and strings that no member has."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fedaudit.api.errors import unknown_name_error
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document
from fedaudit.api.target_sets import ALL, DISJOINT
from fedaudit.extraction.controls import CONTROLS, sample_controls
from fedaudit.extraction.positive_controls import (
    Place,
    PositiveControls,
    places_of,
    positive_controls,
)
from fedaudit.metrics.document_frequency import absent_strings, document_frequency
from fedaudit.metrics.extraction import Disjointness, prefix_disjoint, victim_exclusive
from fedaudit.metrics.persons import subjects
from fedaudit.pii.normalized_search import fold

NOTHING_EXCLUSIVE = "the attacker or another member has all of the victim's records too"


@dataclass(frozen=True, kw_only=True)
class TargetSet:
    """The victim's own strings, and strings that no member has."""

    labels: Mapping[str, str]
    """The label of every target."""
    victim: Sequence[Document] = field(default=(), repr=False, compare=False)
    """The victim's records, in any order."""
    disjointness: Disjointness = "prefix-free"
    alone: frozenset[str] = frozenset()
    """The targets that only the victim has: no other member has them in any spelling."""
    controls: Mapping[str, str] = field(default_factory=dict)
    """Strings that no member has, with their labels."""
    shared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each other member whose documents are known, the targets that are in them."""
    donors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Strings of each label that anybody has."""
    known: PositiveControls = field(default_factory=PositiveControls)
    """Strings of others that the model was trained on, to see whether the questions work."""

    @cached_property
    def disjoint(self) -> frozenset[str]:
        """The targets that are left if each output must identify a single one."""
        return frozenset(prefix_disjoint(self.labels, self.disjointness))

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """For each target, the first group, by name, of the victim's records with it, if any."""
        groups: dict[str, str] = {}
        for document in self.victim:
            for string, _ in document.strings() if document.group else ():
                known = groups.get(string.strip(), document.group)
                groups[string.strip()] = min(document.group, known)
        return groups

    @cached_property
    def documents(self) -> Mapping[str, int]:
        """For each target, the number of the victim's documents that contain it."""
        return document_frequency(self.labels, [document.text for document in self.victim])

    @cached_property
    def subjects(self) -> Mapping[str, str]:
        """Whose a target is: the only group of records that holds it, if all have a group."""
        if not all(document.group for document in self.victim):
            return {}
        return subjects(
            (document.group, [string.strip() for string, _ in document.strings()])
            for document in self.victim
        )

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """Where each target stands first in the victim's records."""
        return places_of(self.victim)

    @cached_property
    def members(self) -> Mapping[str, int]:
        """For each target, how many of the other members whose documents are known have it."""
        counts = Counter(string for strings in self.shared.values() for string in strings)
        return {string: counts[string] for string in self.labels}

    @property
    def searched(self) -> Iterator[str]:
        """All strings that answers are searched for."""
        yield from self.labels
        yield from self.controls
        yield from self.known.labels

    @cached_property
    def exclusive(self) -> frozenset[str]:
        """The targets that only the victim has, less those that are part of another one."""
        return drop_substrings(self.alone)

    def by_label(self) -> dict[str, Collection[str]]:
        """Return the targets of each label, the most frequent label first, then by name."""
        groups: dict[str, list[str]] = defaultdict(list)
        for string, label in self.labels.items():
            groups[label].append(string)
        return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))

    def sets(self) -> dict[str, Collection[str]]:
        """Return the paper's two sets of targets by name; the judged targets are `exclusive`."""
        return {ALL: self.labels.keys(), DISJOINT: self.disjoint}


def exclusive_targets(context: AttackContext) -> dict[str, str]:
    """Return the victim's exclusive PII with their labels."""
    pairs = [pair for document in context.victim or () for pair in document.strings()]
    return victim_exclusive(pairs, [document.text for document in context.attacker])


def build_target_set(
    context: AttackContext, disjoint: Disjointness = "prefix-free", *, most: int = CONTROLS
) -> TargetSet:
    """Return the victim's exclusive PII, and about `most` strings that no member has."""
    labels, victim = exclusive_targets(context), context.victim or ()
    donors = strings_by_label(known_documents(context))
    controls = control_strings(context, labels, donors=donors, most=most)
    shared = _strings_of_members(labels, context.members)
    forms = spellings(labels)
    free = absent_strings(forms, [fold(document.text) for document in context.attacker])
    return TargetSet(
        labels=labels,
        victim=victim,
        disjointness=disjoint,
        alone=alone(forms, free, shared),
        controls=controls,
        shared=shared,
        donors=donors,
        known=positive_controls(context, set(labels.values())),
    )


def known_documents(context: AttackContext) -> list[Document]:
    """Return the documents of the attacker, the victim and the other members."""
    everybody = (context.attacker, context.victim or (), *context.members.values())
    return [document for documents in everybody for document in documents]


def control_strings(
    context: AttackContext,
    targets: Mapping[str, str],
    *,
    donors: Mapping[str, Sequence[str]] | None = None,
    most: int = CONTROLS,
) -> dict[str, str]:
    """Return about `most` strings of the kinds of `targets` that no member has, with labels.

    `donors` are further strings of each kind, which supply pieces.
    """
    real = {s.strip(): label for d in context.control for s, label in d.strings() if s.strip()}
    corpus = [document.text for document in known_documents(context)]
    return dict(
        sample_controls(
            targets, corpus, seed=context.seed, donors=donors, real_controls=real, most=most
        )
    )


def check_labels(labels: Collection[str], documents: Iterable[Document]) -> None:
    """Raise UsageError for a label that was asked for and that no PII of the documents has."""
    present = {span.label for document in documents for span in document.pii or ()}
    if missing := set(labels) - present:
        raise unknown_name_error("kind of PII in the data", min(missing), present)


def strings_by_label(documents: Iterable[Document]) -> dict[str, list[str]]:
    """Return the distinct strings of each label, sorted."""
    by_label: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for string, label in document.strings():
            by_label[label].add(string.strip())
    return {label: sorted(strings) for label, strings in sorted(by_label.items())}


def _strings_of_members(
    labels: Iterable[str], members: Mapping[str, Sequence[Document]]
) -> dict[str, frozenset[str]]:
    """Return the strings that each other member has, in whatever spelling."""
    forms = {string: fold(string) for string in labels}
    shared = {}
    for name, documents in members.items():
        free = absent_strings(filter(None, forms.values()), [fold(d.text) for d in documents])
        shared[name] = frozenset(string for string, form in forms.items() if form not in free)
    return shared


def drop_substrings(strings: Collection[str]) -> frozenset[str]:
    """Return the strings without those that are part of another one, in whatever spelling."""
    forms = {fold(string): string for string in sorted(strings, reverse=True)}
    inside = document_frequency(forms, sorted(forms))
    return frozenset(string for form, string in forms.items() if inside[form] == 1)


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """Return the strings by their folded form; of those that differ only in spelling, one."""
    forms: dict[str, str] = {}
    for string in sorted(labels):
        forms.setdefault(fold(string), string)
    forms.pop("", None)
    return forms


def alone(
    forms: Mapping[str, str], free: Collection[str], shared: Mapping[str, Collection[str]]
) -> frozenset[str]:
    """Return the strings that no other member has.

    `forms` are `spellings`, `free` those that the attacker does not have, `shared` the strings
    that each other member has.
    """
    others = frozenset[str]().union(*shared.values())
    return frozenset(forms[form] for form in free if forms[form] not in others)


def exclusive_documents(context: AttackContext) -> list[Document]:
    """Return the attacked documents without those that another known client also has.

    Texts are compared in whatever spelling: what the attacker or another member has is not a leak
    of the victim's. Without a victim the documents are the attacker's own, and all are returned.
    """
    if context.victim is None:
        return list(context.attacked_documents)
    texts = set(_others_texts(context))
    return [document for document in context.victim if fold(document.text) not in texts]


def exclusive_strings(context: AttackContext, strings: Iterable[str]) -> set[str]:
    """Return those of `strings` that are in no text of another known client, in any spelling.

    Without a victim the strings are the attacker's own, and all are returned.
    """
    distinct = set(strings)
    if context.victim is None:
        return distinct
    absent = absent_strings(filter(None, map(fold, distinct)), _others_texts(context))
    return {string for string in distinct if fold(string) in absent}


def left_out_text(name: str, records: int, strings: int = 0) -> str:
    """Return a limit of the attack `name`: how much was left out because others have it, too."""
    counts = [f"{records:,} further records"] if records else []
    counts += [f"{strings:,} further strings"] if strings else []
    return (
        f"{name}: {' and '.join(counts)} were left out: the attacker or another member has them, "
        "too."
    )


def _others_texts(context: AttackContext) -> list[str]:
    """Return the texts of the attacker and of other members, folded for comparison."""
    corpora = (context.attacker, *context.members.values())
    return [fold(document.text) for documents in corpora for document in documents]
