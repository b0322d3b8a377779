"""The requests of docs/service.md, sent as they are written."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"
REQUESTS = re.findall(r"^```console\n\$ (.*?)\n```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("command", REQUESTS)
def test_the_request_gets_an_answer(server, command):
    here = command.replace("http://127.0.0.1:8080", server.url)
    assert here != command
    here = here.replace("curl -s", "curl -sf --noproxy 127.0.0.1")
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(("{", "[", "event: settings"))
