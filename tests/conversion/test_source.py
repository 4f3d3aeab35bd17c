"""What an importer sees of a folder: its regular files, in names that lead nowhere else."""

import json

import pytest
import torch

from fedaudit.api.errors import InputError
from fedaudit.conversion import source as source_module
from fedaudit.conversion.source import SourceFolder, is_dump


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "src/a/b").mkdir(parents=True)
    (tmp_path / "src/a/b/x.json").write_text('{"r": 4}')
    (tmp_path / "src/top.txt").write_text("x")
    (tmp_path / "secret.json").write_text("{}")
    return tmp_path / "src"


def test_files_are_sorted_and_links_are_none(folder, tmp_path):
    (folder / "a/link.json").symlink_to(tmp_path / "secret.json")
    (folder / "up").symlink_to(tmp_path)
    found = SourceFolder(folder)
    assert (found.name, found.files) == ("src", ("a/b/x.json", "top.txt"))
    assert sorted(found.links) == ["a/link.json", "up"]
    inside = found.below("a")
    assert (inside.name, inside.files, inside.links) == ("a", ("b/x.json",), ["link.json"])
    assert inside.read_json("b/x.json") == {"r": 4}
    assert found.below("") is found


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/link.json", "a", "no.json"])
def test_only_its_own_files_are_read(folder, tmp_path, name):
    (folder / "a/link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InputError, match="has no file"):
        SourceFolder(folder).read_json(name)
    with pytest.raises(InputError, match="has no file"):
        SourceFolder(folder).look(name)


def test_federations_of_ours_are_no_part_of_it(folder):
    (folder / "runs/imported/x").mkdir(parents=True)
    (folder / "runs/imported/x/federation.json").write_text("{}")
    (folder / "runs/imported/x/adapter_config.json").write_text("{}")
    assert SourceFolder(folder).files == ("a/b/x.json", "top.txt")


def test_a_folder_without_an_end_is_refused(folder, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_FILES", 3)
    for number in range(4):
        (folder / str(number)).write_text("")
    with pytest.raises(InputError, match="is too large to look through"):
        SourceFolder(folder)
    monkeypatch.undo()
    (folder / "/".join("d" * 15)).mkdir(parents=True)
    (folder / "/".join("d" * 15) / "x").write_text("")
    with pytest.raises(InputError, match="is too large to look through"):
        SourceFolder(folder)


def test_a_folder_below_asks_the_one_above(folder, monkeypatch):
    torch.save({"round": 7, "model": {"x.lora_A.weight": torch.zeros(2, 3)}}, folder / "a/m.pt")
    torch.save([1, 2], folder / "a/n.pt")
    found = SourceFolder(folder)
    looked = []
    from fedaudit.engine.loading import dumps

    honest = dumps.look
    monkeypatch.setattr(dumps, "look", lambda paths: looked.append(paths) or honest(paths))
    dump = found.below("a").look("m.pt")
    assert found.look("a/m.pt") == dump
    assert len(looked) == 1
    assert (dump.keys, dump.numbers) == (("round", "model"), {"round": 7})
    assert (dump.shapes, dump.lora, dump.ordered) == ({"x.lora_A.weight": (2, 3)}, True, False)
    with pytest.raises(InputError, match=r"n\.pt holds no tensors by name\.$"):
        found.look("a/n.pt")
    with pytest.raises(InputError, match=r"top\.txt is not a file of torch\.save"):
        found.look("top.txt")
    assert json.dumps(dump.numbers)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a/model.pt", True),
        ("adapter_model.bin", True),
        ("round-1-weights.npz", True),
        ("training_args.bin", False),
        ("a/optimizer.pt", False),
        ("rng_state_0.pth", False),
        ("model.safetensors", False),
    ],
)
def test_files_that_may_hold_a_model(name, is_one):
    assert is_dump(name) is is_one
