"""What the victim alone has: records and strings that no other known client has as well."""

from collections.abc import Iterable

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document
from fedaudit.metrics.document_frequency import absent_strings
from fedaudit.pii.normalized_search import fold

NOTHING_EXCLUSIVE = "the attacker or another member has all of the victim's records too"


def exclusive_documents(context: AttackContext) -> list[Document]:
    """Return the documents that are tried but for those that another known client has as well.

    The attacker or another member may write a text in another form: then it is no leak of the
    victim's either. Without a victim the documents are the attacker's own, and all stay.
    """
    if context.victim is None:
        return list(context.attacked_documents)
    texts = set(_others_texts(context))
    return [document for document in context.victim if fold(document.text) not in texts]


def exclusive_strings(context: AttackContext, strings: Iterable[str]) -> set[str]:
    """Return those of `strings` that stand in no text of another known client, however written.

    Without a victim they are the attacker's own, and all stay.
    """
    distinct = set(strings)
    if context.victim is None:
        return distinct
    absent = absent_strings(filter(None, map(fold, distinct)), _others_texts(context))
    return {string for string in distinct if fold(string) in absent}


def left_out_text(name: str, records: int, strings: int = 0) -> str:
    """Return a limit of the attack `name` that says what of the victim's others have as well."""
    counts = [f"{records:,} further records"] if records else []
    counts += [f"{strings:,} further strings"] if strings else []
    return (
        f"{name}: {' and '.join(counts)} were left out: the attacker or another member has them, "
        "too."
    )


def _others_texts(context: AttackContext) -> list[str]:
    """Return the texts of the attacker and of other members, as they are compared."""
    corpora = (context.attacker, *context.members.values())
    return [fold(document.text) for documents in corpora for document in documents]
