"""Files that are written whole or not at all: profiles, states and reports."""

from pathlib import Path

import pytest

from stream_leip.whole_file import write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before, and longer")
    write_whole(tmp_path / "a", b"after")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"a": b"after"}


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/a")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"new"
    assert [each.name for each in (tmp_path / "real").iterdir()] == ["a"]


@pytest.mark.parametrize("name", ["null", "full"])
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path, name: str) -> None:
    link = tmp_path / "device"  # what is replaced by mistake is this, and not the device
    link.symlink_to(f"/dev/{name}")
    if name == "full":
        with pytest.raises(OSError, match="No space left"):
            write_whole(link, b"data")
    else:
        write_whole(link, b"data")
    assert link.is_symlink()
    assert Path(f"/dev/{name}").is_char_device()
    assert [each.name for each in tmp_path.iterdir()] == ["device"]


def test_nothing_is_left_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "none" / "a", tmp_path / "file" / "a", tmp_path):
        with pytest.raises(OSError):  # noqa: PT011  # which one is the system's business
            write_whole(place, b"data")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
