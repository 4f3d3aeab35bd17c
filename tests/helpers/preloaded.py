"""Imports what commands import, once for all processes that are forked from one that did so."""

import pkgutil
from contextlib import suppress
from importlib import import_module

import fake_audit  # noqa: F401
import fedaudit_plugins
import jsonschema_rs  # noqa: F401
import one_core
import peft  # noqa: F401
import rich.table  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.cluster  # noqa: F401
from faker import Faker

import fedaudit
from fedaudit import cli

for package in (fedaudit, fedaudit_plugins):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with suppress(ImportError):  # of a library that is an extra
            if not module.name.endswith("__main__"):
                import_module(module.name)
Faker("en_GB")  # which imports by the name of the language
cli._command()
one_core.count_on_one()
