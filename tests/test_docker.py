"""The image cannot be built here. What its file says is held against the project, and its health check is run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text()).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]


def said(word: str) -> list[str]:
    return [rest for step, rest in STEPS if step == word]


def test_it_is_the_python_of_the_space_and_a_user_without_rights():
    version = re.search(r'python_version: "([\d.]+)"', (ROOT / "README.md").read_text()).group(1)
    assert said("FROM") == [f"python:{version}-slim"]
    assert said("USER") == ["app"]
    order = [step for step, _ in STEPS]
    assert order.index("USER") < order.index("CMD")
    assert "GRADIO_SERVER_NAME=0.0.0.0" in said("ENV")[0]
    assert said("EXPOSE") == ["7860"]
    assert "GRADIO_SERVER_PORT=7860" in said("ENV")[0]


def test_what_the_page_needs_is_not_left_out():
    """Every module and asset of the page is copied."""
    left_out = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    if not tracked:
        pytest.skip("no git here")
    needed = [path for path in tracked if path.endswith(".py") and not path.startswith("tests/")]
    needed += [path for path in tracked if path.startswith("assets/")] + ["requirements.txt", "README.md"]
    for path in needed:
        parts = Path(path).parts
        prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        assert not any(fnmatch(prefix, pattern.removeprefix("**/")) for prefix in prefixes for pattern in left_out), path
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert ignored & {".venv", "artifacts", "runs"} <= set(left_out)


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *told) -> None:
        pass


def test_the_health_check_tells_a_page_from_none():
    (check,) = said("HEALTHCHECK")
    command = json.loads(check[check.index("CMD ") + 4 :])
    assert command[:2] == ["python", "-c"]
    ast.parse(command[2])
    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(server.server_port)}

    def healthy() -> bool:
        return subprocess.run([sys.executable, *command[1:]], env=environment, capture_output=True, check=False).returncode == 0

    assert healthy()
    server.shutdown()
    server.server_close()
    assert not healthy()
