"""The server's ledger, in the federation's folder: which sets were asked for in each round, once.

If estimates of a round are made again by the same design, they reveal nothing new; by another
design they are new equations in the same updates. So a round has one design. Entries are chained by
hashes: a change, or a removal in the middle, is detected; a removal at the end is detected only
where a log of sums names the entry.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution.server import simulation_report
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.config.options import build
from fedaudit.federation import commitments
from fedaudit.federation.commitments import canonical
from fedaudit.federation.folder import Federation
from fedaudit.metrics.attribution.sum_leakage import leakage_bits
from fedaudit.system.documents import check_size
from fedaudit.system.files import atomic_text, read_regular, sha256
from fedaudit.system.locks import locked
from fedaudit.system.numbers import count_of

NAME = "ledger.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One round that was asked for, in one line of the ledger."""

    round: int
    run: str
    asked: str
    """When the round was asked for, by the server's clock."""
    design: str
    """The SHA-256 of each client's sets, or of the shared sets, and of the weights in the sums."""
    seed: str
    """The SHA-256 of the seed that the sets were drawn with."""
    secure_aggregation: str
    protocol: str
    """The protocol of the sets: pairs of sets for each target, or sets that all share."""
    threshold: int
    others: int
    pairs: int
    limit: float
    sums: int
    """The number of sums behind the estimates: 2 K for each estimate, or those that all share."""
    exposure: Mapping[str, Any]
    """What the round's sums leak together: sets, smallest, rank, determined, after."""
    strengths: Mapping[str, float]
    """rho of each client's estimate."""
    dimension: int
    commitments: str = ""
    """The SHA-256 of the commitments that lay in the federation's folder."""
    previous: str = ""
    """The hash of the entry before, empty for none."""
    hash: str = ""
    """The SHA-256 of everything else in this entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerNote:
    """Something else that happened with a federation's sums, in one line of the ledger."""

    event: str
    """HANDED_OVER, or TESTED by `attribute --rounds`."""
    run: str
    time: str
    """By the server's clock."""
    sha256: str
    """The SHA-256 of estimates.json, or of the designs, marks and settings of a test."""
    rounds: tuple[int, ...]
    commitments: str = ""
    """The SHA-256 of the commitments at that time."""
    previous: str = ""
    hash: str = ""


def digest(line: LedgerEntry | LedgerNote) -> str:
    """Return the SHA-256 of a line of the ledger without its field `hash`."""
    return hashlib.sha256(canonical({**asdict(line), "hash": ""})).hexdigest()


HANDED_OVER, TESTED = "handed over", "tested"


def read(folder: Path) -> tuple[LedgerEntry, ...]:
    """Return the rounds in a federation's ledger after checking the chain; none without a ledger.

    Raises InputError for a ledger that was changed.
    """
    return tuple(line for line in _read_lines(folder) if isinstance(line, LedgerEntry))


def notes(folder: Path, event: str, run: str) -> list[LedgerNote]:
    """Return what else the ledger notes of a run, after checking the chain."""
    return [
        line
        for line in _read_lines(folder)
        if isinstance(line, LedgerNote) and (line.event, line.run) == (event, run)
    ]


def _read_lines(folder: Path) -> tuple[LedgerEntry | LedgerNote, ...]:
    path = folder / NAME
    try:
        content = read_regular(path)
        check_size(content, path)
        text = content.decode("utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    entries: list[LedgerEntry | LedgerNote] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = _entry(line, number, path)
        try:
            fits = entry.hash == digest(entry)
        except ValueError:  # a number that is not finite
            fits = False
        if not fits:
            raise InputError(f"{path}: entry {number} was changed: its hash does not fit it.")
        if entry.previous != (entries[-1].hash if entries else ""):
            raise InputError(f"{path}: an entry before entry {number} was changed or taken out.")
        entries.append(entry)
    if not entries:
        raise InputError(f"{path} is empty: its entries were taken out.")
    return tuple(entries)


def _entry(line: str, number: int, path: Path) -> LedgerEntry | LedgerNote:
    try:
        table = json.loads(line)
        kind: type[LedgerEntry | LedgerNote] = LedgerNote if "event" in table else LedgerEntry
        entry = build(kind, table, f"entry {number}")
        if asdict(entry).keys() == table.keys():
            return entry
    except (ValueError, TypeError, RecursionError, UsageError):
        pass
    raise InputError(f"{path}: line {number} is not an entry of a ledger.")


def first_request(federation: Federation, run: str) -> str:
    """Return when a federation's first sum was asked for, by its files; now if none was.

    Stored sums were asked for while the federation ran, so its start time is returned for them, or
    "" if no file states it. A test by `attribute --rounds` asks for sums, too.
    """
    if any(r.sums for r in federation.manifest.rounds):
        return simulation_report.start_time(federation)
    lines = (line for line in _read_lines(federation.path) if line.run == run)
    asked = [line.asked if isinstance(line, LedgerEntry) else line.time for line in lines]
    times = [(time, text) for text in asked if (time := commitments.parse_time(text))]
    return min(times)[1] if times else _now()


def noted_commitments(folder: Path, run: str) -> str:
    """Return the SHA-256 of the commitments in a federation's folder that the ledger noted first.

    The result is empty without a ledger, or if there were no commitments at any sum.
    """
    noted = (entry.commitments for entry in read(folder) if entry.run == run)
    return next(filter(None, noted), "")


def commitments_at_first_sum(folder: Path, run: str) -> str | None:
    """Return the SHA-256 of the commitments that the ledger noted with the first sum.

    The result is empty if there were no commitments then, None if no sum was asked for yet.
    """
    first = next((line for line in _read_lines(folder) if line.run == run), None)
    return first.commitments if first else None


def add_note(
    folder: Path, event: str, run: str, sha: str, rounds: Sequence[int], public: Path | None
) -> None:
    """Append a note to a federation's ledger, unless its last note of that event is the same.

    `public` are the commitments in use. Raises InputError if the ledger cannot be written.
    """
    last = notes(folder, event, run)
    note = LedgerNote(
        event=event,
        run=run,
        time=_now(),
        sha256=sha,
        rounds=tuple(rounds),
        commitments=sha256(public) if public and public.is_file() else "",
    )
    if last and replace(last[-1], time="", previous="", hash="") == replace(note, time=""):
        return
    with _writing(folder) as entries:
        _append(folder, entries, note)


def is_writable(folder: Path) -> bool:
    """Return whether a ledger in the folder could be written: not so on a read-only medium."""
    return os.access(folder, os.W_OK)


@contextmanager
def _writing(folder: Path) -> Iterator[tuple[LedgerEntry | LedgerNote, ...]]:
    """Keep other processes from writing to the ledger, and yield its lines."""
    if not is_writable(folder):
        raise InputError(
            f"{folder} is read-only: no estimates are made where its {NAME} cannot record the sets."
        )
    wait = f"Another process is writing to {folder / NAME}; wait until it has finished."
    with locked(folder, wait, of=NAME):
        yield _read_lines(folder)


_Line = TypeVar("_Line", LedgerEntry, LedgerNote)


def _append(folder: Path, lines: Sequence[LedgerEntry | LedgerNote], new: _Line) -> _Line:
    new = replace(new, previous=lines[-1].hash if lines else "")
    new = replace(new, hash=digest(new))
    text = [json.dumps(asdict(line), allow_nan=False) + "\n" for line in (*lines, new)]
    atomic_text(folder / NAME, "".join(text), mode=0o600)
    return new


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def design_of(plan: SumPlan, number: int) -> str:
    """Return the SHA-256 of a round's design: the sets of each client, and the weights."""
    weights = plan.weights
    participants = plan.federation.manifest.rounds[number].participants
    table = {
        "round": number,
        **plan.designs[number].identity(),
        "weights": {name: weights[name] for name in participants},
    }
    return hashlib.sha256(canonical(table)).hexdigest()


def check(plan: SumPlan, run: str, logged: Sequence[Any] = ()) -> tuple[LedgerEntry, ...]:
    """Return the ledger, after checking that no round was asked for with another design.

    `logged` are the entries of a log of sums, which name entries of the ledger. Raises InputError
    for another design, and for a ledger that was changed or belongs to another run.
    """
    path = plan.federation.path / NAME
    lines = _read_lines(plan.federation.path)
    entries = tuple(line for line in lines if isinstance(line, LedgerEntry))
    if any(line.run != run for line in lines):
        raise InputError(f"{path} is the ledger of another run.")
    hashes = {e.hash for e in entries}
    for entry in logged:
        if (name := entry.get("ledger", "")) and name not in hashes:
            raise InputError(f"{path} was cut: the log names an entry of round {entry['round']}.")
    for number in plan.designs:
        for entry in entries:
            if entry.round == number and entry.design != design_of(plan, number):
                raise InputError(
                    f"Round {number} was already asked for with other sets ({path}): estimates "
                    "from a second design would give its updates away. Use the earlier "
                    "estimates, or give the same design and --seed, which makes the same ones "
                    "again."
                )
    return entries


def append_entry(
    plan: SumPlan, number: int, run: str, strengths: Mapping[str, float], size: int
) -> LedgerEntry:
    """Return a round's entry, appended to the ledger if missing, before its sums are asked for.

    Raises InputError as `check` does, and if the ledger cannot be written, so that no sum is asked
    for without an entry.
    """
    folder = plan.federation.path
    with _writing(folder) as lines:
        entries = check(replace(plan, designs={number: plan.designs[number]}), run)
        if existing := [e for e in entries if e.round == number]:
            return existing[0]
        return _append(folder, lines, _new(plan, number, run, strengths, size))


def _new(
    plan: SumPlan, number: int, run: str, strengths: Mapping[str, float], size: int
) -> LedgerEntry:
    exposed = plan.exposures((number,))[number]
    public = plan.federation.path / commitments.NAME
    return LedgerEntry(
        round=number,
        run=run,
        asked=_now(),
        design=design_of(plan, number),
        seed=hashlib.sha256(str(plan.seed).encode()).hexdigest(),
        secure_aggregation=plan.secure.name,
        threshold=plan.secure.threshold,
        others=plan.others,
        pairs=plan.pairs,
        limit=plan.limit,
        sums=plan.designs[number].sum_count,
        exposure={
            "sets": exposed.sets,
            "smallest": exposed.smallest,
            "rank": exposed.rank,
            "determined": len(exposed.determined),
            "after": exposed.queries_until_determined,
        },
        strengths=dict(strengths),
        dimension=size,
        commitments=sha256(public) if public.is_file() else "",
        protocol=plan.protocol,
    )


def resume_plan(plan: SumPlan, logged: Sequence[Any]) -> SumPlan:
    """Return the plan with the logged sets in place of newly drawn ones, for a random seed.

    A round that was interrupted, or whose estimates were lost, is asked for again with its old
    sets.
    """
    designs = dict(plan.designs)
    for entry in logged:
        design = designs.get(entry.get("round"))
        if design is None:
            continue
        settings = {**asdict(design.settings), "threshold": plan.secure.threshold}
        if all(entry.get(name) == value for name, value in settings.items()):
            try:
                designs[entry["round"]] = design.from_table(entry["designs"])
            except (KeyError, TypeError, AttributeError, UsageError):
                continue  # not our log: the ledger decides whether the new design may be asked for
    return replace(plan, designs=designs)


def describe_releases(federation: Federation, again: Sequence[int]) -> list[str]:
    """Return lines on the earlier and the new releases, and on their leakage together."""
    entries = read(federation.path)
    lines = [
        f"Round {number} was asked for before with the same sets: its estimates come out the same, "
        "and nothing more is given away."
        for number in again
    ]
    if not entries:
        return lines
    client, bits = max(composed_leakage(entries).items(), key=lambda item: item[1])
    return [
        *lines,
        f"The ledger has {count_of(len(entries), 'round')}, one design each: their estimates "
        f"together tell at most {bits:,.0f} bits of the updates of {client}, the most of any "
        f"client, by the bound for one estimate added up. Its last hash is {entries[-1].hash}.",
    ]


def composed_leakage(entries: Sequence[LedgerEntry]) -> dict[str, float]:
    """Return, by client, the bound in bits on the leakage of its estimates of all rounds.

    A round has one design, however often it was asked for, so its bound counts once; bounds of
    different rounds add up (each is given the past). The bound covers only the client's own
    estimates.
    """
    total: dict[str, float] = defaultdict(float)
    for entry in entries:
        for client, strength in entry.strengths.items():
            total[client] += leakage_bits(strength, entry.dimension)
    return dict(total)
