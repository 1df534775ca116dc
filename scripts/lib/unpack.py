"""Unpacks what a libtorch build needs from the official archive or from wheels, verifying every byte.

usage: unpack.py archive|wheel FILE DESTINATION

Archive entries are checked by CRC, wheel entries by CRC and by the sha256 in the wheel's own RECORD. Standard
library only. stdout: `progress DONE TOTAL` (bytes). A failure prints `broken TEXT` or `full TEXT` and exits
with 1.
"""

import base64
import csv
import errno
import hashlib
import io
import os
import sys
import time
import zipfile

CHUNK_BYTES = 1 << 20


def target_of(name, kind):
    """Path of an entry below the destination, or None if a build does not need it."""
    parts = name.split("/")
    if os.path.isabs(name) or ".." in parts:
        raise ValueError(f"{name} points outside the folder")
    if name.endswith("/") or parts[-1].startswith("libtorch_python"):
        return None
    if kind == "archive":
        kept = parts[0] == "libtorch" and (parts[1] in ("include", "lib", "build-version"))
        return "/".join(["torch"] + parts[1:]) if kept else None
    if parts[0] == "nvidia":
        return name if "lib" in parts or "include" in parts else None
    if parts[0].endswith(".dist-info"):
        return name
    return name if parts[0] == "torch" and parts[1] in ("include", "lib", "version.py") else None


def recorded_hashes(archive):
    """sha256 in base64 by entry name, from the RECORD of a wheel."""
    records = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/RECORD")]
    if len(records) != 1:
        raise ValueError("the wheel has no RECORD")
    rows = csv.reader(io.StringIO(archive.read(records[0]).decode()))
    return {name: digest[len("sha256=") :] for name, digest, _ in rows if digest.startswith("sha256=")}


def copy_entry(archive, entry, path, report):
    """Writes one entry and returns its sha256 in RECORD's format. Reading to the end checks the CRC."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(entry) as source, open(path, "wb") as out:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            out.write(chunk)
            report(len(chunk))
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def unpack(kind, file, destination):
    with zipfile.ZipFile(file) as archive:
        hashes = recorded_hashes(archive) if kind == "wheel" else None
        wanted = [(e, t) for e in archive.infolist() if (t := target_of(e.filename, kind)) is not None]
        total = sum(entry.file_size for entry, _ in wanted)
        done, shown = 0, 0.0

        def report(count):
            nonlocal done, shown
            done += count
            if time.monotonic() - shown > 0.2:
                shown = time.monotonic()
                print("progress", done, total, flush=True)

        for entry, target in wanted:
            digest = copy_entry(archive, entry, os.path.join(destination, target), report)
            is_own_record = hashes is not None and target.endswith(".dist-info/RECORD")
            if hashes is not None and not is_own_record and hashes.get(entry.filename) != digest:
                raise ValueError(f"{entry.filename} differs from the wheel's RECORD")


def main():
    try:
        unpack(*sys.argv[1:4])
    except OSError as error:
        print("full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "broken", error)
        sys.exit(1)
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
        print("broken", error)
        sys.exit(1)
    except Exception as error:  # zlib.error and the like: a broken stream
        print("broken", type(error).__name__, error)
        sys.exit(1)


if __name__ == "__main__":
    main()
