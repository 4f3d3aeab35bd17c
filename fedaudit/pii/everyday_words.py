"""English words that are surnames as well: May, Page, So. Alone they need not be a person."""

from functools import cache

_TIMES = (
    "january february march april may june july august september october november december monday "
    "tuesday wednesday thursday friday saturday sunday spring summer autumn winter"
)
_FUNCTION_WORDS = (
    "a according after afterwards again all also although among an and another any are as ask at "
    "because been before being between both but by call can could dear despite did do does during "
    "each earlier either every few finally following for from further furthermore good had happy "
    "has have he hello her here hers hey hi him his how however i if in instead is it its later "
    "let many may me meanwhile meet moreover most must my neither no nobody nor not now "
    "occasionally of on once or other others our over overnight please recently several shall she "
    "should since so some such tell than thank thanks that the their them then there therefore "
    "these they this those though through thus to today tomorrow under unless until up us was we "
    "were what when where which while who whom whose why will with without would yesterday yet "
    "you your yours"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""What sentences are made of."""
_MORE = "am off only out own per still too very yes"
_PARTS_OF_TEXTS = (
    "annex appendix article box case chapter clause exhibit figure folio item line note number "
    "page paragraph part section sheet step table volume"
)
_PLACES = (
    "bank bridge brook castle church close college court cross drive east farm field ford forest "
    "garden gardens gate green grove hall hill hospital house lake land lane lodge marsh mill moor "
    "north park parish place pond port river road school shore south square station stone street "
    "valley village ward way well wells west wood woods"
)

_TITLES = (
    "brother captain colonel constable detective doctor father frau herr herrn inspector judge "
    "justice lady lieutenant lord madam madame major miss monsieur mother nurse officer patient "
    "professor reverend senator sergeant sheikh sister signor signora uncle aunt widow witness"
)


@cache
def everyday_words() -> frozenset[str]:
    """Return everyday words in small letters, most of them from Faker's list of English words."""
    from faker.providers.lorem.en_US import Provider

    named = f"{_TIMES} {_FUNCTION_WORDS} {_MORE} {_PARTS_OF_TEXTS} {_PLACES} {_TITLES}".split()
    return frozenset([*named, *(word.casefold() for word in Provider.word_list)])
