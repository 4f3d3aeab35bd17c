"""From a foreign folder to a federation's: the steps of `fedaudit import`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api import templates
from fedaudit.api.errors import InputError
from fedaudit.api.importer import ForeignFederation, ForeignRound
from fedaudit.conversion import bases, configuration, recognition, rederivation, writer
from fedaudit.conversion.source import SourceFolder
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import name_rounds
from fedaudit.system.files import existing_parent, read_json, sha256
from fedaudit.system.locks import locked
from fedaudit.system.names import check_name

LOCK, ROUNDS = ".import.lock", "rounds"
MOST = 10**9
"""The largest number of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What `fedaudit import` was asked to do."""

    source: Path
    out: Path
    layout: str = ""
    base: str = ""
    config: str = ""
    """LoRA's settings, or a file of them, for adapters that come without."""
    template: str = ""
    """The prompt template of records; empty takes that of the framework."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was made of a folder."""

    layout: str
    run: Path
    """The folder that the run was found in."""
    manifest: manifest.Manifest
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that was recognized, and what is in it."""

    layout: str
    run: SourceFolder
    federation: ForeignFederation
    base: str

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every file that an import uses, by its name in the source."""
        every = [move.adapter for move in writer.moves(self.federation)]
        names = {name for one in every for name in (one.weights, one.config) if name}
        return {name: sha256(self.run.place(name)) for name in sorted(names)}


def import_federation(request: ImportRequest) -> Imported:
    """Write the federation in a foreign folder as one of ours; the source stays as it is.

    Raises InputError or UsageError, in one line, for a layout that nobody knows, for what the files
    do not say and nobody has said, and for adapters that no audit could load.
    """
    check_out(request.out)
    return write(find(request, recognition.open_source(request.source)), request)


def write(found: FoundRun, request: ImportRequest) -> Imported:
    """Write a run that was found as a federation into `request.out`."""
    given, form = configuration.parse(request.config), _template(request.template)
    with locked(request.out / LOCK, f"Another process is importing into {request.out}."):
        written = writer.Writer(found.run, request.out, found.base, given)
        written.write(found.federation)
        fits = dict(_fits(found.federation, request.out))
        weights = rederivation.weights_of(list(fits.values()))
        notes = [
            *found.federation.notes,
            *written.notes,
            *_links(found.run),
            *mean_notes(fits, weights),
        ]
        chosen = form or found.federation.template or templates.template("fed_pii")
        if not (form or found.federation.template):
            notes.append(
                f"How records became text is not said: the template {chosen.name} is taken."
            )
        made = _manifest(found, weights, chosen, notes, request.out)
        manifest.write(made, request.out)
    return Imported(found.layout, found.run.path, made, notes)


def check_out(out: Path) -> None:
    """Raise InputError unless a federation can be written to `out`, be it for the second time."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; OUT is a folder.")
    if out.is_dir():
        there = sorted(one.name for one in out.iterdir() if not one.name.startswith("."))
        if set(there) - {ROUNDS}:
            raise InputError(f"{out} holds {there[0]} already: name a new folder.")
    existing_parent(out)


def _template(name: str) -> templates.PromptTemplate | None:
    return templates.template(name) if name else None


def find(request: ImportRequest, source: SourceFolder) -> FoundRun:
    """Return the run in a foreign folder; nothing is written."""
    configuration.parse(request.config), _template(request.template)  # before what takes time
    importer, run = recognition.recognize(source, request.layout)
    found = importer.read(run)
    _check(found, run)
    if not (request.base or found.base or any(_named(found, run))):
        lacking = "" if request.config or not _bare(found) else f" --config {configuration.FORM}"
        also = " and LoRA's settings" if lacking else ""
        raise InputError(
            f"{run.path} does not say what its base is: name it{also} with --base FOLDER{lacking} "
            "(fedaudit import)."
        )
    base = bases.choose(request.base, [found.base] if found.base else _named(found, run), run.path)
    return FoundRun(importer.name, run, found, base)


def _check(found: ForeignFederation, run: SourceFolder) -> None:
    """Raise InputError for rounds and clients that no folder of ours could have."""
    if not found.rounds:
        notes = " ".join(found.notes)
        raise InputError(f"{run.path} holds no round with a global adapter. {notes}".strip())
    before = -1
    for one in found.rounds:
        if not before < one.round < MOST:
            raise InputError(f"{run.path}: round {one.round} stands behind round {before}.")
        before = one.round
        for who in (*one.clients, *one.participants):
            check_name(who, run.path, "the client")


def _bare(found: ForeignFederation) -> bool:
    """Tell whether an adapter comes without a configuration."""
    return not all(move.adapter.config for move in writer.moves(found))


def _named(found: ForeignFederation, run: SourceFolder) -> Iterator[str]:
    """Yield the bases that the adapters' own configurations name."""
    every = {move.adapter.config for move in writer.moves(found)} - {""}
    for name in sorted(every):
        table = read_json(run.place(name), f"There is no {name}.")
        if isinstance(table, dict):
            yield str(table.get("base_model_name_or_path") or "")


def _links(run: SourceFolder) -> list[str]:
    if not run.links:
        return []
    count = len(run.links)
    return ["1 link was not followed." if count == 1 else f"{count:,} links were not followed."]


def _fits(found: ForeignFederation, out: Path) -> Iterator[tuple[int, rederivation.MeanFit]]:
    """Yield each round whose clients' adapters are all there, compared with its global one."""
    for one in found.rounds:
        if not one.clients or set(one.participants or one.clients) - set(one.clients):
            continue
        here = out / ROUNDS / f"{one.round:03d}"
        compared = rederivation.fit(
            here / "global", {who: here / "clients" / who for who in one.clients}
        )
        if compared is not None:
            yield one.round, compared


def mean_notes(
    fits: Mapping[int, rederivation.MeanFit], weights: Mapping[str, float]
) -> Iterator[str]:
    """Yield which global adapters are the mean of their clients', and how far others are off."""
    if not fits:
        return
    good = [number for number, one in fits.items() if one.fits(weights)]
    if good:
        equal = len(set(weights.values())) == 1
        how = "the plain mean of its clients'"
        if not equal:
            how = "the weighted mean of its clients', by weights worked out from these adapters"
        yield f"Checked: in {name_rounds(good)} the global adapter is {how}."
    for number, one in fits.items():
        if number not in good:
            off = one.distance(weights) / one.spread if one.spread else float("inf")
            told = f"{100 * off:,.0f} % of what tells clients apart" if one.spread else "all it is"
            yield (
                f"Round {number}: the global adapter is no mean of its clients' (off by {told}): "
                "another rule, noise, or a file of another round."
            )


def _manifest(
    found: FoundRun,
    weights: Mapping[str, float],
    form: templates.PromptTemplate,
    notes: Sequence[str],
    out: Path,
) -> manifest.Manifest:
    rounds = tuple(_round(one) for one in found.federation.rounds)
    who = sorted({name for one in rounds for name in (*one.participants, *one.clients)}, key=_order)
    total = sum(weights.get(name, 1.0) for name in who)
    return manifest.Manifest(
        status="complete",
        base=bases.describe(found.base),
        clients=tuple(
            manifest.ManifestClient(id=name, examples=0, weight=weights.get(name, 1.0) / total)
            for name in who
        ),
        rounds=rounds,
        aggregation={"name": found.federation.aggregation, "options": {}},
        template=manifest.Template(
            name=form.name, with_input=form.with_input, without_input=form.without_input
        ),
        seeds={},
        files=_hashes(found.federation, out),
        imported={
            "layout": found.layout,
            "files": found.hashes(),
            "notes": list(notes),
        },
    )


def _round(one: ForeignRound) -> manifest.Round:
    here = f"{ROUNDS}/{one.round:03d}"
    return manifest.Round(
        round=one.round,
        adapter=f"{here}/global",
        participants=tuple(one.participants or sorted(one.clients, key=_order)),
        clients={who: f"{here}/clients/{who}" for who in sorted(one.clients, key=_order)},
    )


def _order(name: str) -> tuple[str, int, str]:
    """Order c2 before c10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name


def _hashes(found: ForeignFederation, out: Path) -> dict[str, Any]:
    return {
        f"{move.folder}/{file}": sha256(out / move.folder / file)
        for move in writer.moves(found)
        for file in (adapters.CONFIG, adapters.WEIGHTS)
    }
