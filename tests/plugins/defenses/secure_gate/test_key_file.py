"""Keys: their form, their embeddings, and the file that they live in."""

import hashlib
import hmac
import json
import stat
import traceback

import numpy as np
import pytest
from fedaudit_plugins.defenses.secure_gate import keys
from fedaudit_plugins.defenses.secure_gate.keys import ALPHABET, Key, Keyring, new_secret
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from fedaudit.api.errors import InputError, UsageError

SECRET, DIGEST = "a1B2c3D4e5F6g7H8i9J0", "0" * 64
RING = Keyring(keys=(Key(name="k", adapter="legal", secret=SECRET),), salt=b"\x07" * 32)


def test_a_new_key_has_the_form_and_is_new():
    drawn = {new_secret() for _ in range(50)}
    assert len(drawn) == 50
    assert all(len(key) == 20 and set(key) <= set(ALPHABET) for key in drawn)
    assert len(ALPHABET) == 62


def test_a_new_ring_has_one_key_an_adapter_and_a_salt_of_its_own():
    one, two = Keyring.new(["legal", "bank"]), Keyring.new(["legal", "bank"])
    assert [(k.name, k.adapter) for k in one.keys] == [("legal", "legal"), ("bank", "bank")]
    assert one.salt != two.salt
    assert len({*one.texts, *two.texts}) == 4


def test_the_seed_is_the_hmac_of_the_key_under_the_salt():
    # RFC 2104 by hand: H(key ^ 0x5c, H(key ^ 0x36, message)) with the key padded to 64 bytes
    padded = RING.salt.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in padded) + SECRET.encode()).digest()
    wanted = hashlib.sha256(bytes(b ^ 0x5C for b in padded) + inner).digest()
    assert RING.seed(SECRET) == wanted == hmac.digest(RING.salt, SECRET.encode(), "sha256")


def test_an_embedding_by_hand():
    # Entry i is the normal quantile of the i-th 64 bits of SHAKE-256(seed), of which 53 count.
    [vector] = RING.vectors([SECRET], 3, 0.5)
    stream = hashlib.shake_256(RING.seed(SECRET)).digest(24)
    for i in range(3):
        share = (int.from_bytes(stream[8 * i : 8 * i + 8], "little") // 2**11 + 0.5) / 2**53
        assert vector[i] == np.float32(0.5 * norm.ppf(share))


def test_embeddings_are_normal_around_zero():
    found = RING.vectors([f"{n:020}" for n in range(400)], 160, 0.25)
    assert found.shape == (400, 160)
    assert found.dtype == np.float32
    # 64,000 draws: standard errors are 0.25 / 253 = 0.00099, and 0.0007 for the deviation
    assert found.mean() == pytest.approx(0, abs=0.005)
    assert found.std() == pytest.approx(0.25, abs=0.0035)
    assert kstest(found.ravel() / 0.25, "norm").pvalue > 0.001
    between = np.corrcoef(found)[np.triu_indices(400, 1)]
    assert between.std() == pytest.approx(160**-0.5, rel=0.03)  # keys have nothing in common


@given(key=st.text(ALPHABET, min_size=20, max_size=20), others=st.lists(st.text(), max_size=4))
def test_an_embedding_follows_from_key_and_salt_alone(key, others):
    [alone] = RING.vectors([key], 8, 1.0)
    batch = RING.vectors([*others, key], 8, 1.0)
    assert (batch[-1] == alone).all()
    assert (Keyring(keys=(), salt=RING.salt).vectors([key], 8, 1.0)[0] == alone).all()
    assert (Keyring(keys=(), salt=b"\x08" * 32).vectors([key], 8, 1.0)[0] != alone).any()


@pytest.mark.parametrize(
    "fields",
    [
        {"secret": "short"},
        {"secret": "a1B2c3D4e5F6g7H8i9J-"},
        {"secret": "a1B2c3D4e5F6g7H8i9J0\n"},
        {"secret": "а1B2c3D4e5F6g7H8i9J0"},
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 65},
        {"name": "N" * 20},
        {"adapter": "../legal"},
        {"adapter": "A1" * 10},
    ],
)
def test_a_key_of_the_wrong_form_is_refused_without_quoting_it(fields):
    with pytest.raises(ValueError, match="20") as error:
        Key(**{"name": "k", "adapter": "legal", "secret": SECRET, **fields})
    assert SECRET not in str(error.value)


def test_two_keys_share_nothing():
    twice = (*RING.keys, Key(name="k", adapter="bank", secret="b" * 20))
    with pytest.raises(ValueError, match="name"):
        Keyring(keys=twice, salt=RING.salt)
    with pytest.raises(ValueError, match="secret") as error:
        Keyring(keys=(*RING.keys, Key(name="l", adapter="bank", secret=SECRET)), salt=RING.salt)
    assert SECRET not in str(error.value)
    with pytest.raises(ValueError, match="32 bytes"):
        Keyring(keys=RING.keys, salt=b"short")


def test_keys_are_found_by_name_and_by_adapter():
    assert RING.key("k").secret == SECRET
    assert RING.keys_of("legal") == RING.keys
    assert RING.keys_of("bank") == ()
    with pytest.raises(UsageError, match=r"No key named 'kk'. Did you mean 'k'\? There is: k"):
        RING.key("kk")


def test_whoever_types_the_key_for_its_name_does_not_see_it_again():
    with pytest.raises(UsageError) as error:
        RING.key(SECRET)
    assert SECRET not in str(error.value)


def test_nothing_shows_a_secret():
    for shown in (repr(RING), str(RING), repr(RING.keys[0]), f"{RING.keys}"):
        assert SECRET not in shown
        assert repr(RING.salt) not in shown
        assert RING.salt.hex() not in shown


def test_a_key_file_is_read_back(tmp_path):
    path = tmp_path / "keys.json"
    keys.write(RING, path, DIGEST)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.read(path) == (RING, DIGEST)
    empty = Keyring(keys=(), salt=RING.salt)
    keys.write(empty, path, DIGEST)
    assert keys.read(path) == (empty, DIGEST)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_file_that_others_may_open_is_refused(tmp_path, mode):
    path = tmp_path / "keys.json"
    keys.write(RING, path, DIGEST)
    path.chmod(mode)
    with pytest.raises(InputError, match="its mode must be 0600"):
        keys.read(path)


def damaged():
    """Yield contents that are not key file, though most hold a key."""
    good = {"name": "k", "adapter": "legal", "secret": SECRET}
    whole = {"gate": DIGEST, "salt": "07" * 32, "keys": [good]}
    yield from (b"", b"null", b"[]", b"{}", b"\xff\xfe" + SECRET.encode(), b"[" * 100_000)
    yield json.dumps(whole).encode()[:-2]
    for change in (
        {"salt": "07" * 31},
        {"salt": 7},
        {"gate": "no digest"},
        {"gate": None},
        {"keys": None},
        {"keys": [SECRET]},
        {"keys": [{**good, "secret": SECRET[:-1]}]},
        {"keys": [{**good, "secret": None}]},
        {"keys": [{**good, "name": SECRET}]},
        {"keys": [{**good, "more": 1}]},
        {"keys": [{"name": "k", "secret": SECRET}]},
        {"keys": [good, good]},
        {"keys": [good, {**good, "name": "l"}]},
        {"more": 1},
    ):
        yield json.dumps({**whole, **change}).encode()


@pytest.mark.parametrize("content", [*damaged()], ids=lambda content: str(len(content)))
def test_a_damaged_key_file_is_refused_in_one_line_that_quotes_nothing(tmp_path, content):
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError) as error:
        keys.read(path)
    assert str(error.value) == f"{path} is not a key file, or is damaged."
    assert SECRET not in "".join(traceback.format_exception(error.value))
    assert error.value.__context__ is None


def test_a_key_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"keys.json cannot be read: No such file"):
        keys.read(tmp_path / "keys.json")
