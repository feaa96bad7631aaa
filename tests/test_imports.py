"""Who may import whom (docs/architecture.md): the folders' own layers, read from the sources."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LOCAL = {"rtl", "sim_top", "sw_model", "testbenches", "tests"}
SIMULATION = {"amaranth", "cocotb", "cocotb_bus", "cocotb_tools", "cocotbext"}

FORBIDDEN = {
    "rtl": (LOCAL - {"rtl"}) | (SIMULATION - {"amaranth"}),
    "sw_model": (LOCAL - {"sw_model"}) | SIMULATION,
    "sim_top": {"testbenches", "tests"},
    "testbenches": {"tests"},
}
"""What the modules of each folder may not import, anywhere in them."""

ONLY = {"rtl": {"amaranth", "rtl"}}
"""The only packages, besides the standard library, that the modules of a folder may import."""


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import in ``source``, inside functions too, also those
    that go through ``importlib.import_module`` or ``__import__`` with a literal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            name = node.args[0]
            if (
                called in ("import_module", "__import__")
                and isinstance(name, ast.Constant)
                and isinstance(name.value, str)
            ):
                yield node.lineno, name.value.partition(".")[0]


def violations(folder: str, source: str, where: str) -> list[str]:
    """What ``source``, a module of ``folder``, imports although it must not."""
    standard = sys.stdlib_module_names
    found = []
    for line, package in imported(source):
        only = ONLY.get(folder)
        foreign = only is not None and package not in only and package not in standard
        if package in FORBIDDEN[folder] or foreign:
            found.append(f"{where}:{line}: {folder} must not import {package}")
    return found


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_layers(folder):
    """The modules of each folder keep to their layer."""
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules, f"{folder} has no modules"
    found = []
    for path in modules:
        found += violations(folder, path.read_text(), str(path.relative_to(ROOT)))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("folder", "source", "package"),
    [
        ("sw_model", "import amaranth.hdl", "amaranth"),
        ("sw_model", "def f():\n    from rtl.common import packet", "rtl"),
        ("sw_model", "class A:\n    def f(self):\n        import cocotb", "cocotb"),
        ("sw_model", "import importlib\nimportlib.import_module('sim_top.cli')", "sim_top"),
        ("rtl", "from sw_model.topology import Topology", "sw_model"),
        ("rtl", "import numpy as np", "numpy"),
        ("sim_top", "if True:\n    from tests import test_imports", "tests"),
        ("testbenches", "__import__('tests.test_imports')", "tests"),
    ],
)
def test_a_violation_is_caught(folder, source, package):
    (found,) = violations(folder, source, "module.py")
    assert found.endswith(f"{folder} must not import {package}")


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("rtl", "import enum\nfrom amaranth.hdl import Module\nfrom rtl.common import packet"),
        ("sw_model", "import numpy\nfrom sw_model import topology\nfrom . import plan"),
        ("sim_top", "import rtl.ace, sw_model.topology, cocotb"),
        ("testbenches", "import rtl.ace, sw_model.topology, sim_top.shell.control"),
    ],
)
def test_what_is_allowed(folder, source):
    assert violations(folder, source, "module.py") == []


def test_every_package_imported_is_declared():
    """What the sources import from outside stands in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    declared = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in lines}
    declared |= {"find-libpython"}  # comes with cocotb, which finds Python by it
    by_package = importlib.metadata.packages_distributions()
    missing = set()
    for folder in LOCAL:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, package in imported(path.read_text()):
                if package in LOCAL or package in sys.stdlib_module_names:
                    continue
                names = {name.lower().replace("_", "-") for name in by_package.get(package, [])}
                if not names & declared:
                    missing.add(f"{path.relative_to(ROOT)}:{line}: {package}")
    assert not missing, "\n".join(sorted(missing))
