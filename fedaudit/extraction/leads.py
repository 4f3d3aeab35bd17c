"""Leads: what of the token that reaches into PII stands before it, as the colon of ":Anna".

A prompt ends before that token, so that what goes on there begins with the lead and not with the
PII. Some tokenizers join a punctuation mark to the word behind it, others whole words.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.api.engine import PrefixProbabilities

Leads = tuple[str, ...]
"""Those of a prompt's occurrences, distinct and sorted; none is empty or has white space around."""


def join_leads(groups: Iterable[Leads]) -> Leads:
    """Return the leads of several occurrences."""
    return tuple(sorted({lead for leads in groups for lead in leads}))


def without_leads(text: str, leads: Leads) -> Iterator[str]:
    """Yield an answer, then what it is without each lead that it begins with, the longest first.

    Nothing stands between a lead and PII.
    """
    yield text
    stripped = text.lstrip()
    for lead in sorted(leads, key=len, reverse=True):
        rest = stripped.removeprefix(lead)
        if rest != stripped and not rest[:1].isspace():
            yield rest


def with_leads(strings: Sequence[str], groups: Iterable[Leads]) -> Sequence[str]:
    """Return what an answer may begin with that gives one of `strings`, behind any of the leads."""
    leads = join_leads(groups)
    return strings if not leads else [lead + string for lead in ("", *leads) for string in strings]


class StringsWithLeads:
    """Strings, and all that answers to a prompt with some leads may begin with to give them.

    As `without_leads` does, it drops no lead that begins one of the strings where that is said.
    """

    def __init__(self, strings: Collection[str], leads: Leads) -> None:
        self._size, sought = len(strings), frozenset(strings)
        pairs = [
            (index, form)
            for index, string in enumerate(strings)
            for form in _forms(string, leads, sought)
        ]
        self._owners = [index for index, _ in pairs]
        self._all_forms = [form for _, form in pairs]
        self.forms = tuple(dict.fromkeys(self._all_forms))

    @cached_property
    def _places(self) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]":
        import numpy as np

        columns = {form: column for column, form in enumerate(self.forms)}
        forms = [columns[form] for form in self._all_forms]
        return np.array(self._owners, dtype=np.int64), np.array(forms, dtype=np.int64)

    def add_up(self, by_form: "PrefixProbabilities") -> "PrefixProbabilities":
        """Return the probabilities of the strings from those of `forms`."""
        import numpy as np

        owners, columns = self._places

        def total(values: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
            return np.bincount(owners, values[columns], minlength=self._size).clip(0, 1)

        drawn = np.zeros(self._size, dtype=np.int64)
        np.add.at(drawn, owners, by_form.drawn[columns])
        return replace(by_form, least=total(by_form.least), most=total(by_form.most), drawn=drawn)


def _forms(string: str, leads: Leads, sought: Collection[str]) -> Iterator[str]:
    """Yield a string, then it behind each lead, unless another form that is looked for begins so.

    Such are the strings of `sought`, and this one behind a shorter lead.
    """
    yield string
    forms = {lead + string for lead in leads}
    for lead in leads:
        form = lead + string
        begins = (form[:end] for end in range(1, len(form)))
        if form not in sought and not any(begin in sought or begin in forms for begin in begins):
            yield form
