"""The packages of the distribution; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = {"fedaudit": "fedaudit", "fedaudit_plugins": "plugins", "fedaudit_profiles": "profiles"}


def packages() -> list[str]:
    """Return the names of all packages, those below `plugins/` under the name that they install."""
    below = {name: find_packages(folder) for name, folder in FOLDERS.items()}
    return [".".join((name, *rest)) for name in below for rest in ((), *zip(below[name]))]


if __name__ == "__main__":
    setup(packages=packages())
