"""English words that are surnames as well: May, Page, So. Alone they need not be a person."""

from functools import cache

_TIMES = (
    "january february march april may june july august september october november december monday "
    "tuesday wednesday thursday friday saturday sunday spring summer autumn winter"
)
_FUNCTION_WORDS = (
    "a according after all also although am among an and another any are as ask at because been "
    "before being both but by call can could dear did do does each either every few following for "
    "from furthermore good had happy has have he hello her here hers hey hi him his how however i "
    "if in is it its let many may me meet moreover most must my neither no nobody nor not now of "
    "off on once only or other others our out over own per please several shall she should since "
    "so some still such tell than thank thanks that the their them then there therefore these they "
    "this those though through thus to today tomorrow too under unless until up us very was we "
    "were what when where which while who whom whose why will with without would yes yet you your"
)
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

    named = f"{_TIMES} {_FUNCTION_WORDS} {_PARTS_OF_TEXTS} {_PLACES} {_TITLES}".split()
    return frozenset([*named, *(word.casefold() for word in Provider.word_list)])
