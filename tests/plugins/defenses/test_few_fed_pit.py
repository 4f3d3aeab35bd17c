"""A federation with self-made examples: what is trained on what, and what leaves a client."""

import json
import stat

import pytest
import torch
from fedaudit_plugins.defenses.self_generation.generation import SimilarityIndex, whole_text

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import TEMPLATES
from fedaudit.config.options import build
from fedaudit.data import corpus
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import prepare, simulate

SETTINGS = {
    "clients": 2,
    "rounds": 2,
    "held_out": 0,
    "central": False,
    "workers": 1,
    "template": "alpaca",
    "device": "cpu",
    "partition": {"method": "iid"},
    "training": {
        "steps": 2,
        "batch_size": 2,
        "rank": 2,
        "alpha": 4,
        "learning_rate": 1e-2,
        "decay": "none",
        "max_length": 192,
        "targets": ["q_proj"],
    },
}
QUICK = {
    "candidates": 2,
    "keep": 2,
    "asked": 2,
    "shown": 2,
    "demonstrations": 2,
    "instruction_tokens": 32,
    "answer_tokens": 72,
}
CLIENTS = ("c0", "c1")


def records(word, count=8):
    """Return instruction records, every second one with an input; all hold `word`."""
    return [
        {
            "id": f"r{n}",
            "instruction": f"Tell the {word} what Ann {n} owes.",
            "input": f"{word} {n}: Ann owes {n} pounds." if n % 2 else "",
            "output": f"The {word} says {n} pounds.",
        }
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with data files to train on and to draw from."""
    folder = tmp_path_factory.mktemp("few_fed_pit")
    for name, word in (("bank", "bank"), ("court", "court"), ("public", "office")):
        lines = "".join(json.dumps(record) + "\n" for record in records(word))
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def run(place):
    """Simulate under a defence with options, each choice once; return folder and result."""
    done = {}

    def simulated(name="", data="bank", out="", listener=lambda event: None, **options):
        table = {**QUICK, **options} if name else {}
        defenses = [{"name": name, **table}] if name else []
        settings = {**SETTINGS, "data": str(place / f"{data}.jsonl"), "defenses": defenses}
        settings |= {key: table.pop(key) for key in ("rounds", "workers") if key in table}
        if defenses:
            settings["defenses"] = [{"name": name, **table}]
        key = out or f"run-{json.dumps([name, data, options], sort_keys=True)}"
        if key not in done:
            folder = place / (out or f"run{len(done)}")
            config = build(Simulation, settings, "test")
            done[key] = folder, simulate(config, folder, listener=listener)
        return done[key]

    return simulated


def bytes_of(folder, below="rounds"):
    """Return the bytes of every adapter below a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / below).rglob("*.safetensors"))
    }


def test_alpha_1_is_plain_federated_tuning_to_the_byte(run):
    plain, _ = run()
    mixed, result = run("few_fed_pit", alpha=1.0, rounds=1)
    first = bytes_of(mixed)
    assert first.items() <= bytes_of(plain).items()
    assert len(first) == 1 + 3
    assert not (mixed / "private").exists()
    assert "few_fed_pit: alpha is 1, so no example was made up." in result.limits
    assert not [row for row in result.measurements if row.metric == "dropped"]


def test_the_private_adapter_is_the_one_of_plain_tuning_and_only_the_mixture_is_sent(run):
    plain, _ = run()
    mixed, _ = run("few_fed_pit", alpha=0.25)
    for client in CLIENTS:
        own = adapters.read(mixed / f"private/{client}/own/001")
        same = adapters.read(plain / f"rounds/001/clients/{client}")
        assert all(torch.equal(own[name], same[name]) for name in same)
        public = adapters.read(mixed / f"private/{client}/public/001")
        sent = adapters.read(mixed / f"rounds/001/clients/{client}")
        assert any(not torch.equal(own[name], sent[name]) for name in own)
        for name, tensor in sent.items():
            torch.testing.assert_close(tensor, 0.25 * own[name] + 0.75 * public[name])


def test_both_begin_every_round_with_the_global_adapter(run):
    """Without a step away from it, they would be it: the first step's size tells the start."""
    mixed, _ = run("few_fed_pit", alpha=0.25)
    for number in (1, 2):
        start = adapters.read(mixed / f"rounds/{number - 1:03d}/global")
        for name in ("own", "public"):
            trained = adapters.read(mixed / f"private/c0/{name}/{number:03d}")
            moved = max(float((trained[key] - start[key]).abs().max()) for key in start)
            # Adam moves no number by much more than the rate in a step; there are two.
            assert 0 < moved < 2.5e-2
    first, second = (adapters.read(mixed / f"private/c0/own/{n}") for n in ("001", "002"))
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_nothing_that_the_server_sees_names_or_holds_what_a_client_keeps(run):
    mixed, result = run("few_fed_pit", alpha=0.25)
    manifest = open_federation(mixed).manifest
    assert "private/c1/own/002/adapter_model.safetensors" in manifest.files
    assert "private/c1/turn/001/statistics.json" in manifest.files
    for one in manifest.rounds:
        assert all("private" not in at for at in (one.adapter, *one.clients.values()))
    seen, kept = bytes_of(mixed), bytes_of(mixed, "private")
    assert not set(seen.values()) & set(kept.values())
    for path in (mixed / "private", *(mixed / "private").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert result.manifest.status == "complete"


def test_what_is_trained_on_is_like_no_local_example(run):
    mixed, result = run("few_fed_pit", alpha=0.25)
    form = TEMPLATES["alpaca"]
    count = 0
    for client in CLIENTS:
        local = SimilarityIndex(
            whole_text(one) for one in corpus.read(mixed / f"data/{client}.jsonl", form)
        )
        for number in ("001", "002"):
            folder = mixed / f"private/{client}/turn/{number}"
            lines = (folder / "public.jsonl").read_text().splitlines()
            made = [json.loads(line) for line in lines]
            count += len(made)
            for one in corpus.read(folder / "public.jsonl", form) if made else ():
                assert local(whole_text(one)) <= 0.7
                assert one.text == form.prompt(one.instruction, one.input) + one.output
    rows = [r for r in result.measurements if r.metric == "kept"]
    assert [row.scope["round"] for row in rows] == [1, 2]
    assert count == sum(row.scope["mean"] * row.scope["clients"] for row in rows) > 0


def test_the_report_says_what_every_filter_dropped(run):
    mixed, result = run("few_fed_pit", alpha=0.25)
    whole_run = {
        row.scope["filter"]: row
        for row in result.measurements
        if row.metric == "dropped" and "round" not in row.scope
    }
    files = [json.loads(path.read_text()) for path in mixed.rglob("statistics.json")]
    assert len(files) == 4
    asked = sum(one["asked"] for one in files)
    assert whole_run["too long"].n == asked > 0
    for name, row in whole_run.items():
        assert row.hits == sum(one["dropped"][name] for one in files)
        assert row.low <= row.value <= row.high
    assert any("clients send 0.25 of the adapter" in limit for limit in result.limits)


def test_a_stopped_run_goes_on_to_the_same_bytes(run):
    whole_run, wanted = run("few_fed_pit", alpha=0.25)

    def stops(event):
        if event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("few_fed_pit", out="stopped", listener=stops, alpha=0.25)
    place, result = run("few_fed_pit", out="stopped", alpha=0.25)
    assert result.resumed_from == 1
    assert result.manifest.files == wanted.manifest.files
    assert bytes_of(place, ".") == bytes_of(whole_run, ".")
    assert result.measurements == wanted.measurements


def test_processes_give_the_same_bytes(run):
    alone, _ = run("few_fed_pit", alpha=0.25)
    together, _ = run("few_fed_pit", alpha=0.25, workers=2, rounds=1)
    first = bytes_of(together, ".")
    assert first.items() <= bytes_of(alone, ".").items()
    assert len(first) == 2 + 2 * 3


def test_alpha_0_depends_on_no_private_text_once_the_examples_are_fixed(run, place):
    source = str(place / "public.jsonl")
    options = {"alpha": 0.0, "source": source, "selection": "random", "rounds": 1}
    one, _ = run("few_fed_pit", data="bank", **options)
    other, _ = run("few_fed_pit", data="court", **options)
    assert (one / "data/c0.jsonl").read_bytes() != (other / "data/c0.jsonl").read_bytes()
    assert bytes_of(one) == bytes_of(other)
    private = bytes_of(one, "private"), bytes_of(other, "private")
    assert (
        private[0]["private/c0/own/001/adapter_model.safetensors"]
        != (private[1]["private/c0/own/001/adapter_model.safetensors"])
    )


def test_public_examples_take_the_place_of_made_up_ones(run, place):
    source = str(place / "public.jsonl")
    options = {"alpha": 0.0, "source": source, "selection": "random", "rounds": 1}
    folder, result = run("few_fed_pit", data="bank", **options)
    lines = (folder / "private/c0/turn/001/public.jsonl").read_text().splitlines()
    assert len(lines) == QUICK["keep"]
    assert all("office" in json.loads(line)["output"] for line in lines)
    assert "few_fed_pit: examples are drawn from public.jsonl." in result.limits


def test_fed_mit_trains_on_both_together_and_sends_that(run):
    mit, _ = run("fed_mit", rounds=1)
    pit, _ = run("few_fed_pit", alpha=0.25)
    for client in CLIENTS:
        sent = adapters.read(mit / f"rounds/001/clients/{client}")
        mixed = adapters.read(mit / f"private/{client}/mixed/001")
        assert all(torch.equal(sent[name], mixed[name]) for name in mixed)
        own = (mit / f"data/{client}.jsonl").read_text().splitlines()
        together = (mit / f"private/{client}/turn/001/mixed.jsonl").read_text().splitlines()
        kept = (pit / f"private/{client}/turn/001/public.jsonl").read_text().splitlines()
        instructions = [json.loads(line)["instruction"] for line in together]
        assert instructions == [json.loads(line)["instruction"] for line in [*own, *kept]]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"alpha": 1.01}, UsageError, "alpha must be from 0 to 1."),
        ({"alpha": -0.01}, UsageError, "alpha must be from 0 to 1."),
        ({"alpha": float("nan")}, UsageError, "takes a finite number, not nan."),
        ({"keep": 3}, UsageError, "candidates must be at least keep."),
        ({"shown": 0}, UsageError, "must be at least 1."),
        ({"selection": "best"}, UsageError, "selection"),
        ({"source": "nowhere.jsonl"}, InputError, "nowhere.jsonl"),
        ({"shown": 5}, InputError, "c0: 4 examples are fewer than the 5 demonstrations"),
    ],
)
def test_bad_options_are_one_line(run, options, error, said):
    with pytest.raises(error, match=said.replace(".", r"\.")) as refused:
        run("few_fed_pit", **options)
    assert "\n" not in str(refused.value)


def test_clients_without_instructions_are_refused_in_one_line(run, place):
    (place / "plain.jsonl").write_text("".join(f'{{"text": "Record {n}."}}\n' for n in range(8)))
    with pytest.raises(InputError, match="c0: no record has an instruction and an output"):
        run("few_fed_pit", data="plain")


def test_without_inputs_or_anything_kept_it_goes_on_and_says_so(run, place):
    bare = [{**record, "input": ""} for record in records("bank")]
    (place / "bare.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bare))
    folder, result = run("few_fed_pit", data="bare", rounds=1, instruction_tokens=1)
    told = "few_fed_pit: no example of c0, c1 has an input, so none is shown with one."
    assert told in result.limits
    [few] = [limit for limit in result.limits if "kept fewer than 2 examples" in limit]
    assert "in 2 of 2 turns (rounds 1)" in few
    start = adapters.read(folder / "rounds/000/global")
    for client in CLIENTS:
        public = adapters.read(folder / f"private/{client}/public/001")
        assert all(torch.equal(public[name], start[name]) for name in start)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"template": "chat"}, "'chat' does not mark where an input"),
        ({"aggregation": "flora"}, "The aggregation flora trains in a way of its own"),
        ({"aggregation": "scaffold"}, "which the defence few_fed_pit leaves as it is"),
        ({"defenses": ["few_fed_pit", "fed_mit"]}, "few_fed_pit and fed_mit both go on"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(tmp_path, changed, said):
    config = build(Simulation, {**SETTINGS, "defenses": ["few_fed_pit"], **changed}, "test")
    with pytest.raises(UsageError, match=said):
        prepare(config, tmp_path / "run")
