"""Which of a member's strings came out, and the verdict on them.

The rows and tests are those of `extract --matrix`, in which this member is each pair's victim. What
depends on the attacker's prompts there (how likely the base says a string) is measured behind the
victim's own prompts here, where its strings are rather more likely.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Finding
from fedaudit.audit import evidence
from fedaudit.audit.access import ModelView, model_views
from fedaudit.audit.fingerprint import compute_fingerprint
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.records import reading_caveats
from fedaudit.audit.run import Audit, AuditPipeline, AuditResults, Tell, Watcher
from fedaudit.extraction import scoring
from fedaudit.extraction.leak_tests import known_rows
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.scoring import ExtractionResult, HitCounter
from fedaudit.extraction.targets import (
    TargetSet,
    alone,
    spellings,
    strings_by_label,
)
from fedaudit.joint import exchange
from fedaudit.joint.asking import limited_plan, model_context
from fedaudit.joint.exchange import ANSWER, ASK, RESULT, SETUP
from fedaudit.joint.inputs import JointInputs, attack_of
from fedaudit.joint.keys import BASE, LITERAL, STRICT, TUNED, Answers, read_answers
from fedaudit.joint.member import Member, fingerprints, read_commitments, receive
from fedaudit.report.document import Report, to_plain, write
from fedaudit.report.redaction import Redactor, user_key
from fedaudit.system import outputs
from fedaudit.system.files import sha256
from fedaudit.system.outputs import check_output

UNKNOWN = ("outputs", "whole_words", "outputs_of_base", "prompt")
"""Evidence of a finding that a victim does not learn: only whether a string came out is seen."""
REPORT = "report.json"


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """What a member learns from another one."""

    answers: Answers
    known: Mapping[str, tuple[float, int]]
    """Of its own strings, how many it drew, by label."""
    prefixes: int
    base: str
    """The SHA-256 of the base that it asked."""


def read_attackers(member: Member) -> dict[str, Attacker]:
    """Return what the other members' files tell a member of its strings, by their names.

    Raises InputError for a file that is missing or not signed by its sender.
    """
    commitments = read_commitments(member.folder)
    own = receive(member.folder, ASK, member.name, commitments)
    strings = sorted({*member.strings, *member.controls})
    attackers = {}
    for name in commitments.keys() - {member.name}:
        asked = receive(member.folder, ASK, name, commitments)
        answer = receive(member.folder, ANSWER, name, commitments, member.name)
        if answer.body["request"] != own.digest:
            raise InputError(f"{name} has answered another request than {member.name}'s last one.")
        common = member.asker.common(member.asked, asked.bins(SETUP), answer.bins(ANSWER))
        attackers[name] = Attacker(
            answers=read_answers(strings, common),
            known={label: (hits, n) for label, (hits, n) in asked.body["known"].items()},
            prefixes=asked.body["prefixes"],
            base=asked.body["base"],
        )
    return dict(sorted(attackers.items()))


def pair_targets(member: Member, attackers: Mapping[str, Attacker], attacker: str) -> TargetSet:
    """Return the member's strings that an attacker does not have, and control strings."""
    attack, documents = attack_of(member.request), member.inputs.ours.documents
    held = {name: one.answers.held for name, one in attackers.items()}
    labels = {s: k for s, k in member.strings.items() if s not in held[attacker][LITERAL]}
    shared = {
        name: frozenset(labels.keys() & strings[STRICT])
        for name, strings in held.items()
        if name != attacker
    }
    forms = spellings(labels)
    free = {form for form, string in forms.items() if string not in held[attacker][STRICT]}
    everywhere = frozenset[str]().union(*(strings[STRICT] for strings in held.values()))
    return TargetSet(
        labels=labels,
        victim=documents,
        disjointness=attack.disjoint,
        alone=alone(forms, free, shared),
        controls={s: k for s, k in member.controls.items() if s not in everywhere},
        shared=shared,
        donors=strings_by_label(documents),
    )


@dataclass(kw_only=True)
class CountingPipeline(AuditPipeline[JointInputs]):
    """Scores what came out of the model for every attacker."""

    member: Member
    attackers: Mapping[str, Attacker]

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the member's documents and the controls, which are annotated."""
        return [file for file in (self.inputs.ours, self.inputs.control) if file]

    def measure(self, engine: Engine) -> AuditResults:
        """Score every attacker."""
        [view] = model_views(engine, self.audited, ())
        context, measured = model_context(self.inputs, view, self.watch)
        attack = attack_of(self.request)
        plan = limited_plan(self.inputs, attack, context)
        results = [
            self._result(name, replace(plan, size=one.prefixes), context, view)
            for name, one in self.attackers.items()
        ]
        documents = self.inputs.ours.documents
        names = [*self.attackers, self.member.name]
        results = evidence.mask_results(results, documents, self.redactor, names)
        return AuditResults(results=results, usage={}, **measured)

    def _result(
        self, name: str, plan: QueryPlan, context: AttackContext, view: ModelView
    ) -> Result:
        """Return what an attacker, who asked as many prefixes as `plan` has, drew."""
        attack, one = attack_of(self.request), self.attackers[name]
        documents = self.inputs.ours.documents
        target_set = pair_targets(self.member, self.attackers, name)
        victim_context = replace(context, attacker=(), victim=documents)
        pair = {"attacker": name, "victim": self.member.name}
        if not target_set.labels:
            result = scoring.empty_result(attack.name, replace(victim_context, attacker=documents))
            return replace(view, scope=pair).add_scope(result)

        def hits(model: str) -> HitCounter:
            drawn = one.answers.drawn
            return _counter(target_set, attack.samples, drawn[model, LITERAL], drawn[model, STRICT])

        extraction = ExtractionResult(
            plugin=attack.name,
            target_set=target_set,
            tuned=hits(TUNED),
            base=hits(BASE) if context.base else None,
            size=one.prefixes,
            samples=attack.samples,
            greedy=not attack.temperature,
        )
        scored = scoring.score_extraction(extraction, victim_context, plan, attack.query_params)
        kinds = set(target_set.labels.values())
        counts = {label: count for label, count in one.known.items() if label in kinds}
        known = known_rows(
            attack.name, counts, {target_set.labels[s] for s in target_set.exclusive}
        )
        result = Result(
            measurements=(*scored.measurements, *known),
            findings=tuple(map(_without_unknown, scored.findings)),
            limits=scored.limits,
            revealed=scored.revealed,
        )
        return replace(view, scope=pair).add_scope(result)

    def caveats(self) -> list[str]:
        """Return the caveats from reading the files, and what a joint audit leaves open."""
        return [
            *reading_caveats(list(self.annotate_files())),
            "The other members' sets are as they said: a member that drew less, or left something "
            "out, is not seen (docs/joint.md).",
        ]


def _counter(
    target_set: TargetSet, samples: int, literal: Collection[str], strict: Collection[str]
) -> HitCounter:
    """Return a counter with one answer for each string that came out: how many is not known.

    With one answer each, intervals are the widest and tests the most careful.
    """
    counter = HitCounter(target_set, samples)
    sought = target_set.labels.keys() | target_set.controls.keys()
    for string in sorted(sought & set(literal)):
        counter.counts[string] = counter.prompts[string] = 1
        counter.budget_curve.add(string, start=0, draw=0)
    counter.strict.update(sorted(sought & set(strict)))
    return counter


def _without_unknown(finding: Finding) -> Finding:
    kept = {name: value for name, value in finding.evidence.items() if name not in UNKNOWN}
    return replace(finding, evidence=kept)


def count(member: Member, watch: Watcher, tell: Tell) -> Audit:
    """Write the member's report, which stays with it, and return it.

    Raises InputError if a file of another member is missing, if it asked another base, or if what
    is in the place of the report or the result was not written by this step.
    """
    attackers = read_attackers(member)
    exchange.check_place(member.folder, RESULT, member.name)
    check_output(member.private / REPORT, outputs.REPORT)
    inputs = member.inputs
    audit = CountingPipeline(
        inputs=inputs,
        fingerprint=compute_fingerprint(inputs),
        redactor=lambda: Redactor(user_key()),
        watch=watch,
        tell=tell,
        member=member,
        attackers=attackers,
    ).run()
    base = audit.report.target["base_sha256"]
    for name, one in attackers.items():
        if one.base != base:
            raise InputError(
                f"{name} asked another base than {member.name} has (SHA-256 {one.base[:12]}, not "
                f"{base[:12]})."
            )
    write(audit.report, member.private / REPORT)
    return audit


def send_result(member: Member, report: Report, *, counts: bool) -> Path:
    """Write the file with a member's verdict and, with `counts`, how many strings came out."""
    table = report.to_json()
    body: dict[str, Any] = {
        "commitments": fingerprints(read_commitments(member.folder)),
        "report": sha256(member.private / REPORT),
        "verdict": {name: table["verdict"][name] for name in ("status", "rule")},
        "rows": None,
        "findings": [],
        "limits": [],
    }
    if counts:
        body["rows"] = to_plain(list(report.measurements), "measurements")
        body["findings"] = [
            {"id": one["id"], "severity": one["severity"], "label": one["label"],
             "measurement": one["measurement"]}
            for one in table["findings"]
        ]  # fmt: skip
        body["limits"] = list(report.limits)
    return member.send(RESULT, body, {})
