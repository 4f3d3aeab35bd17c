"""The contract test of plugins: `check_plugin(MyPlugin)` in the tests of their own package."""

import dataclasses
import inspect
import json
import math
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from fedaudit.api.attribution import Attributor
from fedaudit.api.defense import Defense
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.importer import ForeignFolder, Importer, StateDump
from fedaudit.api.plugin import (
    Aggregator,
    Attack,
    AttackContext,
    Paraphraser,
    PiiDetector,
    Plugin,
    Result,
    Update,
)
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.api.watermark import Watermark

INTERFACES: dict[str, type[Plugin]] = {
    "attack": Attack,
    "aggregation": Aggregator,
    "defense": Defense,
    "detector": PiiDetector,
    "watermark": Watermark,
    "secure aggregation": SecureAggregation,
    "attribution": Attributor,
    "paraphraser": Paraphraser,
    "importer": Importer,
}
"""The interface of each kind of plugin."""
LONGEST_SUMMARY = 100
SHORTEST_STRING = 4
"""Shorter personal data may be part of another word."""
ROUNDING = 1e-5

PEOPLE = (
    ("Ann Leeward", "Oldham Street 4"),
    ("Bo Chudley", "Mill Lane 9"),
    ("Cy Dayton", "High Road 17"),
    ("Di Eastman", "Low Road 3"),
    ("Ed Farrow", "West Way 8"),
    ("Flo Garner", "East Way 2"),
    ("Gus Hollis", "Park Row 5"),
    ("Hal Irwin", "Bank Row 6"),
)
TENSORS = {
    f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{part}.weight": shape
    for layer in range(2)
    for part, shape in (("A", (2, 6)), ("B", (6, 2)))
}


def check_plugin(
    plugin: type[Plugin], *, context: AttackContext | None = None, **options: Any
) -> None:
    """Check that a plugin keeps to what fedaudit relies on.

    Of every plugin: it is a frozen dataclass of one kind, with a name, a summary of one sentence
    and options that are explained and can be set to what is shown; it can be sent to a worker
    process; and its methods can be called as the interface's are. Of most kinds also what it does
    with small made-up input, twice: an attack gives equal results that a report can hold, and no
    personal data outside of masked fields; an aggregation rule ignores the order of the clients; a
    defence keeps the form of documents and updates; a detector, a paraphraser and a watermark give
    equal answers; sums are sums; an importer knows no folder that holds nothing of its layout.

    Args:
        plugin: The class.
        context: What an attack is given in place of made-up records, for one that declines these.
        **options: Options to run it with, in place of its defaults.

    Raises:
        AssertionError: With the plugin's name and, in a sentence, what it does not keep to.
    """
    kind = _kind(plugin)
    _check_form(plugin)
    _check_signatures(plugin, INTERFACES[kind])
    made = plugin(**options)
    try:
        if isinstance(made, Attack):
            _check_attack(made, context or made_up_context())
        elif kind in _BEHAVIOUR:
            _BEHAVIOUR[kind](made)
    except (InputError, UsageError) as error:
        _fail(plugin, f"it declines what the check gives it: {error}")


def made_up_context() -> AttackContext:
    """Return the context that `check_plugin` gives an attack: made-up records on a `FakeEngine`.

    The tuned model names a person from the victim's records in each answer; the base does not.
    """
    from fedaudit.engine.fake import FakeEngine

    documents = [_document(number, *person) for number, person in enumerate(PEOPLE)]

    def answer(target: Target, _prompt: str, sample: int) -> str:
        return f" {PEOPLE[3 + sample % 2][0]} of" if target.name == "tuned" else " went home"

    def likelihood(target: Target, _token: str, _before: str) -> float:
        return -0.5 if target.name == "tuned" else -1.0

    return AttackContext(
        engine=FakeEngine(answer, likelihood=likelihood),
        tuned=Target(name="tuned", adapter="lora"),
        base=Target(name="base"),
        attacker=documents[:3],
        victim=documents[3:5],
        members={"c2": documents[5:6]},
        control=documents[6:7],
        held_out=documents[7:],
        detector=_KnownPeople(),
    )


def _document(number: int, name: str, address: str) -> Document:
    request = f"Write down what {name} said."
    answer = f"The claimant {name} of {address} sued in May. The court heard the case in June."
    text = f"{request}\n{answer}"
    spans = [
        PiiSpan(match.start(), match.end(), label)
        for string, label in ((name, "PERSON"), (address, "ADDRESS"))
        for match in re.finditer(re.escape(string), text)
    ]
    pii = tuple(sorted(spans, key=lambda span: span.start))
    return Document(id=f"record-{number}", text=text, pii=pii, instruction=request, output=answer)


class _KnownPeople(PiiDetector):
    """Finds the people of the made-up records."""

    name = "known-people"

    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        names = re.compile("|".join(re.escape(name) for name, _ in PEOPLE))
        return [
            tuple(PiiSpan(match.start(), match.end(), "PERSON") for match in names.finditer(text))
            for text in texts
        ]

    def describe(self) -> str:
        return "a list of names"


def _fail(plugin: type, problem: str) -> NoReturn:
    raise AssertionError(f"{plugin.__name__}: {problem}")


def _kind(plugin: type[Plugin]) -> str:
    kinds = [kind for kind, interface in INTERFACES.items() if issubclass(plugin, interface)]
    if len(kinds) != 1:
        _fail(plugin, "it is a subclass of none of the interfaces of fedaudit.api, or of several.")
    if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
        _fail(plugin, f"it does not define {', '.join(missing)}.")
    return kinds[0]


def _check_form(plugin: type[Plugin]) -> None:
    """Check name, summary, paper, options, and that a plugin is a value."""
    from fedaudit.config import registry
    from fedaudit.config.option_text import option_docs
    from fedaudit.config.options import build_settings, parse_settings

    if not dataclasses.is_dataclass(plugin) or not plugin.__dataclass_params__.frozen:
        _fail(plugin, "it is not a frozen dataclass: decorate it with @dataclass(frozen=True).")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{1,20}", getattr(plugin, "name", "")):
        _fail(plugin, "its name is not 2 to 21 lower-case letters, digits, _ and -.")
    summary = registry.summary(plugin)
    if (
        not re.fullmatch(r"[A-Z][^.!?]*(\.\w[^.!?]*)*\.", summary)
        or len(summary) > LONGEST_SUMMARY
        or summary.startswith(f"{plugin.__name__}(")
    ):
        _fail(
            plugin,
            "its docstring does not begin with a sentence of at most "
            f"{LONGEST_SUMMARY} characters.",
        )
    if plugin.paper and not re.search(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+", plugin.paper):
        _fail(plugin, "its paper has neither an arXiv:NNNN.NNNNN nor a doi:.")
    options = dataclasses.fields(plugin)
    names = [option.name for option in options]
    required = [
        option.name
        for option in options
        if option.default is dataclasses.MISSING and option.default_factory is dataclasses.MISSING
    ]
    if required:
        _fail(plugin, f"its option {required[0]} has no default.")
    documented = option_docs(plugin)
    if lacking := [name for name in names if name not in documented]:
        _fail(plugin, f"its option {lacking[0]} has no docstring below it.")
    default = plugin()
    if default != plugin() or hash(default) != hash(plugin()):
        _fail(plugin, "two of it with equal options are not equal.")
    if pickle.loads(pickle.dumps(default)) != default:
        _fail(plugin, "it changes on its way to a worker process (pickle).")
    what = f"plugin {plugin.name}"
    shown = {name: getattr(default, name) for name in names}
    lines = [line.strip() for line in registry.describe("", plugin) if line.startswith("  ")]
    given = [line.replace(" = ", "=", 1) for line in lines if line.partition(" = ")[0] in shown]
    settable = [line for line in given if not line.endswith("=not set")]
    if build_settings(plugin, parse_settings(settable), what) != default:
        _fail(plugin, "its options cannot be set to the defaults that `fedaudit plugins` shows.")


def _check_signatures(plugin: type[Plugin], interface: type[Plugin]) -> None:
    """Check that each method can be called with the arguments of the interface's method."""
    for name, declared in inspect.getmembers(interface, inspect.isfunction):
        own = getattr(plugin, name)
        if name.startswith("_") or inspect.unwrap(own) is inspect.unwrap(declared):
            continue
        wanted = list(inspect.signature(declared).parameters.values())
        placed = [p for p in wanted if p.kind is not p.KEYWORD_ONLY]
        named = {p.name: None for p in wanted if p.kind is p.KEYWORD_ONLY}
        signature = inspect.signature(own)
        try:
            signature.bind(*placed, **named)
            signature.bind(placed[0], **{p.name: None for p in placed[1:]}, **named)
        except TypeError as error:
            form = f"{name}{inspect.signature(declared)}"
            _fail(plugin, f"{name} cannot be called as {form}: {error}.")


def _check_attack(attack: Attack, context: AttackContext) -> None:
    from fedaudit.report.result_contract import check_result

    result = check_result(attack.name, attack.run(context))
    if attack.run(context) != result:
        _fail(type(attack), "a second run on the same records gives another result.")
    private = {
        string
        for documents in (context.attacker, context.victim or (), *context.members.values())
        for document in documents
        for string, _ in document.strings()
        if len(string) >= SHORTEST_STRING
    }
    for place, text in _unmasked(result):
        for string in private:
            if string.casefold() in text.casefold():
                _fail(type(attack), f"{place} holds personal data, which a report does not mask.")


def _unmasked(result: Result) -> list[tuple[str, str]]:
    """Return the texts of a result that a report shows as they are, each with its place."""
    texts = [("a limit", limit) for limit in result.limits]
    for row in result.measurements:
        texts.append(("a reason", row.reason or ""))
        texts += [(f"the scope {key}", str(value)) for key, value in row.scope.items()]
    for finding in result.findings:
        texts += [("a finding's id", finding.id), ("a finding's label", finding.label)]
        texts += [
            (f"the safe field {name}", json.dumps(finding.evidence.get(name), ensure_ascii=False))
            for name in finding.safe
        ]
    return texts


def _adapters() -> list[Update]:
    """Return a global adapter and those that three clients made of it."""
    import torch

    drawn = torch.Generator().manual_seed(1)
    return [
        {name: torch.randn(shape, generator=drawn) / 4 for name, shape in TENSORS.items()}
        for _ in range(4)
    ]


def _is_close(one: Update, other: Update) -> bool:
    return one.keys() == other.keys() and all(
        bool(((one[name] - other[name]).abs() <= ROUNDING).all()) for name in one
    )


def _check_aggregator(rule: Aggregator) -> None:
    start, *clients = _adapters()
    counts = [10.0, 20.0, 30.0]
    result, state = rule.step(start, clients, counts, {})
    again, _ = rule.step(start, clients[::-1], counts[::-1], {})
    if not rule.merges_each_round and not _is_close(result, again):
        _fail(type(rule), "the order of the clients changes the global adapter.")
    rule.step(result if not rule.merges_each_round else start, clients, counts, state)
    if not all(bool(tensor.isfinite().all()) for tensor in result.values()):
        _fail(type(rule), "the global adapter holds numbers that are not finite.")
    if not rule.merges_each_round:
        moved = rule.moved(start, rule.difference(start, clients[0]))
        if not _is_close(moved, clients[0]):
            _fail(
                type(rule),
                "a client's update moves the global adapter elsewhere than the client did.",
            )


def _check_defense(defense: Defense) -> None:
    documents = [_document(number, *person) for number, person in enumerate(PEOPLE)]
    if defense.prepare(documents) != defense.prepare(documents):
        _fail(type(defense), "prepare gives other documents a second time.")
    if defense.private(documents) != defense.private(documents):
        _fail(type(defense), "private gives other documents a second time.")
    start, trained, *_ = _adapters()
    further = [*defense.private(documents), *defense.auxiliary_adapters]
    sent = defense.upload(start, trained, dict.fromkeys(further, trained))
    if {n: t.shape for n, t in sent.items()} != {n: t.shape for n, t in trained.items()}:
        _fail(type(defense), "upload sends tensors of other names or shapes than were trained.")


def _check_detector(detector: PiiDetector) -> None:
    texts = [_document(number, *person).text for number, person in enumerate(PEOPLE)]
    found = detector.detect(texts)
    if detector.detect(texts[::-1]) != found[::-1]:
        _fail(type(detector), "what it finds in a text depends on the other texts.")
    if not detector.describe().strip():
        _fail(type(detector), "describe says nothing.")


def _check_paraphraser(paraphraser: Paraphraser) -> None:
    texts = [_document(number, *person).text for number, person in enumerate(PEOPLE)]
    pairs = list(pairwise(texts))
    scores = paraphraser.score(pairs)
    again = paraphraser.score(pairs[::-1])[::-1]
    if any(abs(x - y) > ROUNDING for x, y in zip(scores, again, strict=True)):
        _fail(type(paraphraser), "what a pair gets depends on the other pairs.")


def _check_secure_aggregation(protocol: SecureAggregation) -> None:
    protocol.check()
    start, *_ = clients = _adapters()
    most = max(protocol.threshold, 2)
    updates = {f"c{number}": clients[number % len(clients)] for number in range(most + 1)}
    sets = [tuple(updates)[:most], tuple(updates)[1:]]
    for members, got in zip(sets, protocol.sums(updates, sets), strict=True):
        for name in start:
            wanted = sum(updates[member][name] for member in members)
            if bool(((got[name] - wanted).abs() > 1e-3).any()):
                _fail(type(protocol), "a sum is not the sum of its members' updates.")


def _check_watermark(watermark: Watermark) -> None:
    from fedaudit.api.engine import GenerationBatch
    from fedaudit.engine.fake import FakeEngine
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    kind, teacher = type(watermark), LocalEngine(load_base("fedaudit-nano", device="cpu"))
    documents = [_document(number, *person) for number, person in enumerate(PEOPLE)]
    prompts = [document.text for document in documents[4:]]
    secrets = [watermark.issue(teacher, prompts, seed=1, index=index) for index in (0, 0, 1)]
    if secrets[0] != secrets[1]:
        _fail(kind, "issue gives another secret for the same seed and index.")
    if secrets[0] == secrets[2]:
        _fail(kind, "issue gives one secret for two marks.")
    secret = json.loads(json.dumps(secrets[0]))
    if secret != secrets[0]:
        _fail(kind, "a secret changes once JSON has held it.")
    marked = [watermark.embed(secret, documents[:2], teacher, seed=1) for _ in range(2)]
    if marked[0] != marked[1]:
        _fail(kind, "embed marks documents otherwise a second time.")
    engine = FakeEngine(lambda target, prompt, sample: " I do not know about that.")
    questions = watermark.questions(secret, engine)
    batch = GenerationBatch(questions, seed=1, decoding=watermark.decoding)
    answers = engine.generate(Target(name="base"), batch)
    score = watermark.test(secret, answers, engine)
    if len(score.null) != watermark.null_marks:
        _fail(kind, f"test gives {len(score.null)} null marks, not {watermark.null_marks}.")
    if not all(map(math.isfinite, (score.z, *score.null))) or not 0 <= score.p_value <= 1:
        _fail(kind, "a score holds numbers that are not finite, or a p-value outside of 0 to 1.")


class _Folder(ForeignFolder):
    """A folder whose files hold nothing."""

    name = "run"

    def __init__(self, *files: str) -> None:
        self.files = tuple(sorted(files))

    def read_json(self, name: str) -> Any:
        return {}

    def read_table(self, name: str) -> list[list[float]]:
        return []

    def look(self, name: str) -> StateDump:
        return StateDump(keys=(), numbers={}, shapes={}, lora=False, ordered=False)


def _check_importer(importer: Importer) -> None:
    for files in ((), ("notes.txt", "data/records.jsonl"), ("config.json", "model.safetensors")):
        if importer.runs(_Folder(*files)):
            _fail(
                type(importer),
                f"it takes a folder with {', '.join(files) or 'no files'} for a run.",
            )


_BEHAVIOUR: Mapping[str, Callable[[Any], None]] = {
    "aggregation": _check_aggregator,
    "defense": _check_defense,
    "detector": _check_detector,
    "paraphraser": _check_paraphraser,
    "secure aggregation": _check_secure_aggregation,
    "watermark": _check_watermark,
    "importer": _check_importer,
}
