"""Every layout gives the adapters that its framework wrote, by round and client."""

import json

import pytest
import torch
from foreign_layouts import (
    CONFIG,
    GIVEN,
    federatedscope,
    flower_npz,
    flower_pt,
    flowertune,
    make_run,
    nvflare,
    openfedllm,
    peft,
    peft_04,
    peft_folders,
    shepherd,
    trainer,
)

from fedaudit.api.errors import InputError
from fedaudit.conversion.pipeline import ImportRequest, import_federation
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation

RUN = make_run()
EPOCHS = make_run(rounds=(0, 1, 2))
ASKED = {"base": "fedaudit-nano", "config": GIVEN}
"""What a file of weights alone does not say."""


def imported(source, out, **options):
    made = import_federation(ImportRequest(source=source, out=out, **options))
    return made, open_federation(out)


def same(folder, tensors):
    found = adapters.read(folder)
    return found.keys() == tensors.keys() and all(found[n].equal(t) for n, t in tensors.items())


@pytest.mark.parametrize(
    ("write", "layout", "options"),
    [
        (flowertune, "flowertune", {}),
        (lambda run, place: flowertune(run, place, name="{}"), "flowertune", {}),
        (openfedllm, "openfedllm", {}),
        (trainer, "trainer", {}),
        (federatedscope, "federatedscope", ASKED),
        (flower_pt, "flower", ASKED),
        (flower_npz, "flower", ASKED),
        (lambda run, place: peft_folders(run, place, clients=False), "peft", {}),
    ],
    ids=["flowertune", "newer", "openfedllm", "trainer", "fs", "pt", "npz", "peft"],
)
def test_global_adapters_come_through_bit_for_bit(write, layout, options, tmp_path):
    made, federation = imported(write(RUN, tmp_path / "src"), tmp_path / "out", **options)
    assert made.layout == layout
    assert [one.round for one in federation.manifest.rounds] == [1, 2, 3]
    for number, tensors in RUN.whole.items():
        _, folder = federation.adapter(number)
        assert same(folder, tensors)
        config = adapters.check(folder)
        assert (config["r"], config["lora_alpha"], config["peft_type"]) == (4, 16, "LORA")
    assert federation.manifest.base.name == "fedaudit-nano"
    assert len(federation.manifest.base.sha256) == 64


@pytest.mark.parametrize(
    ("write", "run", "names"),
    [
        (shepherd, EPOCHS, "c{}"),
        (peft_folders, RUN, "client_{}"),
    ],
    ids=["shepherd", "peft"],
)
def test_clients_adapters_come_through_bit_for_bit(write, run, names, tmp_path):
    made, federation = imported(write(run, tmp_path / "src"), tmp_path / "out")
    for one in federation.manifest.rounds:
        assert same(federation.path / one.adapter, run.whole[one.round])
        sent = {names.format(client): own for client, own in run.clients[one.round].items()}
        assert list(one.clients) == list(one.participants) == list(sent)
        for who, tensors in sent.items():
            assert same(federation.path / one.clients[who], tensors)
    weights = {one.id: one.weight for one in federation.manifest.clients}
    assert weights == pytest.approx({names.format(0): 0.75, names.format(2): 0.25}, abs=1e-5)
    first, last = min(run.whole), max(run.whole)
    assert f"Checked: in rounds {first} to {last} the global adapter is" in " ".join(made.notes)


def test_clients_of_federatedscope_are_known_by_their_files(tmp_path):
    run = make_run(rounds=(4,))
    source = federatedscope(run, tmp_path / "src", clients=True)
    _, federation = imported(source, tmp_path / "out", **ASKED)
    [only] = federation.manifest.rounds
    assert (only.round, list(only.clients)) == (4, ["c1", "c3"])
    assert same(federation.path / only.clients["c3"], run.clients[4][2])


def test_openfedllm_says_who_took_part_and_how_records_became_text(tmp_path):
    run = make_run(rounds=(2, 4))
    _, federation = imported(openfedllm(run, tmp_path, rounds=5), tmp_path / "out")
    assert [one.participants for one in federation.manifest.rounds] == [("c0", "c2"), ("c0", "c2")]
    assert [one.id for one in federation.manifest.clients] == ["c0", "c2"]
    form = federation.template
    assert form.name == "openfedllm_alpaca"
    assert form.prompt("Who is it?", "").endswith("### Instruction:\nWho is it? \n\n### Response: ")


def test_steps_of_a_clients_trainer_are_no_rounds(tmp_path):
    source = openfedllm(RUN, tmp_path)
    (source / "checkpoint-2/trainer_state.json").write_text("{}")
    made, federation = imported(source, tmp_path / "out")
    assert made.layout == "openfedllm"
    assert [one.round for one in federation.manifest.rounds] == [1, 3]
    assert "checkpoint-2 is left out: openfedllm writes rounds in another form." in made.notes


def test_nvflare_has_the_last_round_alone_and_says_so(tmp_path):
    made, federation = imported(nvflare(RUN, tmp_path / "src"), tmp_path / "out", **ASKED)
    [only] = federation.manifest.rounds
    assert same(federation.path / only.adapter, RUN.whole[2])
    assert "does not say its number: it is imported as round 1." in made.notes[0]
    assert made.notes[1].startswith(
        "best_FL_global_model.pt, which the server judged best, is left"
    )


def test_rank_and_targets_of_named_tensors_need_not_be_said(tmp_path):
    source = flower_pt(RUN, tmp_path / "src")
    _, federation = imported(source, tmp_path / "out", base="fedaudit-nano", config="alpha=16")
    config = adapters.check(federation.adapter(1)[1])
    assert config["r"] == 4
    assert config["target_modules"][0] == "model.layers.0.self_attn.q_proj"
    assert len(config["target_modules"]) == 8


def test_a_configuration_that_lies_beside_the_files_counts(tmp_path):
    source = flower_pt(RUN, tmp_path / "src", name="{}.pt")
    peft(RUN.whole[1], tmp_path / "one")
    (tmp_path / "one/adapter_config.json").rename(source / "adapter_config.json")
    _, federation = imported(source, tmp_path / "out")
    assert adapters.check(federation.adapter(3)[1])["lora_alpha"] == 16


def test_a_file_of_settings_takes_the_place_of_words(tmp_path):
    source, config = flower_npz(RUN, tmp_path / "src"), tmp_path / "lora.json"
    peft(RUN.whole[1], tmp_path / "one")
    (tmp_path / "one/adapter_config.json").rename(config)
    _, federation = imported(source, tmp_path / "out", base="fedaudit-nano", config=str(config))
    assert same(federation.adapter(2)[1], RUN.whole[2])


def test_a_file_without_a_number_is_round_1_and_is_said(tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    torch.save(RUN.whole[1], source / "final_model.pt")
    made, federation = imported(source, tmp_path / "out", **ASKED)
    assert [one.round for one in federation.manifest.rounds] == [1]
    assert made.notes[0] == "final_model.pt does not say its round: it is imported as round 1."


@pytest.mark.parametrize(
    "ranks", [{"r": 16, "rank_pattern": {"[qv]_proj": 4}}, {"rank_pattern": {"down_proj": 32}}]
)
def test_the_rank_of_each_module_is_the_one_that_its_configuration_gives_it(ranks, tmp_path):
    peft(RUN.whole[1], tmp_path / "src/round_1", config=CONFIG | ranks)
    _, federation = imported(tmp_path / "src", tmp_path / "out")
    assert same(federation.adapter(1)[1], RUN.whole[1])


def test_rounds_that_were_not_kept_stay_away(tmp_path):
    run = make_run(rounds=(5, 10, 11))
    _, federation = imported(flowertune(run, tmp_path), tmp_path / "out")
    assert federation.adapter() == (11, federation.path / "rounds/011/global")
    with pytest.raises(Exception, match=r"has rounds 5 and 10 to 11, no round 7\."):
        federation.adapter(7)


def test_a_round_that_was_not_written_whole_is_left_out_and_said(tmp_path):
    source = flowertune(RUN, tmp_path)
    (source / "2025-01-31_12-00-00/peft_3/adapter_model.safetensors").unlink()
    made, federation = imported(source, tmp_path / "out")
    assert [one.round for one in federation.manifest.rounds] == [1, 2]
    assert made.notes[0].startswith("peft_3 is left out: it has no adapter_config.json with")


def lose(name):
    return lambda folder: (folder / name).unlink()


def rename(name):
    weights = adapters.WEIGHTS
    return lambda folder: (folder / weights).rename(folder / name)


def keep(*names):
    def remove_others(folder):
        for file in list(folder.iterdir()):
            if file.name not in names:
                file.unlink()

    return remove_others


@pytest.mark.parametrize(
    ("harm", "half"),
    [
        (lose("adapter_model.safetensors"), "round_3"),
        (lose("adapter_config.json"), "round_3/global"),
        (rename("adapter_model.safetensors.tmp"), "round_3/client_2"),
        (rename("adapter_model.pt"), "round_3/global"),
        (keep("README.md"), "round_3/client_2"),
        (keep(), "round_3"),
        (keep(), "round_3/client_2"),
    ],
)
def test_a_folder_of_peft_that_was_not_written_whole_is_left_out_and_said(harm, half, tmp_path):
    whole = "round_3" if half == "round_3" else "round_3/global"
    for number in RUN.whole:
        peft(RUN.whole[number], tmp_path / "src" / whole.replace("3", str(number)))
        for client, sent in RUN.clients[number].items() if whole != half else ():
            peft(sent, tmp_path / "src" / f"round_{number}/client_{client}")
    harm(tmp_path / "src" / half)
    made, federation = imported(tmp_path / "src", tmp_path / "out")
    last = federation.manifest.rounds[-1]
    assert (last.round, list(last.clients)) == ((3, ["client_0"]) if whole != half else (2, []))
    assert [note for note in made.notes if note.startswith(f"{half} is left out: it ")]


def test_a_folder_of_logs_beside_the_rounds_is_not_spoken_of(tmp_path):
    for number in RUN.whole:
        peft(RUN.whole[number], tmp_path / f"src/round_{number}/global")
    (tmp_path / "src/logs/round_3").mkdir(parents=True)
    (tmp_path / "src/round_3/metrics").mkdir()
    (tmp_path / "src/round_3/metrics/loss.json").write_text("[]")
    made, _ = imported(tmp_path / "src", tmp_path / "out")
    assert not [note for note in made.notes if "left out" in note]


@pytest.mark.parametrize(("name", "said"), [("{}", True), ("peft_{}", False)])
def test_numbers_alone_may_be_clients_which_is_said(name, said, tmp_path):
    made, _ = imported(flowertune(RUN, tmp_path, name=name), tmp_path / "out")
    assert any("if they are clients" in note for note in made.notes) is said


@pytest.mark.parametrize(
    ("whole", "client", "names"),
    [
        ("round_{}/global", "round_{}/clients/{}", ["1", "2"]),
        ("round_{}/global", "round_{}/local/{}", ["local_1", "local_2"]),
        ("rounds/{}/global", "rounds/{}/clients/{}", ["1", "2"]),
        ("round_{}/server", "round_{}/{}", "Clients' folders are called client_1"),
    ],
)
@pytest.mark.parametrize("numbers", [(1,), (1, 2)])
def test_clients_called_by_a_number_alone_are_no_rounds(whole, client, names, numbers, tmp_path):
    run = make_run(rounds=numbers, clients=(1, 2))
    for number in numbers:
        peft(run.whole[number], tmp_path / "src" / whole.format(number))
        for one, sent in run.clients[number].items():
            peft(sent, tmp_path / "src" / client.format(number, one))
    if isinstance(names, str):
        with pytest.raises(InputError, match=names):
            imported(tmp_path / "src", tmp_path / "out")
        return
    _, federation = imported(tmp_path / "src", tmp_path / "out")
    rounds = federation.manifest.rounds
    assert [(r.round, sorted(r.clients)) for r in rounds] == [(n, names) for n in numbers]
    assert same(federation.path / rounds[-1].adapter, run.whole[numbers[-1]])


def test_a_folder_of_logs_with_a_number_is_no_client(tmp_path):
    source = flowertune(RUN, tmp_path)
    log = next(source.rglob("peft_*")).parent / "0" / "server.log"
    log.parent.mkdir()
    log.write_text("started")
    made, _ = imported(source, tmp_path / "out")
    assert not any("if they are clients" in note for note in made.notes)


def test_what_was_imported_says_where_it_came_from(tmp_path):
    source = flowertune(RUN, tmp_path)
    imported(source, tmp_path / "out")
    said = json.loads((tmp_path / "out/federation.json").read_text())["imported"]
    assert said["layout"] == "flowertune"
    assert sorted(said["files"])[0] == "peft_1/adapter_config.json"
    assert len(said["files"]) == 6


def test_a_global_adapter_that_is_not_the_mean_is_said(tmp_path):
    source = shepherd(EPOCHS, tmp_path)
    other = make_run(rounds=(1,), seed=9)
    torch.save(other.whole[1], source / "10/1/adapter_model.bin")
    made, _ = imported(source, tmp_path / "out")
    told = " ".join(made.notes)
    assert "Checked: in rounds 0 and 2 the global adapter is the weighted mean" in told
    assert "Round 1: the global adapter is not a mean of its clients' (off by " in told


def test_a_client_that_is_missing_in_a_round_is_no_participant(tmp_path):
    source = shepherd(EPOCHS, tmp_path)
    (source / "10/1/local_output_2/pytorch_model.bin").unlink()
    made, federation = imported(source, tmp_path / "out")
    assert federation.manifest.rounds[1].participants == ("c0",)
    assert "Round 1: the global adapter is not a mean" in " ".join(made.notes)


@pytest.mark.parametrize(
    ("whole", "sent"),
    [
        ("global_round_{}", "client_{1}_round_{0}"),
        ("Round{}Global", "Round{}Client{}"),
        ("round_{}/global", "round_{}/clients/north_{}"),
        ("global/round_{}", "clients/north_{1}/round_{0}"),
        ("rounds/{:03d}/global", "rounds/{:03d}/clients/c{}"),
    ],
)
def test_clients_are_known_by_what_their_folders_are_called(whole, sent, tmp_path):
    for number in RUN.whole:
        peft(RUN.whole[number], tmp_path / "src" / whole.format(number))
        for client, tensors in RUN.clients[number].items():
            peft(tensors, tmp_path / "src" / sent.format(number, client))
    _, federation = imported(tmp_path / "src", tmp_path / "out")
    for one in federation.manifest.rounds:
        assert same(federation.path / one.adapter, RUN.whole[one.round])
        places = [federation.path / place for place in one.clients.values()]
        wanted = RUN.clients[one.round].values()
        assert all(same(place, tensors) for place, tensors in zip(places, wanted, strict=True))


PARTIES = [
    ["guest/9999"],
    ["guest/9999", "host/10000"],
    ["host/9999", "host/10000"],
    ["guest/9999", "host/10000", "arbiter/10000"],
    ["job_20240101/guest/9999", "job_20240101/host/10000"],
    ["site-3/lora"],
    ["north/9999", "south/10000"],
]


@pytest.mark.parametrize("places", PARTIES)
def test_a_number_of_a_party_is_no_round(places, tmp_path):
    """FATE saves one adapter a party, at the end, below its role and its number."""
    for place in places:
        peft(RUN.whole[1], tmp_path / "src" / place / "output_model/model_directory")
    with pytest.raises(InputError, match=r"call their folder|no round with a global adapter") as it:
        imported(tmp_path / "src", tmp_path / "out")
    assert it.value.exit_code == 3


@pytest.mark.parametrize("role", ["guest/9999", "host/10000", "client/3", "site-3"])
def test_parties_of_a_named_round_are_its_clients(role, tmp_path):
    peft(RUN.whole[1], tmp_path / "src/round_1/global")
    peft(RUN.clients[1][0], tmp_path / "src/round_1" / role / "model_directory")
    _, federation = imported(tmp_path / "src", tmp_path / "out")
    [only] = federation.manifest.rounds
    assert list(only.clients) == [role.replace("/", "_")]


def test_numbers_that_no_word_calls_rounds_are_taken_for_them_and_it_is_said(tmp_path):
    for number, tensors in RUN.whole.items():
        peft(tensors, tmp_path / "src" / f"lora-{number}" / "global")
    made, federation = imported(tmp_path / "src", tmp_path / "out")
    assert [one.round for one in federation.manifest.rounds] == [1, 2, 3]
    assert "No word in lora-1/global says that its number is a round" in " ".join(made.notes)
    again = tmp_path / "again"
    peft(RUN.whole[1], again / "round_1")
    assert "No word" not in " ".join(imported(again, tmp_path / "more")[0].notes)


def test_one_pickled_adapter_is_round_1_and_is_said(tmp_path):
    made, federation = imported(peft_04(RUN.whole[1], tmp_path / "lora"), tmp_path / "out")
    assert made.layout == "peft"
    assert "adapter_model.bin does not say its round: it is imported as round 1." in made.notes
    assert same(federation.path / federation.manifest.rounds[0].adapter, RUN.whole[1])


@pytest.mark.parametrize("place", ["fl_round_{}/step_300", "epoch_5/round-{}", "round_{}/ckpt-9"])
def test_a_step_or_an_epoch_beside_a_round_is_within_it(place, tmp_path):
    for number, tensors in RUN.whole.items():
        peft(tensors, tmp_path / "src" / place.format(number))
    _, federation = imported(tmp_path / "src", tmp_path / "out")
    assert [one.round for one in federation.manifest.rounds] == [1, 2, 3]


@pytest.mark.parametrize("sent", ["client_1_round_{}", "round_{}/clients/north", "site-2-{}"])
def test_a_clients_adapters_are_never_taken_for_the_global_ones(sent, tmp_path):
    for number, tensors in RUN.whole.items():
        peft(tensors, tmp_path / "src" / sent.format(number))
    with pytest.raises(InputError, match="no round with a global adapter"):
        imported(tmp_path / "src", tmp_path / "out")


@pytest.mark.parametrize(
    "places",
    [
        ["alice/round_1", "alice/round_2", "bob/round_3"],
        ["round_1/alice", "round_2/alice", "round_3/bob"],
        ["alice_round_1", "alice_round_2", "bob_round_3"],
        ["hospital_north/round_1", "hospital_north/round_2", "global/round_3"],
        ["server/round_1", "server/round_2", "a/round_3"],
        ["round_1", "round_2", "round_3/local"],
        ["out/Klinik/round_1", "out/Klinik/round_2", "out/Ärzte/round_3"],
    ],
)
def test_adapters_of_several_owners_are_no_series_of_rounds(places, tmp_path):
    for tensors, place in zip(RUN.whole.values(), places, strict=True):
        peft(tensors, tmp_path / "src" / place)
    with pytest.raises(InputError, match="nothing says that both are global ones") as error:
        imported(tmp_path / "src", tmp_path / "out")
    assert places[-1] in str(error.value)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("round_{}/alice", True),
        ("alice/round_{}", True),
        ("round_{}/local", True),
        ("alice/lora-{}", True),
        ("round_{}", False),
        ("lora-r16/fl_round_{}/step_300", False),
        ("medical/round_{}/global", False),
        ("Runde {}", False),
        ("global_round_{}", False),
    ],
)
def test_an_owner_that_may_be_a_client_is_said(place, said, tmp_path):
    for number, tensors in RUN.whole.items():
        peft(tensors, tmp_path / "src" / place.format(number))
    made, federation = imported(tmp_path / "src", tmp_path / "out")
    assert [one.round for one in federation.manifest.rounds] == [1, 2, 3]
    notes = [note for note in made.notes if "says whose adapter it is" in note]
    assert [place.format(1) in note for note in notes] == [True] * said


def test_a_last_round_may_be_called_so(tmp_path):
    for number, tensors in RUN.whole.items():
        peft(tensors, tmp_path / "src" / f"round_{number}{'_final' * (number == 3)}")
    made, federation = imported(tmp_path / "src", tmp_path / "out")
    assert [one.round for one in federation.manifest.rounds] == [1, 2, 3]
    assert not any("whose adapter" in note for note in made.notes)


def test_the_layout_can_be_named(tmp_path):
    source = trainer(RUN, tmp_path)
    made, _ = imported(source, tmp_path / "out", layout="peft")
    assert made.layout == "peft"
    with pytest.raises(InputError, match="has not the layout shepherd: it holds 21 files"):
        imported(source, tmp_path / "again", layout="shepherd")
