"""The documentation: its links lead somewhere, its Python examples compile, its names exist."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PACKAGES = ("rtl", "sim_top", "sw_model", "testbenches")


BLOCKS = [
    (f"{page.name}-{number}", code)
    for page in PAGES
    for number, code in enumerate(EXAMPLE.findall(page.read_text()))
]
SESSIONS: dict[str, str] = {}  # by page, since a session goes on in the next block
for name, code in BLOCKS:
    if code.startswith(">>>"):
        page = name.rpartition("-")[0]
        SESSIONS[page] = SESSIONS.get(page, "") + code + "\n"
EXAMPLES = [pytest.param(code, id=name) for name, code in BLOCKS if not code.startswith(">>>")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("code", SESSIONS.values(), ids=SESSIONS.keys())
def test_sessions_give_what_they_show(code):
    test = doctest.DocTestParser().get_doctest(code, {}, "session", None, 0)
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_compile_and_import_what_exists(code):
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(code, "example", "exec", flags=flags)
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.split(".")[0] in PACKAGES:
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"
