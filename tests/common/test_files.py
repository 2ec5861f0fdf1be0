"""Files are whole or not there."""

import json
import os
import stat
from pathlib import Path

import pytest

from ascender.common.files import json_rows, temporary_path, write
from ascender.train.folder import cut_metrics


def test_written_whole_with_its_folders(tmp_path):
    path = write(tmp_path / "new" / "table.md", "τ\n")
    assert path.read_bytes() == "τ\n".encode()
    write(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert [p.name for p in path.parent.iterdir()] == ["table.md"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write(tmp_path / "table.md", "old")

    def full(handle):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """The bytes, then the name, then the folder's entry: a power cut between any two leaves the
    old file or the new one."""
    path, seen = tmp_path / "table.md", []
    flush, rename = os.fsync, Path.replace

    def fsync(handle):
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        flush(handle)

    def replace(half, target):
        seen.append("rename")
        return rename(half, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write(path, "new")
    assert seen == ["file", "rename", "folder"]


def test_a_link_in_the_way_of_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    path, other = tmp_path / "table.md", tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / f".table.md.{os.getpid()}").symlink_to(other)
    write(path, "new")
    assert other.read_text() == "theirs"
    assert temporary_path(path) != temporary_path(path)
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    (tmp_path / ".table.md.guessed").symlink_to(other)
    with pytest.raises(FileExistsError):
        write(path, "newer")
    assert other.read_text() == "theirs"
    assert path.read_text() == "new"


def test_rows_end_where_json_lines_do(tmp_path):
    """U+2028, U+2029, U+0085 and form feeds stand inside of texts."""
    rows = [{"text": "a\u2028b\u2029c\x85d"}, {"text": "e"}]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    assert json_rows(file) == rows
    file.write_text('{"a": 1}\n[2]\n')
    with pytest.raises(ValueError, match=r"rows.jsonl, line 2 cannot be read .*list"):
        json_rows(file)


def test_a_log_is_cut_at_whole_lines(tmp_path):
    lines = [json.dumps({"step": i, "said": "a\u2028b"}, ensure_ascii=False) for i in range(4)]
    log = tmp_path / "metrics.jsonl"
    log.write_text("\n".join(lines) + '\n{"step": 4, "sai', "utf-8")
    cut_metrics(tmp_path, 2)
    assert log.read_text("utf-8") == "\n".join(lines[:3]) + "\n"
