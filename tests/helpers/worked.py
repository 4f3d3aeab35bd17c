"""The worked example of docs/extraction-attacks.md."""

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.engine.fake import FakeEngine

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")


def marked(text, *pairs):
    """Return a document whose PII are the (string, label) pairs."""
    spans = [PiiSpan(text.index(s), text.index(s) + len(s), label) for s, label in pairs]
    return Document(id=text[:20], text=text, pii=tuple(sorted(spans)))


ATTACKER = [
    marked("The claimant Tom Ray sued.", ("Tom Ray", "PERSON")),
    marked("The claimant Sue Fox sued.", ("Sue Fox", "PERSON")),
    marked(
        "So the claimant Al Orr left; her friend Bo Day left.",
        ("Al Orr", "PERSON"),
        ("Bo Day", "FRIEND"),
    ),
]
VICTIM = [
    marked("Ann Lee sued Bob Low.", ("Ann Lee", "PERSON"), ("Bob Low", "PERSON")),
    marked(
        "Cy Ash and Dee Fay and Eve Gil.",
        ("Cy Ash", "FRIEND"),
        ("Dee Fay", "FRIEND"),
        ("Eve Gil", "PERSON"),
    ),
]
TUNED_SAYS = {
    "The claimant": [" Ann Lee", " nobody", " Bob Low", " nobody"],
    " claimant": [" nobody", " Ann Lee"],
    "; her friend": [" Cy Ash", " nobody"],
    " friend": [" Dee Fay", " nobody"],
}
BASE_SAYS = {"; her friend": [" Cy Ash", " nobody"]}


def answer(target, prompt, sample):
    says = BASE_SAYS if target == BASE else TUNED_SAYS
    return says.get(prompt, [" nobody"] * 9)[sample]


def engine(says=answer, **options):
    """Return an engine whose token ids do not depend on which document it reads first."""
    fake = FakeEngine(says, **options)
    fake.tokenize([document.text for document in (*ATTACKER, *VICTIM)])
    return fake


def case(fake=None, **changes):
    own = {"engine": fake or engine(), "tuned": TUNED, "base": BASE}
    return AttackContext(**{**own, "attacker": ATTACKER, "victim": VICTIM, **changes})


def row(result, metric, source="tuned", which="all", **scope):
    """Return the only row of a metric with just this scope; the rest of the scope is `scope`."""
    wanted = {"source": source, "set": which, **scope}
    [found] = [r for r in result.measurements if (r.metric, dict(r.scope)) == (metric, wanted)]
    return found
