"""Files of results: never half-written, and nothing replaced that is not a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sim_top.whole_files import WholeFiles, write_whole
from sw_model.errors import InputError

ROOT = Path(__file__).parent.parent


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "a", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"through")
    reader.join(timeout=10)
    assert read == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["", "file/x", "missing/x"])
def test_what_cannot_be_written_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written: "):
        write_whole(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_belong_together_are_written_all_or_none(tmp_path: Path) -> None:
    """Nothing is replaced, and nothing left behind, where the last cannot be written."""
    first = tmp_path / "w.0.et"
    first.write_bytes(b"old")

    def two() -> None:
        with WholeFiles() as files:
            files.write(first, b"new")
            files.write(tmp_path / "missing" / "w.1.et", b"new")

    with pytest.raises(InputError, match="cannot be written: "):
        two()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"w.0.et": b"old"}
    with WholeFiles() as files:
        files.write(first, b"new")
        files.write(tmp_path / "w.1.et", b"also")
        assert first.read_bytes() == b"old"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "w.0.et": b"new",
        "w.1.et": b"also",
    }


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    def interrupted(path: Path, contents: bytes) -> int:
        with path.open("wb") as file:
            file.write(contents[:1])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", b"new")
    assert list(tmp_path.iterdir()) == []


def _command(*arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sim_top.cli", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        **more,
    )


def test_files_are_written_though_the_reader_of_the_tables_has_gone(tmp_path: Path) -> None:
    """As with ``antiphon run ... --json r.json | head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    child = _command(
        "run", "examples/resnet50.yaml", "--json", str(tmp_path / "r.json"), stdout=writer
    )
    os.close(writer)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, b"")
    assert json.loads((tmp_path / "r.json").read_text())["npus"] == 16


def test_standard_output_may_be_closed(tmp_path: Path) -> None:
    child = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$0" -m sim_top.cli schema >&-', sys.executable],
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as full:
        child = _command("--help", stdout=full)
        _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (2, b"antiphon: No space left on device\n")
