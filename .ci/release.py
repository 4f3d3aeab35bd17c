"""Build a release into dist/ and try it as a user would: `make release`.

Wheel and sdist are built twice and must come out the same. The wheel is installed without extras
into an environment of its own for each Python named, where it simulates and audits a federation as
the demo does; the sdist is installed with the first. SBOM and SHA256SUMS come to lie beside both.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS, DIST, WORK = ROOT / ".tools/bin", ROOT / "dist", ROOT / "build/release"
MOST = 5_000_000
"""The largest wheel, in bytes."""
VERDICTS = (0, 1, 7)


def run(*words: str | Path, cwd: Path = ROOT, allowed: tuple[int, ...] = (0,)) -> None:
    """Run a command; end this program where its exit code is none of `allowed`."""
    code = subprocess.run([str(word) for word in words], cwd=cwd, check=False).returncode
    if code not in allowed:
        raise SystemExit(f"exit code {code}: {' '.join(map(str, words))}")


def repacked(content: bytes, time: int) -> bytes:
    """Return a .tar.gz with its members in order of name, at one time and of nobody's.

    setuptools leaves in an sdist when and by whom it was built.
    """
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as old,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=time) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old, key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def build(place: Path, time: int) -> dict[str, str]:
    """Build sdist and wheel, the wheel from the sdist; return the SHA-256 of each by name."""
    run(TOOLS / "python", "-m", "build", "--sdist", "--outdir", place, ".")
    [sdist] = place.glob("*.tar.gz")
    sdist.write_bytes(repacked(sdist.read_bytes(), time))
    unpacked = place / "unpacked"
    with tarfile.open(sdist) as tar:
        tar.extractall(unpacked, filter="data")
    run(TOOLS / "python", "-m", "build", "--wheel", "--outdir", place, *unpacked.iterdir())
    shutil.rmtree(unpacked)
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in place.iterdir()}


def check_versions() -> str:
    """Return the version, which the change log and the citation must name as well."""
    text = (ROOT / "fedaudit/__init__.py").read_text("utf-8")
    version = re.findall(r'(?m)^__version__ = "(.+)"$', text)[0]
    for name, line in {
        "CHANGELOG.md": f"## {version} - ",
        "CITATION.cff": f"version: {version}",
    }.items():
        if f"\n{line}" not in (ROOT / name).read_text("utf-8"):
            raise SystemExit(f"{name} has no line {line!r}.")
    return version


def install(python: str, package: Path, place: Path) -> Path:
    """Install a package into a new environment; return the environment's folder of commands."""
    run(python, "-m", "venv", "--clear", place)
    pip = (place / "bin/python", "-m", "pip", "install", "--quiet")
    run(*pip, "--constraint", ROOT / "constraints.txt", package)
    return place / "bin"


def main(pythons: list[str]) -> None:
    """Build, check, install and try the release."""
    version = check_versions()
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(DIST, ignore_errors=True)
    time = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True)
    os.environ["SOURCE_DATE_EPOCH"] = time.strip()
    hashes = build(DIST, int(time))
    if build(WORK / "again", int(time)) != hashes:
        raise SystemExit("Two builds differ: the release cannot be reproduced.")
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    if wheel.stat().st_size > MOST:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size:,} bytes, above {MOST:,}.")
    run(TOOLS / "twine", "check", "--strict", wheel, sdist)
    run(TOOLS / "towncrier", "build", "--draft", "--version", version)
    for number, python in enumerate(pythons):
        env, job = WORK / f"env{number}", WORK / f"job{number}"
        commands = install(python, wheel, env)
        job.mkdir()
        run(commands / "fedaudit", "simulate", "--profile", "fed_pii", cwd=job)
        audit = ("audit", "runs/fed_pii", "--quick", "--out", "report")
        run(commands / "fedaudit", *audit, cwd=job, allowed=VERDICTS)
        run(commands / "fedaudit", "report", "report", "--verify", cwd=job)
        status = json.loads((job / "report/report.json").read_text("utf-8"))["verdict"]["status"]
        size = sum(one.stat().st_size for one in env.rglob("*") if one.is_file())
        print(f"{python}: {status}; the environment has {size / 1e6:,.0f} MB")
    sbom = DIST / f"fedaudit-{version}.cdx.json"
    reproducible = ("--output-reproducible", "--output-file", sbom)
    application = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application")
    python = WORK / "env0/bin/python"
    run(TOOLS / "cyclonedx-py", "environment", *application, *reproducible, python)
    run(install(pythons[0], sdist, WORK / "sdist") / "fedaudit", "doctor", cwd=WORK)
    sums = [
        f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in DIST.iterdir()
    ]
    (DIST / "SHA256SUMS").write_text("".join(sorted(sums)))
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main(sys.argv[1:])
