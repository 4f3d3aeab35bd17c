"""Profiles: a paper's federation, study, claims and published figures as one TOML file."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.config.options import build, merge_tables
from fedaudit.config.profile_tables import expand_figures, expand_study
from fedaudit.system.documents import parse_toml
from fedaudit.system.files import read_regular
from fedaudit.system.names import check_name

State = Literal["measured", "not at this scale", "not covered"]

BEYOND = "beyond the paper"
"""The source of a claim that is not the paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageEntry:
    """A table, a figure or a passage of the paper, and what becomes of it here."""

    source: str
    """"table 3", "figure 2", or whatever else claims name as their source."""
    what: str
    """What it shows, in a few words."""
    state: State = "measured"
    """How a measurement came out is left to the studies: benchmarks/coverage.py derives it."""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.state != "measured" and not self.reason:
            raise ValueError(f"{self.source} is {self.state}: say why, reason = ...")


def sources(text: str) -> list[str]:
    """Return the parts of a source: "section 5, figure 3 (a)" is of section 5 and of figure 3."""
    return [re.sub(r" \([a-z]\)$|(?<=\d)[a-z]$", "", source) for source in text.split(", ")]


@dataclass(frozen=True, slots=True)
class PaperCoverage:
    """A paper's tables and figures with the claims (source by id) and figures (sources) of it."""

    covered: Sequence[CoverageEntry]
    claims: Mapping[str, str]
    figures: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse a list that contradicts the claims or figures; an empty list never does."""
        for mistake in self._mistakes() if self.covered else ():
            raise ValueError(mistake)

    def claims_of(self, entry: CoverageEntry) -> list[str]:
        """Return the claims about a source."""
        return [name for name, source in self.claims.items() if entry.source in sources(source)]

    def figures_of(self, entry: CoverageEntry) -> int:
        """Return how many published figures of a source stand beside ours."""
        return sum(entry.source in sources(source) for source in self.figures)

    def _mistakes(self) -> Iterator[str]:
        listed = Counter(entry.source for entry in self.covered)
        yield from (f"coverage has {name} twice." for name, n in listed.items() if n > 1)
        named = [(f"claim {name}", source) for name, source in self.claims.items()]
        for subject, source in [*named, *(("a figure", source) for source in self.figures)]:
            if source != BEYOND and not listed.keys() & {*sources(source)}:
                yield f"{subject} is about {source}, which coverage does not have."
        yield from _gaps(listed)
        for entry in self.covered:
            yield from self._disagreements(entry)

    def _disagreements(self, entry: CoverageEntry) -> Iterator[str]:
        something = bool(self.claims_of(entry) or self.figures_of(entry))
        if entry.state == "measured" and not something:
            yield f"{entry.source} is measured, but no claim and no figure is about it."
        if entry.state == "not covered" and something:
            yield f"{entry.source} is not covered, but a claim or a figure is about it."


def _gaps(listed: Collection[str]) -> Iterator[str]:
    """Yield tables and figures that are missing below the highest number."""
    for kind in ("table", "figure"):
        numbers = {int(n) for name in listed for n in re.findall(rf"^{kind} (\d+)$", name)}
        missing = set(range(1, max(numbers, default=0))) - numbers
        yield from (f"coverage lacks {kind} {number}." for number in sorted(missing))


PACKAGE = "fedaudit_profiles"
LONGEST = 2**20
"""The most bytes of a profile; the largest that is shipped has about 50,000."""


EVERYBODY, OTHERS = "*", "others"
"""Victims that are several clients: all of them, and all but the attacker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One federation of a study and the attacks on it."""

    name: str
    simulate: Mapping[str, Any] = field(default_factory=dict)
    """Settings over those of the scale."""
    scale: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings over these at one scale: as many clients as the paper has, for example."""
    attacks: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the attacks and of the ways of attribution, by name."""
    scale_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By scale, options over these: the paper's number of questions or texts, for example. Those
    under the name `memorize` are over that table's."""
    contaminated: float = 0.0
    """The share of the records' cases that the base was trained on before the federation."""
    attribution: tuple[str, ...] = ()
    """The ways by which a watermark is attributed to clients; without any it is not."""
    memorize: Mapping[str, Any] | None = None
    """How cross-client memorization is measured, the options of `fedaudit memorize`; an empty table
    is its defaults, and without one it is not measured."""
    infer: Mapping[str, Any] | None = None
    """How the victim's masked personal data is inferred from candidates, the options of `ranking`,
    by attacker and victim as the attacks are; without one it is not."""
    exposure: bool = False
    """Whether to measure the exposure of the canaries that the federation was simulated with."""
    pool: str = ""
    """Variants that differ in their seed alone share this name, under which they count together."""
    attacker: str = "c0"
    victim: str = "c1"
    """A client, "*" for the records of all clients together, or "others" for all but the
    attacker's."""
    copies: bool = False
    """Whether the attacks are on the victim's records by how many copies of each are trained on,
    one after the other: rows say `copies`. Canaries are left out."""
    clients: tuple[str, ...] = ()
    """Clients each of which is attacked about its own documents, in place of attacker and victim;
    "*" is all of them. Measurements are also pooled over them, as client "all"."""
    corpora: tuple[str, ...] = ()
    """With `clients`: attack each about its records of one corpus after the other."""
    keys: tuple[str, ...] = ()
    """The kinds of key to ask a deployed defence under; all without any."""
    round: int = -1
    """The round whose adapter is attacked; -1 is the last."""
    trace: int = 0
    """How many rounds' adapters are attacked instead, spread evenly, the last among them: rows say
    which `round`, and what share of the rounds had `passed`."""
    model: Literal["global", "central", "local"] = "global"
    """Which model is attacked: the federation's; the one trained on all documents in one place,
    where the federation is simulated with `central`; or, with `clients`, each one's own, where it
    is simulated with `local`."""
    matrix: bool = False
    """Whether every client attacks every other one, in place of attacker and victim."""
    quick: bool = False
    """Whether `reproduce --quick` runs it."""
    only: str = ""
    """The one scale at which it is run, where two cores would take too long; empty for all."""

    def __post_init__(self) -> None:
        if not 0 <= self.contaminated <= 1:
            raise ValueError("contaminated must lie between 0 and 1.")
        if self.trace < 0 or (self.trace and self.round >= 0):
            raise ValueError("trace must be at least 0, and goes without round.")
        if self.infer is not None and (self.has_several_victims or self.model == "local"):
            raise ValueError("infer is about one victim, and of the global or the central model.")
        if self.model == "local" and not self.clients:
            raise ValueError('model = "local" needs clients, each of which has its own.')
        if self.copies and (self.clients or self.matrix):
            raise ValueError("copies goes with an attacker and a victim.")
        if self.victim == OTHERS and not self.copies:
            raise ValueError('victim = "others" goes with copies.')

    @property
    def has_several_victims(self) -> bool:
        """Whether the records attacked are those of several clients together."""
        return self.victim in (EVERYBODY, OTHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Which measurement one side of a claim means."""

    variant: str
    metric: str
    plugin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A finding of the paper as data: left (compare) factor * right + margin."""

    id: str
    source: str
    statement: str
    left: Select
    compare: Literal[">", ">=", "<", "<="]
    right: Select | float = 0.0
    factor: float = 1.0
    margin: float = 0.0
    apart: bool = True
    """Whether the claim stays open where the interval of the left value reaches that of the right
    one, or holds the number on the right, or is missing: the order may be chance."""
    paired: bool = False
    """Whether the two values are of the same federations, so that the seeds' differences are judged
    in place of two intervals: the claim stays open where their 95 % interval holds 0, and with a
    single seed, which has none."""
    something: bool = False
    """Whether the claim stays open where both sides are 0: nothing was found on either, which does
    not tell which has more."""

    def __post_init__(self) -> None:
        if self.paired and not (self.apart and isinstance(self.right, Select)):
            raise ValueError("paired is for two measured values, and goes without apart.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A figure of the paper, to stand beside ours."""

    source: str
    what: str
    metric: str
    value: float
    variant: str = ""
    plugin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffColumn:
    """A column of the table that sets a study's variants beside each other."""

    title: str
    metric: str
    plugin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)
    better: Literal["lower", "higher"] = "lower"
    axis: bool = False
    """Whether the column is one of the two axes of the Pareto front."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile; `scale` holds the simulation's settings by scale."""

    name: str
    title: str = ""
    paper: str = ""
    scale: Mapping[str, Any]
    like: Mapping[str, str] = field(default_factory=dict)
    """By scale, another scale: its settings apply where the first has none of its own, and its
    variants run at the first too."""
    study: tuple[Variant, ...] = ()
    claims: tuple[Statement, ...] = ()
    figures: tuple[Published, ...] = ()
    tradeoffs: tuple[TradeoffColumn, ...] = ()
    """What each variant gives away, is worth and costs, as columns of one table."""
    coverage: tuple[CoverageEntry, ...] = ()
    """Every table and figure of the paper, and what becomes of it, where someone listed them."""
    tuned_seeds: tuple[int, ...] = ()
    """Seeds that settings were chosen with: no claim is judged on them."""

    def __post_init__(self) -> None:
        for scale, table in self.scale.items():
            if not isinstance(table, Mapping):
                raise ValueError(f"scale.{scale} must be a table, [scale.{scale}].")
        for name in {*self.like, *self.like.values()} - self.scale.keys():
            raise unknown_name_error("scale in like", name, self.scale)
        for scale, parent in self.like.items():
            if parent in self.like:
                raise ValueError(f"like.{scale}: {parent} is itself like another scale.")
        self._check_names()
        variants = {name for variant in self.study for name in (variant.name, variant.pool) if name}
        for claim in self.claims:
            for side in (claim.left, claim.right):
                if isinstance(side, Select) and side.variant not in variants:
                    raise unknown_name_error(f"variant in claim {claim.id}", side.variant, variants)
        for figure in self.figures:
            if self.study and figure.variant and figure.variant not in variants:
                raise unknown_name_error(
                    f"variant in figure {figure.what}", figure.variant, variants
                )
        if self.tradeoffs and sum(column.axis for column in self.tradeoffs) != 2:
            raise ValueError("two of the tradeoffs must be an axis of the Pareto front.")
        self.covered()

    def _check_names(self) -> None:
        """Refuse names that stand for two things, and scales that the profile does not have."""
        names = {variant.name for variant in self.study}
        for kind, entries in (
            ("variants of the study are named", [variant.name for variant in self.study]),
            ("claims have the id", [claim.id for claim in self.claims]),
            ("tradeoffs have the title", [column.title for column in self.tradeoffs]),
        ):
            for name, count in Counter(entries).items():
                if count > 1:
                    raise ValueError(f"two {kind} {name!r}.")
        for variant in self.study:
            if variant.pool in names:
                raise ValueError(f"the pool {variant.pool!r} has the name of a variant.")
            named = {*variant.scale, *variant.scale_options}
            for scale in {*named, *([variant.only] if variant.only else [])}:
                if scale not in self.scale:
                    raise unknown_name_error(f"scale of variant {variant.name}", scale, self.scale)

    def covered(self) -> PaperCoverage:
        """Return the list of the paper's tables and figures with what is here about each."""
        claims = {claim.id: claim.source for claim in self.claims}
        return PaperCoverage(self.coverage, claims, [figure.source for figure in self.figures])

    def settings(self, scale: str) -> Mapping[str, Any]:
        """Return the simulation's settings at `scale`."""
        if scale not in self.scale:
            raise unknown_name_error(f"scale of profile {self.name}", scale, self.scale)
        return _nearest_first(self.scale, self.scales(scale))

    def variant_settings(self, variant: Variant, scale: str) -> Mapping[str, Any]:
        """Return what a variant sets over the settings at `scale`."""
        return merge_tables(variant.simulate, _nearest_first(variant.scale, self.scales(scale)))

    def variant_at(self, variant: Variant, scale: str) -> Variant:
        """Return a variant with the options that it has at `scale`."""
        options = dict(_nearest_first(variant.scale_options, self.scales(scale)))
        memorize, own = variant.memorize, options.pop("memorize", {})
        return replace(
            variant,
            options=merge_tables(variant.options, options),
            memorize=None if memorize is None else merge_tables(memorize, own),
            scale_options={},
        )

    def runs_at(self, variant: Variant, scale: str) -> bool:
        """Tell whether a variant is run at `scale`."""
        return variant.only in ("", *self.scales(scale))

    def scales(self, scale: str) -> tuple[str, ...]:
        """Return a scale, and behind it the one that it is like, if it is like any."""
        return (scale, self.like[scale]) if scale in self.like else (scale,)


def _nearest_first(tables: Mapping[str, Any], scales: Sequence[str]) -> Mapping[str, Any]:
    """Return the merged settings of all `scales`; where several have one, the first's counts."""
    merged: Mapping[str, Any] = {}
    for scale in reversed(scales):
        merged = merge_tables(merged, tables.get(scale, {}))
    return merged


def shipped_profiles() -> list[str]:
    """Return the names of the profiles that come with fedaudit."""
    names = (file.name for file in files(PACKAGE).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load(name: str) -> Profile:
    """Return a shipped profile by name, or one from a TOML file by path.

    Raises UsageError for an unknown name, InputError for a file that is not a profile.
    """
    if name in shipped_profiles():
        content, where = files(PACKAGE).joinpath(f"{name}.toml").read_bytes(), name
    elif (path := Path(name)).suffix == ".toml" or path.is_file():
        where = str(path)
        try:
            content = read_regular(path, LONGEST)
        except OSError as error:
            raise InputError(f"{path} cannot be read as a profile: {error}.") from None
    else:
        raise unknown_name_error("profile", name, shipped_profiles())
    table = parse_toml(content, f"Profile {where}")
    try:
        profile = parse(table)
    except (ValueError, RecursionError, UsageError) as error:
        raise InputError(f"Profile {where}: {error}") from None
    check_name(profile.name, Path(where), "the profile")  # runs are kept in folders of its name
    return profile


def parse(table: Mapping[str, Any]) -> Profile:
    """Return the profile that a TOML table spells, its matrices and tables of figures expanded."""
    lists = {"study": Variant, "claims": Statement, "figures": Published, "coverage": CoverageEntry}
    expand = {"study": expand_study, "figures": expand_figures}
    sections: dict[str, Any] = {}
    for key, cls in lists.items():
        items = table.get(key, [])
        if not isinstance(items, list):
            raise UsageError(f"{key} must be a list of tables, [[{key}]].")
        entries = expand[key](items) if key in expand else items
        sections[key] = tuple(build(cls, item, key) for item in entries)
    return build(Profile, merge_tables(table, sections), "profile")
