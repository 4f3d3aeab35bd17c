"""Headers of safetensors files are refused before a library reads the file."""

import json

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system.tensor_files import MOST_DIMENSIONS, check_header


def written(path, shape):
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    return path


@pytest.mark.parametrize("dimensions", [0, 2, MOST_DIMENSIONS])
def test_tensors_of_few_dimensions_are_counted(dimensions, tmp_path):
    assert check_header(written(tmp_path / "a.safetensors", [1] * dimensions)) == 1


@pytest.mark.parametrize("dimensions", [MOST_DIMENSIONS + 1, 65, 100_000])
def test_tensors_of_many_dimensions_are_refused(dimensions, tmp_path):
    with pytest.raises(InputError, match=f"a tensor of {dimensions:,} dimensions"):
        check_header(written(tmp_path / "a.safetensors", [1] * dimensions))
