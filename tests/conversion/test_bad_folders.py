"""What cannot be imported is refused in one line; nothing of it runs, nothing else is written."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign_layouts import (
    CONFIG,
    GIVEN,
    Trap,
    federatedscope,
    flower_npz,
    flower_pt,
    flowertune,
    make_run,
    openfedllm,
    peft,
    peft_folders,
    shepherd,
    trainer,
)

pytestmark = pytest.mark.usefixtures("empty_folder")

RUN = make_run(rounds=(1, 2))
ASKED = ("--base", "fedaudit-nano", "--config", GIVEN)


def flat(source):
    """Return the folder that has the numbered folders of FlowerTune."""
    return next(source.iterdir())


def everything(below):
    return {
        (path.relative_to(below).as_posix(), path.lstat().st_mtime_ns)
        for path in below.rglob("*")
        if path.is_file() or path.is_symlink()
    }


def empty(place):
    place.mkdir()
    return place


def strange(place):
    place.mkdir()
    (place / "notes.txt").write_text("x")
    (place / "a").mkdir()
    (place / "a/weights.h5").write_bytes(b"\x89HDF")
    return place


def two_runs(place):
    for time in ("a", "b"):
        peft(RUN.whole[1], place / time / "peft_1")
    return place


def two_layouts(place):
    flowertune(RUN, place)
    trainer(RUN, place)
    return place


def two_of_one_round(place):
    peft(RUN.whole[1], place / "peft_1")
    peft(RUN.whole[2], place / "peft_01")
    return place


def one_adapter(place):
    return peft(RUN.whole[1], place)


def bare_weights(place):
    peft(RUN.whole[1], place)
    (place / "adapter_model.safetensors").rename(place / "round_1.safetensors")
    return place


def one_file(place):
    return flower_npz(RUN, place) / "round-1-weights.npz"


def archive(place):
    place.mkdir()
    return Path(shutil.make_archive(place / "run", "zip", place))


def sharded(place):
    for number in (1, 2):
        folder = peft(RUN.whole[number], place / f"round_{number}")
        weights = folder / "adapter_model.safetensors"
        weights.rename(folder / "adapter_model-00001-of-00001.safetensors")
    return place


def other_base(place):
    peft(RUN.whole[1], place / "peft_1", config=CONFIG | {"base_model_name_or_path": "me/llama"})
    return place


def two_bases(place):
    other_base(place)
    peft(RUN.whole[2], place / "peft_2")
    return place


def no_base(place):
    peft(RUN.whole[1], place / "peft_1", config=CONFIG | {"base_model_name_or_path": None})
    return place


def prompt_tuning(place):
    peft(RUN.whole[1], place / "peft_1", config=CONFIG | {"peft_type": "PROMPT_TUNING"})
    return place


def other_rank(place):
    peft(RUN.whole[1], place / "peft_1", config=CONFIG | {"r": 8})
    return place


def stacked(place):
    """FLoRA's global adapter, with the configuration of its two clients."""
    both = RUN.clients[1].values()
    sides = {name: 1 if "lora_B" in name else 0 for name in RUN.whole[1]}
    peft({n: torch.cat([sent[n] for sent in both], side) for n, side in sides.items()},
         place / "peft_1")  # fmt: skip
    return place


def not_finite(place):
    name = next(iter(RUN.whole[1]))
    peft(RUN.whole[1] | {name: torch.full((4, 160), float("nan"))}, place / "peft_1")
    return place


def truncated(place):
    path = peft(RUN.whole[1], place / "peft_1") / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    return place


def no_json(place):
    (peft(RUN.whole[1], place / "peft_1") / "adapter_config.json").write_text("{")
    return place


def no_object(place):
    (peft(RUN.whole[1], place / "peft_1") / "adapter_config.json").write_text("[1]")
    return place


def no_losses(place):
    source = openfedllm(RUN, place)
    (source / "training_loss.npy").write_bytes(b"-1 0.5")
    return source


def pickled_losses(place):
    source = openfedllm(RUN, place)
    np.save(source / "training_loss.npy", np.array([Trap(place / "ran")], dtype=object),
            allow_pickle=True)  # fmt: skip
    return source


def no_client(place):
    peft(RUN.whole[1], place / "round_1" / "global")
    peft(RUN.whole[1], place / "round_1" / "client_1" / "a")
    peft(RUN.whole[1], place / "round_1" / "client_1" / "b")
    return place


def only_clients(place):
    source = shepherd(RUN, place) / "10"
    for epoch in ("1", "2"):
        (source / epoch / "adapter_model.bin").unlink()
    (source / "3").mkdir()
    torch.save({}, source / "3/adapter_model.bin")
    return source


def dated(place):
    for day in (1, 2):
        peft(RUN.whole[day], place / f"2025-05-0{day}_run")
    return place


def missing(place):
    return place / "nothing"


@pytest.mark.parametrize(
    ("write", "code", "says"),
    [
        (missing, 3, "There is no folder"),
        (one_file, 3, "is a file: name the folder that it lies in."),
        (archive, 3, "is a file: unpack it and name the folder."),
        (sharded, 3, "in several files are not read: save each as adapter_model.safetensors."),
        (empty, 3, "it holds no files. It knows federatedscope, flora, flower, flowertune,"),
        (strange, 3, "it holds 2 files (1 x .h5, 1 x .txt), 1 folder (a). It knows"),
        (dated, 3, "To import 2 adapters of PEFT, call their folders round_1, round_2 and so on."),
        (two_runs, 3, "holds 2 runs of flowertune (a, b): name the folder of one."),
        (two_layouts, 3, "may be flowertune (results/2025-01-31_12-00-00) and trainer (sft)"),
        (two_of_one_round, 3, "has two adapters of round 1, peft_01 and peft_1"),
        (one_adapter, 2, "is one adapter, no federation: audit it with --target BASE --adapter"),
        (bare_weights, 3, "put each file of weights into one, round_1 and so on, as ada"),
        (other_base, 3, "names the base 'me/llama', which is not a folder here: give its folder"),
        (two_bases, 3, "names several bases, 'fedaudit-nano' and 'me/llama'"),
        (no_base, 3, "does not say what its base is: name it with --base FOLDER (fedaudit imp"),
        (prompt_tuning, 3, "is an adapter of type 'PROMPT_TUNING'; fedaudit audits LoRA."),
        (other_rank, 3, "has the rank 4, and its configuration says 8"),
        (stacked, 3, "has the rank 8, and its configuration says 4 of model.layers.0.self_attn"),
        (not_finite, 3, "peft_1/adapter_model.safetensors: tensor base_model.model.model.layers.0"),
        (truncated, 3, "peft_1/adapter_model.safetensors is not a valid safetensors file"),
        (no_json, 3, "peft_1/adapter_config.json is not JSON"),
        (no_object, 3, "peft_1/adapter_config.json must hold a JSON object"),
        (no_losses, 3, "training_loss.npy is not a numeric .npy file"),
        (pickled_losses, 3, "training_loss.npy is not a numeric .npy file"),
        (no_client, 3, "two adapters of round 1, round_1/client_1/a and round_1/client_1/b"),
        (only_clients, 3, "10/3/adapter_model.bin holds no tensors by name."),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_what_is_wrong_is_one_line(run, tmp_path, write, code, says):
    source = write(tmp_path / "src")
    before = everything(tmp_path)
    run.refused(code, "import", source, "out", says=says)
    assert not (tmp_path / "src/ran").exists()
    assert not (tmp_path / "out/federation.json").exists()
    new = {name for name, _ in everything(tmp_path) - before}
    files = ("adapter_config.json", "adapter_model.safetensors")
    assert new <= {
        f"out/rounds/001/global/{name}" for name in files
    } | {f"out/rounds/00{n}/{who}/adapter_config.json" for n in (1, 2, 3)
         for who in ("global", "clients/c0", "clients/c2")}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--base", "fedaudit-nano"), 3, "alpha, r and targets cannot be seen in its tensors"),
        (("--base", "fedaudit-nano", "--config", "alpha=16"), 3, "r and targets cannot be seen"),
        (("--config", GIVEN), 3, "does not say what its base is"),
        (("--base", "fedaudit-nano", "--config", "r=8,alpha=16,targets=q_proj+v_proj"), 3,
         "arr_0 is 4 x 160, and base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"),
        (("--base", "fedaudit-nano", "--config", "r=4,alpha=16,targets=q_proj"), 3,
         "has 16 arrays, and such an adapter on this base has 8 tensors"),
        (("--base", "fedaudit-nano", "--config", "r=4,alpha=16,targets=nothing"), 3,
         "does not fit the base"),
        (("--base", "nowhere/at-all", "--config", GIVEN), 4, "is not a folder and not in the hub"),
        (("--base", "./nowhere", "--config", GIVEN), 3, "There is no model folder ./nowhere."),
        (("--base", "fedaudit-nano", "--config", "rank=4"), 2, "Did you mean"),
        (("--base", "fedaudit-nano", "--config", "r=four"), 2, "r takes int"),
        (("--base", "fedaudit-nano", "--config", "r=4,r=5"), 2, "says something twice"),
        (("--base", "fedaudit-nano", "--config", "r=4, r=5"), 2, "says something twice"),
        (("--base", "fedaudit-nano", "--config", "r=-4,alpha=2,targets=q"), 2,
         "--config r=-4,alpha=2,targets=q: r must be above 0."),
        (("--base", "fedaudit-nano", "--config", "alpha=0"), 2, "alpha must be above 0"),
        (("--base", "fedaudit-nano", "--config", "r=0,alpha=2"), 2, "r must be above 0"),
        (("--base", "fedaudit-nano", "--config", "lora.json"), 3, "There is no file lora.json"),
        ((*ASKED, "--layout", "flwr"), 2, "Did you mean 'flower'?"),
        ((*ASKED, "--template", "alpacca"), 2, "Did you mean 'alpaca'?"),
    ],
)  # fmt: skip
def test_what_was_not_said_or_said_wrong_is_one_line(run, tmp_path, words, code, says):
    source = flower_npz(make_run(rounds=(1,)), tmp_path / "src")
    run.refused(code, "import", source, "out", *words, says=says)
    assert not (tmp_path / "out/federation.json").exists()


def code_in_a_checkpoint(place):
    source = openfedllm(RUN, place / "src")
    torch.save({"lora_A": Trap(place / "ran")}, source / "checkpoint-2/adapter_model.bin")
    return source


def code_in_a_dump(place):
    source = flower_pt(RUN, place / "src")
    torch.save({"model": Trap(place / "ran")}, source / "model_round_2.pth")
    return source


def code_in_arrays(place):
    source = flower_npz(RUN, place / "src")
    np.savez(source / "round-2-weights.npz", np.array([Trap(place / "ran")], dtype=object))
    return source


def code_in_a_client(place):
    source = shepherd(RUN, place / "src")
    torch.save(Trap(place / "ran"), source / "10/1/local_output_0/pytorch_model.bin")
    return source


@pytest.mark.parametrize(
    "write", [code_in_a_checkpoint, code_in_a_dump, code_in_arrays, code_in_a_client]
)
def test_code_in_a_file_does_not_run(run, tmp_path, write):
    source = write(tmp_path)
    outcome = run.refused(3, "import", source, "out", *ASKED)
    assert "is not opened: it holds more than weights" in outcome.err or (
        "is not a file of numeric arrays" in outcome.err
    )
    assert not (tmp_path / "ran").exists()


def test_files_that_no_import_needs_are_not_opened(run, tmp_path):
    source = trainer(RUN, tmp_path / "src")
    for name in ("training_args.bin", "optimizer.pt", "rng_state.pth", "scheduler.pt"):
        torch.save(Trap(tmp_path / "ran"), source / "checkpoint-1" / name)
    assert run("import", source, "out").code == 0
    assert not (tmp_path / "ran").exists()


def test_a_whole_model_and_layers_that_were_trained_whole_are_refused(run, tmp_path):
    source = flower_pt(RUN, tmp_path / "src")
    for path in source.iterdir():
        torch.save({"model.embed_tokens.weight": torch.zeros(3, 3)}, path)
    run.refused(3, "import", source, "out", *ASKED, says="it holds 2 files (2 x .pth)")
    for number, path in enumerate(sorted(source.iterdir())):
        whole = {"base_model.model.lm_head.modules_to_save.default.weight": torch.zeros(3, 3)}
        torch.save(RUN.whole[number + 1] | whole, path)
    run.refused(3, "import", source, "out", *ASKED, says="beside LoRA it trained base_model.model")


def test_other_weights_beside_lora_are_left_out_and_said(run, tmp_path):
    source = flower_pt(RUN, tmp_path / "src")
    for number, path in enumerate(sorted(source.iterdir())):
        more = {f"base_model.model.model.norm{n}.weight": torch.ones(3) for n in range(5)}
        torch.save(RUN.whole[number + 1] | more, path)
    outcome = run("import", source, "out", *ASKED)
    assert outcome.code == 0
    assert "Up to 5 tensors of a file are left out, which are not LoRA weights" in outcome.out


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("r=8", "has r 4, and --config says 8"),
        ("alpha=32", "has lora_alpha 16, and --config says 32"),
        ("targets=q_proj", 'has target_modules ["q_proj", "v_proj"], and --config says ["q_proj"]'),
        ("rslora=true", "has use_rslora false, and --config says true"),
        ("r=4,dora=true", "has use_dora false, and --config says true"),
        ("given.json", "has lora_alpha 16, and --config says 5"),
        ("r=4,alpha=16,targets=v_proj+q_proj,rslora=false,dora=false", ""),
        ("alpha=16.0", ""),
        ("same.json", ""),
    ],
)
def test_given_settings_agree_with_the_adapters_own(run, tmp_path, config, says):
    peft(RUN.whole[1], tmp_path / "src/peft_1")
    peft(RUN.whole[2], tmp_path / "src/peft_2")
    (tmp_path / "given.json").write_text(json.dumps(CONFIG | {"lora_alpha": 5}))
    (tmp_path / "same.json").write_text(json.dumps(CONFIG))
    words = ("import", "src", "out", "--config", config)
    if says:
        run.refused(3, *words, says=f"src/peft_1/adapter_config.json {says}")
    else:
        assert run(*words).code == 0
    assert (tmp_path / "out").exists() == (not says)


def test_a_project_is_imported_from_its_own_folder(run, tmp_path, monkeypatch):
    flowertune(RUN, tmp_path / "src")
    before = everything(tmp_path / "src")
    monkeypatch.chdir(tmp_path / "src")
    assert run("import", ".", "runs/bank").code == 0
    assert before <= everything(tmp_path / "src")
    assert (tmp_path / "src/runs/bank/federation.json").exists()


def test_links_are_not_followed(run, tmp_path):
    source = flat(flowertune(RUN, tmp_path / "src"))
    outside = peft(RUN.whole[1], tmp_path / "outside")
    (source / "peft_3").symlink_to(outside)
    shutil.copytree(source / "peft_2", source / "peft_4")
    weights = source / "peft_4/adapter_model.safetensors"
    weights.unlink()
    weights.symlink_to(outside / "adapter_model.safetensors")
    outcome = run("import", source, "out")
    assert outcome.code == 0
    assert "rounds    1 to 2\n" in outcome.out
    assert "peft_4 is left out" in outcome.out
    assert "2 links were not followed." in outcome.out


def test_a_pipe_is_no_file(run, tmp_path):
    source = flat(flowertune(RUN, tmp_path / "src"))
    os.mkfifo(source / "peft_2/adapter_model.bin")
    (source / "peft_2/adapter_model.safetensors").unlink()
    outcome = run("import", source, "out")
    assert outcome.code == 0
    assert "peft_2 is left out" in outcome.out


@pytest.mark.parametrize("made", ["file", "other", "federation"])
def test_out_must_be_new(run, tmp_path, made):
    source, out = flowertune(RUN, tmp_path / "src"), tmp_path / "out"
    if made == "file":
        out.write_text("x")
    elif made == "other":
        out.mkdir()
        (out / "notes.txt").write_text("x")
    else:
        assert run("import", source, out).code == 0
    kept = everything(out)
    run.refused(3, "import", source, out)
    assert everything(out) == kept


def test_what_was_stopped_is_done_again(run, tmp_path):
    source, out = flowertune(RUN, tmp_path / "src"), tmp_path / "out"
    assert run("import", source, out).code == 0
    (out / "federation.json").unlink()
    (out / "rounds/001/global/adapter_config.json").write_text("{")
    assert run("import", source, out).code == 0


def test_a_federation_of_ours_needs_no_import(run, tmp_path):
    assert run("import", flowertune(RUN, tmp_path / "src"), "out").code == 0
    run.refused(3, "import", "out", "again", says="is a federation's folder already")


def test_the_source_stays_as_it_is(run, tmp_path):
    source = peft_folders(RUN, tmp_path / "src")
    before = everything(tmp_path / "src")
    assert run("import", source, "out").code == 0
    assert everything(tmp_path / "src") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "src"]


def test_a_broken_checkpoint_of_federatedscope_is_no_checkpoint(run, tmp_path):
    source = federatedscope(RUN, tmp_path / "src")
    (source / "2_llama.ckpt").write_bytes(b"PK\x03\x04")
    outcome = run("import", source, "out", *ASKED)
    assert outcome.code == 0
    assert "rounds    1\n" in outcome.out
    assert "2_llama.ckpt is left out" in outcome.out


def test_what_names_hold_cannot_steer_a_terminal(run, tmp_path):
    peft(RUN.whole[1], tmp_path / "src" / "round_1")
    (tmp_path / "src/round_1").rename(tmp_path / "src/\x1b[31mround_1")
    outcome = run("import", "src", "out")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80, lines


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ("q_proj", "which --config does not name as a target."),
        ("q_proj+v_proj+lm_head", "not adapt lm_head"),
    ],
)
def test_targets_that_tensors_contradict_are_refused(run, tmp_path, targets, says):
    flower_pt(RUN, tmp_path / "src")
    words = ("--base", "fedaudit-nano", "--config", f"alpha=16,targets={targets}")
    run.refused(3, "import", "src", "out", *words, says=says)
    assert not (tmp_path / "out/federation.json").exists()
