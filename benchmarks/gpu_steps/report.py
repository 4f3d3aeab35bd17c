"""The results as Markdown: what docs/engine.md says of a GPU."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_steps.state import Results
from gpu_steps.work import Size

Found = Mapping[str, Any]
ABSENT = "-"


def markdown(results: Results, sizes: Sequence[Size]) -> str:
    """Return all tables; a step that has not run shows as a dash."""
    steps = results.steps
    parts = [
        _card(results.about, steps.get("card", {})),
        _correct(steps),
        _speeds(steps, sizes),
        _aims(steps, sizes),
        *_profiles(steps, sizes),
        _reasons(steps),
    ]
    return "\n".join(part for part in parts if part)


def table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rule = ["---"] * len(titles)
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, rule, *lines))


def _number(value: float | None, unit: float = 1.0) -> str:
    """Return three digits of a number, or all before the point."""
    if value is None:
        return ABSENT
    shown = value / unit
    return f"{shown:,.0f}" if shown >= 1000 else f"{shown:.3g}"


def _card(about: Found, card: Found) -> str:
    """Return what was measured on what."""
    lines = [[key, str(value)] for key, value in about.items()]
    for title, key, unit in (
        ("bfloat16 products, TFLOP/s", "bf16_flops_per_second", 1e12),
        ("copy on the device, read and written, GB/s", "copy_bytes_per_second", 1e9),
        ("copy from locked host memory, GB/s", "pinned_bytes_per_second", 1e9),
        ("copy from other host memory, GB/s", "pageable_bytes_per_second", 1e9),
        ("memory, GB", "bytes", 1e9),
    ):
        if key in card:
            lines.append([title, _number(card[key], unit)])
    return table(["machine", ""], lines)


def _correct(steps: Found) -> str:
    """Return how far answers are off from plain transformers'."""
    known = {
        name.partition(".")[2]: one
        for name, one in steps.items()
        if name.startswith("correct.") and "off" in one
    }
    if not known:
        return ""
    first = next(iter(known.values()))
    lines = [
        [what, *(f"{one['off'][what]:.1e}" for one in known.values())] for what in first["off"]
    ]
    lines.append(["tolerance", *(f"{one['tolerance']:.1e}" for one in known.values())])
    lines.append(["correct", *("yes" if one["correct"] else "NO" for one in known.values())])
    return table(["off by at most", *known], lines)


def _speeds(steps: Found, sizes: Sequence[Size]) -> str:
    """Return a column a size."""
    rows: list[tuple[str, str, Callable[[Found], float | None]]] = [
        ("probing, samples/s", "probing", _of("samples_per_second")),
        ("... the first time, s", "probing", _of("first")),
        ("... of more prompts than fit, samples/s", "many", _of("samples_per_second")),
        ("`generate`, one prefix at a time, samples/s", "alone", _of("samples_per_second")),
        ("`generate`, best batch, samples/s", "batched", _of("samples_per_second")),
        ("... prompts in that batch", "batched", _of("prompts_in_a_batch")),
        ("`generate`, static cache, samples/s", "compiled", _of("samples_per_second")),
        ("probing long prompts, TFLOP/s", "long", _of("flops_per_second", unit=1e12)),
        ("scoring, tokens/s", "scoring", _of("tokens_per_second")),
        ("scoring, TFLOP/s", "scoring", _of("flops_per_second", unit=1e12)),
        ("scoring groups, s", "scoring", _of("shared", "seconds")),
        ("... nothing shared, s", "scoring", _of("not_shared", "seconds")),
        ("exact walk, s", "exact", _of("seconds")),
        ("... rows/s", "exact", _of("rows_per_second")),
        ("... sampling instead, s", "exact", _of("sampled", "seconds")),
        ("adapters answer together, s", "adapters", _of("answers", "seconds")),
        ("... in turn, s", "adapters", _of("answers_in_turn", "seconds")),
        ("... reading their files, s", "adapters", _of("read", "seconds")),
        ("LoRA training, tokens/s", "training", _of("tokens_per_second")),
        ("LoRA training, TFLOP/s", "training", _of("flops_per_second", unit=1e12)),
    ]
    rows += [
        (f"{name}: peak memory, GB", name, _of("peak_bytes", unit=1e9))
        for name in ("probing", "batched", "long", "scoring", "exact", "training")
    ]
    lines = [
        [title, *(_number(get(steps.get(f"{size.name}.{step}", {}))) for size in sizes)]
        for title, step, get in rows
    ]
    return table(["", *(size.name for size in sizes)], lines)


def _of(*path: str, unit: float = 1.0) -> Callable[[Found], float | None]:
    """Return what looks up a number below its keys; None where there is none."""

    def get(found: Any) -> float | None:
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return None if found is None else found / unit

    return get


def _aims(steps: Found, sizes: Sequence[Size]) -> str:
    """Return what was aimed at, and what is reached by each size."""
    rate, best = _of("samples_per_second"), _of("bf16_flops_per_second")(steps.get("card", {}))

    def against(peer: str) -> Callable[[str], float | None]:
        return lambda size: _ratio(
            rate(steps.get(f"{size}.probing", {})), rate(steps.get(f"{size}.{peer}", {}))
        )

    def share(size: str) -> float | None:
        return _ratio(_of("flops_per_second")(steps.get(f"{size}.long", {})), best)

    def adapters(size: str) -> float | None:
        return _of("answers_ratio")(steps.get(f"{size}.adapters", {}))

    rows = (
        ("probing / one prefix at a time", "at least 10", against("alone")),
        ("probing / `generate` at its best batch", "at least 3", against("batched")),
        ("probing / `generate`, static cache", "", against("compiled")),
        ("share of the card's rate, long prompts", "at least 0.4", share),
        ("adapters together / in turn", "at most 0.6", adapters),
    )
    lines = [[title, aim, *(_number(get(size.name)) for size in sizes)] for title, aim, get in rows]
    return table(["ratio", "aim", *(size.name for size in sizes)], lines)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _profiles(steps: Found, sizes: Sequence[Size]) -> list[str]:
    kinds = {"profile": "Probing of", "long profile": "Probing of long prompts by"}
    known = [
        (f"{title} {size.name}", steps.get(f"{size.name}.{kind}", {}))
        for kind, title in kinds.items()
        for size in sizes
    ]
    return [_profile(title, found) for title, found in known if "host" in found]


def _profile(title: str, found: Found) -> str:
    """Return where the time of probing goes."""
    busy = "" if found["device_busy"] is None else f", the card busy {found['device_busy']:.0%}"
    head = (
        f"{title}: {found['seconds']:.3f} s under the profiler{busy}; {found['waits']} "
        f"waits, {found['copies']} copies and {found['launches']} launches "
        f"for {found['steps']} tokens.\n\n"
    )
    lines = [
        [place, f"`{one['name']}`".replace("|", " "), f"{one['seconds']:.4f}", str(one["count"])]
        for place in ("device", "host")
        for one in found[place][:6]
    ]
    return head + table(["where", "what", "s", "calls"], lines)


def _reasons(steps: Found) -> str:
    """Return which steps were skipped or failed, and why."""
    known = [
        f"- {name}: {kind}, {one[kind]}\n"
        for name, one in steps.items()
        for kind in ("skipped", "failed")
        if kind in one
    ]
    return "".join(known)
