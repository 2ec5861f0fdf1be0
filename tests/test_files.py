"""Files are whole or not there."""

from pathlib import Path

import pytest

from ascender.files import write


def test_written_whole_with_its_folders(tmp_path):
    path = write(tmp_path / "new" / "table.md", "τ\n")
    assert path.read_bytes() == "τ\n".encode()
    write(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [p.name for p in path.parent.iterdir()] == ["table.md"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write(tmp_path / "table.md", "old")

    def full(half, data):
        half.touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
