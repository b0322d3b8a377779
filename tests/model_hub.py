"""A model hub that holds one model, a local folder."""

import fnmatch
import shutil


def serve(folder, snapshot, monkeypatch):
    """Let downloads copy the files that are asked for from `folder` to `snapshot`; returns the list of downloads."""
    downloads = []

    def download(name, *, allow_patterns, ignore_patterns=()):
        downloads.append(name)
        for path in folder.rglob("*"):
            relative = path.relative_to(folder).as_posix()
            wanted = any(fnmatch.fnmatch(relative, pattern) for pattern in allow_patterns)
            if path.is_file() and wanted and not any(fnmatch.fnmatch(relative, p) for p in ignore_patterns):
                (snapshot / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, snapshot / relative)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    return downloads
