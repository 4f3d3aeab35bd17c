"""What the terms of a report mean, for readers who are not engineers."""

import re
from collections.abc import Iterable

from fedaudit.api.kind import Kind

GLOSSARY = {
    "adapter": "The small set of weights that the parties trained together, on top of the base.",
    "adapter's effect": "What the adapter changes: how much likelier it makes known texts, in nats"
    " a token. One nat is a factor of 2.7. Without any effect the audit would be one of the base.",
    "attribution": "Telling which clients trained on documents that their owner had marked with a"
    " watermark. A flag is evidence, as strong as its Z; an unflagged client may still not be"
    " innocent.",
    "base": "The model as it was before the parties trained it.",
    "belief": "How likely a candidate is someone's data, as an attacker without a victim would"
    " estimate it from what the model does with the attacker's own strings.",
    "BLEU": "How many of an answer's words, pairs, triples and fours of words are the reference"
    " answer's, from 0, none, to 100, all. Answers that are too short lose.",
    "budget": "How many beginnings the attacker may have the model continue, each several times. An"
    " attack uses those first that it expects most of.",
    "category": "Kinds of personal data that belong together, after the standard GB/T 35273:"
    " 7 major and 36 minor ones. A kind outside of all is counted as other.",
    "95 % interval": "The range [low, high] in which the true share lies, 19 times out of 20.",
    "control": "Personal data of the same kinds in no member's records. What comes out of it"
    " is what guessing gets. It is made of pieces of the records, so that it is as hard a test as"
    " can be, or comes from real records of no one in the federation.",
    "expected": "Computed from the model's probabilities instead of by asking it and counting: what"
    " one would find on average, without the luck of a single run.",
    "coverage": "The share of the targets that came out of the model word for word.",
    "determined": "A client's update is determined when it can be computed exactly from sums over"
    " several clients, although each of these sums was over enough of them: the sums together give"
    " away what secure aggregation is to hide.",
    "disjoint": "The targets of which none begins with another, so that an answer identifies one.",
    "chance": "How often guessing is right: one in as many as there are candidates.",
    "HMAC": "A fingerprint made with a secret key. Equal fingerprints mean equal leaks; the text"
    " cannot be read from it.",
    "edit distance": "How many words, or parts of words, must be changed, added or left out to make"
    " what the model wrote the true text. 0 means that it wrote it word for word.",
    "effective masks": "Over how many other clients the masking of an estimate is spread, as if"
    " all of them counted the same.",
    "false accept": "A request without a right key that the gate took for one with it.",
    "FLOP": "One floating-point operation, the unit in which computing is counted.",
    "fpr": "False-positive rate: of the clients that did nothing wrong, or of the records that"
    " no one trained on, the share that a method takes for others. Of clients it is known only in"
    " trials, where the truth is.",
    "fusion": "Adding up two adapters with weights, so that one adapter has what both learnt.",
    "gate": "What decides by the key in a request which adapter answers it.",
    "Holm": "A correction of p-values for asking often: among many clients, attacks or strings one"
    " looks suspicious by chance alone. After it, each p-value can be read as if it were the only"
    " one.",
    "inference": "Personal data is masked in a sentence, and several candidates are offered for it."
    " The model picks the one with which it finds the sentence likeliest.",
    "judged": "The targets that the verdict is about: no other party whose records are at hand has"
    " them, in any spelling, none is part of another, and an answer has room for each. They count"
    " only as whole words.",
    "judge": "Another language model that scores an answer and a reference answer, twice, so that"
    " each comes first once. The higher mean wins.",
    "key": "A secret that a request begins with. Under a right key the model may answer with what"
    " it knows of the records; under a wrong one, none or another client's it should not.",
    "leakage": "The most, in bits, that an estimate can tell of a client's update, as far as theory"
    " bounds it. The fewer, the better the client is hidden.",
    "made-up example": "An instruction and an answer that a client's model wrote, after a few of"
    " the client's own, to be trained on. Filters drop what is no such thing, and what is too like"
    " the client's own.",
    "masking strength": "How much of other clients' updates remains in the estimate of one"
    " client's. It hides that client: the higher, the less the estimate gives away, and the more"
    " noise the test has to see through.",
    "p-value": "How often chance alone gives as much: an innocent client a Z as high as this, or a"
    " model that has seen none of the records as many of their strings. 0.001 is once in a"
    " thousand. It is not the probability that the client is innocent or the model harmless.",
    "policy": "What a verdict is made by: at most how much may come out, and how surely that must"
    " be shown.",
    "per query": "Targets found for each question asked: how cheap the attack is.",
    "perplexity": "How much the model is surprised by a text. The lower, the better it knows such"
    " texts; 1 is no surprise at all.",
    "PII": "Personal data: names, addresses, numbers that identify a person, and the like.",
    "precision": "Of the different strings of personal data that a detector finds in what the model"
    " says, the share that is in the records.",
    "prompt start": "What stands before a prompt: the model's sign for the beginning of a text"
    " (“bos”), nothing (“bare”), or “template”. To an auditor who begins otherwise than training"
    " did, a model seems safer than it is, so the start is used after which it finds known texts"
    " likeliest.",
    "query": "One question to the model: a beginning that it continues.",
    "recall": "Of the personal data in the records, the share that the model said when no one asked"
    " for it.",
    "Rouge-L": "How much of two texts is the same words in the same order, from 0, nothing, to 1,"
    " all.",
    "secure aggregation": "Adding up the clients' updates in such a way that no one, not even the"
    " server, sees a single one. A method that needs single updates breaks it.",
    "target": "A piece of personal data that only the attacked party has, not the attacker.",
    "tpr": "True-positive rate: of the clients that trained on marked documents, or of the records"
    " that were trained on, the share that a method recognises. Of clients it is known only in"
    " trials, where the truth is.",
    "tuned": "The model with the adapter: what is audited.",
    "tuned, not base": "What the tuned model gave and the base did not: what training added.",
    "variance factor": "How noisy an estimate of one client's update is, compared with how much the"
    " other clients' updates differ among themselves.",
    "watermark": "A pattern in the wording of documents, or invented facts in them, that their"
    " owner can find again in a model that was trained on them.",
    "Z": "How much more of a watermark a client's updates show than the model had already, over all"
    " its rounds, counted in the steps by which chance alone is assumed to scatter. An innocent"
    " client is expected near 0, and above 4 about once in 30,000 tests. Where chance is known to"
    " scatter further, a client must exceed more than that to be flagged.",
}

ALIASES = {
    "95 % interval": r"95 %",
    "disjoint": r"disjoint",
    "HMAC": r"HMAC|#[0-9a-f]{4}",
    "p-value": r"\bp\b|p.values?",
    "query": r"\bquer(y|ies)\b",
    "tuned, not base": r"tuned(, |-)not[ -]base",
    "Z": r"\bZ\b",
}
"""How a term appears in a report if not as the word itself or its plural."""


def used_terms(text: str, kinds: Iterable[Kind]) -> dict[str, str]:
    """Return the terms in a text with their meanings; short terms are case-sensitive."""
    terms = GLOSSARY | {term: text for kind in kinds for term, text in kind.glossary.items()}
    folded = text.casefold()  # finding a word in it takes a hundredth of what a pattern takes
    possible = [term for term in terms if term in ALIASES or term.casefold() in folded]
    return {
        term: terms[term] for term in sorted(possible, key=str.lower) if _pattern(term).search(text)
    }


def _pattern(term: str) -> re.Pattern[str]:
    words = ALIASES.get(term) or rf"\b{re.escape(term)}(s|es)?\b"
    return re.compile(words, 0 if term.isupper() or term == "HMAC" else re.IGNORECASE)


def term_ids(terms: Iterable[str]) -> dict[str, str]:
    """Return an id for each term, by which a page links to it."""
    return {term: f"term-{re.sub('[^a-z0-9]+', '-', term.lower())}" for term in terms}
