"""The file that keeps unfinished work: what is read back, and when it is there at all."""

from __future__ import annotations

import pytest
from helpers.errors import refused

from dejacue.files import partial
from dejacue.files.partial import PartialFile

RECORDS = [b"one", b"", b"three" * 100]


def test_records_come_back_and_more_can_be_appended(tmp_path) -> None:
    path = tmp_path / "new" / "partial"
    file = PartialFile(path, "key")
    assert file.read() == []
    file.append(RECORDS[:1])
    file.append(RECORDS[1:])
    file.close()
    again = PartialFile(path, "key")
    assert again.read() == RECORDS
    again.append([b"four"])
    again.close()
    assert PartialFile(path, "key").read() == [*RECORDS, b"four"]


def test_a_file_cut_short_anywhere_is_taken_as_far_as_it_is_good(tmp_path) -> None:
    path = tmp_path / "partial"
    file = PartialFile(path, "key")
    ends = []
    for record in RECORDS:
        file.append([record])
        ends.append(path.stat().st_size)
    file.close()
    data = path.read_bytes()
    for end in range(len(data)):
        for tail in (b"", b"\xff" * 9, bytes(9)):  # also where a disk has added something
            path.write_bytes(data[:end] + tail)
            if tail and (data[:end] + tail)[: end + 9] == data[: end + 9]:
                continue
            good = sum(record_end <= end for record_end in ends)
            cut = PartialFile(path, "key")
            assert cut.read() == RECORDS[:good]
    cut.append([b"after"])
    cut.close()
    assert PartialFile(path, "key").read() == [*RECORDS[:good], b"after"]


def test_a_changed_byte_ends_what_is_read(tmp_path) -> None:
    path = tmp_path / "partial"
    file = PartialFile(path, "key")
    file.append(RECORDS)
    file.close()
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)
    assert PartialFile(path, "key").read() == RECORDS[:2]


def test_another_key_starts_anew(tmp_path) -> None:
    path = tmp_path / "partial"
    file = PartialFile(path, "key")
    file.append(RECORDS)
    file.close()
    for key in ("other", "ke", "key2"):
        assert PartialFile(path, key).read() == []
    other = PartialFile(path, "other")
    other.read()
    other.append([b"mine"])
    other.close()
    assert PartialFile(path, "key").read() == []
    assert PartialFile(path, "other").read() == [b"mine"]


def test_a_key_that_begins_another_does_not_go_on_in_its_file(tmp_path) -> None:
    path = tmp_path / "partial"
    for first, then in (("key", "ke"), ("ke", "key"), ("key", "")):
        file = PartialFile(path, first)
        file.append(RECORDS)
        file.close()
        other = PartialFile(path, then)
        assert other.read() == []
        other.append([b"mine"])
        other.close()
        assert path.read_bytes().startswith(f"{then}\n".encode())
        assert PartialFile(path, then).read() == [b"mine"]


def test_the_checksum_is_of_the_length_too(tmp_path) -> None:
    path = tmp_path / "partial"
    file = PartialFile(path, "key")
    file.append([b"", b"one"])
    file.close()
    data = path.read_bytes()
    at = len(b"key\n")
    for bit in range(32):
        damaged = bytearray(data)
        damaged[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert PartialFile(path, "key").read() == []


def test_reading_alone_changes_nothing_and_closing_leaves_no_file_without_records(tmp_path) -> None:
    path = tmp_path / "partial"
    path.write_bytes(b"of another key\n")
    file = PartialFile(path, "key")
    file.read()
    assert path.read_bytes() == b"of another key\n"
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_nothing_but_its_key_is_removed_too(tmp_path) -> None:
    path = tmp_path / "partial"
    path.write_bytes(b"key\n")
    file = PartialFile(path, "key")
    assert file.read() == []
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_all_records_can_be_removed(tmp_path) -> None:
    path = tmp_path / "partial"
    file = PartialFile(path, "key")
    file.append(RECORDS)
    file.remove()
    assert list(tmp_path.iterdir()) == []
    file.append([b"again"])
    file.close()
    assert PartialFile(path, "key").read() == [b"again"]


def test_a_place_that_cannot_be_written_to_is_named(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with refused(tmp_path / "file", "give another place"):
        PartialFile(tmp_path / "file" / "partial", "key").append([b"one"])


def test_a_full_disk_names_the_file_and_keeps_what_was_written_before(
    tmp_path, monkeypatch
) -> None:
    path = tmp_path / "partial"
    real, room = open, [len(b"key\n") + 11]

    class Full:
        def __init__(self, stream) -> None:
            self.stream = stream

        def write(self, data: bytes) -> None:
            self.stream.write(data[: room[0]])
            room[0] -= len(data)
            if room[0] < 0:
                raise OSError(28, "No space left on device")

        def __getattr__(self, name):
            return getattr(self.stream, name)

    monkeypatch.setattr(partial, "open", lambda *arguments: Full(real(*arguments)), raising=False)
    file = PartialFile(path, "key")
    file.append([b"one"])
    with pytest.raises(OSError, match="No space left") as caught:
        file.append([b"two"])
    assert caught.value.filename == str(path)
    assert PartialFile(path, "key").read() == [b"one"]
