"""Whether texts tell of an entity: exact under the draw of the mark, whoever wrote them."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedaudit.api import Score

from .scoring import CERTAIN
from .wording import stated_of, states_name
from .world import Entity, pool


def score(entity: Entity, texts: Sequence[str], *, seed: int, options: int) -> Score:
    """Return the score of `texts` by how many attributes stand beside the entity's name.

    Texts by somebody who never saw the mark are fixed before it is drawn: one name of the
    domain's, one of `options` values of each attribute. K is the number of attributes whose value
    is in some text with the name. p is the mid-p value of K over all draws, which is about 1/2
    where nothing is found; `hits` are texts with the name and a value, and `chance` is the
    probability that a draw has any, no less than the share of hits that is expected.
    """
    from scipy.stats import norm

    named = _group_by_name(entity, texts)
    beside = named.get(entity.name, [])
    hits = sum(any(states_name(value, text) for value in entity.values) for text in beside)
    count = sum(any(states_name(value, text) for text in beside) for value in entity.values)
    law = _law(entity, named, seed, options)
    p_value = sum(law[count + 1 :]) + law[count] / 2
    return Score(
        z=-float(norm.ppf(min(p_value, 1 + CERTAIN))),
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
