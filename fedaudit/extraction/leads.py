"""Leads: the start of a token that also holds the start of PII, such as the colon of ":Anna".

A prompt ends before that token, so that a completion that gives the PII begins with the lead. Some
tokenizers join a punctuation mark to the word after it, others join whole words.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import PrefixProbabilities

Leads = tuple[str, ...]
"""The leads of all occurrences behind one prompt: distinct, sorted, stripped and not empty."""


def join_leads(groups: Iterable[Leads]) -> Leads:
    """Return the leads of several occurrences."""
    return tuple(sorted({lead for leads in groups for lead in leads}))


def strip_leads(text: str, leads: Leads) -> Iterator[str]:
    """Yield an answer, then its rest after each lead that it begins with, the longest lead first.

    A lead followed by white space is not removed, as PII follows its lead immediately.
    """
    yield text
    stripped = text.lstrip()
    for lead in sorted(leads, key=len, reverse=True):
        rest = stripped.removeprefix(lead)
        if rest != stripped and not rest[:1].isspace():
            yield rest


def with_leads(strings: Sequence[str], groups: Iterable[Leads]) -> Sequence[str]:
    """Return every beginning of an answer that gives one of `strings`: with and without a lead."""
    leads = join_leads(groups)
    return strings if not leads else [lead + string for lead in ("", *leads) for string in strings]


class StringsWithLeads:
    """Strings, and all beginnings (`forms`) of answers that give one of them, given some leads.

    An answer that begins with one of the strings counts as that string, even if it also begins with
    a lead.
    """

    def __init__(self, strings: Collection[str], leads: Leads) -> None:
        self._size, sought = len(strings), frozenset(strings)
        pairs = [
            (index, form)
            for index, string in enumerate(strings)
            for form in _forms(string, leads, sought)
        ]
        self.forms = tuple(dict.fromkeys(form for _, form in pairs))
        columns = {form: column for column, form in enumerate(self.forms)}
        self._owners = np.array([index for index, _ in pairs], dtype=np.int64)
        self._columns = np.array([columns[form] for _, form in pairs], dtype=np.int64)

    def add_up(self, by_form: PrefixProbabilities) -> PrefixProbabilities:
        """Return the probabilities of the strings, summed over the `forms` of each."""

        def total(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            sums = np.bincount(self._owners, values[self._columns], minlength=self._size)
            return sums.clip(0, 1)

        drawn = np.zeros(self._size, dtype=np.int64)
        np.add.at(drawn, self._owners, by_form.drawn[self._columns])
        return replace(by_form, least=total(by_form.least), most=total(by_form.most), drawn=drawn)


def _forms(string: str, leads: Leads, sought: Collection[str]) -> Iterator[str]:
    """Yield a string, then the string after each lead, unless another form covers that one.

    It is covered if it begins with a string of `sought`, or with the string after a shorter lead.
    """
    yield string
    forms = {lead + string for lead in leads}
    for lead in leads:
        form = lead + string
        begins = (form[:end] for end in range(1, len(form)))
        if form not in sought and not any(begin in sought or begin in forms for begin in begins):
            yield form
